//! One thread: ours against the official crate (assembly where its build has any), and the tree
//! functions that publishing and proving rest on.
//!
//! `cargo bench -p xylem-bench --bench hash`; ours runs with every code that the processor has.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use xylem_hash::{Hash, Hasher, hash, hash_many, set_platform, tree};

const LENGTHS: [usize; 6] = [64, 1 << 10, 4 << 10, 8 << 10, 64 << 10, 1 << 20];

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect()
}

/// The names of the codes that this processor has.
fn platforms() -> impl Iterator<Item = &'static str> {
    ["avx512", "avx2", "sse4.1", "portable"].into_iter().filter(|name| set_platform(name))
}

fn one_message(c: &mut Criterion) {
    let input = bytes(1 << 20);
    for len in LENGTHS {
        let mut group = c.benchmark_group(format!("hash/{len}"));
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function("blake3 crate", |b| b.iter(|| blake3::hash(black_box(&input[..len]))));
        for platform in platforms() {
            set_platform(platform);
            group.bench_function(platform, |b| b.iter(|| hash(black_box(&input[..len]))));
        }
        group.finish();
    }
}

fn chunk_groups(c: &mut Criterion) {
    let input = bytes(1 << 20);
    let mut group = c.benchmark_group("chunk groups of 8 KiB");
    for platform in platforms() {
        set_platform(platform);
        group.throughput(Throughput::Bytes(8 << 10));
        group.bench_function(BenchmarkId::new("one", platform), |b| {
            b.iter(|| tree::chunk_group_cv(black_box(&input[..8 << 10]), 8));
        });
        group.throughput(Throughput::Bytes(1 << 20));
        group.bench_function(BenchmarkId::new("128 at once", platform), |b| {
            let mut out = Vec::new();
            b.iter(|| {
                out.clear();
                tree::chunk_group_cvs(black_box(&input), 8 << 10, 0, &mut out);
            });
        });
    }
    group.finish();
}

fn many_messages(c: &mut Criterion) {
    let input = bytes(1 << 20);
    for (count, len) in [(64, 64), (64, 1 << 10), (64, 1_400), (32, 4 << 10)] {
        let messages: Vec<&[u8]> = input.chunks(len).take(count).collect();
        let mut out = vec![Hash::from_bytes([0; 32]); count];
        let mut group = c.benchmark_group(format!("{count} messages of {len}"));
        group.throughput(Throughput::Bytes((count * len) as u64));
        group.bench_function("blake3 crate, one by one", |b| {
            b.iter(|| {
                for message in &messages {
                    black_box(blake3::hash(message));
                }
            });
        });
        for platform in platforms() {
            set_platform(platform);
            group.bench_function(BenchmarkId::new("hash_many", platform), |b| {
                b.iter(|| hash_many(black_box(&messages), &mut out));
            });
        }
        group.finish();
    }
}

fn pieces(c: &mut Criterion) {
    let input = bytes(1 << 20);
    for piece in [64, 1_400, 1 << 20] {
        let mut group = c.benchmark_group(format!("1 MiB in pieces of {piece}"));
        group.throughput(Throughput::Bytes(1 << 20));
        group.bench_function("blake3 crate", |b| {
            b.iter(|| {
                let mut hasher = blake3::Hasher::new();
                input.chunks(piece).for_each(|piece| {
                    hasher.update(piece);
                });
                hasher.finalize()
            });
        });
        for platform in platforms() {
            set_platform(platform);
            group.bench_function(platform, |b| {
                b.iter(|| {
                    let mut hasher = Hasher::new();
                    input.chunks(piece).for_each(|piece| {
                        hasher.update(piece);
                    });
                    hasher.finalize()
                });
            });
        }
        group.finish();
    }
}

fn output(c: &mut Criterion) {
    let mut group = c.benchmark_group("4 KiB of output");
    group.throughput(Throughput::Bytes(4 << 10));
    let mut out = [0; 4 << 10];
    group.bench_function("blake3 crate", |b| {
        b.iter(|| blake3::Hasher::new().finalize_xof().fill(black_box(&mut out)));
    });
    for platform in platforms() {
        set_platform(platform);
        group.bench_function(platform, |b| {
            b.iter(|| Hasher::new().finalize_xof().fill(black_box(&mut out)));
        });
    }
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
}

criterion_group! {
    name = benches;
    config = short();
    targets = one_message, chunk_groups, many_messages, pieces, output
}
criterion_main!(benches);
