//! [`CodeOffer`]: the side that shows a code and limits wrong guesses.
//!
//! The taker proves first that it has the key. A taker that stops before its proof has learned nothing and used no
//! guess; a wrong proof uses one. Proofs are checked one after the other, and none after the last guess is used,
//! however many tries are under way.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::time::Duration;
use std::collections::VecDeque;

use xylem_hash::OutputReader;
use xylem_link::PeerKey;

use super::error::CodeEnd;
use super::exchange::{CodeRole, StartedExchange};
use super::message::{CodeMessage, CodeMessageReader, CodeRefusal, ELEMENT_LEN, MAX_TEXT};
use super::words::SpokenCode;

/// Number of wrong guesses that end a code.
pub const MAX_WRONG_GUESSES: u8 = 3;
/// Lifetime of a code.
pub const LIFETIME: Duration = Duration::from_secs(600);

/// Maximum number of tries under way. A new one displaces the oldest.
const MAX_TRIES: usize = 32;
/// Time after which an unfinished try is given up.
const TRY_TIMEOUT: Duration = Duration::from_secs(20);
/// Tries that may begin in a second, and at once. Each costs one to three multiplications on the curve.
const TRIES_PER_SECOND: u64 = 32;
const TRY_BURST: u64 = 64;
/// How long late takers receive a refusal, so that they need not wait for a timeout.
const REFUSAL_PERIOD: Duration = LIFETIME;

/// An event of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeOfferEvent {
    /// A taker tried a wrong code.
    Wrong {
        /// Guesses left of [`MAX_WRONG_GUESSES`].
        left: u8,
    },
    /// The code has ended. No taker is handed the text any more.
    Ended(CodeEnd),
    /// The offer no longer answers late takers: the caller may drop the knock.
    Forget,
}

/// One code and the text that it stands for. `K` is the program's id for a stream of a link.
///
/// The program answers [`super::knock`]. For each stream of this purpose it calls [`CodeOffer::opened`], then
/// [`CodeOffer::received`] for its bytes, and [`CodeOffer::delivered`] or [`CodeOffer::on_stream_gone`] at its end. After each call it drains
/// [`CodeOffer::poll_transmit`] and [`CodeOffer::poll_event`].
pub struct CodeOffer<K> {
    code: SpokenCode,
    text: String,
    own: PeerKey,
    draws: OutputReader,
    expires: Duration,
    left: u8,
    over: Option<CodeEnd>,
    forgotten: bool,
    /// Oldest first.
    pub(super) tries: VecDeque<CodeTry<K>>,
    /// Tokens for new tries at time `counted`, in thousandths.
    tokens: u64,
    counted: Duration,
    out: VecDeque<(K, Vec<u8>)>,
    events: VecDeque<CodeOfferEvent>,
}

pub(super) struct CodeTry<K> {
    id: K,
    peer: PeerKey,
    since: Duration,
    messages: CodeMessageReader,
    state: TryState,
}

enum TryState {
    Opened,
    /// Boxed, because a flood of streams rarely gets this far.
    Answered(Box<(StartedExchange, [u8; ELEMENT_LEN])>),
    /// The text is sent, and its arrival is not confirmed yet.
    Handed,
}

