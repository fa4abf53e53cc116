//! Attacks of a hostile peer: flipped bits, honest bytes in the wrong place, wrong sizes, and trees too large to build.
//! A refused packet must leave no trace.

use std::{cell::RefCell, collections::BTreeMap};

use xylem_tree::{
    Anchor, Culprit, Geometry, Node, NodeValue, ProofError, SegmentIndex, SegmentSize, Tile,
    TreeKind, TreeVerifier,
};

mod slow;
use slow::{Holder, KIB, content};

/// Two verifiers: one that knows only the end of a segment's proof, and one that knows the whole tree.
fn knowing_little_and_all(holder: &Holder, i: u64) -> [TreeVerifier; 2] {
    let (mut little, mut all) = (holder.verifier(), holder.verifier());
    if let Some(tile) = holder.outboard.geometry().tile_of_segment(SegmentIndex(i)) {
        holder.feed_tile(&mut little, tile);
    }
    (0..holder.segments()).for_each(|i| holder.feed(&mut all, i).unwrap());
    [little, all].map(|mut verifier| {
        let _ = verifier.take_proven();
        verifier
    })
}

fn assert_refused<T: std::fmt::Debug>(
    verifier: &mut TreeVerifier,
    held: usize,
    got: Result<T, ProofError>,
    what: &str,
) {
    let error = got.expect_err(what);
    assert!(
        matches!(error, ProofError::LeafMismatch(_) | ProofError::NodeMismatch(_)),
        "{what}: {error}"
    );
    assert_eq!(error.culprit(), Culprit::Sender);
    assert!(verifier.take_proven().is_empty(), "{what}: nothing proven");
    assert_eq!(verifier.held_bytes(), held, "{what}: nothing kept");
}

