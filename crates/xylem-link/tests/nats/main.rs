//! Peers behind NATs: they meet through a relay, find a direct way where there is one, and continue when it fails.

mod world;

use core::time::Duration;

use world::{MS, Nats, S, World, relayed};
use xylem_sim::{Conditions, NatBehaviour};

const NONE: Nats<'static> = &[];
const FULL: Nats<'static> = &[NatBehaviour::FULL_CONE];
const ADDRESS: Nats<'static> = &[NatBehaviour::ADDRESS_RESTRICTED];
const PORT: Nats<'static> = &[NatBehaviour::PORT_RESTRICTED];
const SYMMETRIC: Nats<'static> = &[NatBehaviour::SYMMETRIC];
const DOUBLE: Nats<'static> = &[NatBehaviour::FULL_CONE, NatBehaviour::PORT_RESTRICTED];

const KINDS: [Nats<'static>; 6] = [NONE, FULL, ADDRESS, PORT, SYMMETRIC, DOUBLE];

/// A round trip of 50 ms, direct and by the relay.
const LINE: Conditions =
    Conditions { delay: Duration::from_millis(25), mtu: 1_472, ..Conditions::PERFECT };

/// Returns whether both NATs filter by port, and one of them maps to random ports.
fn needs_a_search(a: Nats<'_>, b: Nats<'_>) -> bool {
    let strict = |n: Nats<'_>| n == PORT || n == DOUBLE;
    (a == SYMMETRIC && strict(b)) || (b == SYMMETRIC && strict(a))
}

/// Makes 100 tries; returns how many were connected, and how many were direct within a second of the dial.
fn tries(a: Nats<'_>, b: Nats<'_>) -> (usize, usize) {
    let (mut connected, mut direct) = (0, 0);
    for seed in 0..100 {
        let mut world = World::new(seed, [a, b], LINE);
        world.run(S);
        direct += usize::from(world.is_direct());
        world.talks = Some(50 * MS);
        world.run(2 * S);
        let talk = world.peers.iter().all(|peer| peer.closed.is_empty() && peer.got.len() > 35);
        connected += usize::from(talk);
    }
    (connected, direct)
}

/// Every pair, 100 times each. Port-restricted with symmetric is a matter of chance, and mostly succeeds.
#[test]
fn every_pair_of_nats_connects_directly_where_possible() {
    for (i, a) in KINDS.iter().enumerate() {
        for b in &KINDS[i..] {
            let (connected, direct) = tries(a, b);
            println!("{connected} connected, {direct} direct: {a:?} {b:?}");
            assert_eq!(connected, 100, "{a:?} {b:?}");
            if *a == SYMMETRIC && *b == SYMMETRIC {
                assert_eq!(direct, 0, "nobody can");
            } else if needs_a_search(a, b) {
                assert!(direct >= 60, "{direct} of 100: {a:?} {b:?}");
            } else {
                assert_eq!(direct, 100, "{a:?} {b:?}");
            }
        }
    }
}

/// Two peers behind one NAT meet at their own addresses, whether it does hairpinning or not. If each has a NAT of its
/// own behind that one, they need hairpinning at the common NAT; without it they stay with the relay.
#[test]
fn peers_behind_one_nat_meet_within_it_or_by_hairpinning() {
    for hairpin in [false, true] {
        for kind in [NatBehaviour::FULL_CONE, NatBehaviour::PORT_RESTRICTED] {
            let common = &[NatBehaviour { hairpin, ..kind }][..];
            for seed in 0..20 {
                let mut world = World::behind(seed, common, [NONE, NONE], LINE);
                world.run(S);
                assert!(world.is_direct(), "{common:?} {:?}", world.ways());
                let mut world = World::behind(seed, common, [PORT, PORT], LINE);
                world.run(S);
                assert_eq!(world.is_direct(), hairpin, "{common:?} {:?}", world.ways());
                world.talks = Some(50 * MS);
                world.run(2 * S);
                let talk = world.peers.iter().all(|p| p.closed.is_empty() && p.got.len() > 35);
                assert!(talk, "{common:?}");
            }
        }
    }
}

/// The longest time after `from` in which a peer received nothing.
fn longest_silence(world: &World, peer: usize, from: Duration) -> Duration {
    let times = world.peers[peer].got.iter().map(|(_, at)| *at).filter(|at| *at >= from);
    let mut before = from;
    let mut longest = Duration::ZERO;
    for at in times.chain([world.now()]) {
        longest = longest.max(at - before);
        before = at;
    }
    longest
}

/// A NAT on either side forgets all its mappings during a session and gives new ports: the session goes on within two
/// seconds, by the relay or directly.
#[test]
fn a_session_outlives_its_nat() {
    for (a, b) in [(NONE, FULL), (FULL, NONE), (PORT, PORT), (ADDRESS, FULL), (SYMMETRIC, FULL)] {
        for rebooted in 0..2 {
            for seed in 0..10 {
                let mut world = World::new(seed, [a, b], LINE);
                world.talks = Some(20 * MS);
                world.run(5 * S);
                assert!(world.is_direct(), "{a:?} {b:?}");
                world.reboot(rebooted);
                let begun = world.now();
                world.run(10 * S);
                for peer in 0..2 {
                    let silence = longest_silence(&world, peer, begun);
                    assert!(silence < 2 * S, "{silence:?}: {a:?} {b:?}, {rebooted}");
                    assert!(world.peers[peer].closed.is_empty());
                }
                assert!(world.is_direct(), "again: {a:?} {b:?}, {rebooted}: {:?}", world.ways());
            }
        }
    }
}

/// The direct way is cut: the link goes on by the relay, and back when the way works again. Then the relay is cut,
/// which does no harm.
#[test]
fn a_link_goes_on_by_the_relay_when_its_way_fails() {
    for seed in 0..20 {
        let mut world = World::new(seed, [PORT, PORT], LINE);
        world.talks = Some(20 * MS);
        world.run(5 * S);
        assert!(world.is_direct());
        world.direct_works = false;
        let begun = world.now();
        world.run(10 * S);
        assert_eq!(world.ways(), [Some(relayed()); 2]);
        for peer in 0..2 {
            assert!(longest_silence(&world, peer, begun) < 1_300 * MS, "seed {seed}");
        }
        world.direct_works = true;
        world.relay_works = false;
        world.run(10 * S);
        assert!(world.peers.iter().all(|peer| peer.closed.is_empty()));
        let begun = world.now();
        world.run(5 * S);
        for peer in 0..2 {
            assert!(longest_silence(&world, peer, begun) < 1_300 * MS, "seed {seed}");
        }
    }
}

/// An attacker copies relayed datagrams and is faster. Its address does not become the link's way, although it would be
/// a direct one, from any host that the peers have not named.
#[test]
fn a_copier_of_relayed_datagrams_does_not_become_the_way() {
    for seed in 0..10 {
        let mut world = World::new(seed, [NONE, NONE], LINE);
        world.direct_works = false;
        world.run(S);
        world.copier = Some("66.6.6.6:6".parse().unwrap());
        world.talks = Some(20 * MS);
        for _ in 0..100 {
            world.run(100 * MS);
            assert!(world.ways().iter().all(|way| way.is_none_or(|way| way == relayed())));
        }
        world.copier = None;
        let begun = world.now();
        world.run(5 * S);
        for peer in 0..2 {
            assert!(longest_silence(&world, peer, begun) < 200 * MS, "nothing was theirs");
        }
    }
}

/// Datagrams are lost, doubled and overtake each other: a direct way is found all the same.
#[test]
fn a_way_is_found_through_a_bad_network() {
    let bad = Conditions { loss: 0.1, duplicate: 0.02, jitter: 30 * MS, ..LINE };
    let mut direct = 0;
    for seed in 0..100 {
        let mut world = World::new(seed, [PORT, if seed % 2 == 0 { PORT } else { ADDRESS }], bad);
        world.talks = Some(20 * MS);
        // The dial may take its time; it repeats less and less often.
        while world.ways().contains(&None) {
            assert!(world.now() < 12 * S);
            world.run(10 * MS);
        }
        world.run(4 * S);
        direct += usize::from(world.is_direct());
        world.run(2 * S);
        for peer in &world.peers {
            let (first, last) = (peer.got.first(), peer.got.last());
            let what = (peer.got.len(), first, last, &peer.moves);
            assert!(peer.closed.is_empty() && peer.got.len() > 150, "{seed}: {what:?}");
        }
    }
    assert!(direct >= 95, "{direct} of 100");
}

/// Synthetic addresses are never announced to a peer.
#[test]
fn no_synthetic_address_is_announced() {
    let mut world = World::new(1, [SYMMETRIC, PORT], LINE);
    world.talks = Some(20 * MS);
    world.run(5 * S);
    for peer in &world.peers {
        assert!(peer.seen_at.iter().all(|at| at.is_ipv4()), "{:?}", peer.seen_at);
    }
    assert!(world.is_direct() && !world.peers[0].seen_at.is_empty());
    assert!(world.strays.len() <= 48, "datagrams to addresses behind the other's NAT");
}

/// A move to a better way loses nothing: everything that was sent arrives, once.
#[test]
fn a_better_way_is_taken_without_a_loss() {
    for (seed, kind) in (0..20).flat_map(|seed| [(seed, PORT), (seed, FULL), (seed, NONE)]) {
        let mut world = World::new(seed, [kind, PORT], LINE);
        world.talks = Some(MS);
        world.run(5 * S);
        world.talks = None;
        world.run(S);
        assert!(world.is_direct());
        for peer in &world.peers {
            assert!(peer.moves.len() == 1, "{:?}", peer.moves);
            let mut numbers: Vec<u32> = peer.got.iter().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            assert!(numbers.len() > 4_000, "{}", numbers.len());
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "one was lost");
        }
    }
}
