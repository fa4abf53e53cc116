//! The Python module `xylem_blake3`, over `xylem-hash`: BLAKE3 with the interface of the `blake3` package of PyPI,
//! `hash_many`, and hashing in parts.
//!
//! Bytes come from Python's buffers, without a copy, and from files; digests are returned as `bytes`, `str` or a NumPy
//! array. The documentation for users is in `xylem_blake3.pyi` and in the doc comments that `help()` shows.
//!
//! It does not link NumPy (arrays are made through Python if one was passed in), and has no cryptography besides the
//! hash.
//!
//! Threads: the interpreter is released while more than `DETACH_LEN` bytes are hashed. A hasher is a mutex around the
//! engine's hasher, so threads may share it, also in free-threaded Python.

mod buffers;
mod threads;

mod hasher;
mod many;
mod parts;

use pyo3::prelude::*;

/// Bytes from which on the interpreter is released during a hash. Below, releasing and re-acquiring it takes longer
/// than the hash. The value is that of `hashlib` (`HASHLIB_GIL_MINSIZE`).
const DETACH_LEN: usize = 2_048;

/// Does `work` on `len` bytes, detached from the interpreter if it will take long.
fn detached_if_long<R: Send>(py: Python<'_>, len: usize, work: impl FnOnce() -> R + Send) -> R {
    if len < DETACH_LEN { work() } else { py.detach(work) }
}

/// BLAKE3: the interface of the `blake3` package; `hash_many`, which hashes many messages side by side; and `hash_part`
/// and `merge_parts`, by which several machines compute one hash.
#[pymodule(gil_used = false)]
mod xylem_blake3 {
    #[pymodule_export]
    use crate::hasher::Blake3;
    #[pymodule_export]
    use crate::many::hash_many;
    #[pymodule_export]
    use crate::parts::{hash_part, merge_parts};

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name for it
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