fn flips(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

#[test]
fn every_flipped_bit_of_a_segment_is_refused() {
    for kind in TreeKind::ALL {
        for (size, segments) in [
            (1000, vec![0]),
            (1500, vec![0, 1]),
            (2100, vec![0, 2]),
            (8192, vec![3]),
            (8200, vec![5, 8]),
            (20_000, vec![10, 17, 19]),
        ] {
            let holder = Holder::of_kind(content(size), KIB, kind);
            for i in segments {
                let (bytes, signature, at) =
                    (holder.bytes(i), holder.signature(i), SegmentIndex(i));
                for mut verifier in knowing_little_and_all(&holder, i) {
                    let held = verifier.held_bytes();
                    for bad in flips(bytes) {
                        let got = verifier.segment(at, &bad, &signature);
                        assert_refused(&mut verifier, held, got, "content");
                    }
                    for bad in flips(&signature) {
                        let got = verifier.segment(at, bytes, &bad);
                        assert_refused(&mut verifier, held, got, "signature");
                    }
                    verifier.segment(at, bytes, &signature).unwrap();
                }
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_tile_is_refused() {
    for kind in TreeKind::ALL {
        for (size, index) in [(9 * 1024, 0), (20 * 1024, 0), (2060 * 1024, 1), (2049 * 1024, 1)] {
            let holder = Holder::of_kind(content(size), KIB, kind);
            let tile = Tile { tier: 0, index };
            let (bytes, signature) = holder.tile(tile);
            let mut all = holder.verifier();
            (0..holder.segments()).for_each(|i| holder.feed(&mut all, i).unwrap());
            for mut verifier in [holder.verifier(), all] {
                let _ = verifier.take_proven();
                let held = verifier.held_bytes();
                for bad in flips(&bytes) {
                    let got = verifier.tile(tile, &bad, &signature);
                    assert_refused(&mut verifier, held, got, "tile content");
                }
                for bad in flips(&signature) {
                    let got = verifier.tile(tile, &bytes, &bad);
                    assert_refused(&mut verifier, held, got, "tile signature");
                }
                verifier.tile(tile, &bytes, &signature).unwrap();
            }
        }
    }
}

/// All segments are alike, so that only their position distinguishes them.
#[test]
fn nothing_is_accepted_in_another_place() {
    for n in [2, 3, 8, 9, 17, 30] {
        let holder = Holder::new(vec![0; n as usize * 1024], KIB);
        for from in 0..n {
            for to in (0..n).filter(|to| *to != from) {
                for mut verifier in knowing_little_and_all(&holder, to) {
                    let proofs = [holder.signature(from), holder.signature(to)];
                    // The own value from the bytes' true place, the siblings from the claimed place.
                    let mixed = [&proofs[0][..32], &proofs[1][32..]].concat();
                    for proof in [&proofs[0], &mixed] {
                        let got = verifier.segment(SegmentIndex(to), holder.bytes(from), proof);
                        let error = got.map(|s| s.index).unwrap_err();
                        assert_eq!(error.culprit(), Culprit::Sender, "{from} as {to} of {n}");
                    }
                }
            }
        }
    }
    let holder = Holder::new(vec![0; 3 * 2048 * 1024], KIB);
    let (bytes, signature) = holder.tile(Tile { tier: 0, index: 0 });
    for index in 1..3 {
        let mut verifier = holder.verifier();
        let (_, own) = holder.tile(Tile { tier: 0, index });
        for signature in [&signature, &own] {
            let got = verifier.tile(Tile { tier: 0, index }, &bytes, signature);
            assert_eq!(got.unwrap_err().culprit(), Culprit::Sender);
        }
    }
}

/// A claimed size that is not the file's. Whatever nodes the peer uses for its proofs, bytes are accepted only where
/// they belong, and the last of them never is.
#[test]
fn a_false_size_never_completes() {
    for kind in TreeKind::ALL {
        let unit = 1024;
        for real in [0, 1, 700, 1024, 2048, 2500, 3072, 5000, 8192, 9000, 12_288, 17_000] {
            let holder = Holder::of_kind(content(real), KIB, kind);
            let near = [real.saturating_sub(1), real + 1, real.saturating_sub(unit), real + unit];
            let far = [real / 2, real * 2, real + 8 * unit, 16 * unit, unit, 0];
            for claimed in near.into_iter().chain(far).filter(|claimed| *claimed != real) {
                let geo = Geometry::new(claimed as u64, KIB).with_kind(kind);
                // The best material for a false size: the real file, cut off or with zeros appended.
                let mut lie = holder.content.clone();
                lie.resize(claimed, 0);
                let lie = Holder::of_kind(lie, KIB, kind);
                let mut verifier = TreeVerifier::new(geo, holder.outboard.root());
                for index in 0..geo.tiles(0) {
                    let tile = Tile { tier: 0, index };
                    let (bytes, signature) = lie.tile(tile);
                    let with_root = [holder.outboard.root().as_bytes(), &signature[32..]].concat();
                    let _ = verifier.tile(tile, &bytes, &signature);
                    let _ = verifier.tile(tile, &bytes, &with_root);
                }
                let last = geo.last_segment().0;
                for i in 0..=last {
                    for proof in lies(&holder, &lie, i) {
                        match verifier.segment(SegmentIndex(i), lie.bytes(i), &proof) {
                            Ok(segment) => {
                                assert_ne!(i, last, "{claimed} bytes claimed for {real}");
                                assert_eq!(
                                    segment.content,
                                    holder.bytes(i),
                                    "{claimed} for {real}"
                                );
                            }
                            Err(error) => assert_ne!(error, ProofError::OutOfRange),
                        }
                    }
                }
            }
        }
    }
}

/// Proofs for segment `i` of the claimed tree, from nodes of the claimed and of the real tree.
fn lies(real: &Holder, lie: &Holder, i: u64) -> Vec<Vec<u8>> {
    let (claimed, truth) = (lie.outboard.geometry(), real.outboard.geometry());
    let own = lie.signature(i);
    let mut proofs = vec![own.clone()];
    if truth.has_segment(SegmentIndex(i)) {
        let mut honest = real.signature(i);
        honest.resize(own.len(), 0);
        proofs.push(honest);
    }
    // Each sibling as in the real tree at that position, if it has one.
    let siblings = claimed.segment_proof(SegmentIndex(i)).enumerate();
    let mut mixed = own.clone();
    for (n, node) in siblings {
        if let Some(value) = real.outboard.node(node) {
            mixed[(n + 1) * 32..(n + 2) * 32].copy_from_slice(&value.0);
        }
    }
    proofs.push(mixed);
    // The root as the proof of a single segment, as if the others did not exist.
    proofs.push([real.outboard.root().as_bytes(), &own[32..]].concat());
    proofs
}

/// A tree of any size with one real segment. Nodes that no packet of its proof contains are made up.
struct HugeTree {
    geo: Geometry,
    at: SegmentIndex,
    content: Vec<u8>,
    values: RefCell<BTreeMap<Node, [u8; 32]>>,
}

impl HugeTree {
    fn new(size: u64, segment: SegmentSize, kind: TreeKind, at: u64) -> Self {
        let geo = Geometry::new(size, segment).with_kind(kind);
        let at = SegmentIndex(at);
        let content = content(geo.segment_len(at));
        Self { geo, at, content, values: RefCell::default() }
    }

    /// Returns whether the node's value must follow from those below it: it lies over the segment, or in a tile over
    /// the segment.
    fn follows(&self, node: Node) -> bool {
        let over = |level: u8| self.at.0 >> level == node.index >> (level - node.level);
        if over(node.level) {
            return true;
        }
        let tier = (node.level.saturating_sub(4)) / 15;
        let base = Geometry::tile_base(tier);
        node.level > base && node.level <= base + 8 && over((base + 8).min(self.geo.levels()))
    }

    fn value(&self, node: Node) -> [u8; 32] {
        if let Some(value) = self.values.borrow().get(&node) {
            return *value;
        }
        let value = self.work_out(node);
        self.values.borrow_mut().insert(node, value);
        value
    }

    fn work_out(&self, node: Node) -> [u8; 32] {
        if node == Node::leaf(self.at) {
            let (offset, alone) = (self.geo.segment_range(self.at).start, self.geo.segments() == 1);
            return slow::leaf(self.geo.kind(), &self.content, offset, alone);
        }
        let Some((left, right)) = self.geo.children(node).filter(|_| self.follows(node)) else {
            let place = [node.level.into(), node.index].map(u64::to_le_bytes).concat();
            return *blake3::hash(&place).as_bytes();
        };
        let (left, right) = (self.value(left), self.value(right));
        slow::join(self.geo.kind(), &left, &right, node == self.geo.root())
    }

    fn proof(&self, from: Node, siblings: impl Iterator<Item = Node>) -> Vec<u8> {
        std::iter::once(from).chain(siblings).flat_map(|node| self.value(node)).collect()
    }

    fn feed_tile(&self, verifier: &mut TreeVerifier, tile: Tile) {
        let (level, nodes) = self.geo.tile_nodes(tile);
        let real = |index| self.geo.real(Node { level, index }).unwrap();
        let bytes: Vec<u8> = nodes.flat_map(|index| self.value(real(index))).collect();
        let top = self.geo.tile_top(tile).unwrap();
        let signature = self.proof(top, self.geo.tile_proof(tile));
        assert!(bytes.len() + signature.len() <= 8192 + 256, "fits a packet");
        match verifier.tile(tile, &bytes, &signature) {
            Err(ProofError::NeedTile(above)) => {
                assert_eq!(above.tier, tile.tier + 1);
                self.feed_tile(verifier, above);
                verifier.tile(tile, &bytes, &signature).unwrap();
            }
            outcome => outcome.unwrap(),
        }
        for at in [0, bytes.len() - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(verifier.tile(tile, &bad, &signature).is_err());
        }
    }

    /// The same check with anchors instead of a verifier: from the root down, tile by tile.
    fn check_anchors(&self) {
        let root = xylem_hash::Hash::from_bytes(self.value(self.geo.root()));
        let mut tiles: Vec<Tile> = self.geo.tile_of_segment(self.at).into_iter().collect();
        while let Some(above) = tiles.last().and_then(|tile| self.geo.tile_above(*tile)) {
            tiles.push(above);
        }
        let mut anchor = Anchor::root(self.geo, root);
        while let Some(tile) = tiles.pop() {
            let (level, nodes) = self.geo.tile_nodes(tile);
            let real = |index| self.geo.real(Node { level, index }).unwrap();
            let bytes: Vec<u8> = nodes.flat_map(|index| self.value(real(index))).collect();
            let proof = self.proof(self.geo.tile_top(tile).unwrap(), self.geo.tile_proof(tile));
            let proven = anchor.tile(tile, &bytes, &proof).unwrap();
            for (n, part) in [&bytes, &proof].into_iter().enumerate() {
                for at in [0, part.len() - 1] {
                    let mut bad = part.clone();
                    bad[at] ^= 0x80;
                    let (bytes, proof) = if n == 0 { (&bad, &proof) } else { (&bytes, &bad) };
                    assert_eq!(
                        anchor.tile(tile, bytes, proof).unwrap_err().culprit(),
                        Culprit::Sender
                    );
                }
            }
            anchor = match tiles.last() {
                Some(below) => proven.over_tile(*below).unwrap(),
                None => proven.over_segment(self.at).unwrap(),
            };
            assert!(proven.over_segment(SegmentIndex(u64::MAX)).is_none());
        }
        let proof = self.proof(Node::leaf(self.at), self.geo.segment_proof(self.at));
        let segment = anchor.segment(self.at, &self.content, &proof).unwrap();
        assert_eq!((segment.root(), segment.index), (root, self.at));
        let mut bad = proof.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(
            anchor.segment(self.at, &self.content, &bad).unwrap_err().culprit(),
            Culprit::Sender
        );
        if self.geo.levels() > 3 {
            let got = Anchor::root(self.geo, root).segment(self.at, &self.content, &proof);
            assert_eq!(got.unwrap_err(), ProofError::NotProven(anchor.node()));
        }
    }

    fn check(&self) {
        self.check_anchors();
        let root = xylem_hash::Hash::from_bytes(self.value(self.geo.root()));
        let mut verifier = TreeVerifier::new(self.geo, root);
        let proof = self.proof(Node::leaf(self.at), self.geo.segment_proof(self.at));
        assert!(proof.len() <= 128);
        if let Some(tile) = self.geo.tile_of_segment(self.at) {
            let got = verifier.segment(self.at, &self.content, &proof).unwrap_err();
            assert_eq!(got, ProofError::NeedTile(tile));
            self.feed_tile(&mut verifier, tile);
        }
        let mut bad = proof.clone();
        *bad.last_mut().unwrap() ^= 0x80;
        assert!(verifier.segment(self.at, &self.content, &bad).is_err());
        let segment = verifier.segment(self.at, &self.content, &proof).unwrap();
        assert_eq!(segment.offset, self.geo.segment_range(self.at).start);

        verifier.forget_complete(self.at.0..self.at.0 + 1);
        assert!(verifier.is_complete(self.at));
        verifier.forget_complete(0..u64::MAX);
        let proven = verifier.take_proven();
        let mut seen = std::collections::BTreeSet::new();
        for (node, value) in proven.get() {
            assert!(seen.insert(*node), "{node} is recorded once");
            assert_eq!(*value, NodeValue(self.value(*node)));
        }
        assert_eq!(verifier.held_bytes(), 0);
    }
}

#[test]
fn trees_of_any_size_verify() {
    for segment in [KIB, SegmentSize::DEFAULT] {
        let unit = segment.bytes() as u64;
        let mut sizes = vec![0, 1, unit + 1, 9 * unit, u64::MAX, u64::MAX / 2, 16 << 40];
        for level in [3, 4, 10, 11, 12, 17, 18, 19, 26, 27, 33, 34, 41, 48, 50] {
            let n: u64 = 1 << level;
            let edge = [n - 1, n, n + 1, n + n / 2, n + 9].map(|n| n.checked_mul(unit));
            sizes.extend(edge.into_iter().flatten().map(|size| size - 3));
        }
        for size in sizes {
            let n = Geometry::new(size, segment).segments();
            for at in [0, n / 3, n / 2, n.saturating_sub(2), n - 1] {
                let _ = TreeKind::ALL.map(|kind| HugeTree::new(size, segment, kind, at).check());
            }
        }
    }
}
