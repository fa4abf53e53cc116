//! Hot paths, timed: the operations with instruction counts in docs/instructions.md. `cargo bench -p xylem-bench
//! --bench paths`

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

fn paths(c: &mut Criterion) {
    for path in xylem_bench::paths::all() {
        let mut operation = (path.prepare)();
        c.bench_function(path.name, |b| b.iter(&mut operation));
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500))
        .sample_size(30);
    targets = paths
}
criterion_main!(benches);
