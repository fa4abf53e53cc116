//! One peer: how fast it is asked, how far it is trusted, what it has.

use core::time::Duration;

use xylem_object::Have;

use crate::available::{Available, Block, Runs};
use crate::event::{Config, PeerId, PeerStats, Standing};
use crate::flight::Answer;
use crate::flow::Flow;
use crate::key::Key;
use crate::question::{QuestionNonce, Questions};

/// A forwarder that brings the same wrong thing so often, past caches and with rests between (26 s in
/// all), stands before no good Data.
const FORWARDER_MISBEHAVIOUR: u32 = 10;
/// Refusals of the manifest by every peer after which nobody has it.
const MANIFEST_REFUSALS: u32 = 3;

/// What stands at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerKind {
    /// Nothing is known: it is asked for everything and blamed for what it brings.
    Plain,
    /// A forwarder: what it brings may come from a cache that somebody else has filled.
    Forwarder,
    /// The peer at the other end of a link: it is asked what it has.
    Direct,
}

#[derive(Debug)]
pub(crate) struct Peer {
    id: PeerId,
    flow: Flow,
    trust: Trust,
    holdings: Holdings,
    search: Search,
    /// Bytes of content verified from it, and what it refused.
    bytes: u64,
    refused: u64,
}

/// What speaks against a peer.
#[derive(Debug)]
struct Trust {
    forwards: bool,
    dropped: bool,
    misbehaviour: u32,
    /// How often it refused the manifest.
    manifest_refusals: u32,
}

/// What a peer has.
#[derive(Debug)]
struct Holdings {
    /// `None`: everything, as far as is known.
    available: Option<Available>,
    questions: Questions,
}

/// Where the search for something to ask a peer for stands.
#[derive(Debug, Default)]
struct Search {
    /// The block that it is being asked for, when rare ones go first.
    block: Option<Block>,
    /// It had room and nothing to be asked for when a search last ended.
    starved: bool,
    /// Until when, and of which supply, nothing need be searched for again.
    no_use_until: (Duration, u64),
}

impl Peer {
    pub(crate) fn new(now: Duration, id: PeerId, kind: PeerKind, config: &Config) -> Self {
        let questions = match kind {
            PeerKind::Direct => Questions::to_direct_peer(now),
            PeerKind::Plain | PeerKind::Forwarder => Questions::default(),
        };
        Self {
            id,
            flow: Flow::new(now, config),
            trust: Trust {
                forwards: kind == PeerKind::Forwarder,
                dropped: false,
                misbehaviour: 0,
                manifest_refusals: 0,
            },
            holdings: Holdings { available: None, questions },
            search: Search::default(),
            bytes: 0,
            refused: 0,
        }
    }

    pub(crate) fn id(&self) -> PeerId {
        self.id
    }

    /// How fast it is asked; whether it may be asked at all is [`Self::may_ask`].
    pub(crate) fn flow(&self) -> &Flow {
        &self.flow
    }

    pub(crate) fn flow_mut(&mut self) -> &mut Flow {
        &mut self.flow
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.trust.dropped
    }

    /// Whether it is asked in the ordinary way.
    pub(crate) fn is_active(&self, now: Duration) -> bool {
        !self.trust.dropped && !self.flow.is_silent() && !self.flow.is_resting(now)
    }

    // ---- asking -----------------------------------------------------------------------------

    /// Whether something may be asked now.
    pub(crate) fn may_ask(&mut self, now: Duration) -> bool {
        !self.trust.dropped && self.flow.may_ask(now)
    }

    /// There is nothing to ask it for.
    pub(crate) fn on_idle(&mut self, now: Duration) {
        if !self.trust.dropped {
            self.flow.on_idle(now);
        }
    }

    /// When `may_ask` may hold next for want of tokens alone.
    pub(crate) fn next_token(&self, now: Duration) -> Option<Duration> {
        (!self.trust.dropped).then(|| self.flow.next_token(now)).flatten()
    }

    /// A request leaves that calls for `bytes`.
    pub(crate) fn on_sent(&mut self, now: Duration, key: Key, copied: bool, bytes: u64) {
        self.flow.on_sent(now, key, copied, bytes);
        self.search.starved = false;
    }

    // ---- answers ----------------------------------------------------------------------------

    /// An answer was good and brought so many bytes of content.
    pub(crate) fn on_good(&mut self, now: Duration, answer: Answer, bytes: usize) {
        if answer != Answer::Unasked {
            self.bytes += bytes as u64;
        }
        self.flow.on_good(now, answer);
    }

    /// It said that it does not have something.
    pub(crate) fn on_refusal(&mut self, now: Duration) {
        self.refused += 1;
        self.flow.on_refusal(now);
    }

