//! Flows over a bottleneck in virtual time: how much of it they use, how long its queue is, and how they share it.

mod sim;

use std::time::Duration;

use sim::{Bottleneck, World, ms};
use xylem_congestion::CongestionAlgorithm::{Bbr, Cubic, Ledbat};

const FOREVER: Duration = Duration::MAX;

/// Megabits a second of one flow alone from 5 s on, and the mean queue.
fn alone(
    path: Bottleneck,
    algorithm: xylem_congestion::CongestionAlgorithm,
    rtt: Duration,
) -> (f64, Duration) {
    let mut world = World::new(path).flow(algorithm, rtt);
    world.run(ms(5_000));
    world.clear();
    world.run(ms(25_000));
    (world.mbit(0), world.queue())
}

#[test]
fn bbr_fills_a_path_and_keeps_its_queue_short() {
    for (mbit, rtt, buffer) in
        [(10.0, 20, 2.0), (100.0, 20, 1.0), (100.0, 20, 8.0), (50.0, 100, 1.0), (50.0, 100, 8.0)]
    {
        let (used, queue) = alone(Bottleneck::new(mbit, ms(rtt), buffer), Bbr, ms(rtt));
        assert!(used > 0.96 * mbit, "{mbit} Mbit/s, {rtt} ms, {buffer}: {used:.1}");
        assert!(queue < ms(rtt) / 4, "{mbit} Mbit/s, {rtt} ms, {buffer}: {queue:?} of queue");
    }
}

#[test]
fn cubic_fills_a_path_and_its_buffer() {
    let (used, queue) = alone(Bottleneck::new(50.0, ms(40), 2.0), Cubic, ms(40));
    assert!(used > 48.0 && queue > ms(20), "{used:.1} Mbit/s, {queue:?}");
}

#[test]
fn losses_that_are_chance_do_not_slow_bbr_down() {
    for (loss, least) in [(0.002, 40.0), (0.01, 37.0)] {
        for rtt in [20, 100] {
            let path = Bottleneck::new(50.0, ms(rtt), 1.0).loss(loss);
            let (bbr, _) = alone(path.clone(), Bbr, ms(rtt));
            let (cubic, _) = alone(path, Cubic, ms(rtt));
            assert!(bbr > least && bbr > 2.0 * cubic, "{loss}, {rtt} ms: {bbr:.1}, {cubic:.1}");
        }
    }
}

/// One lost datagram of six loses the whole packet: 1 % of loss is 6 % of the packets.
#[test]
fn packets_of_several_datagrams_are_judged_by_the_datagram() {
    for rtt in [20, 100] {
        let path = Bottleneck::new(100.0, ms(rtt), 1.0).loss(0.01);
        let (told, queue) = alone(path.clone().with_six_datagrams(true), Bbr, ms(rtt));
        let (untold, _) = alone(path.with_six_datagrams(false), Bbr, ms(rtt));
        println!("1 %, {rtt} ms: {told:.1} Mbit/s, {untold:.1} where it is not known");
        assert!(told > 75.0 && told > 1.3 * untold, "{rtt} ms: {told:.1}, {untold:.1}");
        assert!(queue < ms(rtt) / 2, "{rtt} ms: {queue:?} of queue");
    }
}

/// With a short buffer and several flows, slightly more is dropped than if the flows did not know of the datagrams; the
/// rate is the same.
#[test]
fn packets_of_several_datagrams_do_not_flood_a_short_buffer() {
    let share = |path: &Bottleneck, rtt, flows: u64| {
        let mut world = World::new(path.clone());
        (0..flows).for_each(|i| world.add(Bbr, ms(rtt), ms(i * 700), FOREVER));
        world.run(ms(10_000));
        world.clear();
        world.run(ms(40_000));
        let used: f64 = (0..flows as usize).map(|i| world.mbit(i)).sum();
        (used, world.counts().overflowed as f64 / world.counts().sent as f64)
    };
    for (rtt, buffer) in [(20, 0.5), (100, 0.25), (40, 1.0)] {
        for flows in [1, 2, 4] {
            let path = Bottleneck::new(50.0, ms(rtt), buffer);
            let (used, dropped) = share(&path.clone().with_six_datagrams(true), rtt, flows);
            let (untold, _) = share(&path.with_six_datagrams(false), rtt, flows);
            let what = format!("{rtt} ms, {buffer}, {flows}: {used:.1} and {untold:.1} Mbit/s");
            println!("{what}, {:.2} % dropped", dropped * 100.0);
            assert!(used > 0.88 * untold && dropped < 0.05, "{what}, {dropped:.4}");
        }
    }
}

