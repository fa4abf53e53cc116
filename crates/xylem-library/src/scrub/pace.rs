//! How fast and how long: the rate limit, the wish to stop, and progress that is told meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{LibraryEvent, Stop};

/// How often progress is told, and how often a thread that waits looks whether it should end.
const TICK: Duration = Duration::from_millis(100);

/// What reading threads ask before they go on.
pub(super) struct Pace<'a> {
    stop: &'a Stop,
    limit: Option<u64>,
    started: Instant,
    total: u64,
    done: AtomicU64,
}

impl<'a> Pace<'a> {
    /// `limit`: bytes a second; `total`: bytes that there are to read, 0 where not known.
    pub(super) fn new(stop: &'a Stop, limit: Option<u64>, total: u64) -> Self {
        Self { stop, limit, started: Instant::now(), total, done: AtomicU64::new(0) }
    }

    /// Counts bytes that were read, and waits where they were read too soon. Whether to go on.
    pub(super) fn took(&self, bytes: u64) -> bool {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(limit) = self.limit.filter(|limit| *limit > 0) {
            let due = Duration::from_secs_f64(done as f64 / limit as f64);
            loop {
                let early = due.saturating_sub(self.started.elapsed());
                if early.is_zero() || self.stop.raised() {
                    break;
                }
                thread::sleep(early.min(TICK));
            }
        }
        !self.stop.raised()
    }

    /// Bytes that were read.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Does `work` on a thread of its own and tells progress from this one.
    pub(super) fn beside<T: Send>(
        &self,
        work: impl FnOnce() -> T + Send,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> T {
        thread::scope(|scope| {
            let (running, ended) = mpsc::channel::<()>();
            let working = scope.spawn(move || {
                let _running = running;
                work()
            });
            while ended.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                on_event(LibraryEvent::Hashing { done: self.done(), total: self.total });
            }
            working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
