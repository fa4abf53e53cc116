//! [`NodeBuffer`]: a write buffer for tree nodes, which arrive in any order and are written in few pieces.
//!
//! Neighbouring slots are proven at different times: a tile brings every eighth one, and segments fill the gaps.
//! Writing each at once would take a write for each gap. So the surrounding 4 KiB stay here for a while, and are read
//! from the file once if need be. A write covers the slots in between as well (with the same bytes, so that a crash in
//! the middle changes nothing). This requires that no other writer writes the slots between its own.

use xylem_tree::NODE_LEN;

use crate::error::StoreError;
use crate::file::FileRef;

/// Bytes of new nodes before a buffer asks to be written.
const BUFFER_BYTES: usize = 64 * 1024;
/// Slots of one block, one for each bit of a mask.
const SLOTS: u64 = u128::BITS as u64;
/// Bytes of one block.
const BLOCK: usize = SLOTS as usize * NODE_LEN;
/// Blocks kept after a write: those of current tiles, each of which spans 16.
const KEPT: usize = 48;
/// Most blocks before a buffer asks to be written, whatever they hold.
const MAX_BLOCKS: usize = 96;
/// Longest gap in slots that is written over: that between two nodes of a tile.
const MAX_GAP: u64 = 8;

/// A write buffer for tree nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeBuffer {
    /// The blocks by number, ascending.
    blocks: Vec<SlotBlock>,
    /// Number of writes so far.
    clock: u64,
    /// Index of the block that was used last.
    last: usize,
    /// Number of nodes not written yet.
    fresh: usize,
    bridges: bool,
    joined: Vec<u8>,
}

/// The slots from `number` times [`SLOTS`] on.
#[derive(Debug)]
struct SlotBlock {
    number: u64,
    /// The buffer's clock when the last node arrived.
    used: u64,
    /// Slots with bytes that equal those of the file, or will.
    known: u128,
    /// Slots that have to be written.
    dirty: u128,
    bytes: Box<[u8]>,
}

impl NodeBuffer {
    /// A buffer that writes over gaps: no other writer may write there.
    pub(crate) fn bridging() -> Self {
        Self { bridges: true, ..Self::default() }
    }

    /// Takes nodes (a multiple of 32 bytes) for the slots from `first_slot` on.
    pub(crate) fn push(&mut self, first_slot: u64, nodes: &[u8]) {
        let (mut slot, mut rest) = (first_slot, nodes);
        while !rest.is_empty() {
            let at = (slot % SLOTS) as usize;
            let here = rest.len().min(BLOCK - at * NODE_LEN);
            let (part, behind) = rest.split_at(here);
            let block = self.block(slot / SLOTS);
            block.bytes[at * NODE_LEN..][..here].copy_from_slice(part);
            let mask = u128::MAX >> (SLOTS as usize - here / NODE_LEN) << at;
            let new = (mask & !block.dirty).count_ones() as usize;
            block.known |= mask;
            block.dirty |= mask;
            self.fresh += new;
            slot = slot.saturating_add((here / NODE_LEN) as u64);
            rest = behind;
        }
    }

    /// Whether [`NodeBuffer::write`] is due.
    pub(crate) fn is_full(&self) -> bool {
        self.fresh * NODE_LEN >= BUFFER_BYTES || self.blocks.len() >= MAX_BLOCKS
    }

    fn block(&mut self, number: u64) -> &mut SlotBlock {
        if self.blocks.get(self.last).is_none_or(|block| block.number != number) {
            let found = self.blocks.binary_search_by_key(&number, |block| block.number);
            self.last = found.unwrap_or_else(|at| {
                let bytes = vec![0; BLOCK].into_boxed_slice();
                self.blocks.insert(at, SlotBlock { number, used: 0, known: 0, dirty: 0, bytes });
                at
            });
        }
        let block = &mut self.blocks[self.last];
        block.used = self.clock;
        block
    }

