//! [`StoredIndex`]: an index in a file, read and written sequentially. Memory then holds only the differences between
//! indexes, and not a whole index, for folders of many files.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use xylem_base::FileMedium;
use xylem_hash::{Hash, Hasher};
use xylem_store::{Clobber, Durability, FileRef, OpenHow, install};

use super::error::{FolderError, at};
use super::index::{
    END, Index, IndexEntry, IndexError, IndexItem, IndexParser, MAX_INDEX, MAX_ITEMS, Names,
    StateHasher, entry_size, put_entry, put_head, size_of_all,
};

/// Bytes that are read or written at once.
const PIECE: usize = 64 * 1024;
/// Most bytes of an entry, or of all that precedes the first one: names, a path, a target and a version vector.
const MAX_ENTRY: usize = 256 * 1024;

/// Entries in the order of their paths.
pub type Entries<'a> = Box<dyn Iterator<Item = Result<(Vec<u8>, IndexItem), FolderError>> + 'a>;

/// Size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// Paths, removed ones included.
    pub paths: u64,
    /// Bytes of the encoded index.
    pub bytes: u64,
}

impl IndexSize {
    /// Adds the size of a path's entry.
    pub(super) fn add(&mut self, path: &[u8], item: &IndexItem) {
        self.paths = self.paths.saturating_add(1);
        self.bytes = self.bytes.saturating_add(entry_size(path, item));
    }
}

/// An index, in memory or in a file.
pub trait IndexSource {
    /// Returns the display names of members.
    fn names(&self) -> &Names;

    /// Returns all paths in order.
    ///
    /// # Errors
    /// The index cannot be read; the call or a later entry fails.
    fn entries(&self) -> Result<Entries<'_>, FolderError>;

    /// Returns the size of the index.
    fn size(&self) -> IndexSize;
}

impl IndexSource for Index {
    fn names(&self) -> &Names {
        &self.names
    }

    fn entries(&self) -> Result<Entries<'_>, FolderError> {
        Ok(Box::new(self.items.iter().map(|(path, item)| Ok((path.clone(), item.clone())))))
    }

    fn size(&self) -> IndexSize {
        let mut size = IndexSize::default();
        self.items.iter().for_each(|(path, item)| size.add(path, item));
        size
    }
}

/// An index in a file that was read once and found valid.
#[derive(Clone, Debug)]
pub struct StoredIndex {
    medium: FileMedium,
    path: PathBuf,
    /// The bytes in front of the index: a ticket.
    pub about: Vec<u8>,
    names: Names,
    state: Hash,
    /// Hash of the whole index.
    hash: Hash,
    size: IndexSize,
}

impl StoredIndex {
    /// Reads and checks the file once.
    ///
    /// # Errors
    /// It cannot be read, or is not as it was written.
    pub fn open(medium: &FileMedium, path: &Path) -> Result<Self, FolderError> {
        let (mut reader, about, names) = IndexReader::open(medium, path)?;
        let mut state = StateHasher::default();
        while let Some((path, item)) = reader.take()? {
            state.add(&path, &item);
        }
        let (bytes, hash) = (reader.file.metadata()?.size, reader.hash);
        let size = IndexSize { paths: reader.count as u64, bytes };
        let (medium, path, state) = (medium.clone(), path.to_path_buf(), state.finish());
        Ok(Self { medium, path, about, names, state, hash, size })
    }

    /// Returns the state; see [`Index::state`].
    pub fn state(&self) -> Hash {
        self.state
    }

    /// Returns whether the index has no paths.
    pub fn is_empty(&self) -> bool {
        self.size.paths == 0
    }

    /// Copies the file to `to` atomically: at every moment `to` has its old content or the copy. If that fails, no
    /// partial copy is left.
    pub(super) fn copy(&self, to: &Path) -> Result<(), FolderError> {
        let new = to.with_extension("new");
        let copied = self.copy_by(&new, to);
        if copied.is_err() {
            let _ = self.medium.remove_file(&new);
        }
        copied
    }

    fn copy_by(&self, new: &Path, to: &Path) -> Result<(), FolderError> {
        self.medium.copy(&self.path, new).map_err(at(new))?;
        let file = FileRef::open(&*self.medium, new, OpenHow::ReadWrite)?;
        Ok(install(&*self.medium, &file, new, to, Clobber::Replace, Durability::Device)?)
    }
}

