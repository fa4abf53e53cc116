//! [`publish`]: hashes the content of a path for serving; the content is read in place.

mod before;
mod directory;
mod error;
mod members;
mod onward;
mod sealed;
mod serving;

use std::path::Path;

use xylem_base::{Stop, UnixTime, os_bytes};
use xylem_files::hashing::{self, HashJob, HashOutputs, packed_slots};
use xylem_files::record::{self, PathRecord, RecordNote};
use xylem_files::sums::{KeptSums, NewSums};
use xylem_files::walk::{Selection, WalkRules};
use xylem_files::{LibraryEvent, ours};
use xylem_hash::Hash;
use xylem_object::sums::list_len;
use xylem_object::{Manifest, naming};
use xylem_packet::Name;
use xylem_store::{
    DiskAttributes, FileKind, FileRef, FileState, FileTime, Medium, Meta, ObjectPart, OutboardFile,
    SharedFile, Store, StoreError,
};
use xylem_tree::{NODE_LEN, SegmentSize};

use before::{ChangeDetector, LastPublication};
use members::ServedFile;
use serving::SharedFiles;

pub use before::recorded_looks;
pub use error::PublishError;
pub use onward::{Onward, onward, signed_at};
pub use sealed::{Recipients, Sealing, publish_sealed};
pub use serving::{Published, Serving};

