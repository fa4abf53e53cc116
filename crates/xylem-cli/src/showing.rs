//! `--accept-open` and `--ask-who-answers`: ways in which a program reveals itself to peers without a key. Both are off
//! unless they are given (docs/threat-model.md).

use clap::Args;
use clap::builder::FalseyValueParser;

/// The flag of commands that accept encrypted links.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AnswerArgs {
    /// Also answer peers that dial without the key
    ///
    /// Such a peer has neither the link key nor a ticket.
    #[arg(long, env = "XYLEM_ACCEPT_OPEN", hide_env_values = true,
          value_parser = FalseyValueParser::new())]
    pub(crate) accept_open: bool,
}

/// The flag of commands that dial encrypted links.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AskArgs {
    /// If no peer answers by the key or ticket, also ask for any peer that is there (--accept-open)
    ///
    /// This distinguishes a machine with another key from none. Observers of the network can then see that the dialing
    /// program is xylem. Without this flag only the owner of the key or a holder of the ticket can.
    #[arg(long, env = "XYLEM_ASK_WHO_ANSWERS", hide_env_values = true,
          value_parser = FalseyValueParser::new())]
    pub(crate) ask_who_answers: bool,
}
