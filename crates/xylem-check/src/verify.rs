//! [`verify`]: checks whether files on disk match a ticket, and if not, where they differ.
//!
//! The hash alone shows whether they match. To locate differences, tree nodes are read from this machine's store or, in
//! a few packets, fetched by a [`Remote`]. They are proven from the ticket's root before they are used.

mod memory;

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use xylem_base::{Blame, Failure, Stop, advised, blame_of, canonical_in, json, os_bytes, os_path};
use xylem_files::hashing::{self, HashError, HashJob, HashOutputs};
use xylem_files::record::{PathRecord, known_size};
use xylem_files::rescan::{InspectedFile, Readers, inspect};
use xylem_files::walk::{DirectoryWalk, FoundKind, WalkError, WalkRules};
use xylem_files::{LibraryEvent, Listed, ListedError, ListedFiles, NameCheck, SkipReason};
use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind};
use xylem_object::{ObjectId, PublicationKind, Ticket};
use xylem_publish::{PublishError, root_as, rules_before};
use xylem_store::{
    FileKind, FileRef, FileState, Meta, ObjectPart, OpenHow, OutboardFile, Store, StoreError,
};
use xylem_transfer::TransferEvent;
use xylem_tree::{Geometry, SegmentSize};

use crate::{Keep, Remote, Wanted};

pub use memory::{CopiedMemory, HashedMemory, MemoryPlace, REGION_SEGMENTS, verify_memory};

/// One segment of each tile's span brings the whole tile: 8 segments a node, 256 nodes a tile.
const SEGMENTS_A_TILE: u64 = 8 * 256;

/// A bad place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename = "damage")]
pub struct Damage {
    /// The file below the directory; empty for a single file.
    #[serde(serialize_with = "json::path")]
    pub path: PathBuf,
    /// First bad byte.
    pub start: u64,
    /// The byte after the last bad one.
    pub end: u64,
    /// The kind of damage.
    #[serde(serialize_with = "json::text")]
    pub what: DamageKind,
}

/// How what is on the disk differs from what was published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// It is not there, or ends before this place.
    #[error("missing")]
    Missing,
    /// These bytes have another hash.
    #[error("does not match")]
    Mismatch,
    /// The file has more bytes than were published.
    #[error("is longer than published")]
    Longer,
    /// Two reads gave different bytes.
    #[error("changed while it was read")]
    ChangedMeanwhile,
    /// A directory, file or link is in the place of another kind.
    #[error("is something else than was published")]
    OtherKind,
    /// A symbolic link with another target.
    #[error("points elsewhere")]
    OtherTarget,
    /// Another file than the one that it shares its content with.
    #[error("is not a hard link to {}", .0.display())]
    NotLinkedTo(PathBuf),
    /// Other permissions.
    #[error("has mode {is:03o}, not {published:03o}")]
    Mode {
        /// The permissions on the disk.
        is: u32,
        /// The published ones.
        published: u32,
    },
    /// It differs from what an encrypted publication decrypts to.
    #[error("is not what was encrypted")]
    NotAsEncrypted,
}

/// An unpublished path, or one with privileges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename = "extra")]
pub struct ExtraPath {
    /// Path below the directory; empty for a single file. The contents of an unpublished directory are not named.
    #[serde(serialize_with = "json::path")]
    pub path: PathBuf,
    /// What it is.
    #[serde(serialize_with = "json::text")]
    pub what: ExtraKind,
}

/// Kind of an [`ExtraPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtraKind {
    /// An unpublished directory.
    #[error("a directory that was not published")]
    Directory,
    /// An unpublished symbolic link.
    #[error("a link that was not published")]
    Symlink,
    /// An unpublished file.
    #[error("a file that was not published")]
    File,
    /// An unpublished object of a bucket.
    #[error("an object that was not published")]
    Object,
    /// A path that is never published, for this reason.
    #[error("{0}")]
    Skipped(SkipReason),
    /// A published file that runs as its owner or group: its mode.
    #[error("has mode {0:04o}, and is run as its owner or group")]
    Privileged(u32),
}

