//! Handshakes under way: [`Dialing`] for the side that connects, [`HalfOpen`] for the side that
//! was found. Each consumes itself into what a link is made of.

use core::net::SocketAddr;
use core::time::Duration;

use crate::config::{AesOffer, CloseReason, Config, LinkId, Transmit};
use crate::envelope::EnvelopeKey;
use crate::kdf::{Rng, label};
use crate::link::{Finish, NewLink, Parameters};
use crate::message::{
    Answer, COOKIE_LEN, MIN_INITIAL, Message, NOISE_1_LEN, NOISE_2_LEN, NOISE_3_LEN, Offer,
};
use crate::noise::{Handshake, Refused, Secrets};
use crate::seal::{Cipher, ConnectionId, EpochSecret, Opener, Sealer};
use crate::{PeerKey, StaticKey};

/// Retransmissions are never further apart.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(2);
/// Cookies that a dialer takes in one handshake.
const MAX_COOKIES: u8 = 4;
/// A finish has no reason to be as long as an initial; its length varies within this.
const FINISH_LEN: core::ops::Range<usize> = 128..256;

fn ours(config: &Config) -> Parameters {
    Parameters { max_datagram: config.max_datagram, idle_timeout: config.idle_timeout }
}

pub(crate) fn offers_aes(config: &Config) -> bool {
    config.aes == AesOffer::WhenFast && Cipher::aes_is_fast()
}

/// The dialer, waiting for a response.
#[derive(Debug)]
pub(crate) struct Dialing {
    id: LinkId,
    remote: SocketAddr,
    expected: Option<PeerKey>,
    envelope: EnvelopeKey,
    /// For asking who else is there; `None` where that is not wanted.
    open_envelope: Option<EnvelopeKey>,
    noise: Handshake,
    rng: Rng,
    /// Random; what the responder knows this handshake by until it has chosen an id itself.
    target: ConnectionId,
    /// Ours, where the response is expected.
    pub cid: ConnectionId,
    offer: Offer,
    message: [u8; NOISE_1_LEN],
    cookie: [u8; COOKIE_LEN],
    cookies_taken: u8,
    sent: u32,
    next: Duration,
    wait: Duration,
    deadline: Duration,
}

/// What a response is worth.
pub(crate) enum Dialed {
    /// Not authentic, or of no use now: nothing has changed.
    Ignored,
    /// Authentic, and the end of it.
    Failed(CloseReason),
    /// Authentic and good: take the handshake out and call [`Dialing::finish`].
    Complete(Answer, DialedBy),
}

impl Dialing {
    pub fn new(
        config: &Config,
        key: &StaticKey,
        mut rng: Rng,
        now: Duration,
        id: LinkId,
        to: (SocketAddr, Option<PeerKey>),
    ) -> Self {
        let (target, cid) = (ConnectionId(rng.array()), ConnectionId(rng.array()));
        let mut noise = Handshake::initiator(key, &mut rng);
        let offer = Offer { cid, aes: offers_aes(config) };
        let mut message = Vec::new();
        let written = noise.write(&offer.encode(), &mut message);
        written.expect("the first message has no key to refuse");
        Self {
            id,
            remote: to.0,
            expected: to.1,
            envelope: EnvelopeKey::new(to.1),
            open_envelope: config.ask_who_answers.then(|| EnvelopeKey::new(None)),
            noise,
            rng,
            target,
            cid,
            offer,
            message: message.try_into().expect("key and payload have fixed lengths"),
            cookie: [0; COOKIE_LEN],
            cookies_taken: 0,
            sent: 0,
            next: now,
            wait: config.handshake_retry,
            deadline: now + config.handshake_timeout,
        }
    }

    pub fn next_timeout(&self) -> Duration {
        self.next.min(self.deadline)
    }

    pub fn is_over(&self, now: Duration) -> bool {
        now >= self.deadline
    }

