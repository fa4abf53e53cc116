//! [`Helper`]: a second thread that stays awake while there is work for it.
//!
//! Waking a sleeping thread takes some fifty microseconds on a virtual machine, a good part of the measured time. A
//! program that verifies a stream keeps its threads awake. So the helper polls for work, for longer than a slice of the
//! race, before it sleeps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long it polls for work before it sleeps.
const AWAKE: Duration = Duration::from_millis(10);

pub(super) struct Helper<T> {
    asked: AtomicU64,
    done: AtomicU64,
    asleep: AtomicBool,
    over: AtomicBool,
    thread: OnceLock<Thread>,
    result: Mutex<Option<T>>,
}

/// Ends the helper's thread, also if its user panics.
struct End<'h, T>(&'h Helper<T>);

impl<T> Drop for End<'_, T> {
    fn drop(&mut self) {
        self.0.over.store(true, SeqCst);
        self.0.wake();
    }
}

impl<T: Send> Helper<T> {
    /// Runs `body` beside a thread that does `work` on each request.
    pub(super) fn beside<R>(work: impl Fn() -> T + Sync, body: impl FnOnce(&Self) -> R) -> R {
        let helper = Self {
            asked: AtomicU64::new(0),
            done: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            over: AtomicBool::new(false),
            thread: OnceLock::new(),
            result: Mutex::new(None),
        };
        thread::scope(|scope| {
            let _end = End(&helper);
            scope.spawn(|| helper.serve(&work));
            body(&helper)
        })
    }

    /// Runs `mine` here and the helper's work in its thread; returns both results.
    pub(super) fn join<R>(&self, mine: impl FnOnce() -> R) -> (R, T) {
        let number = self.asked.fetch_add(1, SeqCst) + 1;
        self.wake();
        let mine = mine();
        while self.done.load(SeqCst) < number {
            core::hint::spin_loop();
        }
        let theirs = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        (mine, theirs.expect("it is done"))
    }

    fn serve(&self, work: &impl Fn() -> T) {
        self.thread.get_or_init(thread::current);
        let (mut seen, mut since) = (0, Instant::now());
        while !self.over.load(SeqCst) {
            let asked = self.asked.load(SeqCst);
            if asked != seen {
                let result = work();
                *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                self.done.store(asked, SeqCst);
                (seen, since) = (asked, Instant::now());
            } else if since.elapsed() < AWAKE {
                core::hint::spin_loop();
            } else {
                self.asleep.store(true, SeqCst);
                if self.asked.load(SeqCst) == seen && !self.over.load(SeqCst) {
                    // A wake-up in between is not lost: parking then returns at once.
                    thread::park();
                }
                self.asleep.store(false, SeqCst);
                since = Instant::now();
            }
        }
    }
}

impl<T> Helper<T> {
    fn wake(&self) {
        if self.asleep.load(SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_do_their_part_each_time_asleep_or_awake() {
        let served = AtomicU64::new(0);
        let work = || served.fetch_add(1, SeqCst) + 1;
        let sum = Helper::beside(work, |helper| {
            let mut sum = 0;
            for n in 1..=20 {
                let (mine, theirs) = helper.join(|| n);
                assert_eq!(theirs, n);
                sum += mine + theirs;
                if n % 5 == 0 {
                    thread::sleep(2 * AWAKE);
                }
            }
            sum
        });
        assert_eq!((sum, served.load(SeqCst)), (420, 20));
    }
}
