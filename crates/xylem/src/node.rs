//! `xylem node`: the daemon, a forwarder with faces of every kind.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::metrics;
use crate::output::Out;
use crate::settings;
use crate::shaping::ShapeArgs;
use crate::showing::AnswerArgs;
use crate::stop;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use xylem_node::{Event, NodeConfig, PeerUri, RelayOptions};

/// Runs an NDN forwarder for this machine's programs and for other forwarders, until Ctrl-C
///
/// Programs reach it through a Unix socket (/run/xylem/xylem.sock, or below $XDG_RUNTIME_DIR), others by UDP and TCP on
/// port 6363, WebSocket on 9696 and the encrypted link on 7348. It is managed by the NFD protocol (`xylem ctl`, or the
/// tools of NFD and NDNd), and reads the table [node] of the settings file.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem node                                       at the usual places
  xylem node --listen unix:///tmp/ndn.sock         there and nowhere else
  xylem node --config node.toml                    with routes, limits and places of your own
  xylem node --relay                               for those who cannot be reached: prints what to give to them
  xylem share film.mkv --via unix:///tmp/ndn.sock  something to fetch through it

",
    exit_help!()
))]
pub(crate) struct NodeArgs {
    /// Listen there instead of where the settings say: unix:///PATH, udp://HOST:PORT, tcp://HOST:PORT, ws://HOST:PORT
    /// or xylem://HOST:PORT (encrypted; within TCP as xylem+tls://, xylem+ws://, xylem+wss:// or xylem+doh://); can be
    /// repeated
    #[arg(
        long,
        value_name = "URI",
        env = "XYLEM_NODE_LISTEN",
        hide_env_values = true,
        value_delimiter = ','
    )]
    listen: Vec<PeerUri>,

    /// Forward encrypted datagrams between peers that ask for it, so that peers behind NATs reach each other; it
    /// listens on IPv6 and, within TCP, on ports 7348 and 443 too. The limits per peer are in the settings
    /// ([node.relay])
    #[arg(long)]
    relay: bool,

    /// Show what the relay does, for Prometheus, at http://ADDR/metrics: PORT (on 127.0.0.1) or HOST:PORT
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,

    #[command(flatten)]
    answer: AnswerArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Runs `xylem node`.
pub(crate) fn run(args: NodeArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let store = common.store()?;
    let mut config = match common.settings() {
        Some(path) => {
            settings::read(&path, store).map_err(|what| CommandFailure::new(Exit::Usage, what))?
        }
        None => NodeConfig::new(store),
    };
    if !args.listen.is_empty() {
        config.listen = Some(args.listen);
    }
    if args.relay {
        config.relay.get_or_insert_with(RelayOptions::default);
    }
    config.links = args.shape.over(&config.links);
    config.accept_open |= args.answer.accept_open;
    if args.metrics.is_some() && config.relay.is_none() {
        let what = "--metrics shows what a relay does: give --relay, too";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let counts = Counts::default();
    if let Some(at) = &args.metrics {
        show(metrics::listen(at)?, counts.clone(), out)?;
    }
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    out.runs_as("node", &config.store);
    let ran = xylem_node::run_node(config, &stop, &mut |event| {
        if let Event::Relayed { counts: told } = &event {
            counts.lock().unwrap_or_else(PoisonError::into_inner).clone_from(told);
        }
        out.event(event);
    });
    out.take_broken()?;
    ran?;
    Ok(Exit::Done)
}

/// The last counts that the relay has reported.
type Counts = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// Serves them until the process ends.
fn show(listener: TcpListener, counts: Counts, out: &mut Out) -> Result<(), CommandFailure> {
    let at = listener.local_addr().ok();
    let page = move || page(&counts.lock().unwrap_or_else(PoisonError::into_inner));
    let thread = thread::Builder::new().name("metrics".into());
    thread
        .spawn(move || metrics::answer_all(&listener, page))
        .map_err(|e| CommandFailure::no_thread(&e))?;
    if let Some(at) = at {
        out.note(&format!("Metrics at http://{at}/metrics"));
    }
    Ok(())
}

fn page(counts: &BTreeMap<&'static str, u64>) -> String {
    let mut page = String::new();
    for (name, count) in counts {
        let (name, kind) = match *name {
            // Present numbers are gauges; the others count events.
            "registrations" | "circuits" => (format!("xylem_relay_{name}"), "gauge"),
            name => (format!("xylem_relay_{name}_total"), "counter"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "# TYPE {name} {kind}\n{name} {count}");
    }
    page
}
