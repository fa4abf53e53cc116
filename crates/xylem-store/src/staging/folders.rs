//! [`StagingFolders`]: the directories of a staging tree, held open, through which every file in it is accessed.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::atomic::Durability;
use crate::attributes::{Attributes, RefusedAttributes, apply, differing};
use crate::dirs::open_dir;
use crate::error::StoreError;
use crate::file::{FileRef, require_regular};
use crate::medium::{FileKind, Medium, Meta, OpenHow};
use crate::sweep::{MAX_DEPTH, cannot_be_set, component, os_bytes, os_path};

/// Most directory handles held open at once.
const MAX_OPEN_DIRS: usize = 64;

/// The entry under a path.
pub(super) struct FolderEntry<'p> {
    /// The directory that holds the entry. `name`: its name there.
    pub(super) dir: Arc<dyn Medium>,
    pub(super) name: &'p Path,
    pub(super) meta: Meta,
}

/// The staging directory and those below it. Paths are relative, components separated by `/`.
pub(super) struct StagingFolders {
    path: PathBuf,
    top: Arc<dyn Medium>,
    resumed: bool,
    /// The handle of each directory, and the clock at its last use.
    dirs: HashMap<Vec<u8>, (Arc<dyn Medium>, u64)>,
    clock: u64,
}

impl StagingFolders {
    /// Starts at the directory at `path`, which an earlier run may have left.
    pub(super) fn new(path: &Path, top: Arc<dyn Medium>, resumed: bool) -> Self {
        Self { path: path.to_path_buf(), top, resumed, dirs: HashMap::new(), clock: 0 }
    }

    /// The staging directory's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The held handle of the staging directory.
    pub(super) fn top(&self) -> Arc<dyn Medium> {
        self.top.clone()
    }

    /// Whether an earlier run left content here.
    pub(super) fn resumed(&self) -> bool {
        self.resumed
    }

    /// From now on existing entries may be those of an earlier run.
    pub(super) fn mark_resumed(&mut self) {
        self.close();
        self.resumed = true;
    }

    /// Makes a directory and those above it. Reuses one that an earlier run made.
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

    /// The held handle of an existing directory; `None` if there is none, or something else has its name or that of one
    /// above it.
    pub(super) fn existing(&mut self, path: &[u8]) -> Result<Option<Arc<dyn Medium>>, StoreError> {
        use io::ErrorKind::{InvalidInput, NotADirectory, NotFound};
        if path.is_empty() {
            return Ok(Some(self.top.clone()));
        }
        self.clock += 1;
        if let Some((dir, used)) = self.dirs.get_mut(path) {
            *used = self.clock;
            return Ok(Some(dir.clone()));
        }
        let (above, name) = split(path);
        let name = component(name).ok_or_else(|| self.bad_path(path))?;
        let Some(above) = self.existing(above)? else { return Ok(None) };
        match above.open_dir(name) {
            Ok(dir) => {
                self.hold(path, &dir);
                Ok(Some(dir))
            }
            // A link gives either of the first two errors.
            Err(e) if matches!(e.kind(), NotADirectory | InvalidInput | NotFound) => Ok(None),
            Err(e) => Err(self.error("open the directory", path, e)),
        }
    }

    /// The entry under a path, as it is: its directory and metadata; `None` if there is none. A name that the file
    /// system identifies with another one is a collision.
    pub(super) fn entry<'p>(
        &mut self,
        path: &'p [u8],
    ) -> Result<Option<FolderEntry<'p>>, StoreError> {
        let (above, name) = split(path);
        let name = component(name).ok_or_else(|| self.bad_path(path))?;
        let Some(dir) = self.existing(above)? else { return Ok(None) };
        match dir.metadata(name) {
            Ok(meta) => {
                if meta.kind != FileKind::Symlink {
                    self.require_ours(&*dir, name, path)?;
                }
                Ok(Some(FolderEntry { dir, name, meta }))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.error("read the metadata", path, e)),
        }
    }

    /// Sets those attributes of a file that differ.
    pub(super) fn set_attributes(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
        unset: &mut RefusedAttributes,
    ) -> Result<(), StoreError> {
        let (dir, name) = self.parent(path)?;
        let opened = dir.open(name, OpenHow::ReadNoFollow);
        let file = opened.map_err(|e| self.error("open", path, e))?;
        let file = FileRef::new(file, self.full(path));
        let there = file.metadata()?;
        apply(&file, &differing(attributes, &there), unset)
    }

    /// Sets a directory's attributes, and on a durable store waits for the device.
    pub(super) fn finish(
        &self,
        dir: &Arc<dyn Medium>,
        path: &[u8],
        attributes: &Attributes,
        durability: Durability,
        unset: &mut RefusedAttributes,
    ) -> Result<(), StoreError> {
        let here = Path::new(".");
        // The time first: its owner could set it without write permission, but the handle's "." is out of reach without
        // search permission.
        if let Some(mtime) = attributes.mtime {
            let set = dir.set_mtime(here, mtime).map_err(|e| self.error("set the time", path, e));
            unset.record_refused(set)?;
        }
        if let Some(mode) = attributes.mode {
            let set = dir.set_mode(here, mode & 0o777);
            unset.record_refused(set.map_err(|e| self.error("set the mode", path, e)))?;
        }
        if durability == Durability::Device {
            dir.sync_dir(here).map_err(|e| self.error("flush to the device", path, e))?;
        }
        Ok(())
    }

    /// Creates a file, in place of any that has the name.
    pub(super) fn create(&mut self, path: &[u8], mode: u32) -> Result<FileRef, StoreError> {
        let (dir, name) = self.parent(path)?;
        // The owner must be able to write through this very handle, which the mode at creation does not prevent.
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

    /// Opens a file that an earlier run left, making it writable, or creates one.
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

    /// Fails unless the entry under `name` is what an earlier run made under exactly this name. Otherwise the file
    /// system identifies another name of the listing with this one: the listing has each name once, and all else here
    /// was removed.
    fn require_ours(&self, dir: &dyn Medium, name: &Path, path: &[u8]) -> Result<(), StoreError> {
        // Our own links come last: this one was planted, and is replaced.
        if dir.metadata(name).is_ok_and(|meta| meta.kind == FileKind::Symlink) {
            return Ok(());
        }
        if !self.resumed {
            return Err(self.collision(path));
        }
        let bytes = os_bytes(name.as_os_str());
        if bytes.is_ascii() {
            // If the name in the other case leads to another file or to none, the file system distinguishes case, and
            // no directory has to be read.
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
        let (above, name) = split(path);
        if path.first() == Some(&b'/') {
            return Err(self.bad_path(path));
        }
        let name = component(name).ok_or_else(|| self.bad_path(path))?;
        Ok((self.dir(above)?, name))
    }

    /// The held handle of a directory. Makes it and those above it if they are missing.
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
        self.hold(path, &dir);
        Ok(dir)
    }

    fn hold(&mut self, path: &[u8], dir: &Arc<dyn Medium>) {
        if self.dirs.len() >= MAX_OPEN_DIRS {
            let oldest = self.dirs.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(path, _)| path.clone());
            oldest.map(|path| self.dirs.remove(&path));
        }
        self.dirs.insert(path.to_vec(), (dir.clone(), self.clock));
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

/// The path before the last slash, and the name after it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    }
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}
