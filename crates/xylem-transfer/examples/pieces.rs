//! Prints the cost of the scheduler's set of missing segments: the rows of docs/benchmarks.md. `cargo run --release -p
//! xylem-transfer --example pieces`

use std::hint::black_box;
use std::time::{Duration, Instant};

use xylem_tree::SegmentSet;

/// Number of rounds; the best counts, because other programs on the machine only ever add time.
const ROUNDS: usize = 30;

fn best(mut work: impl FnMut() -> u64) -> (Duration, u64) {
    let mut least = Duration::MAX;
    let mut count = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        count = black_box(work());
        least = least.min(start.elapsed());
    }
    (least, count)
}

fn full(len: u64) -> SegmentSet {
    let mut set = SegmentSet::new(len);
    set.insert_range(0..len);
    set
}

fn main() {
    let each = |(time, count): (Duration, u64)| time.as_secs_f64() * 1e9 / count as f64;
    let create = best(|| full(black_box(100_000)).count()).0;
    println!("create for 100,000 pieces, all missing: {:.2} us", create.as_secs_f64() * 1e6);
    println!("1,000,000 pieces take {} bytes", full(1_000_000).bytes());
    let mut set = full(100_000);
    let counts =
        best(|| (0..100_000).map(|_| black_box(&set).count()).fold(0, |n, c| n + c / 100_000));
    println!("missing count: {:.2} ns", each(counts));
    let next = best(|| (0..100_000).filter(|i| black_box(&set).next(*i).is_some()).count() as u64);
    println!("next piece: {:.2} ns", each(next));
    set.remove_range(0..99_999);
    let next = best(|| (0..100_000).filter(|_| black_box(&set).next(0).is_some()).count() as u64);
    println!("next piece, the last of 100,000: {:.2} ns", each(next));
    let mark = best(|| {
        let mut set = full(100_000);
        (0..100_000).filter(|i| set.remove(*i)).count() as u64
    });
    println!("mark a piece: {:.2} ns", each(mark));
    let look = best(|| (0..100_000).filter(|i| !black_box(&set).contains(*i)).count() as u64);
    println!("is a piece there: {:.2} ns", each(look));
    let mut few = SegmentSet::new(100_000);
    (0..100).for_each(|i| assert!(few.insert(i * 997)));
    let iterate = best(|| black_box(&few).iter().count() as u64);
    println!("iterate 100 missing of 100,000: {:.2} us", iterate.0.as_secs_f64() * 1e6);
}
