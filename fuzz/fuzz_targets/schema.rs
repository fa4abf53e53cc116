//! Foreign schemas in binary form: no panic; a schema that is parsed and written parses as the same schema; a check of
//! any two names ends. Half of the inputs are changes to a schema that python-ndn compiled.
#![no_main]
use xylem_packet::NameRef;
use xylem_trust::schema::Schema;

const GOOD: &[u8] =
    include_bytes!("../../crates/xylem-trust/tests/fixtures/schema/constraints.tlv");

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // The last octets are the names.
    let (bytes, names) = input.split_at(input.len().saturating_sub(32));
    let changed;
    let bytes = match bytes.split_first() {
        Some((kind, changes)) if kind % 2 == 1 => {
            let mut good = GOOD.to_vec();
            for change in changes.chunks_exact(3) {
                let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % good.len();
                good[at] = change[2];
            }
            changed = good;
            &changed[..]
        }
        _ => bytes,
    };
    let Ok(schema) = Schema::decode(bytes) else { return };
    assert_eq!(Schema::decode(&schema.encode()).as_ref(), Ok(&schema));
    let (packet, key) = names.split_at(names.len() / 2);
    let (packet, key) = (NameRef::from_value(packet), NameRef::from_value(key));
    if let (Ok(packet), Ok(key)) = (packet, key) {
        let checked = schema.check(packet, key);
        if let Ok(permit) = &checked {
            let _ = (permit.rule(), permit.key_rule());
        }
        assert_eq!(schema.suggest(packet, [key]).is_some(), checked.is_ok());
        let _ = (schema.matches(packet), schema.matches(key));
    }
});
