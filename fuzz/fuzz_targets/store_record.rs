//! Records of the store: any bytes, and any body with a right checksum.
#![no_main]
use xylem_store::{CatalogRecord, OldShare, RecordError};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(known) = CatalogRecord::decode(input) {
        assert_eq!(known.encode().as_deref(), Some(input), "a record has one form");
    }
    let sum = xylem_hash::hash(input);
    let sealed = [b"xyknown1", sum.as_bytes().as_slice(), input].concat();
    match CatalogRecord::decode(&sealed) {
        Ok(known) => assert_eq!(known.encode(), Some(sealed)),
        Err(error) => assert!(matches!(error, RecordError::Content | RecordError::TooLong)),
    }
    let key = xylem_hash::hash(b"/path");
    assert!(OldShare::decode(&key, input).is_none() || input.starts_with(b"xyshare1"));
    let sum = xylem_hash::hash(&[key.as_bytes(), input].concat());
    let sealed = [b"xyshare1", sum.as_bytes().as_slice(), input].concat();
    if let Some(share) = OldShare::decode(&key, &sealed) {
        assert_eq!(share.root.as_bytes()[..], input[1..33]);
    }
});
