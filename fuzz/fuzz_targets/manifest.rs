//! Manifest content: no panic, and accepted content parses the same after it is written again.
#![no_main]
use xylem_object::Manifest;

libfuzzer_sys::fuzz_target!(|content: &[u8]| {
    if let Ok(manifest) = Manifest::decode(content) {
        manifest.check().expect("what is decoded is within its limits");
        let _ = manifest.geometry().levels();
        let written = manifest.encode();
        assert!(written.len() <= content.len(), "the written form has no skipped field");
        assert_eq!(Manifest::decode(&written), Ok(manifest));
    }
});
