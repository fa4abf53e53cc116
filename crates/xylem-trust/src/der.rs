//! A subset of DER (ITU-T X.690) for keys: definite lengths in their shortest form, and one reader.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use crate::KeyError;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
#[cfg(feature = "ring")]
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;

/// Reads consecutive elements.
pub(crate) struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        DerReader(bytes)
    }

    /// The value of the next element, which has to be of type `tag`.
    pub(crate) fn element(&mut self, tag: u8) -> Result<&'a [u8], KeyError> {
        let [found, first, rest @ ..] = self.0 else { return Err(KeyError::Malformed) };
        if *found != tag {
            return Err(KeyError::Malformed);
        }
        let (len, rest) = match (*first, rest) {
            (short @ ..=0x7F, rest) => (usize::from(short), rest),
            (0x81, [a, rest @ ..]) if *a >= 0x80 => (usize::from(*a), rest),
            (0x82, [a, b, rest @ ..]) if *a != 0 => {
                (usize::from(u16::from_be_bytes([*a, *b])), rest)
            }
            _ => return Err(KeyError::Malformed),
        };
        if len > rest.len() {
            return Err(KeyError::Malformed);
        }
        let (value, rest) = rest.split_at(len);
        self.0 = rest;
        Ok(value)
    }

    /// The type of the next element.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Fails unless all elements were read.
    pub(crate) fn end(&self) -> Result<(), KeyError> {
        if self.0.is_empty() { Ok(()) } else { Err(KeyError::Malformed) }
    }
}

/// The value of `bytes`, which has to be exactly one element of type `tag`.
pub(crate) fn only(bytes: &[u8], tag: u8) -> Result<&[u8], KeyError> {
    let mut reader = DerReader::new(bytes);
    let value = reader.element(tag)?;
    reader.end()?;
    Ok(value)
}

/// Appends one element. `value` is at most 65,535 bytes long.
#[expect(clippy::cast_possible_truncation, reason = "matched on, and at most 65,535")]
pub(crate) fn write(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    match value.len() {
        len @ 0..0x80 => out.push(len as u8),
        len @ 0x80..0x100 => out.extend_from_slice(&[0x81, len as u8]),
        len => {
            debug_assert!(u16::try_from(len).is_ok());
            out.push(0x82);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_round_trip_and_have_one_form() {
        for len in [0, 1, 127, 128, 255, 256, 65535] {
            let mut out = Vec::new();
            write(&mut out, BIT_STRING, &vec![7; len]);
            assert_eq!(only(&out, BIT_STRING).unwrap().len(), len);
            assert_eq!(only(&out[..out.len() - 1], BIT_STRING), Err(KeyError::Malformed));
        }
        for longer in [&[4, 0x81, 1, 0][..], &[4, 0x82, 0, 200], &[4, 0x80], &[4, 0x84, 0, 0, 0, 0]]
        {
            assert_eq!(DerReader::new(longer).element(BIT_STRING), Err(KeyError::Malformed));
        }
    }
}
