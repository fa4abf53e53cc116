//! [`Grower`]: the publisher's side of a growing file, which another program appends to.
//!
//! [`Grower::poll`] reads new bytes, and [`xylem_tree::GrowingTree`] hashes them once. Nodes that are left-complete go
//! to the outboard. From time to time a checkpoint is recorded, signed and reported. [`Grower::answer`] serves all
//! checkpoints.
//!
//! Hashed content is not read again. A change of it is noticed by the size, by the last segment's bytes and by the
//! file's identity; any other change is found when that content is requested, and the request is refused. If the file's
//! name leads elsewhere, the file is read to its end, which is its last checkpoint.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use xylem_object::{Publication, PublisherKey, ServeOutcome, naming};
use xylem_packet::{Interest, Name};
use xylem_store::{
    FileKind, FileRef, Medium, OpenHow, OutboardFile, OutboardWriter, Store, StoreError,
    require_size,
};
use xylem_tree::{Checkpoint, GrowingTree, SegmentSize, TreeKind};

use super::checkpoints::Checkpoints;
use super::error::{GrowError, Rewritten};
use super::input;
use super::log::{self, CheckpointLog, CheckpointRecord};
use crate::event::{CheckpointMade, LibraryEvent};
use crate::ours;
use crate::path::{canonical, os_bytes};
use crate::stop::Stop;
use crate::time::UnixTime;

/// Interval between two reads of the file.
const READ_EVERY: Duration = Duration::from_millis(25);
/// Bytes read at once.
const READ: usize = 1 << 20;
/// Bytes that one poll hashes before Interests are answered again.
const POLL_BYTES: u64 = 4 << 20;
/// Longest time for which a stopped share serves its last checkpoint.
const LINGER: Duration = Duration::from_secs(10);
/// A stopped share ends earlier if no Interest arrives for this long.
const QUIET: Duration = Duration::from_millis(2_500);

/// When checkpoints are made.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// After this many new bytes.
    pub every_bytes: u64,
    /// After this long, if there are new bytes.
    pub every: Duration,
    /// Publish standard input; `None`: publish the file at the shared path.
    pub input: Option<FollowInput>,
}

/// The publisher's key and its choice of names.
pub struct Author<'a> {
    /// Returns the object name for the last component of the path.
    pub name: &'a dyn Fn(&[u8]) -> Name,
    /// The signing key.
    pub key: &'a PublisherKey,
}

/// Where standard input is stored.
#[derive(Clone, Debug)]
pub enum FollowInput {
    /// In the store, in a new file.
    Store,
    /// At this path; existing content is the beginning of the stream.
    Keep(PathBuf),
}

/// A growing file that is published; see the module's documentation.
pub struct Grower {
    options: FollowOptions,
    medium: Arc<dyn Medium>,
    path: PathBuf,
    writer: OutboardWriter,
    tree: GrowingTree,
    checkpoints: Checkpoints,
    /// When the file is read next, and when the newest checkpoint was made.
    read_at: Duration,
    made_at: Duration,
    input: Option<Receiver<io::Result<()>>>,
    /// Set once asked to end: since when, and when the last Interest arrived.
    ending: Option<(Duration, Duration)>,
    /// Set while the name leads to another file or to none: how that was noticed, and when bytes were last read or
    /// requested. Bytes still written to the old file are published as its end.
    detached: Option<(Rewritten, Duration)>,
    buffer: Vec<u8>,
}

