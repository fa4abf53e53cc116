//! `xylem relay`: a server that connects peers behind NATs and firewalls.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::VolunteerArgs;
use crate::metrics::{self, Counts, MetricsArgs};
use crate::node;
use crate::output::Out;
use crate::shaping::ShapeArgs;
use crate::showing::AnswerArgs;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::PoisonError;
use xylem_node::{Event, PeerUri};

/// Connects peers that cannot reach each other, until Ctrl-C
///
/// It forwards encrypted datagrams between peers that ask for it, and prints what they pass to `--relay`. It learns
/// keys, addresses, publishers, times and amounts; never names of files or content. It listens on UDP port 7348 and,
/// where a network blocks UDP, on TCP ports 7348 and 443, of IPv4 and IPv6, and on the UDP port after the first, which
/// reports a client's address. No other port is open. Limits for each client are in the settings ([node.relay]).
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem relay                                at the usual ports
  xylem relay --listen xylem://0.0.0.0:7000  there and nowhere else
  xylem relay --metrics 9700                 with counts for Prometheus
  xylem relay --volunteer                    for strangers as well, who find it in the DHT
  xylem share film.mkv --relay KEY@relay.example.org:7348   behind a router that lets no peer in

",
    exit_help!()
))]
pub(crate) struct RelayServerArgs {
    /// Listen at this URI, such as xylem://HOST:PORT
    ///
    /// Within TCP xylem+tls://, xylem+ws://, xylem+wss:// or xylem+doh://; can be repeated.
    #[arg(
        long,
        value_name = "ADDR",
        env = "XYLEM_RELAY_LISTEN",
        hide_env_values = true,
        value_delimiter = ','
    )]
    listen: Vec<PeerUri>,

    #[command(flatten)]
    volunteer: VolunteerArgs,

    #[command(flatten)]
    metrics: MetricsArgs,

    #[command(flatten)]
    answer: AnswerArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Runs `xylem relay`.
pub(crate) fn run(
    args: RelayServerArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    if !args.listen.iter().all(PeerUri::is_encrypted) {
        let what = "--listen: a relay listens for encrypted links alone, such as xylem://0.0.0.0:7348; for other \
                    kinds of addresses type xylem ndn node";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let mut config = node::configuration(common)?.of_a_relay();
    if !args.listen.is_empty() {
        config.listen = Some(args.listen);
    }
    if let (Some(start), Some(relay)) = (args.volunteer.start(common)?, &mut config.relay) {
        relay.limits.for_strangers();
        relay.volunteer = Some(start);
    }
    config.links = args.shape.over(&config.links);
    config.accept_open |= args.answer.accept_open;
    let counts = Counts::default();
    if let Some(listener) = args.metrics.listen()? {
        metrics::show(listener, counts.clone(), page, out)?;
    }
    node::serve("relay", config, out, |event| {
        if let Event::Relayed { counts: latest } = event {
            counts.lock().unwrap_or_else(PoisonError::into_inner).clone_from(latest);
        }
    })
}

fn page(counts: &BTreeMap<&'static str, u64>) -> String {
    let mut page = String::new();
    for (name, count) in counts {
        let help = help(name);
        let (name, kind) = match *name {
            // Present numbers are gauges; the others count events.
            "registrations" | "circuits" => (format!("xylem_relay_{name}"), "gauge"),
            name => (format!("xylem_relay_{name}_total"), "counter"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {count}");
    }
    page
}

/// The line that Prometheus shows with a count.
fn help(name: &str) -> &'static str {
    match name {
        "registrations" => "Clients that are registered.",
        "circuits" => "Pairs of clients that are connected.",
        "registered" => "Registrations that were added.",
        "connected" => "Requests for a peer that were granted.",
        "expired" => "Registrations that expired.",
        "crowded_out" => "Registrations that were removed to make room.",
        "refused_not_here" => "Requests for a peer that is not registered.",
        "refused_quota" => "Requests that were refused because a limit was reached.",
        "refused_lies" => "Requests with an unvouched name, or with the secret of another.",
        "refused_banned" => "Requests that were refused because of earlier offences of the host.",
        "offences" => "False vouches and messages that break the protocol.",
        "keeps" => "Keep-alives that were answered.",
        "refused_keeps" => "Keep-alives that were invalid or repeated.",
        "datagrams" => "Datagrams that were forwarded.",
        "bytes" => "Bytes of the datagrams that were forwarded.",
        "dropped" => "Datagrams that were dropped, because of a limit or for want of a pair.",
        "over_hour" => "Datagrams that were dropped because the bytes of the hour are used up.",
        "resets" => "Resets that were sent to clients from before a restart.",
        _ => "Other events.",
    }
}
