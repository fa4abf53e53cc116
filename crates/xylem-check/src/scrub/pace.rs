//! Speed and progress of reading: [`Throttle`] slows it, [`Stop`] ends it, and progress is reported meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use xylem_base::{Stop, threads};

use xylem_files::LibraryEvent;

/// Slows reading threads, for a disk that must not be read at full speed. The caller implements it, because it has a
/// clock.
pub trait Throttle: Sync {
    /// Called by a thread when `bytes` were read in all. Returns when more may be read, or when `stop` is raised.
    fn wait(&self, bytes: u64, stop: &Stop);
}

/// Counts reads, and makes reading threads wait or stop.
pub(super) struct ScrubPace<'a> {
    stop: &'a Stop,
    throttle: Option<&'a dyn Throttle>,
    total: u64,
    done: AtomicU64,
}

impl<'a> ScrubPace<'a> {
    /// `total`: bytes to be read, 0 if unknown.
    pub(super) fn new(stop: &'a Stop, throttle: Option<&'a dyn Throttle>, total: u64) -> Self {
        Self { stop, throttle, total, done: AtomicU64::new(0) }
    }

    /// Counts bytes read, and waits if reading is too fast. Returns whether to continue.
    pub(super) fn took(&self, bytes: u64) -> bool {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(throttle) = self.throttle {
            throttle.wait(done, self.stop);
        }
        !self.stop.raised()
    }

    /// Returns the number of bytes read.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Runs `work` on a thread of its own and reports progress from this one.
    pub(super) fn beside<T: Send>(
        &self,
        work: impl FnOnce() -> T + Send,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> T {
        let report = |running: &dyn Fn() -> bool| {
            while running() {
                on_event(LibraryEvent::Hashing { done: self.done(), total: self.total });
            }
        };
        threads::beside(work, report).0
    }
}
