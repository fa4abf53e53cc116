//! Plain scalar code, one block after the other, for every processor.

use crate::backend::{
    Cv, Lane, MAX_LANES, Node, all_bytes, first_half, joined, padded, split_last_block,
};
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_START, IV, OUT_LEN, PARENT, ROUNDS, SCHEDULE};
use crate::subtree::Mode;

/// As [`crate::backend::Backend::compress`].
pub(crate) fn compress(node: &Node) -> [u32; 16] {
    mix(&node.cv, &node.block, node.len, node.counter, node.flags)
}

/// The compression function (the paper, section 2.2), all sixteen output words.
fn mix(cv: &[u32; 8], block: &[u8; BLOCK_LEN], len: u32, counter: u64, flags: u32) -> [u32; 16] {
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
fn round(v: &mut [u32; 16], m: &[u32; 16], s: &[u32; 16]) {
    let word = |i: usize| m[s[i] as usize & 15];
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

/// As [`crate::backend::Backend::chunk_start`].
pub(crate) fn chunk_start(mode: &Mode, blocks: &[[u8; BLOCK_LEN]], counter: u64) -> [u32; 8] {
    let mut cv = *mode.key();
    let mut start = CHUNK_START;
    for block in blocks {
        let out = mix(&cv, block, BLOCK_LEN as u32, counter, mode.flags() | start);
        cv.copy_from_slice(&out[..8]);
        start = 0;
    }
    cv
}

/// As [`crate::backend::Backend::chunks`].
pub(crate) fn chunks(mode: &Mode, lanes: &[Lane<'_>]) -> [Cv; MAX_LANES] {
    let mut out = [[0; OUT_LEN]; MAX_LANES];
    for (lane, out) in lanes.iter().zip(&mut out) {
        let (blocks, tail) = split_last_block(lane.bytes);
        let cv = chunk_start(mode, blocks, lane.counter);
        let start = if blocks.is_empty() { CHUNK_START } else { 0 };
        let flags = mode.flags() | start | CHUNK_END | lane.end;
        *out = first_half(&mix(&cv, &padded(tail), tail.len() as u32, lane.counter, flags));
    }
    out
}

/// As [`crate::backend::Backend::parents`].
pub(crate) fn parents(mode: &Mode, pairs: &[[Cv; 2]], end: u32) -> [Cv; MAX_LANES] {
    let flags = mode.flags() | PARENT | end;
    let mut out = [[0; OUT_LEN]; MAX_LANES];
    for (pair, out) in pairs.iter().zip(&mut out) {
        *out = first_half(&mix(mode.key(), &joined(pair), BLOCK_LEN as u32, 0, flags));
    }
    out
}

/// As [`crate::backend::Backend::root_blocks`].
pub(crate) fn root_blocks(node: &Node, count: usize) -> [[u8; BLOCK_LEN]; MAX_LANES] {
    let mut out = [[0; BLOCK_LEN]; MAX_LANES];
    for (i, out) in out.iter_mut().take(count).enumerate() {
        let counter = node.counter.wrapping_add(i as u64);
        *out = all_bytes(&mix(&node.cv, &node.block, node.len, counter, node.flags));
    }
    out
}
