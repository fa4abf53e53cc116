//! `Hasher::update_rayon`: hashes one message with many threads.
//!
//! The message is split at multiples of [`PENDING`] chunks (128 KiB) of the message, wherever the caller's slice
//! begins. Each whole group of that size becomes one value; the chunks before the first boundary and after the last
//! become one value each. The [`Subtree`] receives the values in order, as if it had computed them itself.
//!
//! The calling thread begins at once, and the threads of rayon's pool join as they wake up. All take units of work from
//! one queue until it is empty. Waking a thread can take longer than hashing 256 KiB; if the halves were assigned
//! beforehand (rayon's `join`), the caller would wait for it. Threads come from rayon's pool; none is started here.

use std::sync::{Mutex, PoisonError};

use crate::backend::{Backend, Cv};
use crate::constants::{CHUNK_LEN, OUT_LEN};
use crate::hasher::Hasher;
use crate::subtree::{BATCH_LEN, Mode, PENDING, Subtree, chunk_cvs, is_secret, subtree_cv};
use crate::wipe::wipe;

/// Inputs of at least this size are split. Below, waking a second thread may take longer than it saves: on two cores of
/// a virtual machine the gain was none at 384 KiB, 0.9 to 1.3 times at 768 KiB and 1 MiB, and 1.45 times and more from
/// 2 MiB on.
const MIN_SPLIT: usize = 1536 * 1024;

/// Inputs of at least this size are processed in units of whole groups; smaller ones in units of [`SMALL_UNIT`], so
/// that no thread waits long for the last one.
const LARGE: usize = 4 * 1024 * 1024;

/// Chunks in a unit of work; divides [`PENDING`].
const SMALL_UNIT: usize = 32;

/// Units that a thread takes at once while many are left. They are contiguous, so that a kernel usually prefetches for
/// its own thread. Few are left to wait for at the end.
const RUN: usize = 8;

/// Groups between two synchronizations of the threads: 64 MiB, so that threads seldom wait, and the values fit on a
/// thread's stack.
const WINDOW: usize = 512;

impl Hasher {
    /// As [`Hasher::update`], with the calling thread and all threads of rayon's current pool.
    ///
    /// Inputs too short to gain are passed to `update`. It is best for one large slice; many small messages gain more
    /// from [`hash_many`](crate::hash_many).
    pub fn update_rayon(&mut self, input: &[u8]) -> &mut Self {
        if input.len() < MIN_SPLIT || rayon_core::current_num_threads() < 2 {
            return self.update(input);
        }
        self.update_split(input)
    }

    /// `update` with at least a chunk, on all threads.
    pub(crate) fn update_split(&mut self, input: &[u8]) -> &mut Self {
        let (subtree, buffer) = self.parts_mut();
        // Completes the current chunk and absorbs the buffer: more bytes follow.
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

/// Absorbs all chunks of `input` but the last, which it returns: 1 to [`CHUNK_LEN`] bytes.
fn absorb<'a>(subtree: &mut Subtree, input: &'a [u8]) -> &'a [u8] {
    let mut values = [[0; OUT_LEN]; WINDOW * (PENDING / SMALL_UNIT)];
    let unit = if input.len() < LARGE { SMALL_UNIT } else { PENDING };
    let mut rest = input;
    while rest.len() > CHUNK_LEN {
        let at = subtree.chunks();
        let most = WINDOW * PENDING - (at % PENDING as u64) as usize;
        let chunks = ((rest.len() - 1) / CHUNK_LEN).min(most);
        let (now, after) = rest.split_at(chunks * CHUNK_LEN);
        let [head, groups, tail] = shares(at, chunks);
        let group_units = groups * (PENDING / unit);
        let values = &mut values[..head + group_units + tail];

        let base = subtree.first_chunk();
        let hands = Hands { backend: subtree.backend(), mode: subtree.mode(), base };
        hands.work_off(Queue { input: now, at, end: at + chunks as u64, start: at, unit, values });

        let (head, others) = values.split_at_mut(head);
        let (group_units, tail) = others.split_at_mut(group_units);
        subtree.push_chunks(head);
        for units in group_units.chunks_mut(PENDING / unit) {
            let mut count = units.len();
            while count > 1 {
                count = subtree.backend().join_neighbours(subtree.mode(), &mut units[..count]);
            }
            subtree.push_group(units[0]);
        }
        subtree.push_chunks(tail);
        rest = after;
    }
    if is_secret(subtree.mode().flags()) {
        wipe(&mut values);
    }
    rest
}

