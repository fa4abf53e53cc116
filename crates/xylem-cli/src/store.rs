//! `xylem store`: lists and checks the store's content, and removes what is not needed.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::output::text::{bytes, clean, count};
use crate::stop;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xylem_check::upkeep::{
    CheckFinding, CheckOptions, DamagedFiles, FindingKind, PathState, Pinned, RecordOrigin,
    StoreEntry, StoreTotals, UnfinishedEntry, UnfinishedKind, check_store, collect_store,
    list_store, list_unfinished,
};
use xylem_node::wall_clock;
use xylem_store::StoreError;

/// Lists the store, checks it, removes what nothing needs
///
/// The store holds no content: files stay where they are. It holds their hash trees, which prove each piece to getters,
/// the verified parts of interrupted fetches, and a record of each path that was shared or fetched.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem store list                 what was shared and fetched
  xylem store check                is everything in the store right?
  xylem store check --repair-tree  make damaged trees again from the files
  xylem store gc --dry-run         what would go?
  xylem store gc --older-than 7    and let it go, where it was not used for a week
  xylem store pin film.mkv         keep what is known of it, whatever happens

",
    exit_help!()
))]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// List what was shared and fetched
    ///
    /// One line each: ok (unchanged; for a directory only the directory itself is compared), changed or gone; pinned or
    /// -; shared or fetched; the root; bytes; the path. Then unfinished ones: part (a fetch in progress or interrupted;
    /// the path is that of its data) or cache (data that a mount has read), with the bytes that they take. At the end
    /// the bytes that all of it takes.
    List,
    /// Check records, trees, listings and manifests
    ///
    /// Each one that is damaged or missing is printed.
    ///
    /// Files are not read: that is `xylem scrub`. The exit status is 1 if something is damaged or missing and was not
    /// repaired. Remains of interrupted runs are listed; they do no harm.
    Check {
        /// Rebuild damaged and missing trees from their files, if these have not changed, and remove damaged records
        #[arg(long)]
        repair_tree: bool,
    },
    /// Remove what nothing needs: no existing file, no pin, no running fetch
    ///
    /// Trees that nothing refers to are removed after an hour; interrupted fetches, and records of files that are gone,
    /// after thirty days without use. The data of an interrupted fetch are removed, too; they lie beside the wanted
    /// file as .NAME.xylem-part. No other file outside the store is touched.
    Gc {
        /// Only list what would be removed
        #[arg(long)]
        dry_run: bool,
        /// Remove what was not used for this many days; 0: at once, for when nothing else runs
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(..=36_500))]
        older_than: Option<u64>,
    },
    /// Keep what the store has of a path or a root
    Pin {
        /// A path that the store knows, or a root (64 hexadecimal digits)
        #[arg(value_name = "PATH|ROOT")]
        what: PathBuf,
    },
    /// Remove a pin
    Unpin {
        /// The path or root as it was pinned
        #[arg(value_name = "PATH|ROOT")]
        what: PathBuf,
    },
}

/// Runs `xylem store`.
pub(crate) fn run(args: StoreArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let dir = common.store()?;
    match args.command {
        StoreCommand::List => list(&dir, out),
        StoreCommand::Check { repair_tree } => check(CheckOptions { store: dir, repair_tree }, out),
        StoreCommand::Gc { dry_run, older_than } => gc(&dir, dry_run, older_than, out),
        StoreCommand::Pin { what } => pin(&dir, &what, out),
        StoreCommand::Unpin { what } => unpin(&dir, &what, out),
    }
}

fn list(dir: &Path, out: &mut Out) -> Result<Exit, CommandFailure> {
    let mut broken = Ok(());
    let damaged = list_store(dir, &mut |entry| {
        if broken.is_ok() {
            broken = show(&entry, out);
        }
    })?;
    broken?;
    if damaged > 0 {
        let what = count(damaged, "record");
        out.warn(&format!("{what} can't be read; `xylem store check` names them"));
    }
    let mut broken = Ok(());
    let totals = list_unfinished(dir, &mut |entry| {
        if broken.is_ok() {
            broken = show_unfinished(&entry, out);
        }
    })?;
    broken?;
    out.json(&totals)?;
    let StoreTotals { bytes: all, unfinished, unfinished_bytes, cache_bytes } = totals;
    let mut what = format!("The store takes {}", bytes(all));
    if cache_bytes > 0 {
        what += &format!(", {} of it what mounts have read", bytes(cache_bytes));
    }
    if unfinished > 0 {
        what += &format!("; {} outside it: {}", fetches(unfinished), bytes(unfinished_bytes));
    }
    out.note(&what);
    Ok(Exit::Done)
}

