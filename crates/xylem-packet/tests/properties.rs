//! Properties of every packet and of every sequence of bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use xylem_packet::{
    Acks, CachePolicy, Component, ContentType, Data, DataBuilder, Interest, InterestBuilder,
    KeyLocator, LpPacket, NackReason, Name, NameRef, Packet, SignatureType, frame_len,
};

fn component() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let typ = prop_oneof![
        Just(8u32),
        Just(32),
        Just(50),
        Just(52),
        Just(54),
        Just(56),
        Just(58),
        3u32..=65535
    ];
    let digest = (1u32..=2, vec(any::<u8>(), 32));
    let periods = (Just(8u32), (0usize..5).prop_map(|n| vec![b'.'; n]));
    prop_oneof![8 => (typ, vec(any::<u8>(), 0..12)), 1 => digest, 1 => periods]
}

fn parts() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
    vec(component(), 0..8)
}

fn name_of(parts: &[(u32, Vec<u8>)]) -> Name {
    parts
        .iter()
        .map(|(typ, value)| Component::new(*typ, value).expect("a valid component"))
        .collect()
}

fn name() -> impl Strategy<Value = Name> {
    parts().prop_map(|parts| name_of(&parts))
}

/// Calls every accessor: none may panic on a packet that `decode` accepted.
fn use_all(wire: &[u8]) {
    let _ = frame_len(wire);
    match Packet::decode(wire) {
        Ok(Packet::Interest(i)) => {
            assert!(!i.name().is_empty());
            let _ = (i.forwarding_hint().count(), i.app_parameters(), i.lifetime_ms());
            assert_eq!(i.hop_limit(), i.hop_limit_offset().map(|at| wire[at]));
            assert_eq!(
                i.nonce().as_ref().map(|n| &n[..]),
                i.nonce_offset().map(|at| &wire[at..at + 4])
            );
            let _ = i.signature().map(|s| s.signed_portions.concat());
            let _ = Name::from_uri(&i.name().to_string()).expect("our own URI");
        }
        Ok(Packet::Data(d)) => {
            assert_eq!(&wire[d.content_range()], d.content());
            assert_eq!(&wire[d.name_range()], d.name().value());
            let _ = (d.meta(), d.signature_info(), d.signature_value(), d.signed_portion());
            assert_eq!(d.name().iter().count(), d.name().len());
        }
        Ok(Packet::Lp(lp)) => {
            if let Some(fragment) = lp.fragment {
                use_all(fragment);
            }
        }
        Err(_) => {}
    }
}

fn a_data(name: &Name, content: &[u8], key: &Name, signature: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    DataBuilder::new(name.as_ref())
        .freshness_ms(1000)
        .final_block_id(Component::segment(77))
        .signature(SignatureType::BLAKE3_MERKLE, KeyLocator::Name(key.as_ref()))
        .encode(&mut out, content, |_, value| value.extend_from_slice(signature))
        .expect("small enough");
    out
}

