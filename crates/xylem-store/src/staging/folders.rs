//! [`Folders`]: the directories of a staging tree, held open, through which every file in it is reached.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dirs::open_dir;
use crate::error::StoreError;
use crate::file::{FileRef, require_regular};
use crate::medium::{FileKind, Medium, OpenHow};
use crate::sweep::{MAX_DEPTH, cannot_be_set, component, os_bytes, os_path};

/// Directory handles held open at once.
const MAX_OPEN_DIRS: usize = 64;

/// The staging directory and those below it. Paths are relative, components separated by `/`.
pub(super) struct Folders {
    path: PathBuf,
    top: Arc<dyn Medium>,
    resumed: bool,
    /// The handle of each directory, and the clock when it was last used.
    dirs: HashMap<Vec<u8>, (Arc<dyn Medium>, u64)>,
    clock: u64,
}

impl Folders {
    /// Those of the directory at `path`, which an earlier run may have left.
    pub(super) fn new(path: &Path, top: Arc<dyn Medium>, resumed: bool) -> Self {
        Self { path: path.to_path_buf(), top, resumed, dirs: HashMap::new(), clock: 0 }
    }

    /// Where the staging directory stands.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether an earlier run left something here.
    pub(super) fn resumed(&self) -> bool {
        self.resumed
    }

    /// Makes a directory, and those above it, or takes the one that an earlier run made.
    pub(super) fn make(&mut self, path: &[u8]) -> Result<(), StoreError> {
        if !self.dirs.contains_key(path) {
            let (above, name) = self.parent(path)?;
            match above.create_dir(name, 0o700) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    self.require_ours(&*above, name, path)?;
                }
                Err(e) => return Err(self.error("create the directory", path, e)),
                Ok(()) => {}
            }
        }
        self.dir(path).map(drop)
    }

    /// Closes all handles below the staging directory.
    pub(super) fn close(&mut self) {
        self.dirs.clear();
    }

    /// A new file, in place of whatever has the name.
    pub(super) fn create(&mut self, path: &[u8], mode: u32) -> Result<FileRef, StoreError> {
        let (dir, name) = self.parent(path)?;
        // The owner must be able to write through this very handle, which the mode at creation
        // does not prevent.
        let how = OpenHow::CreateNew { mode };
        let opened = match dir.open(name, how) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                self.require_ours(&*dir, name, path)?;
                dir.remove_file(name).map_err(|e| self.error("remove", path, e))?;
                dir.open(name, how)
            }
            other => other,
        };
        let file = opened.map_err(|e| self.error("create", path, e))?;
        Ok(FileRef::new(file, self.full(path)))
    }

    /// A file that an earlier run left, writable again, or a new one.
    pub(super) fn open_or_create(&mut self, path: &[u8]) -> Result<FileRef, StoreError> {
        if !self.resumed {
            return self.create(path, 0o600);
        }
        let (dir, name) = self.parent(path)?;
        let mut opened = dir.open(name, OpenHow::ReadWrite);
        if opened.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
            && dir.set_mode(name, 0o600).is_ok()
        {
            opened = dir.open(name, OpenHow::ReadWrite);
        }
        let Ok(file) = opened else { return self.create(path, 0o600) };
        let file = FileRef::new(file, self.full(path));
        require_regular(file.path(), &file.metadata()?)?;
        self.require_ours(&*dir, name, path)?;
        Ok(file)
    }

    /// What stands under `name` must be what an earlier run made under exactly this name. Otherwise it is
    /// another name of the listing that the file system takes for this one: the listing has each name
    /// once, and whatever else lay here was swept away.
    fn require_ours(&self, dir: &dyn Medium, name: &Path, path: &[u8]) -> Result<(), StoreError> {
        // Links of ours come last: this one was planted, and is replaced.
        if dir.metadata(name).is_ok_and(|meta| meta.kind == FileKind::Symlink) {
            return Ok(());
        }
        if !self.resumed {
            return Err(self.collision(path));
        }
        let bytes = os_bytes(name.as_os_str());
        if bytes.is_ascii() {
            // Where the other case is something else, or nothing, case is told apart, and no
            // directory has to be read.
            let other: Vec<u8> = bytes.iter().map(|b| swap_case(*b)).collect();
            let number = |name| dir.metadata(name).map(|meta| (meta.ino, meta.dev));
            let theirs = os_path(&other).and_then(|name| number(name).ok());
            if other == bytes || theirs.is_none_or(|theirs| number(name).ok() != Some(theirs)) {
                return Ok(());
            }
        }
        let mut found = false;
        dir.for_each_name(Path::new("."), &mut |other, _| found |= other == name)
            .map_err(|e| self.error("list", path, e))?;
        if found { Ok(()) } else { Err(self.collision(path)) }
    }

    pub(super) fn collision(&self, path: &[u8]) -> StoreError {
        StoreError::Collision { path: self.full(path) }
    }

    /// The held directory above `path`, and the last component.
    pub(super) fn parent<'p>(
        &mut self,
        path: &'p [u8],
    ) -> Result<(Arc<dyn Medium>, &'p Path), StoreError> {
        let (above, name) = match path.iter().rposition(|b| *b == b'/') {
            Some(0) => return Err(self.bad_path(path)), // absolute
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let name = component(name).ok_or_else(|| self.bad_path(path))?;
        Ok((self.dir(above)?, name))
    }

    /// The held handle of a directory, made with those above it if they are missing.
    pub(super) fn dir(&mut self, path: &[u8]) -> Result<Arc<dyn Medium>, StoreError> {
        if path.is_empty() {
            return Ok(self.top.clone());
        }
        self.clock += 1;
        if let Some((dir, used)) = self.dirs.get_mut(path) {
            *used = self.clock;
            return Ok(dir.clone());
        }
        if path.iter().filter(|b| **b == b'/').count() >= MAX_DEPTH {
            return Err(self.bad_path(path));
        }
        let (above, name) = self.parent(path)?;
        let made = match above.create_dir(name, 0o700) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
            Err(e) => return Err(self.error("create the directory", path, e)),
        };
        let dir = open_dir(&*above, name).map_err(|e| match e {
            StoreError::Unsafe { what, .. } => StoreError::Unsafe { path: self.full(path), what },
            _ => StoreError::Permission { path: self.full(path), doing: "open the directory" },
        })?;
        if !made {
            // An earlier run may have finished it already: make it writable again.
            match dir.set_mode(Path::new("."), 0o700) {
                Err(e) if !cannot_be_set(e.kind()) => {
                    return Err(self.error("set the mode", path, e));
                }
                _ => {}
            }
        }
        if self.dirs.len() >= MAX_OPEN_DIRS {
            let oldest = self.dirs.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(path, _)| path.clone());
            oldest.map(|path| self.dirs.remove(&path));
        }
        self.dirs.insert(path.to_vec(), (dir.clone(), self.clock));
        Ok(dir)
    }

    pub(super) fn full(&self, path: &[u8]) -> PathBuf {
        self.path.join(os_path(path).unwrap_or(Path::new("?")))
    }

    pub(super) fn error(&self, doing: &'static str, path: &[u8], e: io::Error) -> StoreError {
        StoreError::from_io(doing, &self.full(path), None, e)
    }

    pub(super) fn bad_path(&self, path: &[u8]) -> StoreError {
        StoreError::Unsafe { path: self.full(path), what: "not a plain path below the directory" }
    }

    pub(super) fn out_of_range(&self, path: &[u8], offset: u64) -> StoreError {
        StoreError::OutOfRange { path: self.full(path), offset }
    }
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}
