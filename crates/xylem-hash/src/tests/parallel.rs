//! Compares `update_rayon` with `update`: at any place in a message, with any number of threads.

use super::differential::{in_pieces, pieces};
use super::{cases, noise, uses};
use crate::backend::Backend;
use crate::constants::CHUNK_LEN;
use crate::hazmat::HasherExt;
use crate::{Hash, Hasher};
use proptest::prelude::*;

fn pool(threads: usize) -> rayon_core::ThreadPool {
    rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn split_anywhere(
        how in uses(),
        before in prop_oneof![0..20_000usize, 0..300_000usize, Just(131_072), Just(8_192)],
        len in prop_oneof![
            CHUNK_LEN..20_000usize, CHUNK_LEN..1_000_000, CHUNK_LEN..6_000_000, Just(1 << 20)
        ],
        after in 0..300_000usize,
        pieces in pieces(),
        threads in 1..6usize,
        inside: bool,
    ) {
        let input = noise(before + len + after, 14);
        let (head, rest) = input.split_at(before);
        let (middle, tail) = rest.split_at(len);
        let want = Hash::from_bytes(how.official().update(&input).finalize().into());
        let mut plain = Hasher::with_backend(Backend::detect(), how.mode(Backend::detect()));
        plain.update(head).update(middle);
        let pool = pool(threads);
        for backend in Backend::available() {
            let mut hasher = Hasher::with_backend(backend, how.mode(backend));
            in_pieces(&mut hasher, head, &pieces);
            // Called by a thread of the pool, or by one that only gives work to it.
            if inside {
                pool.install(|| hasher.update_split(middle).count());
            } else {
                hasher.update_split(middle);
            }
            prop_assert_eq!(hasher.finalize(), plain.finalize(), "{:?}", backend);
            let [got, want_state] = [&hasher, &plain].map(|h| h.snapshot_exposing_key().unwrap());
            prop_assert_eq!(got.as_bytes(), want_state.as_bytes());
            in_pieces(&mut hasher, tail, &pieces);
            prop_assert_eq!(hasher.finalize(), want, "{:?}", backend);
        }
    }

    #[test]
    fn subtrees(log in 7..12u32, place in 1..1_000u64, short in 0..100_000usize) {
        let len = (CHUNK_LEN << log) - short;
        let (input, offset) = (noise(len, 15), (place << log) * CHUNK_LEN as u64);
        let want = Hasher::new().set_input_offset(offset).update(&input).finalize_non_root();
        let got = Hasher::new().set_input_offset(offset).update_split(&input).finalize_non_root();
        prop_assert_eq!(got, want);
    }
}

/// More than one synchronization, and the public function from its threshold on.
#[test]
fn large() {
    let input = noise((130 << 20) + 12_345, 16);
    let want = blake3::Hasher::new().update_rayon(&input).finalize();
    assert_eq!(Hasher::new().update_rayon(&input).finalize().as_bytes(), want.as_bytes());
    let mut hasher = Hasher::new();
    for piece in input.chunks(5_000_001) {
        hasher.update_rayon(piece);
    }
    assert_eq!(hasher.finalize().as_bytes(), want.as_bytes());
}
