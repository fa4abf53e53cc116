//! [`AsShared`]: compares a path as it was shared with what is there now.
//!
//! The former state comes from the store: the path's record and, for a directory, its listing. The present state comes
//! from the disk's names, sizes and times. No content is read: bytes that changed under the same size and time are
//! found by verification.

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{disk, os_bytes, os_path};
use xylem_files::record::PathRecord;
use xylem_files::{ListedError, ListedFiles};
use xylem_object::listing::EntryKind;
use xylem_store::{FileKind, FileState, FileTime, Meta, ObjectPart, Store, StoreError};
use xylem_tree::SegmentSize;

/// State of a path when it was shared.
#[derive(Clone, Debug)]
pub struct AsShared {
    path: PathBuf,
    state: FileState,
    /// A directory's listing.
    listing: Option<ListedFiles>,
    /// Patterns that were excluded, as lines of a `.gitignore`.
    excluded: Vec<String>,
}

/// Present state of a shared path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NowThere {
    /// Unchanged.
    Same,
    /// A part was edited, removed or is unreadable; one line.
    Changed(String),
    /// There is nothing at the path.
    Nothing,
}

impl AsShared {
    /// Recalls what has just been shared at the canonical `path`; `None` if the store has no record of it.
    ///
    /// # Errors
    /// The store cannot be read, or the directory's listing in it is damaged or missing.
    pub fn recall(store: &Path, path: &Path) -> Result<Option<Self>, ListedError> {
        let store = Store::open_existing(disk(), store)?;
        let Some(record) = PathRecord::recall(&store, &os_bytes(path.as_os_str())) else {
            return Ok(None);
        };
        let listing = match store.medium().metadata(path) {
            Ok(meta) if meta.kind == FileKind::Directory => {
                // Without the listing all files would count as unchanged.
                let missing = || StoreError::NotFound {
                    path: store.object_path(&record.root, ObjectPart::Listing),
                };
                Some(store.object(&record.root, ObjectPart::Listing)?.ok_or_else(missing)?)
            }
            _ => None,
        };
        let listing = listing.map(|file| {
            let size = file.metadata()?.size;
            ListedFiles::open(file, size, &record.root, SegmentSize::DEFAULT)
        });
        let (listing, excluded) = (listing.transpose()?, record.note.excluded);
        Ok(Some(Self { path: path.to_path_buf(), state: record.state, listing, excluded }))
    }

    /// Returns the patterns excluded from the directory, as lines of a `.gitignore`.
    #[must_use]
    pub fn excluded(&self) -> &[String] {
        &self.excluded
    }

    /// Returns how many names [`AsShared::now`] checks.
    #[must_use]
    pub fn names(&self) -> u64 {
        self.listing.as_ref().map_or(1, |listed| listed.totals().entries)
    }

    /// Returns the present state: the first difference found.
    #[must_use]
    pub fn now(&self) -> NowThere {
        let meta = match disk().metadata(&self.path) {
            Ok(meta) => meta,
            Err(e) if is_missing(&e) => return NowThere::Nothing,
            Err(e) => return changed(&self.path, &e.to_string()),
        };
        let Some(listing) = &self.listing else {
            let what = self.state.difference(&FileState::of(&meta));
            return what.map_or(NowThere::Same, |what| changed(&self.path, &what.to_string()));
        };
        if meta.kind != FileKind::Directory {
            return changed(&self.path, "it is no longer a directory");
        }
        for listed in listing.entries() {
            let entry = match listed {
                Ok(listed) => listed.entry,
                Err(e) => return NowThere::Changed(e.to_string()),
            };
            let path = self.path.join(os_path(&entry.path));
            let at = match disk().metadata(&path) {
                Ok(at) => at,
                Err(e) if is_missing(&e) => return changed(&path, "it was removed"),
                Err(e) => return changed(&path, &e.to_string()),
            };
            let then = FileTime { secs: entry.mtime_s, nanos: entry.mtime_ns };
            if let EntryKind::File { size, .. } = entry.kind
                && (at.kind != FileKind::File || at.size != size || !same_time(then, &at))
            {
                return changed(&path, "it was edited");
            }
        }
        NowThere::Same
    }
}

/// Compares times with tolerance: fetched files have their publisher's times, and some file systems keep whole seconds,
/// or every second one.
fn same_time(then: FileTime, now: &Meta) -> bool {
    then == now.mtime || (now.mtime.nanos == 0 && then.secs.abs_diff(now.mtime.secs) <= 1)
}

fn changed(path: &Path, what: &str) -> NowThere {
    NowThere::Changed(format!("{}: {what}", path.display()))
}

fn is_missing(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use xylem_packet::Name;

    use super::*;
    use xylem_base::canonical;
    use xylem_base::{Stop, UnixTime};
    use xylem_files::walk::Selection;

    fn shared(store: &Path, path: &Path) -> AsShared {
        let opened = Store::open(disk(), store).unwrap();
        let (name, now) = (Name::from_uri("/x").unwrap(), UnixTime::new(Duration::from_secs(1)));
        let (stop, selection) = (Stop::new(), Selection::default());
        let name = &|_: &[u8]| name.clone();
        crate::publish(&opened, path, name, &selection, now, &stop, &mut |_| {}).unwrap();
        AsShared::recall(store, path).unwrap().unwrap()
    }

    #[test]
    fn edits_and_removals_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (store, at) = (dir.path().join("store"), canonical(dir.path()).unwrap());
        let (file, folder) = (at.join("file"), at.join("folder"));
        fs::create_dir_all(folder.join("d")).unwrap();
        fs::write(&file, "one").unwrap();
        fs::write(folder.join("d/a"), "two").unwrap();
        let (one, many) = (shared(&store, &file), shared(&store, &folder));
        assert_eq!((one.now(), many.now()), (NowThere::Same, NowThere::Same));
        assert_eq!((one.names(), many.names()), (1, 2));
        // A new file beside the shared ones is no change.
        fs::write(folder.join("new"), "").unwrap();
        assert_eq!(many.now(), NowThere::Same);
        let past = SystemTime::now() - Duration::from_secs(100);
        for path in [&file, &folder.join("d/a")] {
            let time = path.metadata().unwrap().modified().unwrap();
            let touch = |time| {
                fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            };
            touch(past);
            let said = |now| match now {
                NowThere::Changed(what) => what,
                other => panic!("{other:?}"),
            };
            let what = if *path == file { said(one.now()) } else { said(many.now()) };
            assert!(what.contains(path.to_str().unwrap()), "{what}");
            touch(time);
            assert_eq!(many.now(), NowThere::Same);
        }
        fs::remove_file(folder.join("d/a")).unwrap();
        assert!(matches!(many.now(), NowThere::Changed(what) if what.contains("removed")));
        fs::remove_file(&file).unwrap();
        assert_eq!(one.now(), NowThere::Nothing);
        for entry in fs::read_dir(store.join("objects")).unwrap().map(Result::unwrap) {
            if entry.path().extension().is_some_and(|kind| kind == "listing") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        AsShared::recall(&store, &folder).expect_err("no listing to compare the files with");
    }
}
