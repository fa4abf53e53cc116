//! Two endpoints over a network that loses, reorders, duplicates and cuts, under virtual time.

mod sim;

use std::collections::HashSet;

use core::time::Duration;
use sim::{FAIR, MS, Net, S, addr};
use xylem_link::{CloseReason, LinkConfig, LinkSendError, RekeyLimits};
use xylem_sim::{Conditions, Rng, percent};

fn numbered(n: u32, len: usize) -> Vec<u8> {
    let mut packet = vec![n as u8; len.max(4)];
    packet[..4].copy_from_slice(&n.to_be_bytes());
    packet
}

/// Sends `count` packets of mixed sizes over a while; returns the share that arrived. No packet may arrive twice or
/// changed.
fn flow(net: &mut Net, from: usize, link: xylem_link::LinkId, count: u32, max: u64) -> f64 {
    let to = 1 - from;
    let mut rng = Rng::new(u64::from(count));
    net.nodes[to].packets.clear();
    for n in 0..count {
        let packet = numbered(n, rng.below(max) as usize);
        net.nodes[from].endpoint.send(link, &packet).unwrap();
        net.run(MS);
    }
    net.run(S);
    let mut seen = HashSet::new();
    for packet in &net.nodes[to].packets {
        let n = u32::from_be_bytes(packet[..4].try_into().unwrap());
        assert!(n < count && packet[4..].iter().all(|b| *b == n as u8), "changed");
        assert!(seen.insert(n), "packet {n} arrived twice");
    }
    seen.len() as f64 / f64::from(count)
}

/// WRAITH: one lost or reordered datagram kills the session.
#[test]
fn sessions_come_up_and_packets_flow_over_a_table_of_loss() {
    for (loss, least) in [(0, 1.0), (1, 0.97), (5, 0.9), (20, 0.7)] {
        for seed in 0..10 {
            let jitter = 20 * MS;
            let conditions = Conditions {
                loss: percent(loss),
                duplicate: percent(loss),
                jitter,
                mtu: 1_472,
                ..FAIR
            };
            let mut net = Net::pair(seed, &LinkConfig::default(), conditions);
            let (a, b) = net.connect();
            // Packets of the dialer are lost until the responder has its last message.
            net.run(3 * S);
            for (from, link) in [(0, a), (1, b)] {
                let share = flow(&mut net, from, link, 300, 1_000);
                assert!(share >= least, "loss {loss} %, seed {seed}: {share}");
            }
            assert!(net.nodes.iter().all(|n| n.closed.is_empty()));
        }
    }
}

/// Bit errors on the line: a datagram with a wrong bit is lost, and has no other effect.
#[test]
fn a_flipped_bit_only_loses_the_datagram() {
    for seed in 0..5 {
        let conditions = Conditions { damage: 0.1, mtu: 1_472, ..FAIR };
        let mut net = Net::pair(seed, &LinkConfig::default(), conditions);
        let (a, b) = net.connect();
        net.run(3 * S);
        for (from, link) in [(0, a), (1, b)] {
            let share = flow(&mut net, from, link, 300, 1_000);
            assert!((0.8..0.97).contains(&share), "seed {seed}: {share}");
        }
        assert!(net.nodes.iter().all(|n| n.closed.is_empty()));
        assert!(net.nodes[0].endpoint.stats(a).unwrap().forged > 10);
    }
}

#[test]
fn large_packets_come_through_in_pieces() {
    let conditions = Conditions { duplicate: 0.2, jitter: 10 * MS, mtu: 1_472, ..FAIR };
    let mut net = Net::pair(1, &LinkConfig::default(), conditions);
    let (a, _) = net.connect();
    net.run(S);
    assert_eq!(flow(&mut net, 0, a, 100, 65_536), 1.0);
    net.conditions.loss = 0.01;
    let share = flow(&mut net, 0, a, 300, 8_800);
    assert!(share > 0.85, "{share}");
}

