//! [`Backend`]: selects the code that compresses, and knows how many blocks it takes at once.
//!
//! Everything above this module passes chunks or pairs of children, up to [`MAX_LANES`] at a time, and does not know
//! how they are compressed.

use core::fmt;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::batch::{Run, chunk_group, parent_group, whole_group};
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_LEN, CHUNK_START, OUT_LEN, PARENT};
use crate::kernels::{self, One};
use crate::mode::{Mode, is_secret};
use crate::wipe::wipe;

/// A chaining value in its wire form: eight little-endian words.
pub(crate) type Cv = [u8; OUT_LEN];

/// Most lanes in one call; a batch of this size fills every backend.
pub(crate) const MAX_LANES: usize = 16;

/// One chunk to hash: at most [`CHUNK_LEN`] bytes, and its index.
#[derive(Clone, Copy)]
pub(crate) struct Lane<'a> {
    pub bytes: &'a [u8],
    /// Index of the chunk in its message.
    pub counter: u64,
    /// Flags of the last block beyond `CHUNK_END`: `ROOT` or nothing.
    pub end: u32,
}

/// Number of chunks of an [`Eight`].
pub(crate) const EIGHT: usize = 8;

/// Eight whole chunks in a row.
#[derive(Clone, Copy)]
pub(crate) struct Eight<'a> {
    pub chunks: &'a [[u8; CHUNK_LEN]; EIGHT],
    /// Index of the first one in its message.
    pub first: u64,
}

/// The inputs of one compression (the paper, section 2.2).
///
/// The order of the fields, and `end` as one field, avoid stalls. A processor forwards to a load what one store has
/// just written, but not what two stores wrote: then the load waits until both have left the store queue, and
/// consecutive calls cannot overlap. Compilers merge two neighbouring loads into one.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Node {
    /// Index of the chunk, 0 for a parent; in extendable output the index of the block.
    pub counter: u64,
    /// Chaining value so far: that of a chunk's earlier blocks, or the key words.
    pub cv: [u32; 8],
    pub block: [u8; BLOCK_LEN],
    /// [`One::end`]: number of bytes of `block` that are not padding, and flags.
    pub end: u64,
}

impl Node {
    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        (self.end >> 32) as u32
    }
}

/// The code for one instruction set.
///
/// All functions are `unsafe` as the processor must have the instruction set. [`Run`] also reads what the pointers of
/// its batch point to.
pub(crate) struct Kernels {
    pub name: &'static str,
    pub is_supported: fn() -> bool,
    /// Advances one message by some blocks. The first half of the output gets its chaining value. If that was its last
    /// block, the whole output is the extendable output.
    pub one: unsafe fn(&One, *mut [u8; BLOCK_LEN]),
    /// Functions that advance this many lanes, or fewer, by some blocks; narrowest first.
    pub widths: &'static [(usize, Run)],
    /// Hashes four times eight whole chunks, if a wider kernel exists for these.
    pub whole: Option<Whole>,
    /// Functions that make this many blocks of extendable output; narrowest first.
    pub root_blocks: &'static [(usize, Output)],
}

/// Writes extendable output: compressions of a node that differ only in the counter, from its own on. The output must
/// be valid for as many blocks as the function makes.
pub(crate) type Output = unsafe fn(&Node, *mut [u8; BLOCK_LEN]);

