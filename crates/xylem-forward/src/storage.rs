//! The memory of a forwarder's tables: on the heap ([`Heap`]) or in arrays ([`Fixed`]).

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use crate::content_store::packet::CsEntry;
use crate::content_store::tree::Node;
use crate::face::Face;
use crate::fib::NextHop;
use crate::measurements::Measurement;
#[cfg(feature = "alloc")]
use crate::memory::Chunks;
use crate::memory::{Array, Flat, Slots};
use crate::names::Piece;
use crate::pit::entry::{Entry, InRecord, OutRecord};
use crate::prefixes::Prefix;
use crate::recent::Row;
use crate::slab::Place;
use crate::strategy_choice::Strategy;
use crate::table::Slot;

/// The memory of each table of a [`crate::Forwarder`]. Implemented by [`Heap`] and [`Fixed`] only, because its types
/// are the forwarder's own.
#[doc(hidden)]
pub trait Storage: sealed::Sealed {
    type Faces: Slots<Slot<Face>>;
    type Pit: Slots<Slot<Entry>>;
    type InRecords: Slots<Place<InRecord>>;
    type OutRecords: Slots<Place<OutRecord>>;
    type Pieces: Slots<Place<Piece>>;
    type Routes: Slots<Slot<Prefix<Self::Hops>>>;
    type Hops: Flat<NextHop>;
    type Choices: Slots<Slot<Prefix<Strategy>>>;
    type Regions: Slots<Slot<Prefix<()>>>;
    type Packets: Slots<Place<CsEntry<Self::Packet>>>;
    type Packet: Flat<u8>;
    type Nodes: Slots<Slot<Node>>;
    type Buckets: Flat<u32>;
    type Nonces: Flat<Row<()>>;
    type Measurements: Flat<Row<Measurement>>;
    type Scratch: Flat<u8>;
    type Ids: Flat<u32>;
}

mod sealed {
    pub trait Sealed {}
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
impl sealed::Sealed for Heap {}

#[cfg(feature = "alloc")]
impl Storage for Heap {
    type Faces = Chunks<Slot<Face>>;
    type Pit = Chunks<Slot<Entry>>;
    type InRecords = Chunks<Place<InRecord>>;
    type OutRecords = Chunks<Place<OutRecord>>;
    type Pieces = Chunks<Place<Piece>>;
    type Routes = Chunks<Slot<Prefix<Self::Hops>>>;
    type Hops = Vec<NextHop>;
    type Choices = Chunks<Slot<Prefix<Strategy>>>;
    type Regions = Chunks<Slot<Prefix<()>>>;
    type Packets = Chunks<Place<CsEntry<Self::Packet>>>;
    type Packet = Vec<u8>;
    type Nodes = Chunks<Slot<Node>>;
    type Buckets = Vec<u32>;
    type Nonces = Vec<Row<()>>;
    type Measurements = Vec<Row<Measurement>>;
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
> sealed::Sealed for Fixed<FACES, PIT, FIB, CS, PACKET, SMALL>
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
    type Faces = Array<Slot<Face>, FACES>;
    type Pit = Array<Slot<Entry>, PIT>;
    type InRecords = Array<Place<InRecord>, PIT>;
    type OutRecords = Array<Place<OutRecord>, PIT>;
    type Pieces = Array<Place<Piece>, SMALL>;
    type Routes = Array<Slot<Prefix<Self::Hops>>, FIB>;
    type Hops = Array<NextHop, 4>;
    type Choices = Array<Slot<Prefix<Strategy>>, FIB>;
    type Regions = Array<Slot<Prefix<()>>, 4>;
    type Packets = Array<Place<CsEntry<Self::Packet>>, CS>;
    type Packet = Array<u8, PACKET>;
    type Nodes = Array<Slot<Node>, SMALL>;
    type Buckets = Array<u32, PIT>;
    type Nonces = Array<Row<()>, SMALL>;
    type Measurements = Array<Row<Measurement>, FIB>;
    type Scratch = Array<u8, PACKET>;
    type Ids = Array<u32, PIT>;
}
