//! What an endpoint tells its caller, and the ids by which both name links and streams.

use core::fmt;
use core::net::SocketAddr;

use bytes::Bytes;
use thiserror::Error;

use crate::keys::PeerKey;
use crate::way::Mapping;

/// One link of an endpoint. Never reused within an endpoint's life.
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

/// A stream of a link: even if the link's dialer opened it, else odd; never reused.
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
    /// Where they go.
    pub to: SocketAddr,
    /// Bytes in all.
    pub len: usize,
    /// `Some(n)`: several datagrams of `n` bytes each, the last one possibly shorter (what UDP GSO
    /// takes as it is). `None`: one datagram.
    pub segment_size: Option<usize>,
    /// Whether they leave as ECN-capable (ECT(0)), so that routers may mark them instead of
    /// dropping them.
    pub ecn: bool,
}

/// What an endpoint reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// The handshake is complete and the peer's key is proven.
    Connected {
        /// The link, dialled by us or by the peer.
        link: LinkId,
        /// The peer's static key: who it is.
        peer: PeerKey,
        /// Where it is now.
        remote: SocketAddr,
        /// What the call that dialled has returned; `None` if the peer dialled. A dial that expects no
        /// key may have several answers, each a link of its own: see [`crate::Endpoint::keep`].
        dial: Option<LinkId>,
    },
    /// Somebody answers a dial of ours who has proven another key than the expected one. Nothing ends
    /// with that: the genuine peer may still answer, and if nobody does the dial ends with
    /// [`CloseReason::WrongPeer`]. Reported once for each dial.
    OtherKey {
        /// What was dialled.
        link: LinkId,
        /// The key that was proven.
        peer: PeerKey,
    },
    /// A packet arrived, whole and authentic, for the first time.
    Packet {
        /// The link it came over.
        link: LinkId,
        /// The bytes that the peer gave to `send`; a slice of the datagram's buffer.
        packet: Bytes,
        /// Whether the datagram that completed it was marked as having met congestion (ECN CE).
        marked: bool,
    },
    /// The peer sees this side at this address: what a NAT has made of it. The peer may lie.
    Observed {
        /// The link.
        link: LinkId,
        /// Where our datagrams come from, as the peer says.
        address: SocketAddr,
    },
    /// The peer may be reached there, too: see [`crate::Endpoint::probe`]. The peer may lie.
    Candidates {
        /// The link.
        link: LinkId,
        /// 16 at most, instead of those that it named before.
        addresses: Vec<SocketAddr>,
        /// What the peer says of its NAT.
        mapping: Mapping,
    },
    /// The peer is reached by another way from here on.
    Moved {
        /// The link.
        link: LinkId,
        /// Where it is now.
        to: SocketAddr,
    },
    /// The peer has opened a stream.
    StreamOpened {
        /// The link.
        link: LinkId,
        /// The stream.
        stream: StreamId,
        /// What for: see [`crate::purpose`].
        purpose: u16,
    },
    /// [`crate::Endpoint::read_stream`] has something, after it had nothing: bytes or the end.
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
    /// The peer has ended its half before it was complete; what had not been read is gone.
    StreamReset {
        /// The link.
        link: LinkId,
        /// The stream.
        stream: StreamId,
        /// The peer's reason, or [`crate::REFUSED`].
        code: u32,
    },
    /// The peer reads no more of our half, which is reset for it.
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
    /// The link is gone; its id means nothing from here on. Also reported after our own `close`.
    Closed {
        /// The link.
        link: LinkId,
        /// Why.
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
    #[error("nothing heard from the peer within the idle timeout")]
    IdleTimeout,
    /// The handshake did not complete in time.
    #[error("no answer to the handshake in time")]
    HandshakeTimeout,
    /// Nobody answered in time but somebody who is not who was dialled ([`LinkEvent::OtherKey`]).
    #[error("the peer's key is not the one that was dialled")]
    WrongPeer,
    /// The peer answered without a post-quantum key exchange, and [`crate::PostQuantum::Require`] is set;
    /// or this processor has no code for one.
    #[error("no post-quantum key exchange with the peer, and it is required here")]
    NoPostQuantum,
    /// The peer has lost its state: it was restarted, or has given the link up.
    #[error("the peer does not know the link any more")]
    Reset,
    /// The peer's handshake or frames, though authentic, break the protocol.
    #[error("the peer broke the protocol")]
    PeerMisbehaved,
    /// The endpoint has as many links as it may have.
    #[error("too many links")]
    TooManyLinks,
    /// So many forged datagrams were tried that the key no longer counts as safe.
    #[error("too many forged datagrams under one key")]
    ForgeryLimit,
    /// The peer would not confirm new keys before the old ones were used up.
    #[error("the peer did not confirm new keys in time")]
    RekeyStalled,
}
