//! Starts threads on a system that may refuse them (`ulimit -u`, a cgroup's limit, no memory for a stack). The calling
//! thread then does the work itself.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

/// Interval between reports of progress.
const TICK: Duration = Duration::from_millis(100);

/// Wakes the serving loop when something is ready. Called on other threads.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Starts up to `count` threads that do `work`: as many as the system permits.
pub fn helpers<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    work: impl FnOnce() -> T + Clone + Send + 'scope,
) -> Vec<ScopedJoinHandle<'scope, T>> {
    let start = |_| thread::Builder::new().spawn_scoped(scope, work.clone()).ok();
    (0..count).map_while(start).collect()
}

/// Runs `work` on a thread of its own and `meanwhile` on this one. `meanwhile` receives a function that waits for a
/// moment and returns whether the work still runs. Without a thread both run one after the other.
pub fn beside<T: Send, R>(
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
