//! [`FollowedStream`]: the reader's side of a growing file. It hashes what an earlier run left and writes new segments
//! behind it, so that the output is a verified prefix at any time.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use xylem_base::{Blame, Failure, Stop, advised, blame_of, os_bytes};
use xylem_files::checkpoint_log::{self, CheckpointRecord};
use xylem_files::{Existing, LibraryEvent, SaveOptions};
use xylem_hash::{Hash, Hasher};
use xylem_object::Manifest;
use xylem_packet::NameRef;
use xylem_store::{FileRef, GrowingFile, Store, StoreError};
use xylem_tree::consistency::Continuation;
use xylem_tree::{Geometry, GrowingTree, Segment, TreeKind, Verified};

use crate::ordered::{OrderedTarget, OrderedWriter, WriteError};
use crate::{Destination, SaveError};

/// Bytes of the output read back at once.
const READ: usize = 1 << 20;
/// Bytes between two reports of progress.
const REPORT: u64 = 32 << 20;

/// Why a growing file was not followed further. Verified content stays.
#[derive(Debug, thiserror::Error)]
pub enum FollowedStreamError {
    /// The file cannot be read back.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// There is no place for it.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// New segments cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Asked to stop while the existing content was read.
    #[error("interrupted; what was verified is kept")]
    Interrupted,
}

impl Failure for FollowedStreamError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Save(e) => e.blame(),
            Self::Write(e) => e.blame(),
            Self::Interrupted => Blame::Interrupted,
        }
    }
}

/// The output of a followed stream, and the tree of all its content.
pub struct FollowedStream {
    output: Option<FollowedOutput>,
    /// Tree of all bytes that are written or on the way to the output.
    tree: GrowingTree,
    /// Tree of what an earlier run verified last, if the file still begins with it. A loss of power may have damaged
    /// the bytes behind it.
    verified: Option<GrowingTree>,
    writer: OrderedWriter,
    /// Whether existing content may be replaced if the stream does not begin with it.
    replaces: bool,
}

/// Returns whether the first `size` bytes of a file have this root; false if the file is shorter.
///
/// # Errors
/// The file cannot be read.
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

/// An output file and the record of its verified length.
struct FollowedOutput {
    path: PathBuf,
    file: FileRef,
    record: FileRef,
}

impl FollowedOutput {
    /// Returns a writer that continues after `begun`, with which the file begins.
    fn writer(&self, begun: &GrowingTree) -> Result<OrderedWriter, WriteError> {
        let file = GrowingFile::new(self.file.clone(), &begun.checkpoint());
        OrderedWriter::new(OrderedTarget::File { file, marks: self.record.clone() }, 0)
    }

    /// Returns the tree of the existing content, and the tree of the part that an earlier run verified.
    fn hash_what_is_there(
        &self,
        mut tree: GrowingTree,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(GrowingTree, Option<GrowingTree>), FollowedStreamError> {
        let size = self.file.metadata()?.size;
        let known = checkpoint_log::read_one(&self.record)?.filter(|entry| entry.size <= size);
        let mut verified = None;
        let (mut buffer, mut reported) = (vec![0; READ], 0);
        while tree.size() < size {
            // Stops at the recorded size, so that its root can be compared.
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
                    return Err(FollowedStreamError::Interrupted);
                }
            }
        }
        Ok((tree, verified))
    }
}

