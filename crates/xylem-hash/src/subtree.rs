//! [`Subtree`]: reduces one message, or an aligned part of one, to a single value.
//!
//! The tree over n chunks is built level by level: neighbours are joined in pairs, and a last node without a neighbour
//! is promoted. For every n that gives BLAKE3's tree (the paper, section 2.1: the left side of a node holds the largest
//! power of two of chunks), and all parents of a level can be compressed side by side.

use crate::backend::{Backend, Cv, Lane, MAX_LANES, Node, joined, padded, split_last_block};
use crate::constants::{BLOCK_LEN, CHUNK_END, CHUNK_LEN, CHUNK_START, OUT_LEN, PARENT, ROOT};
use crate::kernels::One;
pub(crate) use crate::mode::{Mode, context_key, is_secret};
use crate::output::OutputReader;
use crate::stock::Stock;
use crate::wipe::wipe;

/// Bytes that fill all lanes with chunks.
pub(crate) const BATCH_LEN: usize = MAX_LANES * CHUNK_LEN;

/// Chunk values that are gathered before they are merged: of the seven merging rounds of 128 values, most fill all
/// lanes. It is a multiple of `MAX_LANES`, and part of the snapshot format.
pub(crate) const PENDING: usize = 128;

/// Levels above the pending ones in a tree of 2^64 bytes.
pub(crate) const STACK: usize = 64 - CHUNK_LEN.ilog2() as usize - PENDING.ilog2() as usize + 1;

/// The hash of a whole message. Short messages avoid the function for long ones, which needs stack for batches.
#[inline]
pub(crate) fn root_hash_of(backend: Backend, mode: &Mode, input: &[u8]) -> Cv {
    if input.len() <= CHUNK_LEN {
        backend.chunk(mode, input, 0, ROOT)
    } else {
        long_value(backend, mode, input, 0, ROOT)
    }
}

/// The value of a subtree that is not the whole message.
#[inline]
pub(crate) fn subtree_cv(backend: Backend, mode: &Mode, input: &[u8], first_chunk: u64) -> Cv {
    if input.len() <= CHUNK_LEN {
        backend.chunk(mode, input, first_chunk, 0)
    } else {
        long_value(backend, mode, input, first_chunk, 0)
    }
}

/// The value of more than one chunk; `end` is `ROOT` or nothing.
#[inline(never)]
fn long_value(backend: Backend, mode: &Mode, input: &[u8], first: u64, end: u32) -> Cv {
    if input.len() <= BATCH_LEN {
        let mut cvs = Stock::<Cv, MAX_LANES>::new();
        let cvs = cvs.grow(input.len().div_ceil(CHUNK_LEN));
        chunk_cvs(backend, mode, input, first, cvs);
        top_value(backend, mode, cvs, end)
    } else if input.len() <= PENDING * CHUNK_LEN {
        pending_value(backend, mode, input, first, end)
    } else {
        // The left side has the largest power of two of chunks (the paper, section 2.1).
        let left = 1 << ((input.len() - 1) / CHUNK_LEN).ilog2();
        let (before, after) = input.split_at(left * CHUNK_LEN);
        let mut pair = [
            long_value(backend, mode, before, first, 0),
            subtree_cv(backend, mode, after, first.wrapping_add(left as u64)),
        ];
        top_value(backend, mode, &mut pair, end)
    }
}

/// As [`long_value`], for at most [`PENDING`] chunks. A separate function, as the values take more stack than a
/// recursive function should.
#[inline(never)]
fn pending_value(backend: Backend, mode: &Mode, input: &[u8], first: u64, end: u32) -> Cv {
    let mut cvs = Stock::<Cv, PENDING>::new();
    let cvs = cvs.grow(input.len().div_ceil(CHUNK_LEN));
    chunk_cvs(backend, mode, input, first, cvs);
    top_value(backend, mode, cvs, end)
}

/// The value of the tree over two or more nodes of one level (which are overwritten).
pub(crate) fn top_value(backend: Backend, mode: &Mode, cvs: &mut [Cv], end: u32) -> Cv {
    join_to_two(backend, mode, cvs);
    let value = backend.parent(mode, &cvs.as_chunks().0[0], end);
    wipe_if_secret(mode, cvs);
    value
}

fn join_to_two(backend: Backend, mode: &Mode, cvs: &mut [Cv]) {
    let mut count = cvs.len();
    while count > 2 {
        count = backend.join_neighbours(mode, &mut cvs[..count]);
    }
}

