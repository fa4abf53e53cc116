//! `xylem scrub [PATH]...`: re-reads what was shared or fetched, and repairs it.

use crate::buckets;
use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::flags::{LimitArgs, TimeoutArgs};
use crate::get::peers;
use crate::output::Out;
use crate::output::text::{bytes, count, rate};
use crate::stop;
use crate::values::{is_ticket, parse_ticket};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use xylem_check::scrub::{DeliveryFailure, ScrubOptions, ScrubSummary};
use xylem_node::{PeerUri, RepairOptions};

/// Re-reads what was shared or fetched; --repair repairs it from peers
///
/// Standard output has one line per bad place: the path, the bytes from..to (the end is not included), the kind of
/// damage, and the affected blocks of 16 KiB, counted from 0. A file that was edited is reported as such and left
/// alone: its time or size differs, which decay does not change. A damaged tree is distinguished from damaged data.
///
/// With --repair a damaged tree is computed again from the data. Only the bad pieces of the data are fetched, proven,
/// and written in place; mode and time stay. Files that are missing are fetched again, but a path that is missing as a
/// whole only if PATH names it. A repair that is killed resumes when it is run again.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem scrub                               all that was shared or fetched
  xylem scrub film.mkv photos/ --limit 50M  these, reading 50 MiB a second
  xylem scrub film.mkv --repair             from the peers that had it
  xylem scrub film.mkv --repair --from xylem:... asks whom this ticket names
  xylem scrub film.mkv --repair --from 192.0.2.7:7000

",
    exit_help!()
))]
pub(crate) struct ScrubArgs {
    /// Files or directories that were shared or fetched
    ///
    /// A path within such a directory will do, too. [default: everything in the store's records]
    path: Vec<PathBuf>,

    /// Repair what is damaged, and fetch what is missing
    #[arg(long)]
    repair: bool,

    /// Ask this peer, or those of a ticket: HOST:PORT or TICKET
    ///
    /// A ticket is for the same content (or @FILE or - for one in a file or on standard input, which no other user
    /// sees), and also gives the hash of a file without records; a peer's address is as with `xylem get --from`. Can be
    /// repeated.
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    from: Vec<String>,

    #[command(flatten)]
    limit: LimitArgs,

    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// Runs `xylem scrub`.
pub(crate) fn run(args: ScrubArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    // An address may begin with xylem:// or a carrier's xylem+tls://.
    let (tickets, addresses): (Vec<String>, Vec<String>) =
        args.from.into_iter().partition(|from| is_ticket(from) || from == "-");
    let tickets = tickets.iter().map(|text| parse_ticket(text)).collect::<Result<_, _>>()?;
    let parsed = addresses.iter().map(|from| from.parse::<PeerUri>());
    let parsed = parsed.collect::<Result<Vec<_>, _>>();
    let parsed = parsed.map_err(|e| CommandFailure::new(Exit::Usage, format!("--from: {e}")))?;
    let mut paths = args.path;
    let medium = buckets::for_paths(&mut paths, None, common, out)?.medium();
    let options = ScrubOptions { paths, repair: args.repair, tickets, medium };
    let repair = RepairOptions {
        peers: peers(&parsed)?,
        give_up: args.timeout.or_seconds(30),
        limit_rate: args.limit.limit,
    };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let (directory, started) = (common.store()?, Instant::now());
    let mut event = |event| out.event(event);
    let scrubbed = xylem_node::scrub(&directory, &options, &repair, &stop, &mut event);
    out.take_broken()?;
    report(&scrubbed?, started.elapsed(), &options, out)
}

fn report(
    summary: &ScrubSummary,
    elapsed: Duration,
    options: &ScrubOptions,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    out.json(&ScrubbedRow { summary, seconds: elapsed.as_secs_f64() })?;
    let what = format!(
        "{} in {} ({})",
        bytes(summary.bytes),
        count(summary.files, "file"),
        rate(summary.bytes, elapsed)
    );
    if summary.is_clean() {
        let good =
            out.paint("32", if summary.damaged + summary.missing > 0 { "Mended" } else { "Clean" });
        out.note(&format!("{good}: {what}{}", counted(summary)));
        return Ok(Exit::Done);
    }
    let damaged = summary.damaged > summary.mended || summary.trees > summary.trees_mended;
    let word = if damaged { "DAMAGED" } else { "NOT AS IT WAS" };
    let bad = out.paint("1;31", word);
    out.note(&format!("{bad}: {what}{}", counted(summary)));
    if let Some(why) = &summary.not_brought {
        out.warn(&why.to_string());
    } else if (damaged || summary.missing > 0) && !options.repair {
        out.note("Nothing was changed; --repair fetches what peers still have");
    } else if damaged {
        out.note("No peer that has it is known; --from TICKET or --from HOST:PORT names one");
    }
    let exit = match &summary.not_brought {
        Some(DeliveryFailure::Unreachable(_)) => Exit::Unreachable,
        _ if summary.failed > 0 && !damaged => Exit::Local,
        _ => Exit::Damaged,
    };
    Ok(exit)
}

/// The counts that are not zero: `, 3 places (24 KiB) damaged, 24 KiB mended, 1 file missing`.
fn counted(summary: &ScrubSummary) -> String {
    let mut text = String::new();
    let mut add = |number: u64, what: String| {
        if number > 0 {
            text.push_str(", ");
            text.push_str(&what);
        }
    };
    let places = count(summary.places, "place");
    add(summary.places, format!("{places} ({}) damaged", bytes(summary.damaged)));
    add(summary.mended, format!("{} mended", bytes(summary.mended)));
    add(summary.trees, format!("{} damaged", count(summary.trees, "tree")));
    add(summary.trees_mended, format!("{} mended", count(summary.trees_mended, "tree")));
    add(summary.changed, format!("{} edited since", count(summary.changed, "file")));
    add(summary.missing, format!("{} missing", count(summary.missing, "file")));
    add(summary.restored, format!("{} restored", summary.restored));
    add(summary.failed, format!("{} not readable", count(summary.failed, "file")));
    add(summary.unfinished, format!("{} unfinished", count(summary.unfinished, "repair")));
    add(summary.fetched, format!("{} fetched", bytes(summary.fetched)));
    text
}

/// Event: `scrub` is done.
#[derive(Serialize)]
#[serde(tag = "event", rename = "scrubbed")]
struct ScrubbedRow<'a> {
    #[serde(flatten)]
    summary: &'a ScrubSummary,
    seconds: f64,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let summary = ScrubSummary::default();
        assert_documented(&ScrubbedRow { summary: &summary, seconds: 0.5 });
    }
}
