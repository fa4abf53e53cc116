//! [`Grower`]: the publisher's side of a growing file, which another program appends to.
//!
//! [`Grower::poll`] has a thread read new bytes (`growth`), and [`xylem_tree::GrowingTree`] hashes them once. Nodes that
//! are left-complete go to the outboard. From time to time a checkpoint is recorded, signed and reported.
//! [`Grower::answer`] serves all checkpoints.
//!
//! Hashed content is not read again. A change of it is noticed by the size, by the last segment's bytes and by the
//! file's identity; any other change is found when that content is requested, and the request is refused. If the file's
//! name leads elsewhere, the file is read to its end, which is its last checkpoint.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use xylem_base::{Stop, UnixTime, Wake, canonical_in, os_bytes};
use xylem_files::checkpoint_log::{self, CheckpointLog, CheckpointRecord};
use xylem_files::reads::{ReadKind, Reads};
use xylem_files::{CheckpointMade, LibraryEvent, ours};
use xylem_object::{Publication, PublisherKey, ServeOutcome, naming};
use xylem_packet::{Interest, Name};
use xylem_store::{
    FileKind, FileRef, Medium, OpenHow, OutboardFile, Store, StoreError, require_size,
};
use xylem_tree::{Checkpoint, GrowingTree, SegmentSize, TreeKind};

use super::checkpoints::{CheckpointFiles, Checkpoints};
use super::error::{GrowError, Rewritten};
use super::growth::{GrowthPlace, GrowthReader, GrowthRequest, GrowthStep, RecordedCheckpoint};
use super::input;

/// Interval between two reads of the file.
const READ_EVERY: Duration = Duration::from_millis(25);
/// Longest time for which a stopped share serves its last checkpoint.
const LINGER: Duration = Duration::from_secs(10);
/// A stopped share ends earlier if no Interest arrives for this long.
pub(super) const QUIET: Duration = Duration::from_millis(2_500);

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
    /// Interval of checkpoints.
    every: Duration,
    path: PathBuf,
    checkpoints: Checkpoints,
    /// Reads and hashes the file. `None` only while it is opened.
    growth: Option<GrowthPlace>,
    /// Threads that read what is not in memory.
    reads: Reads,
    /// Wakes the loop. Without it the file is read in [`Grower::poll`].
    wake: Option<Wake>,
    /// When the file is read next, and when the newest checkpoint was made.
    read_at: Duration,
    made_at: Duration,
    input: Option<Receiver<io::Result<()>>>,
    /// Set once asked to end: since when, and when the last Interest arrived.
    ending: Option<(Duration, Duration)>,
    /// As of the reader, and when bytes were last requested.
    detached: Option<(Rewritten, Duration)>,
}

/// The warning that the log of the file at `path` was damaged.
fn lost_checkpoints(path: &Path) -> LibraryEvent {
    let what = "the record of its earlier checkpoints was damaged: lost checkpoints are no longer served, and changes \
                of the bytes that they covered go unnoticed";
    LibraryEvent::Warning { what: format!("{}: {what}", path.display()) }
}

