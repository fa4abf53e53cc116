//! RDR metadata: a parsed packet parses the same after it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xylem_client::Metadata;

fuzz_target!(|content: &[u8]| {
    let Ok(metadata) = Metadata::decode(content) else { return };
    assert!(!metadata.name.is_empty());
    let mut again = Vec::new();
    metadata.encode(&mut again);
    assert_eq!(Metadata::decode(&again).as_ref(), Ok(&metadata));
});
