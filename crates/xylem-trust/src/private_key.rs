//! Private keys as bytes: DER, and the packet in which NDNd stores a key.
//!
//! ```text
//! PKCS#8  SEQUENCE { 0, SEQUENCE { algorithm, curve? }, OCTET STRING { key } }      (RFC 5208, RFC 8410)
//! SEC 1   SEQUENCE { 1, OCTET STRING { scalar }, [0] curve, [1] BIT STRING { point } }     (RFC 5915)
//! packet  Data /<identity>/KEY/<key id>, ContentType 9, content: PKCS#8 (Ed25519) or SEC 1 (ECDSA),
//!         signed by the key itself
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;

use xylem_packet::{ContentType, Data, DataBuilder, EncodeError, Name, NameRef};
use zeroize::Zeroizing;

use crate::public_key::{OID_EC, OID_ED25519, OID_P256, OID_RSA, check_curve};
use crate::{KeyError, PublicKey, Signer, Verifier, der};

/// ContentType of a packet that holds a private key (NDNd, "SigningKey").
const SIGNING_KEY: ContentType = ContentType(9);
/// ECPrivateKey: the curve, and the public point.
const CURVE: u8 = 0xA0;
const POINT: u8 = 0xA1;

/// A private key. `Debug` hides it, and dropping wipes it.
pub struct PrivateKey(PrivateKeySecret);

enum PrivateKeySecret {
    Ed25519(Zeroizing<[u8; 32]>),
    EcdsaP256 { scalar: Zeroizing<[u8; 32]>, point: [u8; 65] },
}

impl PrivateKey {
    /// The Ed25519 key with this RFC 8032 seed: 32 random bytes.
    pub fn ed25519(seed: [u8; 32]) -> Self {
        PrivateKey(PrivateKeySecret::Ed25519(Zeroizing::new(seed)))
    }

    /// Generates a P-256 key with the system's randomness (ring).
    ///
    /// # Errors
    /// `Invalid` if the system has no randomness.
    pub fn generate_ecdsa_p256() -> Result<Self, KeyError> {
        Self::from_der(&crate::generate_ecdsa_p256()?)
    }

    /// Reads unencrypted PKCS#8 or SEC 1. For encrypted keys see [`Self::from_encrypted`].
    ///
    /// # Errors
    /// `RsaPrivate`, `Curve`, `Encrypted`; `Unsupported` for other algorithms, and for P-256 keys without their public
    /// key; `Invalid` if the public and the private key do not match.
    pub fn from_der(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut outer = der::DerReader::new(der::only(bytes, der::SEQUENCE)?);
        if outer.peek() == Some(der::SEQUENCE) {
            return Err(KeyError::Encrypted);
        }
        let version = outer.element(der::INTEGER)?;
        if outer.peek() == Some(der::OCTET_STRING) {
            return ecdsa(bytes, CurveName::Within);
        }
        // RSAPrivateKey (RFC 8017, appendix A.1.2): the modulus follows the version.
        if outer.peek() == Some(der::INTEGER) {
            return Err(KeyError::RsaPrivate);
        }
        if !matches!(version, [0] | [1]) {
            return Err(KeyError::Malformed);
        }
        let mut algorithm = der::DerReader::new(outer.element(der::SEQUENCE)?);
        // Elements after the key (attributes, a public key) are not needed.
        let key = outer.element(der::OCTET_STRING)?;
        match algorithm.element(der::OBJECT_IDENTIFIER)? {
            OID_ED25519 => {
                algorithm.end()?;
                let seed = der::only(key, der::OCTET_STRING)?;
                Ok(Self::ed25519(seed.try_into().map_err(|_| KeyError::Malformed)?))
            }
            OID_EC => {
                check_curve(algorithm.element(der::OBJECT_IDENTIFIER)?)?;
                ecdsa(key, CurveName::Around)
            }
            OID_RSA => Err(KeyError::RsaPrivate),
            _ => Err(KeyError::Unsupported),
        }
    }

