//! Searches old copies for the blocks of a new file, with only the publisher's list of sums.
//!
//! The list is not trusted: a block that is found is a claim, which the tree must prove. An old file is passed over
//! once, in pieces that threads share. After a found block the next one is tried directly behind it, so that the weak
//! sum is rolled byte by byte only through changed parts. The work is linear in the sizes of both files, whatever the
//! list contains.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use xylem_object::sums::BlockSums;
use xylem_tree::{NodeValue, UpdateBlocks, WeakSum, weak_sum};

/// Most threads that search: more read no faster.
const MAX_THREADS: usize = 4;
/// Least bytes of an old file that a thread takes at once.
const MIN_PIECE: u64 = 4 << 20;
/// Most blocks of one weak sum tried at one place.
const MAX_TRIES: usize = 4;
/// Bytes of old copies searched at most: a base for any file, and this many for each of its bytes.
const SEARCHED: u64 = 1 << 30;
const SEARCHED_TIMES: u64 = 64;
/// A piece's bytes may be hashed in vain this many times over; then only expected places are tried. Only a forged list,
/// or bytes made for it, come near this limit.
const WASTED_TIMES: u64 = 2;

/// An old copy: bytes that may change or end at any time.
pub(crate) trait Old: Send + Sync {
    /// Returns its size as far as known, bytes.
    fn len(&self) -> u64;
    /// Returns the first byte at or after `offset` that may be non-zero; `None` if all are zero to the end.
    fn next_data(&self, offset: u64) -> Option<u64> {
        Some(offset)
    }
    /// Reads from `offset` on; returns less at the end or if it is unreadable.
    fn read(&self, buf: &mut [u8], offset: u64) -> usize;
}

/// Where a block's bytes seem to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OldPlace {
    /// Which of the old copies.
    pub(crate) copy: u32,
    /// The first byte there.
    pub(crate) offset: u64,
}

/// A block that seems to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundBlock {
    pub(crate) block: u64,
    pub(crate) place: OldPlace,
    /// The value of its node in the new file's tree.
    pub(crate) value: NodeValue,
}

/// Searches `copies` for the blocks of `sums` (one for each of `blocks`). The result is ascending, each block at most
/// once. Ends early with a partial result when `stop` is set.
pub(crate) fn search(
    blocks: &UpdateBlocks,
    sums: &[BlockSums],
    copies: &[Box<dyn Old>],
    stop: &AtomicBool,
) -> Vec<FoundBlock> {
    let table = SumTable::new(blocks, sums);
    let len = blocks.block_len();
    let piece = MIN_PIECE.max(8 * len);
    let pieces = pieces(copies, piece, search_limit(blocks.geometry().size()));
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut scan = BlockScan::new(&table, stop);
        while let Some(at) = pieces.get(next.fetch_add(1, Ordering::Relaxed))
            && !stop.load(Ordering::Relaxed)
        {
            scan.piece(&*copies[at.copy as usize], *at, piece);
        }
        found.lock().unwrap_or_else(|e| e.into_inner()).extend(scan.found);
    };
    thread::scope(|scope| {
        let threads = xylem_files::hashing::threads().min(MAX_THREADS).min(pieces.len());
        xylem_base::threads::helpers(scope, threads.saturating_sub(1), work);
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(|e| e.into_inner());
    found.sort_unstable_by_key(|found: &FoundBlock| found.block);
    table.add_copies(&mut found, copies, stop);
    table.add_last(&mut found, copies);
    found.sort_unstable_by_key(|found| found.block);
    found
}

/// Returns how many bytes of old copies are searched for a file of this size: beyond that, fetching costs less.
fn search_limit(size: u64) -> u64 {
    size.saturating_mul(SEARCHED_TIMES).saturating_add(SEARCHED)
}

/// Returns the pieces to search, `most` bytes at most. Holes are skipped, but for the first of each copy: one run of
/// zeros suffices.
fn pieces(copies: &[Box<dyn Old>], piece: u64, most: u64) -> Vec<OldPlace> {
    let mut pieces = Vec::new();
    for (copy, old) in (0..).zip(copies) {
        let (mut at, mut has_hole) = (0, false);
        while at < old.len() && (pieces.len() as u64).saturating_mul(piece) < most {
            let data = old.next_data(at).unwrap_or(u64::MAX).max(at) / piece * piece;
            if data > at && !has_hole {
                has_hole = true;
                pieces.push(OldPlace { copy, offset: at });
            }
            if data >= old.len() {
                break;
            }
            pieces.push(OldPlace { copy, offset: data });
            at = data.saturating_add(piece);
        }
    }
    pieces
}

/// The list, indexed by weak sum.
struct SumTable<'a> {
    blocks: &'a UpdateBlocks,
    sums: &'a [BlockSums],
    /// Weak sum and block of all whole blocks, sorted.
    sorted: Vec<(u32, u32)>,
    /// A bit for each weak sum's hash: few are set, so that most places need no search.
    filter: Vec<u64>,
    shift: u32,
    /// A bit for each block that was found.
    found: Vec<AtomicU64>,
}

