//! A hostile network that forges, replays, misdirects and floods. Each known mistake of the design's source that
//! concerns the link has a test here, in network.rs or beside the code.

mod sim;

use std::collections::HashMap;

use bytes::BytesMut;
use core::net::SocketAddr;
use core::time::Duration;
use sim::{FAIR, MS, Net, S, addr, key};
use xylem_link::{
    CloseReason, Endpoint, LinkConfig, MAX_KNOCKS, PostQuantum, RatchetLimits, RekeyLimits,
    StaticKey,
};
use xylem_sim::{Conditions, Rng};

/// A session from the first datagram to the last, with epochs and rounds of Diffie-Hellman throughout; `interfere` is
/// called every half millisecond. Returns the network with all that the two sent.
fn session(stateless_reset: bool, mut interfere: impl FnMut(&mut Net)) -> Net {
    let rekey = RekeyLimits { packets: 15, ..RekeyLimits::default() };
    let ratchet = RatchetLimits { bytes: 20_000, ..RatchetLimits::default() };
    let config =
        LinkConfig { rekey, ratchet, stateless_reset, accept_open: true, ..LinkConfig::default() };
    let mut net = Net::pair(5, &config, Conditions { mtu: 1_472, ..FAIR });
    net.record = true;
    let mut step = |net: &mut Net, steps: usize| {
        for _ in 0..steps {
            interfere(net);
            net.run(MS / 2);
        }
    };
    step(&mut net, 2);
    let a = net.dial();
    step(&mut net, 12);
    let b = net.nodes[1].connected[0];
    for n in 0..60u8 {
        net.nodes[0].endpoint.send(a, &[n; 3_000]).unwrap();
        net.nodes[1].endpoint.send(b, &[n; 30]).unwrap();
        step(&mut net, 2);
    }
    for (node, link) in net.nodes.iter().zip([a, b]) {
        let stats = node.endpoint.stats(link).unwrap();
        assert!(stats.ratchets > 2 && stats.rekeys > stats.ratchets, "{stats:?}");
    }
    net.nodes[0].endpoint.close(a);
    step(&mut net, 6);
    net
}

/// Injects forged, truncated, lengthened, bit-flipped and invented datagrams, derived from everything that the session
/// sends at any time. Also returns the destination and the length of each.
fn forge(seed: u64, quiet: &Net, stateless_reset: bool) -> (Net, Vec<(SocketAddr, usize)>) {
    let mut rng = Rng::new(seed);
    let mut injected = Vec::new();
    let net = session(stateless_reset, |net| {
        for _ in 0..20 {
            let (mut from, to, mut bytes) = {
                let n = rng.below(quiet.tap.len() as u64) as usize;
                quiet.tap[n].clone()
            };
            let len = bytes.len() as u64;
            match rng.below(5) {
                0 => bytes[rng.below(len) as usize] ^= 1 << rng.below(8),
                1 => bytes.truncate(rng.below(len) as usize),
                2 => bytes.push(rng.next_u64() as u8),
                3 => bytes[12..].fill_with(|| rng.next_u64() as u8),
                _ => {
                    bytes = vec![0; rng.below(2_000) as usize];
                    bytes.fill_with(|| rng.next_u64() as u8);
                }
            }
            if rng.chance(0.3) {
                from = addr(66);
            }
            injected.push((from, bytes.len()));
            net.inject(from, to, bytes);
        }
    });
    assert!(injected.len() > 1_000);
    (net, injected)
}

/// WRAITH: one forged packet kills the session. In every state of both sides, rounds of Diffie-Hellman included, the
/// sent bytes do not change.
#[test]
fn forgeries_in_every_state_leave_no_trace() {
    let quiet = session(false, |_| {});
    assert_eq!((quiet.nodes[0].packets.len(), quiet.nodes[1].packets.len()), (60, 60));
    for seed in 0..3 {
        let (forged, _) = forge(seed, &quiet, false);
        assert!(forged.tap == quiet.tap, "seed {seed}: something changed");
        assert!(forged.outside.is_empty(), "the forger got an answer");
    }
}

