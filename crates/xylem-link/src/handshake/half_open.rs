//! [`HalfOpen`]: the responder's side of a handshake under way.

use core::net::SocketAddr;
use core::time::Duration;

use super::{DialedBy, HANDSHAKE_TIMEOUT, directions, is_hybrid, offers_aes, ours};
use crate::StaticKey;
use crate::aead::Cipher;
use crate::config::{LinkConfig, PostQuantum};
use crate::elligator::{self, KeyPair};
use crate::envelope::{ENVELOPE_HEADER, EnvelopeKey};
use crate::event::{LinkId, Transmit};
use crate::header::ConnectionId;
use crate::kdf::LinkRng;
use crate::kem;
use crate::link::NewLink;
use crate::message::{
    HandshakeMessage, LinkParameters, MIN_INITIAL, NoiseOneHead, OFFER_LEN, OfferPayload,
    ResponsePayload,
};
use crate::mtu::BASE_DATAGRAM;
use crate::noise::{Handshake, NoiseRefused, STATIC_LEN};
use crate::seal::{Opener, Sealer};

/// A responder that waits for the rest of the first message or for a finish. It sends only in answer, and never more
/// bytes than it received.
pub(crate) struct HalfOpen {
    id: LinkId,
    remote: SocketAddr,
    pub by: DialedBy,
    noise: Handshake,
    rng: LinkRng,
    offer: OfferPayload,
    /// Our id, under which the finish is expected.
    pub cid: ConnectionId,
    /// Noise message 1, as far as it has arrived.
    message: Vec<u8>,
    ours: LinkParameters,
    /// Whether a hybrid is allowed, and whether AES is.
    accepts: (bool, bool),
    cipher: Cipher,
    shared: Option<kem::Shared>,
    /// Empty until the first message is complete.
    response: Vec<u8>,
    /// The static part of the finish, and the state after it, once that has arrived.
    static_part: Option<([u8; STATIC_LEN], Handshake)>,
    /// A response is due, as soon as it is no longer than `credit`.
    due: bool,
    /// Bytes received from the address, less those sent there.
    credit: usize,
    pub deadline: Duration,
}

/// The effect of a first message, or of its rest.
#[derive(PartialEq, Eq)]
pub(crate) enum FirstOutcome {
    /// None, or a response that is due.
    Waits,
    /// The complete first message is invalid: forget this handshake.
    Failed,
}

impl HalfOpen {
    pub(crate) fn new(
        config: &LinkConfig,
        key: &StaticKey,
        mut rng: LinkRng,
        ephemeral: KeyPair,
        now: Duration,
        id: LinkId,
        initial: &InitialMessage<'_>,
    ) -> Result<Self, NoiseRefused> {
        let noise = Handshake::responder(key, ephemeral);
        let head = initial.head;
        let offer = OfferPayload::decode(head.noise.last_chunk().ok_or(NoiseRefused)?)
            .ok_or(NoiseRefused)?;
        let mut half = Self {
            id,
            remote: initial.from,
            by: initial.by,
            noise,
            offer,
            cid: ConnectionId(rng.array()),
            rng,
            message: head.noise.to_vec(),
            ours: ours(config),
            accepts: (is_hybrid(config), offers_aes(config)),
            cipher: Cipher::ChaCha20Poly1305,
            shared: None,
            response: Vec::new(),
            static_part: None,
            due: false,
            credit: initial.len,
            deadline: now + HANDSHAKE_TIMEOUT,
        };
        match head.part {
            Some(part) => half.message.extend_from_slice(part.part),
            None => half.answer()?,
        }
        Ok(half)
    }

    /// Makes the response to the complete first message.
    fn answer(&mut self) -> Result<(), NoiseRefused> {
        let payload = self.noise.read(&self.message)?;
        let (_, key) = payload.split_first_chunk::<OFFER_LEN>().ok_or(NoiseRefused)?;
        let (hybrid, aes) = self.accepts;
        self.cipher = self.offer.cipher(aes);
        let mut ciphertext = None;
        if self.offer.hybrid && hybrid {
            let key = key.try_into().map_err(|_| NoiseRefused)?;
            let (sent, shared) = kem::encapsulate(key, &mut self.rng).ok_or(NoiseRefused)?;
            self.shared = Some(shared);
            ciphertext = Some(sent);
        }
        let (cid, cipher, parameters) = (self.cid, self.cipher, self.ours);
        let answer = ResponsePayload { cid, cipher, hybrid: ciphertext.is_some(), parameters };
        let mut payload = answer.encode().to_vec();
        payload.extend_from_slice(ciphertext.as_ref().map_or(&[], |c| &c[..]));
        let mut message = Vec::new();
        self.noise.write(&payload, &mut message)?;
        self.response = match ciphertext {
            None => {
                HandshakeMessage::Response { noise: message.first_chunk().ok_or(NoiseRefused)? }
                    .to_vec()
            }
            Some(_) => {
                let noise = message.first_chunk().ok_or(NoiseRefused)?;
                HandshakeMessage::HybridResponse { noise }.to_vec()
            }
        };
        self.due = true;
        Ok(())
    }

