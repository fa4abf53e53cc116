//! Parses fields of foreign bytes in order, and writes bytes with their length in front.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

/// The unparsed rest. Every method takes from its front, and returns `None` if it is too short.
pub(crate) struct FieldReader<'a>(pub &'a [u8]);

impl<'a> FieldReader<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes a text with its length in front, two bytes.
    pub(crate) fn text(&mut self, longest: usize) -> Option<&'a str> {
        let len = usize::from(self.u16()?);
        let bytes = self.bytes(len).filter(|_| len <= longest)?;
        core::str::from_utf8(bytes).ok()
    }
}

/// Appends bytes with their length in front, two bytes; there are at most 65,535.
pub(crate) fn put_u16_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("the caller's limit is below 65,536");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends bytes with their length in front, four bytes.
pub(crate) fn put_u32_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("an envelope is the longest");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}
