//! What the caller chooses and what it is told: configuration, events, errors, counters.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use xylem_congestion::Algorithm;

use crate::PeerKey;
use crate::shape::{Level, Shaping};
use crate::stream::{INITIAL_STREAM_WINDOW, MAX_STREAMS, StreamId};

/// Largest packet that [`crate::Endpoint::send`] takes, in bytes.
pub const MAX_PACKET: usize = 65_536;

/// Datagram size that every link starts with, in bytes of UDP payload: what IPv6 promises to carry
/// (1,280) less its header (40) and UDP's (8). Raising it is the work of path MTU discovery.
pub const BASE_DATAGRAM: usize = 1_232;

/// Largest UDP payload over IPv4, in bytes: 65,535 less 20 (IP) and 8 (UDP).
pub const MAX_DATAGRAM: usize = 65_507;

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

/// Which AEAD a link is to have. The dialer says what it would like in its first message, the
/// responder chooses, and the handshake binds both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suites {
    /// AES-256-GCM where both CPUs have AES and carry-less multiplication instructions, else
    /// ChaCha20-Poly1305.
    Fastest,
    /// Never AES-256-GCM: ChaCha20-Poly1305.
    ChaCha,
    /// XChaCha20-Poly1305 for the links that this side dials; as [`Suites::ChaCha`] for others.
    XChaCha,
}

/// Whether a handshake also exchanges a secret by ML-KEM-768, beside X25519.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PostQuantum {
    /// Offered when dialling, taken when offered. It costs a second datagram towards the responder
    /// and some 70 microseconds for both sides together.
    Offer,
    /// Neither.
    Never,
}

/// When sending keys are replaced. The first limit that is reached counts.
///
/// The AEAD's own limits are far above: at these values an AES-256-GCM key seals 2^32 blocks at
/// most, which leaves an attacker an advantage of about 2^-64 (RFC 9001 appendix B has the sums).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RekeyLimits {
    /// Packets sealed under one key.
    pub packets: u64,
    /// Plaintext bytes sealed under one key.
    pub bytes: u64,
    /// Age of a key.
    pub time: Duration,
}

impl Default for RekeyLimits {
    fn default() -> Self {
        Self { packets: 1 << 20, bytes: 1 << 36, time: Duration::from_secs(300) }
    }
}

/// When the dialer of a link begins a round of Diffie-Hellman. The first limit that is reached
/// counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RatchetLimits {
    /// Bytes of datagrams in both directions since the last round.
    pub bytes: u64,
    /// Time since the last round.
    pub time: Duration,
}

impl Default for RatchetLimits {
    fn default() -> Self {
        Self { bytes: 1 << 34, time: Duration::from_secs(120) }
    }
}

