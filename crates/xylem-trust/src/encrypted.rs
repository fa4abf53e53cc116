//! Encrypted private keys: PKCS #8 EncryptedPrivateKeyInfo with PBES2 (RFC 5958, RFC 8018), as written by OpenSSL and
//! therefore ndn-cxx.
//!
//! ```text
//! SEQUENCE { SEQUENCE { pbes2, SEQUENCE {
//!     SEQUENCE { pbkdf2, SEQUENCE { salt, rounds, length?, SEQUENCE { hmac, NULL }? } },
//!     SEQUENCE { aes256-CBC, iv } } }, OCTET STRING { PKCS #8 } }
//! ```
//! CBC does not detect changes: the plaintext is either a key or not. A caller with the certificate compares the public
//! key ([`crate::SafeBag`]). PBKDF2 is used instead of a memory-hard function, because WebCrypto, and therefore NDNts,
//! supports no other.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::num::NonZeroU32;

use aes::Aes256;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use ring::pbkdf2;
use zeroize::Zeroizing;

use crate::{KeyError, PrivateKey, der};

/// PBKDF2 rounds of keys that this program encrypts (OWASP's advice of 2023). They take a third of a second for the
/// user, and as much for each guess of an attacker on one core of the same kind.
const ROUNDS: u32 = 600_000;
/// Maximum number of rounds accepted from a file; these take some seconds.
pub(crate) const MAX_ROUNDS: u32 = 10_000_000;
/// Maximum length of a salt that is accepted, in bytes.
const MAX_SALT: usize = 1024;
const IV: usize = 16;

const OID_PBES2: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x05, 0x0D];
const OID_PBKDF2: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x05, 0x0C];
const OID_AES_256_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2A];
const OID_HMAC_SHA1: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x02, 0x07];
const OID_HMAC_SHA256: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x02, 0x09];
const OID_HMAC_SHA512: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x02, 0x0B];

impl PrivateKey {
    /// The key as encrypted PKCS #8. `random` is 32 fresh random bytes.
    pub fn to_encrypted(&self, passphrase: &[u8], random: [u8; 32]) -> Vec<u8> {
        let (salt, iv) = random.split_at(IV);
        let (mut pbkdf2, mut rounds) = (Vec::new(), Vec::new());
        der::write(&mut pbkdf2, der::OCTET_STRING, salt);
        der::write(&mut rounds, der::INTEGER, &ROUNDS.to_be_bytes()[1..]);
        pbkdf2.extend(rounds);
        pbkdf2.extend(algorithm(OID_HMAC_SHA256, der::NULL, &[]));
        let mut parameters = algorithm(OID_PBKDF2, der::SEQUENCE, &pbkdf2);
        parameters.extend(algorithm(OID_AES_256_CBC, der::OCTET_STRING, iv));
        let mut inner = algorithm(OID_PBES2, der::SEQUENCE, &parameters);

        let key = derive(pbkdf2::PBKDF2_HMAC_SHA256, NONZERO_ROUNDS, salt, passphrase);
        let clear = self.to_pkcs8();
        let mut buffer = Zeroizing::new(clear.to_vec());
        buffer.resize(clear.len().saturating_add(IV), 0);
        let cipher = cbc::Encryptor::<Aes256>::new_from_slices(key.as_slice(), iv);
        let sealed = cipher
            .ok()
            .and_then(|cipher| cipher.encrypt_padded::<Pkcs7>(&mut buffer, clear.len()).ok())
            .expect(
                "key and IV have the cipher's lengths, and the buffer has room for a block more",
            );
        der::write(&mut inner, der::OCTET_STRING, sealed);
        let mut out = Vec::new();
        der::write(&mut out, der::SEQUENCE, &inner);
        out
    }

