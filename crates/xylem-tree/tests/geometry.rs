//! Compares the arithmetic with counting by hand on small trees, and checks that it is total on all others.

use std::collections::BTreeSet;

use xylem_tree::{Geometry, Node, SegmentIndex, SegmentSize, Tile};

mod slow;
use slow::{KIB, sizes_of_segments};

fn geo(segments: u64) -> Geometry {
    Geometry::new(segments * 1024, KIB)
}

/// 0, 1, and k-1, k, k+1 for every unit k of the tree, up to the largest size.
fn boundary_sizes(segment: SegmentSize) -> Vec<u64> {
    let mut sizes = BTreeSet::from([0, 1, u64::MAX, u64::MAX / 2, u64::MAX / 2 - 1]);
    let unit = segment.bytes() as u64;
    for power in 0..64 {
        for factor in [1u64, 2, 3, 5, 255, 257] {
            for base in [1, 1024, unit] {
                let Some(at) = base.checked_mul(factor).and_then(|x| x.checked_mul(1 << power))
                else {
                    continue;
                };
                sizes.extend([at - 1, at, at.saturating_add(1)]);
            }
        }
    }
    sizes.into_iter().collect()
}

#[test]
fn a_node_is_real_exactly_where_its_right_half_exists() {
    for n in 1..=70 {
        let geo = geo(n);
        let mut slots = BTreeSet::new();
        for level in 0..=8 {
            assert_eq!(geo.count(level), n.div_ceil(1 << level));
            for index in 0..=n {
                let node = Node { level, index };
                let (first, middle) = (index << level, (index << level) + (1 << level) / 2);
                let inside = level <= geo.levels() && first < n;
                let real = inside && (level == 0 || middle < n);
                assert_eq!(geo.node_exists(node), real, "{node} of {n}");
                assert_eq!(geo.real(node).is_some(), inside, "{node} of {n}");
                assert_eq!(geo.real(node) == Some(node), real, "{node} of {n}");
                if !inside {
                    assert_eq!(geo.parent(node), None);
                    assert_eq!(geo.sibling(node), None);
                    assert!(geo.node_segments(node).is_empty());
                    continue;
                }
                let end = n.min(first + (1 << level));
                assert_eq!(geo.node_segments(node), first..end, "{node} of {n}");
                if real {
                    assert!(slots.insert(node.slot()), "{node} of {n} has a slot of its own");
                }
            }
        }
        assert_eq!(slots, (0..geo.slots()).collect(), "no slot of {n} segments is empty");
        assert_eq!(geo.slots(), 2 * n - 1);
    }
}

#[test]
fn parents_children_and_siblings_agree() {
    for n in 1..=70 {
        let geo = geo(n);
        for level in 0..=geo.levels() {
            for index in 0..geo.count(level) {
                let node = Node { level, index };
                let Some((left, right)) = geo.children(node) else {
                    assert!(level == 0 || !geo.node_exists(node));
                    continue;
                };
                assert!(geo.node_exists(left) && geo.node_exists(right));
                assert_eq!((geo.parent(left), geo.parent(right)), (Some(node), Some(node)));
                assert_eq!((geo.sibling(left), geo.sibling(right)), (Some(right), Some(left)));
                let (l, r) = (geo.node_segments(left), geo.node_segments(right));
                assert_eq!((l.start, l.end, r.end), {
                    let all = geo.node_segments(node);
                    (all.start, r.start, all.end)
                });
            }
        }
        assert_eq!((geo.parent(geo.root()), geo.sibling(geo.root())), (None, None));
        assert!(geo.node_exists(geo.root()));
    }
}

#[test]
fn segments_tile_the_file() {
    for segment in sizes_of_segments() {
        let bytes = segment.bytes() as u64;
        for size in boundary_sizes(segment) {
            let geo = Geometry::new(size, segment);
            let n = geo.segments();
            assert_eq!(n, if size == 0 { 1 } else { (size - 1) / bytes + 1 });
            for i in [0, 1, n / 2, n - 1] {
                let range = geo.segment_range(SegmentIndex(i));
                assert_eq!(range.start, (i * bytes).min(size));
                assert_eq!(
                    range.end,
                    (u128::from(i + 1) * u128::from(bytes)).min(size.into()) as u64
                );
                assert_eq!(geo.segment_len(SegmentIndex(i)) as u64, range.end - range.start);
            }
            assert_eq!(geo.segment_range(geo.last_segment()).end, size);
            for past in [n, n + 1, u64::MAX] {
                assert_eq!(geo.segment_range(SegmentIndex(past)), size..size);
                assert!(!geo.has_segment(SegmentIndex(past)));
            }
            assert_eq!(geo.segments_of(0..size), if size == 0 { 0..0 } else { 0..n });
            assert_eq!(geo.segments_of(0..u64::MAX), if size == 0 { 0..0 } else { 0..n });
            assert_eq!(geo.segments_of(size..u64::MAX), 0..0);
            if size > 1 {
                assert_eq!(geo.segments_of(size - 1..size), n - 1..n);
                assert_eq!(geo.segments_of(0..1), 0..1);
                assert!(geo.segments_of(1..1).is_empty());
            }
        }
    }
}

