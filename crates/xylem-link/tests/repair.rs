//! Fragments that the path loses are repeated: whatever it loses, delays, reorders and doubles, each packet arrives
//! once, unchanged and soon, and neither side holds or sends without bound.

mod sim;

use std::collections::HashMap;

use sim::{FAIR, MS, Net, S};
use xylem_link::{LinkConfig, LinkId};
use xylem_sim::{Conditions, Rng};

fn numbered(n: u32, len: usize) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|at| (at as u32 * 7 + n) as u8).collect();
    packet[..4].copy_from_slice(&n.to_be_bytes());
    packet
}

/// The outcome of a flow of packets.
#[derive(Debug)]
struct Flow {
    /// The share that arrived.
    arrived: f64,
    /// Datagrams that were repeated, and in all.
    repeated: u64,
    datagrams: u64,
}

/// Sends `count` packets, one every millisecond, each of a random one of these sizes.
fn flow(net: &mut Net, from: usize, link: LinkId, count: u32, sizes: &[usize]) -> Flow {
    let to = 1 - from;
    let before = net.nodes[from].endpoint.stats(link).unwrap();
    net.nodes[to].packets.clear();
    let mut rng = Rng::new(u64::from(count));
    let mut sent = HashMap::new();
    for n in 0..count {
        let packet = numbered(n, sizes[rng.below(sizes.len() as u64) as usize]);
        net.nodes[from].endpoint.send(link, &packet).unwrap();
        sent.insert(n, packet);
        net.run(MS);
    }
    net.run(5 * S);
    let arrived = net.nodes[to].packets.len() as f64 / f64::from(count);
    for packet in &net.nodes[to].packets {
        let n = u32::from_be_bytes(packet[..4].try_into().unwrap());
        assert!(sent.remove(&n).is_some_and(|sent| sent == *packet), "{n}: changed, or here twice");
    }
    let after = net.nodes[from].endpoint.stats(link).unwrap();
    Flow {
        arrived,
        repeated: after.datagrams_repeated - before.datagrams_repeated,
        datagrams: after.datagrams_sent - before.datagrams_sent,
    }
}

fn pair(seed: u64, conditions: Conditions) -> (Net, LinkId, LinkId) {
    let mut net = Net::pair(seed, &LinkConfig::default(), Conditions { mtu: 1_472, ..FAIR });
    let (a, b) = net.connect();
    // The search for the path's size is over.
    net.run(3 * S);
    net.conditions = Conditions { mtu: 1_472, ..conditions };
    (net, a, b)
}

/// Without repair, with a fifth of the datagrams lost, only one in four packets of six or seven datagrams would arrive.
#[test]
fn every_packet_arrives_once_over_any_loss_reordering_and_doubling() {
    let mut rng = Rng::new(1);
    for seed in 0..24 {
        let loss = [0.0, 0.01, 0.05, 0.2][seed as usize % 4];
        let conditions = Conditions {
            delay: MS * [1, 10, 50][rng.below(3) as usize],
            jitter: MS * [0, 0, 5, 20][rng.below(4) as usize],
            loss,
            duplicate: [0.0, 0.1][rng.below(2) as usize],
            ..FAIR
        };
        let (mut net, a, b) = pair(seed, conditions);
        for (from, link) in [(0, a), (1, b)] {
            // Each side learns that the other accepts repeated fragments.
            flow(&mut net, from, link, 20, &[2_000]);
            let flow = flow(&mut net, from, link, 400, &[50, 1_000, 8_800, 8_800, 20_000]);
            assert!(flow.arrived > 0.99, "seed {seed}, {conditions:?}: {flow:?}");
            // Each lost datagram is repeated, and a repetition may be lost as well; little else is sent.
            let share = flow.repeated as f64 / flow.datagrams as f64;
            let even = conditions.jitter.is_zero();
            assert!(!even || share < 1.3 * loss + 0.01, "seed {seed}, {conditions:?}: {flow:?}");
        }
        assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    }
}

/// A lost fragment arrives a round trip later, not when the program asks for the packet again.
#[test]
fn lost_fragments_arrive_within_two_round_trips() {
    let (mut net, a, _) = pair(3, Conditions { delay: 50 * MS, ..FAIR });
    flow(&mut net, 0, a, 50, &[8_800]);
    net.conditions.loss = 0.05;
    let mut late = 0;
    for n in 0..200 {
        net.nodes[1].packets.clear();
        net.nodes[0].endpoint.send(a, &numbered(n, 8_800)).unwrap();
        net.run(52 * MS);
        let first = net.nodes[1].packets.len();
        net.run(300 * MS);
        late += usize::from(first == 0 && net.nodes[1].packets.len() == 1);
    }
    assert!((20..90).contains(&late), "{late} of 200 were repaired");
}

#[test]
fn a_path_without_loss_carries_nothing_twice() {
    for delay in [1, 50] {
        let (mut net, a, _) = pair(5, Conditions { delay: MS * delay, ..FAIR });
        let flow = flow(&mut net, 0, a, 500, &[50, 8_800]);
        assert_eq!((flow.arrived, flow.repeated), (1.0, 0), "{delay} ms");
    }
}

/// Datagrams lost while the peer is silent are not repeated for ever.
#[test]
fn a_peer_that_is_gone_receives_few_repetitions() {
    let (mut net, a, _) = pair(7, Conditions { delay: 10 * MS, ..FAIR });
    flow(&mut net, 0, a, 50, &[8_800]);
    let before = net.nodes[0].endpoint.stats(a).unwrap();
    net.conditions.cut = true;
    for n in 0..1_000 {
        net.nodes[0].endpoint.send(a, &numbered(n, 8_800)).unwrap();
        net.run(MS);
    }
    net.run(20 * S);
    let after = net.nodes[0].endpoint.stats(a).unwrap();
    let repeated = after.datagrams_repeated - before.datagrams_repeated;
    assert!(repeated <= 40, "{repeated} of {}", after.datagrams_sent - before.datagrams_sent);
    assert!(net.nodes[0].endpoint.poll_timeout().is_some_and(|at| at >= net.now()));
}
