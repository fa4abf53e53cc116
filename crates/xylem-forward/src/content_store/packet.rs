//! A packet in the content store.

use crate::memory::Flat;
use crate::slab::NONE;

/// A packet in the content store.
#[derive(Debug)]
pub struct CsEntry<P> {
    pub(super) packet: P,
    /// Position of the name's value in the packet.
    pub(super) name_start: u16,
    pub(super) name_len: u16,
    /// In microseconds.
    pub(super) fresh_until: u64,
    pub(super) newer: u32,
    pub(super) older: u32,
    pub(super) node: u32,
    /// The beginning of its implicit digest; 0 while that was not needed.
    pub(super) digest_start: u32,
}

impl<P: Default> Default for CsEntry<P> {
    fn default() -> Self {
        CsEntry {
            packet: P::default(),
            name_start: 0,
            name_len: 0,
            fresh_until: 0,
            newer: NONE,
            older: NONE,
            node: NONE,
            digest_start: 0,
        }
    }
}

impl<P: Flat<u8>> CsEntry<P> {
    pub(super) fn name(&self) -> &[u8] {
        let start = usize::from(self.name_start);
        &self.packet.as_slice()[start..start + usize::from(self.name_len)]
    }
}
