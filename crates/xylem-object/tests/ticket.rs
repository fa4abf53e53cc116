//! Tickets: round trips, typos, truncated pastes, and tickets made wrongly.

use proptest::prelude::*;
use xylem_hash::{Hash, hash};
use xylem_object::ticket::{
    Address, LINK_PORT, MAX_ADDRESSES, MAX_RELAY_ADDRESSES, MAX_RELAYS, MAX_TEXT, RelayContact,
    VERSION, base32,
};
use xylem_object::{PublicationKind, PublisherId, PublisherKey, Ticket, TicketError, naming};
use xylem_packet::{Component, Name};

/// A ticket with every field.
fn ticket() -> Ticket {
    let publisher = PublisherKey::from_bytes(&[7; 32]).public();
    let object = naming::default_name(&publisher, b"hello.txt");
    Ticket {
        publisher,
        root: hash(b"hello"),
        name: Some(naming::versioned(object.as_ref(), 1_700_000_000_000_000).unwrap()),
        link_key: Some([9; 32]),
        size: Some(5),
        kind: Some(PublicationKind::File),
        addresses: vec![at("192.0.2.1:6363"), at("[2001:db8::1]:6363")],
        relays: Vec::new(),
    }
}

/// A ticket as `share` prints it.
fn short() -> Ticket {
    let addresses = vec![at("192.0.2.1:7348"), at("192.0.2.7:7348")];
    Ticket { name: None, link_key: None, size: None, addresses, ..ticket() }
}

/// A ticket as `share --relay` prints it.
fn relayed() -> Ticket {
    let addresses = vec![at("relay.example.org:7348"), at("192.0.2.9:443")];
    Ticket { relays: vec![RelayContact { key: [5; 32], addresses }], ..short() }
}

fn at(text: &str) -> Address {
    text.parse().unwrap()
}

/// A ticket of this payload, with a valid checksum.
fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = payload.to_vec();
    bytes.extend_from_slice(&hash(payload).as_bytes()[..4]);
    bytes
}

/// The vectors of docs/spec/object.md.
#[test]
fn the_specification_s_vectors() {
    for (ticket, text) in [(short(), SHORT), (ticket(), LONG), (relayed(), RELAYED)] {
        assert_eq!(ticket.to_string(), text);
        assert_eq!(text.parse(), Ok(ticket));
    }
    assert_eq!(VERSION_1.parse(), Ok(ticket()), "tickets of before are still read");
}

const SHORT: &str = concat!(
    "xylem:aia6ustmmprjyuqkx32va6ytf3c7tfkho2xl5pt3sjbb52tjcrdnelhkr4ld3m4gqkjf4reryxsy2s5tkbxprqkow",
    "6fin2iiyvreuzzab4babqaaaiaqbqaaaidqxbewbq",
);

const LONG: &str = concat!(
    "xylem:aio6ustmmprjyuqkx32va6ytf3c7tfkho2xl5pt3sjbb52tjcrdnelhkr4ld3m4gqkjf4reryxsy2s5tkbxprqkow",
    "6fin2iiyvreuzzab4xaqblypfwgk3iicaydqnzrmyzwcylcmmzdmzjugu4aqclimvwgy3zoor4hinqiaadaujaydzaaacij",
    "beeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeqscijaubajqaaaiarrwybeaaq3oaaaaaaaaaaaaaaaaaaafecu64",
    "a",
);

const RELAYED: &str = concat!(
    "xylem:aiq6ustmmprjyuqkx32va6ytf3c7tfkho2xl5pt3sjbb52tjcrdnelhkr4ld3m4gqkjf4reryxsy2s5tkbxprqkow",
    "6fin2iiyvreuzzab4babqaaaiaqbqaaaidqkbifaucqkbifaucqkbifaucqkbifaucqkbifaucqkbifaucqkbicaiixezlm",
    "mf4s4zlymfwxa3dffzxxezyeyaaaecibxm7ayyhn",
);

const VERSION_1: &str = concat!(
    "xylem:aebc4cafpb4wyzlnbaidaobxgftdgylbmjrtentfgq2tqcajnbswy3dpfz2hq5bwbaaamcredapeaahkr4ld3m4g",
    "qkjf4reryxsy2s5tkbxprqkow6fin2iiyvreuzzab4c6ustmmprjyuqkx32va6ytf3c7tfkho2xl5pt3sjbb52tjcrdnela",
    "jbeeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeqscijbebajqaaaiarrwygeaaq3oaaaaaaaaaaaaaaaaaaaemnwq",
    "n5hpmq",
);

