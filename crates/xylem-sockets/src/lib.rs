//! Sockets for packets and datagrams, without an event loop. [`Udp`] has batched system calls, GSO out, GRO and
//! recvmmsg in, and ECN both ways. The others are [`Multicast`], [`EthernetSocket`], [`PacketStream`] over TCP or Unix sockets ([`listen_tcp`])
//! or memory that two processes share (`shared`), [`WebSocketFace`], [`Site`] (a few web pages beside a WebSocket), and
//! [`Carriers`], the connections that carry a link's datagrams. [`IcmpProbe`] asks the system about an address.
//!
//! Bytes come from the kernel and go to it. Sockets never block: the caller decides when to read and write, by the
//! tokens of its poll, and gives received buffers back for reuse. This crate does not interpret packets or authenticate
//! their senders.

mod buffers;
mod descriptors;
mod udp;

#[cfg_attr(not(target_os = "linux"), path = "no_ethernet.rs")]
mod ethernet;
mod listener;
mod multicast;
mod probe;
#[cfg(target_os = "linux")]
pub mod shared;
mod site;
mod stream;
#[cfg(unix)]
pub mod unix;
mod web_tls;
mod websocket;

mod carriers;
mod pipe;

pub use buffers::BufferPool;
pub use carriers::{CarrierAccept, CarrierDial, CarrierId, Carriers, HostIsFull};
pub use descriptors::descriptors;
pub use ethernet::EthernetSocket;
pub use listener::listen_tcp;
pub use multicast::Multicast;
pub use probe::IcmpProbe;
pub use site::{Site, SitePage};
pub use stream::{PacketStream, ReadBuffer, ReadResult, StreamSocket};
pub use udp::{EcnCapability, Oversize, ReceivedTrain, Udp};
pub use web_tls::{WebTlsClient, WebTlsServer, WebTlsSession};
pub use websocket::{WebSocketDial, WebSocketFace};

/// The Ethernet address of NDN's multicast group; NFD has the same.
pub const ETHERNET_GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa];

/// A packet that came in an Ethernet frame.
pub struct EthernetFrame {
    /// The frame's destination.
    pub to: [u8; 6],
    /// The frame's source.
    pub from: [u8; 6],
    /// One NDN or NDNLPv2 packet, without padding.
    pub packet: bytes::Bytes,
}
