//! Noise vectors of cacophony and snow, through the state machine, ciphers, hash and curve of the link's handshakes.
//! These differ from the vectors only in the 33 bytes of their public keys (docs/spec/link.md, "Handshake"); `noise.rs`
//! tests that against snow.

use xylem_link_internals::Cipher;
use xylem_link_internals::internals::{NoiseVector, aead_open, aead_seal};

const VECTORS: &str = include_str!("data/noise-xx.txt");

fn bytes(hex: &str) -> Vec<u8> {
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else { panic!("odd length") };
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    pairs.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn array(hex: &str) -> [u8; 32] {
    bytes(hex).try_into().unwrap()
}

#[test]
fn xx_agrees_with_every_vector_of_cacophony_and_snow() {
    let mut suites = Vec::new();
    for vector in VECTORS.split("\nend\n").filter(|vector| vector.contains("suite ")) {
        let lines = || vector.lines().filter_map(|line| line.split_once(' '));
        let field = |name: &str| lines().find(|(key, _)| *key == name).map(|(_, value)| value);
        let suite = field("suite").unwrap();
        suites.push(suite);
        let messages: Vec<[Vec<u8>; 2]> = lines()
            .filter(|(key, _)| *key == "message")
            .map(|(_, pair)| pair.split_once(' ').unwrap())
            .map(|(payload, message)| [bytes(payload), bytes(message)])
            .collect();
        let (handshake, transport) = messages.split_at(3);
        let end = |who: &str| {
            [format!("{who}_static"), format!("{who}_ephemeral")]
                .map(|key| array(field(&key).unwrap()))
        };
        let (ours, done) = NoiseVector {
            suite,
            prologue: &bytes(field("prologue").unwrap()),
            keys: [end("init"), end("resp")],
            payloads: [0, 1, 2].map(|n| &handshake[n][0][..]),
        }
        .run();
        for (ours, theirs) in ours.iter().zip(handshake) {
            assert_eq!(*ours, theirs[1], "{suite}");
        }
        if let Some(hash) = field("hash") {
            assert_eq!(done.transcript, array(hash), "{suite}");
        }
        // Tests the split keys. Noise numbers nonces as each AEAD's specification does.
        assert!(transport.len() > 1);
        for (n, [payload, sealed]) in transport.iter().enumerate() {
            let (key, number) = (&done.split[1 - n % 2], n as u64 / 2);
            let (cipher, number) = match suite.contains("ChaChaPoly") {
                true => (Cipher::ChaCha20Poly1305, number.to_le_bytes()),
                false => (Cipher::Aes256Gcm, number.to_be_bytes()),
            };
            let nonce = [&[0; 4][..], &number].concat();
            assert_eq!(aead_seal(cipher, key, &nonce, &[], payload), *sealed, "{suite}");
            assert_eq!(aead_open(cipher, key, &nonce, &[], sealed).as_ref(), Some(payload));
        }
    }
    suites.sort_unstable();
    let both = ["Noise_XX_25519_AESGCM_SHA256", "Noise_XX_25519_ChaChaPoly_SHA256"];
    assert_eq!(suites, [both[0], both[0], both[1], both[1]]);
}