impl FollowedStream {
    /// Opens the output that `options` name for `object`, of which `manifest` is a checkpoint, and hashes what an
    /// earlier run left.
    ///
    /// # Errors
    /// See [`FollowedStreamError`].
    pub fn open(
        store: &Store,
        options: &SaveOptions,
        object: NameRef<'_>,
        manifest: &Manifest,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Self, FollowedStreamError> {
        let tree = GrowingTree::new(manifest.segment, TreeKind::Blake3);
        let Some(to) = Destination::choose(options, manifest)? else {
            let writer = OrderedWriter::new(OrderedTarget::Growing(tree.checkpoint()), 0)?;
            return Ok(Self { output: None, tree, verified: None, writer, replaces: false });
        };
        let medium = &**store.medium();
        let file = FileRef::open_own(medium, &to.path, 0o666)?;
        file.lock()?;
        let canonical = to.path.canonicalize().unwrap_or_else(|_| to.path.clone());
        let key = os_bytes(canonical.as_os_str());
        let record =
            checkpoint_log::open(medium, &checkpoint_log::place(store, &key, object, "got")?)?;
        let output = FollowedOutput { path: to.path, file, record };
        let (tree, verified) = output.hash_what_is_there(tree, stop, on_event)?;
        if tree.size() > 0 {
            on_event(LibraryEvent::Resumed { bytes: tree.size() });
        }
        let writer = output.writer(&tree)?;
        let replaces = options.existing == Existing::Overwrite;
        Ok(Self { output: Some(output), tree, verified, writer, replaces })
    }

    /// Returns the file's path; `None` for standard output.
    pub fn path(&self) -> Option<&Path> {
        self.output.as_ref().map(|output| output.path.as_path())
    }

    /// Returns the number of bytes here.
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// Returns the root of the bytes here.
    pub fn root(&self) -> Hash {
        self.tree.checkpoint().root()
    }

    /// Returns the tree of the bytes here.
    pub fn tree(&self) -> &GrowingTree {
        &self.tree
    }

    /// Returns whether an earlier run verified a part of the content here.
    pub fn was_verified(&self) -> bool {
        self.verified.is_some()
    }

    /// Truncates the file to what an earlier run verified, if it has more: a loss of power may have damaged the rest.
    /// Returns false if there is nothing to cut.
    ///
    /// # Errors
    /// The file cannot be cut.
    pub fn fall_back(&mut self) -> Result<bool, FollowedStreamError> {
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

    /// Returns whether the content here begins with this checkpoint.
    ///
    /// # Errors
    /// The content cannot be read back.
    pub fn begins_with(&self, checkpoint: &Manifest) -> Result<bool, FollowedStreamError> {
        let Some(output) = &self.output else { return Ok(false) };
        Ok(self.size() >= checkpoint.size
            && begins_with(&output.file, checkpoint.size, &checkpoint.root)?)
    }

    /// Discards the content here, if it may be replaced; returns false if not.
    ///
    /// # Errors
    /// The file cannot be cut.
    pub fn start_over(&mut self) -> Result<bool, FollowedStreamError> {
        let Some(output) = self.output.as_ref().filter(|_| self.replaces) else { return Ok(false) };
        self.writer.finish()?;
        output.file.set_len(0)?;
        self.tree = GrowingTree::new(self.tree.geometry().segment_size(), TreeKind::Blake3);
        self.verified = None;
        self.writer = output.writer(&self.tree)?;
        Ok(true)
    }

    /// Continues with a checkpoint that is proven to begin with the content here.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn advance(&mut self, to: Continuation) -> Result<(), FollowedStreamError> {
        Ok(self.writer.advance(to)?)
    }

    /// Returns the first segment of a checkpoint that is not complete here. From now on segments are of that
    /// checkpoint; the first is this one, or `shown`.
    pub fn begin(&mut self, geometry: &Geometry, shown: Option<u64>) -> u64 {
        let first = self.tree.size() / geometry.segment_size().bytes() as u64;
        let first = shown.unwrap_or(first);
        self.writer.go_on_with(first);
        first
    }

    /// Adds a segment, in order. Only the bytes that are not here yet are written.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn segment(
        &mut self,
        segment: Verified<Segment<Bytes>>,
    ) -> Result<(), FollowedStreamError> {
        let (tree, writer) = (&mut self.tree, &mut self.writer);
        Ok(writer.segment(segment, &mut |segment| {
            let here = tree.size().saturating_sub(segment.offset);
            let new = usize::try_from(here).ok().and_then(|here| segment.content.get(here..));
            hash(tree, new.unwrap_or_default());
        })?)
    }

    /// Records that the content here is this verified checkpoint.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn checkpoint(&mut self, version: u64, last: bool) -> Result<(), FollowedStreamError> {
        self.verified = None;
        let entry =
            CheckpointRecord { version, size: self.size(), root: self.root(), mode: 0, last };
        Ok(self.writer.mark(&entry.encode())?)
    }

    /// Returns whether the caller should not add more for now.
    pub fn is_full(&self) -> bool {
        self.writer.is_full()
    }

    /// Returns whether [`Self::push`] should be called again soon.
    pub fn is_waiting(&self) -> bool {
        self.writer.is_waiting()
    }

    /// Hands over as much as the writing thread has room for.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn push(&mut self) -> Result<(), FollowedStreamError> {
        Ok(self.writer.push()?)
    }

    /// Waits until all added segments are written.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn finish(&mut self) -> Result<(), FollowedStreamError> {
        Ok(self.writer.finish()?)
    }

    /// Waits until all is on the device.
    ///
    /// # Errors
    /// The file cannot be flushed.
    pub fn sync(&self) -> Result<(), FollowedStreamError> {
        Ok(self.output.as_ref().map_or(Ok(()), |output| output.file.sync())?)
    }
}

fn hash(tree: &mut GrowingTree, bytes: &[u8]) {
    let Ok(()) = tree.push(bytes, |_, _| Ok::<(), Infallible>(()));
}
