//! What went wrong, for whom: [`Error`] is one line for a person and one [`Blame`] for the exit code.

use std::fmt;

/// Who has to act on an [`Error`]; the command maps it to its exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Data did not verify (exit 1).
    Data,
    /// Wrong usage or input (exit 2).
    Usage,
    /// Nobody reachable has it, or time ran out (exit 3).
    Network,
    /// Disk full, permission, store in use (exit 4).
    Local,
    /// Asked to stop (exit 130).
    Interrupted,
}

/// An error that ends a verb. Its `Display` is one line: what, where, and how to mend it.
pub trait Failure: std::error::Error + Send + Sync {
    /// Who has to act.
    fn blame(&self) -> Blame;
}

/// A failure in one line, with who has to act.
#[derive(Clone, Debug)]
pub struct Error {
    /// Who has to act.
    pub blame: Blame,
    /// One line: what, where, and how to mend it.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl<E: Failure> From<E> for Error {
    fn from(e: E) -> Self {
        Self { blame: e.blame(), message: e.to_string() }
    }
}
