//! Prints how long a swarm takes and how much its source sends, compared with all nodes fetching from the source alone,
//! in virtual time: the table of docs/benchmarks.md. `cargo run --release -p xylem-transfer --example swarm`

#[path = "../tests/sim/mod.rs"]
mod sim;

use std::time::Duration;

use sim::{Behaviour, Original, Role, Swarm, World, ms, path};
use xylem_transfer::TransferConfig;

const MBIT: f64 = 50.0;

fn run(original: &Original, fetchers: usize, alone: bool) -> (f64, f64, f64) {
    let mut swarm = Swarm::new(original, ms(20), 1).node(Role::Source, MBIT);
    swarm.alone = alone;
    for _ in 0..fetchers {
        swarm = swarm.node(Role::Fetcher, MBIT);
    }
    swarm.run(Duration::from_secs(600));
    let seconds = swarm.finished().map_or(f64::NAN, |at| at.as_secs_f64());
    (seconds, swarm.sent_by_sources() as f64 * 1e-6, swarm.duplicates())
}

fn main() {
    println!("Every node has {MBIT} Mbit/s each way and is 20 ms from every other.\n");
    println!(
        "| size | fetchers | each from the source: s (source sent) | swarm: s (source sent, twice) |"
    );
    println!("|---|---|---|---|");
    let megabytes = |n: usize| Original::file(n * 1_000_000);
    let cases = [(32, 1), (32, 2), (32, 4), (32, 8), (100, 8)];
    for (size, fetchers) in cases {
        let original = megabytes(size);
        let (alone, swarm) = (run(&original, fetchers, true), run(&original, fetchers, false));
        println!(
            "| {size} MB | {fetchers} | {:.1} ({:.0} MB) | {:.1} ({:.0} MB, {:.2} %) |",
            alone.0,
            alone.1,
            swarm.0,
            swarm.1,
            swarm.2 * 100.0
        );
    }
    let original = Original::file(16 << 20);
    for falls_silent in [Behaviour::Honest, Behaviour::DiesAfter(200)] {
        let mut world = World::new(&original, TransferConfig::default(), 1);
        let net = path(20, 0.0).bottleneck(MBIT, 125_000);
        for behaviour in [Behaviour::Honest, Behaviour::Honest, Behaviour::Honest, falls_silent] {
            world = world.peer(&original, behaviour, net);
        }
        world.run(Duration::from_secs(60));
        let (progress, seconds) = (world.transfer.progress(), world.now().as_secs_f64());
        let twice = progress.duplicates as f64 / progress.verified_segments as f64 * 100.0;
        println!("16 MiB from four, the last {falls_silent:?}: {seconds:.2} s, {twice:.2} % twice");
    }
    let net = |mbit| path(20, 0.0).bottleneck(mbit, 400_000);
    for (nets, rate) in [(vec![net(50.0); 4], 4_000_000), (vec![net(20.0), net(80.0)], 6_000_000)] {
        let mut world = World::new(&original, TransferConfig::default(), 1);
        for net in nets {
            world = world.peer(&original, Behaviour::Honest, net);
        }
        world.transfer.set_rate_limit(Some(rate));
        world.run(Duration::from_secs(60));
        println!("shares under a limit of {rate} bytes a second: {:.2?}", world.shares());
    }
}