#[inline]
fn wipe_if_secret(mode: &Mode, cvs: &mut [Cv]) {
    if is_secret(mode.flags()) {
        wipe(cvs.as_flattened_mut());
    }
}

/// Writes the values of all chunks of `input` to the front of `out`, computed side by side. Returns their number.
pub(crate) fn chunk_cvs(
    backend: Backend,
    mode: &Mode,
    input: &[u8],
    first: u64,
    out: &mut [Cv],
) -> usize {
    let (mut whole, rest) = input.as_chunks();
    if !rest.is_empty() {
        // Whole chunks that fill all lanes; the rest shares the lanes with the last, short one.
        whole = &whole[..whole.len() / MAX_LANES * MAX_LANES];
    }
    let done = whole.len();
    backend.whole_chunks(mode, whole, first, &mut out[..done]);
    if rest.is_empty() {
        return done;
    }
    let mut lanes = [Lane { bytes: &[], counter: 0, end: 0 }; MAX_LANES];
    let mut count = 0;
    let mut left = &input[done * CHUNK_LEN..];
    while !left.is_empty() {
        let (bytes, more) = left.split_at(left.len().min(CHUNK_LEN));
        lanes[count] = Lane { bytes, counter: first.wrapping_add((done + count) as u64), end: 0 };
        (left, count) = (more, count + 1);
    }
    backend.chunks(mode, &lanes[..count], &mut out[done..done + count]);
    done + count
}

/// Most bytes of a subtree that begins at chunk `first_chunk` (the paper, section 2.1: a subtree begins at a multiple
/// of its size); `None`, for no limit, at 0.
#[inline]
pub(crate) fn max_len(first_chunk: u64) -> Option<u64> {
    // From chunk 2^53 on it would be 2^63 bytes: more than a message can have there, so no limit.
    let chunks = 1u64.checked_shl(first_chunk.trailing_zeros())?;
    Some(chunks.saturating_mul(CHUNK_LEN as u64))
}

/// Asserts that `len` bytes from chunk `first_chunk` on are a subtree.
#[inline]
pub(crate) fn assert_fits(first_chunk: u64, len: u64) {
    assert!(len > 0, "a chunk group has at least one byte");
    assert!(
        max_len(first_chunk).is_none_or(|most| len <= most),
        "{len} bytes from chunk {first_chunk} on are no subtree"
    );
}

/// The node over `left` and `right`, not yet compressed; `top` is `ROOT` or nothing.
#[inline]
pub(crate) fn parent_output(
    backend: Backend,
    mode: &Mode,
    left: &Cv,
    right: &Cv,
    top: u32,
) -> OutputReader {
    let node = Node {
        counter: 0,
        cv: *mode.key(),
        block: joined(&[*left, *right]),
        end: One::end(BLOCK_LEN as u32, mode.flags() | PARENT | top),
    };
    OutputReader::new(backend, node)
}

#[inline]
fn chunk_output(
    backend: Backend,
    mode: &Mode,
    chunk: &[u8],
    counter: u64,
    top: u32,
) -> OutputReader {
    let (blocks, tail) = split_last_block(chunk);
    let start = if blocks.is_empty() { CHUNK_START } else { 0 };
    let node = Node {
        counter,
        cv: backend.chunk_start(mode, blocks, counter),
        block: padded(tail),
        end: One::end(tail.len() as u32, mode.flags() | start | CHUNK_END | top),
    };
    OutputReader::new(backend, node)
}

/// The uncompressed top of a subtree of at most [`BATCH_LEN`] bytes.
#[inline]
fn small_output(backend: Backend, mode: &Mode, input: &[u8], first: u64, top: u32) -> OutputReader {
    if input.len() <= CHUNK_LEN {
        return chunk_output(backend, mode, input, first, top);
    }
    let mut cvs = [[0; OUT_LEN]; MAX_LANES];
    let count = chunk_cvs(backend, mode, input, first, &mut cvs);
    top_output(backend, mode, &mut cvs[..count], top)
}

/// The uncompressed top of a subtree of two to [`PENDING`] chunks, from the values of its first chunks and the bytes of
/// the others, the first of which has index `first`.
#[inline(never)]
fn pending_output(
    backend: Backend,
    mode: &Mode,
    pending: &[Cv],
    tail: &[u8],
    next_chunk: u64,
    top: u32,
) -> OutputReader {
    let mut cvs = [[0; OUT_LEN]; PENDING];
    cvs[..pending.len()].copy_from_slice(pending);
    let count = chunk_cvs(backend, mode, tail, next_chunk, &mut cvs[pending.len()..]);
    top_output(backend, mode, &mut cvs[..pending.len() + count], top)
}

