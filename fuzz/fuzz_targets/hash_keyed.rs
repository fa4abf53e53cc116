//! `keyed_hash` against the official crate.
#![no_main]

mod common;

use common::Choices;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::new(data);
    let (key, message) = (choices.bytes(), choices.message());
    let want = blake3::keyed_hash(&key, &message);
    assert_eq!(xylem_hash::keyed_hash(&key, &message).as_bytes(), want.as_bytes());
});