#[test]
fn late_packets_are_no_losses() {
    for algorithm in [Bbr, Cubic] {
        let mut path = Bottleneck::new(50.0, ms(40), 1.0);
        path.conditions = path.conditions.late(0.2, ms(20));
        let (used, _) = alone(path, algorithm, ms(40));
        assert!(used > 40.0, "{algorithm}: {used:.1} Mbit/s");
    }
}

#[test]
fn startup_ends_within_a_few_round_trips_without_a_flood() {
    for (mbit, rtt) in [(20.0, 20), (100.0, 50), (500.0, 20)] {
        let mut world = World::new(Bottleneck::new(mbit, ms(rtt), 4.0)).flow(Bbr, ms(rtt));
        // Doubling from 16 packets takes log2(BDP / 16) rounds; then three rounds to be sure, and drain.
        world.run(ms(rtt) * 18);
        let lost = world.counters(0);
        assert_eq!(world.counts().overflowed, 0, "{mbit} Mbit/s: {lost:?}");
        world.clear();
        world.run(ms(rtt) * 40);
        assert!(world.mbit(0) > 0.9 * mbit, "{mbit} Mbit/s: {:.1}", world.mbit(0));
        assert!(world.queue() < ms(rtt) / 2, "{mbit} Mbit/s: {:?} of queue", world.queue());
    }
}

#[test]
fn a_rate_that_falls_and_rises_is_followed() {
    let path = Bottleneck::new(100.0, ms(40), 1.0).then(ms(10_000), 20.0).then(ms(20_000), 100.0);
    let mut world = World::new(path).flow(Bbr, ms(40));
    world.run(ms(14_000));
    world.clear();
    world.run(ms(20_000));
    let (low, queue) = (world.mbit(0), world.queue());
    assert!(low > 18.0 && queue < ms(60), "{low:.1} of 20 Mbit/s, {queue:?} of queue");
    // A probe every 2 to 3 s, each of which doubles its step every round.
    world.run(ms(32_000));
    world.clear();
    world.run(ms(40_000));
    assert!(world.mbit(0) > 80.0, "{:.1} of 100 Mbit/s", world.mbit(0));
}

#[test]
fn two_flows_share_a_path() {
    for (first, second) in [(Bbr, Bbr), (Cubic, Cubic), (Bbr, Cubic), (Cubic, Bbr)] {
        for (rtt, buffer) in [(10, 1.0), (40, 1.0), (40, 4.0)] {
            let mut world = World::new(Bottleneck::new(50.0, ms(rtt), buffer));
            world.add(first, ms(rtt), ms(0), FOREVER);
            world.add(second, ms(rtt), ms(5_000), FOREVER);
            world.run(ms(20_000));
            world.clear();
            world.run(ms(60_000));
            let (a, b) = (world.mbit(0), world.mbit(1));
            let what = format!("{first} {a:.1}, {second} {b:.1}, {rtt} ms, buffer {buffer}");
            assert!(a + b > 47.0, "{what}");
            // The draft's own flows of unlike kinds share in this way too.
            assert!(a.min(b) > 12.5, "{what}");
        }
    }
}

#[test]
fn a_flow_takes_the_bandwidth_another_leaves() {
    let mut world = World::new(Bottleneck::new(50.0, ms(40), 1.0));
    world.add(Bbr, ms(40), ms(0), ms(10_000));
    world.add(Bbr, ms(40), ms(2_000), FOREVER);
    world.run(ms(16_000));
    world.clear();
    world.run(ms(20_000));
    assert!(world.mbit(1) > 45.0, "{:.1}", world.mbit(1));
}

