//! Reads a manifest's fields in their fixed order.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::Component;
use xylem_packet::tlv::{self, TlvReader};

use super::{MAX_MANIFEST, ManifestError, types};

/// The unread rest of a manifest's content, and the next field's number and value, if there is one.
pub(super) struct ManifestFields<'a> {
    rest: TlvReader<'a>,
    last: u32,
    next: Option<(u32, &'a [u8])>,
}

impl<'a> ManifestFields<'a> {
    pub(super) fn new(content: &'a [u8]) -> Result<Self, ManifestError> {
        if content.len() > MAX_MANIFEST {
            return Err(ManifestError::TooLong);
        }
        let mut fields = Self { rest: TlvReader::new(content), last: 0, next: None };
        fields.advance()?;
        Ok(fields)
    }

    /// Moves to the next field; skips unknown fields that may be skipped.
    fn advance(&mut self) -> Result<(), ManifestError> {
        self.next = None;
        while let Some(element) = self.rest.next_element().map_err(|_| ManifestError::BadTlv)? {
            let typ = element.typ;
            if typ <= self.last {
                return Err(ManifestError::Misplaced(typ));
            }
            self.last = typ;
            if types::assigned(typ) {
                self.next = Some((typ, element.value));
                return Ok(());
            }
            if tlv::is_critical(typ) {
                return Err(ManifestError::UnknownCritical(typ));
            }
        }
        Ok(())
    }

    pub(super) fn optional(&mut self, field: u32) -> Result<Option<&'a [u8]>, ManifestError> {
        match self.next {
            Some((typ, value)) if typ == field => {
                self.advance()?;
                Ok(Some(value))
            }
            Some((typ, _)) if typ < field => Err(ManifestError::Misplaced(typ)),
            _ => Ok(None),
        }
    }

    fn required(&mut self, field: u32) -> Result<&'a [u8], ManifestError> {
        self.optional(field)?.ok_or(ManifestError::Missing(field))
    }

    pub(super) fn number<T: TryFrom<u64>>(
        &mut self,
        field: u32,
        max: u64,
    ) -> Result<T, ManifestError> {
        let number = number_of(self.required(field)?);
        let number = number.filter(|&number| number <= max).and_then(|n| T::try_from(n).ok());
        number.ok_or(ManifestError::BadValue(field))
    }

    pub(super) fn optional_number(&mut self, field: u32) -> Result<Option<u64>, ManifestError> {
        let value = self.optional(field)?;
        value.map(|value| number_of(value).ok_or(ManifestError::BadValue(field))).transpose()
    }

    pub(super) fn array<const N: usize>(&mut self, field: u32) -> Result<[u8; N], ManifestError> {
        self.required(field)?.try_into().map_err(|_| ManifestError::BadValue(field))
    }

    /// Checks that no field is left. One that is left does not belong in this kind of manifest.
    pub(super) fn end(self) -> Result<(), ManifestError> {
        match self.next {
            Some((typ, _)) => Err(ManifestError::Misplaced(typ)),
            None => Ok(()),
        }
    }
}

/// Reads a number by a component, which checks for the shortest form; NDN itself does not require it of numbers.
fn number_of(value: &[u8]) -> Option<u64> {
    Component::generic(value).as_number()
}
