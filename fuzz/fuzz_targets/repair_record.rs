//! Records of unfinished repairs: any bytes, and any body with a right checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xylem_store::RepairRecord;

fuzz_target!(|bytes: &[u8]| {
    let key = xylem_hash::hash(b"key");
    assert!(RepairRecord::decode(&key, bytes).is_none_or(|record| record.encode(&key) == bytes));
    // With a right checksum, as if the bytes were the body of a whole record.
    let mut hasher = xylem_hash::Hasher::new();
    hasher.update(key.as_bytes()).update(bytes);
    let whole = [&b"xyrepair"[..], hasher.finalize().as_bytes(), bytes].concat();
    if let Some(record) = RepairRecord::decode(&key, &whole) {
        assert_eq!(record.encode(&key), whole);
        assert!(record.covers(&record.segments));
    }
});
