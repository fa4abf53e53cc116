//! Rarest first: what fewest peers have is asked for before what many have.
//!
//! Fetchers of one source then come to hold different blocks and serve each other. Ties are broken at
//! random. While everybody who is asked has everything, or the caller wants order, none of this runs.

use core::time::Duration;

use crate::available::{BLOCK, Runs};
use crate::key::{Key, KeyMap};
use crate::object::Object;
use crate::peer::Peer;
use crate::transfer::Transfer;

/// Blocks of one object that are looked at for one that few have.
const LOOK_BLOCKS: u32 = 64;
/// Objects at the front of the queue that are chosen from, and how many are looked at for one choice.
const NEAR_OBJECTS: usize = 64;
const LOOK_OBJECTS: usize = 16;
/// How long a count of who has which block serves, after somebody has said something new.
const COUNT_FOR: Duration = Duration::from_millis(100);

/// Of how many peers with a part of an object each of its blocks can be had.
#[derive(Debug)]
pub(crate) struct Rarity {
    counts: Vec<u8>,
    version: u64,
    counted_at: Duration,
}

/// A block to ask one peer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub object: u64,
    pub number: u64,
}

impl Transfer {
    /// Something rare that nobody is asked for and peer `p` has. It stays with one block while there is
    /// something left of it.
    pub(crate) fn look_for_rare_work(&mut self, now: Duration, p: usize) -> Option<Key> {
        if let Some(block) = self.peers[p].block {
            if let Some(key) = self.next_of_block(now, p, block) {
                return Some(key);
            }
            self.peers[p].block = None;
        }
        let block = self.choose_block(now, p)?;
        self.peers[p].block = Some(block);
        self.next_of_block(now, p, block)
    }

    fn next_of_block(&mut self, now: Duration, p: usize, block: Block) -> Option<Key> {
        let room = self.has_room_to_hold();
        let object = self.objects.get_mut(&block.object)?;
        let start = block.number * BLOCK;
        let (peers, avoided) = (&self.peers, &self.avoided);
        object.next(start..start + BLOCK, room, peers[p].runs(block.object), |key| {
            crate::ask::must_skip(now, avoided, peers, key, p)
        })
    }

    fn choose_block(&mut self, now: Duration, p: usize) -> Option<Block> {
        let mut best: Option<(u8, Block)> = None;
        let mut at = self.prng.next_u64() as usize;
        for _ in 0..LOOK_OBJECTS {
            let near = self.work.len().min(NEAR_OBJECTS);
            if near == 0 {
                break;
            }
            at %= near;
            let number = self.work[at];
            let Some(object) = self.objects.get_mut(&number).filter(|o| o.unasked() > 0) else {
                if let Some(object) = self.objects.get_mut(&number) {
                    object.queued = false;
                }
                self.work.swap_remove_front(at);
                continue;
            };
            at += 1;
            let runs = self.peers[p].runs(number);
            if runs.is_empty() {
                continue;
            }
            object.count(now, self.have_changed, &self.peers);
            let found = object.rarest(runs, self.prng.next_u64());
            if let Some((count, block)) = found
                && best.is_none_or(|(least, _)| count < least)
            {
                best = Some((count, Block { object: number, number: block }));
                if count == 0 {
                    break;
                }
            }
        }
        Some(best?.1)
    }
}

impl Object {
    /// Counts who has what, if that has changed.
    fn count(&mut self, now: Duration, version: u64, peers: &[Peer]) {
        if let Some(rarity) = &self.rarity
            && (rarity.version == version || now < rarity.counted_at + COUNT_FOR)
        {
            return;
        }
        let blocks = self.geometry().segments().div_ceil(BLOCK) as usize;
        let mut counts = self.rarity.take().map_or_else(|| vec![0; blocks], |r| r.counts);
        counts.fill(0);
        let number = crate::key::object_number(self.id);
        for peer in peers.iter().filter(|peer| !peer.dropped) {
            if let Some(available) = &peer.available {
                available.runs(number).count_blocks(&mut counts);
            }
        }
        self.rarity = Some(Rarity { counts, version, counted_at: now });
    }

    /// The block with the fewest peers among some that lie behind a random place, hold something that
    /// nobody is asked for, and are (in part) among `runs`: the number of peers, and the block.
    fn rarest(&self, runs: Runs<'_>, random: u64) -> Option<(u8, u64)> {
        let counts = &self.rarity.as_ref()?.counts;
        let start = random % self.geometry().segments().max(1);
        let mut best: Option<(u8, u64)> = None;
        let (mut from, mut wrapped) = (start, false);
        for _ in 0..LOOK_BLOCKS {
            let Some(i) = self.next_unasked(from, runs).filter(|i| !wrapped || *i < start) else {
                if wrapped {
                    break;
                }
                (from, wrapped) = (0, true);
                continue;
            };
            let block = i / BLOCK;
            let count = counts.get(block as usize).copied().unwrap_or(0);
            if best.is_none_or(|(least, _)| count < least) {
                best = Some((count, block));
                if count == 0 {
                    break;
                }
            }
            from = (block + 1) * BLOCK;
        }
        best
    }
}

/// Pairs of an object and a range to ask for before everything else, newest first.
pub(crate) type Preferred = std::collections::VecDeque<(u64, core::ops::Range<u64>)>;

/// Ranges that may be preferred at once; past that, the oldest is one like any other.
const MAX_PREFERRED: usize = 64;

impl Transfer {
    /// Asks for the segments `range` of an object that was added before everything else; of several
    /// such ranges, for the newest first. Of what nobody has asked for yet, that is: it changes no order of arrival. An
    /// in-order window still holds. An object that is not there, or complete, is no matter.
    pub fn prefer(&mut self, object: xylem_object::ObjectId, range: core::ops::Range<u64>) {
        let number = crate::key::object_number(object);
        if range.start < range.end && self.objects.contains_key(&number) {
            self.preferred.push_front((number, range));
            self.preferred.truncate(MAX_PREFERRED);
        }
    }

    pub(crate) fn look_for_preferred(&mut self, now: Duration, p: usize) -> Option<Key> {
        let room = self.has_room_to_hold();
        let (peers, avoided): (&[Peer], &KeyMap<_, _>) = (&self.peers, &self.avoided);
        let (objects, in_order) = (&mut self.objects, self.in_order);
        let mut found = None;
        self.preferred.retain(|(number, range)| {
            let Some(object) = objects.get_mut(number) else { return false };
            if found.is_none() {
                let end = object.end_of_order(in_order).min(range.end);
                found = object.next(range.start..end, room, peers[p].runs(*number), |key| {
                    crate::ask::must_skip(now, avoided, peers, key, p)
                });
            }
            object.misses_any(range.clone())
        });
        found
    }
}