fn an_interest(name: &Name) -> Vec<u8> {
    let mut out = Vec::new();
    InterestBuilder::new(name.as_ref())
        .can_be_prefix(true)
        .nonce([9; 4])
        .hop_limit(3)
        .encode_with_parameters(&mut out, b"parameters")
        .or_else(|_| {
            InterestBuilder::new(Name::new().child(Component::generic(b"a")).as_ref())
                .encode(&mut out)
        })
        .expect("small enough");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn names_survive_their_uri_and_their_wire(name in name()) {
        prop_assert_eq!(&Name::from_uri(&name.to_string()).unwrap(), &name);
        let mut wire = Vec::new();
        name.encode(&mut wire);
        prop_assert_eq!(NameRef::decode(&wire).unwrap(), name.as_ref());
        for n in 0..=name.len() {
            let prefix = name.prefix(n);
            prop_assert!(prefix.is_prefix_of(name.as_ref()));
            prop_assert_eq!(prefix.len(), n);
            let rest = name.as_ref().strip_prefix(prefix).unwrap();
            prop_assert_eq!(rest.len(), name.len() - n);
            let joined: Name = prefix.iter().chain(rest).collect();
            prop_assert_eq!(&joined, &name);
        }
    }

    /// Comparing bytes equals comparing components one by one; so does the prefix test.
    #[test]
    fn byte_order_is_canonical_order(a in parts(), b in parts()) {
        let key = |parts: &[(u32, Vec<u8>)]| -> Vec<(u32, usize, Vec<u8>)> {
            parts.iter().map(|(typ, value)| (*typ, value.len(), value.clone())).collect()
        };
        let (name_a, name_b) = (name_of(&a), name_of(&b));
        prop_assert_eq!(name_a.cmp(&name_b), key(&a).cmp(&key(&b)));
        prop_assert_eq!(name_a.iter().cmp(name_b.iter()), key(&a).cmp(&key(&b)));
        prop_assert_eq!(name_a.is_prefix_of(name_b.as_ref()), b.starts_with(&a));
    }

    #[test]
    fn values_of_every_length_keep_the_order(a in 0usize..600, b in 0usize..600) {
        let (va, vb) = (vec![1; a], vec![1; b]);
        let name = |v: &[u8]| Name::new().child(Component::generic(v));
        prop_assert_eq!(name(&va).cmp(&name(&vb)), a.cmp(&b));
    }

    #[test]
    fn interests_round_trip(
        name in name(),
        flags in any::<(bool, bool)>(),
        hint in vec(name(), 0..3),
        nonce in any::<Option<[u8; 4]>>(),
        lifetime in any::<Option<u64>>(),
        hops in any::<Option<u8>>(),
    ) {
        prop_assume!(!name.is_empty());
        let hints: Vec<NameRef<'_>> = hint.iter().map(Name::as_ref).collect();
        let mut builder = InterestBuilder::new(name.as_ref())
            .can_be_prefix(flags.0)
            .must_be_fresh(flags.1)
            .forwarding_hint(&hints);
        if let Some(nonce) = nonce { builder = builder.nonce(nonce); }
        if let Some(ms) = lifetime { builder = builder.lifetime_ms(ms); }
        if let Some(hops) = hops { builder = builder.hop_limit(hops); }
        let mut wire = b"x".to_vec();
        builder.encode(&mut wire).unwrap();
        let interest = Interest::decode(&wire[1..]).unwrap();
        prop_assert_eq!(interest.name(), name.as_ref());
        prop_assert_eq!((interest.can_be_prefix(), interest.must_be_fresh()), flags);
        prop_assert_eq!(interest.forwarding_hint().collect::<Vec<_>>(), hints);
        prop_assert_eq!(interest.nonce(), nonce);
        prop_assert_eq!(interest.lifetime_ms(), lifetime.unwrap_or(4000));
        prop_assert_eq!(interest.hop_limit(), hops);
    }

    #[test]
    fn data_round_trips(
        name in name(),
        key in name(),
        digest in vec(any::<u8>(), 0..300),
        content in vec(any::<u8>(), 0..600),
        signature in vec(any::<u8>(), 0..600),
        meta in any::<(u64, u64, Option<u64>)>(),
        typ in any::<u64>(),
        by_name in any::<bool>(),
    ) {
        let locator = if by_name { KeyLocator::Name(key.as_ref()) } else { KeyLocator::Digest(&digest) };
        let mut builder = DataBuilder::new(name.as_ref())
            .content_type(ContentType(meta.0))
            .freshness_ms(meta.1)
            .signature(SignatureType(typ), locator);
        if let Some(n) = meta.2 { builder = builder.final_block_id(Component::segment(n)); }
        let mut signed = Vec::new();
        let mut wire = b"x".to_vec();
        builder.encode(&mut wire, &content, |portion, value| {
            signed = portion.to_vec();
            value.extend_from_slice(&signature);
        }).unwrap();
        let data = Data::decode(&wire[1..]).unwrap();
        prop_assert_eq!(data.name(), name.as_ref());
        prop_assert_eq!(data.meta().content_type, ContentType(meta.0));
        prop_assert_eq!(data.meta().freshness_ms, meta.1);
        prop_assert_eq!(data.meta().final_block_id, meta.2.map(Component::segment));
        prop_assert_eq!(data.content(), content);
        prop_assert_eq!(data.signature_info().typ, SignatureType(typ));
        prop_assert_eq!(data.signature_info().key_locator, Some(locator));
        prop_assert_eq!(data.signature_value(), signature);
        prop_assert_eq!(data.signed_portion(), signed);
    }

    #[test]
    fn link_packets_round_trip(
        fragment in proptest::option::of(vec(any::<u8>(), 0..400)),
        token in proptest::option::of(vec(any::<u8>(), 1..=32)),
        fragmentation in any::<(Option<u64>, Option<u64>, Option<u64>)>(),
        nack in any::<Option<u64>>(),
        rest in any::<(Option<u64>, Option<u64>, Option<u64>)>(),
        acks in vec(any::<u64>(), 0..5),
        later in any::<(Option<u64>, Option<u64>, bool)>(),
        announcement in proptest::option::of(vec(any::<u8>(), 0..40)),
    ) {
        let lp = LpPacket {
            fragment: fragment.as_deref(),
            sequence: fragmentation.0,
            frag_index: fragmentation.1,
            frag_count: fragmentation.2,
            pit_token: token.as_deref(),
            nack: nack.map(NackReason),
            next_hop_face_id: rest.0,
            incoming_face_id: rest.1,
            congestion_mark: rest.2,
            cache_policy: later.0.map(CachePolicy),
            acks: Acks::new(&acks),
            tx_sequence: later.1,
            non_discovery: later.2,
            prefix_announcement: announcement.as_deref(),
        };
        let mut wire = Vec::new();
        lp.encode(&mut wire);
        prop_assert_eq!(LpPacket::decode(&wire).unwrap(), lp);
    }

    #[test]
    fn random_bytes_never_panic(mut wire in vec(any::<u8>(), 0..200), typ in 0usize..4) {
        use_all(&wire);
        // Most random bytes fail at once, so these are made to get as far as the value.
        let typ = [5u8, 6, 0x64, 7][typ];
        let len = wire.len() as u8;
        wire.splice(0..0, [typ, len]);
        use_all(&wire);
    }

    #[test]
    fn changed_packets_never_panic(
        name in name(),
        which in 0usize..3,
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6),
    ) {
        let data = a_data(&name, b"content", &name, &[1; 40]);
        let interest = an_interest(&name);
        let mut lp = Vec::new();
        LpPacket { fragment: Some(&interest), pit_token: Some(&[1]), ..Default::default() }.encode(&mut lp);
        let mut wire = [data, interest, lp][which].clone();
        use_all(&wire);
        for (at, byte, how) in changes {
            let at = at.index(wire.len());
            match how {
                0 => wire[at] = byte,
                1 => wire.insert(at, byte),
                _ => { wire.remove(at); }
            }
            if wire.is_empty() { break; }
            use_all(&wire);
        }
    }

    /// A complete packet is found wherever the stream is split.
    #[test]
    fn streams_split_into_their_packets(names in vec(name(), 1..4), cut in any::<prop::sample::Index>()) {
        let packets: Vec<Vec<u8>> = names.iter().map(|n| a_data(n, b"c", n, &[])).collect();
        let stream = packets.concat();
        let cut = cut.index(stream.len() + 1);
        let (mut rest, mut found) = (&stream[..cut], 0);
        while let Some(len) = frame_len(rest).unwrap() {
            prop_assert_eq!(&rest[..len], &packets[found][..]);
            rest = &rest[len..];
            found += 1;
        }
        let whole: usize = packets[..found].iter().map(Vec::len).sum();
        prop_assert_eq!(whole + rest.len(), cut);
        prop_assert!(found == packets.len() || rest.len() < packets[found].len());
    }
}
