//! Tests with private keys of other programs, and with our own read back.

mod common;

use common::{entry, unhex};
use xylem_packet::{Data, Name};
use xylem_trust::{Armor, Certificate, KeyError, PrivateKey, PublicKey, Verifier, self_signed};

const PYTHON_NDN: &str = include_str!("fixtures/python-ndn.txt");

#[test]
fn keys_in_der_are_read() {
    for (name, public) in [
        ("pkcs8-ed25519", "spki-ed25519"),
        ("pkcs8-ecdsa", "spki-ecdsa"),
        ("sec1-ecdsa", "spki-ecdsa"),
    ] {
        let key = PrivateKey::from_der(&entry(PYTHON_NDN, name)).unwrap();
        assert_eq!(Ok(key.public()), PublicKey::from_spki(&entry(PYTHON_NDN, public)), "{name}");
        let again = PrivateKey::from_der(&key.to_pkcs8()).unwrap();
        assert_eq!(again.public(), key.public());
        // The other program's public key verifies what the private key signs.
        let signer = key.signer(Name::from_uri("/alice/KEY/1").unwrap()).unwrap();
        let verifier = Verifier::of(&key.public()).unwrap();
        let signature = signer.sign(&[b"message"]);
        let info = xylem_packet::SignatureInfo::new(signer.typ(), None);
        assert_eq!(verifier.parts(&info, &[b"message"], signature.as_ref()), Ok(()));
        assert!(!format!("{key:?}").contains("1234"), "the secret stays hidden");
    }
    assert_eq!(
        entry(PYTHON_NDN, "pkcs8-ed25519"),
        *PrivateKey::ed25519(core::array::from_fn(|i| i as u8),).to_pkcs8()
    );
}

/// NDNd's key files are read, and written so that the same key is read back.
#[test]
fn ndnds_key_files_are_read() {
    for (key_file, certificate) in [
        (include_str!("fixtures/ndnd/bob.key"), include_str!("fixtures/ndnd/bob.cert")),
        (include_str!("fixtures/ndnd/carol.key"), include_str!("fixtures/ndnd/carol.cert")),
    ] {
        let wire = Armor::decode(key_file.as_bytes()).unwrap();
        let (name, key) = PrivateKey::from_packet(&wire).unwrap();
        let certificate = Armor::decode(certificate.as_bytes()).unwrap();
        let certificate = Certificate::decode(&certificate).unwrap();
        assert_eq!(certificate.key_name(), name.as_ref());
        assert_eq!(*certificate.public_key(), key.public());
        let packet = key.to_packet(name.as_ref()).unwrap();
        // The octets before the signature are equal. ECDSA signatures differ each time.
        let (theirs, ours) = (Data::decode(&wire).unwrap(), Data::decode(&packet).unwrap());
        assert_eq!(theirs.signed_portion(), ours.signed_portion());
        let own = self_signed(&key.signer(name).unwrap(), 1, certificate.validity()).unwrap();
        assert_eq!(Certificate::decode(&own).unwrap().key_name(), certificate.key_name());
    }
}

#[test]
fn damaged_keys_are_refused() {
    for name in ["pkcs8-ed25519", "pkcs8-ecdsa", "sec1-ecdsa"] {
        let der = entry(PYTHON_NDN, name);
        for cut in 0..der.len() {
            assert!(PrivateKey::from_der(&der[..cut]).is_err());
        }
    }
    // The scalar belongs to another point.
    let mut der = entry(PYTHON_NDN, "sec1-ecdsa");
    der[10] ^= 1;
    assert_eq!(PrivateKey::from_der(&der).err(), Some(KeyError::Invalid));
    // X25519 (RFC 8410) is no key for signatures.
    let x25519 = unhex(
        "302e020100300506032b656e042204200000000000000000000000000000000000000000000000000000000000000001",
    );
    assert_eq!(PrivateKey::from_der(&x25519).err(), Some(KeyError::Unsupported));

    let key = PrivateKey::ed25519([3; 32]);
    let name = Name::from_uri("/a/KEY/1").unwrap();
    let packet = key.to_packet(name.as_ref()).unwrap();
    assert!(PrivateKey::from_packet(&packet).is_ok());
    for bit in 0..packet.len() * 8 {
        let mut changed = packet.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(PrivateKey::from_packet(&changed).is_err(), "bit {bit}");
    }
    let nameless = key.to_packet(Name::from_uri("/a/b").unwrap().as_ref()).unwrap();
    assert_eq!(PrivateKey::from_packet(&nameless).err(), Some(KeyError::Malformed));
}
