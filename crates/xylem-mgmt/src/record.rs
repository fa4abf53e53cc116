//! Records: lists of TLV fields, each with a number and a type. One macro makes both encoder and decoder from one
//! table.
//!
//! Decoders accept fields in any order, as NFD does: implementations disagree about it. Unknown fields are skipped,
//! critical or not, since forwarders add counters of their own. A repeated field is refused. Encoders write in the
//! order of the table, which suits decoders that require one (python-ndn).
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, TlvReader};
use xylem_packet::{DecodeError, Name, NameRef};

use crate::types;

/// Reasons for which bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// Not well-formed TLV, or a malformed name.
    #[error("{0}")]
    Tlv(#[from] DecodeError),
    /// A required field is absent.
    #[error("field {0:#x} is missing")]
    Missing(u32),
    /// A field that may occur once occurs twice.
    #[error("field {0:#x} is repeated")]
    Repeated(u32),
    /// A number of other than 1, 2, 4 or 8 octets, or a text that is not UTF-8.
    #[error("field {0:#x} is malformed")]
    Malformed(u32),
}

/// The type of a field.
pub trait Field {
    /// Whether the field has to be present.
    const REQUIRED: bool;
    /// Whether the field may repeat.
    const REPEATS: bool = false;
    /// Sets the field from an element of type `typ`.
    fn decode_field(&mut self, typ: u32, value: &[u8]) -> Result<(), CodecError>;
    /// Appends the element, or nothing if the field is absent.
    fn encode_field(&self, typ: u32, out: &mut Vec<u8>);
}

impl Field for u64 {
    const REQUIRED: bool = true;
    fn decode_field(&mut self, typ: u32, value: &[u8]) -> Result<(), CodecError> {
        *self = tlv::read_number(value).ok_or(CodecError::Malformed(typ))?;
        Ok(())
    }
    fn encode_field(&self, typ: u32, out: &mut Vec<u8>) {
        tlv::write_number_element(out, typ, *self);
    }
}

impl Field for String {
    const REQUIRED: bool = true;
    fn decode_field(&mut self, typ: u32, value: &[u8]) -> Result<(), CodecError> {
        let text = core::str::from_utf8(value).map_err(|_| CodecError::Malformed(typ))?;
        text.clone_into(self);
        Ok(())
    }
    fn encode_field(&self, typ: u32, out: &mut Vec<u8>) {
        tlv::write_element(out, typ, self.as_bytes());
    }
}

/// A name stands bare, or within a Strategy element.
impl Field for Name {
    const REQUIRED: bool = true;
    fn decode_field(&mut self, typ: u32, value: &[u8]) -> Result<(), CodecError> {
        *self = match typ {
            types::STRATEGY => NameRef::decode(value)?,
            _ => NameRef::from_value(value)?,
        }
        .to_name();
        Ok(())
    }
    fn encode_field(&self, typ: u32, out: &mut Vec<u8>) {
        match typ {
            types::STRATEGY => {
                let mut inner = Vec::new();
                self.as_ref().encode(&mut inner);
                tlv::write_element(out, typ, &inner);
            }
            _ => self.as_ref().encode(out),
        }
    }
}

impl<T: Field + Default> Field for Option<T> {
    const REQUIRED: bool = false;
    fn decode_field(&mut self, typ: u32, value: &[u8]) -> Result<(), CodecError> {
        self.insert(T::default()).decode_field(typ, value)
    }
    fn encode_field(&self, typ: u32, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.encode_field(typ, out);
        }
    }
}

impl<T: Field + Default> Field for Vec<T> {
    const REQUIRED: bool = false;
    const REPEATS: bool = true;
    fn decode_field(&mut self, typ: u32, value: &[u8]) -> Result<(), CodecError> {
        let mut item = T::default();
        item.decode_field(typ, value)?;
        self.push(item);
        Ok(())
    }
    fn encode_field(&self, typ: u32, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.encode_field(typ, out));
    }
}

/// An entry of a dataset: a record with the number of the element around it.
pub trait Entry: Field + Default {
    /// Number of the element around each entry.
    const NUMBER: u32;

    /// Appends the entry with the element around it.
    fn write_entry(&self, out: &mut Vec<u8>) {
        self.encode_field(Self::NUMBER, out);
    }
}

