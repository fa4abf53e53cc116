//! Packets on their way in and out: a bare packet with its link headers.

use xylem_packet::{NackReason, NameRef};

use crate::FaceId;

/// A packet that a face received, without its link headers.
#[derive(Debug, Clone, Copy, Default)]
pub struct IncomingPacket<'a> {
    /// One whole bare Interest or Data.
    pub packet: &'a [u8],
    /// The neighbour's PIT token of 1 to 32 octets, which is returned with the answer.
    pub pit_token: Option<&'a [u8]>,
    /// If set, the packet is an Interest of ours that comes back, for this reason.
    pub nack: Option<NackReason>,
    /// 0 means no congestion.
    pub congestion_mark: Option<u64>,
    /// The face to which a local application wants its Interest to go (NextHopFaceId).
    pub next_hop: Option<FaceId>,
    /// The Data must not be cached (CachePolicy NoCache).
    pub no_cache: bool,
    /// The Interest must not be flooded (NonDiscovery).
    pub non_discovery: bool,
    /// The Data in which a prefix is announced (PrefixAnnouncement), received with a Data.
    pub announcement: Option<&'a [u8]>,
}

impl<'a> IncomingPacket<'a> {
    /// A packet without link headers.
    pub const fn bare(packet: &'a [u8]) -> Self {
        IncomingPacket {
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

/// A packet for a face, with its link headers.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutgoingPacket<'a> {
    /// One whole bare Interest or Data. It lies in the incoming packet or in a buffer that the forwarder reuses.
    pub packet: &'a [u8],
    /// The PIT token of the neighbour's Interest.
    pub pit_token: Option<&'a [u8]>,
    /// If set, the packet is the neighbour's Interest, which goes back for this reason.
    pub nack: Option<NackReason>,
    /// Never 0.
    pub congestion_mark: Option<u64>,
    /// The face that the packet arrived on, for local applications that request it (IncomingFaceId). `None` for a
    /// packet from the content store.
    pub incoming_face: Option<FaceId>,
    /// The Interest must not be flooded.
    pub non_discovery: bool,
    /// The Data in which a prefix of the name is announced, to be sent with a Data.
    pub announcement: Option<&'a [u8]>,
}

/// News about routes for a self-learning forwarder. None of it is verified yet.
#[derive(Debug, Clone, Copy)]
pub enum LearnedRoute<'a> {
    /// A Data that the network was searched for arrived with an announcement.
    Announced {
        /// The face that it arrived on.
        face: FaceId,
        /// The Data's name.
        name: NameRef<'a>,
        /// The Data in which a prefix is announced.
        announcement: &'a [u8],
    },
    /// The neighbour behind a face has no route to a name any more.
    NoRoute {
        /// The face.
        face: FaceId,
        /// The Interest's name.
        name: NameRef<'a>,
    },
}

/// Receives what the forwarder sends. It is called while a packet is being handled, so it can only queue.
pub trait Outlet {
    /// Sends a packet to face `to`.
    fn send(&mut self, to: FaceId, packet: OutgoingPacket<'_>);

    /// Passes on what was learned, for the owner of the routes. Other owners need not implement it.
    fn on_learned(&mut self, lesson: LearnedRoute<'_>) {
        let _ = lesson;
    }
}

impl<F: FnMut(FaceId, OutgoingPacket<'_>)> Outlet for F {
    fn send(&mut self, to: FaceId, packet: OutgoingPacket<'_>) {
        self(to, packet);
    }
}

#[cfg(feature = "alloc")]
impl<'a> From<xylem_packet::link_service::ReceivedPacket<'a>> for IncomingPacket<'a> {
    fn from(received: xylem_packet::link_service::ReceivedPacket<'a>) -> Self {
        let headers = received.headers;
        IncomingPacket {
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
