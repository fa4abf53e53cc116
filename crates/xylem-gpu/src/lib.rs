//! [`GpuBytes`]: values of the BLAKE3 tree over bytes in an NVIDIA GPU's memory, computed there.
//!
//! The values are those of [`xylem_hash::tree`]: of *segments* of [`SEGMENT_LEN`] bytes, or of *regions* of
//! [`REGION_LEN`] bytes. A file's last segment may be shorter; its bytes are read ([`GpuBytes::read`]) and hashed by the
//! processor, as are bytes at both ends that share a segment with bytes elsewhere.
//!
//! The kernel is src/blake3.cu. The driver is loaded when it is first needed, and compiles the kernel's PTX for its card.
//! This crate does not know files, tickets or proofs.

mod device;

use xylem_hash::CHUNK_LEN;
use xylem_hash::tree::ChainingValue;

pub use device::{GpuBuffer, GpuBytes};

/// Bytes of a segment: 8 chunks.
pub const SEGMENT_LEN: u64 = 8 * CHUNK_LEN as u64;

/// Segments of a region.
pub const REGION_SEGMENTS: u64 = 512;

/// Bytes of a region.
pub const REGION_LEN: u64 = REGION_SEGMENTS * SEGMENT_LEN;

/// Why a GPU can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The driver's library could not be loaded.
    #[error("this machine has no NVIDIA driver (libcuda.so.1)")]
    NoDriver,
    /// The driver finds no GPU.
    #[error("the NVIDIA driver finds no GPU")]
    NoDevice,
    /// The driver does not know this memory, or only a part of it.
    #[error("{len} bytes at {address:#x} are not memory of a GPU that this process has allocated")]
    NotThere {
        /// The address of the first byte.
        address: u64,
        /// Number of bytes.
        len: u64,
    },
    /// The requested bytes are not within the memory, or not a whole number of segments or regions.
    #[error("{len} bytes from byte {offset} on do not fit a GPU's bytes, segments or regions")]
    OutOfRange {
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// A call of the driver failed.
    #[error("the NVIDIA driver failed to {task}: {reason}")]
    Driver {
        /// The failed task.
        task: &'static str,
        /// The driver's name and description of the error.
        reason: String,
    },
}

/// Whether the memory may still be written by work that was queued before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuPending {
    /// Nothing writes to it.
    Nothing,
    /// Work on any of the device's streams may; it is waited for.
    Work,
}

/// Which values are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuLevel {
    /// One for each segment.
    Segments,
    /// One for each region.
    Regions,
}

impl GpuLevel {
    /// Bytes under one value.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Segments => SEGMENT_LEN,
            Self::Regions => REGION_LEN,
        }
    }
}

/// The values in `bytes`, 32 bytes each.
fn values_in(bytes: &[u8]) -> impl Iterator<Item = ChainingValue> {
    let (values, _) = bytes.as_chunks::<32>();
    values.iter().copied().map(ChainingValue::from_bytes)
}
