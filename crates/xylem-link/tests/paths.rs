//! Path validation: dialers that move, and attackers that fake a move.

mod sim;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use core::net::SocketAddr;
use core::time::Duration;
use sim::{Attacker, FAIR, MS, Net, S, addr};
use xylem_link::{LinkConfig, LinkId};
use xylem_sim::Conditions;

const DIALER: u8 = 0;
const RESPONDER: u8 = 1;
/// The true path, slower than every attacker here.
const SLOW: Conditions = Conditions { delay: Duration::from_millis(10), mtu: 1_472, ..FAIR };

type Links = (LinkId, LinkId);

fn connected(seed: u64, config: &LinkConfig, conditions: Conditions) -> (Net, Links) {
    let mut net = Net::pair(seed, config, conditions);
    let links = net.connect();
    net.run(S);
    (net, links)
}

fn remotes(net: &Net, links: Links) -> [SocketAddr; 2] {
    let remote = |i: usize, link| net.nodes[i].endpoint.link(link).expect("it lives").remote();
    [remote(0, links.0), remote(1, links.1)]
}

/// Both sides send a packet every 10 ms for `time`; returns how many of each arrived.
fn talk(net: &mut Net, links: Links, time: Duration) -> [usize; 2] {
    net.nodes.iter_mut().for_each(|node| node.packets.clear());
    let end = net.now() + time;
    while net.now() < end {
        for (i, link) in [links.0, links.1].into_iter().enumerate() {
            let _ = net.nodes[i].endpoint.send(link, &[7; 300]);
        }
        net.run(10 * MS);
    }
    net.run(400 * MS);
    // The dialer's packets arrive at node 1.
    [net.nodes[1].packets.len(), net.nodes[0].packets.len()]
}

/// Forwards copies of everything, both ways, challenges and responses included. It sends from an address of its own or,
/// with `forges`, towards the dialer from the responder's. It forwards datagrams sent to its own address to the other
/// side.
fn relay(forges: bool) -> Attacker {
    let (attacker, dialer, responder) = (addr(66), addr(DIALER), addr(RESPONDER));
    let to_dialer = if forges { responder } else { attacker };
    Box::new(move |from, to, bytes| {
        assert!(to == dialer || to == responder || to == attacker);
        if from == dialer {
            vec![(MS, attacker, responder, bytes.to_vec())]
        } else {
            vec![(MS, to_dialer, dialer, bytes.to_vec())]
        }
    })
}

/// An attacker that is faster than the true path forwards everything and then falls silent: the link never moved to it,
/// and goes on.
#[test]
fn a_quicker_relay_does_not_become_the_path() {
    for (seed, forges) in [(1, false), (2, true), (3, false), (4, true)] {
        let loss = if seed > 2 { 0.05 } else { 0.0 };
        let (mut net, links) = connected(seed, &LinkConfig::default(), Conditions { loss, ..SLOW });
        net.attacker = Some(relay(forges));
        for _ in 0..20 {
            let came = talk(&mut net, links, 200 * MS);
            assert!(came.iter().all(|n| *n >= 20), "{came:?}: the relay is quick");
            if loss == 0.0 {
                assert_eq!(remotes(&net, links), [addr(RESPONDER), addr(DIALER)]);
            }
        }
        net.attacker = None;
        talk(&mut net, links, S);
        let came = talk(&mut net, links, S);
        assert!(came.iter().all(|n| *n >= 80), "seed {seed}: {came:?} of 100 after its silence");
        net.run(120 * S);
        assert!(net.nodes.iter().all(|n| n.closed.is_empty()), "seed {seed}");
        assert_eq!(remotes(&net, links), [addr(RESPONDER), addr(DIALER)]);
    }
}

/// The far end of a detour that only this attacker uses: it forwards only what is sent to it.
fn detour() -> Attacker {
    let (detour, dialer, responder) = (addr(66), addr(DIALER), addr(RESPONDER));
    Box::new(move |from, to, bytes| {
        if from == dialer {
            vec![(MS, detour, responder, bytes.to_vec())]
        } else if to == detour {
            vec![(MS, responder, dialer, bytes.to_vec())]
        } else {
            vec![]
        }
    })
}

/// While the true path fails, a relay is the only one, and the link uses it. The link goes back as soon as something
/// newer arrives on the true path, or, if the dialer sends nothing, when the relay's silence is noticed.
#[test]
fn a_link_goes_back_when_a_relay_falls_silent() {
    for dialer_talks in [true, false] {
        let (mut net, links) = connected(1, &LinkConfig::default(), SLOW);
        net.attacker = Some(detour());
        net.conditions.loss = 1.0;
        talk(&mut net, links, 2 * S);
        assert_eq!(remotes(&net, links), [addr(RESPONDER), addr(66)], "it is the only way");
        net.conditions.loss = 0.0;
        net.attacker = None;
        net.nodes[0].packets.clear();
        for _ in 0..200 {
            if dialer_talks {
                net.nodes[0].endpoint.send(links.0, &[1; 100]).unwrap();
            }
            net.nodes[1].endpoint.send(links.1, &[2; 100]).unwrap();
            net.run(if dialer_talks { 10 * MS } else { 70 * MS });
        }
        assert_eq!(remotes(&net, links), [addr(RESPONDER), addr(DIALER)]);
        let came = net.nodes[0].packets.len();
        assert!(came > if dialer_talks { 150 } else { 30 }, "{came} of 200");
        assert!(net.nodes.iter().all(|n| n.closed.is_empty()));
    }
}

