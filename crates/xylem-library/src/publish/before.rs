//! [`Before`]: what was published of a directory before. A file that is still the same is not read again; its tree and
//! its list of sums are copied.

use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{FileRef, FileTime, Part, Store, StoreError};
use xylem_tree::{Geometry, NODE_LEN, SegmentSize};

use super::directory::Places;
use super::sums::{self, KeptSums};
use crate::hashing::{Takes, packed_slots};
use crate::listed::{Entries, Listed, ListedFiles};
use crate::trees;
use crate::walk::{Found, FoundKind};

/// A file that was written less than this before the listing was may have been written to after it was read, at a time
/// that the file system does not tell from the other: it is read again.
const SURE_AFTER_S: i64 = 2;
/// Bytes copied at once.
const PIECE: usize = 64 * 1024;

/// See the module's text. Asked for files in the order of their paths.
pub(super) struct Before {
    entries: Entries,
    next: Option<Listed>,
    /// Where the lists of sums are of what comes.
    places: Places,
    segment: SegmentSize,
    outboards: Option<FileRef>,
    sums: Option<KeptSums>,
    sure: FileTime,
}

impl Before {
    /// What was published under this root, with trees of this segment size; `None` if its listing is not there any more.
    pub(super) fn open(store: &Store, root: &Hash, segment: SegmentSize) -> Option<Self> {
        let kept = |part| store.object(root, part).ok().flatten();
        let listing = kept(Part::Listing)?;
        let meta = listing.metadata().ok()?;
        let listed = ListedFiles::open(listing, meta.size, root, segment).ok()?;
        let sums = kept(Part::Sums).and_then(|file| sums::len(&file));
        let mut before = Self {
            entries: listed.entries(),
            next: None,
            places: Places::of(segment),
            segment,
            outboards: kept(Part::FileOutboards),
            sums: sums.and_then(|len| KeptSums::open(store, root, (len, segment))),
            sure: FileTime { secs: meta.mtime.secs.saturating_sub(SURE_AFTER_S), ..meta.mtime },
        };
        before.next = before.entries.next().and_then(Result::ok);
        Some(before)
    }

    /// The root of a file that is what it was; its tree and list are in their new places then.
    pub(super) fn keeps(
        &mut self,
        found: &Found,
        to: (Option<u64>, Option<u64>),
        takes: Takes<'_>,
    ) -> Result<Option<Hash>, StoreError> {
        let Some((then, sums)) = self.at(&found.path) else { return Ok(None) };
        let (FoundKind::File(_), EntryKind::File { size, root }) = (&found.kind, &then.entry.kind)
        else {
            return Ok(None);
        };
        let same = found.entry(Some(*root)) == then.entry && found.meta.mtime < self.sure;
        if !same {
            return Ok(None);
        }
        let slots = packed_slots(*size, self.segment);
        if let (Some(slot), Some(new)) = (to.0, takes.outboards) {
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
        if let (Some(to), Some(new)) = (to.1, takes.sums) {
            let (Some(old), Some(from)) = (&self.sums, sums) else { return Ok(None) };
            let len = xylem_object::sums::list_len(*size, self.segment);
            if from.checked_add(len).is_none_or(|end| end > old.sums.size) {
                return Ok(None);
            }
            copy(len, new, to, |at, piece| old.read(from + at, piece).map(|()| true))?;
        }
        Ok(Some(*root))
    }

    /// What was at this path, and where its list of sums begins.
    fn at(&mut self, path: &[u8]) -> Option<(Listed, Option<u64>)> {
        while let Some(listed) = self.next.take_if(|listed| listed.entry.path.as_slice() <= path) {
            self.next = self.entries.next().and_then(Result::ok);
            let Listed { entry: Entry { path: then, kind, .. }, .. } = &listed;
            let sums = match kind {
                EntryKind::File { size, .. } => self.places.take(*size).1,
                _ => None,
            };
            if then.as_slice() == path {
                return Some((listed, sums));
            }
        }
        None
    }
}

/// Copies `len` bytes to `new`; what can't be read stays a hole.
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
    use crate::stop::Stop;
    use crate::walk::Rules;

    fn published(store: &Path, folder: &Path, known: Option<Hash>) -> Hash {
        let store = Store::open(crate::disk(), store).unwrap();
        let rules = Rules { changed: true, ..Rules::all() };
        let (how, stop) = ((SegmentSize::DEFAULT, &rules), Stop::new());
        let published = directory::publish(&store, folder, known, how, &stop, &mut |_| {});
        published.unwrap().manifest.root
    }

    fn write(path: &Path, content: &[u8], ago: u64) {
        fs::write(path, content).unwrap();
        let time = SystemTime::now() - Duration::from_secs(ago);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    /// What is known and new is what it would be without anything known, trees and lists too, wherever these lie now.
    #[test]
    fn what_has_changed_is_read_and_the_rest_copied() {
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
        // Now everything lies elsewhere, and something has gone.
        write(&folder.join("a"), &large[77..700_000], 50);
        write(&folder.join("d/small"), b"2", 50);
        fs::remove_file(folder.join("b")).unwrap();
        write(&folder.join("z"), &large[..100_000], 50);
        let second = published(&known, &folder, Some(first));
        assert_eq!(second, published(&fresh, &folder, None));
        let bytes = |store: &Path, part| {
            let store = Store::open(crate::disk(), store).unwrap();
            fs::read(store.object_path(&second, part)).unwrap()
        };
        for part in [Part::FileOutboards, Part::Sums, Part::Outboard, Part::Listing] {
            assert!(bytes(&known, part) == bytes(&fresh, part), "{part:?}");
        }
        // What nothing says of that it has changed is not read, unless it was written as it was read the last time.
        let keep = |path: &str, content: &[u8]| {
            let time = folder.join(path).metadata().unwrap().modified().unwrap();
            fs::write(folder.join(path), content).unwrap();
            let file = fs::File::options().write(true).open(folder.join(path)).unwrap();
            file.set_modified(time).unwrap();
        };
        keep("d/small", b"3");
        assert_eq!(published(&known, &folder, Some(second)), second);
        keep("just now", b"2");
        assert_ne!(published(&known, &folder, Some(second)), second);
    }
}
