//! Stored names: the first bytes lie in the entry, the rest in pieces of fixed size. A name costs no allocation, and a
//! long one causes no fragmentation.

use crate::memory::{Flat, Slots};
use crate::slab::{NONE, Slab, SlabPlace};

/// Bytes of a name that lie in the entry itself; most names fit.
const IN_PLACE: usize = 36;
const PIECE: usize = 28;

/// A part of a name.
pub(crate) type Piece = [u8; PIECE];

/// A name's value (or other bytes) in an entry; the rest lies in [`NamePool`].
#[derive(Debug)]
pub(crate) struct StoredName {
    len: u16,
    in_place: [u8; IN_PLACE],
    rest: u32,
}

impl Default for StoredName {
    fn default() -> Self {
        StoredName { len: 0, in_place: [0; IN_PLACE], rest: NONE }
    }
}

impl StoredName {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The part in the entry.
    fn front(&self) -> &[u8] {
        &self.in_place[..self.len().min(IN_PLACE)]
    }
}

/// The pieces of long names.
#[derive(Debug)]
pub(crate) struct NamePool<S> {
    pieces: Slab<Piece, S>,
}

impl<S: Slots<SlabPlace<Piece>>> NamePool<S> {
    /// Room for `bytes` bytes beyond those in entries.
    pub(crate) fn new(bytes: usize) -> Self {
        NamePool { pieces: Slab::new(bytes / PIECE) }
    }

    pub(crate) fn memory(&self) -> usize {
        self.pieces.memory()
    }

    /// Whether a name of `len` bytes would fit if no other were stored.
    pub(crate) fn could_hold(&self, len: usize) -> bool {
        len.saturating_sub(IN_PLACE).div_ceil(PIECE) <= self.pieces.limit()
    }

    /// Stores `bytes` (at most 65,535). `None` if there is no room.
    #[inline]
    pub(crate) fn store(&mut self, bytes: &[u8]) -> Option<StoredName> {
        let mut stored = StoredName { len: u16::try_from(bytes.len()).ok()?, ..Default::default() };
        let front = bytes.len().min(IN_PLACE);
        stored.in_place[..front].copy_from_slice(&bytes[..front]);
        if front < bytes.len() {
            stored.rest = self.store_rest(&bytes[front..])?;
        }
        Some(stored)
    }

    /// Stores bytes in pieces only. Returns the first piece's number.
    pub(crate) fn store_rest(&mut self, bytes: &[u8]) -> Option<u32> {
        let mut first = NONE;
        // From the end, so that each piece knows the next.
        for i in (0..bytes.len().div_ceil(PIECE)).rev() {
            let part = &bytes[i * PIECE..bytes.len().min((i + 1) * PIECE)];
            let mut piece = [0; PIECE];
            piece[..part.len()].copy_from_slice(part);
            match self.pieces.insert(piece, first) {
                Some(id) => first = id,
                None => {
                    self.release_rest(first);
                    return None;
                }
            }
        }
        Some(first)
    }

    #[inline]
    pub(crate) fn release(&mut self, stored: &mut StoredName) {
        if stored.rest != NONE {
            self.release_rest(core::mem::replace(&mut stored.rest, NONE));
        }
        stored.len = 0;
    }

    pub(crate) fn release_rest(&mut self, mut id: u32) {
        while id != NONE {
            let next = self.pieces.next(id);
            self.pieces.release(id);
            id = next;
        }
    }

    /// Whether the stored bytes equal `bytes`.
    #[inline]
    pub(crate) fn equal(&self, stored: &StoredName, bytes: &[u8]) -> bool {
        stored.len() == bytes.len() && self.is_prefix_of(stored, bytes)
    }

    /// Whether `bytes` begins with the stored bytes.
    #[inline]
    pub(crate) fn is_prefix_of(&self, stored: &StoredName, bytes: &[u8]) -> bool {
        let Some(rest) = bytes.strip_prefix(stored.front()) else { return false };
        if stored.rest == NONE {
            return true;
        }
        let left = stored.len() - IN_PLACE;
        rest.get(..left).is_some_and(|rest| self.rest_is(stored.rest, rest))
    }

