//! [`Dialing`]: the dialer's side of a handshake under way.

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use core::time::Duration;

use super::cookies::Cookies;
use super::{DialedBy, HANDSHAKE_TIMEOUT, directions, is_hybrid, offers_aes, ours, short_len};
use crate::config::{LinkConfig, PostQuantum, Suites};
use crate::elligator::KeyPair;
use crate::envelope::EnvelopeKey;
use crate::event::{CloseReason, LinkId, Transmit};
use crate::header::ConnectionId;
use crate::kdf::LinkRng;
use crate::kem::{self, Decapsulator};
use crate::link::{Finish, NewLink};
use crate::message::{
    HandshakeMessage, KemKeyPart, MIN_INITIAL, NOISE_1_LEN, NOISE_3_LEN, NoiseOneHead,
    OfferPayload, PART_LEN, REST_LEN, ResponsePayload, check, peek_response,
};
use crate::mtu::MAX_DATAGRAM;
use crate::noise::{Handshake, NoiseRefused};
use crate::seal::{Opener, Sealer};
use crate::shape::Level;
use crate::{PeerKey, StaticKey};

/// Number of different lengths of initials.
const LENGTHS: usize = 33;
/// Wait before the first retransmission of a handshake message; doubles each time.
const HANDSHAKE_RETRY: Duration = Duration::from_millis(250);
/// Longest wait between retransmissions.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(2);
/// Most initials sent out of turn, because of a retry or of responses that were dropped unprocessed.
const MAX_EXTRA_INITIALS: u8 = 200;
/// Shortest time between two of them.
const EXTRA_INITIAL_INTERVAL: Duration = Duration::from_millis(25);
/// Most answers of a dial without an expected key that are links at the same time.
const MAX_ANSWERS: usize = 4;
/// Most answers in all, where the program has closed earlier ones.
const MAX_KEYS: usize = 32;

/// A dialer that waits for a response.
pub(crate) struct Dialing {
    id: LinkId,
    remote: SocketAddr,
    expected: Option<PeerKey>,
    /// Keys that answers have proven: each counts once.
    keys: Vec<PeerKey>,
    /// Links that came of this dial; while there are any, nothing is sent of our own accord.
    answers: usize,
    /// The reason for its end if no answer is accepted.
    verdict: CloseReason,
    envelope: EnvelopeKey,
    /// The open envelope, for asking which other key is at the address; `None` where that is off.
    open_envelope: Option<EnvelopeKey>,
    /// State after the first message: each answer is read in a copy.
    noise: Handshake,
    rng: LinkRng,
    /// A random id by which the responder knows this handshake until it has chosen an id itself.
    target: ConnectionId,
    /// Our id, under which the response is expected.
    pub cid: ConnectionId,
    offer: OfferPayload,
    decapsulator: Option<Decapsulator>,
    /// Whether an answer without a hybrid is refused.
    needs_hybrid: bool,
    /// The shaping level that this side wants.
    shaping: Level,
    /// Noise message 1, with the KEM key if one is offered.
    message: Vec<u8>,
    cookies: Cookies,
    sent: u32,
    /// When an initial is due out of turn. `extra_initials`: how many were sent so, and when the last one was.
    hurry: Option<Duration>,
    extra_initials: (u8, Option<Duration>),
    /// When the first initial was sent.
    begun: Option<Duration>,
    /// When the rest of the message is due, in the same envelope as the initial before, and how often. It goes again
    /// after a quarter of the wait, in case the first one overtook the initial.
    rest_due: Option<(Duration, DialedBy, u8)>,
    next: Duration,
    wait: Duration,
    deadline: Duration,
    /// Shortest length of initials, in bytes, and the number of different lengths.
    least: usize,
    lengths: usize,
}

/// The verdict on a response.
pub(crate) enum ResponseVerdict {
    /// Not authentic, or not needed now: nothing has changed.
    Ignored,
    /// The first response by another key than the expected one; the expected peer may still answer.
    OtherKey(PeerKey),
    /// A response of the expected peer that ends the dial.
    Failed(CloseReason),
    /// Authentic and acceptable: call [`Dialing::finish`].
    Answered(Box<AcceptedResponse>),
}

