//! When to ask one peer which segments it has (docs/spec/object.md, "Availability").
//!
//! The question is one small Interest outside the congestion window. Its answer or loss says nothing about the path,
//! and neither is held against the peer. A peer that has only a part is asked again while something is wanted that it
//! could have. A peer that has everything is not asked again.

use core::time::Duration;

/// Time from an answer to the next question while the peer can be asked for something.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);
/// Time from an answer to the next question when nothing is left to ask the peer for.
const HURRIED_INTERVAL: Duration = Duration::from_millis(150);
/// How long to wait for the first answer. Each unanswered question doubles the wait, up to eight times this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of questions to a peer that never answered one. After these, the program at the other end is taken not to
/// know them.
const MAX_UNANSWERED: u32 = 3;

/// The nonce that tells the answer to one question from the answer to another.
pub(crate) type QueryNonce = [u8; 8];

/// The state of the questions to one peer.
#[derive(Debug, Default)]
pub(crate) struct AvailabilityQueries {
    /// When to ask next. `None`: never again.
    next: Option<Duration>,
    /// The nonce of the question that waits for its answer.
    nonce: Option<QueryNonce>,
    /// Number of questions since the last answer.
    tries: u32,
    answers: u64,
    /// When the last answer came. `grew` states whether it listed more than the one before, `extent` how much it
    /// listed.
    answered_at: Duration,
    grew: bool,
    extent: u64,
}

impl AvailabilityQueries {
    /// Questions to a peer at the other end of a link: the first is due at once.
    pub(crate) fn to_direct_peer(now: Duration) -> Self {
        Self { next: Some(now), ..Self::default() }
    }

    /// Whether the answer to the first question may still come.
    pub(crate) fn is_first_open(&self) -> bool {
        let first = self.tries == 0 || (self.tries == 1 && self.nonce.is_some());
        self.answers == 0 && first && self.next.is_some()
    }

    /// When to ask next.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Records that a question was sent.
    pub(crate) fn on_asked(&mut self, now: Duration, nonce: QueryNonce) {
        self.nonce = Some(nonce);
        self.tries += 1;
        let known = self.answers > 0;
        let wait = ANSWER_TIMEOUT * (1 << self.tries.min(4)) / 2;
        self.next = (known || self.tries < MAX_UNANSWERED).then_some(now + wait);
    }

    /// Brings the next question forward, because nothing is left to ask for among what this peer is known to have.
    pub(crate) fn hurry(&mut self) {
        if self.nonce.is_none() && self.answers > 0 && self.next.is_some() {
            let soon = if self.grew { HURRIED_INTERVAL } else { HURRIED_INTERVAL * 2 };
            self.next = self.next.min(Some(self.answered_at + soon));
        }
    }

    /// Records an answer to `nonce` or a refusal. Returns whether one was expected.
    pub(crate) fn on_reply(&mut self, nonce: QueryNonce) -> bool {
        let waited = self.nonce == Some(nonce);
        if waited {
            self.nonce = None;
        }
        waited
    }

    /// Records how much the peer has, in files and segments; `None` means everything. Returns whether this is its first
    /// answer.
    pub(crate) fn on_answer(&mut self, now: Duration, extent: Option<u64>) -> bool {
        self.grew = extent.unwrap_or(u64::MAX) > self.extent;
        self.extent = extent.unwrap_or(u64::MAX);
        self.answered_at = now;
        self.tries = 0;
        self.answers += 1;
        self.next = extent.is_some().then_some(now + QUERY_INTERVAL);
        self.answers == 1
    }
}
