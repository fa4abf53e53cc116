//! Bursts, forks and anchors: all ways of proving segments give the same result.

use std::collections::BTreeMap;

use proptest::prelude::*;
use xylem_sim::Rng;
use xylem_tree::{
    Anchor, Culprit, Node, NodeValue, ProofError, Recording, SegmentIndex, SegmentSize, Tile,
    TreeKind, TreeVerifier,
};

mod slow;
use slow::{Holder, KIB, content, shuffled, sizes_of_segments};

type Outcome = Result<(u64, Vec<u8>), ProofError>;

fn with_tiles(holder: &Holder) -> TreeVerifier {
    let mut verifier = holder.verifier();
    for index in 0..holder.outboard.geometry().tiles(0) {
        holder.feed_tile(&mut verifier, Tile { tier: 0, index });
    }
    verifier
}

fn taken(mut verifier: TreeVerifier) -> BTreeMap<Node, NodeValue> {
    let taken = verifier.take_proven().into_inner();
    let count = taken.len();
    let map: BTreeMap<_, _> = taken.into_iter().collect();
    assert_eq!(map.len(), count, "no node twice");
    map
}

/// Segments in some order, some of them damaged, some repeated.
fn packets(holder: &Holder, rng: &mut Rng, hostile: bool) -> Vec<(u64, Vec<u8>, Vec<u8>)> {
    let n = holder.segments();
    let mut order = if rng.below(2) == 0 { (0..n).collect() } else { shuffled(rng, n) };
    let again = rng.below(n);
    order.insert(rng.below(order.len() as u64) as usize, again);
    let packet = |i: u64| {
        let (mut bytes, mut proof) = (holder.bytes(i).to_vec(), holder.signature(i));
        if hostile && rng.below(4) == 0 {
            let part = if rng.below(3) == 0 { &mut bytes } else { &mut proof };
            match rng.below(4) {
                0 => part.truncate(rng.below(part.len() as u64) as usize),
                1 => part.push(0),
                _ if part.is_empty() => {}
                _ => {
                    let at = rng.below(part.len() as u64) as usize;
                    part[at] ^= 1 << rng.below(8);
                }
            }
        }
        (if hostile && rng.below(9) == 0 { n } else { i }, bytes, proof)
    };
    order.into_iter().map(packet).collect()
}

fn one_by_one(verifier: &mut TreeVerifier, packets: &[(u64, Vec<u8>, Vec<u8>)]) -> Vec<Outcome> {
    let prove = |(i, bytes, proof): &(u64, Vec<u8>, Vec<u8>)| {
        let segment = verifier.segment(SegmentIndex(*i), bytes, proof)?;
        Ok((segment.offset, segment.content.clone()))
    };
    packets.iter().map(prove).collect()
}

