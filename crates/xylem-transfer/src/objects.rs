//! All incomplete objects of a transfer, and which of their segments and tiles no peer is asked for.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use xylem_congestion::SplitMix64;
use xylem_object::ObjectId;
use xylem_tree::{Culprit, Geometry, Node, NodeValue, ProofError, Segment, Tile, Verified};

use crate::available::SegmentBlock;
use crate::key::{ItemKey, ItemKeyMap, RequestedItem, object_number};
use crate::object::{ArrivedItem, TransferObject};
use crate::peers::PeerView;

/// Number of urgent items that are tried in one search for something that a peer may be asked for.
const MAX_URGENT_TRIED: usize = 8;
/// `NEAR_OBJECTS` objects at the front of the queue are candidates for a rare block. One choice looks at `MAX_OBJECTS_TRIED`
/// of them.
const NEAR_OBJECTS: usize = 64;
const MAX_OBJECTS_TRIED: usize = 16;

/// Pause before a key is asked for again that no peer has at present.
const POSTPONED_FOR: Duration = Duration::from_secs(1);

/// The objects by number, and what to ask for next.
#[derive(Debug, Default)]
pub(crate) struct ObjectTable {
    table: ItemKeyMap<u64, ObjectEntry>,
    /// Object numbers in the order of addition. Finished ones are removed when they reach the front.
    order: VecDeque<u64>,
    /// Numbers of objects with segments that no peer is asked for. Other objects are removed when they reach the front.
    work: VecDeque<u64>,
    /// Items to ask for before anything else: tiles to be asked for again, and segments that a caller waits for.
    urgent: VecDeque<ItemKey>,
    /// Keys that every peer that could be asked has refused, and when each is asked for again; oldest first.
    postponed: VecDeque<(Duration, ItemKey)>,
    /// Segments that no peer is asked for, over all objects.
    unasked: u64,
    /// Segments that are wanted and not verified, over all objects.
    missing: u64,
    /// Segments and tiles that wait for a tile, over all objects.
    held: usize,
    /// Grows when there may be something new to ask a peer for that had nothing to do.
    version: u64,
}

#[derive(Debug)]
struct ObjectEntry {
    object: TransferObject,
    /// Whether the object is in `work`.
    queued: bool,
}

/// The result of judging an item that arrived.
#[derive(Debug)]
pub(crate) enum ItemVerdict {
    /// A segment was proven.
    Segment(Verified<Segment<Bytes>>, AfterSegment),
    /// A tile was proven. These items waited for it.
    Tile(Vec<ArrivedItem>),
    /// The item waits for a tile.
    Held,
    /// The item has to wait for a tile but there is no room. It is asked for again.
    HeldOver,
    /// The item is here already, or its object is not wanted.
    Unwanted,
    /// The item is wrong, and its sender is to blame.
    Bad(ProofError),
}

/// The verifier's result for a segment.
pub(crate) type SegmentOutcome = Result<Verified<Segment<Bytes>>, ProofError>;

/// The action after a proven segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterSegment {
    Nothing,
    /// Report nodes: enough of them wait.
    Report,
    /// The object is complete: this was its last missing segment.
    Complete,
}

impl ObjectTable {
    // ---- what is wanted ---------------------------------------------------------------------

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether every wanted segment is here.
    pub(crate) fn is_idle(&self) -> bool {
        self.missing == 0
    }

    pub(crate) fn contains(&self, id: ObjectId) -> bool {
        self.table.contains_key(&object_number(id))
    }

    pub(crate) fn geometry(&self, id: ObjectId) -> Option<&Geometry> {
        Some(self.table.get(&object_number(id))?.object.geometry())
    }

    /// Segments that no peer is asked for.
    pub(crate) fn unasked(&self) -> u64 {
        self.unasked
    }

    /// Whether there is something to ask for.
    pub(crate) fn has_work(&self) -> bool {
        self.unasked > 0 || !self.urgent.is_empty()
    }

    /// Grows when there may be something new to ask a peer for that had nothing to do.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Adds an object that is not in the table yet.
    pub(crate) fn add(&mut self, object: TransferObject) {
        let number = object_number(object.id());
        self.unasked += object.unasked();
        self.missing += object.missing();
        self.version += 1;
        self.table.insert(number, ObjectEntry { object, queued: true });
        self.order.push_back(number);
        self.work.push_back(number);
        if self.order.len() > 2 * self.table.len() + 64 {
            self.order.retain(|number| self.table.contains_key(number));
        }
    }

