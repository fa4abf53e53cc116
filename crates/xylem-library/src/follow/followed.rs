//! [`Followed`]: the reader's side of a growing file on this machine. What an earlier run left is
//! hashed, and what comes is written behind it, so that the output is a verified prefix at any time.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use xylem_hash::{Hash, Hasher};
use xylem_object::Manifest;
use xylem_packet::NameRef;
use xylem_store::{FileRef, GrowingFile, Store, StoreError};
use xylem_tree::consistency::Continuation;
use xylem_tree::{Geometry, GrowingTree, Segment, TreeKind, Verified};

use super::log::{self, Entry};
use crate::error::{Blame, Failure, advised, blame_of};
use crate::event::LibraryEvent;
use crate::ordered::{OrderedWriter, Target, WriteError};
use crate::path::os_bytes;
use crate::save::{Existing, SaveOptions};
use crate::sink::{Destination, SaveError};
use crate::stop::Stop;

/// Bytes of the output that are read back in one go.
const READ: usize = 1 << 20;
/// Bytes between two reports of progress.
const REPORT: u64 = 32 << 20;

/// Why a growing file was not kept any further. What was verified before stays.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The file can't be read back.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// There is no place for it.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// What came can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Asked to stop while what is there was read.
    #[error("interrupted; what was verified is kept")]
    Interrupted,
}

impl Failure for FollowError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Save(e) => e.blame(),
            Self::Write(e) => e.blame(),
            Self::Interrupted => Blame::Interrupted,
        }
    }
}

/// The output of a stream that is followed, and the tree of all that is in it.
pub struct Followed {
    output: Option<Output>,
    /// Of all that was written, or is on its way to the output.
    tree: GrowingTree,
    /// What an earlier run had verified last, if the file still begins with it: what comes after it in
    /// the file may be what a loss of power left.
    verified: Option<GrowingTree>,
    writer: OrderedWriter,
    /// What is there may be replaced where it is no beginning of the stream.
    replaces: bool,
}

/// Whether the first `size` bytes of a file have this root; false for a shorter one.
///
/// # Errors
/// It can't be read.
pub fn begins_with(file: &FileRef, size: u64, root: &Hash) -> Result<bool, StoreError> {
    let (mut hasher, mut buffer, mut at) = (Hasher::new(), vec![0; READ], 0);
    while at < size {
        let len = (size - at).min(READ as u64) as usize; // at most READ
        let got = file.read_full(&mut buffer[..len], at)?;
        if got < len {
            return Ok(false);
        }
        hasher.update(&buffer[..len]);
        at += len as u64;
    }
    Ok(hasher.finalize() == *root)
}

/// A file, and the record of what in it is whole.
struct Output {
    path: PathBuf,
    file: FileRef,
    record: FileRef,
}

impl Output {
    /// Goes on after `begun`, with which the file begins.
    fn writer(&self, begun: &GrowingTree) -> Result<OrderedWriter, WriteError> {
        let file = GrowingFile::new(self.file.clone(), &begun.checkpoint());
        OrderedWriter::new(Target::File { file, marks: self.record.clone() }, 0)
    }

