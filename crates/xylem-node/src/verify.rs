//! [`verify`]: does what is on disk match what a ticket names, and if not, where?
//!
//! The hash alone tells whether. To tell where, tree nodes are taken from this machine's store or,
//! a few packets in all, from peers; they are proven from the ticket's root before they are used.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_hash::Hash;
use xylem_link::Shaping;
use xylem_object::listing::{Entry, EntryKind};
use xylem_object::{Kind, ObjectId, Ticket};
use xylem_store::{
    FileKind, FileRef, FileState, Meta, OpenHow, OutboardFile, Part, Store, StoreError,
};
use xylem_transfer::Event as TransferEvent;
use xylem_tree::{Geometry, SegmentSize};

use crate::event::{Event, from_library};
use crate::failure;
use crate::fetch::Fetch;
use crate::peer::Peer;
use xylem_library::hashing::{self, Job};
use xylem_library::listed::{Listed, ListedError, ListedFiles};
use xylem_library::publish::{disk, root_of};
use xylem_library::rescan::{Readers, Subject, inspect};
use xylem_library::walk::{os_bytes, os_path};
use xylem_library::{Blame, Error, Stop};

/// One segment of each tile's span brings the whole tile: 8 segments a node, 256 nodes a tile.
const SEGMENTS_A_TILE: u64 = 8 * 256;

/// How to compare what is on disk with a ticket.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// File or directory.
    pub path: PathBuf,
    /// What it should be.
    pub ticket: Ticket,
    /// Peers to ask for tree nodes, as in [`crate::GetOptions::from`].
    pub from: Vec<Peer>,
    /// Give up on peers after this long.
    pub give_up: Duration,
    /// Where outboards are kept.
    pub store: PathBuf,
}

/// Outcome of [`crate::verify`].
#[derive(Clone, Debug)]
pub struct VerifySummary {
    /// Bytes compared.
    pub bytes: u64,
    /// Files compared.
    pub files: u64,
    /// Bad places: path (empty for a single file), byte range, and what is wrong in words.
    pub damage: Vec<(PathBuf, Range<u64>, String)>,
    /// False where no tree was at hand and damage could not be narrowed to byte ranges.
    pub located: bool,
    /// Root of what the ticket names.
    pub root: Hash,
}

/// Compares what is on disk with a ticket.
///
/// # Errors
/// [`Blame::Usage`] for a ticket or path that can't be used, [`Blame::Local`] for files that can't
/// be read, [`Blame::Network`] if a directory's listing is neither here nor reachable. Damage is no
/// error: see [`VerifySummary::damage`].
pub fn verify(
    options: &VerifyOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<VerifySummary, Error> {
    let ticket = options.ticket.clone();
    let at = |e| failure::store(&StoreError::from_io("verify", &options.path, None, e));
    let canonical = options.path.canonicalize().map_err(at)?;
    let store = Store::open(disk(), &options.store).map_err(|e| failure::store(&e))?;
    let meta = store.medium().metadata(&canonical).map_err(at)?;
    let is_directory = meta.kind == FileKind::Directory;
    if is_directory != (ticket.kind == Kind::Directory) {
        let (is, not) = if is_directory { ("directory", "file") } else { ("file", "directory") };
        let path = options.path.display();
        return Err(failure::usage(format!("{path} is a {is}, the ticket names a {not}")));
    }
    let summary =
        VerifySummary { bytes: 0, files: 0, damage: Vec::new(), located: true, root: ticket.root };
    let mut check =
        Check { options, ticket, store, fetch: None, summary, stop, unreachable: false };
    if is_directory {
        check.directory(&canonical, on_event)?;
    } else {
        check.file(&canonical, &meta, on_event)?;
    }
    Ok(check.summary)
}

struct Check<'a> {
    options: &'a VerifyOptions,
    ticket: Ticket,
    store: Store,
    /// Peers, once they are needed.
    fetch: Option<Fetch>,
    unreachable: bool,
    summary: VerifySummary,
    stop: &'a Stop,
}

/// A file that is compared: where it lies, and what it should be.
struct Expected<'a> {
    id: ObjectId,
    path: &'a Path,
    shown: PathBuf,
    root: Hash,
    geometry: Geometry,
    /// Its outboard in this machine's store and the first slot.
    outboard: Option<(OutboardFile, u64)>,
}

