//! [`Blake3`]: the class `blake3`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;
use xylem_hash::{BLOCK_LEN, Hasher, KEY_LEN, OUT_LEN};

use crate::buffers::{self, BufferSource};
use crate::detached_if_long;
use crate::threads::{self, HashThreads};

/// An incremental BLAKE3 hasher, with the interface of those of `hashlib`.
///
/// Arguments:
/// - data: bytes to begin with, as if given to `update`. Any contiguous buffer of bytes.
/// - key: 32 uniformly random bytes, for a keyed hash (a MAC).
/// - derive_key_context: a hard-coded, globally unique string that names a purpose, for deriving
///   a key; the key material is then the data. Not together with `key`.
/// - max_threads: how many threads may work on one `update`, or `blake3.AUTO` for all. It helps from
///   about half a megabyte per update on.
/// - usedforsecurity: ignored; present because `hashlib` has it.
#[pyclass(name = "blake3", module = "xylem_blake3", frozen)]
pub struct Blake3 {
    /// On the heap, so that the 20 KiB are written where they stay.
    hasher: Mutex<Box<Hasher>>,
    threads: HashThreads,
}

#[pymethods]
impl Blake3 {
    /// The name of the algorithm, "blake3".
    #[classattr]
    #[pyo3(name = "name")]
    const NAME: &'static str = "blake3";

    /// Default length of a digest in bytes, 32.
    #[classattr]
    #[pyo3(name = "digest_size")]
    const DIGEST_SIZE: usize = OUT_LEN;

    /// Length of a block in bytes, 64.
    #[classattr]
    #[pyo3(name = "block_size")]
    const BLOCK_SIZE: usize = BLOCK_LEN;

    /// Length of a key in bytes, 32.
    #[classattr]
    #[pyo3(name = "key_size")]
    const KEY_SIZE: usize = KEY_LEN;

    /// For `max_threads`: as many threads as there are processors.
    #[classattr]
    const AUTO: isize = threads::AUTO;

    #[new]
    #[pyo3(signature = (
        data = None, /, *,
        key = None, derive_key_context = None, max_threads = 1, usedforsecurity = true
    ))]
    fn new(
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        derive_key_context: Option<&str>,
        max_threads: isize,
        usedforsecurity: bool,
    ) -> PyResult<Self> {
        let _ = usedforsecurity;
        let mut hasher = match (key, derive_key_context) {
            (None, None) => plain(),
            (Some(key), None) => keyed(&buffers::key(key)?),
            (None, Some(context)) => deriving(context),
            (Some(_), Some(_)) => {
                let what = "key and derive_key_context cannot be used together";
                return Err(PyValueError::new_err(what));
            }
        };
        let threads = HashThreads::at_most(max_threads)?;
        if let Some(data) = data {
            let source = BufferSource::of(data)?;
            let bytes = source.bytes()?;
            detached_if_long(py, bytes.len(), || update(&mut hasher, &threads, bytes));
        }
        Ok(Self { hasher: Mutex::new(hasher), threads })
    }

    /// Adds bytes to the message, and returns the hasher.
    #[pyo3(signature = (data, /))]
    fn update<'py>(slf: &Bound<'py, Self>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let source = BufferSource::of(data)?;
        let (this, bytes) = (slf.get(), source.bytes()?);
        let mut hasher = this.lock(slf.py())?;
        // The guard of the mutex stays with this thread; its content may be lent to others.
        let hasher: &mut Hasher = &mut hasher;
        detached_if_long(slf.py(), bytes.len(), || update(hasher, &this.threads, bytes));
        Ok(slf.clone())
    }

    /// Adds the contents of a file to the message, mapped into memory if possible, and returns the hasher.
    ///
    /// If the file is truncated meanwhile, the process is killed (SIGBUS). If that can happen, read the file and use
    /// `update`.
    #[pyo3(signature = (path))]
    fn update_mmap<'py>(slf: &Bound<'py, Self>, path: PathBuf) -> PyResult<Bound<'py, Self>> {
        let this = slf.get();
        let mut hasher = this.lock(slf.py())?;
        let hasher: &mut Hasher = &mut hasher;
        slf.py().detach(|| {
            this.threads.run(|several| {
                let done =
                    if several { hasher.update_mmap_rayon(path) } else { hasher.update_mmap(path) };
                done.map(|_| ())
            })
        })?;
        Ok(slf.clone())
    }

    /// Returns an independent hasher with the same state.
    #[pyo3(signature = ())]
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        let hasher = Mutex::new(self.lock(py)?.clone());
        Ok(Self { hasher, threads: self.threads.clone() })
    }

    /// Begins a new message under the same key or context. The initial data of the constructor are dropped, too.
    #[pyo3(signature = ())]
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py)?.reset();
        Ok(())
    }

    /// Returns `length` bytes of output from byte `seek` on; the first 32 are the hash. The hasher does not change.
    ///
    /// Raises OverflowError if the range reaches past byte 2**64 - 2, the last of the output.
    #[pyo3(signature = (length = 32, *, seek = 0))]
    fn digest<'py>(
        &self,
        py: Python<'py>,
        length: usize,
        seek: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if isize::try_from(length).is_err() || seek.checked_add(length as u64).is_none() {
            return Err(PyOverflowError::new_err("no output is so long"));
        }
        if (length, seek) == (OUT_LEN, 0) {
            return Ok(PyBytes::new(py, self.lock(py)?.finalize().as_bytes()));
        }
        let mut reader = self.lock(py)?.finalize_xof();
        reader.set_position(seek);
        PyBytes::new_with(py, length, |out| {
            detached_if_long(py, length, || reader.fill(out));
            Ok(())
        })
    }

    /// Like `digest`, in lower-case hexadecimal digits, two for each byte.
    #[pyo3(signature = (length = 32, *, seek = 0))]
    fn hexdigest<'py>(
        &self,
        py: Python<'py>,
        length: usize,
        seek: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        if length > isize::MAX as usize / 2 {
            return Err(PyOverflowError::new_err("no output is so long"));
        }
        self.digest(py, length, seek)?.call_method0("hex")
    }
}

impl Blake3 {
    /// Locks the hasher. Other Python threads can run while this one waits for the lock.
    ///
    /// Errors: `RuntimeError` if an update has panicked, which no known input causes.
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Box<Hasher>>> {
        let broken = |_: PoisonError<_>| PyRuntimeError::new_err("an earlier update failed");
        self.hasher.lock_py_attached(py).map_err(broken)
    }
}

// One separate function for each mode. So the compiler builds the hasher on the heap, where it touches little memory,
// instead of copying all of it there from the stack.

#[inline(never)]
fn plain() -> Box<Hasher> {
    Box::write(Box::new_uninit(), Hasher::new())
}

#[inline(never)]
fn keyed(key: &[u8; KEY_LEN]) -> Box<Hasher> {
    Box::write(Box::new_uninit(), Hasher::new_keyed(key))
}

#[inline(never)]
fn deriving(context: &str) -> Box<Hasher> {
    Box::write(Box::new_uninit(), Hasher::new_derive_key(context))
}

fn update(hasher: &mut Hasher, threads: &HashThreads, bytes: &[u8]) {
    threads.run(|several| {
        if several {
            hasher.update_rayon(bytes)
        } else {
            hasher.update(bytes)
        };
    });
}
