//! Sockets for packets and datagrams, without an event loop. [`Udp`] has batched system calls, GSO out, GRO and
//! recvmmsg in, and ECN both ways. The others are [`Multicast`], [`PacketStream`] over TCP or Unix sockets ([`listen_tcp`])
//! or memory that two processes share (`shared`), [`WebSocketFace`], [`Site`] (a few web pages beside a WebSocket), and
//! [`Carriers`], the connections that carry a link's datagrams. [`IcmpProbe`] asks the system about an address.
//!
//! Bytes come from the kernel and go to it. Sockets never block: the caller decides when to read and write, by the
//! tokens of its poll, and gives received buffers back for reuse. This crate does not interpret packets or authenticate
//! their senders.

mod buffers;
mod descriptors;
mod udp;

mod listener;
mod multicast;
mod probe;
#[cfg(target_os = "linux")]
pub mod shared;
mod site;
mod stream;
#[cfg(unix)]
pub mod unix;
mod websocket;

mod carriers;

pub use buffers::BufferPool;
pub use carriers::{CarrierAccept, CarrierDial, CarrierId, Carriers, HostIsFull};
pub use descriptors::descriptors;
pub use listener::listen_tcp;
pub use multicast::Multicast;
pub use probe::IcmpProbe;
pub use site::{Site, SitePage};
pub use stream::{PacketStream, ReadBuffer, ReadResult, StreamSocket};
pub use udp::{EcnCapability, Oversize, ReceivedTrain, Udp};
pub use websocket::WebSocketFace;
