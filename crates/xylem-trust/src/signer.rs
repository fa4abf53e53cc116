//! Signing packets.

use core::fmt;

use ed25519_dalek::Signer as _;
#[cfg(feature = "ring")]
use ring::rand::SystemRandom;
#[cfg(feature = "ring")]
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use xylem_packet::{
    DataBuilder, DataWriter, EncodeError, InterestBuilder, KeyLocator, MAX_PACKET, Name, NameRef,
    SignatureInfo, SignatureType,
};
use zeroize::Zeroizing;

#[cfg(feature = "ring")]
use crate::KeyError;
use crate::{CommandStamp, PublicKey, Signature, digest};

/// An algorithm, its key, and the name under which verifiers know the key.
///
/// `Debug` hides the key. Keys of types 5 and 7 are wiped when dropped. Keys that ring holds (types 3 and 4) are not,
/// because ring gives no access to them.
pub struct Signer {
    secret: SignerSecret,
    locator: Option<Name>,
}

enum SignerSecret {
    DigestSha256,
    DigestBlake3,
    Blake3Keyed(Zeroizing<[u8; 32]>),
    #[cfg(feature = "ring")]
    Hmac(ring::hmac::Key),
    // Boxed, because it is several times as large as the others.
    Ed25519(Box<ed25519_dalek::SigningKey>),
    #[cfg(feature = "ring")]
    EcdsaP256(Box<EcdsaKeyPair>),
}

impl Signer {
    /// Type 0: integrity only.
    pub fn digest_sha256() -> Self {
        Signer { secret: SignerSecret::DigestSha256, locator: None }
    }

    /// Type 6: integrity only.
    pub fn digest_blake3() -> Self {
        Signer { secret: SignerSecret::DigestBlake3, locator: None }
    }

    /// Type 7 with a key of exactly 32 octets, which `locator` names.
    pub fn blake3_keyed(key: [u8; 32], locator: Name) -> Self {
        let key = Zeroizing::new(key);
        Signer { secret: SignerSecret::Blake3Keyed(key), locator: Some(locator) }
    }

    #[cfg(feature = "ring")]
    /// Type 4 with a key of any length, which `locator` names.
    pub fn hmac(key: &[u8], locator: Name) -> Self {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
        Signer { secret: SignerSecret::Hmac(key), locator: Some(locator) }
    }

    /// Type 5 with the key of this RFC 8032 seed. `locator` names the key or its certificate.
    pub fn ed25519(seed: &[u8; 32], locator: Name) -> Self {
        let key = Box::new(ed25519_dalek::SigningKey::from_bytes(seed));
        Signer { secret: SignerSecret::Ed25519(key), locator: Some(locator) }
    }

