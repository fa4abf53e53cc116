//! [`Backend`]: which code compresses, and how many blocks it takes at once.
//!
//! Everything above this module hands over *lanes* (independent chunks) or pairs of children, up
//! to [`MAX_LANES`] at a time, and does not know how they are compressed.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_LEN, CHUNK_START, OUT_LEN, PARENT};
use crate::portable;
use crate::subtree::Mode;

/// A chaining value in its wire form: eight little-endian words.
pub(crate) type Cv = [u8; OUT_LEN];

/// The most lanes that one call takes; a batch of this size fills every backend.
pub(crate) const MAX_LANES: usize = 8;

/// One chunk to hash: at most [`CHUNK_LEN`] bytes and its place.
#[derive(Clone, Copy)]
pub(crate) struct Lane<'a> {
    pub bytes: &'a [u8],
    /// Index of the chunk in its message.
    pub counter: u64,
    /// Flags of the last block beyond `CHUNK_END`: `ROOT` or nothing.
    pub end: u32,
}

/// A backend that this processor can run: values come only from [`Backend::detect`] and
/// [`Backend::available`], which check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Backend(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Portable = 1,
}

impl Kind {
    /// Best first.
    const ALL: &'static [Self] = &[Self::Portable];

    fn is_supported(self) -> bool {
        match self {
            Self::Portable => true,
        }
    }
}

/// The chosen backend as its `Kind` number; 0 before the first use.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

impl Backend {
    /// The best backend of this processor; looked up once.
    #[inline]
    pub fn detect() -> Self {
        let chosen = CHOSEN.load(Ordering::Relaxed);
        match Kind::ALL.iter().find(|kind| **kind as u8 == chosen) {
            Some(kind) => Self(*kind),
            None => Self::choose(),
        }
    }

    #[cold]
    fn choose() -> Self {
        let best = Self::available().next().unwrap_or(Self(Kind::Portable));
        CHOSEN.store(best.0 as u8, Ordering::Relaxed);
        best
    }

    /// Makes `detect` answer the named backend.
    pub fn set(name: &str) -> bool {
        let found = Self::available().find(|backend| backend.name() == name);
        if let Some(backend) = found {
            CHOSEN.store(backend.0 as u8, Ordering::Relaxed);
        }
        found.is_some()
    }

    /// All backends of this processor, best first.
    pub fn available() -> impl Iterator<Item = Self> {
        Kind::ALL.iter().filter(|kind| kind.is_supported()).map(|kind| Self(*kind))
    }

    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
        }
    }

    /// The compression function, all sixteen output words.
    pub fn compress(
        self,
        cv: &[u32; 8],
        block: &[u8; BLOCK_LEN],
        len: u32,
        counter: u64,
        flags: u32,
    ) -> [u32; 16] {
        match self.0 {
            Kind::Portable => portable::compress(cv, block, len, counter, flags),
        }
    }

    /// Chaining values of whole `blocks` that follow each other in one chunk, from its start.
    pub fn chunk_start(self, mode: &Mode, blocks: &[[u8; BLOCK_LEN]], counter: u64) -> [u32; 8] {
        let mut cv = *mode.key();
        let mut start = CHUNK_START;
        for block in blocks {
            let out = self.compress(&cv, block, BLOCK_LEN as u32, counter, mode.flags() | start);
            cv.copy_from_slice(&out[..8]);
            start = 0;
        }
        cv
    }

    /// The values of up to [`MAX_LANES`] chunks; entries past `lanes.len()` are meaningless.
    pub fn chunks(self, mode: &Mode, lanes: &[Lane<'_>]) -> [Cv; MAX_LANES] {
        debug_assert!(lanes.len() <= MAX_LANES);
        debug_assert!(lanes.iter().all(|lane| lane.bytes.len() <= CHUNK_LEN));
        let mut out = [[0; OUT_LEN]; MAX_LANES];
        for (lane, out) in lanes.iter().zip(&mut out) {
            let (blocks, tail) = split_last_block(lane.bytes);
            let cv = self.chunk_start(mode, blocks, lane.counter);
            let start = if blocks.is_empty() { CHUNK_START } else { 0 };
            let flags = mode.flags() | start | CHUNK_END | lane.end;
            let words = self.compress(&cv, &padded(tail), tail.len() as u32, lane.counter, flags);
            *out = first_half(&words);
        }
        out
    }

    /// The values of up to [`MAX_LANES`] parents, each given as its two children in a row;
    /// `end` is `ROOT` or nothing. Entries past `pairs.len()` are meaningless.
    pub fn parents(self, mode: &Mode, pairs: &[[Cv; 2]], end: u32) -> [Cv; MAX_LANES] {
        debug_assert!(pairs.len() <= MAX_LANES);
        let flags = mode.flags() | PARENT | end;
        let mut out = [[0; OUT_LEN]; MAX_LANES];
        for (pair, out) in pairs.iter().zip(&mut out) {
            let words = self.compress(mode.key(), &joined(pair), BLOCK_LEN as u32, 0, flags);
            *out = first_half(&words);
        }
        out
    }
}

/// The first eight words of a compression, as bytes.
pub(crate) fn first_half(words: &[u32; 16]) -> Cv {
    let mut bytes = [0; OUT_LEN];
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// Whole blocks, and the last one (1 to 64 bytes; none only of an empty chunk).
pub(crate) fn split_last_block(chunk: &[u8]) -> (&[[u8; BLOCK_LEN]], &[u8]) {
    let at = chunk.len().saturating_sub(1) / BLOCK_LEN * BLOCK_LEN;
    let (blocks, tail) = chunk.split_at(at);
    (blocks.as_chunks().0, tail)
}

/// A block of at most 64 bytes, filled up with zeros.
pub(crate) fn padded(tail: &[u8]) -> [u8; BLOCK_LEN] {
    let mut block = [0; BLOCK_LEN];
    block[..tail.len()].copy_from_slice(tail);
    block
}

/// A parent's block: its children's values in order.
pub(crate) fn joined(pair: &[Cv; 2]) -> [u8; BLOCK_LEN] {
    let mut block = [0; BLOCK_LEN];
    block.copy_from_slice(pair.as_flattened());
    block
}