impl IndexSource for StoredIndex {
    fn names(&self) -> &Names {
        &self.names
    }

    fn entries(&self) -> Result<Entries<'_>, FolderError> {
        let (mut reader, ..) = IndexReader::open(&self.medium, &self.path)?;
        let mut failed = false;
        Ok(Box::new(std::iter::from_fn(move || {
            let next = if failed { None } else { reader.take().transpose() };
            failed = next.as_ref().is_some_and(Result::is_err);
            next
        })))
    }

    fn size(&self) -> IndexSize {
        self.size
    }
}

/// Reads an index piece by piece.
struct IndexReader {
    file: FileRef,
    /// Bytes read from the file.
    read: u64,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were parsed.
    taken: usize,
    hasher: Hasher,
    /// The last path.
    last: Vec<u8>,
    count: usize,
    over: bool,
    /// Hash of the whole index, once the end was read.
    hash: Hash,
}

impl IndexReader {
    fn open(medium: &FileMedium, path: &Path) -> Result<(Self, Vec<u8>, Names), FolderError> {
        let file = medium.open(path, OpenHow::Read).map_err(at(path))?;
        let mut reader = Self {
            file: FileRef::new(file, path),
            read: 0,
            path: path.to_path_buf(),
            buffer: Vec::new(),
            taken: 0,
            hasher: Hasher::new(),
            last: Vec::new(),
            count: 0,
            over: false,
            hash: Hash::from_bytes([0; 32]),
        };
        if reader.file.metadata()?.size > MAX_INDEX {
            return Err(reader.bad(IndexError::TooLarge));
        }
        let (about, names) = reader.parse(|input| input.head())?;
        Ok((reader, about, names))
    }

    fn bad(&self, why: IndexError) -> FolderError {
        bad(&self.path, why)
    }

    /// Parses one element with `read`, and reads as many bytes as that needs.
    fn parse<T>(
        &mut self,
        read: impl Fn(&mut IndexParser<'_>) -> Result<T, IndexError>,
    ) -> Result<T, FolderError> {
        loop {
            let left = self.buffer.get(self.taken..).unwrap_or_default();
            let (all, mut input) = (left.len(), IndexParser(left));
            match read(&mut input) {
                Ok(read) => {
                    let used = all.saturating_sub(input.0.len());
                    self.taken = self.taken.saturating_add(used);
                    return Ok(read);
                }
                Err(IndexError::Malformed) if all < MAX_ENTRY && self.fill()? => {}
                Err(why) => return Err(self.bad(why)),
            }
        }
    }

    /// Reads the next piece; false at the end of the file.
    fn fill(&mut self) -> Result<bool, FolderError> {
        self.hasher.update(self.buffer.get(..self.taken).unwrap_or_default());
        self.buffer.drain(..self.taken.min(self.buffer.len()));
        self.taken = 0;
        let before = self.buffer.len();
        self.buffer.resize(before.saturating_add(PIECE), 0);
        let read =
            self.file.read_full(self.buffer.get_mut(before..).unwrap_or_default(), self.read);
        self.buffer.truncate(before.saturating_add(*read.as_ref().unwrap_or(&0)));
        self.read = self.read.saturating_add(read? as u64);
        Ok(self.buffer.len() > before)
    }

    fn take(&mut self) -> Result<Option<(Vec<u8>, IndexItem)>, FolderError> {
        if self.over {
            return Ok(None);
        }
        match self.parse(|input| input.entry())? {
            IndexEntry::Path(path, item) => {
                if self.count > 0 && self.last >= path {
                    return Err(self.bad(IndexError::not_sorted()));
                }
                self.count = self.count.saturating_add(1);
                if self.count > MAX_ITEMS {
                    return Err(self.bad(IndexError::TooLarge));
                }
                self.last.clone_from(&path);
                Ok(Some((path, item)))
            }
            IndexEntry::End(said) => {
                // The hash covers what precedes it.
                let hashed = self.taken.saturating_sub(said.len());
                self.hasher.update(self.buffer.get(..hashed).unwrap_or_default());
                self.hash = std::mem::take(&mut self.hasher).finalize();
                let is_it = *self.hash.as_bytes() == said;
                self.over = true;
                self.buffer.drain(..self.taken.min(self.buffer.len()));
                self.taken = 0;
                match is_it && self.buffer.is_empty() && !self.fill()? {
                    true => Ok(None),
                    false => Err(self.bad(IndexError::Malformed)),
                }
            }
        }
    }
}

/// Writes an index beside the one that it replaces. An entry that a reader would refuse is not written.
pub(super) struct IndexWriter {
    medium: FileMedium,
    file: FileRef,
    new: PathBuf,
    path: PathBuf,
    buffer: Vec<u8>,
    hasher: Hasher,
    state: StateHasher,
    about: Vec<u8>,
    names: Names,
    /// The last path.
    last: Vec<u8>,
    paths: usize,
    /// Bytes written to the file.
    written: u64,
}

impl IndexWriter {
    pub(super) fn new(
        medium: &FileMedium,
        path: &Path,
        about: &[u8],
        names: &Names,
    ) -> Result<Self, FolderError> {
        let mut buffer = Vec::new();
        put_head(&mut buffer, about, names).map_err(|why| bad(path, why))?;
        let (medium, new) = (medium.clone(), path.with_extension("new"));
        let file = FileRef::open(&*medium, &new, OpenHow::Create { mode: 0o600 })?;
        file.set_len(0)?;
        Ok(Self {
            medium,
            file,
            new,
            path: path.to_path_buf(),
            buffer,
            hasher: Hasher::new(),
            state: StateHasher::default(),
            about: about.to_vec(),
            names: names.clone(),
            last: Vec::new(),
            paths: 0,
            written: 0,
        })
    }

