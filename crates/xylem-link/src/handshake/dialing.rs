//! [`Dialing`]: the dialer's side of a handshake under way.

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use core::time::Duration;

use super::answers::{AnswerBy, DialAnswers};
use super::cookies::Cookies;
use super::offer::DialOffer;
use super::schedule::{HANDSHAKE_RETRY, InitialSchedule};
use super::{DialedBy, HANDSHAKE_TIMEOUT, directions, ours, short_len};
use crate::config::LinkConfig;
use crate::elligator::KeyPair;
use crate::envelope::EnvelopeKey;
use crate::event::{CloseReason, LinkId, Transmit};
use crate::header::ConnectionId;
use crate::kdf::LinkRng;
use crate::kem;
use crate::link::{Finish, NewLink};
use crate::message::{HandshakeMessage, MIN_INITIAL, NOISE_3_LEN, ResponsePayload, peek_response};
use crate::mtu::MAX_DATAGRAM;
use crate::noise::{Handshake, NoiseRefused};
use crate::seal::{Opener, Sealer};
use crate::shape::Level;
use crate::{PeerKey, StaticKey};

/// Number of different lengths of initials.
const LENGTHS: usize = 33;

/// A dialer that waits for a response.
pub(crate) struct Dialing {
    id: LinkId,
    remote: SocketAddr,
    answers: DialAnswers,
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
    offer: DialOffer,
    /// The shaping level that this side wants.
    shaping: Level,
    cookies: Cookies,
    schedule: InitialSchedule,
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
        let offer = DialOffer::new(config, cid, &mut noise, &mut rng);
        Self {
            id,
            remote,
            answers: DialAnswers::new(expected),
            envelope,
            open_envelope: config.ask_who_answers.then(|| EnvelopeKey::new(None)),
            noise,
            rng,
            target,
            cid,
            offer,
            shaping: config.shaping.level,
            cookies: Cookies::default(),
            schedule: InitialSchedule::new(now),
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
        self.answers.accept_any_key()
    }

    pub(crate) fn next_timeout(&self) -> Duration {
        let due = self.schedule.next_timeout(self.answers.have_links());
        due.map_or(self.deadline, |due| due.min(self.deadline))
    }

    /// The reason for its end, once it is over.
    pub(crate) fn is_over(&self, now: Duration) -> Option<CloseReason> {
        (now >= self.deadline).then_some(self.answers.verdict())
    }

    pub(crate) fn poll_transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (body, len, by) = if let Some(by) = self.schedule.poll_rest(now) {
            (self.offer.rest()?, short_len(self.shaping, &mut self.rng), by)
        } else {
            let (rests, may_ask) = (self.answers.have_links(), self.open_envelope.is_some());
            let by = self.schedule.poll_initial(now, rests, may_ask, self.offer.has_rest())?;
            let body = self.offer.initial(&self.cookies.next())?;
            // The padding's length, and with it every byte, differs from one initial to the next.
            (body, self.least.saturating_add(self.rng.below(self.lengths)), by)
        };
        self.envelope_of(by).seal(self.target, &body, len, buf);
        Some(Transmit { to: self.remote, len: buf.len(), segment_size: None, ecn: false })
    }

    /// Has an initial sent out of turn, but not too often.
    pub(crate) fn schedule_extra_initial(&mut self, now: Duration) {
        self.schedule.hurry(now);
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
                self.schedule.hurry(now);
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
        match self.answers.receive(peer) {
            AnswerBy::Allowed => {}
            AnswerBy::Other => return ResponseVerdict::OtherKey(peer),
            AnswerBy::Needless => return ResponseVerdict::Ignored,
        }
        match self.offer.judge(&payload) {
            Ok((answer, shared)) => ResponseVerdict::Answered(Box::new(AcceptedResponse {
                noise,
                peer,
                answer,
                shared,
                by,
            })),
            Err(reason) if self.answers.refuse(reason) => ResponseVerdict::Failed(reason),
            Err(_) => ResponseVerdict::Ignored,
        }
    }

    /// Records the end of a link that came of this dial: if it was the last one, initials are sent again.
    pub(crate) fn on_answer_closed(&mut self) {
        if self.answers.close() {
            self.schedule.begin_again();
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
        self.answers.prove(peer);
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
        self.answers.open();
        self.schedule.on_answered();
        Ok(NewLink {
            id,
            peer,
            remote: self.remote,
            sealer: Sealer::new(answer.cipher, sending, config.rekey, now),
            opener: Opener::new(answer.cipher, receiving),
            theirs: answer.parameters,
            post_quantum: shared.is_some(),
            rtt: self.schedule.round_trip(now),
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
