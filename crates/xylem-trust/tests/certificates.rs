//! Tests of certificates that this crate issues, and of which ones a store trusts.

use proptest::prelude::*;
use xylem_packet::{Component, Data, DataBuilder, KeyLocator, Name, SignatureInfo};
use xylem_trust::{
    Certificate, CertificateError, Issue, MAX_CERTIFICATES, Signer, TrustError, TrustStore,
    ValidityPeriod, generate_ecdsa_p256, self_signed,
};

const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };
const NOW: u64 = 1_700_000_000_000;

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn signer(number: u8, key_name: &str) -> Signer {
    Signer::ed25519(&[number; 32], name(key_name))
}

fn issue(by: &Signer, subject: &Signer, validity: ValidityPeriod) -> Vec<u8> {
    let public_key = subject.public().unwrap();
    let key_name = subject.key_locator().unwrap();
    let issuer_id = Component::generic(b"test");
    let mut out = Vec::new();
    Issue { key_name, issuer_id, version: 1, public_key: &public_key, validity }
        .sign(by, &mut out)
        .unwrap();
    out
}

fn signed(by: &Signer, uri: &str) -> Vec<u8> {
    let mut out = Vec::new();
    by.data(DataBuilder::new(name(uri).as_ref()), b"x", &mut out).unwrap();
    out
}

fn add(store: &mut TrustStore, wire: &[u8]) -> Result<(), TrustError> {
    store.add(&Certificate::decode(wire).unwrap(), NOW)
}

#[test]
fn issued_certificates_decode() {
    let ecdsa = Signer::ecdsa_p256(&generate_ecdsa_p256().unwrap(), name("/org/KEY/%01")).unwrap();
    for signer in [signer(1, "/org/KEY/1"), ecdsa] {
        let wire = self_signed(&signer, 77, ALWAYS).unwrap();
        let certificate = Certificate::decode(&wire).unwrap();
        assert_eq!(certificate.key_name(), signer.key_locator().unwrap());
        assert_eq!(certificate.identity(), name("/org").as_ref());
        assert_eq!(certificate.name().last(), Some(Component::version(77)));
        assert_eq!(Some(certificate.public_key().clone()), signer.public());
        assert_eq!(certificate.validity(), ALWAYS);
    }
    assert!(self_signed(&Signer::digest_sha256(), 1, ALWAYS).is_none());
    assert!(self_signed(&Signer::hmac(b"k", name("/a/KEY/1")), 1, ALWAYS).is_none());
}

#[test]
fn a_chain_is_trusted_link_by_link() {
    let (root, alice, device) = (
        signer(1, "/org/KEY/1"),
        signer(2, "/org/alice/KEY/1"),
        signer(3, "/org/alice/phone/KEY/1"),
    );
    let mut store = TrustStore::new();
    let anchor = self_signed(&root, 1, ALWAYS).unwrap();
    store.add_anchor(&Certificate::decode(&anchor).unwrap()).unwrap();

    let note = signed(&device, "/org/alice/phone/note");
    let note = Data::decode(&note).unwrap();
    let (by_alice, by_root) = (issue(&alice, &device, ALWAYS), issue(&root, &alice, ALWAYS));
    assert_eq!(store.data(&note, NOW), Err(TrustError::UnknownKey));
    assert_eq!(add(&mut store, &by_alice), Err(TrustError::UnknownKey));
    assert_eq!(add(&mut store, &by_root), Ok(()));
    assert_eq!(add(&mut store, &by_alice), Ok(()));
    assert_eq!(store.data(&note, NOW), Ok(()));

    // Each key may sign only under its own identity.
    for (by, uri) in [(&device, "/org/alice/note"), (&alice, "/org/bob"), (&device, "/other")] {
        let wire = signed(by, uri);
        assert_eq!(store.data(&Data::decode(&wire).unwrap(), NOW), Err(TrustError::NotAllowed));
    }
    // The child may not certify its parent, or a sibling.
    for other in ["/org/KEY/2", "/org/bob/KEY/1"] {
        let wire = issue(&alice, &signer(9, other), ALWAYS);
        assert_eq!(add(&mut store, &wire), Err(TrustError::NotAllowed));
    }
}

#[test]
fn a_certificate_that_another_key_signed_is_refused() {
    let (root, thief) = (signer(1, "/org/KEY/1"), signer(6, "/org/KEY/1"));
    let mut store = TrustStore::new();
    let anchor = self_signed(&root, 1, ALWAYS).unwrap();
    store.add_anchor(&Certificate::decode(&anchor).unwrap()).unwrap();
    let wire = issue(&thief, &signer(2, "/org/alice/KEY/1"), ALWAYS);
    assert_eq!(add(&mut store, &wire), Err(TrustError::BadSignature));
    // A self-signed certificate with the anchor's name does not replace the anchor.
    let wire = self_signed(&thief, 2, ALWAYS).unwrap();
    assert_eq!(add(&mut store, &wire), Err(TrustError::BadSignature));
    let note = signed(&thief, "/org/note");
    assert_eq!(store.data(&Data::decode(&note).unwrap(), NOW), Err(TrustError::BadSignature));
}

