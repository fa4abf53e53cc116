//! Bytes that no honest sender sends: each fault is named, and nothing panics.

use xylem_packet::link_service::{LinkService, LinkServiceConfig};
use xylem_packet::tlv::{TlvReader, write_element, write_var_number};
use xylem_packet::{
    Acks, Component, Data, DataBuilder, DecodeError, Interest, InterestBuilder, KeyLocator,
    LpPacket, MAX_FRAME, MAX_PACKET, NackReason, Name, NameRef, Packet, SignatureInfo,
    SignatureType, frame_len,
};

fn around(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_element(&mut out, typ, value);
    out
}

/// Passes `wire` to every decoder and accessor, and to a link service.
fn take_in(wire: &[u8]) {
    let _ = frame_len(wire);
    let _ = NameRef::decode(wire).map(|name| name.to_string());
    if let Ok(name) = NameRef::from_value(wire) {
        assert_eq!(name.iter().count(), name.len());
    }
    let _ = Interest::decode_with(wire, |_| [0; 32]).map(|interest| {
        let _ = (interest.forwarding_hint().count(), interest.signature());
        (interest.nonce(), interest.nonce_offset(), interest.hop_limit_offset())
    });
    match Packet::decode(wire) {
        Ok(Packet::Interest(interest)) => assert!(!interest.name().is_empty()),
        Ok(Packet::Data(data)) => {
            assert_eq!(&wire[data.content_range()], data.content());
            let _ = data.delegations().map(Iterator::count);
        }
        Ok(Packet::Lp(lp)) => {
            assert!(lp.acks.into_iter().count() <= wire.len() / 12);
        }
        Err(_) => {}
    }
    let config = LinkServiceConfig { reliability: true, ..LinkServiceConfig::default() };
    let mut service = LinkService::new(config);
    let _ = service.receive(Default::default(), wire).map(|received| received.is_some());
}

/// One packet of each kind, with all of its elements.
fn good_packets() -> Vec<Vec<u8>> {
    let name: Name = "/xylem/a%00b/32=metadata/v=7/seg=300".parse().unwrap();
    let key: Name = "/xylem/KEY/1".parse().unwrap();
    let mut data = Vec::new();
    DataBuilder::new(name.as_ref())
        .freshness_ms(1000)
        .final_block_id(Component::segment(300))
        .signature(SignatureType::ED25519, KeyLocator::Name(key.as_ref()))
        .encode(&mut data, b"the content", |_, value| value.extend_from_slice(&[7; 64]))
        .unwrap();
    let mut info = SignatureInfo::new(SignatureType::HMAC, Some(KeyLocator::Digest(&[1; 32])));
    info.nonce = Some(&[2; 8]);
    info.time_ms = Some(1 << 40);
    info.sequence = Some(5);
    let mut interest = Vec::new();
    InterestBuilder::new(name.as_ref())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .forwarding_hint(&[key.as_ref(), name.as_ref()])
        .nonce([1, 2, 3, 4])
        .lifetime_ms(2000)
        .hop_limit(9)
        .encode_signed(&mut interest, b"parameters", &info, |_, value| {
            value.extend_from_slice(&[3; 32]);
        })
        .unwrap();
    let mut whole = Vec::new();
    LpPacket {
        fragment: Some(&interest),
        pit_token: Some(&[9; 8]),
        nack: Some(NackReason::NO_ROUTE),
        congestion_mark: Some(1),
        acks: Acks::new(&[1, 2, 3]),
        tx_sequence: Some(77),
        ..LpPacket::default()
    }
    .encode(&mut whole);
    let mut fragment = Vec::new();
    LpPacket {
        fragment: Some(&data[..100]),
        sequence: Some(5),
        frag_index: Some(1),
        frag_count: Some(3),
        ..LpPacket::default()
    }
    .encode(&mut fragment);
    vec![data, interest, whole, fragment]
}

