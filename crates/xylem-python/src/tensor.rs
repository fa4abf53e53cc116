//! `verify_tensor`: bytes in memory, of this machine or of a GPU, compared with a ticket.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};
use xylem::{
    Blame, CopiedMemory, Failure, HashedMemory, MemoryPlace, VerificationError,
    VerifyMemoryOptions, VerifySummary,
};

use crate::errors::gpu_failure;
use crate::fetching::{Damage, Verified, peers, seconds, store, summarised, ticket};
use crate::running::{RunningCall, log};

/// Why memory can't be hashed.
#[derive(Debug)]
struct MemoryFailure(String);

impl std::fmt::Display for MemoryFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MemoryFailure {}

impl Failure for MemoryFailure {
    fn blame(&self) -> Blame {
        Blame::Local
    }
}

fn failed(why: impl ToString) -> Box<dyn Failure> {
    Box::new(MemoryFailure(why.to_string()))
}

/// Where the bytes are.
enum TensorBytes {
    /// In a `memoryview` of bytes, and their number.
    Host(Py<PyAny>, u64),
    /// In a GPU's memory: address, number, and whether queued work may still write them.
    Gpu(u64, u64, bool),
}

/// Copies bytes of a `memoryview`.
fn copy(view: &Py<PyAny>, offset: u64, out: &mut [u8]) -> Result<(), Box<dyn Failure>> {
    Python::attach(|py| {
        let start = isize::try_from(offset).unwrap_or(isize::MAX);
        let end = start.saturating_add_unsigned(out.len());
        let part = view.bind(py).get_item(PySlice::new(py, start, end, 1))?;
        let part = part.call_method0("tobytes")?;
        let part: &Bound<'_, PyBytes> = part.cast()?;
        let bytes = part.as_bytes();
        if bytes.len() == out.len() {
            out.copy_from_slice(bytes);
        }
        PyResult::Ok(bytes.len() == out.len())
    })
    .map_err(failed)?
    .then_some(())
    .ok_or_else(|| failed("the memory is smaller than it was"))
}

/// Compares, with the bytes where they are.
fn compare(
    bytes: TensorBytes,
    run: &mut dyn FnMut(&mut dyn HashedMemory) -> Result<VerifySummary, VerificationError>,
) -> Result<VerifySummary, VerificationError> {
    match bytes {
        TensorBytes::Host(view, size) => {
            run(&mut CopiedMemory::new(size, |offset, out| copy(&view, offset, out)))
        }
        TensorBytes::Gpu(address, len, pending) => {
            run(&mut *on_gpu(address, len, pending).map_err(VerificationError::Memory)?)
        }
    }
}

#[cfg(not(feature = "gpu"))]
fn on_gpu(_: u64, _: u64, _: bool) -> Result<Box<dyn HashedMemory>, Box<dyn Failure>> {
    Err(failed("this build of xylem was made without support for GPUs (its feature gpu)"))
}

#[cfg(feature = "gpu")]
fn on_gpu(
    address: u64,
    len: u64,
    pending: bool,
) -> Result<Box<dyn HashedMemory>, Box<dyn Failure>> {
    use xylem_gpu::{GpuBytes, GpuPending};
    let pending = if pending { GpuPending::Work } else { GpuPending::Nothing };
    Ok(Box::new(gpu::GpuTensor(GpuBytes::new(address, len, pending).map_err(failed)?)))
}

#[cfg(feature = "gpu")]
mod gpu {
    use xylem::{ChainingValue, Failure, HashedMemory};
    use xylem_gpu::{GpuBytes, GpuLevel, REGION_LEN, SEGMENT_LEN};

    use super::failed;

    /// Bytes of a tensor in a GPU's memory.
    pub(super) struct GpuTensor(pub(super) GpuBytes);

    impl GpuTensor {
        fn values(
            &self,
            offset: u64,
            first: u64,
            count: u64,
            level: GpuLevel,
            out: &mut Vec<ChainingValue>,
        ) -> Result<(), Box<dyn Failure>> {
            // The library asks for places within a file.
            let chunks = level.bytes() / 1_024;
            self.0.values(offset, count * level.bytes(), first * chunks, level, out).map_err(failed)
        }
    }

    // Both crates have to mean the same.
    const _: () = assert!(REGION_LEN == xylem::REGION_SEGMENTS * SEGMENT_LEN);

    impl HashedMemory for GpuTensor {
        fn size(&self) -> u64 {
            self.0.len()
        }

        fn segment_values(
            &mut self,
            offset: u64,
            first: u64,
            segments: u64,
            out: &mut Vec<ChainingValue>,
        ) -> Result<(), Box<dyn Failure>> {
            self.values(offset, first, segments, GpuLevel::Segments, out)
        }

        fn region_values(
            &mut self,
            offset: u64,
            first: u64,
            regions: u64,
            out: &mut Vec<ChainingValue>,
        ) -> Result<(), Box<dyn Failure>> {
            self.values(offset, first, regions, GpuLevel::Regions, out)
        }

        fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), Box<dyn Failure>> {
            self.0.read(offset, out).map_err(failed)
        }
    }
}

/// Compares bytes in memory with a ticket: those of `view`, a `memoryview` of bytes, or those of a GPU, given by
/// address, number, and whether queued work may still write them.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python's keywords")]
#[pyo3(signature = (view, gpu, ticket, path, offset, store, peers, timeout))]
pub(crate) fn verify_tensor(
    py: Python<'_>,
    view: Option<Bound<'_, PyAny>>,
    gpu: Option<(u64, u64, bool)>,
    ticket: &str,
    path: Option<PathBuf>,
    offset: u64,
    store: Option<PathBuf>,
    peers: Vec<String>,
    timeout: f64,
) -> PyResult<(Verified, Vec<Damage>)> {
    let bytes = match (view, gpu) {
        (_, Some((address, len, pending))) => TensorBytes::Gpu(address, len, pending),
        (Some(view), None) => {
            let size = view.len()? as u64;
            TensorBytes::Host(view.unbind(), size)
        }
        (None, None) => TensorBytes::Host(PyBytes::new(py, b"").into_any().unbind(), 0),
    };
    let is_host = matches!(bytes, TensorBytes::Host(..));
    let path = path.map(|path| path.into_os_string().into_encoded_bytes());
    let options = VerifyMemoryOptions {
        ticket: self::ticket(ticket)?,
        place: MemoryPlace { path, offset },
        from: self::peers(&peers)?,
        give_up: seconds(timeout)?,
        store: self::store(store)?,
    };
    // A failure of the memory has an exception of its own.
    let running = RunningCall::start(move |stop, mut on_event| {
        let mut run = |memory: &mut dyn HashedMemory| {
            xylem::verify_memory(memory, &options, stop, &mut on_event)
        };
        match compare(bytes, &mut run) {
            Err(VerificationError::Memory(why)) if !is_host => Ok(Err(why.to_string())),
            compared => Ok(Ok(compared?)),
        }
    })?;
    match running.finish(py, |event| log(py, &event))? {
        Ok(found) => Ok(summarised(found)),
        Err(why) => Err(gpu_failure(&why)),
    }
}
