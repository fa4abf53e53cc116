//! `--relay URI`: servers that connect peers which cannot reach each other directly (docs/spec/reach.md). No relay is
//! contacted unless it is named: on the command line, in XYLEM_RELAY, in the settings or the list that they name, or by a ticket.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit};
use crate::output::warning_line;
use crate::settings::{self, RelaySetting};
use clap::Args;
use std::sync::OnceLock;
use xylem_node::{NamedRelay, OLD_LIST, Relay, RelayList, key_of_relay, wall_clock};

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
    /// Meet at this relay: KEY@HOST:PORT or HOST
    ///
    /// It is used if neither side can reach the other (`net reach`: it is asked what it sees). `xylem relay` prints the
    /// value. Can be repeated. [default:
    /// `relay` in the settings or a list that an organisation has signed ([relay_list] there), else none]
    ///
    /// It forwards encrypted datagrams while there is no direct way. It learns keys, addresses, publishers, times and
    /// amounts; never names of files or content. UDP is tried first, then xylem+wss at TCP port 443 and at PORT;
    /// xylem+wss://KEY@HOST:PORT is tried as it is. HOST[:PORT] alone asks the relay for its key, which answers if it runs with
    /// --accept-open; whatever then has its address can take its place, and see what it sees. `?token=TOKEN` behind it is the token of a relay that serves its own
    /// users alone; other users of this machine see a command line, but not XYLEM_RELAY or the settings. The ticket of a share names its relays, so getters need no flag.
    #[arg(
        long = "relay",
        value_name = "URI",
        env = "XYLEM_RELAY",
        hide_env_values = true,
        value_delimiter = ','
    )]
    relay: Vec<NamedRelay>,

    /// The relays, once they were chosen: a command that reads them twice asks and warns once.
    #[arg(skip)]
    chosen: OnceLock<ChosenRelays>,
}

impl RelayArgs {
    /// The relays that the flag or the variable names.
    pub(crate) fn named(&self) -> &[NamedRelay] {
        &self.relay
    }

    /// The relays to use: those of the flag or the variable, else those of the settings.
    pub(crate) fn relays(&self, common: &Common) -> Result<Vec<Relay>, CommandFailure> {
        self.chosen(common).map(|chosen| chosen.relays)
    }

    /// The same, with the list from which they are.
    pub(crate) fn chosen(&self, common: &Common) -> Result<ChosenRelays, CommandFailure> {
        if let Some(chosen) = self.chosen.get() {
            return Ok(chosen.clone());
        }
        let chosen = self.choose(common)?;
        Ok(self.chosen.get_or_init(|| chosen).clone())
    }

    fn choose(&self, common: &Common) -> Result<ChosenRelays, CommandFailure> {
        let wrong = |why| CommandFailure::new(Exit::Usage, why);
        let named = match (self.named(), common.settings()) {
            ([], Some(settings)) => settings::relays(&settings).map_err(wrong)?,
            (given, _) => RelaySetting::Named(given.to_vec()),
        };
        let named = match named {
            RelaySetting::Named(named) => named,
            RelaySetting::Listed(list) => return listed(list, common),
        };
        let keyed: Result<Vec<Relay>, CommandFailure> = named.into_iter().map(keyed).collect();
        let relays = Relay::gathered(keyed?).map_err(|why| wrong(format!("--relay: {why}")))?;
        Ok(ChosenRelays { relays, list: None })
    }
}

/// The relays that a command uses.
#[derive(Clone, Debug)]
pub(crate) struct ChosenRelays {
    pub(crate) relays: Vec<Relay>,
    /// The list of an organisation from which they are, if they are from one.
    pub(crate) list: Option<RelayList>,
}

/// The relays of a list.
fn listed(mut list: RelayList, common: &Common) -> Result<ChosenRelays, CommandFailure> {
    let read = list.read(wall_clock())?;
    if read.is_old(wall_clock()) && !common.quiet {
        warning_line(OLD_LIST);
    }
    Ok(ChosenRelays { relays: read.relays, list: Some(list) })
}

/// The relay with its key: if it was named without, the key that it proves when it is asked.
fn keyed(relay: NamedRelay) -> Result<Relay, CommandFailure> {
    let (at, token) = match relay {
        NamedRelay::Keyed(relay) => return Ok(relay),
        NamedRelay::Keyless(at, token) => (at, token),
    };
    let unreachable = |why: &dyn std::fmt::Display| {
        CommandFailure::new(Exit::Unreachable, format!("relay {at}: {why}"))
    };
    let key = key_of_relay(&at).map_err(|why| unreachable(&why))?;
    let key = key.ok_or_else(|| {
        unreachable(
            &"it does not answer who asks for its key; give KEY@HOST:PORT, as `xylem relay` prints it, or run the relay \
              with --accept-open",
        )
    })?;
    Ok(Relay::with_key(key, at, token))
}

#[cfg(test)]
mod tests {
    use super::without_tokens;

    #[test]
    fn messages_hold_no_token() {
        let what = "invalid value 'K@h:1?token=hunter2&x' for '--relay <URI>': relay: K@h?sni=n&token=two, K@g?token=";
        assert_eq!(
            without_tokens(what),
            "invalid value 'K@h:1?token=…' for '--relay <URI>': relay: K@h?sni=n&token=…, K@g?token=…"
        );
        assert_eq!(without_tokens("no relay"), "no relay");
    }
}
