//! Hexadecimal in both directions against the official crate: both accept the same texts, for the same hashes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fn check(text: &[u8]) {
    match (xylem_hash::Hash::from_hex(text), blake3::Hash::from_hex(text)) {
        (Ok(ours), Ok(official)) => {
            assert_eq!(ours.as_bytes(), official.as_bytes());
            assert_eq!(ours.to_hex().as_str(), official.to_hex().as_str());
            assert_eq!(ours.to_string().parse(), Ok(ours));
        }
        (Err(error), Err(_)) => assert!(!error.to_string().is_empty()),
        (ours, official) => panic!("{ours:?}, but {official:?}"),
    }
}

fuzz_target!(|data: &[u8]| {
    check(data);
    // A text of the right length, mostly of digits.
    let mut text: Vec<u8> =
        data.iter().map(|byte| b"0123456789abcdefABCDEF"[usize::from(*byte) % 22]).collect();
    text.resize(64, b'0');
    check(&text);
    if let [place, byte, ..] = data {
        text[usize::from(*place) % 64] = *byte;
        check(&text);
    }
    if let Some(bytes) = data.first_chunk::<32>() {
        let hex = xylem_hash::Hash::from_bytes(*bytes).to_hex();
        assert_eq!(hex.as_str(), blake3::Hash::from_bytes(*bytes).to_hex().as_str());
    }
});