    fn rest_is(&self, first: u32, bytes: &[u8]) -> bool {
        let mut parts = bytes.chunks(PIECE);
        self.pieces
            .chain(first)
            .all(|id| parts.next().is_some_and(|part| self.pieces.get(id)[..part.len()] == *part))
    }

    /// Whether the stored bytes begin with `prefix`.
    pub(crate) fn starts_with(&self, stored: &StoredName, prefix: &[u8]) -> bool {
        if prefix.len() > stored.len() {
            return false;
        }
        let front = stored.front();
        match prefix.split_at_checked(front.len()) {
            None => front.starts_with(prefix),
            Some((start, rest)) => {
                let mut parts = rest.chunks(PIECE);
                let mut pieces = self.pieces.chain(stored.rest);
                start == front
                    && parts.all(|part| {
                        pieces.next().is_some_and(|id| self.pieces.get(id).starts_with(part))
                    })
            }
        }
    }

    /// Replaces the contents of `out` by the stored bytes. Returns false if there is no room.
    pub(crate) fn read(&self, stored: &StoredName, out: &mut impl Flat<u8>) -> bool {
        out.truncate(0);
        let mut left = stored.len().saturating_sub(IN_PLACE);
        out.extend(stored.front())
            && self.pieces.chain(stored.rest).all(|id| {
                let part = left.min(PIECE);
                left -= part;
                out.extend(&self.pieces.get(id)[..part])
            })
    }

    /// Copies the pieces from `first` on into `out`.
    pub(crate) fn copy_rest(&self, first: u32, out: &mut [u8]) {
        for (id, part) in self.pieces.chain(first).zip(out.chunks_mut(PIECE)) {
            part.copy_from_slice(&self.pieces.get(id)[..part.len()]);
        }
    }

    /// Copies the stored bytes from `at` on into `out`, which is no longer than that.
    pub(crate) fn copy_from(&self, stored: &StoredName, at: usize, out: &mut [u8]) {
        let mut begins = 0;
        let mut copy = |part: &[u8]| {
            let from = at.max(begins);
            let to = (at + out.len()).min(begins + part.len());
            if from < to {
                out[from - at..to - at].copy_from_slice(&part[from - begins..to - begins]);
            }
            begins += part.len();
        };
        copy(stored.front());
        self.pieces.chain(stored.rest).for_each(|id| copy(self.pieces.get(id)));
    }

    /// Number of pieces in use.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Array, Chunks};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stored_bytes_are_the_bytes(
            bytes in prop::collection::vec(0u8..3, 0..150),
            other in prop::collection::vec(0u8..3, 0..150),
            cut in 0usize..150,
        ) {
            let mut names: NamePool<Chunks<SlabPlace<Piece>>> = NamePool::new(1 << 16);
            let mut stored = names.store(&bytes).unwrap();
            prop_assert!(names.equal(&stored, &bytes));
            prop_assert_eq!(names.equal(&stored, &other), other == bytes);
            prop_assert_eq!(names.is_prefix_of(&stored, &other), other.starts_with(&bytes));
            let mut longer = bytes.clone();
            longer.extend_from_slice(&other);
            prop_assert!(names.is_prefix_of(&stored, &longer));
            prop_assert_eq!(names.starts_with(&stored, &other), bytes.starts_with(&other));
            prop_assert!(names.starts_with(&stored, &bytes[..cut.min(bytes.len())]));
            let cut = cut.min(bytes.len());
            let mut tail = vec![9; bytes.len() - cut];
            names.copy_from(&stored, cut, &mut tail);
            prop_assert_eq!(&tail[..], &bytes[cut..]);
            let mut read = vec![9];
            prop_assert!(names.read(&stored, &mut read));
            prop_assert_eq!(read, bytes);
            names.release(&mut stored);
            prop_assert_eq!(names.len(), 0);
        }
    }

    #[test]
    fn a_name_that_does_not_fit_leaves_nothing_behind() {
        let mut names: NamePool<Array<SlabPlace<Piece>, 4>> = NamePool::new(usize::MAX);
        assert!(names.store(&[1; IN_PLACE + 5 * PIECE]).is_none());
        assert_eq!(names.len(), 0);
        assert!(names.store(&[1; IN_PLACE + 4 * PIECE]).is_some());
        assert!(names.store(&[1; IN_PLACE + 1]).is_none());
        assert!(names.store(&[1; IN_PLACE]).is_some());
    }
}