/// The same where datagrams of unknown ids are answered with resets: apart from these the sent bytes do not change, and
/// the resets are few, short, and end no link.
#[test]
fn forgeries_provoke_nothing_but_a_few_short_resets() {
    let mut quiet = session(true, |_| {});
    // A repeated close may be long enough that an ended side answers it with a reset: the last datagram of this side.
    for node in &quiet.nodes {
        for _ in 0..node.endpoint.endpoint_stats().resets_sent {
            let last = quiet.tap.iter().rposition(|(from, ..)| *from == node.at).unwrap();
            assert!(quiet.tap.remove(last).2.len() < 64);
        }
    }
    for seed in 0..3 {
        let (forged, injected) = forge(seed, &quiet, true);
        let mut genuine = quiet.tap.iter().peekable();
        let mut resets: HashMap<SocketAddr, usize> = HashMap::new();
        for datagram in &forged.tap {
            if genuine.next_if_eq(&datagram).is_none() {
                assert!(datagram.2.len() < 64, "seed {seed}: no reset");
                *resets.entry(datagram.1).or_default() += 1;
            }
        }
        assert_eq!(genuine.next(), None, "seed {seed}: something is missing");
        let sent: u64 = forged.nodes.iter().map(|n| n.endpoint.endpoint_stats().resets_sent).sum();
        assert_eq!(resets.values().sum::<usize>() as u64, sent);
        assert!((10..200).contains(&sent), "{sent} resets");
        for (to, resets) in resets {
            let provoked = injected.iter().filter(|(from, len)| *from == to && *len >= 64).count();
            assert!(resets <= provoked, "{resets} for {provoked}");
        }
        assert_eq!(forged.nodes[0].closed, quiet.nodes[0].closed);
        assert_eq!(forged.nodes[1].closed, quiet.nodes[1].closed);
    }
}

/// Everything ever sent, repeated from its own address and from elsewhere: no packet twice, no second link, no answer
/// larger than its question.
#[test]
fn replays_in_every_state_deliver_nothing_twice() {
    let quiet = session(true, |_| {});
    let mut rng = Rng::new(1);
    let mut elsewhere = 0;
    let net = session(true, |net| {
        for _ in 0..20 {
            if net.tap.is_empty() {
                return;
            }
            let n = rng.below(net.tap.len() as u64) as usize;
            let (mut from, to, bytes) = net.tap[n].clone();
            if rng.chance(0.3) {
                from = addr(66);
                elsewhere += bytes.len();
            }
            net.inject(from, to, bytes);
        }
    });
    for i in 0..2 {
        // A copy may overtake the original: order is not guaranteed.
        let sorted = |net: &Net| {
            let mut packets = net.nodes[i].packets.clone();
            packets.sort();
            packets
        };
        let firsts = |net: &Net| sorted(net).iter().map(|p| p[0]).collect::<Vec<_>>();
        assert_eq!(firsts(&net), firsts(&quiet), "each packet once");
        assert_eq!(net.nodes[i].connected.len(), 1);
        assert_eq!(net.nodes[i].closed.len(), 1);
    }
    let answered: usize = net.outside.values().flatten().map(Vec::len).sum();
    assert!(answered > 0 && answered <= elsewhere, "{answered} bytes for {elsewhere}");
}

/// An attacker on the path forwards the peer's datagrams faster, from an address of its own. It is challenged, cannot
/// answer, and receives nothing else.
#[test]
fn a_copier_cannot_redirect_the_link() {
    let mut net = Net::pair(1, &LinkConfig::default(), FAIR);
    let (a, b) = net.connect();
    net.run(S);
    net.record = true;
    let mut copied = 0;
    let victim = addr(66);
    for n in 0..200u8 {
        net.tap.clear();
        net.conditions.loss = 1.0;
        net.nodes[0].endpoint.send(a, &[n; 100]).unwrap();
        net.flush();
        net.conditions.loss = 0.0;
        for (_, to, bytes) in core::mem::take(&mut net.tap) {
            copied += bytes.len();
            net.inject(victim, to, bytes);
        }
        net.nodes[1].endpoint.send(b, &[n; 1_000]).unwrap();
        net.run(10 * MS);
    }
    assert_eq!(net.nodes[1].endpoint.link(b).unwrap().remote(), net.nodes[0].at);
    assert_eq!(net.nodes[0].packets.len(), 200, "answers still go to the peer");
    let got: usize = net.outside[&victim].iter().map(Vec::len).sum();
    // Challenges, with the padding of small datagrams (37 to 100 bytes); no datagram of 1,000 bytes.
    assert!(net.outside[&victim].iter().all(|d| d.len() <= 100) && got <= copied);
}