#[test]
fn ledbat_yields_to_other_flows_and_takes_the_rest() {
    for (mbit, rtt, buffer) in
        [(20.0, 20, 1.0), (50.0, 20, 8.0), (50.0, 100, 1.0), (50.0, 100, 4.0), (100.0, 40, 0.5)]
    {
        // Data of six datagrams, as in transfers.
        let path = Bottleneck::new(mbit, ms(rtt), buffer).with_six_datagrams(true);
        let (used, queue) = alone(path.clone(), Ledbat, ms(rtt));
        println!("{mbit} Mbit/s, {rtt} ms, {buffer}: alone {used:.1} Mbit/s, {queue:?} of queue");
        assert!(
            used > 0.7 * mbit && queue < ms(65),
            "{mbit}, {rtt} ms, {buffer}: {used:.1}, {queue:?}"
        );
        for other in [Cubic, Bbr] {
            // The first flow yields the path to a later one, and takes it again afterwards.
            let mut world = World::new(path.clone());
            world.add(Ledbat, ms(rtt), ms(0), FOREVER);
            world.add(other, ms(rtt), ms(10_000), ms(50_000));
            world.run(ms(20_000));
            world.clear();
            world.run(ms(50_000));
            let (background, front) = (world.mbit(0), world.mbit(1));
            let what = format!("{mbit}, {rtt} ms, {buffer}, {other}: {background:.1}, {front:.1}");
            println!("{what}");
            assert!(front > 0.8 * mbit && background < 0.15 * mbit, "{what}");
            world.run(ms(60_000));
            world.clear();
            world.run(ms(80_000));
            assert!(world.mbit(0) > 0.6 * mbit, "{what}, then {:.1}", world.mbit(0));
        }
    }
}

/// The second flow takes the queue of the first for the path's length, until the first slows down.
#[test]
fn ledbat_flows_share() {
    for (rtt, buffer) in [(20, 8.0), (100, 2.0)] {
        let mut world = World::new(Bottleneck::new(50.0, ms(rtt), buffer));
        world.add(Ledbat, ms(rtt), ms(0), FOREVER);
        world.add(Ledbat, ms(rtt), ms(20_000), FOREVER);
        world.run(ms(80_000));
        world.clear();
        world.run(ms(200_000));
        let (a, b) = (world.mbit(0), world.mbit(1));
        println!("{rtt} ms, {buffer}: {a:.1}, {b:.1}, {:?} of queue", world.queue());
        assert!(a + b > 35.0 && a.min(b) > 10.0, "{rtt} ms, {buffer}: {a:.1}, {b:.1}");
    }
}

#[test]
fn marks_instead_of_losses() {
    for algorithm in [Bbr, Cubic] {
        let mut path = Bottleneck::new(50.0, ms(40), 8.0);
        path.conditions.mark_above = 62_500; // 10 ms
        let mut world = World::new(path).flow(algorithm, ms(40));
        world.run(ms(1_000));
        world.clear();
        world.run(ms(20_000));
        let (used, queue, c) = (world.mbit(0), world.queue(), world.counters(0));
        assert_eq!((world.counts().overflowed, c.lost), (0, 0), "{algorithm}");
        assert!(used > 42.0, "{algorithm}: {used:.1} Mbit/s, {queue:?}, {c:?}");
        assert!(queue < ms(15), "{algorithm}: {queue:?} of queue");
    }
}

#[test]
fn one_seed_gives_one_sequence_of_counts() {
    let run = || {
        let path = Bottleneck::new(50.0, ms(20), 1.0).loss(0.01);
        let mut world = World::new(path).flow(Bbr, ms(20)).flow(Cubic, ms(30));
        world.run(ms(5_000));
        (world.counters(0).sent, world.counters(1).sent, world.counts().overflowed)
    };
    assert_eq!(run(), run());
}
