//! [`Stop`]: the flag that asks a running call to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks a running call to end soon and in order.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that is not raised yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to end; safe to call from a signal handler thread.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run was asked to end.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