    /// Writes everything. After an error all nodes are still here, and it may be called again.
    pub(crate) fn write(&mut self, file: &FileRef) -> Result<(), StoreError> {
        if self.fresh == 0 {
            return Ok(());
        }
        let mut first = None;
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        for at in 0..self.blocks.len() {
            self.blocks[at].complete(file, self.bridges);
            let mut left = self.blocks[at].dirty;
            while left != 0 {
                let from = u64::from(left.trailing_zeros());
                let len = u64::from((left >> from).trailing_ones());
                left &= !mask(from, len);
                let slot = self.blocks[at].first_slot() + from;
                let end = first.map(|first| first + (joined.len() / NODE_LEN) as u64);
                if end.is_none_or(|end| !self.append_gap(end, slot, at, &mut joined)) {
                    if let Some(first) = first {
                        file.write_all(&joined, byte_of(file, first)?)?;
                    }
                    first = Some(slot);
                    joined.clear();
                }
                joined.extend_from_slice(self.blocks[at].nodes(from, len));
            }
        }
        if let Some(first) = first {
            file.write_all(&joined, byte_of(file, first)?)?;
        }
        self.joined = joined;
        self.fresh = 0;
        self.blocks.iter_mut().for_each(|block| block.dirty = 0);
        self.clock += 1;
        let kept = if self.bridges { KEPT } else { 0 };
        while self.blocks.len() > kept {
            let oldest = (0..self.blocks.len()).min_by_key(|at| self.blocks[*at].used);
            self.blocks.remove(oldest.unwrap_or(0));
        }
        Ok(())
    }

    /// Appends the gap between two slots, the second of which is in block `at`, if the gap is known and short.
    fn append_gap(&self, from: u64, to: u64, at: usize, out: &mut Vec<u8>) -> bool {
        if from == to {
            return true;
        }
        let block = &self.blocks[at];
        let start = block.first_slot();
        let here = from.max(start);
        let before = (from < start).then(|| at.checked_sub(1)).flatten().map(|b| &self.blocks[b]);
        let within = |block: &SlotBlock, from: u64, to: u64| {
            let mask = mask(from - block.first_slot(), to - from);
            block.known & mask == mask
        };
        let known = to - from <= MAX_GAP
            && (here == to || within(block, here, to))
            && (from == here
                || before
                    .is_some_and(|b| b.first_slot() + SLOTS == start && within(b, from, start)));
        if known {
            if let Some(before) = before {
                out.extend_from_slice(before.nodes(from - before.first_slot(), start - from));
            }
            out.extend_from_slice(block.nodes(here - start, to - here));
        }
        known
    }
}

/// Offset of a slot in its file.
pub(crate) fn byte_of(file: &FileRef, slot: u64) -> Result<u64, StoreError> {
    // Systems count file offsets in signed 64 bits. Stay well below, so that ends can be added.
    let byte = slot.checked_mul(NODE_LEN as u64).filter(|byte| *byte < 1 << 62);
    byte.ok_or_else(|| StoreError::OutOfRange { path: file.path().into(), offset: u64::MAX })
}

/// `len` bits, 1 to 128, from bit `from` on.
fn mask(from: u64, len: u64) -> u128 {
    u128::MAX >> (SLOTS - len) << from
}

impl SlotBlock {
    fn first_slot(&self) -> u64 {
        self.number * SLOTS
    }

    fn nodes(&self, from: u64, len: u64) -> &[u8] {
        &self.bytes[from as usize * NODE_LEN..][..len as usize * NODE_LEN]
    }

    /// Reads the gaps between new nodes, if there are any and they may be written over. If reading fails, the nodes are
    /// written one by one.
    fn complete(&mut self, file: &FileRef, bridges: bool) {
        let new = self.dirty.checked_shr(self.dirty.trailing_zeros()).unwrap_or(0);
        // Zero if the new nodes form one run.
        let gaps = new & new.wrapping_add(1);
        if !bridges || gaps == 0 || self.known == u128::MAX {
            return;
        }
        let mut there = [0; BLOCK];
        let read = byte_of(file, self.first_slot()).and_then(|at| file.read_full(&mut there, at));
        if read.is_ok() {
            for slot in (0..SLOTS).filter(|slot| self.known >> slot & 1 == 0) {
                let range = slot as usize * NODE_LEN..(slot as usize + 1) * NODE_LEN;
                self.bytes[range.clone()].copy_from_slice(&there[range]);
            }
            self.known = u128::MAX;
        }
    }
}

#[cfg(test)]
mod tests;
