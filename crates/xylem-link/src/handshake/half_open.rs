//! [`HalfOpen`]: the responder's side of a handshake under way.

use core::net::SocketAddr;
use core::time::Duration;

use super::{DialedBy, HANDSHAKE_TIMEOUT, directions, is_hybrid, offers_aes, ours};
use crate::StaticKey;
use crate::aead::Cipher;
use crate::config::Config;
use crate::elligator::KeyPair;
use crate::envelope::{ENVELOPE_HEADER, EnvelopeKey};
use crate::event::{LinkId, Transmit};
use crate::header::ConnectionId;
use crate::kdf::Rng;
use crate::kem;
use crate::link::NewLink;
use crate::message::{
    Answer, CHECK_LEN, MIN_INITIAL, Message, NOISE_1_LEN, OFFER_LEN, Offer, Parameters, Part, check,
};
use crate::mtu::BASE_DATAGRAM;
use crate::noise::{Handshake, Refused};
use crate::seal::{Opener, Sealer};

/// The responder, waiting for the rest of the first message or for a finish. It never sends but in
/// answer, and never more than it got.
pub(crate) struct HalfOpen {
    id: LinkId,
    remote: SocketAddr,
    pub by: DialedBy,
    noise: Handshake,
    rng: Rng,
    offer: Offer,
    /// Ours, where the finish is expected.
    pub cid: ConnectionId,
    /// Noise message 1, as far as it is here.
    message: Vec<u8>,
    /// What the rest of it has to hash to.
    check: Option<[u8; CHECK_LEN]>,
    ours: Parameters,
    /// May be hybrid, may use AES.
    accepts: (bool, bool),
    cipher: Cipher,
    shared: Option<kem::Shared>,
    /// Empty until the first message is complete.
    response: Vec<u8>,
    /// A response is due, as soon as it is no longer than `credit`.
    due: bool,
    /// Bytes that came from the address, less those sent there.
    credit: usize,
    pub deadline: Duration,
}

/// What a datagram of a half-open handshake has brought about.
pub(crate) enum Step {
    /// Nothing, or a response that is due.
    Waits,
    /// The first message, now that it is complete, makes no sense: forget this handshake.
    Failed,
    /// The handshake is complete: take it out and call [`HalfOpen::finish`].
    Complete(Parameters),
}

impl HalfOpen {
    pub(crate) fn new(
        config: &Config,
        key: &StaticKey,
        (mut rng, ephemeral): (Rng, KeyPair),
        now: Duration,
        id: LinkId,
        initial: Initial<'_>,
    ) -> Result<Self, Refused> {
        let noise = Handshake::responder(key, ephemeral);
        let offer = Offer::decode(initial.noise.last_chunk().ok_or(Refused)?).ok_or(Refused)?;
        let mut half = Self {
            id,
            remote: initial.from,
            by: initial.by,
            noise,
            offer,
            cid: ConnectionId(rng.array()),
            rng,
            message: initial.noise.to_vec(),
            check: initial.part.map(|part| *part.check),
            ours: ours(config),
            accepts: (is_hybrid(config), offers_aes(config)),
            cipher: Cipher::ChaCha20Poly1305,
            shared: None,
            response: Vec::new(),
            due: false,
            credit: initial.len,
            deadline: now + HANDSHAKE_TIMEOUT,
        };
        match initial.part {
            Some(part) => half.message.extend_from_slice(part.part),
            None => half.answer()?,
        }
        Ok(half)
    }

