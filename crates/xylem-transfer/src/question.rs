//! When to ask one peer what it has (docs/spec/object.md, "Availability").
//!
//! The question is one small Interest beside the window: an answer or its absence says nothing of the
//! path, and nobody is blamed for either. A peer with a part is asked again while there is something
//! that it could be asked for; one with everything is not.

use core::time::Duration;

/// Between an answer and the next question: while there is enough to ask for, ...
const EVERY: Duration = Duration::from_secs(1);
/// ... and when a peer has run out of it.
const HURRIED: Duration = Duration::from_millis(150);
/// How long an answer is waited for; doubled each time.
const PATIENCE: Duration = Duration::from_secs(1);
/// Questions to a peer that never answered one: it is a program that does not know them.
const TRIES: u32 = 3;

/// What tells the answer to one question from that to another.
pub(crate) type QuestionNonce = [u8; 8];

/// The questions to one peer.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// When to ask next; `None`: never (again).
    next: Option<Duration>,
    /// The one that waits for its answer.
    nonce: Option<QuestionNonce>,
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

    /// When to ask next.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// A question leaves.
    pub(crate) fn on_asked(&mut self, now: Duration, nonce: QuestionNonce) {
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

    /// Something came in answer to `nonce`, or a refusal: whether that was waited for.
    pub(crate) fn on_reply(&mut self, nonce: QuestionNonce) -> bool {
        let waited = self.nonce == Some(nonce);
        if waited {
            self.nonce = None;
        }
        waited
    }

    /// The peer says that it has so much, in files and segments; `None`: everything. Whether this is
    /// its first answer.
    pub(crate) fn on_answer(&mut self, now: Duration, extent: Option<u64>) -> bool {
        self.grew = extent.unwrap_or(u64::MAX) > self.extent;
        self.extent = extent.unwrap_or(u64::MAX);
        self.answered_at = now;
        self.tries = 0;
        self.answers += 1;
        self.next = extent.is_some().then_some(now + EVERY);
        self.answers == 1
    }
}
