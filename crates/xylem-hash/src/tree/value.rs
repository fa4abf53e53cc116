//! [`Value`]: the value of an inner node, typed by the kind of its tree.

use core::fmt;
use core::marker::PhantomData;

use crate::backend::Cv;
use crate::constants::OUT_LEN;
use crate::digest::{Hash, constant_time_eq};

/// The kind of a tree: [`Plain`], [`Keyed`] or [`DeriveKey`]. It exists at compile time only.
pub trait Kind: Copy + sealed::Sealed {
    /// Whether its values may be secret, so that `Debug` hides them.
    #[doc(hidden)]
    const SECRET: bool;
}

mod sealed {
    pub trait Sealed {}
}

/// The tree of [`crate::hash`].
#[derive(Clone, Copy)]
pub enum Plain {}
/// A tree of [`crate::keyed_hash`].
#[derive(Clone, Copy)]
pub enum Keyed {}
/// A tree of [`crate::derive_key`].
#[derive(Clone, Copy)]
pub enum DeriveKey {}

impl sealed::Sealed for Plain {}
impl sealed::Sealed for Keyed {}
impl sealed::Sealed for DeriveKey {}

impl Kind for Plain {
    const SECRET: bool = false;
}
impl Kind for Keyed {
    const SECRET: bool = true;
}
impl Kind for DeriveKey {
    const SECRET: bool = true;
}

/// The value of an inner node of a plain tree.
pub type ChainingValue = Value<Plain>;

/// The value of an inner node of a tree of kind `K`: 32 bytes, and never a message's
/// [`Hash`](struct@Hash).
///
/// `==` takes constant time. `Debug` shows plain values only.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Value<K: Kind>([u8; OUT_LEN], PhantomData<K>);

impl<K: Kind> Value<K> {
    /// The 32 bytes.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; OUT_LEN] {
        &self.0
    }

    /// A value that was computed elsewhere.
    #[inline]
    #[must_use]
    pub const fn from_bytes(bytes: [u8; OUT_LEN]) -> Self {
        Self(bytes, PhantomData)
    }
}

/// The bytes of many values.
#[inline]
pub(super) fn as_cvs<K: Kind>(values: &[Value<K>]) -> &[Cv] {
    // SAFETY: `Value` is a transparent wrapper of `Cv` (a marker has no size): same layout, same
    // validity; length and lifetime are those of `values`.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast::<Cv>(), values.len()) }
}

impl<K: Kind> PartialEq for Value<K> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq(&self.0, &other.0)
    }
}

impl<K: Kind> Eq for Value<K> {}

impl<K: Kind> fmt::Debug for Value<K> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if K::SECRET {
            f.write_str("ChainingValue(..)")
        } else {
            write!(f, "ChainingValue({})", Hash::from_bytes(self.0))
        }
    }
}

impl<K: Kind> From<[u8; OUT_LEN]> for Value<K> {
    #[inline]
    fn from(bytes: [u8; OUT_LEN]) -> Self {
        Self::from_bytes(bytes)
    }
}