#[test]
fn a_range_takes_in_the_segments_it_touches() {
    let geo = Geometry::new(10_000, KIB);
    assert_eq!(geo.segments_of(1023..1024), 0..1);
    assert_eq!(geo.segments_of(1024..1025), 1..2);
    assert_eq!(geo.segments_of(1023..1025), 0..2);
    assert_eq!(geo.segments_of(9_999..10_000), 9..10);
    let backwards = core::ops::Range { start: 5, end: 4 };
    assert_eq!(geo.segments_of(backwards), 0..0);
}

/// Every question about any node, segment or tile of any size has an answer.
#[test]
fn nothing_panics_or_overflows() {
    for segment in sizes_of_segments() {
        for size in boundary_sizes(segment) {
            let geo = Geometry::new(size, segment);
            let n = geo.segments();
            assert_eq!(geo.count(geo.levels()), 1);
            assert!(geo.levels() == 0 || geo.count(geo.levels() - 1) == 2);
            assert_eq!(geo.node_segments(geo.root()), 0..n);
            for level in [0, 1, 2, 3, 4, 11, 18, 26, 33, 48, 53, 54, 55, 63, 64, 65, 255] {
                let count = geo.count(level);
                for index in [0, 1, count - 1, count, u64::MAX / 2, u64::MAX] {
                    let node = Node { level, index };
                    let _ = (node.slot(), geo.sibling(node), geo.node_segments(node));
                    if let Some(real) = geo.real(node) {
                        assert!(real.slot() < geo.slots(), "{node} of {size} bytes");
                        assert_eq!(geo.parent(real).is_none(), real == geo.root());
                    }
                    if let Some((left, right)) = geo.children(node) {
                        assert_eq!(geo.parent(left), Some(node));
                        assert_eq!(geo.parent(right), Some(node));
                    }
                }
            }
            for i in [0, n / 2, n - 1, n, u64::MAX] {
                check_path(&geo, SegmentIndex(i));
            }
            for tier in [0, 1, 2, 3, 4, 5, 17, 18, 255] {
                for index in [0, geo.tiles(tier), u64::MAX] {
                    let tile = Tile { tier, index };
                    assert_eq!(geo.tile_top(tile).is_some(), geo.has_tile(tile));
                    assert_eq!(geo.tile_nodes(tile).1.is_empty(), !geo.has_tile(tile));
                    let _ = (geo.tile_above(tile), geo.tile_proof(tile).count());
                }
            }
        }
    }
}

/// From a segment up: every proof ends where the next tile begins, and the last ends at the root.
fn check_path(geo: &Geometry, i: SegmentIndex) {
    let siblings = geo.segment_proof(i).count();
    if !geo.has_segment(i) {
        assert_eq!((siblings, geo.tile_of_segment(i)), (0, None));
        return;
    }
    assert!(siblings <= 3);
    let mut level = 3;
    let mut next = geo.tile_of_segment(i);
    let mut tier = 0;
    while let Some(tile) = next {
        assert_eq!(tile.tier, tier);
        assert!(geo.has_tile(tile));
        let (base, nodes) = geo.tile_nodes(tile);
        assert_eq!(base, level, "proofs end at the base of the tile above");
        assert!(nodes.contains(&(i.0 >> base)), "the tile is over the segment");
        assert!((1..=256).contains(&(nodes.end - nodes.start)));
        let top = geo.tile_top(tile).unwrap();
        assert!(geo.node_segments(top).contains(&i.0));
        assert!(geo.tile_proof(tile).count() <= 7);
        level = base + 15;
        next = geo.tile_above(tile);
        tier += 1;
    }
    assert!(geo.levels() <= level, "the last proof ends at the root");
    assert_eq!(geo.tiles(tier), 0);
}

#[test]
fn tiers_begin_where_the_tree_outgrows_a_proof() {
    assert_eq!(geo(8).tiles(0), 0);
    assert_eq!((geo(9).tiles(0), geo(9).tiles(1)), (1, 0));
    assert_eq!(geo(8 * 256).tiles(0), 1);
    assert_eq!(geo(8 * 256 + 1).tiles(0), 2);
    assert_eq!((geo(1 << 18).tiles(0), geo(1 << 18).tiles(1)), (128, 0));
    assert_eq!((geo((1 << 18) + 1).tiles(0), geo((1 << 18) + 1).tiles(1)), (129, 1));
    assert_eq!(geo(1 << 26).tiles(1), 1);
    assert_eq!((geo(1 << 33).tiles(1), geo(1 << 33).tiles(2)), (128, 0));
    let most = Geometry::new(u64::MAX, KIB);
    assert_eq!((most.levels(), most.tiles(3), most.tiles(4)), (54, 1, 0));
}

#[test]
fn up_to_16_tib_two_tiles_suffice() {
    let geo = Geometry::new(16 << 40, SegmentSize::DEFAULT);
    let tile = geo.tile_of_segment(geo.last_segment()).unwrap();
    let above = geo.tile_above(tile).unwrap();
    assert_eq!((tile.tier, above.tier, geo.tile_above(above)), (0, 1, None));
}
