//! `hash` against the official crate, at any alignment.
#![no_main]

mod common;

use common::Choices;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::new(data);
    let skip = choices.below(64);
    let message = choices.message();
    let message = &message[skip.min(message.len())..];
    assert_eq!(xylem_hash::hash(message).as_bytes(), blake3::hash(message).as_bytes());
});
