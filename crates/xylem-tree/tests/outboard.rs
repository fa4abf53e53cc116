//! Compares outboards, roots and extracted proofs with the slow tree and the `blake3` crate.

use proptest::prelude::*;
use xylem_tree::{
    BuildError, ExtractError, Geometry, Node, Outboard, OutboardBuilder, REGION_LEN, Region,
    RegionBuilder, SegmentIndex, SegmentSize, Tile, TreeKind, hash_region, segment_signature,
    segment_signature_len, tile_content, tile_content_len, tile_signature, tile_signature_len,
};

mod slow;
use slow::{KIB, SlowTree, content, sizes_of_segments};

/// 0, 1, k-1, k and k+1 of chunks, segments, blocks of 8 segments and their powers.
fn small_sizes(segment: SegmentSize) -> Vec<usize> {
    let unit = segment.bytes();
    let mut sizes = vec![0, 1, 2, 1023, 1024, 1025];
    for n in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33] {
        sizes.extend([n * unit - 1, n * unit, n * unit + 1, n * unit + unit / 2]);
    }
    sizes
}

#[test]
fn outboards_equal_the_slow_ones() {
    for (segment, kind) in
        sizes_of_segments().into_iter().flat_map(|s| TreeKind::ALL.map(|k| (s, k)))
    {
        for size in small_sizes(segment) {
            let content = content(size);
            let outboard = Outboard::of_kind(&content, segment, kind);
            let slow = SlowTree::new(&content, segment, kind);
            if kind == TreeKind::Blake3 {
                assert_eq!(outboard.root().as_bytes(), blake3::hash(&content).as_bytes(), "{size}");
            }
            assert_eq!(slow.root(), *outboard.root().as_bytes(), "the slow tree itself, {size}");
            assert_eq!(outboard.as_bytes(), slow.outboard(), "{size} bytes");
        }
    }
}

#[test]
fn signatures_equal_the_slow_ones() {
    for kind in TreeKind::ALL {
        for n in (1..=40).chain([63, 64, 65, 127, 129]) {
            let content = content(n * 1024 - 7);
            let outboard = Outboard::of_kind(&content, KIB, kind);
            let slow = SlowTree::new(&content, KIB, kind);
            for i in 0..n as u64 {
                let mut fast = b"before".to_vec();
                let (geo, mut src) = (outboard.geometry(), outboard.as_bytes());
                segment_signature(geo, SegmentIndex(i), &mut src, &mut fast).unwrap();
                assert_eq!(fast.split_off(6), slow.segment_signature(i), "segment {i} of {n}");
                assert_eq!(fast, b"before");
                let len = segment_signature_len(geo, SegmentIndex(i));
                assert_eq!(len, slow.segment_signature(i).len());
            }
        }
    }
}

/// Tiles at the boundaries: one tile, two, one with a single node, promoted base nodes.
#[test]
fn tiles_hold_the_nodes_of_their_level() {
    for kind in TreeKind::ALL {
        for n in [9, 10, 12, 16, 17, 2047, 2048, 2049, 2052, 2056, 2057, 4095, 4096, 4097, 4105] {
            let content = content(n * 1024);
            let outboard = Outboard::of_kind(&content, KIB, kind);
            let (geo, src) = (outboard.geometry(), outboard.as_bytes());
            let mut all = Vec::new();
            for index in 0..geo.tiles(0) {
                let tile = Tile { tier: 0, index };
                let (bytes, signature) = slow::tile_of(geo, tile, &mut &*src);
                assert_eq!(bytes.len(), tile_content_len(geo, tile));
                assert_eq!(signature.len(), tile_signature_len(geo, tile));
                assert_eq!(signature[..32], outboard.node(geo.tile_top(tile).unwrap()).unwrap().0);
                assert_eq!(signature.len() / 32 - 1, geo.tile_proof(tile).count());
                all.extend(bytes);
            }
            let slow = SlowTree::new(&content, KIB, kind);
            let expected: Vec<u8> = (0..geo.count(3))
                .flat_map(|index| slow.value(index * 8..(index * 8 + 8).min(n as u64)))
                .collect();
            assert_eq!(all, expected, "{n} segments");
            assert_eq!(outboard.node(geo.root()).unwrap().0, *outboard.root().as_bytes());
        }
    }
}

