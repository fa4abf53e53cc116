//! One message hashed in parts: [`Part`] on each machine that has some of its bytes, [`Whole`]
//! where they come together.
//!
//! A BLAKE3 tree's nodes depend on their bytes and their place alone (the paper, section 2.1). So
//! whoever has the bytes `A..B` of a message can work out the nodes over them without the rest,
//! and whoever has the nodes over all of it can work out the hash without the bytes. What travels
//! between the two is a line of text for each node, `Display` and `FromStr` of [`Line`]; the format
//! is in docs/sum.md.
//!
//! Nothing here is proven: a part is believed as the bytes would be if they came from there.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::str::FromStr;

use xylem_hash::tree::{Kind, Tree, Value};
use xylem_hash::{CHUNK_LEN, Hash, OutputReader};

use crate::ids::NodeValue;

const CHUNK: u64 = CHUNK_LEN as u64;

/// Lines that one hash is made of, at most: a hundred for each part of a message, mostly fewer.
pub const MAX_LINES: usize = 1 << 22;

/// A tree of any kind: plain, keyed, or key-deriving.
pub trait AnyTree: Send + Sync {
    /// The node over an aligned part of the message, and not all of it.
    fn node(&self, bytes: &[u8], first_chunk: u64) -> NodeValue;
    /// The node over two, and not the root.
    fn parent(&self, left: &NodeValue, right: &NodeValue) -> NodeValue;
    /// The output of the message that has these two under its root.
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

/// The value of a node that is not the root, and the bytes of the message under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// First byte: a multiple of the subtree's size.
    pub start: u64,
    /// How many bytes: chunks of 1,024 bytes whose number is a power of two; at the message's end
    /// maybe less.
    pub len: u64,
    /// The chaining value.
    pub value: NodeValue,
}

/// Cuts bytes at a place of a message into aligned subtrees, none of which is the root.
///
/// At the message's beginning that takes care: a subtree over all of a message has another value
/// than as a part of a longer one, and who has a part may not know. So what begins at 0 is cut in
/// two; a message of one chunk can't be, and its one piece is no part of it ([`Line::Root`]).
fn aligned(bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = bytes.start;
    core::iter::from_fn(move || {
        let left = bytes.end.checked_sub(at).filter(|left| *left > 0)?;
        // The largest power of two of chunks that are there in whole, or what is there of one chunk.
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

/// The nodes over `bytes`, which stand in the message from byte `start` on, in order.
///
/// # Errors
/// [`PartsError::Unaligned`] if `start` is no multiple of a chunk's 1,024 bytes.
pub fn subtrees(
    tree: &dyn AnyTree,
    start: u64,
    bytes: &[u8],
) -> Result<impl Iterator<Item = Subtree>, PartsError> {
    let end = start.checked_add(bytes.len() as u64).ok_or(PartsError::TooLong)?;
    if !start.is_multiple_of(CHUNK) {
        return Err(PartsError::Unaligned(start));
    }
    Ok(aligned(start..end).map(move |piece| {
        let (first, len) = ((piece.start - start) as usize, piece.end - piece.start);
        let bytes = &bytes[first..first + len as usize];
        Subtree { start: piece.start, len, value: tree.node(bytes, piece.start / CHUNK) }
    }))
}

/// The nodes over neighbouring bytes of one message, joined as they come: never more than two for
/// each level of the tree.
#[derive(Clone, Debug, Default)]
pub struct Part {
    nodes: Vec<Subtree>,
}

impl Part {
    /// Adds the node that begins where the last one ended.
    pub fn push(&mut self, tree: &dyn AnyTree, node: Subtree) {
        self.nodes.push(node);
        while let [.., left, right] = self.nodes[..] {
            let pair = left.len.saturating_mul(2);
            // What begins at 0 stays in two: see `aligned`.
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
            self.nodes.push(Subtree { start: left.start, len: pair, value });
        }
    }

    /// All of them, in order.
    #[must_use]
    pub fn nodes(&self) -> &[Subtree] {
        &self.nodes
    }

    /// The output of the message that they are all of.
    ///
    /// # Errors
    /// As [`Whole::output`], but that [`PartsError::OneChunk`] is of any message of one chunk.
    pub fn output(&self, tree: &dyn AnyTree) -> Result<OutputReader, PartsError> {
        output(tree, &self.nodes)
    }
}

/// What kind of hash a part is of. Keys and contexts do not stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// [`xylem_hash::hash`].
    Plain,
    /// [`xylem_hash::keyed_hash`].
    Keyed,
    /// [`xylem_hash::derive_key`].
    DeriveKey,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Plain, Self::Keyed, Self::DeriveKey];

    fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Keyed => "keyed",
            Self::DeriveKey => "derive-key",
        }
    }
}

