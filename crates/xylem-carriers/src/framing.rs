//! Datagrams in a stream of bytes: a length (2 bytes, big-endian), then that many bytes (docs/spec/carriers.md, "TLS").
//!
//! Bytes come from a TLS session and go to one. This module does not interpret the datagrams.

use bytes::{Buf, BufMut, BytesMut};

use crate::Malformed;

/// Bytes before each datagram.
const HEADER_LEN: usize = 2;

/// Appends a datagram of 1 to 65,535 bytes; for another length it returns `false` and appends nothing.
pub fn wrap(datagram: &[u8], out: &mut BytesMut) -> bool {
    let Ok(len @ 1..) = u16::try_from(datagram.len()) else { return false };
    out.reserve(HEADER_LEN + datagram.len());
    out.put_u16(len);
    out.put_slice(datagram);
    true
}

/// Takes the next datagram off the front, without copying it; `None`: not all of it is there.
///
/// # Errors
/// [`Malformed`] for an empty datagram, which no peer sends.
pub fn unwrap(input: &mut BytesMut) -> Result<Option<BytesMut>, Malformed> {
    let Some(header) = input.first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes(*header));
    if len == 0 {
        return Err(Malformed("an empty datagram"));
    }
    if input.len() < HEADER_LEN + len {
        return Ok(None);
    }
    input.advance(HEADER_LEN);
    Ok(Some(input.split_to(len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_datagrams_come_out_of_any_pieces() {
        let datagrams: Vec<Vec<u8>> =
            [1, 2, 1_200, 65_535].iter().map(|len| vec![*len as u8; *len]).collect();
        let mut stream = BytesMut::new();
        for datagram in &datagrams {
            assert!(wrap(datagram, &mut stream));
        }
        for step in [1, 2, 3, 1_000, 100_000] {
            let (mut input, mut found) = (BytesMut::new(), Vec::new());
            for piece in stream.chunks(step) {
                input.extend_from_slice(piece);
                while let Some(datagram) = unwrap(&mut input).unwrap() {
                    found.push(datagram.to_vec());
                }
            }
            assert!(found == datagrams && input.is_empty(), "pieces of {step}");
        }
    }

    #[test]
    fn other_lengths_are_not_wrapped_and_zero_is_refused() {
        let mut out = BytesMut::new();
        assert!(!wrap(&[], &mut out) && !wrap(&[0; 65_536], &mut out) && out.is_empty());
        assert!(unwrap(&mut BytesMut::from(&[0, 0, 1][..])).is_err());
    }
}
