//! Packets written by hand from the packet format's definitions, and the evolvability rules applied to packets that
//! deviate.

use xylem_packet::tlv::write_element;
use xylem_packet::{
    Acks, CachePolicy, Component, ContentType, Data, DataBuilder, DecodeError, EncodeError,
    Interest, InterestBuilder, KeyLocator, LpPacket, MAX_FRAME, MAX_PACKET, NackReason, Name,
    NameRef, Packet, SignatureType, frame_len,
};

/// Bytes from hexadecimal text with spaces.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    assert_eq!(digits.len() % 2, 0);
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// An element of type `typ` around the parts.
fn around(typ: u32, parts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    write_element(&mut out, typ, &hex(&parts.concat()));
    out
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

const NAME_A: &str = "07 03 08 01 41";

const INTEREST: &str = "05 1d
    07 03 08 01 41
    21 00
    12 00
    1e 05 07 03 08 01 42
    0a 04 01 02 03 04
    0c 02 0f a0
    22 01 40";

const DATA: &str = "06 28
    07 03 08 01 41
    14 0c 18 01 02 19 02 27 10 1a 03 32 01 09
    15 02 68 69
    16 0a 1b 01 05 1c 05 07 03 08 01 4b
    17 03 aa bb cc";

#[test]
fn an_interest_with_everything_but_parameters() {
    let wire = hex(INTEREST);
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(interest.name(), name("/A"));
    assert!(interest.can_be_prefix() && interest.must_be_fresh());
    assert_eq!(interest.forwarding_hint().collect::<Vec<_>>(), [name("/B")]);
    assert_eq!(interest.nonce(), Some([1, 2, 3, 4]));
    assert_eq!(interest.nonce_offset().map(|at| &wire[at..at + 4]), Some(&[1, 2, 3, 4][..]));
    assert_eq!(interest.lifetime_ms(), 4000);
    assert_eq!(interest.hop_limit(), Some(64));
    assert_eq!(interest.hop_limit_offset().map(|at| wire[at]), Some(64));
    assert_eq!(interest.app_parameters(), None);
    assert!(interest.signature().is_none());

    let b = name("/B");
    let mut built = Vec::new();
    InterestBuilder::new(name("/A").as_ref())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .forwarding_hint(&[b.as_ref()])
        .nonce([1, 2, 3, 4])
        .lifetime_ms(4000)
        .hop_limit(64)
        .encode(&mut built)
        .unwrap();
    assert_eq!(built, wire);
}

#[test]
fn the_smallest_interest() {
    let wire = hex("05 05 07 03 08 01 41");
    let interest = Interest::decode(&wire).unwrap();
    assert!(!interest.can_be_prefix() && !interest.must_be_fresh());
    assert_eq!(interest.lifetime_ms(), 4000);
    assert_eq!(
        (interest.nonce(), interest.hop_limit(), interest.hop_limit_offset()),
        (None, None, None)
    );
    assert_eq!(interest.forwarding_hint().count(), 0);
}

#[test]
fn a_data_with_everything() {
    let wire = hex(DATA);
    let data = Data::decode(&wire).unwrap();
    assert_eq!(data.name(), name("/A"));
    assert_eq!(&wire[data.name_range()], data.name().value());
    assert_eq!(data.meta().content_type, ContentType::KEY);
    assert_eq!(data.meta().freshness_ms, 10_000);
    assert_eq!(data.meta().final_block_id, Some(Component::segment(9)));
    assert_eq!(data.content(), b"hi");
    assert_eq!(&wire[data.content_range()], b"hi");
    assert_eq!(data.signature_info().typ, SignatureType::ED25519);
    let k = name("/K");
    assert_eq!(data.signature_info().key_locator, Some(KeyLocator::Name(k.as_ref())));
    assert_eq!(data.signature_value(), [0xAA, 0xBB, 0xCC]);
    assert_eq!(data.signed_portion(), &wire[2..wire.len() - 5]);

    let mut built = Vec::new();
    DataBuilder::new(name("/A").as_ref())
        .content_type(ContentType::KEY)
        .freshness_ms(10_000)
        .final_block_id(Component::segment(9))
        .signature(SignatureType::ED25519, KeyLocator::Name(k.as_ref()))
        .encode(&mut built, b"hi", |signed, value| {
            assert_eq!(signed, data.signed_portion());
            value.extend_from_slice(&[0xAA, 0xBB, 0xCC]);
        })
        .unwrap();
    assert_eq!(built, wire);
}

#[test]
fn the_smallest_data() {
    let wire = hex("06 09 07 00 16 03 1b 01 00 17 00");
    let data = Data::decode(&wire).unwrap();
    assert!(data.name().is_empty() && data.content().is_empty());
    assert_eq!(data.content_range().len(), 0);
    assert_eq!((data.meta().content_type, data.meta().freshness_ms), (ContentType::BLOB, 0));
    assert_eq!(data.signature_info().key_locator, None);
    // sha256sum of the packet.
    let digest = "87baf15fefe8b40c29d2a66c2b4fb4fed1fd31e1826a8962e8bbc04a21085074";
    assert_eq!(data.implicit_digest()[..], hex(digest));
}

#[test]
fn sha256_is_sha256() {
    // FIPS 180-2, appendix B.1.
    let abc = "ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad";
    assert_eq!(xylem_packet::sha256(b"abc")[..], hex(abc));
}

/// The elements before and after each insertion, and the result.
#[test]
fn evolvability_in_an_interest() {
    let inside = 5;
    let parts = |parts: &[&str]| Interest::decode(&around(5, parts)).map(|_| ());
    let nonce = "0a 04 01 02 03 04";
    let hop = "22 01 05";
    // Unknown and not critical: ignored everywhere except before the name.
    assert_eq!(parts(&[NAME_A, "f0 01 00", nonce, "fd 01 00 00"]), Ok(()));
    let no_name = Err(DecodeError::Missing { inside, typ: 7 });
    assert_eq!(parts(&["f0 00", NAME_A]), no_name);
    assert_eq!(parts(&[]), no_name);
    // Unknown and critical: odd, or up to 31.
    for (element, typ) in [("f1 00", 0xF1), ("1f 00", 31), ("10 00", 16), ("fd 01 01 00", 257)] {
        assert_eq!(parts(&[NAME_A, element]), Err(DecodeError::UnknownCritical { inside, typ }));
    }
    // Known and critical, out of order or repeated.
    assert_eq!(
        parts(&[NAME_A, nonce, "21 00"]),
        Err(DecodeError::OutOfOrder { inside, typ: 0x21 })
    );
    assert_eq!(parts(&[NAME_A, nonce, nonce]), Err(DecodeError::Repeated { inside, typ: 10 }));
    assert_eq!(parts(&[NAME_A, NAME_A]), Err(DecodeError::Repeated { inside, typ: 7 }));
    assert_eq!(parts(&[NAME_A, hop, hop]), Err(DecodeError::Repeated { inside, typ: 0x22 }));
}

#[test]
fn a_late_hop_limit_is_not_a_hop_limit() {
    // ApplicationParameters (rank 8) before HopLimit (rank 7): HopLimit, 0x22, is not critical.
    let tail = hex("24 00 22 01 05");
    let mut wire = Vec::new();
    let mut value = Vec::new();
    Name::from_uri("/A")
        .unwrap()
        .child(Component::parameters_digest(&xylem_packet::sha256(&tail)))
        .encode(&mut value);
    value.extend_from_slice(&tail);
    write_element(&mut wire, 5, &value);
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(interest.hop_limit(), None);
    assert_eq!(interest.app_parameters(), Some(&[][..]));
}

#[test]
fn evolvability_in_a_data() {
    let inside = 6;
    let parts = |parts: &[&str]| Data::decode(&around(6, parts)).map(|_| ());
    let (info, value) = ("16 03 1b 01 00", "17 00");
    assert_eq!(parts(&[NAME_A, "f0 00", info, "f0 00", value, "f0 00"]), Ok(()));
    assert_eq!(
        parts(&["f0 00", NAME_A, info, value]),
        Err(DecodeError::Missing { inside, typ: 7 })
    );
    assert_eq!(parts(&[NAME_A, value]), Err(DecodeError::Missing { inside, typ: 0x16 }));
    assert_eq!(parts(&[NAME_A, info]), Err(DecodeError::Missing { inside, typ: 0x17 }));
    assert_eq!(parts(&[NAME_A, value, info]), Err(DecodeError::OutOfOrder { inside, typ: 0x16 }));
    let repeated = Err(DecodeError::Repeated { inside, typ: 0x15 });
    assert_eq!(parts(&[NAME_A, "15 00", "15 00", info, value]), repeated);
    // The same rules one level down.
    let meta = |inner: &[u8]| {
        let mut outer = Vec::new();
        write_element(&mut outer, 0x14, inner);
        let outer: String = outer.iter().map(|b| format!("{b:02x}")).collect();
        parts(&[NAME_A, &outer, info, value])
    };
    assert_eq!(meta(&hex("f0 00 18 01 00 f0 00 19 01 00")), Ok(()));
    let inside = 0x14;
    assert_eq!(meta(&hex("19 01 00 18 01 00")), Err(DecodeError::OutOfOrder { inside, typ: 0x18 }));
    assert_eq!(meta(&hex("18 03 00 00 00")), Err(DecodeError::BadLength { typ: 0x18, len: 3 }));
    assert_eq!(meta(&hex("1a 00")), Err(DecodeError::BadLength { typ: 0x1A, len: 0 }));
    let two = hex("1a 06 08 01 41 08 01 42");
    assert_eq!(meta(&two), Err(DecodeError::BadLength { typ: 0x1A, len: 6 }));
    assert_eq!(
        meta(&hex("1a 05 08 02 41 ff 00")),
        Err(DecodeError::BadLength { typ: 0x1A, len: 5 })
    );
}

#[test]
fn signature_info_and_key_locator() {
    let data = |info: &str| {
        let info = around(0x16, &[info]).iter().map(|b| format!("{b:02x}")).collect::<String>();
        around(6, &[NAME_A, &info, "17 00"])
    };
    let fault = |info: &str| Data::decode(&data(info)).err();
    assert_eq!(fault("1b 01 01 1c 05 07 03 08 01 4b"), None);
    let wire = data("1b 01 01 1c 04 1d 02 ab cd");
    let info = Data::decode(&wire).unwrap().signature_info();
    assert_eq!(info.key_locator, Some(KeyLocator::Digest(&[0xAB, 0xCD])));
    // A certificate's ValidityPeriod has a critical number and is known.
    let wire = data("1b 01 01 1c 04 1d 02 ab cd fd 00 fd 02 aa bb");
    let info = Data::decode(&wire).unwrap().signature_info();
    assert_eq!(info.validity_period, Some(&[0xAA, 0xBB][..]));

    let missing = |inside, typ| Some(DecodeError::Missing { inside, typ });
    assert_eq!(fault("1c 05 07 03 08 01 4b"), missing(0x16, 0x1B));
    assert_eq!(fault("1b 01 01 1c 00"), missing(0x1C, 7));
    let repeated = Some(DecodeError::Repeated { inside: 0x1C, typ: 0x1D });
    assert_eq!(fault("1b 01 01 1c 07 07 03 08 01 4b 1d 00"), repeated);
    let unknown = Some(DecodeError::UnknownCritical { inside: 0x1C, typ: 0x1F });
    assert_eq!(fault("1b 01 01 1c 02 1f 00"), unknown);
}

#[test]
fn lengths_and_ends() {
    let interest = |wire: &str| Interest::decode(&hex(wire)).err();
    assert_eq!(interest("05 02 07 00"), Some(DecodeError::EmptyName));
    let bad = |typ, len| Some(DecodeError::BadLength { typ, len });
    assert_eq!(interest("05 0a 07 03 08 01 41 0a 03 01 02 03"), bad(10, 3));
    assert_eq!(interest("05 09 07 03 08 01 41 22 02 01 02"), bad(0x22, 2));
    assert_eq!(interest("05 08 07 03 08 01 41 21 01 00"), bad(0x21, 1));
    assert_eq!(interest("05 07 07 03 08 01 41 0c 00"), bad(12, 0));
    assert_eq!(interest("05 05 07 03 01 01 41"), bad(1, 1));
    assert_eq!(interest("05 05 07 03 08 02 41"), Some(DecodeError::Truncated));
    assert_eq!(interest("05 06 07 03 08 01 41"), Some(DecodeError::Truncated));
    assert_eq!(interest("05 05 07 03 08 01 41 00"), Some(DecodeError::TrailingBytes(1)));
    assert_eq!(interest("05 fd 00 05 07 03 08 01 41"), Some(DecodeError::NotShortest));
    assert_eq!(interest(""), Some(DecodeError::Truncated));
    let large = "05 0a 07 08 fe 00 01 00 00 01 41 ff";
    assert_eq!(interest(large), Some(DecodeError::ComponentType(0x1_0000)));
    assert_eq!(
        interest("06 05 07 03 08 01 41"),
        Some(DecodeError::WrongType { expected: 5, found: 6 })
    );
    let hint = Some(DecodeError::Missing { inside: 0x1E, typ: 7 });
    assert_eq!(interest("05 07 07 03 08 01 41 1e 00"), hint);
    let old_hint = Some(DecodeError::WrongType { expected: 7, found: 0x1F });
    assert_eq!(interest("05 09 07 03 08 01 41 1e 02 1f 00"), old_hint);
    assert!(matches!(Packet::decode(&[0x64, 0]), Ok(Packet::Lp(_))));
    assert_eq!(Packet::decode(&[9, 0]).err(), Some(DecodeError::NotAPacket(9)));
    assert_eq!(Packet::decode(&[]).err(), Some(DecodeError::Truncated));
}

/// `printf '\x24\x04\xc0\xc1\xc2\xc3' | sha256sum`
const PARAMETERS_DIGEST: &str = "ff9100e04eaadcf30674d98026a051ba25f56b69bfa026dcccd72c6ea0f7315a";

#[test]
fn parameters_and_their_digest() {
    let mut wire = Vec::new();
    InterestBuilder::new(name("/A").as_ref())
        .nonce([1, 2, 3, 4])
        .encode_with_parameters(&mut wire, &[0xC0, 0xC1, 0xC2, 0xC3])
        .unwrap();
    let by_hand = around(
        5,
        &["07 25 08 01 41 02 20", PARAMETERS_DIGEST, "0a 04 01 02 03 04", "24 04 c0 c1 c2 c3"],
    );
    assert_eq!(wire, by_hand);
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(interest.app_parameters(), Some(&[0xC0, 0xC1, 0xC2, 0xC3][..]));
    assert_eq!(interest.name().to_string(), format!("/A/params-sha256={PARAMETERS_DIGEST}"));

    let fault = |parts: &[&str]| Interest::decode(&around(5, parts)).err();
    let parameters = "24 04 c0 c1 c2 c3";
    assert_eq!(
        fault(&["07 25 08 01 41 02 20", PARAMETERS_DIGEST, "24 04 c0 c1 c2 c4"]),
        Some(DecodeError::ParametersDigestMismatch)
    );
    assert_eq!(fault(&[NAME_A, parameters]), Some(DecodeError::ParametersDigestPlace));
    let twice = ["07 44 02 20", PARAMETERS_DIGEST, "02 20", PARAMETERS_DIGEST, parameters];
    assert_eq!(fault(&twice), Some(DecodeError::ParametersDigestPlace));
    // The digest covers everything up to the packet's end, unknown elements too.
    assert_eq!(
        fault(&["07 25 08 01 41 02 20", PARAMETERS_DIGEST, parameters, "f0 00"]),
        Some(DecodeError::ParametersDigestMismatch)
    );
    // A name with such a component may be requested without parameters, as later segments are.
    assert_eq!(fault(&["07 25 02 20", PARAMETERS_DIGEST, "08 01 41"]), None);
    // The caller's hash decides.
    assert!(Interest::decode_with(&wire, |_| [0; 32]).is_err());
}

#[test]
fn signed_interests() {
    let key = name("/K");
    let mut info = xylem_packet::SignatureInfo::new(
        SignatureType::ED25519,
        Some(KeyLocator::Name(key.as_ref())),
    );
    info.nonce = Some(&[7; 8]);
    info.time_ms = Some(1_700_000_000_000);
    info.sequence = Some(3);
    let mut covered = Vec::new();
    let mut wire = Vec::new();
    InterestBuilder::new(name("/A/B").as_ref())
        .encode_signed(&mut wire, b"what", &info, |portions, value| {
            covered = portions.concat();
            value.extend_from_slice(b"signature");
        })
        .unwrap();
    let interest = Interest::decode(&wire).unwrap();
    let signature = interest.signature().unwrap();
    assert_eq!(signature.info, info);
    assert_eq!(signature.value, b"signature");
    assert_eq!(signature.signed_portions.concat(), covered);
    assert!(covered.starts_with(b"\x08\x01A\x08\x01B\x24\x04what\x2c"));

    let missing = |typ| Some(DecodeError::Missing { inside: 5, typ });
    let fault = |parts: &[&str]| Interest::decode(&around(5, parts)).err();
    assert_eq!(fault(&[NAME_A, "24 00 2c 03 1b 01 00"]), missing(0x2E));
    assert_eq!(fault(&[NAME_A, "24 00 2e 00"]), missing(0x2C));
    assert_eq!(fault(&[NAME_A, "2c 03 1b 01 00 2e 00"]), missing(0x24));

    // The digest must be the last component of a signed Interest's name.
    let tail = hex("24 00 2c 03 1b 01 00 2e 00");
    let mut value = Vec::new();
    Name::new()
        .child(Component::parameters_digest(&xylem_packet::sha256(&tail)))
        .child(Component::generic(b"A"))
        .encode(&mut value);
    value.extend_from_slice(&tail);
    let mut wire = Vec::new();
    write_element(&mut wire, 5, &value);
    assert_eq!(Interest::decode(&wire).err(), Some(DecodeError::ParametersDigestPlace));
}

#[test]
fn link_packets() {
    let wire = hex("64 38
        51 08 00 00 00 00 00 00 00 07
        52 01 00
        53 01 01
        62 04 d0 d1 d2 d3
        fd 03 20 05 fd 03 21 01 96
        fd 03 2c 01 09
        fd 03 30 02 01 00
        fd 03 40 01 01
        50 07 05 05 07 03 08 01 41");
    let lp = LpPacket::decode(&wire).unwrap();
    assert_eq!((lp.sequence, lp.frag_index, lp.frag_count), (Some(7), Some(0), Some(1)));
    assert!(!lp.is_fragmented());
    assert_eq!(lp.pit_token, Some(&[0xD0, 0xD1, 0xD2, 0xD3][..]));
    assert_eq!(lp.nack, Some(NackReason::NO_ROUTE));
    assert_eq!((lp.next_hop_face_id, lp.incoming_face_id), (Some(256), Some(9)));
    assert_eq!(lp.congestion_mark, Some(1));
    assert!(matches!(Packet::decode(lp.fragment.unwrap()), Ok(Packet::Interest(_))));
    let mut built = Vec::new();
    lp.encode(&mut built);
    assert_eq!(built, wire);
}

#[test]
fn link_packets_with_the_later_fields() {
    let wire = hex("64 51
        51 08 00 00 00 00 00 00 00 07
        fd 03 34 05 fd 03 35 01 01
        fd 03 44 08 00 00 00 00 00 00 00 09
        fd 03 44 08 ff ff ff ff ff ff ff ff
        fd 03 48 08 00 00 00 00 00 00 01 00
        fd 03 4c 00
        fd 03 50 09 06 07 07 00 16 03 1b 01 00
        50 07 05 05 07 03 08 01 41");
    let lp = LpPacket::decode(&wire).unwrap();
    assert_eq!(lp.cache_policy, Some(CachePolicy::NO_CACHE));
    assert_eq!(lp.acks.into_iter().collect::<Vec<_>>(), [9, u64::MAX]);
    assert_eq!(lp.acks, Acks::new(&[9, u64::MAX]));
    assert_eq!(lp.tx_sequence, Some(256));
    assert!(lp.non_discovery);
    assert_eq!(lp.prefix_announcement, Some(&hex("06 07 07 00 16 03 1b 01 00")[..]));
    let mut built = Vec::new();
    lp.encode(&mut built);
    assert_eq!(built, wire);

    // Only Acks may be repeated; fields must be in the order of their numbers.
    let ack = "fd 03 44 08 00 00 00 00 00 00 00 09";
    let tx = "fd 03 48 08 00 00 00 00 00 00 00 01";
    let decode = |parts: &[&str]| {
        let wire = around(0x64, parts);
        LpPacket::decode(&wire).map(|lp| lp.acks.into_iter().count())
    };
    assert_eq!(decode(&[ack, ack, tx]), Ok(2));
    assert_eq!(decode(&[ack, tx, ack]), Err(DecodeError::OutOfOrder { inside: 0x64, typ: 0x344 }));
    assert_eq!(decode(&[tx, tx]), Err(DecodeError::Repeated { inside: 0x64, typ: 0x348 }));
    let discovery = "fd 03 4c 00";
    let twice = Err(DecodeError::Repeated { inside: 0x64, typ: 0x34C });
    assert_eq!(decode(&[discovery, discovery]), twice);
    assert_eq!(decode(&["fd 03 44 01 09"]), Err(DecodeError::BadLength { typ: 0x344, len: 1 }));
    assert_eq!(decode(&["fd 03 4c 01 00"]), Err(DecodeError::BadLength { typ: 0x34C, len: 1 }));
    let missing = Err(DecodeError::Missing { inside: 0x334, typ: 0x335 });
    assert_eq!(decode(&["fd 03 34 00"]), missing);
    let unknown = DecodeError::UnknownCritical { inside: 0x334, typ: 0x337 };
    assert_eq!(decode(&["fd 03 34 09 fd 03 35 01 01 fd 03 37 00"]), Err(unknown));
}

#[test]
fn link_packets_that_differ() {
    let decode = |parts: &[&str]| {
        let wire = around(0x64, parts);
        LpPacket::decode(&wire).map(|lp| (lp.nack, lp.fragment.map(<[u8]>::len)))
    };
    let inside = 0x64;
    let fragment = "50 01 aa";
    assert_eq!(decode(&[]), Ok((None, None)));
    assert_eq!(decode(&["fd 03 20 00", fragment]), Ok((Some(NackReason::NONE), Some(1))));
    // Unknown: 800..=959 and divisible by four may be skipped.
    assert_eq!(decode(&["fd 03 54 00", fragment]), Ok((None, Some(1))));
    for (field, typ) in [("fd 03 55 00", 0x355), ("54 00", 0x54), ("fd 03 c0 00", 960)] {
        let fault = DecodeError::UnknownCritical { inside, typ };
        assert_eq!(decode(&[field, fragment]), Err(fault));
    }
    assert_eq!(decode(&[fragment, "52 01 00"]), Err(DecodeError::OutOfOrder { inside, typ: 0x52 }));
    assert_eq!(decode(&[fragment, fragment]), Err(DecodeError::OutOfOrder { inside, typ: 0x50 }));
    let repeated = Err(DecodeError::Repeated { inside, typ: 0x52 });
    assert_eq!(decode(&["52 01 00 52 01 00"]), repeated);
    assert_eq!(decode(&["62 00"]), Err(DecodeError::BadLength { typ: 0x62, len: 0 }));
    let token = format!("62 21 {}", "00".repeat(33));
    assert_eq!(decode(&[&token]), Err(DecodeError::BadLength { typ: 0x62, len: 33 }));
    assert_eq!(decode(&["51 01 00"]), Err(DecodeError::BadLength { typ: 0x51, len: 1 }));
    let many = around(0x64, &["53 01 02", fragment]);
    assert!(LpPacket::decode(&many).unwrap().is_fragmented());
}

#[test]
fn ends_of_packets_in_a_stream() {
    let wire = hex(DATA);
    for cut in 0..wire.len() {
        assert_eq!(frame_len(&wire[..cut]), Ok(None), "{cut} bytes");
    }
    assert_eq!(frame_len(&wire), Ok(Some(wire.len())));
    assert_eq!(frame_len(&[&wire[..], &[5]].concat()), Ok(Some(wire.len())));
    assert_eq!(frame_len(&[0x15]), Err(DecodeError::NotAPacket(0x15)));
    assert_eq!(frame_len(&[0]), Err(DecodeError::TypeNumber(0)));
    assert_eq!(frame_len(&hex("06 fd 00 01")), Err(DecodeError::NotShortest));
    assert_eq!(frame_len(&hex("06 ff ffffffffffffffff")), Err(DecodeError::TooLong(u64::MAX)));
    let limit = (MAX_FRAME - 4) as u16;
    let header = |len: u16| [&[0x64, 253], &len.to_be_bytes()[..]].concat();
    assert_eq!(frame_len(&header(limit)), Ok(None));
    assert_eq!(frame_len(&header(limit + 1)), Err(DecodeError::TooLong(MAX_FRAME as u64 + 1)));
}

#[test]
fn packets_over_the_limit_are_neither_built_nor_read() {
    let name = name("/A");
    let mut out = b"before".to_vec();
    let build = |out: &mut Vec<u8>, len: usize| {
        DataBuilder::new(name.as_ref()).encode(out, &vec![0; len], |_, value| value.push(1))
    };
    // Name 5, SignatureInfo 5, SignatureValue 3, Content 4 + n, outer 4.
    let most = MAX_PACKET - 21;
    build(&mut out, most).unwrap();
    assert_eq!(out.len(), 6 + MAX_PACKET);
    assert!(Data::decode(&out[6..]).is_ok());
    out.truncate(6);
    for len in [most + 1, most + 2, most + 3, 10_000, 100_000] {
        assert!(matches!(build(&mut out, len), Err(EncodeError::TooLong(_))), "{len}");
        assert_eq!(out, b"before");
    }
    let mut long = around(6, &[NAME_A]);
    long.resize(MAX_PACKET + 1, 0);
    assert_eq!(Data::decode(&long).err(), Some(DecodeError::TooLong(MAX_PACKET as u64 + 1)));

    let wide = Name::new().child(Component::generic(&[0; 9000]));
    let mut out = Vec::new();
    let refused = InterestBuilder::new(wide.as_ref()).encode(&mut out);
    assert!(matches!(refused, Err(EncodeError::TooLong(_))));
    let refused = InterestBuilder::new(NameRef::default()).encode(&mut out);
    assert_eq!(refused, Err(EncodeError::EmptyName));
    assert!(out.is_empty());
}

#[test]
fn a_content_that_fails_leaves_no_trace() {
    let mut out = b"before".to_vec();
    let name = name("/A");
    let result = DataBuilder::new(name.as_ref()).encode_with(
        &mut out,
        100,
        |_| Err("disk"),
        |_, _| panic!("nothing to sign"),
        32,
    );
    assert_eq!(result, Err(EncodeError::Content("disk")));
    assert_eq!(out, b"before");
}

#[test]
fn names_in_parts() {
    let full = name("/a/b/v=3/seg=1");
    assert_eq!(full.len(), 4);
    assert_eq!(full.prefix(2), name("/a/b"));
    assert_eq!(full.prefix(0), Name::new());
    assert_eq!(full.prefix(9), full.as_ref());
    assert_eq!(full.as_ref().parent(), name("/a/b/v=3"));
    assert_eq!(full.get(3), Some(Component::segment(1)));
    assert_eq!(full.get(4), None);
    assert_eq!(full.as_ref().last(), Some(Component::segment(1)));
    assert!(name("/a/b").is_prefix_of(full.as_ref()));
    assert!(full.is_prefix_of(full.as_ref()));
    assert!(!name("/a/c").is_prefix_of(full.as_ref()));
    assert!(!full.is_prefix_of(name("/a/b").as_ref()));
    // Bytes that are a prefix of a component do not make the name a prefix.
    assert!(!name("/a/b").is_prefix_of(name("/a/bc").as_ref()));
    let rest = full.as_ref().strip_prefix(name("/a/b").as_ref()).unwrap();
    assert_eq!((rest.len(), rest.to_string()), (2, "/v=3/seg=1".into()));
    assert!(full.as_ref().strip_prefix(name("/b").as_ref()).is_none());
    assert_eq!(full.prefix(1), name("/a"));
    let mut wire = Vec::new();
    full.encode(&mut wire);
    assert_eq!(wire.len(), full.encoded_len());
    assert_eq!(NameRef::decode(&wire).unwrap(), full);
    assert_eq!(full.iter().collect::<Name>(), full);
    let mut map = std::collections::HashMap::new();
    map.insert(full.clone(), 1);
    assert_eq!(map.get(full.as_ref().value()), Some(&1));
}
