//! `hash_blocks` and `keyed_hash_blocks` against a loop over the official crate.
#![no_main]

mod common;

use common::Choices;
use libfuzzer_sys::fuzz_target;
use xylem_hash::Hash;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::new(data);
    let (key, block_len) = (choices.bytes(), 1 + choices.len());
    let mut message = choices.message();
    message.truncate(block_len.saturating_mul(1_000));
    let mut out = vec![Hash::from_bytes([0; 32]); message.len().div_ceil(block_len)];
    xylem_hash::hash_blocks(&message, block_len, &mut out);
    for (got, block) in out.iter().zip(message.chunks(block_len)) {
        assert_eq!(got.as_bytes(), blake3::hash(block).as_bytes());
    }
    xylem_hash::keyed_hash_blocks(&key, &message, block_len, &mut out);
    for (got, block) in out.iter().zip(message.chunks(block_len)) {
        assert_eq!(got.as_bytes(), blake3::keyed_hash(&key, block).as_bytes());
    }
});
