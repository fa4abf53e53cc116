//! Compares growing trees and consistency proofs with the slow tree over the whole file.

use proptest::prelude::*;
use xylem_hash::Hash;
use xylem_tree::consistency::{self, ConsistencyError};
use xylem_tree::{
    Checkpoint, Geometry, GrowingTree, NODE_LEN, NodeSource, NodeValue, Outboard, SegmentIndex,
    SegmentSize, TreeKind, segment_signature, tile_content, tile_signature,
};

mod slow;
use slow::{KIB, SlowTree, content, sizes_of_segments};

/// An outboard that grows; unknown nodes are zeros.
#[derive(Clone, Default)]
struct Slots(Vec<u8>);

impl Slots {
    fn put(&mut self, slot: u64, value: NodeValue) -> Result<(), ()> {
        let at = slot as usize * NODE_LEN;
        self.0.resize(self.0.len().max(at + NODE_LEN), 0);
        assert_eq!(self.0[at..at + NODE_LEN], NodeValue::UNKNOWN.0, "slot {slot} is written once");
        self.0[at..at + NODE_LEN].copy_from_slice(&value.0);
        Ok(())
    }
}

impl NodeSource for Slots {
    type Error = ();

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), ()> {
        let at = first_slot as usize * NODE_LEN;
        for (n, byte) in out.iter_mut().enumerate() {
            *byte = self.0.get(at + n).copied().unwrap_or(0);
        }
        Ok(())
    }
}

/// The nodes with which a checkpoint is served: the outboard, overlaid by the right edge.
struct Overlaid<'a>(&'a mut Slots, &'a Checkpoint);

impl NodeSource for Overlaid<'_> {
    type Error = ();

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), ()> {
        self.0.read_nodes(first_slot, out)?;
        self.1.overlay(first_slot, out);
        Ok(())
    }
}

/// Asserts that the whole outboard of a checkpoint is the slow tree's.
fn assert_checkpoint(slots: &mut Slots, checkpoint: &Checkpoint, bytes: &[u8], kind: TreeKind) {
    let geo = *checkpoint.geometry();
    let slow = SlowTree::new(bytes, geo.segment_size(), kind);
    assert_eq!(geo.size(), bytes.len() as u64);
    assert_eq!(*checkpoint.root().as_bytes(), slow.root(), "{} bytes", bytes.len());
    let mut outboard = vec![0; geo.slots() as usize * NODE_LEN];
    Overlaid(slots, checkpoint).read_nodes(0, &mut outboard).unwrap();
    assert!(outboard == slow.outboard(), "{} bytes", bytes.len());
}

fn tail_of<'a>(geo: &Geometry, bytes: &'a [u8]) -> &'a [u8] {
    let range = geo.segment_range(geo.last_segment());
    &bytes[range.start as usize..range.end as usize]
}

#[test]
fn every_checkpoint_is_a_tree_of_its_own_and_stays_servable() {
    for (segment, kind) in
        sizes_of_segments().into_iter().flat_map(|s| TreeKind::ALL.map(|k| (s, k)))
    {
        let unit = segment.bytes();
        let mut ends = vec![0, 1, 1023, 1024, 1025];
        for n in [1, 2, 3, 4, 7, 8, 9, 16, 17] {
            ends.extend([n * unit - 1, n * unit, n * unit + 1]);
        }
        ends.sort_unstable();
        ends.dedup();
        let content = content(*ends.last().unwrap());
        let (mut tree, mut slots) = (GrowingTree::new(segment, kind), Slots::default());
        let mut made = Vec::new();
        let mut at = 0;
        for end in ends {
            tree.push(&content[at..end], |slot, value| slots.put(slot, value)).unwrap();
            at = end;
            let checkpoint = tree.checkpoint();
            assert_checkpoint(&mut slots, &checkpoint, &content[..end], kind);
            made.push(checkpoint);
        }
        for checkpoint in made {
            let bytes = &content[..checkpoint.geometry().size() as usize];
            assert_checkpoint(&mut slots, &checkpoint, bytes, kind);
            let geo = checkpoint.geometry();
            let again = Checkpoint::read(geo, &mut slots, tail_of(geo, bytes)).unwrap();
            assert_eq!(again, checkpoint);
        }
    }
}

#[test]
fn a_growing_tree_resumes_from_its_outboard() {
    let content = content(70 * 1024 + 5);
    for stop in [0, 1, 1024, 1025, 4096, 65 * 1024, 70 * 1024] {
        let mut slots = Slots::default();
        let mut tree = GrowingTree::new(KIB, TreeKind::Blake3);
        tree.push(&content[..stop], |slot, value| slots.put(slot, value)).unwrap();
        let geo = tree.geometry();
        let tail = tail_of(&geo, &content);
        let mut again = GrowingTree::resume(&geo, &mut slots, tail).unwrap();
        assert_eq!(again.checkpoint(), tree.checkpoint());
        assert_eq!(again.tail(), tree.tail());
        again.push(&content[stop..], |slot, value| slots.put(slot, value)).unwrap();
        assert_checkpoint(&mut slots, &again.checkpoint(), &content, TreeKind::Blake3);
        // A tail of another length is refused, and a lost node is noticed.
        assert!(GrowingTree::resume(&geo, &mut slots, &content[..tail.len() + 1]).is_err());
        if geo.segments() > 1 {
            assert!(GrowingTree::resume(&geo, &mut Slots::default(), tail).is_err());
        }
    }
}

