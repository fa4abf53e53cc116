//! `xylem ndn traffic PREFIX`: generates load for a forwarder, and answers it.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::output::text::bytes;
use crate::peek::AtArgs;
use crate::ping::{ServedRow, ServingRow};
use crate::process_usage::{self, Usage};
use crate::stop;
use crate::values::{parse_bytes, parse_seconds};
use clap::Args;
use serde::Serialize;
use std::str::FromStr;
use std::time::Duration;
use xylem_app::{Client, RunError, parse_name};
use xylem_client::traffic::{Generator, TrafficOptions, TrafficReport, TrafficServer};
use xylem_client::{Driver, register};
use xylem_trust::Signer;

/// Measures a forwarder: sends Interests, or answers them with --serve
///
/// Interests ask for PREFIX/NUMBER. The answers carry no signature of a key: they serve as load only.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn traffic /load --serve --size 1K      answers until Ctrl-C
  xylem ndn traffic /load --duration 10          as many as pass, 64 at a time
  xylem ndn traffic /load --rate 10000           at a rate; loss, latency
  xylem ndn traffic /load --names 1000 --json    the same names again: the content store

",
    exit_help!()
))]
pub(crate) struct TrafficArgs {
    /// The prefix of the names to ask for, or to answer
    prefix: String,

    /// Answer instead of asking
    #[arg(long)]
    serve: bool,

    /// Bytes of content in each answer
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "1024",
          requires = "serve")]
    size: u64,

    /// How long caches treat an answer as fresh
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "3600",
          allow_negative_numbers = true, requires = "serve")]
    freshness: Duration,

    /// Do not register the prefix: a route leads here already
    #[arg(long, requires = "serve")]
    no_register: bool,

    /// Interests per second, or max
    #[arg(long, value_name = "N", default_value = "max", conflicts_with = "serve")]
    rate: TrafficRate,

    /// Interests at once [default: 64; with a rate 65536]
    #[arg(long, value_name = "W", conflicts_with = "serve",
          value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    window: Option<u32>,

    /// How long to measure
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "10",
          allow_negative_numbers = true, conflicts_with = "serve")]
    duration: Duration,

    /// Ask for this many names over and over [default: each name once]
    #[arg(long, value_name = "N", conflicts_with = "serve",
          value_parser = clap::value_parser!(u64).range(1..))]
    names: Option<u64>,

    /// The first number; one that differs from the last run's finds no answers in caches
    #[arg(long, value_name = "N", default_value = "0", conflicts_with = "serve")]
    start: u64,

    /// An Interest without an answer after this long is lost (InterestLifetime)
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "4",
          allow_negative_numbers = true, conflicts_with = "serve")]
    lifetime: Duration,

    /// Refuse stale answers (MustBeFresh)
    #[arg(long, conflicts_with = "serve")]
    fresh: bool,

    /// Add a PIT token of this many octets
    #[arg(long, value_name = "N", default_value = "0", conflicts_with = "serve",
          value_parser = clap::value_parser!(u8).range(0..=32))]
    pit_token: u8,

    /// Also measure the process with this id: the forwarder's
    #[arg(long, value_name = "PID", conflicts_with = "serve")]
    pid: Option<u32>,

    #[command(flatten)]
    at: AtArgs,
}

/// `max`, or Interests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TrafficRate(Option<f64>);

impl FromStr for TrafficRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(None));
        }
        let rate: Option<f64> = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && *rate <= 1e9);
        rate.map(|rate| Self(Some(rate)))
            .ok_or_else(|| format!("{text:?} is neither max nor a number of Interests a second"))
    }
}