    /// The tree of what is there, and of what of it an earlier run had verified.
    fn hash_what_is_there(
        &self,
        mut tree: GrowingTree,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(GrowingTree, Option<GrowingTree>), FollowError> {
        let size = self.file.metadata()?.size;
        let known = log::read_one(&self.record)?.filter(|entry| entry.size <= size);
        let mut verified = None;
        let (mut buffer, mut reported) = (vec![0; READ], 0);
        while tree.size() < size {
            // A stop at what was known, so that its root is compared.
            let next = known.map_or(size, |k| if tree.size() < k.size { k.size } else { size });
            let len = (next - tree.size()).min(READ as u64) as usize; // at most READ
            let got = self.file.read_full(&mut buffer[..len], tree.size())?;
            if got == 0 {
                break;
            }
            hash(&mut tree, &buffer[..got]);
            if known.is_some_and(|k| k.size == tree.size() && k.root == tree.checkpoint().root()) {
                verified = Some(tree.clone());
            }
            if tree.size() - reported > REPORT {
                reported = tree.size();
                on_event(LibraryEvent::Hashing { done: reported, total: size });
                if stop.raised() {
                    return Err(FollowError::Interrupted);
                }
            }
        }
        Ok((tree, verified))
    }
}

impl Followed {
    /// Opens the output that `options` name for `object`, of which `manifest` is a checkpoint, and
    /// hashes what an earlier run left.
    ///
    /// # Errors
    /// See [`FollowError`].
    pub fn open(
        store: &Store,
        options: &SaveOptions,
        object: NameRef<'_>,
        manifest: &Manifest,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Self, FollowError> {
        let tree = GrowingTree::new(manifest.segment, TreeKind::Blake3);
        let Some(to) = Destination::choose(options, manifest)? else {
            let writer = OrderedWriter::new(Target::Growing(tree.checkpoint()), 0)?;
            return Ok(Self { output: None, tree, verified: None, writer, replaces: false });
        };
        let medium = &**store.medium();
        let file = FileRef::open_own(medium, &to.path, 0o666)?;
        file.lock()?;
        let canonical = to.path.canonicalize().unwrap_or_else(|_| to.path.clone());
        let key = os_bytes(canonical.as_os_str());
        let record = log::open(medium, &log::place(store, &key, object, "got")?)?;
        let output = Output { path: to.path, file, record };
        let (tree, verified) = output.hash_what_is_there(tree, stop, on_event)?;
        if tree.size() > 0 {
            on_event(LibraryEvent::Resumed { bytes: tree.size() });
        }
        let writer = output.writer(&tree)?;
        let replaces = options.existing == Existing::Overwrite;
        Ok(Self { output: Some(output), tree, verified, writer, replaces })
    }

    /// The file; `None`: standard output.
    pub fn path(&self) -> Option<&Path> {
        self.output.as_ref().map(|output| output.path.as_path())
    }

    /// Bytes that are here.
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// Root of the bytes that are here.
    pub fn root(&self) -> Hash {
        self.tree.checkpoint().root()
    }

    /// Of the bytes that are here.
    pub fn tree(&self) -> &GrowingTree {
        &self.tree
    }

    /// Whether an earlier run had verified that what is here came from there.
    pub fn was_verified(&self) -> bool {
        self.verified.is_some()
    }

    /// Goes back to what an earlier run had verified, if there is more than that: a loss of power may
    /// have left the rest. False if there is nothing to go back to.
    ///
    /// # Errors
    /// The file can't be cut.
    pub fn fall_back(&mut self) -> Result<bool, FollowError> {
        let (Some(verified), Some(output)) = (&self.verified, &self.output) else {
            return Ok(false);
        };
        if verified.size() == self.tree.size() {
            return Ok(false);
        }
        self.writer.finish()?;
        output.file.set_len(verified.size())?;
        self.tree = verified.clone();
        self.writer = output.writer(verified)?;
        Ok(true)
    }

    /// Whether what is here begins with this checkpoint, or is it.
    ///
    /// # Errors
    /// It can't be read back.
    pub fn begins_with(&self, checkpoint: &Manifest) -> Result<bool, FollowError> {
        let Some(output) = &self.output else { return Ok(false) };
        Ok(self.size() >= checkpoint.size
            && begins_with(&output.file, checkpoint.size, &checkpoint.root)?)
    }

    /// Throws away what is here, if it may be replaced; false if not.
    ///
    /// # Errors
    /// The file can't be cut.
    pub fn start_over(&mut self) -> Result<bool, FollowError> {
        let Some(output) = self.output.as_ref().filter(|_| self.replaces) else { return Ok(false) };
        self.writer.finish()?;
        output.file.set_len(0)?;
        self.tree = GrowingTree::new(self.tree.geometry().segment_size(), TreeKind::Blake3);
        self.verified = None;
        self.writer = output.writer(&self.tree)?;
        Ok(true)
    }

    /// What comes from here on is of a checkpoint that begins with what is here.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn advance(&mut self, to: Continuation) -> Result<(), FollowError> {
        Ok(self.writer.advance(to)?)
    }

    /// The first segment of a checkpoint that is not here as a whole. From now on segments are of that
    /// checkpoint, the first one this, or `shown`.
    pub fn begin(&mut self, geometry: &Geometry, shown: Option<u64>) -> u64 {
        let first = self.tree.size() / geometry.segment_size().bytes() as u64;
        let first = shown.unwrap_or(first);
        self.writer.go_on_with(first);
        first
    }

    /// Adds a segment: in order, and but for the bytes that are here already, it is written.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn segment(&mut self, segment: Verified<Segment<Bytes>>) -> Result<(), FollowError> {
        let (tree, writer) = (&mut self.tree, &mut self.writer);
        Ok(writer.segment(segment, &mut |segment| {
            let here = tree.size().saturating_sub(segment.offset);
            let new = usize::try_from(here).ok().and_then(|here| segment.content.get(here..));
            hash(tree, new.unwrap_or_default());
        })?)
    }

    /// What is here is this checkpoint, which is verified.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn checkpoint(&mut self, version: u64, last: bool) -> Result<(), FollowError> {
        self.verified = None;
        let entry = Entry { version, size: self.size(), root: self.root(), mode: 0, last };
        Ok(self.writer.mark(&entry.encode())?)
    }

    /// Whether more should not come for now.
    pub fn is_full(&self) -> bool {
        self.writer.is_full()
    }

    /// Whether [`Self::push`] should be called again soon.
    pub fn is_waiting(&self) -> bool {
        self.writer.is_waiting()
    }

    /// Hands over what the writing thread has room for.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn push(&mut self) -> Result<(), FollowError> {
        Ok(self.writer.push()?)
    }

    /// Waits until all that was given is written.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn finish(&mut self) -> Result<(), FollowError> {
        Ok(self.writer.finish()?)
    }

    /// Waits until all of it is on the device.
    ///
    /// # Errors
    /// The file can't be flushed.
    pub fn sync(&self) -> Result<(), FollowError> {
        Ok(self.output.as_ref().map_or(Ok(()), |output| output.file.sync())?)
    }
}

fn hash(tree: &mut GrowingTree, bytes: &[u8]) {
    let Ok(()) = tree.push(bytes, |_, _| Ok::<(), Infallible>(()));
}
