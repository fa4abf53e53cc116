//! What the pool shares its work by: the standard library's, gathered here so that its
//! model (`tests/model.rs`) can compile the same file with types whose order a scheduler decides.

use super::processor::Processor;

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
    std::thread::Builder::new()
        .spawn_scoped(scope, move || {
            here.leave();
            work();
        })
        .is_ok()
}

/// Where a new thread waits behind this one, it gets to leave.
pub(super) fn let_leave() {
    #[cfg(target_os = "linux")]
    std::thread::yield_now();
}
