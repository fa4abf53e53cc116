//! The client in a DHT of a thousand nodes under virtual time (`world.rs`). A third of them lie or are silent, and 3 %
//! of the datagrams are lost.

mod world;

use core::net::SocketAddr;
use core::time::Duration;

use ed25519_dalek::{Signer as _, SigningKey};
use proptest::prelude::*;

use self::world::{LISTED_VICTIM, Mapping, NodeKind, VICTIM, World};
use crate::krpc::Transaction;
use crate::search::MAX_QUERIES;
use crate::silent::MAX_UNANSWERED;
use crate::*;

const SEEDS: u64 = 8;

fn publisher() -> SigningKey {
    SigningKey::from_bytes(&[5; 32])
}

fn item(seq: i64, value: &[u8]) -> MutableItem {
    let signature = publisher().sign(&signable(b"salt", seq, value)).to_bytes();
    let key = publisher().verifying_key().to_bytes();
    MutableItem { key, salt: b"salt".to_vec(), seq, value: value.to_vec(), signature }
}

fn client(world: &World, seed: u8, v6: bool) -> DhtClient {
    let config = DhtConfig { bootstrap: world.bootstrap(), ipv4: !v6, ipv6: v6 };
    DhtClient::new(config, [seed; 32])
}

fn look(world: &mut World, client: usize, kind: LookupKind) -> (Vec<DhtEvent>, LookupEnd) {
    let now = world.now();
    let id = world.clients[client].dht.lookup(now, kind).unwrap();
    world.run(client, id)
}

fn peers(events: &[DhtEvent]) -> Vec<SocketAddr> {
    let of = |event: &DhtEvent| match event {
        DhtEvent::Peers(_, peers) => peers.new.clone(),
        _ => Vec::new(),
    };
    events.iter().flat_map(of).collect()
}

