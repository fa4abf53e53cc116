//! `_native`: the Rust half of the Python package `xylem`, over `xylem-node` and `xylem-reader`.
//!
//! What it is: calls that block, each on a thread of its own, while the thread that called lets go of the interpreter and
//! looks for signals ten times a second. What each name promises to a user is said once, in `python/xylem`, which
//! wraps these.
//!
//! What it does not do: it decides nothing that `xylem` decides; errors are the library's, by who has to act.

mod errors;
mod running;

mod fetching;
mod reading;
mod serving;

use pyo3::prelude::*;

/// See the package `xylem`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::fetching::{Fetched, Verified, get, verify};
    #[pymodule_export]
    use crate::reading::{File, Reader};
    #[pymodule_export]
    use crate::serving::Share;

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name for it
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
