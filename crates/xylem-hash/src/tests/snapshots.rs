//! Saved and resumed hashers: the bytes depend on the message alone, and no other bytes are accepted.

use super::differential::{in_pieces, lengths, pieces};
use super::{CONTEXT, Use, cases, noise, uses};
use crate::backend::Backend;
use crate::hazmat::HasherExt;
use crate::tree::Tree;
use crate::{Hash, Hasher, SnapshotError, hash};
use proptest::prelude::*;

fn resume(how: Use, bytes: &[u8]) -> Result<Hasher, SnapshotError> {
    match how {
        Use::Plain => Hasher::from_snapshot(bytes),
        _ => Hasher::from_snapshot_with_key(bytes),
    }
}

/// A snapshot written by hand, from the specification.
fn written(kind: u8, key: &[u8], count: u64, values: &[u8], tail: &[u8]) -> Vec<u8> {
    let mut bytes = [b"xyBLAKE\x01", &[kind][..], key, &count.to_le_bytes(), values, tail].concat();
    let check = hash(&bytes);
    bytes.extend(&check.as_bytes()[..8]);
    bytes
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn resumed_hashers_go_on(
        how in uses(),
        len in lengths(),
        cuts in proptest::collection::vec(0.0..1.0f64, 1..4),
        pieces in pieces(),
    ) {
        let input = noise(len, 11);
        // Every other case is at the end of a chunk, where the last chunk's bytes become a chunk value.
        let unit = [1, 1_024];
        let cut = |(cut, unit): (&f64, &usize)| (*cut * len as f64) as usize / unit * unit;
        let mut cuts: Vec<usize> = cuts.iter().zip(unit.iter().cycle()).map(cut).collect();
        cuts.sort_unstable();
        let mut hashers: Vec<_> =
            Backend::available().map(|b| Hasher::with_backend(b, how.mode(b))).collect();
        let mut from = 0;
        for cut in cuts {
            // One hasher reads the rest in one piece after each resumption; the others were never stopped.
            let mut whole = Hasher::with_backend(Backend::detect(), how.mode(Backend::detect()));
            whole.update(&input[..cut]);
            let want = whole.snapshot_exposing_key().unwrap();
            for hasher in &mut hashers {
                in_pieces(hasher, &input[from..cut], &pieces);
                let got = hasher.snapshot_exposing_key().unwrap();
                prop_assert_eq!(got.as_bytes(), want.as_bytes());
            }
            prop_assert_eq!(hashers[0].finalize(), whole.finalize());
            hashers[0] = resume(how, want.as_bytes()).unwrap();
            prop_assert_eq!(hashers[0].count(), cut as u64);
            prop_assert_eq!(hashers[0].finalize(), whole.finalize());
            from = cut;
        }
        let want = Hash::from_bytes(how.official().update(&input).finalize().into());
        for hasher in &mut hashers {
            hasher.update(&input[from..]);
            prop_assert_eq!(hasher.finalize(), want);
            // A resumed hasher can be reset like any other.
            let anew = hasher.reset().update(&input).finalize();
            prop_assert_eq!(anew, want);
        }
    }

    /// Any damage is noticed, wherever it is.
    #[test]
    fn damage(how in uses(), len in 0..300_000usize, at in 0.0..1.0f64, flip in 1..=255u8) {
        let len = super::affordable(len);
        let mut hasher = Hasher::with_backend(Backend::detect(), how.mode(Backend::detect()));
        let kept = hasher.update(&noise(len, 12)).snapshot_exposing_key().unwrap();
        let mut bytes = kept.as_bytes().to_vec();
        let at = (at * bytes.len() as f64) as usize;
        prop_assert!(resume(how, &bytes[..at]).is_err());
        bytes[at] ^= flip;
        prop_assert!(resume(how, &bytes).is_err());
        bytes[at] ^= flip;
        bytes.push(flip);
        prop_assert!(resume(how, &bytes).is_err());
    }

    /// A valid checksum does not make invalid contents acceptable. Valid contents of impossible origin do no harm.
    #[test]
    fn forged(
        kind in 0..4u8,
        count in prop_oneof![any::<u64>(), 0..5_000u64, (0..1_000u64).prop_map(|n| n * 1_024)],
        len in 0..8_000usize, near in 0..3usize,
    ) {
        let key_len = if kind == 0 || kind == 3 { 0 } else { 32 };
        let chunks = count.saturating_sub(1) / 1_024;
        let nodes = (chunks / 128).count_ones() as usize + (chunks % 128) as usize;
        let tail = (count - chunks * 1_024) as usize;
        let right = nodes * 32 + tail;
        let len = if near < 2 { right + near } else { len };
        let bytes = written(kind, &[7; 32][..key_len], count, &vec![5; len], &[]);
        let plain = Hasher::from_snapshot(&bytes);
        let keyed = Hasher::from_snapshot_with_key(&bytes);
        prop_assert_eq!(plain.is_ok(), kind == 0 && len == right);
        prop_assert_eq!(keyed.is_ok(), (kind == 1 || kind == 2) && len == right);
        for mut hasher in plain.into_iter().chain(keyed) {
            prop_assert_eq!(hasher.count(), count);
            let again = hasher.snapshot_exposing_key().unwrap();
            prop_assert_eq!(again.as_bytes(), &bytes);
            let first = hasher.finalize();
            prop_assert!(hasher.update(&[1; 20_000]).finalize() != first);
        }
    }
}

