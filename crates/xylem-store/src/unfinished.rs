//! [`Unfinished`]: the places of data of unfinished fetches.
//!
//! The data are beside the wanted files, under a hidden name, and what proves them is in the store. So that neither
//! outlives the other, a note `unfinished/<BLAKE3 of the path>` records their place, from their creation until they
//! have their final name. A note vouches for nothing: the file at its path is examined.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::io;
use std::path::{Path, PathBuf};

use xylem_hash::Hash;

use crate::catalog::path_key;
use crate::error::StoreError;
use crate::file::{FileRef, read_whole};
use crate::layout::{PARTIAL, UNFINISHED};
use crate::medium::{FileKind, Medium, Meta, OpenHow};
use crate::names::{FolderNames, FolderVisit};
use crate::objects::partial_of_name;
use crate::parts::ObjectPart;
use crate::store::Store;
use crate::sweep::{MAX_DEPTH, os_bytes, os_path};

/// First bytes of a note. The checksum of the rest follows, the root, the kind and the path.
const MAGIC: &[u8; 8] = b"xypart01";
const HEAD: usize = 8 + 32;
/// Longest path of a note, bytes: a limit of this program, above those of systems.
const MAX_PATH: usize = 128 * 1024;

/// The kind of unfinished data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfinishedKind {
    /// A part file.
    File,
    /// A folder.
    Directory,
    /// Pieces in the store of a file that is read without being fetched (a mount).
    Cache,
}

/// The data of a fetch that is in progress or was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Root of the file, or of the directory's listing.
    pub root: Hash,
    /// The path of the data.
    pub path: PathBuf,
    /// The kind of the data.
    pub kind: UnfinishedKind,
    /// Bytes that the data take, without holes.
    pub bytes: u64,
    /// When the data or the note were last written, seconds since 1970.
    pub written_s: u64,
}

/// The content of a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnfinishedNote {
    pub(crate) root: Hash,
    pub(crate) kind: UnfinishedKind,
    pub(crate) path: PathBuf,
}

impl UnfinishedNote {
    fn encode(&self) -> Option<Vec<u8>> {
        let path = os_bytes(self.path.as_os_str());
        let mut out = [&MAGIC[..], &[0; 32], self.root.as_bytes()].concat();
        out.push(u8::from(self.kind == UnfinishedKind::Directory));
        out.extend_from_slice(path);
        let sum = xylem_hash::hash(&out[HEAD..]);
        out[MAGIC.len()..HEAD].copy_from_slice(sum.as_bytes());
        (!path.is_empty() && path.len() <= MAX_PATH).then_some(out)
    }

    /// Decodes a note; `None` for any bytes that [`UnfinishedNote::encode`] does not produce.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (sum, body) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
        if xylem_hash::hash(body).as_bytes() != sum {
            return None;
        }
        let (root, rest) = body.split_first_chunk::<32>()?;
        let ([kind], path) = rest.split_first_chunk::<1>()?;
        let kind = match kind {
            0 => UnfinishedKind::File,
            1 => UnfinishedKind::Directory,
            _ => return None,
        };
        let path = os_path(path).filter(|path| !path.as_os_str().is_empty())?.to_path_buf();
        Some(Self { root: Hash::from_bytes(*root), kind, path })
    }
}

