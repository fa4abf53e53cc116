//! [`MergeTarget`]: an existing directory into which a staging tree is merged.
//!
//! It is first examined without any change. When all new files are whole in the staging directory, each is moved to its
//! place in one step. Every path is walked one component at a time through held handles that refuse links: a link in
//! the place of a directory is replaced, never entered. Files that the listing does not have stay, unless they are
//! removed by name.
//!
//! A crash leaves each name with the old file or the new one. Files not moved yet are in the staging directory, so that
//! doing it all again completes it.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::folders::{FolderEntry, StagingFolders};
use super::{SmallFile, Staging};
use crate::atomic::Durability;
use crate::attributes::{Attributes, RefusedAttributes, apply, differing};
use crate::dirs::open_dir;
use crate::error::StoreError;
use crate::file::{FileRef, require_regular};
use crate::medium::{FileKind, Medium, Meta, OpenHow};
use crate::names::{FolderNames, FolderVisit};
use crate::store::Store;
use crate::sweep::{KindLookup, MAX_DEPTH, cannot_be_set, os_path, remove_tree};

/// Name in the staging directory of the link that is moved next.
const NEXT: &str = ".next.xylem-part";

/// Most directories, nested too deep to be removed, that are named individually.
const MAX_TOO_DEEP: usize = 10;

/// Returns whether to leave a path alone, given its path below the directory, its place and its kind.
pub type IsSpared<'a> = dyn FnMut(&[u8], &Path, FileKind) -> Result<bool, StoreError> + 'a;

/// The content of the listing, and the paths to leave alone.
pub struct TargetListing<'a> {
    /// Returns the kind that the listing has under a path: a directory, or [`FileKind::File`] for anything else. Called
    /// in the order of a listing.
    pub has: &'a mut KindLookup<'a>,
    /// Returns whether to leave a path alone, with all below it.
    pub spares: &'a mut IsSpared<'a>,
}

/// An existing directory into which a staging tree is merged. Call order: [`MergeTarget::open`] → [`MergeTarget::metadata`],
/// [`MergeTarget::unlisted`] → [`MergeTarget::remove`] → [`MergeTarget::directory`] and [`Staging::move_file`], parents first →
/// [`Staging::move_hard_link`] → [`Staging::move_symlink`] → [`MergeTarget::finish_directory`] deepest first →
/// [`Staging::finish_merged`].
pub struct MergeTarget {
    folders: StagingFolders,
    device: u64,
    durability: Durability,
}

impl std::fmt::Debug for MergeTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("path", &self.folders.path()).finish_non_exhaustive()
    }
}

fn in_the_way(path: PathBuf) -> StoreError {
    let what = "a folder that is not empty stands where a file has to be";
    StoreError::Unsafe { path, what }
}

impl MergeTarget {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a link or any other file; the medium's.
    pub fn open(store: &Store, path: &Path) -> Result<Self, StoreError> {
        let top = open_dir(&**store.medium(), path)?;
        let meta = top.metadata(Path::new("."));
        let meta = meta.map_err(|e| StoreError::from_io("read the metadata", path, None, e))?;
        let folders = StagingFolders::new(path, top, true);
        Ok(Self { folders, device: meta.dev, durability: store.durability() })
    }

    /// The full path of an entry.
    #[must_use]
    pub fn place(&self, path: &[u8]) -> PathBuf {
        self.folders.full(path)
    }

    /// Metadata of the entry under a path; `None` if there is none, or if something other than a directory is above it.
    ///
    /// # Errors
    /// [`StoreError::Collision`] if the file system identifies the name with another one; the medium's.
    pub fn metadata(&mut self, path: &[u8]) -> Result<Option<Meta>, StoreError> {
        Ok(self.folders.entry(path)?.map(|seen| seen.meta))
    }