fn show_unfinished(entry: &UnfinishedEntry, out: &mut Out) -> Result<(), CommandFailure> {
    if out.is_json() {
        return out.json(entry);
    }
    let cache = entry.kind == UnfinishedKind::Cache;
    let (state, origin) = if cache { ("cache", "read") } else { ("part", "fetched") };
    let path = entry.path.display().to_string();
    out.line(&format!(
        "{state:<7}  {:<6}  {origin:<7}  {}  {:>12}  {}",
        "-",
        entry.root,
        entry.bytes,
        clean(&path)
    ))
}

fn show(entry: &StoreEntry, out: &mut Out) -> Result<(), CommandFailure> {
    let state = match entry.standing {
        PathState::Unchanged => "ok",
        PathState::Changed => "changed",
        PathState::Gone => "gone",
    };
    let origin = if entry.origin == RecordOrigin::Fetched { "fetched" } else { "shared" };
    if out.is_json() {
        return out.json(entry);
    }
    let pinned = if entry.pinned { "pinned" } else { "-" };
    let path = entry.path.display().to_string();
    out.line(&format!(
        "{state:<7}  {pinned:<6}  {origin:<7}  {}  {:>12}  {}",
        entry.root,
        entry.bytes,
        clean(&path)
    ))
}

/// Lists the damaged files of the mail in a store's directory.
fn damaged_mail(store: &Path) -> Result<DamagedFiles, StoreError> {
    let error = |e| StoreError::from_io("list", &store.join("mail"), None, e);
    let found = xylem_mailbox::damaged(store).map_err(error)?;
    Ok(found.into_iter().map(|mail| (mail.path, mail.what.to_owned())).collect())
}

fn check(options: CheckOptions, out: &mut Out) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    let mut findings = Vec::new();
    let checked = {
        let mut on_finding = |finding: CheckFinding| findings.push(finding);
        check_store(&options, &damaged_mail, &stop, &mut on_finding, &mut |event| {
            out.event(xylem_node::Event::Library(event))
        })
    };
    out.take_broken()?;
    let summary = checked?;
    for finding in &findings {
        let kind = match finding.kind {
            FindingKind::Damaged => "damaged",
            FindingKind::Missing => "missing",
            FindingKind::Repaired => "repaired",
            FindingKind::Leftover => "leftover",
        };
        let path = finding.path.to_string_lossy().into_owned();
        if out.is_json() {
            out.json(finding)?;
        } else {
            out.line(&clean(&format!("{kind}: {path}: {}", finding.what)))?;
        }
    }
    out.json(&summary)?;
    let mut what = format!(
        "{}, {}, {}, {}",
        count(summary.records, "record"),
        count(summary.trees, "tree"),
        count(summary.listings, "listing"),
        bytes(summary.bytes)
    );
    if summary.cached > 0 {
        what += &format!("; beside them {} that mounts have read", bytes(summary.cached));
    }
    if summary.bad == 0 {
        let good = out.paint("32", "Right");
        out.note(&format!("{good}: {what}"));
        return Ok(Exit::Done);
    }
    let bad = out.paint("1;31", "DAMAGED");
    out.note(&format!("{bad}: {}, of {what}", count(summary.bad, "thing")));
    if !options.repair_tree {
        out.note("`xylem store check --repair-tree` rebuilds trees from unchanged files");
    }
    Ok(Exit::Damaged)
}

fn gc(
    dir: &Path,
    dry_run: bool,
    older_than: Option<u64>,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let older_than = older_than.map(|days| Duration::from_secs(days * 24 * 3600));
    let mut broken = Ok(());
    // Each removal outside the store is listed.
    let mut data = Vec::new();
    let done = collect_store(dir, older_than, dry_run, wall_clock(), &mut |name, size| {
        if name.is_absolute() {
            data.push((name.to_path_buf(), size));
        }
        let path = name.to_string_lossy().into_owned();
        if out.is_json() && broken.is_ok() {
            broken = out.json(&RemovedRow { path, bytes: size, dry_run });
        } else {
            out.detail(&clean(&format!("{path}: {}", bytes(size))));
        }
    })?;
    broken?;
    out.json(&CollectedRow {
        parts: done.parts,
        partials: done.partials,
        fetches: done.fetches,
        records: done.records,
        leftovers: done.leftovers,
        bytes: done.bytes,
        young: done.young,
        busy: done.busy,
        dry_run,
    })?;
    if !out.is_json() && !out.is_quiet() {
        let word = if dry_run { "Would remove" } else { "Removed" };
        for (path, size) in &data {
            out.line(&clean(&format!("{word} {}: {}", path.display(), bytes(*size))))?;
        }
        out.line(&format!(
            "{word} {}, the data of {}, {}, {}, {}: {}",
            count(done.parts, "part"),
            fetches(done.fetches),
            count(done.partials, "part") + " of interrupted fetches",
            count(done.records, "record"),
            count(done.leftovers, "leftover"),
            bytes(done.bytes)
        ))?;
    }
    if done.young > 0 {
        out.note(&format!("Not old enough yet: {} (--older-than DAYS)", done.young));
    }
    if done.busy > 0 {
        out.note(&format!("In use: {}", done.busy));
    }
    if done.damaged_records > 0 {
        let what = count(done.damaged_records, "record");
        out.warn(&format!(
            "{what} can't be read and may need any tree, so no tree was removed; \
             `xylem store check --repair-tree` removes such records"
        ));
    }
    Ok(Exit::Done)
}

