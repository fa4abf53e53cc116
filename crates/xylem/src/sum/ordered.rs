//! Runs units on threads and puts their outcomes back into order.

use super::engine::{Digest, Engine, Outcome, Sink, UNITS_PER_THREAD, Unit};
use super::region::Joiner;
use crate::exit::Failure;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use xylem_hash::tree::ChainingValue;

/// The consuming end: takes outcomes in order and hands whole results to the sink.
pub(super) struct Ordered<'a, S, T> {
    engine: &'a Engine,
    sink: &'a mut S,
    /// The big file whose regions are coming in: its tag, and its nodes or its first error.
    joining: Option<(T, io::Result<Joiner>)>,
}

impl<'a, T: Send, S: Sink<T>> Ordered<'a, S, T> {
    pub(super) fn new(engine: &'a Engine, sink: &'a mut S) -> Self {
        Self { engine, sink, joining: None }
    }

    /// Nothing is ready.
    pub(super) fn idle(&mut self) -> Result<(), Failure> {
        self.sink.idle()
    }

    /// Takes the next outcome.
    pub(super) fn take(&mut self, outcome: Outcome<T>) -> Result<(), Failure> {
        match outcome {
            Outcome::Nothing(tag) => self.sink.result(tag, None),
            Outcome::Whole(tag, found) => self.sink.result(tag, Some(found)),
            Outcome::InTurn(tag, path) => {
                // It may take as long as somebody types.
                self.sink.idle()?;
                self.sink.result(tag, Some(self.engine.process_in_turn(&path)))
            }
            Outcome::Region { tag, value, last } => self.take_region(tag, value, last),
        }
    }

    fn take_region(
        &mut self,
        tag: Option<T>,
        value: io::Result<ChainingValue>,
        last: bool,
    ) -> Result<(), Failure> {
        if let Some(tag) = tag {
            self.joining = Some((tag, Ok(Joiner::default())));
        }
        let Some((_, joined)) = &mut self.joining else { return Ok(()) };
        match (&mut *joined, value) {
            (Ok(joiner), Ok(node)) => joiner.push(node),
            (Ok(_), Err(error)) => *joined = Err(error),
            (Err(_), _) => {}
        }
        if !last {
            return Ok(());
        }
        let Some((tag, joined)) = self.joining.take() else { return Ok(()) };
        let root = joined.map(|joiner| {
            Digest::Root(joiner.root().expect("only a file of two regions or more is cut up"))
        });
        self.sink.result(tag, Some(root))
    }

    /// Works `units` off on the engine's threads while this one takes the outcomes.
    pub(super) fn run_on_threads(
        &mut self,
        units: impl Iterator<Item = Unit<T>> + Send,
    ) -> Result<(), Failure> {
        let threads = self.engine.threads;
        let shared = Shared {
            units: Mutex::new((0, units)),
            board: Mutex::new(Board {
                ready: BTreeMap::new(),
                free: threads.saturating_mul(UNITS_PER_THREAD),
                workers: threads,
                stopped: false,
            }),
            made: Condvar::new(),
            freed: Condvar::new(),
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| shared.work(self.engine));
            }
            let result = self.take_all(&shared);
            shared.board().stopped = true;
            shared.freed.notify_all();
            result
        })
    }

    fn take_all<I>(&mut self, shared: &Shared<I, T>) -> Result<(), Failure> {
        for number in 0.. {
            let mut board = shared.board();
            while !board.ready.contains_key(&number) {
                if board.workers == 0 {
                    return Ok(());
                }
                drop(board);
                // What is done is shown before waiting for more; then look again, and wait.
                self.idle()?;
                board = shared.board();
                if !board.ready.contains_key(&number) && board.workers > 0 {
                    board = shared.made.wait(board).unwrap_or_else(PoisonError::into_inner);
                }
            }
            let outcome = board.ready.remove(&number);
            board.free += 1;
            drop(board);
            shared.freed.notify_one();
            if let Some(outcome) = outcome {
                self.take(outcome)?;
            }
        }
        Ok(())
    }
}

/// What the workers and the consumer share.
struct Shared<I, T> {
    /// The number of the next unit, and where it comes from.
    units: Mutex<(u64, I)>,
    board: Mutex<Board<T>>,
    /// An outcome was made, or a worker ended.
    made: Condvar,
    /// A place became free, or the run was stopped.
    freed: Condvar,
}

struct Board<T> {
    ready: BTreeMap<u64, Outcome<T>>,
    /// Units that may still be taken before the consumer takes an outcome. Units are taken in
    /// order, so the one that the consumer waits for is never among those that wait for a place.
    free: usize,
    workers: usize,
    stopped: bool,
}

impl<T: Send, I> Shared<I, T> {
    /// A worker that panicked has ended the process already, so a poisoned lock holds good data.
    fn board(&self) -> MutexGuard<'_, Board<T>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free place; false when the run is over.
    fn reserve(&self) -> bool {
        let mut board = self.board();
        while board.free == 0 && !board.stopped {
            board = self.freed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
        if board.stopped {
            return false;
        }
        board.free -= 1;
        true
    }
}

impl<T: Send, I: Iterator<Item = Unit<T>>> Shared<I, T> {
    fn work(&self, engine: &Engine) {
        let mut buffer = Vec::new();
        while self.reserve() {
            let Some((number, unit)) = self.next_unit() else { break };
            let outcome = engine.process(unit, &mut buffer);
            self.board().ready.insert(number, outcome);
            self.made.notify_one();
        }
        self.board().workers -= 1;
        self.made.notify_one();
        // Others that wait for a place find no unit either; let them see that.
        self.board().free += 1;
        self.freed.notify_one();
    }

    fn next_unit(&self) -> Option<(u64, Unit<T>)> {
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        let unit = units.1.next()?;
        let number = units.0;
        units.0 += 1;
        Some((number, unit))
    }
}