    /// Wants more segments of a lasting object; if `urgent`, before anything else. Returns how many were not wanted
    /// until now, or `None` if there is no such object.
    pub(crate) fn want(&mut self, id: ObjectId, segments: Range<u64>, urgent: bool) -> Option<u64> {
        let number = object_number(id);
        let entry = self.table.get_mut(&number).filter(|entry| entry.object.is_lasting())?;
        let fresh = entry.object.want(segments.clone());
        self.unasked += fresh;
        self.missing += fresh;
        self.version += 1;
        if fresh > 0 && !core::mem::replace(&mut entry.queued, true) {
            self.work.push_back(number);
        }
        if urgent {
            self.urgent.extend(entry.object.unasked_of(segments).into_iter().map(ItemKey::from));
        }
        Some(fresh)
    }

    /// Drops the wanted segments of a lasting object that no peer is asked for.
    pub(crate) fn drop_unasked(&mut self, id: ObjectId) {
        self.ask_all_postponed();
        if let Some(ObjectEntry { object, .. }) = self.table.get_mut(&object_number(id))
            && object.is_lasting()
        {
            let dropped = object.drop_unasked();
            self.unasked -= dropped;
            self.missing -= dropped;
        }
    }

    /// Removes all objects. The version stays.
    pub(crate) fn clear(&mut self) {
        *self = Self { version: self.version, ..Self::default() };
    }

    pub(crate) fn is_missing(&self, key: ItemKey) -> bool {
        let wanted = key.wanted();
        let (RequestedItem::Segment(id, _) | RequestedItem::Tile(id, _)) = wanted else {
            return false;
        };
        self.table.get(&object_number(id)).is_some_and(|entry| entry.object.is_wanted(wanted))
    }

    /// Queues `key` to be asked for again, unless it has arrived meanwhile.
    pub(crate) fn ask_again(&mut self, key: ItemKey) {
        match key.wanted() {
            RequestedItem::Manifest => {}
            RequestedItem::Segment(id, i) => {
                let number = object_number(id);
                let Some(entry) = self.table.get_mut(&number) else { return };
                if entry.object.mark_unasked(i) {
                    self.unasked += 1;
                    self.version += 1;
                    if !core::mem::replace(&mut entry.queued, true) {
                        self.work.push_front(number);
                    }
                    // The item is older than all that is still to be asked for, and a reader may wait for it.
                    if entry.object.is_lasting() {
                        self.urgent.push_back(key);
                    }
                }
            }
            RequestedItem::Tile(..) => {
                if self.is_missing(key) && !self.urgent.contains(&key) {
                    self.urgent.push_back(key);
                }
            }
        }
    }

    /// Every peer that could be asked has refused `key`: asks for it again after a pause, so that it takes no turn of what
    /// peers do have.
    pub(crate) fn postpone(&mut self, now: Duration, key: ItemKey) {
        self.postponed.push_back((now + POSTPONED_FOR, key));
    }

    /// When the next postponed key is asked for again.
    pub(crate) fn next_postponed(&self) -> Option<Duration> {
        Some(self.postponed.front()?.0)
    }

    /// Asks again for the keys whose pause has ended.
    pub(crate) fn ask_postponed(&mut self, now: Duration) {
        while self.next_postponed().is_some_and(|until| until <= now) {
            if let Some((_, key)) = self.postponed.pop_front() {
                self.ask_again(key);
            }
        }
    }

    /// Asks again for all postponed keys: a peer may have them now.
    pub(crate) fn ask_all_postponed(&mut self) {
        while let Some((_, key)) = self.postponed.pop_front() {
            self.ask_again(key);
        }
    }

    /// Records that a peer is asked for `key`.
    pub(crate) fn on_asked(&mut self, key: ItemKey) {
        let wanted = key.wanted();
        if let RequestedItem::Segment(id, _) | RequestedItem::Tile(id, _) = wanted
            && let Some(ObjectEntry { object, .. }) = self.table.get_mut(&object_number(id))
        {
            let before = object.unasked();
            object.mark_asked(wanted);
            self.unasked -= before - object.unasked();
        }
    }

    // ---- what to ask for next ----

    /// Whether the peer has `key`, as far as is known.
    pub(crate) fn has(&self, asker: PeerView<'_>, key: ItemKey) -> bool {
        if !asker.has_part() {
            return true;
        }
        match key.wanted() {
            RequestedItem::Manifest => true,
            RequestedItem::Segment(id, i) => asker.runs(object_number(id)).meets(i.0..i.0 + 1),
            RequestedItem::Tile(id, tile) => {
                let number = object_number(id);
                let entry = self.table.get(&number);
                entry.is_some_and(|entry| {
                    asker.runs(number).meets(entry.object.segments_under(tile))
                })
            }
        }
    }

