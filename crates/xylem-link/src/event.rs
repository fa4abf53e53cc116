//! Events that an endpoint reports, and the ids of links and streams.

use core::fmt;
use core::net::SocketAddr;

use bytes::Bytes;
use thiserror::Error;

use crate::keys::PeerKey;
use crate::way::NatMapping;

/// Identifies a link of an endpoint. Never reused within an endpoint's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl fmt::Debug for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

/// Identifies a stream of a link: even if the link's dialer opened it, else odd. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// Datagrams that [`crate::Endpoint::poll_transmit`] has written to the start of the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The destination.
    pub to: SocketAddr,
    /// Bytes in all.
    pub len: usize,
    /// `Some(n)`: several datagrams of `n` bytes each, the last one possibly shorter (the layout that UDP GSO expects).
    /// `None`: one datagram.
    pub segment_size: Option<usize>,
    /// Whether they leave as ECN-capable (ECT(0)), so that routers may mark them instead of dropping them.
    pub ecn: bool,
}

/// An event of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// The handshake is complete and the peer's key is proven.
    Connected {
        /// The link, dialled by either side.
        link: LinkId,
        /// The peer's static key, its identity.
        peer: PeerKey,
        /// The peer's address now.
        remote: SocketAddr,
        /// The id that the dialling call returned; `None` if the peer dialled. A dial that expects no key may have
        /// several answers, each a link of its own: see [`crate::Endpoint::keep`].
        dial: Option<LinkId>,
    },
    /// A peer answered our dial and proved another key than the expected one. This ends nothing: the genuine peer may
    /// still answer, and otherwise the dial ends with [`CloseReason::WrongPeer`]. Reported once for each dial.
    OtherKey {
        /// The id of the dial.
        link: LinkId,
        /// The key that was proven.
        peer: PeerKey,
    },
    /// A packet arrived, whole and authentic, for the first time.
    Packet {
        /// The link that it arrived over.
        link: LinkId,
        /// The bytes that the peer passed to `send`; a slice of the datagram's buffer.
        packet: Bytes,
        /// Whether the datagram that completed it was marked as having met congestion (ECN CE).
        marked: bool,
    },
    /// The address at which the peer sees this side, after any NAT. The peer may lie.
    Observed {
        /// The link.
        link: LinkId,
        /// The source of our datagrams, as the peer reports it.
        address: SocketAddr,
    },
    /// The peer announces further addresses of its own: see [`crate::Endpoint::probe`]. The peer may lie.
    Candidates {
        /// The link.
        link: LinkId,
        /// 16 at most; they replace those that the peer named before.
        addresses: Vec<SocketAddr>,
        /// The mapping of the peer's NAT, as the peer reports it.
        mapping: NatMapping,
    },
    /// The link goes to another address of the peer from here on.
    Moved {
        /// The link.
        link: LinkId,
        /// The new address.
        to: SocketAddr,
    },
    /// The peer has opened a stream.
    StreamOpened {
        /// The link.
        link: LinkId,
        /// The stream.
        stream: StreamId,
        /// The stream's purpose: see [`crate::purpose`].
        purpose: u16,
    },
    /// [`crate::Endpoint::read_stream`] has bytes or the end again, after it had nothing.
    StreamReadable {
        /// The link.
        link: LinkId,
        /// The stream.
        stream: StreamId,
    },
    /// There is room again after [`crate::Endpoint::write_stream`] did not take everything.
    StreamWritable {
        /// The link.
        link: LinkId,
        /// The stream.
        stream: StreamId,
    },
    /// The peer ended its half before it was complete; unread data is lost.
    StreamReset {
        /// The link.
        link: LinkId,
        /// The stream.
        stream: StreamId,
        /// The peer's reason, or [`crate::REFUSED`].
        code: u32,
    },
    /// The peer reads no more of our half, which has been reset for that.
    StreamStopped {
        /// The link.
        link: LinkId,
        /// The stream.
        stream: StreamId,
        /// The peer's reason, or [`crate::REFUSED`].
        code: u32,
    },
    /// All that was written to the stream, and its end, have arrived.
    StreamDelivered {
        /// The link.
        link: LinkId,
        /// The stream.
        stream: StreamId,
    },
    /// The link is gone and its id is no longer valid. Also reported after our own `close`.
    Closed {
        /// The link.
        link: LinkId,
        /// The reason.
        reason: CloseReason,
    },
}

/// Why a link ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CloseReason {
    /// Closed by this side.
    #[error("closed by this side")]
    Local,
    /// Closed by the peer.
    #[error("closed by the peer")]
    Peer,
    /// Nothing authentic arrived within the idle timeout.
    #[error("nothing received from the peer within the idle timeout")]
    IdleTimeout,
    /// The handshake did not complete in time.
    #[error("no answer to the handshake in time")]
    HandshakeTimeout,
    /// No answer from the dialled peer came in time, only one by another key ([`LinkEvent::OtherKey`]).
    #[error("the peer's key is not the one that was dialled")]
    WrongPeer,
    /// The peer answered without a post-quantum key exchange, and [`crate::PostQuantum::Require`] is set; or this
    /// processor has no code for one.
    #[error("no post-quantum key exchange with the peer, and it is required here")]
    NoPostQuantum,
    /// The peer has lost its state: it restarted, or gave the link up.
    #[error("the peer no longer has this link: it restarted or closed it")]
    Reset,
    /// The peer's handshake or frames, though authentic, break the protocol.
    #[error("the peer violated the protocol")]
    PeerMisbehaved,
    /// The endpoint has reached its limit of links.
    #[error("too many links are open")]
    TooManyLinks,
    /// Too many forged datagrams were tried for the key to count as safe.
    #[error("too many forged datagrams under one key")]
    ForgeryLimit,
    /// The peer did not confirm new keys before the old ones were used up.
    #[error("the peer did not confirm new keys in time")]
    RekeyStalled,
}
