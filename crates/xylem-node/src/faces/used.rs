//! [`Used`]: receive buffers that come back.

use bytes::{Bytes, BytesMut};

/// Buffers of [`Used`] that wait for their slices to be dropped; older ones are left to the allocator.
const MAX_USED: usize = 64;

/// Buffers that were received into and given out in slices. They are received into again once nobody
/// keeps a slice: that is cheaper than new memory, which the system has to clear and the processor has
/// not in its cache.
#[derive(Default)]
pub(crate) struct Used(Vec<Bytes>);

impl Used {
    /// Keeps a buffer that was given out; all of it, or its beginning.
    pub(crate) fn keep(&mut self, buffer: Bytes) {
        if self.0.len() >= MAX_USED {
            self.0.remove(0);
        }
        self.0.push(buffer);
    }

    /// A buffer of `len` bytes: of those that are free again the one that was used last, or a new one.
    pub(crate) fn take(&mut self, len: usize) -> BytesMut {
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
