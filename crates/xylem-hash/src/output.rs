//! The last compression of a tree, not yet done: it gives the hash, or any number of bytes.

use core::fmt;

use crate::backend::{Backend, Cv, Node, first_half};
use crate::constants::BLOCK_LEN;
use crate::mode::is_secret;
use crate::wipe::wipe;

/// Extendable output (the paper, section 2.6): a stream of 2^64 - 1 bytes, readable from any position.
///
/// Made by [`crate::Hasher::finalize_xof`]. The first 32 bytes are the hash.
///
/// ```
/// let mut reader = xylem_hash::Hasher::new().finalize_xof();
/// let mut bytes = [0; 100];
/// reader.fill(&mut bytes);
/// assert_eq!(&bytes[..32], xylem_hash::hash(b"").as_bytes());
/// reader.set_position(60);
/// let mut again = [0; 40];
/// reader.fill(&mut again);
/// assert_eq!(again, bytes[60..]);
/// ```
// Within the crate it stands for any node that is not yet compressed: a chunk's last block, or a parent's only one.
// There is no separate type, as it would have to be moved into this one.
#[derive(Clone)]
pub struct OutputReader {
    backend: Backend,
    node: Node,
    position: u64,
}

impl OutputReader {
    #[inline]
    pub(crate) fn new(backend: Backend, node: Node) -> Self {
        Self { backend, node, position: 0 }
    }

    /// The node's value; the hash if it is the root.
    #[inline]
    pub(crate) fn value(&self) -> Cv {
        first_half(&self.backend.compress(&self.node))
    }

    /// Block `index` of a root's output.
    #[inline]
    fn block(&mut self, index: u64) -> [u8; BLOCK_LEN] {
        self.node.counter = index;
        self.backend.compress(&self.node)
    }

    /// Fills `out` with the bytes from [`Self::position`] on, and advances.
    ///
    /// # Panics
    /// If `out` reaches past byte 2^64 - 2, the last of the stream.
    #[inline]
    pub fn fill(&mut self, out: &mut [u8]) {
        let end = self.position.checked_add(out.len() as u64);
        let end = end.expect("the stream ends after 2^64 - 1 bytes (documented)");
        let mut out = out;
        let mut index = self.position / BLOCK_LEN as u64;
        let skip = (self.position % BLOCK_LEN as u64) as usize;
        if skip > 0 && !out.is_empty() {
            let block = self.block(index);
            let (now, later) = out.split_at_mut(out.len().min(BLOCK_LEN - skip));
            now.copy_from_slice(&block[skip..skip + now.len()]);
            (out, index) = (later, index.wrapping_add(1));
        }
        let (blocks, tail) = out.as_chunks_mut::<BLOCK_LEN>();
        if let [block] = blocks {
            self.node.counter = index;
            self.backend.compress_into(&self.node, block);
        } else {
            self.node.counter = index;
            self.backend.root_blocks(&mut self.node, blocks);
        }
        if !tail.is_empty() {
            let block = self.block(index.wrapping_add(blocks.len() as u64));
            tail.copy_from_slice(&block[..tail.len()]);
        }
        self.position = end;
    }

    /// Offset in bytes of the next byte that [`Self::fill`] returns.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves to `position`, in bytes from the start of the output.
    #[inline]
    pub fn set_position(&mut self, position: u64) {
        self.position = position;
    }
}

impl Drop for OutputReader {
    #[inline]
    fn drop(&mut self) {
        if is_secret(self.node.flags()) {
            wipe(&mut self.node.cv);
            wipe(&mut self.node.block);
        }
    }
}

/// Overwrites the state. Later reads return bytes that are unrelated to the hashed message.
#[cfg(feature = "zeroize")]
impl zeroize::Zeroize for OutputReader {
    #[inline]
    fn zeroize(&mut self) {
        let Node { counter, cv, block, end } = &mut self.node;
        wipe(cv);
        wipe(block);
        (*end, *counter, self.position) = (0, 0, 0);
    }
}

impl fmt::Debug for OutputReader {
    /// Shows the position only: the state would reveal all further bytes.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputReader").field("position", &self.position).finish_non_exhaustive()
    }
}

#[cfg(feature = "std")]
mod io {
    use super::OutputReader;
    use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};

    impl Read for OutputReader {
        /// Fills the whole buffer, unless the stream ends before (at 2^64 - 1 bytes).
        #[inline]
        fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
            let left = u64::MAX - self.position;
            let take = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
            self.fill(&mut buf[..take]);
            Ok(take)
        }
    }

    impl Seek for OutputReader {
        /// Moves to a position from the start, or relative to the current one. Beyond the end of the stream it moves to
        /// the end.
        ///
        /// # Errors
        /// `InvalidInput` for a position before the start, or relative to the end.
        #[inline]
        fn seek(&mut self, to: SeekFrom) -> Result<u64> {
            let invalid = |what| Error::new(ErrorKind::InvalidInput, what);
            self.position = match to {
                SeekFrom::Start(position) => position,
                SeekFrom::Current(by) if by < 0 => self
                    .position
                    .checked_add_signed(by)
                    .ok_or_else(|| invalid("seek before the start"))?,
                SeekFrom::Current(by) => self.position.saturating_add_signed(by),
                SeekFrom::End(_) => return Err(invalid("the output has no end to seek from")),
            };
            Ok(self.position)
        }
    }
}
