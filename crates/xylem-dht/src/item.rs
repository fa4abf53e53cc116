//! [`MutableItem`]: a value that a key has signed (BEP 44).

use ed25519_dalek::{Signature, VerifyingKey};

use crate::bencode::{put_bytes, put_integer};
use crate::id::{DhtId, KEY_LEN};

/// Most bytes of a salt.
pub const MAX_SALT: usize = 64;
/// Most bytes of a value; with its length in front it has 1,000 at most.
pub const MAX_VALUE: usize = 996;

/// A byte string under a key and a salt, with a sequence number. Other values of BEP 44 (integers, lists) are not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutableItem {
    /// Ed25519 key.
    pub key: [u8; KEY_LEN],
    /// Distinguishes the items of one key; [`MAX_SALT`] bytes at most, empty for none.
    pub salt: Vec<u8>,
    /// Nodes replace a value only by one with a higher number.
    pub seq: i64,
    /// [`MAX_VALUE`] bytes at most.
    pub value: Vec<u8>,
    /// Signature over [`signable`].
    pub signature: [u8; 64],
}

impl MutableItem {
    /// Where it is stored.
    pub fn target(&self) -> DhtId {
        DhtId::of_item(&self.key, &self.salt)
    }

    /// Whether the key has signed it.
    pub fn is_signed(&self) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(&self.key) else { return false };
        let message = signable(&self.salt, self.seq, &self.value);
        key.verify_strict(&message, &Signature::from_bytes(&self.signature)).is_ok()
    }

    pub(crate) fn fits(&self) -> bool {
        self.salt.len() <= MAX_SALT && self.value.len() <= MAX_VALUE && self.seq >= 0
    }
}

/// The bytes that a signature covers.
pub fn signable(salt: &[u8], seq: i64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if !salt.is_empty() {
        out.extend_from_slice(b"4:salt");
        put_bytes(&mut out, salt);
    }
    out.extend_from_slice(b"3:seq");
    put_integer(&mut out, seq);
    out.extend_from_slice(b"1:v");
    put_bytes(&mut out, value);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
            .collect()
    }

    /// Test vectors 1 and 2 of BEP 44.
    #[test]
    fn signatures_are_those_of_bep_44() {
        let key = unhex("77ff84905a91936367c01360803104f92432fcd904a43511876df5cdf3e7e548");
        for (salt, signature) in [
            (
                &b""[..],
                "305ac8aeb6c9c151fa120f120ea2cfb923564e11552d06a5d856091e5e853cff1260d3f39e4999684aa92eb73ffd136e6f4f3ecbfda0ce53a1608ecd7ae21f01",
            ),
            (
                b"foobar",
                "6834284b6b24c3204eb2fea824d82f88883a3d95e8b4a21b8c0ded553d17d17ddf9a8a7104b1258f30bed3787e6cb896fca78c58f8e03b5f18f14951a87d9a08",
            ),
        ] {
            let item = MutableItem {
                key: key.clone().try_into().unwrap(),
                salt: salt.to_vec(),
                seq: 1,
                value: b"Hello World!".to_vec(),
                signature: unhex(signature).try_into().unwrap(),
            };
            assert!(item.is_signed());
            assert!(!MutableItem { seq: 2, ..item.clone() }.is_signed());
            assert!(!MutableItem { salt: b"other".to_vec(), ..item.clone() }.is_signed());
            assert!(!MutableItem { value: b"Hello World?".to_vec(), ..item }.is_signed());
        }
    }
}