/// Whether [`verify`] looks for unpublished paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extras {
    /// Report them.
    Name,
    /// Permit them.
    Allow,
}

/// Outcome of [`verify`].
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "verified")]
pub struct VerifySummary {
    /// The ticket's root.
    #[serde(serialize_with = "json::text")]
    pub root: Hash,
    /// Bytes compared.
    pub bytes: u64,
    /// Files compared.
    pub files: u64,
    /// Bad places.
    #[serde(rename = "damaged", serialize_with = "json::count")]
    pub damage: Vec<Damage>,
    /// Unpublished paths; empty with [`Extras::Allow`].
    #[serde(serialize_with = "json::count")]
    pub extra: Vec<ExtraPath>,
    /// False if there was no tree to narrow damage down to byte ranges.
    pub located: bool,
}

impl VerifySummary {
    /// Makes an empty summary.
    fn of(ticket: &Ticket) -> Self {
        let (damage, extra) = (Vec::new(), Vec::new());
        Self { root: ticket.root, bytes: 0, files: 0, damage, extra, located: true }
    }

    /// Returns whether all matches the ticket.
    pub fn is_right(&self) -> bool {
        self.damage.is_empty() && self.extra.is_empty()
    }
}

/// Why a comparison was not made. Damage is no error.
#[derive(Debug, thiserror::Error)]
pub enum VerificationError {
    /// A file or the store cannot be read.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// The directory cannot be walked.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// A file could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// The directory could not be hashed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The listing cannot be used or read.
    #[error(transparent)]
    Listed(#[from] ListedError),
    /// The path is a directory where the ticket has a file, or the reverse.
    #[error("{} is a {}, the ticket names a {}", path.display(), word(*.is_directory), word(!*.is_directory))]
    Kind {
        /// The path on disk.
        path: PathBuf,
        /// Whether it is a directory.
        is_directory: bool,
    },
    /// No source has the directory's listing.
    #[error("the directory's listing is not in the store, and no reachable peer has it")]
    NoListing,
    /// Bytes in memory are compared with a directory, and no file of it is named.
    #[error("the ticket names a directory: name the file that the bytes are from")]
    NoPath,
    /// The ticket names no such file.
    #[error("{}: no such file in the publication", .0.display())]
    NotInside(PathBuf),
    /// More bytes are compared than the file has from there on.
    #[error("{size} bytes from byte {offset} on are more than the file's {file_size}")]
    BeyondFile {
        /// Where they begin in the file.
        offset: u64,
        /// Number of bytes compared.
        size: u64,
        /// Number of bytes of the file.
        file_size: u64,
    },
    /// No source has the file's size or nodes of its tree.
    #[error("the file's hash tree is not in the store, and no reachable peer has it")]
    NoTree,
    /// No source has a segment of which the bytes compared are only a part.
    #[error(
        "no file here and no reachable peer has the block that the first or last bytes share with others"
    )]
    NoContent,
    /// Asked to stop.
    #[error("interrupted; nothing was changed")]
    Interrupted,
    /// Bytes in memory could not be hashed or read.
    #[error("{0}")]
    Memory(Box<dyn Failure>),
    /// An error of fetching ended the run.
    #[error("{0}")]
    Remote(Box<dyn Failure>),
}

fn word(is_directory: bool) -> &'static str {
    if is_directory { "directory" } else { "file" }
}

impl From<Box<dyn Failure>> for VerificationError {
    fn from(e: Box<dyn Failure>) -> Self {
        Self::Remote(e)
    }
}

impl Failure for VerificationError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Walk(e) => e.blame(),
            Self::Hash(e) => e.blame(),
            Self::Publish(e) => e.blame(),
            Self::Listed(e) => e.blame(),
            Self::Kind { .. } | Self::NoPath | Self::NotInside(_) | Self::BeyondFile { .. } => {
                Blame::Usage
            }
            Self::NoListing | Self::NoTree | Self::NoContent => Blame::Network,
            Self::Interrupted => Blame::Interrupted,
            Self::Memory(e) | Self::Remote(e) => e.blame(),
        }
    }
}

