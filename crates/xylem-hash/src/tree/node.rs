//! [`Tree`]: the mode of a tree with its key, and the functions on its nodes.

use core::fmt;
use core::marker::PhantomData;

use super::subtree::Subtree;
use super::value::{DeriveKey, Keyed, Kind, Plain, Value, as_cvs};
use crate::backend::{Backend, Cv, MAX_LANES};
use crate::constants::{CHUNK_LEN, KEY_LEN, OUT_LEN, ROOT};
use crate::digest::Hash;
use crate::many::group_cvs_with;
use crate::output::OutputReader;
use crate::stock::Stock;
use crate::subtree::{Mode, PENDING, assert_fits, chunk_cvs, parent_output, subtree_cv, top_value};

/// A plain, keyed or key-deriving tree without its nodes, which the caller keeps.
///
/// The key is wiped on drop.
#[derive(Clone)]
pub struct Tree<K: Kind = Plain> {
    backend: Backend,
    mode: Mode,
    kind: PhantomData<K>,
}

impl<K: Kind> fmt::Debug for Tree<K> {
    /// Shows no key.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").finish_non_exhaustive()
    }
}

impl Tree<Plain> {
    /// The tree of [`crate::hash`].
    #[inline]
    #[must_use]
    pub fn plain() -> Self {
        Self::with_backend(Backend::detect(), Mode::plain())
    }
}

impl Tree<Keyed> {
    /// The tree of [`crate::keyed_hash`] under a uniformly random `key`.
    #[inline]
    #[must_use]
    pub fn keyed(key: &[u8; KEY_LEN]) -> Self {
        Self::with_backend(Backend::detect(), Mode::keyed(key))
    }
}

impl Tree<DeriveKey> {
    /// The tree of [`crate::derive_key`], over the key material. See there about `context`.
    #[inline]
    #[must_use]
    pub fn derive_key(context: &str) -> Self {
        let backend = Backend::detect();
        Self::with_backend(backend, Mode::derive_key(backend, context))
    }
}

impl<K: Kind> Tree<K> {
    /// `mode` must be of kind `K`.
    #[inline]
    pub(crate) fn with_backend(backend: Backend, mode: Mode) -> Self {
        Self { backend, mode, kind: PhantomData }
    }

    /// The value of the chunk group `input` (1 byte or more). Its first chunk has number `first_chunk` in the message.
    ///
    /// # Panics
    /// If `input` is empty, or longer than the largest subtree that begins there: for `first_chunk` other than 0 as
    /// many chunks as its largest power-of-two factor.
    #[inline]
    #[must_use]
    pub fn chunk_group_cv(&self, input: &[u8], first_chunk: u64) -> Value<K> {
        assert_fits(first_chunk, input.len() as u64);
        Value::from_bytes(subtree_cv(self.backend, &self.mode, input, first_chunk))
    }

    /// Appends the value of each group of `group_len` bytes of `input` to `out`, for example a `Vec`, in order. The
    /// last group may be short. The first chunk of `input` has number `first_chunk` in the message.
    ///
    /// It is nearly as fast as one hash over all of `input`: the parents of many groups fill the lanes together.
    ///
    /// # Panics
    /// If `group_len` is not a power of two of at least [`CHUNK_LEN`], or `first_chunk` is not a multiple of the
    /// chunks in a group.
    #[inline]
    pub fn chunk_group_cvs(
        &self,
        input: &[u8],
        group_len: usize,
        first_chunk: u64,
        out: &mut impl Extend<Value<K>>,
    ) {
        assert!(group_len.is_power_of_two() && group_len >= CHUNK_LEN, "{group_len} bytes a group");
        let group_chunks = group_len / CHUNK_LEN;
        assert!(first_chunk.is_multiple_of(group_chunks as u64), "groups begin at their multiples");
        let mut chunk = first_chunk;
        // Batches of whole groups, with as many chunks as a hasher has pending values.
        let batch_len = PENDING * CHUNK_LEN;
        let mut rest = input;
        while group_len < batch_len && rest.len() >= group_len {
            let len = rest.len().min(batch_len) / group_len * group_len;
            let (batch, after) = rest.split_at(len);
            let (cvs, count) = group_batch(self.backend, &self.mode, batch, group_chunks, chunk);
            out.extend(cvs[..count].iter().copied().map(Value::from_bytes));
            (rest, chunk) = (after, chunk.wrapping_add((len / CHUNK_LEN) as u64));
        }
        for group in rest.chunks(group_len) {
            let cv = subtree_cv(self.backend, &self.mode, group, chunk);
            out.extend([Value::from_bytes(cv)]);
            chunk = chunk.wrapping_add(group_chunks as u64);
        }
    }

