//! Tests what the verifier accepts, in which order, and what it keeps.

use std::collections::BTreeMap;

use proptest::prelude::*;
use xylem_sim::Rng;
use xylem_tree::{
    Culprit, Geometry, Node, NodeValue, ProofError, Recording, SegmentIndex, SegmentSize, Tile,
    TreeKind, TreeVerifier,
};

mod slow;
use slow::{Holder, KIB, content, shuffled, sizes_of_segments};

/// Every node of the holder's outboard, to compare with `take_proven`.
fn all_nodes(holder: &Holder) -> BTreeMap<Node, NodeValue> {
    let geo = holder.outboard.geometry();
    (0..=geo.levels())
        .flat_map(|level| (0..geo.count(level)).map(move |index| Node { level, index }))
        .filter(|node| geo.node_exists(*node))
        .map(|node| (node, holder.outboard.node(node).unwrap()))
        .collect()
}

/// Takes the proven nodes into `into`; fails if a node comes twice.
fn take(verifier: &mut TreeVerifier, into: &mut BTreeMap<Node, NodeValue>) {
    for (node, value) in verifier.take_proven().into_inner() {
        assert_eq!(into.insert(node, value), None, "{node} was taken twice");
    }
}

#[test]
fn every_segment_verifies_in_order_and_backwards() {
    for kind in TreeKind::ALL {
        for segment in sizes_of_segments() {
            let unit = segment.bytes();
            for n in (1..=33).chain([63, 64, 65, 72, 73, 129]) {
                for size in [n * unit, n * unit - 1, (n - 1) * unit + 1] {
                    let holder = Holder::of_kind(content(size), segment, kind);
                    let (mut up, mut down) = (holder.verifier(), holder.verifier());
                    for i in 0..holder.segments() {
                        holder.feed(&mut up, i).unwrap();
                        holder.feed(&mut down, holder.segments() - 1 - i).unwrap();
                    }
                    for mut verifier in [up, down] {
                        let mut taken = BTreeMap::new();
                        take(&mut verifier, &mut taken);
                        assert_eq!(taken, all_nodes(&holder), "{size} bytes: what the disk needs");
                        assert_eq!(
                            verifier.nodes_hashed(),
                            holder.segments() - 1,
                            "each node once"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn an_empty_file_is_one_empty_segment() {
    for kind in TreeKind::ALL {
        let holder = Holder::of_kind(vec![], SegmentSize::DEFAULT, kind);
        let mut verifier = holder.verifier();
        holder.feed(&mut verifier, 0).unwrap();
        let i = SegmentIndex(0);
        let wrong = ProofError::WrongLength { expected: 0, got: 1 };
        assert_eq!(verifier.segment(i, [0], &holder.signature(0)).unwrap_err(), wrong);
    }
}

#[test]
fn a_duplicate_costs_no_inner_hash() {
    let holder = Holder::new(content(40 * 1024), KIB);
    let mut verifier = holder.verifier();
    (0..40).for_each(|i| holder.feed(&mut verifier, i).unwrap());
    holder.feed_tile(&mut verifier, Tile { tier: 0, index: 0 });
    (0..40).for_each(|i| holder.feed(&mut verifier, i).unwrap());
    assert_eq!(verifier.nodes_hashed(), 39);
}

#[test]
fn a_segment_without_its_tile_waits() {
    let holder = Holder::new(content(2049 * 1024), KIB);
    let mut verifier = holder.verifier();
    let before = verifier.held_bytes();
    for i in [0, 2047, 2048] {
        let got = verifier.segment(SegmentIndex(i), holder.bytes(i), &holder.signature(i));
        let error = got.unwrap_err();
        assert_eq!(error, ProofError::NeedTile(Tile { tier: 0, index: i / 2048 }));
        assert_eq!(error.culprit(), Culprit::Neither);
    }
    assert_eq!(verifier.held_bytes(), before);
    [2048, 0, 2047].into_iter().for_each(|i| holder.feed(&mut verifier, i).unwrap());
}

#[test]
fn wrong_lengths_are_refused() {
    for kind in TreeKind::ALL {
        let holder = Holder::of_kind(content(20 * 1024 + 5), KIB, kind);
        let mut verifier = holder.verifier();
        let tile = Tile { tier: 0, index: 0 };
        let (bytes, signature) = holder.tile(tile);
        for len in (0..=signature.len() + 33).filter(|len| *len != signature.len()) {
            let mut wrong = signature.clone();
            wrong.resize(len, 0);
            let expected = ProofError::ProofLength { expected: signature.len(), got: len };
            assert_eq!(verifier.tile(tile, &bytes, &wrong), Err(expected));
            assert_eq!(expected.culprit(), Culprit::Sender);
        }
        for len in (0..=bytes.len() + 33).filter(|len| *len != bytes.len()) {
            let mut wrong = bytes.clone();
            wrong.resize(len, 0);
            let expected = ProofError::WrongLength { expected: bytes.len(), got: len };
            assert_eq!(verifier.tile(tile, &wrong, &signature), Err(expected));
        }
        verifier.tile(tile, &bytes, &signature).unwrap();
        for i in [0, 15, 16, 20] {
            let (bytes, signature, at) = (holder.bytes(i), holder.signature(i), SegmentIndex(i));
            for len in (0..=signature.len() + 33).filter(|len| *len != signature.len()) {
                let mut wrong = signature.clone();
                wrong.resize(len, 0);
                let expected = ProofError::ProofLength { expected: signature.len(), got: len };
                assert_eq!(verifier.segment(at, bytes, &wrong).unwrap_err(), expected);
            }
            for len in [0, 1, bytes.len() - 1, bytes.len() + 1, 1025] {
                let mut wrong = bytes.to_vec();
                wrong.resize(len, 0);
                let expected = ProofError::WrongLength { expected: bytes.len(), got: len };
                assert_eq!(verifier.segment(at, wrong, &signature).unwrap_err(), expected);
            }
        }
    }
}

#[test]
fn missing_segments_and_tiles_are_out_of_range() {
    let holder = Holder::new(content(20 * 1024), KIB);
    let mut verifier = holder.verifier();
    for i in [20, 21, u64::MAX] {
        let got = verifier.segment(SegmentIndex(i), holder.bytes(0), &holder.signature(0));
        assert_eq!(got.unwrap_err(), ProofError::OutOfRange);
        assert_eq!(verifier.value(Node::leaf(SegmentIndex(i))), None);
        assert!(!verifier.is_complete(SegmentIndex(i)));
    }
    for (tier, index) in [(0, 1), (0, u64::MAX), (1, 0), (255, 0), (255, u64::MAX)] {
        let got = verifier.tile(Tile { tier, index }, &[], &[]);
        assert_eq!(got, Err(ProofError::OutOfRange));
    }
    let value = NodeValue([1; 32]);
    for (level, index) in [(0, 0), (0, 99), (2, 9), (6, 0), (255, u64::MAX)] {
        let got = verifier.adopt_children(Node { level, index }, value, value);
        assert_eq!(got, Err(ProofError::OutOfRange));
        assert_eq!(verifier.value(Node { level, index }), None);
    }
}

#[test]
fn a_batch_equals_single_segments() {
    for kind in TreeKind::ALL {
        let holder = Holder::of_kind(content(30 * 1024), KIB, kind);
        let mut verifier = holder.verifier();
        let signatures: Vec<_> = (0..30).map(|i| holder.signature(i)).collect();
        let item = |i: u64| (SegmentIndex(i), holder.bytes(i), &signatures[i as usize][..]);
        let mut out = Vec::new();
        verifier.segments([item(3)], &mut out);
        holder.feed_tile(&mut verifier, Tile { tier: 0, index: 0 });
        let mut bad = holder.bytes(5).to_vec();
        bad[9] ^= 1;
        let crooked = (SegmentIndex(5), &bad[..], &signatures[5][..]);
        let absent = (SegmentIndex(30), holder.bytes(0), &signatures[0][..]);
        verifier.segments([item(29), crooked, absent, item(3), item(4), item(5)], &mut out);
        let outcomes: Vec<_> = out.into_iter().map(|o| o.map(|s| (s.index.0, s.content))).collect();
        let expected = vec![
            Err(ProofError::NeedTile(Tile { tier: 0, index: 0 })),
            Ok((29, holder.bytes(29))),
            Err(ProofError::LeafMismatch(SegmentIndex(5))),
            Err(ProofError::OutOfRange),
            Ok((3, holder.bytes(3))),
            Ok((4, holder.bytes(4))),
            Ok((5, holder.bytes(5))),
        ];
        assert_eq!(outcomes, expected);
    }
}

#[test]
fn nothing_is_recorded_with_recording_off() {
    let holder = Holder::new(content(30 * 1024), KIB);
    let mut verifier = holder.verifier();
    verifier.set_recording(Recording::Off);
    (0..15).for_each(|i| holder.feed(&mut verifier, i).unwrap());
    assert!(verifier.take_proven().is_empty());
    verifier.set_recording(Recording::On);
    holder.feed(&mut verifier, 16).unwrap();
    assert!(!verifier.take_proven().is_empty());
}

/// A duplicate of a forgotten segment is not the sender's fault, and stays forgotten.
#[test]
fn a_duplicate_of_a_forgotten_segment_is_not_the_senders_fault() {
    for n in [1u64, 2, 7, 8, 9, 64, 65, 2049, 2050] {
        let holder = Holder::new(content(n as usize * 1024), KIB);
        let mut verifier = holder.verifier();
        (0..n).for_each(|i| holder.feed(&mut verifier, i).unwrap());
        let mut taken = BTreeMap::new();
        take(&mut verifier, &mut taken);
        assert!(!is_all_complete(&verifier));
        verifier.forget_complete(0..n);
        assert!(is_all_complete(&verifier));
        assert_eq!(verifier.held_bytes(), 0, "{n} segments");
        for i in 0..n {
            assert!(verifier.is_complete(SegmentIndex(i)));
            match holder.feed(&mut verifier, i) {
                Ok(()) => assert_eq!(n, 1, "the root itself is never forgotten"),
                Err(error) => {
                    assert_eq!(error, ProofError::AlreadyComplete);
                    assert_eq!(error.culprit(), Culprit::Neither);
                }
            }
        }
        for index in 0..holder.outboard.geometry().tiles(0) {
            let tile = Tile { tier: 0, index };
            let (bytes, signature) = holder.tile(tile);
            let got = verifier.tile(tile, &bytes, &signature);
            assert!(matches!(got, Ok(()) | Err(ProofError::AlreadyComplete)), "{got:?}");
        }
        take(&mut verifier, &mut taken);
        assert_eq!(taken, all_nodes(&holder));
        assert_eq!(verifier.held_bytes(), 0, "{n} segments: nothing comes back");
    }
}

/// A part of the file is done; valid and invalid duplicates come from around its edge.
#[test]
fn forgetting_does_not_make_anything_acceptable() {
    let n = 100;
    let holder = Holder::new(content(n as usize * 1024), KIB);
    let mut verifier = holder.verifier();
    (0..n).for_each(|i| holder.feed(&mut verifier, i).unwrap());
    verifier.forget_complete(0..66);
    verifier.forget_complete(70..71);
    for i in 0..n {
        let mut bad = holder.bytes(i).to_vec();
        bad[i as usize] ^= 0x10;
        let got = verifier.segment(SegmentIndex(i), bad, &holder.signature(i)).unwrap_err();
        if i < 64 {
            assert_eq!(got, ProofError::AlreadyComplete);
        } else {
            assert_eq!(got, ProofError::LeafMismatch(SegmentIndex(i)), "not forgotten yet");
            holder.feed(&mut verifier, i).unwrap();
        }
    }
}

/// A bitmap of an earlier run is reported before anything is proven here.
#[test]
fn segments_may_be_complete_before_anything_is_known() {
    let n = 5000;
    let holder = Holder::new(content(n as usize * 1024), KIB);
    let mut verifier = holder.verifier();
    verifier.forget_complete(0..2048);
    verifier.forget_complete(2050..4999);
    assert!(verifier.held_bytes() < 10_000, "{}", verifier.held_bytes());
    for i in [0, 2047, 2050, 4998] {
        assert_eq!(holder.feed(&mut verifier, i), Err(ProofError::AlreadyComplete));
    }
    [2048, 2049, 4999].into_iter().for_each(|i| holder.feed(&mut verifier, i).unwrap());
    verifier.forget_complete(2048..2050);
    assert!(!is_all_complete(&verifier));
    verifier.forget_complete(4999..u64::MAX);
    assert!(is_all_complete(&verifier));
    let _ = verifier.take_proven();
    assert_eq!(verifier.held_bytes(), 0);
}

#[test]
fn a_sequential_fetch_holds_little() {
    let n = 3 * 2048 + 5;
    let holder = Holder::new(content(n as usize * 1024), KIB);
    let mut verifier = holder.verifier();
    let mut most = 0;
    for i in 0..n {
        holder.feed(&mut verifier, i).unwrap();
        let _ = verifier.take_proven();
        verifier.forget_complete(i.saturating_sub(64)..(i + 1).saturating_sub(64));
        most = most.max(verifier.held_bytes());
    }
    // One tile (255 pairs and the nodes above) and the window's blocks.
    assert!(most < 40_000, "{most} bytes held");
}

/// Adopts all pairs from the lowest proven node down to a segment's leaf, from an outboard.
fn adopt_path(
    verifier: &mut TreeVerifier,
    at: SegmentIndex,
    disk: &[u8],
) -> Result<(), ProofError> {
    let geo = *verifier.geometry();
    let read =
        |node: Node| NodeValue::from_slice(&disk[node.slot() as usize * 32..][..32]).unwrap();
    let mut node = Node::leaf(at);
    let mut unproven = Vec::new();
    while verifier.value(node).is_none() {
        node = geo.parent(node).unwrap();
        unproven.push(node);
    }
    unproven.into_iter().rev().try_for_each(|parent| {
        let (left, right) = geo.children(parent).unwrap();
        verifier.adopt_children(parent, read(left), read(right))
    })
}

/// Whether all segments were reported complete.
fn is_all_complete(verifier: &TreeVerifier) -> bool {
    (0..verifier.geometry().segments()).all(|i| verifier.is_complete(SegmentIndex(i)))
}

#[test]
fn resumes_from_disk_and_completes() {
    for kind in TreeKind::ALL {
        let n = 300;
        let holder = Holder::of_kind(content(n as usize * 1024), KIB, kind);
        let mut first = holder.verifier();
        let mut disk = vec![0; holder.outboard.as_bytes().len()];
        let had: Vec<u64> = shuffled(&mut Rng::new(5), n).into_iter().take(100).collect();
        let mut taken = BTreeMap::new();
        had.iter().for_each(|i| holder.feed(&mut first, *i).unwrap());
        take(&mut first, &mut taken);
        for (node, value) in &taken {
            disk[node.slot() as usize * 32..][..32].copy_from_slice(&value.0);
        }

        let mut resumed = holder.verifier();
        for i in 0..n {
            let at = SegmentIndex(i);
            let adopted = adopt_path(&mut resumed, at, &disk);
            if had.contains(&i) {
                adopted.unwrap();
                let leaf = Node::leaf(at);
                assert_eq!(resumed.value(leaf), holder.outboard.node(leaf));
                let mut rotten = holder.bytes(i).to_vec();
                rotten[100] ^= 4;
                let got = resumed.segment(at, rotten, &holder.signature(i)).unwrap_err();
                assert_eq!(got, ProofError::LeafMismatch(at));
            } else if let Err(e) = adopted {
                assert!(matches!(e, ProofError::NotProven(_)));
            }
        }
        assert_eq!(resumed.take_proven().len(), 1, "what is on disk is not recorded, but the root");
        (0..n).for_each(|i| holder.feed(&mut resumed, i).unwrap());
        for (node, value) in resumed.take_proven().into_inner() {
            assert_eq!(taken.insert(node, value), None, "{node} was on disk already");
        }
        taken.insert(holder.outboard.geometry().root(), NodeValue::from(holder.outboard.root()));
        assert_eq!(taken, all_nodes(&holder));
    }
}

#[test]
fn a_damaged_outboard_is_not_adopted() {
    for kind in TreeKind::ALL {
        let holder = Holder::of_kind(content(50 * 1024), KIB, kind);
        let geo = *holder.outboard.geometry();
        for slot in 0..geo.slots() as usize {
            for bit in [0, 255] {
                let mut disk = holder.outboard.as_bytes().to_vec();
                disk[slot * 32 + bit / 8] ^= 1 << (bit % 8);
                let mut verifier = holder.verifier();
                let mut refused = 0;
                for i in 0..50 {
                    let at = SegmentIndex(i);
                    refused += u64::from(adopt_path(&mut verifier, at, &disk).is_err());
                    if let Some(adopted) = verifier.value(Node::leaf(at)) {
                        assert_eq!(Some(adopted), holder.outboard.node(Node::leaf(at)));
                    }
                }
                let root = slot as u64 == geo.root().slot(); // the root is not read from there
                assert_eq!(refused > 0, !root, "slot {slot}");
            }
        }
    }
}

#[test]
fn adopted_children_are_checked_against_their_parent() {
    let holder = Holder::new(content(4 * 1024), KIB);
    let mut verifier = holder.verifier();
    let at = |level, index| Node { level, index };
    let value = |level, index| holder.outboard.node(at(level, index)).unwrap();
    let (l, r) = (value(1, 0), value(1, 1));
    let below = verifier.adopt_children(at(1, 0), value(0, 0), value(0, 1));
    assert_eq!(below, Err(ProofError::NotProven(at(1, 0))));
    let swapped = verifier.adopt_children(at(2, 0), r, l);
    assert_eq!(swapped, Err(ProofError::NodeMismatch(at(2, 0))));
    let missing = verifier.adopt_children(at(2, 0), l, NodeValue::UNKNOWN);
    assert_eq!(missing, Err(ProofError::NotProven(at(1, 1))));
    verifier.adopt_children(at(2, 0), l, r).unwrap();
    verifier.adopt_children(at(2, 0), l, r).unwrap();
    let swapped = verifier.adopt_children(at(2, 0), r, l);
    assert_eq!(swapped, Err(ProofError::NodeMismatch(at(2, 0))));
    verifier.adopt_children(at(1, 0), value(0, 0), value(0, 1)).unwrap();
    assert_eq!(verifier.value(at(0, 1)), Some(value(0, 1)));
    assert_eq!(verifier.value(at(0, 2)), None);
}

/// Adopting forgotten nodes reopens them, and reporting their segments again drops them.
#[test]
fn forgotten_nodes_can_be_adopted_again() {
    let n = 300;
    let holder = Holder::new(content(n as usize * 1024), KIB);
    let mut verifier = holder.verifier();
    verifier.forget_complete(0..n);
    for i in [0, 7, 8, 150, 299] {
        let at = SegmentIndex(i);
        adopt_path(&mut verifier, at, holder.outboard.as_bytes()).unwrap();
        assert_eq!(verifier.value(Node::leaf(at)), holder.outboard.node(Node::leaf(at)));
        assert!(verifier.is_complete(at), "it is still on disk");
        holder.feed(&mut verifier, i).unwrap();
    }
    assert!(verifier.held_bytes() > 1000);
    for i in [0, 8, 150, 299] {
        verifier.forget_complete(i..i + 1);
    }
    assert!(is_all_complete(&verifier));
    let _ = verifier.take_proven();
    assert_eq!(verifier.held_bytes(), 0);
}

fn kinds() -> impl Strategy<Value = TreeKind> {
    prop_oneof![Just(TreeKind::Blake3), Just(TreeKind::Sha256)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any order, with duplicates and forgetting at any time: each segment verifies, each node is recorded once, and
    /// nothing is held at the end.
    #[test]
    fn any_order_with_forgetting(n in 1u64..700, cut in 1usize..1024, seed: u64, eager: bool, kind in kinds()) {
        let holder = Holder::of_kind(content(n as usize * 1024 - cut % 1024), KIB, kind);
        let mut verifier = holder.verifier();
        let mut rng = Rng::new(seed);
        let mut taken = BTreeMap::new();
        let mut verified = vec![false; n as usize];
        let mut complete = vec![false; n as usize];
        for i in shuffled(&mut rng, n) {
            prop_assert_eq!(holder.feed(&mut verifier, i), Ok(()));
            verified[i as usize] = true;
            if eager || rng.below(20) == 0 {
                let from = if eager { i } else { rng.below(n) };
                let len = verified[from as usize..].iter().take_while(|v| **v).count();
                let len = if eager { 1 } else { len };
                verifier.forget_complete(from..from + len as u64);
                complete[from as usize..][..len].fill(true);
            }
            if rng.below(10) == 0 {
                take(&mut verifier, &mut taken);
                let again = rng.below(n);
                if verified[again as usize] {
                    let outcome = holder.feed(&mut verifier, again);
                    let forgotten = outcome == Err(ProofError::AlreadyComplete);
                    prop_assert!(outcome.is_ok() || forgotten && complete[again as usize]);
                }
            }
            let at = rng.below(n);
            prop_assert_eq!(verifier.is_complete(SegmentIndex(at)), complete[at as usize]);
        }
        take(&mut verifier, &mut taken);
        prop_assert_eq!(taken, all_nodes(&holder));
        verifier.forget_complete(0..n);
        prop_assert!(is_all_complete(&verifier));
        prop_assert_eq!(verifier.held_bytes(), 0);
    }
}

/// The verifier's object is determined by its caller alone.
#[test]
fn a_verifier_reports_its_object() {
    let root = xylem_hash::hash(b"x");
    let geo = Geometry::new(1, SegmentSize::DEFAULT);
    let verifier = TreeVerifier::new(geo, root);
    assert_eq!((verifier.root(), *verifier.geometry()), (root, geo));
    assert!(format!("{verifier:?}").contains("Verifier"));
}
