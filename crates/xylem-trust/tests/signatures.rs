//! Tests that every signature type is made and verified, that nothing else is accepted, and that no packet can choose a
//! weaker type.

mod common;

use common::entry;
use proptest::prelude::*;
use xylem_packet::{
    Data, DataBuilder, Interest, InterestBuilder, KeyLocator, Name, SignatureInfo, SignatureType,
};
use xylem_trust::{CommandStamp, Signer, TrustError, Verifier, generate_ecdsa_p256};

const KEY: [u8; 32] = [0x5A; 32];
const STAMP: CommandStamp =
    CommandStamp { nonce: *b"nonce678", time_ms: 1_700_000_000_000, sequence: Some(9) };
const VECTORS: &str = include_str!("fixtures/vectors.txt");

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn locator() -> Name {
    name("/alice/KEY/1")
}

fn counting() -> [u8; 32] {
    core::array::from_fn(|i| i as u8)
}

/// All signers, with the verifier of each.
fn pairs() -> Vec<(Signer, Verifier)> {
    let ed25519 = Signer::ed25519(&KEY, locator());
    let ecdsa = Signer::ecdsa_p256(&generate_ecdsa_p256().unwrap(), locator()).unwrap();
    let of = |signer: &Signer| Verifier::of(&signer.public().unwrap()).unwrap();
    let (of_ed25519, of_ecdsa) = (of(&ed25519), of(&ecdsa));
    vec![
        (Signer::digest_sha256(), Verifier::digest_sha256()),
        (ecdsa, of_ecdsa),
        (Signer::hmac(b"key", locator()), Verifier::hmac(b"key")),
        (ed25519, of_ed25519),
        (Signer::digest_blake3(), Verifier::digest_blake3()),
        (Signer::blake3_keyed(KEY, locator()), Verifier::blake3_keyed(KEY)),
    ]
}

fn data(signer: &Signer, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let name = name("/alice/note/v=7");
    let builder = DataBuilder::new(name.as_ref()).freshness_ms(1000);
    signer.data(builder, content, &mut out).unwrap();
    out
}

fn interest(signer: &Signer, parameters: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let name = name("/alice/do/it");
    let builder = InterestBuilder::new(name.as_ref()).nonce([1, 2, 3, 4]).lifetime_ms(1000);
    signer.interest(builder, parameters, STAMP, &mut out).unwrap();
    out
}

#[test]
fn signed_packets_verify_with_their_algorithm_only() {
    let pairs = pairs();
    for (i, (signer, _)) in pairs.iter().enumerate() {
        let (data, interest) = (data(signer, b"hello"), interest(signer, b"parameters"));
        let (data, interest) = (Data::decode(&data).unwrap(), Interest::decode(&interest).unwrap());
        assert_eq!(data.signature_info().typ, signer.typ());
        let info = interest.signature().unwrap().info;
        assert_eq!(info.nonce, Some(&STAMP.nonce[..]));
        assert_eq!((info.time_ms, info.sequence), (Some(STAMP.time_ms), STAMP.sequence));
        for (j, (_, verifier)) in pairs.iter().enumerate() {
            let expected = if i == j {
                Ok(())
            } else {
                Err(TrustError::WrongType { expected: verifier.typ(), found: signer.typ() })
            };
            assert_eq!(verifier.data(&data), expected, "{signer:?} {verifier:?}");
            assert_eq!(verifier.interest(&interest), expected, "{signer:?} {verifier:?}");
        }
    }
}

#[test]
fn no_flipped_bit_is_accepted() {
    for (signer, verifier) in pairs() {
        let (data, interest) = (data(&signer, b"hello"), interest(&signer, b"parameters"));
        for bit in 0..data.len() * 8 {
            let mut changed = data.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let accepted = Data::decode(&changed).is_ok_and(|data| verifier.data(&data).is_ok());
            assert!(!accepted, "{signer:?}: bit {bit} of the Data");
        }
        for bit in 0..interest.len() * 8 {
            let mut changed = interest.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // Selectors, nonce and lifetime of an Interest are not signed, according to the format.
            let Ok(changed) = Interest::decode(&changed) else { continue };
            let original = Interest::decode(&interest).unwrap();
            let signed = |i: &Interest<'_>| {
                (i.name().value().to_vec(), i.app_parameters().map(<[u8]>::to_vec))
            };
            if verifier.interest(&changed).is_ok() {
                assert_eq!(signed(&changed), signed(&original), "{signer:?}: bit {bit}");
            }
        }
    }
}

