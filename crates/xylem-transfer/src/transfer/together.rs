//! Proves segments that arrived together in one batch. Their leaves, and then the nodes of each level, are hashed side
//! by side (`xylem-tree`). They are judged one after the other.

use core::time::Duration;

use super::Transfer;
use crate::event::PeerId;
use crate::flight::RequestAnswer;
use crate::key::{ItemKey, RequestedItem};
use crate::object::ArrivedItem;

/// Maximum number of segments in a batch: several times what the widest hash engine takes side by side, and few enough
/// to be still in the processor's cache.
const MAX_UNPROVEN: usize = 32;

/// A segment that waits for its batch.
#[derive(Debug)]
pub(super) struct QueuedSegment {
    answer: RequestAnswer,
    arrived: ArrivedItem,
}

impl Transfer {
    /// Judges the segments that [`Self::queue_data`] has left. The results are those of judging each by itself.
    pub fn prove_queued(&mut self, now: Duration) {
        let mut unproven = core::mem::take(&mut self.unproven);
        let outcomes = match unproven.len() {
            0 | 1 => Vec::new(),
            _ => self.objects.prove(unproven.iter().map(|u| &u.arrived)),
        };
        self.nodes_due = (!outcomes.is_empty()).then(Vec::new);
        let mut outcomes = outcomes.into_iter();
        for QueuedSegment { answer, arrived } in unproven.drain(..) {
            let outcome = outcomes.next().flatten();
            let (from, key) = (arrived.from, arrived.wanted.into());
            let length = arrived.content.len();
            let judged = self.judge(now, arrived, outcome).map(|()| length);
            let Some(p) = self.peers.place(from) else { continue };
            self.on_judged(now, p, key, answer, judged);
            self.find_lost(p, now);
        }
        self.unproven = unproven; // keeps its allocation
        for object in self.nodes_due.take().unwrap_or_default() {
            self.report_nodes(object);
        }
    }

    /// Leaves a segment for [`Self::prove_queued`].
    pub(super) fn queue(&mut self, now: Duration, answer: RequestAnswer, arrived: ArrivedItem) {
        self.unproven.push(QueuedSegment { answer, arrived });
        if self.unproven.len() >= MAX_UNPROVEN {
            self.prove_queued(now);
        }
    }

    /// Whether a segment from this peer is not judged yet.
    pub(super) fn is_queued_of(&self, peer: PeerId) -> bool {
        self.unproven.iter().any(|unproven| unproven.arrived.from == peer)
    }

    /// Judges the queued segments if they may affect `key`: the same segment may be queued already, and a tile frees
    /// segments that wait for it.
    pub(super) fn prove_before(&mut self, now: Duration, key: ItemKey) {
        let wanted = key.wanted();
        let is_it = |unproven: &QueuedSegment| unproven.arrived.wanted == wanted;
        if matches!(wanted, RequestedItem::Tile(..)) || self.unproven.iter().any(is_it) {
            self.prove_queued(now);
        }
    }
}
