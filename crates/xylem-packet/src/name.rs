//! Names: sequences of components, stored as their bytes on the wire.
//!
//! A name is stored as the value of its Name TLV. Types and lengths are in their shortest form. So comparing these
//! bytes compares names in canonical order, a name is a prefix of another exactly if its bytes are, and names are
//! compared and hashed without parsing.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::hash::{Hash, Hasher};

use crate::buffer::Buffer;
use crate::tlv::{self, TlvReader, types};
use crate::{Component, DecodeError};

/// A borrowed, checked name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct NameRef<'a> {
    // First, so that the derived order is that of the bytes; the count follows from them.
    value: &'a [u8],
    count: u32,
}

impl<'a> NameRef<'a> {
    /// A name from a value that has passed [`Self::from_value`], with its number of components.
    pub(crate) fn checked(value: &'a [u8], count: u32) -> Self {
        NameRef { value, count }
    }

    /// Checks the value of a Name TLV: a sequence of components.
    ///
    /// Errors: `ComponentType`, `BadLength`, and those of a malformed TLV.
    #[expect(clippy::arithmetic_side_effects, reason = "fewer components than bytes in memory")]
    #[inline]
    pub fn from_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = TlvReader::new(value);
        let mut count = 0usize;
        while let Some(element) = reader.next_element()? {
            Component::from_element(element)?;
            count += 1;
        }
        Ok(NameRef { value, count: u32::try_from(count).unwrap_or(u32::MAX) })
    }

    /// Reads a complete Name TLV and nothing after it.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_value(tlv::read_only(wire, types::NAME)?.value)
    }

    /// The value of the Name TLV, which identifies a name and by which names are compared.
    #[inline]
    pub fn value(self) -> &'a [u8] {
        self.value
    }

    /// Number of components.
    #[inline]
    pub fn len(self) -> usize {
        self.count as usize
    }

    /// Returns whether it is `/`.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The components in order.
    #[inline]
    pub fn iter(self) -> Components<'a> {
        Components { reader: TlvReader::new(self.value), left: self.count }
    }

    /// Component `i`, counted from 0.
    pub fn get(self, i: usize) -> Option<Component<'a>> {
        self.iter().nth(i)
    }

    /// The last component.
    pub fn last(self) -> Option<Component<'a>> {
        self.iter().last()
    }

    /// The first `n` components (the whole name if it has fewer).
    #[expect(clippy::cast_possible_truncation, reason = "fewer than there are")]
    pub fn prefix(self, n: usize) -> NameRef<'a> {
        if n >= self.len() {
            return self;
        }
        let mut components = self.iter();
        for _ in 0..n {
            components.next();
        }
        NameRef { value: &self.value[..components.reader.position()], count: n as u32 }
    }

    /// The name without its last component; `/` stays `/`.
    pub fn parent(self) -> NameRef<'a> {
        self.prefix(self.len().saturating_sub(1))
    }

    /// Returns whether `other` begins with all of this name's components; a name is a prefix of itself.
    #[inline]
    pub fn is_prefix_of(self, other: NameRef<'_>) -> bool {
        other.value.starts_with(self.value)
    }

    /// The rest of this name after `prefix`; `None` if the name does not begin with it.
    pub fn strip_prefix(self, prefix: NameRef<'_>) -> Option<NameRef<'a>> {
        let value = self.value.strip_prefix(prefix.value)?;
        Some(NameRef { value, count: self.count.saturating_sub(prefix.count) })
    }

    /// Number of bytes that [`Self::encode`] appends.
    pub fn encoded_len(self) -> usize {
        tlv::element_len(types::NAME, self.value.len())
    }

    /// Appends the Name TLV.
    #[inline]
    pub fn encode(self, out: &mut impl Buffer) {
        tlv::write_element(out, types::NAME, self.value);
    }
}

impl Hash for NameRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl<'a> IntoIterator for NameRef<'a> {
    type Item = Component<'a>;
    type IntoIter = Components<'a>;
    fn into_iter(self) -> Components<'a> {
        self.iter()
    }
}

/// The components of a name, in order.
#[derive(Debug, Clone)]
pub struct Components<'a> {
    reader: TlvReader<'a>,
    left: u32,
}

impl<'a> Components<'a> {
    /// Number of bytes of the name's value in the components returned so far.
    pub fn position(&self) -> usize {
        self.reader.position()
    }
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    #[inline]
    fn next(&mut self) -> Option<Component<'a>> {
        // The name was checked when it was made, so an error cannot occur. Ending the iteration is safe in any case.
        let element = self.reader.next_element().ok()??;
        self.left = self.left.saturating_sub(1);
        Component::from_element(element).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Components<'_> {}

/// A sequence of names, as in a forwarding hint.
#[derive(Debug, Clone)]
pub struct Names<'a> {
    reader: TlvReader<'a>,
}

impl<'a> Names<'a> {
    /// Checks a sequence of at least one Name TLV that is the value of element `inside`.
    pub(crate) fn check(value: &'a [u8], inside: u32) -> Result<(), DecodeError> {
        let mut reader = TlvReader::new(value);
        let mut any = false;
        while let Some(element) = reader.next_element()? {
            if element.typ != types::NAME {
                return Err(DecodeError::WrongType { expected: types::NAME, found: element.typ });
            }
            NameRef::from_value(element.value)?;
            any = true;
        }
        if any { Ok(()) } else { Err(DecodeError::Missing { inside, typ: types::NAME }) }
    }

    /// `value` has passed [`Self::check`] or is empty.
    pub(crate) fn checked(value: &'a [u8]) -> Self {
        Names { reader: TlvReader::new(value) }
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = NameRef<'a>;
    fn next(&mut self) -> Option<NameRef<'a>> {
        let element = self.reader.next_element().ok()??;
        NameRef::from_value(element.value).ok()
    }
}
