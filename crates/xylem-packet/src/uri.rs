//! Names as text: the NDN URI scheme, with the alternate forms of the naming conventions rev. 3.
//!
//! An example is `/hello/32=metadata/v=7/seg=0`. Generic components are percent-encoded outside `A-Z a-z 0-9 - . _ ~`,
//! and get three more periods if they consist of periods only. Digests are hexadecimal. Components of the conventions'
//! number types are decimal if they are numbers in their shortest form. Any other type is `<type>=<escaped value>`.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt::{self, Write};

use crate::buffer::Buffer;
use crate::tlv::{self, OpenElement, types};
use crate::{Component, NameRef};

/// Types that have a word before the equals sign: the number types, then the digests.
const NUMBER_WORDS: [(u32, &str); 5] = [
    (types::SEGMENT_COMPONENT, "seg"),
    (types::BYTE_OFFSET_COMPONENT, "off"),
    (types::VERSION_COMPONENT, "v"),
    (types::TIMESTAMP_COMPONENT, "t"),
    (types::SEQUENCE_COMPONENT, "seq"),
];
const DIGEST_WORDS: [(u32, &str); 2] = [
    (types::IMPLICIT_SHA256_DIGEST, "sha256digest"),
    (types::PARAMETERS_SHA256_DIGEST, "params-sha256"),
];

/// Why a text is no name. `at` is the number of the faulty component, from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// Neither `/…` nor `ndn:/…`.
    #[error("a name begins with a slash")]
    NoSlash,
    /// An empty component, or `.` or `..`, which have another meaning in URIs.
    #[error(
        "component {at}: empty, or only one or two periods (an empty component is written ...)"
    )]
    Empty {
        /// The component's number.
        at: usize,
    },
    /// A percent sign without two hexadecimal digits.
    #[error("component {at}: a percent sign needs two hexadecimal digits after it")]
    Percent {
        /// The component's number.
        at: usize,
    },
    /// A character that has another meaning in a URI.
    #[error("component {at}: {character:?} has to be percent-encoded")]
    Reserved {
        /// The component's number.
        at: usize,
        /// The character.
        character: char,
    },
    /// The text before the equals sign is neither a known word nor a type number in 1..=65535.
    #[error("component {at}: unknown component type before the equals sign")]
    Type {
        /// The component's number.
        at: usize,
    },
    /// The text after the equals sign is not a decimal number in 0..=2^64-1.
    #[error("component {at}: a decimal number has to follow the equals sign")]
    Number {
        /// The component's number.
        at: usize,
    },
    /// The text after the equals sign is not a digest of 64 hexadecimal digits.
    #[error("component {at}: a digest is 64 hexadecimal digits")]
    Digest {
        /// The component's number.
        at: usize,
    },
    /// The name does not fit into its output (without an allocator).
    #[error("the name does not fit into its buffer")]
    TooLong,
}

/// Reads a name, appends its components to `out` and returns their number. The scheme `ndn:` may be omitted, an
/// authority after it is ignored, and one slash may stand at the end. On an error the components read so far stay in
/// `out`.
pub(crate) fn parse(uri: &str, out: &mut impl Buffer) -> Result<u32, UriError> {
    let path = match uri.strip_prefix("ndn:") {
        None => uri,
        Some(rest) => match rest.strip_prefix("//") {
            None => rest,
            // Packet format v0.3, "NDN URI Scheme": the authority is ignored.
            Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        },
    };
    let path = path.strip_prefix('/').ok_or(UriError::NoSlash)?;
    let path = match path.strip_suffix('/') {
        // Two slashes only.
        Some("") => return Err(UriError::Empty { at: 0 }),
        Some(path) => path,
        None => path,
    };
    if path.is_empty() {
        return Ok(0);
    }
    let mut count = 0u32;
    for (at, text) in path.split('/').enumerate() {
        put_component(out, at, text)?;
        count = count.saturating_add(1);
    }
    if out.is_full() { Err(UriError::TooLong) } else { Ok(count) }
}

