//! What the pool shares its work by: the standard library's, gathered here so that its
//! model (`tests/model.rs`) can compile the same file with types whose order a scheduler decides.

pub(super) use std::sync::atomic::AtomicBool;
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread::{Scope, scope};
pub(super) use std::time::Instant;

/// Starts a thread; false where the system has none left to give.
pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) -> bool {
    let here = Processor::this();
    let started = std::thread::Builder::new().spawn_scoped(scope, move || {
        here.leave();
        work();
    });
    if started.is_ok() {
        // Where the new thread waits behind this one, it gets to leave.
        std::thread::yield_now();
    }
    started.is_ok()
}

/// The processor that a thread runs on.
#[derive(Clone, Copy)]
struct Processor {
    #[cfg(target_os = "linux")]
    number: usize,
}

impl Processor {
    fn this() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            number: rustix::thread::sched_getcpu(),
        }
    }

    /// Goes on elsewhere where the calling thread runs on this one. Linux may put a new thread where the one that
    /// started it is at work though another is idle, and the two take turns for milliseconds
    /// (docs/benchmark-log.md, "xylem sum").
    #[cfg(target_os = "linux")]
    fn leave(self) {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
        if sched_getcpu() != self.number || self.number >= CpuSet::MAX_CPU {
            return;
        }
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let mut others = allowed;
        others.unset(self.number);
        // Whom the user gave one processor stays there.
        if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
            let _ = sched_setaffinity(None, &allowed);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn leave(self) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

    #[test]
    fn who_leaves_a_processor_may_run_where_it_could_before() {
        let allowed = sched_getaffinity(None).expect("the system tells");
        Processor::this().leave();
        assert_eq!(sched_getaffinity(None).expect("the system tells"), allowed);
        // A thread with one processor, as under `taskset`.
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        sched_setaffinity(None, &one).expect("it is one of those allowed");
        Processor::this().leave();
        assert_eq!(sched_getaffinity(None).expect("the system tells"), one);
    }
}