/// WRAITH: a u16 cast truncates, a short last chunk lands at a wrong offset.
#[test]
fn every_boundary_size_arrives_whole() {
    for path in [1_472, 9_000, 65_507] {
        let mut net = Net::pair(1, &LinkConfig::default(), Conditions { mtu: path, ..FAIR });
        let (a, _) = net.connect();
        net.run(5 * S);
        let datagram = net.nodes[0].endpoint.stats(a).unwrap().datagram_size;
        let mut sizes = vec![1, 2, 3, 255, 256, 257, 65_534, 65_535, 65_536];
        for n in 1..4 {
            sizes.extend((n * datagram - 60..n * datagram + 2).filter(|s| *s <= 65_536));
        }
        for (i, size) in sizes.into_iter().enumerate() {
            let packet: Vec<u8> = (0..size).map(|b| (b * 7 + i) as u8).collect();
            net.nodes[0].endpoint.send(a, &packet).unwrap();
            net.run(5 * MS);
            assert!(net.nodes[1].packets.pop().is_some_and(|got| got == packet), "{size}");
        }
        for size in [0, 65_537] {
            let refused = net.nodes[0].endpoint.send(a, &vec![0; size]);
            assert_eq!(refused, Err(LinkSendError::Size));
        }
    }
}

#[test]
fn path_mtu_is_found_and_given_up_when_it_shrinks() {
    for (path, found) in
        [(1_232, 1_232), (1_452, 1_452), (1_472, 1_472), (8_972, 8_952), (65_507, 65_507)]
    {
        let mut net = Net::pair(1, &LinkConfig::default(), Conditions { mtu: path, ..FAIR });
        let (a, b) = net.connect();
        net.run(5 * S);
        let size = |net: &Net, i: usize, l| net.nodes[i].endpoint.stats(l).unwrap().datagram_size;
        assert_eq!((size(&net, 0, a), size(&net, 1, b)), (found, found));
        net.conditions.mtu = 1_232;
        for _ in 0..300 {
            let _ = net.nodes[0].endpoint.send(a, &[1; 8_000]);
            net.run(10 * MS);
        }
        assert_eq!(size(&net, 0, a), 1_232, "path {path}");
        net.nodes[1].packets.clear();
        net.nodes[0].endpoint.send(a, &[2; 8_000]).unwrap();
        net.run(10 * MS);
        assert_eq!(net.nodes[1].packets.len(), 1, "packets flow again");
    }
}

/// WRAITH: 1,000,000 messages, then a hard error. The limits are lowered here, so that keys change every few packets,
/// in both directions, while datagrams are lost, doubled and overtake each other.
#[test]
fn keys_change_under_loss_without_a_stall() {
    for (loss, least) in [(0, 1.0), (5, 0.9), (20, 0.7)] {
        let rekey = RekeyLimits { packets: 20, bytes: 1 << 36, time: 300 * S };
        let config = LinkConfig { rekey, ..LinkConfig::default() };
        let conditions = Conditions {
            loss: percent(loss),
            duplicate: percent(loss),
            jitter: 5 * MS,
            mtu: 1_472,
            ..FAIR
        };
        let mut net = Net::pair(loss, &config, conditions);
        let (a, b) = net.connect();
        net.run(S);
        for (from, link) in [(0, a), (1, b)] {
            let share = flow(&mut net, from, link, 2_000, 1_000);
            assert!(share >= least, "loss {loss} %: {share}");
            let rekeys = net.nodes[from].endpoint.stats(link).unwrap().rekeys;
            assert!(rekeys > 10, "{rekeys} changes of keys at {loss} % loss");
        }
    }
}

#[test]
fn keys_change_by_bytes_and_by_time() {
    let by_bytes = RekeyLimits { packets: 1 << 20, bytes: 100_000, time: 300 * S };
    let by_time = RekeyLimits { packets: 1 << 20, bytes: 1 << 36, time: S };
    for rekey in [by_bytes, by_time] {
        let mut net = Net::pair(1, &LinkConfig { rekey, ..LinkConfig::default() }, FAIR);
        let (a, _) = net.connect();
        assert_eq!(flow(&mut net, 0, a, 5_000, 1_000), 1.0);
        let rekeys = net.nodes[0].endpoint.stats(a).unwrap().rekeys;
        assert!((4..40).contains(&rekeys), "{rekeys}");
    }
}

