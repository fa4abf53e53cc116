//! The settings of an endpoint.

use core::time::Duration;

use xylem_congestion::CongestionAlgorithm;

use crate::kem;
use crate::mtu::MAX_DATAGRAM;
use crate::rekey::RatchetLimits;
use crate::seal::RekeyLimits;
use crate::shape::Shaping;
use crate::stream::MAX_STREAMS;

/// The AEAD that links use. The dialer states its wish in its first message, the responder chooses, and the handshake
/// binds both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suites {
    /// AES-256-GCM where both CPUs have AES and carry-less multiplication instructions, else ChaCha20-Poly1305.
    Fastest,
    /// ChaCha20-Poly1305, never AES-256-GCM.
    ChaCha,
    /// XChaCha20-Poly1305 for links that this side dials; [`Suites::ChaCha`] for others.
    XChaCha,
}

/// Whether a handshake exchanges a secret by ML-KEM-768 beside X25519.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PostQuantum {
    /// Offers ML-KEM when dialling and accepts it when offered. It costs a second datagram towards the responder and
    /// some 70 microseconds for both sides together.
    #[default]
    Offer,
    /// Like [`PostQuantum::Offer`], but refuses links without it: a dialer accepts no answer that lacks it, a responder
    /// answers no dialer that does not offer it.
    Require,
    /// Neither offers nor accepts it.
    Never,
}

impl PostQuantum {
    /// Returns whether this processor can do what is asked for. Where it cannot, [`PostQuantum::Offer`] offers nothing,
    /// and an endpoint with [`PostQuantum::Require`] has no links: a program should refuse to start.
    #[must_use]
    pub fn is_possible(self) -> bool {
        self != Self::Require || kem::is_available()
    }
}

/// Limits and timings of an endpoint. `LinkConfig::default()` suits a node on the open Internet.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Largest datagram this side sends or can receive, in bytes of UDP payload (`BASE_DATAGRAM..=MAX_DATAGRAM`). The
    /// handshake announces it to the peer.
    pub max_datagram: usize,
    /// A link on which nothing authentic arrived for this long is closed. The smaller of the two sides' values counts.
    pub idle_timeout: Duration,
    /// Interval of pings on a silent link, which keep it up; `None` lets it idle out.
    pub keep_alive: Option<Duration>,
    /// When sending keys are replaced.
    pub rekey: RekeyLimits,
    /// When fresh Diffie-Hellman keys are exchanged on links that this side dials.
    pub ratchet: RatchetLimits,
    /// The AEAD that links use.
    pub suites: Suites,
    /// Whether handshakes are hybrid where the peer supports that too.
    pub post_quantum: PostQuantum,
    /// Shaping of sizes and times: the level that this side wants, and the highest that it agrees to.
    pub shaping: Shaping,
    /// Whether a dialer that gets no answer under the key it expects also asks which other key is at the address (every
    /// other retransmission from the third on). Another key there is then reported as [`crate::CloseReason::WrongPeer`]
    /// and not as a timeout. Such a question shows an observer that this protocol is in use; without it only the
    /// holders of the key can tell.
    pub ask_who_answers: bool,
    /// Whether dialers that know neither our public key nor a knock are answered. Each of them learns the key, and with
    /// it can open the envelope of every handshake that was recorded here. While this is off, a dialer that lacks both
    /// does not even learn that a program listens here.
    pub accept_open: bool,
    /// Whether datagrams of unknown connection ids are answered with a stateless reset, from which a peer learns that
    /// this side has lost its state. It takes effect only while `accept_incoming` and `accept_open` are on too, because
    /// it reveals that a program is here.
    pub stateless_reset: bool,
    /// Whether incoming handshakes are answered.
    pub accept_incoming: bool,
    /// Most links of both directions, established or not. Further ones are refused.
    pub max_links: usize,
    /// Most incoming handshakes under way. At this number a new one displaces the oldest of its source, or the oldest
    /// of all.
    pub max_half_open: usize,
    /// Incoming handshakes under way above which a dialer must first prove its address.
    pub cookie_above: usize,
    /// Congestion control of streams.
    pub congestion: CongestionAlgorithm,
    /// Most streams of one peer that may be open at once; further ones are refused.
    pub max_streams: usize,
    /// Whether datagrams are sent as ECN-capable, on paths that carry such datagrams.
    pub ecn: bool,
}

impl Default for LinkConfig {
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
            congestion: CongestionAlgorithm::Bbr,
            max_streams: MAX_STREAMS,
            ecn: true,
        }
    }
}
