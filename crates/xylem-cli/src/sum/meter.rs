//! Counts the bytes that were read, and draws a progress bar on a terminal.

use crate::exit::CommandFailure;
use crate::output::{Out, ProgressDisplay, ProgressPhase};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// Work that takes less time than this shows no bar.
const LONG: Duration = Duration::from_millis(700);
/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);

/// Counts the bytes read by all threads.
pub(super) struct ByteMeter {
    done: AtomicU64,
    bar: Option<Mutex<ProgressDisplay>>,
}

impl ByteMeter {
    /// A meter without a bar.
    pub(super) fn silent() -> Self {
        Self { done: AtomicU64::new(0), bar: None }
    }

    /// Counts `bytes` more.
    pub(super) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Runs `write` with the bar hidden meanwhile.
    pub(super) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match self.bar() {
            Some(bar) => bar.aside(write),
            None => write(),
        }
    }

    fn bar(&self) -> Option<MutexGuard<'_, ProgressDisplay>> {
        // A thread that panicked has ended the process already.
        Some(self.bar.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Draws the bar until the sender of `ended` is dropped. `total` returns 0 if it is unknown.
    fn watch(&self, ended: &mpsc::Receiver<()>, total: impl FnOnce() -> u64) {
        let timeout = Err(mpsc::RecvTimeoutError::Timeout);
        if ended.recv_timeout(LONG) != timeout {
            return;
        }
        let total = total();
        while ended.recv_timeout(TICK) == timeout {
            if let Some(mut bar) = self.bar() {
                bar.update(ProgressPhase::Hashing, self.done.load(Ordering::Relaxed), total, 0);
            }
        }
    }
}

/// Does `work`, with a progress bar if it takes long and standard error is a terminal.
///
/// `inputs` are the paths of the command line. `total` returns how many bytes will be read, or 0 if unknown; it is
/// called only if a bar is drawn.
pub(super) fn metered<R>(
    out: &mut Out,
    inputs: &[PathBuf],
    total: impl FnOnce() -> u64 + Send,
    work: impl FnOnce(&ByteMeter) -> Result<R, CommandFailure>,
) -> Result<R, CommandFailure> {
    // While a user types the input, a bar would disturb.
    let typed = io::stdin().is_terminal() && inputs.iter().any(|path| path == Path::new("-"));
    let bar = if typed { None } else { out.take_bar() };
    let meter = ByteMeter { done: AtomicU64::new(0), bar: bar.map(Mutex::new) };
    if meter.bar.is_none() {
        return work(&meter);
    }
    let result = thread::scope(|scope| {
        let (running, ended) = mpsc::channel();
        let meter = &meter;
        let watch = move || meter.watch(&ended, total);
        // If the system cannot start another thread, there is no bar.
        let _ = thread::Builder::new().spawn_scoped(scope, watch);
        let result = work(meter);
        drop(running);
        result
    });
    if let Some(mut bar) = meter.bar() {
        bar.clear();
    }
    result
}

/// Total bytes of all files; 0, for unknown, if one is no regular file.
pub(super) fn total_size(files: &[PathBuf]) -> u64 {
    let size = |file: &PathBuf| file.metadata().ok().filter(|m| m.is_file()).map(|m| m.len());
    files.iter().try_fold(0_u64, |sum, file| sum.checked_add(size(file)?)).unwrap_or(0)
}