impl<'a> SumTable<'a> {
    fn new(blocks: &'a UpdateBlocks, sums: &'a [BlockSums]) -> Self {
        let whole = blocks.geometry().size() / blocks.block_len();
        let whole = sums.iter().take(whole as usize);
        let mut sorted: Vec<_> = whole.zip(0..).map(|(sums, block)| (sums.weak, block)).collect();
        sorted.sort_unstable();
        // 32 bits a block, from 8 KiB on: fits the second-level cache for files of some GiB.
        let bits = (sorted.len().max(1).ilog2() + 6).clamp(16, 28);
        let mut table = Self {
            blocks,
            sums,
            filter: vec![0; 1 << (bits - 6)],
            shift: 32 - bits,
            found: (0..sums.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            sorted,
        };
        for at in 0..table.sorted.len() {
            let bit = table.bit(table.sorted[at].0);
            table.filter[bit / 64] |= 1 << (bit % 64);
        }
        table
    }

    fn bit(&self, weak: u32) -> usize {
        (weak.wrapping_mul(0x85EB_CA6B) >> self.shift) as usize
    }

    /// Returns the whole blocks with this weak sum.
    #[inline]
    fn with(&self, weak: u32) -> &[(u32, u32)] {
        let bit = self.bit(weak);
        if self.filter[bit / 64] & 1 << (bit % 64) == 0 { &[] } else { self.run(weak) }
    }

    fn run(&self, weak: u32) -> &[(u32, u32)] {
        let start = self.sorted.partition_point(|entry| entry.0 < weak);
        let rest = &self.sorted[start..];
        &rest[..rest.partition_point(|entry| entry.0 == weak)]
    }

    /// Returns the value of a block's node if these seem to be its bytes.
    fn judge(&self, block: u64, bytes: &[u8]) -> Option<NodeValue> {
        let sums = self.sums.get(usize::try_from(block).ok()?)?;
        let value = self.blocks.value(block, bytes)?;
        value.0.starts_with(&sums.value).then_some(value)
    }

    fn is_found(&self, block: u64) -> bool {
        let word = self.found.get((block / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (block % 64) & 1 == 1)
    }

    /// Marks a block as found; returns false if it was already.
    fn mark(&self, block: u64) -> bool {
        let bit = 1 << (block % 64);
        let word = self.found.get((block / 64) as usize);
        word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Adds blocks of repeated content (zeros, for example) that the old copy has fewer times: they are copies of one
    /// that was found.
    fn add_copies(&self, found: &mut Vec<FoundBlock>, copies: &[Box<dyn Old>], stop: &AtomicBool) {
        let mut bytes = vec![0; self.blocks.block_len() as usize];
        let sources = found.len();
        for run in self.sorted.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
            let there = run.iter().find(|(_, block)| self.is_found(u64::from(*block)));
            let Some((_, there)) = there else { continue };
            let there = found[..sources].binary_search_by_key(&u64::from(*there), |f| f.block);
            let Ok(place) = there.map(|at| found[at].place) else { continue };
            if stop.load(Ordering::Relaxed)
                || copies[place.copy as usize].read(&mut bytes, place.offset) < bytes.len()
            {
                continue;
            }
            for block in run.iter().map(|(_, block)| u64::from(*block)) {
                if !self.is_found(block)
                    && let Some(value) = self.judge(block, &bytes)
                    && self.mark(block)
                {
                    found.push(FoundBlock { block, place, value });
                }
            }
        }
    }

    /// Adds the last block, if it is a short one. It is tried behind the block before it, at the end of each old copy,
    /// and at its offset in the new file.
    fn add_last(&self, found: &mut Vec<FoundBlock>, copies: &[Box<dyn Old>]) {
        let Some(last) = self.blocks.count().checked_sub(1) else { return };
        let range = self.blocks.range(last);
        let len = range.end - range.start;
        if len == self.blocks.block_len() {
            return;
        }
        let before = found.iter().find(|f| f.block + 1 == last).map(|f| f.place);
        let behind = before
            .map(|place| OldPlace { offset: place.offset + self.blocks.block_len(), ..place });
        let others = (0..).zip(copies).flat_map(|(copy, old)| {
            let end = old.len().checked_sub(len).map(|offset| OldPlace { copy, offset });
            end.into_iter().chain([OldPlace { copy, offset: range.start }])
        });
        let mut bytes = vec![0; len as usize];
        for place in behind.into_iter().chain(others) {
            if copies[place.copy as usize].read(&mut bytes, place.offset) == bytes.len()
                && self.sums.last().is_some_and(|sums| sums.weak == weak_sum(&bytes))
                && let Some(value) = self.judge(last, &bytes)
            {
                return found.push(FoundBlock { block: last, place, value });
            }
        }
    }
}

/// Search state of one thread.
struct BlockScan<'a> {
    table: &'a SumTable<'a>,
    stop: &'a AtomicBool,
    buffer: Vec<u8>,
    found: Vec<FoundBlock>,
    /// New offset minus old offset of the block found last.
    shift: i128,
    /// Bytes that may still be hashed in vain.
    waste_left: u64,
}

impl<'a> BlockScan<'a> {
    fn new(table: &'a SumTable<'a>, stop: &'a AtomicBool) -> Self {
        Self { table, stop, buffer: Vec::new(), found: Vec::new(), shift: 0, waste_left: 0 }
    }