/// Opens the file at `path`, which must be a regular one outside of stores.
fn opened(
    medium: &dyn Medium,
    path: &Path,
    canonical: &Path,
    options: &FollowOptions,
) -> Result<FileRef, GrowError> {
    if !matches!(options.input, Some(FollowInput::Store)) {
        ours::require_outside(medium, canonical)?;
    }
    let how = if options.input.is_some() { OpenHow::ReadWrite } else { OpenHow::Read };
    let file = FileRef::open(medium, canonical, how)?;
    if file.metadata()?.kind != FileKind::File {
        return Err(GrowError::NotAFile(path.to_path_buf()));
    }
    require_size(&file)?;
    Ok(file)
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
        let canonical = canonical_in(&*medium, &path)?;
        let file_name = os_bytes(canonical.file_name().unwrap_or_default());
        let object = (author.name)(&file_name);
        if let Err(source) = naming::versioned(object.as_ref(), u64::MAX) {
            return Err(GrowError::Name { name: object, source });
        }
        let file = opened(&*medium, &path, &canonical, options)?;
        let place = os_bytes(canonical.as_os_str());
        let place = |extension| checkpoint_log::place(store, &place, object.as_ref(), extension);
        let log = CheckpointLog::open(&*medium, &place("log")?, object.as_ref())?;
        if log.lost() {
            on_event(lost_checkpoints(&canonical));
        }
        let outboard = checkpoint_log::open(&*medium, &place("outboard")?)?;
        let reads = Reads::over(medium.clone(), &canonical);
        let checkpoints = Checkpoints {
            file: reads.growing(&file, ReadKind::Content),
            outboard: reads.growing(&outboard, ReadKind::GrowingNodes),
            log: log.seen_by(&reads),
            object,
            key: PublisherKey::from_bytes(&author.key.to_bytes()),
            file_name,
            open: VecDeque::new(),
            awaited: false,
        };
        let reader = GrowthReader {
            options: options.clone(),
            medium,
            path: canonical.clone(),
            file: file.clone(),
            writer: OutboardFile::new(outboard.clone()).writer_at(0),
            tree: GrowingTree::new(SegmentSize::DEFAULT, TreeKind::Blake3),
            log,
            made_at: Duration::ZERO,
            detached: None,
            buffer: Vec::new(),
        };
        let mut grower = Self {
            every: options.every,
            path: canonical,
            checkpoints,
            growth: None,
            reads,
            wake: None,
            read_at: Duration::ZERO,
            made_at: Duration::ZERO,
            input: None,
            ending: None,
            detached: None,
        };
        let reader = grower.resume(reader, &outboard, now, stop, on_event)?;
        grower.growth = Some(GrowthPlace::new(reader));
        if options.input.is_some() {
            grower.input = Some(input::copy_input(file)?);
        }
        Ok(grower)
    }

    /// Restores the tree of the last run, hashes what was appended since, and opens the newest checkpoint.
    fn resume(
        &mut self,
        mut reader: GrowthReader,
        outboard: &FileRef,
        now: UnixTime,
        stop: &Stop,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<GrowthReader, GrowError> {
        if let Some(newest) = reader.log.newest() {
            let files = CheckpointFiles { file: &reader.file, outboard };
            match files.tree_of(&newest)? {
                Some(tree) => reader.tree = tree,
                None => {
                    // A lost or damaged outboard is recomputed; the root shows if it is another file.
                    reader.hash_up_to(newest.size, stop, on_event)?;
                    if reader.tree.size() < newest.size {
                        return Err(reader.rewritten(Rewritten::Shorter));
                    }
                    if reader.tree.checkpoint().root() != newest.root {
                        return Err(reader.rewritten(Rewritten::Other));
                    }
                    reader.writer.flush()?;
                }
            }
        }
        reader.hash_up_to(reader.size()?, stop, on_event)?;
        match reader.log.newest() {
            Some(newest) if newest.size == reader.tree.size() && !newest.last => {
                let number = reader.log.count() - 1;
                self.keep_open(number, &newest, reader.tree.checkpoint())?;
            }
            _ => {
                let made = reader.make(Duration::ZERO, now)?;
                self.publish(made, on_event)?;
            }
        }
        Ok(reader)
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

    /// Signs a recorded checkpoint, opens it and reports it.
    fn publish(
        &mut self,
        made: RecordedCheckpoint,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), GrowError> {
        let RecordedCheckpoint { number, record, checkpoint } = made;
        self.checkpoints.note(record);
        let name = self.keep_open(number, &record, checkpoint)?;
        on_event(LibraryEvent::Checkpoint(CheckpointMade {
            number,
            version: record.version,
            name,
            root: record.root,
            bytes: record.size,
            last: record.last,
        }));
        Ok(())
    }

    /// Returns the newest checkpoint's publication.
    pub fn newest(&self) -> &Publication {
        self.checkpoints.newest()
    }

    /// Has a thread read the file from now on, which calls `wake` when [`Self::poll`] has something to do.
    pub(crate) fn wake_by(&mut self, wake: Wake) {
        self.wake = Some(wake);
    }

    /// Returns the threads that read what is not in memory.
    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    fn away_since(&self) -> Option<Duration> {
        self.growth.as_ref().and_then(GrowthPlace::away_since)
    }

    /// Returns when [`Self::poll`] is due; `None` once the last checkpoint is made, because nothing more is read, and
    /// while a thread reads.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let leaves = self.detached.map(|(_, since)| since + QUIET);
        match (self.ended(), self.away_since()) {
            (true, _) => leaves,
            (false, None) => Some(self.read_at),
            (false, Some(_)) => None,
        }
    }

    /// Reads new bytes, or has a thread read them, and publishes the checkpoints that are due. Returns the pointer packet
    /// for which an Interest waits.
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
            let path = self.path.clone();
            return if now < since + QUIET {
                Ok(None)
            } else {
                Err(GrowError::Rewritten { path, how })
            };
        }
        if self.ended() {
            return Ok(None);
        }
        let step = match self.away_since() {
            Some(_) => self.growth.as_mut().and_then(GrowthPlace::take_step),
            None if now < self.read_at => None,
            None => {
                let ends = self.input_ended()? || self.ending.is_some();
                let request = GrowthRequest { now, wall, ends };
                self.growth.as_mut().and_then(|growth| growth.start(request, self.wake.as_ref()))
            }
        };
        let Some(GrowthStep { reader, made, caught_up }) = step else { return Ok(None) };
        (self.made_at, self.detached) = (reader.made_at, reader.detached);
        if let Some(growth) = &mut self.growth {
            growth.put_back(reader);
        }
        let before = self.checkpoints.log.count();
        for made in made {
            self.publish(made, on_event)?;
        }
        self.read_at = if caught_up? { now + READ_EVERY.min(self.every) } else { now };
        Ok((self.checkpoints.log.count() > before).then(|| self.pointer(before)).flatten())
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
    /// Returns true once that is over, or the file could not be read for long.
    pub fn may_end(&mut self, now: Duration, peers: usize) -> bool {
        let (since, asked) = *self.ending.get_or_insert((now, now));
        if !self.ended() {
            self.read_at = now;
            // A disk that hangs does not keep the share from ending.
            return self.away_since().is_some_and(|away| now >= away.max(since) + LINGER);
        }
        peers == 0 || now >= since + LINGER || now >= asked + QUIET
    }
}