    pub(crate) fn poll_transmit(
        &mut self,
        envelope: &EnvelopeKey,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        // A response is as long as the shortest initial, or as it needs; at most what every path carries, and no longer
        // than the bytes received from this address.
        let least = MIN_INITIAL.max(ENVELOPE_HEADER + self.response.len());
        if !self.due || self.credit < least {
            return None;
        }
        self.due = false;
        let len = least + self.rng.below(self.credit.min(BASE_DATAGRAM) - least + 1);
        envelope.seal(self.offer.cid, &self.response, len, buf);
        self.credit = self.credit.saturating_sub(buf.len());
        Some(Transmit { to: self.remote, len: buf.len(), segment_size: None, ecn: false })
    }

    /// Takes a copy of the first message, or its rest.
    pub(crate) fn on_first(&mut self, message: &HandshakeMessage<'_>, len: usize) -> FirstOutcome {
        self.credit = self.credit.saturating_add(len);
        if let HandshakeMessage::Rest { rest } = message
            && self.response.is_empty()
        {
            self.message.extend_from_slice(*rest);
            return self.answer().map_or(FirstOutcome::Failed, |()| FirstOutcome::Waits);
        }
        // The dialer did not get our response: send it once more, as soon as enough bytes have come.
        self.due = !self.response.is_empty();
        FirstOutcome::Waits
    }

    /// Takes a datagram to our id. `Some` if it completes the handshake: call [`HalfOpen::finish`]. Any other datagram
    /// changes nothing.
    pub(crate) fn on_finish(
        &mut self,
        from: SocketAddr,
        envelope: &EnvelopeKey,
        datagram: &[u8],
    ) -> Option<LinkParameters> {
        if from != self.remote || self.response.is_empty() {
            return None;
        }
        let body = envelope.open(datagram)?;
        let HandshakeMessage::Finish { noise } = HandshakeMessage::parse(&body)? else {
            return None;
        };
        // A dialer has one static part, which no attacker can make. So it gets one Diffie-Hellman, however often it
        // comes with another payload after it.
        let (part, payload) = noise.split_first_chunk::<STATIC_LEN>()?;
        let (known, state) = match &mut self.static_part {
            Some(third) => third,
            none => none.insert((*part, self.noise.read_third_static(noise).ok()?)),
        };
        if known != part {
            return None;
        }
        let theirs = state.read_third_payload(payload).ok()?;
        self.noise = state.clone();
        LinkParameters::decode(theirs.first_chunk()?)
    }

    pub(crate) fn finish(
        self,
        config: &LinkConfig,
        now: Duration,
        theirs: LinkParameters,
    ) -> Result<NewLink, NoiseRefused> {
        let peer = self.noise.remote().ok_or(NoiseRefused)?;
        let secrets = self.noise.finish().ok_or(NoiseRefused)?;
        let (receiving, sending) = directions(&secrets, self.shared.as_deref(), self.cipher);
        Ok(NewLink {
            id: self.id,
            peer,
            remote: self.remote,
            sealer: Sealer::new(self.cipher, sending, config.rekey, now),
            opener: Opener::new(self.cipher, receiving),
            theirs,
            rtt: None,
            post_quantum: self.shared.is_some(),
            rng: self.rng,
            finish: None,
        })
    }
}

/// The content of an initial, and its source.
#[derive(Clone, Copy)]
pub(crate) struct InitialMessage<'a> {
    pub from: SocketAddr,
    pub by: DialedBy,
    /// The id that the dialer chose.
    pub target: ConnectionId,
    pub head: NoiseOneHead<'a>,
    pub len: usize,
}

impl InitialMessage<'_> {
    /// Returns whether an initial like this is answered at all.
    pub(crate) fn is_answered(&self, config: &LinkConfig) -> bool {
        config.post_quantum != PostQuantum::Require || self.head.part.is_some()
    }

    /// Returns whether it is worth a Diffie-Hellman: not with a key of small order, which would give zeros.
    pub(crate) fn is_sound(&self) -> bool {
        let key = self.head.noise.first_chunk();
        key.is_some_and(|key| !elligator::is_small_order(key))
    }
}