/// Splits the `chunks` from number `at` on. Returns the number of chunks before the first boundary, of whole groups,
/// and of chunks after the last boundary.
fn shares(at: u64, chunks: usize) -> [usize; 3] {
    let past = (at % PENDING as u64) as usize;
    let head = if past == 0 { 0 } else { chunks.min(PENDING - past) };
    [head, (chunks - head) / PENDING, (chunks - head) % PENDING]
}

/// Chunks that no thread has taken yet, and the places for their values.
struct Queue<'a> {
    /// Whole chunks.
    input: &'a [u8],
    /// Number of the first chunk, counted from the subtree's start.
    at: u64,
    /// The initial range of the queue: groups that are completely inside are whole.
    start: u64,
    end: u64,
    /// Number of chunks taken at a time.
    unit: usize,
    values: &'a mut [Cv],
}

/// Chunks with a place for each value, or with one place for all: then they are a subtree.
struct Unit<'a> {
    input: &'a [u8],
    at: u64,
    values: &'a mut [Cv],
}

impl<'a> Queue<'a> {
    fn units_left(&self) -> usize {
        self.input.len() / (self.unit * CHUNK_LEN)
    }

    fn take(&mut self) -> Option<Unit<'a>> {
        if self.input.is_empty() {
            return None;
        }
        let past = (self.at % PENDING as u64) as usize;
        let group = self.at - past as u64;
        let is_whole = group >= self.start && group + PENDING as u64 <= self.end;
        let chunks = self.unit.min(PENDING - past).min(self.input.len() / CHUNK_LEN);
        let (input, rest) = self.input.split_at(chunks * CHUNK_LEN);
        let places = if is_whole { 1 } else { chunks };
        let (values, others) = core::mem::take(&mut self.values).split_at_mut(places);
        let unit = Unit { input, at: self.at, values };
        (self.input, self.values) = (rest, others);
        self.at += chunks as u64;
        Some(unit)
    }
}

/// State that all threads share.
#[derive(Clone, Copy)]
struct Hands<'a> {
    backend: Backend,
    mode: &'a Mode,
    /// Number in the message of the queue's chunk 0.
    base: u64,
}

impl Hands<'_> {
    /// Empties the queue with this thread and others.
    fn work_off(self, queue: Queue<'_>) {
        // A thread that finds no work has been woken in vain, so each gets at least a quarter of the smallest split
        // input.
        let worth = queue.input.len() / (MIN_SPLIT / 4);
        let others = worth.min(rayon_core::current_num_threads()).saturating_sub(1);
        let queue = Mutex::new(queue);
        let drain = || {
            loop {
                let mut run = [const { None }; RUN];
                {
                    // A poisoned lock is fine: `take` leaves no half-done state.
                    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                    let most = queue.units_left() / (4 * (others + 1));
                    for place in &mut run[..most.clamp(1, RUN)] {
                        *place = queue.take();
                    }
                }
                if run[0].is_none() {
                    return;
                }
                for unit in run.into_iter().flatten() {
                    self.compute(unit);
                }
            }
        };
        rayon_core::in_place_scope(|scope| {
            for _ in 0..others {
                scope.spawn(|_| drain());
            }
            drain();
        });
    }

    fn compute(self, unit: Unit<'_>) {
        let first = self.base.wrapping_add(unit.at);
        if let [value] = unit.values {
            *value = subtree_cv(self.backend, self.mode, unit.input, first);
            return;
        }
        let mut done = 0;
        for batch in unit.input.chunks(BATCH_LEN) {
            let first = first.wrapping_add(done as u64);
            done += chunk_cvs(self.backend, self.mode, batch, first, &mut unit.values[done..]);
        }
    }
}
