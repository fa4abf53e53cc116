//! What the caller chooses.

use core::time::Duration;

use xylem_congestion::Algorithm;

use crate::kem;
use crate::mtu::MAX_DATAGRAM;
use crate::rekey::RatchetLimits;
use crate::seal::RekeyLimits;
use crate::shape::Shaping;
use crate::stream::MAX_STREAMS;

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
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PostQuantum {
    /// Offered when dialling, taken when offered. It costs a second datagram towards the responder
    /// and some 70 microseconds for both sides together.
    #[default]
    Offer,
    /// As [`PostQuantum::Offer`], and there is no link without: a dialer takes no answer that lacks it,
    /// a responder answers nobody who does not offer it.
    Require,
    /// Neither.
    Never,
}

impl PostQuantum {
    /// Whether this processor can do what is asked for. Where it cannot, [`PostQuantum::Offer`] offers
    /// nothing, and an endpoint with [`PostQuantum::Require`] has no links: a program should refuse to
    /// start.
    #[must_use]
    pub fn is_possible(self) -> bool {
        self != Self::Require || kem::is_available()
    }
}

/// Limits and timings of an endpoint. `Config::default()` suits a node on the open Internet.
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest datagram this side sends or can receive, in bytes of UDP payload
    /// (`BASE_DATAGRAM..=MAX_DATAGRAM`); told to the peer in the handshake.
    pub max_datagram: usize,
    /// A link on which nothing authentic arrived for this long is closed. The smaller of the two
    /// sides' values counts.
    pub idle_timeout: Duration,
    /// A silent link is pinged this often so that it stays up; `None` lets it idle out.
    pub keep_alive: Option<Duration>,
    /// When sending keys are replaced.
    pub rekey: RekeyLimits,
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
    /// reported as [`crate::CloseReason::WrongPeer`] and not as a timeout. Such a question shows an
    /// observer that this protocol is spoken; without it only the key's holders can tell.
    pub ask_who_answers: bool,
    /// Whether dialers that know neither our public key nor a knock are answered. Each of them is told
    /// the key, and with it opens the outside of every handshake that was recorded here. Without it
    /// nobody who lacks both learns even that something listens here.
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
    /// Congestion control of streams.
    pub congestion: Algorithm,
    /// Streams of one peer that may be open at once; more are refused.
    pub max_streams: usize,
    /// Whether datagrams are sent as ECN-capable, on paths that carry such datagrams.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_datagram: MAX_DATAGRAM,
            idle_timeout: Duration::from_secs(30),
            keep_alive: Some(Duration::from_secs(10)),
            rekey: RekeyLimits::default(),
            ratchet: RatchetLimits::default(),
            suites: Suites::Fastest,
            post_quantum: PostQuantum::Offer,
            shaping: Shaping::default(),
            ask_who_answers: false,
            accept_open: false,
            stateless_reset: true,
            accept_incoming: true,
            max_links: 4_096,
            max_half_open: 512,
            cookie_above: 32,
            congestion: Algorithm::Bbr,
            max_streams: MAX_STREAMS,
            ecn: true,
        }
    }
}
