//! Foreign certificates, keys and signatures: no panic; a parsed one is written the same; nothing is trusted that the
//! anchor did not sign.
#![no_main]
use xylem_packet::{Data, Interest, Name};
use xylem_trust::{
    Certificate, CertificateChain, ChainAction, MAX_QUERIES, PublicKey, Signer, TrustStore,
    ValidityPeriod, Verifier, self_signed,
};

/// A time within the anchor's validity.
const NOW_MS: u64 = 1_700_000_000_000;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(key) = PublicKey::from_spki(input) {
        assert_eq!(key.to_spki(), input, "keys have one form");
        let _ = Verifier::of(&key);
    }
    // The key's number is the input's first octet, so that no input contains a signature by it.
    let name = Name::from_uri("/a/KEY/1").expect("a name");
    let anchor = Signer::ed25519(&[0xA5; 32], name);
    let always = ValidityPeriod { not_before_ms: 0, not_after_ms: 2 * NOW_MS };
    let own = self_signed(&anchor, 1, always).expect("a small packet");
    let own = Certificate::decode(&own).expect("what we make, we read");
    let mut store = TrustStore::new();
    store.add_anchor(&own).expect("a good key");

    if let Ok(certificate) = Certificate::decode(input) {
        let _ = (certificate.key_name(), certificate.identity());
        let _ = certificate.validity().contains(NOW_MS);
        assert_eq!(
            PublicKey::from_spki(certificate.data().content()).as_ref(),
            Ok(certificate.public_key())
        );
        if input != own.data().wire() {
            assert!(store.add(&certificate, NOW_MS).is_err(), "a certificate that nobody signed");
        }
    }
    if let Ok(data) = Data::decode(input)
        && input != own.data().wire()
    {
        assert!(store.data(&data, NOW_MS).is_err(), "Data that nobody signed");
        let _ = (Verifier::digest_sha256().data(&data), Verifier::digest_blake3().data(&data));
    }
    // A chain in which every fetch returns the same bytes.
    if let Ok(data) = Data::decode(input)
        && let Ok(mut chain) = CertificateChain::of(&data)
    {
        let mut questions = 0;
        while let Ok(ChainAction::Ask(_)) = chain.step(&mut store, NOW_MS) {
            questions += 1;
            assert!(questions <= MAX_QUERIES, "chains have an end");
            if chain.answer(input, NOW_MS).is_err() {
                break;
            }
        }
        assert_eq!(store.len(), 1, "nothing that nobody signed came in");
    }
    if let Ok(interest) = Interest::decode(input) {
        assert!(store.interest(&interest, NOW_MS).is_err(), "an Interest that nobody signed");
        let _ = Verifier::digest_sha256().interest(&interest);
    }
});
