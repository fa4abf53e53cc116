//! The disk in memory: inodes, names, the fault that is set, and what was written since the last sync.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use xylem_store::{FileKind, FileTime, Meta};

pub(crate) const ROOT: u64 = 1;
const MAX_LINKS: u32 = 16;

/// A fault at the chosen step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// The step and all later ones fail without effect.
    Dead,
    /// Half of a write reaches the file, then all fails. Other steps are as [`DiskFault::Dead`].
    Torn,
    /// This step fails; later steps work.
    Once,
    /// From this step on the disk is full: each step that needs room fails with `StorageFull`.
    Full,
}
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) nodes: HashMap<u64, Inode>,
    pub(crate) next: u64,
    pub(crate) tick: i64,
    pub(crate) steps: u64,
    pub(crate) fault: Option<(u64, DiskFault)>,
    pub(crate) dead: bool,
    pub(crate) short: bool,
    pub(crate) capacity: Option<u64>,
    pub(crate) written: u64,
    /// Ranges of bytes that cannot be read, each with its inode number.
    pub(crate) unreadable: Vec<(u64, std::ops::Range<u64>)>,
    /// Marks each byte of a file that was ever written, by inode number. A full disk still accepts writes over these
    /// bytes.
    pub(crate) ever_written: HashMap<u64, Vec<bool>>,
    /// Number of reads so far. `bad_read` is the number of the read that fails.
    pub(crate) reads: u64,
    pub(crate) bad_read: Option<u64>,
    /// Number of looks so far: files opened, directories listed, metadata and links read. `bad_look` is the number of the
    /// look that fails.
    pub(crate) looks: u64,
    pub(crate) bad_look: Option<u64>,
    /// Files cannot be exchanged in one step.
    pub(crate) refuses_exchange: bool,
    /// Changes of names, in order.
    pub(crate) names: Vec<NameStep>,
    /// Names that differ only in case or Unicode composition are one name, as on case-insensitive file systems.
    pub(crate) folding: bool,
    /// Modes and modification times cannot be set.
    pub(crate) refuses_attributes: bool,
    /// Syncs do nothing.
    pub(crate) ignores_syncs: bool,
    /// Pages and changes of names that the power loss lost or tore.
    pub(crate) lost_changes: u64,
}

#[derive(Clone)]
pub(crate) struct Inode {
    pub(crate) mode: u32,
    pub(crate) mtime: FileTime,
    pub(crate) body: InodeBody,
}

#[derive(Clone)]
pub(crate) enum InodeBody {
    File { bytes: Vec<u8>, durable: Vec<u8>, pending: Vec<(usize, Vec<u8>)>, lock: Option<u64> },
    Dir { entries: BTreeMap<OsString, u64>, parent: u64 },
    Link(PathBuf),
}
/// One change of a name.
#[derive(Clone)]
pub(crate) struct NameStep {
    pub(crate) what: NameChange,
    /// Certain to be on the device.
    pub(crate) settled: bool,
}

#[derive(Clone)]
pub(crate) enum NameChange {
    Made { dir: u64, name: OsString, ino: u64 },
    Moved { from: (u64, OsString), to: (u64, OsString), ino: u64 },
    Exchanged { one: (u64, OsString), other: (u64, OsString), ino_one: u64, ino_other: u64 },
    Gone { dir: u64, name: OsString },
}

impl NameStep {
    pub(crate) fn new(what: NameChange) -> Self {
        Self { what, settled: false }
    }

    /// Settles this change if `synced`, a directory, contains it. A rename is settled by a sync of either directory.
    pub(crate) fn settle(&mut self, synced: u64) {
        self.settled |= match &self.what {
            NameChange::Made { dir, .. } | NameChange::Gone { dir, .. } => *dir == synced,
            NameChange::Moved { from, to, .. } => from.0 == synced || to.0 == synced,
            NameChange::Exchanged { one, other, .. } => one.0 == synced || other.0 == synced,
        };
    }

    pub(crate) fn settle_all(&mut self) {
        self.settled = true;
    }
}

pub(crate) fn file_body() -> InodeBody {
    InodeBody::File { bytes: Vec::new(), durable: Vec::new(), pending: Vec::new(), lock: None }
}

type FileParts<'a> =
    (&'a mut Vec<u8>, &'a mut Vec<u8>, &'a mut Vec<(usize, Vec<u8>)>, &'a mut Option<u64>);

impl Disk {
    /// Number of bytes of a write that fit if `room` bytes more may be taken. Bytes that were written before need no
    /// room.
    pub(crate) fn fitting_len(&self, ino: u64, at: usize, len: usize, room: usize) -> usize {
        let taken = self.ever_written.get(&ino).map_or(&[][..], |taken| taken);
        let is_new = |byte: &usize| !taken.get(*byte).copied().unwrap_or(false);
        (at..at + len).filter(is_new).nth(room).map_or(len, |first| first - at)
    }

