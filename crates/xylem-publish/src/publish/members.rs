//! [`Members`]: the files of a shared directory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use xylem_base::os_path;
use xylem_files::ListedFiles;
use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{FileState, FileTime, Meta, SharedFile, StoreError};

const NANOS: i64 = 1_000_000_000;

/// A served file.
#[derive(Clone)]
pub(super) struct ServedFile {
    pub(super) file: SharedFile,
    pub(super) root: Hash,
    pub(super) slot: u64,
}

/// The files of a shared directory, found through its listing.
pub(super) struct Members {
    root: PathBuf,
    pub(super) listed: ListedFiles,
    marks: FileMarks,
}

/// Metadata of files beside their listing, by file number.
#[derive(Default)]
pub(super) struct FileMarks {
    files: Vec<FileMark>,
    /// Times on disk that differ from the listed ones.
    times: HashMap<u64, FileTime>,
}

impl FileMarks {
    /// Adds the next file with this metadata, listed as `entry`.
    pub(super) fn push(&mut self, meta: &Meta, entry: &Entry) {
        if meta.mtime != (FileTime { secs: entry.mtime_s, nanos: entry.mtime_ns }) {
            self.times.insert(self.files.len() as u64, meta.mtime);
        }
        self.files.push(FileMark::of(meta));
    }
}

/// Distinguishes a file from another of the same size and time: its inode number, and its time of change in nanoseconds
/// since 1970 (wrapping).
#[derive(Clone, Copy)]
struct FileMark {
    ino: u64,
    changed_ns: i64,
}

impl FileMark {
    fn of(meta: &Meta) -> Self {
        let FileTime { secs, nanos } = meta.ctime;
        let changed_ns = secs.wrapping_mul(NANOS).wrapping_add(i64::from(nanos));
        Self { ino: meta.ino, changed_ns }
    }

    fn ctime(self) -> FileTime {
        let nanos = self.changed_ns.rem_euclid(NANOS);
        FileTime { secs: self.changed_ns.div_euclid(NANOS), nanos: nanos as u32 }
    }
}

impl Members {
    pub(super) fn new(root: &Path, listed: ListedFiles, marks: FileMarks) -> Self {
        Self { root: root.to_path_buf(), listed, marks }
    }

    /// Returns the directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a file by its number.
    ///
    /// # Errors
    /// Those of reading the listing.
    pub(super) fn get(&mut self, number: u64) -> Result<Option<ServedFile>, StoreError> {
        let mark = usize::try_from(number).ok().and_then(|n| self.marks.files.get(n).copied());
        let (Some(mark), Some(listed)) = (mark, self.listed.file(number)?) else { return Ok(None) };
        let Entry { path, kind, mtime_s, mtime_ns, .. } = &listed.entry;
        let EntryKind::File { size, root } = *kind else { return Ok(None) };
        let mtime = FileTime { secs: *mtime_s, nanos: *mtime_ns };
        let mtime = self.marks.times.get(&number).copied().unwrap_or(mtime);
        let state = FileState { size, mtime, ino: mark.ino };
        let file = SharedFile { path: self.root.join(os_path(path)), state, ctime: mark.ctime() };
        Ok(Some(ServedFile { file, root, slot: listed.slot }))
    }
}