/// WRAITH: no retransmission.
#[test]
fn any_lost_handshake_datagram_is_sent_again() {
    for lost in 0..5 {
        let mut net = Net::pair(lost, &LinkConfig::default(), FAIR);
        net.dial();
        // The first `lost` datagrams of either side are lost.
        net.conditions.loss = 1.0;
        net.record = true;
        while net.tap.len() < lost as usize && net.now() < 9 * S {
            net.run(MS);
        }
        net.conditions.loss = 0.0;
        net.run(9 * S - net.now());
        assert_eq!(net.nodes[0].connected.len(), 1, "{lost} lost");
        assert_eq!(net.nodes[1].connected.len(), 1, "{lost} lost");
    }
    // Each single datagram of the exchange is lost.
    for skipped in 0..8 {
        let mut net = Net::pair(skipped, &LinkConfig::default(), FAIR);
        net.dial();
        net.record = true;
        while net.tap.len() < skipped as usize {
            net.run(MS / 4);
        }
        net.conditions.loss = 1.0;
        net.run(2 * MS);
        net.conditions.loss = 0.0;
        net.run(5 * S);
        assert_eq!((net.nodes[0].connected.len(), net.nodes[1].connected.len()), (1, 1));
    }
}

#[test]
fn an_unanswered_dial_times_out_with_few_datagrams() {
    let mut net = Net::pair(1, &LinkConfig::default(), Conditions { loss: 1.0, ..FAIR });
    net.record = true;
    let link = net.dial();
    net.run(60 * S);
    assert_eq!(net.nodes[0].closed, [(link, CloseReason::HandshakeTimeout)]);
    // A try is an initial and, with a KEM key, a short rest, twice.
    let tries = net.tap.iter().filter(|(.., datagram)| datagram.len() >= 1_200).count();
    assert!((4..12).contains(&tries) && net.tap.len() <= 3 * tries, "{tries} tries");
    assert_eq!(net.nodes[0].endpoint.poll_timeout(), None, "nothing is left");
    assert_eq!(net.nodes[0].endpoint.endpoint_stats().links, 0);
}

#[test]
fn links_stay_up_when_idle_and_end_when_the_peer_is_gone() {
    let mut net = Net::pair(1, &LinkConfig::default(), Conditions { loss: 0.1, ..FAIR });
    let (a, b) = net.connect();
    net.run(600 * S);
    assert!(net.nodes.iter().all(|n| n.closed.is_empty()));
    assert!(net.nodes[0].endpoint.stats(a).unwrap().rtt.is_some());
    net.conditions.loss = 1.0;
    net.run(60 * S);
    assert_eq!(net.nodes[0].closed, [(a, CloseReason::IdleTimeout)]);
    assert_eq!(net.nodes[1].closed, [(b, CloseReason::IdleTimeout)]);
    assert!(net.nodes.iter().all(|n| n.endpoint.poll_timeout().is_none()));
}

#[test]
fn a_close_reaches_the_peer_and_is_reported_once() {
    for loss in [0, 20] {
        let mut net =
            Net::pair(3, &LinkConfig::default(), Conditions { loss: percent(loss), ..FAIR });
        let (a, b) = net.connect();
        net.run(S);
        net.nodes[0].endpoint.close(a);
        net.nodes[0].endpoint.close(a);
        assert_eq!(net.nodes[0].endpoint.send(a, b"x"), Err(LinkSendError::NoLink));
        net.run(40 * S);
        assert_eq!(net.nodes[0].closed, [(a, CloseReason::Local)]);
        assert_eq!(net.nodes[1].closed.len(), 1);
        assert_eq!(net.nodes[1].closed[0].0, b);
        assert_eq!(net.nodes[1].endpoint.endpoint_stats().links, 0);
        assert_eq!(net.nodes[0].endpoint.endpoint_stats().links, 0);
    }
}

