//! [`judge`]: determines whether one file is as recorded, edited, missing or damaged, and where.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use xylem_files::Flaw;
use xylem_files::rescan::{InspectedFile, Inspection, Readers, inspect};
use xylem_hash::Hash;
use xylem_object::ObjectId;
use xylem_store::{
    DiskAttributes, FileKind, FileRef, FileState, FileTime, Meta, OpenHow, OutboardFile,
    RepairRecord, Store, StoreError,
};
use xylem_tree::{Geometry, NODE_LEN};

/// Tolerance for the time of a record, seconds: clocks of file systems differ, and some keep whole seconds.
const GRACE_S: u64 = 2;

/// A file to check, and its expected content.
#[derive(Debug, Clone)]
pub(super) struct ScrubItem {
    /// Its object within its publication.
    pub(super) id: ObjectId,
    /// Its path.
    pub(super) path: PathBuf,
    /// Its canonical path as bytes, the key of a repair's record.
    pub(super) key: Vec<u8>,
    /// Its expected root.
    pub(super) root: Hash,
    /// Its size and segments.
    pub(super) geometry: Geometry,
    /// First slot of its outboard; `None` for a file of one segment, which has none.
    pub(super) slot: Option<u64>,
    /// Its modification time when it was hashed; `None` if that is meaningless.
    pub(super) mtime: Option<FileTime>,
    /// How it looked then, if that was recorded.
    pub(super) seen: Option<DiskAttributes>,
    /// Without such a record: when it was recorded, seconds since 1970. A later change means that it was touched.
    pub(super) since_s: Option<u64>,
    /// Its index in the record of looks: 0 for the path itself, then entries of the listing.
    pub(super) place: u64,
    /// Its permission bits, if known.
    pub(super) mode: Option<u32>,
    /// Whether it may have become longer since.
    pub(super) grows: bool,
}

/// A file that differs from its expected content.
#[derive(Debug)]
pub(super) struct Flawed {
    pub(super) item: ScrubItem,
    /// The file and its expected content, for another check.
    pub(super) subject: InspectedFile,
    pub(super) found: Inspection,
    /// Its size now.
    pub(super) size: u64,
    /// The state that it must have after the repair.
    pub(super) state: FileState,
    /// How it looked before it was last read.
    pub(super) now: Meta,
    /// Whether an earlier repair was killed.
    pub(super) unfinished: bool,
}

/// Outcome of a check.
#[derive(Debug)]
pub(super) enum ScrubVerdict {
    /// The file is right. Contains how it looked before it was read.
    Right(Meta),
    /// There is no such file.
    Missing,
    /// The file was changed after it was hashed.
    Changed(String),
    /// Its bytes, or its tree's, are damaged.
    Flawed(Box<Flawed>),
    /// It cannot be opened.
    Failed(StoreError),
}

/// Checks one file; `None` if `took` returned false.
pub(super) fn judge(
    store: &Store,
    item: &ScrubItem,
    outboard: Option<&OutboardFile>,
    readers: &mut Readers<'_>,
    took: &(dyn Fn(u64) -> bool + Sync),
) -> Option<ScrubVerdict> {
    match try_judge(store, item, outboard, readers, took) {
        Ok(verdict) => verdict,
        Err(StoreError::NotFound { .. }) => Some(ScrubVerdict::Missing),
        Err(e) => Some(ScrubVerdict::Failed(e)),
    }
}

