//! Hashes one message in parts: a [`MessagePart`] on each machine that has some of its bytes, and a [`PartMerger`] where the parts
//! are merged.
//!
//! A BLAKE3 tree's nodes depend on their bytes and position alone (the paper, section 2.1). So a holder of the bytes
//! `A..B` of a message can compute the nodes over them without the rest, and a holder of the nodes over all of it can
//! compute the hash without the bytes. The parts travel as text, one line for each node, by `Display` and `FromStr` of
//! [`PartLine`]; the format is in docs/sum.md.
//!
//! Nothing here is proven: a part is trusted as its bytes would be.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::str::FromStr;

use xylem_hash::tree::{Kind, Tree, Value};
use xylem_hash::{CHUNK_LEN, Hash, OutputReader};

use crate::ids::NodeValue;

const CHUNK: u64 = CHUNK_LEN as u64;

/// Most lines of one hash: at most a hundred for each part of a message, usually fewer.
pub const MAX_LINES: usize = 1 << 22;

/// A tree of any mode: plain, keyed, or key-deriving.
pub trait AnyTree: Send + Sync {
    /// The node over an aligned part of the message, which is not all of it.
    fn node(&self, bytes: &[u8], first_chunk: u64) -> NodeValue;
    /// The node over two others; not the root.
    fn parent(&self, left: &NodeValue, right: &NodeValue) -> NodeValue;
    /// The output of a message, from the two children of its root.
    fn root(&self, left: &NodeValue, right: &NodeValue) -> OutputReader;
}

impl<K: Kind> AnyTree for Tree<K>
where
    Self: Send + Sync,
{
    fn node(&self, bytes: &[u8], first_chunk: u64) -> NodeValue {
        NodeValue(*self.chunk_group_cv(bytes, first_chunk).as_bytes())
    }

    fn parent(&self, left: &NodeValue, right: &NodeValue) -> NodeValue {
        let (left, right) = (Value::from_bytes(left.0), Value::from_bytes(right.0));
        NodeValue(*self.parent_cv(&left, &right).as_bytes())
    }

    fn root(&self, left: &NodeValue, right: &NodeValue) -> OutputReader {
        self.root_output(&Value::from_bytes(left.0), &Value::from_bytes(right.0))
    }
}

/// The value of a node that is not the root, and its range of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartNode {
    /// Offset of its first byte: a multiple of the subtree's size.
    pub start: u64,
    /// Length in bytes: a power of two of chunks of 1,024 bytes; possibly less at the message's end.
    pub len: u64,
    /// The chaining value.
    pub value: NodeValue,
}

/// Splits a byte range of a message into aligned subtrees, none of which is the root.
///
/// The message's beginning is special: a subtree over a whole message has another value than as a part of a longer
/// message, and the holder of a part may not know which it is. So a range that begins at 0 is split into at least two
/// subtrees. A message of one chunk cannot be split; its one piece is no part of it ([`PartLine::Root`]).
fn aligned_subtrees(bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = bytes.start;
    core::iter::from_fn(move || {
        let left = bytes.end.checked_sub(at).filter(|left| *left > 0)?;
        // The largest power of two of complete chunks, or the rest of one chunk.
        let whole = match left / CHUNK {
            0 => left,
            chunks => 1 << (CHUNK.trailing_zeros() + chunks.ilog2()),
        };
        let len = match at {
            0 if left > CHUNK && whole == left => whole / 2,
            0 => whole,
            _ => whole.min(1 << at.trailing_zeros()),
        };
        let piece = at..at + len;
        at = piece.end;
        Some(piece)
    })
}

/// The nodes over `bytes`, which begin at byte `start` of the message, in order.
///
/// # Errors
/// [`PartsError::Unaligned`] if `start` is not a multiple of a chunk's 1,024 bytes; [`PartsError::TooLong`].
pub fn subtrees(
    tree: &dyn AnyTree,
    start: u64,
    bytes: &[u8],
) -> Result<impl Iterator<Item = PartNode>, PartsError> {
    let end = start.checked_add(bytes.len() as u64).ok_or(PartsError::TooLong)?;
    if !start.is_multiple_of(CHUNK) {
        return Err(PartsError::Unaligned(start));
    }
    Ok(aligned_subtrees(start..end).map(move |piece| {
        let (first, len) = ((piece.start - start) as usize, piece.end - piece.start);
        let bytes = &bytes[first..first + len as usize];
        PartNode { start: piece.start, len, value: tree.node(bytes, piece.start / CHUNK) }
    }))
}

