//! One peer of a transfer: how fast it is asked, what it did wrong, and which segments it has.

use core::time::Duration;

use xylem_object::Have;
use xylem_packet::Name;

use crate::available::{PeerSegments, SegmentBlock, SegmentRuns};
use crate::event::{PeerId, PeerStats, PeerStatus, TransferConfig};
use crate::flight::RequestAnswer;
use crate::flow::SourceFlow;
use crate::key::ItemKey;
use crate::question::{AvailabilityQueries, QueryNonce};

/// Number of misbehaviours after which a forwarder is dropped. Repetitions count only after a request past caches and a
/// rest (26 s of rests in all). A forwarder that is still wrong then has no source of good Data.
const FORWARDER_MISBEHAVIOUR: u32 = 10;
/// Refusals of the manifest after which a peer is taken not to have it.
const MANIFEST_REFUSALS: u32 = 3;

/// The kind of program at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerKind {
    /// Unknown. It is asked for everything and blamed for what it sends.
    Plain,
    /// A forwarder. Its packets may come from a cache that another node filled.
    Forwarder,
    /// The peer at the other end of a link. It is asked which segments it has.
    Direct,
}

#[derive(Debug)]
pub(crate) struct TransferPeer {
    id: PeerId,
    /// Its name of the publication, if it is not the transfer's.
    prefix: Option<Name>,
    flow: SourceFlow,
    trust: PeerTrust,
    holdings: PeerHoldings,
    search: WorkSearch,
    /// Bytes of verified content from this peer, and the number of its refusals.
    bytes: u64,
    refused: u64,
}

/// The evidence against a peer.
#[derive(Debug)]
struct PeerTrust {
    forwards: bool,
    dropped: bool,
    misbehaviour: u32,
    /// Number of times that it refused the manifest.
    manifest_refusals: u32,
}

/// Which segments a peer has.
#[derive(Debug)]
struct PeerHoldings {
    /// `None`: everything, as far as is known.
    available: Option<PeerSegments>,
    questions: AvailabilityQueries,
    /// Requests that were open when the first list came. Their refusals say nothing about what it lists.
    asked_unlisted: usize,
}

/// State of the search for something to ask a peer for.
#[derive(Debug, Default)]
struct WorkSearch {
    /// The block that the peer is being asked for while rare blocks go first.
    block: Option<SegmentBlock>,
    /// The last search found nothing although the window had room.
    starved: bool,
    /// A search of this supply (second value) finds nothing before this time (first value).
    no_use_until: (Duration, u64),
}

impl TransferPeer {
    pub(crate) fn new(now: Duration, id: PeerId, kind: PeerKind, config: &TransferConfig) -> Self {
        let questions = match kind {
            PeerKind::Direct => AvailabilityQueries::to_direct_peer(now),
            PeerKind::Plain | PeerKind::Forwarder => AvailabilityQueries::default(),
        };
        Self {
            id,
            prefix: None,
            flow: SourceFlow::new(now, config),
            trust: PeerTrust {
                forwards: kind == PeerKind::Forwarder,
                dropped: false,
                misbehaviour: 0,
                manifest_refusals: 0,
            },
            holdings: PeerHoldings { available: None, questions, asked_unlisted: 0 },
            search: WorkSearch::default(),
            bytes: 0,
            refused: 0,
        }
    }

    pub(crate) fn id(&self) -> PeerId {
        self.id
    }

    /// Its name of the publication, if it is not the transfer's.
    pub(crate) fn prefix(&self) -> Option<&Name> {
        self.prefix.as_ref()
    }

    pub(crate) fn set_prefix(&mut self, prefix: Name) {
        self.prefix = Some(prefix);
    }

    /// The peer's window, pacing and losses. [`Self::may_ask`] states whether it may be asked at all.
    pub(crate) fn flow(&self) -> &SourceFlow {
        &self.flow
    }

    pub(crate) fn flow_mut(&mut self) -> &mut SourceFlow {
        &mut self.flow
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.trust.dropped
    }

    /// Whether the peer is asked normally: not dropped, not silent and not resting.
    pub(crate) fn is_active(&self, now: Duration) -> bool {
        !self.trust.dropped && !self.flow.is_silent() && !self.flow.is_resting(now)
    }

    // ---- asking -----------------------------------------------------------------------------

    /// Whether a request may be sent now.
    pub(crate) fn may_ask(&mut self, now: Duration) -> bool {
        !self.trust.dropped && self.flow.may_ask(now)
    }

    /// Records that there is nothing to ask the peer for.
    pub(crate) fn on_idle(&mut self, now: Duration) {
        if !self.trust.dropped {
            self.flow.on_idle(now);
        }
    }

    /// When `may_ask` may hold next, if pacing alone forbids it now.
    pub(crate) fn next_token(&self, now: Duration) -> Option<Duration> {
        (!self.trust.dropped).then(|| self.flow.next_token(now)).flatten()
    }

    /// Records a request that calls for `bytes`.
    pub(crate) fn on_sent(&mut self, now: Duration, key: ItemKey, copied: bool, bytes: u64) {
        self.flow.on_sent(now, key, copied, bytes);
        self.search.starved = false;
    }

    // ---- answers ----------------------------------------------------------------------------

