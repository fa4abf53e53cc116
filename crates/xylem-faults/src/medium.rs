//! [`FaultMedium`]: the disk as the store uses it, and the controls for tests.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xylem_store::{Clobber, FileKind, FileTime, Medium, MediumFile, Meta, OpenHow};

use crate::disk::{Disk, DiskFault, Inode, InodeBody, NameChange, NameStep, ROOT, file_body};
use crate::file::FaultFile;

/// A file system in memory with faults on demand. Clones and opened directories share the disk.
#[derive(Clone)]
pub struct FaultMedium {
    pub(crate) disk: Arc<Mutex<Disk>>,
    pub(crate) dir: u64,
}
impl Default for FaultMedium {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultMedium {
    /// An empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        let mut disk = Disk { next: ROOT + 1, ..Disk::default() };
        let body = InodeBody::Dir { entries: BTreeMap::new(), parent: ROOT };
        disk.nodes.insert(ROOT, Inode { mode: 0o700, mtime: FileTime::default(), body });
        Self { disk: Arc::new(Mutex::new(disk)), dir: ROOT }
    }

    /// Makes the changing step number `steps` from now on fail; 0 is the next one.
    pub fn fail_after(&self, steps: u64, fault: DiskFault) {
        let mut disk = self.disk();
        disk.fault = Some((disk.steps + steps, fault));
    }

    /// Makes the read number `reads` from now on fail, and no other; 0 is the next one.
    pub fn fail_read_after(&self, reads: u64) {
        let mut disk = self.disk();
        disk.bad_read = Some(disk.reads + reads);
    }

    /// Makes the look number `looks` from now on fail, and no other; 0 is the next one. A look opens a file, lists a
    /// directory, or reads metadata or the target of a link.
    pub fn fail_look_after(&self, looks: u64) {
        let mut disk = self.disk();
        disk.bad_look = Some(disk.looks + looks);
    }

    /// From now on, two files cannot be exchanged in one step, as on many file systems.
    pub fn refuse_exchange(&self) {
        self.disk().refuses_exchange = true;
    }

