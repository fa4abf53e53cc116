//! Converts errors of the library to Python exceptions: one class for each exit status of the command.

use pyo3::prelude::*;
use xylem::{Blame, Error};

/// The exception classes. They are defined in Python, so that programs can catch them by readable names.
mod classes {
    pyo3::import_exception!(xylem._errors, DamagedError);
    pyo3::import_exception!(xylem._errors, UsageError);
    pyo3::import_exception!(xylem._errors, UnreachableError);
    pyo3::import_exception!(xylem._errors, LocalError);
    pyo3::import_exception!(xylem._errors, StoppedError);
    pyo3::import_exception!(xylem._errors, GpuError);
}

/// The exception for an error of the library.
pub(crate) fn to_exception(error: impl Into<Error>) -> PyErr {
    let Error { blame, message } = error.into();
    match blame {
        Blame::Data => classes::DamagedError::new_err(message),
        Blame::Usage => classes::UsageError::new_err(message),
        Blame::Network => classes::UnreachableError::new_err(message),
        Blame::Local => classes::LocalError::new_err(message),
        Blame::Interrupted => classes::StoppedError::new_err(message),
    }
}

/// The exception for a read without data from any peer.
pub(crate) fn read_failure(name: &str, why: &std::io::Error) -> PyErr {
    classes::UnreachableError::new_err(format!("{name}: {why}"))
}

/// The exception for a GPU that can't be used.
pub(crate) fn gpu_failure(why: &str) -> PyErr {
    classes::GpuError::new_err(why.to_owned())
}
