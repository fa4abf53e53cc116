//! Messages of a peer about the pieces that it has: any bytes, and any runs.
#![no_main]
use xylem_object::have::{Have, MAX_HAVE};
use xylem_object::{HaveError, ObjectId};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    match Have::decode(input) {
        Ok(have) => {
            let mut written = Vec::new();
            have.encode(&mut written);
            assert_eq!(written, input, "what is read has one form");
        }
        Err(HaveError::TooLong(len)) => assert!(len > MAX_HAVE),
        Err(error) => assert_eq!(error.to_string().lines().count(), 1),
    }
    // Runs in any order, empty or touching, and more than fit.
    let mut have = Have::default();
    for run in input.chunks_exact(4) {
        let start = u64::from(run[1]) << (run[2] % 56);
        let range = start..start.saturating_add(u64::from(run[3]));
        match run[0] {
            0 => have.whole_files.push(range),
            1 => have.partial.push((ObjectId::Root, vec![range])),
            file => have.partial.push((ObjectId::File(u64::from(file)), vec![range])),
        }
    }
    let mut written = Vec::new();
    have.encode(&mut written);
    assert!(written.len() <= MAX_HAVE);
    let read = Have::decode(&written).expect("what is written can be read");
    let mut again = Vec::new();
    read.encode(&mut again);
    assert_eq!(again, written);
});
