//! Tests of SafeBags: one of another library, OpenSSL's encryption schemes, and what is refused.

mod common;

use std::sync::LazyLock;

use common::entry;
use proptest::prelude::*;
use xylem_packet::Name;
use xylem_trust::{
    Armor, Certificate, KeyError, PrivateKey, SafeBag, SafeBagError, ValidityPeriod, self_signed,
};

const NDNTS: &str = include_str!("fixtures/ndnts-safebag.txt");
const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };

#[test]
fn a_bag_of_another_library_opens() {
    let wire = entry(NDNTS, "bag");
    let bag = SafeBag::decode(&wire).unwrap();
    let identity = Name::from_uri("/ndnts/alice").unwrap();
    assert_eq!(bag.certificate().identity(), identity.as_ref());
    let key = bag.open(b"correct horse").unwrap();
    let theirs = PrivateKey::from_der(&entry(NDNTS, "key")).unwrap();
    assert_eq!(*key.to_pkcs8(), *theirs.to_pkcs8());
    let wrong = bag.open(b"incorrect horse").unwrap_err();
    assert_eq!(wrong, SafeBagError::Key(KeyError::WrongPassphrase));
    assert_eq!(Armor::decode(Armor::bare(&wire).as_bytes()), Some(wire.clone()));
    assert_eq!(Armor::decode(&wire), Some(wire));
}

/// Output of `openssl pkcs8 -topk8 -outform DER` for the Ed25519 key 00..1f with the passphrase `pass`.
#[test]
fn openssl_keys_decrypt_or_name_the_unsupported_scheme() {
    for (name, expected) in [
        ("aes256-sha256", Ok(())),
        ("aes256-sha1", Ok(())),
        ("aes256-sha512", Ok(())),
        ("des3", Err(KeyError::Encryption)),
        ("scrypt", Err(KeyError::Encryption)),
        ("pbes1", Err(KeyError::Encryption)),
        ("hours", Err(KeyError::Rounds(2_000_000_000))),
    ] {
        let sealed = entry(include_str!("fixtures/openssl-pkcs8.txt"), name);
        assert_eq!(PrivateKey::check_encrypted(&sealed), expected, "{name}");
        let opened = PrivateKey::from_encrypted(&sealed, b"pass");
        assert_eq!(opened.as_ref().map(|_| ()).map_err(|e| *e), expected, "{name}");
        if let Ok(key) = opened {
            assert_eq!(key.seed(), Some(&core::array::from_fn(|i| i as u8)));
        }
    }
}

fn bag(key: &PrivateKey, of: &PrivateKey) -> Vec<u8> {
    let name = Name::from_uri("/a/KEY/1").unwrap();
    let own = self_signed(&of.signer(name).unwrap(), 1, ALWAYS).unwrap();
    SafeBag::encode(&Certificate::decode(&own).unwrap(), &key.to_encrypted(b"pass", [7; 32]))
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (ours, theirs) = (PrivateKey::ed25519([1; 32]), PrivateKey::ed25519([2; 32]));
    let wire = bag(&ours, &ours);
    assert!(SafeBag::decode(&wire).unwrap().open(b"pass").is_ok());
    let swapped = bag(&ours, &theirs);
    let refused = SafeBag::decode(&swapped).unwrap().open(b"pass").unwrap_err();
    assert_eq!(refused, SafeBagError::OtherKey);
    for cut in 0..wire.len() {
        assert!(SafeBag::decode(&wire[..cut]).is_err());
    }
    assert_eq!(SafeBag::decode(&[&wire[..], &[0]].concat()).err(), Some(SafeBagError::Form));
}

#[test]
fn unsupported_keys_are_named() {
    for (name, expected) in [("rsa", KeyError::RsaPrivate), ("p384", KeyError::Curve("P-384"))] {
        let der = entry(include_str!("fixtures/openssl-pkcs8.txt"), name);
        assert_eq!(PrivateKey::from_der(&der).err(), Some(expected), "{name}");
    }
    let spki = entry(include_str!("fixtures/openssl-pkcs8.txt"), "p384-public");
    assert_eq!(xylem_trust::PublicKey::from_spki(&spki), Err(KeyError::Curve("P-384")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Decrypting is left out, because it costs too much to be repeated so often.
    #[test]
    fn changed_bags_never_panic_nor_show_another_key(at in 0usize..10_000, bit in 0u8..8) {
        // Made once, because each takes as long as a guess.
        static BAG: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let ours = PrivateKey::ed25519([1; 32]);
            bag(&ours, &ours)
        });
        let (ours, mut wire) = (PrivateKey::ed25519([1; 32]), BAG.clone());
        let at = at % wire.len();
        wire[at] ^= 1 << bit;
        if let Ok(changed) = SafeBag::decode(&wire) {
            // The changed byte can only be one that the certificate does not sign.
            prop_assert_eq!(changed.certificate().public_key(), &ours.public());
        }
    }
}
