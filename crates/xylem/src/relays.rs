//! `--relay URI`: where those meet who cannot reach each other (docs/spec/reach.md). Nobody is asked unless
//! somebody has named a relay: on the command line, in XYLEM_RELAY, in the settings, or by a ticket.

use crate::cli::Common;
use crate::exit::{Exit, Failure};
use crate::settings;
use clap::Args;
use xylem_node::Relay;

/// The flag of commands that reach others, or are reached.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RelayArgs {
    /// Where neither side can reach the other, meet at this relay: KEY@HOST:PORT, as `xylem node --relay`
    /// prints it; can be repeated [default: `relay` in the settings, else none]
    ///
    /// It passes on encrypted datagrams for as long as there is no direct way, and learns keys and
    /// addresses, never names or content. UDP is tried first, then xylem+wss at TCP port 443 and at
    /// PORT; xylem+wss://KEY@HOST:PORT is tried as it is. The ticket of a share names its relays, so
    /// that whoever fetches need not.
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
    /// Those that the flag or the variable named.
    pub(crate) fn named(&self) -> &[Relay] {
        let Self { relay } = self;
        relay
    }

    /// The relays to use: those that were given, or else the settings'.
    pub(crate) fn relays(&self, common: &Common) -> Result<Vec<Relay>, Failure> {
        let wrong = |why| Failure::new(Exit::Usage, why);
        let named = match (self.named(), common.settings()) {
            ([], Some(settings)) => settings::relays(&settings).map_err(wrong)?,
            (given, _) => given.to_vec(),
        };
        Relay::gathered(named).map_err(|why| wrong(format!("--relay: {why}")))
    }
}
