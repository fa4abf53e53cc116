//! Segments that came together are proven together: their leaves, and then the nodes of each level, are hashed side by
//! side (`xylem-tree`), and judged one after the other.

use core::time::Duration;

use super::Transfer;
use crate::event::PeerId;
use crate::flight::Answer;
use crate::key::{Key, Wanted};
use crate::object::Arrived;

/// Segments that are proven together at most: several times what the widest engine hashes side by side, and little
/// enough to be in the processor's cache still.
const MAX_UNPROVEN: usize = 32;

/// A segment that is proven together with those that come next.
#[derive(Debug)]
pub(super) struct Unproven {
    answer: Answer,
    arrived: Arrived,
}

impl Transfer {
    /// Judges what [`Self::queue_data`] has left, with the outcome that each by itself would have had.
    pub fn prove_queued(&mut self, now: Duration) {
        let mut unproven = core::mem::take(&mut self.unproven);
        let outcomes = match unproven.len() {
            0 | 1 => Vec::new(),
            _ => self.objects.prove(unproven.iter().map(|u| &u.arrived)),
        };
        self.due = (!outcomes.is_empty()).then(Vec::new);
        let mut outcomes = outcomes.into_iter();
        for Unproven { answer, arrived } in unproven.drain(..) {
            let outcome = outcomes.next().flatten();
            let (from, key) = (arrived.from, arrived.wanted.into());
            let length = arrived.content.len();
            let judged = self.judge(now, arrived, outcome).map(|()| length);
            let Some(p) = self.peers.place(from) else { continue };
            self.on_judged(now, p, key, answer, judged);
            self.find_lost(p, now);
        }
        self.unproven = unproven; // keeps its allocation
        for object in self.due.take().unwrap_or_default() {
            self.report_nodes(object);
        }
    }

    /// Leaves a segment for [`Self::prove_queued`].
    pub(super) fn queue(&mut self, now: Duration, answer: Answer, arrived: Arrived) {
        self.unproven.push(Unproven { answer, arrived });
        if self.unproven.len() >= MAX_UNPROVEN {
            self.prove_queued(now);
        }
    }

    /// Whether something that this peer sent is not judged yet.
    pub(super) fn is_queued_of(&self, peer: PeerId) -> bool {
        self.unproven.iter().any(|unproven| unproven.arrived.from == peer)
    }

    /// Judges what is queued if it may decide what becomes of `key`: a segment that is there already is not wanted, and
    /// a tile frees what waits for it.
    pub(super) fn prove_before(&mut self, now: Duration, key: Key) {
        let wanted = key.wanted();
        let is_it = |unproven: &Unproven| unproven.arrived.wanted == wanted;
        if matches!(wanted, Wanted::Tile(..)) || self.unproven.iter().any(is_it) {
            self.prove_queued(now);
        }
    }
}