#[test]
fn the_send_queue_is_bounded() {
    let mut net = Net::pair(1, &LinkConfig::default(), FAIR);
    let (a, _) = net.connect();
    let taken = (0..100_000).take_while(|_| net.nodes[0].endpoint.send(a, &[0; 1_000]).is_ok());
    let taken = taken.count();
    assert!((900..1_100).contains(&taken), "{taken}");
    net.run(10 * MS);
    assert_eq!(net.nodes[1].packets.len(), taken, "what was taken arrives");
    assert_eq!(net.nodes[0].endpoint.send(a, &[0; 1_000]), Ok(()));
}

/// A new address of the peer (its NAT dropped the mapping) is adopted once it has answered, and the link goes on.
#[test]
fn the_peer_may_move() {
    let mut net = Net::pair(1, &LinkConfig::default(), FAIR);
    let (a, b) = net.connect();
    net.run(S);
    let moved = addr(77);
    net.nodes[0].at = moved;
    assert_eq!(flow(&mut net, 0, a, 100, 1_000), 1.0);
    assert_eq!(net.nodes[1].endpoint.link(b).unwrap().remote(), moved);
    assert_eq!(flow(&mut net, 1, b, 100, 1_000), 1.0);
}

#[test]
fn padding_is_sealed_and_removed() {
    // Every probe of path MTU discovery is padded; packets in the same datagram are unharmed.
    let mut net = Net::pair(1, &LinkConfig::default(), FAIR);
    let (a, _) = net.connect();
    net.run(5 * S);
    assert_eq!(net.nodes[0].endpoint.stats(a).unwrap().datagram_size, 65_507);
    assert_eq!(flow(&mut net, 0, a, 100, 9_000), 1.0);
    assert!(net.nodes[1].closed.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || {
        let conditions = Conditions { loss: 0.1, duplicate: 0.1, jitter: 5 * MS, ..FAIR };
        let mut net = Net::pair(9, &LinkConfig::default(), conditions);
        net.record = true;
        let (a, _) = net.connect();
        flow(&mut net, 0, a, 50, 5_000);
        net.tap
    };
    assert!(run() == run());
}

#[test]
fn many_links_share_an_endpoint() {
    let mut net = Net::new(1, &vec![LinkConfig::default(); 20], FAIR);
    let (to, expected) = (net.nodes[0].at, net.nodes[0].endpoint.public_key());
    let mut links = vec![];
    for node in &mut net.nodes[1..] {
        links.push(node.endpoint.connect(Duration::ZERO, to, Some(expected)));
    }
    net.run(S);
    assert_eq!(net.nodes[0].connected.len(), 19);
    for link in net.nodes[0].connected.clone() {
        net.nodes[0].endpoint.send(link, &link.0.to_be_bytes()).unwrap();
    }
    net.run(S);
    let got: HashSet<_> = net.nodes[1..].iter().map(|n| n.packets.clone()).collect();
    assert_eq!(got.len(), 19, "each got its own");
    assert!(got.iter().all(|packets| packets.len() == 1));
}

/// Programs time the repetition of lost first requests by this round trip.
#[test]
fn the_dialer_knows_the_round_trip_of_its_handshake() {
    let conditions = Conditions { delay: 50 * MS, ..FAIR };
    let mut net = Net::pair(1, &LinkConfig::default(), conditions);
    let dialed = net.dial();
    while net.nodes[0].connected.is_empty() {
        net.run(MS);
    }
    let rtt = net.nodes[0].endpoint.stats(dialed).unwrap().rtt;
    assert_eq!(
        rtt,
        Some(100 * MS),
        "as it was on this path, from the first datagram to its answer"
    );
    // With two initials it is unknown which one was answered.
    let mut net = Net::pair(1, &LinkConfig::default(), Conditions { delay: 200 * MS, ..FAIR });
    let dialed = net.dial();
    while net.nodes[0].connected.is_empty() {
        net.run(MS);
    }
    assert_eq!(net.nodes[0].endpoint.stats(dialed).unwrap().rtt, None);
}