#[test]
fn unknown_nodes_are_not_extracted() {
    let outboard = Outboard::of(&content(20 * 1024), KIB);
    let geo = *outboard.geometry();
    let (tile, mut out) = (Tile { tier: 0, index: 0 }, b"before".to_vec());

    let mut holes = outboard.as_bytes().to_vec();
    holes[32 * 7..32 * 8].fill(0); // node 0 of level 3
    holes[32 * 4..32 * 5].fill(0); // segment 2
    let mut src = &holes[..];
    let base = Node { level: 3, index: 0 };
    assert_eq!(tile_content(&geo, tile, &mut src, &mut out), Err(ExtractError::Unknown(base)));
    for i in [2, 3] {
        let got = segment_signature(&geo, SegmentIndex(i), &mut src, &mut out);
        assert_eq!(got, Err(ExtractError::Unknown(Node { level: 0, index: 2 })));
    }
    segment_signature(&geo, SegmentIndex(0), &mut src, &mut Vec::new()).unwrap();

    let mut short = &outboard.as_bytes()[..32 * 30];
    let too_short = ExtractError::Source(xylem_tree::OutboardTooShort);
    assert_eq!(tile_content(&geo, tile, &mut short, &mut out), Err(too_short));
    assert_eq!(segment_signature(&geo, SegmentIndex(19), &mut short, &mut out), Err(too_short));
    let mut empty: &[u8] = &[];
    assert_eq!(tile_signature(&geo, tile, &mut empty, &mut out), Err(too_short));

    let mut src = outboard.as_bytes();
    let past = Tile { tier: 0, index: 1 };
    let out_of_range = Err(ExtractError::OutOfRange);
    assert_eq!(segment_signature(&geo, SegmentIndex(20), &mut src, &mut out), out_of_range);
    assert_eq!(tile_content(&geo, past, &mut src, &mut out), out_of_range);
    assert_eq!(tile_signature(&geo, past, &mut src, &mut out), out_of_range);
    assert_eq!(out, b"before", "a failed read leaves nothing behind");
}

/// Files of several regions: their nodes come from several calls and are joined across them.
#[test]
fn regions_join_to_the_same_outboard() {
    let most = content(5 * REGION_LEN + 12_345);
    for (size, kind) in [
        REGION_LEN - 1,
        REGION_LEN,
        REGION_LEN + 1,
        2 * REGION_LEN,
        2 * REGION_LEN + 1,
        3 * REGION_LEN - 1,
        5 * REGION_LEN + 12_345,
    ]
    .into_iter()
    .flat_map(|size| TreeKind::ALL.map(|kind| (size, kind)))
    {
        let content = &most[..size];
        let geo = Geometry::new(size as u64, SegmentSize::DEFAULT).with_kind(kind);
        let hashed: Vec<Region> = (0..Region::count(&geo))
            .rev() // threads may finish them in any order
            .map(|index| {
                let range = Region::range(&geo, index);
                let bytes = &content[range.start as usize..range.end as usize];
                hash_region(&geo, Region::first_segment(&geo, index), bytes).unwrap()
            })
            .collect();
        let kept = hashed.clone();
        let mut written = vec![0u8; geo.slots() as usize * 32];
        let mut twice = false;
        let mut runs = Vec::new();
        let mut builder = OutboardBuilder::new(geo, |slot: u64, run: &[u8]| {
            let place = &mut written[slot as usize * 32..][..run.len()];
            twice |= place.chunks(32).any(|node| node != [0; 32]);
            place.copy_from_slice(run);
            runs.push(run.len());
            Ok::<(), ()>(())
        });
        assert_eq!(builder.push(hashed[0].clone()).is_err(), hashed.len() > 1, "the last first");
        if hashed.len() > 1 {
            hashed.into_iter().rev().for_each(|region| builder.push(region).unwrap());
        }
        let whole = Outboard::of_kind(content, SegmentSize::DEFAULT, kind);
        let root = builder.finish().unwrap();
        assert_eq!(root, whole.root());
        if kind == TreeKind::Blake3 {
            assert_eq!(root.as_bytes(), blake3::hash(content).as_bytes());
        }
        for region in &kept {
            let first = Region::first_segment(&geo, region.index());
            let at = first.0 as usize * 2 * 32;
            assert_eq!(region.nodes(), &whole.as_bytes()[at..at + region.nodes().len()]);
            for i in 0..geo.segments() {
                let (mut from_region, mut from_whole) = (vec![], vec![]);
                let mut src = whole.as_bytes();
                segment_signature(&geo, SegmentIndex(i), &mut src, &mut from_whole).unwrap();
                let ours = region.segment_signature(SegmentIndex(i), &mut from_region);
                assert_eq!(ours, (first.0..first.0 + 512).contains(&i));
                assert_eq!(from_region, if ours { from_whole } else { vec![] }, "segment {i}");
            }
            assert!(!region.segment_signature(SegmentIndex(u64::MAX), &mut vec![]));
            let top = Node { level: geo.levels().min(9), index: region.index() };
            assert_eq!(Some(region.top()), whole.node(top));
        }
        assert!(!twice, "each slot is written once");
        assert_eq!(written, whole.as_bytes(), "{size} bytes");
        assert_eq!(
            written,
            SlowTree::new(content, SegmentSize::DEFAULT, kind).outboard(),
            "{size} bytes"
        );
        let small = runs.iter().filter(|len| **len < 4096).count() as u64;
        assert!(small <= Region::count(&geo), "single nodes only between regions");
    }
}

#[test]
fn only_whole_regions_at_their_places_are_hashed() {
    let content = content(REGION_LEN + 10);
    let geo = Geometry::new(content.len() as u64, SegmentSize::DEFAULT);
    assert!(hash_region(&geo, SegmentIndex(0), &content[..REGION_LEN]).is_some());
    assert!(hash_region(&geo, SegmentIndex(512), &content[REGION_LEN..]).is_some());
    assert!(hash_region(&geo, SegmentIndex(0), &content[..REGION_LEN - 1]).is_none());
    assert!(hash_region(&geo, SegmentIndex(1), &content[..REGION_LEN]).is_none());
    assert!(hash_region(&geo, SegmentIndex(512), &content[..REGION_LEN]).is_none());
    assert!(hash_region(&geo, SegmentIndex(1024), &[]).is_none());
    assert!(hash_region(&geo, SegmentIndex(u64::MAX), &[]).is_none());
}