    /// Writes the next path in order.
    pub(super) fn push(&mut self, path: &[u8], item: &IndexItem) -> Result<(), FolderError> {
        if self.paths > 0 && self.last.as_slice() >= path {
            return Err(bad(&self.path, IndexError::not_sorted()));
        }
        self.last.clear();
        self.last.extend_from_slice(path);
        self.paths = self.paths.saturating_add(1);
        self.state.add(path, item);
        put_entry(&mut self.buffer, path, item).map_err(|why| bad(&self.path, why))?;
        let bytes = self.written.saturating_add(self.buffer.len() as u64);
        if self.paths > MAX_ITEMS || size_of_all(bytes) > MAX_INDEX {
            return Err(bad(&self.path, IndexError::TooLarge));
        }
        if self.buffer.len() >= PIECE { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), FolderError> {
        self.hasher.update(&self.buffer);
        self.put()
    }

    fn put(&mut self) -> Result<(), FolderError> {
        self.file.write_all(&self.buffer, self.written)?;
        self.written = self.written.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }

    /// Ends the index, and makes it the content of the file durably, even through a power loss.
    pub(super) fn finish(self) -> Result<StoredIndex, FolderError> {
        self.finish_after(None)
    }

    /// Ends the index as [`Writer::finish`] does, but leaves the file alone if it has the same content as `before`.
    pub(super) fn finish_after(
        mut self,
        before: Option<&StoredIndex>,
    ) -> Result<StoredIndex, FolderError> {
        self.buffer.extend_from_slice(&END);
        self.write()?;
        let hash = std::mem::take(&mut self.hasher).finalize();
        if let Some(before) = before.filter(|b| b.hash == hash && b.path == self.path) {
            self.medium.remove_file(&self.new).map_err(at(&self.new))?;
            return Ok(before.clone());
        }
        self.buffer.extend_from_slice(hash.as_bytes());
        self.put()?;
        let Self { medium, file, new, path, about, names, state, paths, written, .. } = self;
        install(&*medium, &file, &new, &path, Clobber::Replace, Durability::Device)?;
        let size = IndexSize { paths: paths as u64, bytes: written };
        Ok(StoredIndex { medium, path, about, names, state: state.finish(), hash, size })
    }
}

fn bad(path: &Path, why: IndexError) -> FolderError {
    FolderError::Index { path: path.to_path_buf(), why }
}

/// Returns the newest valid index among these files; `None` if there is none.
pub(super) fn newest(
    medium: &FileMedium,
    among: impl Iterator<Item = PathBuf>,
) -> Option<StoredIndex> {
    let mut found: BTreeMap<_, StoredIndex> = BTreeMap::new();
    for stored in among.filter_map(|path| StoredIndex::open(medium, &path).ok()) {
        if let Ok(meta) = medium.metadata(&stored.path) {
            found.insert(meta.mtime, stored);
        }
    }
    found.pop_last().map(|(_, stored)| stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ItemKind;
    use crate::index::tests::an_index;
    use std::fs;

    fn collected(stored: &StoredIndex) -> Vec<(Vec<u8>, IndexItem)> {
        stored.entries().unwrap().map(Result::unwrap).collect()
    }

    fn written(dir: &Path, index: &Index) -> StoredIndex {
        let mut writer =
            IndexWriter::new(&FileMedium::default(), &dir.join("index"), b"ticket", &index.names)
                .unwrap();
        for (path, item) in &index.items {
            writer.push(path, item).unwrap();
        }
        writer.finish().unwrap()
    }

    /// An index of several pieces.
    fn large() -> Index {
        let mut index = an_index();
        let item = index.items[b"b".as_slice()].clone();
        for n in 0..3_000 {
            let target = vec![b'x'; n];
            let kind = if n % 100 == 7 { ItemKind::Symlink { target } } else { item.kind.clone() };
            index.items.insert(format!("d/{n:05}").into(), IndexItem { kind, ..item.clone() });
        }
        index
    }

    #[test]
    fn a_written_index_is_read_here_and_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let index = large();
        let stored = written(dir.path(), &index);
        let bytes = fs::read(dir.path().join("index")).unwrap();
        assert!(bytes.len() > 3 * PIECE);
        assert_eq!(bytes, index.encode(b"ticket").unwrap());
        assert_eq!(Index::decode(&bytes), Ok((index.clone(), b"ticket".to_vec())));
        let again = StoredIndex::open(&FileMedium::default(), &dir.path().join("index")).unwrap();
        assert_eq!((again.state(), &again.about[..]), (index.state(), &b"ticket"[..]));
        assert_eq!(stored.state(), index.state());
        assert_eq!(again.names(), &index.names);
        assert_eq!(again.size(), stored.size());
        assert_eq!(again.size().paths, index.items.len() as u64);
        assert_eq!(again.size().bytes, bytes.len() as u64);
        assert!(collected(&again).into_iter().eq(index.items));
    }

    /// An index that equals the one before leaves its file in place.
    #[test]
    fn an_unchanged_index_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, index) = (dir.path().join("index"), an_index());
        let before = written(dir.path(), &index);
        let mut again =
            IndexWriter::new(&FileMedium::default(), &path, b"ticket", &index.names).unwrap();
        for (path, item) in &index.items {
            again.push(path, item).unwrap();
        }
        fs::remove_file(&path).unwrap();
        again.finish_after(Some(&before)).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_index_that_readers_refuse_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let (path, index) = (dir.path().join("index"), an_index());
        let (at, item) = index.items.first_key_value().unwrap();
        let new = || IndexWriter::new(&FileMedium::default(), &path, b"", &index.names).unwrap();
        let mut twice = new();
        twice.push(at, item).unwrap();
        assert!(twice.push(at, item).is_err());
        assert!(new().push(b"../x", item).is_err());
        let mut full = new();
        full.paths = MAX_ITEMS;
        assert!(full.push(at, item).is_err());
        let mut full = new();
        full.written = MAX_INDEX - full.buffer.len() as u64 - entry_size(at, item);
        assert!(full.push(at, item).is_err(), "the end would not fit");
        assert!(!path.exists());
    }

    /// A truncated file, or one with a flipped bit, is refused.
    #[test]
    fn a_damaged_index_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), &an_index());
        let path = dir.path().join("index");
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert!(StoredIndex::open(&FileMedium::default(), &path).is_err(), "of {len} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert!(StoredIndex::open(&FileMedium::default(), &path).is_err(), "byte {at}");
        }
        fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert!(StoredIndex::open(&FileMedium::default(), &path).is_err());
    }
}