/// Runs `xylem ndn traffic`.
pub(crate) fn run(
    args: TrafficArgs,
    _common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let prefix = parse_name(&args.prefix)?;
    if args.serve {
        let size = usize::try_from(args.size).unwrap_or(usize::MAX);
        let mut server =
            TrafficServer::new(prefix.clone(), size, args.freshness).map_err(RunError::from)?;
        let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
        if !args.no_register {
            register(&mut client, prefix.as_ref(), &Signer::digest_sha256())?;
        }
        out.note(&format!("answering {} until Ctrl-C", args.prefix));
        out.json(&ServingRow { prefix: &args.prefix })?;
        client.run(&mut server)?;
        let served = server.served();
        out.note(&format!("{} answered, {} ignored", served.answered, served.ignored));
        out.json(&ServedRow {
            answered: served.answered,
            bytes: Some(served.bytes),
            ignored: Some(served.ignored),
        })?;
        return Ok(Exit::Done);
    }
    let options = TrafficOptions {
        prefix,
        rate: args.rate.0,
        window: args.window.unwrap_or(if args.rate.0.is_some() { 65_536 } else { 64 }) as usize,
        duration: args.duration,
        names: args.names,
        start: args.start,
        lifetime: args.lifetime,
        must_be_fresh: args.fresh,
        pit_token: usize::from(args.pit_token),
    };
    let own_before = process_usage::of_process(None);
    let forwarder_before = args.pid.and_then(|pid| process_usage::of_process(Some(pid)));
    let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
    let mut generator = Generator::new(options, client.seed()?).map_err(RunError::from)?;
    client.run(&mut generator)?;
    let report = generator.into_report();
    let used = Used {
        cpu: process_usage::since(own_before, None).map(|used| used.cpu),
        forwarder: args.pid.and_then(|pid| process_usage::since(forwarder_before, Some(pid))),
    };
    tell(&report, used, out)?;
    match report.answered {
        0 => Err(CommandFailure::new(Exit::Unreachable, format!("{}: no answer", args.prefix))),
        _ => Ok(Exit::Done),
    }
}

fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Resources that the processes used meanwhile, if known.
struct Used {
    cpu: Option<Duration>,
    forwarder: Option<Usage>,
}

fn tell(report: &TrafficReport, used: Used, out: &mut Out) -> Result<(), CommandFailure> {
    let seconds = report.elapsed.as_secs_f64().max(1e-9);
    let (per_second, latency) = (report.answered as f64 / seconds, &report.latency);
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| us(latency.quantile(share)));
    // An Interest and its Data count as one exchange.
    let each = |cpu: Duration| us(cpu) / report.answered.max(1) as f64;
    if out.is_json() {
        return out.json(&TrafficRow {
            sent: report.sent,
            answered: report.answered,
            nacked: report.nacked,
            lost: report.lost,
            unasked: report.unasked,
            congested: report.congested,
            bytes: report.bytes,
            seconds,
            per_second,
            p50_us: p50,
            p90_us: p90,
            p99_us: p99,
            max_us: us(latency.max()),
            mean_us: us(latency.mean()),
            cpu_us: used.cpu.map(each),
            forwarder_cpu_us: used.forwarder.map(|f| each(f.cpu)),
            forwarder_memory: used.forwarder.map(|f| f.memory),
        });
    }
    out.line(&format!(
        "{} Interests in {seconds:.2} s: {} answered ({per_second:.0}/s, {}/s), {} nacked, {} lost \
         ({:.3} %)",
        report.sent,
        report.answered,
        bytes((report.bytes as f64 / seconds) as u64),
        report.nacked,
        report.lost,
        100.0 * report.lost as f64 / report.sent.max(1) as f64,
    ))?;
    out.line(&format!(
        "latency p50 {p50:.0} µs, p90 {p90:.0} µs, p99 {p99:.0} µs, max {:.0} µs, mean {:.0} µs",
        us(latency.max()),
        us(latency.mean()),
    ))?;
    if let Some(cpu) = used.cpu {
        out.line(&format!("processor time for each answer: {:.2} µs here", each(cpu)))?;
    }
    if let Some(forwarder) = used.forwarder {
        out.line(&format!(
            "processor time for each answer: {:.2} µs in the forwarder, which holds {}",
            each(forwarder.cpu),
            bytes(forwarder.memory)
        ))?;
    }
    if report.unasked + report.congested > 0 {
        let (unasked, congested) = (report.unasked, report.congested);
        out.note(&format!(
            "{unasked} packets answered no Interest, {congested} were marked congested"
        ));
    }
    Ok(())
}

/// Event: the result of `traffic`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "traffic")]
struct TrafficRow {
    sent: u64,
    answered: u64,
    nacked: u64,
    lost: u64,
    unasked: u64,
    congested: u64,
    bytes: u64,
    seconds: f64,
    per_second: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    max_us: f64,
    mean_us: f64,
    cpu_us: Option<f64>,
    forwarder_cpu_us: Option<f64>,
    forwarder_memory: Option<u64>,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&TrafficRow {
            sent: 1,
            answered: 1,
            nacked: 0,
            lost: 0,
            unasked: 0,
            congested: 0,
            bytes: 1,
            seconds: 0.5,
            per_second: 2.0,
            p50_us: 1.0,
            p90_us: 1.0,
            p99_us: 1.0,
            max_us: 1.0,
            mean_us: 1.0,
            cpu_us: None,
            forwarder_cpu_us: None,
            forwarder_memory: None,
        });
    }
}