/// People paste a ticket, read it aloud or print it as a QR code.
#[test]
fn shared_tickets_are_short() {
    let with = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|text| at(text)).collect();
        Ticket { addresses, ..short() }.to_string().len()
    };
    assert_eq!(with(&["192.0.2.1:7348"]), 128);
    assert_eq!(with(&["192.0.2.1:7348", "192.0.2.7:7348"]), 136);
    assert_eq!(with(&["192.0.2.1:40001", "192.0.2.7:40001"]), 139);
    assert_eq!(with(&["192.0.2.1:7348", "[2001:db8::1]:7348"]), 155);
    assert_eq!(with(&["node.example.org:7348"]), 149);
    let relayed = |at_relay: &str| {
        let relays = vec![RelayContact { key: [5; 32], addresses: vec![at(at_relay)] }];
        Ticket { addresses: vec![at("192.0.2.1:7348")], relays, ..short() }.to_string().len()
    };
    assert_eq!(relayed("192.0.2.9:7348"), 189);
    assert_eq!(relayed("relay.example.org:443"), 214);
}

#[test]
fn case_and_surrounding_space_do_not_matter() {
    let text = ticket().to_string();
    assert_eq!(text.to_uppercase().parse(), Ok(ticket()));
    assert_eq!(format!("\n\t {text} \r\n").parse(), Ok(ticket()));
}

