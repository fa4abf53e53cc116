//! [`LastPublication`]: the last publication of a directory. An unchanged file is not read again; its tree and its list
//! of sums are copied.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use xylem_base::os_bytes;
use xylem_files::hashing::{HashOutputs, packed_slots};
use xylem_files::sums::{self, KeptSums};
use xylem_files::walk::{FoundKind, WalkEntry};
use xylem_files::{Listed, ListedEntries, ListedFiles, trees};
use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{
    DiskAttributes, DiskAttributesReader, FileRef, FileTime, Meta, ObjectPart, Store, StoreError,
};
use xylem_tree::{Geometry, NODE_LEN, SegmentSize};

use super::directory::TreePlaces;

/// Bytes copied at once.
const PIECE: usize = 64 * 1024;

/// The last publication; see the module's text. Queries must be in the order of paths.
pub(super) struct LastPublication {
    entries: ListedEntries,
    next: Option<Listed>,
    /// Where the lists of sums of the next entries are.
    places: TreePlaces,
    segment: SegmentSize,
    outboards: Option<FileRef>,
    sums: Option<KeptSums>,
    untouched: ChangeDetector,
    /// All content is read; only listed modes and times are reused.
    only_lists: bool,
}

impl LastPublication {
    /// Opens the publication of this root, with trees of this segment size; `None` if its listing is gone.
    pub(super) fn open(
        store: &Store,
        path: &Path,
        root: &Hash,
        segment: SegmentSize,
    ) -> Option<Self> {
        let kept = |part| store.object(root, part).ok().flatten();
        let listing = kept(ObjectPart::Listing)?;
        let meta = listing.metadata().ok()?;
        let listed = ListedFiles::open(listing, meta.size, root, segment).ok()?;
        let sums = kept(ObjectPart::Sums).and_then(|file| sums::len(&file));
        let mut before = Self {
            entries: listed.entries(),
            next: None,
            places: TreePlaces::of(segment),
            segment,
            outboards: kept(ObjectPart::FileOutboards),
            sums: sums.and_then(|len| KeptSums::open(store, root, len, segment)),
            untouched: ChangeDetector::open(store, path, root, meta.mtime),
            only_lists: false,
        };
        before.next = before.entries.next().and_then(Result::ok);
        Some(before)
    }

    /// Makes all content be read.
    pub(super) fn only_lists(self) -> Self {
        Self { only_lists: true, ..self }
    }

    /// Returns the root of an unchanged file, and copies its tree and list to their new places. Sets mode and time of
    /// an untouched entry to those listed.
    pub(super) fn reuse(
        &mut self,
        found: &mut WalkEntry,
        slot: Option<u64>,
        sums_at: Option<u64>,
        takes: HashOutputs<'_>,
    ) -> Result<Option<Hash>, StoreError> {
        let Some((then, sums, seen)) = self.at(&found.path) else { return Ok(None) };
        keep_listed_attributes(found, &then.entry, seen.as_ref());
        if self.only_lists {
            return Ok(None);
        }
        let (FoundKind::File(_), EntryKind::File { size, root }) = (&found.kind, &then.entry.kind)
        else {
            return Ok(None);
        };
        let is_sure = self.untouched.is_sure(&found.meta, seen.as_ref());
        if found.entry(Some(*root)) != then.entry || !is_sure {
            return Ok(None);
        }
        let slots = packed_slots(*size, self.segment);
        if let (Some(slot), Some(new)) = (slot, takes.outboards) {
            let Some(old) = &self.outboards else { return Ok(None) };
            let segments = Geometry::new(*size, self.segment).segments();
            if !trees::is_whole_at(old, then.slot, segments, root)? {
                return Ok(None);
            }
            let (from, to) = (then.slot * NODE_LEN as u64, slot * NODE_LEN as u64);
            copy(slots * NODE_LEN as u64, new.file(), to, |at, piece| {
                Ok(old.read_full(piece, from + at)? == piece.len())
            })?;
        }
        if let (Some(to), Some(new)) = (sums_at, takes.sums) {
            let (Some(old), Some(from)) = (&self.sums, sums) else { return Ok(None) };
            let len = xylem_object::sums::list_len(*size, self.segment);
            if from.checked_add(len).is_none_or(|end| end > old.sums.size) {
                return Ok(None);
            }
            copy(len, new, to, |at, piece| old.read(from + at, piece).map(|()| true))?;
        }
        Ok(Some(*root))
    }

    /// Returns the former entry at this path, the offset of its list of sums, and how it looked on disk.
    fn at(&mut self, path: &[u8]) -> Option<(Listed, Option<u64>, Option<DiskAttributes>)> {
        while let Some(listed) = self.next.take_if(|listed| listed.entry.path.as_slice() <= path) {
            self.next = self.entries.next().and_then(Result::ok);
            let seen = self.untouched.next();
            let Listed { entry: Entry { path: then, kind, .. }, .. } = &listed;
            let sums = match kind {
                EntryKind::File { size, .. } => self.places.take(*size).1,
                _ => None,
            };
            if then.as_slice() == path {
                return Some((listed, sums, seen));
            }
        }
        None
    }
}

