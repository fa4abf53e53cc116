//! [`Staging`]: a directory while it is fetched, built beside its final name.
//!
//! Every path is walked one component at a time through held directory handles that refuse symbolic links, so nothing
//! planted in the staging directory leads a write out of it. Files are created anew, never opened through an existing
//! entry; symbolic links come last. A small file takes one open, one write and its attributes through the open handle:
//! no rename, no flush to the device, no path look-up.
//!
//! The directory gets its final name in one step when everything is in place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_hash::{Hash, Hasher};
use xylem_tree::{Geometry, Node, NodeValue, Verified};

use crate::atomic::{self, Durability};
use crate::attributes::{Attributes, OverwritePolicy, RefusedAttributes, apply};
use crate::dirs::open_dir;
use crate::error::StoreError;
use crate::file::{FileRef, require_regular};
use crate::medium::{Clobber, FileKind, FileTime, Medium, Meta, OpenHow};
use crate::node_buffer::NodeBuffer;
use crate::outboard::OutboardFile;
use crate::part::{first_of_ours, require_same};
use crate::partial::{Partial, Resuming};
use crate::parts::ObjectPart;
use crate::sparse::write_sparse;
use crate::store::{LockedPart, PlaceKey, Store};
use crate::sweep::{KindLookup, os_path, remove_tree, sweep};
use crate::unfinished::UnfinishedKind;

mod folders;
mod small;
mod target;

use folders::StagingFolders;
pub use small::{MAX_SMALL_FILE, SmallFile};
pub use target::{IsSpared, MergeTarget, TargetListing};

/// Bytes of small files that are read back before they are hashed together.
const BATCH_BYTES: usize = 1 << 20;

/// A directory while it is fetched.
///
/// Call order: [`Staging::open`] → [`Staging::intact`] for files that an earlier run may have left → directories,
/// [`Staging::write_small`], [`Staging::open_file`] in any order → [`Staging::hard_link`] → [`Staging::symlink`] →
/// [`Staging::finish_directory`] deepest first → [`Staging::finish_as`].
///
/// All paths are relative, components separated by `/`, as in a checked listing.
pub struct Staging {
    store: Store,
    root: Hash,
    folders: StagingFolders,
    locked: LockedPart,
    outboard: OutboardFile,
    nodes: NodeBuffer,
    /// Permission bits that are known to survive the umask.
    kept_bits: u32,
    batch: Vec<u8>,
    unset: RefusedAttributes,
    /// Bytes of the files that an earlier run left.
    found: u64,
}

impl std::fmt::Debug for Staging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staging").field("path", &self.folders.path()).finish_non_exhaustive()
    }
}

/// An opened staging directory.
struct OpenedStaging {
    path: PathBuf,
    dir: Arc<dyn Medium>,
    meta: Meta,
    resumed: bool,
}

impl OpenedStaging {
    /// Makes the directory, or reuses one of ours.
    fn open(medium: &dyn Medium, path: &Path) -> Result<Self, StoreError> {
        let resumed = match medium.create_dir(path, 0o700) {
            Ok(()) => false,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => true,
            Err(e) => return Err(StoreError::from_io("create the directory", path, None, e)),
        };
        let opened = open_dir(medium, path);
        let meta = match &opened {
            Ok(dir) => dir.metadata(Path::new(".")),
            // The reason of the failure matters only for a directory that is ours.
            Err(_) => medium.metadata(path),
        };
        let meta = meta.map_err(|e| StoreError::from_io("read the metadata", path, None, e))?;
        if resumed && !medium.owns(&meta) {
            let what = "belongs to another user";
            return Err(StoreError::Unsafe { path: path.to_path_buf(), what });
        }
        Ok(Self { path: path.to_path_buf(), dir: opened?, meta, resumed })
    }
}