    /// What it refused until now is no reason to leave it alone.
    pub(crate) fn forgive(&mut self) {
        self.flow.forgive(Duration::ZERO);
    }

    /// It said that it does not have the manifest, and is left alone for longer each time.
    pub(crate) fn on_manifest_refusal(&mut self, now: Duration) {
        self.flow.rest(now, self.trust.manifest_refusals);
        self.trust.manifest_refusals += 1;
    }

    /// Whether it refused the manifest too often to have it.
    pub(crate) fn lacks_manifest(&self) -> bool {
        self.trust.manifest_refusals >= MANIFEST_REFUSALS
    }

    /// It brought something wrong, `again` the same or not; `noted` says whether a repetition would be
    /// noticed. Whether that was once too often: `limit` times.
    pub(crate) fn on_misbehaviour(
        &mut self,
        now: Duration,
        again: bool,
        noted: bool,
        limit: u32,
    ) -> bool {
        let trust = &mut self.trust;
        if !trust.forwards {
            trust.misbehaviour += 1;
            return trust.misbehaviour >= limit;
        }
        if again && !self.flow.is_resting(now) {
            trust.misbehaviour += 1;
            self.flow.rest(now, trust.misbehaviour);
        } else if !again && !noted {
            trust.misbehaviour += 1;
        }
        trust.misbehaviour >= limit.max(FORWARDER_MISBEHAVIOUR)
    }

    /// It is asked no more: what it was asked, oldest first.
    pub(crate) fn drop_out(&mut self) -> Vec<Key> {
        self.trust.dropped = true;
        self.flow.drain()
    }

    // ---- what it has ------------------------------------------------------------------------

    /// Whether it has a part only, as far as is known.
    pub(crate) fn has_part(&self) -> bool {
        self.holdings.available.is_some()
    }

    /// Segments of an object that it has, as far as is known.
    #[inline]
    pub(crate) fn runs(&self, object: u64) -> Runs<'_> {
        self.holdings.available.as_ref().map_or(Runs::All, |available| available.runs(object))
    }

    /// When to ask it next what it has.
    pub(crate) fn next_question(&self) -> Option<Duration> {
        self.holdings.questions.next().filter(|_| !self.trust.dropped)
    }

    pub(crate) fn on_question(&mut self, now: Duration, nonce: QuestionNonce) {
        self.holdings.questions.on_asked(now, nonce);
    }

    /// As [`Questions::on_reply`].
    pub(crate) fn on_question_reply(&mut self, nonce: QuestionNonce) -> bool {
        self.holdings.questions.on_reply(nonce)
    }

    /// It says what it has. Whether that changes what it may be asked for.
    pub(crate) fn on_have(&mut self, now: Duration, have: Have) -> bool {
        let available = Available::of(have);
        let extent = available.as_ref().map(Available::extent);
        if self.holdings.questions.on_answer(now, extent) {
            self.flow.forgive(now); // refusals of what it never claimed to have
        }
        self.flow.on_sign_of_life(now);
        let changed = available.is_some() || self.holdings.available.is_some();
        self.holdings.available = available;
        changed
    }

    // ---- the search for something to ask it for -----------------------------------------------

    /// The block that it is being asked for.
    pub(crate) fn block(&self) -> Option<Block> {
        self.search.block
    }

    pub(crate) fn set_block(&mut self, block: Option<Block>) {
        self.search.block = block;
    }

    /// Whether it had room and nothing to be asked for.
    pub(crate) fn is_starved(&self) -> bool {
        self.search.starved
    }

    pub(crate) fn set_starved(&mut self, starved: bool) {
        self.search.starved = starved;
    }

    /// Whether a search is of no use yet: the last one, of the same supply, found nothing.
    pub(crate) fn is_search_useless(&self, now: Duration, supply: u64) -> bool {
        let (until, of) = self.search.no_use_until;
        of == supply && now < until
    }

    /// A search of this supply found nothing; it is told to say soon what it has now.
    pub(crate) fn on_useless_search(&mut self, until: Duration, supply: u64) {
        self.search.no_use_until = (until, supply);
        self.holdings.questions.hurry();
    }

    // ---- numbers ----------------------------------------------------------------------------

    pub(crate) fn stats(&self, now: Duration) -> PeerStats {
        let (interests, lost) = self.flow.counts();
        PeerStats {
            peer: self.id,
            standing: if self.trust.dropped {
                Standing::Dropped
            } else if self.is_active(now) {
                Standing::Active
            } else {
                Standing::Stalled
            },
            round_trip: self.flow.round_trip(),
            window: self.flow.window(),
            in_flight: self.flow.flight().bytes(),
            bytes: self.bytes,
            interests,
            lost,
            refused: self.refused,
            misbehaviour: self.trust.misbehaviour,
        }
    }
}
