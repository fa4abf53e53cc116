//! `xylem relay`: a server that connects peers behind NATs and firewalls.

pub(crate) mod orders;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::VolunteerArgs;
use crate::metrics::{LastCounts, MetricsArgs, counts_page};
use crate::node;
use crate::output::Out;
use crate::shaping::ShapeArgs;
use crate::showing::AnswerArgs;
use clap::Args;
use orders::RelayCommand;
use std::path::Path;
use xylem_node::{Event, PeerUri, RelayAnswer, RelayOrder};

/// Connects peers that cannot reach each other, until Ctrl-C
///
/// It forwards encrypted datagrams between peers that ask for it, and prints what they pass to `--relay`. It learns
/// keys, addresses, publishers, times and amounts; never names of files or content. It listens on UDP port 7348 and,
/// where a network blocks UDP, on TCP ports 7348 and 443, of IPv4 and IPv6, and on the UDP port after the first, which
/// reports a client's address. No other port is open. Limits for each client are in the settings ([node.relay]).
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = concat!(
    "Examples:
  xylem relay                                at the usual ports
  xylem relay --listen xylem://0.0.0.0:7000  there and nowhere else
  xylem relay --metrics 9700                 with counts for Prometheus
  xylem relay --volunteer                    for strangers as well, who find it in the DHT
  xylem relay top                            shows the clients of the running relay
  xylem relay ban 192.0.2.0/24               keeps a network away from it
  xylem relay --accept-open                  others may name it by its host alone
  xylem relay drain                          ends it when no pair uses it any more
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

    #[command(subcommand)]
    command: Option<RelayCommand>,

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
    if let Some(command) = args.command {
        return orders::run(command, common, out);
    }
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
        if relay.allowed.is_some() {
            let what = "--volunteer: a relay for strangers cannot have `allow`, `allow_file` or `tokens` in its settings";
            return Err(CommandFailure::new(Exit::Usage, what));
        }
        relay.limits.for_strangers();
        relay.volunteer = Some(start);
    }
    let tokens = config.relay.as_ref().and_then(|relay| relay.allowed.as_ref());
    if let Some(path) = common.settings()
        && tokens.is_some_and(|allowed| !allowed.tokens.is_empty())
        && is_readable_by_others(&path)
    {
        out.warn(&format!(
            "other users of this machine can read the token in {}; remove their right to read it",
            path.display()
        ));
    }
    config.links = args.shape.over(&config.links);
    config.accept_open |= args.answer.accept_open;
    let counts = LastCounts::default();
    let (shown, control) = (counts.clone(), config.relay.as_ref().map(|it| it.control.clone()));
    // The counts of the moment, or the last ones if the relay has no time.
    let page = move || {
        let load = control.as_ref().and_then(|control| control.ask(RelayOrder::Load(0)));
        let counts = match load {
            Some(RelayAnswer::Load(load)) => load.counters.each().into_iter().collect(),
            _ => shown.get(),
        };
        counts_page("xylem_relay", &counts, &["registrations", "circuits"], help)
    };
    args.metrics.show(page, out)?;
    node::serve("relay", config, out, |event| {
        if let Event::Relayed { counts: latest } = event {
            counts.set(latest);
        }
    })
}

/// Whether users other than the owner of a file may read it, as far as the system shows that.
#[cfg(unix)]
fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o044 != 0)
}

#[cfg(not(unix))]
fn is_readable_by_others(_: &Path) -> bool {
    false
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
        "refused_ending" => "Requests that were refused because the relay is about to end.",
        "refused_not_allowed" => "Requests of clients that the relay does not serve.",
        "offences" => "False vouches and messages that break the protocol.",
        "keeps" => "Keep-alives that were answered.",
        "refused_keeps" => "Keep-alives that were invalid or repeated.",
        "datagrams" => "Datagrams that were forwarded.",
        "bytes" => "Bytes of the datagrams that were forwarded.",
        "dropped" => "Datagrams that were dropped, because of a limit or for want of a pair.",
        "over_share" => {
            "Datagrams that were dropped because the relay is full and the pair had its part."
        }
        "over_hour" => "Datagrams that were dropped because the bytes of the hour are used up.",
        "resets" => "Resets that were sent to clients from before a restart.",
        _ => "Other events.",
    }
}
