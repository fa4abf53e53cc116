//! Four words side by side (SSE2, which every x86-64 processor has).

use core::arch::x86_64::*;

use crate::backend::{Cv, MAX_LANES};
use crate::constants::BLOCK_LEN;

pub(super) type V = __m128i;
pub(super) const LANES: usize = 4;

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn splat(word: u32) -> V {
    _mm_set1_epi32(word as i32)
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn from_words(words: &[u32; LANES]) -> V {
    // SAFETY: the reference is valid for 16 bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn from_bytes(bytes: &[u8; 16]) -> V {
    // SAFETY: the reference is valid for 16 bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn add(a: V, b: V) -> V {
    _mm_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn xor(a: V, b: V) -> V {
    _mm_xor_si128(a, b)
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn and(a: V, b: V) -> V {
    _mm_and_si128(a, b)
}

/// Rotation to the right by R bits; L is 32 - R.
pub(super) mod by_shift {
    use super::*;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub fn right<const R: i32, const L: i32>(a: V) -> V {
        _mm_or_si128(_mm_srli_epi32::<R>(a), _mm_slli_epi32::<L>(a))
    }
}

/// Rotation to the right by R bits; L is 32 - R.
pub(super) mod by_rotate {
    use super::*;

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub fn right<const R: i32, const L: i32>(a: V) -> V {
        _mm_ror_epi32::<R>(a)
    }
}

/// Vector i of the result has word i of each block.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn load_blocks(blocks: &[&[u8; BLOCK_LEN]; LANES]) -> [V; 16] {
    let mut m = [_mm_setzero_si128(); 16];
    for (quarter, words) in m.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let part = |i: usize| from_bytes(&blocks[i].as_chunks::<16>().0[quarter]);
        *words = transpose([part(0), part(1), part(2), part(3)]);
    }
    m
}

#[inline]
#[target_feature(enable = "sse2")]
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

/// The inverse of [`load_blocks`] for eight words: chaining values lane by lane.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store_cvs(words: &[V; 8], out: &mut [Cv; MAX_LANES]) {
    for (half, words) in words.as_chunks::<4>().0.iter().enumerate() {
        for (i, part) in transpose(*words).into_iter().enumerate() {
            store_at(part, half, &mut out[i]);
        }
    }
}

/// As [`store_cvs`] for sixteen words: whole blocks lane by lane.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store_blocks(words: &[V; 16], out: &mut [[u8; BLOCK_LEN]; MAX_LANES]) {
    for (quarter, words) in words.as_chunks::<4>().0.iter().enumerate() {
        for (i, part) in transpose(*words).into_iter().enumerate() {
            store_at(part, quarter, &mut out[i]);
        }
    }
}

/// Writes four words to the 16 bytes number `part` of `out`.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store_at(words: V, part: usize, out: &mut [u8]) {
    let out = &mut out.as_chunks_mut::<16>().0[part];
    // SAFETY: the reference is valid for 16 bytes, and the store needs no alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), words) };
}