/// Resumed with nearly a full group of chunks: the buffered chunks may overflow it by any number.
#[test]
#[cfg_attr(miri, ignore = "some megabytes")]
fn resumed_before_the_end_of_a_group() {
    let input = noise(260 * 1_024, 20);
    for first in [0, 128] {
        for chunks in (first + 110)..=(first + 127) {
            let cut = chunks * 1_024 + 1;
            let kept = Hasher::new().update(&input[..cut]).snapshot().unwrap();
            for more in [0, 1_023, 1_024, 2_047, 2_048, 3_500, 7_000, 8_191, 12_000, 16_000, 17_000]
            {
                let end = (cut + more).min(input.len());
                let mut resumed = Hasher::from_snapshot(kept.as_bytes()).unwrap();
                resumed.update(&input[cut..end]);
                assert_eq!(resumed.finalize(), hash(&input[..end]), "{chunks} chunks, {more} more");
                let again = resumed.snapshot().unwrap();
                let straight = Hasher::new().update(&input[..end]).snapshot().unwrap();
                assert_eq!(again.as_bytes(), straight.as_bytes());
            }
        }
    }
}

/// The layout of docs/spec/hash-snapshot.md, byte by byte.
#[test]
#[cfg_attr(miri, ignore = "some hundred KiB")]
fn layout() {
    assert_eq!(Hasher::new().snapshot().unwrap().as_bytes(), written(0, &[], 0, &[], &[]));

    // 2 full groups of 128 chunks, joined; 3 chunks; 7 bytes.
    let input = noise(259 * 1_024 + 7, 13);
    let (groups, rest) = input.split_at(256 * 1_024);
    let key = [9; 32];
    let tree = Tree::keyed(&key);
    let mut values = vec![tree.chunk_group_cv(groups, 0)];
    tree.chunk_group_cvs(&rest[..3 * 1_024], 1_024, 256, &mut values);
    let values: Vec<u8> = values.iter().flat_map(|value| *value.as_bytes()).collect();
    let want = written(1, &key, input.len() as u64, &values, &rest[3 * 1_024..]);
    let mut hasher = Hasher::new_keyed(&key);
    assert_eq!(hasher.update(&input).snapshot_exposing_key().unwrap().as_bytes(), want);

    // A full chunk is kept as bytes while it may be the last.
    let want = written(0, &[], 1_024, &[], &input[..1_024]);
    assert_eq!(Hasher::new().update(&input[..1_024]).snapshot().unwrap().as_bytes(), want);
}

#[test]
fn keys_are_exposed_on_demand_only() {
    let keyed = Hasher::new_keyed(&[0xAB; 32]);
    assert!(keyed.snapshot().is_none());
    assert!(Hasher::new_derive_key(CONTEXT).snapshot().is_none());
    let exposed = keyed.snapshot_exposing_key().unwrap();
    assert_eq!(exposed.as_bytes()[9..41], [0xAB; 32]);
    assert_eq!(format!("{exposed:?}"), "Snapshot { len: 57, .. }");
    // Neither kind is accepted as the other.
    assert_eq!(Hasher::from_snapshot(exposed.as_bytes()).unwrap_err(), SnapshotError);
    let plain = Hasher::new().snapshot().unwrap();
    assert_eq!(Hasher::from_snapshot_with_key(plain.as_bytes()).unwrap_err(), SnapshotError);
}

#[test]
fn a_part_of_a_message_has_no_snapshot() {
    let mut part = Hasher::new();
    part.set_input_offset(1_024);
    assert!(part.snapshot().is_none() && part.snapshot_exposing_key().is_none());
    assert!(part.reset().snapshot().is_some());
}