impl Staging {
    /// Opens or resumes the fetch of the directory with listing `root` in `path` (created with mode 0700), and locks
    /// it. Another fetch of the same directory may use another path. If `path` is another user's, or no directory, it
    /// is left alone and another name beside it is used.
    ///
    /// `listed` returns the kind that the listing has under a path. It is called in the order of a listing, and only if
    /// `path` exists already. All other content of `path`, from an earlier run, another version or another program, is
    /// removed, and so are all links: they are made again at the end.
    ///
    /// # Errors
    /// [`StoreError::Busy`]; [`StoreError::Unsafe`] if `path` is no directory; the medium's.
    pub fn open(
        store: &Store,
        root: Hash,
        path: &Path,
        listed: &mut KindLookup<'_>,
    ) -> Result<Self, StoreError> {
        let OpenedStaging { path, dir: place, meta, resumed } =
            first_of_ours(path, |path| OpenedStaging::open(&**store.medium(), path))?;
        let path = path.as_path();
        let key = PlaceKey::of(&meta, path);
        let mut locked = store.lock_partial(&root, ObjectPart::FileOutboards, key, true)?;
        locked.note = store.note_unfinished(&root, path, UnfinishedKind::Directory)?;
        let mut staging = Self {
            found: 0,
            store: store.clone(),
            root,
            folders: StagingFolders::new(path, place.clone(), resumed),
            outboard: OutboardFile::new(locked.file.clone()),
            locked,
            nodes: NodeBuffer::default(),
            kept_bits: 0,
            batch: Vec::new(),
            unset: RefusedAttributes::default(),
        };
        if resumed {
            let mut count = |_: &[u8], meta: &Meta| {
                let size = if meta.kind == FileKind::File { meta.size } else { 0 };
                staging.found = staging.found.saturating_add(size);
            };
            sweep(&*place, path, &mut Vec::new(), 0, listed, &mut count)?;
        }
        Ok(staging)
    }

