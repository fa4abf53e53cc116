//! `Hasher::update_rayon`: one message hashed by many threads.
//!
//! Where it is split: at multiples of [`PENDING`] chunks (128 KiB) of the message, wherever the
//! slice at hand begins. Each whole group of that size becomes one value; what lies before the
//! first boundary and after the last becomes the values of its chunks. Threads compute them in any
//! order, halving the range as long as it has a boundary inside; then they are handed to the
//! [`Subtree`] in order, as if it had computed them itself.
//!
//! Threads come from rayon's pool by its `join`; none is started here.

use crate::backend::{Backend, Cv, MAX_LANES};
use crate::constants::{CHUNK_LEN, OUT_LEN};
use crate::hasher::Hasher;
use crate::subtree::{BATCH_LEN, Mode, PENDING, Subtree, chunk_cvs, is_secret, subtree_cv};
use crate::wipe::wipe;

/// Inputs from this size on are split. Below, waking a second thread takes longer than it saves:
/// docs/hash-engine.md has the measurement.
const MIN_SPLIT: usize = 512 * 1024;

/// Groups between two rendezvous of the threads: 64 MiB, so that they seldom wait, with values
/// that fit on a thread's stack.
const WINDOW: usize = 512;

impl Hasher {
    /// As [`Hasher::update`], by all threads of rayon's current pool.
    ///
    /// Never slower than `update` for lack of size: an input that is too short to gain is given to
    /// `update`. Best for one large slice; many small messages gain more from
    /// [`hash_many`](crate::hash_many).
    pub fn update_rayon(&mut self, input: &[u8]) -> &mut Self {
        if input.len() < MIN_SPLIT || rayon_core::current_num_threads() < 2 {
            return self.update(input);
        }
        self.update_split(input)
    }

    /// `update` with at least a chunk, by all threads.
    pub(crate) fn update_split(&mut self, input: &[u8]) -> &mut Self {
        let (subtree, buffer) = self.parts_mut();
        // End the chunk at hand and take in what is buffered: more bytes follow.
        let open = buffer.len() % CHUNK_LEN;
        let (fill, rest) = input.split_at(if open == 0 { 0 } else { CHUNK_LEN - open });
        buffer.extend(fill);
        if rest.is_empty() {
            return self;
        }
        if !buffer.is_empty() {
            subtree.absorb_batch(buffer.as_slice());
            buffer.truncate(0);
        }
        let tail = absorb(subtree, rest);
        buffer.extend(tail);
        self
    }
}

/// Takes all chunks of `input` but the last, and returns that: 1 to [`CHUNK_LEN`] bytes.
fn absorb<'a>(subtree: &mut Subtree, input: &'a [u8]) -> &'a [u8] {
    let mut values = [[0; OUT_LEN]; WINDOW + 2 * PENDING];
    let mut rest = input;
    while rest.len() > CHUNK_LEN {
        let at = subtree.chunks();
        let most = WINDOW * PENDING - (at % PENDING as u64) as usize;
        let chunks = ((rest.len() - 1) / CHUNK_LEN).min(most);
        let (now, after) = rest.split_at(chunks * CHUNK_LEN);
        let [head, groups, tail] = shares(at, chunks);
        let values = &mut values[..head + groups + tail];
        let base = subtree.first_chunk();
        Part { backend: subtree.backend(), mode: subtree.mode(), base }.values(now, at, values);
        let (head, others) = values.split_at(head);
        let (groups, tail) = others.split_at(groups);
        subtree.push_chunks(head);
        for group in groups {
            subtree.push_group(*group);
        }
        subtree.push_chunks(tail);
        rest = after;
    }
    if is_secret(subtree.mode().flags()) {
        wipe(&mut values);
    }
    rest
}

/// How many values the `chunks` from number `at` on become: those of the chunks before the first
/// boundary, those of whole groups, those of the chunks after the last boundary.
fn shares(at: u64, chunks: usize) -> [usize; 3] {
    let past = (at % PENDING as u64) as usize;
    let head = if past == 0 { 0 } else { chunks.min(PENDING - past) };
    [head, (chunks - head) / PENDING, (chunks - head) % PENDING]
}

/// What all threads share.
#[derive(Clone, Copy)]
struct Part<'a> {
    backend: Backend,
    mode: &'a Mode,
    /// The message's chunk that is number 0 here.
    base: u64,
}

impl Part<'_> {
    /// The values of whole chunks from number `at` on, into exactly their [`shares`] of places.
    fn values(self, input: &[u8], at: u64, out: &mut [Cv]) {
        let chunks = input.len() / CHUNK_LEN;
        let group = PENDING as u64;
        // The boundary next to the middle: inside, if any is.
        let middle = (at + (chunks as u64 + group) / 2) / group * group;
        if middle <= at || middle >= at + chunks as u64 {
            return self.leaf(input, at, out);
        }
        let (left, right) = input.split_at((middle - at) as usize * CHUNK_LEN);
        let places: usize = shares(at, left.len() / CHUNK_LEN).iter().sum();
        let (left_out, right_out) = out.split_at_mut(places);
        rayon_core::join(
            || self.values(left, at, left_out),
            || self.values(right, middle, right_out),
        );
    }

    /// [`Self::values`] of at most one group.
    fn leaf(self, input: &[u8], at: u64, out: &mut [Cv]) {
        let first = self.base.wrapping_add(at);
        if let [group] = out {
            *group = subtree_cv(self.backend, self.mode, input, first);
            return;
        }
        for (i, batch) in input.chunks(BATCH_LEN).enumerate() {
            let done = i * MAX_LANES;
            let cvs = chunk_cvs(self.backend, self.mode, batch, first.wrapping_add(done as u64));
            let count = batch.len() / CHUNK_LEN;
            out[done..done + count].copy_from_slice(&cvs[..count]);
        }
    }
}
