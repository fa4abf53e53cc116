//! The memory of a forwarder's tables: on the heap ([`Heap`]) or in arrays ([`Fixed`]).

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use crate::content_store::packet::CsEntry;
use crate::content_store::tree::NameNode;
use crate::face::FaceEntry;
use crate::fib::NextHop;
use crate::measurements::NextHopMeasurement;
#[cfg(feature = "alloc")]
use crate::memory::Chunks;
use crate::memory::{Array, Flat, Slots};
use crate::names::Piece;
use crate::pit::entry::{InRecord, OutRecord, PitEntry};
use crate::prefixes::Prefix;
use crate::recent::RecentRow;
use crate::slab::SlabPlace;
use crate::strategy_choice::ForwardingStrategy;
use crate::table::TableSlot;

/// The memory of each table of a [`crate::Forwarder`]. Implemented by [`Heap`] and [`Fixed`] only, because its types
/// are the forwarder's own.
#[doc(hidden)]
pub trait Storage: sealed::SealedStorage {
    type Faces: Slots<TableSlot<FaceEntry>>;
    type Pit: Slots<TableSlot<PitEntry>>;
    type InRecords: Slots<SlabPlace<InRecord>>;
    type OutRecords: Slots<SlabPlace<OutRecord>>;
    type Pieces: Slots<SlabPlace<Piece>>;
    type Routes: Slots<TableSlot<Prefix<Self::Hops>>>;
    type Hops: Flat<NextHop>;
    type Choices: Slots<TableSlot<Prefix<ForwardingStrategy>>>;
    type Regions: Slots<TableSlot<Prefix<()>>>;
    type Packets: Slots<SlabPlace<CsEntry<Self::Packet>>>;
    type Packet: Flat<u8>;
    type Nodes: Slots<TableSlot<NameNode>>;
    type Buckets: Flat<u32>;
    type Nonces: Flat<RecentRow<()>>;
    type Measurements: Flat<RecentRow<NextHopMeasurement>>;
    type Scratch: Flat<u8>;
    type Ids: Flat<u32>;
}

mod sealed {
    pub trait SealedStorage {}
}

/// Tables on the heap.
#[cfg(feature = "alloc")]
#[derive(Debug, Clone, Copy)]
pub struct Heap;

/// Tables in arrays: `FACES` faces (at most 32), `PIT` pending Interests, `FIB` prefixes with at most four next hops
/// each, and `CS` cached packets of at most `PACKET` bytes. `SMALL` is the number of each of these: pieces of 28 bytes
/// of long names, nodes of the content store's tree of names, remembered nonces.
///
/// An Interest longer than `PACKET` bytes that has to be changed is dropped.
#[derive(Debug, Clone, Copy)]
pub struct Fixed<
    const FACES: usize,
    const PIT: usize,
    const FIB: usize,
    const CS: usize,
    const PACKET: usize,
    const SMALL: usize,
>;

/// The default memory of a forwarder.
#[cfg(feature = "alloc")]
pub type Standard = Heap;
/// The default memory of a forwarder.
#[cfg(not(feature = "alloc"))]
pub type Standard = Fixed<8, 64, 16, 16, 1024, 128>;

#[cfg(feature = "alloc")]
impl sealed::SealedStorage for Heap {}

#[cfg(feature = "alloc")]
impl Storage for Heap {
    type Faces = Chunks<TableSlot<FaceEntry>>;
    type Pit = Chunks<TableSlot<PitEntry>>;
    type InRecords = Chunks<SlabPlace<InRecord>>;
    type OutRecords = Chunks<SlabPlace<OutRecord>>;
    type Pieces = Chunks<SlabPlace<Piece>>;
    type Routes = Chunks<TableSlot<Prefix<Self::Hops>>>;
    type Hops = Vec<NextHop>;
    type Choices = Chunks<TableSlot<Prefix<ForwardingStrategy>>>;
    type Regions = Chunks<TableSlot<Prefix<()>>>;
    type Packets = Chunks<SlabPlace<CsEntry<Self::Packet>>>;
    type Packet = Vec<u8>;
    type Nodes = Chunks<TableSlot<NameNode>>;
    type Buckets = Vec<u32>;
    type Nonces = Vec<RecentRow<()>>;
    type Measurements = Vec<RecentRow<NextHopMeasurement>>;
    type Scratch = Vec<u8>;
    type Ids = Vec<u32>;
}

impl<
    const FACES: usize,
    const PIT: usize,
    const FIB: usize,
    const CS: usize,
    const PACKET: usize,
    const SMALL: usize,
> sealed::SealedStorage for Fixed<FACES, PIT, FIB, CS, PACKET, SMALL>
{
}

impl<
    const FACES: usize,
    const PIT: usize,
    const FIB: usize,
    const CS: usize,
    const PACKET: usize,
    const SMALL: usize,
> Storage for Fixed<FACES, PIT, FIB, CS, PACKET, SMALL>
{
    type Faces = Array<TableSlot<FaceEntry>, FACES>;
    type Pit = Array<TableSlot<PitEntry>, PIT>;
    type InRecords = Array<SlabPlace<InRecord>, PIT>;
    type OutRecords = Array<SlabPlace<OutRecord>, PIT>;
    type Pieces = Array<SlabPlace<Piece>, SMALL>;
    type Routes = Array<TableSlot<Prefix<Self::Hops>>, FIB>;
    type Hops = Array<NextHop, 4>;
    type Choices = Array<TableSlot<Prefix<ForwardingStrategy>>, FIB>;
    type Regions = Array<TableSlot<Prefix<()>>, 4>;
    type Packets = Array<SlabPlace<CsEntry<Self::Packet>>, CS>;
    type Packet = Array<u8, PACKET>;
    type Nodes = Array<TableSlot<NameNode>, SMALL>;
    type Buckets = Array<u32, PIT>;
    type Nonces = Array<RecentRow<()>, SMALL>;
    type Measurements = Array<RecentRow<NextHopMeasurement>, FIB>;
    type Scratch = Array<u8, PACKET>;
    type Ids = Array<u32, PIT>;
}
