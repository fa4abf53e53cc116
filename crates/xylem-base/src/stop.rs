//! [`Stop`]: the flag that asks a running call to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks a running call to end soon and in order.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// A flag that stops this one too.
    above: Option<Arc<Stop>>,
}

impl Stop {
    /// Makes a flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a flag for a part of the work: it counts as raised when either is.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { flag: Arc::default(), above: Some(Arc::new(self.clone())) }
    }

    /// Asks the run to end; safe to call from a signal handler thread.
    pub fn raise(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Returns whether the run was asked to end.
    pub fn raised(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.above.as_ref().is_some_and(|above| above.raised())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopping_the_whole_stops_its_parts_only() {
        let whole = Stop::new();
        let (part, other) = (whole.part(), whole.part());
        part.raise();
        assert!(part.raised() && !whole.raised() && !other.raised());
        whole.raise();
        assert!(other.raised() && other.part().raised());
    }
}
