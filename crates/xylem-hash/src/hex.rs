//! Hexadecimal digits of a hash, without a heap and in constant time.
//!
//! The digits may be those of a keyed hash or of a derived key. Both directions compute all 32 bytes by arithmetic: no
//! table, branch or early exit depends on a digit's value. Only text that is no hash takes other paths, as its first
//! wrong byte is searched for. Later operations on [`HexString`] and `str`, comparison above all, are not in constant
//! time.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use crate::constants::OUT_LEN;

const DIGITS: usize = 2 * OUT_LEN;

/// 64 lower-case hexadecimal digits: the result of [`Hash::to_hex`](crate::Hash::to_hex).
///
/// It behaves as a `str`, in 64 bytes of its own. Comparing two of them does *not* take constant time: compare hashes
/// instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HexString([u8; DIGITS]);

impl HexString {
    #[inline]
    pub(crate) fn encode(bytes: &[u8; OUT_LEN]) -> Self {
        let mut text = [0; DIGITS];
        for (digits, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            *digits = [digit(byte >> 4), digit(byte & 15)];
        }
        Self(text)
    }

    /// The digits.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        // SAFETY: `encode`, the only constructor, writes ASCII digits and letters only.
        unsafe { core::str::from_utf8_unchecked(&self.0) }
    }
}

/// The digit of a value below 16. Letters begin 39 code points after the place where digits would continue.
#[inline]
fn digit(value: u8) -> u8 {
    b'0' + value + (39 & mask(9, value))
}

/// 255 if `left < right`, else 0.
#[inline]
fn mask(left: u8, right: u8) -> u8 {
    ((i16::from(left) - i16::from(right)) >> 8) as u8
}

/// The value of a digit, and 0; for any other byte any value, and 255.
#[inline]
fn value(digit: u8) -> (u8, u8) {
    let number = digit.wrapping_sub(b'0');
    let letter = (digit | 0x20).wrapping_sub(b'a');
    let (is_number, is_letter) = (mask(number, 10), mask(letter, 6));
    let value = (number & is_number) | (letter.wrapping_add(10) & is_letter);
    (value, !(is_number | is_letter))
}

/// Reads 64 digits.
#[inline]
pub(crate) fn decode(hex: &[u8]) -> Result<[u8; OUT_LEN], HexError> {
    let Ok(digits) = <&[u8; DIGITS]>::try_from(hex) else {
        return Err(HexError::Length(hex.len()));
    };
    let (mut bytes, mut wrong) = ([0; OUT_LEN], 0);
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        let [(high, no), (low, nor)] = [value(pair[0]), value(pair[1])];
        *byte = high << 4 | low;
        wrong |= no | nor;
    }
    // Hidden from the optimizer, which could otherwise exit the loop early.
    if core::hint::black_box(wrong) == 0 { Ok(bytes) } else { Err(first_wrong(digits)) }
}

#[cold]
#[inline]
fn first_wrong(digits: &[u8; DIGITS]) -> HexError {
    let at = digits.iter().position(|digit| value(*digit).1 != 0).unwrap_or(0);
    HexError::Digit { at, byte: digits[at] }
}

/// Why a text is not a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HexError {
    /// It has this many bytes instead of 64.
    Length(usize),
    /// The byte at this place is no hexadecimal digit.
    Digit {
        /// Offset in the text, in bytes.
        at: usize,
        /// The byte.
        byte: u8,
    },
}

impl fmt::Display for HexError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(len) => write!(f, "a hash has 64 hexadecimal digits, not {len}"),
            Self::Digit { at, byte } => {
                let shown = byte.escape_ascii();
                write!(f, "'{shown}' at offset {at} is not a hexadecimal digit")
            }
        }
    }
}

impl core::error::Error for HexError {}

impl Deref for HexString {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for HexString {
    #[inline]
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<[u8]> for HexString {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(feature = "std")]
impl AsRef<std::path::Path> for HexString {
    #[inline]
    fn as_ref(&self) -> &std::path::Path {
        std::path::Path::new(self.as_str())
    }
}

/// Hashes as the `str` does, as `Borrow` requires.
impl Hash for HexString {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for HexString {
    #[inline]
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for HexString {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for HexString {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for HexString {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for HexString {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