    /// Whether a file is on another file system than the directory itself.
    #[must_use]
    pub fn is_elsewhere(&self, meta: &Meta) -> bool {
        meta.dev != self.device
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The medium's.
    pub fn open_file(&mut self, path: &[u8]) -> Result<FileRef, StoreError> {
        let seen = self.folders.entry(path)?;
        let full = self.folders.full(path);
        let Some(FolderEntry { dir, name, .. }) = seen else {
            return Err(StoreError::NotFound { path: full });
        };
        let opened = dir.open(name, OpenHow::ReadNoFollow);
        Ok(FileRef::new(opened.map_err(|e| self.folders.error("open", path, e))?, full))
    }

    /// Checks that a directory in the place of something else is empty.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] if it is not; the medium's.
    pub fn require_empty(&mut self, path: &[u8]) -> Result<(), StoreError> {
        let Some(dir) = self.folders.existing(path)? else { return Ok(()) };
        let mut empty = true;
        dir.for_each_name(Path::new("."), &mut |_, _| empty = false)
            .map_err(|e| self.folders.error("list", path, e))?;
        if empty { Ok(()) } else { Err(in_the_way(self.folders.full(path))) }
    }

    /// Finds entries that the listing does not have, directories before their content. Links are not followed, and
    /// other file systems not entered. Directories nested too deep stay; returns the first few of them.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] if a directory that must not be emptied is in the place of a file;
    /// the medium's.
    pub fn unlisted(
        &self,
        listing: &mut TargetListing<'_>,
        found: &mut dyn FnMut(&[u8], FileKind),
    ) -> Result<Vec<PathBuf>, StoreError> {
        let too_deep = Vec::new();
        let mut search = UnlistedSearch { device: self.device, listing, found, too_deep };
        let (top, shown) = (self.folders.top(), self.folders.path());
        search.directory(&*top, shown, &mut Vec::new(), 0)?;
        Ok(search.too_deep)
    }

    /// Starts the changes: entries examined before are examined again.
    ///
    /// # Errors
    /// The medium's.
    pub fn start_changes(&mut self) -> Result<(), StoreError> {
        self.folders.close();
        let (top, here) = (self.folders.top(), Path::new("."));
        let error = |doing, e| StoreError::from_io(doing, self.folders.path(), None, e);
        let mode = top.metadata(here).map_err(|e| error("read the metadata", e))?.mode;
        match if mode & 0o300 == 0o300 { Ok(()) } else { top.set_mode(here, 0o700) } {
            Err(e) if !cannot_be_set(e.kind()) => Err(error("set the mode", e)),
            _ => Ok(()),
        }
    }

    /// Removes a file, a link or an empty directory. A directory that is no longer empty stays.
    ///
    /// # Errors
    /// The medium's.
    pub fn remove(&mut self, path: &[u8], kind: FileKind) -> Result<(), StoreError> {
        let Some(FolderEntry { dir, name, .. }) = self.folders.entry(path)? else { return Ok(()) };
        let remove = || match kind {
            FileKind::Directory => dir.remove_dir(name),
            _ => dir.remove_file(name),
        };
        let mut removed = remove();
        if removed.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
            && dir.set_mode(Path::new("."), 0o700).is_ok()
        {
            removed = remove();
        }
        match removed {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other.map_err(|e| self.folders.error("remove", path, e)),
        }
    }

    /// Makes a listed directory, in place of a file or link of its name.
    ///
    /// # Errors
    /// The medium's.
    pub fn directory(&mut self, path: &[u8]) -> Result<(), StoreError> {
        if let Some(FolderEntry { dir, name, meta }) = self.folders.entry(path)? {
            if meta.kind == FileKind::Directory {
                return Ok(());
            }
            // Access it as for writing: its directory may deny us access.
            self.folders.parent(path)?;
            dir.remove_file(name).map_err(|e| self.folders.error("remove", path, e))?;
        }
        self.folders.dir(path).map(drop)
    }

    /// Sets the attributes of a file that stays.
    ///
    /// # Errors
    /// The medium's.
    pub fn set_attributes(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
        unset: &mut RefusedAttributes,
    ) -> Result<(), StoreError> {
        let file = self.open_file(path)?;
        apply(&file, &differing(attributes, &file.metadata()?), unset)
    }

    /// Sets a directory's attributes, after everything in it is in place. The empty path is the directory itself.
    ///
    /// # Errors
    /// The medium's.
    pub fn finish_directory(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
        unset: &mut RefusedAttributes,
    ) -> Result<(), StoreError> {
        let Some(dir) = self.folders.existing(path)? else { return Ok(()) };
        let meta = dir.metadata(Path::new("."));
        let meta = meta.map_err(|e| self.folders.error("read the metadata", path, e))?;
        let attributes = differing(attributes, &meta);
        self.folders.finish(&dir, path, &attributes, self.durability, unset)
    }

    /// Moves `name` of `from` to its place, replacing a file, a link or an empty directory.
    fn move_in(&mut self, from: &dyn Medium, name: &Path, path: &[u8]) -> Result<(), StoreError> {
        let (dir, new) = self.folders.parent(path)?;
        let there = dir.metadata(new).map(|meta| meta.kind);
        if matches!(there, Ok(FileKind::Directory)) {
            dir.remove_dir(new).map_err(|_| in_the_way(self.folders.full(path)))?;
        }
        let moved = from.move_to(name, &*dir, new);
        moved.map_err(|e| self.folders.error("rename to this name", path, e))
    }
}

/// A walk that finds entries that the listing does not have.
struct UnlistedSearch<'a, 'b> {
    device: u64,
    listing: &'a mut TargetListing<'b>,
    found: &'a mut dyn FnMut(&[u8], FileKind),
    too_deep: Vec<PathBuf>,
}

impl UnlistedSearch<'_, '_> {
    /// Walks a directory. Returns whether nothing in it stays.
    fn directory(
        &mut self,
        dir: &dyn Medium,
        shown: &Path,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<bool, StoreError> {
        if depth > MAX_DEPTH {
            if self.too_deep.len() < MAX_TOO_DEEP {
                self.too_deep.push(shown.to_path_buf());
            }
            return Ok(false);
        }
        let error = |doing, shown: &Path, e| StoreError::from_io(doing, shown, None, e);
        let names = FolderNames::read(dir, Path::new("."), &mut |_, _| true);
        let names = names.map_err(|e| error("list", shown, e))?;
        let (mut empties, mut left, mut blocking) = (true, HashSet::new(), HashSet::new());
        for visit in (0..names.len()).filter_map(|i| names.get(i)) {
            let (name, kind) = match visit {
                FolderVisit::Name(name, kind) => (name, Some(kind)),
                FolderVisit::Inside(name) => (name, None),
            };
            let Some(at) = os_path(name) else {
                empties = false;
                continue;
            };
            let (shown, len) = (shown.join(at), path.len());
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            match kind {
                None if left.remove(name) => {}
                None => {
                    let below =
                        dir.open_dir(at).map_err(|e| error("open the directory", &shown, e))?;
                    let emptied = self.directory(&*below, &shown, path, depth + 1)?;
                    empties &= emptied;
                    if blocking.remove(name) && !emptied {
                        return Err(in_the_way(shown));
                    }
                }
                Some(kind) => {
                    let wanted = (self.listing.has)(path)?;
                    let is_folder = kind == FileKind::Directory;
                    let mut spared = (self.listing.spares)(path, &shown, kind)?;
                    if is_folder && !spared {
                        let meta = dir.metadata(at);
                        spared = meta.map_err(|e| error("read the metadata", &shown, e))?.dev
                            != self.device;
                    }
                    let blocks = wanted == Some(FileKind::File) && is_folder;
                    if blocks && spared {
                        return Err(in_the_way(shown));
                    }
                    if spared && is_folder {
                        left.insert(name.to_vec());
                    }
                    if blocks {
                        blocking.insert(name.to_vec());
                    }
                    let stays = spared || (wanted.is_some() && !blocks);
                    empties &= !stays;
                    if !stays {
                        (self.found)(path, kind);
                    }
                }
            }
            path.truncate(len);
        }
        Ok(empties)
    }
}

impl Staging {
    /// Moves a finished file of the staging directory to its place.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] if a non-empty directory is in its place; the medium's.
    pub fn move_file(&mut self, target: &mut MergeTarget, path: &[u8]) -> Result<(), StoreError> {
        let (from, name) = self.folders.parent(path)?;
        target.move_in(&*from, name, path)
    }

