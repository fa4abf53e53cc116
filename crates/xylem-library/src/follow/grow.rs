//! The publisher's side: a file that somebody else appends to, read as it grows, and its checkpoints.
//!
//! [`Grower::turn`] reads what is new, [`xylem_tree::GrowingTree`] hashes it once, what has become
//! left-complete goes to the outboard, and now and then a checkpoint is recorded, signed and told.
//! [`Grower::answer`] serves every checkpoint there ever was: the last few are kept open, any other is
//! made again from the log, the outboard and its last segment, and signed again, to the same bytes.
//!
//! History is not read again: a change of what was hashed before is noticed by the size, by the last
//! segment's bytes and by the file's identity; consumers refuse what does not verify.

use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use xylem_hash::Hash;
use xylem_object::growing::{parse_pointer_name, sign_pointer};
use xylem_object::{
    Answer, Growing, Manifest, ObjectId, Publication, PublisherKey, Source, naming, sign_manifest,
};
use xylem_packet::{Interest, Name};
use xylem_store::{FileRef, Medium, OpenHow, OutboardFile, OutboardWriter, Store, StoreError};
use xylem_tree::{Checkpoint, Geometry, GrowingTree, NodeSource, SegmentSize, TreeKind};

use super::log::{self, Entry, Log};
use crate::clock::microseconds_now;
use crate::failure;
use crate::walk::os_bytes;
use crate::{Blame, CheckpointMade, Error, LibraryEvent, Stop};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// Bytes that are read in one go.
const READ: usize = 1 << 20;
/// Bytes that one turn takes in before it answers Interests again.
const TURN: u64 = 4 << 20;
/// Checkpoints that are kept open for serving.
const OPEN: usize = 16;
/// A stopped share serves its last checkpoint for so long at most.
const LINGER: Duration = Duration::from_secs(10);
/// It ends earlier if nobody asks for anything for so long.
const QUIET: Duration = Duration::from_millis(2_500);

/// When checkpoints are made.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// After so many new bytes.
    pub every_bytes: u64,
    /// After so long, if anything is new.
    pub every: Duration,
    /// Take what comes over standard input; `None`: the file at [`ShareOptions::path`] grows.
    pub input: Option<Input>,
}

/// Where what comes over standard input is kept.
#[derive(Clone, Debug)]
pub enum Input {
    /// In the store, under a name of its own.
    Store,
    /// At this path; what is there already is what the stream begins with.
    Keep(PathBuf),
}

/// A checkpoint that is open for serving.
struct Opened {
    version: u64,
    publication: Publication,
    checkpoint: Checkpoint,
}

/// A growing file that is published; see the module's documentation.
pub struct Grower {
    options: FollowOptions,
    medium: Arc<dyn Medium>,
    path: PathBuf,
    file: FileRef,
    outboard: FileRef,
    writer: OutboardWriter,
    log: Log,
    tree: GrowingTree,
    object: Name,
    key: PublisherKey,
    file_name: Vec<u8>,
    /// In the order in which they were opened; the newest checkpoint is always among them.
    open: VecDeque<Opened>,
    /// When the file is looked at next, and when the newest checkpoint was made.
    look_at: Duration,
    made_at: Duration,
    /// Somebody waits for the next checkpoint's pointer.
    awaited: bool,
    input: Option<Receiver<std::io::Result<()>>>,
    /// Asked to end: since when, and when something was last asked for.
    ending: Option<(Duration, Duration)>,
    buffer: Vec<u8>,
}

