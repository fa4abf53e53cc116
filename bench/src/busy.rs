//! [`Busy`]: keeps every other core hashing, as on a loaded machine.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::input;

/// Bytes of one hash on a busy core; fits into its first-level cache.
const LEN: usize = 16 << 10;

/// Threads that hash until this is dropped, one less than there are cores.
///
/// They run the official crate, which no contender's choice of backend affects.
pub struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Starts the threads; none on a machine with a single core.
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

    /// Number of threads that hash.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A hash does not panic; if it did, the race that ran meanwhile would still be valid.
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
