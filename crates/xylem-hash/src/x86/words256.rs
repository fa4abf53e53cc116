//! Eight words side by side (AVX2).

use core::arch::x86_64::*;

use crate::backend::{Cv, MAX_LANES};
use crate::constants::BLOCK_LEN;

pub(super) type V = __m256i;
pub(super) const LANES: usize = 8;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn splat(word: u32) -> V {
    _mm256_set1_epi32(word as i32)
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn from_words(words: &[u32; LANES]) -> V {
    // SAFETY: the reference is valid for 32 bytes, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn add(a: V, b: V) -> V {
    _mm256_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn xor(a: V, b: V) -> V {
    _mm256_xor_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn and(a: V, b: V) -> V {
    _mm256_and_si256(a, b)
}

/// Rotations to the right, out of shifts and byte shuffles.
pub(super) mod by_shift {
    use super::*;

    /// The shuffles that turn each word by 16 and by 8 bits.
    pub type Shuffles = [V; 2];

    /// Hidden from the optimizer: where it knows the shuffles, it applies them to both sides of
    /// the xor before, which doubles their number.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn shuffles() -> Shuffles {
        let by_16 = _mm256_broadcastsi128_si256(_mm_setr_epi8(
            2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13,
        ));
        let by_8 = _mm256_broadcastsi128_si256(_mm_setr_epi8(
            1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12,
        ));
        core::hint::black_box([by_16, by_8])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn right_16(a: V, shuffles: &Shuffles) -> V {
        _mm256_shuffle_epi8(a, shuffles[0])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn right_8(a: V, shuffles: &Shuffles) -> V {
        _mm256_shuffle_epi8(a, shuffles[1])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn right_12(a: V) -> V {
        _mm256_or_si256(_mm256_srli_epi32::<12>(a), _mm256_slli_epi32::<20>(a))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn right_7(a: V) -> V {
        _mm256_or_si256(_mm256_srli_epi32::<7>(a), _mm256_slli_epi32::<25>(a))
    }
}

/// Rotations to the right, each one instruction.
pub(super) mod by_rotate {
    use super::*;

    pub type Shuffles = ();

    pub fn shuffles() -> Shuffles {}

    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    pub fn right_16(a: V, (): &Shuffles) -> V {
        _mm256_ror_epi32::<16>(a)
    }

    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    pub fn right_8(a: V, (): &Shuffles) -> V {
        _mm256_ror_epi32::<8>(a)
    }

    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    pub fn right_12(a: V) -> V {
        _mm256_ror_epi32::<12>(a)
    }

    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    pub fn right_7(a: V) -> V {
        _mm256_ror_epi32::<7>(a)
    }
}

/// Vector i of the result has word i of each block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_blocks(blocks: &[&[u8; BLOCK_LEN]; LANES]) -> [V; 16] {
    let mut m = [_mm256_setzero_si256(); 16];
    for (quarter, words) in m.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        // Words 4 * quarter and on of lanes i and i + 4. Joining halves as they are loaded leaves
        // only 4 by 4 transposes, and costs no shuffle.
        let both = |i: usize| {
            let (low, high) = (blocks[i].as_chunks::<16>().0, blocks[i + 4].as_chunks::<16>().0);
            let (low, high) = (low[quarter].as_ptr(), high[quarter].as_ptr());
            // SAFETY: both point to 16 bytes of a block, and the loads need no alignment.
            unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
        };
        *words = transpose([both(0), both(1), both(2), both(3)]);
    }
    m
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

/// The inverse of [`load_blocks`] for eight words: chaining values lane by lane.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_cvs(words: &[V; 8], out: &mut [Cv; MAX_LANES]) {
    for (half, words) in words.as_chunks::<4>().0.iter().enumerate() {
        for (i, both) in transpose(*words).into_iter().enumerate() {
            store_at(_mm256_castsi256_si128(both), half, &mut out[i]);
            store_at(_mm256_extracti128_si256::<1>(both), half, &mut out[i + 4]);
        }
    }
}

/// As [`store_cvs`] for sixteen words: whole blocks lane by lane.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_blocks(words: &[V; 16], out: &mut [[u8; BLOCK_LEN]; MAX_LANES]) {
    for (quarter, words) in words.as_chunks::<4>().0.iter().enumerate() {
        for (i, both) in transpose(*words).into_iter().enumerate() {
            store_at(_mm256_castsi256_si128(both), quarter, &mut out[i]);
            store_at(_mm256_extracti128_si256::<1>(both), quarter, &mut out[i + 4]);
        }
    }
}

use super::words128::store_at;
