//! Helpers that all parts of the tables share.

use std::io;

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// A short run.
    Quick,
    /// The run for docs/benchmarks.md.
    Full,
}

impl Effort {
    /// One of two values.
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// The error for an unknown part.
pub(crate) fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "unknown part")
}
