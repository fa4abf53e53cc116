//! Access to internals, for fuzz targets, benchmarks and hostile tests. It is compiled only for the unit tests of this
//! crate and in the package xylem-link-internals (`crates/xylem-link/internals`), which the program does not depend on.

#[cfg(internals)]
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use xylem_congestion::CongestionAlgorithm;
use zeroize::Zeroizing;

use crate::aead::{Cipher, IV_LEN};
use crate::elligator::{self, KeyPair};
use crate::envelope::EnvelopeKey;
use crate::epoch::EpochSecret;
use crate::event::{LinkEvent, LinkId, StreamId};
#[cfg(not(internals))]
use crate::frame::{Frame, Frames};
use crate::header::ConnectionId;
use crate::kdf::LinkRng;
use crate::kem::Decapsulator;
use crate::noise::Handshake;
use crate::replay::ReplayWindow;
use crate::seal::RekeyLimits;
use crate::shape::padding::Padder;
use crate::shape::{SendTiming, ShapingProfile};
use crate::stream::{DatagramLayout, MAX_STREAMS, StreamSettings, Streams};
use crate::{PeerKey, StaticKey, curve, kdf, kem};
#[cfg(not(internals))]
use crate::{
    aead::TAG_LEN,
    header::HEADER_LEN,
    seal::{Opener, Sealer},
};

mod comparisons;
mod cost;
mod envelopes;
mod noise_vectors;
mod spec;

pub use comparisons::{
    cookie, cookie_is_good, elligator_representative, envelope_opens, header_mask, is_reset,
    kem_ciphertext,
};
pub use cost::ShapingCost;
pub use envelopes::Envelope;
pub use noise_vectors::{NoiseOutcome, NoiseSide, NoiseVector};
pub use spec::{
    SpecEnvelope, body_again, direction, payloads_again, reset_token, rest_check, take_round,
};

#[cfg(internals)]
pub use crate::aead::TAG_LEN;
#[cfg(internals)]
pub use crate::frame::{AckRanges, Frame, Frames, PACKET_OVERHEAD};
#[cfg(internals)]
pub use crate::header::{CID_LEN, HEADER_LEN};
#[cfg(internals)]
pub use crate::seal::{OVERHEAD, Opener, Sealer};

#[cfg(internals)]
impl crate::Endpoint {
    /// Seals these bytes in place of frames, in the link's own session: a datagram that a peer could send that keeps to
    /// no rule. Returns its destination too. `None`: no such link is up.
    pub fn seal_frames(&mut self, link: LinkId, frames: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        let up = self.link_mut(link)?;
        Some((up.remote(), up.seal_frames(frames)))
    }
}

/// A sender and its receiver, without a handshake.
#[must_use]
pub fn seal_pair(cipher: Cipher, limits: RekeyLimits) -> (Sealer, Opener) {
    let label = kdf::label::INITIATOR_EPOCH;
    let secret = || EpochSecret::first(label, &[1; 32], None, &[2; 32], cipher);
    (Sealer::new(cipher, secret(), limits, Duration::ZERO), Opener::new(cipher, secret()))
}

/// Puts a handshake body into a responder's envelope, so that fuzzing gets past it.
#[must_use]
pub fn handshake_envelope(responder: Option<[u8; 32]>, cid: [u8; 8], body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let body = &body[..body.len().min(1_400)];
    EnvelopeKey::new(responder.map(PeerKey)).seal(ConnectionId(cid), body, 1_200, &mut out);
    out
}

/// The knowledge that a dialer has of its peer; the envelope of its handshake follows from it.
#[derive(Clone, Copy, Debug)]
pub enum KnownPeer {
    /// The public key.
    Key([u8; 32]),
    /// A knock.
    Knock([u8; 32]),
    /// Nothing: the open envelope.
    Nothing,
}

impl KnownPeer {
    fn envelope(self) -> EnvelopeKey {
        match self {
            Self::Key(key) => EnvelopeKey::new(Some(PeerKey(key))),
            Self::Knock(knock) => EnvelopeKey::of_knock(&knock),
            Self::Nothing => EnvelopeKey::new(None),
        }
    }

