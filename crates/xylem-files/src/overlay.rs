//! [`Overlay`]: a virtual folder of files that are encrypted or decrypted while they are read. The code that walks,
//! hashes, serves or copies files works on them unchanged, and nothing is written to disk for it.
//!
//! Everything outside of the folder is the disk's. The folder is read-only.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use xylem_hash::Hash;
use xylem_mail::sealed::{FileKey, SEALED_SEGMENT};
use xylem_store::{
    Clobber, FileKind, FileTime, Medium, MediumFile, Meta, OpenHow, OutboardFile, OutboardReader,
};
use xylem_tree::{Geometry, NODE_LEN, Node, SegmentIndex, SegmentSize, leaf_value};

/// File of a private publication: its key, encrypted to each recipient.
pub const KEYS: &str = "keys";
/// File of a private publication: the encrypted list: manifest, listing and file keys.
pub const LIST: &str = "list";
/// Folder of the encrypted files of a private publication.
pub const FILES: &str = "f";

/// A file of the folder.
#[derive(Clone)]
pub enum Virtual {
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// A file on disk, each of its segments encrypted or decrypted.
    Ciphered(Arc<Ciphered>),
}

/// A file on disk that is shown encrypted or decrypted.
pub struct Ciphered {
    /// Its path on disk.
    pub path: PathBuf,
    /// Its size on disk, bytes.
    pub source: u64,
    /// Its size as shown, bytes. In a padded publication the encrypted file is longer, with zeros after the content,
    /// and the decrypted file is shorter.
    pub size: u64,
    /// The key that encrypts or decrypts it.
    pub key: FileKey,
    /// Checks the bytes on disk before they are encrypted. A key must only ever encrypt one plaintext: two ciphertexts
    /// under one key reveal the difference of their plaintexts.
    pub check: Option<PlaintextCheck>,
}

/// The tree of the bytes on disk.
pub struct PlaintextCheck {
    /// Root of the file.
    pub root: Hash,
    /// Its outboard, if it has more than one segment.
    pub nodes: Option<Arc<Mutex<OutboardReader>>>,
    /// First slot of that outboard.
    pub slot: u64,
}

/// Returns a reader for [`PlaintextCheck::nodes`].
pub fn shared_nodes(outboards: &OutboardFile) -> Arc<Mutex<OutboardReader>> {
    Arc::new(Mutex::new(outboards.reader_at(0)))
}

/// The folder over the disk; see the module's text.
pub struct Overlay {
    disk: Arc<dyn Medium>,
    root: PathBuf,
    files: BTreeMap<PathBuf, Virtual>,
    folders: BTreeSet<PathBuf>,
}

impl Overlay {
    /// Makes a folder of `files`, by their paths below `root`, a path that does not exist on disk.
    pub fn new(disk: Arc<dyn Medium>, root: PathBuf, files: BTreeMap<PathBuf, Virtual>) -> Self {
        let above = |path: &PathBuf| path.ancestors().skip(1).map(Path::to_path_buf).collect();
        let mut folders: BTreeSet<PathBuf> = BTreeSet::from([PathBuf::new()]);
        files.keys().map(above).for_each(|above: BTreeSet<PathBuf>| folders.extend(above));
        Self { disk, root, files, folders }
    }

    /// Returns the path below the folder's root; `None` if it lies outside.
    fn inside<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.root).ok()
    }

    /// Opens a file of the folder; `open` opens its source on disk.
    fn open_inside(
        &self,
        inside: &Path,
        how: OpenHow,
        open: impl FnOnce(&Path, OpenHow) -> io::Result<Arc<dyn MediumFile>>,
    ) -> io::Result<Arc<dyn MediumFile>> {
        let file = self.files.get(inside).ok_or(io::ErrorKind::NotFound)?;
        if !matches!(how, OpenHow::Read | OpenHow::ReadNoFollow) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let source = match file {
            Virtual::Bytes(_) => None,
            Virtual::Ciphered(file) => Some(open(&file.path, OpenHow::ReadNoFollow)?),
        };
        Ok(Arc::new(OpenVirtual { file: file.clone(), source }))
    }

    /// Returns the disk; refuses to change anything in the folder.
    fn disk_for(&self, path: &Path) -> io::Result<&dyn Medium> {
        match self.inside(path) {
            Some(_) => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            None => Ok(&*self.disk),
        }
    }
}

fn meta(kind: FileKind, size: u64, mode: u32, ino: u64) -> Meta {
    let mtime = FileTime::default();
    Meta { kind, size, mode, mtime, ctime: mtime, ino, dev: 0, links: 1, owner: 0 }
}

