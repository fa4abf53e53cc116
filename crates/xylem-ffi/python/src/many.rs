//! `hash_many`: hashes many messages side by side.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList};
use xylem_hash::{Hash, KEY_LEN, OUT_LEN};

use crate::buffers::{self, BufferSource};
use crate::detached_if_long;
use crate::threads::HashThreads;

/// Bytes from which on another thread is worth waking; about 50 microseconds of work.
const SHARE_LEN: usize = 256 * 1024;

/// Returns the hash of each of many messages, like `blake3(message, key=key).digest()`. For short messages it is
/// several times as fast, because messages fill the processor's lanes together.
///
/// Arguments:
/// - inputs: an iterable of buffers of any lengths, for which a list of `bytes` is returned; or an
///   array of two dimensions and items of one byte, whose rows are the messages. A NumPy array
///   gives a NumPy array of shape (rows, 32), other arrays (a memoryview) give a list.
/// - key: 32 bytes, for keyed hashes.
/// - max_threads: as for `blake3`.
#[pyfunction]
#[pyo3(signature = (inputs, /, *, key = None, max_threads = 1))]
pub fn hash_many<'py>(
    py: Python<'py>,
    inputs: &Bound<'py, PyAny>,
    key: Option<&Bound<'py, PyAny>>,
    max_threads: isize,
) -> PyResult<Bound<'py, PyAny>> {
    let key = key.map(buffers::key).transpose()?;
    let threads = HashThreads::at_most(max_threads)?;
    let all = |messages: &[&[u8]]| hashes(py, messages, key.as_ref(), &threads);
    if let Ok(array) = BufferSource::of(inputs) {
        let hashes = all(&array.rows()?);
        return match numpy_of(inputs)? {
            Some(numpy) => as_array(&numpy, &hashes),
            None => as_list(py, &hashes),
        };
    }
    let sources =
        inputs.try_iter()?.map(|item| BufferSource::of(&item?)).collect::<PyResult<Vec<_>>>()?;
    let messages = sources.iter().map(BufferSource::bytes).collect::<PyResult<Vec<_>>>()?;
    as_list(py, &all(&messages))
}

fn hashes(
    py: Python<'_>,
    messages: &[&[u8]],
    key: Option<&[u8; KEY_LEN]>,
    threads: &HashThreads,
) -> Vec<Hash> {
    let mut out = vec![Hash::from_bytes([0; OUT_LEN]); messages.len()];
    let len = messages.iter().map(|message| message.len()).sum();
    let work = || threads.run(|several| shared(messages, len, key, several, &mut out));
    // Many empty messages take time, too.
    detached_if_long(py, len.saturating_add(messages.len()), work);
    out
}

/// Hashes `messages` (of `len` bytes in all). Splits them in halves while each half is worth a thread.
fn shared(
    messages: &[&[u8]],
    len: usize,
    key: Option<&[u8; KEY_LEN]>,
    several: bool,
    out: &mut [Hash],
) {
    if !several || len < 2 * SHARE_LEN || messages.len() < 2 {
        return match key {
            Some(key) => xylem_hash::keyed_hash_many(key, messages, out),
            None => xylem_hash::hash_many(messages, out),
        };
    }
    let (left, right) = messages.split_at(messages.len() / 2);
    let (left_out, right_out) = out.split_at_mut(left.len());
    let left_len = left.iter().map(|message| message.len()).sum();
    rayon_core::join(
        || shared(left, left_len, key, several, left_out),
        || shared(right, len - left_len, key, several, right_out),
    );
}

fn as_list<'py>(py: Python<'py>, hashes: &[Hash]) -> PyResult<Bound<'py, PyAny>> {
    let digests = hashes.iter().map(|hash| PyBytes::new(py, hash.as_bytes()));
    Ok(PyList::new(py, digests)?.into_any())
}

/// The module `numpy` if `array` is a NumPy array; it has been imported in that case.
fn numpy_of<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = array.py().import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    match modules.get_item("numpy")? {
        Some(numpy) if array.is_instance(&numpy.getattr("ndarray")?)? => Ok(Some(numpy)),
        _ => Ok(None),
    }
}

/// A writable array of shape (count, 32) with memory of its own.
fn as_array<'py>(numpy: &Bound<'py, PyAny>, hashes: &[Hash]) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyByteArray::new_with(numpy.py(), hashes.len() * OUT_LEN, |out| {
        for (place, hash) in out.as_chunks_mut::<OUT_LEN>().0.iter_mut().zip(hashes) {
            *place = *hash.as_bytes();
        }
        Ok(())
    })?;
    numpy.getattr("ndarray")?.call1(((hashes.len(), OUT_LEN), "uint8", bytes))
}
