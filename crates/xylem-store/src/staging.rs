//! [`Staging`]: a directory while it is fetched, built beside its final name.
//!
//! Every path is walked one component at a time through held directory handles that refuse
//! symbolic links, so nothing planted in the staging directory leads a write out of it; files are
//! created anew, never opened through something that is there; symbolic links come last. Small
//! files take one open, one write and their attributes through the open handle: no rename, no
//! flush to the device, no path look-up a file.
//!
//! The directory gets its final name in one step when everything is in place.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_hash::{Hash, Hasher, hash_many};
use xylem_tree::{Geometry, Node, NodeValue, Segment, Verified};

use crate::atomic::{self, Durability};
use crate::dirs::open_dir;
use crate::error::StoreError;
use crate::file::{FileRef, require_regular};
use crate::medium::{Clobber, FileKind, Medium, OpenHow};
use crate::node_buffer::NodeBuffer;
use crate::outboard::OutboardFile;
use crate::partial::{Attributes, OverwritePolicy, Partial, Resuming, Unset, apply};
use crate::sparse::{has_zero_page, write_sparse};
use crate::store::{Part, Store};
use crate::sweep::{
    KindOf, MAX_DEPTH, cannot_be_set, component, os_bytes, os_path, remove_tree, sweep,
};

/// Directory handles held open at once.
const MAX_OPEN_DIRS: usize = 64;
/// Bytes of small files that are read back before they are hashed side by side.
const BATCH_BYTES: usize = 1 << 20;
/// Largest file that [`Staging::write_small`] takes and [`Staging::intact`] checks.
pub const MAX_SMALL_FILE: u64 = 256 * 1024;

/// A directory while it is fetched.
///
/// Call order: [`Staging::open`] → [`Staging::intact`] for what an earlier run may have left →
/// directories, [`Staging::write_small`], [`Staging::open_file`] in any order →
/// [`Staging::hard_link`] → [`Staging::symlink`] → [`Staging::finish_directory`] deepest first → [`Staging::finish_as`].
///
/// All paths are relative, components separated by `/`, as in a checked listing.
pub struct Staging {
    store: Store,
    root: Hash,
    path: PathBuf,
    place: Arc<dyn Medium>,
    outboard: OutboardFile,
    nodes: NodeBuffer,
    resumed: bool,
    dirs: HashMap<Vec<u8>, (Arc<dyn Medium>, u64)>,
    clock: u64,
    /// Permission bits that are known to survive the umask.
    kept_bits: u32,
    batch: Vec<u8>,
    unset: Unset,
}

/// A small file as the listing has it.
#[derive(Debug, Clone, Copy)]
pub struct SmallFile<'a> {
    /// Path below the directory.
    pub path: &'a [u8],
    /// Bytes, at most [`MAX_SMALL_FILE`].
    pub size: u64,
    /// BLAKE3 of the content.
    pub root: Hash,
}

