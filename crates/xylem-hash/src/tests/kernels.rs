//! Compares each kernel by itself with the reference's compression: every lane, every number of lanes.

use super::{Use, cases, noise, reference};
use crate::backend::{Backend, EIGHT, Eight, Lane, MAX_LANES, Node};
use crate::constants::{CHUNK_LEN, ROOT};
use crate::kernels::One;
use crate::subtree::Mode;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn compression(cv: [u32; 8], block: [u64; 8], counter: u64, len in 0..=64u32, flags in 0..128u32) {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(block.map(u64::to_le_bytes).as_flattened());
        let want = reference::compress(&cv, &bytes, counter, len, flags).map(u32::to_le_bytes);
        let node = Node { counter, cv, block: bytes, end: One::end(len, flags) };
        for backend in Backend::available() {
            prop_assert_eq!(&backend.compress(&node)[..], want.as_flattened(), "{:?}", backend);
        }
    }

    /// Lanes of any mix of lengths, counters and ends.
    #[test]
    fn ragged_lanes(
        key: [u8; 32],
        lanes in proptest::collection::vec(
            (prop_oneof![Just(CHUNK_LEN), Just(0), 0..=CHUNK_LEN, 0..70usize], any::<u64>(), any::<bool>()),
            1..=MAX_LANES),
    ) {
        let bytes: Vec<_> = (0..lanes.len()).map(|i| noise(lanes[i].0, i as u64 + 3)).collect();
        let lanes: Vec<_> = lanes.iter().zip(&bytes)
            .map(|((_, counter, root), bytes)| Lane {
                bytes,
                counter: *counter,
                end: if *root { ROOT } else { 0 },
            })
            .collect();
        let mode = Mode::keyed(&key);
        let want: Vec<_> = lanes.iter().map(|lane| slow_chunk(&mode, lane)).collect();
        for backend in Backend::available() {
            let mut got = vec![[0; 32]; lanes.len()];
            backend.chunks(&mode, &lanes, &mut got);
            prop_assert_eq!(&got, &want, "{:?}", backend);
        }
    }

    /// Four runs of eight chunks, each anywhere and with any counter.
    #[test]
    fn eights(key: [u8; 32], firsts in [counters(), counters(), counters(), counters()], at in [0..9usize, 0..9, 0..9, 0..9], seed: u64) {
        let bytes = noise(17 * CHUNK_LEN, seed);
        let (chunks, _) = bytes.as_chunks::<CHUNK_LEN>();
        let mode = Mode::keyed(&key);
        let four = [0, 1, 2, 3].map(|i: usize| Eight {
            chunks: chunks[at[i]..at[i] + EIGHT].try_into().expect("eight"),
            first: firsts[i],
        });
        for backend in Backend::available().filter(|backend| backend.takes_eights()) {
            // One more place, which must stay unchanged.
            let mut got = [[7; 32]; 4 * EIGHT + 1];
            backend.eights(&mode, &four, &mut got[..4 * EIGHT]);
            for (i, got) in got.iter().enumerate().take(4 * EIGHT) {
                let Eight { chunks, first } = four[i / EIGHT];
                let counter = first.wrapping_add((i % EIGHT) as u64);
                let lane = Lane { bytes: &chunks[i % EIGHT], counter, end: 0 };
                prop_assert_eq!(got, &slow_chunk(&mode, &lane), "{:?}, {}", backend, i);
            }
            prop_assert_eq!(got[4 * EIGHT], [7; 32]);
        }
    }

    /// More whole chunks than lanes, with any counter.
    #[test]
    fn whole_chunks(
        key: [u8; 32],
        count in prop_oneof![1..=100usize, Just(32), Just(64)],
        first in counters(),
        seed: u64,
    ) {
        let count = if cfg!(miri) { count % 3 + 1 } else { count };
        let bytes = noise(count * CHUNK_LEN, seed);
        let (chunks, _) = bytes.as_chunks::<CHUNK_LEN>();
        let mode = Mode::keyed(&key);
        let lane = |i: usize| Lane { bytes: &chunks[i], counter: first.wrapping_add(i as u64), end: 0 };
        let want: Vec<_> = (0..count).map(|i| slow_chunk(&mode, &lane(i))).collect();
        for backend in Backend::available() {
            // One more place, which must stay unchanged.
            let mut got = vec![[7; 32]; count + 1];
            backend.whole_chunks(&mode, chunks, first, &mut got[..count]);
            prop_assert_eq!(got.pop(), Some([7; 32]), "{:?}", backend);
            prop_assert_eq!(&got, &want, "{:?}", backend);
        }
    }

    /// Extendable output: any number of blocks, with any counter.
    #[test]
    fn output(cv: [u32; 8], seed: u64, counter in counters(), len in 0..=64u32, count in 0..=70usize) {
        let (block, end) = (noise(64, seed).try_into().unwrap(), One::end(len, ROOT));
        let node = Node { counter, cv, block, end };
        let want: Vec<[u8; 64]> = (0..count as u64)
            .map(|i| reference::compress(&cv, &node.block, counter.wrapping_add(i), len, ROOT))
            .map(|words| words.map(u32::to_le_bytes).as_flattened().try_into().unwrap())
            .collect();
        for backend in Backend::available() {
            let mut got = vec![[7; 64]; count + 1];
            backend.root_blocks(&mut node.clone(), &mut got[..count]);
            prop_assert_eq!(got.pop(), Some([7; 64]), "{:?}", backend);
            prop_assert_eq!(&got, &want, "{:?}", backend);
        }
    }

    #[test]
    fn parents(key: [u8; 32], seed: u64, count in 1..=MAX_LANES, root: bool) {
        let bytes = noise(64 * count, seed);
        let (pairs, _) = bytes.as_chunks::<32>().0.as_chunks::<2>();
        let end = if root { ROOT } else { 0 };
        for how in [Use::Plain, Use::Keyed(key)] {
            for backend in Backend::available() {
                let mode = how.mode(backend);
                let mut got = vec![[0; 32]; pairs.len()];
                backend.parents(&mode, pairs, end, &mut got);
                for (got, pair) in got.iter().zip(pairs) {
                    let flags = mode.flags() | 4 | end;
                    let want = reference::compress(mode.key(), pair.as_flattened(), 0, 64, flags);
                    prop_assert_eq!(got, &first_half(&want), "{:?}", backend);
                }
            }
        }
    }
}

/// Any counter, and those after which one half of it wraps around.
fn counters() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0..99u64).prop_map(|i| (1 << 32) - i),
        (0..99u64).prop_map(|i| 0u64.wrapping_sub(i)),
    ]
}

fn first_half(words: &[u32; 16]) -> [u8; 32] {
    let bytes: Vec<u8> = words[..8].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.try_into().unwrap()
}

fn slow_chunk(mode: &Mode, lane: &Lane<'_>) -> [u8; 32] {
    let mut cv = *mode.key();
    let blocks: Vec<&[u8]> =
        if lane.bytes.is_empty() { vec![&[]] } else { lane.bytes.chunks(64).collect() };
    for (i, bytes) in blocks.iter().enumerate() {
        let mut block = bytes.to_vec();
        block.resize(64, 0);
        let start = if i == 0 { 1 } else { 0 };
        let end = if i + 1 == blocks.len() { 2 | lane.end } else { 0 };
        let flags = mode.flags() | start | end;
        let out = reference::compress(&cv, &block, lane.counter, bytes.len() as u32, flags);
        if i + 1 == blocks.len() {
            return first_half(&out);
        }
        cv = out[..8].try_into().unwrap();
    }
    unreachable!("a chunk has a last block")
}
