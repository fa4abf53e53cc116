//! [`Reads`]: reads served content and its trees on threads, so that the serving loop never blocks.
//!
//! The loop reads content through [`Reads::medium`], and open files of the store (outboards, listings) through
//! `Reads::file`. What is at hand (cached by the system, or read by a thread before) is returned at once, and a file is
//! opened at once if the system has its path in memory. Otherwise the read returns `WouldBlock`, and `Reads::wait` keeps
//! the Interest that needs it. Threads read it, with a fair turn for each asker (`queue`). `Reads::ready` then returns the Interests;
//! their content is now at hand. A hanging disk or bucket blocks these threads and nothing else.
//!
//! Nothing is verified here: the serving side or the getter verifies it against the tree.

mod queue;
mod view;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use queue::{FarRead, MOST_AT_ONCE, ReadQueue, WaitingInterest, WantedBytes};
pub use view::{GrowingRead, ReadKind};
use view::{OpenFile, View, are_all_written};
use xylem_base::Wake;
use xylem_store::{FileRef, Medium, OutboardFile};

/// Most threads that read for one publication.
const THREADS: usize = 8;
/// Most bytes held of what was read.
const MOST_HELD: usize = 64 << 20;
/// Most bytes read before earlier reads are handed out.
const MOST_FRESH: u64 = 32 << 20;
/// Most Interests handed out at once, so that their answers are sent in between.
const READY_AT_ONCE: usize = 16;
/// How long read content is held, if a change of the file would go unnoticed. Files of the store do not change.
const HELD_FOR: Duration = Duration::from_secs(2);
/// Most files held open here, if opening is slow too.
const OPEN_FILES: usize = 64;

/// Reads of one publication; see the module's documentation. Cheap to clone. Dropping the last clone ends its threads,
/// each after its current read.
#[derive(Clone)]
pub struct Reads {
    shared: Arc<ReadsShared>,
    _ends: Arc<EndOfReads>,
}

/// Ends the threads when it is dropped.
struct EndOfReads(Arc<ReadsShared>);

struct ReadsShared {
    below: Arc<dyn Medium>,
    /// The loop itself opens and reads nothing.
    is_slow: bool,
    /// Content comes from another machine, in a fixed version, and each byte has a price. Reading ahead is limited to
    /// sequential readers, and all that was read is kept.
    is_far: bool,
    state: Mutex<ReadsState>,
    work: Condvar,
}

#[derive(Default)]
struct ReadsState {
    now: Duration,
    /// The asker of the current read.
    asker: u64,
    /// The need of the last read that returned `WouldBlock`; zero bytes: that the file is opened.
    wanted: Option<WantedBytes<Arc<OpenFile>>>,
    queue: ReadQueue<Arc<OpenFile>>,
    held: VecDeque<HeldBytes>,
    held_bytes: usize,
    /// Bytes read since Interests were last handed out, and bytes being read.
    fresh: u64,
    reading: u64,
    ready: VecDeque<(u64, WaitingInterest)>,
    /// Files that threads open; least recently used first. On a fast medium a file stays here until it is open, and then
    /// the loop has it.
    open: VecDeque<(PathBuf, Arc<OpenFile>)>,
    files: u64,
    /// How many times a file grew.
    growths: u64,
    threads: usize,
    idle: usize,
    is_over: bool,
    wake: Option<Wake>,
}

/// Bytes that were read.
struct HeldBytes {
    file: u64,
    start: u64,
    bytes: Vec<u8>,
    since: Duration,
    /// The file does not change.
    lasts: bool,
}

impl HeldBytes {
    fn at(&self, file: u64, offset: u64) -> Option<&[u8]> {
        let from = offset.checked_sub(self.start).filter(|_| self.file == file)?;
        self.bytes.get(usize::try_from(from).ok()?..).filter(|bytes| !bytes.is_empty())
    }

    /// Removes these bytes of a file; returns the parts before and after them.
    fn without(mut self, file: u64, bytes: &Range<u64>) -> impl Iterator<Item = Self> {
        let before = bytes.start.saturating_sub(self.start).min(self.bytes.len() as u64);
        let until = bytes.end.saturating_sub(self.start).min(self.bytes.len() as u64);
        let after = (self.file == file && before < until).then(|| {
            let after = self.bytes.split_off(until as usize);
            self.bytes.truncate(before as usize);
            Self { start: self.start + until, bytes: after, ..self }
        });
        [Some(self), after].into_iter().flatten().filter(|held| !held.bytes.is_empty())
    }
}

