//! The ratchet, for fuzz targets and benchmarks. It is compiled only in the package xylem-mail-internals
//! (`crates/xylem-mail/internals`), on which the program does not depend.

pub use crate::ratchet::{HEADER_LEN, MAX_KEPT, Ratchet, RatchetError};

/// Performs a symmetric step, and returns the message key.
#[must_use]
pub fn symmetric_step(chain: &[u8; 32]) -> [u8; 32] {
    *crate::ratchet::step(chain).message_key()
}
