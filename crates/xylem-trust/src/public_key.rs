//! Public keys as SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7), the form in certificates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use crate::{KeyError, der};

/// rsaEncryption (RFC 8017, appendix A.1).
pub(crate) const OID_RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01];
/// id-ecPublicKey (RFC 5480, section 2.1.1).
pub(crate) const OID_EC: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01];
/// secp256r1, also called P-256.
pub(crate) const OID_P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07];
/// Other curves with their common names (RFC 5480, section 2.1.1.1; SEC 2).
const OTHER_CURVES: [(&[u8], &str); 4] = [
    (&[0x2B, 0x81, 0x04, 0x00, 0x21], "P-224"),
    (&[0x2B, 0x81, 0x04, 0x00, 0x22], "P-384"),
    (&[0x2B, 0x81, 0x04, 0x00, 0x23], "P-521"),
    (&[0x2B, 0x81, 0x04, 0x00, 0x0A], "secp256k1"),
];
/// id-Ed25519 (RFC 8410, section 3).
pub(crate) const OID_ED25519: &[u8] = &[0x2B, 0x65, 0x70];

/// Sizes of RSA moduli that are accepted, in bits.
const RSA_BITS: core::ops::RangeInclusive<usize> = 2048..=8192;

/// A public key with its algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PublicKey {
    /// Ed25519 (RFC 8032): 32 octets.
    Ed25519([u8; 32]),
    /// ECDSA on P-256: an uncompressed point (`04`, x, y).
    EcdsaP256([u8; 65]),
    /// RSA of 2048 to 8192 bits: an RSAPublicKey in DER (RFC 8017, appendix A.1.1).
    Rsa(Vec<u8>),
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo and nothing after it.
    ///
    /// # Errors
    /// `Curve` for other curves, `RsaSize` for RSA moduli outside 2048 to 8192 bits; `Unsupported` for other
    /// algorithms, curves given by their parameters, and compressed points.
    pub fn from_spki(spki: &[u8]) -> Result<Self, KeyError> {
        let mut outer = der::DerReader::new(der::only(spki, der::SEQUENCE)?);
        let mut algorithm = der::DerReader::new(outer.element(der::SEQUENCE)?);
        let bits = outer.element(der::BIT_STRING)?;
        outer.end()?;
        // The first octet gives the number of unused bits in the last octet, which is zero for all of these keys.
        let [0, key @ ..] = bits else { return Err(KeyError::Malformed) };
        match algorithm.element(der::OBJECT_IDENTIFIER)? {
            OID_ED25519 => {
                algorithm.end()?;
                Ok(Self::Ed25519(key.try_into().map_err(|_| KeyError::Malformed)?))
            }
            OID_EC => {
                if algorithm.peek() != Some(der::OBJECT_IDENTIFIER) {
                    return Err(KeyError::Unsupported);
                }
                check_curve(algorithm.element(der::OBJECT_IDENTIFIER)?)?;
                algorithm.end()?;
                let point: [u8; 65] = key.try_into().map_err(|_| KeyError::Unsupported)?;
                if point[0] == 4 { Ok(Self::EcdsaP256(point)) } else { Err(KeyError::Unsupported) }
            }
            OID_RSA => {
                if !algorithm.element(der::NULL)?.is_empty() {
                    return Err(KeyError::Malformed);
                }
                algorithm.end()?;
                check_rsa(key)?;
                Ok(Self::Rsa(key.to_vec()))
            }
            _ => Err(KeyError::Unsupported),
        }
    }

    /// The key as a SubjectPublicKeyInfo.
    pub fn to_spki(&self) -> Vec<u8> {
        let (oid, parameters, key): (_, _, &[u8]) = match self {
            Self::Ed25519(key) => (OID_ED25519, None, key),
            Self::EcdsaP256(point) => (OID_EC, Some((der::OBJECT_IDENTIFIER, OID_P256)), point),
            Self::Rsa(key) => (OID_RSA, Some((der::NULL, &[][..])), key),
        };
        let mut algorithm = Vec::new();
        der::write(&mut algorithm, der::OBJECT_IDENTIFIER, oid);
        if let Some((tag, value)) = parameters {
            der::write(&mut algorithm, tag, value);
        }
        let mut inner = Vec::new();
        der::write(&mut inner, der::SEQUENCE, &algorithm);
        der::write(&mut inner, der::BIT_STRING, &[&[0], key].concat());
        let mut out = Vec::new();
        der::write(&mut out, der::SEQUENCE, &inner);
        out
    }

    /// The X25519 key (RFC 7748) of an Ed25519 key: the same point on the curve's other form (RFC 7748, section 4.1).
    /// Its secret is [`PrivateKey::x25519`](crate::PrivateKey::x25519). `None` for other algorithms and for bytes that
    /// are no point.
    pub fn x25519(&self) -> Option<[u8; 32]> {
        let Self::Ed25519(key) = self else { return None };
        Some(ed25519_dalek::VerifyingKey::from_bytes(key).ok()?.to_montgomery().to_bytes())
    }

    /// SHA-256 of the SubjectPublicKeyInfo, which is the KeyDigest (packet format v0.3, "KeyLocator").
    pub fn digest(&self) -> [u8; 32] {
        crate::digest::sha256(&[&self.to_spki()])
    }
}