/// The nodes over consecutive bytes of one message, joined as they are added: never more than two for each level of the
/// tree.
#[derive(Clone, Debug, Default)]
pub struct MessagePart {
    nodes: Vec<PartNode>,
}

impl MessagePart {
    /// Adds the node that begins at the end of the last one.
    pub fn push(&mut self, tree: &dyn AnyTree, node: PartNode) {
        self.nodes.push(node);
        while let [.., left, right] = self.nodes[..] {
            let pair = left.len.saturating_mul(2);
            // A range that begins at 0 stays split in two: see `aligned`.
            if left.start == 0
                || left.len != right.len
                || left.start.checked_add(left.len) != Some(right.start)
                || !left.len.is_power_of_two()
                || left.len < CHUNK
                || !left.start.is_multiple_of(pair)
            {
                break;
            }
            self.nodes.truncate(self.nodes.len() - 2);
            let value = tree.parent(&left.value, &right.value);
            self.nodes.push(PartNode { start: left.start, len: pair, value });
        }
    }

    /// All nodes, in order.
    #[must_use]
    pub fn nodes(&self) -> &[PartNode] {
        &self.nodes
    }

    /// The output of the message of which these are all nodes.
    ///
    /// # Errors
    /// As [`PartMerger::output`], but [`PartsError::OneChunk`] for any message of one chunk.
    pub fn output(&self, tree: &dyn AnyTree) -> Result<OutputReader, PartsError> {
        output(tree, &self.nodes)
    }
}

/// The mode of the hash of a part. Keys and contexts are not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartMode {
    /// [`xylem_hash::hash`].
    Plain,
    /// [`xylem_hash::keyed_hash`].
    Keyed,
    /// [`xylem_hash::derive_key`].
    DeriveKey,
}

impl PartMode {
    const ALL: [Self; 3] = [Self::Plain, Self::Keyed, Self::DeriveKey];

    fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Keyed => "keyed",
            Self::DeriveKey => "derive-key",
        }
    }
}

/// One line of a part: `node MODE START LENGTH TOTAL VALUE`, or `root MODE 0 LENGTH TOTAL HASH` for a message of one
/// chunk, which has no node below its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLine {
    /// The hash mode.
    pub mode: PartMode,
    /// The message's length in bytes, if the maker of the part knew it; else the line has `-`.
    pub total: Option<u64>,
    /// The node or the hash.
    pub value: LineValue,
}

/// The value on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineValue {
    /// A node.
    Node(PartNode),
    /// The length (at most 1,024 bytes) and the hash of a whole message.
    Root(u64, Hash),
}

impl fmt::Display for PartLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, start, len, value) = match self.value {
            LineValue::Node(node) => ("node", node.start, node.len, Hash::from_bytes(node.value.0)),
            LineValue::Root(len, hash) => ("root", 0, len, hash),
        };
        write!(f, "{what} {} {start} {len} ", self.mode.word())?;
        match self.total {
            Some(total) => write!(f, "{total} {value}"),
            None => write!(f, "- {value}"),
        }
    }
}

impl FromStr for PartLine {
    type Err = PartsError;

    fn from_str(text: &str) -> Result<Self, PartsError> {
        let mut words = text.split(' ');
        let [what, mode, start, len, total, value] =
            core::array::from_fn(|_| words.next().unwrap_or(""));
        let number = |word: &str| {
            let digits = word.bytes().all(|b| b.is_ascii_digit());
            word.parse::<u64>().ok().filter(|_| digits).ok_or(PartsError::NoPart)
        };
        let mode = PartMode::ALL.into_iter().find(|known| known.word() == mode);
        let (Some(mode), None) = (mode, words.next()) else { return Err(PartsError::NoPart) };
        let (start, len) = (number(start)?, number(len)?);
        let total = if total == "-" { None } else { Some(number(total)?) };
        let value = Hash::from_hex(value).map_err(|_| PartsError::NoPart)?;
        let end = start.checked_add(len).ok_or(PartsError::TooLong)?;
        let value = match what {
            _ if total.is_some_and(|total| end > total) => return Err(PartsError::NoPart),
            "node" if !start.is_multiple_of(CHUNK) => return Err(PartsError::Unaligned(start)),
            "node" if len > 0 => {
                LineValue::Node(PartNode { start, len, value: NodeValue(*value.as_bytes()) })
            }
            "root" if start == 0 && len <= CHUNK => LineValue::Root(len, value),
            _ => return Err(PartsError::NoPart),
        };
        Ok(Self { mode, total, value })
    }
}

