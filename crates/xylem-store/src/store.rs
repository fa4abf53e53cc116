//! The store's own directory: finished outboards, partial ones, records and pins.
//!
//! Layout (docs/spec/store.md): `format`, `objects/<root>.<part>`, `partial/<root>.<part>`,
//! `known/<key>`, `pins/<hash>`, `new/<n>`; all names lowercase hexadecimal. Everything under
//! `objects` and `known` appears by rename, whole or not at all.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_hash::Hash;

use crate::atomic::{self, Durability, sync_above};
use crate::dirs::{ReadablePolicy, create_dirs, keep_private_as, make_dir, open_dir};
use crate::error::StoreError;
use crate::file::{FileRef, Owner, open_locked, read_whole};
use crate::layout::{FOLDERS, FORMAT, NEW, PARTIAL, is_ours, is_own_folder};
use crate::medium::{Clobber, FileKind, Medium, Meta, OpenHow};
use crate::outboard::OutboardFile;
use crate::parts::{ObjectPart, further_partial_name, object_name, partial_name};

/// Attempts to find a free temporary name before giving up; also the largest number of files
/// that can be under construction at once.
const MAX_TEMPS: u32 = 1024;

/// The store: knows roots and the places of their trees, but no names and no peers.
///
/// Call [`Store::open`] first. To publish, [`Store::new_file`] → hash into it ([`hash_file`](crate::hash_file)) →
/// [`Store::keep`]. To serve, [`Store::object`]. To fetch, [`Partial::open`](crate::Partial::open) or
/// [`Staging::open`](crate::Staging::open). It is cheap to clone and may be used on any thread. Several processes may
/// use one directory at once.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    /// The durability that names given in this store wait for.
    durability: Durability,
}

struct Inner {
    dir: PathBuf,
    medium: Arc<dyn Medium>,
    place: Arc<dyn Medium>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("dir", &self.inner.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in `dir`. Creates it (mode 0700, with missing parents) if it is absent, and migrates an older
    /// format. An existing directory that holds only a store is closed to other users ([`Store::close_to_others`]).
    ///
    /// # Errors
    /// The medium's. [`StoreError::Unsafe`] if `dir` is not a directory, or a folder in it is a link.
    /// [`StoreError::Writable`] and [`StoreError::Foreign`] if other users may have changed its content.
    pub fn open(medium: Arc<dyn Medium>, dir: &Path) -> Result<Self, StoreError> {
        create_dirs(&*medium, dir)?;
        let store = Self::open_existing(medium, dir)?;
        Self::close_to_others(&*store.inner.medium, dir)?;
        let format = store.format()?;
        for name in FOLDERS {
            make_dir(store.place(), Path::new(name), &dir.join(name))?;
        }
        // Last, so that an interrupted creation is repeated.
        if format < FORMAT {
            store.write_format()?;
        }
        Ok(store)
    }

    /// Closes an existing directory that holds only a store to other users, as [`Store::open`] does. Returns its former
    /// mode if other users could read it. A directory that holds other things too, or that has no modes, stays as it
    /// is, provided that other users can't change it: its files are closed individually.
    ///
    /// # Errors
    /// [`StoreError::Writable`], [`StoreError::Foreign`]; the medium's.
    pub fn close_to_others(medium: &dyn Medium, dir: &Path) -> Result<Option<u32>, StoreError> {
        let here = Path::new(".");
        let error = |e| StoreError::from_io("list the directory", dir, None, e);
        let place = open_dir(medium, dir)?;
        let (mut alone, mut empty) = (true, true);
        let mut look = |name: &OsStr, _| (alone, empty) = (alone && is_ours(name), false);
        place.for_each_name(here, &mut look).map_err(error)?;
        let mode = || Ok(place.metadata(here).map_err(error)?.mode & 0o777);
        let (before, readable) =
            (mode()?, if alone { ReadablePolicy::Close } else { ReadablePolicy::Leave });
        match keep_private_as(&*place, here, dir, readable) {
            Err(StoreError::Exposed { .. }) => Ok(None),
            Err(e) => Err(e),
            Ok(()) => Ok((!empty && before != mode()?).then_some(before)),
        }
    }

    /// Opens an existing store of any format for inspection. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]. [`StoreError::Unsafe`] if `dir` is not a directory, or a folder in it is a link.
    /// [`StoreError::Format`] if a newer program made it. The medium's.
    pub fn open_existing(medium: Arc<dyn Medium>, dir: &Path) -> Result<Self, StoreError> {
        let place = open_dir(&*medium, dir)?;
        let inner = Arc::new(Inner { dir: dir.to_path_buf(), medium, place });
        let store = Self { inner, durability: Durability::Cached };
        let (here, mut link) = (Path::new("."), None);
        let listed = store.place().for_each_name(here, &mut |name, kind| {
            // A user who could put a link there could have files of others written to or removed.
            if kind == FileKind::Symlink && is_own_folder(name) {
                link = Some(dir.join(name));
            }
        });
        listed.map_err(|e| store.error("list", here, e))?;
        if let Some(path) = link {
            let what = "is a symbolic link, which is not followed inside a store";
            return Err(StoreError::Unsafe { path, what });
        }
        store.format()?;
        Ok(store)
    }

    /// The same store with durability: content is on the device before it gets a name, and the name before the call
    /// returns. A success that was reported survives a loss of power.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durability = Durability::Device;
        self
    }

