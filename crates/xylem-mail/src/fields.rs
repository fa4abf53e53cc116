//! Fields of what others wrote, read one after the other; and bytes written behind their length.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

/// What is left; every method takes from its front, `None` where there is too little.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
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

    /// A text behind its length in two bytes.
    pub(crate) fn text(&mut self, longest: usize) -> Option<&'a str> {
        let len = usize::from(self.u16()?);
        let bytes = self.bytes(len).filter(|_| len <= longest)?;
        core::str::from_utf8(bytes).ok()
    }
}

/// Appends the bytes behind their length of two bytes; there are at most 65,535.
pub(crate) fn put_u16_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("the caller's limit is below 65,536");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends the bytes behind their length of four bytes.
pub(crate) fn put_u32_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("an envelope is the longest");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}
