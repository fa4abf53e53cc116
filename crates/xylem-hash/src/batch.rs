//! [`Batch`]: chunks or parents on their way through a kernel that takes several at once.
//!
//! A kernel knows only blocks: it takes every lane some blocks further. What is left to this
//! module is where lanes begin and end, for any mix of lengths; it is the same for every kernel.

use core::mem::MaybeUninit;

use crate::backend::{Cv, Lane, MAX_LANES, bytes_of};
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_LEN, CHUNK_START, PARENT};
use crate::mode::{Mode, is_secret};
use crate::wipe::wipe;

/// What a kernel works on. Each array has one entry per lane; a kernel of fewer lanes than
/// [`MAX_LANES`] uses the first ones.
///
/// A kernel takes each lane `blocks` (one or more) blocks further: all but the last lie in a row
/// at `at`, the last one at `last`.
#[repr(C, align(64))]
pub(crate) struct Batch<'a> {
    /// What each lane has reached; written by every run, read by it if there is no `key`.
    pub cvs: MaybeUninit<[[u32; 8]; MAX_LANES]>,
    /// Lower and upper half of each lane's counter.
    pub counters: [[u32; MAX_LANES]; 2],
    /// Length and flags of each lane's last block.
    pub ends: [[u32; MAX_LANES]; 2],
    pub at: [*const u8; MAX_LANES],
    pub last: [*const u8; MAX_LANES],
    /// Where all lanes begin; `None` if they go on where they are.
    pub key: Option<&'a [u32; 8]>,
    /// Flags of the first block, if it is not the last, and of those between. Both are full.
    pub flags: [u32; 2],
}

impl<'a> Batch<'a> {
    /// All lanes at this block. Made where it stays: it is large.
    #[inline(always)]
    fn new(mode: &'a Mode, end: u32, at: *const u8) -> Self {
        let flags = mode.flags();
        Self {
            cvs: MaybeUninit::uninit(),
            counters: [[0; MAX_LANES]; 2],
            ends: [[BLOCK_LEN as u32; MAX_LANES], [flags | end; MAX_LANES]],
            at: [at; MAX_LANES],
            last: [at; MAX_LANES],
            key: Some(mode.key()),
            flags: [flags | CHUNK_START, flags],
        }
    }

    /// The value that lane `i` has reached.
    ///
    /// # Safety
    /// A kernel of more than `i` lanes has run.
    unsafe fn value(&self, i: usize) -> Cv {
        // SAFETY: the caller's promise: it was written.
        bytes_of(unsafe { &*self.cvs.as_ptr().cast::<[u32; 8]>().add(i) })
    }
}