/// Limits and timings of an endpoint. `Config::default()` suits a node on the open Internet.
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest datagram this side sends or can receive, in bytes of UDP payload
    /// (`BASE_DATAGRAM..=MAX_DATAGRAM`); told to the peer in the handshake.
    pub max_datagram: usize,
    /// Datagram size before path MTU discovery has found more (1,200..).
    pub initial_datagram: usize,
    /// Largest number of equal-size datagrams in one [`Transmit`]; 1 when the socket has no GSO.
    pub max_gso_segments: usize,
    /// A link on which nothing authentic arrived for this long is closed. The smaller of the two
    /// sides' values counts.
    pub idle_timeout: Duration,
    /// A silent link is pinged this often so that it stays up; `None` lets it idle out.
    pub keep_alive: Option<Duration>,
    /// A handshake that is not complete after this long is given up.
    pub handshake_timeout: Duration,
    /// Wait before the first retransmission of a handshake packet; doubles each time.
    pub handshake_retry: Duration,
    /// When sending keys are replaced.
    pub rekey: RekeyLimits,
    /// How long keys of the epoch before stay usable for reordered packets.
    pub old_epoch_grace: Duration,
    /// When fresh Diffie-Hellman keys are exchanged on links that this side dials.
    pub ratchet: RatchetLimits,
    /// Which AEAD links are to have.
    pub suites: Suites,
    /// Whether handshakes are hybrid where the peer does that too.
    pub post_quantum: PostQuantum,
    /// What sizes and times show: what this side wants, and agrees to.
    pub shaping: Shaping,
    /// Whether a dialer that gets no answer under the key it expects also asks who else is there
    /// (every other retransmission from the third on), so that another key at that address is
    /// reported as [`CloseReason::WrongPeer`] and not as a timeout. Such a question shows an
    /// observer that this protocol is spoken; without it only the key's holders can tell.
    pub ask_who_answers: bool,
    /// Whether dialers that do not know our public key are answered. Without it nobody who lacks
    /// the key learns even that something listens here.
    pub accept_open: bool,
    /// Whether datagrams of unknown connection ids are answered with a stateless reset, from which
    /// a peer learns that this side has lost its state. Only where `accept_incoming` and
    /// `accept_open` are on too: it shows that something is here.
    pub stateless_reset: bool,
    /// Whether incoming handshakes are answered at all.
    pub accept_incoming: bool,
    /// Links of both directions, established or not. More are refused.
    pub max_links: usize,
    /// Incoming handshakes under way. More are dropped without an answer.
    pub max_half_open: usize,
    /// Incoming handshakes under way above which a dialer must first prove its address.
    pub cookie_above: usize,
    /// Bytes that may wait for `poll_transmit` on one link before [`SendError::Full`].
    pub send_queue_bytes: usize,
    /// Packets and other events that may wait for `poll_event`; datagrams beyond it are dropped.
    pub max_events: usize,
    /// Incomplete fragmented packets of one link.
    pub reassembly_packets: usize,
    /// Bytes that incomplete fragmented packets of one link may hold.
    pub reassembly_bytes: usize,
    /// Age at which an incomplete fragmented packet is forgotten.
    pub reassembly_timeout: Duration,
    /// Congestion control of streams.
    pub congestion: Algorithm,
    /// Bytes of a stream that a peer may send at first (64 KiB at least; more is told to it when
    /// the stream begins).
    pub stream_window: u64,
    /// Bytes up to which that grows while the peer keeps filling it; also how many written bytes
    /// one stream holds until they are acknowledged.
    pub stream_window_max: u64,
    /// Bytes up to which the window of all streams of a link grows.
    pub link_window_max: u64,
    /// Streams of one peer that may be open at once; more are refused.
    pub max_streams: usize,
    /// Whether datagrams are sent as ECN-capable, on paths that carry such datagrams.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_datagram: MAX_DATAGRAM,
            initial_datagram: BASE_DATAGRAM,
            max_gso_segments: 32,
            idle_timeout: Duration::from_secs(30),
            keep_alive: Some(Duration::from_secs(10)),
            handshake_timeout: Duration::from_secs(10),
            handshake_retry: Duration::from_millis(250),
            rekey: RekeyLimits::default(),
            old_epoch_grace: Duration::from_secs(3),
            ratchet: RatchetLimits::default(),
            suites: Suites::Fastest,
            post_quantum: PostQuantum::Offer,
            shaping: Shaping::default(),
            ask_who_answers: true,
            accept_open: true,
            stateless_reset: true,
            accept_incoming: true,
            max_links: 4_096,
            max_half_open: 512,
            cookie_above: 32,
            send_queue_bytes: 1 << 20,
            max_events: 1 << 16,
            reassembly_packets: 64,
            reassembly_bytes: 1 << 20,
            reassembly_timeout: Duration::from_secs(5),
            congestion: Algorithm::Bbr,
            stream_window: INITIAL_STREAM_WINDOW,
            stream_window_max: 16 << 20,
            link_window_max: 24 << 20,
            max_streams: MAX_STREAMS,
            ecn: true,
        }
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
pub enum Event {
    /// The handshake is complete and the peer's key is proven.
    Connected {
        /// The link, dialled by us or by the peer.
        link: LinkId,
        /// The peer's static key: who it is.
        peer: PeerKey,
        /// Where it is now.
        remote: SocketAddr,
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
    /// The peer takes no further streams; those that are open go on.
    GoingAway {
        /// The link.
        link: LinkId,
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
    /// Who answered is not who was dialled.
    #[error("the peer's key is not the one that was dialled")]
    WrongPeer,
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

/// Why a packet was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SendError {
    /// The link's send queue is full: call again after `poll_transmit`.
    #[error("the link's send queue is full")]
    Full,
    /// The packet is empty or longer than [`MAX_PACKET`].
    #[error("the packet is empty or longer than {MAX_PACKET} bytes")]
    Size,
    /// There is no such link (any more).
    #[error("no such link")]
    NoLink,
    /// The link's handshake is not complete.
    #[error("the link is not connected yet")]
    NotConnected,
}

/// Counters of one link since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkStats {
    /// Datagrams handed to `poll_transmit`'s caller.
    pub datagrams_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Authentic, first-seen datagrams.
    pub datagrams_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Packets taken by `send`.
    pub packets_sent: u64,
    /// Packets reported by `Event::Packet`.
    pub packets_received: u64,
    /// Datagrams for this link that did not authenticate.
    pub forged: u64,
    /// Authentic datagrams seen before, or too old to tell.
    pub replayed: u64,
    /// Key epochs begun by this side after the first.
    pub rekeys: u64,
    /// Rounds of Diffie-Hellman that this side's epochs have taken in.
    pub ratchets: u64,
    /// Whether the keys also rest on ML-KEM-768.
    pub post_quantum: bool,
    /// The shaping level in force.
    pub shaping: Level,
    /// Bytes of padding sent, cover not counted.
    pub padding_sent: u64,
    /// Bytes of datagrams sent that held nothing but padding.
    pub cover_sent: u64,
    /// Current datagram size, in bytes of UDP payload.
    pub datagram_size: usize,
    /// Smoothed round-trip time; `None` until measured.
    pub rtt: Option<Duration>,
}

/// Counters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EndpointStats {
    /// Links, established or not.
    pub links: usize,
    /// Incoming handshakes under way.
    pub half_open: usize,
    /// Datagrams that belong to no link and are no valid first message.
    pub ignored: u64,
    /// Cookie demands sent.
    pub cookies_sent: u64,
    /// Stateless resets sent.
    pub resets_sent: u64,
    /// Incoming handshakes dropped because a limit was reached.
    pub refused: u64,
}