    /// The next urgent item that this peer may be asked for.
    pub(crate) fn next_urgent(&mut self, asker: PeerView<'_>) -> Option<ItemKey> {
        for _ in 0..self.urgent.len().min(MAX_URGENT_TRIED) {
            let key = self.urgent.pop_front()?;
            if !self.is_urgent(key) {
                continue; // it arrived, was asked for, or its object is complete
            }
            if !self.has(asker, key) || asker.must_skip(key) {
                self.urgent.push_back(key);
                continue;
            }
            self.on_asked(key);
            return Some(key);
        }
        None
    }

    /// Whether a key of `urgent` still has to be asked for. A queued tile is marked as asked for already; a queued
    /// segment is not.
    fn is_urgent(&self, key: ItemKey) -> bool {
        let wanted = key.wanted();
        match wanted {
            RequestedItem::Manifest => false,
            RequestedItem::Tile(..) => self.is_missing(key),
            RequestedItem::Segment(id, _) => {
                let entry = self.table.get(&object_number(id));
                entry.is_some_and(|entry| entry.object.is_unasked(wanted))
            }
        }
    }

    /// The first item in order that no peer is asked for, from the first object that has one. With `in_order` it comes
    /// from the oldest object alone, and at most that many segments past its first missing one. `room` states whether
    /// segments may be asked for before the tiles that prove them have arrived.
    pub(crate) fn next_in_order(
        &mut self,
        asker: PeerView<'_>,
        in_order: Option<u64>,
        room: bool,
    ) -> Option<ItemKey> {
        let first = in_order.and_then(|_| self.first());
        while let Some(number) = self.work.front() {
            match self.table.get_mut(number) {
                Some(ObjectEntry { object, .. }) if object.unasked() > 0 => {
                    if first.is_some_and(|first| first != *number) {
                        return None;
                    }
                    return object.next(0..object.in_order_end(in_order), room, asker);
                }
                Some(entry) => entry.queued = false,
                None => {}
            }
            self.work.pop_front();
        }
        None
    }

    /// The number of the oldest incomplete object.
    fn first(&mut self) -> Option<u64> {
        while let Some(number) = self.order.front() {
            if self.table.contains_key(number) {
                return Some(*number);
            }
            self.order.pop_front();
        }
        None
    }

    /// The first item of a block that no peer is asked for.
    pub(crate) fn next_of_block(
        &mut self,
        asker: PeerView<'_>,
        block: SegmentBlock,
        room: bool,
    ) -> Option<ItemKey> {
        let ObjectEntry { object, .. } = self.table.get_mut(&block.object)?;
        object.next(block.segments(), room, asker)
    }

    /// A block that few peers have and that this peer can be asked for.
    pub(crate) fn rare_block(
        &mut self,
        asker: PeerView<'_>,
        chance: &mut SplitMix64,
    ) -> Option<SegmentBlock> {
        let mut best: Option<(u8, SegmentBlock)> = None;
        let mut at = chance.next_u64() as usize;
        for _ in 0..MAX_OBJECTS_TRIED {
            let near = self.work.len().min(NEAR_OBJECTS);
            if near == 0 {
                break;
            }
            at %= near;
            let number = self.work[at];
            let entry = self.table.get_mut(&number);
            let Some(ObjectEntry { object, .. }) = entry.filter(|e| e.object.unasked() > 0) else {
                if let Some(entry) = self.table.get_mut(&number) {
                    entry.queued = false;
                }
                self.work.swap_remove_front(at);
                continue;
            };
            at += 1;
            if asker.runs(number).is_empty() {
                continue;
            }
            if let Some((count, block)) = object.rarest(asker, chance.next_u64())
                && best.is_none_or(|(least, _)| count < least)
            {
                best = Some((count, SegmentBlock { object: number, number: block }));
                if count == 0 {
                    break;
                }
            }
        }
        Some(best?.1)
    }

    // ---- what has arrived ----

