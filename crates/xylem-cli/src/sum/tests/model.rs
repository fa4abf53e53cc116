//! A model of the pool: the same source, with a Mutex, a Condvar and threads whose order a scheduler with a fixed seed
//! controls at every step, thousands of times.
//!
//! It finds what a real machine shows once in a million runs: an item that is passed to the sink twice, out of order or
//! never; threads that sleep for ever (if all wait, the scheduler reports the schedule that led there); a run that
//! continues after its sink failed. It finds neither a thread that sleeps longer than it has to, nor errors of memory
//! orders weaker than sequential.
//!
//! Files are read and hashed for real. The clock, and the system that may refuse a thread, are simulated.

use super::engine::{Digest, SumItem, SumSettings, SumSink, ThreadCount};
use super::meter::ByteMeter;
// The modules that pool.rs expects beside it.
use super::{engine, meter, region};
use crate::exit::{CommandFailure, Exit};
use pool::SumPool;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xylem_hash::tree::Tree;
use xylem_hash::{Hasher, OUT_LEN, OutputReader};
use xylem_tree::NodeValue;
use xylem_tree::parts::AnyTree;

// Compiled a second time on purpose, with the model's types.
#[allow(clippy::duplicate_mod)]
#[path = "../pool.rs"]
mod pool;

/// The names of `sync.rs`.
mod sync {
    pub(super) use shuttle::sync::atomic::AtomicBool;
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use shuttle::thread::{Scope, scope};

    use shuttle::rand::{Rng, thread_rng};
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    /// A clock on which a long time may have passed at each reading.
    pub(super) struct Instant(std::sync::atomic::AtomicBool);

    impl Instant {
        pub(super) fn now() -> Self {
            Self(false.into())
        }

        pub(super) fn elapsed(&self) -> Duration {
            let long = self.0.fetch_or(thread_rng().gen_bool(0.5), Ordering::Relaxed);
            if long { Duration::from_secs(1) } else { Duration::ZERO }
        }
    }

    /// Starts a thread, or sometimes refuses.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() + Send + 'scope,
    ) -> bool {
        let given = thread_rng().gen_bool(0.9);
        if given {
            scope.spawn(work);
        }
        given
    }

    pub(super) fn yield_to_new_thread() {
        shuttle::thread::yield_now();
    }
}

/// Runs with each scheduler.
const RUNS: usize = 1000;
const SEED: u64 = 15;

/// Runs a test under two schedulers. Random order finds errors that most orders show. Probabilistic concurrency testing
/// starves threads and switches at few places, which finds errors that few orders show.
fn under_all_orders(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let schedulers: [Box<dyn Scheduler + Send>; 2] = [
        Box::new(RandomScheduler::new_from_seed(SEED, RUNS)),
        Box::new(PctScheduler::new_from_seed(SEED, 3, RUNS)),
    ];
    for scheduler in schedulers {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config.silence_warnings = true;
        let test = Arc::clone(&test);
        assert_eq!(Runner::new(scheduler, config).run(move || test()), RUNS);
    }
}

/// Lets other threads run while a region is hashed.
struct Interrupted<T>(T);

impl<T: AnyTree> AnyTree for Interrupted<T> {
    fn node(&self, bytes: &[u8], first_chunk: u64) -> NodeValue {
        shuttle::thread::yield_now();
        self.0.node(bytes, first_chunk)
    }

    // The caller holds a lock that is not the model's, so no other thread may run here.
    fn parent(&self, left: &NodeValue, right: &NodeValue) -> NodeValue {
        self.0.parent(left, right)
    }

    fn root(&self, left: &NodeValue, right: &NodeValue) -> OutputReader {
        self.0.root(left, right)
    }
}

fn settings(threads: usize) -> SumSettings {
    SumSettings {
        base: Hasher::new(),
        seek: 0,
        length: OUT_LEN as u64,
        tree: Box::new(Interrupted(Tree::plain())),
        threads: ThreadCount::new(Some(threads)),
        stdin_is_taken: Some("it is the test's"),
    }
}

/// The kind of an item, which determines its expected result.
#[derive(Clone)]
enum Kind {
    /// No path.
    Nothing,
    /// A file that is hashed at once or split, and its hash.
    File(PathBuf, [u8; OUT_LEN]),
    /// An error: a missing file, or standard input, which is read in its turn.
    Fails(PathBuf),
}

struct Numbered(usize, Kind);

impl SumItem for Numbered {
    fn path(&self) -> Option<&Path> {
        match &self.1 {
            Kind::Nothing => None,
            Kind::File(path, _) | Kind::Fails(path) => Some(path),
        }
    }
}

