//! SHA-256 (FIPS 180-4) of sixteen messages side by side (AVX-512 F and BW).
//!
//! The processor's own SHA-256 instructions are bound by their latency: each waits for the one before it, and one
//! message has no second chain to fill the gap. Sixteen lanes have no such chain. AVX-512 has each step of a round as
//! one instruction: rotations, and any function of three words.

use core::arch::x86_64::*;

use core::arch::x86_64::__m512i as V;

/// Returns whether this processor can run [`compress`].
#[inline]
pub(crate) fn is_supported() -> bool {
    has!("avx512f", "avx512bw")
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

/// Transposes the 16 by 16 matrix: first inside the 4 by 4 matrices of words, then these among themselves.
#[inline]
#[target_feature(enable = "avx512f")]
fn exchange(mut rows: [V; 16]) -> [V; 16] {
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

/// The sixteen words of sixteen blocks: vector i gets word i of each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words(blocks: [&[u8; 64]; 16]) -> [V; 16] {
    let big_endian = _mm512_set4_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203);
    let mut rows = [_mm512_setzero_si512(); 16];
    for i in 0..16 {
        // SAFETY: a block has the 64 bytes of a vector; the load needs no alignment.
        let row = unsafe { _mm512_loadu_si512(blocks[i].as_ptr().cast()) };
        rows[i] = _mm512_shuffle_epi8(row, big_endian);
    }
    exchange(rows)
}

/// The sum of three functions of one word: two rotations and, by `$last`, a third rotation or a shift.
macro_rules! sigma {
    ($word:expr, $a:literal, $b:literal, $last:ident $c:literal) => {{
        let (a, b) = (_mm512_ror_epi32::<$a>($word), _mm512_ror_epi32::<$b>($word));
        // 0x96: the exclusive or of all three.
        _mm512_ternarylogic_epi32::<0x96>(a, b, $last::<$c>($word))
    }};
}

/// Word t + 16 of the schedule, from the sixteen before it (section 6.2.2, step 1).
#[inline]
#[target_feature(enable = "avx512f")]
fn extended(w: &[V; 16], t: usize) -> V {
    let (early, late) = (w[(t + 1) % 16], w[(t + 14) % 16]);
    let s0 = sigma!(early, 7, 18, _mm512_srli_epi32 3);
    let s1 = sigma!(late, 17, 19, _mm512_srli_epi32 10);
    let sums = [_mm512_add_epi32(w[t % 16], s0), _mm512_add_epi32(w[(t + 9) % 16], s1)];
    _mm512_add_epi32(sums[0], sums[1])
}

/// Advances the states of the lanes in `mask` by their blocks; `states[i]` holds word i of every lane. Lanes outside of
/// `mask` do not change, whatever their blocks.
///
/// # Panics
/// If the lanes have different numbers of blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn compress(states: &mut [[u32; 16]; 8], lanes: &[&[[u8; 64]]; 16], mask: u16) {
    let count = lanes[0].len();
    assert!(lanes.iter().all(|lane| lane.len() == count), "lanes of one length");
    let mut state = [_mm512_setzero_si512(); 8];
    for i in 0..8 {
        // SAFETY: sixteen words are one vector; the load needs no alignment.
        state[i] = unsafe { _mm512_loadu_si512(states[i].as_ptr().cast()) };
    }
    for at in 0..count {
        let mut blocks = [&[0; 64]; 16];
        for i in 0..16 {
            blocks[i] = &lanes[i][at];
        }
        let mut w = words(blocks);
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        // Section 6.2.2, steps 2 and 3: 0xca selects bits of f or g by e, 0xe8 is the majority.
        for t in 0..64 {
            let s1 = sigma!(e, 6, 11, _mm512_ror_epi32 25);
            let chosen = _mm512_ternarylogic_epi32::<0xca>(e, f, g);
            let word = _mm512_add_epi32(w[t % 16], _mm512_set1_epi32(K[t] as i32));
            let sum = _mm512_add_epi32(_mm512_add_epi32(h, s1), _mm512_add_epi32(chosen, word));
            let s0 = sigma!(a, 2, 13, _mm512_ror_epi32 22);
            let majority = _mm512_ternarylogic_epi32::<0xe8>(a, b, c);
            (h, g, f, e) = (g, f, e, _mm512_add_epi32(d, sum));
            (d, c, b, a) = (c, b, a, _mm512_add_epi32(sum, _mm512_add_epi32(s0, majority)));
            if t < 48 {
                w[t % 16] = extended(&w, t);
            }
        }
        let after = [a, b, c, d, e, f, g, h];
        for i in 0..8 {
            state[i] = _mm512_mask_add_epi32(state[i], mask, state[i], after[i]);
        }
    }
    for i in 0..8 {
        // SAFETY: as above; the output is borrowed for writing.
        unsafe { _mm512_storeu_si512(states[i].as_mut_ptr().cast(), state[i]) };
    }
}

/// Section 4.2.2.
#[rustfmt::skip]
static K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];