fn try_judge(
    store: &Store,
    item: &ScrubItem,
    outboard: Option<&OutboardFile>,
    readers: &mut Readers<'_>,
    took: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Option<ScrubVerdict>, StoreError> {
    let meta = match store.medium().metadata(&item.path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Some(ScrubVerdict::Missing)),
        // A folder above it has become something else.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Ok(Some(ScrubVerdict::Missing));
        }
        other => other.map_err(|e| StoreError::from_io("look at", &item.path, None, e))?,
    };
    if meta.kind != FileKind::File {
        return Ok(Some(ScrubVerdict::Changed("is no longer a regular file".to_owned())));
    }
    if item.grows && meta.size > item.geometry.size() {
        return judge_beginning(store, item, meta, outboard, readers, took);
    }
    let begun = store.repair_begun(&item.key)?;
    let begun = begun.filter(|r| r.root == item.root && r.state.ino == meta.ino);
    // A repair that could not set the time back recorded the time that it left.
    let is_end = |r: &RepairRecord| {
        r.segments.is_empty() && item.mtime.is_some_and(|mtime| mtime != r.state.mtime)
    };
    let (begun, left) = match begun {
        Some(record) if is_end(&record) => (None, Some(record.state.mtime)),
        begun => (begun, None),
    };
    let mtime = begun.as_ref().map(|r| r.state.mtime).or(item.mtime).unwrap_or(meta.mtime);
    // A right modification time proves that no program wrote, whatever an old record of a repair states.
    let of_other_time = ![Some(mtime), item.mtime, left].contains(&Some(meta.mtime));
    // Decay changes neither inode nor time of change, and no program can set the latter.
    let handled = left.is_none()
        && match (item.seen, item.since_s) {
            (Some(seen), _) => (seen.ino, seen.ctime) != (meta.ino, meta.ctime),
            (None, Some(since)) => {
                u64::try_from(meta.ctime.secs).is_ok_and(|at| at > since.saturating_add(GRACE_S))
            }
            (None, None) => false,
        };
    let touched = of_other_time || handled;
    let edited = touched && begun.is_none();
    let size = item.geometry.size();
    if edited && meta.size != size {
        let what = format!("was edited: it had {size} bytes, now {}", meta.size);
        return Ok(Some(ScrubVerdict::Changed(what)));
    }
    let file = FileRef::open(&**store.medium(), &item.path, OpenHow::ReadNoFollow)?;
    let outboard = outboard.cloned().and_then(|o| item.slot.map(|slot| (o, slot)));
    let subject = InspectedFile { file, outboard, geometry: item.geometry, root: item.root };
    let Some(found) = inspect(&subject, readers, took)? else { return Ok(None) };
    let bad = found.bad();
    if bad.is_empty() && meta.size == size && (!of_other_time || edited) {
        let tree = item.slot.is_some() && found.mend().next().is_some();
        let of_directory = matches!(item.id, ObjectId::File(_));
        if !tree || (of_directory && never_written(&subject, &found)) {
            if begun.is_some() {
                store.repair_ended(&item.key)?;
            }
            return Ok(Some(ScrubVerdict::Right(meta)));
        }
    } else if edited || (touched && begun.as_ref().is_some_and(|r| !r.covers(&bad))) {
        return Ok(Some(ScrubVerdict::Changed(changed(&found, &bad, of_other_time))));
    }
    Ok(Some(ScrubVerdict::Flawed(Box::new(Flawed {
        item: item.clone(),
        subject,
        found,
        size: meta.size,
        state: kept(&meta, size, mtime),
        now: meta,
        unfinished: of_other_time && begun.is_some(),
    }))))
}