/// Checks that each item comes once, in its turn, with the expected result.
#[derive(Default)]
struct Checked {
    got: usize,
    /// Refuses this item; none may come after it.
    fails_at: Option<usize>,
    /// Lets other threads run after this many items; 0 means never.
    rests_after: usize,
}

impl SumSink<Numbered> for Checked {
    fn result(
        &mut self,
        item: Numbered,
        found: Option<io::Result<Digest>>,
    ) -> Result<(), CommandFailure> {
        assert!(self.fails_at.is_none_or(|at| self.got <= at), "it has failed already");
        assert_eq!(item.0, self.got, "in order, each once");
        match (&item.1, found) {
            (Kind::Nothing, None) | (Kind::Fails(_), Some(Err(_))) => {}
            (Kind::File(_, hash), Some(Ok(Digest::Short(found)))) => assert_eq!(*hash, found),
            (_, found) => panic!("item {} became {:?}", item.0, found.map(|f| f.is_ok())),
        }
        self.got += 1;
        if self.rests_after > 0 && self.got.is_multiple_of(self.rests_after) {
            shuttle::thread::yield_now();
        }
        match self.fails_at {
            Some(at) if at == item.0 => Err(CommandFailure::new(Exit::Local, "the disk is full")),
            _ => Ok(()),
        }
    }

    fn idle(&mut self) -> Result<(), CommandFailure> {
        shuttle::thread::yield_now();
        Ok(())
    }
}

/// Items with or without a size hint, as arguments and lists have.
fn items(kinds: Vec<Kind>) -> Box<dyn Iterator<Item = Numbered> + Send> {
    let items = kinds.into_iter().enumerate().map(|(number, kind)| Numbered(number, kind));
    if thread_rng().gen_bool(0.5) {
        return Box::new(items);
    }
    Box::new(items.filter(|_| {
        shuttle::thread::yield_now();
        true
    }))
}

/// A folder with a file of each kind.
fn kinds() -> (tempfile::TempDir, Vec<Kind>) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = |name: &str, len: usize| {
        let (path, bytes) = (folder.path().join(name), vec![7; len]);
        std::fs::write(&path, &bytes).expect("and a file in it");
        Kind::File(path, *Hasher::new().update(&bytes).finalize().as_bytes())
    };
    let kinds = vec![
        Kind::Nothing,
        file("small", 1000),
        file("big", (2 << 20) + 1),
        Kind::Fails(folder.path().join("missing")),
        Kind::Fails("-".into()),
    ];
    (folder, kinds)
}

/// `count` items, each of the `kinds` in turn from a random start.
fn some_of(kinds: &[Kind], count: usize) -> Vec<Kind> {
    let from = thread_rng().gen_range(0..kinds.len());
    kinds.iter().cycle().skip(from).take(count).cloned().collect()
}

#[test]
fn every_item_comes_to_the_sink_once_and_in_order() {
    let (_folder, kinds) = kinds();
    under_all_orders(move || {
        let count = thread_rng().gen_range(0..12);
        let settings = settings(thread_rng().gen_range(1..5));
        let ahead = thread_rng().gen_range(1..4);
        let mut sink = Checked { rests_after: 1, ..Checked::default() };
        let items = items(some_of(&kinds, count));
        let run = SumPool::new(&settings, &ByteMeter::silent(), items, ahead, &mut sink).run();
        assert!(run.is_ok() && sink.got == count, "{} of {count} came", sink.got);
    });
}

#[test]
fn a_sink_that_fails_ends_every_thread() {
    let (_folder, kinds) = kinds();
    under_all_orders(move || {
        let settings = settings(thread_rng().gen_range(2..5));
        let ahead = thread_rng().gen_range(1..4);
        let at = thread_rng().gen_range(0..10);
        let mut sink = Checked { rests_after: 1, fails_at: Some(at), ..Checked::default() };
        let items = items(some_of(&kinds, 10));
        let run = SumPool::new(&settings, &ByteMeter::silent(), items, ahead, &mut sink).run();
        assert!(run.is_err() && sink.got == at + 1, "{} came, {at} fails", sink.got);
    });
}

/// More items than may be in flight: a worker has to wait for the sink, and to be woken.
#[test]
fn workers_wake_after_a_full_window() {
    under_all_orders(|| {
        const COUNT: usize = 4_000;
        let settings = settings(2);
        let mut sink = Checked { rests_after: 100, ..Checked::default() };
        let items = (0..COUNT).map(|number| Numbered(number, Kind::Nothing));
        let run = SumPool::new(&settings, &ByteMeter::silent(), items, 400, &mut sink).run();
        assert!(run.is_ok() && sink.got == COUNT, "{} came", sink.got);
    });
}
