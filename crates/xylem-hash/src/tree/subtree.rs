//! [`Subtree`]: a chunk group that takes its bytes in pieces.

use core::fmt;
use core::marker::PhantomData;

use super::value::{Kind, Plain, Value};
use crate::backend::Backend;
use crate::hasher::Hasher;
use crate::subtree::{Mode, assert_fits};

/// Hashes one chunk group to its [`Value`]; made by [`Tree::subtree`](super::Tree::subtree).
///
/// It cannot give a message's hash, as its input is a part of a message.
#[derive(Clone)]
pub struct Subtree<K: Kind = Plain> {
    hasher: Hasher,
    first_chunk: u64,
    kind: PhantomData<K>,
}

impl<K: Kind> Subtree<K> {
    #[inline]
    pub(super) fn new(backend: Backend, mode: Mode, first_chunk: u64) -> Self {
        let mut hasher = Hasher::with_backend(backend, mode);
        hasher.parts_mut().0.set_first_chunk(first_chunk);
        Self { hasher, first_chunk, kind: PhantomData }
    }

    /// Adds `input` to the group.
    #[inline]
    pub fn update(&mut self, input: &[u8]) -> &mut Self {
        self.hasher.update(input);
        self
    }

    /// Bytes in the group so far.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.hasher.count()
    }

    /// The group's value.
    ///
    /// # Panics
    /// If there is no input, or more than a subtree that begins there can have: see
    /// [`Tree::chunk_group_cv`](super::Tree::chunk_group_cv).
    #[inline]
    #[must_use]
    pub fn finish(&self) -> Value<K> {
        assert_fits(self.first_chunk, self.count());
        Value::from_bytes(self.hasher.value())
    }
}

impl<K: Kind> fmt::Debug for Subtree<K> {
    /// Shows the position only.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subtree")
            .field("first_chunk", &self.first_chunk)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
