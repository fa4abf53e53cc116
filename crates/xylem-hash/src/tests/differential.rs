//! Compares random messages, split at random places, with the official crate.

use super::{Use, affordable, cases, noise, reference, uses};
use crate::backend::Backend;
use crate::blocks::hash_blocks_with;
use crate::constants::{BLOCK_LEN, CHUNK_LEN};
use crate::many::hash_many_with;
use crate::subtree::{BATCH_LEN, PENDING, root_hash_of};
use crate::{Hash, Hasher};
use proptest::prelude::*;

/// Lengths up to 600 KiB, most of them near some boundary.
pub(crate) fn lengths() -> impl Strategy<Value = usize> {
    const UNITS: &[usize] =
        &[1, BLOCK_LEN, CHUNK_LEN, 2 * CHUNK_LEN, BATCH_LEN, PENDING * CHUNK_LEN];
    let near = (proptest::sample::select(UNITS), 0..9usize, 0..5usize)
        .prop_map(|(unit, count, around)| (unit * count + around).saturating_sub(2))
        .prop_map(|len| len.min(600_000));
    prop_oneof![near, 0..3_000usize, 0..40_000usize, 0..600_000usize].prop_map(affordable)
}

/// Lengths of the pieces of a message, repeated from the start when they run out.
pub(crate) fn pieces() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(
        prop_oneof![
            0..200usize,
            Just(64),
            Just(1_024),
            Just(8_192),
            0..3_000usize,
            0..100_000usize
        ],
        1..12,
    )
    .prop_filter("some piece moves on", |pieces| pieces.iter().sum::<usize>() > 50)
}

pub(crate) fn in_pieces(hasher: &mut Hasher, mut input: &[u8], pieces: &[usize]) {
    for piece in pieces.iter().cycle() {
        if input.is_empty() {
            break;
        }
        let (now, rest) = input.split_at(input.len().min(*piece));
        hasher.update(now);
        input = rest;
    }
}

