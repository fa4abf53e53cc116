//! Plain scalar code, one block after the other, for every processor.

use crate::backend::{Cv, Kernels, Node, all_bytes, first_half, padded, split_last_block};
use crate::batch::Batch;
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_START, IV, SCHEDULE};
use crate::mode::Mode;

pub(crate) static KERNELS: Kernels = Kernels {
    name: "portable",
    is_supported: || true,
    compress,
    chunk_start,
    chunk,
    widths: &[(1, run)],
    whole: None,
    root_blocks: &[(1, root_blocks)],
};

fn compress(node: &Node) -> [u32; 16] {
    mix(&node.cv, &node.block, node.len, node.counter, node.flags)
}

/// The compression function (the paper, section 2.2), all sixteen output words.
fn mix(cv: &[u32; 8], block: &[u8; BLOCK_LEN], len: u32, counter: u64, flags: u32) -> [u32; 16] {
    let mut m = [0u32; 16];
    for i in 0..16 {
        m[i] = u32::from_le_bytes(block.as_chunks::<4>().0[i]);
    }
    let mut v = [0u32; 16];
    v[..8].copy_from_slice(cv);
    v[8..12].copy_from_slice(&IV[..4]);
    v[12..].copy_from_slice(&[counter as u32, (counter >> 32) as u32, len, flags]);
    for schedule in &SCHEDULE {
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

fn chunk_start(mode: &Mode, blocks: &[[u8; BLOCK_LEN]], counter: u64) -> [u32; 8] {
    let mut cv = *mode.key();
    let mut start = CHUNK_START;
    for block in blocks {
        let out = mix(&cv, block, BLOCK_LEN as u32, counter, mode.flags() | start);
        cv.copy_from_slice(&out[..8]);
        start = 0;
    }
    cv
}

fn chunk(mode: &Mode, bytes: &[u8], counter: u64, end: u32) -> Cv {
    let (blocks, tail) = split_last_block(bytes);
    let cv = chunk_start(mode, blocks, counter);
    let start = if blocks.is_empty() { CHUNK_START } else { 0 };
    let flags = mode.flags() | start | CHUNK_END | end;
    first_half(&mix(&cv, &padded(tail), tail.len() as u32, counter, flags))
}

/// # Safety
/// The first lane's pointers are to what the documentation of `Batch` says.
unsafe fn run(batch: &mut Batch<'_>, blocks: usize) {
    let counter = u64::from(batch.counters[1][0]) << 32 | u64::from(batch.counters[0][0]);
    let value = batch.cvs.as_mut_ptr().cast::<[u32; 8]>();
    let mut cv = match batch.key {
        Some(key) => *key,
        // SAFETY: the caller's promise: without a key, all lanes have a value.
        None => unsafe { value.read() },
    };
    for i in 0..blocks {
        let (mut at, mut len) = (batch.at[0].wrapping_add(i * BLOCK_LEN), BLOCK_LEN as u32);
        let mut flags = batch.flags[usize::from(i != 0)];
        if i + 1 == blocks {
            (at, len, flags) = (batch.last[0], batch.ends[0][0], batch.ends[1][0]);
        }
        // SAFETY: the caller's promise: there is a block at this place; bytes need no alignment.
        let block = unsafe { &*at.cast::<[u8; BLOCK_LEN]>() };
        let out = mix(&cv, block, len, counter, flags);
        cv.copy_from_slice(&out[..8]);
    }
    // SAFETY: the place of the first lane.
    unsafe { value.write(cv) };
}

/// # Safety
/// `out` is valid for a block.
unsafe fn root_blocks(node: &Node, out: *mut [u8; BLOCK_LEN]) {
    // SAFETY: the caller's promise.
    unsafe { out.write(all_bytes(&compress(node))) };
}
