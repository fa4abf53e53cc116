//! Kernels: the compression function for each instruction set.
//!
//! There are two layouts:
//! - lanes: one message for each word of a vector; vector i holds word i of each of them.
//! - rows: one message for every four words of a vector; the four vectors of a state are the
//!   rows of the state matrix (of several messages side by side).
//!
//! Rows need fewer instructions for few messages, lanes for many. For x86-64 the kernels are assembly text
//! (`x86/text`): the compiler takes long for them and produces slower code. For the other instruction sets each layout
//! is written once, as a macro over vector types ([`lanes`], [`rows`]).

#[cfg(any(
    all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128"),
))]
mod lanes;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
mod neon;
pub(crate) mod portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod rows;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
// Targets for operating systems and firmware (`x86_64-unknown-none`) have no vector registers, and the x32 ABI has
// pointers of 32 bits, where the text reads 64. Both use the portable code.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2"))]
mod x86;

use crate::backend::Kernels;
#[cfg(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_feature = "sse2",
    feature = "sha256"
))]
pub(crate) use x86::sha256;

/// All backends, best first.
pub(crate) static ALL: &[&Kernels] = &[
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2"))]
    &x86::AVX512,
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2"))]
    &x86::AVX512_IN_HALVES,
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2"))]
    &x86::AVX2,
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_feature = "sse2"))]
    &x86::SSE41,
    #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
    &neon::NEON,
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    &wasm::SIMD128,
    &portable::KERNELS,
];

/// One message and the blocks by which a kernel advances it. All blocks but the last are contiguous at `at`; the last
/// one is at `last`. `blocks` is at least one; if it is one, `at` is not read.
#[repr(C)]
pub(crate) struct One {
    pub cv: *const [u32; 8],
    pub at: *const u8,
    pub last: *const u8,
    pub blocks: usize,
    pub counter: u64,
    /// [`Self::end`] of the first block, of the blocks between, and of the last one.
    pub ends: [u64; 3],
}

impl One {
    /// Packs length and flags of a block.
    #[inline]
    pub(crate) fn end(len: u32, flags: u32) -> u64 {
        u64::from(flags) << 32 | u64::from(len)
    }
}
