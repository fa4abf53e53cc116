//! `derive_key` against the official crate: contexts and key material of any length.
#![no_main]

mod common;

use common::Choices;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::new(data);
    let split = choices.len();
    let mut context = String::from_utf8_lossy(&choices.message()).into_owned();
    let mut split = split.min(context.len());
    while !context.is_char_boundary(split) {
        split -= 1;
    }
    let material = context.split_off(split);
    let want = blake3::derive_key(&context, material.as_bytes());
    assert_eq!(xylem_hash::derive_key(&context, material.as_bytes()), want);
});
