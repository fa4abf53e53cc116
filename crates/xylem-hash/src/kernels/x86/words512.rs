//! Sixteen words side by side (AVX-512F): the ways in and out of what `text` computes.

use core::arch::x86_64::*;

use super::words128;
use crate::backend::MAX_LANES;
use crate::constants::BLOCK_LEN;

pub(super) use core::arch::x86_64::__m512i as V;

pub(super) const LANES: usize = 16;

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn splat(word: u32) -> V {
    _mm512_set1_epi32(word as i32)
}

/// The counters from `first` on: lower halves, and upper ones.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn counters(first: u64) -> [V; 2] {
    let (low, high) = (splat(first as u32), splat((first >> 32) as u32));
    let steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let sums = _mm512_add_epi32(low, steps);
    let carry = _mm512_cmplt_epu32_mask(sums, low);
    [sums, _mm512_mask_add_epi32(high, carry, high, splat(1))]
}

/// The counters of eight lanes from `low` on, and of eight from `high` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn counters_of_eights(low: u64, high: u64) -> [V; 2] {
    let (low, high) = (counters(low), counters(high.wrapping_sub(8)));
    let joined = |i: usize| _mm512_mask_blend_epi32(0xff00, low[i], high[i]);
    [joined(0), joined(1)]
}

/// Transposes the 4 by 4 matrix in each quarter.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose([a, b, c, d]: [V; 4]) -> [V; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// The 16 by 16 matrix, rows and columns exchanged: first inside the 4 by 4 matrices of words, then
/// these among themselves.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn exchange(mut rows: [V; 16]) -> [V; 16] {
    for i in 0..4 {
        let group = &mut rows.as_chunks_mut::<4>().0[i];
        *group = transpose(*group);
    }
    for i in 0..4 {
        let [a, b, c, d] = [rows[i], rows[4 + i], rows[8 + i], rows[12 + i]];
        let ab_even = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
        let ab_odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b);
        let cd_even = _mm512_shuffle_i32x4::<0b10_00_10_00>(c, d);
        let cd_odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(c, d);
        rows[i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_even, cd_even);
        rows[4 + i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_odd, cd_odd);
        rows[8 + i] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_even, cd_even);
        rows[12 + i] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_odd, cd_odd);
    }
    rows
}

/// Vector i of the result has word i of each value.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_cvs(cvs: &[[u32; 8]; MAX_LANES]) -> [V; 8] {
    let mut v = [_mm512_setzero_si512(); 8];
    for half in 0..2 {
        let part = |i: usize| words128::load(&cvs[i].as_chunks::<4>().0[half]);
        let four = |i: usize| {
            let v = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(part(i)), part(i + 4));
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(v, part(i + 8)), part(i + 12))
        };
        v.as_chunks_mut::<4>().0[half] = transpose([four(0), four(1), four(2), four(3)]);
    }
    v
}

/// All sixteen words, lane by lane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_blocks(v: [V; 16], out: &mut [[u8; BLOCK_LEN]; LANES]) {
    let rows = exchange(v);
    for i in 0..LANES {
        // SAFETY: a block is 64 bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(out[i].as_mut_ptr().cast(), rows[i]) };
    }
}
