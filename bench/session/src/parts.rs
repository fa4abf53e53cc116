//! What the parts of a table have in common.

use std::io;

/// How long and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// A glance.
    Quick,
    /// What stands in docs/benchmarks.md.
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

/// The error of a part that there is not.
pub(crate) fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "no such part")
}
