//! The content store's second level: where packets go that memory has no more room for.

use alloc::vec::Vec;

use xylem_packet::NameRef;

/// A larger and slower place for Data, such as a disk.
///
/// It may forget, fail or lie: what it gives back is decoded again and its name compared, and it
/// satisfies no Interest with MustBeFresh. Whether the content is what it was is for this cache
/// to check: Data is not verified in a forwarder.
pub trait SecondLevelCache {
    /// Takes a packet that memory has no more room for.
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]);

    /// Appends to `packet` the Data of this name, or, with `can_be_prefix`, of a name that begins
    /// with it; false if there is none.
    fn get(&mut self, name: NameRef<'_>, can_be_prefix: bool, packet: &mut Vec<u8>) -> bool;

    /// Forgets packets under `prefix`, at most `limit`; gives how many.
    fn erase(&mut self, prefix: NameRef<'_>, limit: u64) -> u64;
}
