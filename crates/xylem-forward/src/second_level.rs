//! The content store's second level, for packets that memory has no more room for.

use alloc::vec::Vec;

use xylem_packet::NameRef;

/// A larger and slower cache for Data, such as a disk.
///
/// It may lose packets, fail, or return wrong ones. A returned packet is decoded again and its name is compared, and it
/// satisfies no Interest with MustBeFresh. The cache itself has to check the content, because a forwarder does not
/// verify Data.
pub trait SecondLevelCache {
    /// Stores a packet that memory has no more room for.
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]);

    /// Appends to `packet` the Data of this name or, with `can_be_prefix`, of a name that begins with it. Returns false
    /// if there is none.
    fn get(&mut self, name: NameRef<'_>, can_be_prefix: bool, packet: &mut Vec<u8>) -> bool;

    /// Removes packets under `prefix`, at most `limit`. Returns their number.
    fn erase(&mut self, prefix: NameRef<'_>, limit: u64) -> u64;
}
