//! [`BufferPool`]: receive buffers that are reused.

use bytes::{Bytes, BytesMut};

/// Most buffers of a [`BufferPool`] that wait for their slices to be dropped; older ones are left to the allocator.
const MAX_USED: usize = 64;

/// Receive buffers that were given out in slices. A buffer is reused once no slice of it is held. That is cheaper than
/// new memory, which the system has to clear and the processor does not have in its cache.
#[derive(Default)]
pub struct BufferPool(Vec<Bytes>);

impl BufferPool {
    /// Keeps a buffer that was given out, whole or only its beginning.
    pub fn keep(&mut self, buffer: Bytes) {
        if self.0.len() >= MAX_USED {
            self.0.remove(0);
        }
        self.0.push(buffer);
    }

    /// A buffer of `len` bytes: the free one that was used last, or a new one.
    pub fn buffer(&mut self, len: usize) -> BytesMut {
        let free = self.0.iter().rposition(Bytes::is_unique);
        let again = free.and_then(|at| self.0.remove(at).try_into_mut().ok());
        match again {
            Some(mut buffer) if buffer.capacity() >= len => {
                buffer.resize(len, 0);
                buffer
            }
            _ => BytesMut::zeroed(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_once_no_slice_is_held() {
        let mut used = BufferPool::default();
        let mut first = used.buffer(100);
        first[..3].copy_from_slice(b"abc");
        let place = first.as_ptr();
        first.truncate(60);
        let first = first.freeze();
        let slice = first.slice(0..3);
        used.keep(first);
        let second = used.buffer(100);
        assert_ne!(second.as_ptr(), place, "a slice is kept");
        assert_eq!(&slice[..], b"abc");
        drop(slice);
        let third = used.buffer(100);
        assert_eq!((third.as_ptr(), third.len()), (place, 100));
        assert_ne!(used.buffer(100).as_ptr(), place, "given out once");
    }

    #[test]
    fn short_or_surplus_buffers_are_left_to_the_allocator() {
        let mut used = BufferPool::default();
        used.keep(BytesMut::zeroed(10).freeze());
        assert_eq!(used.buffer(100).len(), 100);
        for _ in 0..2 * MAX_USED {
            used.keep(Bytes::from_static(b"x"));
        }
        assert_eq!(used.0.len(), MAX_USED);
    }
}