    pub fn poll_transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        if now < self.next {
            return None;
        }
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(MAX_RETRY_WAIT);
        let body = Message::Initial { cookie: &self.cookie, noise: &self.message }.to_vec();
        // The padding's length, and with it every byte, differs from one transmission to the next.
        let len = MIN_INITIAL + self.rng.below(33);
        self.sent += 1;
        let ask = self.sent > 2 && self.sent % 2 == 1;
        let envelope = self.open_envelope.as_ref().filter(|_| ask).unwrap_or(&self.envelope);
        envelope.seal(self.target, &body, len, buf);
        Some(Transmit { to: self.remote, len: buf.len(), segment_size: None })
    }

    pub fn handle(&mut self, now: Duration, datagram: &[u8]) -> Dialed {
        let keyed = self.envelope.open(datagram).map(|body| (body, DialedBy::Key));
        let asked = || {
            let body = self.open_envelope.as_ref()?.open(datagram)?;
            Some((body, DialedBy::Address))
        };
        let Some((body, by)) = keyed.or_else(asked) else { return Dialed::Ignored };
        match Message::parse(&body) {
            Some(Message::Retry { cookie }) if self.cookies_taken < MAX_COOKIES => {
                self.cookies_taken += 1;
                self.cookie = *cookie;
                self.next = now;
                Dialed::Ignored
            }
            Some(Message::Response { noise }) => self.on_response(noise, by),
            _ => Dialed::Ignored,
        }
    }

    fn on_response(&mut self, noise: &[u8; NOISE_2_LEN], by: DialedBy) -> Dialed {
        let Ok(answer) = self.noise.read(noise) else { return Dialed::Ignored };
        // From here on the message is authentic: whoever sent it holds the key it names.
        if self.expected.is_some() && self.noise.remote() != self.expected {
            return Dialed::Failed(CloseReason::WrongPeer);
        }
        match Answer::decode(&answer) {
            Some(answer) if answer.cipher != Cipher::Aes256Gcm || self.offer.aes => {
                Dialed::Complete(answer, by)
            }
            _ => Dialed::Failed(CloseReason::PeerMisbehaved),
        }
    }

    pub fn finish(
        mut self,
        config: &Config,
        now: Duration,
        answer: Answer,
        by: DialedBy,
    ) -> Result<NewLink, Refused> {
        let mut message = Vec::new();
        self.noise.write(&ours(config).encode(), &mut message)?;
        let noise: [u8; NOISE_3_LEN] = message.try_into().map_err(|_| Refused)?;
        let mut datagram = Vec::new();
        let len = FINISH_LEN.start + self.rng.below(FINISH_LEN.len());
        let body = Message::Finish { noise: &noise }.to_vec();
        // In the envelope that the responder has answered in: it knows this handshake by that one.
        let envelope = match (by, &self.open_envelope) {
            (DialedBy::Address, Some(open)) => open,
            _ => &self.envelope,
        };
        envelope.seal(answer.cid, &body, len, &mut datagram);
        let peer = self.noise.remote().ok_or(Refused)?;
        let secrets = self.noise.finish().ok_or(Refused)?;
        let (sending, receiving) = directions(&secrets, answer.cipher);
        Ok(NewLink {
            id: self.id,
            peer,
            remote: self.remote,
            sealer: Sealer::new(answer.cipher, sending, config.rekey, now),
            opener: Opener::new(answer.cipher, receiving, config.old_epoch_grace),
            theirs: answer.parameters,
            rng: self.rng,
            finish: Some(Finish {
                datagram,
                next: now,
                wait: config.handshake_retry,
                deadline: now + config.handshake_timeout,
            }),
        })
    }
}

/// First epoch of initiator to responder, and of responder to initiator.
fn directions(secrets: &Secrets, cipher: Cipher) -> (EpochSecret, EpochSecret) {
    let first =
        |label, split: &[u8; 32]| EpochSecret::first(label, split, &secrets.transcript, cipher);
    (
        first(label::INITIATOR_EPOCH, &secrets.initiator),
        first(label::RESPONDER_EPOCH, &secrets.responder),
    )
}

