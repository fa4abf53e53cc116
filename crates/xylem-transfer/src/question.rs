//! Asking peers what they have (docs/spec/object.md, "Availability").
//!
//! The question is one small Interest beside the window: an answer or its absence says nothing of the
//! path, and nobody is blamed for either. A peer with a part is asked again while there is something
//! that it could be asked for; one with everything is not.

use core::time::Duration;

use xylem_object::Have;
use xylem_object::naming::{self, Request};
use xylem_packet::{Data, InterestBuilder};

use crate::available::Available;
use crate::event::PeerId;
use crate::transfer::{Phase, Transfer};

/// Between an answer and the next question: while there is enough to ask for, ...
const EVERY: Duration = Duration::from_secs(1);
/// ... and when a peer has run out of it.
const HURRIED: Duration = Duration::from_millis(150);
/// How long an answer is waited for; doubled each time.
const PATIENCE: Duration = Duration::from_secs(1);
/// Questions to a peer that never answered one: it is a program that does not know them.
const TRIES: u32 = 3;
/// InterestLifetime of a question.
const LIFETIME_MS: u64 = 4_000;

/// The questions to one peer.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// When to ask next; `None`: never (again).
    next: Option<Duration>,
    /// The one that waits for its answer.
    nonce: Option<[u8; 8]>,
    /// Asked since the last answer.
    tries: u32,
    answers: u64,
    /// The last answer, and whether it told of more than the one before.
    answered_at: Duration,
    grew: bool,
    extent: u64,
}

impl Questions {
    /// For a peer at the other end of a link: ask soon.
    pub(crate) fn to_direct_peer(now: Duration) -> Self {
        Self { next: Some(now), ..Self::default() }
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.next
    }

    fn asked(&mut self, now: Duration, nonce: [u8; 8]) {
        self.nonce = Some(nonce);
        self.tries += 1;
        let known = self.answers > 0;
        let wait = PATIENCE * (1 << self.tries.min(4)) / 2;
        self.next = (known || self.tries < TRIES).then_some(now + wait);
    }

    /// There is nothing left to ask this peer for, of what it is known to have.
    pub(crate) fn hurry(&mut self) {
        if self.nonce.is_none() && self.answers > 0 && self.next.is_some() {
            let soon = if self.grew { HURRIED } else { HURRIED * 2 };
            self.next = self.next.min(Some(self.answered_at + soon));
        }
    }
}

impl Transfer {
    /// As [`Self::add_peer`], for the peer at the other end of a link, with nobody between: it is asked
    /// what it has of the publication, and then for that. Without an answer it counts as having
    /// everything.
    pub fn add_direct_peer(&mut self, now: Duration, peer: PeerId) -> bool {
        let added = self.add_peer(now, peer);
        if let Some(peer) = self.peers.last_mut().filter(|_| added) {
            peer.questions = Questions::to_direct_peer(now);
        }
        self.plan_questions();
        added
    }

    /// Notes when the next question is due.
    pub(crate) fn plan_questions(&mut self) {
        let asked = self.peers.iter().filter(|peer| !peer.dropped);
        self.next_question = asked.filter_map(|peer| peer.questions.next()).min();
    }

    /// When somebody is to be asked what it has; not while nothing is wanted.
    pub(crate) fn question_at(&self) -> Option<Duration> {
        self.next_question.filter(|_| !self.is_held_back() && !self.is_idle())
    }

    /// Writes a question that is due.
    pub(crate) fn ask_what_is_there(
        &mut self,
        now: Duration,
        packet: &mut Vec<u8>,
    ) -> Option<PeerId> {
        self.question_at().filter(|at| *at <= now)?;
        let due = |next: Option<Duration>| next.is_some_and(|at| at <= now);
        let p = self.peers.iter().position(|p| !p.dropped && due(p.questions.next()));
        let nonce = self.prng.next_u64().to_be_bytes();
        let id = p.map(|p| {
            self.peers[p].questions.asked(now, nonce);
            self.peers[p].id
        });
        self.plan_questions();
        let name = naming::encode(self.spec.prefix.as_ref(), &Request::Have { nonce });
        packet.clear();
        InterestBuilder::new(name.as_ref())
            .nonce(self.prng.nonce())
            .lifetime_ms(LIFETIME_MS)
            .encode(packet)
            .expect("a prefix that a manifest can have leaves room for any name under it");
        id
    }

    /// Peer `p` says what it has. What cannot be read changes nothing.
    pub(crate) fn take_have(&mut self, now: Duration, p: usize, nonce: [u8; 8], data: &Data<'_>) {
        let peer = &mut self.peers[p];
        if peer.questions.nonce != Some(nonce) {
            self.progress.unasked += 1;
            return;
        }
        peer.questions.nonce = None;
        let Ok(have) = Have::from_packet(data) else { return };
        let available = Available::of(have);
        let extent = available.as_ref().map_or(u64::MAX, Available::extent);
        let questions = &mut peer.questions;
        questions.grew = extent > questions.extent;
        questions.extent = extent;
        questions.answered_at = now;
        questions.tries = 0;
        questions.answers += 1;
        questions.next = available.is_some().then_some(now + EVERY);
        if questions.answers == 1 {
            peer.forgive(now); // refusals of what it never claimed to have
        }
        peer.is_there(now);
        if available.is_some() || peer.available.is_some() {
            peer.available = available;
            self.supply += 1;
            self.have_changed += 1;
            self.count_partial();
        }
        self.plan_questions();
    }

    /// The question was refused: by a program that does not know it, or one that has nothing yet.
    pub(crate) fn have_refused(&mut self, p: usize, nonce: [u8; 8]) {
        let questions = &mut self.peers[p].questions;
        if questions.nonce == Some(nonce) {
            questions.nonce = None;
        }
    }

    /// Whether some peer that is asked has a part only: then rare blocks go first.
    pub(crate) fn count_partial(&mut self) {
        self.some_are_partial =
            self.peers.iter().any(|peer| !peer.dropped && peer.available.is_some());
    }

    /// Whether blocks are asked for by how few have them, not in order.
    pub(crate) fn rarest_first(&self) -> bool {
        self.some_are_partial && self.in_order.is_none() && self.phase == Phase::Objects
    }
}