impl Store {
    /// Records that data of `root` are at `part`, which exists. Returns the note's name, for [`Store::remove_named`]
    /// once the data have their final name. `None` for data in the store, and for a path that cannot be recorded.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn note_unfinished(
        &self,
        root: &Hash,
        part: &Path,
        kind: UnfinishedKind,
    ) -> Result<Option<PathBuf>, StoreError> {
        if self.has_inside(part) {
            return Ok(None);
        }
        let Ok(path) = self.medium().canonical(part) else { return Ok(None) };
        let note = UnfinishedNote { root: *root, kind, path };
        let name = note_name(&note.path);
        if self.read_note(&name)?.flatten().as_ref() == Some(&note) {
            return Ok(Some(name));
        }
        let Some(bytes) = note.encode() else { return Ok(None) };
        let dir = Path::new(UNFINISHED);
        match self.place().create_dir(dir, 0o700) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(self.error("create the directory", dir, e));
            }
            _ => {}
        }
        let new = self.new_file()?;
        new.file().write_all(&bytes, 0)?;
        new.keep_as(&name, self.durability())?;
        Ok(Some(name))
    }

    /// All notes by their names; `None` for an invalid one.
    pub(crate) fn notes(&self) -> Result<Vec<(PathBuf, Option<UnfinishedNote>)>, StoreError> {
        let mut notes = Vec::new();
        for item in self.names_in(UNFINISHED)? {
            let name = Path::new(UNFINISHED).join(&item.name);
            if let Some(note) = self.read_note(&name)? {
                notes.push((name, note));
            }
        }
        Ok(notes)
    }

    /// Reads a note; the outer `None` if it does not exist.
    fn read_note(&self, name: &Path) -> Result<Option<Option<UnfinishedNote>>, StoreError> {
        let Some(file) = self.open_named(name, OpenHow::ReadNoFollow)? else { return Ok(None) };
        let most = HEAD.saturating_add(33).saturating_add(MAX_PATH);
        let note = match read_whole(&file, most as u64) {
            Ok(bytes) => UnfinishedNote::decode(&bytes),
            Err(StoreError::Corrupt { .. } | StoreError::Unsafe { .. }) => None,
            Err(e) => return Err(e),
        };
        // A note copied or renamed by hand would stand for another path.
        Ok(Some(note.filter(|note| note_name(&note.path) == name)))
    }

    /// The data of fetches in progress or interrupted, and the pieces of files that were read without a fetch.
    ///
    /// # Errors
    /// The medium's.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>, StoreError> {
        let mut all = Vec::new();
        for (name, note) in self.notes()? {
            let Some(UnfinishedNote { root, kind, path }) = note else { continue };
            let Some(meta) = self.part_at(&path, kind)? else { continue };
            let bytes = held_bytes(&**self.medium(), &path, &meta, 0);
            let noted = self.metadata_of(&name)?.map_or(0, |meta| meta.mtime.secs);
            let written_s = u64::try_from(noted.max(meta.mtime.secs)).unwrap_or(0);
            all.push(Unfinished { root, path, kind, bytes, written_s });
        }
        for item in self.names_in(PARTIAL)? {
            let name = Path::new(PARTIAL).join(&item.name);
            let part = partial_of_name(Path::new(&item.name));
            if let (Some((root, ObjectPart::Content)), FileKind::File) = (part, item.kind)
                && let Some(meta) = self.metadata_of(&name)?
            {
                let bytes = held_bytes(self.place(), &name, &meta, 0);
                let written_s = u64::try_from(meta.mtime.secs).unwrap_or(0);
                let (path, kind) = (self.full(&name), UnfinishedKind::Cache);
                all.push(Unfinished { root, path, kind, bytes, written_s });
            }
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    /// Bytes that the whole store takes, as far as it is readable.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let here = Path::new(".");
        self.place().metadata(here).map_or(0, |meta| held_bytes(self.place(), here, &meta, 0))
    }

    /// Metadata of the file at a note's path; `None` if it is missing, of another kind, or another user's.
    pub(crate) fn part_at(
        &self,
        path: &Path,
        kind: UnfinishedKind,
    ) -> Result<Option<Meta>, StoreError> {
        let medium = &**self.medium();
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        let meta = match medium.metadata(path) {
            Ok(meta) => meta,
            Err(e) if missing.contains(&e.kind()) => return Ok(None),
            Err(e) => return Err(StoreError::from_io("read the metadata", path, None, e)),
        };
        let is_it = match kind {
            UnfinishedKind::File => meta.kind == FileKind::File && meta.links <= 1,
            UnfinishedKind::Directory => meta.kind == FileKind::Directory,
            UnfinishedKind::Cache => false,
        };
        Ok(Some(meta).filter(|meta| is_it && medium.owns(meta)))
    }
}

fn note_name(path: &Path) -> PathBuf {
    Path::new(UNFINISHED).join(path_key(os_bytes(path.as_os_str())).to_hex())
}

/// Bytes that a file, or the files below a directory, take, without the holes that the medium reports. Unreadable ones
/// count as zero.
pub(crate) fn held_bytes(medium: &dyn Medium, path: &Path, meta: &Meta, depth: usize) -> u64 {
    match meta.kind {
        FileKind::File => {
            let file = medium.open(path, OpenHow::ReadNoFollow);
            file.map_or(0, |file| data_bytes(&FileRef::new(file, path.to_path_buf()), meta.size))
        }
        FileKind::Directory if depth < MAX_DEPTH => {
            let Ok(dir) = medium.open_dir(path) else { return 0 };
            let names = FolderNames::read(&*dir, Path::new("."), &mut |_, _| true);
            let Ok(names) = names else { return 0 };
            let below = (0..names.len()).filter_map(|i| match names.get(i) {
                Some(FolderVisit::Name(name, _)) => {
                    let name = os_path(name)?;
                    let meta = dir.metadata(name).ok()?;
                    Some(held_bytes(&*dir, name, &meta, depth.saturating_add(1)))
                }
                _ => None,
            });
            below.fold(0, u64::saturating_add)
        }
        _ => 0,
    }
}

fn data_bytes(file: &FileRef, size: u64) -> u64 {
    let (mut at, mut bytes) = (0, 0_u64);
    while at < size {
        match file.next_data(at) {
            Ok(Some(data)) if data.end > at => {
                let end = data.end.min(size);
                bytes = bytes.saturating_add(end.saturating_sub(data.start));
                at = end;
            }
            _ => break,
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_back_unless_damaged() {
        let (root, path) = (xylem_hash::hash(b"x"), PathBuf::from("/a/.b.xylem-part"));
        for kind in [UnfinishedKind::File, UnfinishedKind::Directory] {
            let note = UnfinishedNote { root, kind, path: path.clone() };
            let bytes = note.encode().unwrap();
            assert_eq!(UnfinishedNote::decode(&bytes), Some(note));
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_eq!(UnfinishedNote::decode(&other), None, "byte {at}");
                assert_eq!(UnfinishedNote::decode(&bytes[..at]), None, "{at} bytes");
            }
        }
        let long = UnfinishedNote {
            root,
            kind: UnfinishedKind::File,
            path: "x".repeat(MAX_PATH + 1).into(),
        };
        assert_eq!(long.encode(), None);
    }
}