    /// Decrypts a key in encrypted PKCS #8.
    ///
    /// # Errors
    /// `Malformed` if the bytes have another form, `Encryption` for other schemes, `Rounds` for too many rounds,
    /// `WrongPassphrase`; and those of [`Self::from_der`] for keys of other kinds.
    pub fn from_encrypted(bytes: &[u8], passphrase: &[u8]) -> Result<Self, KeyError> {
        let sealed = EncryptedKeyInfo::decode(bytes)?;
        let key = derive(sealed.hmac, sealed.rounds, sealed.salt, passphrase);
        let mut buffer = Zeroizing::new(sealed.key.to_vec());
        let cipher = cbc::Decryptor::<Aes256>::new_from_slices(key.as_slice(), sealed.iv)
            .map_err(|_| KeyError::Encryption)?;
        let clear =
            cipher.decrypt_padded::<Pkcs7>(&mut buffer).map_err(|_| KeyError::WrongPassphrase)?;
        match Self::from_der(clear) {
            Err(KeyError::Malformed) => Err(KeyError::WrongPassphrase),
            other => other,
        }
    }

    /// Whether these bytes are an encrypted PKCS #8 key for which a passphrase can be tried.
    ///
    /// # Errors
    /// Those of [`Self::from_encrypted`] that can be detected without a passphrase.
    pub fn check_encrypted(bytes: &[u8]) -> Result<(), KeyError> {
        EncryptedKeyInfo::decode(bytes).map(drop)
    }
}

const NONZERO_ROUNDS: NonZeroU32 = NonZeroU32::new(ROUNDS).expect("not 0");

fn derive(
    hmac: pbkdf2::Algorithm,
    rounds: NonZeroU32,
    salt: &[u8],
    passphrase: &[u8],
) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    pbkdf2::derive(hmac, rounds, salt, passphrase, key.as_mut_slice());
    key
}

/// An AlgorithmIdentifier with one parameter.
fn algorithm(oid: &[u8], tag: u8, parameter: &[u8]) -> Vec<u8> {
    let (mut inner, mut out) = (Vec::new(), Vec::new());
    der::write(&mut inner, der::OBJECT_IDENTIFIER, oid);
    der::write(&mut inner, tag, parameter);
    der::write(&mut out, der::SEQUENCE, &inner);
    out
}

/// The fields of an EncryptedPrivateKeyInfo.
struct EncryptedKeyInfo<'a> {
    hmac: pbkdf2::Algorithm,
    rounds: NonZeroU32,
    salt: &'a [u8],
    iv: &'a [u8],
    key: &'a [u8],
}

impl<'a> EncryptedKeyInfo<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Self, KeyError> {
        let mut outer = der::DerReader::new(der::only(bytes, der::SEQUENCE)?);
        let mut scheme = der::DerReader::new(outer.element(der::SEQUENCE)?);
        let key = outer.element(der::OCTET_STRING)?;
        outer.end()?;
        if scheme.element(der::OBJECT_IDENTIFIER)? != OID_PBES2 {
            return Err(KeyError::Encryption);
        }
        let mut parameters = der::DerReader::new(scheme.element(der::SEQUENCE)?);
        scheme.end()?;
        let mut kdf = der::DerReader::new(parameters.element(der::SEQUENCE)?);
        let mut cipher = der::DerReader::new(parameters.element(der::SEQUENCE)?);
        parameters.end()?;
        if kdf.element(der::OBJECT_IDENTIFIER)? != OID_PBKDF2
            || cipher.element(der::OBJECT_IDENTIFIER)? != OID_AES_256_CBC
        {
            return Err(KeyError::Encryption);
        }
        let iv = cipher.element(der::OCTET_STRING)?;
        cipher.end()?;
        let mut pbkdf2 = der::DerReader::new(kdf.element(der::SEQUENCE)?);
        kdf.end()?;
        if pbkdf2.peek() != Some(der::OCTET_STRING) {
            return Err(KeyError::Encryption);
        }
        let salt = pbkdf2.element(der::OCTET_STRING)?;
        let rounds = rounds(pbkdf2.element(der::INTEGER)?)?;
        if pbkdf2.peek() == Some(der::INTEGER) && pbkdf2.element(der::INTEGER)? != [32] {
            return Err(KeyError::Encryption);
        }
        // The default is HMAC with SHA-1.
        let mut hmac = pbkdf2::PBKDF2_HMAC_SHA1;
        if pbkdf2.peek().is_some() {
            let mut prf = der::DerReader::new(pbkdf2.element(der::SEQUENCE)?);
            hmac = match prf.element(der::OBJECT_IDENTIFIER)? {
                OID_HMAC_SHA1 => pbkdf2::PBKDF2_HMAC_SHA1,
                OID_HMAC_SHA256 => pbkdf2::PBKDF2_HMAC_SHA256,
                OID_HMAC_SHA512 => pbkdf2::PBKDF2_HMAC_SHA512,
                _ => return Err(KeyError::Encryption),
            };
        }
        if salt.len() > MAX_SALT || iv.len() != IV || key.is_empty() || key.len() % IV != 0 {
            return Err(KeyError::Malformed);
        }
        Ok(EncryptedKeyInfo { hmac, rounds, salt, iv, key })
    }
}

