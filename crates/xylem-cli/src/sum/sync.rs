//! The synchronization types of the pool, from the standard library. They are gathered here so that the model
//! (`tests/model.rs`) can compile the pool with types whose order a scheduler controls.

use super::processor::Processor;

pub(super) use std::sync::atomic::AtomicBool;
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread::{Scope, scope};
pub(super) use std::time::Instant;

/// Starts a thread; false if the system cannot.
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

/// If a new thread waits on this processor, lets it run, so that it can move to another one.
pub(super) fn yield_to_new_thread() {
    #[cfg(target_os = "linux")]
    std::thread::yield_now();
}
