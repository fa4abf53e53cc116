//! A name that owns its bytes.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

use crate::Component;
use crate::buffer::Buffer;
use crate::name::{Components, NameRef};

/// An owned name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Name {
    value: Vec<u8>,
    count: u32,
}

impl Name {
    /// The empty name, `/`.
    pub const fn new() -> Self {
        Name { value: Vec::new(), count: 0 }
    }

    /// Reads a URI; for errors see [`crate::UriError`].
    pub fn from_uri(uri: &str) -> Result<Self, crate::UriError> {
        let mut value = Vec::new();
        let count = crate::uri::parse(uri, &mut value)?;
        Ok(Name { value, count })
    }

    /// Borrows the name.
    // Not `AsRef`: that returns a reference, and a NameRef is a value.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef::checked(&self.value, self.count)
    }

    /// Appends one component.
    pub fn push(&mut self, component: Component<'_>) -> &mut Self {
        component.encode(&mut self.value);
        self.count += 1;
        self
    }

    /// A copy with one more component.
    pub fn child(&self, component: Component<'_>) -> Name {
        self.as_ref().child(component)
    }

    /// Number of components.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether it is `/`.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The components in order.
    pub fn iter(&self) -> Components<'_> {
        self.as_ref().iter()
    }

    /// Component `i`, counted from 0.
    pub fn get(&self, i: usize) -> Option<Component<'_>> {
        self.as_ref().get(i)
    }

    /// The first `n` components (the whole name if it has fewer).
    pub fn prefix(&self, n: usize) -> NameRef<'_> {
        self.as_ref().prefix(n)
    }

    /// Returns whether `other` begins with all of this name's components.
    pub fn is_prefix_of(&self, other: NameRef<'_>) -> bool {
        self.as_ref().is_prefix_of(other)
    }

    /// Number of bytes that [`Self::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        self.as_ref().encoded_len()
    }

    /// Appends the Name TLV.
    pub fn encode(&self, out: &mut impl Buffer) {
        self.as_ref().encode(out);
    }
}

impl NameRef<'_> {
    /// An owned copy.
    pub fn to_name(self) -> Name {
        Name { value: self.value().to_vec(), count: self.len() as u32 }
    }

    /// An owned copy with one more component.
    pub fn child(self, component: Component<'_>) -> Name {
        let mut value = Vec::with_capacity(self.value().len() + component.encoded_len());
        value.extend_from_slice(self.value());
        let mut name = Name { value, count: self.len() as u32 };
        name.push(component);
        name
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

/// A name's bytes are its identity, so a map keyed by `Name` can be searched by `NameRef::value`.
impl core::borrow::Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.value
    }
}

impl From<NameRef<'_>> for Name {
    fn from(name: NameRef<'_>) -> Name {
        name.to_name()
    }
}

impl<'a> From<&'a Name> for NameRef<'a> {
    fn from(name: &'a Name) -> NameRef<'a> {
        name.as_ref()
    }
}

impl PartialEq<NameRef<'_>> for Name {
    fn eq(&self, other: &NameRef<'_>) -> bool {
        self.as_ref() == *other
    }
}

impl PartialEq<Name> for NameRef<'_> {
    fn eq(&self, other: &Name) -> bool {
        *self == other.as_ref()
    }
}

impl<'a> FromIterator<Component<'a>> for Name {
    fn from_iter<I: IntoIterator<Item = Component<'a>>>(components: I) -> Name {
        let mut name = Name::new();
        for component in components {
            name.push(component);
        }
        name
    }
}

impl<'a> IntoIterator for &'a Name {
    type Item = Component<'a>;
    type IntoIter = Components<'a>;
    fn into_iter(self) -> Components<'a> {
        self.iter()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_ref(), f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Serializes the URI.
#[cfg(feature = "serde")]
impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Name {
    type Err = crate::UriError;
    fn from_str(uri: &str) -> Result<Name, crate::UriError> {
        Name::from_uri(uri)
    }
}
