//! [`NodeBuffer`]: tree nodes on their way to disk, gathered in any order, written in few pieces.
//!
//! Neighbouring slots are proven at different times: a tile brings every eighth one, segments fill in
//! what lies between. Written as they come that would be a write for each gap. So what is known of the
//! 4 KiB around stays here for a while, read from the file once if need be, and a write runs over what
//! is there already (with the same bytes, so that a crash in the middle changes nothing) instead of
//! around it. Only whoever alone writes the slots between its own may ask for that.

use xylem_tree::NODE_LEN;

use crate::error::StoreError;
use crate::file::FileRef;

/// Bytes of new nodes before a buffer asks to be written.
const BUFFER_BYTES: usize = 64 * 1024;
/// Slots of one block, one for each bit of a mask.
const SLOTS: u64 = u128::BITS as u64;
/// Bytes of one block.
const BLOCK: usize = SLOTS as usize * NODE_LEN;
/// Blocks held after a write: those of the tiles under way, each of which spans 16.
const KEPT: usize = 48;
/// Blocks before a buffer asks to be written, whatever they hold.
const MAX_BLOCKS: usize = 96;
/// Slots in a row that are written once more rather than left out: what lies between two nodes of a tile.
const MAX_GAP: u64 = 8;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct NodeBuffer {
    /// By number, ascending.
    blocks: Vec<Block>,
    /// Writes so far.
    clock: u64,
    /// Where the last node went.
    last: usize,
    /// New nodes.
    fresh: usize,
    bridges: bool,
    joined: Vec<u8>,
}

/// The slots from `number` times [`SLOTS`] on.
#[derive(Debug)]
struct Block {
    number: u64,
    /// The buffer's clock when the last node came.
    used: u64,
    /// Slots whose bytes are those of the file, or are to be.
    known: u128,
    /// Slots that have to be written.
    dirty: u128,
    bytes: Box<[u8]>,
}

impl NodeBuffer {
    /// One that writes over what lies between its nodes: nobody else may write there.
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

    /// Whether it is time for [`NodeBuffer::write`].
    pub(crate) fn is_full(&self) -> bool {
        self.fresh * NODE_LEN >= BUFFER_BYTES || self.blocks.len() >= MAX_BLOCKS
    }

    fn block(&mut self, number: u64) -> &mut Block {
        if self.blocks.get(self.last).is_none_or(|block| block.number != number) {
            let found = self.blocks.binary_search_by_key(&number, |block| block.number);
            self.last = found.unwrap_or_else(|at| {
                let bytes = vec![0; BLOCK].into_boxed_slice();
                self.blocks.insert(at, Block { number, used: 0, known: 0, dirty: 0, bytes });
                at
            });
        }
        let block = &mut self.blocks[self.last];
        block.used = self.clock;
        block
    }

    /// Writes everything; on an error nothing is forgotten, and writing again is right.
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

    /// Appends what lies between two slots, of which the second is in block `at`, if all of it is known
    /// and little enough.
    fn append_gap(&self, from: u64, to: u64, at: usize, out: &mut Vec<u8>) -> bool {
        if from == to {
            return true;
        }
        let block = &self.blocks[at];
        let start = block.first_slot();
        let here = from.max(start);
        let before = (from < start).then(|| at.checked_sub(1)).flatten().map(|b| &self.blocks[b]);
        let within = |block: &Block, from: u64, to: u64| {
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

/// Where a slot starts in its file.
pub(crate) fn byte_of(file: &FileRef, slot: u64) -> Result<u64, StoreError> {
    // Systems count file offsets in signed 64 bits; stay well below, so that ends can be added.
    let byte = slot.checked_mul(NODE_LEN as u64).filter(|byte| *byte < 1 << 62);
    byte.ok_or_else(|| StoreError::OutOfRange { path: file.path().into(), offset: u64::MAX })
}

/// `len` bits, 1 to 128, from `from` on.
fn mask(from: u64, len: u64) -> u128 {
    u128::MAX >> (SLOTS - len) << from
}

impl Block {
    fn first_slot(&self) -> u64 {
        self.number * SLOTS
    }

    fn nodes(&self, from: u64, len: u64) -> &[u8] {
        &self.bytes[from as usize * NODE_LEN..][..len as usize * NODE_LEN]
    }

    /// Reads what lies between new nodes, if there is anything and it may be written over. Where
    /// reading fails they are written one by one.
    fn complete(&mut self, file: &FileRef, bridges: bool) {
        let new = self.dirty.checked_shr(self.dirty.trailing_zeros()).unwrap_or(0);
        // Zero where the new ones are all in a row.
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