/// An attacker without a key takes a packet that needs one, and signs it anew with a digest or changes its type. The
/// verifier was chosen before, so the packet never passes.
#[test]
fn signature_types_cannot_be_downgraded() {
    let public = Signer::ed25519(&KEY, locator()).public().unwrap();
    let expecting =
        [Verifier::blake3_keyed(KEY), Verifier::hmac(b"key"), Verifier::of(&public).unwrap()];
    for verifier in &expecting {
        for weaker in [Signer::digest_blake3(), Signer::digest_sha256()] {
            for with_locator in [false, true] {
                let key = locator();
                let at = with_locator.then(|| KeyLocator::Name(key.as_ref()));
                let name = name("/alice/note");
                let forged =
                    forge(name.clone(), weaker.typ(), at, |p| weaker.sign(&[p]).as_ref().to_vec());
                let forged = Data::decode(&forged).unwrap();
                let wrong = TrustError::WrongType { expected: verifier.typ(), found: weaker.typ() };
                assert_eq!(verifier.data(&forged), Err(wrong));
                // The same value with the expected type's number.
                let relabelled =
                    forge(name, verifier.typ(), at, |p| weaker.sign(&[p]).as_ref().to_vec());
                assert!(verifier.data(&Data::decode(&relabelled).unwrap()).is_err());
            }
        }
        let interest = interest(&Signer::digest_sha256(), b"");
        assert!(verifier.interest(&Interest::decode(&interest).unwrap()).is_err());
    }
    // Tree signatures (8, 9) are not accepted as digests, whatever their value.
    for typ in [SignatureType::BLAKE3_MERKLE, SignatureType::SHA256_MERKLE] {
        for weaker in [Signer::digest_blake3(), Signer::digest_sha256()] {
            let segment =
                forge(name("/a/seg=0"), typ, None, |p| weaker.sign(&[p]).as_ref().to_vec());
            let segment = Data::decode(&segment).unwrap();
            for verifier in [Verifier::digest_blake3(), Verifier::digest_sha256()] {
                let wrong = TrustError::WrongType { expected: verifier.typ(), found: typ };
                assert_eq!(verifier.data(&segment), Err(wrong));
            }
        }
    }
}

fn forge(
    name: Name,
    typ: SignatureType,
    key: Option<KeyLocator<'_>>,
    value: impl Fn(&[u8]) -> Vec<u8>,
) -> Vec<u8> {
    let mut out = Vec::new();
    DataBuilder::new(name.as_ref())
        .signature_info(SignatureInfo::new(typ, key))
        .encode(&mut out, b"forged", |signed, place| place.extend_from_slice(&value(signed)))
        .unwrap();
    out
}

#[test]
fn key_locators_are_checked_for_keyed_types() {
    let keyed = Signer::blake3_keyed(KEY, locator());
    let value = |portion: &[u8]| keyed.sign(&[portion]).as_ref().to_vec();
    let bare = forge(name("/a"), SignatureType::BLAKE3_KEYED, None, value);
    let verifier = Verifier::blake3_keyed(KEY);
    assert_eq!(verifier.data(&Data::decode(&bare).unwrap()), Err(TrustError::NoKeyLocator));

    let certificate = name("/alice/KEY/1/self/v=1");
    for (key, expected) in [
        (KeyLocator::Name(locator().as_ref()), Ok(())),
        (KeyLocator::Name(certificate.as_ref()), Ok(())),
        (KeyLocator::Name(name("/alice/KEY/2").as_ref()), Err(TrustError::OtherKey)),
        (KeyLocator::Digest(&[7; 32]), Err(TrustError::OtherKey)),
    ] {
        let packet = forge(name("/a"), SignatureType::BLAKE3_KEYED, Some(key), value);
        let packet = Data::decode(&packet).unwrap();
        let named = Verifier::blake3_keyed(KEY).named(locator());
        assert_eq!(named.data(&packet), expected);
        assert_eq!(verifier.data(&packet), Ok(()));
    }

    // Types 6 and 0 ignore it.
    for digest in [Signer::digest_blake3(), Signer::digest_sha256()] {
        let key = locator();
        let key = Some(KeyLocator::Name(key.as_ref()));
        let value = |portion: &[u8]| digest.sign(&[portion]).as_ref().to_vec();
        let packet = forge(name("/a"), digest.typ(), key, value);
        let packet = Data::decode(&packet).unwrap();
        let verifier = match digest.typ() {
            SignatureType::DIGEST_BLAKE3 => Verifier::digest_blake3(),
            _ => Verifier::digest_sha256(),
        };
        assert_eq!(verifier.named(name("/other")).data(&packet), Ok(()));
    }
}