fn values(events: &[DhtEvent]) -> Vec<(i64, Vec<u8>)> {
    let of = |event: &DhtEvent| match event {
        DhtEvent::Item(_, item) => Some((item.seq, item.value.clone())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn announcements_are_found_in_a_network_of_liars() {
    let mut times = Vec::new();
    for seed in 0..SEEDS {
        let mut world = World::new(1_000, 333, false, seed);
        let offers = world.add(client(&world, 1, false), "31.0.0.1", Mapping::Cone);
        let seeks = world.add(client(&world, 2, false), "32.0.0.1", Mapping::Cone);
        let hash = DhtId(world.rng.bytes(20).try_into().unwrap());
        let (_, end) =
            look(&mut world, offers, LookupKind::Announce(hash, AnnouncedPorts::IMPLIED));
        assert!(end.error.is_none() && end.stored >= 3, "seed {seed}: {end:?}");
        let begun = world.now();
        let (events, end) = look(&mut world, seeks, LookupKind::Peers(hash));
        times.push(world.now() - begun);
        let found = peers(&events);
        assert!(
            found.contains(&"31.0.0.1:40000".parse().unwrap()),
            "seed {seed}: {found:?}, {end:?}"
        );
        assert!(found.len() <= MAX_PEERS);
        // A poll sees a second announcement soon.
        look(&mut world, seeks, LookupKind::Announce(hash, AnnouncedPorts::of(7)));
        let sees = (0..10).any(|_| {
            world.pass(Duration::from_secs(1));
            let id = world.clients[offers].dht.poll_peers(hash).unwrap();
            let (events, _) = world.run(offers, id);
            peers(&events).contains(&"32.0.0.1:7".parse().unwrap())
        });
        assert!(sees, "seed {seed}: polls do not see the announcement");
    }
    times.sort();
    println!("found after {:?} (median), {:?} (longest)", times[times.len() / 2], times.last());
    assert!(*times.last().unwrap() < Duration::from_secs(20), "{times:?}");
}

/// Lookups repeated for minutes, among nodes that list a victim's network and hundreds of ports of one host.
#[test]
fn victims_get_few_datagrams_and_few_places_among_peers() {
    for seed in 0..SEEDS {
        let mut world = World::new(1_000, 333, false, 100 + seed);
        let seeks = world.add(client(&world, 1, false), "31.0.0.1", Mapping::Cone);
        let hash = DhtId(world.rng.bytes(20).try_into().unwrap());
        for round in 0..8 {
            let before: usize = world.sent.values().sum();
            let (events, _) = look(&mut world, seeks, LookupKind::Peers(hash));
            let sent = world.sent.values().sum::<usize>() - before;
            assert!(sent <= 2 * MAX_QUERIES + 20, "round {round} sends {sent}");
            let listed = |at: &&SocketAddr| at.ip() == std::net::IpAddr::from(LISTED_VICTIM);
            assert!(peers(&events).iter().filter(listed).count() <= 4);
        }
        let (mut most, mut victims) = (0, 0);
        for (at, sent) in &world.sent {
            let silent = world.nodes.iter().any(|n| n.at == *at && n.kind == NodeKind::Silent);
            let entry = world.bootstrap().contains(at);
            let is_victim =
                matches!(at.ip(), std::net::IpAddr::V4(ip) if ip.octets()[..2] == VICTIM);
            if is_victim || (silent && !entry) {
                most = most.max(*sent);
            }
            victims += if is_victim { *sent } else { 0 };
            assert_ne!(at.port(), 0);
        }
        assert!(
            most <= usize::from(MAX_UNANSWERED),
            "seed {seed}: {most} datagrams to one address"
        );
        // 40 hosts are listed, each with at most 6 datagrams in the quarter of an hour.
        assert!(victims <= 240, "seed {seed}: {victims} datagrams to victims");
    }
}

#[test]
fn only_signed_values_are_reported_and_the_signed_one_is_found() {
    for seed in 0..SEEDS {
        let mut world = World::new(1_000, 333, false, 200 + seed);
        let puts = world.add(client(&world, 1, false), "31.0.0.1", Mapping::Cone);
        let gets = world.add(client(&world, 2, false), "32.0.0.1", Mapping::Cone);
        let (_, end) = look(&mut world, puts, LookupKind::Put(item(3, b"three"), None));
        assert!(end.error.is_none() && end.stored >= 3, "seed {seed}: {end:?}");
        let wanted = LookupKind::Item { key: item(0, b"").key, salt: b"salt".to_vec() };
        let (events, _) = look(&mut world, gets, wanted.clone());
        assert_eq!(values(&events), [(3, b"three".to_vec())], "seed {seed}");
        look(&mut world, puts, LookupKind::Put(item(4, b"four"), None));
        let (events, _) = look(&mut world, gets, wanted);
        let found = values(&events);
        assert!(found.contains(&(4, b"four".to_vec())), "seed {seed}: {found:?}");
        assert!(found.iter().all(|(seq, _)| *seq <= 4));
        // Another salt is another item.
        let other = LookupKind::Item { key: item(0, b"").key, salt: b"other".to_vec() };
        let (events, end) = look(&mut world, gets, other);
        assert!(values(&events).is_empty() && end.error.is_none());
    }
}

#[test]
fn nodes_show_whether_a_nat_is_symmetric() {
    for (mapping, symmetric) in [(Mapping::Cone, false), (Mapping::Symmetric, true)] {
        let mut world = World::new(1_000, 333, false, 300);
        let seeks = world.add(client(&world, 1, false), "31.0.0.1", mapping);
        let (events, _) = look(&mut world, seeks, LookupKind::Peers(DhtId([7; 20])));
        let seen = world.clients[seeks].dht.observed_v4();
        let is_ours = |seen: &&ObservedAddress| seen.at.ip().to_string() == "31.0.0.1";
        let ours = seen.iter().filter(is_ours).count();
        assert_eq!(is_symmetric(&seen), Some(symmetric), "{seen:?}");
        if symmetric {
            assert!(ours > 5, "{seen:?}");
        } else {
            assert_eq!((ours, seen[0].at.port()), (1, 40_000));
            assert!(events.contains(&DhtEvent::Observed));
        }
    }
}

#[test]
fn ipv6_nodes_are_a_network_of_their_own() {
    let mut world = World::new(400, 100, true, 400);
    let offers = world.add(client(&world, 1, true), "2b00::1", Mapping::Cone);
    let seeks = world.add(client(&world, 2, true), "2b00:1::1", Mapping::Cone);
    let hash = DhtId([3; 20]);
    look(&mut world, offers, LookupKind::Announce(hash, AnnouncedPorts::IMPLIED));
    let (events, _) = look(&mut world, seeks, LookupKind::Peers(hash));
    assert!(peers(&events).contains(&"[2b00::1]:40000".parse().unwrap()));
    assert!(world.clients[seeks].dht.observed_v6()[0].at.is_ipv6());
}

/// The IPv6 network is silent: later lookups of IPv4 nodes do not wait for it each time.
#[test]
fn a_silent_family_delays_few_lookups() {
    let mut world = World::new(300, 0, false, 450);
    let silent: SocketAddr = "[2a00::1]:6881".parse().unwrap();
    let bootstrap = [world.bootstrap(), vec![silent]].concat();
    let config = DhtConfig { bootstrap, ipv4: true, ipv6: true };
    let seeks = world.add(DhtClient::new(config, [1; 32]), "31.0.0.1", Mapping::Cone);
    for n in 0..100 {
        let (_, end) = look(&mut world, seeks, LookupKind::Peers(DhtId([n; 20])));
        assert!(end.error.is_none() && end.answered >= 8, "{end:?}");
        world.pass(Duration::from_secs(2));
    }
    assert!(world.sent[&silent] <= 16, "{} datagrams", world.sent[&silent]);
}

/// A network that is smaller than an entry wants, with a silent node among its first ones. The first lookup began when the
/// silent one had been waited for, a second.
#[test]
fn a_silent_first_node_delays_no_first_lookup() {
    let mut times = Vec::new();
    for seed in 0..SEEDS {
        let mut world = World::new(14, 0, false, 700 + seed);
        let silent: SocketAddr = "24.0.0.1:6881".parse().unwrap();
        let bootstrap = [vec![silent], world.bootstrap()].concat();
        let config = DhtConfig { bootstrap, ipv4: true, ipv6: false };
        let seeks = world.add(DhtClient::new(config, [1; 32]), "31.0.0.1", Mapping::Cone);
        let begun = world.now();
        let (_, end) = look(&mut world, seeks, LookupKind::Peers(DhtId([7; 20])));
        assert!(end.error.is_none() && end.answered >= 6, "seed {seed}: {end:?}");
        times.push(world.now() - begun);
    }
    times.sort();
    println!("the first lookup takes {:?} (median)", times[times.len() / 2]);
    assert!(times[times.len() / 2] < Duration::from_millis(900), "{times:?}");
}

/// A second lookup starts from nodes that answered, not from the addresses of the entry.
#[test]
fn later_lookups_start_warm() {
    let mut world = World::new(1_000, 333, false, 500);
    let seeks = world.add(client(&world, 1, false), "31.0.0.1", Mapping::Cone);
    look(&mut world, seeks, LookupKind::Peers(DhtId([7; 20])));
    let of_entry = |world: &World| -> usize {
        world.bootstrap().iter().filter_map(|at| world.sent.get(at)).sum()
    };
    let (before, begun) = (of_entry(&world), world.now());
    look(&mut world, seeks, LookupKind::Peers(DhtId([99; 20])));
    assert_eq!(of_entry(&world), before);
    let warm = world.now() - begun;
    assert!(warm < Duration::from_secs(8), "{warm:?}");
    assert!((16..=32).contains(&world.clients[seeks].dht.known_nodes(32).len()));
}

#[test]
fn one_seed_gives_one_course() {
    let course = |seed| {
        let mut world = World::new(300, 100, false, 600);
        let seeks = world.add(client(&world, seed, false), "31.0.0.1", Mapping::Cone);
        let end = look(&mut world, seeks, LookupKind::Peers(DhtId([7; 20]))).1;
        (world.sent, end, world.clients[seeks].dht.known_nodes(256))
    };
    assert_eq!(course(1), course(1));
    assert_ne!(course(1).0, course(2).0);
}

fn lone(seed: u8) -> (DhtClient, SocketAddr) {
    let at: SocketAddr = "23.0.0.1:6881".parse().unwrap();
    let config = DhtConfig { bootstrap: vec![at], ipv4: true, ipv6: true };
    (DhtClient::new(config, [seed; 32]), at)
}

fn transaction(query: &[u8]) -> Transaction {
    bencode::dictionary(query).unwrap().array(b"t").unwrap()
}

/// The transaction alone, or the address alone, makes no answer.
#[test]
fn only_the_asked_address_answers_with_its_transaction() {
    let (mut dht, at) = lone(1);
    let now = Duration::ZERO;
    dht.lookup(now, LookupKind::Peers(DhtId([1; 20]))).unwrap();
    let query = dht.poll_transmit(now).unwrap();
    let answer = |t: &[u8]| [b"d1:rd2:id20:aaaaaaaaaaaaaaaaaaaae1:t4:", t, b"1:y1:re"].concat();
    let right = answer(&transaction(&query.bytes));
    assert!(!dht.handle_datagram(now, "23.0.0.2:6881".parse().unwrap(), &right));
    assert!(!dht.handle_datagram(now, "23.0.0.1:6882".parse().unwrap(), &right));
    assert!(!dht.handle_datagram(now, at, &answer(b"none")));
    assert!(!dht.handle_datagram(now, at, &query.bytes));
    assert!(dht.handle_datagram(now, "[::ffff:23.0.0.1]:6881".parse().unwrap(), &right));
    assert!(!dht.handle_datagram(now, at, &right), "a second copy is not ours");
}

#[test]
fn lookups_are_bounded_and_out_of_range_refused() {
    let (mut dht, _) = lone(1);
    let now = Duration::ZERO;
    let begun = (0..40).filter(|n| dht.lookup(now, LookupKind::Peers(DhtId([*n; 20]))).is_ok());
    assert_eq!(begun.count(), MAX_LOOKUPS);
    assert_eq!(dht.lookup(now, LookupKind::Peers(DhtId([1; 20]))), Err(DhtError::Busy));
    let (mut dht, _) = lone(2);
    let long = MutableItem { value: vec![0; MAX_VALUE + 1], ..item(1, b"") };
    let salted = LookupKind::Item { key: [1; 32], salt: vec![0; MAX_SALT + 1] };
    for wrong in [
        LookupKind::Put(long, None),
        LookupKind::Put(MutableItem { seq: -1, ..item(1, b"") }, None),
        LookupKind::Announce(DhtId([1; 20]), AnnouncedPorts::of(0)),
        salted,
    ] {
        assert_eq!(dht.lookup(now, wrong), Err(DhtError::OutOfRange));
    }
    assert_eq!(dht.poll_peers(DhtId([1; 20])), Err(DhtError::Unknown));
    assert_eq!((dht.poll_transmit(now), dht.poll_timeout()), (None, None));
}

#[test]
fn unreachable_addresses_end_a_lookup_at_once() {
    let (mut dht, at) = lone(1);
    let now = Duration::ZERO;
    let id = dht.lookup(now, LookupKind::Peers(DhtId([1; 20]))).unwrap();
    let mut sent = 0;
    while let Some(transmit) = dht.poll_transmit(now) {
        assert_eq!(transmit.to, at);
        dht.handle_unreachable(now, at);
        sent += 1;
    }
    assert!(sent <= 4, "{sent}");
    let error = Some(LookupError::NoNode);
    let end = LookupEnd { answered: 0, stored: 0, error };
    assert_eq!(dht.poll_event(), Some(DhtEvent::Done(id, end)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Answers with right transactions and any content: the client ends, and sends a bounded number of datagrams.
    #[test]
    fn any_answers_end_a_lookup(
        answers in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), 0_u8..6), 1..40),
        store: bool,
    ) {
        let (mut dht, _) = lone(3);
        let mut now = Duration::ZERO;
        let kind = if store { LookupKind::Put(item(1, b"x"), None) } else { LookupKind::Peers(DhtId([1; 20])) };
        dht.lookup(now, kind).unwrap();
        let (mut sent, mut done, mut next) = (0, 0, answers.iter().cycle());
        for _ in 0..2_000 {
            while let Some(query) = dht.poll_transmit(now) {
                sent += 1;
                let (bytes, kind) = next.next().unwrap();
                let mut body = b"d2:id20:".to_vec();
                body.extend_from_slice(&[*kind; 19]);
                body.push(sent as u8);
                match kind {
                    0 => put(&mut body, b"5:nodes", &bytes[..bytes.len() / 26 * 26]),
                    1 => put(&mut body, b"6:nodes6", &bytes[..bytes.len() / 38 * 38]),
                    2 => put(&mut body, b"5:token", bytes),
                    3 => body.extend_from_slice(bytes),
                    4 => {
                        body.extend_from_slice(b"5:token1:t6:valuesl");
                        bytes.chunks(6).for_each(|peer| put(&mut body, b"", peer));
                        body.push(b'e');
                    }
                    _ => put(&mut body, b"1:v", bytes),
                }
                let t = transaction(&query.bytes);
                let whole = [b"d1:r".as_slice(), &body, b"e1:t4:", &t, b"1:y1:re"].concat();
                dht.handle_datagram(now, query.to, &whole);
            }
            while let Some(event) = dht.poll_event() {
                match event {
                    DhtEvent::Done(..) => done += 1,
                    DhtEvent::Item(_, item) => prop_assert!(item.is_signed()),
                    DhtEvent::Peers(_, peers) => {
                        prop_assert!(peers.new.len() + peers.again.len() <= MAX_PEERS);
                        prop_assert!(peers.again.iter().all(|at| !peers.new.contains(at)));
                    }
                    DhtEvent::Observed => {}
                }
            }
            let Some(timeout) = dht.poll_timeout() else { break };
            now = now.max(timeout);
            dht.handle_timeout(now);
        }
        prop_assert_eq!((done, dht.lookups()), (1, 0));
        prop_assert!(sent <= 4 * MAX_QUERIES, "{}", sent);
    }
}

fn put(out: &mut Vec<u8>, key: &[u8], bytes: &[u8]) {
    out.extend_from_slice(key);
    bencode::put_bytes(out, bytes);
}