/// Without keep-alives too: after half the idle timeout the responder challenges the dialer's earlier address.
#[test]
fn a_silent_relay_is_left_without_keep_alives_too() {
    let config = LinkConfig { keep_alive: None, ..LinkConfig::default() };
    let (mut net, links) = connected(1, &config, SLOW);
    net.attacker = Some(detour());
    net.conditions.loss = 1.0;
    talk(&mut net, links, 2 * S);
    assert_eq!(remotes(&net, links)[1], addr(66));
    net.conditions.loss = 0.0;
    net.attacker = None;
    net.run(20 * S);
    assert_eq!(remotes(&net, links)[1], addr(DIALER));
    assert!(talk(&mut net, links, S).iter().all(|n| *n == 100));
}

/// An attacker that copies only one direction cannot answer challenges.
#[test]
fn a_relay_of_one_direction_moves_nothing() {
    for towards in [DIALER, RESPONDER] {
        let (mut net, links) = connected(5, &LinkConfig::default(), SLOW);
        let copied = Arc::new(AtomicUsize::new(0));
        let counter = copied.clone();
        net.attacker = Some(Box::new(move |from, to, bytes| {
            if to != addr(towards) || from == addr(66) {
                return vec![];
            }
            counter.fetch_add(bytes.len(), Ordering::Relaxed);
            vec![(MS, addr(66), to, bytes.to_vec())]
        }));
        for _ in 0..10 {
            assert_eq!(talk(&mut net, links, 500 * MS), [50, 50]);
            assert_eq!(remotes(&net, links), [addr(RESPONDER), addr(DIALER)]);
        }
        let got: usize = net.outside.get(&addr(66)).into_iter().flatten().map(Vec::len).sum();
        assert!(got <= copied.load(Ordering::Relaxed) / 4, "{got}");
        assert!(got > 0, "either side asks");
    }
}

/// A new address for each copy: none receives more bytes than came from it, and the link stays.
#[test]
fn a_relay_of_many_addresses_moves_nothing() {
    let (mut net, links) = connected(6, &LinkConfig::default(), SLOW);
    let paid = Arc::new(Mutex::new(HashMap::new()));
    let (payer, mut n) = (paid.clone(), 0u32);
    net.attacker = Some(Box::new(move |from, to, bytes| {
        let (dialer, responder) = (addr(DIALER), addr(RESPONDER));
        if from != dialer {
            return vec![(MS, responder, dialer, bytes.to_vec())];
        }
        assert_eq!(to, responder);
        n += 1;
        let from = SocketAddr::from(((0xc0a8_0000 + n).to_be_bytes(), 5));
        *payer.lock().unwrap().entry(from).or_insert(0) += bytes.len();
        vec![(MS, from, to, bytes.to_vec())]
    }));
    for _ in 0..10 {
        assert_eq!(talk(&mut net, links, 500 * MS), [50, 50]);
        assert_eq!(remotes(&net, links), [addr(RESPONDER), addr(DIALER)]);
    }
    let paid = paid.lock().unwrap();
    assert!(!net.outside.is_empty() && net.outside.len() < 10, "one address a second is asked");
    for (to, got) in &net.outside {
        assert!(got.iter().map(Vec::len).sum::<usize>() <= paid[to]);
    }
}

/// A NAT gives the dialer another port, and the old one is dead: the link moves within a second, and requested data
/// arrives.
#[test]
fn a_true_move_takes_less_than_a_second() {
    for (seed, delay) in [(1, 1), (2, 10), (3, 50), (4, 150)] {
        let conditions = Conditions { delay: delay * MS, ..SLOW };
        let (mut net, links) = connected(seed, &LinkConfig::default(), conditions);
        talk(&mut net, links, S);
        for moved in [addr(77), addr(78), addr(DIALER), addr(77)] {
            net.nodes[0].at = moved;
            let begun = net.now();
            while remotes(&net, links)[1] != moved {
                net.nodes[0].endpoint.send(links.0, &[1; 10]).unwrap();
                net.run(10 * MS);
                assert!(net.now() < begun + S + 2 * delay * MS, "{delay} ms of delay");
            }
            net.run(S);
            assert_eq!(talk(&mut net, links, S), [100, 100]);
        }
        assert_eq!(remotes(&net, links)[0], addr(RESPONDER));
    }
}

