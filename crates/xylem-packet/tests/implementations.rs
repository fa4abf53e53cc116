//! Bytes and URIs from the test suites of other implementations: ndn-cxx (name, name-component, interest, data, link
//! and lp/packet) and NDNts (packet).

use xylem_packet::{
    Acks, Component, ContentType, Data, DataBuilder, DecodeError, Interest, InterestBuilder,
    KeyLocator, LpPacket, NackReason, Name, NameRef, SignatureInfo, SignatureType,
};

/// Parses hexadecimal text; spaces and parentheses are for readability.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn names_and_their_uris() {
    let digest = "0415e3624a151850ac686c84f155f29808c0dd73819aa4a4c20be73a4d8a874c";
    let uri = format!("/Emid/25042=P3/.../..../%1C%9F/sha256digest={digest}");
    let wire = hex(&format!("0737 0804456D6964 FD61D2025033 0800 08012E 08021C9F 0120 {digest}"));
    assert_eq!(NameRef::decode(&wire).unwrap(), name(&uri));
    assert_eq!(name(&uri).to_string(), uri);
    for (text, canonical) in [
        ("ndn:/hello/world", "/hello/world"),
        ("ndn://authority/hello/world", "/hello/world"),
        ("/ hello\t/\tworld \r\n", "/%20hello%09/%09world%20%0D%0A"),
        ("/hello/world/  ", "/hello/world/%20%20"),
        ("/hello/world/", "/hello/world"),
    ] {
        assert_eq!(name(text).to_string(), canonical);
    }
    for bad in ["/hello//world", "/hello/./world", "/hello/../world"] {
        assert!(Name::from_uri(bad).is_err(), "{bad}");
    }
}

#[test]
fn components_and_their_uris() {
    for (wire, uri, others) in [
        ("0807 6E646E2D637878", "ndn-cxx", &["8=ndn-cxx"][..]),
        ("0800", "...", &["8=...", ".%2E."]),
        ("0801 2E", "....", &["%2E..%2E"]),
        ("0803 2E412E", ".A.", &[]),
        ("0807 666F6F25626172", "foo%25bar", &["8=foo%25bar"]),
        ("0804 2D2E5F7E", "-._~", &[]),
        ("0803 393D41", "9%3DA", &[]),
        ("0807 3A2F3F235B5D40", "%3A%2F%3F%23%5B%5D%40", &[]),
        ("0907 6E646E2D637878", "9=ndn-cxx", &[]),
        ("FDFFFF00", "65535=...", &[]),
        ("FD576501 2E", "22373=....", &[]),
        ("3201 2A", "seg=42", &["50=%2A"]),
        ("3401 2A", "off=42", &["52=%2A"]),
        ("3601 2A", "v=42", &["54=%2A"]),
        ("3801 2A", "t=42", &["56=%2A"]),
        ("3A01 2A", "seq=42", &["58=%2A"]),
        ("3203 010203", "50=%01%02%03", &[]),
    ] {
        let value = hex(wire);
        let read = NameRef::from_value(&value).unwrap();
        assert_eq!(read.to_string(), format!("/{uri}"));
        for text in others.iter().chain([&uri]) {
            assert_eq!(read, name(&format!("/{text}")), "{text}");
        }
    }
    let digest = "28bad4b5275bd392dbb670c75cf0b66f13f7942b21e80f55c0e86b374753a548";
    let percent: String =
        hex(digest).iter().map(|octet| format!("%{octet:02X}")).collect::<Vec<_>>().concat();
    for (typ, word) in [(1, "sha256digest"), (2, "params-sha256")] {
        let value = hex(digest);
        let component = Component::new(typ, &value).unwrap();
        assert_eq!(component.to_string(), format!("{word}={digest}"));
        for text in [
            format!("/{word}={digest}"),
            format!("/{word}={}", digest.to_uppercase()),
            format!("/{typ}={percent}"),
        ] {
            assert_eq!(name(&text).get(0), Some(component), "{text}");
        }
        for bad in ["", "a791806951f25c4d", "foo"] {
            assert!(Name::from_uri(&format!("/{word}={bad}")).is_err());
        }
        assert!(Name::from_uri(&format!("/{}={digest}", word.to_uppercase())).is_err());
    }
    for word in ["seg", "off", "v", "t", "seq"] {
        for bad in ["", "foo", "00", "-1", "9.3", " 84", "0xAF", "18446744073709551616"] {
            assert!(Name::from_uri(&format!("/{word}={bad}")).is_err(), "{word}={bad}");
        }
        assert!(Name::from_uri(&format!("/{}=42", word.to_uppercase())).is_err());
    }
    for bad in [
        "",
        ".",
        "..",
        "3=",
        "3=.",
        "3=..",
        "0=A",
        "65536=A",
        "4294967296=A",
        "-1=A",
        "+=A",
        "=A",
        "0x1=A",
        "Z=A",
        "09=A",
        "0x3=A",
        "+9=A",
        " 9=A",
        "9 =A",
        "9.0=A",
        "9E0=A",
    ] {
        assert!(Name::from_uri(&format!("/x/{bad}/x")).is_err(), "{bad}");
    }
    let wide = hex("FE0001000001 80");
    assert_eq!(NameRef::from_value(&wide), Err(DecodeError::ComponentType(65536)));
}