    /// The key in PKCS#8.
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        let (mut algorithm, mut key) = (Vec::new(), Zeroizing::new(Vec::new()));
        match &self.0 {
            PrivateKeySecret::Ed25519(seed) => {
                der::write(&mut algorithm, der::OBJECT_IDENTIFIER, OID_ED25519);
                der::write(&mut key, der::OCTET_STRING, seed.as_slice());
            }
            PrivateKeySecret::EcdsaP256 { scalar, point } => {
                der::write(&mut algorithm, der::OBJECT_IDENTIFIER, OID_EC);
                der::write(&mut algorithm, der::OBJECT_IDENTIFIER, OID_P256);
                key = sec1(scalar, point, CurveName::Around);
            }
        }
        let mut inner = Zeroizing::new(Vec::new());
        der::write(&mut inner, der::INTEGER, &[0]);
        der::write(&mut inner, der::SEQUENCE, &algorithm);
        der::write(&mut inner, der::OCTET_STRING, &key);
        let mut out = Zeroizing::new(Vec::new());
        der::write(&mut out, der::SEQUENCE, &inner);
        out
    }

    /// The RFC 8032 seed of an Ed25519 key.
    pub fn seed(&self) -> Option<&[u8; 32]> {
        match &self.0 {
            PrivateKeySecret::Ed25519(seed) => Some(seed),
            PrivateKeySecret::EcdsaP256 { .. } => None,
        }
    }

    /// The X25519 secret of [`PublicKey::x25519`]: the scalar of an Ed25519 key (RFC 8032, section 5.1.5).
    pub fn x25519(&self) -> Option<Zeroizing<[u8; 32]>> {
        let key = ed25519_dalek::SigningKey::from_bytes(self.seed()?);
        Some(Zeroizing::new(key.to_scalar_bytes()))
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        match &self.0 {
            PrivateKeySecret::Ed25519(seed) => {
                let key = ed25519_dalek::SigningKey::from_bytes(seed);
                PublicKey::Ed25519(key.verifying_key().to_bytes())
            }
            PrivateKeySecret::EcdsaP256 { point, .. } => PublicKey::EcdsaP256(*point),
        }
    }

    /// A signer with this key, which verifiers know as `locator`.
    ///
    /// # Errors
    /// `Invalid` if the public and the private key do not match.
    pub fn signer(&self, locator: Name) -> Result<Signer, KeyError> {
        match &self.0 {
            PrivateKeySecret::Ed25519(seed) => Ok(Signer::ed25519(seed, locator)),
            PrivateKeySecret::EcdsaP256 { .. } => Signer::ecdsa_p256(&self.to_pkcs8(), locator),
        }
    }

    /// The packet in which NDNd stores this key, under the name `/<identity>/KEY/<key id>`.
    ///
    /// # Errors
    /// `TooLong` for a name that leaves no room.
    pub fn to_packet(&self, key_name: NameRef<'_>) -> Result<Zeroizing<Vec<u8>>, EncodeError> {
        let content = match &self.0 {
            PrivateKeySecret::Ed25519(_) => self.to_pkcs8(),
            PrivateKeySecret::EcdsaP256 { scalar, point } => sec1(scalar, point, CurveName::Within),
        };
        let mut out = Zeroizing::new(Vec::new());
        let builder = DataBuilder::new(key_name).content_type(SIGNING_KEY);
        // `signer` fails only for keys that do not match, which `from_der` refuses.
        if let Ok(signer) = self.signer(key_name.to_name()) {
            signer.data(builder, &content, &mut out)?;
        }
        Ok(out)
    }

    /// Reads such a packet. Returns the key and its name.
    ///
    /// # Errors
    /// `Malformed` if the packet has another form or is damaged, and those of [`Self::from_der`].
    pub fn from_packet(wire: &[u8]) -> Result<(Name, Self), KeyError> {
        let data = Data::decode(wire).map_err(|_| KeyError::Malformed)?;
        let named = crate::key_name_of(data.name()) == Some(data.name());
        if data.meta().content_type != SIGNING_KEY || !named {
            return Err(KeyError::Malformed);
        }
        let key = Self::from_der(data.content())?;
        Verifier::of(&key.public())?.data(&data).map_err(|_| KeyError::Malformed)?;
        Ok((data.name().to_name(), key))
    }
}

/// Whether a packet claims to hold a private key.
pub fn is_key_packet(wire: &[u8]) -> bool {
    Data::decode(wire).is_ok_and(|data| data.meta().content_type == SIGNING_KEY)
}

/// Where the curve of an ECPrivateKey is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CurveName {
    /// In the key itself, which stands alone.
    Within,
    /// In the PKCS #8 structure around it.
    Around,
}

/// Reads an ECPrivateKey.
fn ecdsa(bytes: &[u8], curve_name: CurveName) -> Result<PrivateKey, KeyError> {
    let mut fields = der::DerReader::new(der::only(bytes, der::SEQUENCE)?);
    if fields.element(der::INTEGER)? != [1] {
        return Err(KeyError::Malformed);
    }
    let scalar = fields.element(der::OCTET_STRING)?;
    if fields.peek() == Some(CURVE) {
        let curve = der::only(fields.element(CURVE)?, der::OBJECT_IDENTIFIER);
        check_curve(curve.map_err(|_| KeyError::Unsupported)?)?;
    } else if curve_name == CurveName::Within {
        return Err(KeyError::Unsupported);
    }
    let scalar = Zeroizing::new(scalar.try_into().map_err(|_| KeyError::Unsupported)?);
    if fields.peek() != Some(POINT) {
        return Err(KeyError::Unsupported);
    }
    let [0, point @ ..] = der::only(fields.element(POINT)?, der::BIT_STRING)? else {
        return Err(KeyError::Malformed);
    };
    let point = point.try_into().map_err(|_| KeyError::Unsupported)?;
    let key = PrivateKey(PrivateKeySecret::EcdsaP256 { scalar, point });
    // ring checks that the public and the private key match.
    key.signer(Name::new())?;
    Ok(key)
}

fn sec1(scalar: &[u8; 32], point: &[u8; 65], curve_name: CurveName) -> Zeroizing<Vec<u8>> {
    let mut fields = Zeroizing::new(Vec::with_capacity(160));
    der::write(&mut fields, der::INTEGER, &[1]);
    der::write(&mut fields, der::OCTET_STRING, scalar);
    let mut inner = Vec::new();
    if curve_name == CurveName::Within {
        der::write(&mut inner, der::OBJECT_IDENTIFIER, OID_P256);
        der::write(&mut fields, CURVE, &inner);
        inner.clear();
    }
    der::write(&mut inner, der::BIT_STRING, &[&[0], point.as_slice()].concat());
    der::write(&mut fields, POINT, &inner);
    let mut out = Zeroizing::new(Vec::with_capacity(160));
    der::write(&mut out, der::SEQUENCE, &fields);
    out
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?}, secret hidden)", self.public())
    }
}