/// A region hashed in pieces equals one hashed at once. Pieces that are not whole segments are refused and change
/// nothing.
#[test]
fn a_region_in_pieces_is_the_region() {
    let most = content(REGION_LEN + 300_000);
    for (size, segments) in
        [0, 1, 1023, 1024, 8_191, 8_193, 100_000, REGION_LEN, REGION_LEN + 300_000]
            .into_iter()
            .flat_map(|size| [0, 3].map(|k| (size, SegmentSize::from_log2_chunks(k).unwrap())))
    {
        for kind in TreeKind::ALL {
            let geo = Geometry::new(size as u64, segments).with_kind(kind);
            for index in 0..Region::count(&geo) {
                let range = Region::range(&geo, index);
                let bytes = &most[range.start as usize..range.end as usize];
                let first = Region::first_segment(&geo, index);
                let whole = hash_region(&geo, first, bytes).unwrap();
                for step in [1, 5, 16, 100] {
                    let mut builder = RegionBuilder::new(&geo, index).unwrap();
                    for piece in bytes.chunks(step * segments.bytes()) {
                        assert!(builder.clone().finish().is_none());
                        assert!(!builder.push(&[]) && !builder.push(&most[..bytes.len() + 1]));
                        let crooked = piece.len() - 1;
                        let whole_segments = crooked.is_multiple_of(segments.bytes());
                        assert!(whole_segments || !builder.push(&piece[..crooked]));
                        assert!(builder.push(piece));
                    }
                    assert_eq!(builder.push(&[]), size == 0);
                    let pieces = builder.finish().unwrap();
                    assert_eq!((pieces.top(), pieces.nodes()), (whole.top(), whole.nodes()));
                }
            }
            assert!(RegionBuilder::new(&geo, Region::count(&geo)).is_none());
        }
    }
}

#[test]
fn a_file_of_another_size_is_noticed() {
    let sink = |_: u64, _: &[u8]| Ok::<(), ()>(());
    for (size, comes) in [(0, 1), (1, 0), (1, 2), (100_000, 99_999), (REGION_LEN, REGION_LEN + 1)] {
        let geo = Geometry::new(size as u64, SegmentSize::DEFAULT);
        let mut builder = OutboardBuilder::new(geo, sink);
        let outcome = builder.update(&content(comes)).and_then(|()| builder.finish());
        let wrong = BuildError::WrongSize { expected: size as u64, got: comes as u64 };
        assert_eq!(outcome.unwrap_err(), wrong);
    }
}

#[test]
fn a_failing_sink_ends_the_build() {
    let geo = Geometry::new(100_000, SegmentSize::DEFAULT);
    let mut builder = OutboardBuilder::new(geo, |_: u64, _: &[u8]| Err("disk full"));
    assert_eq!(builder.update(&content(100_000)), Err(BuildError::Sink("disk full")));
}

#[test]
fn regions_of_another_file_are_refused() {
    let mine = Geometry::new(1000, SegmentSize::DEFAULT);
    let other = Geometry::new(1001, SegmentSize::DEFAULT);
    let region = hash_region(&other, SegmentIndex(0), &content(1001)).unwrap();
    let mut builder = OutboardBuilder::new(mine, |_: u64, _: &[u8]| Ok::<(), ()>(()));
    assert_eq!(builder.push(region), Err(BuildError::OutOfOrder));
    builder.update(&content(500)).unwrap();
    let region = hash_region(&mine, SegmentIndex(0), &content(1000)).unwrap();
    assert_eq!(builder.push(region), Err(BuildError::OutOfOrder), "half a region is in already");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cut_of_the_stream_gives_the_same_outboard(
        size in 0usize..300_000,
        k in 0u8..=3,
        sha256: bool,
        cuts in proptest::collection::vec(1usize..70_000, 1..8),
    ) {
        let (content, segment) = (content(size), SegmentSize::from_log2_chunks(k).unwrap());
        let kind = TreeKind::ALL[usize::from(sha256)];
        let geo = Geometry::new(size as u64, segment).with_kind(kind);
        let mut written = vec![0; geo.slots() as usize * 32];
        let mut builder = OutboardBuilder::new(geo, |slot: u64, run: &[u8]| {
            written[slot as usize * 32..][..run.len()].copy_from_slice(run);
            Ok::<(), ()>(())
        });
        let (mut rest, mut cuts) = (&content[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            builder.update(now).unwrap();
            rest = later;
        }
        let root = builder.finish().unwrap();
        let hash = blake3::hash(&content);
        prop_assert!(sha256 || root.as_bytes() == hash.as_bytes());
        prop_assert_eq!(written, SlowTree::new(&content, segment, kind).outboard());
    }
}