/// Hashes the file or directory at the canonical `path`, or takes the result of an earlier run if nothing has changed
/// since. `name` returns the object name for the last component of the path, and `now` gives its version. `asked`
/// selects the parts of a directory, and the selection is recorded.
///
/// Also returns the versioned prefix.
///
/// # Errors
/// See [`PublishError`].
pub fn publish(
    store: &Store,
    path: &Path,
    name: &dyn Fn(&[u8]) -> Name,
    asked: &Selection,
    now: UnixTime,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<(Published, Name), PublishError> {
    let at = |e| StoreError::from_io("share", path, None, e);
    let key = os_bytes(path.as_os_str());
    let file_name = os_bytes(path.file_name().unwrap_or_default());
    let object = name(&file_name);
    let meta = store.medium().metadata(path).map_err(at)?;
    let record = PathRecord::recall(store, &key);
    let known = record.as_ref();
    let exclude = excluded(asked, known, on_event);
    let published = match meta.kind {
        FileKind::File => {
            ours::require_outside_but(&**store.medium(), path, asked.for_members)?;
            let segment = SegmentSize::DEFAULT;
            let mut file = publish_file(store, path, &meta, known, segment, stop, on_event)?;
            file.manifest.file_name = file_name;
            file
        }
        FileKind::Directory => {
            // The patterns of the last share are in force, unless others are requested.
            if asked.exclude.is_none() && PathRecord::is_note_lost(store, &key)? {
                return Err(PublishError::ExclusionsLost(path.to_path_buf()));
            }
            let rules = WalkRules::new(asked, &exclude)?;
            let (known, segment) = (known.map(|r| r.root), SegmentSize::DEFAULT);
            let mut published =
                directory::publish(store, path, known, segment, &rules, stop, on_event)?;
            describe(&mut published.manifest, &meta);
            published.manifest.file_name = file_name;
            published
        }
        _ => return Err(PublishError::Kind(path.to_path_buf())),
    };
    // The same bytes under the same name keep their version, so that tickets stay valid.
    let root = published.manifest.root;
    let before = known.and_then(|r| Some((r.root, r.note.version?)));
    let version = next_version(before, root, now, on_event);
    let state = FileState::of(&meta);
    let note = RecordNote::of_version(version, exclude);
    record::shared(store, &key, &published.manifest, state, note, known, now)?;
    match naming::versioned(object.as_ref(), version) {
        Ok(prefix) => Ok((published, prefix)),
        Err(source) => Err(PublishError::Name { name: object, source }),
    }
}

/// Returns the version for the content of `root`: that of `before` if the root is the same, otherwise the time, or one
/// more than `before` if that is greater. A clock that was set back thus makes no older version.
fn next_version(
    before: Option<(Hash, u64)>,
    root: Hash,
    now: UnixTime,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> u64 {
    let now = now.microseconds();
    match before {
        Some((same, version)) if same == root => version,
        Some((_, version)) if version == now => version.saturating_add(1),
        Some((_, version)) if version > now => {
            let what = "the clock shows an earlier time than at the last share; the new version is the last one plus 1, as \
                        versions must increase";
            on_event(LibraryEvent::Warning { what: what.to_owned() });
            version.saturating_add(1)
        }
        _ => now,
    }
}

/// Returns the patterns excluded this time.
fn excluded(
    asked: &Selection,
    known: Option<&PathRecord>,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Vec<String> {
    if let Some(exclude) = &asked.exclude {
        return exclude.clone();
    }
    let before = left_out_before(known);
    if !before.is_empty() {
        let patterns = before.join(", ");
        let what = format!(
            "paths that match {patterns} are left out, as last time; --no-exclude shares all"
        );
        on_event(LibraryEvent::Warning { what });
    }
    before
}

/// Returns the patterns of the last share from here. The patterns of a fetch do not count.
fn left_out_before(known: Option<&PathRecord>) -> Vec<String> {
    // Only shared content has a version.
    let shared = known.filter(|record| record.note.version.is_some());
    shared.map(|record| record.note.excluded.clone()).unwrap_or_default()
}

/// Returns whether the content of this root was fetched: a signed manifest is stored then.
fn was_fetched(store: &Store, root: &Hash) -> bool {
    store.object(root, ObjectPart::Manifest).is_ok_and(|kept| kept.is_some())
}

/// Returns the rules of the last share from here.
///
/// # Errors
/// A recorded pattern is not valid.
pub fn rules_before(known: Option<&PathRecord>) -> Result<WalkRules, PublishError> {
    Ok(WalkRules::new(&Selection::default(), &left_out_before(known))?)
}

fn publish_file(
    store: &Store,
    path: &Path,
    meta: &Meta,
    record: Option<&PathRecord>,
    segment: SegmentSize,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Published, PublishError> {
    let state = FileState::of(meta);
    let slots = packed_slots(state.size, segment);
    let small = slots == 0;
    let known = record.filter(|r| is_untouched(store, path, meta, r)).map(|r| r.root);
    let outboard = known.and_then(|root| store.object(&root, ObjectPart::Outboard).ok().flatten());
    // The outboard of a fetch may have another segment size.
    let fits = |o: &FileRef| o.metadata().is_ok_and(|m| m.size == slots * NODE_LEN as u64);
    let outboard = outboard.filter(fits);
    let list_len = list_len(state.size, segment);
    let open = |root| KeptSums::open(store, &root, list_len, segment);
    let sums = known.filter(|_| list_len > 0).and_then(open);
    let (root, outboard, sums) = match (known, outboard) {
        // Content that was shared without a list is hashed once more. Fetched content is served without one.
        (Some(root), outboard)
            if (small || outboard.is_some())
                && (list_len == 0 || sums.is_some() || was_fetched(store, &root)) =>
        {
            (root, outboard, sums)
        }
        _ => {
            let new = store.new_file()?;
            let list = (list_len > 0).then(|| NewSums::new(store)).transpose()?;
            let (slot, at) = ((!small).then_some(0), list.as_ref().map(|_| 0));
            let job = HashJob { path: path.to_path_buf(), state, slot, segment, sums: at };
            let outboard = OutboardFile::new(new.file().clone());
            let takes =
                HashOutputs { outboards: Some(&outboard), sums: list.as_ref().map(NewSums::file) };
            let root = hashing::hash_all(&**store.medium(), &[job], takes, stop, on_event)?[0];
            record::record_looks(store, path, &root, std::iter::once(DiskAttributes::of(meta)))?;
            let kept =
                if small { None } else { Some(store.keep(new, &root, ObjectPart::Outboard)?) };
            let list = list.map(|list| list.keep(store, &root, list_len, segment)).transpose()?;
            (root, kept, list.flatten())
        }
    };
    let mut manifest = Manifest::file(root, state.size, b"");
    manifest.sums = sums.as_ref().map(|kept| kept.sums);
    describe(&mut manifest, meta);
    let file = SharedFile { path: path.to_path_buf(), state, ctime: meta.ctime };
    let files = SharedFiles::One(ServedFile { file, root, slot: 0 });
    let outboards = outboard.map(OutboardFile::new);
    Ok(Published { manifest, files, listing: None, outboards, sums })
}

/// Returns whether a file is unchanged since the record. Older programs did not record how it looked on disk: such a
/// file must not have been changed since its last use.
fn is_untouched(store: &Store, path: &Path, now: &Meta, record: &PathRecord) -> bool {
    let since = FileTime { secs: i64::try_from(record.used_s).unwrap_or(i64::MAX), nanos: 0 };
    let untouched = ChangeDetector::open(store, path, &record.root, since);
    record.state == FileState::of(now) && untouched.is_sure(now, untouched.of_itself().as_ref())
}

/// Sets a manifest's fields from the metadata of a file or directory.
fn describe(manifest: &mut Manifest, meta: &Meta) {
    manifest.mode = meta.mode & 0o777;
    (manifest.mtime_s, manifest.mtime_ns) = (meta.mtime.secs, meta.mtime.nanos);
}

/// Hashes `path` without earlier knowledge and stores its trees, as [`publish`] would; returns its root.
///
/// # Errors
/// See [`PublishError`].
pub fn rebuild(
    store: &Store,
    path: &Path,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Hash, PublishError> {
    let at = |e| StoreError::from_io("read", path, None, e);
    let meta = store.medium().metadata(path).map_err(at)?;
    let published = match meta.kind {
        FileKind::Directory => {
            let known = PathRecord::recall(store, &os_bytes(path.as_os_str()));
            let rules = rules_before(known.as_ref())?;
            directory::publish(store, path, None, SegmentSize::DEFAULT, &rules, stop, on_event)?
        }
        _ => publish_file(store, path, &meta, None, SegmentSize::DEFAULT, stop, on_event)?,
    };
    Ok(published.manifest.root)
}

/// Like [`root_of`], for content that may be `root`, fetched or shared here. Modes and times that the disk cannot store
/// are taken as published, unless they were changed since. All content is read.
///
/// # Errors
/// See [`PublishError`].
pub fn root_as(
    store: &Store,
    path: &Path,
    root: &Hash,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Hash, PublishError> {
    let medium = &**store.medium();
    let at = |e| StoreError::from_io("read", path, None, e);
    if medium.metadata(path).map_err(at)?.kind != FileKind::Directory {
        return root_of(medium, path, stop, on_event);
    }
    let before = LastPublication::open(store, path, root, SegmentSize::DEFAULT)
        .map(LastPublication::only_lists);
    directory::root_of(medium, path, before, stop, on_event)
}

/// Returns the root that publishing the canonical `path` would give; stores nothing.
///
/// # Errors
/// See [`PublishError`].
pub fn root_of(
    medium: &dyn Medium,
    path: &Path,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Hash, PublishError> {
    let at = |e| StoreError::from_io("read", path, None, e);
    if medium.metadata(path).map_err(at)?.kind == FileKind::Directory {
        return directory::root_of(medium, path, None, stop, on_event);
    }
    let (state, segment) = (hashing::state_of(medium, path)?, SegmentSize::DEFAULT);
    let job = HashJob { path: path.to_path_buf(), state, slot: None, segment, sums: None };
    Ok(hashing::hash_all(medium, &[job], HashOutputs::default(), stop, on_event)?[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_clock_set_back_makes_no_older_version() {
        let now = UnixTime::new(Duration::from_secs(1_800_000_000));
        let (a, b) = (xylem_hash::hash(b"a"), xylem_hash::hash(b"b"));
        let us = now.microseconds();
        let day = 86_400_000_000;
        for (before, version, told) in [
            (None, us, 0),
            (Some((a, us - day)), us - day, 0),
            (Some((b, us - day)), us, 0),
            (Some((b, us)), us + 1, 0),
            (Some((b, us + day)), us + day + 1, 1),
            (Some((b, u64::MAX)), u64::MAX, 1),
        ] {
            let mut warned = 0;
            let made = next_version(before, a, now, &mut |_| warned += 1);
            assert_eq!((made, warned), (version, told));
        }
    }
}
