//! [`FaultMedium`]: a small file system in memory that fails where a test says.
//!
//! It keeps what a crash would keep: [`FaultMedium::image`] is the disk after the process was
//! killed (every completed call counts), [`FaultMedium::power_loss`] the disk after the power
//! went (pages that were not synced are there or not, by a seed), and [`FaultMedium::power_cut`] the
//! same with the names: each creation, rename and removal since its directory was synced has
//! happened or not. Permission bits are kept and not enforced.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod power;

use crate::medium::{Clobber, FileKind, FileTime, Medium, MediumFile, Meta, OpenHow};

const ROOT: u64 = 1;
const PAGE: usize = 4096;
const MAX_LINKS: u32 = 16;

/// What goes wrong at the chosen step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The step and all later ones fail without effect.
    Dead,
    /// Half of a write reaches the file, then all fails. Other steps are as [`Fault::Dead`].
    Torn,
    /// This one step fails, later ones work.
    Once,
    /// From this step on the disk is full: whatever needs room fails with `StorageFull`.
    Full,
}

/// A file system in memory with faults on demand. Clones and opened directories share the disk.
#[derive(Clone)]
pub struct FaultMedium {
    disk: Arc<Mutex<Disk>>,
    dir: u64,
}

#[derive(Default)]
struct Disk {
    nodes: HashMap<u64, Inode>,
    next: u64,
    tick: i64,
    steps: u64,
    fault: Option<(u64, Fault)>,
    dead: bool,
    short: bool,
    capacity: Option<u64>,
    written: u64,
    /// Bytes of files that cannot be read.
    bad: Vec<(u64, std::ops::Range<u64>)>,
    /// Bytes of each file that were ever written: a full disk still takes others in their place.
    taken: HashMap<u64, Vec<bool>>,
    /// Reads so far, and the one that is to fail.
    reads: u64,
    bad_read: Option<u64>,
    /// What happened to names, in order.
    names: Vec<power::NameStep>,
    /// Names that differ only in case or composition are one, as on other systems' disks.
    folding: bool,
    /// Modes and times cannot be set.
    plain: bool,
}

#[derive(Clone)]
struct Inode {
    mode: u32,
    mtime: FileTime,
    body: Body,
}

#[derive(Clone)]
enum Body {
    File { bytes: Vec<u8>, durable: Vec<u8>, pending: Vec<(usize, Vec<u8>)>, lock: Option<u64> },
    Dir { entries: BTreeMap<OsString, u64>, parent: u64 },
    Link(PathBuf),
}

impl Default for FaultMedium {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultMedium {
    /// An empty disk that works.
    #[must_use]
    pub fn new() -> Self {
        let mut disk = Disk { next: ROOT + 1, ..Disk::default() };
        let body = Body::Dir { entries: BTreeMap::new(), parent: ROOT };
        disk.nodes.insert(ROOT, Inode { mode: 0o700, mtime: FileTime::default(), body });
        Self { disk: Arc::new(Mutex::new(disk)), dir: ROOT }
    }

    /// Lets the changing step number `steps` from now on (0: the next) fail.
    pub fn fail_after(&self, steps: u64, fault: Fault) {
        let mut disk = self.disk();
        disk.fault = Some((disk.steps + steps, fault));
    }

    /// Lets the read number `reads` from now on (0: the next) fail, and no other.
    pub fn fail_read_after(&self, reads: u64) {
        let mut disk = self.disk();
        disk.bad_read = Some(disk.reads + reads);
    }

    /// Whether every fault that was set has struck.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let disk = self.disk();
        disk.fault.is_none() && disk.bad_read.is_none()
    }

    /// Takes back a fault that has not struck, and makes a full disk large again.
    pub fn heal(&self) {
        let mut disk = self.disk();
        (disk.fault, disk.bad_read, disk.capacity) = (None, None, None);
    }