/// Parses an INTEGER in its shortest form, from 1 to [`MAX_ROUNDS`].
fn rounds(bytes: &[u8]) -> Result<NonZeroU32, KeyError> {
    let shortest = match bytes {
        [0, second, ..] => *second >= 0x80,
        [first, ..] => *first < 0x80,
        [] => false,
    };
    if !shortest {
        return Err(KeyError::Malformed);
    }
    let digits = bytes
        .iter()
        .try_fold(0u64, |sum, byte| Some(sum.checked_mul(256)?.saturating_add(u64::from(*byte))));
    let number = digits.unwrap_or(u64::MAX);
    let small = u32::try_from(number).ok().filter(|rounds| *rounds <= MAX_ROUNDS);
    NonZeroU32::new(small.ok_or(KeyError::Rounds(number))?).ok_or(KeyError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_bounded_before_decryption() {
        for (bytes, expected) in [
            (&[1][..], Ok(1)),
            (&[8, 0], Ok(2048)),
            (&[0, 0x98, 0x96, 0x80], Ok(MAX_ROUNDS)),
            (&[0x98, 0x96, 0x80], Err(KeyError::Malformed)),
            (&[0, 0x98, 0x96, 0x81], Err(KeyError::Rounds(10_000_001))),
            (&[0x7F, 0xFF, 0xFF, 0xFF], Err(KeyError::Rounds(0x7FFF_FFFF))),
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0], Err(KeyError::Rounds(u64::MAX))),
            (&[0], Err(KeyError::Malformed)),
            (&[], Err(KeyError::Malformed)),
            (&[0xFF], Err(KeyError::Malformed)),
        ] {
            assert_eq!(rounds(bytes).map(NonZeroU32::get), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_key_decrypts_only_with_its_passphrase() {
        let p256 = PrivateKey::generate_ecdsa_p256().unwrap();
        for key in [PrivateKey::ed25519([7; 32]), p256] {
            let sealed = key.to_encrypted(b"correct horse", [5; 32]);
            assert_eq!(PrivateKey::check_encrypted(&sealed), Ok(()));
            let opened = PrivateKey::from_encrypted(&sealed, b"correct horse").unwrap();
            assert_eq!(*opened.to_pkcs8(), *key.to_pkcs8());
            let wrong = PrivateKey::from_encrypted(&sealed, b"correct hors");
            assert_eq!(wrong.err(), Some(KeyError::WrongPassphrase));
            assert_eq!(PrivateKey::from_der(&sealed).err(), Some(KeyError::Encrypted));
            for cut in 0..sealed.len() {
                assert!(PrivateKey::check_encrypted(&sealed[..cut]).is_err());
            }
        }
    }
}
