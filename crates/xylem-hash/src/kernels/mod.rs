//! Kernels: the compression function for each instruction set.
//!
//! Two shapes:
//! - lanes: as many messages as a vector has words; vector i holds word i of each of them.
//! - rows: one message for every four words of a vector; the four vectors of a state are the
//!   rows of the state matrix (of several messages side by side).
//!
//! Rows need fewer instructions for few messages, lanes for many. For x86-64 they are assembly text
//! (`x86/text`), because the compiler takes long over what it then does not write as well; for the others
//! each is written once as a macro over the vectors of an instruction set ([`lanes`], [`rows`]).

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
// Targets of operating systems and firmware (`x86_64-unknown-none`) have no vector registers, and the ABI
// x32 has pointers of 32 bits, where the text reads 64: both are portable.
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

/// All there are, best first.
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