/// An observer of a link before its move and an observer after it have no id in common, of either direction. This holds
/// too where the moving side learns of its move only from the peer.
#[test]
fn a_link_that_has_moved_has_other_ids() {
    let (mut net, links) = connected(1, &LinkConfig::default(), SLOW);
    net.record = true;
    let ids = |net: &mut Net| {
        net.tap.clear();
        assert_eq!(talk(net, links, S), [100, 100]);
        let ids = net.tap.iter().map(|(_, _, datagram)| datagram[..8].to_vec());
        ids.collect::<HashSet<_>>()
    };
    let mut seen = ids(&mut net);
    for moved in [addr(77), addr(78), addr(DIALER)] {
        assert!(!seen.is_empty());
        net.nodes[0].at = moved;
        while remotes(&net, links)[1] != moved {
            talk(&mut net, links, 100 * MS);
        }
        talk(&mut net, links, S);
        let now = ids(&mut net);
        assert!(now.is_disjoint(&seen), "an id is seen on both ways");
        seen.extend(now);
    }
}

/// With a loss of a fifth, and where the new path is three times as long.
#[test]
fn a_move_is_found_under_loss_and_to_a_longer_way() {
    for seed in 0..20 {
        let (mut net, links) =
            connected(seed, &LinkConfig::default(), Conditions { loss: 0.2, ..SLOW });
        talk(&mut net, links, S);
        net.nodes[0].at = addr(77);
        net.conditions.delay = if seed % 2 == 0 { 300 * MS } else { 10 * MS };
        talk(&mut net, links, 8 * S);
        assert_eq!(remotes(&net, links)[1], addr(77), "seed {seed}");
        let came = talk(&mut net, links, 2 * S);
        assert!(came.iter().all(|n| *n > 100), "seed {seed}: {came:?}");
    }
}

/// A dialer that sends from a new address and is still reached at the old one keeps the old path, and loses nothing;
/// when the old path dies, the link follows.
#[test]
fn the_old_address_is_left_when_it_is_dead() {
    let (mut net, links) = connected(7, &LinkConfig::default(), SLOW);
    net.nodes[0].at = addr(77);
    net.attacker = Some(Box::new(|from, to, bytes| {
        if to == addr(DIALER) { vec![(10 * MS, from, addr(77), bytes.to_vec())] } else { vec![] }
    }));
    for _ in 0..20 {
        assert_eq!(talk(&mut net, links, 500 * MS), [50, 50]);
    }
    net.attacker = None;
    let begun = net.now();
    while remotes(&net, links)[1] != addr(77) {
        talk(&mut net, links, 50 * MS);
        assert!(net.now() < begun + 2 * S);
    }
    assert_eq!(talk(&mut net, links, S), [100, 100]);
}

/// A dialer dials one address of a machine that answers from another. It accepts the datagrams and goes on sending to
/// the dialled address, which still answers. It also challenges the other address, once a second.
#[test]
fn a_dialer_does_not_move_after_its_responder() {
    let (mut net, links) = connected(8, &LinkConfig::default(), SLOW);
    net.attacker = Some(Box::new(|from, to, bytes| {
        if from == addr(88) { vec![] } else { vec![(MS, addr(88), to, bytes.to_vec())] }
    }));
    net.record = true;
    assert_eq!(talk(&mut net, links, 5 * S), [500, 500]);
    let mut elsewhere =
        net.tap.iter().filter(|(from, to, _)| *from == addr(DIALER) && *to != addr(RESPONDER));
    assert!(elsewhere.all(|(_, to, bytes)| *to == addr(88) && bytes.len() <= 100));
    let asked = net.tap.iter().filter(|(_, to, _)| *to == addr(88)).count();
    assert!((1..=18).contains(&asked), "{asked} in 5.4 s");
    assert_eq!(remotes(&net, links), [addr(RESPONDER), addr(DIALER)]);
}

/// Before an address is proven it never gets more bytes than came from it, for every length of a copied datagram, and
/// for all of them together.
#[test]
fn a_copied_datagram_draws_no_more_bytes_than_it_has() {
    let mut asked = 0;
    for len in (1..100).chain([200, 1_000]) {
        let (mut net, links) =
            connected(9, &LinkConfig { ecn: false, ..LinkConfig::default() }, SLOW);
        net.record = true;
        net.nodes[0].endpoint.send(links.0, &vec![1; len]).unwrap();
        // The genuine datagram is lost; the copy arrives first.
        net.conditions.loss = 1.0;
        net.flush();
        net.conditions.loss = 0.0;
        let (_, to, datagram) = net.tap.pop().unwrap();
        assert!(net.tap.is_empty() && datagram.len() == 28 + 3 + len);
        net.inject(addr(66), to, datagram);
        net.run(5 * S);
        let out: usize = net.outside.get(&addr(66)).into_iter().flatten().map(Vec::len).sum();
        assert!(out <= 31 + len, "{out} bytes for {}", 31 + len);
        asked += usize::from(out > 0);
    }
    // A challenge has 37 bytes: an address that has sent as many is challenged.
    assert_eq!(asked, 101 - 5);
}
