//! One compression in plain scalar code, for every processor.

use crate::constants::{BLOCK_LEN, IV, ROUNDS, SCHEDULE};

/// The compression function (the paper, section 2.2), all sixteen output words.
pub(crate) fn compress(
    cv: &[u32; 8],
    block: &[u8; BLOCK_LEN],
    len: u32,
    counter: u64,
    flags: u32,
) -> [u32; 16] {
    let mut m = [0u32; 16];
    for (word, bytes) in m.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut v = [0u32; 16];
    v[..8].copy_from_slice(cv);
    v[8..12].copy_from_slice(&IV[..4]);
    v[12..].copy_from_slice(&[counter as u32, (counter >> 32) as u32, len, flags]);
    for schedule in &SCHEDULE[..ROUNDS] {
        round(&mut v, &m, schedule);
    }
    for i in 0..8 {
        v[i] ^= v[i + 8];
        v[i + 8] ^= cv[i];
    }
    v
}

#[inline(always)]
fn round(v: &mut [u32; 16], m: &[u32; 16], s: &[u8; 16]) {
    let word = |i: usize| m[usize::from(s[i] & 15)];
    g(v, [0, 4, 8, 12], word(0), word(1));
    g(v, [1, 5, 9, 13], word(2), word(3));
    g(v, [2, 6, 10, 14], word(4), word(5));
    g(v, [3, 7, 11, 15], word(6), word(7));
    g(v, [0, 5, 10, 15], word(8), word(9));
    g(v, [1, 6, 11, 12], word(10), word(11));
    g(v, [2, 7, 8, 13], word(12), word(13));
    g(v, [3, 4, 9, 14], word(14), word(15));
}

#[inline(always)]
fn g(v: &mut [u32; 16], [a, b, c, d]: [usize; 4], x: u32, y: u32) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(12);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(8);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(7);
}
