//! An item of the DHT under a publisher's name: parsed in one form only, with the sequence number that was signed with
//! it.
#![no_main]
use xylem_reach::names::NewestRoot;

libfuzzer_sys::fuzz_target!(|input: (i64, &[u8])| {
    let (seq, value) = input;
    if let Some(newest) = NewestRoot::decode(seq, value) {
        assert_eq!(newest.encode(), value);
        assert_eq!(i64::try_from(newest.version), Ok(seq));
    }
    // The matching number, so that the rest is parsed.
    if let Some((_, tail)) = value.split_last_chunk::<8>() {
        let _ = NewestRoot::decode(i64::from_be_bytes(*tail), value);
    }
});
