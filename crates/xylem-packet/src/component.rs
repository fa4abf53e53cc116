//! One name component: a type in 1..=65535 and a value.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::cmp::Ordering;
use core::hash::{Hash, Hasher};

use crate::DecodeError;
use crate::buffer::Buffer;
use crate::tlv::{self, Element, types};

/// One component of a name. Ordered canonically: by type, then length, then bytes
/// (packet format v0.3, "Canonical order").
#[derive(Clone, Copy)]
pub struct Component<'a> {
    typ: u16,
    value: ComponentValue<'a>,
}

/// The bytes of a value. A number's bytes are stored inline.
#[derive(Clone, Copy)]
enum ComponentValue<'a> {
    Borrowed(&'a [u8]),
    Number([u8; 8], u8),
}

impl<'a> Component<'a> {
    /// A component of any type. Errors: `ComponentType` unless `typ` is 1..=65535, `BadLength` for a digest (types 1
    /// and 2) that is not 32 bytes.
    #[inline]
    pub fn new(typ: u32, value: &'a [u8]) -> Result<Self, DecodeError> {
        let short = match u16::try_from(typ) {
            Ok(short) if short != 0 => short,
            _ => return Err(DecodeError::ComponentType(typ)),
        };
        if typ <= types::PARAMETERS_SHA256_DIGEST && value.len() != 32 {
            return Err(DecodeError::BadLength { typ, len: value.len() });
        }
        Ok(Component { typ: short, value: ComponentValue::Borrowed(value) })
    }

    #[inline]
    pub(crate) fn from_element(element: Element<'a>) -> Result<Self, DecodeError> {
        Self::new(element.typ, element.value)
    }

    #[expect(clippy::cast_possible_truncation, reason = "assigned numbers")]
    const fn borrowed(typ: u32, value: &'a [u8]) -> Self {
        Component { typ: typ as u16, value: ComponentValue::Borrowed(value) }
    }

    /// GenericNameComponent (8).
    pub const fn generic(value: &'a [u8]) -> Self {
        Self::borrowed(types::GENERIC_COMPONENT, value)
    }

    /// KeywordNameComponent (32), such as `32=metadata`.
    pub const fn keyword(value: &'a [u8]) -> Self {
        Self::borrowed(types::KEYWORD_COMPONENT, value)
    }

    /// ImplicitSha256DigestComponent (1).
    pub const fn implicit_digest(digest: &'a [u8; 32]) -> Self {
        Self::borrowed(types::IMPLICIT_SHA256_DIGEST, digest)
    }

    /// ParametersSha256DigestComponent (2).
    pub const fn parameters_digest(digest: &'a [u8; 32]) -> Self {
        Self::borrowed(types::PARAMETERS_SHA256_DIGEST, digest)
    }

    /// TLV-TYPE, 1..=65535.
    #[inline]
    pub fn typ(&self) -> u32 {
        u32::from(self.typ)
    }

    /// TLV-VALUE.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.value {
            ComponentValue::Borrowed(value) => value,
            ComponentValue::Number(octets, len) => &octets[..usize::from(*len)],
        }
    }

    /// The value as a number, for any component type. A number that is not in its shortest form gives `None`, so that
    /// one number has one name.
    #[inline]
    pub fn as_number(&self) -> Option<u64> {
        let value = self.value();
        let number = tlv::read_number(value)?;
        (tlv::number_octets(number).1 == value.len()).then_some(number)
    }

    /// As [`Self::as_number`], if the component is of type `typ`.
    pub fn as_number_of(&self, typ: u32) -> Option<u64> {
        if self.typ() == typ { self.as_number() } else { None }
    }

    /// Number of bytes that [`Self::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        tlv::element_len(self.typ(), self.value().len())
    }

    /// Appends the component's TLV.
    #[inline]
    pub fn encode(&self, out: &mut impl Buffer) {
        tlv::write_element(out, self.typ(), self.value());
    }
}

/// Numbers, by the naming conventions rev. 3.
impl Component<'static> {
    /// A component of type `typ` (1..=65535 and no digest) that holds `number`.
    #[expect(clippy::cast_possible_truncation, reason = "assigned numbers, and at most 8")]
    const fn number(typ: u32, number: u64) -> Self {
        let (octets, len) = tlv::number_octets(number);
        Component { typ: typ as u16, value: ComponentValue::Number(octets, len as u8) }
    }

    /// `seg=n`.
    pub const fn segment(n: u64) -> Self {
        Self::number(types::SEGMENT_COMPONENT, n)
    }

    /// `v=n`.
    pub const fn version(n: u64) -> Self {
        Self::number(types::VERSION_COMPONENT, n)
    }

    /// `seq=n`.
    pub const fn sequence(n: u64) -> Self {
        Self::number(types::SEQUENCE_COMPONENT, n)
    }
}

impl PartialEq for Component<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.typ == other.typ && self.value() == other.value()
    }
}

impl Eq for Component<'_> {}

impl Ord for Component<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.value(), other.value());
        self.typ.cmp(&other.typ).then(a.len().cmp(&b.len())).then_with(|| a.cmp(b))
    }
}

impl PartialOrd for Component<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Component<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.typ.hash(state);
        self.value().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_digest_lengths_are_checked() {
        assert_eq!(Component::new(0, b""), Err(DecodeError::ComponentType(0)));
        assert_eq!(Component::new(65536, b""), Err(DecodeError::ComponentType(65536)));
        assert!(Component::new(65535, b"").is_ok());
        for typ in [1, 2] {
            assert!(Component::new(typ, &[0; 32]).is_ok());
            assert_eq!(Component::new(typ, &[0; 31]), Err(DecodeError::BadLength { typ, len: 31 }));
        }
    }

    #[test]
    fn numbers_are_held_in_their_shortest_form() {
        for (number, octets) in [(0, 1), (255, 1), (256, 2), (65536, 4), (1 << 32, 8)] {
            let component = Component::segment(number);
            assert_eq!(component.value().len(), octets);
            assert_eq!(component.as_number(), Some(number));
            assert_eq!(component.as_number_of(types::SEGMENT_COMPONENT), Some(number));
            assert_eq!(component.as_number_of(types::VERSION_COMPONENT), None);
        }
        assert_eq!(Component::new(50, &[0, 1]).unwrap().as_number(), None);
        assert_eq!(Component::new(50, b"abc").unwrap().as_number(), None);
    }

    #[test]
    fn equality_does_not_depend_on_where_the_value_lies() {
        let value = [1, 0];
        assert_eq!(Component::new(50, &value).unwrap(), Component::segment(256));
    }
}
