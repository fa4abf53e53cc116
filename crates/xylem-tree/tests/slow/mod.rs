//! Reference trees, implemented slowly: recursion over ranges of segments as in the BLAKE3 paper and in RFC 9162,
//! hashed with the `blake3` crate and with ring's SHA-256, without levels, slots or promotion.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::ops::Range;

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use xylem_sim::Rng;
use xylem_tree::{
    NodeSource, Outboard, ProofError, SegmentIndex, SegmentSize, Tile, TreeKind, TreeVerifier,
};
use xylem_tree::{segment_signature, tile_content, tile_signature};

/// Bytes that differ from place to place; their period shares no factor with a power of two.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

pub(crate) fn sizes_of_segments() -> [SegmentSize; 4] {
    [0, 1, 2, 3].map(|k| SegmentSize::from_log2_chunks(k).unwrap())
}

pub(crate) const KIB: SegmentSize = match SegmentSize::from_log2_chunks(0) {
    Some(size) => size,
    None => unreachable!(),
};

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    ring::digest::digest(&ring::digest::SHA256, &parts.concat()).as_ref().try_into().unwrap()
}

/// A leaf: `bytes` begin at `offset`; `alone` if the file has no other segment.
pub(crate) fn leaf(kind: TreeKind, bytes: &[u8], offset: u64, alone: bool) -> [u8; 32] {
    match kind {
        TreeKind::Sha256 => sha256(&[&[0], bytes]),
        TreeKind::Blake3 if alone => *blake3::hash(bytes).as_bytes(),
        TreeKind::Blake3 => {
            blake3::Hasher::new().set_input_offset(offset).update(bytes).finalize_non_root()
        }
    }
}

/// An inner node; `root` if it is the file's root.
pub(crate) fn join(kind: TreeKind, left: &[u8; 32], right: &[u8; 32], root: bool) -> [u8; 32] {
    match kind {
        TreeKind::Sha256 => sha256(&[&[1], left, right]),
        TreeKind::Blake3 if root => *merge_subtrees_root(left, right, Mode::Hash).as_bytes(),
        TreeKind::Blake3 => merge_subtrees_non_root(left, right, Mode::Hash),
    }
}

pub(crate) struct SlowTree<'a> {
    pub kind: TreeKind,
    pub content: &'a [u8],
    pub segment: usize,
    pub n: u64,
}

impl<'a> SlowTree<'a> {
    pub(crate) fn new(content: &'a [u8], segment: SegmentSize, kind: TreeKind) -> Self {
        let n = content.len().div_ceil(segment.bytes()).max(1) as u64;
        Self { kind, content, segment: segment.bytes(), n }
    }

    fn all(&self) -> Range<u64> {
        0..self.n
    }

    /// Where BLAKE3 splits: the largest power of two below the number of segments.
    fn split(range: &Range<u64>) -> u64 {
        let n = range.end - range.start;
        let mut left = 1;
        while left * 2 < n {
            left *= 2;
        }
        range.start + left
    }

    /// Number of segments that the node would cover if it were full.
    fn width(range: &Range<u64>) -> u64 {
        let mut width = 1;
        while width < range.end - range.start {
            width *= 2;
        }
        width
    }

    pub(crate) fn value(&self, range: Range<u64>) -> [u8; 32] {
        if range.end - range.start == 1 {
            let start = range.start as usize * self.segment;
            let bytes = &self.content[start..self.content.len().min(start + self.segment)];
            return leaf(self.kind, bytes, start as u64, self.n == 1);
        }
        let middle = Self::split(&range);
        let left = self.value(range.start..middle);
        let right = self.value(middle..range.end);
        join(self.kind, &left, &right, range == self.all())
    }

    pub(crate) fn root(&self) -> [u8; 32] {
        self.value(self.all())
    }

    /// All nodes in order: left subtree, node, right subtree.
    pub(crate) fn outboard(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.outboard_of(self.all(), &mut out);
        out
    }

    fn outboard_of(&self, range: Range<u64>, out: &mut Vec<u8>) -> [u8; 32] {
        if range.end - range.start == 1 {
            let value = self.value(range);
            out.extend(value);
            return value;
        }
        let middle = Self::split(&range);
        let left = self.outboard_of(range.start..middle, out);
        let at = out.len();
        out.extend([0; 32]);
        let right = self.outboard_of(middle..range.end, out);
        let value = join(self.kind, &left, &right, range == self.all());
        out[at..at + 32].copy_from_slice(&value);
        value
    }

