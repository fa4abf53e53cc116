//! Output buffers of packets: a `Vec<u8>`, or a slice of fixed length for programs without an allocator.

/// A buffer to append bytes to. A [`Slice`] may run out of room. Then nothing more is written to it,
/// [`Buffer::is_full`] returns true, and the builders return [`crate::EncodeError::NoRoom`].
pub trait Buffer {
    /// The bytes written so far.
    fn written(&self) -> &[u8];

    /// The bytes written so far, mutable.
    fn written_mut(&mut self) -> &mut [u8];

    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends `n` zeros.
    fn put_zeros(&mut self, n: usize);

    /// Truncates to the first `len` bytes.
    fn cut(&mut self, len: usize);

    /// Hints that about `n` bytes follow.
    fn expect_more(&mut self, _n: usize) {}

    /// Returns whether something did not fit.
    fn is_full(&self) -> bool {
        false
    }
}

#[cfg(feature = "alloc")]
impl Buffer for alloc::vec::Vec<u8> {
    #[inline]
    fn written(&self) -> &[u8] {
        self
    }

    #[inline]
    fn written_mut(&mut self) -> &mut [u8] {
        self
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn put_zeros(&mut self, n: usize) {
        self.resize(self.len() + n, 0);
    }

    #[inline]
    fn cut(&mut self, len: usize) {
        self.truncate(len);
    }

    #[inline]
    fn expect_more(&mut self, n: usize) {
        self.reserve(n);
    }
}

/// A slice as a [`Buffer`].
#[derive(Debug)]
pub struct Slice<'a> {
    bytes: &'a mut [u8],
    len: usize,
    full: bool,
}

impl<'a> Slice<'a> {
    /// Writes to the beginning of `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Slice { bytes, len: 0, full: false }
    }

    /// Returns two disjoint parts: the bytes written, and the room that is left.
    pub(crate) fn split(&mut self) -> (&mut [u8], &mut [u8]) {
        self.bytes.split_at_mut(self.len)
    }

    /// Marks `n` bytes of the room, filled through [`Self::split`], as written.
    pub(crate) fn advance(&mut self, n: usize) {
        if !self.full && n <= self.bytes.len() - self.len {
            self.len += n;
        } else {
            self.full = true;
        }
    }
}

impl Buffer for Slice<'_> {
    fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn written_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        let (_, room) = self.split();
        if let Some(place) = room.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.advance(bytes.len());
    }

    fn put_zeros(&mut self, n: usize) {
        let (_, room) = self.split();
        if let Some(place) = room.get_mut(..n) {
            place.fill(0);
        }
        self.advance(n);
    }

    fn cut(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn is_full(&self) -> bool {
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_takes_what_fits_and_then_nothing() {
        let mut memory = [0xAA; 8];
        let mut slice = Slice::new(&mut memory);
        slice.put(&[1, 2, 3]);
        slice.put_zeros(2);
        assert_eq!((slice.written(), slice.is_full()), (&[1, 2, 3, 0, 0][..], false));
        slice.cut(4);
        slice.put(&[4, 5, 6, 7, 8]);
        assert!(slice.is_full());
        slice.put(&[9]);
        slice.put_zeros(1);
        assert_eq!(slice.written(), [1, 2, 3, 0]);
        assert!(slice.is_full(), "for good");
    }
}
