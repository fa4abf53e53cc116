//! Measures a checkpoint of a growing file: `cargo run --release -p xylem-tree --example checkpoint`.
//!
//! Pushes 1 GiB, then takes 64 steps of 1 MiB with a checkpoint each, and prints medians.

use std::time::{Duration, Instant};

use xylem_tree::{GrowingTree, SegmentSize, TreeKind};

const MIB: usize = 1 << 20;
const STEPS: usize = 64;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn main() {
    let piece = vec![0x5a; MIB];
    let mut tree = GrowingTree::new(SegmentSize::DEFAULT, TreeKind::Blake3);
    let mut nodes = 0_u64;
    let mut push = |tree: &mut GrowingTree, piece: &[u8]| {
        let pushed = tree.push(piece, |_, _| {
            nodes += 1;
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = pushed;
    };
    let started = Instant::now();
    (0..1024).for_each(|_| push(&mut tree, &piece));
    let whole = started.elapsed().as_secs_f64();
    let (mut pushes, mut checkpoints, mut roots) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STEPS {
        let started = Instant::now();
        push(&mut tree, &piece);
        pushes.push(started.elapsed());
        let started = Instant::now();
        let checkpoint = tree.checkpoint();
        checkpoints.push(started.elapsed());
        roots.push(checkpoint.root());
    }
    println!("1 GiB pushed in {whole:.3} s; on top of it 1 MiB takes {:.1} µs,", median(pushes));
    println!(
        "and a checkpoint {:.2} µs ({nodes} nodes, last root {})",
        median(checkpoints),
        roots[STEPS - 1]
    );
}
