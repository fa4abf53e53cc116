//! [`Hash`]: 32 bytes that name a message, compared in constant time.

use core::fmt;
use core::str::FromStr;

use alloc::string::String;

use crate::constants::OUT_LEN;

/// The root of a BLAKE3 tree.
///
/// `==` looks at all 32 bytes whatever they are, so a keyed hash may be compared with it. There is
/// no order on hashes for the same reason. `Display` and [`Hash::to_hex`] give 64 lower-case
/// hexadecimal digits; parsing takes either case.
#[derive(Clone, Copy)]
pub struct Hash([u8; OUT_LEN]);

impl Hash {
    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; OUT_LEN] {
        &self.0
    }

    /// A hash that was computed elsewhere.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; OUT_LEN]) -> Self {
        Self(bytes)
    }

    /// 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
    }

    /// Reads 64 hexadecimal digits, in upper or lower case.
    ///
    /// # Errors
    /// [`HexError`] for any other length, and for any other byte.
    pub fn from_hex(hex: impl AsRef<[u8]>) -> Result<Self, HexError> {
        let hex = hex.as_ref();
        if hex.len() != 2 * OUT_LEN {
            return Err(HexError::Length(hex.len()));
        }
        let mut bytes = [0; OUT_LEN];
        for (at, byte) in hex.iter().enumerate() {
            let nibble = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                b'A'..=b'F' => byte - b'A' + 10,
                _ => return Err(HexError::Digit { at, byte: *byte }),
            };
            bytes[at / 2] = bytes[at / 2] << 4 | nibble;
        }
        Ok(Self(bytes))
    }
}

/// Why a text is no hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HexError {
    /// It has this many bytes instead of 64.
    Length(usize),
    /// The byte at this place is no hexadecimal digit.
    Digit {
        /// Offset in the text, in bytes.
        at: usize,
        /// What is there.
        byte: u8,
    },
}

impl fmt::Display for HexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(len) => write!(f, "a hash has 64 hexadecimal digits, not {len}"),
            Self::Digit { at, byte } => {
                let shown = byte.escape_ascii();
                write!(f, "'{shown}' at offset {at} is no hexadecimal digit")
            }
        }
    }
}

impl core::error::Error for HexError {}

/// Equality that takes the same time wherever the two differ.
pub(crate) fn constant_time_eq(left: &[u8; OUT_LEN], right: &[u8; OUT_LEN]) -> bool {
    let mut difference = 0;
    for (left, right) in left.iter().zip(right) {
        difference |= left ^ right;
    }
    // Hidden from the optimizer, which could otherwise turn the loop into one that leaves early.
    core::hint::black_box(difference) == 0
}

impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq(&self.0, &other.0)
    }
}

impl Eq for Hash {}

impl core::hash::Hash for Hash {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl FromStr for Hash {
    type Err = HexError;

    fn from_str(text: &str) -> Result<Self, HexError> {
        Self::from_hex(text)
    }
}

impl From<[u8; OUT_LEN]> for Hash {
    fn from(bytes: [u8; OUT_LEN]) -> Self {
        Self(bytes)
    }
}

impl From<Hash> for [u8; OUT_LEN] {
    fn from(hash: Hash) -> Self {
        hash.0
    }
}
