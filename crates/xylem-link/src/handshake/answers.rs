//! [`DialAnswers`]: which keys may answer a dial, which have, and what its end means without a link.

use crate::PeerKey;
use crate::event::CloseReason;

/// Most answers of a dial without an expected key that are links at the same time.
const MAX_ANSWERS: usize = 4;
/// Most answers in all, where the program has closed earlier ones.
const MAX_KEYS: usize = 32;

/// What an authentic answer means, by its key alone.
pub(super) enum AnswerBy {
    /// The key may answer.
    Allowed,
    /// It is another key than the expected one, and the first of them.
    Other,
    /// It is not needed: a further key, or one past the limits.
    Needless,
}

/// See the module's documentation.
pub(super) struct DialAnswers {
    /// `None`: any key may answer.
    expected: Option<PeerKey>,
    /// Keys that answers have proven: each counts once.
    keys: Vec<PeerKey>,
    /// Links that came of this dial; while there are any, nothing is sent of our own accord.
    links: usize,
    /// The reason for its end if no answer is accepted.
    verdict: CloseReason,
}

impl DialAnswers {
    pub(super) fn new(expected: Option<PeerKey>) -> Self {
        Self { expected, keys: Vec::new(), links: 0, verdict: CloseReason::HandshakeTimeout }
    }

    /// Returns whether any key may answer, and further ones after the first.
    pub(super) fn accept_any_key(&self) -> bool {
        self.expected.is_none()
    }

    /// Returns whether the dial has links.
    pub(super) fn have_links(&self) -> bool {
        self.links > 0
    }

    /// The reason for the dial's end if no answer is accepted.
    pub(super) fn verdict(&self) -> CloseReason {
        self.verdict
    }

    /// Takes the key of an authentic answer.
    pub(super) fn receive(&mut self, peer: PeerKey) -> AnswerBy {
        if self.expected.is_some_and(|expected| expected != peer) {
            self.verdict = CloseReason::WrongPeer;
            if !self.keys.is_empty() {
                return AnswerBy::Needless;
            }
            self.keys.push(peer);
            return AnswerBy::Other;
        }
        let room = self.links < MAX_ANSWERS && self.keys.len() < MAX_KEYS;
        if self.accept_any_key() && (!room || self.keys.contains(&peer)) {
            return AnswerBy::Needless;
        }
        AnswerBy::Allowed
    }

    /// Refuses the content of an answer. Returns whether that fails the dial: where any key may answer, a bad answer
    /// does not exclude others.
    pub(super) fn refuse(&mut self, reason: CloseReason) -> bool {
        if self.accept_any_key() {
            self.verdict = reason;
        }
        !self.accept_any_key()
    }

    /// Records the key of an answer that becomes a link.
    pub(super) fn prove(&mut self, peer: PeerKey) {
        self.keys.push(peer);
    }

    /// Records a link.
    pub(super) fn open(&mut self) {
        self.links += 1;
    }

    /// Records the end of a link. Returns whether none is left.
    pub(super) fn close(&mut self) -> bool {
        self.links = self.links.saturating_sub(1);
        self.links == 0
    }
}
