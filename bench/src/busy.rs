//! [`Busy`]: every other core hashes too, as on a machine that has more to do than this.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::input;

/// What one hash of a busy core takes, in bytes: fits into its first caches.
const LEN: usize = 16 << 10;

/// Threads that hash until this is dropped, one less than there are cores.
///
/// They run the official crate, whose code no contender's choice of backend changes.
pub struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Starts them; none on a machine with a single core.
    #[must_use]
    pub fn start() -> Self {
        let others = thread::available_parallelism().map_or(1, usize::from) - 1;
        let stop = Arc::new(AtomicBool::new(false));
        let hash = |stop: Arc<AtomicBool>| {
            move || {
                let bytes = input::bytes(LEN);
                while !stop.load(Ordering::Relaxed) {
                    black_box(blake3::hash(black_box(&bytes)));
                }
            }
        };
        let threads = (0..others).map(|_| thread::spawn(hash(stop.clone()))).collect();
        Self { stop, threads }
    }

    /// How many threads hash.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A hash does not panic; if it did, the race that ran meanwhile would still be one.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_end_with_their_owner() {
        let busy = Busy::start();
        let stop = Arc::downgrade(&busy.stop);
        assert_eq!(busy.cores() + 1, thread::available_parallelism().map_or(1, usize::from));
        drop(busy);
        assert!(stop.upgrade().is_none(), "a thread still holds the flag");
    }
}