#[test]
fn canonical_order() {
    let digests = ["00".repeat(32), format!("{}01", "00".repeat(31)), "FF".repeat(32)];
    let mut last = Vec::new();
    for word in ["sha256digest", "params-sha256"] {
        last.extend(digests.iter().map(|digest| format!("/{word}={digest}")));
    }
    last.extend(["/3=...", "/3=D", "/3=F", "/3=AA", "/...", "/D", "/F", "/AA"].map(String::from));
    last.extend(["/21426=...", "/21426=D", "/21426=F", "/21426=AA"].map(String::from));
    let mut names = vec![name("/")];
    for one in &last {
        names.push(name(one));
        if one == "/D" {
            // A name sorts before everything of which it is a prefix.
            names.extend(last.iter().map(|two| name(&format!("/D{two}"))));
        }
    }
    for (i, a) in names.iter().enumerate() {
        for (j, b) in names.iter().enumerate() {
            assert_eq!(a.cmp(b), i.cmp(&j), "{a} and {b}");
        }
    }
}

const PREFIX: &str = "0805 6c6f63616c 0803 6e646e 0806 707265666978";

#[test]
fn interests_of_ndn_cxx() {
    let wire = hex(&format!("051c 0714 {PREFIX} 0a04 01020304"));
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(interest.name(), name("/local/ndn/prefix"));
    assert_eq!(interest.nonce(), Some([1, 2, 3, 4]));
    let mut built = Vec::new();
    InterestBuilder::new(interest.name()).nonce([1, 2, 3, 4]).encode(&mut built).unwrap();
    assert_eq!(built, wire);

    let digest = "ff9100e04eaadcf30674d98026a051ba25f56b69bfa026dcccd72c6ea0f7315a";
    let wire = hex(&format!(
        "0556 0736 {PREFIX} 0220 {digest} 2100 1200 1e05 0703080148 0a04 4c1ecb4a 0c02 76a1
         2201 dc 2404 c0c1c2c3"
    ));
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!((interest.lifetime_ms(), interest.hop_limit()), (30369, Some(220)));
    let (plain, hint) = (name("/local/ndn/prefix"), name("/H"));
    let mut built = Vec::new();
    InterestBuilder::new(plain.as_ref())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .forwarding_hint(&[hint.as_ref()])
        .nonce([0x4c, 0x1e, 0xcb, 0x4a])
        .lifetime_ms(30369)
        .hop_limit(220)
        .encode_with_parameters(&mut built, &hex("c0c1c2c3"))
        .unwrap();
    assert_eq!(built, wire);
}