/// The lines of a part of a message of `total` bytes, if that is known.
///
/// `message` is the hash of the part's own bytes. It is used if they may be the whole message: if they begin at 0 and
/// are at most one chunk.
#[must_use]
pub fn lines(
    mode: PartMode,
    total: Option<u64>,
    part: &MessagePart,
    message: impl FnOnce() -> Hash,
) -> Vec<PartLine> {
    let mut values: Vec<_> = part.nodes.iter().copied().map(LineValue::Node).collect();
    match part.nodes[..] {
        [] => values.push(LineValue::Root(0, message())),
        [PartNode { start: 0, len, .. }] if len <= CHUNK => {
            values.push(LineValue::Root(len, message()));
        }
        _ => {}
    }
    values.into_iter().map(|value| PartLine { mode, total, value }).collect()
}

/// Why parts do not give a message's hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// The line is no line of a part.
    #[error("not a line of a part: expected a line that `xylem sum --part` prints")]
    NoPart,
    /// The bytes begin in the middle of a chunk.
    #[error("byte {0} is in the middle of a chunk; parts begin at multiples of 1024")]
    Unaligned(u64),
    /// The bytes end beyond 2^64.
    #[error("the part ends beyond 2^64 bytes")]
    TooLong,
    /// More than [`MAX_LINES`] lines.
    #[error("more than {MAX_LINES} lines of parts")]
    TooMany,
    /// Two parts have different modes.
    #[error("the parts are of different kinds of hash: {0} and {1}")]
    Kinds(&'static str, &'static str),
    /// The parts do not have the requested mode.
    #[error("the parts are of another kind of hash: {0}")]
    OtherKind(&'static str),
    /// Two parts have different values for the same bytes.
    #[error("two parts disagree about bytes {}..{}: hash them again", .0.start, .0.end)]
    Disagree(Range<u64>),
    /// Two parts give different lengths of the message.
    #[error("the parts are of messages of different lengths: {0} and {1} bytes")]
    Totals(u64, u64),
    /// No part has these bytes.
    #[error("no part covers bytes {}..{}", .0.start, .0.end)]
    Missing(Range<u64>),
    /// Two parts overlap and are split at different places.
    #[error("two parts share bytes from {0} on, and begin or end at different places")]
    Overlap(u64),
    /// More bytes follow a part that ends in the middle of a chunk.
    #[error("the part that ends at byte {0} ends in the middle of a chunk and is not the last")]
    EndsEarly(u64),
    /// A node does not cover a subtree of a message of this length.
    #[error("bytes {}..{} are not a subtree of this message", .0.start, .0.end)]
    NoSubtree(Range<u64>),
    /// A message of one chunk has no nodes from which to compute its output.
    #[error("a message of at most 1024 bytes is hashed as a whole")]
    OneChunk,
    /// There is no part.
    #[error("no parts: nothing to merge")]
    Nothing,
}

/// The result of all parts of a message.
#[derive(Debug)]
pub enum Merged {
    /// The output of a message of more than one chunk.
    Output(OutputReader),
    /// The hash of a message of one chunk, from which no longer output can be made.
    Hash(Hash),
}

/// Collects the parts of one message, in any order and with repetitions.
#[derive(Clone, Debug, Default)]
pub struct PartMerger {
    mode: Option<PartMode>,
    total: Option<u64>,
    nodes: Vec<PartNode>,
    root: Option<(u64, Hash)>,
}

impl PartMerger {
    /// Adds a line.
    ///
    /// # Errors
    /// [`PartsError::Kinds`], [`PartsError::Totals`], [`PartsError::TooMany`], or [`PartsError::Disagree`] for
    /// messages of one chunk. The line is then not added.
    pub fn add(&mut self, line: PartLine) -> Result<(), PartsError> {
        let mode = *self.mode.get_or_insert(line.mode);
        if mode != line.mode {
            return Err(PartsError::Kinds(mode.word(), line.mode.word()));
        }
        if let Some(total) = line.total {
            let before = *self.total.get_or_insert(total);
            if before != total {
                return Err(PartsError::Totals(before, total));
            }
        }
        match line.value {
            LineValue::Root(len, hash) => match self.root {
                Some(other) if other != (len, hash) => return Err(PartsError::Disagree(0..len)),
                _ => self.root = Some((len, hash)),
            },
            LineValue::Node(_) if self.nodes.len() >= MAX_LINES => {
                return Err(PartsError::TooMany);
            }
            LineValue::Node(node) => self.nodes.push(node),
        }
        Ok(())
    }