#[test]
fn another_key_at_the_address_is_reported_as_wrong_peer() {
    let asks = LinkConfig { ask_who_answers: true, accept_open: true, ..LinkConfig::default() };
    let mut net = Net::pair(1, &asks, FAIR);
    let (to, now) = (net.nodes[1].at, net.now());
    let link = net.nodes[0].endpoint.connect(now, to, Some(key(200).public()));
    net.run(9 * S);
    // Reported at once, and not the end: the genuine peer may still answer.
    let peer = net.nodes[1].endpoint.public_key();
    assert_eq!(net.nodes[0].other_keys, [(link, peer)]);
    assert!(net.nodes[0].closed.is_empty());
    net.run(S);
    assert_eq!(net.nodes[0].closed, [(link, CloseReason::WrongPeer)]);
    assert!(net.nodes[1].connected.is_empty());
    // A dialer that must not show the protocol gets a timeout instead.
    let config = LinkConfig { ask_who_answers: false, ..asks };
    let mut net = Net::pair(1, &config, FAIR);
    let link = net.nodes[0].endpoint.connect(now, to, Some(key(200).public()));
    net.run(11 * S);
    assert_eq!(net.nodes[0].closed, [(link, CloseReason::HandshakeTimeout)]);
}

#[test]
fn dialing_by_address_works_only_where_it_is_allowed() {
    for accept_open in [true, false] {
        let config = LinkConfig { accept_open, ..LinkConfig::default() };
        let mut net = Net::pair(1, &config, FAIR);
        net.record = true;
        let (to, now) = (net.nodes[1].at, net.now());
        net.nodes[0].endpoint.connect(now, to, None);
        net.run(S);
        assert_eq!(net.nodes[0].connected.len(), usize::from(accept_open));
        let answered = net.tap.iter().any(|(from, _, _)| *from == to);
        assert_eq!(answered, accept_open);
    }
}

/// A knock gets an answer as the key does, and is as secret for a dialer that has neither.
#[test]
fn only_dialers_that_know_the_knock_are_answered() {
    let config = LinkConfig { accept_open: false, ..LinkConfig::default() };
    for (knock, known) in [([7; 32], true), ([8; 32], true), ([9; 32], false)] {
        let mut net = Net::pair(1, &config, FAIR);
        net.record = true;
        let (to, now) = (net.nodes[1].at, net.now());
        assert!(net.nodes[1].endpoint.answer_knock(&[7; 32]));
        assert!(net.nodes[1].endpoint.answer_knock(&[8; 32]));
        let link = net.nodes[0].endpoint.connect_by_knock(now, to, &knock);
        net.run(S);
        assert_eq!(net.nodes[0].connected.len(), usize::from(known));
        assert_eq!(net.tap.iter().any(|(from, _, _)| *from == to), known);
        if known {
            let its_key = net.nodes[1].endpoint.public_key();
            assert_eq!(net.nodes[0].endpoint.link(link).unwrap().peer(), its_key);
            net.nodes[0].endpoint.send(link, &[5; 100]).unwrap();
            net.run(S);
            assert_eq!(net.nodes[1].packets.len(), 1);
        }
    }
}