    /// Records a good answer that carried `bytes` of content.
    pub(crate) fn on_good(&mut self, now: Duration, answer: RequestAnswer, bytes: usize) {
        if answer != RequestAnswer::Unasked {
            self.bytes += bytes as u64;
        }
        self.flow.on_good(now, answer);
    }

    /// Records an answer that the peer does not have something.
    pub(crate) fn on_refusal(&mut self, now: Duration) {
        self.refused += 1;
        // It was asked for this before its first list came.
        if self.holdings.asked_unlisted > 0 {
            self.holdings.asked_unlisted -= 1;
            return;
        }
        self.flow.on_refusal(now);
    }

    /// Forgets the refusals so far, so that the peer is asked again.
    pub(crate) fn reset_refusals(&mut self) {
        self.flow.reset_refusals(Duration::ZERO);
    }

    /// Records an answer that the peer does not have the manifest. Each one doubles the rest before it is asked again.
    pub(crate) fn on_manifest_refusal(&mut self, now: Duration) {
        self.flow.pause_after_refusals(now, self.trust.manifest_refusals);
        self.trust.manifest_refusals += 1;
    }

    /// Whether the peer has refused the manifest so often that it is taken not to have it.
    pub(crate) fn lacks_manifest(&self) -> bool {
        self.trust.manifest_refusals >= MANIFEST_REFUSALS
    }

    /// Records a wrong answer. `again`: the peer was wrong about the same item before. `noted`: a repetition would be
    /// noticed. Returns whether the peer has reached its limit, which is `limit` for a peer that is no forwarder.
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
            self.flow.pause_after_refusals(now, trust.misbehaviour);
        } else if !again && !noted {
            trust.misbehaviour += 1;
        }
        trust.misbehaviour >= limit.max(FORWARDER_MISBEHAVIOUR)
    }

    /// Stops asking this peer. Returns what it was asked for, oldest first.
    pub(crate) fn drop_out(&mut self) -> Vec<ItemKey> {
        self.trust.dropped = true;
        self.flow.drain()
    }

    // ---- which segments it has ----

    /// Whether the peer has only a part, as far as is known.
    pub(crate) fn has_part(&self) -> bool {
        self.holdings.available.is_some()
    }

    /// The segments of an object that the peer has, as far as is known.
    #[inline]
    pub(crate) fn runs(&self, object: u64) -> SegmentRuns<'_> {
        self.holdings
            .available
            .as_ref()
            .map_or(SegmentRuns::All, |available| available.runs(object))
    }

    /// Whether it has sent content, or has stated what it has, or does not seem to know the question.
    pub(crate) fn is_known(&self) -> bool {
        self.bytes > 0 || !self.holdings.questions.is_first_open()
    }

    /// When to ask the peer next which segments it has.
    pub(crate) fn next_question(&self) -> Option<Duration> {
        self.holdings.questions.next().filter(|_| !self.trust.dropped)
    }

    pub(crate) fn on_question(&mut self, now: Duration, nonce: QueryNonce) {
        self.holdings.questions.on_asked(now, nonce);
    }

    /// See [`AvailabilityQueries::on_reply`].
    pub(crate) fn on_question_reply(&mut self, nonce: QueryNonce) -> bool {
        self.holdings.questions.on_reply(nonce)
    }

    /// Takes the peer's list of what it has. Returns whether that may change what it is asked for.
    pub(crate) fn on_have(&mut self, now: Duration, have: Have) -> bool {
        let available = PeerSegments::of(have);
        let extent = available.as_ref().map(PeerSegments::extent);
        if self.holdings.questions.on_answer(now, extent) {
            self.flow.reset_refusals(now); // those were refusals of what it never claimed to have
            self.holdings.asked_unlisted = self.flow.flight().outstanding();
        }
        self.flow.on_unrequested_answer(now);
        let changed = available.is_some() || self.holdings.available.is_some();
        self.holdings.available = available;
        changed
    }

    // ---- the search for something to ask it for -----------------------------------------------

    /// The block that the peer is being asked for.
    pub(crate) fn block(&self) -> Option<SegmentBlock> {
        self.search.block
    }

    pub(crate) fn set_block(&mut self, block: Option<SegmentBlock>) {
        self.search.block = block;
    }

    /// Whether the last search found nothing although the window had room.
    pub(crate) fn is_starved(&self) -> bool {
        self.search.starved
    }

    pub(crate) fn set_starved(&mut self, starved: bool) {
        self.search.starved = starved;
    }

    /// Whether a search would find nothing: the last one, of the same supply, found nothing not long ago.
    pub(crate) fn would_search_be_empty(&self, now: Duration, supply: u64) -> bool {
        let (until, of) = self.search.no_use_until;
        of == supply && now < until
    }

    /// Records that a search of this supply found nothing. The next question of what the peer has comes sooner.
    pub(crate) fn on_empty_search(&mut self, until: Duration, supply: u64) {
        self.search.no_use_until = (until, supply);
        self.holdings.questions.hurry();
    }

    // ---- numbers ----------------------------------------------------------------------------

    pub(crate) fn stats(&self, now: Duration) -> PeerStats {
        let (interests, lost) = self.flow.counts();
        PeerStats {
            peer: self.id,
            standing: if self.trust.dropped {
                PeerStatus::Dropped
            } else if self.is_active(now) {
                PeerStatus::Active
            } else {
                PeerStatus::Stalled
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
