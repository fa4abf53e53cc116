//! Kernels: the compression function for each instruction set.
//!
//! Two shapes of code, each written once as a macro over the vectors of an instruction set:
//! - [`lanes`]: as many messages as a vector has words; vector i holds word i of each of them.
//! - [`rows`]: one message for every four words of a vector; the four vectors of a state are the
//!   rows of the state matrix (of several messages side by side).
//!
//! Rows need fewer instructions for few messages, lanes for many. Both go round by round in a loop,
//! a seventh of the code of rounds in a row; only the eight lanes of AVX2 have them in a row, because
//! there it is faster on a busy core (docs/hash-engine.md has the figures). What the compiler can't
//! be brought to write is assembly text: `x86/asm512.rs`.

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
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::backend::Kernels;
#[cfg(all(target_arch = "x86_64", feature = "sha256"))]
pub(crate) use x86::sha256;

/// All there are, best first.
pub(crate) static ALL: &[&Kernels] = &[
    #[cfg(target_arch = "x86_64")]
    &x86::AVX512,
    #[cfg(target_arch = "x86_64")]
    &x86::AVX2,
    #[cfg(target_arch = "x86_64")]
    &x86::SSE41,
    #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
    &neon::NEON,
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    &wasm::SIMD128,
    &portable::KERNELS,
];

/// One message on its way through a kernel: from where it is, all blocks but the last lie in a row at
/// `at`, the last one at `last`. `blocks` is at least one; with one alone `at` is not looked at.
#[repr(C)]
pub(crate) struct One {
    pub cv: *const [u32; 8],
    pub at: *const u8,
    pub last: *const u8,
    pub blocks: usize,
    pub counter: u64,
    /// [`Self::end`] of the first block, of those between, and of the last.
    pub ends: [u64; 3],
}

impl One {
    /// Length and flags of a block.
    #[inline]
    pub(crate) fn end(len: u32, flags: u32) -> u64 {
        u64::from(flags) << 32 | u64::from(len)
    }
}

/// Asks for the memory there, which need not be valid, before it is needed, where there is a stable
/// way to ask. The chunks of a batch are as many streams, each too short for the processor to
/// foresee the next batch.
#[allow(dead_code, unused_variables)]
#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 processor has it, and it has no effect on anything but caches.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }
}