impl Check<'_> {
    fn file(
        &mut self,
        path: &Path,
        meta: &Meta,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        (self.summary.files, self.summary.bytes) = (1, meta.size);
        let root = self.ticket.root;
        let state = FileState::of(meta);
        let job = Job { path: path.to_path_buf(), state, slot: None };
        let medium = self.store.medium().clone();
        if hashing::hash_all(&*medium, &[job], None, self.stop, &mut from_library(on_event))?
            == [root]
        {
            return Ok(());
        }
        let outboard = self.store.outboard(&root, Part::Outboard).ok().flatten();
        let expected = Expected {
            id: ObjectId::Root,
            path,
            shown: PathBuf::new(),
            root,
            geometry: Geometry::new(self.ticket.size, SegmentSize::DEFAULT),
            outboard: outboard.map(|o| (o, 0)),
        };
        self.compare(&expected, meta.size, on_event)
    }

    fn directory(&mut self, path: &Path, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let listed = self.listing(on_event)?;
        if root_of(path, &mut from_library(on_event))? == self.ticket.root {
            let totals = listed.totals();
            (self.summary.files, self.summary.bytes) = (totals.files, totals.bytes);
            return Ok(());
        }
        let packed = self.store.outboard(&self.ticket.root, Part::FileOutboards).ok().flatten();
        for found in listed.entries() {
            let listed = found.map_err(|e| failure::store(&e))?;
            self.entry(&listed, path, packed.clone(), on_event)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        listed: &Listed,
        root: &Path,
        packed: Option<OutboardFile>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let entry = &listed.entry;
        let (shown, here) = (os_path(&entry.path), &*root.join(os_path(&entry.path)));
        let Ok(meta) = self.store.medium().metadata(here) else {
            let size = if let EntryKind::File { size, .. } = entry.kind { size } else { 0 };
            return self.damaged(shown, 0..size, "missing");
        };
        match (&entry.kind, meta.kind) {
            (EntryKind::Directory, FileKind::Directory) => self.mode(entry, &meta, shown),
            (EntryKind::HardLink { target }, FileKind::File) => {
                let first = self.store.medium().metadata(&root.join(os_path(target)));
                if first.is_ok_and(|first| (first.ino, first.dev) == (meta.ino, meta.dev)) {
                    return Ok(());
                }
                let target = os_path(target);
                self.damaged(shown, 0..0, &format!("is not a hard link to {}", target.display()))
            }
            (EntryKind::Symlink { target }, FileKind::Symlink) => {
                let is = self.store.medium().read_link(here);
                if is.is_ok_and(|is| os_bytes(is.as_os_str()) == *target) {
                    return Ok(());
                }
                self.damaged(shown, 0..0, "points elsewhere")
            }
            (EntryKind::File { size, root }, FileKind::File) => {
                self.summary.files += 1;
                self.summary.bytes += size;
                let job = Job { path: here.to_path_buf(), state: FileState::of(&meta), slot: None };
                let medium = self.store.medium().clone();
                let is = hashing::hash_all(&*medium, &[job], None, self.stop, &mut |_| {})?;
                if is == [*root] {
                    return self.mode(entry, &meta, shown);
                }
                let geometry = Geometry::new(*size, SegmentSize::DEFAULT);
                let outboard = packed.map(|o| (o, listed.slot));
                let id = ObjectId::File(listed.number);
                let expected = Expected { id, path: here, shown, root: *root, geometry, outboard };
                self.compare(&expected, meta.size, on_event)
            }
            _ => self.damaged(shown, 0..0, "is something else than was published"),
        }
    }

    fn mode(&mut self, entry: &Entry, meta: &Meta, shown: PathBuf) -> Result<(), Error> {
        let is = meta.mode & 0o777;
        if is == entry.mode {
            return Ok(());
        }
        let what = format!("has mode {is:03o}, not {:03o}", entry.mode);
        self.damaged(shown, 0..0, &what)
    }

    fn damaged(&mut self, path: PathBuf, range: Range<u64>, what: &str) -> Result<(), Error> {
        self.summary.damage.push((path, range, what.to_owned()));
        Ok(())
    }

    /// Finds out which bytes of a file, whose hash is wrong, are wrong.
    fn compare(
        &mut self,
        expected: &Expected<'_>,
        size: u64,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let should = expected.geometry.size();
        if size > should {
            self.damaged(expected.shown.clone(), should..size, "is longer than published")?;
        }
        let wrong = match &expected.outboard {
            Some((outboard, slot)) => self.wrong(expected, outboard, *slot)?,
            None => match self.nodes_from_peers(expected, on_event)? {
                Some(outboard) => self.wrong(expected, &outboard, 0)?,
                None => {
                    self.summary.located = false;
                    return self.damaged(expected.shown.clone(), 0..should, "does not match");
                }
            },
        };
        let before = self.summary.damage.len();
        for range in wrong {
            let what = if range.start >= size { "missing" } else { "does not match" };
            self.damaged(expected.shown.clone(), range, what)?;
        }
        if size <= should && before == self.summary.damage.len() {
            // Read twice, wrong once: it changed in between, or memory lies.
            self.summary.located = false;
            self.damaged(expected.shown.clone(), 0..should, "changed while it was read")?;
        }
        Ok(())
    }

    /// Byte ranges that are wrong, by proven nodes.
    fn wrong(
        &self,
        expected: &Expected<'_>,
        outboard: &OutboardFile,
        slot: u64,
    ) -> Result<Vec<Range<u64>>, Error> {
        let at = |e: StoreError| failure::store(&e);
        let file = FileRef::open(&**self.store.medium(), expected.path, OpenHow::Read);
        let subject = Subject {
            file: file.map_err(at)?,
            outboard: Some((outboard.clone(), slot)),
            geometry: expected.geometry,
            root: expected.root,
        };
        let found = inspect(&subject, &mut Readers::All, &|_| !self.stop.raised()).map_err(at)?;
        let Some(found) = found else {
            let message = "interrupted; nothing was changed".to_owned();
            return Err(Error { blame: Blame::Interrupted, message });
        };
        Ok(found.bad().iter().map(|segments| found.bytes_of(segments)).collect())
    }

    /// The peers, dialled when they are needed first and past the manifest; `None` if there is
    /// nobody.
    fn peers(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<Option<&mut Fetch>, Error> {
        if self.unreachable {
            return Ok(None);
        }
        if self.fetch.is_none() {
            let give_up = self.options.give_up;
            let mut fetch =
                Fetch::new(&self.ticket, &self.options.from, give_up, None, Shaping::default())?;
            match fetch.manifest(self.stop, on_event).map_err(Error::from) {
                Ok(_) => self.fetch = Some(fetch),
                Err(e) if e.blame == Blame::Network => {
                    self.unreachable = true;
                    return Ok(None);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(self.fetch.as_mut())
    }

    fn nodes_from_peers(
        &mut self,
        expected: &Expected<'_>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Option<OutboardFile>, Error> {
        let at = |e: StoreError| failure::store(&e);
        let geometry = expected.geometry;
        let wanted: Vec<Range<u64>> = if geometry.segments() <= 8 {
            Vec::from_iter(Some(0..geometry.segments()))
        } else {
            let starts = (0..geometry.segments()).step_by(SEGMENTS_A_TILE as usize);
            starts.map(|s| s..s + 1).collect()
        };
        let new = self.store.new_file().map_err(at)?;
        let outboard = OutboardFile::new(new.file().clone());
        let mut writer = outboard.writer_at(0);
        let mut keep = |event: TransferEvent| match event {
            TransferEvent::Nodes { nodes, .. } => nodes
                .iter()
                .try_for_each(|(node, value)| writer.write(node.slot(), &value.0))
                .map_err(|e| failure::store(&e)),
            _ => Ok(()),
        };
        let stop = self.stop;
        let Some(fetch) = self.peers(on_event)? else { return Ok(None) };
        let added =
            fetch.transfer().add_object(expected.id, expected.root, geometry, wanted, [], None);
        added.map_err(|e| failure::usage(e.to_string()))?;
        match fetch.drain(stop, on_event, &mut keep).map_err(Error::from) {
            Err(e) if e.blame == Blame::Network => {
                self.unreachable = true;
                return Ok(None);
            }
            other => other?,
        }
        writer.flush().map_err(at)?;
        Ok(Some(outboard))
    }

    /// The directory's listing: from the store, or from peers.
    fn listing(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<ListedFiles, Error> {
        let (root, size) = (self.ticket.root, self.ticket.size);
        let at = |e: StoreError| failure::store(&e);
        if let Some(file) = self.store.object(&root, Part::Listing).ok().flatten() {
            match ListedFiles::open(file.clone(), size, &root, SegmentSize::DEFAULT) {
                Ok(listed) => return Ok(listed),
                Err(bad @ ListedError::Bad(_)) => return Err(bad.into_error(&file)),
                Err(_) => {}
            }
        }
        let geometry = Geometry::new(size, SegmentSize::DEFAULT);
        let nobody = || Error {
            blame: Blame::Network,
            message: "the directory's listing is not here and nobody reachable has it".to_owned(),
        };
        // Its name goes at the end of this; what was opened stays.
        let new = self.store.new_file().map_err(at)?;
        let file = new.file().clone();
        let stop = self.stop;
        let Some(fetch) = self.peers(on_event)? else { return Err(nobody()) };
        let all = std::iter::once(0..geometry.segments());
        let added = fetch.transfer().add_object(ObjectId::Root, root, geometry, all, [], None);
        added.map_err(|e| failure::usage(e.to_string()))?;
        fetch.drain(stop, on_event, &mut |event| {
            let TransferEvent::Segment { segment, .. } = event else { return Ok(()) };
            file.write_all(&segment.content, segment.offset).map_err(at)
        })?;
        ListedFiles::open(file.clone(), size, &root, SegmentSize::DEFAULT)
            .map_err(|e| e.into_error(&file))
    }
}