/// Tickets as mail, chat and people change them.
#[test]
fn wrapped_and_quoted_tickets_are_read() {
    let text = ticket().to_string();
    for width in [1, 5, 60, 76] {
        let lines: Vec<String> =
            text.as_bytes().chunks(width).map(|l| String::from_utf8(l.to_vec()).unwrap()).collect();
        for by in ["\n", "\r\n", " ", "\n> ", "\n\t", "\u{200b}", "\u{a0}\n"] {
            assert_eq!(lines.join(by).parse(), Ok(ticket()), "{width} {by:?}");
        }
    }
    let around = [("<", ">"), ("\"", "\""), ("'", "' "), ("`", "`"), ("“", "”"), ("> <", ">\n")];
    for (before, behind) in around {
        assert_eq!(format!("{before}{text}{behind}").parse(), Ok(ticket()));
    }
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
        ("xylem:ab\ncd=", "ticket is damaged: '=' at character 11 cannot be part of it"),
    ];
    for (text, message) in table {
        let error = text.parse::<Ticket>().unwrap_err();
        assert_eq!(error.to_string(), *message, "{text:?}");
        assert!(!error.to_string().contains('\n'));
    }
    let long = format!("xylem:{}", "a".repeat(MAX_TEXT));
    assert_eq!(long.parse::<Ticket>(), Err(TicketError::TooLong(MAX_TEXT + 6)));
    let next = sealed(&[4, 1, 2, 3]);
    assert_eq!(
        Ticket::from_bytes(&next).unwrap_err().to_string(),
        "ticket has version 4, this xylem reads versions up to 3: update xylem"
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

/// The checksum is no protection: the payload is checked all the same.
#[test]
fn hostile_payloads_are_refused() {
    let good = ticket().to_bytes();
    let payload = &good[..good.len() - 4];
    let name_len = usize::from(payload[66]);
    let size_at = 67 + name_len + 32;
    let count_at = size_at + 1;
    assert_eq!((payload[size_at], payload[count_at]), (5, 2));
    let first = count_at + 1;
    let patched = |at: usize, bytes: &[u8]| {
        let mut payload = payload.to_vec();
        payload[at..at + bytes.len()].copy_from_slice(bytes);
        payload
    };
    let table: &[(Vec<u8>, &'static str)] = &[
        (patched(1, &[3]), "kind"),
        (patched(1, &[0x40]), "unknown flags"),
        // A missing relay: bit 5 of the flags is set, and nothing follows the addresses.
        (patched(1, &[payload[1] | 0x20]), "too short"),
        (patched(66, &[253, 0]), "number"),
        (patched(67, &[0]), "name"),
        (patched(size_at, &[253, 0]), "number"),
        (patched(count_at, &[17]), "too many addresses"),
        (patched(count_at, &[3]), "too short"),
        (patched(count_at, &[1]), "bytes at the end"),
        (patched(first, &[3]), "kind of address"),
        (patched(first, &[8]), "kind of address"),
        (patched(first + 5, &7348_u16.to_be_bytes()), "a redundant port"),
        (payload[..payload.len() - 1].to_vec(), "too short"),
        (payload[..1].to_vec(), "too short"),
    ];
    for (payload, what) in table {
        assert_eq!(Ticket::from_bytes(&sealed(payload)), Err(TicketError::Malformed(what)));
    }
    let good = relayed().to_bytes();
    let (payload, relay_at) = (&good[..good.len() - 4], 66 + 1 + 2 * 5);
    assert_eq!((payload[1] & 0x20, payload[relay_at], payload[relay_at + 32]), (0x20, 5, 2));
    let counted = |count: u8, cut: usize| {
        let mut payload = payload[..payload.len() - cut].to_vec();
        payload[relay_at + 32] = count;
        Ticket::from_bytes(&sealed(&payload))
    };
    let of_addresses = payload.len() - (relay_at + 33);
    let wrong = |what| Err(TicketError::Malformed(what));
    assert_eq!(counted(2, 0), Ok(relayed()));
    assert_eq!(counted(0, of_addresses), wrong("a relay without an address"));
    assert_eq!(counted(0, 0), wrong("a relay without an address"));
    assert_eq!(counted(1, 0), wrong("bytes at the end"));
    assert_eq!(counted(2, 1), wrong("too short"));
    assert_eq!(counted(3, 0), wrong("too many addresses"));
    let nowhere = RelayContact { key: [5; 32], addresses: vec![] };
    let without = Ticket { relays: vec![nowhere], ..short() };
    assert_eq!(without.to_string(), SHORT, "a relay that is nowhere is none");
    let hosts: &[&[u8]] =
        &[b"a..b", b"127.0.0.1", b"Upper.example", b"", b"a b", &[b'a'; 254], &[255]];
    for host in hosts {
        let mut payload = short().to_bytes()[..66].to_vec();
        payload.extend_from_slice(&[1, 2, host.len() as u8]);
        payload.extend_from_slice(host);
        let error = Err(TicketError::Malformed("host name"));
        assert_eq!(Ticket::from_bytes(&sealed(&payload)), error, "{host:?}");
    }
    for name in ["/a", "/v=1", "/"] {
        let ticket = Ticket { name: Some(Name::from_uri(name).unwrap()), ..ticket() };
        assert_eq!(Ticket::from_bytes(&ticket.to_bytes()), Err(TicketError::Malformed("name")));
    }
    let name = Some(Name::from_iter([Component::generic(&[b'n'; 150]), Component::version(1)]));
    let long = Ticket { name, ..ticket() };
    assert_eq!(long.to_string().parse::<Ticket>(), Err(TicketError::Malformed("name")));
    let huge = Ticket { size: Some(u64::MAX), ..ticket() };
    assert_eq!(huge.to_string().parse::<Ticket>(), Err(TicketError::Malformed("size")));
}

/// Hostile payloads of version 1, which is only read.
#[test]
fn hostile_payloads_of_version_1_are_refused() {
    let good = base32::decode(&VERSION_1[6..]).unwrap();
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
}

#[test]
fn the_largest_ticket_is_within_the_limit() {
    let publisher = PublisherId([255; 32]);
    let name = Name::from_iter([
        Component::generic(&[b'n'; naming::MAX_PREFIX - 12]),
        Component::version(u64::MAX),
    ]);
    naming::check_prefix(name.as_ref()).unwrap();
    let long = format!("{}a", "a.".repeat(126));
    let addresses: Vec<Address> = (1..=40).map(|port| at(&format!("{long}:{port}"))).collect();
    let (name, size) = (Some(name), Some(1 << 44));
    let relays = vec![RelayContact { key: [255; 32], addresses: addresses.clone() }];
    let ticket = Ticket { name, size, publisher, addresses: addresses.clone(), relays, ..ticket() };
    let text = ticket.to_string();
    assert!(text.len() < MAX_TEXT, "{}", text.len());
    let read: Ticket = text.parse().unwrap();
    assert_eq!(read.addresses, addresses[..MAX_ADDRESSES]);
    assert_eq!(read.relays[0].addresses, addresses[..MAX_RELAY_ADDRESSES]);
}

fn any_address() -> impl Strategy<Value = Address> {
    let ip = any::<(std::net::IpAddr, u16)>().prop_map(|at| Address::Ip(at.into()));
    let host = ("[a-z][a-z0-9-]{0,9}(\\.[a-z][a-z0-9]{0,4}){0,2}", any::<u16>())
        .prop_map(|(name, port)| Address::Host(name.parse().unwrap(), port));
    let usual = any::<std::net::IpAddr>().prop_map(|ip| Address::Ip((ip, LINK_PORT).into()));
    prop_oneof![ip, host, usual]
}

/// Earlier programs read every ticket without several relays. They report one with several as a newer version, not as
/// damaged.
#[test]
fn several_relays_are_a_version_of_their_own() {
    let relay = |n: u8| RelayContact { key: [n; 32], addresses: vec![at("192.0.2.9:7348")] };
    for count in 0..=MAX_RELAYS as u8 + 2 {
        let relays: Vec<RelayContact> = (0..count).map(relay).collect();
        let ticket = Ticket { relays: relays.clone(), ..short() };
        let bytes = ticket.to_bytes();
        assert_eq!(bytes[0], if count > 1 { VERSION } else { 2 });
        let read = Ticket::from_bytes(&bytes).unwrap();
        assert_eq!(read.relays, relays[..relays.len().min(MAX_RELAYS)]);
        assert_eq!(read.to_string().parse(), Ok(read));
    }
    let good = Ticket { relays: vec![relay(1), relay(2)], ..short() }.to_bytes();
    let payload = &good[..good.len() - 4];
    let count_at = 66 + 1 + 2 * 5;
    assert_eq!(payload[count_at], 2);
    let wrong = |what| Err(TicketError::Malformed(what));
    for (count, why) in [
        (0, "number of relays"),
        (1, "number of relays"),
        (3, "too short"),
        (5, "number of relays"),
    ] {
        let mut payload = payload.to_vec();
        payload[count_at] = count;
        assert_eq!(Ticket::from_bytes(&sealed(&payload)), wrong(why));
    }
    let mut none = payload[..count_at].to_vec();
    none[1] &= !0x20;
    assert_eq!(Ticket::from_bytes(&sealed(&none)), wrong("number of relays"));
}

prop_compose! {
    fn any_ticket()(
        object in prop::option::of((prop::collection::vec(any::<u8>(), 0..40), any::<u64>())),
        (root, publisher) in any::<([u8; 32], [u8; 32])>(),
        size in prop::option::of(0..=1u64 << 44),
        directory in any::<Option<bool>>(),
        link_key in any::<Option<[u8; 32]>>(),
        addresses in prop::collection::vec(any_address(), 0..=MAX_ADDRESSES),
        relays in prop::collection::vec(
            (any::<[u8; 32]>(), prop::collection::vec(any_address(), 1..=MAX_RELAY_ADDRESSES)),
            0..=MAX_RELAYS,
        ),
    ) -> Ticket {
        let name = |(object, version): (Vec<u8>, u64)| {
            Name::from_iter([Component::generic(&object), Component::version(version)])
        };
        Ticket {
            publisher: PublisherId(publisher),
            root: Hash::from_bytes(root),
            name: object.map(name),
            link_key,
            size,
            kind: directory.map(|it_is| if it_is { PublicationKind::Directory } else { PublicationKind::File }),
            addresses,
            relays: relays
                .into_iter()
                .map(|(key, addresses)| RelayContact { key, addresses })
                .collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn round_trips(ticket in any_ticket()) {
        prop_assert_eq!(ticket.to_string().parse(), Ok(ticket));
    }

    #[test]
    fn damage_is_noticed(ticket in any_ticket(), bit in any::<prop::sample::Index>()) {
        let bytes = ticket.to_bytes();
        let mut flipped = bytes.clone();
        let bit = bit.index(bytes.len() * 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Ticket::from_bytes(&flipped), Err(TicketError::Checksum));
        for len in 0..bytes.len() {
            prop_assert_eq!(Ticket::from_bytes(&bytes[..len]), Err(TicketError::Checksum));
        }
    }

    /// An accepted ticket has one form.
    #[test]
    fn accepted_tickets_are_canonical(ticket in any_ticket(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = ticket.to_bytes();
        bytes.truncate(bytes.len() - 4);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let bytes = sealed(&bytes);
        if let Ok(read) = Ticket::from_bytes(&bytes) && bytes[0] >= 2 {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }

    #[test]
    fn any_text_is_answered(text in "(xylem:)?[a-z2-7 ]{0,80}") {
        prop_assert!(text.parse::<Ticket>().is_err());
    }
}
