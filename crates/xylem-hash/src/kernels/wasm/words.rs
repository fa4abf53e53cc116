//! Vectors of four words, for [`crate::kernels::lanes`].

use core::arch::wasm32::*;

use crate::backend::MAX_LANES;
use crate::constants::BLOCK_LEN;

pub(super) use core::arch::wasm32::{
    u32x4_add as add, u32x4_splat as splat, v128 as V, v128_xor as xor,
};

pub(super) const LANES: usize = 4;

/// The first words of `words`.
#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn load<const N: usize>(words: &[u32; N]) -> V {
    const { assert!(N >= LANES) };
    // SAFETY: the reference is valid for 16 bytes, and the load needs no alignment.
    unsafe { v128_load(words.as_ptr().cast()) }
}

/// Returns `a` itself: the engine that compiles the module reorders operations anyway.
pub(super) fn held(a: V) -> V {
    a
}

// Rotations by whole bytes are shuffles: engines make one instruction of each, on x86-64 (`pshufb`) and on AArch64
// (`tbl`).

#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn right_16(a: V) -> V {
    i8x16_shuffle::<2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13>(a, a)
}

#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn right_8(a: V) -> V {
    i8x16_shuffle::<1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12>(a, a)
}

#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn right_12(a: V) -> V {
    v128_or(u32x4_shr(a, 12), u32x4_shl(a, 20))
}

#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn right_7(a: V) -> V {
    v128_or(u32x4_shr(a, 7), u32x4_shl(a, 25))
}

/// Loads blocks: vector i of the result has word i of the block at `offset` from each pointer.
///
/// # Safety
/// The pointers are to blocks.
#[inline]
#[target_feature(enable = "simd128")]
pub(super) unsafe fn load_blocks(at: &[*const u8], offset: usize) -> [V; 16] {
    let mut m = [splat(0); 16];
    for (quarter, words) in m.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let part = |i: usize| {
            let from = at[i].wrapping_add(offset + 16 * quarter);
            // SAFETY: guaranteed by the caller; the load needs no alignment.
            unsafe { v128_load(from.cast()) }
        };
        *words = transpose([part(0), part(1), part(2), part(3)]);
    }
    m
}

/// Loads values: vector i of the result has word i of each.
#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn load_cvs(cvs: &[[u32; 8]]) -> [V; 8] {
    let mut v = [splat(0); 8];
    for (half, words) in v.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let part = |i: usize| load(&cvs[i].as_chunks::<4>().0[half]);
        *words = transpose([part(0), part(1), part(2), part(3)]);
    }
    v
}

#[inline]
#[target_feature(enable = "simd128")]
fn transpose([a, b, c, d]: [V; 4]) -> [V; 4] {
    let (ab_low, ab_high) = (i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b));
    let (cd_low, cd_high) = (i32x4_shuffle::<0, 4, 1, 5>(c, d), i32x4_shuffle::<2, 6, 3, 7>(c, d));
    [
        i64x2_shuffle::<0, 2>(ab_low, cd_low),
        i64x2_shuffle::<1, 3>(ab_low, cd_low),
        i64x2_shuffle::<0, 2>(ab_high, cd_high),
        i64x2_shuffle::<1, 3>(ab_high, cd_high),
    ]
}

/// The inverse of [`load_cvs`].
#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn store_cvs(v: &[V; 8], cvs: &mut [[u32; 8]]) {
    for (half, words) in v.as_chunks::<4>().0.iter().enumerate() {
        for (i, part) in transpose(*words).into_iter().enumerate() {
            store(part, &mut cvs[i].as_chunks_mut::<4>().0[half]);
        }
    }
}

#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn store(words: V, out: &mut [u32; 4]) {
    // SAFETY: the reference is valid for 16 bytes, and the store needs no alignment.
    unsafe { v128_store(out.as_mut_ptr().cast(), words) };
}

/// Stores all sixteen words, lane by lane: the inverse of [`load_blocks`].
#[inline]
#[target_feature(enable = "simd128")]
pub(super) fn store_blocks(v: [V; 16], out: &mut [[u8; BLOCK_LEN]; LANES]) {
    for (quarter, words) in v.as_chunks::<4>().0.iter().enumerate() {
        for (i, part) in transpose(*words).into_iter().enumerate() {
            let place = &mut out[i].as_chunks_mut::<16>().0[quarter];
            // SAFETY: the reference is valid for 16 bytes, and the store needs no alignment.
            unsafe { v128_store(place.as_mut_ptr().cast(), part) };
        }
    }
}
