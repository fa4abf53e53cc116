//! ML-KEM-768 (FIPS 203) for the hybrid handshake, from graviola where it has code for the processor, like
//! [`crate::curve`]. Elsewhere there is none, and handshakes are not hybrid. Randomness comes from the link's
//! generator.

use crate::secret::HeapSecret;

/// Length of an encapsulation key, in bytes.
pub(crate) const KEY_LEN: usize = 1_184;
/// Length of a ciphertext, in bytes.
pub(crate) const CIPHERTEXT_LEN: usize = 1_088;

/// The secret that both sides share.
pub(crate) type Shared = HeapSecret;

pub(crate) use here::{Decapsulator, encapsulate, is_available};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod here {
    use graviola::key_agreement::mlkem768::{DecapKey, EncapKey, Message};
    use zeroize::Zeroizing;

    use super::{CIPHERTEXT_LEN, KEY_LEN, Shared};
    use crate::kdf::LinkRng;
    use crate::secret::{HeapSecret, leaving_nothing};

    /// Returns whether this processor can compute it.
    pub(crate) fn is_available() -> bool {
        graviola::util::is_cpu_supported()
    }

    /// The side that made the key.
    pub(crate) struct Decapsulator(Box<DecapKey>);

    impl Decapsulator {
        /// `None` where the processor cannot compute it.
        pub(crate) fn generate(rng: &mut LinkRng) -> Option<Self> {
            let mut seed = Zeroizing::new([0; 64]);
            rng.fill(&mut seed[..]);
            Self::from_seed(&seed)
        }

        pub(crate) fn from_seed(seed: &[u8; 64]) -> Option<Self> {
            // The "internal" functions are those of FIPS 203 section 6, which take the seed as an argument.
            let make = || Self(Box::new(DecapKey::keygen_internal(seed)));
            is_available().then(|| leaving_nothing(make))
        }

        pub(crate) fn key(&self) -> [u8; KEY_LEN] {
            self.0.encapsulation_key().as_bytes()
        }

        /// Never fails: a ciphertext made for another key gives a secret that no side has (implicit rejection, FIPS 203
        /// section 6.3).
        pub(crate) fn open(&self, ciphertext: &[u8; CIPHERTEXT_LEN]) -> Shared {
            leaving_nothing(|| {
                HeapSecret::copy_of(self.0.decaps_internal(&(*ciphertext).into()).as_ref())
            })
        }
    }

    /// A secret for the holder of `key`, and its ciphertext. `None` if `key` is invalid (FIPS 203 section 7.2, modulus
    /// check) or the processor cannot compute it.
    pub(crate) fn encapsulate(
        key: &[u8; KEY_LEN],
        rng: &mut LinkRng,
    ) -> Option<([u8; CIPHERTEXT_LEN], Shared)> {
        is_available().then_some(())?;
        let key = EncapKey::from_bytes(key).ok()?;
        let message = rng.secret();
        Some(leaving_nothing(|| {
            let (shared, ciphertext) = key.encaps_internal(Message(*message));
            (*ciphertext.as_ref(), HeapSecret::copy_of(shared.as_ref()))
        }))
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod here {
    use core::convert::Infallible;

    use super::{CIPHERTEXT_LEN, KEY_LEN, Shared};
    use crate::kdf::LinkRng;

    pub(crate) fn is_available() -> bool {
        false
    }

    /// Cannot exist on this processor.
    #[derive(Debug)]
    pub(crate) struct Decapsulator(Infallible);

    impl Decapsulator {
        pub fn generate(_rng: &mut LinkRng) -> Option<Self> {
            None
        }
        pub fn from_seed(_seed: &[u8; 64]) -> Option<Self> {
            None
        }
        pub fn key(&self) -> [u8; KEY_LEN] {
            match self.0 {}
        }
        pub fn open(&self, _ciphertext: &[u8; CIPHERTEXT_LEN]) -> Shared {
            match self.0 {}
        }
    }

    pub(crate) fn encapsulate(
        _key: &[u8; KEY_LEN],
        _rng: &mut LinkRng,
    ) -> Option<([u8; CIPHERTEXT_LEN], Shared)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::LinkRng;

    #[test]
    fn both_sides_agree_unless_the_ciphertext_changed() {
        let mut rng = LinkRng::new(&[1; 32]);
        let Some(ours) = Decapsulator::generate(&mut rng) else {
            assert!(!is_available());
            return;
        };
        let (mut ciphertext, shared) = encapsulate(&ours.key(), &mut rng).unwrap();
        assert_eq!(ours.open(&ciphertext), shared);
        ciphertext[77] ^= 1;
        assert_ne!(ours.open(&ciphertext), shared);
    }

    #[test]
    fn invalid_keys_are_refused() {
        assert!(encapsulate(&[0xff; KEY_LEN], &mut LinkRng::new(&[1; 32])).is_none());
    }
}
