//! `--relay URI`: servers that connect peers which cannot reach each other directly (docs/spec/reach.md). No relay is
//! contacted unless it is named: on the command line, in XYLEM_RELAY, in the settings, or by a ticket.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit};
use crate::settings;
use clap::Args;
use xylem_node::Relay;

/// Replaces the tokens of relays in a message: it goes to logs.
pub(crate) fn without_tokens(text: &str) -> String {
    const TOKEN: &str = "token=";
    let mut parts = text.split(TOKEN);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | ',' | '`'));
        shown.push_str(TOKEN);
        shown.push('…');
        shown.push_str(end.and_then(|end| part.get(end..)).unwrap_or_default());
    }
    shown
}

/// The relay flag of commands that dial peers or are dialed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RelayArgs {
    /// Meet at this relay: KEY@HOST:PORT
    ///
    /// It is used if neither side can reach the other (`net reach`: it is asked what it sees). `xylem relay` prints the
    /// value. Can be repeated. [default:
    /// `relay` in the settings, else none]
    ///
    /// It forwards encrypted datagrams while there is no direct way. It learns keys, addresses, publishers, times and
    /// amounts; never names of files or content. UDP is tried first, then xylem+wss at TCP port 443 and at PORT;
    /// xylem+wss://KEY@HOST:PORT is tried as it is. `?token=TOKEN` behind it is the token of a relay that serves its own
    /// users alone; other users of this machine see a command line, but not XYLEM_RELAY or the settings. The ticket of a share names its relays, so getters need no flag.
    #[arg(
        long = "relay",
        value_name = "URI",
        env = "XYLEM_RELAY",
        hide_env_values = true,
        value_delimiter = ','
    )]
    relay: Vec<Relay>,
}

impl RelayArgs {
    /// The relays that the flag or the variable names.
    pub(crate) fn named(&self) -> &[Relay] {
        let Self { relay } = self;
        relay
    }

    /// The relays to use: those of the flag or the variable, else those of the settings.
    pub(crate) fn relays(&self, common: &Common) -> Result<Vec<Relay>, CommandFailure> {
        let wrong = |why| CommandFailure::new(Exit::Usage, why);
        let named = match (self.named(), common.settings()) {
            ([], Some(settings)) => settings::relays(&settings).map_err(wrong)?,
            (given, _) => given.to_vec(),
        };
        Relay::gathered(named).map_err(|why| wrong(format!("--relay: {why}")))
    }
}