    #[cfg(feature = "ring")]
    /// Type 3 with a private key in PKCS#8 (RFC 5208) that includes the public key, as [`generate_ecdsa_p256`] makes
    /// it. `locator` names the key or its certificate.
    ///
    /// # Errors
    /// `Invalid` if the bytes are no such key.
    pub fn ecdsa_p256(pkcs8: &[u8], locator: Name) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &random)
            .map_err(|_| KeyError::Invalid)?;
        Ok(Signer { secret: SignerSecret::EcdsaP256(Box::new(key)), locator: Some(locator) })
    }

    /// The signature type of this signer's signatures.
    pub fn typ(&self) -> SignatureType {
        match self.secret {
            SignerSecret::DigestSha256 => SignatureType::DIGEST_SHA256,
            SignerSecret::DigestBlake3 => SignatureType::DIGEST_BLAKE3,
            SignerSecret::Blake3Keyed(_) => SignatureType::BLAKE3_KEYED,
            #[cfg(feature = "ring")]
            SignerSecret::Hmac(_) => SignatureType::HMAC,
            SignerSecret::Ed25519(_) => SignatureType::ED25519,
            #[cfg(feature = "ring")]
            SignerSecret::EcdsaP256(_) => SignatureType::ECDSA,
        }
    }

    /// The name under which verifiers find the key; `None` for the digests.
    pub fn key_locator(&self) -> Option<NameRef<'_>> {
        self.locator.as_ref().map(Name::as_ref)
    }

    /// The public key, if there is one (types 3 and 5).
    pub fn public(&self) -> Option<PublicKey> {
        match &self.secret {
            SignerSecret::Ed25519(key) => Some(PublicKey::Ed25519(key.verifying_key().to_bytes())),
            #[cfg(feature = "ring")]
            SignerSecret::EcdsaP256(key) => {
                key.public_key().as_ref().try_into().ok().map(PublicKey::EcdsaP256)
            }
            _ => None,
        }
    }

    /// The signature over the concatenated `portions`.
    pub fn sign(&self, portions: &[&[u8]]) -> Signature {
        match &self.secret {
            SignerSecret::DigestSha256 => Signature::new(&digest::sha256(portions)),
            SignerSecret::DigestBlake3 => Signature::new(&digest::blake3(portions)),
            SignerSecret::Blake3Keyed(key) => Signature::new(&digest::blake3_keyed(key, portions)),
            #[cfg(feature = "ring")]
            SignerSecret::Hmac(key) => {
                let mut context = ring::hmac::Context::with_key(key);
                portions.iter().for_each(|portion| context.update(portion));
                Signature::new(context.sign().as_ref())
            }
            SignerSecret::Ed25519(key) => {
                in_one_piece(portions, |message| Signature::new(&key.sign(message).to_bytes()))
            }
            #[cfg(feature = "ring")]
            SignerSecret::EcdsaP256(key) => in_one_piece(portions, |message| {
                let signature = key.sign(&SystemRandom::new(), message).expect(
                    "ring fails only without the system's randomness, which it had when it took \
                     the key",
                );
                Signature::new(signature.as_ref())
            }),
        }
    }

    /// The SignatureInfo of this signer's signatures, without nonce, time and validity.
    pub(crate) fn info(&self) -> SignatureInfo<'_> {
        SignatureInfo::new(self.typ(), self.key_locator().map(KeyLocator::Name))
    }

    /// Appends a signed Data. Signature fields in `builder` are replaced. On an error `out` is unchanged.
    ///
    /// # Errors
    /// `TooLong` above the packet limit.
    pub fn data(
        &self,
        builder: DataBuilder<'_>,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        self.data_with_info(builder, self.info(), content, out)
    }

    /// Number of packets that [`Self::data_many`] signs in little more time than a few; 1 if batches gain nothing.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        match self.secret {
            SignerSecret::DigestSha256 => digest::sha256_batch_size(),
            _ => 1,
        }
    }

    /// Appends a signed Data for each of `packets` (a builder and a content) to the vector at the same index of `out`,
    /// as [`Self::data`] would. On an error the contents of `out` are unusable.
    ///
    /// # Errors
    /// `TooLong` above the packet limit.
    ///
    /// # Panics
    /// If `out` does not have exactly one vector for each packet.
    pub fn data_many(
        &self,
        packets: &[(DataBuilder<'_>, &[u8])],
        out: &mut [Vec<u8>],
    ) -> Result<(), EncodeError> {
        assert_eq!(packets.len(), out.len(), "one place for each packet");
        let mut parts = packets.iter().zip(out);
        if self.batch_size() == 1 {
            return parts
                .try_for_each(|((builder, content), out)| self.data(*builder, content, out));
        }
        // Refused before any work is done; the exact length is checked at the end.
        if let Some((_, content)) = packets.iter().find(|(_, content)| content.len() > MAX_PACKET) {
            return Err(EncodeError::TooLong(content.len()));
        }
        let writers: Vec<DataWriter<'_>> = parts
            .map(|((builder, content), out)| {
                let mut writer = signed_by(*builder, self.info()).begin(out, content.len(), 32);
                writer.content_mut().copy_from_slice(content);
                writer
            })
            .collect();
        let portions: Vec<&[u8]> = writers.iter().map(DataWriter::signed_portion).collect();
        let mut values = vec![[0; 32]; portions.len()];
        digest::sha256_many(&portions, &mut values);
        writers.into_iter().zip(&values).try_for_each(|(writer, value)| writer.finish(value))
    }

    /// As [`Self::data`], with a SignatureInfo that has more fields than [`Self::info`].
    pub(crate) fn data_with_info(
        &self,
        builder: DataBuilder<'_>,
        info: SignatureInfo<'_>,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        signed_by(builder, info).encode(out, content, |signed, value| {
            value.extend_from_slice(self.sign(&[signed]).as_ref());
        })
    }

    /// Appends a signed Interest (packet format v0.3, "Signed Interest") with these ApplicationParameters, which may be
    /// empty. On an error `out` is unchanged.
    ///
    /// # Errors
    /// `EmptyName`, and `TooLong` above the packet limit.
    pub fn interest(
        &self,
        builder: InterestBuilder<'_>,
        parameters: &[u8],
        stamp: CommandStamp,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let mut info = self.info();
        info.nonce = Some(&stamp.nonce);
        info.time_ms = Some(stamp.time_ms);
        info.sequence = stamp.sequence;
        builder.encode_signed(out, parameters, &info, |portions, value| {
            value.extend_from_slice(self.sign(&portions).as_ref());
        })
    }
}

/// `builder` with another SignatureInfo, which may have a shorter lifetime.
fn signed_by<'a>(builder: DataBuilder<'a>, info: SignatureInfo<'a>) -> DataBuilder<'a> {
    builder.signature_info(info)
}

/// Passes the message as one slice, for algorithms that require that. Data's signed portion is one already.
pub(crate) fn in_one_piece<T>(portions: &[&[u8]], f: impl FnOnce(&[u8]) -> T) -> T {
    match portions {
        [one] => f(one),
        more => f(&more.concat()),
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer(type {}, key {:?}, secret hidden)", self.typ().0, self.locator)
    }
}

#[cfg(feature = "ring")]
/// Generates a private key for [`Signer::ecdsa_p256`] in PKCS#8, with the system's randomness (ring).
///
/// # Errors
/// `Invalid` if the system has no randomness.
pub fn generate_ecdsa_p256() -> Result<Zeroizing<Vec<u8>>, KeyError> {
    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
        .map(|document| Zeroizing::new(document.as_ref().to_vec()))
        .map_err(|_| KeyError::Invalid)
}
