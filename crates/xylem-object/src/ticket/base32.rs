//! Base32 (RFC 4648 section 6) in lower case, without padding. Decoding also accepts upper case.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use data_encoding::BASE32_NOPAD_NOCASE;

/// The text is not base32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base32Error {
    /// A character outside the alphabet, and its byte offset.
    Character(char, usize),
    /// A number of characters that no bytes encode to, or leftover bits that are not zero.
    Length,
}

/// Encodes bytes as text.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    BASE32_NOPAD_NOCASE.encode(bytes).to_ascii_lowercase()
}

/// Decodes text.
///
/// # Errors
/// [`Base32Error`] for anything that [`encode`] does not return (in either case).
pub fn decode(text: &str) -> Result<Vec<u8>, Base32Error> {
    // Checked first: the library would report a wrong length before a wrong character, and the character as a byte.
    let is_digit = |c: &char| matches!(c, 'a'..='z' | 'A'..='Z' | '2'..='7');
    if let Some((at, character)) = text.char_indices().find(|(_, c)| !is_digit(c)) {
        return Err(Base32Error::Character(character, at));
    }
    BASE32_NOPAD_NOCASE.decode(text.as_bytes()).map_err(|_| Base32Error::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 section 10, in lower case and without padding.
    #[test]
    fn matches_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("fooba", "mzxw6ytb"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text), Ok(bytes.as_bytes().to_vec()));
            assert_eq!(decode(&text.to_uppercase()), Ok(bytes.as_bytes().to_vec()));
        }
    }

    #[test]
    fn one_text_per_byte_string() {
        assert_eq!(decode("mz"), Err(Base32Error::Length), "a bit left over is set");
        for length in [1, 3, 6] {
            assert_eq!(decode(&"a".repeat(length)), Err(Base32Error::Length));
        }
        assert_eq!(decode("my1"), Err(Base32Error::Character('1', 2)));
        assert_eq!(decode("é"), Err(Base32Error::Character('é', 0)));
        assert_eq!(decode("my=="), Err(Base32Error::Character('=', 2)));
    }
}