    /// Changing steps so far: creations, writes, renames, removals, attributes.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.disk().steps
    }

    /// Lets every write take half of what it is offered.
    pub fn set_short_writes(&self, short: bool) {
        self.disk().short = short;
    }

    /// From now on, names that differ only in case, or in how one letter is composed, are one.
    pub fn fold_names(&self) {
        self.disk().folding = true;
    }

    /// From now on, modes and modification times cannot be set.
    pub fn refuse_attributes(&self) {
        self.disk().plain = true;
    }

    /// Bytes that may be written from now on, until the disk is full; `None` for no limit.
    pub fn set_space(&self, bytes: Option<u64>) {
        let mut disk = self.disk();
        disk.capacity = bytes.map(|b| disk.written + b);
    }

    /// The disk as the next process finds it after this one was killed: working, no locks.
    #[must_use]
    pub fn image(&self) -> Self {
        self.copy(|bytes, _, _| bytes.to_vec())
    }

    /// The disk after the power went: of what was written since the last sync, each page of 4 KiB
    /// is there or not, by `seed`. Names are as they were.
    #[must_use]
    pub fn power_loss(&self, seed: u64) -> Self {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut coin = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 63 == 1
        };
        self.copy(move |bytes, durable, pending| {
            let mut image = durable.to_vec();
            image.resize(bytes.len(), 0);
            for (at, piece) in pending {
                for (i, page) in piece.chunks(PAGE).enumerate() {
                    let at = at + i * PAGE;
                    if coin() && at + page.len() <= image.len() {
                        image[at..at + page.len()].copy_from_slice(page);
                    }
                }
            }
            image
        })
    }

    /// The content of a file, as a test wants to see it.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut disk = self.disk();
        let (ino, _) = disk.find(self.dir, path, true)?;
        disk.file(ino).map(|(bytes, ..)| bytes.clone())
    }

    /// Writes a file past all faults, as somebody else would.
    ///
    /// # Errors
    /// If the directory is missing.
    pub fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        let ino = match disk.find(self.dir, path, true) {
            Ok((ino, _)) => ino,
            Err(_) => disk.add(self.dir, path, 0o644, file_body())?,
        };
        disk.names.iter_mut().for_each(power::NameStep::settle_all);
        let mtime = disk.now();
        let (bytes, durable, pending, _) = disk.file(ino)?;
        *bytes = content.to_vec();
        *durable = content.to_vec();
        pending.clear();
        disk.settable()?;
        disk.node(ino)?.mtime = mtime;
        Ok(())
    }

    /// Lets every read that touches these bytes of a file fail, as over a bad sector, until they are
    /// written anew.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn fail_reads(&self, path: &Path, bytes: std::ops::Range<u64>) -> io::Result<()> {
        let mut disk = self.disk();
        let (ino, _) = disk.find(self.dir, path, true)?;
        disk.bad.push((ino, bytes));
        Ok(())
    }

    fn copy(&self, mut keep: impl FnMut(&[u8], &[u8], &[(usize, Vec<u8>)]) -> Vec<u8>) -> Self {
        let disk = self.disk();
        let mut inos: Vec<_> = disk.nodes.keys().copied().collect();
        inos.sort_unstable(); // so that one seed means one image
        let nodes = inos.into_iter().map(|ino| {
            let mut node = disk.nodes[&ino].clone();
            if let Body::File { bytes, durable, pending, lock } = &mut node.body {
                *bytes = keep(bytes, durable, pending);
                *durable = bytes.clone();
                pending.clear();
                *lock = None;
            }
            (ino, node)
        });
        let nodes = nodes.collect();
        let mut names = disk.names.clone();
        names.iter_mut().for_each(power::NameStep::settle_all);
        let copy = Disk { nodes, next: disk.next, tick: disk.tick, names, ..Disk::default() };
        Self { disk: Arc::new(Mutex::new(copy)), dir: ROOT }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_body() -> Body {
    Body::File { bytes: Vec::new(), durable: Vec::new(), pending: Vec::new(), lock: None }
}

type FileParts<'a> =
    (&'a mut Vec<u8>, &'a mut Vec<u8>, &'a mut Vec<(usize, Vec<u8>)>, &'a mut Option<u64>);

impl Disk {
    /// How much of a write fits if `room` more bytes may be taken.
    fn fitting(&self, ino: u64, at: usize, len: usize, room: usize) -> usize {
        let taken = self.taken.get(&ino).map_or(&[][..], |taken| taken);
        let is_new = |byte: &usize| !taken.get(*byte).copied().unwrap_or(false);
        (at..at + len).filter(is_new).nth(room).map_or(len, |first| first - at)
    }

    /// Counts a write.
    fn take(&mut self, ino: u64, at: usize, len: usize) {
        let taken = self.taken.entry(ino).or_default();
        taken.resize(taken.len().max(at + len), false);
        for byte in &mut taken[at..at + len] {
            self.written += u64::from(!*byte);
            *byte = true;
        }
    }

    /// Counts a changing step; an error where it is to fail.
    fn step(&mut self) -> io::Result<()> {
        let now = self.steps;
        self.steps += 1;
        if self.dead {
            return Err(io::Error::other("the disk is gone"));
        }
        match self.fault {
            Some((at, Fault::Full)) if now >= at => {
                self.fault = None;
                self.capacity = Some(self.written);
                Err(io::ErrorKind::StorageFull.into())
            }
            Some((at, fault)) if now >= at => {
                self.fault = None;
                self.dead = fault != Fault::Once;
                Err(io::Error::other("the disk failed"))
            }
            _ => Ok(()),
        }
    }

    fn now(&mut self) -> FileTime {
        self.tick += 1;
        FileTime { secs: self.tick, nanos: 0 }
    }

    fn node(&mut self, ino: u64) -> io::Result<&mut Inode> {
        self.nodes.get_mut(&ino).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&mut self, ino: u64) -> io::Result<FileParts<'_>> {
        match &mut self.node(ino)?.body {
            Body::File { bytes, durable, pending, lock } => Ok((bytes, durable, pending, lock)),
            Body::Dir { .. } => Err(io::ErrorKind::IsADirectory.into()),
            Body::Link(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "is a symbolic link")),
        }
    }

    fn entries(&mut self, ino: u64) -> io::Result<&mut BTreeMap<OsString, u64>> {
        match &mut self.node(ino)?.body {
            Body::Dir { entries, .. } => Ok(entries),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn settable(&self) -> io::Result<()> {
        if self.plain { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// What stands under a name, and how it is really written.
    fn named(&mut self, dir: u64, name: &OsStr) -> io::Result<Option<(OsString, u64)>> {
        let folding = self.folding;
        let entries = self.entries(dir)?;
        if let Some(ino) = entries.get(name) {
            return Ok(Some((name.to_os_string(), *ino)));
        }
        let same = |other: &&OsString| folding && folded(other) == folded(name);
        Ok(entries.keys().find(same).cloned().map(|name| {
            let ino = entries[&name];
            (name, ino)
        }))
    }

    /// What a path leads to: its number and its place (directory and name).
    fn find(&mut self, from: u64, path: &Path, follow: bool) -> io::Result<(u64, (u64, OsString))> {
        let mut todo: Vec<OsString> = split(path);
        let mut at = if path.has_root() { ROOT } else { from };
        let mut place = (at, OsString::from("."));
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                let Body::Dir { parent, .. } = self.node(at)?.body else {
                    return Err(io::ErrorKind::NotADirectory.into());
                };
                at = parent;
                continue;
            }
            let (name, next) = self.named(at, &name)?.ok_or(io::ErrorKind::NotFound)?;
            place = (at, name);
            let target = match &self.node(next)?.body {
                Body::Link(target) if follow || !todo.is_empty() => target.clone(),
                _ => {
                    at = next;
                    continue;
                }
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::other("too many links"));
            }
            if target.has_root() {
                at = ROOT;
            }
            todo.extend(split(&target));
        }
        Ok((at, place))
    }

    /// The directory and the name that a new entry gets.
    fn place(&mut self, from: u64, path: &Path) -> io::Result<(u64, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_os_string();
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((self.find(from, above, true)?.0, name))
    }

    fn add(&mut self, from: u64, path: &Path, mode: u32, body: Body) -> io::Result<u64> {
        let (dir, name) = self.place(from, path)?;
        if self.named(dir, &name)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = self.next;
        self.next += 1;
        self.entries(dir)?.insert(name.clone(), ino);
        self.names.push(power::NameStep::new(power::What::Made { dir, name, ino }));
        let mut body = body;
        if let Body::Dir { parent, .. } = &mut body {
            *parent = dir;
        }
        let mtime = self.now();
        self.nodes.insert(ino, Inode { mode, mtime, body });
        Ok(ino)
    }

    fn meta(&mut self, ino: u64) -> io::Result<Meta> {
        let node = self.node(ino)?;
        let (kind, size) = match &node.body {
            Body::File { bytes, .. } => (FileKind::File, bytes.len() as u64),
            Body::Dir { .. } => (FileKind::Directory, 0),
            Body::Link(_) => (FileKind::Symlink, 0),
        };
        Ok(Meta { kind, size, mode: node.mode, mtime: node.mtime, ino, dev: 1, links: 1 })
    }
}

