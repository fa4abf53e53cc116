//! The elements of packets.

use xylem_capture::{TlvValue, dissect};
use xylem_packet::{
    Component, DataBuilder, DecodeError, LpPacket, NackReason, Name, SignatureType,
};

/// Each element as `depth offset type name length`.
fn outline(bytes: &[u8]) -> Vec<String> {
    let found = dissect(bytes);
    assert_eq!(found.faults, []);
    let line = |element: &xylem_capture::TlvElement<'_>| {
        let name = element.name.unwrap_or("?");
        format!("{} {} {} {name} {}", element.depth, element.offset, element.typ, element.len)
    };
    found.elements.iter().map(line).collect()
}

#[test]
fn a_packet_within_link_headers_is_opened() {
    let interest = b"\x05\x08\x07\x03\x08\x01a\x22\x01\x03";
    let lp = LpPacket {
        nack: Some(NackReason::NO_ROUTE),
        fragment: Some(interest),
        ..LpPacket::default()
    };
    let mut wire = Vec::new();
    lp.encode(&mut wire);
    let wanted = [
        "0 0 100 LpPacket 21",
        "1 2 800 Nack 5",
        "2 6 801 NackReason 1",
        "1 11 80 Fragment 10",
        "2 13 5 Interest 8",
        "3 15 7 Name 3",
        "4 17 8 GenericNameComponent 1",
        "3 20 34 HopLimit 1",
    ];
    assert_eq!(outline(&wire), wanted);
    let found = dissect(&wire);
    assert_eq!(found.elements[2].value, TlvValue::Assigned(150, "NoRoute"));
    assert_eq!(found.elements[7].value, TlvValue::Number(3));
}

#[test]
fn a_piece_of_a_packet_is_not_opened() {
    let lp = LpPacket {
        sequence: Some(1),
        frag_index: Some(1),
        frag_count: Some(2),
        fragment: Some(b"\x06\x50 the middle of a packet"),
        ..LpPacket::default()
    };
    let mut wire = Vec::new();
    lp.encode(&mut wire);
    assert!(outline(&wire).iter().any(|line| line.ends_with("FragCount 1")));
    assert!(matches!(dissect(&wire).elements.last().unwrap().value, TlvValue::Octets(_)));
}

#[test]
fn values_are_read_as_their_types_demand() {
    let name = Name::from_uri("/a").unwrap().child(Component::segment(7));
    let mut wire = Vec::new();
    DataBuilder::new(name.as_ref())
        .freshness_ms(1_000)
        .final_block_id(Component::segment(9))
        .signature(SignatureType::DIGEST_SHA256, None)
        .encode(&mut wire, b"hello", |_, value| value.extend([0; 32]))
        .unwrap();
    let found = dissect(&wire);
    let value = |name: &str| {
        let is_it = |element: &&xylem_capture::TlvElement<'_>| element.name == Some(name);
        found.elements.iter().find(is_it).unwrap_or_else(|| panic!("{name}")).value.clone()
    };
    assert!(matches!(value("Name"), TlvValue::Name(read) if read == name.as_ref()));
    assert_eq!(value("SegmentNameComponent"), TlvValue::Component(Component::segment(7)));
    assert_eq!(value("FreshnessPeriod"), TlvValue::Number(1_000));
    assert_eq!(value("FinalBlockId"), TlvValue::Elements);
    assert_eq!(value("SignatureType"), TlvValue::Assigned(0, "DigestSha256"));
    assert_eq!(value("Content"), TlvValue::Octets(b"hello"));
}

#[test]
fn damage_is_reported_and_the_rest_is_listed() {
    // The second component claims more octets than the name has.
    let wire = b"\x05\x09\x07\x04\x08\x01a\x08\x22\x01\x03";
    let found = dissect(wire);
    let [fault] = &found.faults[..] else { panic!("{found:?}") };
    assert_eq!((fault.offset, &fault.error), (7, &DecodeError::Truncated));
    assert_eq!(found.elements.last().unwrap().name, Some("HopLimit"));
    // Behind a whole packet.
    let found = dissect(b"\x05\x05\x07\x03\x08\x01a\x05");
    assert_eq!((found.faults[0].offset, found.elements.len()), (7, 3));
}

#[test]
fn depth_is_bounded() {
    let mut wire = b"\x05\x05\x07\x03\x08\x01a".to_vec();
    for _ in 0..2_000 {
        let lp = LpPacket { fragment: Some(&wire), ..LpPacket::default() };
        let mut outer = Vec::new();
        lp.encode(&mut outer);
        if outer.len() > xylem_packet::MAX_FRAME {
            break;
        }
        wire = outer;
    }
    let found = dissect(&wire);
    assert!(found.elements.len() < 20, "{}", found.elements.len());
    assert_eq!(found.faults.len(), 1);
}