    /// Gives the file `first`, which is in its place, the second name `copy.path`. If the file system has no such
    /// links, makes a copy, and returns false.
    ///
    /// # Errors
    /// As [`Staging::move_file`], and of [`Staging::copy_of`].
    pub fn move_hard_link(
        &mut self,
        target: &mut MergeTarget,
        copy: &SmallFile<'_>,
        first: &[u8],
        attributes: &Attributes,
    ) -> Result<bool, StoreError> {
        let Some(old) = target.folders.entry(first)? else {
            return Err(StoreError::NotFound { path: target.folders.full(first) });
        };
        require_regular(&target.folders.full(first), &old.meta)?;
        if let Some(there) = target.folders.entry(copy.path)?
            && (there.meta.ino, there.meta.dev) == (old.meta.ino, old.meta.dev)
            && old.meta.ino != 0
        {
            return Ok(true);
        }
        let (top, next) = (self.folders.top(), Path::new(NEXT));
        match top.remove_file(next) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(self.folders.error("remove", NEXT.as_bytes(), e));
            }
            _ => {}
        }
        use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
        match old.dir.hard_link(old.name, &*top, next) {
            Ok(()) => target.move_in(&*top, next, copy.path).map(|()| true),
            Err(e)
                if matches!(
                    e.kind(),
                    CrossesDevices | PermissionDenied | TooManyLinks | Unsupported
                ) =>
            {
                let source = target.open_file(first)?;
                self.copy_of(copy, &source, attributes)?;
                self.move_file(target, copy.path).map(|()| false)
            }
            Err(e) => Err(target.folders.error("create the link", copy.path, e)),
        }
    }

    /// Makes a symbolic link in its place, unless there is one with the same target.
    ///
    /// # Errors
    /// As [`Staging::move_file`].
    pub fn move_symlink(
        &mut self,
        target: &mut MergeTarget,
        path: &[u8],
        says: &[u8],
    ) -> Result<(), StoreError> {
        let says = os_path(says).ok_or_else(|| self.folders.bad_path(path))?;
        if let Some(there) = target.folders.entry(path)?
            && there.meta.kind == FileKind::Symlink
            && there.dir.read_link(there.name).is_ok_and(|is| is == says)
        {
            return Ok(());
        }
        let (top, next) = (self.folders.top(), Path::new(NEXT));
        let _ = top.remove_file(next);
        top.symlink(says, next).map_err(|e| self.folders.error("create the link", path, e))?;
        target.move_in(&*top, next, path)
    }

    /// When everything is in its place: removes the staging directory, and moves the outboards among the finished ones
    /// unless there are some.
    ///
    /// # Errors
    /// The medium's. Everything may be done again then.
    pub fn finish_merged(&mut self) -> Result<(), StoreError> {
        self.close()?;
        remove_tree(&**self.store.medium(), self.folders.path())?;
        self.keep_outboards()
    }
}
