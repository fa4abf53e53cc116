//! Requests for peers, notices, and lists of peers: each parsed one has one form.
#![no_main]
use xylem_object::{fetched, peers};
use xylem_packet::{Component, Name, NameRef};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(list) = peers::decode_list(input) {
        assert!(list.len() <= peers::MAX_PEERS);
        assert_eq!(peers::encode_list(&list), input);
    }
    let prefix = Name::from_uri("/a/v=1").expect("a name");
    let prefix = prefix.as_ref();
    let check = |name: NameRef<'_>| {
        if let Some(asked) = peers::parse_question(prefix, name) {
            let again = peers::question(prefix, asked.nonce, asked.announced.as_ref());
            assert_eq!(again.as_ref(), name, "a question has one name");
        }
        if let Some((nonce, bytes)) = fetched::parse_notice(prefix, name) {
            let again = fetched::notice(prefix, nonce, bytes);
            assert_eq!(again.as_ref(), name, "a notice has one name");
        }
    };
    // Any components under the prefix, and any announcement in a request.
    if let Ok(rest) = NameRef::from_value(input) {
        let mut name = prefix.to_name();
        for component in rest.iter() {
            name.push(component);
        }
        check(name.as_ref());
    }
    let mut name = peers::question(prefix, [7; 8], None);
    name.push(Component::generic(input));
    check(name.as_ref());
    let mut name = fetched::notice(prefix, [7; 8], 0).as_ref().parent().to_name();
    name.push(Component::generic(input));
    check(name.as_ref());
});
