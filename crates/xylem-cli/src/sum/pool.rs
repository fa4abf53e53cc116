//! Distributes items over threads and puts the results back into order.
//!
//! The calling thread works too, and others start only when there is work for them: one small file, the most frequent
//! use, starts no thread. A worker takes a run of items at a time and hashes them in order. If it meets a big file it
//! makes a [`SplitFile`] of it, in which every idle worker helps. The worker that completes the run next in order passes it
//! to the sink, with all later runs that are ready, so that no thread exists only to print.
//!
//! At most [`WINDOW`] items for each thread are in flight, whatever the number of items. A worker has one file open and
//! helps with one more. No worker waits for an item that is not being processed: runs are taken in order, so a worker
//! holds the oldest unfinished one.

use super::engine::{Digest, PathHashing, SumItem, SumSettings, SumSink, WorkerBuffers};
use super::meter::ByteMeter;
use super::region::SplitFile;
use super::sync::{self, AtomicBool, Condvar, Instant, Mutex, MutexGuard, Scope};
use crate::exit::CommandFailure;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Items for each thread that may be taken and not yet passed to the sink.
const WINDOW: u64 = 512;

/// A second thread starts only after the first one has worked for this long, about what a start takes.
const ALONE: Duration = Duration::from_micros(100);

/// Results are passed on after at most this many bytes, so that they show while more is hashed.
const MAX_HELD_BYTES: u64 = 4 << 20;

/// The result of one item.
enum ItemOutcome<T> {
    /// Hashed, failed, or without anything to hash.
    Done(T, Option<io::Result<Digest>>),
    /// To be read by the worker that passes it to the sink.
    InTurn(T),
}

/// The threads, and the state that they share.
pub(super) struct SumPool<'a, T, I, S> {
    engine: &'a SumSettings,
    meter: &'a ByteMeter,
    /// Items that a worker may take at a time.
    ahead: usize,
    started: Instant,
    /// The run is over because of an error of the sink.
    stopped: AtomicBool,
    state: Mutex<PoolState<'a, T, I, S>>,
    /// Signalled when the state changes in a way that a worker may wait for.
    changed: Condvar,
}

struct PoolState<'a, T, I, S> {
    /// `None` while a worker takes items, which may block (a list that a user types).
    items: Option<I>,
    /// There are no more items.
    ended: bool,
    /// Items taken so far.
    taken: u64,
    /// Workers that hold items, and may still lay out a big file.
    busy: usize,
    /// Big files with regions that are not taken yet, oldest first.
    cuts: Vec<Arc<SplitFile<T>>>,
    /// Threads beside the calling one.
    helpers: usize,
    /// Workers that wait for a change.
    waiting: usize,
    /// The number of the item that the sink gets next.
    next: u64,
    /// Runs of outcomes by the number of their first item.
    ready: BTreeMap<u64, Vec<ItemOutcome<T>>>,
    /// `None` while a worker passes outcomes to it, and for good once it has failed.
    sink: Option<&'a mut S>,
    failure: Option<CommandFailure>,
}

