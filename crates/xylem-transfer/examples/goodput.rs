//! Prints the goodput of a transfer for each pair of loss and round trip, in virtual time: the table of
//! docs/benchmarks.md. `cargo run --release -p xylem-transfer --example goodput [cubic|bbr]`

#[path = "../tests/sim/mod.rs"]
mod sim;

use std::time::Duration;

use sim::{Behaviour, Original, World, path};
use xylem_congestion::CongestionAlgorithm;
use xylem_sim::Conditions;
use xylem_transfer::TransferConfig;

const LOSSES: [f64; 5] = [0.0, 0.001, 0.01, 0.05, 0.20];
const ROUND_TRIPS: [u64; 4] = [1, 20, 100, 300];

/// Runs one fetch of at most 60 virtual seconds. Returns megabits of content a second and the share of Interests lost.
fn fetch(original: &Original, nets: &[Conditions]) -> (f64, f64) {
    let algorithm = std::env::args().nth(1);
    let congestion = algorithm.map(|name| match name.as_str() {
        "cubic" => CongestionAlgorithm::Cubic,
        "bbr" => CongestionAlgorithm::Bbr,
        _ => panic!("{name} is not an algorithm (cubic, bbr)"),
    });
    let mut world =
        World::new(original, TransferConfig { congestion, ..TransferConfig::default() }, 1);
    for net in nets {
        world = world.peer(original, Behaviour::Honest, *net);
    }
    world.run(Duration::from_secs(60));
    assert_eq!(world.failed, None);
    let progress = world.transfer.progress();
    (world.goodput() * 8e-6, progress.lost as f64 / progress.interests as f64)
}

fn table(title: &str, original: &Original, nets: impl Fn(u64, f64) -> Vec<Conditions>) {
    println!("\n{title}\n");
    print!("| loss |");
    ROUND_TRIPS.iter().for_each(|rtt| print!(" {rtt} ms |"));
    println!("\n|---|---|---|---|---|");
    for loss in LOSSES {
        print!("| {} % |", loss * 100.0);
        for rtt in ROUND_TRIPS {
            let (goodput, lost) = fetch(original, &nets(rtt, loss));
            print!(" {goodput:.1} ({:.1} %) |", lost * 100.0);
        }
        println!();
    }
}

fn main() {
    println!("Mbit/s of content (share of Interests that counted as lost), 100 MB or 60 s.");
    println!("Loss is per packet and direction; each 8 KiB Data counts as one packet.");
    let original = Original::file(100_000_000);
    // A queue of one bandwidth-delay product, at least 64 KB.
    let queue = |mbit: f64, rtt: u64| ((mbit * 125.0 * rtt as f64) as u64).max(64_000);
    table("One peer, 100 Mbit/s", &original, |rtt, loss| {
        vec![path(rtt, loss).bottleneck(100.0, queue(100.0, rtt))]
    });
    table(
        "One peer, 100 Mbit/s, a fifth of the packets up to half a round trip late",
        &original,
        |rtt, loss| {
            let late = Duration::from_micros(rtt * 500);
            vec![path(rtt, loss).bottleneck(100.0, queue(100.0, rtt)).late(0.2, late)]
        },
    );
    table("One peer, 1 Gbit/s", &original, |rtt, loss| {
        vec![path(rtt, loss).bottleneck(1_000.0, queue(1_000.0, rtt))]
    });
    table("Four peers of 50 Mbit/s each", &original, |rtt, loss| {
        vec![path(rtt, loss).bottleneck(50.0, queue(50.0, rtt)); 4]
    });
}
