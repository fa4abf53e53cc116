//! Handshakes under way: [`Dialing`] for the side that connects, [`HalfOpen`] for the side that
//! was found. Each consumes itself into what a link is made of.

mod half_open;

pub(crate) use half_open::{HalfOpen, Initial, Step};

use core::net::SocketAddr;
use core::time::Duration;

use crate::aead::Cipher;
use crate::config::{Config, PostQuantum, Suites};
use crate::elligator::KeyPair;
use crate::envelope::EnvelopeKey;
use crate::epoch::EpochSecret;
use crate::event::{CloseReason, LinkId, Transmit};
use crate::header::ConnectionId;
use crate::kdf::{Rng, label};
use crate::kem::{self, Decapsulator};
use crate::link::{Finish, NewLink};
use crate::message::{
    Answer, COOKIE_LEN, MIN_INITIAL, Message, NOISE_1_LEN, NOISE_3_LEN, Offer, PART_LEN,
    Parameters, Part, REST_LEN, check,
};
use crate::noise::{Handshake, Refused, Secrets};
use crate::seal::{Opener, Sealer};
use crate::shape::Level;
use crate::{PeerKey, StaticKey};

/// A handshake that is not complete after this long is given up.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Wait before the first retransmission of a handshake packet; doubles each time.
const HANDSHAKE_RETRY: Duration = Duration::from_millis(250);
/// Retransmissions are never further apart.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(2);
/// Cookies that a dialer takes in one handshake.
const MAX_COOKIES: u8 = 4;
/// A finish and a rest have no reason to be as long as an initial; their length varies within this.
const SHORT_LEN: core::ops::Range<usize> = 128..256;

fn ours(config: &Config) -> Parameters {
    let (max_datagram, idle_timeout) = (config.max_datagram, config.idle_timeout);
    let (shaping, shaping_limit) = (config.shaping.level as u8, config.shaping.limit as u8);
    Parameters { max_datagram, idle_timeout, shaping, shaping_limit }
}

/// How long a rest or a finish is: whoever wants to be shaped makes them as long as initials.
fn short_len(shaping: Level, rng: &mut Rng) -> usize {
    match shaping {
        Level::Off => SHORT_LEN.start + rng.below(SHORT_LEN.len()),
        _ => MIN_INITIAL + rng.below(33),
    }
}

pub(crate) fn offers_aes(config: &Config) -> bool {
    config.suites == Suites::Fastest && Cipher::aes_is_fast()
}

fn is_hybrid(config: &Config) -> bool {
    config.post_quantum == PostQuantum::Offer && kem::is_available()
}

/// The dialer, waiting for a response.
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
    decapsulator: Option<Decapsulator>,
    /// The level that is wanted.
    shaping: Level,
    /// Noise message 1, with the KEM key if one is offered.
    message: Vec<u8>,
    cookie: [u8; COOKIE_LEN],
    cookies_taken: u8,
    sent: u32,
    /// When the rest of the message is due, in the same envelope as the initial before, and how
    /// often: again after a quarter of the wait, in case the first has overtaken the initial.
    rest_due: Option<(Duration, DialedBy, u8)>,
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
    Complete(Answer, Option<kem::Shared>, DialedBy),
}

impl Dialing {
    pub(crate) fn new(
        config: &Config,
        key: &StaticKey,
        (mut rng, ephemeral): (Rng, KeyPair),
        now: Duration,
        id: LinkId,
        (remote, expected, envelope): (SocketAddr, Option<PeerKey>, EnvelopeKey),
    ) -> Self {
        let (target, cid) = (ConnectionId(rng.array()), ConnectionId(rng.array()));
        let mut noise = Handshake::initiator(key, ephemeral);
        let decapsulator = is_hybrid(config).then(|| Decapsulator::generate(&mut rng)).flatten();
        let (aes, xchacha) = (offers_aes(config), config.suites == Suites::XChaCha);
        let offer = Offer { cid, aes, hybrid: decapsulator.is_some(), xchacha };
        let mut payload = offer.encode().to_vec();
        if let Some(decapsulator) = &decapsulator {
            payload.extend_from_slice(&decapsulator.key());
        }
        let mut message = Vec::new();
        let written = noise.write(&payload, &mut message);
        written.expect("the first message has no key to refuse");
        Self {
            id,
            remote,
            expected,
            envelope,
            open_envelope: config.ask_who_answers.then(|| EnvelopeKey::new(None)),
            noise,
            rng,
            target,
            cid,
            offer,
            decapsulator,
            shaping: config.shaping.level,
            message,
            cookie: [0; COOKIE_LEN],
            cookies_taken: 0,
            sent: 0,
            rest_due: None,
            next: now,
            wait: HANDSHAKE_RETRY,
            deadline: now + HANDSHAKE_TIMEOUT,
        }
    }

    pub(crate) fn next_timeout(&self) -> Duration {
        let rest = self.rest_due.map_or(self.next, |(at, ..)| at);
        self.next.min(rest).min(self.deadline)
    }

    pub(crate) fn is_over(&self, now: Duration) -> bool {
        now >= self.deadline
    }

