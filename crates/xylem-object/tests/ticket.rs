//! Tickets: round trips, typos, cut-off pastes, and tickets that were written wrongly.

use proptest::prelude::*;
use std::net::SocketAddr;
use xylem_hash::{Hash, hash};
use xylem_object::ticket::{MAX_ADDRESSES, MAX_TEXT};
use xylem_object::{Kind, PublisherId, PublisherKey, Ticket, TicketError, naming};
use xylem_packet::{Component, Name};

fn ticket() -> Ticket {
    let publisher = PublisherKey::from_bytes(&[7; 32]).public();
    let object = naming::default_name(&publisher, b"hello.txt");
    Ticket {
        name: naming::versioned(object.as_ref(), 1_700_000_000_000_000).unwrap(),
        root: hash(b"hello"),
        size: 5,
        kind: Kind::File,
        publisher,
        link_key: Some([9; 32]),
        addresses: vec!["192.0.2.1:6363".parse().unwrap(), "[2001:db8::1]:6363".parse().unwrap()],
    }
}

/// A ticket out of a payload with a right checksum.
fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = payload.to_vec();
    bytes.extend_from_slice(&hash(payload).as_bytes()[..4]);
    bytes
}

/// The vector of docs/spec/object.md.
#[test]
fn the_specification_s_vector() {
    let text = ticket().to_string();
    assert_eq!(
        text,
        concat!(
            "xylem:aebc4cafpb4wyzlnbaidaobxgftdgylbmjrtentfgq2tqcajnbswy3dpfz2hq5bwbaaamc",
            "redapeaahkr4ld3m4gqkjf4reryxsy2s5tkbxprqkow6fin2iiyvreuzzab4c6ustmmprjyuqkx3",
            "2va6ytf3c7tfkho2xl5pt3sjbb52tjcrdnelajbeeqscijbeeqscijbeeqscijbeeqscijbeeqsc",
            "ijbeeqscijbebajqaaaiarrwygeaaq3oaaaaaaaaaaaaaaaaaaaemnwqn5hpmq",
        )
    );
    assert_eq!(text.parse(), Ok(ticket()));
}

#[test]
fn case_and_surrounding_space_do_not_matter() {
    let text = ticket().to_string();
    assert_eq!(text.to_uppercase().parse(), Ok(ticket()));
    assert_eq!(format!("\n\t {text} \r\n").parse(), Ok(ticket()));
}

#[test]
fn each_error_is_one_clear_line() {
    let text = ticket().to_string();
    let table: &[(&str, &str)] = &[
        ("", "not a ticket: a ticket begins with \"xylem:\""),
        ("xyl", "not a ticket: a ticket begins with \"xylem:\""),
        ("https://example.org", "not a ticket: a ticket begins with \"xylem:\""),
        ("xyléém:abc", "not a ticket: a ticket begins with \"xylem:\""),
        ("xylem:", "ticket is damaged (checksum): copy it again as a whole"),
        ("xylem:aa", "ticket is damaged (checksum): copy it again as a whole"),
        (&text[..text.len() / 2], "ticket is damaged (checksum): copy it again as a whole"),
        ("xylem:ab1", "ticket is damaged: '1' at character 9 cannot be part of it"),
        ("xylem:ab\ncd", "ticket is damaged: '\\n' at character 9 cannot be part of it"),
    ];
    for (text, message) in table {
        let error = text.parse::<Ticket>().unwrap_err();
        assert_eq!(error.to_string(), *message, "{text:?}");
        assert!(!error.to_string().contains('\n'));
    }
    let long = format!("xylem:{}", "a".repeat(MAX_TEXT));
    assert_eq!(long.parse::<Ticket>(), Err(TicketError::TooLong(MAX_TEXT + 6)));
    let next = sealed(&[2, 1, 2, 3]);
    assert_eq!(
        Ticket::from_bytes(&next).unwrap_err().to_string(),
        "ticket has version 2, this xylem reads version 1: update xylem"
    );
}

#[test]
fn every_typo_is_noticed() {
    let text = ticket().to_string();
    for at in 6..text.len() {
        let mut typo = text.clone().into_bytes();
        typo[at] = if typo[at] == b'q' { b'z' } else { b'q' };
        let typo = String::from_utf8(typo).unwrap();
        assert_eq!(typo.parse::<Ticket>(), Err(TicketError::Checksum), "character {at}");
        assert!(text[..at].parse::<Ticket>().is_err(), "cut at {at}");
        let mut doubled = text.clone();
        doubled.insert(at, 'q');
        assert!(doubled.parse::<Ticket>().is_err(), "one more at {at}");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = ticket().to_bytes();
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Ticket::from_bytes(&bytes), Err(TicketError::Checksum), "bit {bit}");
    }
}

