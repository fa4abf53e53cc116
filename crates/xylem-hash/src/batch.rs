//! [`Batch`]: chunks or parents on their way through a kernel that takes several at once.
//!
//! A kernel knows only blocks: it takes every lane some blocks further. What is left to this
//! module is where lanes begin and end, for any mix of lengths; it is the same for every kernel.

use crate::backend::{Cv, Lane, MAX_LANES};
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_LEN, CHUNK_START, OUT_LEN, PARENT};
use crate::mode::Mode;

/// What a kernel works on. Each array has one entry per lane; a kernel of fewer lanes than
/// [`MAX_LANES`] uses the first ones.
///
/// A kernel takes each lane `blocks` (one or more) blocks further: all but the last lie in a row
/// at `at`, the last one at `last`, and each is compressed with `cvs` (replaced by the result), with
/// `counters` and with one of `rows`.
#[repr(C, align(64))]
pub(crate) struct Batch {
    pub cvs: [[u32; 8]; MAX_LANES],
    /// Lower and upper half of each lane's counter.
    pub counters: [[u32; MAX_LANES]; 2],
    /// Lengths and flags of the blocks: of the first, of those between, of the last. The first
    /// block, if it is also the last, goes by the last row.
    pub rows: [[[u32; MAX_LANES]; 2]; 3],
    pub at: [*const u8; MAX_LANES],
    pub last: [*const u8; MAX_LANES],
}

impl Batch {
    fn new(mode: &Mode, at: *const u8) -> Self {
        let flags = mode.flags();
        let row = |flags| [[BLOCK_LEN as u32; MAX_LANES], [flags; MAX_LANES]];
        Self {
            cvs: [*mode.key(); MAX_LANES],
            counters: [[0; MAX_LANES]; 2],
            rows: [row(flags | CHUNK_START), row(flags), row(flags)],
            at: [at; MAX_LANES],
            last: [at; MAX_LANES],
        }
    }

    /// Writes the values that lane `i` has reached to `out`.
    fn value(&self, i: usize, out: &mut Cv) {
        for (bytes, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(self.cvs[i]) {
            *bytes = word.to_le_bytes();
        }
    }
}

/// The function of a kernel: takes a batch so many blocks further.
pub(crate) type Run = unsafe fn(&mut Batch, usize);

/// The values of 1 to `width` chunks.
///
/// # Safety
/// This processor can execute `run`, which uses `width` lanes at most.
pub(crate) unsafe fn chunk_group(
    run: Run,
    width: usize,
    mode: &Mode,
    lanes: &[Lane<'_>],
    out: &mut [Cv],
) {
    let mut batch = Batch::new(mode, lanes[0].bytes.as_ptr());
    let mut even = true;
    for (i, lane) in lanes.iter().enumerate() {
        batch.counters[0][i] = lane.counter as u32;
        batch.counters[1][i] = (lane.counter >> 32) as u32;
        batch.at[i] = lane.bytes.as_ptr();
        batch.rows[2][1][i] |= CHUNK_END | lane.end;
        even &= lane.bytes.len() == CHUNK_LEN;
    }
    if even {
        for i in 0..width {
            batch.last[i] = batch.at[i].wrapping_add(CHUNK_LEN - BLOCK_LEN);
        }
        // SAFETY: the caller's promise; every lane has a chunk of its own, or that of lane 0.
        unsafe { run(&mut batch, CHUNK_LEN / BLOCK_LEN) };
        for (i, out) in out.iter_mut().enumerate() {
            batch.value(i, out);
        }
    } else {
        // SAFETY: the caller's promise.
        unsafe { ragged_chunks(run, batch, mode, lanes, out) };
    }
}

/// As [`chunk_group`], for chunks of any mix of lengths: one run up to every place where a chunk
/// ends. A lane that has ended, or never began, goes along with the longest one, and its result is
/// not looked at.
unsafe fn ragged_chunks(
    run: Run,
    mut batch: Batch,
    mode: &Mode,
    lanes: &[Lane<'_>],
    out: &mut [Cv],
) {
    let mut tails = [[0; BLOCK_LEN]; MAX_LANES];
    // Index of the last block of each lane.
    let mut ends = [0; MAX_LANES];
    let mut longest = 0;
    for (i, lane) in lanes.iter().enumerate() {
        ends[i] = lane.bytes.len().saturating_sub(1) / BLOCK_LEN;
        if ends[i] > ends[longest] {
            longest = i;
        }
        let tail = &lane.bytes[ends[i] * BLOCK_LEN..];
        tails[i][..tail.len()].copy_from_slice(tail);
    }
    let mut from = 0;
    while let Some(to) = ends[..lanes.len()].iter().filter(|end| **end >= from).min() {
        let to = *to;
        let start = if from == to && from == 0 { CHUNK_START } else { 0 };
        for i in 0..MAX_LANES {
            let live = i < lanes.len() && ends[i] >= from;
            let lane = &lanes[if live { i } else { longest }];
            batch.at[i] = lane.bytes.as_ptr().wrapping_add(from * BLOCK_LEN);
            let (mut len, mut flags) = (BLOCK_LEN, mode.flags() | start);
            if live && ends[i] == to {
                len = lane.bytes.len() - to * BLOCK_LEN;
                flags |= CHUNK_END | lane.end;
                batch.last[i] = tails[i].as_ptr();
            } else if ends[longest] == to {
                batch.last[i] = tails[longest].as_ptr();
            } else {
                batch.last[i] = lane.bytes.as_ptr().wrapping_add(to * BLOCK_LEN);
            }
            (batch.rows[2][0][i], batch.rows[2][1][i]) = (len as u32, flags);
        }
        if from > 0 {
            batch.rows[0] = batch.rows[1];
        }
        // SAFETY: the caller's promise; blocks `from` to `to - 1` are whole in every lane that is
        // live and in the longest, and so is block `to`, except where it is a lane's last one:
        // then the pointer is to its padded copy.
        unsafe { run(&mut batch, to - from + 1) };
        for (i, out) in out.iter_mut().enumerate() {
            if ends[i] == to {
                batch.value(i, out);
            }
        }
        from = to + 1;
    }
}

/// The values of 1 to `width` parents.
///
/// # Safety
/// This processor can execute `run`, which uses `width` lanes at most.
pub(crate) unsafe fn parent_group(
    run: Run,
    width: usize,
    mode: &Mode,
    pairs: &[[Cv; 2]],
    end: u32,
    out: &mut [Cv],
) {
    let mut batch = Batch::new(mode, pairs.as_ptr().cast());
    batch.rows[2][1] = [mode.flags() | PARENT | end; MAX_LANES];
    for (last, pair) in batch.last[..width].iter_mut().zip(pairs) {
        *last = pair.as_ptr().cast();
    }
    // SAFETY: the caller's promise; a pair is a whole block, and every lane has one.
    unsafe { run(&mut batch, 1) };
    for (i, out) in out.iter_mut().enumerate() {
        batch.value(i, out);
    }
}

const _: () = assert!(2 * OUT_LEN == BLOCK_LEN, "a pair of values fills a block");