impl Grower {
    /// Opens the file, continues from the records of an earlier run, and hashes what is new. Afterwards there is a
    /// checkpoint, even of an empty file; `now` gives its version.
    ///
    /// # Errors
    /// See [`GrowError`].
    pub fn open(
        store: &Store,
        path: &Path,
        options: &FollowOptions,
        author: &Author<'_>,
        now: UnixTime,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Self, GrowError> {
        let medium = store.medium().clone();
        let path = match &options.input {
            None => path.to_path_buf(),
            Some(input) => input::kept(store, input, now)?,
        };
        let canonical = canonical(&path)?;
        if !matches!(options.input, Some(FollowInput::Store)) {
            ours::require_outside(&*medium, &canonical)?;
        }
        let file_name = os_bytes(canonical.file_name().unwrap_or_default());
        let object = (author.name)(&file_name);
        if let Err(source) = naming::versioned(object.as_ref(), u64::MAX) {
            return Err(GrowError::Name { name: object, source });
        }
        let how = if options.input.is_some() { OpenHow::ReadWrite } else { OpenHow::Read };
        let file = FileRef::open(&*medium, &canonical, how)?;
        if file.metadata()?.kind != FileKind::File {
            return Err(GrowError::NotAFile(path));
        }
        require_size(&file)?;
        let place = os_bytes(canonical.as_os_str());
        let place = |extension| log::place(store, &place, object.as_ref(), extension);
        let log = CheckpointLog::open(&*medium, &place("log")?, object.as_ref())?;
        if log.lost() {
            let what = "the record of its earlier checkpoints was damaged: lost checkpoints are no longer served, \
                        and changes of the bytes that they covered go unnoticed";
            let what = format!("{}: {what}", canonical.display());
            on_event(LibraryEvent::Warning { what });
        }
        let outboard = log::open(&*medium, &place("outboard")?)?;
        let mut grower = Self {
            options: options.clone(),
            path: canonical,
            writer: OutboardFile::new(outboard.clone()).writer_at(0),
            tree: GrowingTree::new(SegmentSize::DEFAULT, TreeKind::Blake3),
            checkpoints: Checkpoints {
                file,
                outboard,
                log,
                object,
                key: PublisherKey::from_bytes(&author.key.to_bytes()),
                file_name,
                open: VecDeque::new(),
                awaited: false,
            },
            read_at: Duration::ZERO,
            made_at: Duration::ZERO,
            input: None,
            ending: None,
            detached: None,
            buffer: Vec::new(),
            medium,
        };
        grower.resume(now, stop, on_event)?;
        if options.input.is_some() {
            grower.input = Some(input::copy_input(grower.checkpoints.file.clone())?);
        }
        Ok(grower)
    }

    /// Restores the tree of the last run, and hashes what was appended since.
    fn resume(
        &mut self,
        now: UnixTime,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), GrowError> {
        if let Some(newest) = self.checkpoints.log.newest() {
            match self.checkpoints.tree_of(&newest)? {
                Some(tree) => self.tree = tree,
                None => {
                    // A lost or damaged outboard is recomputed; the root shows if it is another file.
                    self.hash_up_to(newest.size, stop, on_event)?;
                    if self.tree.size() < newest.size {
                        return Err(self.rewritten(Rewritten::Shorter));
                    }
                    if self.tree.checkpoint().root() != newest.root {
                        return Err(self.rewritten(Rewritten::Other));
                    }
                    self.writer.flush()?;
                }
            }
        }
        self.hash_up_to(self.size()?, stop, on_event)?;
        match self.checkpoints.log.newest() {
            Some(newest) if newest.size == self.tree.size() && !newest.last => {
                let number = self.checkpoints.log.count() - 1;
                self.keep_open(number, &newest, self.tree.checkpoint())?;
            }
            _ => self.make(Duration::ZERO, now, false, on_event)?,
        }
        Ok(())
    }

    /// Signs a checkpoint, keeps it open and returns its versioned prefix.
    fn keep_open(
        &mut self,
        number: u64,
        entry: &CheckpointRecord,
        checkpoint: Checkpoint,
    ) -> Result<Name, GrowError> {
        let kept = self.checkpoints.keep_open(number, entry, checkpoint);
        kept.ok_or_else(|| GrowError::Unpublishable(self.checkpoints.object.clone()))
    }

    fn hash_up_to(
        &mut self,
        end: u64,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), GrowError> {
        let mut reported = 0;
        while self.tree.size() < end {
            if self.hash_new(READ as u64, end)? == 0 {
                break;
            }
            if self.tree.size() - reported > 32 << 20 {
                reported = self.tree.size();
                on_event(LibraryEvent::Hashing { done: reported, total: end });
                if stop.raised() {
                    return Err(GrowError::Interrupted);
                }
            }
        }
        Ok(())
    }

    fn size(&self) -> Result<u64, GrowError> {
        Ok(self.checkpoints.file.metadata()?.size)
    }

    fn rewritten(&self, how: Rewritten) -> GrowError {
        GrowError::Rewritten { path: self.path.clone(), how }
    }

    /// Reads and hashes at most `most` new bytes, none past `end`; returns how many. It also reads the hashed bytes of
    /// the last segment, which must be unchanged.
    fn hash_new(&mut self, most: u64, end: u64) -> Result<u64, GrowError> {
        let (start, tail) = self.tree.tail();
        let known = tail.len();
        let new = most.min(end.saturating_sub(self.tree.size())).min(READ as u64) as usize;
        self.buffer.resize(known + new, 0);
        let got = self.checkpoints.file.read_full(&mut self.buffer, start)?;
        if got < known || self.buffer[..known] != *tail {
            return Err(self.rewritten(Rewritten::End));
        }
        let writer = &mut self.writer;
        let pushed =
            self.tree.push(&self.buffer[known..got], |slot, value| writer.write(slot, &value.0));
        pushed?;
        Ok((got - known) as u64)
    }

    /// Records, signs and opens a checkpoint of what was hashed.
    fn make(
        &mut self,
        now: Duration,
        wall: UnixTime,
        last: bool,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), GrowError> {
        self.writer.flush()?;
        let checkpoint = self.tree.checkpoint();
        let meta = self.checkpoints.file.metadata()?;
        let before =
            self.checkpoints.log.newest().map_or(0, |newest| newest.version.saturating_add(1));
        let entry = CheckpointRecord {
            version: wall.microseconds().max(before),
            size: checkpoint.geometry().size(),
            root: checkpoint.root(),
            mode: (meta.mode & 0o777) as u16,
            last,
        };
        self.checkpoints.log.append(entry)?;
        self.made_at = now;
        let number = self.checkpoints.log.count() - 1;
        let prefix = self.keep_open(number, &entry, checkpoint)?;
        on_event(LibraryEvent::Checkpoint(CheckpointMade {
            number,
            version: entry.version,
            name: prefix,
            root: entry.root,
            bytes: entry.size,
            last,
        }));
        Ok(())
    }

    /// Returns the newest checkpoint's publication.
    pub fn newest(&self) -> &Publication {
        self.checkpoints.newest()
    }

    /// Returns when [`Self::poll`] is due; `None` once the last checkpoint is made, because nothing more is read.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let leaves = self.detached.map(|(_, since)| since + QUIET);
        if self.ended() { leaves } else { Some(self.read_at) }
    }