/// An acceptable response.
pub(crate) struct AcceptedResponse {
    noise: Handshake,
    peer: PeerKey,
    answer: ResponsePayload,
    shared: Option<kem::Shared>,
    by: DialedBy,
}

/// The destination of a dial.
pub(crate) struct DialTarget {
    pub(crate) remote: SocketAddr,
    /// Only the holder of this key may answer.
    pub(crate) expected: Option<PeerKey>,
    /// The key that hides the handshake.
    pub(crate) envelope: EnvelopeKey,
}

impl Dialing {
    pub(crate) fn new(
        config: &LinkConfig,
        key: &StaticKey,
        mut rng: LinkRng,
        ephemeral: KeyPair,
        now: Duration,
        id: LinkId,
        target: DialTarget,
    ) -> Self {
        let DialTarget { remote, expected, envelope } = target;
        let (target, cid) = (ConnectionId(rng.array()), ConnectionId(rng.array()));
        let mut noise = Handshake::initiator(key, ephemeral);
        let decapsulator = is_hybrid(config).then(|| Decapsulator::generate(&mut rng)).flatten();
        let (aes, xchacha) = (offers_aes(config), config.suites == Suites::XChaCha);
        let offer = OfferPayload { cid, aes, hybrid: decapsulator.is_some(), xchacha };
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
            keys: Vec::new(),
            answers: 0,
            verdict: CloseReason::HandshakeTimeout,
            envelope,
            open_envelope: config.ask_who_answers.then(|| EnvelopeKey::new(None)),
            noise,
            rng,
            target,
            cid,
            offer,
            decapsulator,
            needs_hybrid: config.post_quantum == PostQuantum::Require,
            shaping: config.shaping.level,
            message,
            cookies: Cookies::default(),
            sent: 0,
            hurry: None,
            extra_initials: (0, None),
            begun: None,
            rest_due: None,
            next: now,
            wait: HANDSHAKE_RETRY,
            deadline: now + HANDSHAKE_TIMEOUT,
            least: MIN_INITIAL,
            lengths: LENGTHS,
        }
    }

    /// Draws the lengths of all initials from this range from now on.
    pub(crate) fn needs_room(&mut self, room: &RangeInclusive<usize>) {
        self.least = (*room.start()).clamp(MIN_INITIAL, MAX_DATAGRAM);
        self.lengths = room.end().saturating_sub(self.least).saturating_add(1);
    }

    /// The id that the dialling call returned.
    pub(crate) fn id(&self) -> LinkId {
        self.id
    }

    /// Returns whether any key may answer, and further ones after the first.
    pub(crate) fn accepts_any_key(&self) -> bool {
        self.expected.is_none()
    }

    pub(crate) fn next_timeout(&self) -> Duration {
        let rest = self.rest_due.map(|(at, ..)| at);
        let next = (self.answers == 0).then_some(self.next);
        let all = [Some(self.deadline), rest, next, self.hurry];
        all.into_iter().flatten().min().unwrap_or(self.deadline)
    }

    /// The reason for its end, once it is over.
    pub(crate) fn is_over(&self, now: Duration) -> Option<CloseReason> {
        (now >= self.deadline).then_some(self.verdict)
    }

    pub(crate) fn poll_transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (body, len, by) = if let Some((at, by, left)) = self.rest_due
            && at <= now
        {
            self.rest_due = (left > 1).then_some((now + self.wait / 8, by, left - 1));
            let len = short_len(self.shaping, &mut self.rng);
            (HandshakeMessage::Rest { rest: self.split()?.1?.1 }.to_vec(), len, by)
        } else {
            let by = self.due_envelope(now)?;
            self.rest_due = self.offer.hybrid.then_some((now, by, 2));
            // The padding's length, and with it every byte, differs from one initial to the next.
            (self.initial()?, self.least.saturating_add(self.rng.below(self.lengths)), by)
        };
        self.envelope_of(by).seal(self.target, &body, len, buf);
        Some(Transmit { to: self.remote, len: buf.len(), segment_size: None, ecn: false })
    }

    /// The path's round trip, where it is certain which initial was answered (Karn's rule).
    fn round_trip(&self, now: Duration) -> Option<Duration> {
        let is_one = self.sent == 1 && self.extra_initials.0 == 0;
        self.begun.filter(|_| is_one).map(|begun| now.saturating_sub(begun))
    }

    /// Returns the envelope of the initial that is due, if one is.
    fn due_envelope(&mut self, now: Duration) -> Option<DialedBy> {
        if self.hurry.is_some_and(|at| at <= now) {
            self.hurry = None;
            self.extra_initials = (self.extra_initials.0.saturating_add(1), Some(now));
            return Some(DialedBy::Key);
        }
        if self.answers > 0 || now < self.next {
            return None;
        }
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(MAX_RETRY_WAIT);
        self.begun.get_or_insert(now);
        self.sent += 1;
        let ask = self.sent > 2 && self.sent % 2 == 1 && self.open_envelope.is_some();
        Some(if ask { DialedBy::Address } else { DialedBy::Key })
    }

    /// Has an initial sent out of turn, but not too often: an attacker that triggers it with forgeries must not make us
    /// flood the peer.
    pub(crate) fn schedule_extra_initial(&mut self, now: Duration) {
        let (count, last) = self.extra_initials;
        if count < MAX_EXTRA_INITIALS {
            let at = last.map_or(now, |last| now.max(last + EXTRA_INITIAL_INTERVAL));
            self.hurry = Some(self.hurry.map_or(at, |hurry| hurry.min(at)));
        }
    }

    /// The first message's head, and the two pieces of its KEM key if it has one.
    #[expect(clippy::type_complexity, reason = "three pieces of fixed lengths")]
    fn split(&self) -> Option<(&[u8; NOISE_1_LEN], Option<(&[u8; PART_LEN], &[u8; REST_LEN])>)> {
        let (head, key) = self.message.split_first_chunk()?;
        let pieces = key.split_first_chunk();
        Some((head, pieces.and_then(|(part, rest)| Some((part, rest.first_chunk()?)))))
    }

    fn initial(&mut self) -> Option<Vec<u8>> {
        let cookie = &self.cookies.next();
        let (noise, pieces) = self.split()?;
        let rest = pieces.map(|(_, rest)| check(rest));
        let part = pieces.zip(rest.as_ref()).map(|((part, _), check)| KemKeyPart { check, part });
        Some(HandshakeMessage::Initial { cookie, head: NoiseOneHead { noise, part } }.to_vec())
    }

    /// A dialer that does not know the responder's key uses the open envelope as its own.
    fn envelope_of(&self, by: DialedBy) -> &EnvelopeKey {
        match (by, &self.open_envelope) {
            (DialedBy::Address, Some(open)) => open,
            _ => &self.envelope,
        }
    }

    /// Returns whether a datagram begins as a response in an envelope of ours does.
    pub(crate) fn may_be_response(&self, datagram: &[u8]) -> bool {
        let envelopes = [Some(&self.envelope), self.open_envelope.as_ref()];
        let mut peeked = envelopes.into_iter().flatten().filter_map(|key| key.peek(datagram));
        peeked.any(|first| peek_response(&first))
    }

    pub(crate) fn handle(&mut self, now: Duration, datagram: &[u8]) -> ResponseVerdict {
        let keyed = self.envelope.open(datagram).map(|body| (body, DialedBy::Key));
        let asked = || {
            let body = self.open_envelope.as_ref()?.open(datagram)?;
            Some((body, DialedBy::Address))
        };
        let Some((body, by)) = keyed.or_else(asked) else { return ResponseVerdict::Ignored };
        match HandshakeMessage::parse(&body) {
            Some(HandshakeMessage::Retry { cookie })
                if self.cookies.receive(cookie, &mut self.rng) =>
            {
                self.schedule_extra_initial(now);
                ResponseVerdict::Ignored
            }
            Some(HandshakeMessage::Response { noise }) => self.on_response(noise, by),
            Some(HandshakeMessage::HybridResponse { noise }) => self.on_response(noise, by),
            _ => ResponseVerdict::Ignored,
        }
    }

    /// Reads a response. A refused or useless one leaves no trace: the next one is read from the state before either.
    fn read(&self, noise: &[u8]) -> Result<(Handshake, Vec<u8>), NoiseRefused> {
        let mut state = self.noise.clone();
        let payload = state.read(noise)?;
        Ok((state, payload))
    }

    fn on_response(&mut self, noise: &[u8], by: DialedBy) -> ResponseVerdict {
        let Ok((noise, payload)) = self.read(noise) else { return ResponseVerdict::Ignored };
        // From here on the message is authentic: its sender holds the key that it names.
        let Some(peer) = noise.remote() else { return ResponseVerdict::Ignored };
        if self.expected.is_some_and(|expected| expected != peer) {
            self.verdict = CloseReason::WrongPeer;
            if !self.keys.is_empty() {
                return ResponseVerdict::Ignored;
            }
            self.keys.push(peer);
            return ResponseVerdict::OtherKey(peer);
        }
        let room = self.answers < MAX_ANSWERS && self.keys.len() < MAX_KEYS;
        if self.accepts_any_key() && (!room || self.keys.contains(&peer)) {
            return ResponseVerdict::Ignored;
        }
        match self.judge(&payload) {
            Ok((answer, shared)) => ResponseVerdict::Answered(Box::new(AcceptedResponse {
                noise,
                peer,
                answer,
                shared,
                by,
            })),
            // Where any key may answer, a bad answer does not exclude others.
            Err(reason) if self.accepts_any_key() => {
                self.verdict = reason;
                ResponseVerdict::Ignored
            }
            Err(reason) => ResponseVerdict::Failed(reason),
        }
    }

    /// Returns the content of an authentic answer if it is acceptable.
    fn judge(&self, payload: &[u8]) -> Result<(ResponsePayload, Option<kem::Shared>), CloseReason> {
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

    /// Records the end of a link that came of this dial: if it was the last one, initials are sent again.
    pub(crate) fn on_answer_closed(&mut self) {
        self.answers = self.answers.saturating_sub(1);
        if self.answers == 0 {
            // Due at once: zero is in the past.
            self.wait = HANDSHAKE_RETRY;
            self.next = Duration::ZERO;
        }
    }

    /// Makes a link of an acceptable response, under the given id.
    pub(crate) fn finish(
        &mut self,
        config: &LinkConfig,
        now: Duration,
        id: LinkId,
        answered: AcceptedResponse,
    ) -> Result<NewLink, NoiseRefused> {
        let AcceptedResponse { mut noise, peer, answer, shared, by } = answered;
        self.keys.push(peer);
        let mut message = Vec::new();
        noise.write(&ours(config).encode(), &mut message)?;
        let third: [u8; NOISE_3_LEN] = message.try_into().map_err(|_| NoiseRefused)?;
        let mut datagram = Vec::new();
        let len = short_len(self.shaping, &mut self.rng);
        let body = HandshakeMessage::Finish { noise: &third }.to_vec();
        // The responder answered in this envelope, and knows the handshake by it.
        self.envelope_of(by).seal(answer.cid, &body, len, &mut datagram);
        let secrets = noise.finish().ok_or(NoiseRefused)?;
        let (sending, receiving) = directions(&secrets, shared.as_deref(), answer.cipher);
        self.answers += 1;
        self.rest_due = None;
        Ok(NewLink {
            id,
            peer,
            remote: self.remote,
            sealer: Sealer::new(answer.cipher, sending, config.rekey, now),
            opener: Opener::new(answer.cipher, receiving),
            theirs: answer.parameters,
            post_quantum: shared.is_some(),
            rtt: self.round_trip(now),
            rng: self.rng.child(),
            finish: Some(Finish {
                datagram,
                next: now,
                wait: HANDSHAKE_RETRY,
                deadline: now + HANDSHAKE_TIMEOUT,
            }),
        })
    }
}
