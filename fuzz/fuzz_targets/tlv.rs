//! Any bytes as a packet: decoding and every accessor must not panic, and a decoded packet must survive being built
//! again.
#![no_main]

use xylem_packet::{
    DataBuilder, Interest, InterestBuilder, LpPacket, Name, NameRef, Packet, frame_len,
};

libfuzzer_sys::fuzz_target!(|wire: &[u8]| {
    let _ = NameRef::from_value(wire);
    if let Ok(Some(len)) = frame_len(wire) {
        assert!(len <= wire.len());
    }
    match std::str::from_utf8(wire).map(Name::from_uri) {
        Ok(Ok(name)) => assert_eq!(Name::from_uri(&name.to_string()), Ok(name)),
        _ => {}
    }
    look_into(wire);
    // The fuzzer finds no digests, so the digest of parameters is not checked here.
    let _ = Interest::decode_with(wire, |_| [0; 32]);
});

fn look_into(wire: &[u8]) {
    let mut again = Vec::new();
    match Packet::decode(wire) {
        Ok(Packet::Interest(interest)) => {
            let hint: Vec<NameRef<'_>> = interest.forwarding_hint().collect();
            let mut builder = InterestBuilder::new(interest.name())
                .can_be_prefix(interest.can_be_prefix())
                .must_be_fresh(interest.must_be_fresh())
                .forwarding_hint(&hint)
                .lifetime_ms(interest.lifetime_ms());
            if let Some(nonce) = interest.nonce() {
                builder = builder.nonce(nonce);
            }
            if let Some(hops) = interest.hop_limit() {
                builder = builder.hop_limit(hops);
            }
            let _ = interest.signature().map(|s| s.signed_portions.concat());
            if builder.encode(&mut again).is_ok() {
                let read = Interest::decode(&again).expect("what was built");
                assert_eq!(read.name(), interest.name());
                assert_eq!(read.nonce(), interest.nonce());
                assert_eq!(read.lifetime_ms(), interest.lifetime_ms());
                assert!(read.forwarding_hint().eq(interest.forwarding_hint()));
            }
        }
        Ok(Packet::Data(data)) => {
            assert_eq!(&wire[data.content_range()], data.content());
            let mut builder = DataBuilder::new(data.name())
                .content_type(data.meta().content_type)
                .freshness_ms(data.meta().freshness_ms)
                .signature_info(data.signature_info());
            if let Some(component) = data.meta().final_block_id {
                builder = builder.final_block_id(component);
            }
            let value = data.signature_value();
            let built =
                builder.encode(&mut again, data.content(), |_, out| out.extend_from_slice(value));
            if built.is_ok() {
                let Ok(Packet::Data(read)) = Packet::decode(&again) else {
                    panic!("what was built")
                };
                assert_eq!(read.name(), data.name());
                assert_eq!(read.meta(), data.meta());
                assert_eq!(read.content(), data.content());
                assert_eq!(read.signature_info(), data.signature_info());
                assert_eq!(read.signature_value(), data.signature_value());
            }
        }
        Ok(Packet::Lp(lp)) => {
            lp.encode(&mut again);
            if again.len() <= wire.len() {
                assert_eq!(LpPacket::decode(&again), Ok(lp));
            }
            if let Some(fragment) = lp.fragment {
                look_into(fragment);
            }
        }
        Err(_) => {}
    }
}
