//! Threads, from a system that may have none left to give (`ulimit -u`, a cgroup's limit, no memory for a
//! stack): what others would have done beside is then done by whoever asked.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);

/// Up to `count` threads that do `work`: as many as the system starts.
pub(crate) fn helpers<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    work: impl FnOnce() -> T + Clone + Send + 'scope,
) -> Vec<ScopedJoinHandle<'scope, T>> {
    let start = |_| thread::Builder::new().spawn_scoped(scope, work.clone()).ok();
    (0..count).map_while(start).collect()
}

/// Does `work` on a thread of its own and `meanwhile` on this one, which is given what waits for a
/// moment and says whether the work goes on. Where there is no thread, one after the other.
pub(crate) fn beside<T: Send, R>(
    work: impl FnOnce() -> T + Send,
    meanwhile: impl FnOnce(&dyn Fn() -> bool) -> R,
) -> (T, R) {
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        let started = thread::Builder::new().spawn_scoped(scope, || {
            let _running = running;
            take().map(|work| work())
        });
        let Ok(working) = started else {
            let work = take().expect("no thread has taken it");
            return (work(), meanwhile(&|| false));
        };
        let done = meanwhile(&|| ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout));
        let worked = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (worked.expect("nobody else takes it where a thread was started"), done)
    })
}
