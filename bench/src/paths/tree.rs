//! The tree: making an outboard, reading a proof, proving segments.

use std::hint::black_box;

use xylem_tree::{
    Outboard, SegmentIndex, SegmentSet, SegmentSize, Tile, TreeVerifier, segment_signature,
    tile_content, tile_signature,
};

use super::path::{Operation, Path, path};
use crate::input;

pub(super) const PATHS: &[Path] = &[
    path("tree: an outboard of 1 MiB", 1, outboard),
    path("tree: a segment's proof", 1_000, proof),
    path("tree: 1 MiB in segments of 8 KiB, proven in order", 1, || proven(1)),
    path("tree: 1 MiB in segments of 8 KiB, proven out of order", 1, || proven(37)),
    path("tree: 32 segments of 8 KiB proven together", 10, together),
    path("tree: 5,000 missing of 10,000 segments listed", 10, listed),
];

const BYTES: usize = 1 << 20;

fn outboard() -> Operation {
    let content = input::bytes(BYTES);
    Box::new(move || {
        black_box(Outboard::of(black_box(&content), SegmentSize::DEFAULT));
    })
}

fn proof() -> Operation {
    let outboard = Outboard::of(&input::bytes(BYTES), SegmentSize::DEFAULT);
    let (geometry, mut out, mut index) = (*outboard.geometry(), Vec::with_capacity(1 << 10), 0);
    Box::new(move || {
        out.clear();
        index = (index + 1) % geometry.segments();
        let stored = &mut outboard.as_bytes();
        segment_signature(&geometry, SegmentIndex(index), stored, &mut out).expect("an outboard");
        black_box(&out);
    })
}

/// Proves the second 32 segments, in packets of their own, below the proven part.
fn together() -> Operation {
    let content = input::bytes(BYTES);
    let outboard = Outboard::of(&content, SegmentSize::DEFAULT);
    let geometry = *outboard.geometry();
    let segments: Vec<(SegmentIndex, Vec<u8>, Vec<u8>)> = (32..64)
        .map(|i| {
            let mut proof = Vec::new();
            let stored = &mut outboard.as_bytes();
            segment_signature(&geometry, SegmentIndex(i), stored, &mut proof).expect("an outboard");
            let at = i as usize * SegmentSize::DEFAULT.bytes();
            (SegmentIndex(i), content[at..at + SegmentSize::DEFAULT.bytes()].to_vec(), proof)
        })
        .collect();
    let mut above = TreeVerifier::new(geometry, outboard.root());
    let (tile, mut inside, mut signature) = (Tile { tier: 0, index: 0 }, vec![], vec![]);
    tile_content(&geometry, tile, &mut outboard.as_bytes(), &mut inside).expect("an outboard");
    tile_signature(&geometry, tile, &mut outboard.as_bytes(), &mut signature).expect("an outboard");
    above.tile(tile, &inside, &signature).expect("of this tree");
    Box::new(move || {
        let mut out = Vec::with_capacity(segments.len());
        let batch = segments.iter().map(|(i, bytes, proof)| (*i, bytes.as_slice(), &proof[..]));
        above.fork().segments(batch, &mut out);
        assert!(black_box(&out).iter().all(Result::is_ok));
    })
}

fn listed() -> Operation {
    let mut missing = SegmentSet::new(10_000);
    missing.insert_range(0..10_000);
    // 7,919 is coprime to the length: half of them, scattered.
    (0..5_000).for_each(|i| assert!(missing.remove(i * 7_919 % 10_000)));
    let mut list = Vec::new();
    Box::new(move || {
        list.clear();
        black_box(&missing).list(&mut list);
        black_box(&list);
    })
}

/// Proves every `step`th segment, until each was proven.
fn proven(step: u64) -> Operation {
    let content = input::bytes(BYTES);
    let outboard = Outboard::of(&content, SegmentSize::DEFAULT);
    let geometry = *outboard.geometry();
    let segments = geometry.segments();
    let proof = |index| {
        let mut out = Vec::new();
        let stored = &mut outboard.as_bytes();
        segment_signature(&geometry, SegmentIndex(index), stored, &mut out).expect("an outboard");
        out
    };
    let proofs: Vec<Vec<u8>> = (0..segments).map(proof).collect();
    let tiles: Vec<(Tile, Vec<u8>, Vec<u8>)> = (0..geometry.tiles(0))
        .map(|index| {
            let (tile, mut content, mut signature) = (Tile { tier: 0, index }, vec![], vec![]);
            let stored = &mut outboard.as_bytes();
            tile_content(&geometry, tile, stored, &mut content).expect("an outboard");
            tile_signature(&geometry, tile, stored, &mut signature).expect("an outboard");
            (tile, content, signature)
        })
        .collect();
    let root = outboard.root();
    Box::new(move || {
        let mut verifier = TreeVerifier::new(geometry, root);
        for (tile, content, signature) in &tiles {
            verifier.tile(*tile, content, signature).expect("of this tree");
        }
        for index in (0..segments).map(|n| n * step % segments) {
            let at = index as usize * SegmentSize::DEFAULT.bytes();
            let segment = &content[at..at + SegmentSize::DEFAULT.bytes()];
            let proof = &proofs[index as usize];
            black_box(verifier.segment(SegmentIndex(index), segment, proof).expect("of this tree"));
            verifier.forget_complete(index..index + 1);
        }
        black_box(verifier.take_proven());
    })
}