impl Grower {
    /// Opens the file and takes up what an earlier run knew of it; what is there and was not hashed
    /// yet is hashed. There is a checkpoint afterwards, also of an empty file.
    pub fn open(
        store: &Store,
        path: &Path,
        options: &FollowOptions,
        name: &dyn Fn(&[u8]) -> Result<Name, Error>,
        key: &PublisherKey,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Self, Error> {
        let at = |e: StoreError| failure::store(&e);
        let medium = store.medium().clone();
        let path = match &options.input {
            None => path.to_path_buf(),
            Some(input) => kept(store, input)?,
        };
        let canonical =
            path.canonicalize().map_err(|e| at(StoreError::from_io("share", &path, None, e)))?;
        let file_name = os_bytes(canonical.file_name().unwrap_or_default());
        let object = name(&file_name)?;
        naming::versioned(object.as_ref(), u64::MAX)
            .map_err(|e| failure::usage(format!("{object}: {e}")))?;
        let how = if options.input.is_some() { OpenHow::ReadWrite } else { OpenHow::Read };
        let file = FileRef::open(&*medium, &canonical, how).map_err(at)?;
        if file.metadata().map_err(at)?.kind != xylem_store::FileKind::File {
            let what = format!("{}: only a file can be followed", path.display());
            return Err(failure::usage(what));
        }
        let place = os_bytes(canonical.as_os_str());
        let place = |extension| log::place(store, &place, object.as_ref(), extension);
        let log = Log::open(&*medium, &place("log").map_err(at)?, object.as_ref()).map_err(at)?;
        let outboard = log::open(&*medium, &place("outboard").map_err(at)?).map_err(at)?;
        let mut grower = Self {
            options: options.clone(),
            path: canonical,
            file,
            writer: OutboardFile::new(outboard.clone()).writer_at(0),
            outboard,
            tree: GrowingTree::new(SegmentSize::DEFAULT, TreeKind::Blake3),
            log,
            object,
            key: PublisherKey::from_bytes(&key.to_bytes()),
            file_name,
            open: VecDeque::new(),
            look_at: Duration::ZERO,
            made_at: Duration::ZERO,
            awaited: false,
            input: None,
            ending: None,
            buffer: Vec::new(),
            medium,
        };
        grower.take_up(stop, on_event)?;
        if options.input.is_some() {
            grower.input = Some(copy_input(grower.file.clone()).map_err(at)?);
        }
        Ok(grower)
    }

    /// The tree as far as it was hashed before, and all that is there by now.
    fn take_up(
        &mut self,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), Error> {
        if let Some(newest) = self.log.newest() {
            let known = self.checkpoint_of(&newest).ok().flatten();
            if known.is_some() {
                let geometry = Geometry::new(newest.size, SegmentSize::DEFAULT);
                let tail = self.tail_of(&geometry).map_err(|e| failure::store(&e))?;
                let mut nodes = Nodes { outboard: &self.outboard, checkpoint: None };
                let resumed = GrowingTree::resume(&geometry, &mut nodes, &tail);
                self.tree = resumed.map_err(|_| self.rewritten("cannot be read back"))?;
            } else {
                // A lost or damaged outboard is made again; another file is not taken for this one.
                self.hash_up_to(newest.size, stop, on_event)?;
                if self.tree.size() < newest.size {
                    return Err(self.rewritten("is shorter than what was published of it"));
                }
                if self.tree.checkpoint().root() != newest.root {
                    return Err(self.rewritten("is not what was published of it"));
                }
            }
        }
        self.hash_up_to(self.size()?, stop, on_event)?;
        let is_new = |newest: Entry| newest.size != self.tree.size() || newest.last;
        if self.log.newest().is_none_or(is_new) {
            self.make(Duration::ZERO, false, on_event)?;
        } else if let Some(newest) = self.log.newest() {
            self.open_again(self.log.count() - 1, &newest).map_err(|e| failure::store(&e))?;
        }
        Ok(())
    }

    fn hash_up_to(
        &mut self,
        end: u64,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), Error> {
        let mut told = 0;
        while self.tree.size() < end {
            if self.take_in(READ as u64, end)? == 0 {
                break;
            }
            if self.tree.size() - told > 32 << 20 {
                told = self.tree.size();
                on_event(LibraryEvent::Hashing { done: told, total: end });
                if stop.raised() {
                    let message = "interrupted while hashing; nothing was published".to_owned();
                    return Err(Error { blame: Blame::Interrupted, message });
                }
            }
        }
        Ok(())
    }

    fn size(&self) -> Result<u64, Error> {
        self.file.metadata().map(|meta| meta.size).map_err(|e| failure::store(&e))
    }

    fn rewritten(&self, what: &str) -> Error {
        let path = self.path.display();
        let message = format!(
            "{path} {what}: it was changed, not only appended to; earlier checkpoints stay good, \
             share it anew under another name (--as)"
        );
        Error { blame: Blame::Local, message }
    }

    /// Reads and hashes up to `most` new bytes, none past `end`; how many there were. The last
    /// segment's bytes that were hashed before are read along, and have to be the same.
    fn take_in(&mut self, most: u64, end: u64) -> Result<u64, Error> {
        let at = |e: StoreError| failure::store(&e);
        let (start, tail) = self.tree.tail();
        let known = tail.len();
        let new = most.min(end.saturating_sub(self.tree.size())).min(READ as u64) as usize;
        self.buffer.resize(known + new, 0);
        let got = self.file.read_full(&mut self.buffer, start).map_err(at)?;
        if got < known || self.buffer[..known] != *tail {
            return Err(self.rewritten("was rewritten at its end"));
        }
        let writer = &mut self.writer;
        let pushed =
            self.tree.push(&self.buffer[known..got], |slot, value| writer.write(slot, &value.0));
        pushed.map_err(at)?;
        Ok((got - known) as u64)
    }

    /// Records, signs and opens a checkpoint of what was hashed.
    fn make(
        &mut self,
        now: Duration,
        last: bool,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), Error> {
        let at = |e: StoreError| failure::store(&e);
        self.writer.flush().map_err(at)?;
        let checkpoint = self.tree.checkpoint();
        let meta = self.file.metadata().map_err(at)?;
        let before = self.log.newest().map_or(0, |newest| newest.version.saturating_add(1));
        let entry = Entry {
            version: microseconds_now().max(before),
            size: checkpoint.geometry().size(),
            root: checkpoint.root(),
            mode: (meta.mode & 0o777) as u16,
            last,
        };
        self.log.append(entry).map_err(at)?;
        self.made_at = now;
        let number = self.log.count() - 1;
        let prefix = self.keep_open(number, &entry, checkpoint).ok_or_else(|| {
            failure::usage(format!("{}: cannot be published under this name", self.object))
        })?;
        on_event(LibraryEvent::Checkpoint(CheckpointMade {
            number,
            version: entry.version,
            name: prefix.to_string(),
            root: entry.root.to_string(),
            bytes: entry.size,
            last,
        }));
        Ok(())
    }

    /// Signs a checkpoint and keeps it open; P.
    fn keep_open(&mut self, number: u64, entry: &Entry, checkpoint: Checkpoint) -> Option<Name> {
        let prefix = naming::versioned(self.object.as_ref(), entry.version).ok()?;
        let manifest = Manifest {
            mode: u32::from(entry.mode),
            // A checkpoint that is signed again has to be the same packet: its time is its version.
            mtime_s: (entry.version / 1_000_000) as i64,
            mtime_ns: (entry.version % 1_000_000) as u32 * 1_000,
            growing: Some(Growing { number, last: entry.last }),
            ..Manifest::file(entry.root, entry.size, &self.file_name)
        };
        let packet = sign_manifest(&manifest, prefix.as_ref(), &self.key).ok()?;
        let publication = Publication::new(prefix.clone(), packet, &self.key.public()).ok()?;
        let publication = publication.with_metadata(&self.key);
        if self.open.len() >= OPEN {
            // The newest one stays: it answers who asks for no version.
            let newest = self.log.newest().map(|newest| newest.version);
            let oldest = self.open.iter().position(|open| Some(open.version) != newest);
            oldest.and_then(|at| self.open.remove(at));
        }
        self.open.push_back(Opened { version: entry.version, publication, checkpoint });
        Some(prefix)
    }

    fn tail_of(&self, geometry: &Geometry) -> Result<Vec<u8>, StoreError> {
        let range = geometry.segment_range(geometry.last_segment());
        let mut tail = vec![0; (range.end - range.start) as usize]; // one segment at most
        let got = self.file.read_full(&mut tail, range.start)?;
        tail.truncate(got);
        Ok(tail)
    }

    /// A checkpoint made again; `None` if what is on disk does not give its root.
    fn checkpoint_of(&self, entry: &Entry) -> Result<Option<Checkpoint>, StoreError> {
        let geometry = Geometry::new(entry.size, SegmentSize::DEFAULT);
        let tail = self.tail_of(&geometry)?;
        let mut nodes = Nodes { outboard: &self.outboard, checkpoint: None };
        let made = Checkpoint::read(&geometry, &mut nodes, &tail).ok();
        Ok(made.filter(|made| made.root() == entry.root))
    }

    fn open_again(&mut self, number: u64, entry: &Entry) -> Result<bool, StoreError> {
        let Some(checkpoint) = self.checkpoint_of(entry)? else { return Ok(false) };
        Ok(self.keep_open(number, entry, checkpoint).is_some())
    }

    /// The newest checkpoint's publication.
    pub fn newest(&self) -> &Publication {
        let newest = self.log.newest().map(|newest| newest.version);
        let found = self.open.iter().find(|open| Some(open.version) == newest);
        &found
            .expect("opened when it was made, and never closed while it is the newest")
            .publication
    }

    /// When [`Self::turn`] is due.
    pub fn poll_timeout(&self) -> Duration {
        self.look_at
    }

    /// Reads what is new and makes the checkpoints that are due. Returns the pointer that somebody was
    /// waiting for.
    pub fn turn(
        &mut self,
        now: Duration,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Option<Vec<u8>>, Error> {
        if now < self.look_at || self.ended() {
            return Ok(None);
        }
        let before = self.log.count();
        let ended = self.input_ended()?;
        let caught_up = self.take_new(now, TURN, on_event)?;
        let ends = ended || self.ending.is_some();
        self.look_at = if caught_up { now + LOOK.min(self.options.every) } else { now };
        if caught_up && ends {
            self.make(now, true, on_event)?;
        }
        Ok((self.log.count() > before).then(|| self.pointer(before)).flatten())
    }

    /// Takes in new bytes and makes a checkpoint whenever one is due. True when nothing is left.
    fn take_new(
        &mut self,
        now: Duration,
        most: u64,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<bool, Error> {
        let end = self.size()?;
        if end < self.tree.size() {
            return Err(self.rewritten("has shrunk"));
        }
        let named = self.medium.metadata(&self.path).map_err(|_| self.rewritten("is gone"))?;
        if named.ino != self.file.metadata().map_err(|e| failure::store(&e))?.ino {
            return Err(self.rewritten("was replaced by another file"));
        }
        let mut left = most;
        loop {
            let published = self.log.newest().map_or(0, |newest| newest.size);
            let room = (published.saturating_add(self.options.every_bytes))
                .saturating_sub(self.tree.size());
            if room == 0 {
                self.make(now, false, on_event)?;
                continue;
            }
            let taken = if self.tree.size() < end { self.take_in(room.min(left), end)? } else { 0 };
            left -= taken;
            if taken == 0 {
                break;
            }
            if left == 0 {
                return Ok(false);
            }
        }
        let published = self.log.newest().map_or(0, |newest| newest.size);
        if self.tree.size() > published && now >= self.made_at + self.options.every {
            self.make(now, false, on_event)?;
        }
        Ok(true)
    }

    /// Whether nothing comes over standard input any more.
    fn input_ended(&mut self) -> Result<bool, Error> {
        let Some(input) = &self.input else { return Ok(false) };
        match input.try_recv() {
            Err(TryRecvError::Empty) => Ok(false),
            Ok(Err(e)) => Err(failure::local("standard input", &e)),
            Ok(Ok(())) | Err(TryRecvError::Disconnected) => Ok(true),
        }
    }

    /// Whether the newest checkpoint is the last one.
    fn ended(&self) -> bool {
        self.log.newest().is_some_and(|newest| newest.last)
    }

    /// The pointer to checkpoint `number`, if somebody waits for it.
    fn pointer(&mut self, number: u64) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.awaited) {
            return None;
        }
        self.pointer_packet(number).ok().flatten()
    }

    fn pointer_packet(&self, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(entry) = self.log.entry(number)? else { return Ok(None) };
        let prefix = naming::versioned(self.object.as_ref(), entry.version).ok();
        Ok(prefix.and_then(|prefix| sign_pointer(prefix.as_ref(), number, &self.key)))
    }

    /// Answers one Interest for any checkpoint, appending the Data to `out`.
    pub fn answer(
        &mut self,
        now: Duration,
        interest: &Interest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answer, StoreError> {
        let name = interest.name();
        if let Some(number) = parse_pointer_name(self.object.as_ref(), name) {
            // The next one's Interest stays pending in the forwarder until there is an answer.
            self.awaited |= number == self.log.count();
            let Some(packet) = self.pointer_packet(number)? else { return Ok(Answer::NoSuch) };
            out.extend_from_slice(&packet);
            return Ok(Answer::Data);
        }
        let under = name.strip_prefix(self.object.as_ref());
        let version = under.and_then(|rest| naming::version(rest.prefix(1)));
        if let (Some(_), Some((_, asked))) = (version, &mut self.ending) {
            *asked = now;
        }
        let newest = self.log.newest().map_or(0, |newest| newest.version);
        let version = version.unwrap_or(newest);
        let at = match self.open.iter().position(|open| open.version == version) {
            Some(at) => at,
            None => {
                let found = self.log.find(version)?;
                let Some((number, entry)) = found else { return Ok(Answer::NoSuch) };
                if !self.open_again(number, &entry)? {
                    return Ok(Answer::NoSuch);
                }
                self.open.len() - 1
            }
        };
        let open = &mut self.open[at];
        let mut source =
            Reading { file: &self.file, outboard: &self.outboard, checkpoint: &open.checkpoint };
        open.publication.answer(interest, &mut source, out)
    }

    /// Asked to end: the last checkpoint is made in the next turn, and served to those who are here.
    /// True once that is over.
    pub fn may_end(&mut self, now: Duration, peers: usize) -> bool {
        let (since, asked) = *self.ending.get_or_insert((now, now));
        if !self.ended() {
            self.look_at = now;
            return false;
        }
        peers == 0 || now >= since + LINGER || now >= asked + QUIET
    }
}

/// The file into which standard input goes.
fn kept(store: &Store, input: &Input) -> Result<PathBuf, Error> {
    let path = match input {
        Input::Keep(path) => path.clone(),
        Input::Store => {
            let folder = log::folder(store).map_err(|e| failure::store(&e))?;
            folder.join(format!("stdin-{}", microseconds_now()))
        }
    };
    let how = OpenHow::Create { mode: 0o666 };
    FileRef::open(&**store.medium(), &path, how).map_err(|e| failure::store(&e))?;
    Ok(path)
}

/// A thread that appends standard input to `file`; what it sends is how that ended.
fn copy_input(file: FileRef) -> Result<Receiver<std::io::Result<()>>, StoreError> {
    let mut end = file.metadata()?.size;
    let (send, receive) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        let mut input = std::io::stdin().lock();
        let outcome = loop {
            match input.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(got) => {
                    if let Err(e) = file.write_all(&buffer[..got], end) {
                        break Err(std::io::Error::other(e.to_string()));
                    }
                    end += got as u64;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
        };
        let _ = send.send(outcome); // a share that has ended does not listen any more
    });
    Ok(receive)
}

/// Slots of an outboard that grows: zeros where nothing is yet, a checkpoint's right edge over it.
struct Nodes<'a> {
    outboard: &'a FileRef,
    checkpoint: Option<&'a Checkpoint>,
}

