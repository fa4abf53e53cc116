//! `xylem net reach`: how this machine can be reached, and what was tried.

mod router;
mod trying;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::{DhtTrialArgs, MapArgs};
use crate::output::Out;
use crate::relays::RelayArgs;
use crate::stop;
use crate::values::{LinkAt, links};
use clap::Args;
use trying::{ReachProbe, ReachReport, Tries, reach};
use xylem_node::{Event, Itself, ReachWay};

/// Reports how others can reach this machine, and what was tried
///
/// It looks at the interfaces, asks the router for a port (and releases it), and registers with the relays that are
/// named, over UDP and over TCP. With --dht it also tries the BitTorrent DHT. It contacts no other machine. A relay reports the address that it sees, which shows
/// whether there is a NAT and of what kind; without a relay that stays unknown. Whether a firewall drops UDP from
/// strangers shows only when a stranger connects.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem net reach                               asks the router alone
  xylem net reach --relay KEY@example.org:7348  asks a relay, too
  xylem net reach --dht                         takes the steps of a code in the DHT
  xylem net reach --json | jq 'select(.event == \"reach\").way'

",
    exit_help!(),
    "
The status is 3 where no peer from elsewhere can reach this machine as it is. With --dht it is 0 if the DHT leads here."
))]
pub(crate) struct ReachArgs {
    #[command(flatten)]
    relay: RelayArgs,

    /// Listen for encrypted links here: HOST:PORT or PORT
    ///
    /// As `share --listen`. It has no variable, as what listens at the usual place makes a second program there fail.
    /// [default: all interfaces, port 7348 or a free one]
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    listen: Vec<LinkAt>,

    #[command(flatten)]
    map: MapArgs,

    #[command(flatten)]
    dht: DhtTrialArgs,
}

/// Runs `xylem net reach`.
pub(crate) fn run(args: ReachArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let relays = args.relay.relays(common)?;
    let (map_port, dht) = (args.map.map(common)?, args.dht.start(common)?);
    let tries = Tries { listen: links(&args.listen)?, relays, map_port, dht };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let mut written = Ok(());
    let way = reach(&tries, &stop, &mut |told| {
        let shown = show(&told, out);
        if written.is_ok() {
            written = shown;
        }
    });
    written?;
    match way? {
        None => Ok(Exit::Interrupted),
        Some(reached) if reached.way > ReachWay::Lan || reached.by_dht == Itself::Found => {
            Ok(Exit::Done)
        }
        Some(_) => Ok(Exit::Unreachable),
    }
}

fn show(told: &ReachReport, out: &mut Out) -> Result<(), CommandFailure> {
    match told {
        ReachReport::Probe(probe) if out.is_json() => out.json(probe),
        ReachReport::Probe(ReachProbe { what, good, says }) => {
            let mark = match good {
                Some(true) => "+",
                Some(false) => "-",
                None => " ",
            };
            out.line(&format!("{mark} {:<12} {says}", what.replace('_', " ")))
        }
        ReachReport::Reach(status) if out.is_json() => out.json(&Event::Reach(status.clone())),
        ReachReport::Reach(status) => out.line(&format!("Reach: {}", status.says)),
    }
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&ReachProbe { what: "nat", good: Some(true), says: "w".into() });
    }
}
