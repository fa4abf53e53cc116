//! [`Gate`]: a disk that hangs until a test opens the gate, for a loop that must not wait for it.

use std::any::Any;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use xylem_store::{Clobber, DiskMedium, FileKind, FileTime, Medium, MediumFile, Meta, OpenHow};

/// The disk behind a gate, which counts the bytes read. While the gate is closed, only threads that read and write may
/// wait for it.
#[derive(Clone)]
pub struct Gate {
    state: Arc<(Mutex<(bool, u64)>, Condvar)>,
    is_far: bool,
    below: Arc<dyn Medium>,
}

impl Gate {
    /// A closed gate before the disk, which counts as one on another machine.
    #[must_use]
    pub fn closed() -> Self {
        let state = Arc::new((Mutex::new((false, 0)), Condvar::new()));
        Self { state, is_far: true, below: Arc::new(DiskMedium::new()) }
    }

    /// Sets whether the disk counts as one on another machine.
    #[must_use]
    pub fn with_distance(self, is_far: bool) -> Self {
        Self { is_far, ..self }
    }

    /// Lets everything pass, also what waits.
    pub fn open(&self) {
        self.state.0.lock().expect("no panic").0 = true;
        self.state.1.notify_all();
    }

    /// Lets nothing pass from now on.
    pub fn close(&self) {
        self.state.0.lock().expect("no panic").0 = false;
    }

    fn is_open(&self) -> bool {
        self.state.0.lock().expect("no panic").0
    }

    fn pass(&self, bytes: u64) {
        let is_thread = thread::current().name().is_some_and(|name| name.starts_with("xylem-"));
        assert!(is_thread || self.is_open(), "the loop waits for the disk");
        let state = self.state.0.lock().expect("no panic");
        let mut state = self.state.1.wait_while(state, |state| !state.0).expect("no panic");
        state.1 += bytes;
    }

    /// Bytes that were to be read so far.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.state.0.lock().expect("no panic").1
    }
}

struct Gated(Gate, Arc<dyn MediumFile>);

impl MediumFile for Gated {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.pass(buf.len() as u64);
        self.1.read_at(buf, offset)
    }

    fn read_at_no_wait(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.0.is_open() {
            true => self.read_at(buf, offset),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn metadata(&self) -> io::Result<Meta> {
        self.0.pass(0);
        self.1.metadata()
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.pass(0);
        self.1.write_at(buf, offset)
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        self.0.pass(0);
        self.1.set_len(size)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.1.set_mode(mode)
    }

    fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        self.1.set_mtime(mtime)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.1.try_lock()
    }
}

impl Medium for Gate {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        self.pass(0);
        Ok(Arc::new(Gated(self.clone(), self.below.open(path, how)?)))
    }

    fn open_no_wait(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        match self.is_open() {
            true => Medium::open(self, path, how),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn is_remote(&self, _: &Path) -> bool {
        self.is_far
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        Ok(Arc::new(Self { below: self.below.open_dir(path)?, ..self.clone() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Meta> {
        self.below.metadata(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.below.create_dir(path, mode)
    }

    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        self.below.for_each_name(path, take)
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        self.below.rename(from, to, clobber)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.pass(0);
        self.below.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.below.remove_dir(path)
    }

    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        self.below.symlink(target, link)
    }

    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.below.hard_link(name, &*to.below, new)
    }

    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.below.move_to(name, &*to.below, new)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.below.read_link(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.below.set_mode(path, mode)
    }

    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()> {
        self.below.set_mtime(path, mtime)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.below.sync_dir(path)
    }
}