    /// Searches for blocks that begin within `len` bytes from `start` on.
    fn piece(&mut self, old: &dyn Old, start: OldPlace, len: u64) {
        let block_len = self.table.blocks.block_len() as usize;
        let mut buffer = std::mem::take(&mut self.buffer);
        // Room to roll over the end: four places are rolled together.
        buffer.resize(len as usize + block_len + 8, 0);
        let got = old.read(&mut buffer[..len as usize + block_len], start.offset);
        buffer[got..got + 8].fill(0);
        if let Some(last) = got.checked_sub(block_len) {
            self.waste_left = WASTED_TIMES * len;
            let end = (last + 1).min(len as usize);
            self.bytes(&buffer[..got + 8], start, end);
        }
        self.buffer = buffer;
    }

    fn bytes(&mut self, bytes: &[u8], start: OldPlace, end: usize) {
        let block_len = self.table.blocks.block_len() as usize;
        let mut at = self.first(bytes, start, end).unwrap_or(0);
        while at < end && !self.stop.load(Ordering::Relaxed) {
            let expected = self.expected(start.offset + at as u64);
            if let Some(block) = expected {
                if self.take(block, bytes, at, start) {
                    at += block_len;
                    continue;
                }
                // Changed in place: the next block is in its expected place. The bytes here may be a block of another
                // place.
                let behind = at + block_len;
                if behind < end && self.take(block + 1, bytes, behind, start) {
                    self.look(weak_sum(&bytes[at..behind]), bytes, at, start);
                    at = behind + block_len;
                    continue;
                }
            }
            at = match self.waste_left {
                0 => at + block_len,
                _ => self.roll(bytes, at, end, start),
            };
        }
    }

