//! [`hash_many`]: hashes unrelated messages side by side; for trees, also unrelated chunk groups.
//!
//! Messages of up to [`BATCH_LEN`] bytes are split into chunks, and chunks of all messages with equal numbers of blocks
//! share the lanes. Then the parents of all messages are joined level by level, also side by side. A longer message
//! fills the lanes by itself. If there is a kernel for four runs of eight chunks, complete runs are not split.

use crate::backend::{Backend, Cv, EIGHT, Eight, Lane, MAX_LANES};
use crate::constants::{BLOCK_LEN, CHUNK_LEN, KEY_LEN, OUT_LEN, ROOT};
use crate::digest::Hash;
use crate::stock::Stock;
use crate::subtree::{BATCH_LEN, Mode, is_secret, root_hash_of, subtree_cv};
use crate::wipe::wipe;

/// Chunks that are assigned to lanes together.
const WINDOW: usize = 128;

/// Blocks of a full chunk.
const CHUNK_BLOCKS: usize = CHUNK_LEN / BLOCK_LEN;

/// Writes the hash of each of `inputs` to the same place of `out`.
///
/// Messages of any mix of lengths share the lanes; short ones gain most, up to six times.
///
/// ```
/// use xylem_hash::{Hash, hash, hash_many};
/// let packets: [&[u8]; 3] = [b"one", b"two", &[0; 5_000]];
/// let mut out = [Hash::from_bytes([0; 32]); 3];
/// hash_many(&packets, &mut out);
/// assert_eq!(out[2], hash(packets[2]));
/// ```
///
/// # Panics
/// If `out` has not exactly one place for each input.
#[inline]
pub fn hash_many(inputs: &[&[u8]], out: &mut [Hash]) {
    assert_eq!(inputs.len(), out.len(), "one place for each input");
    hash_many_with(Backend::detect(), Mode::PLAIN, inputs, out);
}

/// As [`hash_many`], keyed: [`keyed_hash`](crate::keyed_hash) of each input.
///
/// # Panics
/// If `out` has not exactly one place for each input.
#[inline]
pub fn keyed_hash_many(key: &[u8; KEY_LEN], inputs: &[&[u8]], out: &mut [Hash]) {
    assert_eq!(inputs.len(), out.len(), "one place for each input");
    hash_many_with(Backend::detect(), &Mode::keyed(key), inputs, out);
}

#[inline]
pub(crate) fn hash_many_with(backend: Backend, mode: &Mode, inputs: &[&[u8]], out: &mut [Hash]) {
    if let Some(first) = inputs.first() {
        let alike =
            |input: &[u8]| input.len().div_ceil(BLOCK_LEN) == first.len().div_ceil(BLOCK_LEN);
        if first.len() <= CHUNK_LEN && inputs.iter().all(|input| alike(input)) {
            return hash_alike(backend, mode, inputs, out);
        }
    }
    let mut window = Window::new(backend, mode, ROOT);
    let mut put = |place: usize, value| out[place] = Hash::from_bytes(value);
    for (place, input) in inputs.iter().enumerate() {
        if input.len() > BATCH_LEN {
            put(place, root_hash_of(backend, mode, input));
            continue;
        }
        if window.room() < MAX_LANES {
            window.finish(&mut put);
        }
        window.add(place, input, 0);
    }
    window.finish(&mut put);
}

/// Passes the place and the value of each of `groups` to `put`, in order. The groups are chunk groups, each with the
/// number of its first chunk in its message.
pub(crate) fn group_cvs_with<'a>(
    backend: Backend,
    mode: &Mode,
    groups: impl IntoIterator<Item = (u64, &'a [u8])>,
    put: &mut impl FnMut(usize, Cv),
) {
    let mut window = Window::new(backend, mode, 0);
    for (place, (first_chunk, group)) in groups.into_iter().enumerate() {
        if group.len() > BATCH_LEN {
            window.finish(put); // values come in order
            put(place, subtree_cv(backend, mode, group, first_chunk));
            continue;
        }
        if window.room() < MAX_LANES {
            window.finish(put);
        }
        window.add(place, group, first_chunk);
    }
    window.finish(put);
}

/// Hashes messages of at most one chunk with equal numbers of blocks: they need no sorting and have no parents.
#[inline]
fn hash_alike(backend: Backend, mode: &Mode, inputs: &[&[u8]], out: &mut [Hash]) {
    for (inputs, out) in inputs.chunks(MAX_LANES).zip(out.chunks_mut(MAX_LANES)) {
        let mut lanes = [Lane { bytes: &[], counter: 0, end: ROOT }; MAX_LANES];
        let mut values = [[0; OUT_LEN]; MAX_LANES];
        let count = inputs.len();
        for i in 0..count {
            lanes[i].bytes = inputs[i];
        }
        backend.chunks(mode, &lanes[..count], &mut values[..count]);
        for i in 0..count {
            out[i] = Hash::from_bytes(values[i]);
        }
    }
}

