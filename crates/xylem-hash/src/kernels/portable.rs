//! Plain scalar code for every processor, one block after the other.

use crate::backend::{Kernels, Node, first_half, words_of};
use crate::batch::Batch;
use crate::constants::{BLOCK_LEN, IV, SCHEDULE};
use crate::kernels::One;

pub(crate) static KERNELS: Kernels = Kernels {
    name: "portable",
    is_supported: || true,
    one,
    widths: &[(1, run)],
    whole: None,
    root_blocks: &[(1, root_blocks)],
};

/// The compression function (the paper, section 2.2) with all sixteen output words.
#[inline(never)]
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

/// # Safety
/// The pointers of `one` are as its documentation requires, and `out` is valid for writing.
unsafe fn one(one: &One, out: *mut [u8; BLOCK_LEN]) {
    // SAFETY: guaranteed by the caller.
    let mut cv = unsafe { *one.cv };
    for i in 0..one.blocks {
        let (mut at, mut end) = (one.at.wrapping_add(i * BLOCK_LEN), one.ends[usize::from(i != 0)]);
        if i + 1 == one.blocks {
            (at, end) = (one.last, one.ends[2]);
        }
        // SAFETY: guaranteed by the caller: there is a block at this pointer; bytes need no alignment.
        let block = unsafe { &*at.cast::<[u8; BLOCK_LEN]>() };
        let words = mix(&cv, block, end as u32, one.counter, (end >> 32) as u32);
        cv.copy_from_slice(&words[..8]);
        // SAFETY: guaranteed by the caller.
        unsafe { out.write(all_bytes(&words)) };
    }
}

/// # Safety
/// The first lane's pointers are as the documentation of `Batch` requires.
unsafe fn run(batch: &mut Batch<'_>, blocks: usize) {
    let full = BLOCK_LEN as u32;
    // SAFETY: guaranteed by the caller: the first lane's fields are written, and without a key its value too.
    let ([low, high], [len, flags], at, last, value) = unsafe {
        (
            batch.counters.map(|half| half[0].assume_init()),
            batch.ends.map(|end| end[0].assume_init()),
            batch.at[0].assume_init(),
            batch.last[0].assume_init(),
            if batch.key.is_none() { words_of(&batch.cvs.read()) } else { [0; 8] },
        )
    };
    let message = One {
        cv: match batch.key {
            Some(key) => key,
            None => &value,
        },
        at,
        last,
        blocks,
        counter: u64::from(high) << 32 | u64::from(low),
        ends: [
            One::end(full, batch.flags[0]),
            One::end(full, batch.flags[1]),
            One::end(len, flags),
        ],
    };
    let mut out = [0; BLOCK_LEN];
    // SAFETY: guaranteed by the caller, for the output too.
    unsafe {
        one(&message, &mut out);
        batch.cvs.write(first_half(&out));
    }
}

/// Words in their wire form.
fn all_bytes(words: &[u32; 16]) -> [u8; BLOCK_LEN] {
    let mut bytes = [0; BLOCK_LEN];
    for i in 0..16 {
        bytes.as_chunks_mut::<4>().0[i] = words[i].to_le_bytes();
    }
    bytes
}

/// # Safety
/// `out` is valid for a block.
unsafe fn root_blocks(node: &Node, out: *mut [u8; BLOCK_LEN]) {
    let words = mix(&node.cv, &node.block, node.end as u32, node.counter, node.flags());
    // SAFETY: guaranteed by the caller.
    unsafe { out.write(all_bytes(&words)) };
}
