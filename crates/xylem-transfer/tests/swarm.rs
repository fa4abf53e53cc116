//! Many peers: those with a part are used for it, fetchers serve each other, liars and the vanished
//! hold nobody up, and who has room is asked.

mod sim;

use std::time::Duration;

use sim::{Behaviour, Net, Original, Role, Swarm, World, ms};
use xylem_transfer::{Config, PeerId};

const MBIT: f64 = 50.0;
const LIMIT: Duration = Duration::from_secs(300);

fn swarm(original: &Original, fetchers: usize) -> Swarm {
    let mut swarm = Swarm::new(original, ms(20), 1).node(Role::Source, MBIT);
    for _ in 0..fetchers {
        swarm = swarm.node(Role::Fetcher, MBIT);
    }
    swarm
}

/// Runs it; how long it took, and how often the source sent all.
fn finish(swarm: &mut Swarm, original: &Original) -> (f64, f64) {
    swarm.run(LIMIT);
    let failed: Vec<_> = swarm.nodes.iter().filter_map(|node| node.failed.clone()).collect();
    assert_eq!(failed, []);
    let seconds = swarm.finished().expect("everybody has everything").as_secs_f64();
    let size: usize = original.objects.values().map(|truth| truth.content.len()).sum();
    (seconds, swarm.sent_by_sources() as f64 / size as f64)
}

#[test]
fn fetchers_of_one_source_help_each_other() {
    let original = Original::file(16_000_000);
    let one = finish(&mut swarm(&original, 1), &original);
    let mut all = swarm(&original, 8);
    let eight = finish(&mut all, &original);
    // Alone with the source they would take eight times as long and cost it eight times as much.
    assert!(eight.0 < 2.0 * one.0, "{eight:?} and {one:?}");
    assert!(eight.1 < 2.0, "{eight:?}");
    assert!(all.duplicates() < 0.03, "{}", all.duplicates());
    assert!(all.nodes.iter().all(|node| node.blamed.is_empty()));
}

#[test]
fn a_directory_too() {
    let original = Original::directory(&(0..300).map(|i| i * 211 % 40_000).collect::<Vec<_>>());
    let one = finish(&mut swarm(&original, 1), &original);
    let four = finish(&mut swarm(&original, 4), &original);
    assert!(four.0 < 3.0 * one.0 && four.1 < 3.0, "{four:?} and {one:?}");
}

#[test]
fn liars_cost_little() {
    let original = Original::file(8_000_000);
    let honest = finish(&mut swarm(&original, 4), &original);
    for lie in [Role::Refuses, Role::Silent, Role::Garbage] {
        let mut with = swarm(&original, 4).node(lie, MBIT).node(lie, MBIT);
        let (seconds, times) = finish(&mut with, &original);
        assert!(seconds < 2.0 * honest.0 + 1.0, "{lie:?}: {seconds} s, {honest:?}");
        assert!(times < 3.0, "{lie:?}: {times}");
        let liars = [PeerId(5), PeerId(6)];
        let blamed = with.nodes.iter().flat_map(|node| &node.blamed);
        assert!(blamed.clone().all(|peer| liars.contains(peer)), "{lie:?}");
        assert_eq!(blamed.count() > 0, lie == Role::Garbage, "{lie:?}");
    }
}

/// The source leaves when what it has sent could be put together again, some fetchers leave and others
/// come at half: those that stay complete it, from each other.
#[test]
fn nodes_vanish_and_appear() {
    let original = Original::file(8_000_000);
    let half = ms(1_000);
    let mut swarm = swarm(&original, 4);
    swarm.add(Role::Fetcher, MBIT, ms(0), Some(half));
    swarm.add(Role::Fetcher, MBIT, ms(0), Some(half));
    swarm.add(Role::Fetcher, MBIT, half, None);
    swarm.add(Role::Selfish, MBIT, half, None);
    let (seconds, times) = finish(&mut swarm, &original);
    assert!(seconds < 10.0 && times < 4.0, "{seconds} s, {times}");
}

#[test]
fn the_source_is_not_needed_once_all_is_spread() {
    let original = Original::file(8_000_000);
    let mut swarm = Swarm::new(&original, ms(20), 1);
    swarm.add(Role::Source, MBIT, ms(0), Some(ms(4_000)));
    for _ in 0..4 {
        swarm.add(Role::Fetcher, MBIT, ms(0), None);
    }
    // Slow ones, and one that comes when the source is gone.
    swarm.add(Role::Fetcher, 4.0, ms(0), None);
    swarm.add(Role::Fetcher, MBIT, ms(4_500), None);
    finish(&mut swarm, &original);
}

#[test]
fn a_partition_heals() {
    let original = Original::file(8_000_000);
    let mut swarm = swarm(&original, 6);
    // The source and three fetchers on one side; on the other, what three have got until then.
    swarm.cut = Some((ms(500)..ms(6_000), 4));
    let (seconds, _) = finish(&mut swarm, &original);
    assert!((6.0..20.0).contains(&seconds), "{seconds}");
}

// ---- turns ------------------------------------------------------------------------------------

fn fetch(original: &Original, nets: &[Net], rate: Option<u64>) -> World {
    let mut world = World::new(original, Config::default(), 1);
    for net in nets {
        world = world.peer(original, Behaviour::Honest, net.clone());
    }
    world.transfer.set_rate_limit(rate);
    world.run(Duration::from_secs(600));
    assert!(world.is_done() && world.failed.is_none());
    world
}

#[test]
fn equal_peers_serve_equal_parts_under_a_limit() {
    let original = Original::file(16_000_000);
    for rtt in [1, 20, 100] {
        let nets = vec![Net::new(rtt, 0.0).rate(50.0, 625_000); 4];
        for rate in [1_000_000, 4_000_000, 12_000_000] {
            let shares = fetch(&original, &nets, Some(rate)).shares();
            assert!(
                shares.iter().all(|s| (0.15..=0.35).contains(s)),
                "{rtt} ms, {rate}: {shares:?}"
            );
        }
    }
}

#[test]
fn peers_serve_in_proportion_to_their_speed() {
    let original = Original::file(16_000_000);
    let nets = [Net::new(20, 0.0).rate(20.0, 100_000), Net::new(20, 0.0).rate(80.0, 400_000)];
    let free = fetch(&original, &nets, None).shares();
    assert!((0.15..=0.26).contains(&free[0]), "{free:?}");
    let limited = fetch(&original, &nets, Some(6_000_000)).shares();
    assert!((0.10..=0.35).contains(&limited[0]), "{limited:?}");
}

/// Four peers, of which one says nothing for a while after some time, or for good.
#[test]
fn little_comes_twice_at_the_end() {
    let original = Original::file(16 << 20);
    let net = Net::new(20, 0.0).rate(50.0, 125_000);
    for behaviour in [Behaviour::Honest, Behaviour::DiesAfter(200)] {
        let mut world = World::new(&original, Config::default(), 1);
        for stalls in [false, false, false, true] {
            let behaviour = if stalls { behaviour } else { Behaviour::Honest };
            world = world.peer(&original, behaviour, net.clone());
        }
        world.run(Duration::from_secs(60));
        assert!(world.is_done());
        let twice = world.transfer.progress().duplicates as f64 / 2_048.0;
        assert!(twice < 0.01, "{behaviour:?}: {twice}");
    }
}
