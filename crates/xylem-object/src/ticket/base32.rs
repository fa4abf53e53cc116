//! Base32 (RFC 4648 section 6), lower case, without padding; reading also takes upper case.

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A text that is not base32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base32Error {
    /// A character outside the alphabet, at a byte offset.
    Character(char, usize),
    /// A number of characters that no bytes encode to, or bits left over that are not zero.
    Length,
}

/// Bytes as text.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for group in bytes.chunks(5) {
        let mut bits = 0u64;
        for at in 0..5 {
            bits = bits << 8 | u64::from(group.get(at).copied().unwrap_or(0));
        }
        for at in 0..(group.len() * 8).div_ceil(5) {
            text.push(char::from(ALPHABET[(bits >> (35 - 5 * at)) as usize & 31]));
        }
    }
    text
}

/// Text as bytes.
///
/// # Errors
/// [`Base32Error`] for what [`encode`] does not give.
pub fn decode(text: &str) -> Result<Vec<u8>, Base32Error> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut bits, mut count) = (0u32, 0);
    for (at, character) in text.char_indices() {
        let value = match character {
            'a'..='z' => character as u32 - 'a' as u32,
            'A'..='Z' => character as u32 - 'A' as u32,
            '2'..='7' => character as u32 - '2' as u32 + 26,
            _ => return Err(Base32Error::Character(character, at)),
        };
        bits = (bits << 5 | value) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    // One encoding per byte string: five bits or more left over would be a character too many.
    if count >= 5 || bits & ((1 << count) - 1) != 0 {
        return Err(Base32Error::Length);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 section 10, in lower case and without the padding.
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