    /// Returns whether every fault that was set has occurred.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let disk = self.disk();
        disk.fault.is_none() && disk.bad_read.is_none() && disk.bad_look.is_none()
    }

    /// Removes faults that have not occurred, and the limit of space.
    pub fn heal(&self) {
        let mut disk = self.disk();
        (disk.fault, disk.bad_read, disk.bad_look, disk.capacity) = (None, None, None, None);
    }

    /// Number of changing steps so far: creations, writes, renames, removals, changes of attributes.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.disk().steps
    }

    /// Makes every write accept half of the bytes that it is given.
    pub fn set_short_writes(&self, short: bool) {
        self.disk().short = short;
    }

    /// From now on, names that differ only in case or Unicode composition are one name.
    pub fn fold_names(&self) {
        self.disk().folding = true;
    }

    /// From now on, modes and modification times cannot be set.
    pub fn refuse_attributes(&self) {
        self.disk().refuses_attributes = true;
    }

    /// From now on, syncs of files and directories report success and do nothing. For tests that check whether other
    /// tests notice missing syncs.
    pub fn ignore_syncs(&self) {
        self.disk().ignores_syncs = true;
    }

    /// Number of pages and changes of names that the power loss lost or tore, for a disk that
    /// [`FaultMedium::power_cut`] returned.
    #[must_use]
    pub fn lost_changes(&self) -> u64 {
        self.disk().lost_changes
    }

    /// Limits the bytes that may be written from now on until the disk is full; `None` sets no limit.
    pub fn set_space(&self, bytes: Option<u64>) {
        let mut disk = self.disk();
        disk.capacity = bytes.map(|b| disk.written + b);
    }

    fn rename_to(&self, from: &Path, there: &Self, to: &Path, clobber: Clobber) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (ino, (old_dir, old_name)) = disk.find(self.dir, from, false)?;
        let (new_dir, new_name) = disk.place(there.dir, to)?;
        let taken = disk.entries(new_dir)?.get(&new_name).copied();
        let taken = taken.map(|ino| disk.meta(ino)).transpose()?;
        if taken.is_some_and(|t| clobber == Clobber::Never || t.kind == FileKind::Directory) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.entries(old_dir)?.remove(&old_name);
        disk.entries(new_dir)?.insert(new_name.clone(), ino);
        let (from, to) = ((old_dir, old_name), (new_dir, new_name));
        disk.names.push(NameStep::new(NameChange::Moved { from, to, ino }));
        if let InodeBody::Dir { parent, .. } = &mut disk.node(ino)?.body {
            *parent = new_dir;
        }
        Ok(())
    }

    /// Reads the whole file, past all faults.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut disk = self.disk();
        let (ino, _) = disk.find(self.dir, path, true)?;
        disk.file(ino).map(|(bytes, ..)| bytes.clone())
    }

    /// Writes a file past all faults, as another program does.
    ///
    /// # Errors
    /// If the directory is missing.
    pub fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        let ino = match disk.find(self.dir, path, true) {
            Ok((ino, _)) => ino,
            Err(_) => disk.add(self.dir, path, 0o644, file_body())?,
        };
        disk.names.iter_mut().for_each(NameStep::settle_all);
        let mtime = disk.now();
        let (bytes, durable, pending, _) = disk.file(ino)?;
        *bytes = content.to_vec();
        *durable = content.to_vec();
        pending.clear();
        disk.settable()?;
        disk.node(ino)?.mtime = mtime;
        Ok(())
    }

    /// Makes every read that touches these bytes of a file fail, as a bad sector does, until the bytes are written
    /// again.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn fail_reads(&self, path: &Path, bytes: std::ops::Range<u64>) -> io::Result<()> {
        let mut disk = self.disk();
        let (ino, _) = disk.find(self.dir, path, true)?;
        disk.unreadable.push((ino, bytes));
        Ok(())
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
impl Medium for FaultMedium {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        let mut disk = self.disk();
        disk.look()?;
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
        disk.next += 1; // also serves as the handle's number
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
        disk.look()?;
        let (ino, _) = disk.find(self.dir, path, false)?;
        disk.meta(ino)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let body = InodeBody::Dir { entries: BTreeMap::new(), parent: ROOT };
        disk.add(self.dir, path, mode, body).map(drop)
    }

    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        let mut disk = self.disk();
        disk.look()?;
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
        disk.entries(dir)?.insert(new.clone(), ino);
        disk.names.push(NameStep::new(NameChange::Made { dir, name: new, ino }));
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        self.rename_to(from, self, to, clobber)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.refuses_exchange {
            return Err(io::ErrorKind::Unsupported.into());
        }
        disk.step()?;
        let (ino_one, one) = disk.find(self.dir, one, false)?;
        let (ino_other, other) = disk.find(self.dir, other, false)?;
        for (place, ino) in [(&one, ino_other), (&other, ino_one)] {
            disk.entries(place.0)?.insert(place.1.clone(), ino);
            if let InodeBody::Dir { parent, .. } = &mut disk.node(ino)?.body {
                *parent = place.0;
            }
        }
        disk.names.push(NameStep::new(NameChange::Exchanged { one, other, ino_one, ino_other }));
        Ok(())
    }

    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.rename_to(name, to, new, Clobber::Replace)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        let (ino, (dir, name)) = disk.find(self.dir, path, false)?;
        if disk.meta(ino)?.kind == FileKind::Directory {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // The inode stays: an open handle may refer to it.
        disk.entries(dir)?.remove(&name);
        disk.names.push(NameStep::new(NameChange::Gone { dir, name }));
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
        disk.names.push(NameStep::new(NameChange::Gone { dir, name }));
        Ok(())
    }

    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        disk.add(self.dir, link, 0o777, InodeBody::Link(target.to_path_buf())).map(drop)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let mut disk = self.disk();
        disk.look()?;
        let (ino, _) = disk.find(self.dir, path, false)?;
        match &disk.node(ino)?.body {
            InodeBody::Link(target) => Ok(target.clone()),
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
        if disk.ignores_syncs {
            return Ok(());
        }
        disk.names.iter_mut().for_each(|step| step.settle(dir));
        Ok(())
    }

    fn sync_all(&self, _path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.step()?;
        if disk.ignores_syncs {
            return Ok(());
        }
        disk.names.iter_mut().for_each(NameStep::settle_all);
        for node in disk.nodes.values_mut() {
            if let InodeBody::File { bytes, durable, pending, .. } = &mut node.body {
                durable.clone_from(bytes);
                pending.clear();
            }
        }
        Ok(())
    }
}
