//! Prints how well the algorithms fill a path, for several losses and round trips, alone and competing, in virtual
//! time. `cargo run --release -p xylem-congestion --example paths`

#[path = "../tests/sim/mod.rs"]
mod sim;

use sim::{Bottleneck, World, ms};
use xylem_congestion::CongestionAlgorithm::{self, Bbr, Cubic};

const LOSSES: [f64; 5] = [0.0, 0.002, 0.02, 0.10, 0.36];
const ROUND_TRIPS: [u64; 4] = [1, 20, 100, 300];

fn alone(title: &str, mbit: f64, late: f64, packet: u64, buffer: f64) {
    println!("\n{title}: share of the path, mean queue, loss\n");
    for algorithm in [Cubic, Bbr] {
        println!("| {algorithm} | 1 ms | 20 ms | 100 ms | 300 ms |\n|---|---|---|---|---|");
        for loss in LOSSES {
            print!("| {:.1} % |", loss * 100.0);
            for rtt in ROUND_TRIPS {
                let mut path = Bottleneck::new(mbit, ms(rtt), buffer).loss(loss);
                path.packet = packet;
                path.conditions = path.conditions.late(late, ms(rtt) / 2);
                path.conditions.queue = path.conditions.queue.max(8 * packet);
                let mut world = World::new(path).flow(algorithm, ms(rtt));
                world.run(ms(30_000));
                let c = world.counters(0);
                let share = world.mbit(0) / mbit * 100.0;
                let lost = c.lost as f64 / c.sent as f64 * 100.0;
                print!(
                    " {share:.1} % ({:.1} ms, {lost:.1} %) |",
                    world.queue().as_secs_f64() * 1e3
                );
            }
            println!();
        }
    }
}

fn beside(title: &str, a: CongestionAlgorithm, b: CongestionAlgorithm) {
    println!(
        "\n{title}, 50 Mbit/s, the second from 5 s on: Mbit/s in 20..60 s, mean queue, drops\n"
    );
    println!("| buffer | 10 ms | 40 ms | 100 ms |\n|---|---|---|---|");
    for buffer in [0.5, 1.0, 4.0] {
        print!("| {buffer} |");
        for rtt in [10, 40, 100] {
            let mut world = World::new(Bottleneck::new(50.0, ms(rtt), buffer));
            world.add(a, ms(rtt), ms(0), std::time::Duration::MAX);
            world.add(b, ms(rtt), ms(5_000), std::time::Duration::MAX);
            world.run(ms(20_000));
            world.clear();
            world.run(ms(60_000));
            let queue = world.queue().as_secs_f64() * 1e3;
            print!(
                " {:.1} + {:.1} ({queue:.1} ms, {}) |",
                world.mbit(0),
                world.mbit(1),
                world.counts().overflowed
            );
        }
        println!();
    }
}

fn main() {
    alone("100 Mbit/s, packets of 1,200 bytes", 100.0, 0.0, 1_200, 1.0);
    alone("100 Mbit/s, packets of 8,800 bytes", 100.0, 0.0, 8_800, 1.0);
    alone("100 Mbit/s, 8,800 bytes, a fifth late", 100.0, 0.2, 8_800, 1.0);
    alone("1 Gbit/s, 8,800 bytes", 1_000.0, 0.0, 8_800, 1.0);
    beside("BBR and BBR", Bbr, Bbr);
    beside("CUBIC and CUBIC", Cubic, Cubic);
    beside("BBR, then CUBIC", Bbr, Cubic);
    beside("CUBIC, then BBR", Cubic, Bbr);
}
