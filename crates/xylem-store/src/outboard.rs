//! Outboards on disk: the nodes of a tree, 32 bytes a slot, in-order (docs/spec/tree.md).
//!
//! One file may hold the outboards of many trees, one after the other. Every reader and writer is therefore made *at* a
//! slot offset. Nodes read here are not trusted: receivers check proofs, and a resumed fetch checks nodes from the root
//! down.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_tree::NodeSource;

use crate::error::StoreError;
use crate::file::FileRef;
use crate::node_buffer::{NodeBuffer, byte_of};

/// Bytes of one cached block of a reader: 128 slots, the nodes of 64 neighbouring segments.
const BLOCK: usize = 4096;
const BLOCK_BYTES: u64 = BLOCK as u64;
/// Number of cached blocks of a reader.
const BLOCKS: usize = 8;

/// A file that holds one or more outboards.
#[derive(Debug, Clone)]
pub struct OutboardFile {
    file: FileRef,
}

impl OutboardFile {
    /// Uses a file as an outboard file.
    #[must_use]
    pub fn new(file: FileRef) -> Self {
        Self { file }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &FileRef {
        &self.file
    }

    /// A writer for the outboard that starts at `slot_offset`.
    #[must_use]
    pub fn writer_at(&self, slot_offset: u64) -> OutboardWriter {
        OutboardWriter { file: self.file.clone(), base: slot_offset, nodes: NodeBuffer::default() }
    }

    /// A reader of the (finished) outboard that starts at `slot_offset`.
    #[must_use]
    pub fn reader_at(&self, slot_offset: u64) -> OutboardReader {
        let (blocks, clock) = (Vec::new(), 0);
        OutboardReader { file: self.file.clone(), base: slot_offset, blocks, clock, waits: true }
    }
}

/// Writes one outboard, or several in turn ([`OutboardWriter::rebase`]), gathering small pieces. Writes are complete
/// only after [`OutboardWriter::flush`].
#[derive(Debug)]
pub struct OutboardWriter {
    file: FileRef,
    base: u64,
    nodes: NodeBuffer,
}

impl OutboardWriter {
    /// Takes nodes (a multiple of 32 bytes) for the slots from `first_slot` on: the sink of an
    /// [`OutboardBuilder`](xylem_tree::OutboardBuilder).
    ///
    /// # Errors
    /// The medium's; [`StoreError::NoSpace`] when it is full.
    pub fn write(&mut self, first_slot: u64, nodes: &[u8]) -> Result<(), StoreError> {
        self.nodes.push(self.base.saturating_add(first_slot), nodes);
        if self.nodes.is_full() { self.flush() } else { Ok(()) }
    }

    /// Changes to another outboard of the same file. Neighbouring small ones still end up in one write.
    pub fn rebase(&mut self, slot_offset: u64) {
        self.base = slot_offset;
    }

    /// Writes all gathered nodes.
    ///
    /// # Errors
    /// As [`OutboardWriter::write`]; it may be called again after an error.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.nodes.write(&self.file)
    }
}

/// Reads one outboard with a small cache. For 64 neighbouring segments, the own value and the siblings of a proof lie
/// in one block.
#[derive(Debug)]
pub struct OutboardReader {
    file: FileRef,
    base: u64,
    blocks: Vec<OutboardBlock>,
    clock: u64,
    /// Whether reads may wait for a device.
    waits: bool,
}

#[derive(Debug)]
struct OutboardBlock {
    /// The block's number, in units of [`BLOCK`] bytes from the start of the file.
    number: u64,
    used: u64,
    bytes: Vec<u8>,
}

impl OutboardReader {
    /// Changes to another outboard of the same file, keeping the cache.
    pub fn rebase(&mut self, slot_offset: u64) {
        self.base = slot_offset;
    }

    /// As [`OutboardReader::read`], without waiting.
    ///
    /// # Errors
    /// As [`OutboardReader::read`]; one that [`StoreError::is_waiting`].
    pub fn read_no_wait(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        self.waits = false;
        let read = self.read(first_slot, out);
        self.waits = true;
        read
    }

    fn read_file(&self, out: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        match self.waits {
            true => self.file.read_full(out, offset),
            false => self.file.read_full_no_wait(out, offset),
        }
    }

    /// Reads `out.len() / 32` nodes from `first_slot` on.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the file is too short; the medium's.
    pub fn read(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let start = byte_of(&self.file, self.base.saturating_add(first_slot))?;
        if out.len() >= BLOCK {
            let got = self.read_file(out, start)?;
            return if got == out.len() { Ok(()) } else { Err(self.ends_early(start, got)) };
        }
        let (mut at, mut out) = (start, out);
        while !out.is_empty() {
            let block = self.block(at / BLOCK_BYTES)?;
            let from = usize::try_from(at % BLOCK_BYTES).unwrap_or(BLOCK);
            let Some(part) = self.blocks[block].bytes.get(from..).filter(|p| !p.is_empty()) else {
                return Err(self.ends_early(at, 0));
            };
            let (now, rest) = out.split_at_mut(part.len().min(out.len()));
            now.copy_from_slice(&part[..now.len()]);
            at = at.saturating_add(now.len() as u64);
            out = rest;
        }
        Ok(())
    }

    fn ends_early(&self, start: u64, got: usize) -> StoreError {
        let offset = start.saturating_add(got as u64);
        StoreError::Corrupt {
            path: self.file.path().into(),
            offset,
            what: "the file ends here, too early",
        }
    }

    /// Index of a block in the cache. Reads it if it is missing.
    fn block(&mut self, number: u64) -> Result<usize, StoreError> {
        self.clock = self.clock.saturating_add(1);
        if let Some(at) = self.blocks.iter().position(|b| b.number == number) {
            self.blocks[at].used = self.clock;
            return Ok(at);
        }
        let mut bytes = if self.blocks.len() < BLOCKS {
            Vec::with_capacity(BLOCK)
        } else {
            let oldest = (0..self.blocks.len()).min_by_key(|at| self.blocks[*at].used);
            self.blocks.swap_remove(oldest.unwrap_or(0)).bytes
        };
        bytes.resize(BLOCK, 0);
        let got = self.read_file(&mut bytes, number.saturating_mul(BLOCK_BYTES))?;
        bytes.truncate(got);
        let at = self.blocks.len();
        self.blocks.push(OutboardBlock { number, used: self.clock, bytes });
        Ok(at)
    }
}

impl NodeSource for OutboardReader {
    type Error = StoreError;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        self.read(first_slot, out)
    }
}
