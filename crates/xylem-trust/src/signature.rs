//! A signature value on the stack.

use core::fmt;

/// Maximum length of a value that a [`crate::Signer`] makes, in bytes: an ECDSA signature on P-256 in DER.
pub(crate) const MAX_SIGNATURE: usize = 72;

/// A signature value: 32 octets (digests and MACs), 64 (Ed25519) or up to 72 (ECDSA).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    bytes: [u8; MAX_SIGNATURE],
    len: u8,
}

impl Signature {
    /// `value` is at most [`MAX_SIGNATURE`] bytes long.
    pub(crate) fn new(value: &[u8]) -> Self {
        let mut bytes = [0; MAX_SIGNATURE];
        bytes[..value.len()].copy_from_slice(value);
        Signature { bytes, len: value.len() as u8 }
    }
}

impl AsRef<[u8]> for Signature {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(")?;
        self.as_ref().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