impl Reads {
    /// Prepares reads of what lies at `path` or below.
    pub fn over(below: Arc<dyn Medium>, path: &Path) -> Self {
        let (is_slow, is_far) = (below.is_slow(path), below.is_remote(path));
        let (state, work) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(ReadsShared { below, is_slow, is_far, state, work });
        let _ends = Arc::new(EndOfReads(shared.clone()));
        Self { shared, _ends }
    }

    /// Returns the medium through which the loop reads.
    pub fn medium(&self) -> Arc<dyn Medium> {
        Arc::new(View::new(self.shared.clone()))
    }

    /// Returns an open file of the store as the loop reads it. The file must not change any more.
    pub fn file(&self, file: &FileRef) -> FileRef {
        self.growing(file, ReadKind::Fixed).file
    }

    /// Returns an open file to which more is written while the loop reads it.
    pub fn growing(&self, file: &FileRef, kind: ReadKind) -> GrowingRead {
        let mut state = self.shared.state();
        state.files += 1;
        let number = state.files;
        drop(state);
        GrowingRead::new(OpenFile::opened(&self.shared, number, file, kind))
    }

    /// Returns an open file of outboards as the loop reads it. They must be complete.
    pub fn outboards(&self, outboards: &OutboardFile) -> OutboardFile {
        OutboardFile::new(self.file(outboards.file()))
    }

    /// Returns whether all content is read by threads.
    pub fn is_slow(&self) -> bool {
        self.shared.is_slow
    }

    /// Sets the function to call when Interests are ready.
    pub fn wake_by(&self, wake: Wake) {
        self.shared.state().wake = Some(wake);
    }

    /// Sets the asker of the following reads.
    pub fn begin(&self, now: Duration, asker: u64) {
        let mut state = self.shared.state();
        (state.now, state.asker, state.wanted) = (now, asker, None);
    }

    /// Returns whether a read returned `WouldBlock` since [`Reads::begin`].
    pub fn is_wanting(&self) -> bool {
        self.shared.state().wanted.is_some()
    }

    /// Keeps an Interest for which a read returned `WouldBlock`, until its content is read or its lifetime ends.
    /// Returns false if no read did, or too many Interests wait.
    pub fn wait(&self, now: Duration, asker: u64, packet: &[u8], lifetime: Duration) -> bool {
        let shared = &self.shared;
        let mut state = shared.state();
        state.now = now;
        let Some(wanted) = state.wanted.take() else { return false };
        let question =
            WaitingInterest { packet: packet.to_vec(), until: now.saturating_add(lifetime) };
        if !state.queue.ask(asker, wanted, question) {
            return false;
        }
        if state.idle > 0 {
            shared.work.notify_one();
        } else if state.threads < THREADS {
            let own = shared.clone();
            let started =
                thread::Builder::new().name("xylem-read".into()).spawn(move || own.work());
            state.threads += usize::from(started.is_ok());
        }
        state.threads > 0
    }

    /// Returns Interests that can be answered now, each with its asker; expired ones are dropped. Returns a limited
    /// number: see [`Reads::has_ready`].
    pub fn ready(&self, now: Duration) -> Vec<(u64, Vec<u8>)> {
        let mut state = self.shared.state();
        state.now = now;
        state.fresh = 0;
        if !self.shared.is_far {
            state.keep(|held| held.lasts || held.since.saturating_add(HELD_FOR) >= now);
        }
        let count = state.ready.len().min(READY_AT_ONCE);
        let ready = state.ready.drain(..count).filter(|(_, question)| question.until > now);
        let ready = ready.map(|(asker, question)| (asker, question.packet)).collect();
        drop(state);
        self.shared.work.notify_all();
        ready
    }

    /// Returns whether there are more.
    pub fn has_ready(&self) -> bool {
        !self.shared.state().ready.is_empty()
    }
}

impl Drop for EndOfReads {
    fn drop(&mut self) {
        let mut state = self.0.state();
        // Breaks a cycle: files hold this state, which holds them.
        state.is_over = true;
        let (queue, open) = (std::mem::take(&mut state.queue), std::mem::take(&mut state.open));
        let wanted = state.wanted.take();
        state.held.clear();
        state.ready.clear();
        drop(state);
        drop((queue, open, wanted));
        self.0.work.notify_all();
    }
}

