//! The list of versions that a mirror has in a bucket.
#![no_main]
use xylem_object::ticket::MirrorVersions;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    for input in [input.to_vec(), [b"xylem mirror 1\n", input].concat()] {
        match MirrorVersions::read(&input) {
            Ok(versions) => {
                let again = MirrorVersions::read(versions.write().as_bytes());
                assert_eq!(again, Ok(versions), "what is read can be written");
            }
            Err(error) => assert_eq!(error.to_string().lines().count(), 1),
        }
    }
});
