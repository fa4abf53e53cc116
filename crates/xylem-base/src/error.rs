//! Common parts of errors that end a verb: [`Failure`], a sentence for a person and one [`Blame`] for the exit code.
//! [`Error`] is what a program prints of one.

use std::fmt;
use std::io;

use xylem_store::StoreError;

/// Cause of a [`Failure`], and thus which party must act. The command maps it to its exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Data did not verify (exit 1).
    Data,
    /// Wrong usage or input (exit 2).
    Usage,
    /// No reachable peer has the data, or time ran out (exit 3).
    Network,
    /// Disk full, permission, store in use (exit 4).
    Local,
    /// Asked to stop (exit 130).
    Interrupted,
}

/// An error that ends a verb. Its `Display` is one line: what, where, and how to mend it.
pub trait Failure: std::error::Error + Send + Sync {
    /// Returns which party must act.
    fn blame(&self) -> Blame;
}

/// The end of a program's run: what the command prints, or a binding raises, of a failure of any type. The library itself
/// returns errors with types.
#[derive(Clone, Debug)]
pub struct Error {
    /// Which party must act.
    pub blame: Blame,
    /// One line: what, where, and how to mend it.
    pub message: String,
}

impl Error {
    /// Makes an error of wrong input.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { blame: Blame::Usage, message: message.into() }
    }

    /// Makes an error of an operation that the operating system refused.
    pub fn local(doing: &str, e: &io::Error) -> Self {
        Self { blame: Blame::Local, message: format!("{doing}: {e}") }
    }
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

impl From<Box<dyn Failure>> for Error {
    fn from(e: Box<dyn Failure>) -> Self {
        Self { blame: e.blame(), message: e.to_string() }
    }
}

impl From<StoreError> for Error {
    fn from(e: StoreError) -> Self {
        Self::from(&e)
    }
}

impl From<&StoreError> for Error {
    fn from(e: &StoreError) -> Self {
        Self { blame: blame_of(e), message: advised(e) }
    }
}

impl<E: Failure + 'static> From<E> for Box<dyn Failure> {
    fn from(e: E) -> Self {
        Box::new(e)
    }
}

/// Returns which party must act on a store's error.
pub fn blame_of(e: &StoreError) -> Blame {
    match e {
        StoreError::NotFound { .. } | StoreError::Exists { .. } => Blame::Usage,
        _ => Blame::Local,
    }
}

/// Returns a store's error and its remedy in one line.
pub fn advised(e: &StoreError) -> String {
    let advice = match e {
        StoreError::NoSpace { .. } => "; make room and run it again",
        StoreError::TooLarge { .. } => {
            "; raise the limit (ulimit -f) or choose another place, and run it again"
        }
        StoreError::Busy { .. } => "; wait until it ends, then run this again",
        StoreError::Changed { .. } => "; share it again",
        StoreError::Exists { .. } => "; choose --overwrite or --rename",
        StoreError::Collision { .. } => "; leave one of the two out with --exclude",
        _ => "",
    };
    format!("{e}{advice}")
}