/// A knock beyond the limit is refused, and forgetting one makes room. The last one is answered like the first.
#[test]
fn knocks_up_to_the_limit_are_answered() {
    let config = LinkConfig { accept_open: false, ..LinkConfig::default() };
    let mut net = Net::pair(1, &config, FAIR);
    let knock = |n: usize| {
        let mut knock = [0; 32];
        knock[..8].copy_from_slice(&(n as u64).to_be_bytes());
        knock
    };
    for n in 0..MAX_KNOCKS {
        assert!(net.nodes[1].endpoint.answer_knock(&knock(n)));
    }
    assert!(
        !net.nodes[1].endpoint.answer_knock(&knock(MAX_KNOCKS)),
        "each costs a look at strangers' bytes"
    );
    assert!(net.nodes[1].endpoint.answer_knock(&knock(0)), "it is known");
    for n in 0..MAX_KNOCKS {
        net.nodes[1].endpoint.forget_knock(&knock(n));
        assert!(
            net.nodes[1].endpoint.answer_knock(&knock(MAX_KNOCKS + n)),
            "a place was given back"
        );
    }
    let to = net.nodes[1].at;
    for (n, answered) in [(0, false), (MAX_KNOCKS, true), (2 * MAX_KNOCKS - 1, true)] {
        let (now, before) = (net.now(), net.nodes[0].connected.len());
        net.nodes[0].endpoint.connect_by_knock(now, to, &knock(n));
        net.run(S);
        assert_eq!(net.nodes[0].connected.len() > before, answered, "knock {n}");
    }
}

/// A dialer that guesses a knock learns a key made for that knock; the endpoint's own key is proven to dialers that
/// know it.
#[test]
fn a_knock_with_its_own_key_reveals_no_other() {
    let config = LinkConfig { accept_open: false, ..LinkConfig::default() };
    let mut net = Net::pair(1, &config, FAIR);
    let (to, now) = (net.nodes[1].at, net.now());
    let (own, other) = (net.nodes[1].endpoint.public_key(), StaticKey::generate([44; 32]));
    assert!(net.nodes[1].endpoint.answer_knock_by(&[7; 32], other.clone()));
    let guessed = net.nodes[0].endpoint.connect_by_knock(now, to, &[7; 32]);
    let known = net.nodes[0].endpoint.connect(now, to, Some(own));
    let by_other = net.nodes[0].endpoint.connect(now, to, Some(other.public()));
    net.run(S);
    let peer = |net: &Net, link| net.nodes[0].endpoint.link(link).map(|link| link.peer());
    assert_eq!(peer(&net, guessed), Some(other.public()));
    assert_eq!(peer(&net, known), Some(own));
    assert_eq!(peer(&net, by_other), None, "it answers nobody who dials by it");
    let guests = net.nodes[1].connected.iter().filter(|at| net.nodes[1].endpoint.is_guest(**at));
    assert_eq!(guests.count(), 1);
    // The link works on after the knock is forgotten.
    net.nodes[1].endpoint.forget_knock(&[7; 32]);
    net.nodes[0].endpoint.send(guessed, &[5; 100]).unwrap();
    let now = net.now();
    let late = net.nodes[0].endpoint.connect_by_knock(now, to, &[7; 32]);
    net.run(S);
    assert_eq!(net.nodes[1].packets.len(), 1);
    assert_eq!(peer(&net, late), None);
}

/// The first datagrams of `n` dialers, each from an address of its own.
fn first_messages(n: u32, expected: &StaticKey, to: SocketAddr) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut buf = Vec::new();
    let dialer = StaticKey::generate([99; 32]);
    let seed = |i: u32| {
        let mut seed = [1; 32];
        seed[..4].copy_from_slice(&i.to_be_bytes());
        seed
    };
    let mut first = |i: u32| {
        let mut endpoint = Endpoint::new(LinkConfig::default(), dialer.clone(), seed(i));
        endpoint.connect(Duration::ZERO, to, Some(expected.public()));
        endpoint.poll_transmit(Duration::ZERO, &mut buf).unwrap();
        (SocketAddr::from(([20, (i >> 16) as u8, (i >> 8) as u8, i as u8], 1)), buf.clone())
    };
    (0..n).map(&mut first).collect()
}

