//! Reading and writing fields: sequences of elements in any order, each at most once unless it may repeat.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, TlvReader};
use xylem_packet::{DecodeError, Name, NameRef};

/// Limit of the length of a text, of a list and of a parameter's value.
pub(crate) const MAX_TEXT: usize = 1024;
pub(crate) const MAX_ENTRIES: usize = 16;

/// Reasons for which a packet's content can't be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Not a sequence of elements, or a name or packet inside is malformed.
    #[error(transparent)]
    Tlv(#[from] DecodeError),
    /// A required element is missing.
    #[error("element {0:#x} is missing")]
    Missing(u32),
    /// An element that may occur once occurs twice.
    #[error("element {0:#x} is repeated")]
    Repeated(u32),
    /// An unknown critical element.
    #[error("critical element {0:#x} is unknown")]
    UnknownCritical(u32),
    /// An element's value has a wrong length, or is no number or text.
    #[error("element {0:#x} has a wrong value")]
    Value(u32),
    /// More elements of one kind than the limit.
    #[error("too many elements {0:#x}")]
    TooMany(u32),
}

/// Calls `known` with each element; it returns whether it knows the element.
pub(crate) fn each<'a>(
    value: &'a [u8],
    mut known: impl FnMut(u32, &'a [u8]) -> Result<bool, FormatError>,
) -> Result<(), FormatError> {
    let mut reader = TlvReader::new(value);
    while let Some(element) = reader.next_element()? {
        if !known(element.typ, element.value)? && tlv::is_critical(element.typ) {
            return Err(FormatError::UnknownCritical(element.typ));
        }
    }
    Ok(())
}

/// Sets the value of an element that may occur once; returns true.
pub(crate) fn once<T>(slot: &mut Option<T>, typ: u32, value: T) -> Result<bool, FormatError> {
    if slot.replace(value).is_some() { Err(FormatError::Repeated(typ)) } else { Ok(true) }
}

/// Appends the value of an element that may repeat; returns true.
pub(crate) fn more<T>(list: &mut Vec<T>, typ: u32, value: T) -> Result<bool, FormatError> {
    if list.len() >= MAX_ENTRIES {
        return Err(FormatError::TooMany(typ));
    }
    list.push(value);
    Ok(true)
}

pub(crate) fn needed<T>(slot: Option<T>, typ: u32) -> Result<T, FormatError> {
    slot.ok_or(FormatError::Missing(typ))
}

pub(crate) fn text(typ: u32, value: &[u8]) -> Result<String, FormatError> {
    let text = core::str::from_utf8(value).ok().filter(|text| text.len() <= MAX_TEXT);
    text.map(str::to_owned).ok_or(FormatError::Value(typ))
}

pub(crate) fn number(typ: u32, value: &[u8]) -> Result<u64, FormatError> {
    tlv::read_number(value).ok_or(FormatError::Value(typ))
}

pub(crate) fn fixed<const N: usize>(typ: u32, value: &[u8]) -> Result<[u8; N], FormatError> {
    value.try_into().map_err(|_| FormatError::Value(typ))
}

/// A Name element and nothing else.
pub(crate) fn name(value: &[u8]) -> Result<Name, FormatError> {
    Ok(NameRef::decode(value)?.to_name())
}

pub(crate) fn write_name(out: &mut Vec<u8>, typ: u32, name: NameRef<'_>) {
    let mut value = Vec::new();
    name.encode(&mut value);
    tlv::write_element(out, typ, &value);
}
