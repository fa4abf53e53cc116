//! [`DialOffer`]: what a dialer offers in its first message, and which answers fit it.

use super::{is_hybrid, offers_aes};
use crate::config::{LinkConfig, PostQuantum, Suites};
use crate::event::CloseReason;
use crate::header::ConnectionId;
use crate::kdf::LinkRng;
use crate::kem::{self, Decapsulator};
use crate::message::{
    COOKIE_LEN, HandshakeMessage, KemKeyPart, NOISE_1_LEN, NoiseOneHead, OfferPayload, PART_LEN,
    REST_LEN, ResponsePayload, check,
};
use crate::noise::Handshake;

/// See the module's documentation.
pub(super) struct DialOffer {
    offer: OfferPayload,
    decapsulator: Option<Decapsulator>,
    /// Whether an answer without a hybrid is refused.
    needs_hybrid: bool,
    /// Noise message 1, with the KEM key if one is offered.
    message: Vec<u8>,
}

impl DialOffer {
    /// Writes the offer as the first message of `noise`. `cid`: under which the response is expected.
    pub(super) fn new(
        config: &LinkConfig,
        cid: ConnectionId,
        noise: &mut Handshake,
        rng: &mut LinkRng,
    ) -> Self {
        let decapsulator = is_hybrid(config).then(|| Decapsulator::generate(rng)).flatten();
        let (aes, xchacha) = (offers_aes(config), config.suites == Suites::XChaCha);
        let offer = OfferPayload { cid, aes, hybrid: decapsulator.is_some(), xchacha };
        let mut payload = offer.encode().to_vec();
        if let Some(decapsulator) = &decapsulator {
            payload.extend_from_slice(&decapsulator.key());
        }
        let mut message = Vec::new();
        let written = noise.write(&payload, &mut message);
        written.expect("the first message has no key to refuse");
        let needs_hybrid = config.post_quantum == PostQuantum::Require;
        Self { offer, decapsulator, needs_hybrid, message }
    }

    /// Whether the message is too long for one datagram, so that a rest follows the initial.
    pub(super) fn has_rest(&self) -> bool {
        self.offer.hybrid
    }

    /// The first message's head, and the two pieces of its KEM key if it has one.
    #[expect(clippy::type_complexity, reason = "three pieces of fixed lengths")]
    fn split(&self) -> Option<(&[u8; NOISE_1_LEN], Option<(&[u8; PART_LEN], &[u8; REST_LEN])>)> {
        let (head, key) = self.message.split_first_chunk()?;
        let pieces = key.split_first_chunk();
        Some((head, pieces.and_then(|(part, rest)| Some((part, rest.first_chunk()?)))))
    }

    /// The initial with this cookie.
    pub(super) fn initial(&self, cookie: &[u8; COOKIE_LEN]) -> Option<Vec<u8>> {
        let (noise, pieces) = self.split()?;
        let rest = pieces.map(|(_, rest)| check(rest));
        let part = pieces.zip(rest.as_ref()).map(|((part, _), check)| KemKeyPart { check, part });
        Some(HandshakeMessage::Initial { cookie, head: NoiseOneHead { noise, part } }.to_vec())
    }

    /// The rest of the message.
    pub(super) fn rest(&self) -> Option<Vec<u8>> {
        Some(HandshakeMessage::Rest { rest: self.split()?.1?.1 }.to_vec())
    }

    /// Returns the content of an authentic answer if it is acceptable.
    pub(super) fn judge(
        &self,
        payload: &[u8],
    ) -> Result<(ResponsePayload, Option<kem::Shared>), CloseReason> {
        let (answer, ciphertext) =
            ResponsePayload::decode(payload).ok_or(CloseReason::PeerMisbehaved)?;
        let shared = match (ciphertext, &self.decapsulator) {
            (Some(ciphertext), Some(ours)) => Some(ours.open(ciphertext)),
            (Some(_), None) => return Err(CloseReason::PeerMisbehaved),
            (None, _) if self.needs_hybrid => return Err(CloseReason::NoPostQuantum),
            (None, _) => None,
        };
        if ![true, false].map(|aes| self.offer.cipher(aes)).contains(&answer.cipher) {
            return Err(CloseReason::PeerMisbehaved);
        }
        Ok((answer, shared))
    }
}