/// Which envelope the dialer used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DialedBy {
    /// Our public key.
    Key,
    /// No key: whoever listens.
    Address,
}

/// The responder, waiting for a finish. It never sends but in answer, and never more than it got.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    id: LinkId,
    remote: SocketAddr,
    pub by: DialedBy,
    noise: Handshake,
    rng: Rng,
    dialer_cid: ConnectionId,
    /// Ours, where the finish is expected.
    pub cid: ConnectionId,
    message: [u8; NOISE_1_LEN],
    cipher: Cipher,
    response: Vec<u8>,
    /// Length of the initial that is to be answered.
    answer: Option<usize>,
    pub deadline: Duration,
}

impl HalfOpen {
    pub fn new(
        config: &Config,
        key: &StaticKey,
        mut rng: Rng,
        now: Duration,
        id: LinkId,
        initial: Initial<'_>,
    ) -> Result<Self, Refused> {
        let mut noise = Handshake::responder(key, &mut rng);
        let offer = Offer::decode(&noise.read(initial.noise)?).ok_or(Refused)?;
        let aes = offer.aes && offers_aes(config);
        let cipher = if aes { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
        let cid = ConnectionId(rng.array());
        let answer = Answer { cid, cipher, parameters: ours(config) };
        let mut message = Vec::new();
        noise.write(&answer.encode(), &mut message)?;
        let message: [u8; NOISE_2_LEN] = message.try_into().map_err(|_| Refused)?;
        Ok(Self {
            id,
            remote: initial.from,
            by: initial.by,
            noise,
            rng,
            dialer_cid: offer.cid,
            cid,
            message: *initial.noise,
            cipher,
            response: Message::Response { noise: &message }.to_vec(),
            answer: Some(initial.len),
            deadline: now + config.handshake_timeout,
        })
    }

    pub fn poll_transmit(&mut self, envelope: &EnvelopeKey, buf: &mut Vec<u8>) -> Option<Transmit> {
        let received = self.answer.take()?;
        let len = received - self.rng.below(64);
        envelope.seal(self.dialer_cid, &self.response, len, buf);
        Some(Transmit { to: self.remote, len: buf.len(), segment_size: None })
    }

    /// Takes a datagram of this handshake. `Some` is the peer's parameters: the handshake is
    /// complete, take it out and call [`HalfOpen::finish`].
    pub fn handle(
        &mut self,
        from: SocketAddr,
        envelope: &EnvelopeKey,
        datagram: &[u8],
    ) -> Option<Parameters> {
        if from != self.remote {
            return None;
        }
        let body = envelope.open(datagram)?;
        match Message::parse(&body)? {
            // The dialer has not had our response: once more, no longer than what it sent.
            Message::Initial { noise, .. }
                if *noise == self.message && datagram.len() >= MIN_INITIAL =>
            {
                self.answer = Some(datagram.len());
                None
            }
            Message::Finish { noise } => Parameters::decode(&self.noise.read(noise).ok()?),
            _ => None,
        }
    }

    pub fn finish(
        self,
        config: &Config,
        now: Duration,
        theirs: Parameters,
    ) -> Result<NewLink, Refused> {
        let peer = self.noise.remote().ok_or(Refused)?;
        let secrets = self.noise.finish().ok_or(Refused)?;
        let (receiving, sending) = directions(&secrets, self.cipher);
        Ok(NewLink {
            id: self.id,
            peer,
            remote: self.remote,
            sealer: Sealer::new(self.cipher, sending, config.rekey, now),
            opener: Opener::new(self.cipher, receiving, config.old_epoch_grace),
            theirs,
            rng: self.rng,
            finish: None,
        })
    }
}

/// What a first message says, and where it came from.
#[derive(Clone, Copy)]
pub(crate) struct Initial<'a> {
    pub from: SocketAddr,
    pub by: DialedBy,
    pub noise: &'a [u8; NOISE_1_LEN],
    pub len: usize,
}
