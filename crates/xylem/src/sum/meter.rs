//! How much was read, and the bar that shows it where somebody watches.

use crate::exit::Failure;
use crate::output::{Out, Phase, Progress};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// Work that is over sooner shows no bar.
const LONG: Duration = Duration::from_millis(700);
/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// Counts the bytes read by all threads.
pub(super) struct Meter {
    done: AtomicU64,
    bar: Option<Mutex<Progress>>,
}

impl Meter {
    /// Counts for nobody.
    pub(super) fn silent() -> Self {
        Self { done: AtomicU64::new(0), bar: None }
    }

    /// Counts `bytes` more.
    pub(super) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Writes something, with the bar out of the way.
    pub(super) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match self.bar() {
            Some(bar) => bar.aside(write),
            None => write(),
        }
    }

    fn bar(&self) -> Option<MutexGuard<'_, Progress>> {
        // A thread that panicked has ended the process already.
        Some(self.bar.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Draws until `ended` says so; `total` is 0 where nobody knows it.
    fn watch(&self, ended: &mpsc::Receiver<()>, total: impl FnOnce() -> u64) {
        let timeout = Err(mpsc::RecvTimeoutError::Timeout);
        if ended.recv_timeout(LONG) != timeout {
            return;
        }
        let total = total();
        while ended.recv_timeout(TICK) == timeout {
            if let Some(mut bar) = self.bar() {
                bar.update(Phase::Hashing, self.done.load(Ordering::Relaxed), total, 0);
            }
        }
    }
}

/// Does `work`; where it takes long and standard error is a terminal, with a progress bar.
///
/// `inputs` are the paths that were given, and `total` says how many bytes will be read, 0 where
/// nobody knows; it is asked only for a bar.
pub(super) fn metered<R>(
    out: &mut Out,
    inputs: &[PathBuf],
    total: impl FnOnce() -> u64 + Send,
    work: impl FnOnce(&Meter) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // A person who types needs no bar among the letters.
    let typed = io::stdin().is_terminal() && inputs.iter().any(|path| path == Path::new("-"));
    let bar = if typed { None } else { out.take_bar() };
    let meter = Meter { done: AtomicU64::new(0), bar: bar.map(Mutex::new) };
    if meter.bar.is_none() {
        return work(&meter);
    }
    let result = thread::scope(|scope| {
        let (running, ended) = mpsc::channel();
        let meter = &meter;
        let watch = move || meter.watch(&ended, total);
        // Where the system has no thread left, there is no bar.
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

/// Bytes of all files together; 0 if one is no regular file, so that nobody knows.
pub(super) fn total_size(files: &[PathBuf]) -> u64 {
    let size = |file: &PathBuf| file.metadata().ok().filter(|m| m.is_file()).map(|m| m.len());
    files.iter().try_fold(0_u64, |sum, file| sum.checked_add(size(file)?)).unwrap_or(0)
}