    /// The durability that names in this store, and those of finished fetches, wait for.
    #[must_use]
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether names wait for the device.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.durability == Durability::Device
    }

    /// The medium that the store was opened on.
    #[must_use]
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.inner.medium
    }

    /// The store's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Where a finished part lies, whether it exists or not (for messages).
    #[must_use]
    pub fn object_path(&self, root: &Hash, part: ObjectPart) -> PathBuf {
        self.full(&object_name(root, part))
    }

    /// Where a part of an unfinished fetch lies. [`ObjectPart::Listing`] is the place for a listing
    /// while it is fetched.
    #[must_use]
    pub fn partial_path(&self, root: &Hash, part: ObjectPart) -> PathBuf {
        self.full(&partial_name(root, part))
    }

    /// The same store, which accesses the user's files through `medium`. The store itself has to be at the same path
    /// there.
    #[must_use]
    pub fn with_medium(&self, medium: Arc<dyn Medium>) -> Self {
        let Inner { dir, place, .. } = &*self.inner;
        let inner = Inner { dir: dir.clone(), medium, place: place.clone() };
        Self { inner: Arc::new(inner), durability: self.durability }
    }

    /// Opens a finished part for reading; `None` if there is none.
    ///
    /// # Errors
    /// The medium's.
    pub fn object(&self, root: &Hash, part: ObjectPart) -> Result<Option<FileRef>, StoreError> {
        self.open_named(&object_name(root, part), OpenHow::ReadNoFollow)
    }

    /// Opens a finished part for repair by proven values; `None` if there is none.
    ///
    /// # Errors
    /// The medium's.
    pub fn object_for_repair(
        &self,
        root: &Hash,
        part: ObjectPart,
    ) -> Result<Option<FileRef>, StoreError> {
        self.open_named(&object_name(root, part), OpenHow::ReadWrite)
    }

    /// Opens a finished outboard ([`ObjectPart::Outboard`] or [`ObjectPart::FileOutboards`]); `None` if there
    /// is none.
    ///
    /// # Errors
    /// The medium's.
    pub fn outboard(
        &self,
        root: &Hash,
        part: ObjectPart,
    ) -> Result<Option<OutboardFile>, StoreError> {
        Ok(self.object(root, part)?.map(OutboardFile::new))
    }

    /// All bytes of a finished part, at most `limit`; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] above `limit`; the medium's.
    pub fn object_bytes(
        &self,
        root: &Hash,
        part: ObjectPart,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.object(root, part)?.map(|file| read_whole(&file, limit)).transpose()
    }

    /// Removes a part of an unfinished fetch; no error if there is none.
    ///
    /// # Errors
    /// The medium's.
    pub fn remove_partial(&self, root: &Hash, part: ObjectPart) -> Result<(), StoreError> {
        self.remove_named(&partial_name(root, part))
    }

    /// Makes an empty file under a temporary name, for a part with a root that is not known yet. Dropping it removes
    /// it, unless [`Store::keep`] gives it its name. Leftovers of killed processes are reused.
    ///
    /// # Errors
    /// The medium's; [`StoreError::Busy`] while more than 1,024 are under construction.
    pub fn new_file(&self) -> Result<NewFile, StoreError> {
        for n in 0..MAX_TEMPS {
            let name = PathBuf::from(format!("{NEW}/{n}"));
            let file = match self.lock_named(&name) {
                Ok(file) => file,
                Err(StoreError::Busy { .. }) => continue,
                Err(e) => return Err(e),
            };
            file.set_len(0)?;
            return Ok(NewFile { store: self.clone(), name, file, kept: false });
        }
        Err(StoreError::Busy { path: self.full(Path::new(NEW)) })
    }

    /// Moves a new file among the finished parts, in place of an older one (same root, same content).
    ///
    /// # Errors
    /// The medium's; the new file is removed then.
    pub fn keep(
        &self,
        mut new: NewFile,
        root: &Hash,
        part: ObjectPart,
    ) -> Result<FileRef, StoreError> {
        let name = object_name(root, part);
        new.install(&name, self.durability)?;
        Ok(new.file.clone())
    }

    /// Opens (or creates) a part of an unfinished fetch and locks it. If another fetch of the same object, to another
    /// place, has that part, this fetch gets one of its own. With `alone`, only one fetch at a time works at this
    /// place, across processes. A caller that holds another lock of the place need not set it.
    ///
    /// # Errors
    /// [`StoreError::Busy`]; the medium's.
    pub(crate) fn lock_partial(
        &self,
        root: &Hash,
        part: ObjectPart,
        place: PlaceKey,
        alone: bool,
    ) -> Result<LockedPart, StoreError> {
        let own_name = own_partial_name(root, part, place);
        let own = if alone || self.metadata_of(&own_name)?.is_some() {
            Some(self.lock_named(&own_name)?)
        } else {
            None
        };
        // Resume what an earlier run has written there.
        let filled = match &own {
            Some(own) => own.metadata()?.size > 0,
            None => false,
        };
        let (root, name) = (*root, partial_name(root, part));
        if !filled {
            match self.lock_named(&name) {
                Err(StoreError::Busy { .. }) => {}
                file => return Ok(LockedPart { root, part, file: file?, name, own, note: None }),
            }
        }
        let file = match own {
            Some(own) => own,
            None => self.lock_named(&own_name)?,
        };
        Ok(LockedPart { root, part, file, name: own_name, own: None, note: None })
    }

    /// Moves a part of a complete fetch among the finished ones.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn finish_partial(&self, locked: &LockedPart) -> Result<(), StoreError> {
        self.rename(&locked.name, &object_name(&locked.root, locked.part))?;
        self.remove_own(locked)
    }

    /// Removes a part of a fetch.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn discard_partial(&self, locked: &LockedPart) -> Result<(), StoreError> {
        self.remove_named(&locked.name)?;
        self.remove_own(locked)
    }

    /// Removes the lock of the fetch's place.
    fn remove_own(&self, locked: &LockedPart) -> Result<(), StoreError> {
        if let Some(own) = &locked.own
            && let Some(name) = own.path().file_name()
        {
            self.remove_named(&Path::new(PARTIAL).join(name))?;
        }
        locked.note.as_deref().map_or(Ok(()), |note| self.remove_named(note))
    }

    /// Whether a path lies in the store.
    pub(crate) fn has_inside(&self, path: &Path) -> bool {
        path.starts_with(&self.inner.dir)
    }

    pub(crate) fn place(&self) -> &dyn Medium {
        &*self.inner.place
    }

    pub(crate) fn full(&self, name: &Path) -> PathBuf {
        self.inner.dir.join(name)
    }

    pub(crate) fn error(&self, doing: &'static str, name: &Path, e: io::Error) -> StoreError {
        StoreError::from_io(doing, &self.full(name), None, e)
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let (shown, replace) = (self.full(to), Clobber::Replace);
        atomic::rename(self.place(), from, to, &shown, replace, self.durability)
    }

    /// Waits until a name in the store is on the device, if the store is durable.
    pub(crate) fn sync_name(&self, name: &Path) -> Result<(), StoreError> {
        if self.is_durable() { sync_above(self.place(), name, &self.full(name)) } else { Ok(()) }
    }

    /// Waits until the names of an unfinished fetch and of its part file are on the device.
    pub(crate) fn sync_partial_names(
        &self,
        locked: &LockedPart,
        part_path: &Path,
    ) -> Result<(), StoreError> {
        sync_above(self.place(), &locked.name, &self.full(&locked.name))?;
        sync_above(&**self.medium(), part_path, part_path)
    }

    pub(crate) fn remove_named(&self, name: &Path) -> Result<(), StoreError> {
        match self.place().remove_file(name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.error("remove", name, e)),
            _ => Ok(()),
        }
    }

    /// Opens the file of this name in the store; `None` if there is none.
    pub(crate) fn open_named(
        &self,
        name: &Path,
        how: OpenHow,
    ) -> Result<Option<FileRef>, StoreError> {
        match self.place().open(name, how) {
            Ok(file) => Ok(Some(FileRef::new(file, self.full(name)))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.error("open", name, e)),
        }
    }

    /// Metadata of the file of this name in the store; `None` if there is none.
    pub(crate) fn metadata_of(&self, name: &Path) -> Result<Option<Meta>, StoreError> {
        match self.place().metadata(name) {
            Ok(meta) => Ok(Some(meta)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.error("read the metadata", name, e)),
        }
    }

    pub(crate) fn lock_named(&self, name: &Path) -> Result<FileRef, StoreError> {
        open_locked(self.place(), name, self.full(name), 0o600, Owner::Whoever)
    }
}