    /// Segments and tiles that wait for a tile.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Verifies segments, those of one object side by side. The result is `None` for an item that has to be judged by
    /// itself. No state changes until [`Self::judge`] is called for each, in order.
    pub(crate) fn prove<'a>(
        &mut self,
        arrived: impl Iterator<Item = &'a ArrivedItem>,
    ) -> Vec<Option<SegmentOutcome>> {
        let arrived: Vec<&ArrivedItem> = arrived.collect();
        let mut outcomes = Vec::with_capacity(arrived.len());
        for run in arrived.chunk_by(|a, b| a.wanted.object() == b.wanted.object()) {
            let entry =
                run[0].wanted.object().and_then(|id| self.table.get_mut(&object_number(id)));
            match entry {
                Some(ObjectEntry { object, .. }) if run.len() > 1 => {
                    object.prove(run, &mut outcomes)
                }
                _ => outcomes.extend(run.iter().map(|_| None)),
            }
        }
        outcomes
    }

    /// Judges a tile, or a segment for which [`Self::prove`] may have given an `outcome`. An item that arrives before
    /// its tile waits; at most `max_held` items wait.
    pub(crate) fn judge(
        &mut self,
        arrived: ArrivedItem,
        outcome: Option<SegmentOutcome>,
        max_held: usize,
    ) -> ItemVerdict {
        let wanted = arrived.wanted;
        let (RequestedItem::Segment(id, _) | RequestedItem::Tile(id, _)) = wanted else {
            return ItemVerdict::Unwanted;
        };
        let Some(ObjectEntry { object, .. }) = self.table.get_mut(&object_number(id)) else {
            return ItemVerdict::Unwanted;
        };
        if !object.is_wanted(wanted) {
            return ItemVerdict::Unwanted;
        }
        let judged = match wanted {
            RequestedItem::Segment(_, index) => {
                let before = object.unasked();
                let outcome = outcome.unwrap_or_else(|| object.prove_one(index, &arrived));
                outcome.inspect(|_| object.on_segment_verified(index)).map(|segment| {
                    self.unasked -= before - object.unasked();
                    self.missing -= 1;
                    let after = match object.missing() {
                        0 if object.is_lasting() => AfterSegment::Report,
                        0 => AfterSegment::Complete,
                        _ if object.is_report_due() => AfterSegment::Report,
                        _ => AfterSegment::Nothing,
                    };
                    ItemVerdict::Segment(segment, after)
                })
            }
            RequestedItem::Tile(_, tile) => {
                object.tile(tile, &arrived.content, &arrived.signature).map(|freed| {
                    self.held -= freed.len();
                    ItemVerdict::Tile(freed)
                })
            }
            RequestedItem::Manifest => return ItemVerdict::Unwanted,
        };
        match judged {
            Ok(judged) => judged,
            Err(ProofError::NeedTile(tile)) => self.hold(id, tile, arrived, max_held),
            Err(error) if error.culprit() == Culprit::Sender => ItemVerdict::Bad(error),
            Err(_) => ItemVerdict::Unwanted,
        }
    }

    fn hold(
        &mut self,
        id: ObjectId,
        tile: Tile,
        arrived: ArrivedItem,
        max_held: usize,
    ) -> ItemVerdict {
        if self.held >= max_held {
            self.ask_again(arrived.wanted.into());
            return ItemVerdict::HeldOver;
        }
        self.held += 1;
        if let Some(entry) = self.table.get_mut(&object_number(id))
            && entry.object.hold_item(tile, arrived)
        {
            self.urgent.push_back(RequestedItem::Tile(id, tile).into());
        }
        ItemVerdict::Held
    }

    /// The nodes of an object that were proven since the last call, if there are any.
    pub(crate) fn take_proven(&mut self, id: ObjectId) -> Option<Verified<Vec<(Node, NodeValue)>>> {
        let nodes = self.table.get_mut(&object_number(id))?.object.take_proven();
        (!nodes.is_empty()).then_some(nodes)
    }

    /// The ids of all objects in the order of addition.
    pub(crate) fn ids(&self) -> Vec<ObjectId> {
        let there = self.order.iter().filter_map(|number| self.table.get(number));
        there.map(|entry| entry.object.id()).collect()
    }

    /// Removes an object that is not wanted any more. Returns false if it is not there.
    pub(crate) fn give_up(&mut self, id: ObjectId) -> bool {
        let Some(ObjectEntry { object, .. }) = self.table.get(&object_number(id)) else {
            return false;
        };
        self.unasked -= object.unasked();
        self.missing -= object.missing();
        self.remove(id);
        true
    }

    /// Removes a complete object.
    pub(crate) fn remove(&mut self, id: ObjectId) {
        if let Some(entry) = self.table.remove(&object_number(id)) {
            self.held -= entry.object.held();
        }
    }
}