impl<'a, T, I, S> SumPool<'a, T, I, S>
where
    T: SumItem,
    I: Iterator<Item = T> + Send,
    S: SumSink<T>,
{
    pub(super) fn new(
        engine: &'a SumSettings,
        meter: &'a ByteMeter,
        items: I,
        ahead: usize,
        sink: &'a mut S,
    ) -> Self {
        let state = PoolState {
            items: Some(items),
            ended: false,
            taken: 0,
            busy: 0,
            cuts: Vec::new(),
            helpers: 0,
            waiting: 0,
            next: 0,
            ready: BTreeMap::new(),
            sink: Some(sink),
            failure: None,
        };
        Self {
            engine,
            meter,
            ahead,
            started: Instant::now(),
            stopped: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Processes all items.
    pub(super) fn run(self) -> Result<(), CommandFailure> {
        sync::scope(|scope| self.work(scope));
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failure.map_or(Ok(()), Err)
    }

    /// A worker that panicked has ended the process already, so a poisoned lock holds good data.
    fn lock(&self) -> MutexGuard<'_, PoolState<'a, T, I, S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Wakes waiting workers. The count avoids a system call if none waits.
    fn wake(&self, state: &PoolState<'a, T, I, S>) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Whether no more items may be taken until the sink has received some.
    fn is_full(&self, state: &PoolState<'a, T, I, S>) -> bool {
        let flying = state.taken - state.next;
        flying > 0 && flying >= WINDOW.saturating_mul(self.engine.threads.get() as u64)
    }

    /// The loop of each thread, until all is done.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut desk = self.engine.worker_buffers();
        let mut state = self.lock();
        while !self.is_stopped() {
            if let Some(cut) = state.cuts.first().map(Arc::clone) {
                drop(state);
                self.work_at(&cut, &mut desk);
                state = self.lock();
                continue;
            }
            if !state.ended
                && !self.is_full(&state)
                && let Some(items) = state.items.take()
            {
                drop(state);
                state = self.take_run(items, scope, &mut desk);
                continue;
            }
            if state.ended && state.busy == 0 {
                break;
            }
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        self.wake(&state);
    }

    /// Takes some items and hashes them.
    fn take_run<'scope>(
        &'scope self,
        mut items: I,
        scope: &'scope Scope<'scope, '_>,
        desk: &mut WorkerBuffers,
    ) -> MutexGuard<'scope, PoolState<'a, T, I, S>> {
        let wanted = self.run_len(&items);
        let run: Vec<T> = items.by_ref().take(wanted).collect();
        let ended = run.len() < wanted || items.size_hint() == (0, Some(0));
        let mut state = self.lock();
        state.items = Some(items);
        state.ended = ended;
        let first = state.taken;
        state.taken += run.len() as u64;
        state.busy += 1;
        if ended {
            self.wake(&state);
            drop(state);
        } else if self.started.elapsed() > ALONE {
            self.call_help(state, 1, scope);
        } else {
            drop(state);
        }
        self.hash_run(first, run, scope, desk);
        let mut state = self.lock();
        state.busy -= 1;
        if state.ended && state.busy == 0 {
            self.wake(&state);
        }
        state
    }

    /// How many items to take: fewer towards the end, so that every thread gets some.
    fn run_len(&self, items: &I) -> usize {
        match items.size_hint() {
            (0 | 1, Some(_)) => 1,
            (left, Some(_)) => self.ahead.min(left / (2 * self.engine.threads.get()) + 1),
            _ => self.ahead,
        }
    }

    /// Wakes waiting workers, and starts new ones if fewer than `wanted` wait.
    fn call_help<'scope>(
        &'scope self,
        mut state: MutexGuard<'_, PoolState<'a, T, I, S>>,
        wanted: usize,
        scope: &'scope Scope<'scope, '_>,
    ) {
        let helpers = state.helpers;
        let left = (self.engine.threads.get() - 1).saturating_sub(state.helpers);
        for _ in 0..wanted.saturating_sub(state.waiting).min(left) {
            // If the system cannot start another thread, the existing ones do the work.
            if !sync::start(scope, || self.work(scope)) {
                break;
            }
            state.helpers += 1;
        }
        self.wake(&state);
        let started = state.helpers > helpers;
        drop(state);
        if started {
            sync::yield_to_new_thread();
        }
    }

    fn hash_run<'scope>(
        &'scope self,
        mut first: u64,
        run: Vec<T>,
        scope: &'scope Scope<'scope, '_>,
        desk: &mut WorkerBuffers,
    ) {
        let mut done = Vec::with_capacity(run.len());
        let mut hashed = 0;
        for item in run {
            if self.is_stopped() {
                return;
            }
            let Some(path) = item.path() else {
                done.push(ItemOutcome::Done(item, None));
                continue;
            };
            match self.engine.hash_path(path, desk, self.meter) {
                PathHashing::Done { digest, size } => {
                    hashed += size;
                    done.push(ItemOutcome::Done(item, Some(digest)));
                }
                PathHashing::InTurn => done.push(ItemOutcome::InTurn(item)),
                PathHashing::Big { file, size } => {
                    let number = first + done.len() as u64;
                    self.pass_on(first, std::mem::take(&mut done));
                    first = number + 1;
                    let threads = self.engine.threads.get();
                    self.split_file(
                        SplitFile::new(number, item, file, 0..size, threads),
                        scope,
                        desk,
                    );
                }
            }
            if hashed >= MAX_HELD_BYTES {
                let number = first + done.len() as u64;
                self.pass_on(first, std::mem::take(&mut done));
                (first, hashed) = (number, 0);
            }
        }
        self.pass_on(first, done);
    }

    /// Splits a big file for all workers, and works at it.
    fn split_file<'scope>(
        &'scope self,
        cut: SplitFile<T>,
        scope: &'scope Scope<'scope, '_>,
        desk: &mut WorkerBuffers,
    ) {
        let cut = Arc::new(cut);
        let mut state = self.lock();
        state.cuts.push(Arc::clone(&cut));
        self.call_help(state, cut.worth_helpers(), scope);
        self.work_at(&cut, desk);
    }

    /// Hashes regions of a big file until all are taken.
    fn work_at(&self, cut: &Arc<SplitFile<T>>, desk: &mut WorkerBuffers) {
        let tree = self.engine.tree.as_ref();
        while !self.is_stopped() {
            let Some(regions) = cut.take() else { break };
            let nodes = cut.hash(regions.clone(), tree, desk, self.meter);
            if let Some((item, part)) = cut.finish(regions, nodes, tree) {
                let output = part.and_then(|part| part.output(tree).map_err(io::Error::other));
                let digest = output.map(|output| self.engine.digest(output));
                self.pass_on(cut.number, vec![ItemOutcome::Done(item, Some(digest))]);
            }
        }
        self.lock().cuts.retain(|other| !Arc::ptr_eq(other, cut));
    }

    /// Stores a run of outcomes, and passes all that is now in order to the sink, unless another worker is doing so.
    fn pass_on(&self, first: u64, run: Vec<ItemOutcome<T>>) {
        if run.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.ready.insert(first, run);
        if !state.ready.contains_key(&state.next) {
            return;
        }
        let Some(sink) = state.sink.take() else { return };
        loop {
            let next = state.next;
            let run = state.ready.remove(&next).unwrap_or_default();
            drop(state);
            let count = run.len() as u64;
            // Show finished results before a worker waits for more.
            let given = if run.is_empty() { sink.idle() } else { self.give(run, sink) };
            state = self.lock();
            state.next += count;
            if let Err(failure) = given {
                state.failure = Some(failure);
                self.stopped.store(true, Ordering::Relaxed);
                self.wake(&state);
                // The sink stays taken: workers that have not seen the failure would otherwise continue after the gap.
                return;
            }
            self.wake(&state);
            // Other workers may have stored the next run in the meantime.
            if count == 0 && !state.ready.contains_key(&state.next) {
                break;
            }
        }
        state.sink = Some(sink);
    }

    fn give(&self, run: Vec<ItemOutcome<T>>, sink: &mut S) -> Result<(), CommandFailure> {
        for outcome in run {
            match outcome {
                ItemOutcome::Done(item, found) => sink.result(item, found)?,
                ItemOutcome::InTurn(item) => {
                    // It may take as long as a user types.
                    sink.idle()?;
                    let found = item.path().map(|p| self.engine.hash_in_turn(p, self.meter));
                    sink.result(item, found)?;
                }
            }
        }
        Ok(())
    }
}
