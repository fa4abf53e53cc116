//! Compares lanes of SHA-256 with the `sha2` crate, which hashes one message after the other.

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use xylem_sim::noise;

use super::{affordable, cases};
use crate::{SHA256_LANES, has_sha256_many, sha256_many};

fn check(messages: &[&[u8]]) {
    let mut out = vec![[0; 32]; messages.len()];
    if !sha256_many(messages, &mut out) {
        assert!(messages.is_empty() || !has_sha256_many());
        return;
    }
    for (message, digest) in messages.iter().zip(&out) {
        assert_eq!(digest[..], Sha256::digest(message)[..], "{} bytes", message.len());
    }
}

/// Lengths at which padding takes another block, and at which one lane ends alone.
#[test]
fn every_length_around_a_block() {
    let bytes = noise(400, 1);
    for len in 0..300 {
        check(&[&bytes[..len]; SHA256_LANES]);
        let mut ragged = [&bytes[..len]; SHA256_LANES];
        ragged[len % SHA256_LANES] = &bytes[..len / 2];
        ragged[(len + 7) % SHA256_LANES] = &bytes[..len + 64];
        check(&ragged);
    }
    check(&[]);
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn any_mix(lens in proptest::collection::vec(0usize..9_000, 0..=SHA256_LANES), seed: u64) {
        let each: Vec<Vec<u8>> =
            lens.iter().zip(seed..).map(|(len, seed)| noise(affordable(*len), seed)).collect();
        check(&each.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
}
