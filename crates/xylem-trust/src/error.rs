//! What speaks against a packet, a certificate or a key.

use xylem_packet::SignatureType;

/// Why a packet is not believed. All of these but `Limit` are its sender's doing, or of whoever
/// changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// An Interest without signature.
    #[error("the Interest is not signed")]
    Unsigned,
    /// The packet says another signature type than the one that was expected of it.
    #[error("signature type {} where {} is needed", .found.0, .expected.0)]
    WrongType {
        /// What was expected.
        expected: SignatureType,
        /// What the packet says.
        found: SignatureType,
    },
    /// The signature type needs a KeyLocator and there is none.
    #[error("the packet names no key")]
    NoKeyLocator,
    /// The KeyLocator names another key than the expected one.
    #[error("the packet names another key")]
    OtherKey,
    /// The value is not that of the signed portion under the key.
    #[error("the signature is wrong")]
    BadSignature,
    /// No key is known under the KeyLocator.
    #[error("the packet's key is unknown")]
    UnknownKey,
    /// The key may not sign this name: its identity is no prefix of it.
    #[error("the key's identity does not cover the packet's name")]
    NotAllowed,
    /// The key's certificate is not valid yet, or not any more.
    #[error("the key's certificate is not valid at this time")]
    Expired,
    /// Our own limit: the store holds as many certificates as it may.
    #[error("the store of certificates is full")]
    Limit,
}

/// Why bytes are no key.
#[cfg(feature = "std")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not the DER structure that was expected.
    #[error("not a key in DER")]
    Malformed,
    /// A well-formed key of an algorithm or curve that is not supported.
    #[error("a key of an algorithm, curve or size that is not supported; Ed25519 and P-256 are")]
    Unsupported,
    /// An elliptic curve other than P-256.
    #[error("an ECDSA key on the curve {0}, which is not supported: of these curves P-256 is")]
    Curve(&'static str),
    /// An RSA key to sign with.
    #[error(
        "an RSA key, which is not supported: RSA signatures are verified, never made; Ed25519 and P-256 keys sign"
    )]
    RsaPrivate,
    /// An RSA key of a size outside 2048 to 8192 bits.
    #[error("an RSA key of {0} bits: from 2048 to 8192 are supported")]
    RsaSize(usize),
    /// A key under a passphrase where a bare one was expected.
    #[error("the key is encrypted: it needs its passphrase")]
    Encrypted,
    /// A key under a passphrase in a way that is not supported.
    #[error("encrypted in another way than PBES2 with PBKDF2 and AES-256-CBC, as OpenSSL 3 does")]
    Encryption,
    #[cfg(feature = "ring")]
    /// Our own limit, so that a file cannot keep its reader busy.
    #[error("its passphrase takes {0} rounds to try: more than {max} are refused",
            max = crate::encrypted::MAX_ROUNDS)]
    Rounds(u64),
    /// What comes out under this passphrase is not the key.
    #[error("wrong passphrase")]
    WrongPassphrase,
    /// A well-formed key whose numbers are no key of its algorithm.
    #[error("the numbers are no key")]
    Invalid,
}

/// Why a Data packet is no certificate that can be used.
#[cfg(feature = "std")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Not a Data packet.
    #[error("no Data packet: {0}")]
    Packet(#[from] xylem_packet::DecodeError),
    /// Not named `/<identity>/KEY/<key id>/<issuer>/<version>`.
    #[error("the name is not that of a certificate")]
    Name,
    /// ContentType is not KEY.
    #[error("the content type is {0}, not that of a certificate")]
    ContentType(u64),
    /// No ValidityPeriod, or one that cannot be read or is reversed.
    #[error("the validity period is absent or malformed")]
    Validity,
    /// The content is no public key.
    #[error("the content: {0}")]
    Key(#[from] KeyError),
}