/// The checksum is no protection: what is behind it is checked all the same.
#[test]
fn hostile_payloads_are_refused() {
    let good = ticket().to_bytes();
    let payload = &good[..good.len() - 4];
    let name_len = usize::from(payload[2]);
    let count_at = 3 + name_len + 32 + 1 + 32 + 32;
    assert_eq!(payload[count_at], 2);
    let patched = |at: usize, bytes: &[u8]| {
        let mut payload = payload.to_vec();
        payload[at..at + bytes.len()].copy_from_slice(bytes);
        payload
    };
    let table: &[(Vec<u8>, &'static str)] = &[
        (patched(1, &[4]), "unknown flags"),
        (patched(2, &[253, 0]), "number"),
        (patched(3, &[0]), "name"),
        (patched(3 + 32 + name_len, &[253, 0]), "number"),
        (patched(count_at, &[17]), "too many addresses"),
        (patched(count_at, &[3]), "too short"),
        (patched(count_at, &[1]), "bytes at the end"),
        (patched(count_at + 1, &[5]), "kind of address"),
        (payload[..payload.len() - 1].to_vec(), "too short"),
        (payload[..1].to_vec(), "too short"),
    ];
    for (payload, what) in table {
        assert_eq!(Ticket::from_bytes(&sealed(payload)), Err(TicketError::Malformed(what)));
    }
    for name in ["/a", "/v=1", "/"] {
        let ticket = Ticket { name: Name::from_uri(name).unwrap(), ..ticket() };
        assert_eq!(Ticket::from_bytes(&ticket.to_bytes()), Err(TicketError::Malformed("name")));
    }
    let name = Name::from_iter([Component::generic(&[b'n'; 150]), Component::version(1)]);
    let long = Ticket { name, ..ticket() };
    assert_eq!(long.to_string().parse::<Ticket>(), Err(TicketError::Malformed("name")));
    let huge = Ticket { size: u64::MAX, ..ticket() };
    assert_eq!(huge.to_string().parse::<Ticket>(), Err(TicketError::Malformed("size")));
}

#[test]
fn the_largest_ticket_is_within_the_limit() {
    let publisher = PublisherId([255; 32]);
    let name = Name::from_iter([
        Component::generic(&[b'n'; naming::MAX_PREFIX - 12]),
        Component::version(u64::MAX),
    ]);
    naming::check_prefix(name.as_ref()).unwrap();
    let addresses: Vec<SocketAddr> = vec!["[2001:db8::1]:65535".parse().unwrap(); 40];
    let ticket =
        Ticket { name, size: 1 << 44, publisher, addresses: addresses.clone(), ..ticket() };
    let text = ticket.to_string();
    assert!(text.len() < MAX_TEXT / 2, "{}", text.len());
    let read: Ticket = text.parse().unwrap();
    assert_eq!(read.addresses, addresses[..MAX_ADDRESSES]);
}

prop_compose! {
    fn any_ticket()(
        object in prop::collection::vec(any::<u8>(), 0..40),
        version in any::<u64>(),
        (root, publisher) in any::<([u8; 32], [u8; 32])>(),
        size in 0..=1u64 << 44,
        directory in any::<bool>(),
        link_key in any::<Option<[u8; 32]>>(),
        addresses in prop::collection::vec(any::<(std::net::IpAddr, u16)>(), 0..=MAX_ADDRESSES),
    ) -> Ticket {
        Ticket {
            name: Name::from_iter([Component::generic(&object), Component::version(version)]),
            root: Hash::from_bytes(root),
            size,
            kind: if directory { Kind::Directory } else { Kind::File },
            publisher: PublisherId(publisher),
            link_key,
            addresses: addresses.into_iter().map(SocketAddr::from).collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn round_trips(ticket in any_ticket()) {
        prop_assert_eq!(ticket.to_string().parse(), Ok(ticket));
    }

    /// What is accepted has one form.
    #[test]
    fn what_is_read_is_canonical(ticket in any_ticket(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = ticket.to_bytes();
        bytes.truncate(bytes.len() - 4);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let bytes = sealed(&bytes);
        if let Ok(read) = Ticket::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }

    #[test]
    fn any_text_is_answered(text in "(xylem:)?[a-z2-7 ]{0,80}") {
        prop_assert!(text.parse::<Ticket>().is_err());
    }
}