impl<K: Copy + PartialEq> CodeOffer<K> {
    /// Offers `text`, of at most [`MAX_TEXT`] bytes, for [`LIFETIME`]. `own` is the static key of this end of the
    /// links. `seed`: 32 random bytes.
    #[must_use]
    pub fn new(
        now: Duration,
        code: SpokenCode,
        text: String,
        own: PeerKey,
        seed: &[u8; 32],
    ) -> Self {
        debug_assert!(text.len() <= MAX_TEXT, "a ticket or a card is shorter");
        let mut draws = xylem_hash::Hasher::new_derive_key("xylem-reach v1 code offer");
        Self {
            code,
            text,
            own,
            draws: draws.update(seed).finalize_xof(),
            expires: now.saturating_add(LIFETIME),
            left: MAX_WRONG_GUESSES,
            over: None,
            forgotten: false,
            tries: VecDeque::new(),
            tokens: TRY_BURST.saturating_mul(1_000),
            counted: now,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &SpokenCode {
        &self.code
    }

    /// Whether and why the code has ended.
    #[must_use]
    pub fn over(&self) -> Option<CodeEnd> {
        self.over
    }

    /// A peer with this proven key has opened a stream. It displaces another try of the same peer or, if there are too
    /// many tries, the oldest.
    pub fn opened(&mut self, now: Duration, id: K, peer: PeerKey) {
        let waits = |one: &CodeTry<K>| !matches!(one.state, TryState::Handed);
        let twin = self.tries.iter().position(|one| one.peer == peer && waits(one));
        let full = self.tries.len() >= MAX_TRIES;
        let oldest = || self.tries.iter().position(waits).filter(|_| full);
        if let Some(gone) = twin.or_else(oldest).and_then(|at| self.tries.remove(at)) {
            self.refuse(gone.id, CodeRefusal::Busy);
        }
        if self.tries.len() >= MAX_TRIES {
            return self.refuse(id, CodeRefusal::Busy);
        }
        let messages = CodeMessageReader::default();
        self.tries.push_back(CodeTry { id, peer, since: now, messages, state: TryState::Opened });
    }

    /// Takes bytes of a stream, cut anywhere. Returns false if the caller is to reset the stream.
    pub fn received(&mut self, now: Duration, id: K, bytes: &[u8]) -> bool {
        let Some(at) = self.tries.iter().position(|one| one.id == id) else { return false };
        let Some(mut one) = self.tries.remove(at) else { return false };
        let Ok(message) = one.messages.push(bytes) else { return false };
        let Some(message) = message else {
            self.tries.insert(at, one);
            return true;
        };
        if let Some(over) = self.over {
            self.refuse(id, over.into());
            return true;
        }
        match (one.state, message) {
            (TryState::Opened, CodeMessage::Hello(_)) if !self.has_token(now) => {
                self.refuse(id, CodeRefusal::Busy);
                true
            }
            (TryState::Opened, CodeMessage::Hello(theirs)) => {
                let mut seed = [0; 32];
                self.draws.fill(&mut seed);
                let (begun, ours) =
                    StartedExchange::new(CodeRole::Offerer, &self.code, one.peer, self.own, &seed);
                self.out.push_back((id, CodeMessage::Answer(ours).encode()));
                one.state = TryState::Answered(Box::new((begun, theirs)));
                self.tries.insert(at, one);
                true
            }
            // The code is used once: other takers wait until it is known whether the first one got the text.
            (TryState::Answered(_), CodeMessage::Proof(_)) if self.is_handing() => {
                self.refuse(id, CodeRefusal::Busy);
                true
            }
            (TryState::Answered(answered), CodeMessage::Proof(proof)) => {
                let (begun, theirs) = *answered;
                // A message that is no point of the curve is a guess that cannot be right.
                let shared = begun.finish(&theirs);
                let Some(shared) = shared.filter(|shared| shared.proves(CodeRole::Taker, &proof))
                else {
                    self.on_wrong_proof(now, id);
                    return true;
                };
                let handed =
                    CodeMessage::Handed(shared.proof(CodeRole::Offerer), shared.seal(&self.text));
                self.out.push_back((id, handed.encode()));
                one.state = TryState::Handed;
                one.since = now;
                self.tries.insert(at, one);
                true
            }
            _ => false,
        }
    }

    /// Everything sent on a stream, and its end, has arrived.
    pub fn delivered(&mut self, now: Duration, id: K) {
        let handed = |one: &CodeTry<K>| one.id == id && matches!(one.state, TryState::Handed);
        if self.tries.iter().any(handed) && self.over.is_none() {
            self.end(now, CodeEnd::Used);
        }
        self.on_stream_gone(id);
    }

    /// A stream or its link is gone. If the text had not arrived there, it can be taken again.
    pub fn on_stream_gone(&mut self, id: K) {
        self.tries.retain(|one| one.id != id);
    }

    /// Ends all tries on streams that `of` selects, for example those of a link.
    pub fn on_streams_gone(&mut self, of: impl Fn(K) -> bool) {
        self.tries.retain(|one| !of(one.id));
    }

    /// The next message and its stream. Finish the stream after it, unless [`CodeOffer::is_trying`].
    pub fn poll_transmit(&mut self) -> Option<(K, Vec<u8>)> {
        self.out.pop_front()
    }

    /// Whether more will be sent on a stream.
    #[must_use]
    pub fn is_trying(&self, id: K) -> bool {
        self.tries.iter().any(|one| one.id == id && !matches!(one.state, TryState::Handed))
    }

    /// Whether the end of this stream has to be reported to the offer.
    #[must_use]
    pub fn is_tracked(&self, id: K) -> bool {
        self.tries.iter().any(|one| one.id == id)
    }

    /// Takes the oldest event.
    pub fn poll_event(&mut self) -> Option<CodeOfferEvent> {
        self.events.pop_front()
    }

    /// When to call [`CodeOffer::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let tries = self.tries.iter().map(|one| one.since.saturating_add(TRY_TIMEOUT)).min();
        let own = (!self.forgotten).then_some(self.expires);
        tries.into_iter().chain(own).min()
    }

    /// Ends tries and the code when their time is up.
    pub fn handle_timeout(&mut self, now: Duration) {
        while let Some(at) =
            self.tries.iter().position(|one| one.since.saturating_add(TRY_TIMEOUT) <= now)
        {
            if let Some(gone) =
                self.tries.remove(at).filter(|one| !matches!(one.state, TryState::Handed))
            {
                self.refuse(gone.id, CodeRefusal::Busy);
            }
        }
        if now < self.expires || self.forgotten {
            return;
        }
        match self.over {
            // A taker that is being handed the text came in time.
            None if self.is_handing() => {
                self.expires = now.saturating_add(Duration::from_secs(1));
            }
            None => self.end(now, CodeEnd::Expired),
            Some(_) => {
                self.forgotten = true;
                self.events.push_back(CodeOfferEvent::Forget);
            }
        }
    }

    fn is_handing(&self) -> bool {
        self.tries.iter().any(|one| matches!(one.state, TryState::Handed))
    }

    fn on_wrong_proof(&mut self, now: Duration, id: K) {
        self.left = self.left.saturating_sub(1);
        self.events.push_back(CodeOfferEvent::Wrong { left: self.left });
        self.refuse(id, CodeRefusal::Wrong);
        if self.left == 0 {
            self.end(now, CodeEnd::Guessed);
        }
    }

    fn end(&mut self, now: Duration, over: CodeEnd) {
        self.over = Some(over);
        self.expires = now.saturating_add(REFUSAL_PERIOD);
        self.events.push_back(CodeOfferEvent::Ended(over));
    }

    fn refuse(&mut self, id: K, why: CodeRefusal) {
        self.out.push_back((id, CodeMessage::Refused(why).encode()));
    }

    fn has_token(&mut self, now: Duration) -> bool {
        let passed =
            u64::try_from(now.saturating_sub(self.counted).as_millis()).unwrap_or(u64::MAX);
        self.counted = now.max(self.counted);
        let full = TRY_BURST.saturating_mul(1_000);
        self.tokens = self.tokens.saturating_add(passed.saturating_mul(TRIES_PER_SECOND)).min(full);
        match self.tokens.checked_sub(1_000) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}