/// Detects files that are unchanged since they were hashed.
pub(super) struct ChangeDetector {
    /// How the listed entries looked on disk then, in order; `None`: recorded by an older program without this.
    seen: Option<DiskAttributesReader>,
    /// How the file or directory itself looked.
    itself: Option<DiskAttributes>,
    /// When that was recorded; without a record, when the listing was written.
    since: FileTime,
}

/// Returns how files of a directory published under this root looked on disk, by path; files without a record are left
/// out.
#[must_use]
pub fn recorded_looks(
    store: &Store,
    directory: &Path,
    root: &Hash,
    wanted: &BTreeSet<&[u8]>,
) -> HashMap<Vec<u8>, DiskAttributes> {
    let mut looks = HashMap::new();
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let Some(mut before) = LastPublication::open(store, &directory, root, SegmentSize::DEFAULT)
    else {
        return looks;
    };
    for path in wanted {
        if let Some((_, _, Some(seen))) = before.at(path) {
            looks.insert(path.to_vec(), seen);
        }
    }
    looks
}

/// Changes closer together than this may have the same time: the tick of the clock that file systems use, and the
/// resolution of file systems with whole seconds (FAT: two seconds).
const TICK_NS: i128 = 20_000_000;
const WHOLE_SECONDS_NS: i128 = 2_000_000_000;

impl ChangeDetector {
    /// Opens the record of `path` under this root. `listed`: when its listing, or the record of a file, was written.
    pub(super) fn open(store: &Store, path: &Path, root: &Hash, listed: FileTime) -> Self {
        // An unreadable record counts as missing: more files are read then.
        let mut seen = store.seen(&os_bytes(path.as_os_str()), root).ok().flatten();
        let since = seen.as_ref().map_or(listed, DiskAttributesReader::written);
        let itself = seen.as_mut().and_then(Iterator::next);
        Self { seen, itself, since }
    }

    /// Returns how the file or directory itself looked.
    pub(super) fn of_itself(&self) -> Option<DiskAttributes> {
        self.itself
    }

    /// Returns whether there is a record of how files looked.
    pub(super) fn is_noted(&self) -> bool {
        self.seen.is_some()
    }

    /// Returns how the next entry looked.
    pub(super) fn next(&mut self) -> Option<DiskAttributes> {
        self.seen.as_mut()?.next()
    }

    /// Returns whether a file that now looks like this is the hashed one, as far as the file system can show.
    pub(super) fn is_sure(&self, now: &Meta, seen: Option<&DiskAttributes>) -> bool {
        let last = if now.ctime == FileTime::default() { now.mtime } else { now.ctime };
        let exact = last.nanos != 0 && self.is_noted();
        let unsure = if exact { TICK_NS } else { WHOLE_SECONDS_NS };
        // Virtual files have no times; their inode numbers are hashes of their content.
        let is_old = last == FileTime::default() || nanos(last) + unsure < nanos(self.since);
        let as_it_was = match (&self.seen, seen) {
            (Some(_), Some(seen)) => seen.is_unchanged(now),
            (Some(_), None) => false,
            (None, _) => true,
        };
        as_it_was && is_old
    }
}

fn nanos(time: FileTime) -> i128 {
    i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos)
}

/// Keeps the listed mode and time of an entry that looks as it did, whatever its disk can store of them.
pub(super) fn keep_listed_attributes(
    found: &mut WalkEntry,
    then: &Entry,
    seen: Option<&DiskAttributes>,
) {
    let Some(seen) = seen else { return };
    // Listed modes and times of links are not reused: a hard link may have become a file of its own after the first
    // name was removed.
    if matches!(then.kind, EntryKind::HardLink { .. } | EntryKind::Symlink { .. }) {
        return;
    }
    let (mode, mtime) = &mut found.listed;
    if seen.mode == found.meta.mode {
        *mode = then.mode;
    }
    if seen.mtime == found.meta.mtime {
        *mtime = FileTime { secs: then.mtime_s, nanos: then.mtime_ns };
    }
}

