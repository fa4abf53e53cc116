//! Shares items out among threads and puts the results back into order.
//!
//! The calling thread works too, and others are started only when there is something for them to
//! do: one small file, the commonest use, costs no thread. A worker takes a run of items at a time
//! and hashes one after the other; when it meets a big file it lays it out as a [`Cut`] that every
//! idle worker helps with. Whoever completes the run that is next in order hands it to the sink,
//! and all that is ready behind it, so that no thread exists only to print.
//!
//! What is in flight is limited to [`WINDOW`] items for each thread, whatever the number of items;
//! a worker has one file open and helps with one more. Nobody waits for an item that nobody works
//! at: runs are taken in order, so the oldest unfinished one is always in somebody's hands.

use super::engine::{Desk, Digest, Found, Item, Sink, SumSettings};
use super::meter::Meter;
use super::region::Cut;
use super::sync::{self, AtomicBool, Condvar, Instant, Mutex, MutexGuard, Scope};
use crate::exit::Failure;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Items that may be taken, for each thread, and not be handed to the sink.
const WINDOW: u64 = 512;

/// A second thread is not started before the first has worked for as long as that takes.
const ALONE: Duration = Duration::from_micros(100);

/// Results are handed on after at most this many bytes, so that they show while more is hashed.
const HAND_ON: u64 = 4 << 20;

/// One item's end.
enum Outcome<T> {
    /// Hashed, or failed, or there was nothing to hash.
    Done(T, Option<io::Result<Digest>>),
    /// To be read by whoever hands it to the sink.
    InTurn(T),
}

/// The threads and what they share.
pub(super) struct Pool<'a, T, I, S> {
    engine: &'a SumSettings,
    meter: &'a Meter,
    /// Items that a worker may take at a time.
    ahead: usize,
    started: Instant,
    /// The run is over: an error of the sink.
    stopped: AtomicBool,
    state: Mutex<State<'a, T, I, S>>,
    /// Something in the state changed for which a worker may wait.
    changed: Condvar,
}

struct State<'a, T, I, S> {
    /// Away while a worker takes items, which may block (a list that somebody types).
    items: Option<I>,
    /// There are no more items.
    ended: bool,
    /// Items taken so far.
    taken: u64,
    /// Workers that hold items, and may still lay out a big file.
    busy: usize,
    /// Big files with regions that nobody took yet, oldest first.
    cuts: Vec<Arc<Cut<T>>>,
    /// Threads beside the calling one.
    helpers: usize,
    /// Workers that wait for a change.
    waiting: usize,
    /// The number of the item that the sink gets next.
    next: u64,
    /// Runs of outcomes by the number of their first item.
    ready: BTreeMap<u64, Vec<Outcome<T>>>,
    /// Away while a worker hands outcomes to it, and for good once it failed.
    sink: Option<&'a mut S>,
    failure: Option<Failure>,
}