    /// Seals `body` in an envelope of `len` bytes, or more if the body needs it.
    #[must_use]
    pub fn seal(self, cid: [u8; 8], body: &[u8], len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        self.envelope().seal(ConnectionId(cid), body, len, &mut out);
        out
    }

    /// Opens an envelope: the content with its padding; `None` if it is no envelope of this kind.
    #[must_use]
    pub fn open(self, datagram: &[u8]) -> Option<Vec<u8>> {
        self.envelope().open(datagram)
    }
}

/// Both sides of Noise XX, with ephemeral pairs made in advance.
pub struct Handshakes {
    keys: [StaticKey; 2],
    ahead: VecDeque<KeyPair>,
    rng: LinkRng,
}

impl Handshakes {
    /// Makes the two identities.
    #[must_use]
    pub fn new() -> Self {
        let keys = [1, 2].map(|n| StaticKey::generate([n; 32]));
        Self { keys, ahead: VecDeque::new(), rng: LinkRng::new(&[3; 32]) }
    }

    /// Makes `pairs` pairs, which are used in turn and reused; an endpoint uses each once.
    pub fn make_ahead(&mut self, pairs: usize) {
        while self.ahead.len() < pairs {
            self.ahead.push_back(KeyPair::generate(&mut self.rng));
        }
    }

    fn pair(&mut self) -> KeyPair {
        self.ahead.rotate_left(usize::from(!self.ahead.is_empty()));
        let ahead = self.ahead.front().cloned();
        ahead.unwrap_or_else(|| KeyPair::generate(&mut self.rng))
    }

    /// Runs the three messages; returns the handshake hash.
    ///
    /// # Panics
    /// If the two sides do not agree.
    #[must_use]
    pub fn run(&mut self, hybrid: bool) -> [u8; 32] {
        const AGREE: &str = "both sides are ours";
        let (one, other) = (self.pair(), self.pair());
        let mut i = Handshake::initiator(&self.keys[0], one);
        let mut r = Handshake::responder(&self.keys[1], other);
        let mut message = Vec::new();
        let decapsulator = hybrid.then(|| Decapsulator::generate(&mut self.rng)).flatten();
        let key = decapsulator.as_ref().map(Decapsulator::key);
        i.write(key.as_ref().map_or(&[], |key| &key[..]), &mut message).expect(AGREE);
        let payload = r.read(&message).expect(AGREE);
        let sent = payload.first_chunk().and_then(|key| kem::encapsulate(key, &mut self.rng));
        message.clear();
        let ciphertext = sent.as_ref().map_or(&[][..], |(ciphertext, _)| ciphertext);
        r.write(ciphertext, &mut message).expect(AGREE);
        let payload = i.read(&message).expect(AGREE);
        if let (Some(ours), Some((_, shared))) = (&decapsulator, &sent) {
            let opened = payload.first_chunk().map(|ciphertext| ours.open(ciphertext));
            assert_eq!(opened.as_deref(), Some(&**shared));
        }
        message.clear();
        i.write(&[], &mut message).expect(AGREE);
        r.read(&message).expect(AGREE);
        let (i, r) = (i.finish().expect(AGREE), r.finish().expect(AGREE));
        assert_eq!(*i.initiator, *r.initiator);
        i.transcript
    }

    /// Makes the first message alone.
    ///
    /// # Panics
    /// Never: a first message cannot be refused.
    #[must_use]
    pub fn first_message(&mut self) -> Vec<u8> {
        let pair = self.pair();
        let mut message = Vec::new();
        let mut i = Handshake::initiator(&self.keys[0], pair);
        i.write(&[], &mut message).expect("a first message has nothing to refuse");
        message
    }
}

impl Default for Handshakes {
    fn default() -> Self {
        Self::new()
    }
}

/// Generates Elligator2 key pairs.
#[derive(Debug)]
pub struct ElligatorPairs(LinkRng);

impl ElligatorPairs {
    /// Makes one with a generator of its own.
    #[must_use]
    pub fn new() -> Self {
        Self(LinkRng::new(&[4; 32]))
    }

