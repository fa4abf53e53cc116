//! [`GrowthReader`]: the part of a growing file's publisher that waits for disks. It reads what was appended, hashes it,
//! and writes the outboard and the records of checkpoints. [`GrowthPlace`] runs it on a thread of its own, so that the
//! serving loop never waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xylem_base::{Stop, UnixTime, Wake};
use xylem_files::LibraryEvent;
use xylem_files::checkpoint_log::{CheckpointLog, CheckpointRecord};
use xylem_store::{FileRef, Medium, OutboardWriter, StoreError};
use xylem_tree::{Checkpoint, GrowingTree};

use super::error::{GrowError, Rewritten};
use super::grow::{FollowOptions, QUIET};

/// Bytes read at once.
const READ: usize = 1 << 20;
/// Bytes that one step hashes.
const STEP_BYTES: u64 = 4 << 20;

/// Reads and hashes a growing file; see the module's documentation.
pub(super) struct GrowthReader {
    pub(super) options: FollowOptions,
    pub(super) medium: Arc<dyn Medium>,
    pub(super) path: PathBuf,
    pub(super) file: FileRef,
    pub(super) writer: OutboardWriter,
    pub(super) tree: GrowingTree,
    pub(super) log: CheckpointLog,
    /// When the newest checkpoint was made.
    pub(super) made_at: Duration,
    /// Set while the name leads to another file or to none: how that was noticed, and when bytes were last read. Bytes
    /// still written to the old file are published as its end.
    pub(super) detached: Option<(Rewritten, Duration)>,
    pub(super) buffer: Vec<u8>,
}

/// A checkpoint that was recorded and is to be signed.
pub(super) struct RecordedCheckpoint {
    pub(super) number: u64,
    pub(super) record: CheckpointRecord,
    pub(super) checkpoint: Checkpoint,
}

/// When a step is made.
#[derive(Clone, Copy)]
pub(super) struct GrowthRequest {
    pub(super) now: Duration,
    pub(super) wall: UnixTime,
    /// Nothing more will be appended: make the last checkpoint once all is read.
    pub(super) ends: bool,
}

/// Result of a step.
pub(super) struct GrowthStep {
    pub(super) reader: Box<GrowthReader>,
    /// Checkpoints recorded, also before an error.
    pub(super) made: Vec<RecordedCheckpoint>,
    /// Whether all was read.
    pub(super) caught_up: Result<bool, GrowError>,
}