    /// The directory's path until it has its final name.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folders.path()
    }

    /// Bytes of the files that an earlier run had left here when it was opened. Incomplete files count with their full
    /// size.
    #[must_use]
    pub fn found(&self) -> u64 {
        self.found
    }

    /// Whether an earlier run left content here.
    #[must_use]
    pub fn was_resumed(&self) -> bool {
        self.folders.resumed()
    }

    /// Examines the whole directory again, by name from the top. Removes what the listing does not have, and calls
    /// `stays` for the rest, in the order of a listing. Then continues as [`Staging::resume`] does. Call it before
    /// links are made.
    ///
    /// # Errors
    /// The medium's.
    pub fn review(
        &mut self,
        listed: &mut KindLookup<'_>,
        stays: &mut dyn FnMut(&[u8], &Meta),
    ) -> Result<(), StoreError> {
        self.folders.mark_resumed();
        sweep(&*self.folders.top(), self.folders.path(), &mut Vec::new(), 0, listed, stays)
    }

    /// From here on, files that are written replace existing ones, as in a run that resumes an earlier one.
    pub fn resume(&mut self) {
        self.folders.mark_resumed();
    }

    /// Tests whether the file system keeps the modification time that a file is given.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path; the medium's.
    pub fn keeps_mtime(&mut self, path: &[u8], mtime: FileTime) -> Result<bool, StoreError> {
        let (dir, name) = self.folders.parent(path)?;
        let now = dir.set_mtime(name, mtime).and_then(|()| dir.metadata(name));
        Ok(now.is_ok_and(|now| now.mtime == mtime))
    }

    /// The file for the outboards of the directory's larger files, one after the other.
    #[must_use]
    pub fn outboard(&self) -> &OutboardFile {
        &self.outboard
    }

    /// Makes a listed directory (and those above it). Call it once for each, before anything is put in.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path or if something else has the name;
    /// [`StoreError::Collision`]; the medium's.
    pub fn directory(&mut self, path: &[u8]) -> Result<(), StoreError> {
        self.folders.make(path)
    }

    /// Returns the attributes that the file system refused since the last call.
    pub fn take_unset(&mut self) -> RefusedAttributes {
        std::mem::take(&mut self.unset)
    }

    /// Takes the proven nodes of a file that is written by [`Staging::write_small`] and has more than one segment, for
    /// its outboard at `slot_offset` of [`Staging::outboard`]. They are written in large runs, the last ones by
    /// [`Staging::finish_as`].
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] for nodes that `file` does not have; the medium's.
    pub fn put_nodes(
        &mut self,
        file: &SmallFile<'_>,
        geometry: &Geometry,
        slot_offset: u64,
        nodes: &Verified<Vec<(Node, NodeValue)>>,
    ) -> Result<(), StoreError> {
        for (node, value) in nodes.iter() {
            if nodes.root() != file.root || !geometry.node_exists(*node) {
                return Err(self.folders.out_of_range(file.path, node.slot()));
            }
            self.nodes.push(slot_offset.saturating_add(node.slot()), &value.0);
        }
        if self.nodes.is_full() { self.nodes.write(self.outboard.file()) } else { Ok(()) }
    }

    /// Opens or resumes one larger file, its outboard at `slot_offset` of [`Staging::outboard`].
    /// Finish it with [`Partial::finish_in_place`].
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path; the medium's.
    pub fn open_file(
        &mut self,
        path: &[u8],
        root: Hash,
        geometry: Geometry,
        slot_offset: u64,
    ) -> Result<Resuming, StoreError> {
        let file = self.folders.open_or_create(path)?;
        let durability = self.store.durability();
        Partial::open_staged(root, geometry, file, self.outboard.clone(), slot_offset, durability)
    }

    /// Makes a symbolic link to a target that the listing's check permitted. Call it after the files.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path; the medium's.
    pub fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<(), StoreError> {
        let (dir, name) = self.folders.parent(path)?;
        let target = os_path(target).ok_or_else(|| self.folders.bad_path(path))?;
        match dir.symlink(target, name) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(self.folders.collision(path)),
            Err(e) => Err(self.folders.error("create the link", path, e)),
        }
    }

    /// Gives a finished file a second name. Call it after the files and before the symbolic links, so that `target` can
    /// only be a file of this directory. Returns false and does nothing if the file system has no such links, or not so
    /// many: use [`Staging::copy_file`] then.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path or if `target` is no regular file;
    /// [`StoreError::Collision`]; the medium's.
    pub fn hard_link(&mut self, path: &[u8], target: &[u8]) -> Result<bool, StoreError> {
        use io::ErrorKind;
        let (from, old) = self.folders.parent(target)?;
        let meta = from.metadata(old).map_err(|e| self.folders.error("link to", target, e))?;
        require_regular(&self.folders.full(target), &meta)?;
        let (to, new) = self.folders.parent(path)?;
        match from.hard_link(old, &*to, new) {
            Ok(()) => Ok(true),
            Err(e) => match e.kind() {
                ErrorKind::AlreadyExists => Err(self.folders.collision(path)),
                ErrorKind::Unsupported
                | ErrorKind::PermissionDenied
                | ErrorKind::CrossesDevices
                | ErrorKind::TooManyLinks => Ok(false),
                _ => Err(self.folders.error("create the link", path, e)),
            },
        }
    }

    /// Makes `copy.path` from the finished file `target`, which must have the content of `copy`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the content differs; [`StoreError::Collision`]; the medium's.
    pub fn copy_file(
        &mut self,
        copy: &SmallFile<'_>,
        target: &[u8],
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let (from, old) = self.folders.parent(target)?;
        let source = from
            .open(old, OpenHow::ReadNoFollow)
            .map_err(|e| self.folders.error("open", target, e))?;
        self.copy_of(copy, &FileRef::new(source, self.folders.full(target)), attributes)
    }

    /// Makes `copy.path` from `source`, which must have the content of `copy`.
    ///
    /// # Errors
    /// As [`Staging::copy_file`].
    pub fn copy_of(
        &mut self,
        copy: &SmallFile<'_>,
        source: &FileRef,
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let copied = self.try_copy(copy, source, attributes);
        if copied.is_err() {
            // A listed name may hold only its listed content.
            let (dir, name) = self.folders.parent(copy.path)?;
            let _ = dir.remove_file(name);
        }
        copied
    }

    fn try_copy(
        &mut self,
        copy: &SmallFile<'_>,
        source: &FileRef,
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let out = self.folders.create(copy.path, 0o600)?;
        out.set_len(copy.size)?;
        let (mut hasher, mut at, mut piece) = (Hasher::new(), 0, vec![0; BATCH_BYTES]);
        loop {
            let got = source.read_full(&mut piece, at)?;
            hasher.update(&piece[..got]);
            write_sparse(&out, &piece[..got], at)?;
            at += got as u64;
            if got < piece.len() || at > copy.size {
                break;
            }
        }
        if at != copy.size || hasher.finalize() != copy.root {
            let path = source.path().to_path_buf();
            return Err(StoreError::Corrupt {
                path,
                offset: 0,
                what: "it changed while it was copied",
            });
        }
        apply(&out, attributes, &mut self.unset)?;
        if self.store.is_durable() { out.sync() } else { Ok(()) }
    }

    /// Sets a directory's attributes. Call it deepest first, after everything in it is in place. The empty path is the
    /// fetched directory itself.
    ///
    /// # Errors
    /// The medium's.
    pub fn finish_directory(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let dir = self.folders.dir(path)?;
        let durability = self.store.durability();
        self.folders.finish(&dir, path, attributes, durability, &mut self.unset)
    }

    /// Gives the directory its final name, and moves its outboards among the finished ones unless there are some. Files
    /// that were not fetched, or were written by [`Staging::write_small`], leave holes there, which read as zeros:
    /// "never written".
    ///
    /// With [`OverwritePolicy::Replace`], a directory or file of that name is first moved aside (to the name of the
    /// staging directory with `.old` added) and removed afterwards.
    ///
    /// # Errors
    /// [`StoreError::Exists`] under [`OverwritePolicy::Never`]; the medium's. It may be called again, with
    /// another name if need be.
    pub fn finish_as(
        &mut self,
        final_path: &Path,
        policy: OverwritePolicy,
    ) -> Result<(), StoreError> {
        self.close()?;
        let (medium, durability) = (self.store.medium().clone(), self.store.durability());
        let rename = |from: &Path, to: &Path, durability| {
            atomic::rename(&*medium, from, to, final_path, Clobber::Never, durability)
        };
        let held = self.folders.top().metadata(Path::new("."));
        let held = held.map_err(|e| self.folders.error("read the metadata", b"", e))?;
        require_same(&*medium, self.folders.path(), &held)?;
        match rename(self.folders.path(), final_path, durability) {
            Err(StoreError::Exists { .. }) if policy == OverwritePolicy::Replace => {
                let mut aside = self.folders.path().as_os_str().to_os_string();
                aside.push(".old");
                let aside = PathBuf::from(aside);
                remove_tree(&*medium, &aside)?;
                rename(final_path, &aside, Durability::Cached)?;
                rename(self.folders.path(), final_path, durability)?;
                remove_tree(&*medium, &aside)?;
            }
            other => other?,
        }
        require_same(&*medium, final_path, &held)?;
        self.keep_outboards()
    }

    /// Abandons the fetch: removes its files, here and in the store.
    ///
    /// # Errors
    /// The medium's.
    pub fn discard(mut self) -> Result<(), StoreError> {
        self.folders.close();
        remove_tree(&**self.store.medium(), self.folders.path())?;
        self.store.discard_partial(&self.locked)
    }

    /// Writes what is buffered and closes all handles.
    fn close(&mut self) -> Result<(), StoreError> {
        self.folders.close();
        self.nodes.write(self.outboard.file())?;
        if self.store.is_durable() { self.outboard.file().sync() } else { Ok(()) }
    }

    /// Moves the outboards among the finished ones, unless there are some.
    fn keep_outboards(&self) -> Result<(), StoreError> {
        // Ours has holes for files that were left out or written whole. An existing one was made by publishing, which
        // leaves none.
        match self.store.object(&self.root, ObjectPart::FileOutboards)? {
            None => self.store.finish_partial(&self.locked),
            Some(_) => self.store.discard_partial(&self.locked),
        }
    }
}
