//! One thread: the rows of `xylem bench hash single` under criterion, which keeps the last run and reports changes
//! since; and the tree functions that publishing and proving use.
//!
//! `cargo bench -p xylem-bench --bench hash`; ours runs with every backend that the processor supports. Ratios are more
//! accurate in `xylem bench hash`, where all contenders take turns.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use xylem_bench::hash::single::{CASES, THEIRS, ours, theirs};
use xylem_bench::input;
use xylem_bench::machine::backends;
use xylem_hash::{set_platform, tree};

/// Maximum bytes of a row: longer ones take criterion too long; `xylem bench hash` has them.
const LONGEST: usize = 1 << 20;

fn one_message(c: &mut Criterion) {
    let bytes = input::bytes(LONGEST);
    for case in CASES.iter().filter(|case| case.bytes <= LONGEST) {
        let input = &bytes[..case.bytes];
        let mut group = c.benchmark_group(case.label());
        group.throughput(Throughput::Bytes(case.bytes as u64));
        let ours = backends().into_iter().map(|name| ours(name, case.work, input).on(name));
        let contenders = std::iter::once(theirs(THEIRS, case.work, input)).chain(ours);
        for mut contender in contenders {
            let name = contender.name().to_owned();
            group.bench_function(name, |b| b.iter_custom(|runs| contender.run(runs).0));
        }
        group.finish();
    }
}

fn chunk_groups(c: &mut Criterion) {
    let input = input::bytes(1 << 20);
    let mut group = c.benchmark_group("chunk groups of 8 KiB");
    for platform in backends() {
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

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20)
}

criterion_group! {
    name = benches;
    config = short();
    targets = one_message, chunk_groups
}
criterion_main!(benches);
