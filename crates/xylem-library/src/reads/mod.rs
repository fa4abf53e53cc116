//! [`Reads`]: reads served content on threads, so that the serving loop never blocks.
//!
//! The loop reads through [`Reads::medium`]. Content that is at hand (cached by the system, or read by a thread before)
//! is returned at once. For other content the read returns `WouldBlock`, and `Reads::wait` keeps the Interest that
//! needs it. Threads read it, with a fair turn for each asker (`queue`). `Reads::ready` then returns the Interests;
//! their content is now at hand. A hanging store blocks these threads and nothing else.
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
use view::{OpenFile, View};
use xylem_store::Medium;

/// Most threads that read for one publication.
const THREADS: usize = 8;
/// Most bytes held of what was read.
const MOST_HELD: usize = 64 << 20;
/// Most bytes read before earlier reads are handed out.
const MOST_FRESH: u64 = 32 << 20;
/// Most Interests handed out at once, so that their answers are sent in between.
const READY_AT_ONCE: usize = 16;
/// How long read content is held, if a change of the file would go unnoticed.
const HELD_FOR: Duration = Duration::from_secs(2);
/// Most files held open, if opening is slow too.
const OPEN_FILES: usize = 64;

/// Wakes the serving loop when something is ready. Called on other threads.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Reads of one publication; see the module's documentation. Dropping it ends its threads, each after its current read.
pub struct Reads {
    shared: Arc<ReadsShared>,
    is_slow: bool,
}

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
    /// Open files, if opening is slow; least recently used first.
    open: VecDeque<(PathBuf, Arc<OpenFile>)>,
    files: u64,
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
        Self { shared: Arc::new(ReadsShared { below, is_slow, is_far, state, work }), is_slow }
    }

    /// Returns the medium through which the loop reads.
    pub fn medium(&self) -> Arc<dyn Medium> {
        Arc::new(View::new(self.shared.clone()))
    }

    /// Returns whether all content is read by threads.
    pub fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Sets the function to call when Interests are ready.
    pub fn wake_by(&self, wake: Wake) {
        self.shared.state().wake = Some(wake);
    }

    /// Sets the asker of the following reads.
    pub(crate) fn begin(&self, now: Duration, asker: u64) {
        // On a fast medium nothing is counted for each asker.
        if self.is_slow {
            let mut state = self.shared.state();
            (state.now, state.asker) = (now, asker);
        }
    }

    /// Keeps an Interest for which a read returned `WouldBlock`, until its content is read or its lifetime ends.
    /// Returns false if no read did, or too many Interests wait.
    pub(crate) fn wait(
        &self,
        now: Duration,
        asker: u64,
        packet: &[u8],
        lifetime: Duration,
    ) -> bool {
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
    pub(crate) fn ready(&self, now: Duration) -> Vec<(u64, Vec<u8>)> {
        let mut state = self.shared.state();
        state.now = now;
        state.fresh = 0;
        if !self.shared.is_far {
            state.keep(|held| held.since.saturating_add(HELD_FOR) >= now);
        }
        let count = state.ready.len().min(READY_AT_ONCE);
        let ready = state.ready.drain(..count).filter(|(_, question)| question.until > now);
        let ready = ready.map(|(asker, question)| (asker, question.packet)).collect();
        drop(state);
        self.shared.work.notify_all();
        ready
    }

    /// Returns whether there are more.
    pub(crate) fn has_ready(&self) -> bool {
        !self.shared.state().ready.is_empty()
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        // Breaks a cycle: files hold this state, which holds them.
        state.is_over = true;
        let (queue, open) = (std::mem::take(&mut state.queue), std::mem::take(&mut state.open));
        let wanted = state.wanted.take();
        state.held.clear();
        state.ready.clear();
        drop(state);
        drop((queue, open, wanted));
        self.shared.work.notify_all();
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
        let is_good = |held: &HeldBytes| keep || held.since.saturating_add(HELD_FOR) >= now;
        let mut good = state.held.iter().rev().filter(|held| is_good(held));
        let found = good.find_map(|held| held.at(number, offset));
        if let Some(bytes) = found {
            let len = bytes.len().min(buf.len());
            buf[..len].copy_from_slice(&bytes[..len]);
            let asker = state.asker;
            state.queue.record_taken(asker, number, offset, len as u64);
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
            drop(state);
            let bytes = read.file.read_there(&*self.below, read.start, read.len);
            state = self.state();
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
        self.wanted = Some(WantedBytes { file: file.clone(), number, offset, len });
    }

    fn keep(&mut self, good: impl Fn(&HeldBytes) -> bool) {
        self.held.retain(good);
        self.held_bytes = self.held.iter().map(|held| held.bytes.len()).sum();
    }

    /// Records the outcome of a read; returns the function that wakes the loop.
    fn settle(&mut self, read: FarRead<Arc<OpenFile>>, bytes: io::Result<Vec<u8>>) -> Option<Wake> {
        let FarRead { asker, file, start, len, questions } = read;
        self.reading -= len;
        if self.is_over {
            return None;
        }
        let got = bytes.as_ref().map_or(0, Vec::len);
        self.queue.ended(asker, len, got as u64);
        match bytes {
            Ok(bytes) if !bytes.is_empty() => {
                self.fresh += got as u64;
                self.held_bytes += got;
                let (file, since) = (file.number(), self.now);
                self.held.push_back(HeldBytes { file, start, bytes, since });
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
