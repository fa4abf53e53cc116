//! Lists of relays: no panic; an invalid line is named; few relays are taken, and none with a token.
#![no_main]
use xylem_peers::relay_list::parse_relay_list;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Ok(text) = core::str::from_utf8(input) else { return };
    match parse_relay_list(text) {
        Ok(listed) => {
            assert!(listed.relays.len() <= 3);
            assert!(listed.relays.iter().all(|relay| relay.token.is_none()));
        }
        Err((number, _)) => assert!((1..=text.lines().count().max(1)).contains(&number)),
    }
});