/// Writes the values of whole chunks, in order. The output must be valid for as many values.
pub(crate) type Whole = unsafe fn(&Mode, &[Eight<'_>; 4], *mut Cv);

/// A backend that this processor can run. Values come only from [`Backend::detect`] and [`Backend::available`], which
/// check.
#[derive(Clone, Copy)]
pub(crate) struct Backend(&'static Kernels);

/// The backend in use; null before the first use.
static CHOSEN: AtomicPtr<Kernels> = AtomicPtr::new(ptr::null_mut());

impl Backend {
    /// The best backend of this processor, detected once.
    #[inline]
    pub(crate) fn detect() -> Self {
        // SAFETY: the stored pointer is null or comes from the `&'static Kernels` of an available backend; nothing is
        // ever written through it.
        match unsafe { CHOSEN.load(Ordering::Relaxed).as_ref() } {
            Some(kernels) => Self(kernels),
            None => Self::choose(),
        }
    }

    #[cold]
    fn choose() -> Self {
        let mut best = Self(&kernels::portable::KERNELS);
        // From the last, which is the worst, to the first.
        for kernels in kernels::ALL.iter().rev() {
            if (kernels.is_supported)() {
                best = Self(kernels);
            }
        }
        best.use_from_now_on();
        best
    }

    fn use_from_now_on(self) {
        CHOSEN.store(ptr::from_ref(self.0).cast_mut(), Ordering::Relaxed);
    }

    /// Makes `detect` return the named backend.
    #[inline]
    pub(crate) fn set(name: &str) -> bool {
        for kernels in kernels::ALL {
            if kernels.name == name && (kernels.is_supported)() {
                Self(kernels).use_from_now_on();
                return true;
            }
        }
        false
    }

    /// All backends of this processor, best first.
    #[cfg(test)]
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        kernels::ALL.iter().filter(|kernels| (kernels.is_supported)()).map(|kernels| Self(kernels))
    }

    #[inline]
    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// Advances one message by some blocks.
    ///
    /// # Safety
    /// The pointers of `one` must be as its documentation requires.
    #[inline]
    unsafe fn one(self, one: &One) -> [u8; BLOCK_LEN] {
        let mut out = MaybeUninit::uninit();
        // SAFETY: a `Backend` is made only of kernels that this processor supports; the caller guarantees the pointers;
        // every kernel writes the whole output.
        unsafe {
            (self.0.one)(one, out.as_mut_ptr());
            out.assume_init()
        }
    }

    /// The compression function with all sixteen output words.
    #[inline]
    pub(crate) fn compress(self, node: &Node) -> [u8; BLOCK_LEN] {
        let mut out = [0; BLOCK_LEN];
        self.compress_into(node, &mut out);
        out
    }

    /// [`Self::compress`] into a given output.
    #[inline]
    pub(crate) fn compress_into(self, node: &Node, out: &mut [u8; BLOCK_LEN]) {
        let (at, &Node { ref cv, counter, end, .. }) = (node.block.as_ptr(), node);
        let one = One { cv, at, last: at, blocks: 1, counter, ends: [end; 3] };
        // SAFETY: the kernel is of a supported backend; both pointers come from references; the block is the last one.
        unsafe { (self.0.one)(&one, out) }
    }

    /// The chaining value after whole `blocks` at the start of one chunk.
    #[inline]
    pub(crate) fn chunk_start(
        self,
        mode: &Mode,
        blocks: &[[u8; BLOCK_LEN]],
        counter: u64,
    ) -> [u32; 8] {
        let Some(last) = blocks.last() else { return *mode.key() };
        let end = |flags| One::end(BLOCK_LEN as u32, mode.flags() | flags);
        let start = if blocks.len() == 1 { CHUNK_START } else { 0 };
        let (cv, at, last) = (mode.key(), blocks.as_ptr().cast(), last.as_ptr());
        let ends = [end(CHUNK_START), end(0), end(start)];
        // SAFETY: all pointers come from references, and the blocks are contiguous.
        let out = unsafe { self.one(&One { cv, at, last, blocks: blocks.len(), counter, ends }) };
        words_of(&first_half(&out))
    }

    /// The value of one chunk from its bytes, its index, and flags of its last block beyond `CHUNK_END`.
    #[inline]
    pub(crate) fn chunk(self, mode: &Mode, bytes: &[u8], counter: u64, end: u32) -> Cv {
        debug_assert!(bytes.len() <= CHUNK_LEN);
        let (blocks, tail) = split_last_block(bytes);
        let (mut last, mut copy) = (tail.as_ptr(), MaybeUninit::<[u8; BLOCK_LEN]>::uninit());
        if tail.len() < BLOCK_LEN {
            let block = copy.write([0; BLOCK_LEN]);
            block[..tail.len()].copy_from_slice(tail);
            last = block.as_ptr();
        }
        let flags = mode.flags();
        let start = if blocks.is_empty() { CHUNK_START } else { 0 };
        let one = One {
            cv: mode.key(),
            at: bytes.as_ptr(),
            last,
            blocks: blocks.len() + 1,
            counter,
            ends: [
                One::end(BLOCK_LEN as u32, flags | CHUNK_START),
                One::end(BLOCK_LEN as u32, flags),
                One::end(tail.len() as u32, flags | start | CHUNK_END | end),
            ],
        };
        // SAFETY: the blocks are contiguous, and the last one is whole, itself or in the copy.
        let value = first_half(&unsafe { self.one(&one) });
        if is_secret(flags) && tail.len() < BLOCK_LEN {
            // SAFETY: written above for such a tail.
            wipe(unsafe { copy.assume_init_mut() });
        }
        value
    }

    /// The value of one parent from its two children, which are contiguous; `end` is `ROOT` or nothing.
    pub(crate) fn parent(self, mode: &Mode, pair: &[Cv; 2], end: u32) -> Cv {
        let (at, end) =
            (pair.as_ptr().cast(), One::end(BLOCK_LEN as u32, mode.flags() | PARENT | end));
        // SAFETY: both pointers come from references; a pair is a whole block, the last one.
        let out = unsafe {
            self.one(&One { cv: mode.key(), at, last: at, blocks: 1, counter: 0, ends: [end; 3] })
        };
        first_half(&out)
    }

    /// Writes the values of `lanes` to `out`, which has as many places.
    pub(crate) fn chunks(self, mode: &Mode, mut lanes: &[Lane<'_>], mut out: &mut [Cv]) {
        assert_eq!(lanes.len(), out.len());
        debug_assert!(lanes.iter().all(|lane| lane.bytes.len() <= CHUNK_LEN));
        while !lanes.is_empty() {
            let (width, run) = fitting(self.0.widths, lanes.len());
            let (now, later) = lanes.split_at(width.min(lanes.len()));
            let (values, places) = out.split_at_mut(now.len());
            if let [lane] = now {
                values[0] = self.chunk(mode, lane.bytes, lane.counter, lane.end);
            } else {
                // SAFETY: the kernel is of a supported backend and takes `width` lanes.
                unsafe { chunk_group(run, width, mode, now, values) };
            }
            (lanes, out) = (later, places);
        }
    }

    /// Writes the values of consecutive chunks, the first of which has index `first`, to `out`, which has as many
    /// places.
    pub(crate) fn whole_chunks(
        self,
        mode: &Mode,
        mut chunks: &[[u8; CHUNK_LEN]],
        mut first: u64,
        mut out: &mut [Cv],
    ) {
        assert_eq!(chunks.len(), out.len());
        if self.takes_eights() {
            while chunks.len() >= 4 * EIGHT {
                let (now, later) = chunks.split_at(4 * EIGHT);
                let (values, places) = out.split_at_mut(4 * EIGHT);
                let (now, _) = now.as_chunks();
                let eight = |i: usize| Eight {
                    chunks: &now[i],
                    first: first.wrapping_add((EIGHT * i) as u64),
                };
                self.eights(mode, &[eight(0), eight(1), eight(2), eight(3)], values);
                first = first.wrapping_add(4 * EIGHT as u64);
                (chunks, out) = (later, places);
            }
        }
        while !chunks.is_empty() {
            let (width, run) = fitting(self.0.widths, chunks.len());
            let (now, later) = chunks.split_at(width.min(chunks.len()));
            let (values, places) = out.split_at_mut(now.len());
            if let [bytes] = now {
                values[0] = self.chunk(mode, bytes, first, 0);
            } else {
                // SAFETY: the kernel is of a supported backend and takes `width` lanes.
                unsafe { whole_group(run, width, mode, now, first, values) };
            }
            first = first.wrapping_add(now.len() as u64);
            (chunks, out) = (later, places);
        }
    }

    /// Returns whether [`Self::eights`] is available.
    #[inline]
    pub(crate) fn takes_eights(self) -> bool {
        self.0.whole.is_some()
    }

    /// Writes the values of 32 chunks to `out`. Only for a backend that [takes eights](Self::takes_eights).
    #[inline]
    pub(crate) fn eights(self, mode: &Mode, eights: &[Eight<'_>; 4], out: &mut [Cv]) {
        assert_eq!(out.len(), 4 * EIGHT);
        let whole = self.0.whole.expect("the caller has asked");
        // SAFETY: the kernel is of a supported backend; `out` has as many places as there are chunks.
        unsafe { whole(mode, eights, out.as_mut_ptr()) };
    }

    /// Writes the values of parents, each given as its two children in a row, to `out`, which has as many places; `end`
    /// is `ROOT` or nothing.
    #[inline]
    pub(crate) fn parents(self, mode: &Mode, pairs: &[[Cv; 2]], end: u32, out: &mut [Cv]) {
        assert_eq!(pairs.len(), out.len());
        // SAFETY: `out` has as many places as there are pairs.
        unsafe { self.parents_at(mode, pairs.as_ptr(), pairs.len(), end, out.as_mut_ptr()) };
    }

    /// Joins neighbours in place, at the front. A last one without a neighbour is promoted unchanged. Returns the
    /// number of nodes left.
    pub(crate) fn join_neighbours(self, mode: &Mode, cvs: &mut [Cv]) -> usize {
        let pairs = cvs.len() / 2;
        let at = cvs.as_mut_ptr();
        // SAFETY: both are inside `cvs`. Parent i is written over child i after all children up to 2 i + 1 have been
        // read.
        unsafe { self.parents_at(mode, at.cast_const().cast(), pairs, 0, at) };
        if cvs.len() % 2 == 1 {
            cvs[pairs] = cvs[cvs.len() - 1];
        }
        cvs.len().div_ceil(2)
    }

    /// # Safety
    /// `pairs` is valid for `count` pairs and `out` for writing as many values. They may overlap
    /// if `out` does not begin after `pairs`.
    unsafe fn parents_at(
        self,
        mode: &Mode,
        pairs: *const [Cv; 2],
        count: usize,
        end: u32,
        out: *mut Cv,
    ) {
        let mut done = 0;
        while done < count {
            let (width, run) = fitting(self.0.widths, count - done);
            let now = width.min(count - done);
            // SAFETY: guaranteed by the caller; the kernel is of a supported backend and takes as many lanes. Values
            // from `done` on end before the pairs that are still to be read.
            unsafe {
                let (pairs, out) = (pairs.add(done), out.add(done));
                if now == 1 {
                    out.write(self.parent(mode, &pairs.read(), end));
                } else {
                    parent_group(run, width, mode, pairs, now, end, out);
                }
            }
            done += now;
        }
    }

    /// Writes extendable output: compressions of `node` that differ only in the counter, from its own on. Advances the
    /// counter by as many.
    pub(crate) fn root_blocks(self, node: &mut Node, mut out: &mut [[u8; BLOCK_LEN]]) {
        while !out.is_empty() {
            let (lanes, run) = fitting(self.0.root_blocks, out.len());
            let (now, later) = out.split_at_mut(lanes.min(out.len()));
            if let [block] = now {
                self.compress_into(node, block);
            } else if now.len() == lanes {
                // SAFETY: the kernel is of a supported backend; the output has as many places.
                unsafe { run(node, now.as_mut_ptr()) };
            } else {
                let mut blocks = [[0; BLOCK_LEN]; 2 * MAX_LANES];
                debug_assert!(lanes <= blocks.len());
                // SAFETY: the kernel is of a supported backend; the output has as many places.
                unsafe { run(node, blocks.as_mut_ptr()) };
                now.copy_from_slice(&blocks[..now.len()]);
            }
            node.counter = node.counter.wrapping_add(now.len() as u64);
            out = later;
        }
    }
}

impl PartialEq for Backend {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl fmt::Debug for Backend {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The narrowest kernel for that many lanes, or the widest one.
fn fitting<F: Copy>(widths: &[(usize, F)], lanes: usize) -> (usize, F) {
    let mut i = 0;
    while i + 1 < widths.len() && widths[i].0 < lanes {
        i += 1;
    }
    widths[i]
}

/// The words of a value in wire form.
#[inline]
pub(crate) fn words_of(bytes: &Cv) -> [u32; 8] {
    let mut words = [0; 8];
    for i in 0..8 {
        words[i] = u32::from_le_bytes(bytes.as_chunks().0[i]);
    }
    words
}

/// The chaining value in a compression's output.
#[inline]
pub(crate) fn first_half(out: &[u8; BLOCK_LEN]) -> Cv {
    let mut value = [0; OUT_LEN];
    value.copy_from_slice(&out[..OUT_LEN]);
    value
}

/// Splits a chunk into whole blocks and the last one (1 to 64 bytes; 0 only for an empty chunk).
pub(crate) fn split_last_block(chunk: &[u8]) -> (&[[u8; BLOCK_LEN]], &[u8]) {
    let at = chunk.len().saturating_sub(1) / BLOCK_LEN * BLOCK_LEN;
    let (blocks, tail) = chunk.split_at(at);
    (blocks.as_chunks().0, tail)
}

/// A block of at most 64 bytes, padded with zeros.
pub(crate) fn padded(tail: &[u8]) -> [u8; BLOCK_LEN] {
    let mut block = [0; BLOCK_LEN];
    block[..tail.len()].copy_from_slice(tail);
    block
}

/// A parent's block: its children's values in order.
pub(crate) fn joined(pair: &[Cv; 2]) -> [u8; BLOCK_LEN] {
    let mut block = [0; BLOCK_LEN];
    block.copy_from_slice(pair.as_flattened());
    block
}
