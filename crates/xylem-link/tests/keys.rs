//! Keys over a network: rounds of Diffie-Hellman over bad networks, peers that lose their state, and sessions that
//! carry more than one key may.

mod sim;

use bytes::BytesMut;
use core::time::Duration;
use sim::{FAIR, MS, Net, S, addr, key};
use xylem_link::{
    CloseReason, Endpoint, LinkConfig, LinkEvent, RatchetLimits, RekeyLimits, StaticKey, Suites,
};
use xylem_sim::{Conditions, Rng};

/// Rounds and plain epoch changes in both directions, over a network that loses, doubles and reorders: no stall, no
/// loss but the network's, no duplicate, no changed data.
#[test]
fn rounds_survive_loss_and_reordering_while_both_sides_change_epochs() {
    let networks = [
        FAIR,
        Conditions { loss: 0.2, delay: 20 * MS, jitter: 60 * MS, ..FAIR },
        Conditions { loss: 0.05, duplicate: 0.3, delay: 5 * MS, jitter: 30 * MS, ..FAIR },
    ];
    for (seed, conditions) in (1..).zip(networks) {
        for packets in [7, 1 << 20] {
            let config = LinkConfig {
                rekey: RekeyLimits { packets, ..RekeyLimits::default() },
                ratchet: RatchetLimits { time: 2 * S, ..RatchetLimits::default() },
                ..LinkConfig::default()
            };
            let mut net = Net::pair(seed, &config, conditions);
            let (a, b) = net.connect();
            let mut rng = Rng::new(seed);
            for n in 0..2_000u32 {
                for (i, link) in [(0, a), (1, b)] {
                    let mut packet = vec![n as u8; 4 + rng.below(700) as usize];
                    packet[..4].copy_from_slice(&n.to_be_bytes());
                    net.nodes[i].endpoint.send(link, &packet).unwrap();
                }
                net.run(20 * MS);
            }
            for (i, link) in [(0, a), (1, b)] {
                let node = &mut net.nodes[i];
                let stats = node.endpoint.stats(link).unwrap();
                assert!((9..=20).contains(&stats.ratchets), "{seed}: {stats:?}");
                assert!(packets > 7 || stats.rekeys > 5 * stats.ratchets, "{stats:?}");
                assert_eq!(stats.forged, 0, "an id without keys");
                let count = node.packets.len();
                node.packets.sort();
                node.packets.dedup_by(|one, other| one[..4] == other[..4]);
                assert_eq!(node.packets.len(), count, "one twice");
                assert!(node.packets.iter().all(|p| p[4..].iter().all(|byte| *byte == p[3])));
                let least = 2_000.0 * (0.98 - conditions.loss);
                assert!(count as f64 > least, "{count} of 2,000");
            }
        }
    }
}

/// An unused link idles out: rounds do not keep it alive.
#[test]
fn rounds_do_not_keep_a_silent_link_alive() {
    let ratchet = RatchetLimits { time: 5 * S, ..RatchetLimits::default() };
    let config = LinkConfig { ratchet, keep_alive: None, ..LinkConfig::default() };
    let mut net = Net::pair(1, &config, FAIR);
    let (a, b) = net.connect();
    net.run(60 * S);
    assert_eq!(net.nodes[0].closed, [(a, CloseReason::IdleTimeout)]);
    assert_eq!(net.nodes[1].closed, [(b, CloseReason::IdleTimeout)]);
    // With keep-alives there is traffic to protect, and rounds happen.
    let config = LinkConfig { ratchet, ..LinkConfig::default() };
    let mut net = Net::pair(1, &config, FAIR);
    let (a, _) = net.connect();
    net.run(600 * S);
    assert!(net.nodes[0].endpoint.stats(a).unwrap().ratchets > 4);
}

/// An endpoint that answers any dialer, and sends resets.
fn open() -> LinkConfig {
    LinkConfig { accept_open: true, ..LinkConfig::default() }
}

/// Restarts the responder: the same key and address, and no state.
fn restarted(net: &mut Net, config: &LinkConfig, identity: u8) {
    net.nodes[1].endpoint = Endpoint::new(config.clone(), key(identity), [77; 32]);
    net.nodes[1].connected.clear();
}

#[test]
fn a_dialer_learns_within_a_round_trip_that_the_responder_was_restarted() {
    let config = open();
    for idle in [false, true] {
        let mut net = Net::pair(1, &config, Conditions { delay: 40 * MS, ..FAIR });
        let (a, _) = net.connect();
        net.run(S);
        net.record = true;
        restarted(&mut net, &config, 1);
        if idle {
            // Until the next keep-alive.
            net.run(11 * S);
        } else {
            net.nodes[0].endpoint.send(a, &[1; 100]).unwrap();
            net.run(80 * MS);
        }
        assert_eq!(net.nodes[0].closed, [(a, CloseReason::Reset)], "idle: {idle}");
        assert!(net.nodes[0].endpoint.link(a).is_none());
        let asked: usize =
            net.tap.iter().filter(|(from, ..)| *from == addr(0)).map(|(_, _, d)| d.len()).sum();
        let answered: usize =
            net.tap.iter().filter(|(from, ..)| *from == addr(1)).map(|(_, _, d)| d.len()).sum();
        assert!(0 < answered && answered < asked, "{answered} for {asked}");
        // It can dial anew at once.
        net.connect();
    }
}

