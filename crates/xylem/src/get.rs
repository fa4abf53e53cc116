//! `xylem get TICKET`: fetch, verified piece by piece.

use crate::cli::Common;
use crate::exit::{Exit, Failure, exit_help};
use crate::output::text::{bytes, count, duration, rate};
use crate::output::{Json, Out, not_with_json};
use crate::stop;
use crate::values::{ByteRange, parse_rate, parse_seconds};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xylem_node::{Blame, Existing, GetOptions, GetSummary, Output, Peer, PeerUri};

/// Fetches what a ticket names; each piece is verified on arrival, and an earlier run is resumed
///
/// The result appears under its final name only when it is complete; until then its verified
/// pieces are kept beside it, and the same command goes on from there. The last line on standard
/// output is what `xylem sum` prints for the result.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem get xylem:...                          into this directory, under its own name
  xylem get xylem:... -o films/                into that directory
  xylem get xylem:... -o - | tar x             verified bytes in order, to a pipe
  xylem get xylem:... --from 192.0.2.7:7000    from that peer only
  xylem get xylem:... --from udp://192.0.2.7   through an NDN forwarder
  xylem get xylem:... --from unix:///run/nfd/nfd.sock   through the one of this machine
  xylem get xylem:... --range 1G..1100M -o part.bin

",
    exit_help!()
))]
pub(crate) struct GetArgs {
    /// What `xylem share` printed: xylem:...
    ticket: String,

    /// Where the result goes: a file, a directory that exists or ends in /, or - for standard
    /// output [default: this directory, under the name that its publisher gave it]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Ask this peer instead of the ticket's: HOST:PORT or KEY@HOST:PORT (encrypted link), or an
    /// NDN forwarder: udp://HOST, tcp://HOST, ws://HOST (with :PORT if it is not the usual one) or
    /// unix:///PATH; can be repeated
    #[arg(
        long,
        value_name = "ADDR",
        env = "XYLEM_FROM",
        hide_env_values = true,
        value_delimiter = ','
    )]
    from: Vec<PeerUri>,

    /// Fetch these bytes only: A..B, A.. or ..B, with K, M, G (1024) or KB, MB, GB (1000)
    #[arg(long, value_name = "A..B")]
    range: Option<ByteRange>,

    /// Replace what has the final name, once the new one is complete
    #[arg(long)]
    overwrite: bool,

    /// Where the final name is taken, use NAME.1, NAME.2, ...
    #[arg(long, conflicts_with = "overwrite")]
    rename: bool,

    /// Leave out what matches, from a directory; can be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,

    /// Fetch at most this many bytes a second, such as 500K or 10M
    #[arg(long, value_name = "RATE", value_parser = parse_rate, env = "XYLEM_LIMIT",
          hide_env_values = true)]
    limit: Option<u64>,

    /// Give up after this long without progress
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "30",
          allow_negative_numbers = true, env = "XYLEM_TIMEOUT", hide_env_values = true)]
    timeout: Duration,
}

/// Runs `xylem get`.
pub(crate) fn run(args: GetArgs, common: &Common, out: &mut Out) -> Result<Exit, Failure> {
    let output = output(args.output);
    if matches!(output, Output::Stdout) {
        not_with_json(out, "-o -")?;
    }
    let whole = args.range.is_none() && args.exclude.is_empty();
    let options = GetOptions {
        ticket: args.ticket,
        output,
        from: peers(&args.from)?,
        range: args.range.map(|range| (range.start, range.end)),
        existing: match (args.overwrite, args.rename) {
            (true, _) => Existing::Overwrite,
            (_, true) => Existing::Rename,
            _ => Existing::Refuse,
        },
        exclude: args.exclude,
        limit_rate: args.limit,
        give_up: args.timeout,
        store: common.store()?,
    };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let fetched = xylem_node::get(&options, &stop, &mut |event| out.event(event));
    out.take_broken()?;
    let summary = fetched.map_err(|error| {
        // Without a signal only the reader of standard output can have ended the run.
        let by_reader = error.blame == Blame::Interrupted && !stop.raised();
        if by_reader { Failure::closed_pipe() } else { Failure::from(error) }
    })?;
    report(&summary, whole, out)?;
    Ok(Exit::Done)
}

/// A directory is meant where one is there or the path says so.
fn output(path: Option<PathBuf>) -> Output {
    let Some(path) = path else { return Output::Into(PathBuf::from(".")) };
    if path == Path::new("-") {
        return Output::Stdout;
    }
    let ends_in_slash = path.as_os_str().as_encoded_bytes().last() == Some(&b'/');
    if ends_in_slash || path.is_dir() { Output::Into(path) } else { Output::At(path) }
}

/// Looks up the peers of `--from`; one that is not found is left out while others are.
pub(crate) fn peers(from: &[PeerUri]) -> Result<Vec<Peer>, Failure> {
    let mut found = Vec::new();
    let mut last_error = None;
    for peer in from {
        match peer.resolve() {
            Ok(peers) => found.extend(peers),
            Err(error) => last_error = Some(error),
        }
    }
    match last_error {
        Some(why) if found.is_empty() => Err(Failure::new(
            Exit::Unreachable,
            format!("{why}; check the name or give an address"),
        )),
        _ => Ok(found),
    }
}

fn report(summary: &GetSummary, whole: bool, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&Json::Done {
            root: &summary.root,
            path: summary.path.as_deref().map(|p| p.to_string_lossy().into_owned()),
            bytes: summary.bytes,
            files: summary.files,
            fetched: summary.fetched,
            resumed: summary.resumed,
            seconds: summary.elapsed.as_secs_f64(),
            already_complete: summary.already_complete,
        });
    }
    // The root is that of the whole: `sum` would print another for a part of it.
    if let Some(path) = summary.path.as_ref().filter(|_| whole) {
        out.sum_line(&summary.root, path)?;
    }
    let what = format!("{} in {}", bytes(summary.bytes), count(summary.files, "file"));
    let done = out.paint("32", "Verified");
    if summary.already_complete {
        out.note(&format!("{done} {what}; all of it was there already"));
        return Ok(());
    }
    let mut line = format!(
        "{done} {what}: fetched {} in {} ({})",
        bytes(summary.fetched),
        duration(summary.elapsed),
        rate(summary.fetched, summary.elapsed)
    );
    if summary.resumed > 0 {
        line.push_str(&format!(", kept {} of an earlier run", bytes(summary.resumed)));
    }
    out.note(&line);
    Ok(())
}