/// The current set of messages.
struct Window<'a> {
    backend: Backend,
    mode: &'a Mode,
    /// Flag of the messages' top nodes: [`ROOT`], or nothing if they are part of a larger tree.
    top: u32,
    lanes: Stock<Lane<'a>, WINDOW>,
    /// The place of each lane's value in the window's values.
    places: Stock<usize, WINDOW>,
    /// Runs of eight chunks, each with the place of its first chunk's value.
    eights: Stock<(Eight<'a>, usize), { WINDOW / EIGHT }>,
    /// Number of chunks in the window.
    chunks: usize,
    messages: Stock<Message, WINDOW>,
}

#[derive(Clone, Copy)]
struct Message {
    /// Index of its hash in the output.
    place: usize,
    /// Index of its first node in the window's values.
    first: usize,
    /// Number of contiguous nodes at the current level.
    nodes: usize,
}

impl<'a> Window<'a> {
    #[inline]
    fn new(backend: Backend, mode: &'a Mode, top: u32) -> Self {
        Self {
            backend,
            mode,
            top,
            lanes: Stock::new(),
            places: Stock::new(),
            eights: Stock::new(),
            chunks: 0,
            messages: Stock::new(),
        }
    }

    /// Number of chunks that still fit.
    #[inline]
    fn room(&self) -> usize {
        WINDOW - self.chunks
    }

    #[inline]
    fn push(&mut self, lane: Lane<'a>, place: usize) {
        self.lanes.push(lane);
        self.places.push(place);
    }

    /// Adds a message of at most [`BATCH_LEN`] bytes; the caller has checked the room.
    #[inline]
    fn add(&mut self, place: usize, input: &'a [u8], first_chunk: u64) {
        let first = self.chunks;
        if input.len() <= CHUNK_LEN {
            self.push(Lane { bytes: input, counter: first_chunk, end: self.top }, first);
            self.chunks += 1;
        } else {
            let mut rest = input;
            if self.backend.takes_eights() {
                let (chunks, _) = input.as_chunks();
                for chunks in chunks.as_chunks().0 {
                    let counter = first_chunk.wrapping_add((self.chunks - first) as u64);
                    self.eights.push((Eight { chunks, first: counter }, self.chunks));
                    self.chunks += EIGHT;
                    rest = &rest[EIGHT * CHUNK_LEN..];
                }
            }
            for bytes in rest.chunks(CHUNK_LEN) {
                let counter = first_chunk.wrapping_add((self.chunks - first) as u64);
                self.push(Lane { bytes, counter, end: 0 }, self.chunks);
                self.chunks += 1;
            }
        }
        self.messages.push(Message { place, first, nodes: self.chunks - first });
    }

    /// The number of chunks of each group, if it is the same power of two for all.
    #[inline]
    fn even(&self) -> Option<usize> {
        let messages = self.messages.as_slice();
        let nodes = messages.first()?.nodes;
        let even = self.top == 0
            && nodes.is_power_of_two()
            && messages.iter().all(|message| message.nodes == nodes);
        even.then_some(nodes)
    }

    /// Computes the values of runs of eight, four at a time. The remaining runs go to the lanes.
    #[inline]
    fn eight_values(&mut self, values: &mut [Cv; WINDOW]) {
        let mut eights = core::mem::replace(&mut self.eights, Stock::new());
        let (fours, rest) = eights.as_slice().as_chunks::<4>();
        for four in fours {
            let mut done = [[0; OUT_LEN]; 4 * EIGHT];
            self.backend.eights(
                self.mode,
                &[four[0].0, four[1].0, four[2].0, four[3].0],
                &mut done,
            );
            for (done, (_, place)) in done.chunks_exact(EIGHT).zip(four) {
                values[*place..*place + EIGHT].copy_from_slice(done);
            }
        }
        for (eight, place) in rest {
            for (i, bytes) in eight.chunks.iter().enumerate() {
                let counter = eight.first.wrapping_add(i as u64);
                self.push(Lane { bytes, counter, end: 0 }, place + i);
            }
        }
        eights.truncate(0);
    }

