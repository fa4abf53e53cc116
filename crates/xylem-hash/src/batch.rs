//! [`Batch`]: chunks or parents that go together through a kernel of several lanes.
//!
//! A kernel knows only blocks: it advances every lane by some blocks. This module knows where lanes begin and end, for
//! any mix of lengths; it is the same for every kernel.

use core::mem::MaybeUninit;

use crate::backend::{Cv, Lane, MAX_LANES};
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_LEN, CHUNK_START, PARENT};
use crate::mode::{Mode, is_secret};
use crate::wipe::wipe;

/// A value for each lane, initialized only for the lanes that the kernel has: for two lanes, clearing the other places
/// would take longer than writing theirs.
pub(crate) type PerLane<T> = [MaybeUninit<T>; MAX_LANES];

/// The values of the first `N` lanes.
///
/// # Safety
/// These must have been written.
#[cfg(any(target_arch = "aarch64", target_arch = "wasm32"))]
#[inline]
pub(crate) unsafe fn first<T, const N: usize>(all: &PerLane<T>) -> &[T; N] {
    const { assert!(N <= MAX_LANES) };
    // SAFETY: `all` has at least `N` places, and the caller guarantees that they are written.
    unsafe { &*all.as_ptr().cast() }
}

/// The input of a kernel.
///
/// A kernel advances each lane by `blocks` (one or more) blocks: all but the last are contiguous at `at`, the last one
/// is at `last`.
#[repr(C, align(64))]
pub(crate) struct Batch<'a> {
    /// Lower and upper half of each lane's counter.
    pub counters: [PerLane<u32>; 2],
    /// Length and flags of each lane's last block.
    pub ends: [PerLane<u32>; 2],
    pub at: PerLane<*const u8>,
    pub last: PerLane<*const u8>,
    /// The initial value of all lanes; `None` if they continue from `cvs`.
    pub key: Option<&'a [u32; 8]>,
    /// Flags of the first block, if it is not also the last, and of the blocks between. Both kinds are full blocks.
    pub flags: [u32; 2],
    /// The current value of each lane. Every run writes it after all reads, and reads it if there is no `key`. It
    /// points directly at the final output if that has room for all lanes: a copy would delay the next reader.
    pub cvs: *mut Cv,
}

impl<'a> Batch<'a> {
    /// A batch without lanes. It is made in place, as it is large.
    #[inline(always)]
    fn new(mode: &'a Mode, cvs: *mut Cv) -> Self {
        let flags = mode.flags();
        Self {
            counters: [const { [const { MaybeUninit::uninit() }; MAX_LANES] }; 2],
            ends: [const { [const { MaybeUninit::uninit() }; MAX_LANES] }; 2],
            at: [const { MaybeUninit::uninit() }; MAX_LANES],
            last: [const { MaybeUninit::uninit() }; MAX_LANES],
            key: Some(mode.key()),
            flags: [flags | CHUNK_START, flags],
            cvs,
        }
    }

    /// Lane `i` begins at `at`, and ends with the block at `last`.
    #[inline(always)]
    fn set(&mut self, i: usize, counter: u64, at: *const u8, last: *const u8, end: u32) {
        self.counters[0][i].write(counter as u32);
        self.counters[1][i].write((counter >> 32) as u32);
        self.at[i].write(at);
        self.last[i].write(last);
        self.ends[0][i].write(BLOCK_LEN as u32);
        self.ends[1][i].write(self.flags[1] | end);
    }
}

/// A kernel's function: advances a batch by that many blocks.
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
    if lanes.iter().any(|lane| lane.bytes.len() != CHUNK_LEN) {
        // SAFETY: guaranteed by the caller.
        return unsafe { ragged_chunks(run, width, mode, lanes, out) };
    }
    let lane = |i: usize| {
        let lane = &lanes[if i < lanes.len() { i } else { 0 }];
        (lane.bytes.as_ptr(), lane.counter, CHUNK_END | lane.end)
    };
    // SAFETY: guaranteed by the caller; every lane has a whole chunk, its own or that of lane 0.
    unsafe { even_chunks(run, width, mode, lane, out) };
}

