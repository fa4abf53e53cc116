//! [`Contents`]: the files of a directory from its listing, in bounded memory.

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{os_bytes, os_path};
use xylem_files::hashing::packed_slots;
use xylem_files::{Exclusion, Flaw};
use xylem_object::ObjectId;
use xylem_object::listing::{Entry, EntryKind, ListingReader};
use xylem_store::{
    DiskAttributes, DiskAttributesReader, FileKind, FileRef, FileTime, ObjectPart, Store,
    StoreError,
};
use xylem_tree::{Geometry, SegmentSize};

use super::error::ScrubError;
use super::item::ScrubItem;
use super::targets::ScrubTarget;

/// Bytes of the listing read at once.
const PIECE: usize = 64 * 1024;

/// Reads a listing from disk, entry by entry. The listing was verified just before. If it changes meanwhile, files are
/// still checked against roots.
pub(super) struct Contents<'a> {
    store: &'a Store,
    target: &'a ScrubTarget,
    excluded: Exclusion,
    segment: SegmentSize,
    file: FileRef,
    /// Records of how the listed entries looked on disk, and the number of entries read.
    seen: Option<DiskAttributesReader>,
    place: u64,
    reader: ListingReader,
    at: u64,
    piece: Vec<u8>,
    /// Bytes of `piece` that were decoded.
    decoded: usize,
    slot: u64,
}

/// Returns the listed time.
pub(super) fn time_of(entry: &Entry) -> FileTime {
    FileTime { secs: entry.mtime_s, nanos: entry.mtime_ns }
}

/// Entries that are not files and not as listed: path, flaw, description.
type Apart = Vec<(PathBuf, Flaw, String)>;

impl<'a> Contents<'a> {
    pub(super) fn open(
        store: &'a Store,
        target: &'a ScrubTarget,
        segment: SegmentSize,
    ) -> Result<Self, ScrubError> {
        let file = store.object(&target.root, ObjectPart::Listing)?;
        let file = file.ok_or(ScrubError::ListingVanished)?;
        let mut seen = store.seen(&os_bytes(target.path.as_os_str()), &target.root)?;
        // Skips the record of the directory itself.
        seen.as_mut().and_then(Iterator::next);
        Ok(Self {
            seen,
            place: 0,
            store,
            target,
            excluded: Exclusion::new(&target.excluded)?,
            segment,
            file,
            reader: ListingReader::new(),
            at: 0,
            piece: Vec::new(),
            decoded: 0,
            slot: 0,
        })
    }

    /// Returns the next files, at most `count`; none at the end.
    ///
    /// # Errors
    /// The listing can no longer be read.
    pub(super) fn next(&mut self, count: usize) -> Result<(Vec<ScrubItem>, Apart), ScrubError> {
        let (mut items, mut apart) = (Vec::new(), Vec::new());
        while items.len() < count {
            let Some(entry) = self.entry()? else { break };
            let seen = self.seen.as_mut().and_then(Iterator::next);
            // An entry that a fetch left out has an empty record.
            let seen = seen.filter(|seen| *seen != DiskAttributes::default());
            let wanted = self.is_wanted(&entry);
            let path = self.target.path.join(os_path(&entry.path));
            match &entry.kind {
                EntryKind::File { .. } => items.extend(self.file(&entry, path, seen, wanted)),
                _ if !wanted => {}
                EntryKind::Directory => apart.extend(self.directory(path)),
                EntryKind::Symlink { target } => apart.extend(self.link(path, target)),
                EntryKind::HardLink { target } => {
                    let target = self.target.path.join(os_path(target));
                    apart.extend(self.hard_link(path, &target));
                }
            }
        }
        Ok((items, apart))
    }

    /// Returns the next selected entry of any kind.
    ///
    /// # Errors
    /// As [`Contents::next`].
    pub(super) fn next_wanted(&mut self) -> Result<Option<Entry>, ScrubError> {
        while let Some(entry) = self.entry()? {
            if self.is_wanted(&entry) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn entry(&mut self) -> Result<Option<Entry>, ScrubError> {
        loop {
            let mut rest = &self.piece[self.decoded..];
            let pulled = self.reader.pull(&mut rest);
            self.decoded = self.piece.len() - rest.len();
            let changed = |what: String| {
                let (path, source) = (self.file.path().to_path_buf(), io::Error::other(what));
                StoreError::Io { path, doing: "read", offset: Some(self.at), source }
            };
            if let Some(entry) = pulled.map_err(|e| changed(e.to_string()))? {
                self.place += 1;
                return Ok(Some(entry));
            }
            self.piece.resize(PIECE, 0);
            let got = self.file.read_full(&mut self.piece, self.at);
            let got = got?;
            (self.at, self.decoded) = (self.at + got as u64, 0);
            self.piece.truncate(got);
            if got == 0 {
                return Ok(None);
            }
        }
    }

    fn is_wanted(&self, entry: &Entry) -> bool {
        let inside = self.target.inside.as_ref().is_none_or(|inside| {
            entry
                .path
                .strip_prefix(&inside[..])
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        });
        inside && !self.excluded.leaves_out(entry)
    }

    fn file(
        &mut self,
        entry: &Entry,
        path: PathBuf,
        seen: Option<DiskAttributes>,
        wanted: bool,
    ) -> Option<ScrubItem> {
        let EntryKind::File { size, root } = entry.kind else { return None };
        let number = self.reader.totals().files - 1;
        let slots = packed_slots(size, self.segment);
        let slot = (slots > 0).then_some(self.slot);
        self.slot += slots;
        wanted.then(|| ScrubItem {
            id: ObjectId::File(number),
            key: os_bytes(path.as_os_str()),
            path,
            root,
            geometry: Geometry::new(size, self.segment),
            slot,
            // The time as its disk stores it.
            mtime: Some(seen.map_or(time_of(entry), |seen| seen.mtime)),
            seen,
            since_s: self.target.used_s.filter(|_| self.seen.is_none()),
            place: self.place,
            mode: Some(entry.mode),
            grows: false,
        })
    }

    fn directory(&self, path: PathBuf) -> Option<(PathBuf, Flaw, String)> {
        match self.store.medium().metadata(&path) {
            Ok(meta) if meta.kind == FileKind::Directory => None,
            Ok(_) => Some((path, Flaw::Changed, "is no longer a directory".to_owned())),
            Err(_) => Some((path, Flaw::Missing, "is missing".to_owned())),
        }
    }

    /// Checks a hard link. Its target is a listed file: the content is checked there.
    fn hard_link(&self, path: PathBuf, target: &Path) -> Option<(PathBuf, Flaw, String)> {
        let medium = self.store.medium();
        match (medium.metadata(&path), medium.metadata(target)) {
            (Err(_), _) => Some((path, Flaw::Missing, "is missing".to_owned())),
            (Ok(link), Ok(file)) if (link.dev, link.ino) != (file.dev, file.ino) => {
                let what = format!("is no longer a hard link to {}", target.display());
                Some((path, Flaw::Changed, what))
            }
            _ => None,
        }
    }

    fn link(&self, path: PathBuf, target: &[u8]) -> Option<(PathBuf, Flaw, String)> {
        match self.store.medium().read_link(&path) {
            Ok(is) if os_bytes(is.as_os_str()) == target => None,
            Ok(_) => Some((path, Flaw::Changed, "points elsewhere".to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Some((path, Flaw::Missing, "is missing".to_owned()))
            }
            Err(_) => Some((path, Flaw::Changed, "is no longer a symbolic link".to_owned())),
        }
    }
}
