//! The ratchet, for fuzz targets and benchmarks: compiled only in the package xylem-mail-internals
//! (`crates/xylem-mail/internals`), which the program does not depend on.

pub use crate::ratchet::{HEADER_LEN, MAX_KEPT, Ratchet, RatchetError};

/// The symmetric step; gives the message key.
#[must_use]
pub fn symmetric_step(chain: &[u8; 32]) -> [u8; 32] {
    *crate::ratchet::step(chain).message_key()
}