impl std::fmt::Debug for Staging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staging").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Staging {
    /// Opens or resumes the fetch of the directory whose listing is `root` in `path` (created
    /// with mode 0700), locking the object.
    ///
    /// `listed` says what the listing has under a path; it is asked in the order of a listing, and
    /// only if `path` is there already. Whatever else an earlier run, another version or somebody else
    /// left in `path` is removed, and so are all links: they are made again at the end.
    ///
    /// # Errors
    /// [`StoreError::Busy`]; [`StoreError::Unsafe`] if `path` is no directory; the medium's.
    pub fn open(
        store: &Store,
        root: Hash,
        path: &Path,
        listed: &mut KindOf<'_>,
    ) -> Result<Self, StoreError> {
        let outboard = OutboardFile::new(store.lock_partial(&root, Part::FileOutboards)?);
        let resumed = match store.medium().create_dir(path, 0o700) {
            Ok(()) => false,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => true,
            Err(e) => return Err(StoreError::from_io("create the directory", path, None, e)),
        };
        let place = open_dir(&**store.medium(), path)?;
        let staging = Self {
            store: store.clone(),
            root,
            path: path.to_path_buf(),
            place,
            outboard,
            nodes: NodeBuffer::default(),
            resumed,
            dirs: HashMap::new(),
            clock: 0,
            kept_bits: 0,
            batch: Vec::new(),
            unset: Unset::default(),
        };
        if resumed {
            sweep(&*staging.place, path, &mut Vec::new(), 0, listed)?;
        }
        Ok(staging)
    }

    /// Whether an earlier run left something here.
    #[must_use]
    pub fn was_resumed(&self) -> bool {
        self.resumed
    }

    /// Where the outboards of the directory's larger files go, one after the other.
    #[must_use]
    pub fn outboard(&self) -> &OutboardFile {
        &self.outboard
    }

    /// Which of these files are there with the right content. Reads and hashes them side by side.
    ///
    /// # Errors
    /// The medium's, except that a file that is missing, unreadable or of another size is simply
    /// not intact.
    pub fn intact(&mut self, files: &[SmallFile<'_>]) -> Result<Vec<bool>, StoreError> {
        let mut right = vec![false; files.len()];
        let mut batch = std::mem::take(&mut self.batch);
        let mut read: Vec<(usize, usize, usize)> = Vec::new();
        batch.clear();
        for (i, file) in files.iter().enumerate() {
            let start = batch.len();
            if self.read_small(file, &mut batch)? {
                read.push((i, start, batch.len()));
            }
            if batch.len() >= BATCH_BYTES || i + 1 == files.len() {
                let inputs: Vec<&[u8]> = read.iter().map(|(_, s, e)| &batch[*s..*e]).collect();
                let mut hashes = vec![Hash::from_bytes([0; 32]); inputs.len()];
                hash_many(&inputs, &mut hashes);
                for ((i, ..), hash) in read.drain(..).zip(&hashes) {
                    right[i] = files[i].root == *hash;
                }
                batch.clear();
            }
        }
        self.batch = batch;
        Ok(right)
    }

    /// Makes a listed directory (and those above it). To be called once for each, before anything is
    /// put in.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path or if something else stands there;
    /// [`StoreError::Collision`]; the medium's.
    pub fn directory(&mut self, path: &[u8]) -> Result<(), StoreError> {
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

    /// Attributes that the file system would not take since this was called last.
    pub fn take_unset(&mut self) -> Unset {
        std::mem::take(&mut self.unset)
    }

    /// Writes a whole small file from its proven segments, in order, replacing what an earlier
    /// run left under the name. The directories above it are made as needed.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] if the segments are not those of `file`; the medium's.
    pub fn write_small<B: AsRef<[u8]>>(
        &mut self,
        file: &SmallFile<'_>,
        segments: &[Verified<Segment<B>>],
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let mut at = 0;
        for segment in segments {
            if segment.root() != file.root || segment.offset != at {
                return Err(self.out_of_range(file.path, at));
            }
            at += segment.content.as_ref().len() as u64;
        }
        if at != file.size || segments.is_empty() || at > MAX_SMALL_FILE {
            return Err(self.out_of_range(file.path, at));
        }
        let mode = attributes.mode.map_or(0o600, |m| m & 0o777);
        let out = self.create(file.path, mode)?;
        match segments {
            [whole] if at > 0 => write_whole(&out, whole.content.as_ref())?,
            [_] => {}
            many => {
                let bytes: Vec<u8> =
                    many.iter().flat_map(|s| s.content.as_ref().iter().copied()).collect();
                write_whole(&out, &bytes)?;
            }
        }
        if mode & !self.kept_bits != 0 {
            // Learn once which bits the umask lets through, instead of setting them every time.
            let got = out.metadata()?.mode & 0o777;
            self.kept_bits |= got & mode;
            if got != mode {
                self.unset.note(out.set_mode(mode))?;
            }
        }
        apply(&out, &Attributes { mode: None, mtime: attributes.mtime }, &mut self.unset)?;
        if self.store.is_durable() { out.sync() } else { Ok(()) }
    }

    /// Sets the attributes of a file that an earlier run wrote and [`Staging::intact`] found right:
    /// that run may have died before it set them.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path; the medium's.
    pub fn set_attributes(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let (dir, name) = self.parent(path)?;
        let opened = dir.open(name, OpenHow::ReadNoFollow);
        let file = opened.map_err(|e| self.error("open", path, e))?;
        let file = FileRef::new(file, self.full(path));
        let there = file.metadata()?;
        apply(
            &file,
            &Attributes {
                mode: attributes.mode.filter(|mode| mode & 0o777 != there.mode & 0o777),
                mtime: attributes.mtime.filter(|mtime| *mtime != there.mtime),
            },
            &mut self.unset,
        )
    }

    /// Takes the proven nodes of a file that goes in with [`Staging::write_small`] and has more than
    /// one segment, for its outboard at `slot_offset` of [`Staging::outboard`]. They are written
    /// in large runs, the last ones by [`Staging::finish_as`].
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] for nodes that such a file does not have; the medium's.
    pub fn put_nodes(
        &mut self,
        geometry: &Geometry,
        slot_offset: u64,
        nodes: &Verified<Vec<(Node, NodeValue)>>,
    ) -> Result<(), StoreError> {
        for (node, value) in nodes.iter() {
            if !geometry.node_exists(*node) {
                let path = self.outboard.file().path().to_path_buf();
                return Err(StoreError::OutOfRange { path, offset: node.slot() });
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
        let file = self.open_or_create(path)?;
        let durability = self.store.durability();
        Partial::open_staged(root, geometry, file, self.outboard.clone(), slot_offset, durability)
    }

    /// Makes a symbolic link; after the files, and to a target that the listing's check allowed.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path; the medium's.
    pub fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<(), StoreError> {
        let (dir, name) = self.parent(path)?;
        let target = os_path(target).ok_or_else(|| self.bad_path(path))?;
        match dir.symlink(target, name) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(self.collision(path)),
            Err(e) => Err(self.error("create the link", path, e)),
        }
    }

    /// Gives a finished file one more name; after the files and before the symbolic links, so that
    /// `target` can be nothing but a file of this directory. False, and nothing done, where the file
    /// system has no such links, or not so many: [`Staging::copy_file`] serves then.
    ///
    /// # Errors
    /// [`StoreError::Unsafe`] for a bad path or if `target` is no regular file;
    /// [`StoreError::Collision`]; the medium's.
    pub fn hard_link(&mut self, path: &[u8], target: &[u8]) -> Result<bool, StoreError> {
        use io::ErrorKind;
        let (from, old) = self.parent(target)?;
        let meta = from.metadata(old).map_err(|e| self.error("link to", target, e))?;
        require_regular(&self.full(target), &meta)?;
        let (to, new) = self.parent(path)?;
        match from.hard_link(old, &*to, new) {
            Ok(()) => Ok(true),
            Err(e) => match e.kind() {
                ErrorKind::AlreadyExists => Err(self.collision(path)),
                ErrorKind::Unsupported
                | ErrorKind::PermissionDenied
                | ErrorKind::CrossesDevices
                | ErrorKind::TooManyLinks => Ok(false),
                _ => Err(self.error("create the link", path, e)),
            },
        }
    }

    /// Makes `copy.path` from the finished file `target`, whose content must be that of `copy`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is not; [`StoreError::Collision`]; the medium's.
    pub fn copy_file(
        &mut self,
        copy: &SmallFile<'_>,
        target: &[u8],
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let (from, old) = self.parent(target)?;
        let source =
            from.open(old, OpenHow::ReadNoFollow).map_err(|e| self.error("open", target, e))?;
        let source = FileRef::new(source, self.full(target));
        let out = self.create(copy.path, 0o600)?;
        out.set_len(copy.size)?;
        let (mut hasher, mut at, mut piece) = (Hasher::new(), 0, vec![0; BATCH_BYTES]);
        loop {
            let got = source.read_full(&mut piece, at)?;
            hasher.update(&piece[..got]);
            write_sparse(&out, &piece[..got], at)?;
            at += got as u64;
            if got < piece.len() {
                break;
            }
        }
        if at != copy.size || hasher.finalize() != copy.root {
            let path = source.path().to_path_buf();
            return Err(StoreError::Corrupt { path, offset: 0, what: "it changed meanwhile" });
        }
        apply(&out, attributes, &mut self.unset)?;
        if self.store.is_durable() { out.sync() } else { Ok(()) }
    }

    /// Sets a directory's attributes; deepest first, after everything in it is in place. The
    /// empty path is the fetched directory itself.
    ///
    /// # Errors
    /// The medium's.
    pub fn finish_directory(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let dir = self.dir(path)?;
        let here = Path::new(".");
        // The time first: without write permission it could still be set by the owner, but
        // without search permission the handle's "." could not be reached.
        if let Some(mtime) = attributes.mtime {
            let set = dir.set_mtime(here, mtime).map_err(|e| self.error("set the time", path, e));
            self.unset.note(set)?;
        }
        if let Some(mode) = attributes.mode {
            let set = dir.set_mode(here, mode & 0o777);
            self.unset.note(set.map_err(|e| self.error("set the mode", path, e)))?;
        }
        if self.store.is_durable() {
            dir.sync_dir(here).map_err(|e| self.error("flush to the device", path, e))?;
        }
        Ok(())
    }

    /// Gives the directory its final name and moves its outboards among the finished ones, unless
    /// there are some. Files that were not fetched, or written with [`Staging::write_small`], leave
    /// holes there, which read as zeros: "never written".
    ///
    /// With [`OverwritePolicy::Replace`] a directory or file of that name is first moved aside
    /// (to the name of the staging directory with `.old` added) and removed afterwards.
    ///
    /// # Errors
    /// [`StoreError::Exists`] under [`OverwritePolicy::Never`]; the medium's. Calling again, with
    /// another name if need be, is right.
    pub fn finish_as(
        &mut self,
        final_path: &Path,
        policy: OverwritePolicy,
    ) -> Result<(), StoreError> {
        self.dirs.clear();
        self.nodes.write(self.outboard.file())?;
        if self.store.is_durable() {
            self.outboard.file().sync()?;
        }
        let (medium, durability) = (self.store.medium().clone(), self.store.durability());
        let rename = |from: &Path, to: &Path, durability| {
            atomic::rename(&*medium, from, to, final_path, Clobber::Never, durability)
        };
        match rename(&self.path, final_path, durability) {
            Err(StoreError::Exists { .. }) if policy == OverwritePolicy::Replace => {
                let mut aside = self.path.clone().into_os_string();
                aside.push(".old");
                let aside = PathBuf::from(aside);
                remove_tree(&*medium, &aside)?;
                rename(final_path, &aside, Durability::Cached)?;
                rename(&self.path, final_path, durability)?;
                remove_tree(&*medium, &aside)?;
            }
            other => other?,
        }
        // Ours has holes where files were left out or written whole; one that is there already
        // was made by publishing, which leaves none.
        if self.store.object(&self.root, Part::FileOutboards)?.is_some() {
            return self.store.remove_partial(&self.root, Part::FileOutboards);
        }
        self.store.finish_partial(&self.root, Part::FileOutboards)
    }

    /// Reads a small file to the end of `batch`; false, and nothing added, if it cannot be it.
    fn read_small(
        &mut self,
        file: &SmallFile<'_>,
        batch: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        if file.size > MAX_SMALL_FILE {
            return Err(self.out_of_range(file.path, file.size));
        }
        let (dir, name) = self.parent(file.path)?;
        let Ok(opened) = dir.open(name, OpenHow::ReadNoFollow) else { return Ok(false) };
        let opened = FileRef::new(opened, self.full(file.path));
        let start = batch.len();
        // One byte more than it should have, to notice a longer one without asking for metadata.
        batch.resize(start + file.size as usize + 1, 0);
        let got = opened.read_full(&mut batch[start..], 0).unwrap_or(0);
        let right = got as u64 == file.size;
        if right && self.store.is_durable() {
            // An earlier run wrote it and may not have waited for the device.
            opened.sync()?;
        }
        batch.truncate(if right { start + got } else { start });
        Ok(right)
    }

    /// A new file, in place of whatever has the name.
    fn create(&mut self, path: &[u8], mode: u32) -> Result<FileRef, StoreError> {
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
    fn open_or_create(&mut self, path: &[u8]) -> Result<FileRef, StoreError> {
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

    fn collision(&self, path: &[u8]) -> StoreError {
        StoreError::Collision { path: self.full(path) }
    }

    /// The held directory above `path`, and the last component.
    fn parent<'p>(&mut self, path: &'p [u8]) -> Result<(Arc<dyn Medium>, &'p Path), StoreError> {
        let (above, name) = match path.iter().rposition(|b| *b == b'/') {
            Some(0) => return Err(self.bad_path(path)), // absolute
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let name = component(name).ok_or_else(|| self.bad_path(path))?;
        Ok((self.dir(above)?, name))
    }

    /// The held handle of a directory, made with those above it if they are missing.
    fn dir(&mut self, path: &[u8]) -> Result<Arc<dyn Medium>, StoreError> {
        if path.is_empty() {
            return Ok(self.place.clone());
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

    fn full(&self, path: &[u8]) -> PathBuf {
        self.path.join(os_path(path).unwrap_or(Path::new("?")))
    }

    fn error(&self, doing: &'static str, path: &[u8], e: io::Error) -> StoreError {
        StoreError::from_io(doing, &self.full(path), None, e)
    }

    fn bad_path(&self, path: &[u8]) -> StoreError {
        StoreError::Unsafe { path: self.full(path), what: "not a plain path below the directory" }
    }

    fn out_of_range(&self, path: &[u8], offset: u64) -> StoreError {
        StoreError::OutOfRange { path: self.full(path), offset }
    }
}

/// Writes a new file in one go, but for whole pages of zeros.
fn write_whole(out: &FileRef, bytes: &[u8]) -> Result<(), StoreError> {
    if !has_zero_page(bytes) {
        return out.write_all(bytes, 0);
    }
    out.set_len(bytes.len() as u64)?;
    write_sparse(out, bytes, 0)
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}