    pub(crate) fn poll_transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (body, len, by) = if let Some((at, by, left)) = self.rest_due
            && at <= now
        {
            self.rest_due = (left > 1).then_some((now + self.wait / 8, by, left - 1));
            let len = short_len(self.shaping, &mut self.rng);
            (Message::Rest { rest: self.split()?.1?.1 }.to_vec(), len, by)
        } else if now < self.next {
            return None;
        } else {
            self.next = now + self.wait;
            self.wait = (self.wait * 2).min(MAX_RETRY_WAIT);
            self.sent += 1;
            let ask = self.sent > 2 && self.sent % 2 == 1 && self.open_envelope.is_some();
            let by = if ask { DialedBy::Address } else { DialedBy::Key };
            self.rest_due = self.offer.hybrid.then_some((now, by, 2));
            // The padding's length, and with it every byte, differs from one to the next.
            (self.initial()?, MIN_INITIAL + self.rng.below(33), by)
        };
        self.envelope_of(by).seal(self.target, &body, len, buf);
        Some(Transmit { to: self.remote, len: buf.len(), segment_size: None, ecn: false })
    }

    /// The first message's head, and the two pieces of its KEM key if it has one.
    #[expect(clippy::type_complexity, reason = "three pieces of fixed lengths")]
    fn split(&self) -> Option<(&[u8; NOISE_1_LEN], Option<(&[u8; PART_LEN], &[u8; REST_LEN])>)> {
        let (head, key) = self.message.split_first_chunk()?;
        let pieces = key.split_first_chunk();
        Some((head, pieces.and_then(|(part, rest)| Some((part, rest.first_chunk()?)))))
    }

    fn initial(&self) -> Option<Vec<u8>> {
        let (noise, pieces) = self.split()?;
        let cookie = &self.cookie;
        let initial = match pieces {
            None => Message::Initial { cookie, noise, part: None }.to_vec(),
            Some((part, rest)) => {
                let part = Some(Part { check: &check(rest), part });
                Message::Initial { cookie, noise, part }.to_vec()
            }
        };
        Some(initial)
    }

    /// A dialer that does not know the responder's key has only the open envelope, as its own.
    fn envelope_of(&self, by: DialedBy) -> &EnvelopeKey {
        match (by, &self.open_envelope) {
            (DialedBy::Address, Some(open)) => open,
            _ => &self.envelope,
        }
    }

    pub(crate) fn handle(&mut self, now: Duration, datagram: &[u8]) -> Dialed {
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
            Some(Message::HybridResponse { noise }) => self.on_response(noise, by),
            _ => Dialed::Ignored,
        }
    }

    fn on_response(&mut self, noise: &[u8], by: DialedBy) -> Dialed {
        let Ok(answer) = self.noise.read(noise) else { return Dialed::Ignored };
        // From here on the message is authentic: whoever sent it holds the key it names.
        if self.expected.is_some() && self.noise.remote() != self.expected {
            return Dialed::Failed(CloseReason::WrongPeer);
        }
        let Some((answer, ciphertext)) = Answer::decode(&answer) else {
            return Dialed::Failed(CloseReason::PeerMisbehaved);
        };
        let shared = match (ciphertext, &self.decapsulator) {
            (Some(ciphertext), Some(ours)) => Some(ours.open(ciphertext)),
            (Some(_), None) => return Dialed::Failed(CloseReason::PeerMisbehaved),
            (None, _) => None,
        };
        if ![true, false].map(|aes| self.offer.cipher(aes)).contains(&answer.cipher) {
            return Dialed::Failed(CloseReason::PeerMisbehaved);
        }
        Dialed::Complete(answer, shared, by)
    }

    pub(crate) fn finish(
        mut self,
        config: &Config,
        now: Duration,
        answer: Answer,
        shared: Option<kem::Shared>,
        by: DialedBy,
    ) -> Result<NewLink, Refused> {
        let mut message = Vec::new();
        self.noise.write(&ours(config).encode(), &mut message)?;
        let noise: [u8; NOISE_3_LEN] = message.try_into().map_err(|_| Refused)?;
        let mut datagram = Vec::new();
        let len = short_len(self.shaping, &mut self.rng);
        let body = Message::Finish { noise: &noise }.to_vec();
        // In the envelope that the responder has answered in: it knows this handshake by that one.
        self.envelope_of(by).seal(answer.cid, &body, len, &mut datagram);
        let peer = self.noise.remote().ok_or(Refused)?;
        let secrets = self.noise.finish().ok_or(Refused)?;
        let (sending, receiving) = directions(&secrets, shared.as_deref(), answer.cipher);
        Ok(NewLink {
            id: self.id,
            peer,
            remote: self.remote,
            sealer: Sealer::new(answer.cipher, sending, config.rekey, now),
            opener: Opener::new(answer.cipher, receiving),
            theirs: answer.parameters,
            post_quantum: shared.is_some(),
            rng: self.rng,
            finish: Some(Finish {
                datagram,
                next: now,
                wait: HANDSHAKE_RETRY,
                deadline: now + HANDSHAKE_TIMEOUT,
            }),
        })
    }
}

/// First epoch of initiator to responder, and of responder to initiator.
fn directions(
    secrets: &Secrets,
    shared: Option<&[u8; 32]>,
    cipher: Cipher,
) -> (EpochSecret, EpochSecret) {
    let first = |label, split: &[u8; 32]| {
        EpochSecret::first(label, split, shared, &secrets.transcript, cipher)
    };
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
    /// The knock of this number, instead of it.
    Knock(usize),
    /// No key: whoever listens.
    Address,
}