/// In every epoch, ratcheted ones included, and after the dialer has moved.
#[test]
fn resets_work_in_later_epochs_and_from_other_addresses() {
    let rekey = RekeyLimits { packets: 20, ..RekeyLimits::default() };
    let ratchet = RatchetLimits { time: S, ..RatchetLimits::default() };
    let config = LinkConfig { rekey, ratchet, ..open() };
    let mut net = Net::pair(1, &config, FAIR);
    let (a, b) = net.connect();
    for n in 0..200u8 {
        net.nodes[0].endpoint.send(a, &[n; 100]).unwrap();
        net.nodes[1].endpoint.send(b, &[n; 100]).unwrap();
        net.run(50 * MS);
    }
    assert!(net.nodes[0].endpoint.stats(a).unwrap().rekeys > 9);
    net.nodes[0].at = addr(50);
    for n in 0..10u8 {
        net.nodes[0].endpoint.send(a, &[n; 100]).unwrap();
        net.run(50 * MS);
    }
    assert_eq!(net.nodes[1].endpoint.link(b).unwrap().remote(), addr(50), "it has moved");
    restarted(&mut net, &config, 1);
    net.nodes[0].endpoint.send(a, &[1; 100]).unwrap();
    net.run(2 * MS);
    assert_eq!(net.nodes[0].closed, [(a, CloseReason::Reset)]);
}

/// Another program at the address, or one that sends no resets: the link idles out as usual.
#[test]
fn only_the_peer_can_reset_a_link_and_only_if_it_shows_itself() {
    let silent = LinkConfig { stateless_reset: false, ..open() };
    let closed = LinkConfig::default();
    for (before, after, identity) in
        [(&open(), &open(), 9), (&silent, &silent, 1), (&closed, &closed, 1)]
    {
        let mut net = Net::new(1, &[LinkConfig::default(), before.clone()], FAIR);
        let (a, _) = net.connect();
        net.run(S);
        restarted(&mut net, after, identity);
        net.record = true;
        net.nodes[0].endpoint.send(a, &[1; 100]).unwrap();
        net.run(25 * S);
        assert_eq!(net.nodes[0].closed, []);
        let answered = net.tap.iter().any(|(from, ..)| *from == addr(1));
        assert_eq!(answered, identity == 9);
        net.run(20 * S);
        assert_eq!(net.nodes[0].closed, [(a, CloseReason::IdleTimeout)]);
    }
}