#[test]
fn every_truncation() {
    for packet in good_packets() {
        Packet::decode(&packet).unwrap();
        for len in 0..packet.len() {
            take_in(&packet[..len]);
            assert!(Packet::decode(&packet[..len]).is_err(), "{len} of {} bytes", packet.len());
        }
    }
}

#[test]
fn every_bit_flip() {
    for mut packet in good_packets() {
        for bit in 0..packet.len() * 8 {
            packet[bit / 8] ^= 1 << (bit % 8);
            take_in(&packet);
            packet[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_byte_left_out_or_doubled() {
    for packet in good_packets() {
        for at in 0..packet.len() {
            let mut changed = packet.clone();
            changed.remove(at);
            take_in(&changed);
            changed = packet.clone();
            changed.insert(at, packet[at]);
            take_in(&changed);
        }
    }
}

#[test]
fn zeros() {
    for len in [1, 2, 100, MAX_PACKET, MAX_FRAME, 1 << 16] {
        let zeros = vec![0; len];
        take_in(&zeros);
        assert_eq!(Packet::decode(&zeros).err(), Some(DecodeError::TypeNumber(0)));
        assert_eq!(frame_len(&zeros), Err(DecodeError::TypeNumber(0)));
        for typ in [5, 6, 0x64] {
            let wrapped = around(typ, &zeros);
            take_in(&wrapped);
            assert!(Packet::decode(&wrapped).is_err());
        }
    }
}

#[test]
fn nesting() {
    // 64 KiB of Names in Names, of KeyLocators in a Data, of LpPackets in LpPackets. No decoder is recursive, so depth
    // costs nothing.
    for typ in [5, 6, 7, 0x14, 0x1C, 0x1E, 0x2C, 0x50, 0x64, 0x320] {
        let mut nested = Vec::new();
        while nested.len() < 1 << 16 {
            nested = around(typ, &nested);
        }
        take_in(&nested);
        assert!(Packet::decode(&nested).is_err());
        let mut shallow = around(typ, &[]);
        while shallow.len() < 8000 {
            shallow = around(typ, &shallow);
            take_in(&shallow);
            take_in(&around(0x64, &around(0x50, &shallow)));
        }
    }
    // A component of a Name may hold anything, including another Name's bytes.
    let inner = around(7, &around(8, b"a"));
    assert_eq!(NameRef::decode(&around(7, &inner)).unwrap().len(), 1);
}

#[test]
fn lengths_that_overflow() {
    let lengths = [
        &[253, 255, 255][..],
        &[254, 255, 255, 255, 255],
        &[255, 255, 255, 255, 255, 255, 255, 255, 255],
        &[255, 128, 0, 0, 0, 0, 0, 0, 0],
        &[255, 0, 0, 0, 1, 0, 0, 0, 0],
    ];
    for typ in [5, 6, 7, 8, 0x15, 0x1C, 0x50, 0x64] {
        for len in lengths {
            let element = [&[typ][..], len, &[0; 8]].concat();
            take_in(&element);
            assert_eq!(TlvReader::new(&element).next_element(), Err(DecodeError::Truncated));
            for outer in [5, 6, 7, 0x64] {
                let wire = around(outer, &element);
                take_in(&wire);
                assert!(Packet::decode(&wire).is_err(), "{typ} in {outer}");
            }
        }
    }
}

#[test]
fn numbers_in_longer_forms_than_needed() {
    let good = around(7, &around(8, b"A"));
    let interest = |name: &[u8]| Interest::decode(&around(5, name)).map(|i| i.name().len());
    assert_eq!(interest(&good), Ok(1));
    let not_shortest = Err(DecodeError::NotShortest);
    for (typ, len) in [
        (&[253, 0, 7][..], &[3][..]),
        (&[254, 0, 0, 0, 7], &[3]),
        (&[255, 0, 0, 0, 0, 0, 0, 0, 7], &[3]),
        (&[7], &[253, 0, 3]),
        (&[7], &[254, 0, 0, 0, 3]),
        (&[7], &[255, 0, 0, 0, 0, 0, 0, 0, 3]),
    ] {
        assert_eq!(interest(&[typ, len, b"\x08\x01A"].concat()), not_shortest);
    }
    // Also in a component's header: one name has one encoding.
    assert_eq!(interest(&around(7, &[253, 0, 8, 1, b'A'])), not_shortest);
    assert_eq!(interest(&around(7, &[8, 253, 0, 1, b'A'])), not_shortest);
    // The format allows numbers in values to be longer than needed.
    let lifetime = |value: &[u8]| {
        let wire = around(5, &[good.clone(), around(12, value)].concat());
        Interest::decode(&wire).map(|i| i.lifetime_ms())
    };
    assert_eq!(lifetime(&[0, 7]), Ok(7));
    assert_eq!(lifetime(&[0, 0, 0, 0, 0, 0, 0, 7]), Ok(7));
    assert_eq!(lifetime(&[0, 0, 7]), Err(DecodeError::BadLength { typ: 12, len: 3 }));
    // As components these are another name, and no number.
    let name = around(7, &around(50, &[0, 7]));
    assert_eq!(NameRef::decode(&name).unwrap().get(0).unwrap().as_number(), None);
}

#[test]
fn repeated_and_unknown_fields() {
    let name = around(7, &around(8, b"A"));
    let (info, value) = (around(0x16, &around(0x1B, &[0])), around(0x17, &[]));
    let data = |parts: &[&[u8]]| Data::decode(&around(6, &parts.concat())).map(|_| ());
    let (meta, content) = (around(0x14, &[]), around(0x15, b"c"));
    let parts = [&name[..], &meta, &content, &info, &value];
    for twice in 0..parts.len() {
        let mut repeated = parts.to_vec();
        repeated.insert(twice, parts[twice]);
        let typ = u32::from(parts[twice][0]);
        assert_eq!(data(&repeated), Err(DecodeError::Repeated { inside: 6, typ }));
    }
    for typ in 1..400 {
        let unknown = around(typ, &[]);
        if (5..=8).contains(&typ) || (0x14..=0x17).contains(&typ) {
            continue;
        }
        let result = data(&[&name, &unknown, &info, &value]);
        if typ <= 31 || typ % 2 == 1 {
            assert_eq!(result, Err(DecodeError::UnknownCritical { inside: 6, typ }));
        } else {
            assert_eq!(result, Ok(()), "{typ}");
        }
    }
    // Any number of ignorable fields is ignored.
    let many = around(0xF0, &[]).repeat(4000);
    assert_eq!(data(&[&name, &many, &info, &value]), Ok(()));
    let interest = around(5, &[&name[..], &many].concat());
    assert!(Interest::decode(&interest).is_ok());
    let mut acks = Vec::new();
    for n in 0..700_u64 {
        write_var_number(&mut acks, 0x344);
        acks.push(8);
        acks.extend_from_slice(&n.to_be_bytes());
    }
    let wire = around(0x64, &acks);
    assert_eq!(LpPacket::decode(&wire).unwrap().acks.into_iter().count(), 700);
    take_in(&wire);
}

#[test]
fn names_without_components_and_with_very_many() {
    let interest = |name: &[u8]| Interest::decode(&around(5, name)).map(|i| i.name().len());
    assert_eq!(interest(&around(7, &[])), Err(DecodeError::EmptyName));
    assert_eq!(interest(&[]), Err(DecodeError::Missing { inside: 5, typ: 7 }));
    let signed = [around(0x16, &around(0x1B, &[0])), around(0x17, &[])].concat();
    let data = around(6, &[around(7, &[]), signed].concat());
    assert_eq!(Data::decode(&data).unwrap().name().len(), 0);
    // Empty components: as many as fit.
    let many = around(7, &around(8, &[]).repeat(4390));
    assert_eq!(interest(&many), Ok(4390));
    let name = NameRef::decode(&many).unwrap();
    assert_eq!(name.prefix(4000).len(), 4000);
    assert_eq!(Name::from_uri(&name.to_string()).unwrap(), name);
}
