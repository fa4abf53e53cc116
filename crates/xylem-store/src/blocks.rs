//! A write buffer for verified bytes: neighbouring segments become one write.
//!
//! Up to four aligned blocks of 256 KiB are filled in any order. A full block is written whole, the oldest is written
//! to make room for a new one, and a flush writes the filled parts as contiguous runs.

use std::ops::Range;

use crate::error::StoreError;
use crate::file::FileRef;
use crate::sparse::write_sparse;

/// Bytes of one block; a multiple of every segment size.
const BLOCK: u64 = 256 * 1024;
/// The smallest segment: one BLAKE3 chunk.
const UNIT: u64 = 1024;
/// Most blocks that are filled at the same time.
const MAX_BLOCKS: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct WriteBlocks {
    /// The blocks, oldest first.
    blocks: Vec<WriteBlock>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct WriteBlock {
    start: u64,
    bytes: Vec<u8>,
    /// Filled byte ranges within the block, ascending, never adjacent.
    filled: Vec<Range<u64>>,
}

impl WriteBlocks {
    /// Takes `content` for `offset`, a multiple of 1,024. It must not cross a block's end; no segment does. On an error
    /// nothing was taken.
    pub(crate) fn put(
        &mut self,
        file: &FileRef,
        offset: u64,
        content: &[u8],
    ) -> Result<(), StoreError> {
        let start = offset / BLOCK * BLOCK;
        debug_assert!(
            offset.is_multiple_of(UNIT) && offset + content.len() as u64 <= start + BLOCK
        );
        let at = match self.blocks.iter().position(|b| b.start == start) {
            Some(at) => at,
            None => {
                if self.blocks.len() == MAX_BLOCKS {
                    self.write_block(file, 0)?;
                }
                // A spare block keeps its old bytes: only the ranges in `filled` are ever written.
                let bytes = self.spare.pop().unwrap_or_default();
                self.blocks.push(WriteBlock { start, bytes, filled: Vec::new() });
                self.blocks.len() - 1
            }
        };
        let block = &mut self.blocks[at];
        block.fill((offset - start) as usize, content);
        if block.filled.first() == Some(&(0..BLOCK)) {
            self.write_block(file, at)?;
        }
        Ok(())
    }

    /// Writes everything. Bytes that could not be written stay for the next try.
    pub(crate) fn write(&mut self, file: &FileRef) -> Result<(), StoreError> {
        while !self.blocks.is_empty() {
            self.write_block(file, 0)?;
        }
        Ok(())
    }

    fn write_block(&mut self, file: &FileRef, at: usize) -> Result<(), StoreError> {
        let block = &self.blocks[at];
        for run in &block.filled {
            let bytes = &block.bytes[run.start as usize..run.end as usize];
            write_sparse(file, bytes, block.start + run.start)?;
        }
        self.spare.push(self.blocks.remove(at).bytes);
        Ok(())
    }
}

impl WriteBlock {
    fn fill(&mut self, at: usize, content: &[u8]) {
        let end = at + content.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(content);
        let (mut from, mut to) = (at as u64, end as u64);
        // Merge with every run that this one touches.
        let first = self.filled.partition_point(|r| r.end < from);
        let last = self.filled.partition_point(|r| r.start <= to);
        if first < last {
            from = from.min(self.filled[first].start);
            to = to.max(self.filled[last - 1].end);
        }
        self.filled.splice(first..last, std::iter::once(from..to));
    }
}
