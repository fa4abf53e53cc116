//! `blake3`: BLAKE3 for Python, in the shape of the `blake3` package of PyPI, `hash_many`, and hashing in parts.
//!
//! What it is: the module `xylem_blake3`, over `xylem-hash`. Bytes come from Python's buffers
//! (without a copy) and files; digests go back as `bytes`, `str` or a NumPy array. What each name
//! promises to a user is said once, in `xylem_blake3.pyi` and in the doc comments that `help()`
//! shows.
//!
//! What it does not do: it links no NumPy (arrays are asked for through Python when one came in),
//! and has no cryptography beside the hash.
//!
//! Threads: the interpreter is let go while more than `DETACH_LEN` bytes are hashed; a hasher is
//! a mutex around the engine's, so threads may share it, free-threaded Python included.

mod buffers;
mod threads;

mod hasher;
mod many;
mod parts;

use pyo3::prelude::*;

/// From so many bytes on the interpreter may do something else meanwhile; below, letting go of it
/// and getting it back takes longer than the hash. As in `hashlib` (`HASHLIB_GIL_MINSIZE`).
const DETACH_LEN: usize = 2_048;

/// Does `work` on `len` bytes, detached from the interpreter if it will take long.
fn detached_if_long<R: Send>(py: Python<'_>, len: usize, work: impl FnOnce() -> R + Send) -> R {
    if len < DETACH_LEN { work() } else { py.detach(work) }
}

/// BLAKE3: the interface of the `blake3` package, and `hash_many`, which hashes many messages
/// side by side; `hash_part` and `merge_parts`, for one hash by many machines.
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