/// The function of a kernel: takes a batch so many blocks further.
pub(crate) type Run = unsafe fn(&mut Batch<'_>, usize);

/// The values of 1 to `width` chunks.
///
/// # Safety
/// This processor can execute `run`, which uses `width` lanes.
pub(crate) unsafe fn chunk_group(
    run: Run,
    width: usize,
    mode: &Mode,
    lanes: &[Lane<'_>],
    out: &mut [Cv],
) {
    let mut batch = Batch::new(mode, CHUNK_END, lanes[0].bytes.as_ptr());
    let mut even = true;
    for i in 0..lanes.len() {
        let lane = &lanes[i];
        batch.counters[0][i] = lane.counter as u32;
        batch.counters[1][i] = (lane.counter >> 32) as u32;
        batch.at[i] = lane.bytes.as_ptr();
        batch.ends[1][i] |= lane.end;
        even &= lane.bytes.len() == CHUNK_LEN;
    }
    if !even {
        // SAFETY: the caller's promise.
        return unsafe { ragged_chunks(run, width, &mut batch, mode, lanes, out) };
    }
    // SAFETY: the caller's promise; every lane has a whole chunk, its own or that of lane 0.
    unsafe { run_chunks(run, width, &mut batch, out) };
}

/// As [`chunk_group`], for whole chunks that follow each other.
///
/// # Safety
/// As [`chunk_group`].
pub(crate) unsafe fn whole_group(
    run: Run,
    width: usize,
    mode: &Mode,
    chunks: &[[u8; CHUNK_LEN]],
    first: u64,
    out: &mut [Cv],
) {
    let mut batch = Batch::new(mode, CHUNK_END, chunks.as_ptr().cast());
    for i in 0..chunks.len() {
        let counter = first.wrapping_add(i as u64);
        batch.counters[0][i] = counter as u32;
        batch.counters[1][i] = (counter >> 32) as u32;
        batch.at[i] = chunks[i].as_ptr();
    }
    // SAFETY: the caller's promise; every lane has a whole chunk, its own or that of lane 0.
    unsafe { run_chunks(run, width, &mut batch, out) };
}

/// # Safety
/// As [`chunk_group`]; `at` of the first `width` lanes points to whole chunks.
unsafe fn run_chunks(run: Run, width: usize, batch: &mut Batch<'_>, out: &mut [Cv]) {
    for i in 0..width {
        batch.last[i] = batch.at[i].wrapping_add(CHUNK_LEN - BLOCK_LEN);
    }
    // SAFETY: the caller's promise.
    unsafe { run(batch, CHUNK_LEN / BLOCK_LEN) };
    for i in 0..out.len() {
        // SAFETY: the kernel has run, and there are no more lanes than it has.
        out[i] = unsafe { batch.value(i) };
    }
}

/// As [`chunk_group`], for chunks of any mix of lengths: one run up to every place where a chunk
/// ends. A lane that has ended, or never began, goes along with the longest one, and its result is
/// not looked at.
///
/// # Safety
/// As [`chunk_group`].
unsafe fn ragged_chunks(
    run: Run,
    width: usize,
    batch: &mut Batch<'_>,
    mode: &Mode,
    lanes: &[Lane<'_>],
    out: &mut [Cv],
) {
    let mut tails = [const { MaybeUninit::<[u8; BLOCK_LEN]>::uninit() }; MAX_LANES];
    // Index of the last block of each lane.
    let mut ends = [0; MAX_LANES];
    let mut longest = 0;
    for i in 0..lanes.len() {
        let lane = &lanes[i];
        ends[i] = lane.bytes.len().saturating_sub(1) / BLOCK_LEN;
        if ends[i] > ends[longest] {
            longest = i;
        }
        let tail = &lane.bytes[ends[i] * BLOCK_LEN..];
        tails[i].write([0; BLOCK_LEN])[..tail.len()].copy_from_slice(tail);
    }
    let mut from = 0;
    while from <= ends[longest] {
        let mut to = ends[longest];
        for i in 0..lanes.len() {
            if ends[i] >= from && ends[i] < to {
                to = ends[i];
            }
        }
        let start = if to == 0 { CHUNK_START } else { 0 };
        for i in 0..width {
            let live = i < lanes.len() && ends[i] >= from;
            let lane = &lanes[if live { i } else { longest }];
            batch.at[i] = lane.bytes.as_ptr().wrapping_add(from * BLOCK_LEN);
            let (mut len, mut flags) = (BLOCK_LEN, mode.flags() | start);
            if live && ends[i] == to {
                len = lane.bytes.len() - to * BLOCK_LEN;
                flags |= CHUNK_END | lane.end;
                batch.last[i] = tails[i].as_ptr().cast();
            } else if ends[longest] == to {
                batch.last[i] = tails[longest].as_ptr().cast();
            } else {
                batch.last[i] = lane.bytes.as_ptr().wrapping_add(to * BLOCK_LEN);
            }
            (batch.ends[0][i], batch.ends[1][i]) = (len as u32, flags);
        }
        // SAFETY: the caller's promise; blocks `from` to `to - 1` are whole in every lane that is
        // live and in the longest, and so is block `to`, except where it is a lane's last one:
        // then the pointer is to its padded copy. From the second run on `cvs` is written.
        unsafe { run(batch, to - from + 1) };
        for i in 0..out.len() {
            if ends[i] == to {
                // SAFETY: the kernel has run, and there are no more lanes than it has.
                out[i] = unsafe { batch.value(i) };
            }
        }
        (batch.key, batch.flags[0]) = (None, batch.flags[1]);
        from = to + 1;
    }
    if is_secret(mode.flags()) {
        for tail in &mut tails[..lanes.len()] {
            // SAFETY: written above for every lane.
            wipe(unsafe { tail.assume_init_mut() });
        }
    }
}

/// Writes the values of `count` parents to `out`, whose children lie in a row at `pairs`. The two
/// may overlap: everything is read before anything is written.
///
/// # Safety
/// This processor can execute `run`, which uses at least `count` (not 0) lanes; `pairs` is valid
/// for twice as many values, and `out` for writing as many.
pub(crate) unsafe fn parent_group(
    run: Run,
    mode: &Mode,
    pairs: *const [Cv; 2],
    count: usize,
    end: u32,
    out: *mut Cv,
) {
    let mut batch = Batch::new(mode, PARENT | end, pairs.cast());
    for i in 0..count {
        batch.last[i] = pairs.wrapping_add(i).cast();
    }
    // SAFETY: the caller's promise; a pair is a whole block, and every lane has one.
    unsafe { run(&mut batch, 1) };
    for i in 0..count {
        // SAFETY: the kernel has run, and has that many lanes; the place is valid.
        unsafe { out.add(i).write(batch.value(i)) };
    }
}