    /// Makes the response to the complete first message.
    fn answer(&mut self) -> Result<(), Refused> {
        let payload = self.noise.read(&self.message)?;
        let (_, key) = payload.split_first_chunk::<OFFER_LEN>().ok_or(Refused)?;
        let (hybrid, aes) = self.accepts;
        self.cipher = self.offer.cipher(aes);
        let mut ciphertext = None;
        if self.offer.hybrid && hybrid {
            let key = key.try_into().map_err(|_| Refused)?;
            let (sent, shared) = kem::encapsulate(key, &mut self.rng).ok_or(Refused)?;
            self.shared = Some(shared);
            ciphertext = Some(sent);
        }
        let (cid, cipher, parameters) = (self.cid, self.cipher, self.ours);
        let answer = Answer { cid, cipher, hybrid: ciphertext.is_some(), parameters };
        let mut payload = answer.encode().to_vec();
        payload.extend_from_slice(ciphertext.as_ref().map_or(&[], |c| &c[..]));
        let mut message = Vec::new();
        self.noise.write(&payload, &mut message)?;
        self.response = match ciphertext {
            None => Message::Response { noise: message.first_chunk().ok_or(Refused)? }.to_vec(),
            Some(_) => {
                let noise = message.first_chunk().ok_or(Refused)?;
                Message::HybridResponse { noise }.to_vec()
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
        let least = ENVELOPE_HEADER + self.response.len();
        if !self.due || self.credit < least.max(MIN_INITIAL) {
            return None;
        }
        self.due = false;
        let len = self.credit.min(BASE_DATAGRAM) - self.rng.below(64);
        envelope.seal(self.offer.cid, &self.response, len, buf);
        self.credit = self.credit.saturating_sub(buf.len());
        Some(Transmit { to: self.remote, len: buf.len(), segment_size: None, ecn: false })
    }

    pub(crate) fn is_from(&self, address: SocketAddr) -> bool {
        address == self.remote
    }

    /// Takes a datagram of this handshake.
    pub(crate) fn handle(
        &mut self,
        from: SocketAddr,
        envelope: &EnvelopeKey,
        datagram: &[u8],
    ) -> Step {
        if from != self.remote {
            return Step::Waits;
        }
        let Some(body) = envelope.open(datagram) else { return Step::Waits };
        match Message::parse(&body) {
            // The dialer has not had our response: once more, as soon as it has sent that much.
            Some(Message::Initial { noise, .. })
                if self.message.starts_with(noise) && datagram.len() >= MIN_INITIAL =>
            {
                self.credit += datagram.len();
                self.due = !self.response.is_empty();
            }
            Some(Message::Rest { rest }) if self.check == Some(check(rest)) => {
                self.credit += datagram.len();
                if self.response.is_empty() {
                    self.message.extend_from_slice(rest);
                    return self.answer().map_or(Step::Failed, |()| Step::Waits);
                }
                self.due = true;
            }
            Some(Message::Finish { noise }) if !self.response.is_empty() => {
                let theirs = self.noise.read(noise).ok();
                let theirs = theirs.and_then(|p| Parameters::decode(p.first_chunk()?));
                return theirs.map_or(Step::Waits, Step::Complete);
            }
            _ => {}
        }
        Step::Waits
    }

    pub(crate) fn finish(
        self,
        config: &Config,
        now: Duration,
        theirs: Parameters,
    ) -> Result<NewLink, Refused> {
        let peer = self.noise.remote().ok_or(Refused)?;
        let secrets = self.noise.finish().ok_or(Refused)?;
        let (receiving, sending) = directions(&secrets, self.shared.as_deref(), self.cipher);
        Ok(NewLink {
            id: self.id,
            peer,
            remote: self.remote,
            sealer: Sealer::new(self.cipher, sending, config.rekey, now),
            opener: Opener::new(self.cipher, receiving),
            theirs,
            post_quantum: self.shared.is_some(),
            rng: self.rng,
            finish: None,
        })
    }
}

/// What an initial says, and where it came from.
#[derive(Clone, Copy)]
pub(crate) struct Initial<'a> {
    pub from: SocketAddr,
    pub by: DialedBy,
    pub noise: &'a [u8; NOISE_1_LEN],
    pub part: Option<Part<'a>>,
    pub len: usize,
}