/// One line of a part: `node MODE START LENGTH TOTAL VALUE`, or `root MODE 0 LENGTH TOTAL HASH` for a
/// message of one chunk, which has no node below its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// What kind of hash it is of.
    pub mode: Mode,
    /// How many bytes the message has, where whoever made the part knew; else `-` stands there.
    pub total: Option<u64>,
    /// What the line says of them.
    pub value: LineValue,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineValue {
    /// A node.
    Node(Subtree),
    /// The hash of a whole message of so many bytes, at most 1,024.
    Root(u64, Hash),
}

impl fmt::Display for Line {
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

impl FromStr for Line {
    type Err = PartsError;

    fn from_str(text: &str) -> Result<Self, PartsError> {
        let mut words = text.split(' ');
        let [what, mode, start, len, total, value] =
            core::array::from_fn(|_| words.next().unwrap_or(""));
        let number = |word: &str| {
            let digits = word.bytes().all(|b| b.is_ascii_digit());
            word.parse::<u64>().ok().filter(|_| digits).ok_or(PartsError::NoPart)
        };
        let mode = Mode::ALL.into_iter().find(|known| known.word() == mode);
        let (Some(mode), None) = (mode, words.next()) else { return Err(PartsError::NoPart) };
        let (start, len) = (number(start)?, number(len)?);
        let total = if total == "-" { None } else { Some(number(total)?) };
        let value = Hash::from_hex(value).map_err(|_| PartsError::NoPart)?;
        let end = start.checked_add(len).ok_or(PartsError::TooLong)?;
        let value = match what {
            _ if total.is_some_and(|total| end > total) => return Err(PartsError::NoPart),
            "node" if !start.is_multiple_of(CHUNK) => return Err(PartsError::Unaligned(start)),
            "node" if len > 0 => {
                LineValue::Node(Subtree { start, len, value: NodeValue(*value.as_bytes()) })
            }
            "root" if start == 0 && len <= CHUNK => LineValue::Root(len, value),
            _ => return Err(PartsError::NoPart),
        };
        Ok(Self { mode, total, value })
    }
}

/// The lines that a part is written as, of a message of `total` bytes if that is known.
///
/// `message` is the hash of the part's own bytes, which counts where they may be all of the
/// message: where they begin at 0 and are one chunk at most.
#[must_use]
pub fn lines(
    mode: Mode,
    total: Option<u64>,
    part: &Part,
    message: impl FnOnce() -> Hash,
) -> Vec<Line> {
    let mut values: Vec<_> = part.nodes.iter().copied().map(LineValue::Node).collect();
    match part.nodes[..] {
        [] => values.push(LineValue::Root(0, message())),
        [Subtree { start: 0, len, .. }] if len <= CHUNK => {
            values.push(LineValue::Root(len, message()));
        }
        _ => {}
    }
    values.into_iter().map(|value| Line { mode, total, value }).collect()
}

/// Why parts do not make a message's hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// A line that is none of a part.
    #[error("no line of a part; expected what `xylem sum --part` prints")]
    NoPart,
    /// Bytes that begin in the middle of a chunk.
    #[error("byte {0} is in the middle of a chunk; parts begin at multiples of 1024")]
    Unaligned(u64),
    /// Bytes past 2^64.
    #[error("no message is that long")]
    TooLong,
    /// More than [`MAX_LINES`].
    #[error("more than {MAX_LINES} lines of parts")]
    TooMany,
    /// Two parts are of hashes of different kinds.
    #[error("the parts are of different kinds of hash: {0} and {1}")]
    Kinds(&'static str, &'static str),
    /// It is not of the kind that was asked for.
    #[error("the parts are of a hash of another kind: {0}")]
    OtherKind(&'static str),
    /// Two parts say different things of the same bytes.
    #[error("two parts disagree about bytes {}..{}: hash them again", .0.start, .0.end)]
    Disagree(Range<u64>),
    /// Two parts are of messages of different lengths.
    #[error("the parts are of messages of different lengths: {0} and {1} bytes")]
    Totals(u64, u64),
    /// Bytes that no part has.
    #[error("no part has bytes {}..{}", .0.start, .0.end)]
    Missing(Range<u64>),
    /// Two parts share bytes, cut at different places.
    #[error("two parts share bytes from {0} on, and begin or end at different places")]
    Overlap(u64),
    /// Bytes follow behind a part that was cut in the middle of a chunk.
    #[error("the part that ends at byte {0} ends in the middle of a chunk and is not the last")]
    EndsEarly(u64),
    /// What is under one node is not a subtree of a message of that length.
    #[error("bytes {}..{} are no subtree of this message", .0.start, .0.end)]
    NoSubtree(Range<u64>),
    /// A message of one chunk has no parts that its output could be made of.
    #[error("a message of at most 1024 bytes is hashed as a whole")]
    OneChunk,
    /// No part at all.
    #[error("no parts: nothing to merge")]
    Nothing,
}

/// What all parts of a message come to.
#[derive(Debug)]
pub enum Merged {
    /// The output of a message of more than one chunk.
    Output(OutputReader),
    /// The hash of a message of one chunk. Nobody can make more output of it.
    Hash(Hash),
}

/// The parts of one message, as they come: in any order, some maybe twice.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    mode: Option<Mode>,
    total: Option<u64>,
    nodes: Vec<Subtree>,
    root: Option<(u64, Hash)>,
}