impl GrowthReader {
    pub(super) fn hash_up_to(
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

    pub(super) fn size(&self) -> Result<u64, GrowError> {
        Ok(self.file.metadata()?.size)
    }

    pub(super) fn rewritten(&self, how: Rewritten) -> GrowError {
        GrowError::Rewritten { path: self.path.clone(), how }
    }

    /// Reads and hashes at most `most` new bytes, none past `end`; returns how many. It also reads the hashed bytes of
    /// the last segment, which must be unchanged.
    fn hash_new(&mut self, most: u64, end: u64) -> Result<u64, GrowError> {
        let (start, tail) = self.tree.tail();
        let known = tail.len();
        let new = most.min(end.saturating_sub(self.tree.size())).min(READ as u64) as usize;
        self.buffer.resize(known + new, 0);
        let got = self.file.read_full(&mut self.buffer, start)?;
        if got < known || self.buffer[..known] != *tail {
            return Err(self.rewritten(Rewritten::End));
        }
        let writer = &mut self.writer;
        let pushed =
            self.tree.push(&self.buffer[known..got], |slot, value| writer.write(slot, &value.0));
        pushed?;
        Ok((got - known) as u64)
    }

    /// Records a checkpoint of what was hashed.
    pub(super) fn make(
        &mut self,
        now: Duration,
        wall: UnixTime,
    ) -> Result<RecordedCheckpoint, StoreError> {
        self.record(now, wall, false)
    }

    /// Records the last checkpoint.
    fn make_last(
        &mut self,
        now: Duration,
        wall: UnixTime,
    ) -> Result<RecordedCheckpoint, StoreError> {
        self.record(now, wall, true)
    }

    fn record(
        &mut self,
        now: Duration,
        wall: UnixTime,
        last: bool,
    ) -> Result<RecordedCheckpoint, StoreError> {
        self.writer.flush()?;
        let checkpoint = self.tree.checkpoint();
        let meta = self.file.metadata()?;
        let before = self.log.newest().map_or(0, |newest| newest.version.saturating_add(1));
        let record = CheckpointRecord {
            version: wall.microseconds().max(before),
            size: checkpoint.geometry().size(),
            root: checkpoint.root(),
            mode: (meta.mode & 0o777) as u16,
            last,
        };
        self.log.append(record)?;
        self.made_at = now;
        Ok(RecordedCheckpoint { number: self.log.count() - 1, record, checkpoint })
    }

    /// Reads new bytes and records the checkpoints that are due.
    pub(super) fn step(mut self: Box<Self>, request: GrowthRequest) -> GrowthStep {
        let mut made = Vec::new();
        let caught_up = self.step_into(request, &mut made);
        GrowthStep { reader: self, made, caught_up }
    }

    fn step_into(
        &mut self,
        request: GrowthRequest,
        made: &mut Vec<RecordedCheckpoint>,
    ) -> Result<bool, GrowError> {
        let GrowthRequest { now, wall, ends } = request;
        let caught_up = self.read_new(now, wall, made)?;
        let left = self.detached.is_some_and(|(_, since)| now >= since + QUIET);
        if caught_up && (ends || left) {
            made.push(self.make_last(now, wall)?);
            // Getters have the same time again to fetch the last checkpoint.
            self.detached = self.detached.map(|(how, _)| (how, now));
        }
        Ok(caught_up)
    }

    /// Hashes new bytes and makes checkpoints as they are due. Returns whether all was read.
    fn read_new(
        &mut self,
        now: Duration,
        wall: UnixTime,
        made: &mut Vec<RecordedCheckpoint>,
    ) -> Result<bool, GrowError> {
        let end = self.size()?;
        if end < self.tree.size() {
            return Err(self.rewritten(Rewritten::Shrunk));
        }
        self.notice_detached(now, end)?;
        let mut left = STEP_BYTES;
        loop {
            let published = self.log.newest().map_or(0, |newest| newest.size);
            let room = (published.saturating_add(self.options.every_bytes))
                .saturating_sub(self.tree.size());
            if room == 0 {
                made.push(self.make(now, wall)?);
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
        let published = self.log.newest().map_or(0, |newest| newest.size);
        if self.tree.size() > published && now >= self.made_at + self.options.every {
            made.push(self.make(now, wall)?);
        }
        Ok(true)
    }

    /// Notices that the name leads elsewhere, as when a log is rotated, and whether the old file still grows.
    fn notice_detached(&mut self, now: Duration, end: u64) -> Result<(), GrowError> {
        let ino = self.file.metadata()?.ino;
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
}

/// A thread that makes steps, and where their results arrive.
struct GrowthThread {
    jobs: Sender<(Box<GrowthReader>, GrowthRequest)>,
    steps: Receiver<GrowthStep>,
    handle: JoinHandle<()>,
}

/// Where the [`GrowthReader`] is: here, or on its thread for one step. Dropping it ends the thread after that step.
pub(super) struct GrowthPlace {
    here: Option<Box<GrowthReader>>,
    /// When the step on the thread began.
    away_since: Option<Duration>,
    thread: Option<GrowthThread>,
}

impl GrowthPlace {
    pub(super) fn new(reader: GrowthReader) -> Self {
        Self { here: Some(Box::new(reader)), away_since: None, thread: None }
    }

    /// Returns since when a step has been running; `None` if none is.
    pub(super) fn away_since(&self) -> Option<Duration> {
        self.away_since
    }

    /// Makes a step. With `wake` it is made on the thread, which then wakes the loop; the result comes later, from
    /// [`GrowthPlace::take_step`].
    pub(super) fn start(
        &mut self,
        request: GrowthRequest,
        wake: Option<&Wake>,
    ) -> Option<GrowthStep> {
        let reader = self.here.take()?;
        let sent = match wake.and_then(|wake| self.thread(wake)) {
            Some(thread) => thread.jobs.send((reader, request)),
            // Without a thread the loop waits itself.
            None => return Some(reader.step(request)),
        };
        match sent {
            Ok(()) => {
                self.away_since = Some(request.now);
                None
            }
            Err(mpsc::SendError((reader, request))) => Some(reader.step(request)),
        }
    }

    fn thread(&mut self, wake: &Wake) -> Option<&GrowthThread> {
        if self.thread.is_none() {
            let (jobs, todo) = mpsc::channel::<(Box<GrowthReader>, GrowthRequest)>();
            let (done, steps) = mpsc::channel();
            let wake = wake.clone();
            let work = move || {
                for (reader, request) in todo {
                    // It fails after the share has ended.
                    if done.send(reader.step(request)).is_err() {
                        break;
                    }
                    wake();
                }
            };
            let started = thread::Builder::new().name("xylem-grow".into()).spawn(work);
            self.thread = started.ok().map(|handle| GrowthThread { jobs, steps, handle });
        }
        self.thread.as_ref()
    }

    /// Returns the result of the step on the thread, if it has ended.
    pub(super) fn take_step(&mut self) -> Option<GrowthStep> {
        self.away_since?;
        match self.thread.as_ref()?.steps.try_recv() {
            Ok(step) => {
                self.away_since = None;
                Some(step)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                let thread = self.thread.take()?;
                thread.handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                None
            }
        }
    }

    /// Puts the reader back after a step.
    pub(super) fn put_back(&mut self, reader: Box<GrowthReader>) {
        self.here = Some(reader);
    }
}
