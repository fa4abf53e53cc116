//! Builders that write into a slice give the same bytes as those that append to a vector, and return an error if there
//! is no room.

use proptest::collection::vec;
use proptest::prelude::*;
use xylem_packet::{
    Acks, Component, DataBuilder, EncodeError, FixedName, InterestBuilder, KeyLocator, LpPacket,
    MAX_PACKET, Name, SignatureInfo, SignatureType, sha256,
};

/// Calls `write` with every length of slice: `NoRoom` below the needed length, the same bytes from there on.
fn at_every_length(expected: &[u8], write: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) {
    let mut memory = vec![0xAA; expected.len() + 8];
    for room in 0..memory.len() {
        // A length field may move the value, which needs a little more room.
        let result = write(&mut memory[..room]);
        match result {
            Ok(len) => assert_eq!(&memory[..len], expected, "in {room} bytes"),
            Err(error) => {
                assert_eq!(error, EncodeError::NoRoom);
                assert!(room < expected.len() + 3, "{room} bytes are enough");
            }
        }
    }
    assert_eq!(write(&mut memory).unwrap(), expected.len());
}

fn name() -> impl Strategy<Value = Name> {
    vec(vec(any::<u8>(), 0..40), 1..5)
        .prop_map(|parts| parts.iter().map(|value| Component::generic(value)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn data(
        name in name(),
        key in name(),
        content in vec(any::<u8>(), 0..400),
        // Lengths that take one octet, and lengths that take three.
        signature in prop_oneof![vec(any::<u8>(), 0..100), vec(any::<u8>(), 250..300)],
    ) {
        let builder = DataBuilder::new(name.as_ref())
            .freshness_ms(1000)
            .final_block_id(Component::segment(3))
            .signature(SignatureType::HMAC, KeyLocator::Name(key.as_ref()));
        let mut expected = Vec::new();
        let mut signed = Vec::new();
        builder
            .encode(&mut expected, &content, |portion, value| {
                signed = portion.to_vec();
                value.extend_from_slice(&signature);
            })
            .unwrap();
        at_every_length(&expected, |out| {
            builder.encode_to_slice(out, &content, |portion, room| {
                assert_eq!(portion, signed);
                if let Some(place) = room.get_mut(..signature.len()) {
                    place.copy_from_slice(&signature);
                }
                signature.len()
            })
        });
    }

    #[test]
    fn interests(
        name in name(),
        parameters in vec(any::<u8>(), 0..300),
        signature in prop_oneof![vec(any::<u8>(), 0..100), vec(any::<u8>(), 250..300)],
    ) {
        let builder = InterestBuilder::new(name.as_ref()).nonce([1, 2, 3, 4]).hop_limit(3);
        let mut expected = Vec::new();
        builder.encode(&mut expected).unwrap();
        at_every_length(&expected, |out| builder.encode_to_slice(out));

        expected.clear();
        builder.encode_with_parameters(&mut expected, &parameters).unwrap();
        at_every_length(&expected, |out| {
            builder.encode_with_parameters_to_slice(out, &parameters, sha256)
        });

        let mut info = SignatureInfo::new(SignatureType::ECDSA, None);
        info.nonce = Some(&[5; 8]);
        expected.clear();
        let mut signed = Vec::new();
        builder
            .encode_signed(&mut expected, &parameters, &info, |portions, value| {
                signed = portions.concat();
                value.extend_from_slice(&signature);
            })
            .unwrap();
        at_every_length(&expected, |out| {
            let sign = |portions: [&[u8]; 2], room: &mut [u8]| {
                assert_eq!(portions.concat(), signed);
                if let Some(place) = room.get_mut(..signature.len()) {
                    place.copy_from_slice(&signature);
                }
                signature.len()
            };
            builder.encode_signed_to_slice(out, &parameters, &info, sign, sha256)
        });
    }

    #[test]
    fn link_packets(fragment in vec(any::<u8>(), 0..400), acks in vec(any::<u64>(), 0..4)) {
        let lp = LpPacket {
            fragment: Some(&fragment),
            pit_token: Some(&[1; 8]),
            acks: Acks::new(&acks),
            ..LpPacket::default()
        };
        let mut expected = Vec::new();
        lp.encode(&mut expected);
        at_every_length(&expected, |out| lp.encode_to_slice(out));
    }

    #[test]
    fn fixed_names_are_names(name in name()) {
        let uri = name.to_string();
        let fixed = FixedName::<256>::from_uri(&uri).unwrap();
        prop_assert_eq!(fixed.as_ref(), name.as_ref());
        prop_assert_eq!(fixed.to_string(), uri);
        prop_assert_eq!(FixedName::<256>::try_from(name.as_ref()).unwrap(), fixed);
    }
}

#[test]
fn a_slice_has_the_packets_limit_too() {
    let name: Name = "/A".parse().unwrap();
    let mut memory = vec![0; 20_000];
    let build = |memory: &mut [u8], len: usize| {
        DataBuilder::new(name.as_ref()).encode_to_slice(memory, &vec![0; len], |_, room| {
            room[0] = 1;
            1
        })
    };
    // Name 5, SignatureInfo 5, SignatureValue 3, Content 4 + n, outer 4.
    assert_eq!(build(&mut memory, MAX_PACKET - 21), Ok(MAX_PACKET));
    assert!(matches!(build(&mut memory, MAX_PACKET - 20), Err(EncodeError::TooLong(_))));
    // A signer that claims a longer value than its room.
    let lies = DataBuilder::new(name.as_ref()).encode_to_slice(&mut memory, b"", |_, _| usize::MAX);
    assert_eq!(lies, Err(EncodeError::NoRoom));
}
