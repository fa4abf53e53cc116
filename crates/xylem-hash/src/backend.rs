//! [`Backend`]: which code compresses, and how many blocks it takes at once.
//!
//! Everything above this module hands over *lanes* (independent chunks) or pairs of children, up
//! to [`MAX_LANES`] at a time, and does not know how they are compressed.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::constants::{BLOCK_LEN, CHUNK_LEN, OUT_LEN};
use crate::portable;
use crate::subtree::Mode;
#[cfg(target_arch = "x86_64")]
use crate::x86;

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

/// The inputs of one compression (the paper, section 2.2).
#[derive(Clone)]
pub(crate) struct Node {
    /// Chaining value so far: of a chunk's earlier blocks, or the key words.
    pub cv: [u32; 8],
    pub block: [u8; BLOCK_LEN],
    /// Bytes of `block` that are not padding.
    pub len: u32,
    /// Index of the chunk, 0 for a parent; in extendable output the index of the block.
    pub counter: u64,
    pub flags: u32,
}

/// A backend that this processor can run: values come only from [`Backend::detect`] and
/// [`Backend::available`], which check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Backend(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Portable = 1,
    #[cfg(target_arch = "x86_64")]
    Sse41 = 2,
    #[cfg(target_arch = "x86_64")]
    Avx2 = 3,
    #[cfg(target_arch = "x86_64")]
    Avx512 = 4,
}

/// Whether code compiled for these instruction sets may run: asked of the processor, or without
/// `std` (which knows how to ask), of the target that this crate is compiled for.
#[cfg(target_arch = "x86_64")]
macro_rules! has {
    ($($feature:tt),*) => {{
        #[cfg(feature = "std")]
        let yes = $(std::arch::is_x86_feature_detected!($feature))&&*;
        #[cfg(not(feature = "std"))]
        let yes = $(cfg!(target_feature = $feature))&&*;
        yes
    }};
}

impl Kind {
    /// Best first.
    #[cfg(target_arch = "x86_64")]
    const ALL: &'static [Self] = &[Self::Avx512, Self::Avx2, Self::Sse41, Self::Portable];
    #[cfg(not(target_arch = "x86_64"))]
    const ALL: &'static [Self] = &[Self::Portable];

    fn is_supported(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Sse41 => has!("sse4.1"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => has!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => has!("avx2", "avx512f", "avx512vl"),
        }
    }
}

/// Calls the function of this name in the module of `$backend`.
macro_rules! dispatch {
    ($backend:expr, $function:ident ( $($argument:expr),* )) => {
        match $backend.0 {
            Kind::Portable => portable::$function($($argument),*),
            // SAFETY: a `Backend` of this kind is made only where `is_supported` found SSE4.1.
            #[cfg(target_arch = "x86_64")]
            Kind::Sse41 => unsafe { x86::sse41::$function($($argument),*) },
            // SAFETY: a `Backend` of this kind is made only where `is_supported` found AVX2.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { x86::avx2::$function($($argument),*) },
            // SAFETY: a `Backend` of this kind is made only where `is_supported` found AVX2,
            // AVX-512F and AVX-512VL.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { x86::avx512::$function($($argument),*) },
        }
    };
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
            #[cfg(target_arch = "x86_64")]
            Kind::Sse41 => "sse4.1",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        }
    }

    /// The compression function, all sixteen output words.
    pub fn compress(self, node: &Node) -> [u32; 16] {
        dispatch!(self, compress(node))
    }

    /// The chaining value after whole `blocks` at the start of one chunk.
    pub fn chunk_start(self, mode: &Mode, blocks: &[[u8; BLOCK_LEN]], counter: u64) -> [u32; 8] {
        dispatch!(self, chunk_start(mode, blocks, counter))
    }

    /// The values of up to [`MAX_LANES`] chunks; entries past `lanes.len()` are meaningless.
    pub fn chunks(self, mode: &Mode, lanes: &[Lane<'_>]) -> [Cv; MAX_LANES] {
        debug_assert!(lanes.len() <= MAX_LANES);
        debug_assert!(lanes.iter().all(|lane| lane.bytes.len() <= CHUNK_LEN));
        dispatch!(self, chunks(mode, lanes))
    }

    /// The values of up to [`MAX_LANES`] parents, each given as its two children in a row;
    /// `end` is `ROOT` or nothing. Entries past `pairs.len()` are meaningless.
    pub fn parents(self, mode: &Mode, pairs: &[[Cv; 2]], end: u32) -> [Cv; MAX_LANES] {
        debug_assert!(pairs.len() <= MAX_LANES);
        dispatch!(self, parents(mode, pairs, end))
    }

    /// Extendable output: `count` (up to [`MAX_LANES`]) compressions of `node` that differ in the
    /// counter only, from its own on. Entries past `count` are meaningless.
    pub fn root_blocks(self, node: &Node, count: usize) -> [[u8; BLOCK_LEN]; MAX_LANES] {
        dispatch!(self, root_blocks(node, count))
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

/// All words of a compression, as bytes.
pub(crate) fn all_bytes(words: &[u32; 16]) -> [u8; BLOCK_LEN] {
    let mut bytes = [0; BLOCK_LEN];
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