/// Parses all entries of a dataset's content. Elements of other numbers are skipped.
///
/// # Errors
/// See [`CodecError`].
pub fn read_entries<E: Entry>(content: &[u8]) -> Result<Vec<E>, CodecError> {
    let mut reader = TlvReader::new(content);
    let mut entries: Vec<E> = Vec::new();
    while let Some(element) = reader.next_element()? {
        if element.typ == E::NUMBER {
            entries.decode_field(element.typ, element.value)?;
        }
    }
    Ok(entries)
}

/// The fields of a record: number, required, repeats.
pub(crate) type Table = &'static [(u32, bool, bool)];

/// Iterates over the fields of a record. `decode` is called with the index of each known one in `table`.
pub(crate) fn read(
    table: Table,
    value: &[u8],
    mut decode: impl FnMut(usize, u32, &[u8]) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let mut reader = TlvReader::new(value);
    let mut seen = 0u64;
    while let Some(element) = reader.next_element()? {
        let Some(i) = table.iter().position(|(typ, ..)| *typ == element.typ) else { continue };
        if seen & (1 << i) != 0 && !table[i].2 {
            return Err(CodecError::Repeated(element.typ));
        }
        seen |= 1 << i;
        decode(i, element.typ, element.value)?;
    }
    match table.iter().enumerate().find(|(i, (_, required, _))| *required && seen & (1 << i) == 0) {
        Some((_, (typ, ..))) => Err(CodecError::Missing(*typ)),
        None => Ok(()),
    }
}

/// The value of the only element in `wire`, which has to be of type `typ`.
pub(crate) fn only(wire: &[u8], typ: u32) -> Result<&[u8], CodecError> {
    let element = TlvReader::new(wire).next_element()?.ok_or(CodecError::Missing(typ))?;
    if element.typ != typ {
        return Err(CodecError::Missing(typ));
    }
    if element.end == wire.len() { Ok(element.value) } else { Err(CodecError::Malformed(typ)) }
}

/// Defines a record: a struct, `from_value`, `write_value`, and [`Field`] for its use within another record. A
/// top-level record names the element that it is `within`, and gets `decode` and `encode`. A record of a dataset names
/// the element that each is an `entry` in. A record has at most 64 fields, so that the set of those seen fits a word.
macro_rules! record {
    (
        $(#[$about:meta])*
        pub struct $name:ident $(within($element:path))? $(entry($entry:path))? { $( $(#[$doc:meta])* $field:ident: $typ:ty = $number:expr, )* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name { $( $(#[$doc])* pub $field: $typ, )* }

        impl $name {
            const TABLE: $crate::record::Table = &[ $( (
                $number,
                <$typ as $crate::record::Field>::REQUIRED,
                <$typ as $crate::record::Field>::REPEATS,
            ), )* ];

            /// Parses the record's fields.
            ///
            /// # Errors
            /// See [`crate::CodecError`].
            pub fn from_value(value: &[u8]) -> Result<Self, $crate::CodecError> {
                let mut record = Self::default();
                $crate::record::read(Self::TABLE, value, |i, typ, value| {
                    let mut at = 0..;
                    $( if at.next() == Some(i) {
                        return $crate::record::Field::decode_field(&mut record.$field, typ, value);
                    } )*
                    Ok(())
                })?;
                Ok(record)
            }

            /// Appends the record's fields.
            pub fn write_value(&self, out: &mut Vec<u8>) {
                $( $crate::record::Field::encode_field(&self.$field, $number, out); )*
            }
        }

        $( impl $name {
            /// Parses a whole element, with nothing after it.
            ///
            /// # Errors
            /// See [`crate::CodecError`]; `Missing` if the element is another.
            pub fn decode(wire: &[u8]) -> Result<Self, $crate::CodecError> {
                Self::from_value($crate::record::only(wire, $element)?)
            }

            /// The whole element.
            pub fn encode(&self) -> Vec<u8> {
                let mut out = Vec::new();
                $crate::record::Field::encode_field(self, $element, &mut out);
                out
            }
        } )?

        $( impl $crate::record::Entry for $name {
            const NUMBER: u32 = $entry;
        } )?

        impl $crate::record::Field for $name {
            const REQUIRED: bool = true;
            fn decode_field(&mut self, _: u32, value: &[u8]) -> Result<(), $crate::CodecError> {
                *self = Self::from_value(value)?;
                Ok(())
            }
            fn encode_field(&self, typ: u32, out: &mut Vec<u8>) {
                let mut inner = Vec::new();
                self.write_value(&mut inner);
                xylem_packet::tlv::write_element(out, typ, &inner);
            }
        }
    };
}
pub(crate) use record;