    /// Counts the bytes of a write that were not written before.
    pub(crate) fn count_written(&mut self, ino: u64, at: usize, len: usize) {
        let taken = self.ever_written.entry(ino).or_default();
        taken.resize(taken.len().max(at + len), false);
        for byte in &mut taken[at..at + len] {
            self.written += u64::from(!*byte);
            *byte = true;
        }
    }

    /// Counts a changing step. Returns an error if the step is to fail.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let now = self.steps;
        self.steps += 1;
        if self.dead {
            return Err(io::Error::other("the disk is gone"));
        }
        match self.fault {
            Some((at, DiskFault::Full)) if now >= at => {
                self.fault = None;
                self.capacity = Some(self.written);
                Err(io::ErrorKind::StorageFull.into())
            }
            Some((at, fault)) if now >= at => {
                self.fault = None;
                self.dead = fault != DiskFault::Once;
                Err(io::Error::other("the disk failed"))
            }
            _ => Ok(()),
        }
    }

    /// Counts a look. Returns an error if it is to fail.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.looks += 1;
        if self.bad_look.is_some_and(|at| self.looks > at) {
            self.bad_look = None;
            return Err(io::Error::other("the disk can't look at this"));
        }
        Ok(())
    }

    pub(crate) fn now(&mut self) -> FileTime {
        self.tick += 1;
        FileTime { secs: self.tick, nanos: 0 }
    }

    pub(crate) fn node(&mut self, ino: u64) -> io::Result<&mut Inode> {
        self.nodes.get_mut(&ino).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn file(&mut self, ino: u64) -> io::Result<FileParts<'_>> {
        match &mut self.node(ino)?.body {
            InodeBody::File { bytes, durable, pending, lock } => {
                Ok((bytes, durable, pending, lock))
            }
            InodeBody::Dir { .. } => Err(io::ErrorKind::IsADirectory.into()),
            InodeBody::Link(_) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "is a symbolic link"))
            }
        }
    }

    pub(crate) fn entries(&mut self, ino: u64) -> io::Result<&mut BTreeMap<OsString, u64>> {
        match &mut self.node(ino)?.body {
            InodeBody::Dir { entries, .. } => Ok(entries),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(crate) fn settable(&self) -> io::Result<()> {
        if self.refuses_attributes { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// The inode number of a directory entry, with the name as the directory stores it.
    pub(crate) fn named(&mut self, dir: u64, name: &OsStr) -> io::Result<Option<(OsString, u64)>> {
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

    /// Resolves a path to an inode number and its place: directory and name.
    pub(crate) fn find(
        &mut self,
        from: u64,
        path: &Path,
        follow: bool,
    ) -> io::Result<(u64, (u64, OsString))> {
        let mut todo: Vec<OsString> = split(path);
        let mut at = if path.has_root() { ROOT } else { from };
        let mut place = (at, OsString::from("."));
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                let InodeBody::Dir { parent, .. } = self.node(at)?.body else {
                    return Err(io::ErrorKind::NotADirectory.into());
                };
                at = parent;
                continue;
            }
            let (name, next) = self.named(at, &name)?.ok_or(io::ErrorKind::NotFound)?;
            place = (at, name);
            let target = match &self.node(next)?.body {
                InodeBody::Link(target) if follow || !todo.is_empty() => target.clone(),
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

    /// The directory and the name of a new entry at `path`.
    pub(crate) fn place(&mut self, from: u64, path: &Path) -> io::Result<(u64, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_os_string();
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((self.find(from, above, true)?.0, name))
    }

    pub(crate) fn add(
        &mut self,
        from: u64,
        path: &Path,
        mode: u32,
        body: InodeBody,
    ) -> io::Result<u64> {
        let (dir, name) = self.place(from, path)?;
        if self.named(dir, &name)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = self.next;
        self.next += 1;
        self.entries(dir)?.insert(name.clone(), ino);
        self.names.push(NameStep::new(NameChange::Made { dir, name, ino }));
        let mut body = body;
        if let InodeBody::Dir { parent, .. } = &mut body {
            *parent = dir;
        }
        let mtime = self.now();
        self.nodes.insert(ino, Inode { mode, mtime, body });
        Ok(ino)
    }

    pub(crate) fn meta(&mut self, ino: u64) -> io::Result<Meta> {
        let node = self.node(ino)?;
        let (kind, size) = match &node.body {
            InodeBody::File { bytes, .. } => (FileKind::File, bytes.len() as u64),
            InodeBody::Dir { .. } => (FileKind::Directory, 0),
            InodeBody::Link(_) => (FileKind::Symlink, 0),
        };
        let (mode, mtime, ctime) = (node.mode, node.mtime, FileTime::default());
        Ok(Meta { kind, size, mode, mtime, ctime, ino, dev: 1, links: 1, owner: 0 })
    }
}

/// The lower-case name, with one letter (é) composed. That suffices to stand for systems that fold names.
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
