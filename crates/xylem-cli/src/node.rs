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
  xylem ndn node --config node.toml                with settings of your own
  xylem ndn node --metrics 9700                    with counts for Prometheus
  xylem share film.mkv --via unix:///tmp/ndn.sock  something to fetch through it

",
    exit_help!()
))]
pub(crate) struct NodeArgs {
    /// Listen at this URI, not where the settings say
    ///
    /// unix:///PATH, udp://HOST:PORT, tcp://HOST:PORT, ws://HOST:PORT or xylem://HOST:PORT (encrypted; within TCP as
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
    let counts = LastCounts::default();
    let shown = counts.clone();
    let gauges = ["faces", "fib_entries", "pit_entries", "cs_packets", "cs_bytes"];
    args.metrics.show(move || counts_page("xylem_ndn", &shown.get(), &gauges, help), out)?;
    config.count_every = args.metrics.metrics.is_some().then_some(COUNT_EVERY);
    serve("node", config, out, |event| {
        if let Event::Forwarded { counts: latest } = event {
            counts.set(latest);
        }
    })
}

/// How old what the page of metrics shows may be.
const COUNT_EVERY: Duration = Duration::from_secs(1);

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
