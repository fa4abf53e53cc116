//! Errors of the rooms below, as one line for a person and one [`xylem_library::Blame`].

use std::io;

use xylem_library::{Blame, Error};

/// Anything else of the operating system.
pub(crate) fn local(doing: &str, e: &io::Error) -> Error {
    Error { blame: Blame::Local, message: format!("{doing}: {e}") }
}

/// Wrong input.
pub(crate) fn usage(message: impl Into<String>) -> Error {
    Error { blame: Blame::Usage, message: message.into() }
}

/// Errors of the library, each with its own sentence and blame, become the variant `Library` of a verb's.
macro_rules! of_library {
    ($verb:ty: $($error:ty),+) => {
        $(impl From<$error> for $verb {
            fn from(e: $error) -> Self {
                Self::Library(e.into())
            }
        })+
    };
}
pub(crate) use of_library;