/// The proof that the first `old` bytes begin `new`, from the new file's outboard.
fn proof(new: &[u8], old: usize, segment: SegmentSize, kind: TreeKind) -> (Outboard, Vec<u8>) {
    let outboard = Outboard::of_kind(new, segment, kind);
    let geo = Geometry::new(old as u64, segment).with_kind(kind);
    let end = consistency::needs(&geo, outboard.geometry());
    let range = end.map_or(0..0, |end| outboard.geometry().segment_range(end.segment));
    let content = &new[range.start as usize..range.end as usize];
    let mut out = b"before".to_vec();
    let node = |node| outboard.node(node);
    assert!(consistency::prove(&geo, outboard.geometry(), content, node, &mut out));
    assert_eq!(&out[..6], b"before");
    (outboard, out.split_off(6))
}

fn check(
    old: &[u8],
    new: &[u8],
    segment: SegmentSize,
    kind: TreeKind,
    proof: &[u8],
) -> Result<(), ConsistencyError> {
    let of = |bytes: &[u8]| {
        let root = SlowTree::new(bytes, segment, kind).root();
        (Geometry::new(bytes.len() as u64, segment).with_kind(kind), root.into())
    };
    let ((old, old_root), (new, new_root)) = (of(old), of(new));
    let shown = consistency::verify((&old, old_root), (&new, new_root), proof)?;
    assert_eq!(shown.older(), (old.size(), old_root));
    assert_eq!(shown.newer(), (new.size(), new_root));
    Ok(())
}