#[test]
fn signed_interests_of_ndn_cxx() {
    let digest = "6f29586053ee9fccd8a422122925287c0a18435f4074c40abb0d5b30e4aa6220";
    let value = "12471ae0f8723ac1156c370a38711ebebf2817de9b2dd94e9b7e62f117b876c1";
    let wire = hex(&format!(
        "0577 0736 {PREFIX} 0220 {digest} 1200 0a04 4c1ecb4a 2404 c0c1c2c3
         2c0d 1b0100 2608 0102030405060708 2e20 {value}"
    ));
    let signature = Interest::decode(&wire).unwrap().signature().unwrap();
    assert_eq!(signature.value, hex(value));
    // Their signature is made up, but their parameters digest, which covers it, is right.
    let plain = name("/local/ndn/prefix");
    let mut info = SignatureInfo::new(SignatureType::DIGEST_SHA256, None);
    info.nonce = Some(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let mut built = Vec::new();
    InterestBuilder::new(plain.as_ref())
        .must_be_fresh(true)
        .nonce([0x4c, 0x1e, 0xcb, 0x4a])
        .encode_signed(&mut built, &hex("c0c1c2c3"), &info, |portions, out| {
            assert_eq!(portions, signature.signed_portions);
            out.extend_from_slice(&hex(value));
        })
        .unwrap();
    assert_eq!(built, wire);

    // The application's own elements stand between and after the known ones.
    let digest = "bc3630a4d65e0db5483dfa0d28b3312fcac1d441ec8961d4175e61751778108e";
    let wire = hex(&format!(
        "058f 0736 {PREFIX} 0220 {digest} 1200 0a04 4c1ecb4a 2404 c0c1c2c3
         fd01fe08 1020304050607080 2c0d 1b0100 2608 0102030405060708 2e20 {value}
         fd020008 1122334455667788"
    ));
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(interest.app_parameters(), Some(&hex("c0c1c2c3")[..]));
    assert_eq!(interest.signature().unwrap().value, hex(value));
}

#[test]
fn interests_of_ndnts() {
    let wire = hex("0526 0703080142 2100 1200 1E0E 07050803464831 07050803464832 0A04 85AC8579
         0C02 2006 2201 05");
    let interest = Interest::decode(&wire).unwrap();
    let hints = [name("/FH1"), name("/FH2")];
    assert!(interest.forwarding_hint().eq(hints.iter().map(Name::as_ref)));
    assert_eq!((interest.lifetime_ms(), interest.hop_limit()), (8198, Some(5)));
    let mut built = Vec::new();
    InterestBuilder::new(interest.name())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .forwarding_hint(&[hints[0].as_ref(), hints[1].as_ref()])
        .nonce([0x85, 0xAC, 0x85, 0x79])
        .lifetime_ms(8198)
        .hop_limit(5)
        .encode(&mut built)
        .unwrap();
    assert_eq!(built, wire);
}

const DIGEST: &str = "1720612A79399E60304A9F701C1ECAC7956BF2F1B046E6C6F0D6C29B3FE3A29BAD76";

#[test]
fn data_of_ndn_cxx() {
    let decode = |text: &str| Data::decode(&hex(text)).map(|_| ());
    assert_eq!(decode(&format!("062C 0703(080144) 1603(1B0100) {DIGEST}")), Ok(()));
    assert_eq!(decode("0609 0700 1603(1B0100) 1700"), Ok(()), "an empty name is a name");
    let unknown =
        format!("063A 0703(080144) FC00 1400 FC00 1500 FC00 1603(1B0100) FC00 {DIGEST} FC00");
    assert_eq!(decode(&unknown), Ok(()));
    for bad in [
        format!("0630 1400 0703080145 1500 16031B0100 {DIGEST}"),
        format!("0630 0703080145 1500 1400 16031B0100 {DIGEST}"),
        format!("0630 0703080145 1400 16031B0100 1500 {DIGEST}"),
        format!("0630 0703080145 1400 1500 {DIGEST} 16031B0100"),
        format!("0652 0703080145 1400 1500 16031B0100 {DIGEST} {DIGEST}"),
        "0607 16031B0100 1700".into(),
        "4202CAFE".into(),
    ] {
        assert!(decode(&bad).is_err(), "{bad}");
    }
}

#[test]
fn a_link_object_of_ndn_cxx() {
    let signature = "5a".repeat(128);
    let wire = hex(&format!(
        "06d0 0714 {PREFIX} 1407 180101 19022710 1510 0707 08056c6f63616c 0705 08036e646e
         161b 1b0101 1c16 0714 080474657374 08036b6579 08076c6f6361746f72 1780 {signature}"
    ));
    let data = Data::decode(&wire).unwrap();
    let names = [name("/local"), name("/ndn")];
    assert!(data.delegations().unwrap().eq(names.iter().map(Name::as_ref)));

    let key = name("/test/key/locator");
    let mut content = Vec::new();
    names.iter().for_each(|name| name.encode(&mut content));
    let mut built = Vec::new();
    let link = |content_type| {
        DataBuilder::new(data.name())
            .content_type(content_type)
            .freshness_ms(10_000)
            .signature(SignatureType::RSA, KeyLocator::Name(key.as_ref()))
    };
    let sign = |_: &[u8], out: &mut Vec<u8>| out.extend_from_slice(&hex(&signature));
    link(ContentType::LINK).encode(&mut built, &content, sign).unwrap();
    assert_eq!(built, wire);

    let fault = |content_type, content: &[u8]| {
        let mut built = Vec::new();
        link(content_type).encode(&mut built, content, sign).unwrap();
        Data::decode(&built).unwrap().delegations().err()
    };
    assert_eq!(fault(ContentType::KEY, &content), Some(DecodeError::NotALink(2)));
    assert_eq!(fault(ContentType::LINK, b""), Some(DecodeError::Missing { inside: 21, typ: 7 }));
    // A delegation with a preference, as in earlier versions.
    let old = Some(DecodeError::WrongType { expected: 7, found: 31 });
    assert_eq!(fault(ContentType::LINK, &hex("1f08 1e010a 0703080141")), old);
    assert_eq!(fault(ContentType::LINK, &hex("0703 080241")), Some(DecodeError::Truncated));
}

#[test]
fn link_packets_of_ndn_cxx() {
    let encode = |lp: LpPacket<'_>| {
        let mut out = Vec::new();
        lp.encode(&mut out);
        out
    };
    let fragment = Some(&[0x03, 0xE8][..]);
    let sequence = LpPacket { fragment, sequence: Some(1000), ..LpPacket::default() };
    assert_eq!(encode(sequence), hex("640e 5108 00000000000003e8 5002 03e8"));
    let nack = LpPacket { nack: Some(NackReason::DUPLICATE), ..LpPacket::default() };
    assert_eq!(encode(nack), hex("6409 fd032005 fd032101 64"));
    let discovery = LpPacket { non_discovery: true, ..LpPacket::default() };
    assert_eq!(encode(discovery), hex("6404 fd034c00"));
    let sorted = LpPacket {
        fragment,
        frag_index: Some(0),
        frag_count: Some(1),
        acks: Acks::new(&[2, 4, 3]),
        ..LpPacket::default()
    };
    let wire = hex("642e 5201 00 5301 01 fd034408 0000000000000002 fd034408 0000000000000004
         fd034408 0000000000000003 5002 03e8");
    assert_eq!(encode(sorted), wire);
    for (good, expected) in [
        (wire, sorted),
        (hex("6404 5002 03e8"), LpPacket { fragment, ..LpPacket::default() }),
        (hex("6400"), LpPacket::default()),
        // Number 804 is unknown and may be skipped.
        (
            hex("640c 5201 00 fd032401 02 5002 03e8"),
            LpPacket { fragment, frag_index: Some(0), ..LpPacket::default() },
        ),
        (
            hex("640E 5108 A0A1A2A3A4A5A6A7 5002 03E8"),
            LpPacket { fragment, sequence: Some(0xA0A1_A2A3_A4A5_A6A7), ..LpPacket::default() },
        ),
    ] {
        assert_eq!(LpPacket::decode(&good), Ok(expected));
    }
    for (bad, what) in [
        ("6406 5201 00 5201 01", "repeated"),
        ("6408 5002 03e8 5002 03e9", "two fragments"),
        ("640a 5301 01 5201 00 5002 03e8", "headers out of order"),
        ("640a 5201 00 5002 03e8 5301 01", "a header after the fragment"),
        ("640c 5201 00 fd032201 02 5002 03e8", "802 may not be skipped"),
        ("640A 5104 A4A5A6A7 5002 FFFF", "a sequence has 8 octets"),
        ("0700", "no packet"),
    ] {
        assert!(LpPacket::decode(&hex(bad)).is_err(), "{what}");
    }
}