fn put_component(out: &mut impl Buffer, at: usize, text: &str) -> Result<(), UriError> {
    let Some((word, rest)) = text.split_once('=') else {
        return put_escaped(out, at, types::GENERIC_COMPONENT, text);
    };
    if let Some((typ, _)) = NUMBER_WORDS.iter().find(|(_, w)| *w == word) {
        let number = decimal(rest).ok_or(UriError::Number { at })?;
        tlv::write_number_element(out, *typ, number);
        return Ok(());
    }
    if let Some((typ, _)) = DIGEST_WORDS.iter().find(|(_, w)| *w == word) {
        let digest = unhex(rest).ok_or(UriError::Digest { at })?;
        tlv::write_element(out, *typ, &digest);
        return Ok(());
    }
    let typ = decimal(word).and_then(|typ| u16::try_from(typ).ok()).filter(|typ| *typ != 0);
    put_escaped(out, at, u32::from(typ.ok_or(UriError::Type { at })?), rest)
}

/// Parses a decimal number without sign, spaces or leading zeros.
fn decimal(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if digits && !leading_zero { text.parse().ok() } else { None }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let mut digest = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (octet, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *octet = octet_of(pair[0], pair[1])?;
    }
    Some(digest)
}

fn octet_of(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Strips a period, which may be written as %2E (RFC 3986, 2.3).
fn strip_period(text: &str) -> Option<&str> {
    ["%2E", "%2e", "."].iter().find_map(|period| text.strip_prefix(period))
}

/// Writes a component of type `typ` with the value `text`, percent-decoded, and without three of its periods if it
/// consists of periods only.
fn put_escaped(out: &mut impl Buffer, at: usize, typ: u32, text: &str) -> Result<(), UriError> {
    // "", "." and ".." are errors; "..." is the empty value. The three periods are never written, so that a name fits
    // wherever its value does.
    let mut after_periods = text;
    while let Some(rest) = strip_period(after_periods) {
        after_periods = rest;
    }
    let text = if after_periods.is_empty() {
        let less_three = strip_period(text).and_then(strip_period).and_then(strip_period);
        less_three.ok_or(UriError::Empty { at })?
    } else {
        text
    };
    let element = OpenElement::begin(out, typ, 1);
    let start = out.written().len();
    let mut rest = text.as_bytes();
    while let Some(special) = rest.iter().position(|b| b"%?#=".contains(b)) {
        let (plain, escape) = rest.split_at(special);
        out.put(plain);
        rest = match escape {
            [b'%', high, low, rest @ ..] => {
                out.put(&[octet_of(*high, *low).ok_or(UriError::Percent { at })?]);
                rest
            }
            [character, ..] if *character != b'%' => {
                return Err(UriError::Reserved { at, character: char::from(*character) });
            }
            _ => return Err(UriError::Percent { at }),
        };
    }
    out.put(rest);
    let len = out.written().len().saturating_sub(start);
    if typ <= types::PARAMETERS_SHA256_DIGEST && len != 32 && !out.is_full() {
        return Err(UriError::Digest { at });
    }
    element.end(out);
    Ok(())
}

impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typ = self.typ();
        if let (Some((_, word)), Some(number)) =
            (NUMBER_WORDS.iter().find(|(t, _)| *t == typ), self.as_number())
        {
            return write!(f, "{word}={number}");
        }
        if let Some((_, word)) = DIGEST_WORDS.iter().find(|(t, _)| *t == typ) {
            write!(f, "{word}=")?;
            return self.value().iter().try_for_each(|byte| write!(f, "{byte:02x}"));
        }
        if typ != types::GENERIC_COMPONENT {
            write!(f, "{typ}=")?;
        }
        if self.value().iter().all(|b| *b == b'.') {
            f.write_str("...")?;
        }
        for byte in self.value() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    f.write_char(char::from(*byte))?;
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_char('/');
        }
        self.iter().try_for_each(|component| write!(f, "/{component}"))
    }
}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Serializes the URI.
#[cfg(feature = "serde")]
impl serde::Serialize for NameRef<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::Name;
    use alloc::string::ToString;

    #[test]
    fn text_and_bytes_agree() {
        let digest = "893259d98aca58c451453f29ec7dc38688e690dd0b59ef4f3b9d33738bff0b8d";
        let cases: [(&str, &[u8]); 9] = [
            ("/", &[]),
            ("/A", &[8, 1, b'A']),
            ("/hello/world", b"\x08\x05hello\x08\x05world"),
            ("/32=metadata", b"\x20\x08metadata"),
            (
                "/v=1/seg=256/t=0/seq=65536/off=255",
                b"\x36\x01\x01\x32\x02\x01\x00\x38\x01\x00\x3a\x04\x00\x01\x00\x00\x34\x01\xff",
            ),
            ("/...", &[8, 0]),
            ("/....", b"\x08\x01."),
            ("/%00%2F%3D%E4", b"\x08\x04\x00/=\xe4"),
            ("/50=%00%01/65535=x", b"\x32\x02\x00\x01\xfd\xff\xff\x01x"),
        ];
        for (text, value) in cases {
            let name: Name = text.parse().unwrap();
            assert_eq!(name.as_ref().value(), value, "{text}");
            assert_eq!(name.to_string(), text);
        }
        for word in ["sha256digest", "params-sha256"] {
            let text = alloc::format!("/x/{word}={digest}");
            assert_eq!(Name::from_uri(&text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_spellings_of_the_same_name_are_read() {
        for (text, canonical) in [
            ("ndn:/A/B", "/A/B"),
            ("ndn://host.example:6363/A/B", "/A/B"),
            ("ndn:///A", "/A"),
            ("ndn://host", "/"),
            ("ndn:/", "/"),
            ("/A/B/", "/A/B"),
            ("/8=A", "/A"),
            ("/50=%07", "/seg=7"),
            ("/%41", "/A"),
            ("/a b", "/a%20b"),
            ("/%e4", "/%E4"),
            ("/ndn:x", "/ndn%3Ax"),
            ("/.%2E.", "/..."),
            ("/%2E..%2E", "/...."),
        ] {
            assert_eq!(Name::from_uri(text).unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn uri_errors_name_the_fault() {
        let at = 1;
        for (text, error) in [
            ("", UriError::NoSlash),
            ("A/B", UriError::NoSlash),
            ("//", UriError::Empty { at: 0 }),
            ("//host/A", UriError::Empty { at: 0 }),
            ("ndn:", UriError::NoSlash),
            ("ndn:A", UriError::NoSlash),
            ("/A//B", UriError::Empty { at }),
            ("/A/.", UriError::Empty { at }),
            ("/A/..", UriError::Empty { at }),
            ("/A/%2E%2E", UriError::Empty { at }),
            ("/A/8=", UriError::Empty { at }),
            ("/A/%4", UriError::Percent { at }),
            ("/A/%zz", UriError::Percent { at }),
            ("/A/x?y", UriError::Reserved { at, character: '?' }),
            ("/A/8=x=y", UriError::Reserved { at, character: '=' }),
            ("/A/x=y", UriError::Type { at }),
            ("/A/0=y", UriError::Type { at }),
            ("/A/65536=y", UriError::Type { at }),
            ("/A/08=y", UriError::Type { at }),
            ("/A/seg=", UriError::Number { at }),
            ("/A/seg=01", UriError::Number { at }),
            ("/A/seg=18446744073709551616", UriError::Number { at }),
            ("/A/sha256digest=00", UriError::Digest { at }),
            ("/A/1=x", UriError::Digest { at }),
        ] {
            assert_eq!(Name::from_uri(text), Err(error), "{text}");
        }
    }
}