    /// Hashes the messages of the window and empties it.
    #[inline]
    fn finish(&mut self, put: &mut impl FnMut(usize, Cv)) {
        let mut values = [[0; OUT_LEN]; WINDOW];
        self.eight_values(&mut values);
        self.chunk_values(&mut values);
        if let Some(nodes) = self.even() {
            // Usually the messages are segments: whole rows of nodes, as in one tree.
            let mut count = self.chunks;
            for _ in 0..nodes.ilog2() {
                count = self.backend.join_neighbours(self.mode, &mut values[..count]);
            }
            for (message, value) in self.messages.as_slice().iter().zip(&values[..count]) {
                put(message.place, *value);
            }
        } else {
            while self.messages.as_slice().iter().any(|message| message.nodes > 1) {
                self.merge_level(&mut values);
            }
            for message in self.messages.as_slice() {
                put(message.place, values[message.first]);
            }
        }
        if is_secret(self.mode.flags()) {
            wipe(&mut values);
        }
        self.lanes.truncate(0);
        self.places.truncate(0);
        self.chunks = 0;
        self.messages.truncate(0);
    }

    /// Computes the values of all chunks in lanes, those with the most blocks first.
    #[inline]
    fn chunk_values(&self, values: &mut [Cv; WINDOW]) {
        let lanes = self.lanes.as_slice();
        let blocks = |lane: &Lane<'_>| lane.bytes.len().div_ceil(BLOCK_LEN);
        // A counting sort: the start of the chunks with each number of blocks.
        let mut starts = [0; CHUNK_BLOCKS + 2];
        for lane in lanes {
            starts[CHUNK_BLOCKS - blocks(lane) + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut order = [0; WINDOW];
        for (i, lane) in lanes.iter().enumerate() {
            let start = &mut starts[CHUNK_BLOCKS - blocks(lane)];
            order[*start] = i;
            *start += 1;
        }
        for indices in order[..lanes.len()].chunks(MAX_LANES) {
            let mut group = [lanes[indices[0]]; MAX_LANES];
            for (lane, i) in group.iter_mut().zip(indices) {
                *lane = lanes[*i];
            }
            let mut done = [[0; OUT_LEN]; MAX_LANES];
            let count = indices.len();
            self.backend.chunks(self.mode, &group[..count], &mut done[..count]);
            let places = self.places.as_slice();
            for (i, value) in indices.iter().zip(done) {
                values[places[*i]] = value;
            }
        }
    }

    /// Joins neighbours of every message by one level, up to its top node.
    #[inline]
    fn merge_level(&mut self, values: &mut [Cv; WINDOW]) {
        let mut inner = Joins::new(0);
        let mut tops = Joins::new(self.top);
        for message in self.messages.as_mut_slice() {
            let Message { first, nodes, .. } = *message;
            let top = nodes == 2 && self.top != 0;
            let joins = if top { &mut tops } else { &mut inner };
            // The overwritten values have been read by then: node i comes from nodes 2i and 2i + 1.
            for i in 0..nodes / 2 {
                let pair = [values[first + 2 * i], values[first + 2 * i + 1]];
                joins.add(self.backend, self.mode, pair, first + i, values);
            }
            if nodes % 2 == 1 {
                values[first + nodes / 2] = values[first + nodes - 1];
            }
            message.nodes = nodes.div_ceil(2);
        }
        inner.finish(self.backend, self.mode, values);
        tops.finish(self.backend, self.mode, values);
    }
}

/// Pairs that are collected until they fill the lanes.
struct Joins {
    pairs: Stock<[Cv; 2], MAX_LANES>,
    /// The place of each pair's value.
    places: Stock<usize, MAX_LANES>,
    end: u32,
}

impl Joins {
    #[inline]
    fn new(end: u32) -> Self {
        Self { pairs: Stock::new(), places: Stock::new(), end }
    }

    #[inline]
    fn add(
        &mut self,
        backend: Backend,
        mode: &Mode,
        pair: [Cv; 2],
        place: usize,
        values: &mut [Cv],
    ) {
        self.pairs.push(pair);
        self.places.push(place);
        if self.pairs.room() == 0 {
            self.finish(backend, mode, values);
        }
    }

    #[inline]
    fn finish(&mut self, backend: Backend, mode: &Mode, values: &mut [Cv]) {
        let mut done = [[0; OUT_LEN]; MAX_LANES];
        let pairs = self.pairs.as_slice();
        backend.parents(mode, pairs, self.end, &mut done[..pairs.len()]);
        for (place, value) in self.places.as_slice().iter().zip(done) {
            values[*place] = value;
        }
        self.pairs.truncate(0);
        self.places.truncate(0);
    }
}
