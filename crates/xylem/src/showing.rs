//! `--accept-open` and `--ask-who-answers`: ways in which a program shows itself to whoever has no key.
//! Both are off unless they are given (docs/threat-model.md).

use clap::Args;
use clap::builder::FalseyValueParser;

/// The flag of commands that wait for encrypted links.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AnswerArgs {
    /// Also answer those who dial the encrypted link with neither the link key nor a ticket
    ///
    /// Anybody who tries learns then that xylem is here, and the key, by which whoever has recorded
    /// the network tells whose links these were. Without it nobody else is answered at all.
    #[arg(long, env = "XYLEM_ACCEPT_OPEN", hide_env_values = true,
          value_parser = FalseyValueParser::new())]
    pub(crate) accept_open: bool,
}

/// The flag of commands that dial encrypted links.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AskArgs {
    /// Where nobody answers by the key or ticket, also ask for whoever is there (--accept-open)
    ///
    /// Tells a machine with another key from none. Whoever watches the network can tell then that it is
    /// xylem that dials. Without it only who has the key or ticket can.
    #[arg(long, env = "XYLEM_ASK_WHO_ANSWERS", hide_env_values = true,
          value_parser = FalseyValueParser::new())]
    pub(crate) ask_who_answers: bool,
}