/// Fails unless the curve is P-256.
pub(crate) fn check_curve(oid: &[u8]) -> Result<(), KeyError> {
    if oid == OID_P256 {
        return Ok(());
    }
    let known = OTHER_CURVES.iter().find(|(other, _)| *other == oid);
    Err(known.map_or(KeyError::Unsupported, |(_, name)| KeyError::Curve(name)))
}

/// RSAPublicKey ::= SEQUENCE { modulus INTEGER, publicExponent INTEGER }
fn check_rsa(key: &[u8]) -> Result<(), KeyError> {
    let mut numbers = der::DerReader::new(der::only(key, der::SEQUENCE)?);
    let modulus = numbers.element(der::INTEGER)?;
    let exponent = numbers.element(der::INTEGER)?;
    numbers.end()?;
    if exponent.is_empty() {
        return Err(KeyError::Malformed);
    }
    let magnitude = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    let leading = magnitude.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = magnitude.len().saturating_mul(8).saturating_sub(leading);
    if RSA_BITS.contains(&bits) { Ok(()) } else { Err(KeyError::RsaSize(bits)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip() {
        let mut rsa = Vec::new();
        let mut modulus = vec![0, 0xC5];
        modulus.resize(257, 0x11);
        der::write(&mut rsa, der::INTEGER, &modulus);
        der::write(&mut rsa, der::INTEGER, &[1, 0, 1]);
        let mut sequence = Vec::new();
        der::write(&mut sequence, der::SEQUENCE, &rsa);
        let mut point = [9; 65];
        point[0] = 4;
        let keys =
            [PublicKey::Ed25519([5; 32]), PublicKey::EcdsaP256(point), PublicKey::Rsa(sequence)];
        for key in keys {
            let spki = key.to_spki();
            assert_eq!(PublicKey::from_spki(&spki), Ok(key));
            for cut in 0..spki.len() {
                assert!(PublicKey::from_spki(&spki[..cut]).is_err());
            }
            assert!(PublicKey::from_spki(&[&spki[..], &[0]].concat()).is_err());
        }
    }

    /// RFC 8410, section 10.1.
    #[test]
    fn an_ed25519_key_is_encoded_as_in_the_rfc() {
        let spki = PublicKey::Ed25519([0xAB; 32]).to_spki();
        let prefix = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00];
        assert_eq!(spki[..12], prefix);
        assert_eq!(spki.len(), 44);
    }

    #[test]
    fn short_rsa_keys_and_compressed_points_are_refused() {
        let mut numbers = Vec::new();
        der::write(&mut numbers, der::INTEGER, &[0x7F; 128]);
        der::write(&mut numbers, der::INTEGER, &[3]);
        let mut key = Vec::new();
        der::write(&mut key, der::SEQUENCE, &numbers);
        let spki = PublicKey::Rsa(key).to_spki();
        assert_eq!(PublicKey::from_spki(&spki), Err(KeyError::RsaSize(1023)));
        let mut point = [1; 65];
        point[0] = 2;
        let spki = PublicKey::EcdsaP256(point).to_spki();
        assert_eq!(PublicKey::from_spki(&spki), Err(KeyError::Unsupported));
    }
}
