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
