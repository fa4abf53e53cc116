//! `xylem ndn node`: the daemon, a forwarder with faces of every kind.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::metrics::{LastCounts, MetricsArgs, counts_page};
use crate::output::Out;
#[cfg(unix)]
use crate::relay::orders::OpenRelay;
use crate::settings;
use crate::shaping::ShapeArgs;
use crate::showing::AnswerArgs;
use crate::stop;
use clap::Args;
use std::collections::BTreeMap;
use std::time::Duration;
use xylem_node::{Event, NodeConfig, PeerUri};

/// Runs an NDN forwarder for programs and other forwarders
///
/// Programs reach it through a Unix socket (/run/xylem/xylem.sock for root, else below $XDG_RUNTIME_DIR, or without that
/// in /tmp/xylem-UID), others by UDP and TCP on port 6363, WebSocket on 9696 and the encrypted link on 7348. It is
/// managed by the NFD protocol (`xylem ndn ctl`, or the tools of NFD and NDNd), and reads the table [node] of the settings
/// file.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn node                                   at the usual places
  xylem ndn node --listen unix:///tmp/ndn.sock     there and nowhere else
  xylem ndn node --config node.toml                with settings of your own, such as a repository
  xylem ndn node --metrics 9700                    with counts for Prometheus
  xylem share film.mkv --via unix:///tmp/ndn.sock  something to fetch through it

",
    exit_help!()
))]
pub(crate) struct NodeArgs {
    /// Listen at this URI, not where the settings say
    ///
    /// unix:///PATH, udp://HOST:PORT, tcp://HOST:PORT, ws://HOST:PORT, wss:// or xylem://HOST:PORT (encrypted; in TCP as
    /// xylem+tls://, xylem+ws://, xylem+wss:// or xylem+doh://); can be repeated.
    #[arg(
        long,
        value_name = "ADDR",
        env = "XYLEM_NODE_LISTEN",
        hide_env_values = true,
        value_delimiter = ','
    )]
    listen: Vec<PeerUri>,

    #[command(flatten)]
    metrics: MetricsArgs,

    #[command(flatten)]
    answer: AnswerArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Runs `xylem ndn node`.
pub(crate) fn run(args: NodeArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let mut config = configuration(common)?;
    if !args.listen.is_empty() {
        config.listen = Some(args.listen);
    }
    config.links = args.shape.over(&config.links);
    config.accept_open |= args.answer.accept_open;
    let forwarded = LastCounts::default();
    let repository = LastCounts::default();
    let shown = forwarded.clone();
    let stored = repository.clone();
    args.metrics.show(move || page(&shown.get(), &stored.get()), out)?;
    config.count_every = args.metrics.metrics.is_some().then_some(COUNT_EVERY);
    serve("node", config, out, |event| match event {
        Event::Forwarded { counts } => forwarded.set(counts),
        Event::Repository { counts, .. } => repository.set(counts),
        _ => {}
    })
}

/// How old what the page of metrics shows may be.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The page of what a node has forwarded, and of its repository if it has one.
fn page(
    forwarded: &BTreeMap<&'static str, u64>,
    repository: &BTreeMap<&'static str, u64>,
) -> String {
    let gauges = ["faces", "fib_entries", "pit_entries", "cs_packets", "cs_bytes"];
    let mut page = counts_page("xylem_ndn", forwarded, &gauges, help);
    let gauges = ["stored_packets", "stored_bytes", "quota_bytes"];
    page.push_str(&counts_page("xylem_repo", repository, &gauges, repository_help));
    page
}

/// The line that Prometheus shows with a count of the repository.
fn repository_help(name: &str) -> &'static str {
    match name {
        "stored_packets" => "Packets in the repository.",
        "stored_bytes" => "Bytes that they take on disk.",
        "quota_bytes" => "Bytes that they may take.",
        "inserted" => "Packets that commands have inserted.",
        "removed" => "Packets that commands have removed.",
        "refused" => "Commands that were refused.",
        _ => "Other events.",
    }
}

/// The line that Prometheus shows with a count.
fn help(name: &str) -> &'static str {
    match name {
        "faces" => "Faces.",
        "fib_entries" => "Prefixes with a route.",
        "pit_entries" => "Interests that are pending.",
        "cs_packets" => "Packets in the content store.",
        "cs_bytes" => "Bytes of the content store in memory.",
        "cs_hits" => "Interests that the content store answered.",
        "cs_misses" => "Interests that the content store could not answer.",
        "in_interests" => "Interests that were received.",
        "in_data" => "Data that was received.",
        "in_nacks" => "Nacks that were received.",
        "in_bytes" => "Bytes that were received.",
        "in_dropped" => "Packets that were received and dropped.",
        "out_interests" => "Interests that were sent.",
        "out_data" => "Data that was sent.",
        "out_nacks" => "Nacks that were sent.",
        "out_bytes" => "Bytes that were sent.",
        "satisfied" => "Pending Interests that Data has satisfied.",
        "expired" => "Pending Interests that expired.",
        "no_route" => "Interests without a route.",
        "limited" => "Interests over a face's rate limit or quota.",
        _ => "Other events.",
    }
}

/// Runs a node until a signal ends it. `xylem ui` shows it as this verb; `see` gets each event before it is printed.
pub(crate) fn serve(
    verb: &str,
    config: NodeConfig,
    out: &mut Out,
    mut see: impl FnMut(&Event),
) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    out.runs_as(verb, &config.store);
    #[cfg(unix)]
    let _open = config
        .relay
        .as_ref()
        .and_then(|relay| OpenRelay::new(&config.store, relay.control.clone(), out));
    let ran = xylem_node::run_node(config, &stop, &mut |event| {
        see(&event);
        // It comes once a second, for the page of metrics alone.
        if !matches!(event, Event::Forwarded { .. }) {
            out.event(event);
        }
    });
    out.take_broken()?;
    ran?;
    Ok(Exit::Done)
}

/// The settings of the table [node], or the usual ones if there is no settings file.
pub(crate) fn configuration(common: &Common) -> Result<NodeConfig, CommandFailure> {
    let store = common.store()?;
    match common.settings() {
        Some(path) => {
            settings::read(&path, store).map_err(|what| CommandFailure::new(Exit::Usage, what))
        }
        None => Ok(NodeConfig::new(store)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_count_of_a_repository() {
        let names =
            ["stored_packets", "stored_bytes", "quota_bytes", "inserted", "removed", "refused"];
        let page = page(&BTreeMap::from([("faces", 7)]), &names.into_iter().zip(1..).collect());
        assert_eq!(page.lines().count(), 3 + 3 * names.len(), "{page}");
        assert!(page.contains("\nxylem_ndn_faces 7\n"), "{page}");
        assert!(
            page.contains("# TYPE xylem_repo_stored_packets gauge\nxylem_repo_stored_packets 1\n")
        );
        assert!(page.contains("\nxylem_repo_refused_total 6\n"), "{page}");
        assert!(!page.contains("Other events."), "{page}");
    }
}
