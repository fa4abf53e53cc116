//! [`Stop`]: the flag that asks a running call to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks a running call to end soon and in order.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// What ends this, too.
    above: Option<Arc<Stop>>,
}

impl Stop {
    /// A flag that is not raised yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag of its own for a part of what this one ends: raised when either is.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { flag: Arc::default(), above: Some(Arc::new(self.clone())) }
    }

    /// Asks the run to end; safe to call from a signal handler thread.
    pub fn raise(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether the run was asked to end.
    pub fn raised(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.above.as_ref().is_some_and(|above| above.raised())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_with_the_whole_and_not_the_other_way_round() {
        let whole = Stop::new();
        let (part, other) = (whole.part(), whole.part());
        part.raise();
        assert!(part.raised() && !whole.raised() && !other.raised());
        whole.raise();
        assert!(other.raised() && other.part().raised());
    }
}