#[test]
fn validity_is_that_of_the_whole_chain() {
    let (root, alice) = (signer(1, "/org/KEY/1"), signer(2, "/org/alice/KEY/1"));
    let short = ValidityPeriod { not_before_ms: NOW - 1000, not_after_ms: NOW + 1000 };
    let note = signed(&alice, "/org/alice/note");
    let note = Data::decode(&note).unwrap();
    for (of_root, of_alice) in [(short, ALWAYS), (ALWAYS, short)] {
        let mut store = TrustStore::new();
        let anchor = self_signed(&root, 1, of_root).unwrap();
        store.add_anchor(&Certificate::decode(&anchor).unwrap()).unwrap();
        assert_eq!(add(&mut store, &issue(&root, &alice, of_alice)), Ok(()));
        assert_eq!(store.data(&note, NOW), Ok(()));
        for outside in [0, NOW - 1001, NOW + 2000] {
            assert_eq!(store.data(&note, outside), Err(TrustError::Expired));
        }
    }
    let mut store = TrustStore::new();
    let anchor = self_signed(&root, 1, ALWAYS).unwrap();
    store.add_anchor(&Certificate::decode(&anchor).unwrap()).unwrap();
    let past = ValidityPeriod { not_before_ms: 0, not_after_ms: NOW - 5000 };
    assert_eq!(add(&mut store, &issue(&root, &alice, past)), Err(TrustError::Expired));
}

#[test]
fn keys_are_found_by_their_digest_too() {
    let root = signer(1, "/org/KEY/1");
    let mut store = TrustStore::new();
    let anchor = self_signed(&root, 1, ALWAYS).unwrap();
    store.add_anchor(&Certificate::decode(&anchor).unwrap()).unwrap();
    for (digest, expected) in
        [(root.public().unwrap().digest(), Ok(())), ([0; 32], Err(TrustError::UnknownKey))]
    {
        let info = SignatureInfo::new(root.typ(), Some(KeyLocator::Digest(&digest)));
        let mut out = Vec::new();
        DataBuilder::new(name("/org/a").as_ref())
            .signature_info(info)
            .encode(&mut out, b"x", |p, value| value.extend_from_slice(root.sign(&[p]).as_ref()))
            .unwrap();
        assert_eq!(store.data(&Data::decode(&out).unwrap(), NOW), expected);
    }
}

#[test]
fn the_store_is_bounded() {
    let mut store = TrustStore::new();
    let root = signer(1, "/org/KEY/1");
    for i in 0..MAX_CERTIFICATES + 5 {
        let of = Signer::ed25519(&[1; 32], name(&format!("/org/KEY/{i}")));
        let wire = self_signed(&of, 1, ALWAYS).unwrap();
        let added = store.add_anchor(&Certificate::decode(&wire).unwrap());
        assert_eq!(added.is_ok(), i < MAX_CERTIFICATES);
    }
    assert_eq!(store.len(), MAX_CERTIFICATES);
    assert_eq!(
        add(&mut store, &issue(&root, &signer(2, "/org/a/KEY/1"), ALWAYS)),
        Err(TrustError::Limit)
    );
}

#[test]
fn decoding_names_what_is_wrong_with_a_certificate() {
    let root = signer(1, "/org/KEY/1");
    let wire = signed(&root, "/org/note");
    assert_eq!(Certificate::decode(&wire).err(), Some(CertificateError::Name));
    let wire = signed(&root, "/org/KEY/1/self/v=1");
    assert_eq!(Certificate::decode(&wire).err(), Some(CertificateError::ContentType(0)));
    assert!(matches!(Certificate::decode(b"x").err(), Some(CertificateError::Packet(_))));
}

proptest! {
    #[test]
    fn changed_certificates_never_panic_nor_are_trusted(at in 0usize..300, to in any::<u8>()) {
        let (root, alice) = (signer(1, "/org/KEY/1"), signer(2, "/org/alice/KEY/1"));
        let mut store = TrustStore::new();
        let anchor = self_signed(&root, 1, ALWAYS).unwrap();
        store.add_anchor(&Certificate::decode(&anchor).unwrap()).unwrap();
        let mut wire = issue(&root, &alice, ALWAYS);
        let at = at % wire.len();
        let same = wire[at] == to;
        wire[at] = to;
        if let Ok(certificate) = Certificate::decode(&wire) {
            prop_assert_eq!(store.add(&certificate, NOW).is_ok(), same);
        }
    }
}