    /// A segment's SignatureValue: from the root down, the siblings of nodes no wider than 8.
    pub(crate) fn segment_signature(&self, i: u64) -> Vec<u8> {
        let mut siblings = Vec::new();
        let mut range = self.all();
        while range.end - range.start > 1 {
            let middle = Self::split(&range);
            let width = Self::width(&range);
            let (near, far) = if i < middle {
                (range.start..middle, middle..range.end)
            } else {
                (middle..range.end, range.start..middle)
            };
            if width <= 8 {
                siblings.push(self.value(far));
            }
            range = near;
        }
        siblings.push(self.value(range));
        siblings.reverse();
        siblings.concat()
    }
}

/// A file and its outboard, and the packets that an honest holder sends.
pub(crate) struct Holder {
    pub content: Vec<u8>,
    pub outboard: Outboard,
}

impl Holder {
    pub(crate) fn new(content: Vec<u8>, segment: SegmentSize) -> Self {
        Self::of_kind(content, segment, TreeKind::Blake3)
    }

    pub(crate) fn of_kind(content: Vec<u8>, segment: SegmentSize, kind: TreeKind) -> Self {
        let outboard = Outboard::of_kind(&content, segment, kind);
        Self { content, outboard }
    }

    pub(crate) fn verifier(&self) -> TreeVerifier {
        TreeVerifier::new(*self.outboard.geometry(), self.outboard.root())
    }

    pub(crate) fn segments(&self) -> u64 {
        self.outboard.geometry().segments()
    }

    pub(crate) fn bytes(&self, i: u64) -> &[u8] {
        let range = self.outboard.geometry().segment_range(SegmentIndex(i));
        &self.content[range.start as usize..range.end as usize]
    }

    pub(crate) fn signature(&self, i: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let geo = self.outboard.geometry();
        segment_signature(geo, SegmentIndex(i), &mut self.outboard.as_bytes(), &mut out).unwrap();
        out
    }

    pub(crate) fn tile(&self, tile: Tile) -> (Vec<u8>, Vec<u8>) {
        tile_of(self.outboard.geometry(), tile, &mut self.outboard.as_bytes())
    }

    /// Feeds a segment, and the tiles that it turns out to need.
    pub(crate) fn feed(&self, verifier: &mut TreeVerifier, i: u64) -> Result<(), ProofError> {
        loop {
            let outcome = verifier.segment(SegmentIndex(i), self.bytes(i), &self.signature(i));
            match outcome {
                Err(ProofError::NeedTile(tile)) => self.feed_tile(verifier, tile),
                outcome => {
                    let segment = outcome?;
                    assert_eq!(segment.content, self.bytes(i));
                    assert_eq!(segment.index, SegmentIndex(i));
                    let range = self.outboard.geometry().segment_range(SegmentIndex(i));
                    assert_eq!(segment.offset, range.start);
                    assert_eq!(segment.root(), self.outboard.root());
                    return Ok(());
                }
            }
        }
    }

    pub(crate) fn feed_tile(&self, verifier: &mut TreeVerifier, tile: Tile) {
        let (content, signature) = self.tile(tile);
        match verifier.tile(tile, &content, &signature) {
            Err(ProofError::NeedTile(above)) => {
                self.feed_tile(verifier, above);
                verifier.tile(tile, &content, &signature).unwrap();
            }
            outcome => outcome.unwrap(),
        }
    }
}

pub(crate) fn tile_of<S: NodeSource<Error: std::fmt::Debug>>(
    geo: &xylem_tree::Geometry,
    tile: Tile,
    src: &mut S,
) -> (Vec<u8>, Vec<u8>) {
    let (mut content, mut signature) = (Vec::new(), Vec::new());
    tile_content(geo, tile, src, &mut content).unwrap();
    tile_signature(geo, tile, src, &mut signature).unwrap();
    (content, signature)
}

/// The numbers below `n`, in any order.
pub(crate) fn shuffled(rng: &mut Rng, n: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..n).collect();
    rng.shuffle(&mut order);
    order
}
