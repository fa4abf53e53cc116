//! Eight words side by side (AVX2).

use core::arch::x86_64::*;

use super::words128;
use crate::backend::MAX_LANES;
use crate::constants::BLOCK_LEN;

pub(super) use core::arch::x86_64::{
    __m256i as V, _mm256_add_epi32 as add, _mm256_xor_si256 as xor,
};

pub(super) const LANES: usize = 8;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn splat(word: u32) -> V {
    _mm256_set1_epi32(word as i32)
}

/// The first words of `words`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load<const N: usize>(words: &[u32; N]) -> V {
    const { assert!(N >= LANES) };
    // SAFETY: the reference is valid for 32 bytes, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// As [`words128::by_shift::held`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn held(mut a: V) -> V {
    // SAFETY: no instruction, no effect.
    unsafe {
        core::arch::asm!("/* {0} */", inout(ymm_reg) a, options(pure, nomem, nostack, preserves_flags));
    }
    a
}

/// Rotations to the right out of two shifts each, of which the compiler makes a byte shuffle where
/// it can (a shuffle written out it takes apart); 16 registers.
pub(super) mod by_shift {
    use super::*;

    pub(in super::super) use super::{
        LANES, V, add, held, load, load_blocks, load_cvs, splat, store_blocks, store_cvs, xor,
    };

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn to_memory(place: &mut V, a: V) {
        // SAFETY: a reference is valid and aligned. Volatile, so that it is a store.
        unsafe { core::ptr::write_volatile(place, a) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn left_in_memory(place: &V) -> V {
        // SAFETY: a reference is valid and aligned. Volatile, so that it is a load.
        unsafe { core::ptr::read_volatile(place) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn right_16(a: V) -> V {
        let a = held(a);
        _mm256_or_si256(_mm256_srli_epi32::<16>(a), _mm256_slli_epi32::<16>(a))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn right_8(a: V) -> V {
        let a = held(a);
        _mm256_or_si256(_mm256_srli_epi32::<8>(a), _mm256_slli_epi32::<24>(a))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn right_12(a: V) -> V {
        _mm256_or_si256(_mm256_srli_epi32::<12>(a), _mm256_slli_epi32::<20>(a))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn right_7(a: V) -> V {
        _mm256_or_si256(_mm256_srli_epi32::<7>(a), _mm256_slli_epi32::<25>(a))
    }
}

/// Sixteen bytes at `low`, then sixteen at `high`.
///
/// # Safety
/// Both are valid for 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn join(low: *const u8, high: *const u8) -> V {
    // SAFETY: the caller's promise; the loads need no alignment.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
}

/// Vector i of the result has word i of the block at `offset` from each pointer.
///
/// Joining halves as they are loaded (lanes i and i + 4) leaves only 4 by 4 transposes, and costs
/// no shuffle.
///
/// # Safety
/// The pointers are to blocks.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_blocks(at: &[*const u8; MAX_LANES], offset: usize) -> [V; 16] {
    let mut m = [_mm256_setzero_si256(); 16];
    for quarter in 0..4 {
        let from = |i: usize| at[i].wrapping_add(offset + 16 * quarter);
        // SAFETY: the caller's promise.
        let both = |i: usize| unsafe { join(from(i), from(i + 4)) };
        m.as_chunks_mut::<4>().0[quarter] = transpose([both(0), both(1), both(2), both(3)]);
    }
    m
}

/// Vector i of the result has word i of each value.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_cvs(cvs: &[[u32; 8]; MAX_LANES]) -> [V; 8] {
    let mut v = [_mm256_setzero_si256(); 8];
    for half in 0..2 {
        let from = |i: usize| cvs[i].as_chunks::<4>().0[half].as_ptr().cast();
        // SAFETY: four words are 16 bytes.
        let both = |i: usize| unsafe { join(from(i), from(i + 4)) };
        v.as_chunks_mut::<4>().0[half] = transpose([both(0), both(1), both(2), both(3)]);
    }
    v
}

/// Transposes the 4 by 4 matrix in each half.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose([a, b, c, d]: [V; 4]) -> [V; 4] {
    let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab_low, cd_low),
        _mm256_unpackhi_epi64(ab_low, cd_low),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// The inverse of [`load_cvs`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_cvs(v: &[V; 8], cvs: &mut [[u32; 8]; MAX_LANES]) {
    for half in 0..2 {
        let words = v.as_chunks::<4>().0[half];
        let words = transpose(words);
        for i in 0..4 {
            let both = words[i];
            let (low, high) = (_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
            words128::store(low, &mut cvs[i].as_chunks_mut::<4>().0[half]);
            words128::store(high, &mut cvs[i + 4].as_chunks_mut::<4>().0[half]);
        }
    }
}

/// All sixteen words, lane by lane: the inverse of [`load_blocks`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_blocks(v: [V; 16], out: &mut [[u8; BLOCK_LEN]; LANES]) {
    for quarter in 0..4 {
        let words = v.as_chunks::<4>().0[quarter];
        let words = transpose(words);
        for i in 0..4 {
            let both = words[i];
            let (low, high) = (_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
            words128::store_bytes(low, &mut out[i].as_chunks_mut::<16>().0[quarter]);
            words128::store_bytes(high, &mut out[i + 4].as_chunks_mut::<16>().0[quarter]);
        }
    }
}