    /// Adds the lines of `text`.
    ///
    /// # Errors
    /// That of the first line that cannot be added, with its number from 1.
    pub fn add_text(&mut self, text: &str) -> Result<(), (usize, PartsError)> {
        for (i, line) in text.lines().enumerate() {
            let numbered = |error| (i + 1, error);
            self.add(line.parse().map_err(numbered)?).map_err(numbered)?;
        }
        Ok(())
    }

    /// Computes the message's output or hash under `tree`. The tree must be of mode `mode` and have the key with which
    /// the parts were made, if they have one; a wrong key cannot be detected.
    ///
    /// # Errors
    /// Bytes are missing or have two values, or the parts are not of one message. If no part gives the message's
    /// length, a missing end cannot be detected.
    pub fn output(mut self, tree: &dyn AnyTree, mode: PartMode) -> Result<Merged, PartsError> {
        match self.mode {
            None => return Err(PartsError::Nothing),
            Some(other) if other != mode => return Err(PartsError::OtherKind(other.word())),
            Some(_) => {}
        }
        self.nodes.sort_unstable_by_key(|node| (node.start, node.len));
        self.nodes.dedup();
        for pair in self.nodes.windows(2) {
            let [left, right] = pair else { continue };
            if (left.start, left.len) == (right.start, right.len) {
                return Err(PartsError::Disagree(left.start..left.start + left.len));
            }
        }
        let end = self.nodes.last().map(|node| node.start.saturating_add(node.len));
        let root = self.root.filter(|(len, _)| end.is_none_or(|end| end == *len));
        let end = end.or(root.map(|(len, _)| len)).unwrap_or(0);
        if let Some(total) = self.total.filter(|total| *total > end) {
            return Err(PartsError::Missing(end..total));
        }
        match root {
            Some((_, hash)) if self.nodes.len() < 2 => Ok(Merged::Hash(hash)),
            _ => output(tree, &self.nodes).map(Merged::Output),
        }
    }
}

/// The output of a message from its nodes, in order.
fn output(tree: &dyn AnyTree, nodes: &[PartNode]) -> Result<OutputReader, PartsError> {
    let mut end = 0;
    for (i, node) in nodes.iter().enumerate() {
        match node.start.cmp(&end) {
            core::cmp::Ordering::Less => return Err(PartsError::Overlap(node.start)),
            core::cmp::Ordering::Greater => return Err(PartsError::Missing(end..node.start)),
            core::cmp::Ordering::Equal => {}
        }
        end = node.start.checked_add(node.len).ok_or(PartsError::TooLong)?;
        if i + 1 < nodes.len() && !end.is_multiple_of(CHUNK) {
            return Err(PartsError::EndsEarly(end));
        }
    }
    let mut nodes = nodes.iter();
    match end {
        0 => Err(PartsError::Nothing),
        1..=CHUNK => Err(PartsError::OneChunk),
        _ => {
            let left = left_len(end);
            let [left, right] = [0..left, left..end].map(|side| fold(tree, side, &mut nodes));
            Ok(tree.root(&left?, &right?))
        }
    }
}

/// The node over `bytes`, from the next `nodes`, which must be contiguous. The recursion is as deep as the tree: at
/// most 54 calls.
fn fold<'a>(
    tree: &dyn AnyTree,
    bytes: Range<u64>,
    nodes: &mut (impl Iterator<Item = &'a PartNode> + Clone),
) -> Result<NodeValue, PartsError> {
    let len = bytes.end - bytes.start;
    let mut ahead = nodes.clone();
    let Some(next) = ahead.next() else { return Err(PartsError::Missing(bytes)) };
    if next.start == bytes.start && next.len == len {
        *nodes = ahead;
        return Ok(next.value);
    }
    if next.start != bytes.start || next.len > len || len <= CHUNK {
        return Err(PartsError::NoSubtree(next.start..next.start.saturating_add(next.len)));
    }
    let middle = bytes.start + left_len(len);
    let left = fold(tree, bytes.start..middle, nodes)?;
    let right = fold(tree, middle..bytes.end, nodes)?;
    Ok(tree.parent(&left, &right))
}

/// The bytes under the left half of a subtree of `len` bytes, more than one chunk: the largest power of two of chunks
/// that leaves a rest for the right (the paper, section 2.1).
fn left_len(len: u64) -> u64 {
    let chunks = len.div_ceil(CHUNK);
    CHUNK << (chunks.max(2) - 1).ilog2()
}
