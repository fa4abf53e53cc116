//! Codes for people: ten letters and digits of Crockford's base 32, of 50 random bits.
//!
//! The protocol speaks of six digits, but clients accept any text. A client has three tries a request and any number of
//! requests, so a million guesses must be hopeless.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use zeroize::Zeroizing;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LEN: usize = 10;
/// Limit in octets of a typed code, which may contain spaces and hyphens.
const MAX_TYPED: usize = 64;

/// A code, without spaces or hyphens.
pub(crate) struct ChallengeCode(Zeroizing<[u8; LEN]>);

impl ChallengeCode {
    pub(crate) fn new(random: [u8; LEN]) -> Self {
        ChallengeCode(Zeroizing::new(random.map(|octet| ALPHABET[usize::from(octet & 31)])))
    }

    /// The code as it is shown to people.
    pub(crate) fn text(&self) -> String {
        let (front, back) = self.0.split_at(LEN / 2);
        [front, b"-", back].concat().into_iter().map(char::from).collect()
    }

    /// Whether `typed` is this code: in any case, with any spaces and hyphens, O for 0, I and L for 1.
    pub(crate) fn is(&self, typed: &[u8]) -> bool {
        if typed.len() > MAX_TYPED {
            return false;
        }
        let known = |octet: &u8| match octet.to_ascii_uppercase() {
            b'-' | b' ' => None,
            b'O' => Some(b'0'),
            b'I' | b'L' => Some(b'1'),
            other => Some(other),
        };
        let typed: Zeroizing<Vec<u8>> = Zeroizing::new(typed.iter().filter_map(known).collect());
        constant_time_eq::constant_time_eq(&typed, &self.0[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_typed_as_people_type() {
        let code = ChallengeCode::new([0, 1, 31, 10, 18, 255, 32, 33, 5, 6]);
        assert_eq!(code.text(), "01ZAJ-Z0156");
        for typed in ["01ZAJ-Z0156", "01zajz0156", " o1ZAJ zOi56 ", "0lzaj-z0156"] {
            assert!(code.is(typed.as_bytes()), "{typed}");
        }
        for typed in ["", "01ZAJ-Z0157", "01ZAJ-Z015", "01ZAJ-Z01566"] {
            assert!(!code.is(typed.as_bytes()), "{typed}");
        }
        assert!(!code.is(&[b"01ZAJ-Z0156".as_slice(), &[b' '; 99]].concat()));
    }
}
