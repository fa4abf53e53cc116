//! The content store's second level, for packets that memory has no more room for.

use alloc::vec::Vec;

use xylem_packet::NameRef;

use crate::FaceId;

/// What a second level has for an Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondLevelAnswer {
    /// The Data was at hand, and was appended.
    Found,
    /// There is none, or too much is being read already.
    Absent,
    /// The Data is being read. [`SecondLevelCache::next_read`] returns this number when the read has ended. Several
    /// Interests may get the same number.
    Reading(u64),
}

/// A larger and slower cache for Data, such as a disk.
///
/// It may lose packets, fail, or return wrong ones. A returned packet is decoded again and its name is compared, and it
/// satisfies no Interest with MustBeFresh. The cache itself has to check the content, because a forwarder does not
/// verify Data.
///
/// No call may block: they run between two packets. A cache that would have to wait for a device leaves that to a
/// thread, answers [`SecondLevelAnswer::Reading`], and has [`crate::Forwarder::take_up_reads`] called at the end of the
/// read. The forwarder limits the number of Interests that wait for reads, and cancels reads that take too long.
pub trait SecondLevelCache {
    /// Stores a packet that memory has no more room for.
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]);

    /// Appends to `packet` the Data of this name or, with `can_be_prefix`, of a name that begins with it, if that is at
    /// hand. `asker` is the face of the Interest: a cache that reads gives each asker its turn.
    fn get(
        &mut self,
        asker: FaceId,
        name: NameRef<'_>,
        can_be_prefix: bool,
        packet: &mut Vec<u8>,
    ) -> SecondLevelAnswer;

    /// Returns the number of a read that has ended, each once, and appends its Data to `packet`, or nothing if the read
    /// failed.
    fn next_read(&mut self, packet: &mut Vec<u8>) -> Option<u64> {
        let _ = packet;
        None
    }

    /// Reports that one of the Interests that got this number waits no more. A read for which none waits need not be
    /// done, and is not returned by [`Self::next_read`].
    fn cancel(&mut self, read: u64) {
        let _ = read;
    }

    /// Removes packets under `prefix`, at most `limit`. Returns their number.
    fn erase(&mut self, prefix: NameRef<'_>, limit: u64) -> u64;
}
