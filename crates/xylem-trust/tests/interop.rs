//! Tests with packets and certificates that other programs signed.

mod common;

use common::{entry, pem};
use xylem_packet::{Data, Interest, Name};
use xylem_trust::{Certificate, PublicKey, TrustError, TrustStore, ValidityPeriod, Verifier};

const PYTHON_NDN: &str = include_str!("fixtures/python-ndn.txt");
const NDNTS: &str = include_str!("fixtures/ndnts.txt");

/// 2026-11-23, a day after the certificates were made.
const NOW_MS: u64 = 1_795_400_000_000;

fn check(file: &str, algorithm: &str, verifier: &Verifier) {
    let data = entry(file, &format!("data-{algorithm}"));
    assert_eq!(verifier.data(&Data::decode(&data).unwrap()), Ok(()), "Data, {algorithm}");
    let interest = entry(file, &format!("interest-{algorithm}"));
    let interest = Interest::decode(&interest).unwrap();
    assert_eq!(verifier.interest(&interest), Ok(()), "Interest, {algorithm}");
    let info = interest.signature().unwrap().info;
    assert_eq!(info.key_locator.is_none(), algorithm == "sha256");
}

#[test]
fn python_ndns_packets_verify() {
    let key_name = Name::from_uri("/alice/KEY/1").unwrap();
    check(PYTHON_NDN, "sha256", &Verifier::digest_sha256());
    check(PYTHON_NDN, "hmac", &Verifier::hmac(b"a key of no fixed length").named(key_name.clone()));
    for algorithm in ["rsa", "ecdsa", "ed25519"] {
        let spki = entry(PYTHON_NDN, &format!("spki-{algorithm}"));
        let key = PublicKey::from_spki(&spki).unwrap();
        assert_eq!(key.to_spki(), spki, "{algorithm}");
        check(PYTHON_NDN, algorithm, &Verifier::of(&key).unwrap().named(key_name.clone()));
    }
}

#[test]
fn ndntss_packets_verify() {
    check(NDNTS, "sha256", &Verifier::digest_sha256());
    for algorithm in ["rsa", "ecdsa", "ed25519"] {
        let wire = entry(NDNTS, &format!("certificate-{algorithm}"));
        let certificate = Certificate::decode(&wire).unwrap();
        check(NDNTS, algorithm, &Verifier::of(certificate.public_key()).unwrap());
    }
}

/// They are self-signed, so each verifies itself. As an anchor, each lets packets of its own key pass.
#[test]
fn certificates_of_three_programs_are_read() {
    let mut wires: Vec<Vec<u8>> = Vec::new();
    for file in [PYTHON_NDN, NDNTS] {
        wires.extend(["rsa", "ecdsa", "ed25519"].map(|a| entry(file, &format!("certificate-{a}"))));
    }
    wires.push(pem(include_str!("fixtures/ndnd/bob.cert")));
    wires.push(pem(include_str!("fixtures/ndnd/carol.cert")));
    wires.push(pem(include_str!("fixtures/ndnd/dan.cert")));
    for wire in &wires {
        let certificate = Certificate::decode(wire).unwrap();
        assert_eq!(certificate.name().parent().last().unwrap().value(), b"self");
        assert!(certificate.validity().contains(NOW_MS), "{}", certificate.name());
        let signer = certificate.signer().unwrap();
        assert_eq!(xylem_trust::key_name_of(signer), Some(certificate.key_name()));
        let verifier = Verifier::of(certificate.public_key()).unwrap();
        assert_eq!(verifier.data(certificate.data()), Ok(()), "{}", certificate.name());

        let mut store = TrustStore::new();
        assert_eq!(store.add(&certificate, NOW_MS), Err(TrustError::UnknownKey));
        store.add_anchor(&certificate).unwrap();
        assert_eq!(store.data(certificate.data(), NOW_MS), Ok(()));
    }
}

#[test]
fn an_anchor_of_one_program_covers_packets_of_it() {
    let mut store = TrustStore::new();
    for algorithm in ["ed25519", "rsa", "ecdsa"] {
        let wire = entry(NDNTS, &format!("certificate-{algorithm}"));
        store.add_anchor(&Certificate::decode(&wire).unwrap()).unwrap();
    }
    assert_eq!(store.len(), 3);
    for algorithm in ["ed25519", "rsa", "ecdsa"] {
        let data = entry(NDNTS, &format!("data-{algorithm}"));
        let data = Data::decode(&data).unwrap();
        assert_eq!(store.data(&data, NOW_MS), Ok(()));
        assert_eq!(store.data(&data, 0), Err(TrustError::Expired));
        let interest = entry(NDNTS, &format!("interest-{algorithm}"));
        assert_eq!(store.interest(&Interest::decode(&interest).unwrap(), NOW_MS), Ok(()));
    }
    let digest = entry(NDNTS, "data-sha256");
    let digest = Data::decode(&digest).unwrap();
    assert_eq!(store.data(&digest, NOW_MS), Err(TrustError::NoKeyLocator));
}

/// NDNd signed Carol's key with Bob's. The certificate is well-formed, but Bob's identity is not above Carol's.
#[test]
fn an_unrelated_key_certifies_no_identity() {
    let (bob, carol) = (
        pem(include_str!("fixtures/ndnd/bob.cert")),
        pem(include_str!("fixtures/ndnd/carol-by-bob.cert")),
    );
    let (bob, carol) = (Certificate::decode(&bob).unwrap(), Certificate::decode(&carol).unwrap());
    let mut store = TrustStore::new();
    store.add_anchor(&bob).unwrap();
    assert_eq!(Verifier::of(bob.public_key()).unwrap().data(carol.data()), Ok(()));
    assert_eq!(store.add(&carol, NOW_MS), Err(TrustError::NotAllowed));
    assert_eq!(
        carol.validity(),
        ValidityPeriod { not_before_ms: 1_795_321_885_000, not_after_ms: 1_826_857_885_000 }
    );
}
