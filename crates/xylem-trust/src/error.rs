//! Reasons not to accept a packet, a certificate or a key.

use xylem_packet::SignatureType;

/// Why a packet is not trusted. All reasons but `Limit` are caused by the packet's sender or by an attacker that
/// changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The Interest has no signature.
    #[error("the Interest is not signed")]
    Unsigned,
    /// The packet has another signature type than the expected one.
    #[error("the packet has signature type {}, not {}", ShownType(*found), ShownType(*expected))]
    WrongType {
        /// The expected type.
        expected: SignatureType,
        /// The packet's type.
        found: SignatureType,
    },
    /// The signature type needs a KeyLocator, and the packet has none.
    #[error("the packet does not name its key")]
    NoKeyLocator,
    /// The KeyLocator names another key than the expected one.
    #[error("the packet names another key")]
    OtherKey,
    /// The signature value does not match the signed portion under the key.
    #[error("the signature is wrong")]
    BadSignature,
    /// No key is known under the KeyLocator.
    #[error("the packet's key is unknown")]
    UnknownKey,
    /// The key may not sign this name: its identity is no prefix of it, or a rule forbids it.
    #[error("the key's identity does not cover the packet's name")]
    NotAllowed,
    /// The key's certificate is not valid yet, or has expired.
    #[error("the key's certificate is not valid at this time")]
    Expired,
    /// A local limit: the store holds its maximum number of certificates.
    #[error("the store of certificates is full")]
    Limit,
}

/// A signature type's number, and its name if it is known.
struct ShownType(SignatureType);

impl core::fmt::Display for ShownType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0.name() {
            Some(name) => write!(f, "{} ({name})", self.0.number()),
            None => write!(f, "{}", self.0.number()),
        }
    }
}

/// Why bytes are no usable key.
#[cfg(feature = "std")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not the expected DER structure.
    #[error("not a key in DER")]
    Malformed,
    /// A well-formed key of an unsupported algorithm or curve.
    #[error("a key of an algorithm, curve or size that is not supported; Ed25519 and P-256 are")]
    Unsupported,
    /// An elliptic curve other than P-256.
    #[error("an ECDSA key on the curve {0}, which is not supported; P-256 is")]
    Curve(&'static str),
    /// An RSA private key.
    #[error("an RSA key, which is not supported for signing; use an Ed25519 or P-256 key")]
    RsaPrivate,
    /// An RSA key of a size outside 2048 to 8192 bits.
    #[error("an RSA key of {0} bits; 2048 to 8192 are supported")]
    RsaSize(usize),
    /// An encrypted key where an unencrypted one was expected.
    #[error("the key is encrypted: it needs its passphrase")]
    Encrypted,
    /// A key encrypted with an unsupported scheme.
    #[error(
        "its encryption is not supported; PBES2 with PBKDF2 and AES-256-CBC is, as OpenSSL 3 writes it"
    )]
    Encryption,
    #[cfg(feature = "ring")]
    /// A local limit, so that a file cannot keep its reader busy.
    #[error("one try of its passphrase takes {0} rounds; more than {max} are refused",
            max = crate::encrypted::MAX_ROUNDS)]
    Rounds(u64),
    /// Decryption with this passphrase does not give a key.
    #[error("wrong passphrase")]
    WrongPassphrase,
    /// A well-formed key with numbers that are invalid in its algorithm.
    #[error("the key's numbers are invalid")]
    Invalid,
}

/// Why a Data packet is no usable certificate.
#[cfg(feature = "std")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Not a Data packet.
    #[error("not a Data packet: {0}")]
    Packet(#[from] xylem_packet::DecodeError),
    /// Not named `/<identity>/KEY/<key id>/<issuer>/<version>`.
    #[error("the name is not that of a certificate: it has to end in /KEY/KEYID/ISSUER/VERSION")]
    Name,
    /// ContentType is not KEY.
    #[error("the content type is {0}, not that of a certificate")]
    ContentType(u64),
    /// No ValidityPeriod, or one that is malformed or reversed.
    #[error("the validity period is absent or malformed")]
    Validity,
    /// The content is no public key.
    #[error("the content: {0}")]
    Key(#[from] KeyError),
}