fn in_bursts(
    verifier: &mut TreeVerifier,
    packets: &[(u64, Vec<u8>, Vec<u8>)],
    burst: usize,
) -> Vec<Outcome> {
    let mut out = Vec::new();
    for packets in packets.chunks(burst) {
        let items = packets.iter().map(|(i, bytes, proof)| (SegmentIndex(*i), bytes, &proof[..]));
        verifier.segments(items, &mut out);
    }
    out.into_iter().map(|o| o.map(|s| (s.offset, s.content.clone()))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn bursts_equal_single_segments(
        n in 1u64..200,
        cut in 0usize..1024,
        log in 0u8..4,
        burst in 1usize..70,
        seed: u64,
        sha256: bool,
        hostile: bool,
    ) {
        let segment = sizes_of_segments()[usize::from(log)];
        let kind = TreeKind::ALL[usize::from(sha256)];
        let holder = Holder::of_kind(content(n as usize * segment.bytes() - cut), segment, kind);
        let packets = packets(&holder, &mut Rng::new(seed), hostile);
        let (mut single, mut burst_wise) = (with_tiles(&holder), with_tiles(&holder));
        if seed % 3 == 0 {
            single = holder.verifier(); // nearly everything needs a tile
            burst_wise = holder.verifier();
        }
        let expected = one_by_one(&mut single, &packets);
        prop_assert_eq!(&in_bursts(&mut burst_wise, &packets, burst), &expected);
        if !hostile {
            let full: Vec<u64> = (0..n).collect();
            let in_order = packets.iter().map(|p| p.0).filter(|i| full.contains(i)).is_sorted();
            // In order, no path is computed twice.
            let once = single.nodes_hashed();
            prop_assert!(burst_wise.nodes_hashed() >= once);
            prop_assert!(!in_order || burst_wise.nodes_hashed() == once);
        }
        prop_assert_eq!(taken(burst_wise), taken(single));
    }

    /// Each fork proves some of the segments; together they have proven, and recorded, the file.
    #[test]
    fn forks_together_equal_one_verifier(
        n in 1u64..300,
        cut in 0usize..1024,
        seed: u64,
        sha256: bool,
        early: bool,
    ) {
        let kind = TreeKind::ALL[usize::from(sha256)];
        let holder = Holder::of_kind(content(n as usize * 1024 - cut), KIB, kind);
        let mut verifier = with_tiles(&holder);
        let mut rng = Rng::new(seed);
        let mut forks: Vec<TreeVerifier> = (0..3).map(|_| verifier.fork()).collect();
        for i in shuffled(&mut rng, n) {
            let which = rng.below(4) as usize;
            let who = forks.get_mut(which).unwrap_or(&mut verifier);
            holder.feed(who, i).unwrap();
            if early && rng.below(9) == 0 {
                let fork = verifier.fork();
                let mut done = std::mem::replace(&mut forks[rng.below(3) as usize], fork);
                prop_assert!(verifier.absorb(&mut done));
            }
        }
        for mut fork in forks {
            prop_assert!(verifier.absorb(&mut fork));
            prop_assert!(fork.take_proven().is_empty());
        }
        let mut alone = with_tiles(&holder);
        (0..n).for_each(|i| holder.feed(&mut alone, i).unwrap());
        prop_assert_eq!(verifier.held_bytes() > 0, true);
        prop_assert_eq!(taken(verifier), taken(alone));
    }
}

#[test]
fn a_fork_of_another_object_is_not_absorbed() {
    let (one, other) = (Holder::new(content(4096), KIB), Holder::new(vec![0; 4096], KIB));
    let mut verifier = one.verifier();
    let mut fork = other.verifier().fork();
    other.feed(&mut fork, 1).unwrap();
    assert!(!verifier.absorb(&mut fork));
    assert_eq!(fork.take_proven().len(), 4, "it is as it was");
    let sha256 = Holder::of_kind(content(4096), KIB, TreeKind::Sha256);
    assert!(!verifier.absorb(&mut sha256.verifier()));
    assert_eq!(taken(verifier).len(), 1);
}

/// Absorbed nodes obey the verifier's own setting of recording, and what it has forgotten.
#[test]
fn absorbing_does_not_restore_forgotten_nodes() {
    let holder = Holder::new(content(64 * 1024), KIB);
    let mut verifier = with_tiles(&holder);
    let mut fork = verifier.fork();
    (0..64).for_each(|i| holder.feed(&mut fork, i).unwrap());
    verifier.forget_complete(0..32);
    verifier.set_recording(Recording::Off);
    let before = verifier.held_bytes();
    assert!(verifier.absorb(&mut fork));
    assert!(verifier.take_proven().is_empty());
    assert!(verifier.held_bytes() > before);
    assert!(verifier.value(Node::leaf(SegmentIndex(40))).is_some());
    assert!(verifier.value(Node::leaf(SegmentIndex(4))).is_none());
}

/// Proves any segment on any thread from the tiles' nodes alone.
#[test]
fn anchors_prove_segments_on_any_thread() {
    for kind in TreeKind::ALL {
        for n in [1, 2, 7, 8, 9, 20, 2049, 2060] {
            let holder = Holder::of_kind(content(n * 1024 - 100), KIB, kind);
            let verifier = with_tiles(&holder);
            let anchors: Vec<Anchor> =
                (0..n as u64).map(|i| verifier.anchor(SegmentIndex(i)).unwrap()).collect();
            std::thread::scope(|threads| {
                for part in 0..2 {
                    let (anchors, holder) = (&anchors, &holder);
                    threads.spawn(move || {
                        for i in (0..n as u64).filter(|i| i % 2 == part) {
                            check_anchor(holder, &anchors[i as usize], i);
                        }
                    });
                }
            });
            assert!(verifier.anchor(SegmentIndex(n as u64)).is_none());
        }
    }
}

fn check_anchor(holder: &Holder, anchor: &Anchor, i: u64) {
    let (at, bytes, proof) = (SegmentIndex(i), holder.bytes(i), holder.signature(i));
    assert_eq!(anchor.segment(at, bytes, &proof).unwrap().content, bytes);
    assert!(anchor.segment(SegmentIndex(holder.segments()), bytes, &proof).is_err());
    for len in [0, 31, proof.len() - 1, proof.len() + 32] {
        let mut wrong = proof.clone();
        wrong.resize(len, 0);
        let expected = ProofError::ProofLength { expected: proof.len(), got: len };
        assert_eq!(anchor.segment(at, bytes, &wrong).unwrap_err(), expected);
    }
    let got = anchor.segment(at, &bytes[1..], &proof).unwrap_err();
    assert_eq!(got, ProofError::WrongLength { expected: bytes.len(), got: bytes.len() - 1 });
    let mut bad = bytes.to_vec();
    bad[0] ^= 1;
    assert_eq!(anchor.segment(at, bad, &proof).unwrap_err(), ProofError::LeafMismatch(at));
    let elsewhere = (i + 8) % holder.segments();
    if elsewhere / 8 != i / 8 && holder.segments() > 8 {
        let proof = holder.signature(elsewhere);
        let got = anchor.segment(SegmentIndex(elsewhere), holder.bytes(elsewhere), &proof);
        assert_eq!(got.unwrap_err().culprit(), Culprit::Neither, "its proof ends elsewhere");
    }
}

#[test]
fn an_unproven_segment_has_no_anchor() {
    let holder = Holder::new(content(20 * 8192), SegmentSize::DEFAULT);
    assert!(holder.verifier().anchor(SegmentIndex(3)).is_none());
    assert!(with_tiles(&holder).anchor(SegmentIndex(3)).is_some());
}