/// A file under construction in the store, locked against other processes. Dropping it removes it unless it was kept.
#[derive(Debug)]
pub struct NewFile {
    store: Store,
    name: PathBuf,
    file: FileRef,
    kept: bool,
}

impl NewFile {
    /// The open file.
    #[must_use]
    pub fn file(&self) -> &FileRef {
        &self.file
    }

    /// The open file as an outboard file, to hash into.
    #[must_use]
    pub fn outboard(&self) -> OutboardFile {
        OutboardFile::new(self.file.clone())
    }

    pub(crate) fn durability(&self) -> Durability {
        self.store.durability()
    }

    /// Gives it a name, for files that are no object's part.
    pub(crate) fn keep_as(mut self, name: &Path, durability: Durability) -> Result<(), StoreError> {
        self.install(name, durability)
    }

    fn install(&mut self, name: &Path, durability: Durability) -> Result<(), StoreError> {
        let store = &self.store;
        let (shown, replace) = (store.full(name), Clobber::Replace);
        let (from, file) = (&self.name, &self.file);
        atomic::install_as(store.place(), file, from, name, &shown, replace, durability)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // The next `new_file` reuses a leftover, so a failure here costs nothing.
            let _ = self.store.place().remove_file(&self.name);
        }
    }
}

/// Distinguishes the place of one fetch from those of other fetches of the same object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaceKey(u64);

impl PlaceKey {
    /// The key of the part file or staging directory at `path`, which has this `meta`. It is the same under any name;
    /// without inode numbers it depends on the path.
    pub(crate) fn of(meta: &Meta, path: &Path) -> Self {
        let [a, b, c, d, e, f, g, h, ..] =
            *xylem_hash::hash(path.as_os_str().as_encoded_bytes()).as_bytes();
        let by_name = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        Self(if meta.ino == 0 { by_name } else { meta.ino })
    }
}

/// A part of an unfinished fetch, locked until the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct LockedPart {
    root: Hash,
    part: ObjectPart,
    /// The open part.
    pub(crate) file: FileRef,
    name: PathBuf,
    /// An empty file that holds the lock of the place.
    own: Option<FileRef>,
    /// Name of the note that records the place of the data. It is removed together with the part.
    pub(crate) note: Option<PathBuf>,
}

fn own_partial_name(root: &Hash, part: ObjectPart, PlaceKey(place): PlaceKey) -> PathBuf {
    further_partial_name(root, part, place)
}