/// Compares the content of `path` with `ticket`; fetches from `remote` what `store` does not have.
///
/// # Errors
/// See [`VerificationError`]. Damage is no error: see [`VerifySummary::damage`] and [`VerifySummary::extra`].
pub fn verify(
    store: &Store,
    path: &Path,
    ticket: &Ticket,
    extras: Extras,
    remote: &mut dyn Remote,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<VerifySummary, VerificationError> {
    let place = canonical_in(&**store.medium(), path)?;
    let at = |e| StoreError::from_io("verify", path, None, e);
    let meta = store.medium().metadata(&place).map_err(at)?;
    let is_directory = meta.kind == FileKind::Directory;
    if ticket.kind.is_some_and(|kind| is_directory != (kind == PublicationKind::Directory)) {
        return Err(VerificationError::Kind { path: path.to_path_buf(), is_directory });
    }
    let summary = VerifySummary::of(ticket);
    remote.target(std::slice::from_ref(ticket), 0);
    let mut check = TicketCheck { ticket, store, remote, unreachable: false, summary, stop };
    if is_directory {
        let listed = check.directory(&place, on_event)?;
        if extras == Extras::Name {
            check.find_extra(&place, &listed, on_event)?;
        }
    } else {
        check.file(&place, &meta, on_event)?;
        if extras == Extras::Name {
            check.privileged(&meta, PathBuf::new());
        }
    }
    Ok(check.summary)
}

/// Passes each entry of the ticket's directory to `each`, in listing order. Fetches the listing from `remote` if
/// `store` does not have it. All of the listing is verified before the first entry.
///
/// # Errors
/// See [`VerificationError`].
pub fn list(
    store: &Store,
    ticket: &Ticket,
    remote: &mut dyn Remote,
    stop: &Stop,
    each: &mut dyn FnMut(&Entry),
) -> Result<(), VerificationError> {
    remote.target(std::slice::from_ref(ticket), 0);
    let summary = VerifySummary::of(ticket);
    let listed =
        TicketCheck { ticket, store, remote, unreachable: false, summary, stop }.listing()?;
    for found in listed.entries() {
        each(&found?.entry);
    }
    Ok(())
}

struct TicketCheck<'a> {
    ticket: &'a Ticket,
    store: &'a Store,
    remote: &'a mut dyn Remote,
    /// Peers were asked and did not answer.
    unreachable: bool,
    summary: VerifySummary,
    stop: &'a Stop,
}

/// A file to compare, and its expected content.
struct ExpectedFile<'a> {
    id: ObjectId,
    path: &'a Path,
    shown: PathBuf,
    root: Hash,
    geometry: Geometry,
    /// Its outboard in this machine's store and the first slot.
    outboard: Option<(OutboardFile, u64)>,
}