impl Virtual {
    fn meta(&self) -> Meta {
        let (size, ino) = match self {
            Self::Bytes(bytes) => (bytes.len() as u64, content_number(xylem_hash::hash(bytes))),
            Self::Ciphered(file) => {
                (file.size, content_number(xylem_hash::hash(file.key.name().as_bytes())))
            }
        };
        meta(FileKind::File, size, 0o644, ino)
    }
}

/// Returns a number in place of an inode's: equal for equal content.
fn content_number(hash: Hash) -> u64 {
    hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

impl Medium for Overlay {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        let Some(inside) = self.inside(path) else { return self.disk.open(path, how) };
        self.open_inside(inside, how, |path, how| self.disk.open(path, how))
    }

    fn open_no_wait(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        let Some(inside) = self.inside(path) else { return self.disk.open_no_wait(path, how) };
        self.open_inside(inside, how, |path, how| self.disk.open_no_wait(path, how))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        self.disk_for(path)?.open_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Meta> {
        let Some(inside) = self.inside(path) else { return self.disk.metadata(path) };
        if self.folders.contains(inside) {
            return Ok(meta(FileKind::Directory, 0, 0o755, 0));
        }
        Ok(self.files.get(inside).ok_or(io::ErrorKind::NotFound)?.meta())
    }

    fn take_skipped(&self, path: &Path) -> Vec<(PathBuf, String)> {
        if self.inside(path).is_some() { Vec::new() } else { self.disk.take_skipped(path) }
    }

    fn owns(&self, meta: &Meta) -> bool {
        self.disk.owns(meta)
    }

    fn umask(&self) -> u32 {
        self.disk.umask()
    }

    fn is_slow(&self, path: &Path) -> bool {
        let content = |file: &Virtual| match file {
            Virtual::Ciphered(file) => Some(file.path.clone()),
            Virtual::Bytes(_) => None,
        };
        match self.inside(path) {
            // All content comes from one file system.
            Some(_) => {
                self.files.values().find_map(content).is_some_and(|at| self.disk.is_slow(&at))
            }
            None => self.disk.is_slow(path),
        }
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.disk_for(path)?.create_dir(path, mode)
    }

    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        let Some(inside) = self.inside(path) else { return self.disk.for_each_name(path, take) };
        if !self.folders.contains(inside) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let below = |path: &&PathBuf| path.parent() == Some(inside);
        let name = |path: &PathBuf| path.file_name().map(OsString::from);
        self.folders.iter().filter(below).filter_map(name).for_each(|name| {
            take(&name, FileKind::Directory);
        });
        self.files.keys().filter(below).filter_map(name).for_each(|name| {
            take(&name, FileKind::File);
        });
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        self.disk_for(from).and(self.disk_for(to))?.rename(from, to, clobber)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.disk_for(one)?;
        self.disk_for(other)?.exchange(one, other)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path)?.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path)?.remove_dir(path)
    }

    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        self.disk_for(link)?.symlink(target, link)
    }

    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        self.disk_for(name)?.hard_link(name, to, new)
    }

    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        self.disk_for(name)?.move_to(name, to, new)
    }

    /// The disk's, as for folders that it opens.
    fn as_any(&self) -> &dyn Any {
        self.disk.as_any()
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk_for(path)?.read_link(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.disk_for(path)?.set_mode(path, mode)
    }

    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()> {
        self.disk_for(path)?.set_mtime(path, mtime)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk_for(path)?.free_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk_for(path)?.total_bytes(path)
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path)?.sync_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path)?.sync_dir(path)
    }
}

/// Whether a read may wait for a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeviceWait {
    Allowed,
    Refused,
}

struct OpenVirtual {
    file: Virtual,
    source: Option<Arc<dyn MediumFile>>,
}

impl OpenVirtual {
    fn read(&self, buf: &mut [u8], offset: u64, wait: DeviceWait) -> io::Result<usize> {
        match (&self.file, &self.source) {
            (Virtual::Bytes(bytes), _) => {
                let rest = usize::try_from(offset).ok().and_then(|at| bytes.get(at..));
                let rest = rest.unwrap_or_default();
                let len = rest.len().min(buf.len());
                buf[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            }
            (Virtual::Ciphered(file), Some(source)) => {
                file.read_at(PlainSource { file: &**source, wait }, buf, offset)
            }
            (Virtual::Ciphered(_), None) => Ok(0),
        }
    }
}

impl MediumFile for OpenVirtual {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(buf, offset, DeviceWait::Allowed)
    }

