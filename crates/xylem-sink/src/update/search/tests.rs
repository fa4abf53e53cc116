//! Compares the search with edits of known outcome, with a slow search, and with forged lists.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use xylem_object::sums::{BlockSums, read_list};
use xylem_tree::{Geometry, SegmentSize, UpdateBlocks};

use super::*;

impl Old for Vec<u8> {
    fn len(&self) -> u64 {
        Vec::len(self) as u64
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let rest = self.get(offset as usize..).unwrap_or_default();
        let got = rest.len().min(buf.len());
        buf[..got].copy_from_slice(&rest[..got]);
        got
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn blocks_of(new: &[u8]) -> UpdateBlocks {
    UpdateBlocks::of(Geometry::new(new.len() as u64, SegmentSize::DEFAULT)).unwrap()
}

fn list_of(new: &[u8]) -> Vec<BlockSums> {
    let blocks = blocks_of(new);
    let mut list = Vec::new();
    for block in 0..blocks.count() {
        let range = blocks.range(block);
        let bytes = &new[range.start as usize..range.end as usize];
        list.extend(UpdateBlocks::sums(bytes, &blocks.value(block, bytes).unwrap()));
    }
    read_list(&list, &blocks).unwrap()
}

fn run(new: &[u8], list: &[BlockSums], copies: Vec<Vec<u8>>) -> Vec<FoundBlock> {
    let copies: Vec<Box<dyn Old>> =
        copies.into_iter().map(|c| Box::new(c) as Box<dyn Old>).collect();
    search(&blocks_of(new), list, &copies, &AtomicBool::new(false))
}

/// Checks that the result is right, in order and without duplicates.
fn check(new: &[u8], copies: &[Vec<u8>], found: &[FoundBlock]) {
    let blocks = blocks_of(new);
    assert!(found.windows(2).all(|two| two[0].block < two[1].block));
    for FoundBlock { block, place, value } in found {
        let range = blocks.range(*block);
        let bytes = &new[range.start as usize..range.end as usize];
        let old = &copies[place.copy as usize][place.offset as usize..][..bytes.len()];
        assert!(old == bytes, "block {block} at {}", place.offset);
        assert_eq!(Some(*value), blocks.value(*block, bytes));
    }
}

fn found_in(new: &[u8], old: Vec<u8>) -> u64 {
    let copies = vec![old];
    let found = run(new, &list_of(new), copies.clone());
    check(new, &copies, &found);
    found.len() as u64
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(prop::sample::Index, usize),
    Delete(prop::sample::Index, usize),
    Overwrite(prop::sample::Index, usize),
    Zero(prop::sample::Index, usize),
    /// Takes a piece out and inserts it elsewhere.
    Move(prop::sample::Index, usize, prop::sample::Index),
    /// Inserts a copy of a piece elsewhere.
    Copy(prop::sample::Index, usize, prop::sample::Index),
}

impl Edit {
    fn apply(&self, file: &mut Vec<u8>) {
        let piece = |at: &prop::sample::Index, len: usize, file: &[u8]| {
            let at = at.index(file.len());
            at..file.len().min(at + len)
        };
        match self {
            Self::Insert(at, len) => {
                let at = at.index(file.len());
                file.splice(at..at, noise(*len, *len as u64 + at as u64));
            }
            Self::Delete(at, len) => drop(file.drain(piece(at, *len, file))),
            Self::Overwrite(at, len) => {
                let range = piece(at, *len, file);
                let bytes = noise(range.len(), 77 + range.start as u64);
                file[range].copy_from_slice(&bytes);
            }
            Self::Zero(at, len) => {
                let range = piece(at, *len, file);
                file[range].fill(0);
            }
            Self::Move(at, len, to) => {
                let taken: Vec<u8> = file.drain(piece(at, *len, file)).collect();
                let to = to.index(file.len());
                file.splice(to..to, taken);
            }
            Self::Copy(at, len, to) => {
                let taken = file[piece(at, *len, file)].to_vec();
                let to = to.index(file.len());
                file.splice(to..to, taken);
            }
        }
    }

    /// Returns how many blocks of the new file it costs at most: those that it touches or cuts.
    fn cost(&self, block: u64) -> u64 {
        match self {
            Self::Insert(_, len) | Self::Overwrite(_, len) => *len as u64 / block + 2,
            Self::Delete(..) => 1,
            Self::Zero(_, len) => *len as u64 / block + 2,
            Self::Move(..) => 3,
            // One pass finds one place in the new file for each place in the old one.
            Self::Copy(_, len, _) => *len as u64 / block + 3,
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    use any as a;
    type At = prop::sample::Index;
    let len = prop_oneof![1_usize..40, 1_000..50_000_usize];
    prop_oneof![
        (a::<At>(), len.clone()).prop_map(|(at, len)| Edit::Insert(at, len)),
        (a::<At>(), len.clone()).prop_map(|(at, len)| Edit::Delete(at, len)),
        (a::<At>(), len.clone()).prop_map(|(at, len)| Edit::Overwrite(at, len)),
        (a::<At>(), len.clone()).prop_map(|(at, len)| Edit::Zero(at, len)),
        (a::<At>(), len.clone(), a::<At>()).prop_map(|(at, len, to)| Edit::Move(at, len, to)),
        (a::<At>(), len, a::<At>()).prop_map(|(at, len, to)| Edit::Copy(at, len, to)),
    ]
}

/// Returns the whole blocks that lie anywhere in the old file, by trying every byte.
fn slow(new: &[u8], old: &[u8]) -> Vec<u64> {
    let blocks = blocks_of(new);
    let len = blocks.block_len() as usize;
    let whole = (0..new.len() / len).filter(|block| {
        let bytes = &new[block * len..(block + 1) * len];
        // Compares the first bytes first; otherwise this takes minutes.
        old.windows(16)
            .enumerate()
            .any(|(at, start)| start == &bytes[..16] && old.get(at..at + len) == Some(bytes))
    });
    whole.map(|block| block as u64).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Edits cost the blocks that they touch and no others.
    #[test]
    fn edits_cost_what_they_touch(
        size in 200_000_usize..1_500_000,
        edits in prop::collection::vec(edit(), 0..6),
    ) {
        let old = noise(size, size as u64);
        let mut new = old.clone();
        edits.iter().for_each(|edit| edit.apply(&mut new));
        prop_assume!(new.len() > 100_000);
        let blocks = blocks_of(&new);
        let found = found_in(&new, old);
        let cost: u64 = edits.iter().map(|edit| edit.cost(blocks.block_len())).sum();
        prop_assert!(found + cost + 1 >= blocks.count(), "{found} of {}, {cost}", blocks.count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn finds_what_a_slow_search_finds(
        size in 70_000_usize..160_000,
        edits in prop::collection::vec(edit(), 0..3),
    ) {
        let old = noise(size, 3 * size as u64);
        let mut new = old.clone();
        edits.iter().for_each(|edit| edit.apply(&mut new));
        prop_assume!(new.len() > 66_000);
        let copies = vec![old.clone()];
        let found = run(&new, &list_of(&new), copies.clone());
        check(&new, &copies, &found);
        let whole = new.len() as u64 / blocks_of(&new).block_len();
        let fast: Vec<u64> = found.iter().map(|f| f.block).filter(|b| *b < whole).collect();
        let slow = slow(&new, &old);
        // Two blocks may overlap in the old copy, and one pass skips one of them.
        let missed = slow.iter().filter(|block| !fast.contains(block)).count();
        let copied: u64 = edits.iter().map(|edit| edit.cost(8192)).sum();
        prop_assert!(missed as u64 <= copied, "{fast:?} of {slow:?}");
    }
}

#[test]
fn in_place_inserted_appended_and_moved() {
    let old = noise(3_000_000, 1);
    let blocks = blocks_of(&old).count();
    assert_eq!(found_in(&old, old.clone()), blocks, "the same file");
    let mut changed = old.clone();
    changed[1_000_000] ^= 1;
    assert_eq!(found_in(&changed, old.clone()), blocks - 1);
    let inserted = [b"x", &old[..]].concat();
    assert!(found_in(&inserted, old.clone()) + 1 >= blocks_of(&inserted).count());
    let appended = [&old[..], &noise(300_000, 2)].concat();
    assert!(found_in(&appended, old.clone()) >= 3_000_000 / 8192);
    // Two aligned pieces swap places within unchanged content.
    let mut swapped = old.clone();
    swapped[8192 * 10..8192 * 11].copy_from_slice(&old[8192 * 100..8192 * 101]);
    swapped[8192 * 100..8192 * 101].copy_from_slice(&old[8192 * 10..8192 * 11]);
    assert_eq!(found_in(&swapped, old.clone()), blocks);
    assert_eq!(found_in(&old, old[500_000..].to_vec()), 305, "its end");
    assert_eq!(found_in(&old, Vec::new()), 0);
    assert_eq!(found_in(&old, vec![0; 100]), 0);
}

/// Runs of zeros and of short periods: each block is found, and the search takes no longer.
#[test]
fn repeated_content_is_found_in_bounded_time() {
    for period in [1, 2, 3, 4, 7, 16, 1000, 8192] {
        let unit = if period == 1 { vec![0] } else { noise(period, 9) };
        let old: Vec<u8> = unit.iter().copied().cycle().take(5_000_000).collect();
        let new: Vec<u8> = unit.iter().copied().cycle().take(6_000_000).collect();
        let blocks = blocks_of(&new).count();
        assert!(found_in(&new, old) + 2 >= blocks, "period {period}");
    }
    // Sparse: content between zeros, moved.
    let mut old = vec![0; 4_000_000];
    old[1_000_000..1_100_000].copy_from_slice(&noise(100_000, 5));
    let mut new = vec![0; 4_000_000];
    new[2_000_001..2_100_001].copy_from_slice(&noise(100_000, 5));
    assert!(found_in(&new, old) + 3 >= blocks_of(&new).count());
}

#[test]
fn several_copies_each_give_their_part() {
    let new = noise(2_000_000, 4);
    let copies = vec![new[..900_000].to_vec(), noise(500_000, 6), new[800_000..].to_vec()];
    let found = run(&new, &list_of(&new), copies.clone());
    check(&new, &copies, &found);
    assert!(found.len() as u64 + 1 >= blocks_of(&new).count());
}

/// With a list that matches everywhere the time stays linear. The tree refutes the false claims.
#[test]
fn forged_lists_take_bounded_time() {
    let new = noise(8 << 20, 1);
    let blocks = blocks_of(&new);
    let zeros = vec![0; 8 << 20];
    let all_zero = vec![BlockSums { weak: 0, value: [1, 2] }; blocks.count() as usize];
    // Zeros have the weak sum 0 at every byte: without a bound this hashes 8 KiB for each of them.
    let found = run(&new, &all_zero, vec![zeros]);
    assert!(found.len() < blocks.count() as usize);
}

/// Bytes behind a hole, as in a sparse image: zeros, and content from `data` on.
struct Sparse {
    data: u64,
    bytes: Vec<u8>,
}

impl Old for Sparse {
    fn len(&self) -> u64 {
        self.data + self.bytes.len() as u64
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        (offset < Old::len(self)).then(|| offset.max(self.data))
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        assert!(offset < 16 << 20 || offset + (16 << 20) > self.data, "a hole is read at {offset}");
        let end = Old::len(self).min(offset + buf.len() as u64);
        for (at, byte) in (offset..end).zip(&mut *buf) {
            *byte = at.checked_sub(self.data).map_or(0, |at| self.bytes[at as usize]);
        }
        end.saturating_sub(offset) as usize
    }
}

/// Content behind a hole of 4 TiB is found, and zeros of the new file too, without reading the hole. A copy without
/// holes is read only as far as is worth it.
#[test]
fn holes_are_not_read() {
    let part = noise(900_000, 3);
    let zeros = vec![0; 1 << 20];
    let new = [&part[..], &zeros].concat();
    let copy = Sparse { data: 4 << 40, bytes: part };
    let copies: Vec<Box<dyn Old>> = vec![Box::new(copy)];
    let found = search(&blocks_of(&new), &list_of(&new), &copies, &AtomicBool::new(false));
    let whole = blocks_of(&new).count() - 2;
    assert!(found.len() as u64 >= whole, "{} of {whole}", found.len());

    struct Endless;
    impl Old for Endless {
        fn len(&self) -> u64 {
            u64::MAX
        }
        fn read(&self, _: &mut [u8], _: u64) -> usize {
            0
        }
    }
    let copies: Vec<Box<dyn Old>> = vec![Box::new(Endless)];
    let searched = pieces(&copies, MIN_PIECE, search_limit(3_000_000)).len() as u64 * MIN_PIECE;
    assert!((SEARCHED..2 * SEARCHED).contains(&searched), "{searched}");
}