impl TicketCheck<'_> {
    fn hash(
        &self,
        path: &Path,
        meta: &Meta,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Hash, HashError> {
        let (path, segment) = (path.to_path_buf(), SegmentSize::DEFAULT);
        let job = HashJob { path, state: FileState::of(meta), slot: None, segment, sums: None };
        let takes = HashOutputs::default();
        Ok(hashing::hash_all(&**self.store.medium(), &[job], takes, self.stop, on_event)?[0])
    }

    fn file(
        &mut self,
        path: &Path,
        meta: &Meta,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), VerificationError> {
        (self.summary.files, self.summary.bytes) = (1, meta.size);
        let root = self.ticket.root;
        if self.hash(path, meta, on_event)? == root {
            return Ok(());
        }
        let outboard = self.store.outboard(&root, ObjectPart::Outboard).ok().flatten();
        let expected = ExpectedFile {
            id: ObjectId::Root,
            path,
            shown: PathBuf::new(),
            root,
            geometry: Geometry::new(self.size(meta.size)?, SegmentSize::DEFAULT),
            outboard: outboard.map(|o| (o, 0)),
        };
        self.compare(&expected, meta.size)
    }

    fn directory(
        &mut self,
        path: &Path,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<ListedFiles, VerificationError> {
        let listed = self.listing()?;
        if root_as(self.store, path, &self.ticket.root, self.stop, on_event)? == self.ticket.root {
            let totals = listed.totals();
            (self.summary.files, self.summary.bytes) = (totals.files, totals.bytes);
            return Ok(listed);
        }
        let packed =
            self.store.outboard(&self.ticket.root, ObjectPart::FileOutboards).ok().flatten();
        for found in listed.entries() {
            self.entry(&found?, path, packed.clone())?;
        }
        Ok(listed)
    }

    /// Reports what is in the directory and not in the listing; walk and listing have the same order. The walk reports
    /// paths excluded when it was shared from here, and xylem's own files.
    fn find_extra(
        &mut self,
        place: &Path,
        listed: &ListedFiles,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), VerificationError> {
        let known = PathRecord::recall(self.store, &os_bytes(place.as_os_str()));
        let rules = rules_before(known.as_ref().filter(|known| known.root == self.ticket.root))?;
        let rules = WalkRules { names: NameCheck::off(), ..rules };
        let mut skipped = Vec::new();
        let mut tell = |event| match event {
            // Reported already by the walk that hashed it.
            LibraryEvent::Skipped { why: SkipReason::Ours | SkipReason::KeptInStep, .. } => {}
            LibraryEvent::Skipped { path, why } => {
                let path = path.strip_prefix(place).map_or(path.clone(), Path::to_path_buf);
                skipped.push(ExtraPath { path, what: ExtraKind::Skipped(why) });
            }
            LibraryEvent::LeftOut { excluded: 0, .. } => {}
            LibraryEvent::LeftOut { excluded, .. } => {
                on_event(LibraryEvent::LeftOut { excluded, unreadable: 0 });
            }
            other => on_event(other),
        };
        let medium = self.store.medium().clone();
        let mut walk = DirectoryWalk::new(&*medium, place, rules, &mut tell)?;
        let mut entries = listed.entries();
        let mut next = entries.next().transpose()?;
        // The present unpublished directory. Its contents are not named.
        let mut inside: Option<Vec<u8>> = None;
        while let Some(found) = walk.next(&mut tell)? {
            if self.stop.raised() {
                return Err(VerificationError::Interrupted);
            }
            while next.as_ref().is_some_and(|listed| listed.entry.path < found.path) {
                next = entries.next().transpose()?;
            }
            let path = os_path(&found.path);
            if next.as_ref().is_some_and(|listed| listed.entry.path == found.path) {
                self.privileged(&found.meta, path);
            } else if !inside.as_ref().is_some_and(|inside| found.path.starts_with(inside)) {
                let what = match found.kind {
                    FoundKind::Directory => ExtraKind::Directory,
                    FoundKind::Symlink { .. } => ExtraKind::Symlink,
                    _ => ExtraKind::File,
                };
                if found.kind == FoundKind::Directory {
                    inside = Some([&found.path[..], b"/"].concat());
                }
                self.summary.extra.push(ExtraPath { path, what });
            }
        }
        self.summary.extra.append(&mut skipped);
        Ok(())
    }

    /// Reports a file with setuid or setgid bits, with which it runs as its owner or group; published modes have no
    /// such bits. Directories may inherit setgid.
    fn privileged(&mut self, meta: &Meta, path: PathBuf) {
        let bits = meta.mode & 0o6000;
        if meta.kind == FileKind::File && bits != 0 {
            let what = ExtraKind::Privileged(meta.mode & 0o7777);
            self.summary.extra.push(ExtraPath { path, what });
        }
    }

    fn entry(
        &mut self,
        listed: &Listed,
        root: &Path,
        packed: Option<OutboardFile>,
    ) -> Result<(), VerificationError> {
        let entry = &listed.entry;
        let medium = self.store.medium();
        let (shown, here) = (os_path(&entry.path), &*root.join(os_path(&entry.path)));
        let Ok(meta) = medium.metadata(here) else {
            let size = if let EntryKind::File { size, .. } = entry.kind { size } else { 0 };
            self.damaged(shown, 0..size, DamageKind::Missing);
            return Ok(());
        };
        match (&entry.kind, meta.kind) {
            (EntryKind::Directory, FileKind::Directory) => self.mode(entry, &meta, shown),
            (EntryKind::HardLink { target }, FileKind::File) => {
                let target = os_path(target);
                let first = medium.metadata(&root.join(&target));
                if !first.is_ok_and(|first| (first.ino, first.dev) == (meta.ino, meta.dev)) {
                    self.damaged(shown, 0..0, DamageKind::NotLinkedTo(target));
                }
            }
            (EntryKind::Symlink { target }, FileKind::Symlink) => {
                let is = medium.read_link(here);
                if !is.is_ok_and(|is| os_bytes(is.as_os_str()) == *target) {
                    self.damaged(shown, 0..0, DamageKind::OtherTarget);
                }
            }
            (EntryKind::File { size, root }, FileKind::File) => {
                self.summary.files += 1;
                self.summary.bytes += size;
                if self.hash(here, &meta, &mut |_| {})? == *root {
                    self.mode(entry, &meta, shown);
                    return Ok(());
                }
                let geometry = Geometry::new(*size, SegmentSize::DEFAULT);
                let outboard = packed.map(|o| (o, listed.slot));
                let id = ObjectId::File(listed.number);
                let expected =
                    ExpectedFile { id, path: here, shown, root: *root, geometry, outboard };
                self.compare(&expected, meta.size)?;
            }
            _ => self.damaged(shown, 0..0, DamageKind::OtherKind),
        }
        Ok(())
    }

    fn mode(&mut self, entry: &Entry, meta: &Meta, shown: PathBuf) {
        let is = meta.mode & 0o777;
        if is != entry.mode {
            self.damaged(shown, 0..0, DamageKind::Mode { is, published: entry.mode });
        }
    }

    fn damaged(&mut self, path: PathBuf, bytes: Range<u64>, what: DamageKind) {
        let (start, end) = (bytes.start, bytes.end);
        self.summary.damage.push(Damage { path, start, end, what });
    }

    /// Returns the expected size of the file: from the ticket, from the store's record, or from peers. If none of them
    /// has it, returns the present size.
    fn size(&mut self, is: u64) -> Result<u64, VerificationError> {
        if let Some(size) = self.ticket.size {
            return Ok(size);
        }
        if let Some(size) = known_size(self.store, &self.ticket.root) {
            return Ok(size);
        }
        Ok(self.connect()?.map_or(is, |published| published.size()))
    }

    /// Locates the wrong bytes of a file with a wrong hash.
    fn compare(&mut self, expected: &ExpectedFile<'_>, size: u64) -> Result<(), VerificationError> {
        let should = expected.geometry.size();
        if size > should {
            self.damaged(expected.shown.clone(), should..size, DamageKind::Longer);
        }
        let outboard = match &expected.outboard {
            Some((outboard, slot)) => Some((outboard.clone(), *slot)),
            None => self.nodes_from_peers(expected)?.map(|outboard| (outboard, 0)),
        };
        let Some(outboard) = outboard else {
            self.summary.located = false;
            self.damaged(expected.shown.clone(), 0..should, DamageKind::Mismatch);
            return Ok(());
        };
        let before = self.summary.damage.len();
        for range in self.wrong_ranges(expected, outboard)? {
            let what = if range.start >= size { DamageKind::Missing } else { DamageKind::Mismatch };
            self.damaged(expected.shown.clone(), range, what);
        }
        if size <= should && before == self.summary.damage.len() {
            // Two reads differed: the file changed in between, or memory is faulty.
            self.summary.located = false;
            self.damaged(expected.shown.clone(), 0..should, DamageKind::ChangedMeanwhile);
        }
        Ok(())
    }

    /// Returns the byte ranges that proven nodes show to be wrong.
    fn wrong_ranges(
        &self,
        expected: &ExpectedFile<'_>,
        outboard: (OutboardFile, u64),
    ) -> Result<Vec<Range<u64>>, VerificationError> {
        let subject = InspectedFile {
            file: FileRef::open(&**self.store.medium(), expected.path, OpenHow::Read)?,
            outboard: Some(outboard),
            geometry: expected.geometry,
            root: expected.root,
        };
        let found = inspect(&subject, &mut Readers::All, &|_| !self.stop.raised())?;
        let found = found.ok_or(VerificationError::Interrupted)?;
        Ok(found.bad().iter().map(|segments| found.bytes_of(segments)).collect())
    }

    /// Fetches segments from peers; returns false if none answers.
    fn fetch(&mut self, wanted: Wanted, keep: &mut Keep<'_>) -> Result<bool, VerificationError> {
        if self.connect()?.is_none() {
            return Ok(false);
        }
        self.unreachable = self.remote.fetch(vec![wanted], keep, self.stop)?.is_some();
        Ok(!self.unreachable)
    }

    /// Returns the root object's geometry from a peer that answers; `None` if none does.
    fn connect(&mut self) -> Result<Option<Geometry>, VerificationError> {
        if self.unreachable {
            return Ok(None);
        }
        let mut why = None;
        let found = self.remote.connect(&mut why, self.stop)?;
        self.unreachable = found.is_none();
        match why {
            Some(e) if found.is_none() && e.blame() != Blame::Network => Err(e.into()),
            _ => Ok(found),
        }
    }

    fn nodes_from_peers(
        &mut self,
        expected: &ExpectedFile<'_>,
    ) -> Result<Option<OutboardFile>, VerificationError> {
        let geometry = expected.geometry;
        let segments: Vec<Range<u64>> = if geometry.segments() <= 8 {
            Vec::from_iter(Some(0..geometry.segments()))
        } else {
            let starts = (0..geometry.segments()).step_by(SEGMENTS_A_TILE as usize);
            starts.map(|s| s..s + 1).collect()
        };
        let new = self.store.new_file()?;
        let outboard = OutboardFile::new(new.file().clone());
        let mut writer = outboard.writer_at(0);
        let mut keep = |event: TransferEvent| match event {
            TransferEvent::Nodes { nodes, .. } => {
                nodes.iter().try_for_each(|(node, value)| writer.write(node.slot(), &value.0))
            }
            _ => Ok(()),
        };
        let (object, root) = (expected.id, expected.root);
        let wanted = Wanted { object, root, geometry, segments, verifier: None };
        if !self.fetch(wanted, &mut keep)? {
            return Ok(None);
        }
        writer.flush()?;
        Ok(Some(outboard))
    }

    /// Returns the directory's listing, from the store or from peers.
    fn listing(&mut self) -> Result<ListedFiles, VerificationError> {
        let root = self.ticket.root;
        if let Some(file) = self.store.object(&root, ObjectPart::Listing).ok().flatten() {
            // The root shows whether that is all of it.
            let size = file.metadata()?.size;
            match ListedFiles::open(file, size, &root, SegmentSize::DEFAULT) {
                Ok(listed) => return Ok(listed),
                Err(bad @ ListedError::Bad(_)) => return Err(bad.into()),
                Err(_) => {}
            }
        }
        let Some(published) = self.connect()? else { return Err(VerificationError::NoListing) };
        let geometry = Geometry::new(published.size(), SegmentSize::DEFAULT);
        // The file's name goes at the end of this function; the open file stays.
        let new = self.store.new_file()?;
        let file = new.file().clone();
        let mut keep = |event: TransferEvent| match event {
            TransferEvent::Segment { segment, .. } => {
                file.write_all(&segment.content, segment.offset)
            }
            _ => Ok(()),
        };
        let segments = Vec::from_iter(Some(0..geometry.segments()));
        let object = ObjectId::Root;
        let wanted = Wanted { object, root, geometry, segments, verifier: None };
        if !self.fetch(wanted, &mut keep)? {
            return Err(VerificationError::NoListing);
        }
        Ok(ListedFiles::open(file, geometry.size(), &root, SegmentSize::DEFAULT)?)
    }
}