    fn read_at_no_wait(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(buf, offset, DeviceWait::Refused)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn metadata(&self) -> io::Result<Meta> {
        let is = self.source.as_ref().map(|source| source.metadata()).transpose()?;
        let meta = self.file.meta();
        // Shows the size on disk if it has changed, so that callers that check the length notice.
        let odd = match &self.file {
            Virtual::Ciphered(file) => is.map(|is| is.size).filter(|size| *size != file.source),
            Virtual::Bytes(_) => None,
        };
        Ok(Meta { size: odd.unwrap_or(meta.size), ..meta })
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_mtime(&self, _: FileTime) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// The file on disk of a [`Ciphered`].
#[derive(Clone, Copy)]
struct PlainSource<'a> {
    file: &'a dyn MediumFile,
    wait: DeviceWait,
}

impl Ciphered {
    /// Reads whole segments if `offset` is the beginning of one and there is room; otherwise a part of one.
    fn read_at(&self, source: PlainSource<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let (first, skipped) = (offset / SEALED_SEGMENT as u64, offset % SEALED_SEGMENT as u64);
        let start = offset - skipped;
        let left = self.size.saturating_sub(start);
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let whole = if room as u64 == left { room } else { room - room % SEALED_SEGMENT };
        if skipped == 0 && whole > 0 {
            self.segments(source, &mut buf[..whole], first)?;
            return Ok(whole);
        }
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(SEALED_SEGMENT);
        let mut segment = vec![0; len];
        self.segments(source, &mut segment, first)?;
        let part = segment.get(skipped as usize..).unwrap_or_default();
        let len = part.len().min(buf.len());
        buf[..len].copy_from_slice(&part[..len]);
        Ok(len)
    }

    /// Fills `out` with segments from `first` on: reads them, checks them against their tree, and only then encrypts or
    /// decrypts.
    fn segments(&self, source: PlainSource<'_>, out: &mut [u8], first: u64) -> io::Result<()> {
        let (start, mut done) = (first * SEALED_SEGMENT as u64, 0);
        let there = usize::try_from(self.source.saturating_sub(start)).unwrap_or(usize::MAX);
        let (content, padding) = out.split_at_mut(there.min(out.len()));
        padding.fill(0);
        while done < content.len() {
            let (rest, at) = (&mut content[done..], start + done as u64);
            let read = match source.wait {
                DeviceWait::Allowed => source.file.read_at(rest, at),
                DeviceWait::Refused => source.file.read_at_no_wait(rest, at),
            };
            match read {
                Ok(0) => return Err(self.changed()),
                Ok(got) => done += got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if let Some(check) = &self.check {
            for (n, segment) in (first..).zip(content.chunks(SEALED_SEGMENT)) {
                let held = check.holds(n, segment, self.source, source.wait);
                if !matches!(held, Ok(true)) {
                    content.fill(0);
                    return Err(held.err().unwrap_or_else(|| self.changed()));
                }
            }
        }
        self.key.apply(first, out);
        Ok(())
    }

    fn changed(&self) -> io::Error {
        let path = self.path.display();
        io::Error::other(format!("{path} has changed since it was shared; share it again"))
    }
}

impl PlaintextCheck {
    /// Returns whether segment `n` of a file of `size` bytes agrees with the tree.
    fn holds(&self, n: u64, segment: &[u8], size: u64, wait: DeviceWait) -> io::Result<bool> {
        if size <= SEALED_SEGMENT as u64 {
            return Ok(xylem_hash::hash(segment) == self.root);
        }
        let Some(nodes) = &self.nodes else { return Ok(false) };
        let mut said = [0; NODE_LEN];
        let slot = Node::leaf(SegmentIndex(n)).slot();
        // A poisoned lock is safe to use: the reader is only a cache.
        let read = match wait {
            DeviceWait::Allowed => {
                let mut nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
                nodes.rebase(self.slot);
                nodes.read(slot, &mut said)
            }
            DeviceWait::Refused => {
                // A thread that reads may hold it for long.
                let mut nodes = match nodes.try_lock() {
                    Ok(nodes) => nodes,
                    Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                    Err(TryLockError::WouldBlock) => {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                };
                nodes.rebase(self.slot);
                nodes.read_no_wait(slot, &mut said)
            }
        };
        read.map_err(|e| match e.is_waiting() {
            true => io::ErrorKind::WouldBlock.into(),
            false => io::Error::other(e),
        })?;
        let geometry = Geometry::new(size, SegmentSize::DEFAULT);
        Ok(leaf_value(&geometry, SegmentIndex(n), segment).0 == said)
    }
}

#[cfg(test)]
mod tests;
