//! Errors of the library as exceptions: one class for each exit status of the command.

use pyo3::prelude::*;
use xylem_library::{Blame, Error};

/// The classes, which are Python's: a program catches them, a person reads what they are called.
mod classes {
    pyo3::import_exception!(xylem._errors, DamagedError);
    pyo3::import_exception!(xylem._errors, UsageError);
    pyo3::import_exception!(xylem._errors, UnreachableError);
    pyo3::import_exception!(xylem._errors, LocalError);
    pyo3::import_exception!(xylem._errors, StoppedError);
}

/// What a caller is told.
pub(crate) fn raised(error: impl Into<Error>) -> PyErr {
    let Error { blame, message } = error.into();
    match blame {
        Blame::Data => classes::DamagedError::new_err(message),
        Blame::Usage => classes::UsageError::new_err(message),
        Blame::Network => classes::UnreachableError::new_err(message),
        Blame::Local => classes::LocalError::new_err(message),
        Blame::Interrupted => classes::StoppedError::new_err(message),
    }
}

/// Nobody has brought what a read was for.
pub(crate) fn unread(name: &str, why: &std::io::Error) -> PyErr {
    classes::UnreachableError::new_err(format!("{name}: {why}"))
}