impl<'a, T, I, S> Pool<'a, T, I, S>
where
    T: Item,
    I: Iterator<Item = T> + Send,
    S: Sink<T>,
{
    pub(super) fn new(
        engine: &'a SumSettings,
        meter: &'a Meter,
        items: I,
        ahead: usize,
        sink: &'a mut S,
    ) -> Self {
        let state = State {
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

    /// Works everything off.
    pub(super) fn run(self) -> Result<(), Failure> {
        sync::scope(|scope| self.work(scope));
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failure.map_or(Ok(()), Err)
    }

    /// A worker that panicked has ended the process already, so a poisoned lock holds good data.
    fn lock(&self) -> MutexGuard<'_, State<'a, T, I, S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A wake-up is a system call even when nobody waits, hence the count.
    fn wake(&self, state: &State<'a, T, I, S>) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Whether no more items may be taken until the sink has got some.
    fn is_full(&self, state: &State<'a, T, I, S>) -> bool {
        let flying = state.taken - state.next;
        flying > 0 && flying >= WINDOW.saturating_mul(self.engine.threads.get() as u64)
    }

    /// What each thread does until all is done.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut desk = self.engine.desk();
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
        desk: &mut Desk,
    ) -> MutexGuard<'scope, State<'a, T, I, S>> {
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

    /// How many items to take: fewer towards the end, so that every thread has some.
    fn run_len(&self, items: &I) -> usize {
        match items.size_hint() {
            (0 | 1, Some(_)) => 1,
            (left, Some(_)) => self.ahead.min(left / (2 * self.engine.threads.get()) + 1),
            _ => self.ahead,
        }
    }

    /// Wakes the workers that wait, and starts up to `wanted` if fewer than that do.
    fn call_help<'scope>(
        &'scope self,
        mut state: MutexGuard<'_, State<'a, T, I, S>>,
        wanted: usize,
        scope: &'scope Scope<'scope, '_>,
    ) {
        let helpers = state.helpers;
        let left = (self.engine.threads.get() - 1).saturating_sub(state.helpers);
        for _ in 0..wanted.saturating_sub(state.waiting).min(left) {
            // Where the system has no thread left to give, those that there are do it all.
            if !sync::start(scope, || self.work(scope)) {
                break;
            }
            state.helpers += 1;
        }
        self.wake(&state);
        let started = state.helpers > helpers;
        drop(state);
        if started {
            sync::let_leave();
        }
    }

    fn hash_run<'scope>(
        &'scope self,
        mut first: u64,
        run: Vec<T>,
        scope: &'scope Scope<'scope, '_>,
        desk: &mut Desk,
    ) {
        let mut done = Vec::with_capacity(run.len());
        let mut hashed = 0;
        for item in run {
            if self.is_stopped() {
                return;
            }
            let Some(path) = item.path() else {
                done.push(Outcome::Done(item, None));
                continue;
            };
            match self.engine.hash_path(path, desk, self.meter) {
                Found::Done { digest, size } => {
                    hashed += size;
                    done.push(Outcome::Done(item, Some(digest)));
                }
                Found::InTurn => done.push(Outcome::InTurn(item)),
                Found::Big { file, size } => {
                    let number = first + done.len() as u64;
                    self.hand_on(first, std::mem::take(&mut done));
                    first = number + 1;
                    let threads = self.engine.threads.get();
                    self.cut_up(Cut::new(number, item, file, 0..size, threads), scope, desk);
                }
            }
            if hashed >= HAND_ON {
                let number = first + done.len() as u64;
                self.hand_on(first, std::mem::take(&mut done));
                (first, hashed) = (number, 0);
            }
        }
        self.hand_on(first, done);
    }

    /// Lays out a big file for all workers, and works at it.
    fn cut_up<'scope>(
        &'scope self,
        cut: Cut<T>,
        scope: &'scope Scope<'scope, '_>,
        desk: &mut Desk,
    ) {
        let cut = Arc::new(cut);
        let mut state = self.lock();
        state.cuts.push(Arc::clone(&cut));
        self.call_help(state, cut.worth_helpers(), scope);
        self.work_at(&cut, desk);
    }

    /// Hashes regions of a big file until all are taken.
    fn work_at(&self, cut: &Arc<Cut<T>>, desk: &mut Desk) {
        let tree = self.engine.tree.as_ref();
        while !self.is_stopped() {
            let Some(regions) = cut.take() else { break };
            let nodes = cut.hash(regions.clone(), tree, desk, self.meter);
            if let Some((item, part)) = cut.finish(regions, nodes, tree) {
                let output = part.and_then(|part| part.output(tree).map_err(io::Error::other));
                let digest = output.map(|output| self.engine.digest(output));
                self.hand_on(cut.number, vec![Outcome::Done(item, Some(digest))]);
            }
        }
        self.lock().cuts.retain(|other| !Arc::ptr_eq(other, cut));
    }

    /// Puts a run of outcomes in its place, and hands all that is now in order to the sink unless
    /// another worker is at that already.
    fn hand_on(&self, first: u64, run: Vec<Outcome<T>>) {
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
            // What is done is shown before anybody waits for more.
            let given = if run.is_empty() { sink.idle() } else { self.give(run, sink) };
            state = self.lock();
            state.next += count;
            if let Err(failure) = given {
                state.failure = Some(failure);
                self.stopped.store(true, Ordering::Relaxed);
                self.wake(&state);
                // Nobody gets the sink any more: workers that have not seen it yet would go on
                // behind the gap.
                return;
            }
            self.wake(&state);
            // Others may have put more in its place in the meantime.
            if count == 0 && !state.ready.contains_key(&state.next) {
                break;
            }
        }
        state.sink = Some(sink);
    }

    fn give(&self, run: Vec<Outcome<T>>, sink: &mut S) -> Result<(), Failure> {
        for outcome in run {
            match outcome {
                Outcome::Done(item, found) => sink.result(item, found)?,
                Outcome::InTurn(item) => {
                    // It may take as long as somebody types.
                    sink.idle()?;
                    let found = item.path().map(|p| self.engine.hash_in_turn(p, self.meter));
                    sink.result(item, found)?;
                }
            }
        }
        Ok(())
    }
}
