//! [`ThreadCount`]: the threads that a hash may use (`max_threads`).

use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// `max_threads` for as many threads as the machine has processors.
pub const AUTO: isize = -1;

/// The threads that do the work. A clone shares them with the original.
#[derive(Clone)]
pub enum HashThreads {
    /// On the calling thread.
    One,
    /// On rayon's threads, one for each processor.
    All,
    /// On a pool of fewer threads.
    Some(Arc<ThreadPool>),
}

impl HashThreads {
    /// Errors: `ValueError` for 0 and below, except [`AUTO`]; `RuntimeError` if the system cannot start threads.
    pub fn at_most(max_threads: isize) -> PyResult<Self> {
        match usize::try_from(max_threads) {
            Ok(1) => Ok(Self::One),
            Ok(count) if (2..processors()).contains(&count) => {
                let pool = ThreadPoolBuilder::new().num_threads(count).build();
                let pool = pool.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
                Ok(Self::Some(Arc::new(pool)))
            }
            Ok(2..) => Ok(Self::All),
            Err(_) if max_threads == AUTO => Ok(Self::All),
            _ => Err(PyValueError::new_err("max_threads must be positive, or AUTO")),
        }
    }

    /// Does `work` on these threads; its argument is whether there may be several.
    ///
    /// Take a lock that `work` needs before the call: within it, a thread that waits for the others may run other work
    /// of the pool meanwhile, and would then wait for itself.
    pub fn run<R: Send>(&self, work: impl FnOnce(bool) -> R + Send) -> R {
        match self {
            Self::One => work(false),
            Self::All => work(true),
            Self::Some(pool) => pool.install(|| work(true)),
        }
    }
}

/// How many threads can run at once. The value is cached: the system reads files for it, which takes as long as to hash
/// 100 KiB.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| available_parallelism().map_or(1, usize::from))
}