/// Copies `len` bytes to `new`; an unreadable part stays a hole.
fn copy(
    len: u64,
    new: &FileRef,
    to: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let (mut buffer, mut at) = (vec![0; len.min(PIECE as u64) as usize], 0);
    while at < len {
        let piece = &mut buffer[..(len - at).min(PIECE as u64) as usize];
        if !read(at, piece)? {
            return Ok(());
        }
        new.write_all(piece, to + at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::publish::directory;
    use xylem_base::Stop;
    use xylem_files::walk::{DirectoryWalk, WalkRules};

    fn published(store: &Path, folder: &Path, known: Option<Hash>) -> Hash {
        publish(store, folder, known, true)
    }

    fn publish(store: &Path, folder: &Path, known: Option<Hash>, changed: bool) -> Hash {
        let store = Store::open(xylem_base::disk(), store).unwrap();
        let rules = WalkRules { changed, ..WalkRules::all() };
        let (segment, stop) = (SegmentSize::DEFAULT, Stop::new());
        let published =
            directory::publish(&store, folder, known, segment, &rules, &stop, &mut |_| {});
        published.unwrap().manifest.root
    }

    fn write(path: &Path, content: &[u8], ago: u64) {
        fs::write(path, content).unwrap();
        let time = SystemTime::now() - Duration::from_secs(ago);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    /// Publishing with earlier knowledge gives the same listing, trees and lists as without, even after files moved.
    #[test]
    fn changed_files_are_read_and_the_rest_copied() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join("d")).unwrap();
        let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        write(&folder.join("b"), &large, 100);
        write(&folder.join("d/c"), &large[5_000..900_000], 100);
        write(&folder.join("d/small"), b"1", 100);
        write(&folder.join("just now"), b"1", 1);
        let (known, fresh) = (dir.path().join("known"), dir.path().join("fresh"));
        let first = published(&known, &folder, None);
        // Now all files lie elsewhere, and one is gone.
        write(&folder.join("a"), &large[77..700_000], 50);
        write(&folder.join("d/small"), b"2", 50);
        fs::remove_file(folder.join("b")).unwrap();
        write(&folder.join("z"), &large[..100_000], 50);
        let second = published(&known, &folder, Some(first));
        assert_eq!(second, published(&fresh, &folder, None));
        let bytes = |store: &Path, part| {
            let store = Store::open(xylem_base::disk(), store).unwrap();
            fs::read(store.object_path(&second, part)).unwrap()
        };
        for part in
            [ObjectPart::FileOutboards, ObjectPart::Sums, ObjectPart::Outboard, ObjectPart::Listing]
        {
            assert!(bytes(&known, part) == bytes(&fresh, part), "{part:?}");
        }
        // The bytes differ at the same size and time: written in place, and in another file that takes the name.
        let keep = |path: &str, content: &[u8]| {
            let time = folder.join(path).metadata().unwrap().modified().unwrap();
            fs::write(folder.join(path), content).unwrap();
            let file = fs::File::options().write(true).open(folder.join(path)).unwrap();
            file.set_modified(time).unwrap();
        };
        for changed in [true, false] {
            keep("d/small", b"3");
            let third = publish(&known, &folder, Some(second), changed);
            assert_eq!(third, published(&fresh, &folder, None));
            let time = folder.join("d/small").metadata().unwrap().modified().unwrap();
            fs::write(folder.join("new"), b"4").unwrap();
            let new = fs::File::options().write(true).open(folder.join("new")).unwrap();
            new.set_modified(time).unwrap();
            fs::rename(folder.join("new"), folder.join("d/small")).unwrap();
            assert_eq!(
                publish(&known, &folder, Some(third), changed),
                publish(&fresh, &folder, None, changed)
            );
            keep("d/small", b"2");
            assert_eq!(
                publish(&known, &folder, Some(third), changed),
                publish(&fresh, &folder, None, changed)
            );
        }
    }

    /// Files that are certainly unchanged are not read.
    #[test]
    fn untouched_files_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, known) = (dir.path().join("folder"), dir.path().join("known"));
        fs::create_dir(&folder).unwrap();
        write(&folder.join("a"), b"1", 100);
        write(&folder.join("b"), b"1", 100);
        // Keeps the times of the files apart from the time of the record.
        std::thread::sleep(Duration::from_millis(60));
        let first = published(&known, &folder, None);
        let store = Store::open(xylem_base::disk(), &known).unwrap();
        let rules = WalkRules::all();
        let read = || {
            let segment = SegmentSize::DEFAULT;
            let same =
                directory::unchanged(&store, &folder, first, segment, &rules, &mut |_| {}).unwrap();
            let mut before = LastPublication::open(&store, &folder, &first, segment).unwrap();
            let mut walk =
                DirectoryWalk::new(&**store.medium(), &folder, WalkRules::all(), &mut |_| {})
                    .unwrap();
            let (takes, mut read) = (HashOutputs::default(), 0);
            while let Some(mut found) = walk.next(&mut |_| {}).unwrap() {
                let kept = before.reuse(&mut found, None, None, takes).unwrap();
                read += u32::from(kept.is_none());
            }
            assert_eq!(same.is_some(), read == 0);
            read
        };
        assert_eq!(read(), 0);
        // Setting the same mode again changes the time: that file is read, and no other.
        let file = fs::File::open(folder.join("a")).unwrap();
        file.set_permissions(file.metadata().unwrap().permissions()).unwrap();
        assert_eq!(read(), u32::from(cfg!(unix)));
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(published(&known, &folder, Some(first)), first);
        assert_eq!(read(), 0);
    }
}
