//! A name in an array: an owned name for programs without an allocator.

use core::fmt;

use crate::buffer::{Buffer, Slice};
use crate::name::NameRef;
use crate::{Component, EncodeError, UriError};

/// A name with at most `N` bytes of components.
#[derive(Clone, Copy)]
pub struct FixedName<const N: usize> {
    value: [u8; N],
    len: usize,
    count: u32,
}

impl<const N: usize> FixedName<N> {
    /// The empty name, `/`.
    pub const fn new() -> Self {
        FixedName { value: [0; N], len: 0, count: 0 }
    }

    /// Reads a URI. Errors: as `Name::from_uri`, and `TooLong`.
    pub fn from_uri(uri: &str) -> Result<Self, UriError> {
        let mut name = Self::new();
        let mut out = Slice::new(&mut name.value);
        name.count = crate::uri::parse(uri, &mut out)?;
        name.len = out.written().len();
        Ok(name)
    }

    /// Borrows the name.
    // Not `AsRef`: that returns a reference, and a NameRef is a value.
    #[allow(clippy::should_implement_trait)]
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef::checked(&self.value[..self.len], self.count)
    }

    /// Appends one component; `NoRoom` if it does not fit, and the name is as it was.
    pub fn push(&mut self, component: Component<'_>) -> Result<(), EncodeError> {
        let mut out = Slice::new(&mut self.value[self.len..]);
        component.encode(&mut out);
        if out.is_full() {
            return Err(EncodeError::NoRoom);
        }
        self.len += out.written().len();
        self.count += 1;
        Ok(())
    }
}

impl<const N: usize> Default for FixedName<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> TryFrom<NameRef<'_>> for FixedName<N> {
    type Error = EncodeError;
    fn try_from(name: NameRef<'_>) -> Result<Self, EncodeError> {
        let mut copy = Self::new();
        let place = copy.value.get_mut(..name.value().len()).ok_or(EncodeError::NoRoom)?;
        place.copy_from_slice(name.value());
        (copy.len, copy.count) = (name.value().len(), name.len() as u32);
        Ok(copy)
    }
}

impl<const N: usize> fmt::Display for FixedName<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_ref(), f)
    }
}

impl<const N: usize> fmt::Debug for FixedName<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_ref(), f)
    }
}

impl<const N: usize> PartialEq for FixedName<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl<const N: usize> Eq for FixedName<N> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_grows_until_it_is_full() {
        let mut name = FixedName::<16>::from_uri("/a/b").unwrap();
        assert_eq!(name.push(Component::generic(&[7; 9])), Err(EncodeError::NoRoom));
        assert_eq!(name.as_ref().value(), b"\x08\x01a\x08\x01b");
        name.push(Component::generic(&[7; 8])).unwrap();
        assert_eq!((name.as_ref().len(), name.as_ref().value().len()), (3, 16));
        name.push(Component::generic(b"")).unwrap_err();
        assert_eq!(FixedName::<16>::from_uri("/0123456789abcdef"), Err(UriError::TooLong));
        assert_eq!(FixedName::<0>::from_uri("/"), Ok(FixedName::new()));
        // The three periods of an empty value need no room.
        assert_eq!(FixedName::<2>::from_uri("/...").unwrap().as_ref().value(), [8, 0]);
        assert_eq!(FixedName::<3>::from_uri("/..%2E%2e").unwrap().as_ref().value(), b"\x08\x01.");
        let wide = FixedName::<32>::from_uri("/0123456789abcdef").unwrap();
        assert_eq!(FixedName::<16>::try_from(wide.as_ref()), Err(EncodeError::NoRoom));
        assert_eq!(FixedName::<18>::try_from(wide.as_ref()).unwrap().as_ref(), wide.as_ref());
    }
}
