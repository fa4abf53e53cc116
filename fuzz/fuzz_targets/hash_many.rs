//! `hash_many` and `keyed_hash_many` against a loop over the official crate.
#![no_main]

mod common;

use common::Choices;
use libfuzzer_sys::fuzz_target;
use xylem_hash::Hash;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::new(data);
    let key = choices.bytes();
    let cuts: Vec<usize> = (0..choices.below(200)).map(|_| choices.len()).collect();
    let message = choices.message();
    // Overlapping, so that one message makes many.
    let inputs: Vec<&[u8]> = cuts
        .iter()
        .map(|cut| &message[(cut % 61).min(message.len())..])
        .zip(&cuts)
        .map(|(from, len)| &from[..(*len).min(from.len())])
        .collect();
    let mut out = vec![Hash::from_bytes([0; 32]); inputs.len()];
    xylem_hash::hash_many(&inputs, &mut out);
    for (got, input) in out.iter().zip(&inputs) {
        assert_eq!(got.as_bytes(), blake3::hash(input).as_bytes());
    }
    xylem_hash::keyed_hash_many(&key, &inputs, &mut out);
    for (got, input) in out.iter().zip(&inputs) {
        assert_eq!(got.as_bytes(), blake3::keyed_hash(&key, input).as_bytes());
    }
});
