//! `xylem ndn ping PREFIX`: whether a prefix answers, and its round trip time.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::peek::AtArgs;
use crate::stop;
use crate::values::{parse_bytes, parse_seconds};
use clap::Args;
use serde::Serialize;
use std::cell::RefCell;
use std::time::Duration;
use xylem_app::{Client, RunError, parse_name};
use xylem_client::{Driver, PingOutcome, PingReport, PingServer, Pinger, register};
use xylem_packet::Name;
use xylem_trust::Signer;

/// Pings a name prefix, or answers pings with --serve (ndnping)
///
/// Interests ask for PREFIX/ping/NUMBER. Ends with 0 if there was an answer, with 3 if there was
/// none.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn ping /alice --serve              answers until Ctrl-C
  xylem ndn ping /alice -c 5                 five pings, a second apart
  xylem ndn ping /alice -i 0.01 -c 1000 -q   the statistics alone

",
    exit_help!()
))]
pub(crate) struct PingArgs {
    /// The prefix, without /ping
    prefix: String,

    /// Answer pings instead of sending them
    #[arg(long)]
    serve: bool,

    /// End after this many pings
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,

    /// Time between two pings
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1",
          allow_negative_numbers = true, conflicts_with = "serve")]
    interval: Duration,

    /// How long an answer may take
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "4",
          allow_negative_numbers = true, conflicts_with = "serve")]
    timeout: Duration,

    /// First number [default: a random one]
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "serve")]
    start: Option<u64>,

    /// Bytes of content in each answer
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "0",
          requires = "serve")]
    size: u64,

    /// How long caches treat an answer as fresh
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1",
          allow_negative_numbers = true, requires = "serve")]
    freshness: Duration,

    /// Do not register the prefix: a route leads here already
    #[arg(long, requires = "serve")]
    no_register: bool,

    #[command(flatten)]
    at: AtArgs,
}

/// Runs `xylem ndn ping`.
pub(crate) fn run(args: PingArgs, _common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let prefix = parse_name(&args.prefix)?;
    if args.serve {
        let out = RefCell::new(out);
        let mut on_ping = |name: &Name| out.borrow_mut().detail(&name.to_string());
        let size = usize::try_from(args.size).unwrap_or(usize::MAX);
        let mut server =
            PingServer::new(prefix.as_ref(), size, args.freshness, args.count, &mut on_ping)
                .map_err(RunError::from)?;
        let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
        if !args.no_register {
            register(&mut client, server.served(), &Signer::digest_sha256())?;
        }
        out.borrow_mut().note(&format!("answering pings to {} until Ctrl-C", args.prefix));
        out.borrow_mut().json(&ServingRow { prefix: &args.prefix })?;
        client.run(&mut server)?;
        let answered = server.answered();
        let out = out.into_inner();
        out.note(&format!("{answered} answered"));
        out.json(&ServedRow { answered, bytes: None, ignored: None })?;
        return Ok(Exit::Done);
    }
    let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
    let seed = client.seed()?;
    let mut broken = None;
    let mut on_ping = |number, what| {
        if let Err(failure) = tell(&args.prefix, number, what, out) {
            stop.raise();
            broken = Some(failure);
        }
    };
    let (interval, timeout) = (args.interval, args.timeout);
    let first = args.start.unwrap_or(seed);
    let mut pinger =
        Pinger::new(prefix.as_ref(), interval, timeout, args.count, first, seed, &mut on_ping);
    client.run(&mut pinger)?;
    let report = pinger.into_report();
    if let Some(failure) = broken {
        return Err(failure);
    }
    summary(&args.prefix, &report, out)?;
    match report.times.count() {
        0 => Err(CommandFailure::new(Exit::Unreachable, format!("{}: no answer", args.prefix))),
        _ => Ok(Exit::Done),
    }
}

fn tell(prefix: &str, number: u64, what: PingOutcome, out: &mut Out) -> Result<(), CommandFailure> {
    let (answer, nack, took) = match what {
        PingOutcome::Answer(took) => ("answer", None, Some(took)),
        PingOutcome::Nack(reason, took) => ("nack", Some(reason), Some(took)),
        PingOutcome::Timeout => ("timeout", None, None),
    };
    if out.is_json() {
        let milliseconds = took.map(ms);
        return out.json(&PingRow { number, answer, nack, milliseconds });
    }
    if out.is_quiet() {
        return Ok(());
    }
    out.line(&match what {
        PingOutcome::Answer(took) => {
            format!("content from {prefix}: seq={number} time={:.3} ms", ms(took))
        }
        PingOutcome::Nack(reason, took) => {
            format!("nack from {prefix}: seq={number} time={:.3} ms reason={reason}", ms(took))
        }
        PingOutcome::Timeout => format!("timeout from {prefix}: seq={number}"),
    })
}

fn summary(prefix: &str, report: &PingReport, out: &mut Out) -> Result<(), CommandFailure> {
    let PingReport { sent, nacked, lost, times } = report;
    let answered = times.count();
    if out.is_json() {
        return out.json(&PingsRow {
            sent: *sent,
            answered,
            nacked: *nacked,
            lost: *lost,
            min_ms: ms(times.min()),
            mean_ms: ms(times.mean()),
            max_ms: ms(times.max()),
        });
    }
    let missing = 100.0 * (*sent - answered) as f64 / (*sent).max(1) as f64;
    out.line(&format!("--- {prefix} ping statistics ---"))?;
    out.line(&format!(
        "{sent} packets transmitted, {answered} received, {nacked} nacked, {missing:.1}% lost"
    ))?;
    if answered == 0 {
        return Ok(());
    }
    let (min, mean, max) = (ms(times.min()), ms(times.mean()), ms(times.max()));
    out.line(&format!(
        "rtt min/avg/max/p99 = {min:.3}/{mean:.3}/{max:.3}/{:.3} ms",
        ms(times.quantile(0.99))
    ))
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Event: `ping --serve` or `traffic --serve` is ready.
#[derive(Serialize)]
#[serde(tag = "event", rename = "serving")]
pub(crate) struct ServingRow<'a> {
    pub(crate) prefix: &'a str,
}

/// Event: how many pings it has answered.
#[derive(Serialize)]
#[serde(tag = "event", rename = "served")]
pub(crate) struct ServedRow {
    pub(crate) answered: u64,
    pub(crate) bytes: Option<u64>,
    pub(crate) ignored: Option<u64>,
}

/// Event: one ping.
#[derive(Serialize)]
#[serde(tag = "event", rename = "ping")]
struct PingRow<'a> {
    number: u64,
    answer: &'a str,
    nack: Option<u64>,
    milliseconds: Option<f64>,
}

/// Event: the statistics of all pings.
#[derive(Serialize)]
#[serde(tag = "event", rename = "pings")]
struct PingsRow {
    sent: u64,
    answered: u64,
    nacked: u64,
    lost: u64,
    min_ms: f64,
    mean_ms: f64,
    max_ms: f64,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&ServingRow { prefix: "/a" });
        assert_documented(&ServedRow { answered: 1, bytes: None, ignored: None });
        assert_documented(&PingRow {
            number: 1,
            answer: "nack",
            nack: Some(50),
            milliseconds: None,
        });
        assert_documented(&PingsRow {
            sent: 1,
            answered: 1,
            nacked: 0,
            lost: 0,
            min_ms: 0.5,
            mean_ms: 0.5,
            max_ms: 0.5,
        });
    }
}
