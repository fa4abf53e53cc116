//! X25519 (RFC 7748) on the fastest code for this processor: graviola's (s2n-bignum in Rust, x86-64 with ADX and AVX2,
//! AArch64 with AES), else curve25519-dalek's. Every multiplication of the link, in handshakes and ratchets, goes
//! through here.

use crate::secret::HeapSecret;

/// The public key of a secret; any 32 bytes are a secret.
pub(crate) fn public_key(secret: &[u8; 32]) -> [u8; 32] {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if graviola::util::is_cpu_supported() {
        use graviola::key_agreement::x25519::StaticPrivateKey;
        return StaticPrivateKey::from_array(secret).public_key().as_bytes();
    }
    portable::public_key(secret)
}

/// The shared secret, or `None` if it is all zeros (RFC 7748 section 6.1): with a point of low order in place of a key
/// any party could compute it.
pub(crate) fn agree(secret: &[u8; 32], public: &[u8; 32]) -> Option<HeapSecret> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if graviola::util::is_cpu_supported() {
        use graviola::key_agreement::x25519::{PublicKey, StaticPrivateKey};
        // The top bit of a public key is ignored (RFC 7748 section 5).
        let mut masked = *public;
        masked[31] &= 0x7f;
        let shared = StaticPrivateKey::from_array(secret)
            .diffie_hellman(&PublicKey::from_array(&masked))
            .ok()?;
        return Some(HeapSecret::copy_of(&shared.0));
    }
    portable::agree(secret, public)
}

/// The implementation that gives the same result on every processor.
pub(crate) mod portable {
    use crate::secret::HeapSecret;
    use curve25519_dalek::MontgomeryPoint;

    pub(crate) fn public_key(secret: &[u8; 32]) -> [u8; 32] {
        MontgomeryPoint::mul_base_clamped(*secret).to_bytes()
    }

    pub(crate) fn agree(secret: &[u8; 32], public: &[u8; 32]) -> Option<HeapSecret> {
        let shared = HeapSecret::copy_of(&MontgomeryPoint(*public).mul_clamped(*secret).to_bytes());
        // No early exit: every byte is read.
        (shared.iter().fold(0, |any, byte| any | byte) != 0).then_some(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::LinkRng;

    fn bytes(hex: &str) -> [u8; 32] {
        core::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
    }

    /// RFC 7748 section 6.1.
    #[test]
    fn agrees_with_the_vectors_of_the_rfc() {
        let a = bytes("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let b = bytes("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let a_public = bytes("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        let b_public = bytes("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        let shared = bytes("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        assert_eq!((public_key(&a), public_key(&b)), (a_public, b_public));
        assert_eq!(*agree(&a, &b_public).unwrap(), shared);
        assert_eq!(*portable::agree(&b, &a_public).unwrap(), shared);
    }

    #[test]
    fn both_implementations_agree_on_valid_and_invalid_keys() {
        let mut rng = LinkRng::new(&[1; 32]);
        for _ in 0..200 {
            let (secret, other): ([u8; 32], [u8; 32]) = (rng.array(), rng.array());
            assert_eq!(public_key(&secret), portable::public_key(&secret));
            let public = public_key(&other);
            let shared = agree(&secret, &public).unwrap();
            assert_eq!(shared, portable::agree(&secret, &public).unwrap());
            assert_eq!(shared, agree(&other, &public_key(&secret)).unwrap());
            // Any string is a valid point; its top bit is ignored.
            let string = rng.array();
            assert_eq!(agree(&secret, &string), portable::agree(&secret, &string));
        }
        let mut p = [0xff; 32];
        (p[0], p[31]) = (0xed, 0x7f);
        for order in [[0; 32], p] {
            assert_eq!(agree(&[7; 32], &order), None);
            assert_eq!(portable::agree(&[7; 32], &order), None);
        }
    }
}
