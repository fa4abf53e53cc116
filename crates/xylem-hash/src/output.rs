//! The last compression of a tree, kept open: a hash, or as many bytes as wanted.

use core::fmt;

use crate::backend::{Backend, Cv, Node, first_half};
use crate::constants::{BLOCK_LEN, ROOT};
use crate::wipe::wipe;

/// A node whose compression is still to do: a chunk's last block, or a parent's only one.
///
/// Whether it is the root is decided by what is asked of it.
#[derive(Clone)]
pub(crate) struct Output {
    pub backend: Backend,
    pub node: Node,
}

impl Output {
    /// The node's value inside a larger tree.
    #[inline]
    pub(crate) fn chaining_value(&self) -> Cv {
        first_half(&self.backend.compress(&self.node))
    }

    /// The node's value as the root.
    #[inline]
    pub(crate) fn root_hash(mut self) -> Cv {
        self.make_root(0);
        first_half(&self.backend.compress(&self.node))
    }

    /// Turns the node into the one that gives block `index` of the extendable output.
    #[inline]
    fn make_root(&mut self, index: u64) {
        self.node.flags |= ROOT;
        self.node.counter = index;
    }

    /// Blocks `index` and on of the extendable output.
    #[inline]
    fn root_blocks(&mut self, index: u64, out: &mut [[u8; BLOCK_LEN]]) {
        self.make_root(index);
        self.backend.root_blocks(&mut self.node, out);
    }
}

impl Drop for Output {
    #[inline]
    fn drop(&mut self) {
        if crate::subtree::is_secret(self.node.flags) {
            wipe(&mut self.node.cv);
            wipe(&mut self.node.block);
        }
    }
}

/// Extendable output (the paper, section 2.6): a stream of 2^64 - 1 bytes, read from any place.
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
#[derive(Clone)]
pub struct OutputReader {
    output: Output,
    position: u64,
}

impl OutputReader {
    #[inline]
    pub(crate) fn new(output: Output) -> Self {
        Self { output, position: 0 }
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
        let mut block = [[0; BLOCK_LEN]];
        if skip > 0 && !out.is_empty() {
            self.output.root_blocks(index, &mut block);
            let (now, later) = out.split_at_mut(out.len().min(BLOCK_LEN - skip));
            now.copy_from_slice(&block[0][skip..skip + now.len()]);
            (out, index) = (later, index.wrapping_add(1));
        }
        let (blocks, tail) = out.as_chunks_mut::<BLOCK_LEN>();
        self.output.root_blocks(index, blocks);
        if !tail.is_empty() {
            self.output.root_blocks(index.wrapping_add(blocks.len() as u64), &mut block);
            tail.copy_from_slice(&block[0][..tail.len()]);
        }
        self.position = end;
    }

    /// The offset in bytes of the next byte that [`Self::fill`] gives.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes to `position`, in bytes from the start of the output.
    #[inline]
    pub fn set_position(&mut self, position: u64) {
        self.position = position;
    }
}

/// Overwrites the state; what is read afterwards has nothing to do with what was hashed.
#[cfg(feature = "zeroize")]
impl zeroize::Zeroize for OutputReader {
    #[inline]
    fn zeroize(&mut self) {
        let Node { cv, block, len, counter, flags } = &mut self.output.node;
        wipe(cv);
        wipe(block);
        (*len, *counter, *flags, self.position) = (0, 0, 0, 0);
    }
}

impl fmt::Debug for OutputReader {
    /// Shows the place only: the state would tell all the bytes to come.
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
        /// Fills the whole buffer, unless the stream's end (2^64 - 1 bytes) comes first.
        #[inline]
        fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
            let left = u64::MAX - self.position;
            let take = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
            self.fill(&mut buf[..take]);
            Ok(take)
        }
    }

    impl Seek for OutputReader {
        /// Goes to a place from the start, or relative to here; past the end of the stream means
        /// to its end.
        ///
        /// # Errors
        /// `InvalidInput` for a place before the start, or relative to the end.
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