/// Sizes around each boundary: of chunks, of segments, of powers of two of them.
fn boundary_sizes(unit: usize, powers: u32) -> Vec<usize> {
    let mut sizes = vec![0, 1, 1023, 1024, 1025, 8191, 8192, 8193];
    for n in (0..=powers).map(|power| 1 << power).chain([3, 5, 6, 7, 11]) {
        sizes.extend([n * unit - 1, n * unit, n * unit + 1]);
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[test]
fn all_pairs_around_every_boundary_are_proven() {
    for (segment, kind, powers) in [
        (KIB, TreeKind::Blake3, 6),
        (KIB, TreeKind::Sha256, 5),
        (SegmentSize::DEFAULT, TreeKind::Blake3, 3),
    ] {
        let sizes = boundary_sizes(segment.bytes(), powers);
        let content = content(*sizes.last().unwrap());
        for (n, old) in sizes.iter().enumerate() {
            for new in &sizes[n..] {
                let (_, proof) = proof(&content[..*new], *old, segment, kind);
                let got = check(&content[..*old], &content[..*new], segment, kind, &proof);
                assert_eq!(got, Ok(()), "{old} begins {new}");
                let log = usize::BITS - (new / segment.bytes()).leading_zeros();
                assert!(proof.len() <= segment.bytes() + NODE_LEN * (log as usize + 1));
                // Nothing else proves it.
                let longer = [&proof[..], &[0; NODE_LEN]].concat();
                let got = check(&content[..*old], &content[..*new], segment, kind, &longer);
                assert!(matches!(got, Err(ConsistencyError::ProofLength { .. })));
                if old < new {
                    let got = check(&content[..*new], &content[..*old], segment, kind, &proof);
                    assert!(matches!(got, Err(ConsistencyError::Shorter { .. })));
                }
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    for kind in TreeKind::ALL {
        for (old, new) in [(1, 2), (1024, 1025), (1025, 5000), (4096, 9000), (5000, 70_000)] {
            let content = content(new);
            let (_, mut proof) = proof(&content, old, KIB, kind);
            for bit in 0..8 * proof.len() {
                proof[bit / 8] ^= 1 << (bit % 8);
                let got = check(&content[..old], &content, KIB, kind, &proof);
                assert!(got.is_err(), "bit {bit} of {old} in {new}");
                proof[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(check(&content[..old], &content, KIB, kind, &proof), Ok(()));
        }
    }
}

#[test]
fn other_sizes_and_swapped_nodes_are_refused() {
    let content = content(70_000);
    let (outboard, proof) = proof(&content, 37 * 1024, KIB, TreeKind::Blake3);
    let new = (outboard.geometry(), outboard.root());
    let root = |len: usize| blake3::hash(&content[..len]).as_bytes().to_owned().into();
    let old = |len: u64| Geometry::new(len, KIB);
    let ok = |size: u64| consistency::verify((&old(size), root(37 * 1024)), new, &proof);
    assert!(ok(37 * 1024).is_ok());
    for size in [0, 1, 36 * 1024, 37 * 1024 - 1, 37 * 1024 + 1, 38 * 1024, 69_999, 70_000] {
        assert!(ok(size).is_err(), "{size} bytes");
    }
    for (a, b) in (0..proof.len() / NODE_LEN).flat_map(|a| (0..a).map(move |b| (a, b))) {
        let mut swapped = proof.clone();
        for byte in 0..NODE_LEN {
            swapped.swap(a * NODE_LEN + byte, b * NODE_LEN + byte);
        }
        assert!(consistency::verify((&old(37 * 1024), root(37 * 1024)), new, &swapped).is_err());
    }
    let other_kind = old(37 * 1024).with_kind(TreeKind::Sha256);
    let got = consistency::verify((&other_kind, root(37 * 1024)), new, &proof);
    assert_eq!(got, Err(ConsistencyError::OtherShape));
}

#[test]
fn sizes_that_need_no_proof_compare_roots() {
    let content = content(3000);
    for kind in TreeKind::ALL {
        assert_eq!(check(&content, &content, KIB, kind, &[]), Ok(()));
        assert_eq!(check(&[], &content, KIB, kind, &[]), Ok(()));
        assert_eq!(check(&[], &[], KIB, kind, &[]), Ok(()));
        let other = vec![0; 3000];
        assert_eq!(check(&other, &content, KIB, kind, &[]), Err(ConsistencyError::NewRoot));
        // Size 0 with a root that is not the empty file's.
        let (geo, root) = (Geometry::new(0, KIB).with_kind(kind), [1; 32].into());
        let new = Geometry::new(3000, KIB).with_kind(kind);
        let got = consistency::verify((&geo, root), (&new, root), &[]);
        assert_eq!(got, Err(ConsistencyError::OldRoot));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Random steps: each checkpoint serves segments and tiles that its root proves, each is the beginning of the last,
    /// and a history with another byte is not.
    #[test]
    fn random_histories(
        steps in proptest::collection::vec(0_usize..40_000, 1..12),
        at in any::<proptest::sample::Index>(),
        sha in any::<bool>(),
    ) {
        let kind = if sha { TreeKind::Sha256 } else { TreeKind::Blake3 };
        let total: usize = steps.iter().sum();
        let content = content(total);
        let (mut tree, mut slots) = (GrowingTree::new(KIB, kind), Slots::default());
        let mut end = 0;
        for step in steps {
            tree.push(&content[end..end + step], |slot, value| slots.put(slot, value)).unwrap();
            end += step;
            let checkpoint = tree.checkpoint();
            let (geo, whole) = (*checkpoint.geometry(), Outboard::of_kind(&content[..end], KIB, kind));
            prop_assert_eq!(checkpoint.root(), whole.root());
            let index = SegmentIndex(at.index(geo.segments() as usize) as u64);
            let (mut got, mut expected) = (Vec::new(), Vec::new());
            let mut src = Overlaid(&mut slots, &checkpoint);
            segment_signature(&geo, index, &mut src, &mut got).unwrap();
            segment_signature(&geo, index, &mut whole.as_bytes(), &mut expected).unwrap();
            if let Some(tile) = geo.tile_of_segment(index) {
                tile_content(&geo, tile, &mut src, &mut got).unwrap();
                tile_signature(&geo, tile, &mut src, &mut got).unwrap();
                tile_content(&geo, tile, &mut whole.as_bytes(), &mut expected).unwrap();
                tile_signature(&geo, tile, &mut whole.as_bytes(), &mut expected).unwrap();
            }
            prop_assert_eq!(got, expected);
            let (_, proof) = proof(&content, end, KIB, kind);
            prop_assert_eq!(check(&content[..end], &content, KIB, kind, &proof), Ok(()));
            if end > 0 {
                let mut other = content[..end].to_vec();
                other[at.index(end)] ^= 1;
                prop_assert!(check(&other, &content, KIB, kind, &proof).is_err());
            }
        }
    }
}

#[test]
fn only_a_valid_proof_shows_another_beginning() {
    for kind in TreeKind::ALL {
        for (old, new) in
            [(0, 5), (1, 2), (1024, 1025), (1025, 5000), (4096, 9000), (5000, 5000), (5000, 70_000)]
        {
            let content = content(new);
            let (outboard, mut proof) = proof(&content, old, KIB, kind);
            let new = (outboard.geometry(), outboard.root());
            let geometry = Geometry::new(old as u64, KIB).with_kind(kind);
            let root = Hash::from(SlowTree::new(&content[..old], KIB, kind).root());
            let contradicts =
                |root: Hash, proof: &[u8]| consistency::contradicts((&geometry, root), new, proof);
            assert_eq!(contradicts(root, &proof), Ok(false), "{old}: it is the beginning");
            assert_eq!(contradicts([9; 32].into(), &proof), Ok(true), "{old}: it is not");
            // A proof that does not hold in the newer tree shows no contradiction.
            for bit in 0..8 * proof.len() {
                proof[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(contradicts(root, &proof), Ok(false), "bit {bit} of {old}");
                assert_eq!(contradicts([9; 32].into(), &proof), Ok(false), "bit {bit} of {old}");
                proof[bit / 8] ^= 1 << (bit % 8);
            }
            let longer = [&proof[..], &[0; NODE_LEN]].concat();
            assert!(contradicts([9; 32].into(), &longer).is_err());
        }
    }
}
