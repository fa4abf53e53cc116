//! Faces: one [`Transport`] each (in-process, Unix, TCP, UDP, multicast, Ethernet, WebSocket or encrypted link) with an NDNLPv2
//! link service around it.
//!
//! Bytes come from sockets that never block and go to them; [`crate::Engine`] decides when. This module does not
//! forward, and knows no names.

mod limits;
mod table;

pub(crate) use limits::admission;
pub use limits::{FaceLimits, FaceTrouble};
pub(crate) use table::EngineFaces;

use std::net::SocketAddr;
use std::time::Duration;

use xylem_forward::{FaceScope, LinkType};
use xylem_link::LinkId;
use xylem_mgmt::{FaceUri, Persistency};
use xylem_packet::link_service::{LinkService, LinkServiceConfig};
use xylem_packet::{MAX_FRAME, MAX_PACKET};
use xylem_peers::admission::{AdmissionSlot, UnprovenAddress};
use xylem_peers::reachable::{FaceAddress, PeerAddress};
use xylem_sockets::{PacketStream, WebSocketFace};

/// The transport of a face.
pub enum Transport {
    /// An application or the management in this process.
    Internal,
    /// An encrypted link.
    Link(LinkId),
    /// Plain NDN over UDP.
    Udp {
        /// The number of the socket.
        socket: usize,
        /// The far end.
        remote: SocketAddr,
        /// The state of the challenge, while the far end's address is not proven.
        unproven: Option<Box<UnprovenAddress>>,
    },
    /// A multicast group, by number.
    Multicast(usize),
    /// NDN over Ethernet.
    Ethernet {
        /// The number of the interface.
        device: usize,
        /// The far end's address, or NDN's group.
        remote: [u8; 6],
    },
    /// Plain NDN over TCP or a Unix socket.
    Stream(Box<PacketStream>),
    /// NDN over WebSocket.
    WebSocket(Box<WebSocketFace>),
    /// A permanent face without a connection, and when to dial again.
    Down(Duration),
}

/// One face.
pub struct EngineFace {
    /// The transport.
    pub transport: Transport,
    /// Its NDNLPv2 link service.
    pub link_service: LinkService,
    /// The peer to dial again, where this end can.
    pub peer: Option<PeerAddress>,
    /// The other end, as shown to users.
    pub address: FaceAddress,
    /// Face URI of the far end; `fd://` where only that end can connect.
    pub remote: FaceUri,
    /// Face URI of this end.
    pub local: FaceUri,
    /// Whether the other end is on this machine.
    pub scope: FaceScope,
    /// One peer or a group.
    pub link_type: LinkType,
    /// When the face ends.
    pub persistency: Persistency,
    /// Its place among the faces that other ends have made.
    pub seat: Option<AdmissionSlot>,
    /// When the last frame arrived.
    pub last_received: Duration,
    /// When its connection last came up.
    pub up_since: Duration,
    /// Something waits to be written.
    pub unflushed: bool,
    /// Its connection was up once; before that its end is a failed dial.
    pub came_up: bool,
    /// The program knows that a permanent face is down.
    pub reported_down: bool,
}

impl EngineFace {
    /// Makes a face with the link service that its transport needs.
    pub fn new(
        transport: Transport,
        address: FaceAddress,
        remote: FaceUri,
        local: FaceUri,
    ) -> Self {
        Self {
            link_service: LinkService::new(link_service_config(matches!(
                transport,
                Transport::Udp { .. } | Transport::Multicast(_) | Transport::Ethernet { .. }
            ))),
            transport,
            peer: None,
            address,
            remote,
            local,
            scope: FaceScope::NonLocal,
            link_type: LinkType::PointToPoint,
            persistency: Persistency::Persistent,
            seat: None,
            last_received: Duration::ZERO,
            up_since: Duration::ZERO,
            unflushed: false,
            came_up: false,
            reported_down: false,
        }
    }

    /// Sends packets to a UDP or Ethernet peer, in fragments where they are too long, as soon as there is a socket for
    /// it.
    pub fn set_datagrams(&mut self) {
        self.link_service.set_config(link_service_config(true));
    }

    /// Limits frames to what the transport carries.
    pub(crate) fn limit_mtu(&mut self, limit: usize) {
        let mut config = *self.link_service.config();
        config.mtu = config.mtu.min(limit);
        self.link_service.set_config(config);
    }

    /// Whether packets leave in datagrams of a limited size, of this or of the next connection.
    #[must_use]
    pub fn is_datagram(&self) -> bool {
        self.link_service.config().fragmentation
    }

    /// Whether its transport keeps bytes for a flush, and it is not listed for one yet.
    #[inline]
    pub(crate) fn wants_flush(&self) -> bool {
        !self.unflushed && matches!(self.transport, Transport::Stream(_) | Transport::WebSocket(_))
    }

    /// Bytes that wait here for the other end to read, without those in the kernel.
    pub fn unsent(&self) -> usize {
        match &self.transport {
            Transport::Stream(stream) => stream.unsent(),
            _ => 0,
        }
    }
}

/// Only datagrams have a size that a packet may exceed: NFD reads no longer ones.
fn link_service_config(datagrams: bool) -> LinkServiceConfig {
    LinkServiceConfig {
        mtu: if datagrams { MAX_PACKET } else { MAX_FRAME },
        fragmentation: datagrams,
        ..LinkServiceConfig::default()
    }
}
