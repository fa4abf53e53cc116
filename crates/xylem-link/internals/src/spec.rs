//! Parts of the link without randomness, to compare with docs/spec/vectors/link-v5.json.

use core::net::SocketAddr;
use core::time::Duration;

use crate::aead::Cipher;
use crate::envelope::EnvelopeKey;
use crate::epoch::{EpochSecret, RatchetSecret};
use crate::header::ConnectionId;
use crate::kdf::label;
use crate::message::{self, HandshakeMessage, LinkParameters, OfferPayload, ResponsePayload};
use crate::reset::ResetKey;
use crate::seal::{Opener, RekeyLimits, Sealer};
use crate::secret::HeapSecret;
use crate::{PeerKey, StaticKey};

/// The envelope for a dialer that knows a responder's key, a knock, or nothing.
pub struct SpecEnvelope(EnvelopeKey);

impl SpecEnvelope {
    /// The one of the responder's key.
    #[must_use]
    pub fn key(key: [u8; 32]) -> Self {
        Self(EnvelopeKey::new(Some(PeerKey(key))))
    }

    /// The one of a knock.
    #[must_use]
    pub fn knock(knock: &[u8; 32]) -> Self {
        Self(EnvelopeKey::of_knock(knock))
    }

    /// The open one.
    #[must_use]
    pub fn open() -> Self {
        Self(EnvelopeKey::new(None))
    }

    /// Makes a datagram of this length, or longer if the body needs it.
    #[must_use]
    pub fn seal(&self, id: [u8; 8], body: &[u8], length: usize) -> Vec<u8> {
        let mut datagram = Vec::new();
        self.0.seal(ConnectionId(id), body, length, &mut datagram);
        datagram
    }

    /// The body of a datagram with its padding.
    #[must_use]
    pub fn body(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        self.0.open(datagram)
    }
}

/// Reads a handshake message's body and writes it again, without padding.
#[must_use]
pub fn body_again(body: &[u8]) -> Option<Vec<u8>> {
    HandshakeMessage::parse(body).map(HandshakeMessage::to_vec)
}

/// The check that binds the rest of a hybrid's first message to its initial.
#[must_use]
pub fn rest_check(rest: &[u8]) -> Option<[u8; 16]> {
    rest.try_into().ok().map(message::check)
}

/// Reads the payloads of the three messages, without the KEM's parts, and writes them again.
#[must_use]
pub fn payloads_again([first, second, third]: [&[u8]; 3]) -> Option<[Vec<u8>; 3]> {
    let offer = OfferPayload::decode(first.try_into().ok()?)?;
    let (answer, _) = ResponsePayload::decode(second)?;
    let parameters = LinkParameters::decode(third.try_into().ok()?)?;
    Some([offer.encode().to_vec(), answer.encode().to_vec(), parameters.encode().to_vec()])
}

/// One direction of a link: its sender and its receiver.
#[must_use]
pub fn direction(
    initiator: bool,
    split: &[u8; 32],
    shared: Option<&[u8; 32]>,
    transcript: &[u8; 32],
    cipher: Cipher,
) -> (Sealer, Opener) {
    let label = if initiator { label::INITIATOR_EPOCH } else { label::RESPONDER_EPOCH };
    let secret = || EpochSecret::first(label, split, shared, transcript, cipher);
    let sealer = Sealer::new(cipher, secret(), RekeyLimits::default(), Duration::ZERO);
    (sealer, Opener::new(cipher, secret()))
}

/// Has both sides take in a round of Diffie-Hellman.
pub fn take_round(both: &mut (Sealer, Opener), shared: &[u8; 32], round: u32) {
    let ratchet = RatchetSecret { shared: HeapSecret::copy_of(shared), round };
    both.0.ratchet(ratchet.clone());
    both.1.ratchet(ratchet);
}

/// The token of a stateless reset.
#[must_use]
pub fn reset_token(key: &StaticKey, id: [u8; 8], from: SocketAddr) -> [u8; 16] {
    ResetKey::new(key).token(ConnectionId(id), from)
}