/// Checks the verified part of a file that has grown since. It is not mended: the program that follows it may be
/// writing.
fn judge_beginning(
    store: &Store,
    item: &ScrubItem,
    meta: Meta,
    outboard: Option<&OutboardFile>,
    readers: &mut Readers<'_>,
    took: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Option<ScrubVerdict>, StoreError> {
    let file = FileRef::open(&**store.medium(), &item.path, OpenHow::ReadNoFollow)?;
    let outboard = outboard.cloned().and_then(|o| item.slot.map(|slot| (o, slot)));
    let subject = InspectedFile { file, outboard, geometry: item.geometry, root: item.root };
    let Some(found) = inspect(&subject, readers, took)? else { return Ok(None) };
    let bad = found.bad();
    let Some(first) = bad.first().map(|range| found.bytes_of(range)) else {
        return Ok(Some(ScrubVerdict::Right(meta)));
    };
    let what = format!(
        "has grown, and bytes {}..{} differ from what was verified; `xylem get --follow --overwrite` fetches it again",
        first.start, first.end
    );
    Ok(Some(ScrubVerdict::Changed(what)))
}

fn kept(meta: &Meta, size: u64, mtime: FileTime) -> FileState {
    FileState { size, mtime, ..FileState::of(meta) }
}

fn changed(found: &Inspection, bad: &[Range<u64>], of_other_time: bool) -> String {
    let first = bad.first().map_or(0..0, |r| found.bytes_of(r));
    let more = match bad.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more places", n - 1),
    };
    let (start, end) = (first.start, first.end);
    match of_other_time {
        true => format!("was edited: its time differs, and so do bytes {start}..{end}{more}"),
        false => format!(
            "was written to, and its time was set back: bytes {start}..{end}{more} differ; move it away to have it fetched"
        ),
    }
}

/// Returns whether no part of the file's tree was ever written: a fetch may leave such holes.
fn never_written(subject: &InspectedFile, found: &Inspection) -> bool {
    let Some((outboard, base)) = &subject.outboard else { return false };
    let slots = subject.geometry.slots();
    let mended: usize = found.mend().map(|(_, nodes)| nodes.len() / NODE_LEN).sum();
    if (mended as u64) < slots {
        return false;
    }
    let (mut buffer, mut at) = (vec![0; 64 * 1024], base * NODE_LEN as u64);
    let end = at + slots * NODE_LEN as u64;
    while at < end {
        let len = (end - at).min(buffer.len() as u64) as usize;
        match outboard.file().read_full(&mut buffer[..len], at) {
            Ok(0) => return true,
            Ok(got) if buffer[..got].iter().all(|b| *b == 0) => at += got as u64,
            _ => return false,
        }
    }
    true
}

impl Flawed {
    /// Returns the bad places in bytes, ascending, each with its flaw.
    pub(super) fn places(&self) -> Vec<(Range<u64>, Flaw)> {
        let (unreadable, unproven) = (self.found.unreadable(), self.found.unproven());
        let mut places = Vec::new();
        for bad in self.found.bad() {
            let mut at = bad.start;
            while at < bad.end {
                let (end, flaw) = stretch(at, bad.end, &unreadable, &unproven);
                places.push((self.found.bytes_of(&(at..end)), flaw));
                at = end;
            }
        }
        let should = self.item.geometry.size();
        if self.size > should {
            places.push((should..self.size, Flaw::Longer));
        }
        places
    }

    /// Returns the number of wrong nodes in its tree on disk.
    pub(super) fn wrong_nodes(&self) -> u64 {
        if self.item.slot.is_none() {
            return 0;
        }
        self.found.mend().map(|(_, nodes)| (nodes.len() / NODE_LEN) as u64).sum()
    }
}

/// Returns how far from `at` on all segments have the same flaw, and that flaw.
fn stretch(at: u64, end: u64, unreadable: &[Range<u64>], unproven: &[Range<u64>]) -> (u64, Flaw) {
    let (lost, lost_end) = reach(unreadable, at, end);
    if lost {
        return (lost_end, Flaw::Unreadable);
    }
    let (unknown, unknown_end) = reach(unproven, at, end);
    (lost_end.min(unknown_end), if unknown { Flaw::Unproven } else { Flaw::Damaged })
}

/// Returns whether `at` is in one of the ranges, and where that changes.
fn reach(ranges: &[Range<u64>], at: u64, end: u64) -> (bool, u64) {
    let next = ranges.partition_point(|r| r.end <= at);
    match ranges.get(next) {
        Some(r) if r.start <= at => (true, r.end.min(end)),
        Some(r) => (false, r.start.min(end)),
        None => (false, end),
    }
}