/// As [`top_value`], without the last compression.
#[inline]
fn top_output(backend: Backend, mode: &Mode, cvs: &mut [Cv], top: u32) -> OutputReader {
    join_to_two(backend, mode, cvs);
    let output = parent_output(backend, mode, &cvs[0], &cvs[1], top);
    wipe_if_secret(mode, cvs);
    output
}

/// The state between two pieces of a message: whole chunks are absorbed, the caller keeps the rest.
///
/// Call order: [`Self::absorb`] any number of times, then [`Self::finish`] with the rest. Everything absorbed is
/// followed by at least one more byte, so nothing in here is ever the root.
#[derive(Clone)]
pub(crate) struct Subtree {
    backend: Backend,
    mode: Mode,
    /// Chunks absorbed so far.
    chunks: u64,
    first_chunk: u64,
    /// Values of the last chunks absorbed; merged when full. Fewer than `PENDING` between calls.
    pending: Stock<Cv, PENDING>,
    /// Values of full subtrees of `PENDING << i` chunks before those, largest first: one for each set bit of the number
    /// of merged chunks.
    stack: Stock<Cv, STACK>,
}

impl Subtree {
    #[inline]
    pub(crate) fn new(backend: Backend, mode: Mode, first_chunk: u64) -> Self {
        Self { backend, mode, chunks: 0, first_chunk, pending: Stock::new(), stack: Stock::new() }
    }

    #[cfg(feature = "rayon")]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    #[inline]
    pub(crate) fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Bytes absorbed so far.
    #[inline]
    pub(crate) fn absorbed(&self) -> u64 {
        self.chunks.wrapping_mul(CHUNK_LEN as u64)
    }

    /// Chunks absorbed so far.
    #[cfg(feature = "rayon")]
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Index of the subtree's first chunk in its message.
    #[inline]
    pub(crate) fn first_chunk(&self) -> u64 {
        self.first_chunk
    }

    /// Values of full groups of [`PENDING`] chunks, joined as far as possible, and of the chunks after them.
    #[inline]
    pub(crate) fn values(&self) -> (&[Cv], &[Cv]) {
        (self.stack.as_slice(), self.pending.as_slice())
    }

    /// Makes this, which must be empty, the subtree that begins at `first_chunk`.
    #[inline]
    pub(crate) fn set_first_chunk(&mut self, first_chunk: u64) {
        self.first_chunk = first_chunk;
    }

    #[inline]
    pub(crate) fn reset(&mut self) {
        self.wipe_if_secret();
        self.chunks = 0;
        self.first_chunk = 0;
        self.pending.truncate(0);
        self.stack.truncate(0);
    }

