//! What goes in and what comes out: one bare packet and what the link said, or is to say, around it.

use xylem_packet::{NackReason, NameRef};

use crate::FaceId;

/// A packet that a face received, without its link headers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Incoming<'a> {
    /// One whole bare Interest or Data.
    pub packet: &'a [u8],
    /// 1 to 32 octets of the neighbour's, which come back with the answer.
    pub pit_token: Option<&'a [u8]>,
    /// The packet is an Interest of ours that comes back, for this reason.
    pub nack: Option<NackReason>,
    /// 0 is no congestion.
    pub congestion_mark: Option<u64>,
    /// Where a local application wants its Interest to go (NextHopFaceId).
    pub next_hop: Option<FaceId>,
    /// A Data that is not to be kept (CachePolicy NoCache).
    pub no_cache: bool,
    /// An Interest that is not to be flooded (NonDiscovery).
    pub non_discovery: bool,
    /// What came with a Data: the Data by which somebody announces a prefix (PrefixAnnouncement).
    pub announcement: Option<&'a [u8]>,
}

impl<'a> Incoming<'a> {
    /// A packet without link headers.
    pub const fn bare(packet: &'a [u8]) -> Self {
        Incoming {
            packet,
            pit_token: None,
            nack: None,
            congestion_mark: None,
            next_hop: None,
            no_cache: false,
            non_discovery: false,
            announcement: None,
        }
    }
}

/// A packet for a face, and what its link is to say around it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outgoing<'a> {
    /// One whole bare Interest or Data. It lies either in the packet that came in, or in memory
    /// that the forwarder uses again.
    pub packet: &'a [u8],
    /// The token that the neighbour gave its Interest.
    pub pit_token: Option<&'a [u8]>,
    /// The packet is the neighbour's Interest, which goes back for this reason.
    pub nack: Option<NackReason>,
    /// Never 0.
    pub congestion_mark: Option<u64>,
    /// The face that the packet came over, for local applications that want to know
    /// (IncomingFaceId); `None` for what comes out of the content store.
    pub incoming_face: Option<FaceId>,
    /// The Interest is not to be flooded.
    pub non_discovery: bool,
    /// What is to travel with a Data: the Data by which somebody announces a prefix of its name.
    pub announcement: Option<&'a [u8]>,
}

/// What a self-learning forwarder hears of where prefixes are. Nothing of it is proven here.
#[derive(Debug, Clone, Copy)]
pub enum Lesson<'a> {
    /// Over this face came, with the Data of this name that the network was searched for, an announcement.
    Announced {
        /// The face.
        face: FaceId,
        /// The Data's name.
        name: NameRef<'a>,
        /// The Data by which a prefix is announced.
        announcement: &'a [u8],
    },
    /// Whoever is behind this face knows no way to this name any more.
    NoRoute {
        /// The face.
        face: FaceId,
        /// The Interest's name.
        name: NameRef<'a>,
    },
}

/// Takes what leaves. It is called in the middle of a packet's processing, so it can only queue.
pub trait Outlet {
    /// A packet for face `to`.
    fn send(&mut self, to: FaceId, packet: Outgoing<'_>);

    /// Something that whoever keeps the routes may learn. Others need not care.
    fn learned(&mut self, lesson: Lesson<'_>) {
        let _ = lesson;
    }
}

impl<F: FnMut(FaceId, Outgoing<'_>)> Outlet for F {
    fn send(&mut self, to: FaceId, packet: Outgoing<'_>) {
        self(to, packet);
    }
}

#[cfg(feature = "alloc")]
impl<'a> From<xylem_packet::link_service::Received<'a>> for Incoming<'a> {
    fn from(received: xylem_packet::link_service::Received<'a>) -> Self {
        let headers = received.headers;
        Incoming {
            packet: received.packet,
            pit_token: headers.pit_token,
            nack: headers.nack,
            congestion_mark: headers.congestion_mark,
            next_hop: headers.next_hop_face_id.map(FaceId),
            no_cache: headers.no_cache,
            non_discovery: headers.non_discovery,
            announcement: headers.prefix_announcement,
        }
    }
}
