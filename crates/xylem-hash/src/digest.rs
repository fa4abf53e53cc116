//! [`Hash`](struct@Hash): 32 bytes that name a message, compared in constant time.

use core::array::TryFromSliceError;
use core::fmt;
use core::str::FromStr;

use crate::constants::OUT_LEN;
use crate::hex::{HexError, HexString, decode};

/// The root of a BLAKE3 tree.
///
/// `==` examines all 32 bytes whatever their values, so a keyed hash may be compared by it, also with bytes from an
/// attacker. For the same reason hashes have no order. `Display` and [`Hash::to_hex`] give 64 lower-case hexadecimal
/// digits; parsing accepts either case. The time of neither depends on the digits. A `HashMap` of hashes, like any
/// other use of [`Hash::as_bytes`], has no guarantee of constant time.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Hash([u8; OUT_LEN]);

impl Hash {
    /// The 32 bytes.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; OUT_LEN] {
        &self.0
    }

    /// A hash that was computed elsewhere.
    #[inline]
    #[must_use]
    pub const fn from_bytes(bytes: [u8; OUT_LEN]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes as a slice.
    #[inline]
    #[must_use]
    pub const fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// A hash that was computed elsewhere.
    ///
    /// # Errors
    /// If `bytes` are not 32.
    #[inline]
    pub fn from_slice(bytes: &[u8]) -> Result<Self, TryFromSliceError> {
        bytes.try_into().map(Self)
    }

    /// 64 lower-case hexadecimal digits, on the stack.
    #[inline]
    #[must_use]
    pub fn to_hex(&self) -> HexString {
        HexString::encode(&self.0)
    }

    /// Reads 64 hexadecimal digits, in upper or lower case.
    ///
    /// # Errors
    /// [`HexError`] for any other length, and for any other byte.
    #[inline]
    pub fn from_hex(hex: impl AsRef<[u8]>) -> Result<Self, HexError> {
        decode(hex.as_ref()).map(Self)
    }
}

/// Compares in a time that does not depend on where the two differ.
#[inline]
pub(crate) fn constant_time_eq(left: &[u8; OUT_LEN], right: &[u8; OUT_LEN]) -> bool {
    let mut difference = 0;
    for (left, right) in left.iter().zip(right) {
        difference |= left ^ right;
    }
    // Hidden from the optimizer, which could otherwise make the loop exit early.
    core::hint::black_box(difference) == 0
}

/// In constant time.
impl PartialEq for Hash {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq(&self.0, &other.0)
    }
}

/// In constant time.
impl PartialEq<[u8; OUT_LEN]> for Hash {
    #[inline]
    fn eq(&self, other: &[u8; OUT_LEN]) -> bool {
        constant_time_eq(&self.0, other)
    }
}

/// In constant time for 32 bytes; other lengths are unequal at once.
impl PartialEq<[u8]> for Hash {
    #[inline]
    fn eq(&self, other: &[u8]) -> bool {
        other.try_into().is_ok_and(|other| constant_time_eq(&self.0, other))
    }
}

impl Eq for Hash {}

impl core::hash::Hash for Hash {
    #[inline]
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Hash {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Hash {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hash").field(&self.to_hex()).finish()
    }
}

impl FromStr for Hash {
    type Err = HexError;

    #[inline]
    fn from_str(text: &str) -> Result<Self, HexError> {
        Self::from_hex(text)
    }
}

impl From<[u8; OUT_LEN]> for Hash {
    #[inline]
    fn from(bytes: [u8; OUT_LEN]) -> Self {
        Self(bytes)
    }
}

impl From<Hash> for [u8; OUT_LEN] {
    #[inline]
    fn from(hash: Hash) -> Self {
        hash.0
    }
}

#[cfg(feature = "zeroize")]
impl zeroize::Zeroize for Hash {
    #[inline]
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

/// Serializes as a newtype of 32 numbers, as `#[derive(Serialize)]` and the `blake3` crate do.
#[cfg(feature = "serde")]
mod serial {
    use super::{Hash, OUT_LEN};
    use core::fmt;
    use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
    use serde::ser::{Serialize, Serializer};

    impl Serialize for Hash {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_newtype_struct("Hash", &self.0)
        }
    }

    impl<'de> Deserialize<'de> for Hash {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_newtype_struct("Hash", Bytes)
        }
    }

    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Hash;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the 32 bytes of a hash")
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Hash, D::Error> {
            <[u8; OUT_LEN]>::deserialize(inner).map(Hash)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Hash, A::Error> {
            let bytes = items.next_element::<[u8; OUT_LEN]>()?;
            bytes.map(Hash).ok_or_else(|| Error::invalid_length(0, &self))
        }
    }
}