    /// A secret and its representative.
    #[must_use]
    pub fn generate(&mut self) -> ([u8; 32], [u8; 32]) {
        let pair = KeyPair::generate(&mut self.0);
        (*pair.secret, pair.representative)
    }
}

impl Default for ElligatorPairs {
    fn default() -> Self {
        Self::new()
    }
}

/// The public key of a representative.
#[must_use]
pub fn elligator_public_key(representative: &[u8; 32]) -> [u8; 32] {
    elligator::public_key(representative)
}

/// Two field elements, one of which is chosen without a branch.
pub struct Select(elligator::SelectOperands);

impl Select {
    /// Takes two numbers, little-endian.
    #[must_use]
    pub fn new(first: &[u8; 32], other: &[u8; 32]) -> Self {
        Self(elligator::SelectOperands::new(first, other))
    }

    /// The chosen number, in limbs.
    #[must_use]
    pub fn select(&self, first: bool) -> [u64; 5] {
        self.0.select(first)
    }
}

/// X25519, as the link uses it.
#[must_use]
pub fn x25519(secret: &[u8; 32], public: &[u8; 32]) -> Option<Zeroizing<[u8; 32]>> {
    curve::agree(secret, public).map(|shared| Zeroizing::new(*shared))
}

/// ML-KEM-768, as the link uses it: the key of a seed, and the secret of a ciphertext under it. `None` where the
/// processor cannot compute it.
#[must_use]
pub fn kem_open(seed: &[u8; 64], ciphertext: &[u8; 1_088]) -> Option<(Vec<u8>, [u8; 32])> {
    let ours = Decapsulator::from_seed(seed)?;
    Some((ours.key().to_vec(), *ours.open(ciphertext)))
}

/// Returns whether ML-KEM-768 accepts these bytes as a key.
#[must_use]
pub fn kem_takes(key: &[u8; 1_184]) -> bool {
    kem::encapsulate(key, &mut LinkRng::new(&[1; 32])).is_some()
}

/// The public key of a secret.
#[must_use]
pub fn x25519_public_key(secret: &[u8; 32]) -> [u8; 32] {
    curve::public_key(secret)
}

/// One derivation.
#[must_use]
pub fn derive(secret: &[u8; 32]) -> [u8; 32] {
    kdf::derive(kdf::label::NEXT_EPOCH, &[secret])
}

/// Padding of datagrams, and gaps between them, as a link uses them.
#[derive(Debug)]
pub struct Shapes {
    padder: Padder,
    timing: SendTiming,
    rng: LinkRng,
}

impl Shapes {
    /// Shapes by one profile.
    #[must_use]
    pub fn new(profile: &ShapingProfile) -> Self {
        let ShapingProfile { padding, timing, .. } = profile.bounded();
        Self {
            padder: Padder::new(padding, LinkRng::new(&[6; 32])),
            timing,
            rng: LinkRng::new(&[7; 32]),
        }
    }

    /// Pads a datagram with zeros, on a path that carries `most` bytes.
    pub fn pad(&mut self, datagram: &mut Vec<u8>, most: usize) {
        let size = self.padder.size(datagram.len(), most);
        datagram.resize(size.max(datagram.len()), 0);
    }

    /// The gap to the next datagram.
    #[must_use]
    pub fn gap(&mut self) -> Duration {
        self.timing.gap(&mut self.rng)
    }
}

/// Encrypts as the link does, with a nonce of 12 bytes, or 24 for XChaCha20-Poly1305. Returns the ciphertext followed
/// by the tag.
#[must_use]
pub fn aead_seal(
    cipher: Cipher,
    key: &[u8; 32],
    nonce: &[u8],
    associated: &[u8],
    plaintext: &[u8],
) -> Vec<u8> {
    let mut text = Vec::with_capacity(plaintext.len() + TAG_LEN);
    text.extend_from_slice(plaintext);
    let tag = cipher.keys(key, &iv(nonce)).seal(0, associated, &mut text);
    text.extend_from_slice(&tag);
    text
}