impl ReadsShared {
    fn state(&self) -> MutexGuard<'_, ReadsState> {
        // A poisoned lock is safe to use: nothing panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies bytes that are at hand; `None` if they are not, and they are wanted from now on.
    fn at_hand(&self, file: &Arc<OpenFile>, buf: &mut [u8], offset: u64) -> Option<usize> {
        let mut state = self.state();
        let number = file.number();
        let (now, keep) = (state.now, self.is_far);
        let is_good =
            |held: &HeldBytes| keep || held.lasts || held.since.saturating_add(HELD_FOR) >= now;
        let mut good = state.held.iter().rev().filter(|held| is_good(held));
        let found = good.find_map(|held| held.at(number, offset));
        if let Some(bytes) = found {
            let len = bytes.len().min(buf.len());
            buf[..len].copy_from_slice(&bytes[..len]);
            let asker = state.asker;
            if file.is_priced() {
                state.queue.record_taken(asker, number, offset, len as u64);
            }
            return Some(len);
        }
        state.want(file, offset, buf.len() as u64);
        None
    }

    /// Discards these wrong bytes. Bytes read along with them stay: reading them again would count against their asker.
    fn forget(&self, file: u64, wrong: &Range<u64>) {
        let mut state = self.state();
        let held = std::mem::take(&mut state.held);
        state.held = held.into_iter().flat_map(|held| held.without(file, wrong)).collect();
        state.keep(|_| true);
    }

    /// Runs one thread.
    fn work(&self) {
        let mut state = self.state();
        while !state.is_over {
            let (now, may) = (state.now, state.fresh + state.reading < MOST_FRESH);
            let read = may.then(|| state.queue.next(now, self.is_far)).flatten();
            let Some(read) = read else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            state.reading += read.len;
            let growths = state.growths;
            drop(state);
            let bytes = read.file.read_there(&*self.below, read.start, read.len);
            state = self.state();
            if !self.is_slow && read.questions.is_empty() {
                // No Interest is left that would take over the open file.
                state.open.retain(|(_, open)| open.number() != read.file.number());
            }
            if growths != state.growths {
                read.file.forget_end();
            }
            let nodes = read.file.kind() == ReadKind::GrowingNodes && growths != state.growths;
            // Nodes that were not written yet may be by now.
            let bytes = bytes.map(|bytes| match nodes && !are_all_written(&bytes) {
                true => Vec::new(),
                false => bytes,
            });
            let wake = state.settle(read, bytes);
            drop(state);
            wake.iter().for_each(|wake| wake());
            state = self.state();
        }
    }
}

impl ReadsState {
    fn want(&mut self, file: &Arc<OpenFile>, offset: u64, len: u64) {
        let (number, len) = (file.number(), len.min(MOST_AT_ONCE));
        let is_priced = file.is_priced();
        self.wanted = Some(WantedBytes { file: file.clone(), number, offset, len, is_priced });
    }

    fn keep(&mut self, good: impl Fn(&HeldBytes) -> bool) {
        self.held.retain(good);
        self.held_bytes = self.held.iter().map(|held| held.bytes.len()).sum();
    }

    /// Records the outcome of a read; returns the function that wakes the loop.
    fn settle(&mut self, read: FarRead<Arc<OpenFile>>, bytes: io::Result<Vec<u8>>) -> Option<Wake> {
        let FarRead { asker, file, start, len, is_priced, questions } = read;
        self.reading -= len;
        if self.is_over {
            return None;
        }
        let got = bytes.as_ref().map_or(0, Vec::len);
        self.queue.ended(asker, if is_priced { len.saturating_sub(got as u64) } else { 0 });
        match bytes {
            Ok(bytes) if !bytes.is_empty() => {
                self.fresh += got as u64;
                self.held_bytes += got;
                let lasts = file.kind() != ReadKind::Content;
                let (file, since) = (file.number(), self.now);
                self.held.push_back(HeldBytes { file, start, bytes, since, lasts });
                while self.held_bytes > MOST_HELD
                    && let Some(oldest) = self.held.pop_front()
                {
                    self.held_bytes -= oldest.bytes.len();
                }
            }
            // The loop gets the error when it reads the file again.
            _ => {}
        }
        self.ready.extend(questions.into_iter().map(|question| (asker, question)));
        self.wake.clone()
    }
}

#[cfg(test)]
mod tests;