/// A name without case and with one letter composed: enough to stand for systems that fold names.
fn folded(name: &OsStr) -> String {
    name.to_string_lossy().to_lowercase().replace("e\u{301}", "\u{e9}")
}

/// The components of a path, last first.
fn split(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|c| match c {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    });
    parts.collect()
}

impl Medium for FaultMedium {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        let mut disk = self.disk();
        let found = disk.find(self.dir, path, how == OpenHow::Read).map(|(ino, _)| ino);
        let ino = match (found, how) {
            (Ok(_), OpenHow::CreateNew { .. }) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            (Ok(ino), _) => ino,
            (Err(e), OpenHow::Create { mode } | OpenHow::CreateNew { mode })
                if e.kind() == io::ErrorKind::NotFound =>
            {
                disk.step()?;
                disk.add(self.dir, path, mode, file_body())?
            }
            (Err(e), _) => return Err(e),
        };
        disk.file(ino)?;
        disk.next += 1; // doubles as a number for the handle
        let handle = disk.next;
        Ok(Arc::new(FaultFile { disk: self.disk.clone(), ino, handle }))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        let mut disk = self.disk();
        let (dir, _) = disk.find(self.dir, path, false)?;
        disk.entries(dir)?;
        Ok(Arc::new(Self { disk: self.disk.clone(), dir }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Meta> {
        let mut disk = self.disk();
        let (ino, _) = disk.find(self.dir, path, false)?;
        disk.meta(ino)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let body = Body::Dir { entries: BTreeMap::new(), parent: ROOT };
        disk.add(self.dir, path, mode, body).map(drop)
    }

    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        let mut disk = self.disk();
        let (dir, _) = disk.find(self.dir, path, true)?;
        for (name, ino) in disk.entries(dir)?.clone() {
            take(&name, disk.meta(ino)?.kind);
        }
        Ok(())
    }

    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        let mut disk = self.disk();
        disk.step()?;
        let (ino, _) = disk.find(self.dir, name, false)?;
        disk.file(ino)?;
        let (dir, new) = disk.place(to.dir, new)?;
        if disk.named(dir, &new)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.entries(dir)?.insert(new, ino);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (ino, (old_dir, old_name)) = disk.find(self.dir, from, false)?;
        let (new_dir, new_name) = disk.place(self.dir, to)?;
        let taken = disk.entries(new_dir)?.get(&new_name).copied();
        let taken = taken.map(|ino| disk.meta(ino)).transpose()?;
        if taken.is_some_and(|t| clobber == Clobber::Never || t.kind == FileKind::Directory) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.entries(old_dir)?.remove(&old_name);
        disk.entries(new_dir)?.insert(new_name.clone(), ino);
        let (from, to) = ((old_dir, old_name), (new_dir, new_name));
        disk.names.push(power::NameStep::new(power::What::Moved { from, to, ino }));
        if let Body::Dir { parent, .. } = &mut disk.node(ino)?.body {
            *parent = new_dir;
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (ino, (dir, name)) = disk.find(self.dir, path, false)?;
        if disk.meta(ino)?.kind == FileKind::Directory {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // The inode stays: somebody may hold it open.
        disk.entries(dir)?.remove(&name);
        disk.names.push(power::NameStep::new(power::What::Gone { dir, name }));
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (ino, (dir, name)) = disk.find(self.dir, path, false)?;
        if !disk.entries(ino)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        disk.entries(dir)?.remove(&name);
        disk.names.push(power::NameStep::new(power::What::Gone { dir, name }));
        Ok(())
    }

    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        disk.add(self.dir, link, 0o777, Body::Link(target.to_path_buf())).map(drop)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let mut disk = self.disk();
        let (ino, _) = disk.find(self.dir, path, false)?;
        match &disk.node(ino)?.body {
            Body::Link(target) => Ok(target.clone()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (ino, _) = disk.find(self.dir, path, false)?;
        disk.settable()?;
        disk.node(ino)?.mode = mode;
        Ok(())
    }

    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (ino, _) = disk.find(self.dir, path, false)?;
        disk.settable()?;
        disk.node(ino)?.mtime = mtime;
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (dir, _) = disk.find(self.dir, path, true)?;
        disk.entries(dir)?;
        disk.names.iter_mut().for_each(|step| step.settle(dir));
        Ok(())
    }
}

struct FaultFile {
    disk: Arc<Mutex<Disk>>,
    ino: u64,
    handle: u64,
}

impl FaultFile {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultFile {
    fn drop(&mut self) {
        if let Ok((.., lock)) = self.disk().file(self.ino) {
            lock.take_if(|holder| *holder == self.handle);
        }
    }
}

impl MediumFile for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk();
        let end = offset + buf.len() as u64;
        let touched = |(ino, bad): &(u64, std::ops::Range<u64>)| {
            *ino == self.ino && bad.start < end && offset < bad.end
        };
        if disk.bad.iter().any(touched) {
            return Err(io::Error::other("a bad sector"));
        }
        disk.reads += 1;
        if disk.bad_read.is_some_and(|at| disk.reads > at) {
            disk.bad_read = None;
            return Err(io::Error::other("the disk can't read this"));
        }
        let (bytes, ..) = disk.file(self.ino)?;
        let from = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        let len = from.len().min(buf.len());
        buf[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk();
        let torn = matches!(disk.fault, Some((_, Fault::Torn)));
        let step = disk.step();
        let mut take = buf.len();
        match &step {
            Err(_) if torn && disk.fault.is_none() => take /= 2,
            Err(_) => take = 0,
            Ok(()) if disk.short && take > 1 => take /= 2,
            Ok(()) => {}
        }
        if let Some(capacity) = disk.capacity {
            let room = capacity.saturating_sub(disk.written);
            take = disk.fitting(self.ino, offset as usize, take, room as usize);
            if take == 0 && !buf.is_empty() && step.is_ok() {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        let end = offset + take as u64;
        let ino = self.ino;
        disk.bad.retain(|(at, bad)| *at != ino || bad.start < offset || end < bad.end);
        disk.take(self.ino, offset as usize, take);
        let mtime = disk.now();
        let (bytes, _, pending, _) = disk.file(self.ino)?;
        let at = offset as usize;
        if bytes.len() < at + take {
            bytes.resize(at + take, 0);
        }
        bytes[at..at + take].copy_from_slice(&buf[..take]);
        pending.push((at, buf[..take].to_vec()));
        disk.node(self.ino)?.mtime = mtime;
        step.map(|()| take)
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let mtime = disk.now();
        disk.file(self.ino)?.0.resize(size as usize, 0);
        disk.node(self.ino)?.mtime = mtime;
        Ok(())
    }

    fn metadata(&self) -> io::Result<Meta> {
        self.disk().meta(self.ino)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        disk.settable()?;
        disk.node(self.ino)?.mode = mode;
        Ok(())
    }

    fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        disk.settable()?;
        disk.node(self.ino)?.mtime = mtime;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (bytes, durable, pending, _) = disk.file(self.ino)?;
        *durable = bytes.clone();
        pending.clear();
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut disk = self.disk();
        let (.., lock) = disk.file(self.ino)?;
        if lock.is_none_or(|holder| holder == self.handle) {
            *lock = Some(self.handle);
            return Ok(true);
        }
        Ok(false)
    }
}
