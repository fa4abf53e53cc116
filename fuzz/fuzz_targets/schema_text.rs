//! Texts of schemas: no panic; a compiled schema is sound, and its binary form parses as the same schema. Half of the
//! inputs are changes to a good text.
#![no_main]
use xylem_trust::schema::Schema;

const GOOD: &str = include_str!("../../crates/xylem-trust/tests/fixtures/schema/constraints.lvs");

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut bytes = input.to_vec();
    if let Some((kind, changes)) = input.split_first()
        && kind % 2 == 1
    {
        bytes = GOOD.as_bytes().to_vec();
        for change in changes.chunks_exact(3) {
            let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % bytes.len();
            bytes[at] = change[2];
        }
    }
    let Ok(text) = core::str::from_utf8(&bytes) else { return };
    match Schema::compile(text) {
        Ok(schema) => {
            assert_eq!(Schema::decode(&schema.encode()).as_ref(), Ok(&schema));
            let _ = (schema.rules(), schema.anchors());
        }
        Err(error) => {
            let lines = text.split('\n').count();
            assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error}");
        }
    }
});
