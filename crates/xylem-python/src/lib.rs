//! `_native`: the Rust half of the Python package `xylem`, over the crate `xylem`.
//!
//! Calls that block run on a thread of their own. Meanwhile the calling thread releases the interpreter and checks
//! signals ten times a second. The documentation for users is in `python/xylem`, which wraps these names.
//!
//! This module makes no decisions of its own: it passes on the options and the errors of the library.

mod errors;
mod running;

mod fetching;
mod reading;
mod serving;
mod syncing;
mod tensor;

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
    use crate::syncing::Sync;
    #[pymodule_export]
    use crate::tensor::verify_tensor;

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name for it
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
