//! Helpers of simulated nodes: a published file without a disk, and frames of the application.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use xylem_forward::{FaceId, IncomingPacket};
use xylem_hash::Hash;
use xylem_object::ObjectSource;
use xylem_object::naming::ObjectId;
use xylem_packet::Packet;
use xylem_tree::{Geometry, NodeSource, Outboard, SegmentSize};

/// The address of a node, by its number.
pub(crate) fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node as u8 + 1], 7348))
}

/// The packet within a frame of the application, and the next hop that it may have chosen.
pub(crate) fn without_headers(frame: &Bytes) -> Option<IncomingPacket<'_>> {
    match Packet::decode(frame).ok()? {
        Packet::Lp(lp) => Some(IncomingPacket {
            next_hop: lp.next_hop_face_id.map(FaceId),
            ..IncomingPacket::bare(lp.fragment?)
        }),
        _ => Some(IncomingPacket::bare(frame)),
    }
}

/// A file and its outboard.
pub(crate) struct Stored {
    pub content: Vec<u8>,
    pub outboard: Outboard,
}

impl Stored {
    pub(crate) fn new(content: Vec<u8>) -> Rc<Self> {
        let outboard = Outboard::of(&content, SegmentSize::DEFAULT);
        Rc::new(Self { content, outboard })
    }
}

/// A file as a publication reads it.
pub(crate) struct Reader(pub Rc<Stored>);

impl ObjectSource for Reader {
    type Error = Infallible;

    fn geometry(&mut self, _: ObjectId) -> Option<Geometry> {
        Some(*self.0.outboard.geometry())
    }

    fn read_content(&mut self, _: ObjectId, at: u64, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.0.content[at as usize..at as usize + out.len()]);
        Ok(())
    }

    fn read_nodes(&mut self, _: ObjectId, slot: u64, out: &mut [u8]) -> Result<(), Infallible> {
        self.0.outboard.as_bytes().read_nodes(slot, out).expect("slots of this tree");
        Ok(())
    }

    fn root(&mut self, _: ObjectId) -> Option<Hash> {
        Some(self.0.outboard.root())
    }
}