/// Opens the output of [`aead_seal`].
#[must_use]
pub fn aead_open(
    cipher: Cipher,
    key: &[u8; 32],
    nonce: &[u8],
    associated: &[u8],
    sealed: &[u8],
) -> Option<Vec<u8>> {
    let mut text = sealed.to_vec();
    cipher.keys(key, &iv(nonce)).open(0, associated, &mut text).then_some(())?;
    text.truncate(sealed.len() - TAG_LEN);
    Some(text)
}

/// The nonce is the IV for number 0.
fn iv(nonce: &[u8]) -> [u8; IV_LEN] {
    let mut iv = [0; IV_LEN];
    iv[..nonce.len()].copy_from_slice(nonce);
    iv
}

/// One side's streams without a link, for a fuzz target to call and to feed with frames.
#[derive(Debug)]
pub struct LooseStreams {
    streams: Streams,
    window: ReplayWindow,
    events: VecDeque<LinkEvent>,
    /// Packet numbers used so far.
    sent: u64,
}

impl LooseStreams {
    /// Makes the streams of the dialer, or of the responder.
    #[must_use]
    pub fn new(dialer: bool) -> Self {
        let settings = StreamSettings {
            dialer,
            algorithm: CongestionAlgorithm::Bbr,
            max_streams: MAX_STREAMS,
        };
        Self {
            streams: Streams::new(LinkId(1), settings, Duration::ZERO, 1_232),
            window: ReplayWindow::default(),
            events: VecDeque::new(),
            sent: 0,
        }
    }

    /// Takes an opened datagram's frames. `number`: its packet number; `None`: the next one. False: the peer has broken
    /// the protocol.
    pub fn receive(&mut self, now: Duration, number: Option<u64>, bytes: &[u8]) -> bool {
        let number = number.unwrap_or(self.window.end());
        if !self.window.is_fresh(number) {
            return true;
        }
        self.window.insert(number);
        let datagram = Bytes::copy_from_slice(bytes);
        let mut asks = false;
        for frame in Frames::new(&datagram) {
            let Ok(frame) = frame else { return false };
            asks |= frame.asks_for_ack();
            let done = match frame {
                Frame::Ack(ack) => {
                    self.streams.on_ack(now, &ack, self.sent, &mut self.events).map(|_| ())
                }
                frame => self.streams.on_frame(now, frame, &datagram, &mut self.events),
            };
            if done.is_err() {
                return false;
            }
        }
        if asks {
            self.streams.on_datagram(now, number, &self.window);
        }
        true
    }

    /// The number and the frames of each datagram that may leave now.
    pub fn fill(&mut self, now: Duration, datagram: usize) -> Vec<(u64, Vec<u8>)> {
        let mut buf = Vec::new();
        let layout =
            DatagramLayout { datagram, segments: 8, padding: None, number: self.sent, marked: 0 };
        let Some(laid) = self.streams.fill(now, layout, &self.window, &mut buf) else {
            return Vec::new();
        };
        let frames = buf.chunks(laid.segment).map(|d| d[HEADER_LEN..d.len() - TAG_LEN].to_vec());
        let datagrams: Vec<_> = (self.sent..).zip(frames).collect();
        self.sent += datagrams.len() as u64;
        datagrams
    }

    /// Runs the timers.
    pub fn pass(&mut self, now: Duration) {
        self.streams.on_timeout(now);
    }

    /// Makes a call as the program; the numbers select the call and the stream.
    pub fn call(&mut self, what: u8, stream: u32, data: &[u8]) {
        let id = StreamId(stream);
        match what % 6 {
            0 => drop(self.streams.open(stream as u16)),
            1 => drop(self.streams.write(id, data)),
            2 => drop(self.streams.finish(id)),
            3 => drop(self.streams.reset(id, 1)),
            4 => drop(self.streams.stop(id, 1)),
            _ => drop(self.streams.read(id)),
        }
    }

    /// Number of events since the last call.
    pub fn events(&mut self) -> usize {
        self.events.drain(..).count()
    }
}
