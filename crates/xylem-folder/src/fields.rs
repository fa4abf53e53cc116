//! Fields of the members' messages: of a fixed length, or with their length in front.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

/// Appends a field of variable length, with its length as u16 in front.
pub(super) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).unwrap_or(0);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes.get(..usize::from(len)).unwrap_or_default());
}

/// Takes a field of `N` bytes off the front.
pub(super) fn array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*taken)
}

/// Takes a field of variable length off the front.
pub(super) fn field<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::from(u16::from_be_bytes(array(input)?));
    let (taken, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(taken)
}