/// An attacker that recorded a session replays old datagrams from the peer's address. Datagrams of long past epochs
/// make the responder send resets. Datagrams of the epoch before do not, because the peer might still hold their token.
/// No link ends.
#[test]
fn replays_of_past_epochs_end_no_link() {
    let rekey = RekeyLimits { packets: 20, ..RekeyLimits::default() };
    let config = LinkConfig { rekey, ..open() };
    let mut net = Net::pair(1, &config, FAIR);
    net.record = true;
    let (a, b) = net.connect();
    for n in 0..100u8 {
        net.nodes[0].endpoint.send(a, &[n; 100]).unwrap();
        net.nodes[1].endpoint.send(b, &[n; 100]).unwrap();
        net.run(10 * MS);
    }
    net.run(5 * S);
    let tap = core::mem::take(&mut net.tap);
    let ids = |from| {
        let mut ids: Vec<[u8; 8]> = vec![];
        for (_, _, datagram) in tap.iter().filter(|(by, ..)| *by == from) {
            let id = *datagram.first_chunk().unwrap();
            if ids.last() != Some(&id) && !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    };
    let sent = |net: &Net, i: usize| net.nodes[i].endpoint.endpoint_stats().resets_sent;
    // The current epoch and the one before, with its keys already forgotten.
    let (ours, theirs) = (ids(addr(0)), ids(addr(1)));
    let late = |d: &[u8]| {
        ours[ours.len() - 2..].iter().chain(&theirs[theirs.len() - 2..]).any(|id| d.starts_with(id))
    };
    for (from, to, datagram) in tap.iter().filter(|(_, _, d)| late(d)) {
        net.inject(*from, *to, datagram.clone());
        net.run(S / 10);
    }
    assert_eq!([0, 1].map(|i| sent(&net, i)), [0, 0]);
    for (from, to, datagram) in &tap {
        net.inject(*from, *to, datagram.clone());
        net.run(S / 10);
    }
    assert!(sent(&net, 0) > 10 && sent(&net, 1) > 10);
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    net.nodes[0].packets.clear();
    net.nodes[1].endpoint.send(b, b"still up").unwrap();
    net.run(S);
    assert_eq!(net.nodes[0].packets.len(), 1);
}

/// Sealed datagrams overtake the finish, and an attacker copies one from elsewhere to get the token that could end the
/// dialer's link later.
#[test]
fn a_token_taken_before_the_link_is_up_ends_nothing() {
    let mut net = Net::pair(1, &open(), FAIR);
    net.record = true;
    let a = net.dial();
    while net.nodes[0].connected.is_empty() {
        net.run(MS / 4);
    }
    // Every finish is lost; sealed datagrams are not.
    net.conditions.loss = 1.0;
    net.tap.clear();
    net.nodes[0].endpoint.send(a, &[1; 100]).unwrap();
    net.flush();
    let sealed = net.tap.pop().unwrap().2;
    for from in [addr(0), addr(66)] {
        net.inject(from, addr(1), sealed.clone());
    }
    net.tap.clear();
    net.run(MS);
    let resets = net.tap.iter().filter(|(from, _, d)| *from == addr(1) && d.len() < 64);
    let resets: Vec<_> = resets.cloned().collect();
    assert!(matches!(resets[..], [(_, to, _)] if to == addr(66)), "the dialer gets none");
    net.conditions.loss = 0.0;
    net.run(2 * S);
    assert_eq!(net.nodes[1].connected.len(), 1);
    for (_, _, reset) in resets {
        net.inject(addr(1), addr(0), reset);
    }
    net.run(S);
    assert_eq!(net.nodes[0].closed, []);
}

/// WRAITH: 1,000,000 messages, then a hard error; a session dies after about 1.4 GB. Sends `total` bytes in one
/// session, in datagrams of all sizes, over epochs and rounds.
fn long_session(total: u64, suites: Suites, rekey: u64, ratchet: u64) {
    const PACKET: usize = 65_000;
    let config = LinkConfig {
        rekey: RekeyLimits { packets: rekey, ..RekeyLimits::default() },
        ratchet: RatchetLimits { bytes: ratchet, ..RatchetLimits::default() },
        suites,
        ..LinkConfig::default()
    };
    let mut ends =
        [1, 2].map(|n| Endpoint::new(config.clone(), StaticKey::generate([n; 32]), [n; 32]));
    let (mut now, expected) = (Duration::ZERO, ends[1].public_key());
    let a = ends[0].connect(now, addr(1), Some(expected));
    let mut packet = vec![0; PACKET];
    let (mut sent, mut arrived, mut buf) = (0u64, 0u64, Vec::new());
    while arrived * PACKET as u64 <= total {
        now += MS;
        packet[..8].copy_from_slice(&sent.to_be_bytes());
        packet[PACKET - 8..].copy_from_slice(&sent.to_be_bytes());
        while ends[0].send(a, &packet).is_ok() {
            sent += 1;
            packet[..8].copy_from_slice(&sent.to_be_bytes());
            packet[PACKET - 8..].copy_from_slice(&sent.to_be_bytes());
        }
        for i in [0, 1, 0, 1] {
            ends[i].handle_timeout(now);
            while let Some(transmit) = ends[i].poll_transmit(now, &mut buf) {
                for datagram in buf.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
                    ends[1 - i].handle_datagram(now, addr(i as u8), BytesMut::from(datagram));
                }
            }
        }
        while let Some(event) = ends[1].poll_event() {
            match event {
                LinkEvent::Packet { packet, .. } => {
                    assert_eq!(packet.len(), PACKET);
                    assert_eq!(packet[..8], arrived.to_be_bytes(), "in order here, none lost");
                    assert_eq!(packet[PACKET - 8..], arrived.to_be_bytes());
                    arrived += 1;
                }
                LinkEvent::Connected { .. } | LinkEvent::Observed { .. } => {}
                other => panic!("{other:?} after {arrived} packets"),
            }
        }
    }
    let stats = ends[0].stats(a).unwrap();
    assert!(stats.ratchets >= total / ratchet / 2, "{stats:?}");
    assert!(stats.rekeys > stats.ratchets, "{stats:?}");
    eprintln!("{} GiB, {stats:?}", (arrived * PACKET as u64) >> 30);
}

#[test]
fn a_session_outlives_many_keys() {
    for suites in [Suites::Fastest, Suites::ChaCha, Suites::XChaCha] {
        long_session(100 << 20, suites, 150, 10 << 20);
    }
}

/// `cargo test --release -p xylem-link --test keys -- --ignored`: seconds.
#[test]
#[ignore = "moves 10 GiB"]
fn ten_gibibytes_in_one_session() {
    long_session(10 << 30, Suites::Fastest, 1_000, 1 << 28);
}
