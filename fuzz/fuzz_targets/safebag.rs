//! Keys in foreign SafeBags: no panic, and no time spent on a passphrase's rounds. A certificate that claims to be the
//! key's own is signed by it.
#![no_main]
use xylem_trust::{Armor, PrivateKey, SafeBag, Verifier, key_name_of};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // No passphrase is tried: a guess takes as long as the file demands, up to some seconds.
    let _ = PrivateKey::check_encrypted(input);
    let _ = PrivateKey::from_der(input);
    let _ = PrivateKey::from_packet(input);
    if let Ok(bag) = SafeBag::decode(input) {
        assert_eq!(SafeBag::encode(bag.certificate(), bag.encrypted()).len(), input.len());
        assert!(PrivateKey::check_encrypted(bag.encrypted()).is_ok());
        let own = bag.certificate();
        if own.signer().and_then(key_name_of) == Some(own.key_name()) {
            let key = Verifier::of(own.public_key()).expect("a key that has verified");
            assert!(key.data(own.data()).is_ok());
        }
    }
    if let Some(packet) = Armor::decode(input) {
        assert!(packet.len() <= input.len());
    }
});