/// As [`chunk_group`], for consecutive whole chunks.
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
    let lane = |i: usize| {
        let i = if i < chunks.len() { i } else { 0 };
        (chunks[i].as_ptr(), first.wrapping_add(i as u64), CHUNK_END)
    };
    // SAFETY: guaranteed by the caller; every lane has a whole chunk, its own or that of lane 0.
    unsafe { even_chunks(run, width, mode, lane, out) };
}

/// The values of whole chunks; `lane` gives the pointer, counter and flags of each.
///
/// # Safety
/// As [`chunk_group`]; `lane` must be right for the first `width` lanes.
#[inline(always)]
unsafe fn even_chunks(
    run: Run,
    width: usize,
    mode: &Mode,
    lane: impl Fn(usize) -> (*const u8, u64, u32),
    out: &mut [Cv],
) {
    let mut spare = MaybeUninit::<[Cv; MAX_LANES]>::uninit();
    let places = if out.len() == width { out.as_mut_ptr() } else { spare.as_mut_ptr().cast() };
    let mut batch = Batch::new(mode, places);
    for i in 0..width {
        let (at, counter, end) = lane(i);
        batch.set(i, counter, at, at.wrapping_add(CHUNK_LEN - BLOCK_LEN), end);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { run(&mut batch, CHUNK_LEN / BLOCK_LEN) };
    if out.len() < width {
        // SAFETY: the kernel has written at least as many.
        out.copy_from_slice(unsafe {
            core::slice::from_raw_parts(spare.as_ptr().cast(), out.len())
        });
    }
}

/// As [`chunk_group`], for chunks of any mix of lengths: one run up to every place where a chunk ends. A lane that has
/// ended, or never began, follows the longest one, and its result is ignored.
///
/// # Safety
/// As [`chunk_group`].
unsafe fn ragged_chunks(run: Run, width: usize, mode: &Mode, lanes: &[Lane<'_>], out: &mut [Cv]) {
    let mut values = MaybeUninit::<[Cv; MAX_LANES]>::uninit();
    let values: *mut Cv = values.as_mut_ptr().cast();
    let mut batch = Batch::new(mode, values);
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
            let at = lane.bytes.as_ptr().wrapping_add(from * BLOCK_LEN);
            let mut last = lane.bytes.as_ptr().wrapping_add(to * BLOCK_LEN);
            if ends[longest] == to {
                last = tails[longest].as_ptr().cast();
            }
            if live && ends[i] == to {
                last = tails[i].as_ptr().cast();
                batch.set(i, lane.counter, at, last, start | CHUNK_END | lane.end);
                batch.ends[0][i].write((lane.bytes.len() - to * BLOCK_LEN) as u32);
            } else {
                batch.set(i, lane.counter, at, last, start);
            }
        }
        // SAFETY: guaranteed by the caller. Blocks `from` to `to - 1` are whole in every live lane and in the longest
        // one. So is block `to`, unless it is a lane's last block: then the pointer is to its padded copy. From the
        // second run on `cvs` is written.
        unsafe { run(&mut batch, to - from + 1) };
        for i in 0..out.len() {
            if ends[i] == to {
                // SAFETY: the kernel has run, and has at least as many lanes.
                out[i] = unsafe { values.add(i).read() };
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

/// Writes the values of `count` parents to `out`; their children are contiguous at `pairs`. The two may overlap:
/// everything is read before anything is written.
///
/// # Safety
/// This processor can execute `run`, which uses `width` lanes, at least `count` (not 0); `pairs` is valid for twice as
/// many values, and `out` for writing as many.
pub(crate) unsafe fn parent_group(
    run: Run,
    width: usize,
    mode: &Mode,
    pairs: *const [Cv; 2],
    count: usize,
    end: u32,
    out: *mut Cv,
) {
    let mut spare = MaybeUninit::<[Cv; MAX_LANES]>::uninit();
    let mut batch = Batch::new(mode, if count == width { out } else { spare.as_mut_ptr().cast() });
    for i in 0..width {
        let at = pairs.wrapping_add(if i < count { i } else { 0 }).cast();
        batch.set(i, 0, at, at, PARENT | end);
    }
    // SAFETY: guaranteed by the caller; a pair is a whole block, and every lane has one.
    unsafe { run(&mut batch, 1) };
    if count < width {
        // SAFETY: the kernel has written at least as many; the output is valid.
        unsafe { out.copy_from_nonoverlapping(spare.as_ptr().cast(), count) };
    }
}