    /// Returns where to begin: behind the first whole block at the last shift, or at none, if that block is there.
    fn first(&mut self, bytes: &[u8], start: OldPlace, end: usize) -> Option<usize> {
        let len = i128::from(self.table.blocks.block_len());
        for shift in [self.shift, 0] {
            let new = i128::from(start.offset) + shift;
            let at = usize::try_from((-new).rem_euclid(len)).ok()?;
            let block = u64::try_from((new + at as i128) / len);
            if let (Ok(block), true) = (block, at < end)
                && self.take(block, bytes, at, start)
            {
                self.shift = shift;
                return Some(at + len as usize);
            }
        }
        None
    }

    /// Returns the block expected at `offset` of the old file, if nothing was inserted since the block found last.
    fn expected(&self, offset: u64) -> Option<u64> {
        let new = u64::try_from(i128::from(offset) + self.shift).ok()?;
        let len = self.table.blocks.block_len();
        new.is_multiple_of(len).then_some(new / len)
    }

    /// Returns whether block `block` lies at `at`, and records it if so.
    fn take(&mut self, block: u64, bytes: &[u8], at: usize, start: OldPlace) -> bool {
        let len = self.table.blocks.block_len();
        let Some(value) = self.table.judge(block, &bytes[at..at + len as usize]) else {
            self.waste_left = self.waste_left.saturating_sub(len);
            return false;
        };
        let place = OldPlace { offset: start.offset + at as u64, ..start };
        if self.table.mark(block) {
            self.found.push(FoundBlock { block, place, value });
        }
        true
    }

    /// Tries blocks of this weak sum at `at`; returns the one that was found.
    fn look(&mut self, weak: u32, bytes: &[u8], at: usize, start: OldPlace) -> Option<u64> {
        let table = self.table;
        let run = table.with(weak);
        let fresh = run.iter().map(|(_, block)| u64::from(*block)).filter(|b| !table.is_found(*b));
        let mut tried = 0;
        for block in fresh.take(MAX_TRIES) {
            tried += 1;
            if self.take(block, bytes, at, start) {
                return Some(block);
            }
        }
        // A block found elsewhere is still a block's length to skip.
        let (_, first) = run.first().filter(|_| tried == 0)?;
        let first = u64::from(*first);
        self.take(first, bytes, at, start).then_some(first)
    }

    /// Rolls on from `at` until a block is found; returns where to continue.
    fn roll(&mut self, bytes: &[u8], at: usize, end: usize, start: OldPlace) -> usize {
        let len = self.table.blocks.block_len() as usize;
        let words = (len / 4) as u32;
        let word = |at: usize| {
            let four = bytes[at..at + 4].first_chunk::<4>();
            four.map_or(0, |four| u32::from_le_bytes(*four))
        };
        let mut sums: [WeakSum; 4] = std::array::from_fn(|phase| {
            let from = (at + phase).min(bytes.len() - len);
            WeakSum::of(&bytes[from..from + len])
        });
        let mut at = at;
        while at < end {
            for (phase, sum) in sums.iter_mut().enumerate() {
                let here = at + phase;
                let run = self.table.with(sum.sum());
                if !run.is_empty() && here < end {
                    let weak = sum.sum();
                    if let Some(block) = self.look(weak, bytes, here, start) {
                        let new = i128::from(block) * len as i128;
                        self.shift = new - i128::from(start.offset) - here as i128;
                        return here + len;
                    }
                    if self.waste_left == 0 {
                        return here + len;
                    }
                }
                // The last places of a piece have no word behind them and need none.
                if here + len + 4 <= bytes.len() {
                    sum.roll(words, word(here), word(here + len));
                }
            }
            at += 4;
        }
        end
    }
}

#[cfg(test)]
mod tests;