#[test]
fn unsigned_interests_and_wrong_keys_are_refused() {
    let mut out = Vec::new();
    InterestBuilder::new(name("/a").as_ref()).encode_with_parameters(&mut out, b"x").unwrap();
    let unsigned = Interest::decode(&out).unwrap();
    for (_, verifier) in pairs() {
        assert_eq!(verifier.interest(&unsigned), Err(TrustError::Unsigned));
    }
    let other = [
        (Signer::blake3_keyed(KEY, locator()), Verifier::blake3_keyed([1; 32])),
        (Signer::hmac(b"key", locator()), Verifier::hmac(b"kez")),
        (
            Signer::ed25519(&KEY, locator()),
            Verifier::of(&Signer::ed25519(&[1; 32], locator()).public().unwrap()).unwrap(),
        ),
    ];
    for (signer, verifier) in other {
        let packet = data(&signer, b"hello");
        let refused = verifier.data(&Data::decode(&packet).unwrap());
        assert_eq!(refused, Err(TrustError::BadSignature));
    }
}

/// docs/spec/trust.md, "Vectors": whole packets, and where a changed octet has to be detected.
#[test]
fn the_spec_vectors_verify() {
    let key = counting();
    let signers = [
        ("0", Signer::digest_sha256(), Verifier::digest_sha256()),
        ("4", Signer::hmac(&key, locator()), Verifier::hmac(&key)),
        (
            "5",
            Signer::ed25519(&key, locator()),
            Verifier::of(&Signer::ed25519(&key, locator()).public().unwrap()).unwrap(),
        ),
        ("6", Signer::digest_blake3(), Verifier::digest_blake3()),
        ("7", Signer::blake3_keyed(key, locator()), Verifier::blake3_keyed(key)),
    ];
    for (typ, signer, verifier) in signers {
        for (kind, made) in
            [("data", data(&signer, b"hello")), ("interest", interest(&signer, b"parameters"))]
        {
            let hex: String = made.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(made, entry(VECTORS, &format!("{kind}-{typ}")), "{kind}-{typ} {hex}");
        }
        let vector = entry(VECTORS, &format!("data-{typ}"));
        let packet = Data::decode(&vector).unwrap();
        assert_eq!(verifier.data(&packet), Ok(()));
        let points = [
            packet.name_range().start + 2,
            packet.content_range().start,
            packet.content_range().end - 1,
            vector.len() - packet.signature_value().len(),
            vector.len() - 1,
        ];
        for point in points {
            let mut corrupt = vector.clone();
            corrupt[point] ^= 1;
            let refused = verifier.data(&Data::decode(&corrupt).unwrap());
            assert_eq!(refused, Err(TrustError::BadSignature), "type {typ}, octet {point}");
        }
    }
}

proptest! {
    #[test]
    fn any_content_verifies_in_any_two_portions(content in prop::collection::vec(any::<u8>(), 0..3000), cut in 0usize..3000) {
        let (a, b) = content.split_at(cut.min(content.len()));
        for (signer, verifier) in pairs() {
            let (one, two) = (signer.sign(&[&content]), signer.sign(&[a, b]));
            if signer.typ() != SignatureType::ECDSA {
                prop_assert_eq!(one, two);
            }
            let key = locator();
            let info = SignatureInfo::new(signer.typ(), Some(KeyLocator::Name(key.as_ref())));
            prop_assert_eq!(verifier.parts(&info, &[a, b], one.as_ref()), Ok(()));
            prop_assert_eq!(verifier.parts(&info, &[&content], two.as_ref()), Ok(()));
        }
    }
}