/// WRAITH: a per-IP limit of 10 datagrams a minute, no cookie. Forged first messages come from many addresses: state
/// stays bounded, no address gets more bytes than came from it, and a genuine dialer connects during the flood.
#[test]
fn a_flood_of_first_messages_is_bounded_and_dialers_connect() {
    let config = LinkConfig { cookie_above: 16, max_half_open: 64, ..LinkConfig::default() };
    let mut net = Net::pair(1, &config, FAIR);
    let to = net.nodes[1].at;
    let flood = first_messages(2_000, &key(1), to);
    let mut sent: HashMap<SocketAddr, usize> = HashMap::new();
    let mut dialed = false;
    for burst in flood.chunks(20) {
        for (from, bytes) in burst {
            *sent.entry(*from).or_default() += bytes.len();
            net.inject(*from, to, bytes.clone());
        }
        net.run(MS);
        let stats = net.nodes[1].endpoint.endpoint_stats();
        assert!(stats.half_open <= 17, "{stats:?}");
        if !dialed && net.now() > 20 * MS {
            net.dial();
            dialed = true;
        }
    }
    assert_eq!(net.nodes[0].connected.len(), 1, "the true dialer came through by its cookie");
    assert_eq!(net.nodes[1].connected.len(), 1);
    assert!(net.nodes[1].endpoint.endpoint_stats().cookies_sent > 1_000);
    for (to, datagrams) in &net.outside {
        let got: usize = datagrams.iter().map(Vec::len).sum();
        assert!(got <= sent[to], "amplified");
    }
    net.run(11 * S);
    assert_eq!(net.nodes[1].endpoint.endpoint_stats().half_open, 0, "forgotten in time");
}

/// Dialers that prove their addresses and then stop: the table is bounded, and later dialers still connect.
#[test]
fn half_open_handshakes_with_good_cookies_are_bounded_too() {
    let config = LinkConfig { cookie_above: 4, max_half_open: 8, ..LinkConfig::default() };
    let mut net = Net::pair(1, &config, FAIR);
    let (to, expected) = (net.nodes[1].at, net.nodes[1].endpoint.public_key());
    for i in 0..50u8 {
        let mut dialer = Endpoint::new(config.clone(), key(100), [i; 32]);
        dialer.connect(net.now(), to, Some(expected));
        let from = addr(100 + i);
        let mut buf = Vec::new();
        for _ in 0..2 {
            while dialer.poll_transmit(net.now(), &mut buf).is_some() {
                net.inject(from, to, buf.clone());
            }
            net.run(2 * MS);
            // Only retries reach it; responses are longer and are withheld.
            for datagram in net.outside.remove(&from).unwrap_or_default() {
                if datagram.len() < 300 {
                    dialer.handle_datagram(net.now(), to, BytesMut::from(&datagram[..]));
                }
            }
        }
        assert!(net.nodes[1].endpoint.endpoint_stats().half_open <= 8);
    }
    assert!(net.nodes[1].endpoint.endpoint_stats().refused > 10);
    net.connect();
}

#[test]
fn links_are_limited() {
    let mut configs = vec![LinkConfig { max_links: 3, ..LinkConfig::default() }];
    configs.extend(vec![LinkConfig::default(); 6]);
    let mut net = Net::new(1, &configs, FAIR);
    let (to, expected) = (net.nodes[0].at, net.nodes[0].endpoint.public_key());
    for node in &mut net.nodes[1..] {
        node.endpoint.connect(Duration::ZERO, to, Some(expected));
    }
    net.run(S);
    assert_eq!(net.nodes[0].connected.len(), 3);
    let link = net.dial();
    net.run(MS);
    assert_eq!(net.nodes[0].closed, [(link, CloseReason::TooManyLinks)]);
}

/// WRAITH: Elligator2 present in benchmarks, never in the handshake. To an observer without the responder's key each
/// bit of the first 160 bytes of a first message is uniform (six standard deviations).
#[test]
fn the_first_bytes_of_10000_handshakes_are_uniform() {
    const N: u32 = 10_000;
    let datagrams = first_messages(N, &key(1), addr(1));
    for bit in 0..160 * 8 {
        let ones = datagrams.iter().filter(|(_, d)| d[bit / 8] >> (bit % 8) & 1 == 1).count();
        let deviation = (ones as f64 - f64::from(N) / 2.0).abs();
        assert!(deviation < 6.0 * f64::from(N).sqrt() / 2.0, "bit {bit}: {ones} of {N}");
    }
}