    /// Reads new bytes and makes the checkpoints that are due. Returns the pointer packet for which an Interest waits.
    ///
    /// # Errors
    /// See [`GrowError`].
    pub fn poll(
        &mut self,
        now: Duration,
        wall: UnixTime,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Option<Vec<u8>>, GrowError> {
        if let Some((how, since)) = self.detached
            && self.ended()
        {
            return if now < since + QUIET { Ok(None) } else { Err(self.rewritten(how)) };
        }
        if now < self.read_at || self.ended() {
            return Ok(None);
        }
        let before = self.checkpoints.log.count();
        let ended = self.input_ended()?;
        let caught_up = self.read_new(now, wall, POLL_BYTES, on_event)?;
        let left = self.detached.is_some_and(|(_, since)| now >= since + QUIET);
        let ends = ended || left || self.ending.is_some();
        self.read_at = if caught_up { now + READ_EVERY.min(self.options.every) } else { now };
        if caught_up && ends {
            self.make(now, wall, true, on_event)?;
            // Getters have the same time again to fetch the last checkpoint.
            self.detached = self.detached.map(|(how, _)| (how, now));
        }
        Ok((self.checkpoints.log.count() > before).then(|| self.pointer(before)).flatten())
    }

    /// Hashes new bytes and makes checkpoints as they are due. Returns whether all was read.
    fn read_new(
        &mut self,
        now: Duration,
        wall: UnixTime,
        most: u64,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<bool, GrowError> {
        let end = self.size()?;
        if end < self.tree.size() {
            return Err(self.rewritten(Rewritten::Shrunk));
        }
        self.notice_detached(now, end)?;
        let mut left = most;
        loop {
            let published = self.checkpoints.log.newest().map_or(0, |newest| newest.size);
            let room = (published.saturating_add(self.options.every_bytes))
                .saturating_sub(self.tree.size());
            if room == 0 {
                self.make(now, wall, false, on_event)?;
                continue;
            }
            let taken =
                if self.tree.size() < end { self.hash_new(room.min(left), end)? } else { 0 };
            left -= taken;
            if taken == 0 {
                break;
            }
            if left == 0 {
                return Ok(false);
            }
        }
        let published = self.checkpoints.log.newest().map_or(0, |newest| newest.size);
        if self.tree.size() > published && now >= self.made_at + self.options.every {
            self.make(now, wall, false, on_event)?;
        }
        Ok(true)
    }

    /// Notices that the name leads elsewhere, as when a log is rotated, and whether the old file still grows.
    fn notice_detached(&mut self, now: Duration, end: u64) -> Result<(), GrowError> {
        let ino = self.checkpoints.file.metadata()?.ino;
        let how = match self.medium.metadata(&self.path) {
            Err(_) => Rewritten::Gone,
            Ok(named) if named.ino != ino => Rewritten::Replaced,
            Ok(_) => {
                self.detached = None;
                return Ok(());
            }
        };
        let since = self.detached.map_or(now, |(_, since)| since);
        let since = if end > self.tree.size() { now } else { since };
        self.detached = Some((how, since));
        Ok(())
    }

    /// Returns whether standard input has ended.
    fn input_ended(&mut self) -> Result<bool, GrowError> {
        let Some(input) = &self.input else { return Ok(false) };
        match input.try_recv() {
            Err(TryRecvError::Empty) => Ok(false),
            Ok(Err(e)) => Err(GrowError::Input(e)),
            Ok(Ok(())) | Err(TryRecvError::Disconnected) => Ok(true),
        }
    }

    /// Returns whether the newest checkpoint is the last one.
    fn ended(&self) -> bool {
        self.checkpoints.ended()
    }

    /// Returns the pointer to checkpoint `number`, if an Interest waits for it.
    fn pointer(&mut self, number: u64) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.checkpoints.awaited) {
            return None;
        }
        self.checkpoints.pointer_packet(number).ok().flatten()
    }

    /// Answers one Interest for any checkpoint; appends the Data to `out`.
    ///
    /// # Errors
    /// The content or the outboard cannot be read.
    pub fn answer(
        &mut self,
        now: Duration,
        interest: &Interest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<ServeOutcome, StoreError> {
        if self.checkpoints.version_in(interest.name()).is_some() {
            if let Some((_, asked)) = &mut self.ending {
                *asked = now;
            }
            if let Some((_, since)) = self.detached.as_mut().filter(|_| self.checkpoints.ended()) {
                *since = now.min(self.made_at + LINGER);
            }
        }
        self.checkpoints.answer(interest, out)
    }

    /// Asks the file to end: the next [`Self::poll`] makes the last checkpoint, which is then served to present peers.
    /// Returns true once that is over.
    pub fn may_end(&mut self, now: Duration, peers: usize) -> bool {
        let (since, asked) = *self.ending.get_or_insert((now, now));
        if !self.ended() {
            self.read_at = now;
            return false;
        }
        peers == 0 || now >= since + LINGER || now >= asked + QUIET
    }
}