/// All lengths up to two batches and a chunk, in one go: every possible shape of ragged lanes.
#[test]
fn every_small_length() {
    let step = if cfg!(miri) { 4_409 } else { 1 };
    let input = noise(2 * BATCH_LEN + CHUNK_LEN + 1, 1);
    for len in (0..=input.len())
        .step_by(step)
        .filter(|len| *len < 1_100 || len % 64 < 2 || len % 97 == 0 || step > 1)
    {
        let want = blake3::hash(&input[..len]);
        for backend in Backend::available() {
            let hash = root_hash_of(backend, &Use::Plain.mode(backend), &input[..len]);
            assert_eq!(&hash, want.as_bytes(), "{backend:?}, {len} bytes");
        }
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn random_pieces(how in uses(), len in lengths(), offset in 0..70usize, pieces in pieces()) {
        let bytes = noise(offset + len, 2);
        let input = &bytes[offset..];
        let want = Hash::from_bytes(how.official().update(input).finalize().into());
        for backend in Backend::available() {
            let mode = how.mode(backend);
            prop_assert_eq!(&root_hash_of(backend, &mode, input), want.as_bytes(), "{:?}", backend);
            let mut hasher = Hasher::with_backend(backend, mode);
            in_pieces(&mut hasher, input, &pieces);
            prop_assert_eq!(hasher.finalize(), want, "{:?} in pieces", backend);
            prop_assert_eq!(hasher.count(), len as u64);
            // Continuing, resetting and cloning all behave as a new hasher does.
            let mut copy = hasher.clone();
            copy.update(input);
            let twice = *how.official().update(input).update(input).finalize().as_bytes();
            prop_assert_eq!(copy.finalize().as_bytes().to_vec(), twice.to_vec());
            hasher.reset();
            in_pieces(&mut hasher, input, &pieces);
            prop_assert_eq!(hasher.finalize(), want);
        }
    }

    #[test]
    fn reference_agrees(how in uses(), len in 0..30_000usize, out in 0..200usize) {
        let input = noise(affordable(len), 3);
        let mut official = vec![0; out];
        how.official().update(&input).finalize_xof().fill(&mut official);
        prop_assert_eq!(reference::hash(how, &input, out), official);
        let want = reference::hash(how, &input, 32);
        for backend in Backend::available() {
            prop_assert_eq!(&root_hash_of(backend, &how.mode(backend), &input)[..], &want[..]);
        }
    }

    #[test]
    fn extendable_output(
        how in uses(),
        len in prop_oneof![0..100usize, 0..5_000usize],
        reads in proptest::collection::vec(
            (prop_oneof![
                0..3_000u64,
                // Around the place where the low word of the block counter overflows.
                (1u64 << 38) - 3_000..(1u64 << 38) + 100,
                any::<u64>().prop_map(|position| position.min(u64::MAX - 4_000)),
            ], prop_oneof![0..200usize, 0..4_000usize]), 1..4),
    ) {
        let input = noise(len, 4);
        let mut official = how.official().update(&input).finalize_xof();
        for backend in Backend::available() {
            let mut reader =
                Hasher::with_backend(backend, how.mode(backend)).update(&input).finalize_xof();
            for (position, len) in &reads {
                let (mut got, mut want) = (vec![0; *len], vec![0; *len]);
                reader.set_position(*position);
                official.set_position(*position);
                // In two parts: the second continues where the first ended.
                let (first, second) = got.split_at_mut(len / 3);
                reader.fill(first);
                reader.fill(second);
                official.fill(&mut want);
                prop_assert_eq!(&got, &want, "{:?} at {}", backend, position);
                prop_assert_eq!(reader.position(), position + *len as u64);
            }
        }
    }

    #[test]
    fn many_messages(
        how in uses(),
        lens in proptest::collection::vec(
            prop_oneof![Just(0), Just(64), Just(4_096), Just(8_192), 8_192..16_400usize, 0..130usize, 0..1_100usize, 0..10_000usize, 0..60_000usize],
            0..40),
        offset in 0..64usize,
    ) {
        let bytes = noise(64 + 60_000, 6);
        let most = if cfg!(miri) { 6 } else { lens.len() };
        let inputs: Vec<&[u8]> =
            lens.iter().take(most).map(|len| &bytes[offset..offset + affordable(*len)]).collect();
        let official = |input: &&[u8]| how.official().update(input).finalize();
        let want: Vec<Hash> =
            inputs.iter().map(|input| Hash::from_bytes(official(input).into())).collect();
        for backend in Backend::available() {
            let mut out = vec![Hash::from_bytes([0xFF; 32]); inputs.len()];
            hash_many_with(backend, &how.mode(backend), &inputs, &mut out);
            prop_assert_eq!(&out, &want, "{:?}", backend);
        }
    }

    #[test]
    fn blocks_of_a_buffer(
        how in uses(),
        block_len in prop_oneof![
            Just(512usize), Just(4_096), Just(16_384), 1..200usize, 1..40_000usize, Just(usize::MAX)
        ],
        len in lengths(),
    ) {
        // At most some thousand blocks.
        let len = len.min(block_len.saturating_mul(if cfg!(miri) { 20 } else { 2_000 }));
        let bytes = noise(len, 10);
        let official = |block: &[u8]| Hash::from_bytes(how.official().update(block).finalize().into());
        let want: Vec<Hash> = bytes.chunks(block_len).map(official).collect();
        for backend in Backend::available() {
            let mut out = vec![Hash::from_bytes([0xFF; 32]); want.len()];
            hash_blocks_with(backend, &how.mode(backend), &bytes, block_len, &mut out);
            prop_assert_eq!(&out, &want, "{:?}", backend);
        }
    }
}

/// `reference.rs` promises that it uses nothing of this crate.
#[test]
fn the_reference_uses_nothing_of_this_crate() {
    let text = include_str!("reference.rs");
    assert!(!text.contains("super::") && !text.contains("crate::") && !text.contains("\nuse "));
}