impl NodeSource for Nodes<'_> {
    type Error = StoreError;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let at = first_slot.saturating_mul(xylem_tree::NODE_LEN as u64);
        let got = self.outboard.read_full(out, at)?;
        out[got..].fill(0);
        if let Some(checkpoint) = self.checkpoint {
            checkpoint.overlay(first_slot, out);
        }
        Ok(())
    }
}

/// What one checkpoint is served from.
struct Reading<'a> {
    file: &'a FileRef,
    outboard: &'a FileRef,
    checkpoint: &'a Checkpoint,
}

impl Source for Reading<'_> {
    type Error = StoreError;

    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        (object == ObjectId::Root).then_some(*self.checkpoint.geometry())
    }

    fn read_content(
        &mut self,
        _object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        let got = self.file.read_full(out, offset)?;
        if got == out.len() {
            return Ok(());
        }
        let (was, is) = (self.checkpoint.geometry().size(), offset + got as u64);
        let what = xylem_store::Difference::Size { was, is };
        Err(StoreError::Changed { path: self.file.path().to_path_buf(), what })
    }

    fn read_nodes(
        &mut self,
        _object: ObjectId,
        first_slot: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        let checkpoint = Some(self.checkpoint);
        Nodes { outboard: self.outboard, checkpoint }.read_nodes(first_slot, out)
    }

    fn root(&mut self, _object: ObjectId) -> Option<Hash> {
        Some(self.checkpoint.root())
    }
}