impl Whole {
    /// Takes a line.
    ///
    /// # Errors
    /// [`PartsError::Kinds`], [`PartsError::Totals`], [`PartsError::TooMany`], or
    /// [`PartsError::Disagree`] of messages of one chunk. It is then not taken.
    pub fn add(&mut self, line: Line) -> Result<(), PartsError> {
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

    /// Takes the lines of `text`.
    ///
    /// # Errors
    /// Of the first line that can't be taken, with its number from 1 on.
    pub fn add_text(&mut self, text: &str) -> Result<(), (usize, PartsError)> {
        for (i, line) in text.lines().enumerate() {
            let numbered = |error| (i + 1, error);
            self.add(line.parse().map_err(numbered)?).map_err(numbered)?;
        }
        Ok(())
    }

    /// What the message comes to under `tree`, which has to be of the kind `mode` and, if there is
    /// one, have the key that the parts were made with: nobody can see whether it has.
    ///
    /// # Errors
    /// That something is missing, said in two ways, or no part of one message. Where no part says
    /// how long the message is, nobody can see that the last one is missing.
    pub fn output(mut self, tree: &dyn AnyTree, mode: Mode) -> Result<Merged, PartsError> {
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

/// The output of the message that `nodes` are all of, in order.
fn output(tree: &dyn AnyTree, nodes: &[Subtree]) -> Result<OutputReader, PartsError> {
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

/// The node over `bytes`, of the next `nodes`, which follow each other without a gap. As deep as the
/// tree: 54 calls at most.
fn fold<'a>(
    tree: &dyn AnyTree,
    bytes: Range<u64>,
    nodes: &mut (impl Iterator<Item = &'a Subtree> + Clone),
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

/// The bytes under the left half of a subtree of `len` bytes, more than one chunk: the largest power
/// of two of chunks that leaves something for the right (the paper, section 2.1).
fn left_len(len: u64) -> u64 {
    let chunks = len.div_ceil(CHUNK);
    CHUNK << (chunks.max(2) - 1).ilog2()
}
