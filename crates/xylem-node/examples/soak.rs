//! The soak: five nodes share and fetch at random for two hours of virtual time. At the end of each eighth it prints
//! what they hold, and this process's memory. It exits with 1 if that has grown.
//!
//! `cargo run --release -p xylem-node --example soak [MINUTES] [SEED]`

#[path = "../tests/soak_world/mod.rs"]
mod soak_world;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use soak_world::World;

const PARTS: u32 = 8;
/// The second half's peak may exceed the first's by a tenth, and by what an allocator keeps.
const SLACK_KIB: u64 = 4_096;

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|n| n.parse::<u64>().expect("a number"));
    let length = Duration::from_secs(60 * numbers.next().unwrap_or(120));
    let mut world = World::new(numbers.next().unwrap_or(1));
    let (began, mut held) = (Instant::now(), Vec::new());
    println!(
        "| virtual minutes | fetches | MB | cuts | links | faces | routes | pending | PIT, KiB | resident, KiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for part in 1..=PARTS {
        world.run(length * part / PARTS);
        let c = world.census();
        held.push(resident());
        println!(
            "| {:.0} | {} | {:.0} | {} | {} | {} | {} | {} | {} | {} |",
            world.now().as_secs_f64() / 60.0,
            c.fetches,
            c.bytes as f64 / 1e6,
            c.cuts,
            c.links,
            c.faces,
            c.routes,
            c.pending,
            c.pending_memory / 1024,
            held.last().expect("pushed just above"),
        );
    }
    let (first, second) = held.split_at(held.len() / 2);
    let peak = |half: &[u64]| half.iter().copied().max().unwrap_or(0);
    let flat = peak(second) <= peak(first) * 11 / 10 + SLACK_KIB;
    println!(
        "\nEvery copy equal to its original. Memory {} ({:.0} s of real time).",
        if flat { "is flat" } else { "GROWS" },
        began.elapsed().as_secs_f64()
    );
    if flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