/// WRAITH: rotating connection id keeps its high half. The test looks at the ids on the wire over many epochs.
#[test]
fn ids_on_the_wire_change_as_a_whole() {
    let net = session(true, |_| {});
    let mut ids: Vec<[u8; 8]> = vec![];
    for (from, _, bytes) in &net.tap {
        let id = *bytes.first_chunk().unwrap();
        if *from == net.nodes[0].at && !ids.contains(&id) {
            ids.push(id);
        }
    }
    assert!(ids.len() > 8, "{} ids", ids.len());
    for (i, a) in ids.iter().enumerate() {
        for b in &ids[..i] {
            assert!(a[..4] != b[..4] && a[4..] != b[4..]);
        }
    }
}

/// Random bytes of every length, to an endpoint in any state. Where it is to be silent only a counter changes;
/// elsewhere it sends a few short random answers.
#[test]
fn unknown_datagrams_change_nothing() {
    for (stateless_reset, accept_open) in [(false, true), (true, false), (true, true)] {
        let config = LinkConfig { stateless_reset, accept_open, ..LinkConfig::default() };
        let mut endpoint = Endpoint::new(config, key(1), [1; 32]);
        let mut rng = Rng::new(1);
        let mut answers = 0;
        for len in (0..3_000).chain([65_507]) {
            let mut datagram = BytesMut::zeroed(len);
            datagram.iter_mut().for_each(|b| *b = rng.next_u64() as u8);
            endpoint.handle_datagram(Duration::ZERO, addr(9), datagram);
            let mut buf = Vec::new();
            if let Some(transmit) = endpoint.poll_transmit(Duration::ZERO, &mut buf) {
                assert!(transmit.len < len && transmit.to == addr(9));
                answers += 1;
            }
            assert_eq!(endpoint.poll_transmit(Duration::ZERO, &mut buf), None);
        }
        assert_eq!(answers, if stateless_reset && accept_open { 32 } else { 0 });
        assert_eq!(endpoint.endpoint_stats().ignored, 3_001);
        assert_eq!(endpoint.endpoint_stats().resets_sent, answers);
        assert!(endpoint.poll_event().is_none());
        assert_eq!(endpoint.poll_timeout(), None);
    }
}

#[test]
fn debug_hides_secrets() {
    let secret = StaticKey::generate([0xab; 32]);
    let endpoint = Endpoint::new(LinkConfig::default(), secret.clone(), [0xcd; 32]);
    for text in [format!("{secret:?}"), format!("{endpoint:?}")] {
        for hidden in ["171, 171", "abab", "205, 205", "cdcd"] {
            assert!(!text.to_lowercase().contains(hidden), "{text}");
        }
    }
}

/// An attacker records a dial and sends it from elsewhere, at once, repeatedly, or later. It gets no more bytes than it
/// has sent, gets no link, and does not keep the dialer from its own.
#[test]
fn a_copied_dial_gives_the_copier_no_link() {
    for (post_quantum, later) in
        [PostQuantum::Never, PostQuantum::Offer].into_iter().flat_map(|q| [(q, false), (q, true)])
    {
        let config = LinkConfig { accept_open: false, post_quantum, ..LinkConfig::default() };
        let mut net = Net::pair(1, &config, FAIR);
        net.record = true;
        let (to, dialer) = (net.nodes[1].at, net.nodes[0].at);
        if later {
            net.connect();
            net.run(60 * S);
        } else {
            net.dial();
        }
        net.flush();
        let recorded = net.tap.iter().filter(|(from, at, _)| *from == dialer && *at == to);
        let recorded: Vec<Vec<u8>> = recorded.map(|(_, _, bytes)| bytes.clone()).collect();
        assert!(!recorded.is_empty());
        let copier = addr(66);
        let mut sent = 0;
        for _ in 0..20 {
            for datagram in &recorded {
                sent += datagram.len();
                net.inject(copier, to, datagram.clone());
            }
            net.run(100 * MS);
        }
        let got: usize = net.outside.get(&copier).into_iter().flatten().map(Vec::len).sum();
        assert!(got > 0 && got <= sent, "{got} bytes for {sent}");
        net.run(20 * S);
        assert_eq!(net.nodes[1].connected.len(), 1, "the dialer's own");
        assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
        assert_eq!(net.nodes[1].endpoint.endpoint_stats().half_open, 0);
    }
}
