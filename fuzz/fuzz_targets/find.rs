//! The first exchange over a link: each parsed message has one form, and no fuzzed answer has a valid vouch.
#![no_main]
use xylem_object::find::{FindAnswer, FindId, PublicAnswer, prefix};
use xylem_object::{PublisherKey, find};
use xylem_packet::{Component, Data, NameRef};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(answer) = FindAnswer::decode(input) {
        assert_eq!(answer.encode(), input);
        let publisher = PublisherKey::from_bytes(&[7; 32]).public();
        assert!(!answer.vouches(&publisher, &[9; 32], 0));
        if let Ok(packet) = FindId([1; find::ID_LEN]).packet(&answer) {
            let data = Data::decode(&packet).expect("what is written can be read");
            assert_eq!(FindAnswer::decode(data.content()), Ok(answer));
        }
    }
    if let Ok(answer) = PublicAnswer::decode(input) {
        assert_eq!(answer.encode(), input);
    }
    let check = |name: NameRef<'_>| {
        if let Some(asked) = FindId::parse(name) {
            assert_eq!(asked.question().as_ref(), name, "a question has one name");
        }
    };
    check(prefix().child(Component::generic(input)).as_ref());
    if let Ok(rest) = NameRef::from_value(input) {
        let mut name = prefix();
        for component in rest.iter() {
            name.push(component);
        }
        check(name.as_ref());
        check(rest);
    }
});
