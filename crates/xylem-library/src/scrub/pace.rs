//! How fast and how long: [`Throttle`] holds reading back, [`Stop`] ends it, and progress is reported
//! meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::event::LibraryEvent;
use crate::stop::Stop;
use crate::threads;

/// Holds reading threads back, where a disk is not to be read as fast as it can be. Whoever has a
/// clock implements it.
pub trait Throttle: Sync {
    /// Called by a thread when `bytes` were read in all: returns when more may be read, or when `stop`
    /// is raised.
    fn wait(&self, bytes: u64, stop: &Stop);
}

/// What reading threads ask before they go on.
pub(super) struct Pace<'a> {
    stop: &'a Stop,
    throttle: Option<&'a dyn Throttle>,
    total: u64,
    done: AtomicU64,
}

impl<'a> Pace<'a> {
    /// `total`: bytes that there are to read, 0 where not known.
    pub(super) fn new(stop: &'a Stop, throttle: Option<&'a dyn Throttle>, total: u64) -> Self {
        Self { stop, throttle, total, done: AtomicU64::new(0) }
    }

    /// Counts bytes that were read, and waits where they were read too soon. Whether to go on.
    pub(super) fn took(&self, bytes: u64) -> bool {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(throttle) = self.throttle {
            throttle.wait(done, self.stop);
        }
        !self.stop.raised()
    }

    /// Bytes that were read.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Does `work` on a thread of its own and reports progress from this one.
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