    /// Appends the value of each of `groups` to `out`, in order. Each is a chunk group of 1 byte or more, with the
    /// number of its first chunk.
    ///
    /// It is as fast as [`Self::chunk_group_cvs`] over neighbours: groups of any mix of lengths and places share the
    /// lanes.
    ///
    /// # Panics
    /// As [`Self::chunk_group_cv`], for any of them.
    pub fn scattered_group_cvs<'a>(
        &self,
        groups: impl IntoIterator<Item = (u64, &'a [u8])>,
        out: &mut impl Extend<Value<K>>,
    ) {
        let checked = groups
            .into_iter()
            .inspect(|(first_chunk, group)| assert_fits(*first_chunk, group.len() as u64));
        group_cvs_with(self.backend, &self.mode, checked, &mut |_, value| {
            out.extend([Value::from_bytes(value)]);
        });
    }

    /// A chunk group that takes its bytes in pieces. Its first chunk has number `first_chunk` in the message.
    #[inline]
    #[must_use]
    pub fn subtree(&self, first_chunk: u64) -> Subtree<K> {
        Subtree::new(self.backend, self.mode.clone(), first_chunk)
    }

    /// The value of the node over `left` and `right`; not the root.
    #[inline]
    #[must_use]
    pub fn parent_cv(&self, left: &Value<K>, right: &Value<K>) -> Value<K> {
        let pair = [*left.as_bytes(), *right.as_bytes()];
        Value::from_bytes(self.backend.parent(&self.mode, &pair, 0))
    }

    /// Appends the parents of `children`, taken in pairs, to `out`; an odd last child is appended unchanged (promoted).
    #[inline]
    pub fn parent_cvs(&self, children: &[Value<K>], out: &mut impl Extend<Value<K>>) {
        let (pairs, odd) = as_cvs(children).as_chunks::<2>();
        for batch in pairs.chunks(MAX_LANES) {
            let mut values = [[0; OUT_LEN]; MAX_LANES];
            let values = &mut values[..batch.len()];
            self.backend.parents(&self.mode, batch, 0, values);
            out.extend(values.iter().copied().map(Value::from_bytes));
        }
        out.extend(odd.iter().copied().map(Value::from_bytes));
    }

    /// The hash of a message, from the two children of its root. For a key-deriving tree it is the derived key.
    #[inline]
    #[must_use]
    pub fn root_hash(&self, left: &Value<K>, right: &Value<K>) -> Hash {
        let (left, right) = (left.as_bytes(), right.as_bytes());
        Hash::from_bytes(self.backend.parent(&self.mode, &[*left, *right], ROOT))
    }

    /// The extendable output of a message, from the two children of its root.
    #[inline]
    #[must_use]
    pub fn root_output(&self, left: &Value<K>, right: &Value<K>) -> OutputReader {
        let (left, right) = (left.as_bytes(), right.as_bytes());
        parent_output(self.backend, &self.mode, left, right, ROOT)
    }

    /// The hash of a message from all nodes of one level, in order. `None` for fewer than two, as the hash does not
    /// follow from a single group's value.
    #[inline]
    #[must_use]
    pub fn root_of(&self, nodes: &[Value<K>]) -> Option<Hash> {
        let nodes = as_cvs(nodes);
        if nodes.len() < 2 {
            return None;
        }
        Some(Hash::from_bytes(level_value(self.backend, &self.mode, nodes, ROOT)))
    }
}

/// The values of whole groups, at most [`PENDING`] chunks in all, and their number.
#[inline]
fn group_batch(
    backend: Backend,
    mode: &Mode,
    batch: &[u8],
    group_chunks: usize,
    first_chunk: u64,
) -> ([Cv; PENDING], usize) {
    let mut cvs = [[0; OUT_LEN]; PENDING];
    let mut count = chunk_cvs(backend, mode, batch, first_chunk, &mut cvs);
    for _ in 0..group_chunks.ilog2() {
        count = backend.join_neighbours(mode, &mut cvs[..count]);
    }
    (cvs, count)
}

/// Number of nodes on the root's left, of two or more nodes of a level: the largest power of two that leaves at least
/// one.
#[inline]
fn left_nodes(count: usize) -> usize {
    1 << (count - 1).ilog2()
}

/// The value of the node over all `nodes` (one or more) of a level, with each row of parents hashed side by side; `end`
/// is `ROOT` or nothing.
#[inline]
fn level_value(backend: Backend, mode: &Mode, nodes: &[Cv], end: u32) -> Cv {
    match nodes {
        [node] => return *node,
        [left, right] => return backend.parent(mode, &[*left, *right], end),
        _ => {}
    }
    if nodes.len() > 2 * PENDING {
        let (left, right) = nodes.split_at(left_nodes(nodes.len()));
        let pair = [left, right].map(|side| level_value(backend, mode, side, 0));
        return backend.parent(mode, &pair, end);
    }
    let (pairs, odd) = nodes.as_chunks::<2>();
    // The first row is computed directly from the nodes, into places that need no initialization.
    let mut row = Stock::<Cv, PENDING>::new();
    backend.parents(mode, pairs, 0, row.grow(pairs.len()));
    row.extend(odd);
    top_value(backend, mode, row.as_mut_slice(), end)
}
