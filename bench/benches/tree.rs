//! The tree: building outboards, reading proofs out of them, verifying segments.
//!
//! `cargo bench -p xylem-bench --bench tree`. "hash alone" is the cost of the same bytes without a tree, one segment at
//! a time. The cost of "verify" beyond it and beyond "parents alone" is the tree's own.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use xylem_tree::{
    Geometry, Node, Outboard, OutboardBuilder, SegmentIndex, SegmentSize, Tile, TreeVerifier,
    segment_signature, tile_content, tile_signature,
};

const SIZE: usize = 64 << 20;
const SEGMENT: usize = 8192;

fn content() -> Vec<u8> {
    (0..SIZE).map(|i| (i % 251) as u8).collect()
}

fn build(c: &mut Criterion) {
    let content = content();
    let geo = Geometry::new(SIZE as u64, SegmentSize::DEFAULT);
    let mut group = c.benchmark_group("tree/build 64 MiB");
    group.throughput(Throughput::Bytes(SIZE as u64)).sample_size(10);
    group.bench_function("root alone", |b| b.iter(|| xylem_hash::hash(black_box(&content))));
    for piece in [64 << 10, SIZE] {
        group.bench_function(BenchmarkId::new("outboard, fed in KiB", piece >> 10), |b| {
            b.iter(|| {
                let sink = |_: u64, run: &[u8]| {
                    black_box(run);
                    Ok::<(), std::convert::Infallible>(())
                };
                let mut builder = OutboardBuilder::new(geo, sink);
                for piece in content.chunks(piece) {
                    builder.update(piece).unwrap();
                }
                builder.finish().unwrap()
            });
        });
    }
    group.finish();
}

fn extract(c: &mut Criterion) {
    let outboard = Outboard::of(&content(), SegmentSize::DEFAULT);
    let (geo, mut out) = (*outboard.geometry(), Vec::with_capacity(16 << 10));
    let mut group = c.benchmark_group("tree/extract");
    let mut i = 0;
    group.bench_function("segment proof", |b| {
        b.iter(|| {
            out.clear();
            i = (i + 1) % geo.segments();
            segment_signature(&geo, SegmentIndex(i), &mut outboard.as_bytes(), &mut out).unwrap();
        });
    });
    let tile = Tile { tier: 0, index: 1 };
    group.bench_function("tile", |b| {
        b.iter(|| {
            out.clear();
            tile_content(&geo, tile, &mut outboard.as_bytes(), &mut out).unwrap();
            tile_signature(&geo, tile, &mut outboard.as_bytes(), &mut out).unwrap();
        });
    });
    group.finish();
}

/// A file's segments and proofs, and verifiers that have its tiles.
struct Fetch {
    content: Vec<u8>,
    outboard: Outboard,
    proofs: Vec<Vec<u8>>,
}

impl Fetch {
    fn new() -> Self {
        let content = content();
        let outboard = Outboard::of(&content, SegmentSize::DEFAULT);
        let proof = |i| {
            let mut out = Vec::new();
            let geo = outboard.geometry();
            segment_signature(geo, SegmentIndex(i), &mut outboard.as_bytes(), &mut out).unwrap();
            out
        };
        let proofs = (0..outboard.geometry().segments()).map(proof).collect();
        Self { content, outboard, proofs }
    }

    fn verifier(&self) -> TreeVerifier {
        let geo = *self.outboard.geometry();
        let mut verifier = TreeVerifier::new(geo, self.outboard.root());
        for index in 0..geo.tiles(0) {
            let (tile, mut content, mut signature) = (Tile { tier: 0, index }, vec![], vec![]);
            tile_content(&geo, tile, &mut self.outboard.as_bytes(), &mut content).unwrap();
            tile_signature(&geo, tile, &mut self.outboard.as_bytes(), &mut signature).unwrap();
            verifier.tile(tile, &content, &signature).unwrap();
        }
        verifier
    }

    fn verify(&self, verifier: &mut TreeVerifier, order: &[u64], forget: bool) {
        for (n, &i) in order.iter().enumerate() {
            let bytes = &self.content[i as usize * SEGMENT..][..SEGMENT];
            let proof = &self.proofs[i as usize];
            black_box(verifier.segment(SegmentIndex(i), bytes, proof).unwrap());
            if forget {
                verifier.forget_complete(i..i + 1);
                if n % 64 == 0 {
                    black_box(verifier.take_proven());
                }
            }
        }
    }
}

fn verify(c: &mut Criterion) {
    let fetch = Fetch::new();
    let in_order: Vec<u64> = (0..fetch.proofs.len() as u64).collect();
    // Every 1,237th: coprime to the number of segments, so that each is visited once.
    let n = in_order.len() as u64;
    let out_of_order: Vec<u64> = in_order.iter().map(|i| i * 1237 % n).collect();
    let mut group = c.benchmark_group("tree/verify 64 MiB in 8 KiB segments");
    group.throughput(Throughput::Elements(n)).sample_size(10);
    for (name, order) in [("in order", &in_order), ("out of order", &out_of_order)] {
        group.bench_function(BenchmarkId::new("hash alone", name), |b| {
            b.iter(|| {
                for &i in order {
                    let segment = &fetch.content[i as usize * SEGMENT..][..SEGMENT];
                    black_box(xylem_hash::tree::chunk_group_cv(segment, i * 8));
                }
            });
        });
    }
    // The parents that have to be hashed, once each: 7 for each 8 segments.
    let leaf = |index| fetch.outboard.node(Node { level: 0, index }).unwrap();
    let [l, r] = [leaf(0), leaf(1)].map(|v| xylem_hash::tree::ChainingValue::from_bytes(v.0));
    group.bench_function("parents alone", |b| {
        b.iter(|| {
            for _ in 0..n / 8 * 7 {
                black_box(xylem_hash::tree::parent_cv(black_box(&l), &r));
            }
        });
    });
    for (name, order, forget) in [
        ("in order", &in_order, false),
        ("in order, taken and forgotten", &in_order, true),
        ("out of order", &out_of_order, false),
        ("out of order, taken and forgotten", &out_of_order, true),
    ] {
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || fetch.verifier(),
                |verifier| fetch.verify(verifier, order, forget),
                BatchSize::PerIteration,
            );
        });
    }
    let mut known = fetch.verifier();
    fetch.verify(&mut known, &in_order, false);
    group.bench_function("all proven already", |b| {
        b.iter(|| fetch.verify(&mut known, &in_order, false));
    });
    group.finish();
}

criterion_group!(benches, build, extract, verify);
criterion_main!(benches);