    /// Absorbs whole batches from the front of `input` while more follows. Returns the rest: at most [`BATCH_LEN`]
    /// bytes, and at least one if `input` was not empty.
    #[inline]
    pub(crate) fn absorb<'a>(&mut self, mut input: &'a [u8]) -> &'a [u8] {
        while input.len() > BATCH_LEN {
            let batches = (input.len() - 1) / BATCH_LEN;
            let room = (self.pending.room() / MAX_LANES).max(1);
            let (now, rest) = input.split_at(batches.min(room) * BATCH_LEN);
            self.absorb_batch(now);
            input = rest;
        }
        input
    }

    /// Absorbs whole chunks, at least one, after which the message continues: as many as there is room for, or a batch.
    #[inline]
    pub(crate) fn absorb_batch(&mut self, batch: &[u8]) {
        let counter = self.first_chunk.wrapping_add(self.chunks);
        let count = batch.len() / CHUNK_LEN;
        if count <= self.pending.room() {
            let places = self.pending.grow(count);
            chunk_cvs(self.backend, &self.mode, batch, counter, places);
            self.chunks += count as u64;
            if self.pending.room() == 0 {
                self.merge_pending();
            }
        } else {
            let mut cvs = [[0; OUT_LEN]; MAX_LANES];
            chunk_cvs(self.backend, &self.mode, batch, counter, &mut cvs);
            self.push_chunks(&cvs[..count]);
        }
    }

    /// Adds the values of the next chunks, after which the message continues.
    #[inline]
    pub(crate) fn push_chunks(&mut self, mut cvs: &[Cv]) {
        while !cvs.is_empty() {
            let (now, rest) = cvs.split_at(cvs.len().min(self.pending.room()));
            self.pending.extend(now);
            self.chunks += now.len() as u64;
            if self.pending.room() == 0 {
                self.merge_pending();
            }
            cvs = rest;
        }
    }

    /// Merges the full pending list into one value.
    #[inline]
    fn merge_pending(&mut self) {
        let mut count = PENDING;
        while count > 1 {
            let cvs = &mut self.pending.as_mut_slice()[..count];
            count = self.backend.join_neighbours(&self.mode, cvs);
        }
        let cv = self.pending.as_slice()[0];
        self.pending.truncate(0);
        self.chunks -= PENDING as u64;
        self.push_group(cv);
    }

    /// Adds the value of the next [`PENDING`] chunks, while none is pending, and joins it with the equally large ones
    /// on the stack.
    #[inline]
    pub(crate) fn push_group(&mut self, mut cv: Cv) {
        self.chunks += PENDING as u64;
        let groups = self.chunks / PENDING as u64;
        for _ in 0..groups.trailing_zeros() {
            let left = self.stack.pop().expect("one entry for each bit set in the count before");
            cv = self.backend.parent(&self.mode, &[left, cv], 0);
        }
        self.stack.push(cv);
    }

    /// Restores the state after `chunks` chunks from its [`Self::values`].
    ///
    /// `groups` must have one value for each set bit of `chunks / PENDING`, and `pending` one for each chunk of the
    /// remainder.
    #[inline]
    pub(crate) fn resume(&mut self, chunks: u64, groups: &[Cv], pending: &[Cv]) {
        debug_assert_eq!(groups.len() as u32, (chunks / PENDING as u64).count_ones());
        debug_assert_eq!(pending.len() as u64, chunks % PENDING as u64);
        self.reset();
        self.chunks = chunks;
        self.stack.extend(groups);
        self.pending.extend(pending);
    }

    /// The top node, from the `tail` of the message: at most [`BATCH_LEN`] bytes, or a group of [`PENDING`] chunks if
    /// none is pending. It is not empty unless the message is; `top` is `ROOT` if the message is whole.
    #[inline]
    pub(crate) fn finish(&self, tail: &[u8], top: u32) -> OutputReader {
        if self.pending.len() + tail.len().div_ceil(CHUNK_LEN) > PENDING {
            return self.finish_over_full(tail, top);
        }
        let Some((first, others)) = self.stack.as_slice().split_first() else {
            return self.finish_pending(tail, top);
        };
        let mut value = self.finish_pending(tail, 0).value();
        for left in others.iter().rev() {
            value = self.backend.parent(&self.mode, &[*left, value], 0);
        }
        parent_output(self.backend, &self.mode, first, &value, top)
    }

    /// [`Self::finish`] without the merged groups.
    #[inline]
    fn finish_pending(&self, tail: &[u8], top: u32) -> OutputReader {
        let Self { backend, mode, .. } = self;
        let next = self.first_chunk.wrapping_add(self.chunks);
        let pending = self.pending.as_slice();
        if pending.is_empty() && tail.len() <= BATCH_LEN {
            small_output(*backend, mode, tail, next, top)
        } else {
            pending_output(*backend, mode, pending, tail, next, top)
        }
    }

    /// [`Self::finish`] with more chunks than there is room for: those that fit are absorbed first. It happens only
    /// after [`Self::resume`] or a part hashed by threads; otherwise batches divide the room.
    #[inline]
    #[cold]
    fn finish_over_full(&self, tail: &[u8], top: u32) -> OutputReader {
        let mut fuller = self.clone();
        let (now, rest) = tail.split_at(self.pending.room() * CHUNK_LEN);
        fuller.absorb_batch(now);
        fuller.finish(rest, top)
    }

    #[inline]
    fn wipe_if_secret(&mut self) {
        if !is_secret(self.mode.flags()) {
        } else if self.chunks < PENDING as u64 {
            wipe(self.pending.as_mut_slice());
        } else {
            // Merged values remain in memory past the lists' ends.
            self.pending.wipe();
            self.stack.wipe();
        }
    }

    /// Clears everything, including key and mode.
    #[cfg(feature = "zeroize")]
    #[inline]
    pub fn wipe(&mut self) {
        self.pending.wipe();
        self.stack.wipe();
        self.mode.wipe();
        (self.chunks, self.first_chunk) = (0, 0);
    }
}

impl Drop for Subtree {
    #[inline]
    fn drop(&mut self) {
        self.wipe_if_secret();
    }
}
