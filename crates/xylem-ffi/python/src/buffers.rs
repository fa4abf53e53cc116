//! [`Source`]: the bytes of a Python object, borrowed for a call.

use std::slice;

use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use xylem_hash::KEY_LEN;

/// An object with readable bytes. While this value exists, the object is neither freed nor resized.
pub enum BufferSource<'py> {
    /// A `bytes` object. It needs no buffer view, which matters for many small messages.
    Bytes(Bound<'py, PyBytes>),
    /// A view of signed or unsigned bytes, in any number of dimensions.
    View(PyUntypedBuffer),
}

impl<'py> BufferSource<'py> {
    /// Errors: `TypeError` if the object has no buffer, `BufferError` if not one of bytes.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone()));
        }
        let view = PyUntypedBuffer::get(object)?;
        match ElementType::from_format(view.format()) {
            ElementType::UnsignedInteger { bytes: 1 } | ElementType::SignedInteger { bytes: 1 } => {
                Ok(Self::View(view))
            }
            _ => Err(PyBufferError::new_err("the buffer's items are not bytes")),
        }
    }

    /// All bytes, in memory order.
    ///
    /// Errors: `BufferError` if they are not contiguous.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.as_bytes()),
            Self::View(view) if view.is_c_contiguous() => {
                // SAFETY: a contiguous view is `len_bytes` bytes from its start; `self` holds it.
                Ok(unsafe { lent(view.buf_ptr().cast::<u8>(), view.len_bytes()) })
            }
            Self::View(_) => Err(PyBufferError::new_err("the buffer is not contiguous")),
        }
    }

    /// The rows of an array of two dimensions. The bytes of each row are contiguous; rows may be apart, like those of a
    /// slice of a wider array.
    ///
    /// Errors: `TypeError` unless there are two dimensions, `BufferError` if the bytes of a row are not contiguous.
    pub fn rows(&self) -> PyResult<Vec<&[u8]>> {
        let Self::View(view) = self else { return Err(not_rows()) };
        let (&[rows, columns], &[row_step, step]) = (view.shape(), view.strides()) else {
            return Err(not_rows());
        };
        if view.suboffsets().is_some() || (step != 1 && columns > 1) {
            return Err(PyBufferError::new_err("the rows are not contiguous"));
        }
        if columns == 0 {
            return Ok(vec![&[]; rows]);
        }
        let start = view.buf_ptr().cast::<u8>();
        let row = |i: usize| {
            // SAFETY: in a view of this shape, row `i` starts that many steps from the view's start (there are no
            // suboffsets), and a row's bytes are contiguous (checked above); `self` holds the view. The multiplication
            // cannot overflow: the exporter has memory there.
            unsafe { lent(start.wrapping_offset(i as isize * row_step), columns) }
        };
        Ok((0..rows).map(row).collect())
    }
}

fn not_rows() -> PyErr {
    PyTypeError::new_err("expected an iterable of buffers, or an array of two dimensions")
}

/// The bytes of a view.
///
/// # Safety
/// `start` must point to `len` readable bytes, unless `len` is 0, as long as the view is held.
///
/// One thing is left to the user, here as in `hashlib` and in every extension that releases the interpreter: no thread
/// should write to a mutable buffer while it is hashed. Otherwise the hash is that of a mixture of old and new bytes.
/// (Rust calls that a data race; the hash reads each byte as a number, and no branch, index or length depends on one.)
unsafe fn lent<'a>(start: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { slice::from_raw_parts(start, len) }
}

/// Reads a key.
///
/// Errors: those of [`Source::of`] and [`Source::bytes`], and `ValueError` for a wrong length.
pub fn key(object: &Bound<'_, PyAny>) -> PyResult<[u8; KEY_LEN]> {
    let source = BufferSource::of(object)?;
    let bytes = source.bytes()?;
    bytes.try_into().map_err(|_| {
        PyValueError::new_err(format!("a key has {KEY_LEN} bytes, not {}", bytes.len()))
    })
}