fn fetches(number: u64) -> String {
    let many = if number == 1 { "" } else { "es" };
    format!("{number} unfinished fetch{many}")
}

fn pin(dir: &Path, what: &Path, out: &mut Out) -> Result<Exit, CommandFailure> {
    let pinned = xylem_check::upkeep::pin(dir, what)?;
    let name = pin_row(&pinned, true, out)?;
    out.note(&clean(&format!("Pinned {name}")));
    if matches!(pinned, Pinned::Root(_, false)) {
        out.note("Nothing of it is in the store yet");
    }
    Ok(Exit::Done)
}

fn unpin(dir: &Path, what: &Path, out: &mut Out) -> Result<Exit, CommandFailure> {
    let name = pin_row(&xylem_check::upkeep::unpin(dir, what)?, false, out)?;
    out.note(&clean(&format!("No longer pinned: {name}")));
    Ok(Exit::Done)
}

/// Prints the event, and returns the name of what it is about. `pinned` is the event's field.
fn pin_row(what: &Pinned, pinned: bool, out: &mut Out) -> Result<String, CommandFailure> {
    let (path, root) = match what {
        Pinned::Path(path) => (Some(path.to_string_lossy().into_owned()), None),
        Pinned::Root(root, _) => (None, Some(root.to_string())),
    };
    out.json(&PinnedRow { path: path.clone(), root: root.as_deref(), pinned })?;
    Ok(path.or(root).unwrap_or_default())
}

/// Event: one name that `store gc` removed.
#[derive(Serialize)]
#[serde(tag = "event", rename = "removed")]
struct RemovedRow {
    path: String,
    bytes: u64,
    dry_run: bool,
}

/// Event: `store gc` is done.
#[derive(Serialize)]
#[serde(tag = "event", rename = "collected")]
struct CollectedRow {
    parts: u64,
    partials: u64,
    fetches: u64,
    records: u64,
    leftovers: u64,
    bytes: u64,
    young: u64,
    busy: u64,
    dry_run: bool,
}

/// Event: the result of `store pin` or `store unpin`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "pinned")]
struct PinnedRow<'a> {
    path: Option<String>,
    root: Option<&'a str>,
    pinned: bool,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;
    use xylem_check::upkeep::CheckSummary;

    #[test]
    fn rows_are_documented() {
        assert_documented(&PinnedRow { path: None, root: None, pinned: false });
        assert_documented(&CollectedRow {
            parts: 1,
            partials: 1,
            fetches: 1,
            records: 1,
            leftovers: 1,
            bytes: 1,
            young: 1,
            busy: 1,
            dry_run: false,
        });
        assert_documented(&RemovedRow { path: "x".into(), bytes: 1, dry_run: false });
        assert_documented(&CheckSummary::default());
        assert_documented(&StoreTotals::default());
        assert_documented(&UnfinishedEntry {
            path: PathBuf::from("x"),
            root: xylem_hash::hash(b""),
            kind: UnfinishedKind::File,
            bytes: 1,
            written_s: 1,
        });
        let (path, what) = (PathBuf::from("x"), "x".to_owned());
        let finding = CheckFinding { kind: FindingKind::Damaged, path: path.clone(), what };
        assert_documented(&finding);
        assert_documented(&StoreEntry {
            path,
            root: xylem_hash::hash(b""),
            directory: false,
            origin: RecordOrigin::Shared,
            bytes: 1,
            standing: PathState::Unchanged,
            pinned: false,
            used_s: 1,
            ticket: None,
        });
    }
}
