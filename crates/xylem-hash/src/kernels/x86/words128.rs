//! Four words side by side (SSE4.1).

use core::arch::x86_64::*;

use crate::backend::MAX_LANES;
use crate::constants::BLOCK_LEN;

pub(super) use core::arch::x86_64::{__m128i as V, _mm_add_epi32 as add, _mm_xor_si128 as xor};

pub(super) const LANES: usize = 4;

#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) fn splat(word: u32) -> V {
    _mm_set1_epi32(word as i32)
}

/// The first words of `words`.
#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) fn load<const N: usize>(words: &[u32; N]) -> V {
    const { assert!(N >= LANES) };
    // SAFETY: the reference is valid for 16 bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

/// Rotations to the right out of two shifts each, of which the compiler makes a byte shuffle where
/// it can (a shuffle written out it takes apart); 16 registers.
pub(super) mod by_shift {
    use super::*;

    pub(in super::super) use super::{
        LANES, V, add, load, load_blocks, load_cvs, splat, store_blocks, store_cvs, xor,
    };

    /// The value, of which the compiler is told nothing: it can't change the order of operations
    /// on both sides of it.
    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) fn held(mut a: V) -> V {
        // SAFETY: no instruction, no effect.
        unsafe {
            core::arch::asm!("/* {0} */", inout(xmm_reg) a, options(pure, nomem, nostack, preserves_flags));
        }
        a
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) fn to_memory(place: &mut V, a: V) {
        // SAFETY: a reference is valid and aligned. Volatile, so that it is a store.
        unsafe { core::ptr::write_volatile(place, a) }
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) fn left_in_memory(place: &V) -> V {
        // SAFETY: a reference is valid and aligned. Volatile, so that it is a load.
        unsafe { core::ptr::read_volatile(place) }
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) fn right_16(a: V) -> V {
        let a = held(a);
        _mm_or_si128(_mm_srli_epi32::<16>(a), _mm_slli_epi32::<16>(a))
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) fn right_8(a: V) -> V {
        let a = held(a);
        _mm_or_si128(_mm_srli_epi32::<8>(a), _mm_slli_epi32::<24>(a))
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) fn right_12(a: V) -> V {
        _mm_or_si128(_mm_srli_epi32::<12>(a), _mm_slli_epi32::<20>(a))
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(crate) fn right_7(a: V) -> V {
        _mm_or_si128(_mm_srli_epi32::<7>(a), _mm_slli_epi32::<25>(a))
    }
}

/// Vector i of the result has word i of the block at `offset` from each pointer.
///
/// # Safety
/// The pointers are to blocks.
#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) unsafe fn load_blocks(at: &[*const u8; MAX_LANES], offset: usize) -> [V; 16] {
    let mut m = [_mm_setzero_si128(); 16];
    for quarter in 0..4 {
        let part = |i: usize| {
            let from = at[i].wrapping_add(offset + 16 * quarter);
            // SAFETY: the caller's promise; the load needs no alignment.
            unsafe { _mm_loadu_si128(from.cast()) }
        };
        m.as_chunks_mut::<4>().0[quarter] = transpose([part(0), part(1), part(2), part(3)]);
    }
    m
}

/// Vector i of the result has word i of each value.
#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) fn load_cvs(cvs: &[[u32; 8]; MAX_LANES]) -> [V; 8] {
    let mut v = [_mm_setzero_si128(); 8];
    for half in 0..2 {
        let part = |i: usize| load(&cvs[i].as_chunks::<4>().0[half]);
        v.as_chunks_mut::<4>().0[half] = transpose([part(0), part(1), part(2), part(3)]);
    }
    v
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn transpose([a, b, c, d]: [V; 4]) -> [V; 4] {
    let (ab_low, ab_high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
    [
        _mm_unpacklo_epi64(ab_low, cd_low),
        _mm_unpackhi_epi64(ab_low, cd_low),
        _mm_unpacklo_epi64(ab_high, cd_high),
        _mm_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// The inverse of [`load_cvs`].
#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) fn store_cvs(v: &[V; 8], cvs: &mut [[u32; 8]; MAX_LANES]) {
    for half in 0..2 {
        let words = v.as_chunks::<4>().0[half];
        let words = transpose(words);
        for i in 0..4 {
            let part = words[i];
            store(part, &mut cvs[i].as_chunks_mut::<4>().0[half]);
        }
    }
}

/// All sixteen words, lane by lane: the inverse of [`load_blocks`].
#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) fn store_blocks(v: [V; 16], out: &mut [[u8; BLOCK_LEN]; LANES]) {
    for quarter in 0..4 {
        let words = v.as_chunks::<4>().0[quarter];
        let words = transpose(words);
        for i in 0..4 {
            let part = words[i];
            store_bytes(part, &mut out[i].as_chunks_mut::<16>().0[quarter]);
        }
    }
}

#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) fn store(words: V, out: &mut [u32; 4]) {
    // SAFETY: the reference is valid for 16 bytes, and the store needs no alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), words) };
}

#[inline]
#[target_feature(enable = "sse4.1")]
pub(super) fn store_bytes(words: V, out: &mut [u8; 16]) {
    // SAFETY: the reference is valid for 16 bytes, and the store needs no alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), words) };
}
