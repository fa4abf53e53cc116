//! Lengths of handshake messages on the wire: each drawn uniformly from its class
//! (docs/spec/link.md, "Envelope").

mod sim;

use std::collections::BTreeMap;

use sim::{FAIR, MS, Net, S, addr};
use xylem_link::{Level, LinkConfig, PostQuantum, Shaping};
use xylem_link_internals::internals::KnownPeer;

/// How often each length occurred, for each kind of message.
type Seen = BTreeMap<u8, BTreeMap<usize, usize>>;

/// Collects the lengths of many handshakes. Lengths of non-hybrid responses are listed by the bytes received before.
fn lengths(config: &LinkConfig, loaded: bool, handshakes: u64) -> (Seen, BTreeMap<usize, Seen>) {
    let (mut seen, mut paid) = (Seen::new(), BTreeMap::<usize, Seen>::new());
    let cookie_above = if loaded { 0 } else { 32 };
    let listener = LinkConfig { cookie_above, ..config.clone() };
    for seed in 0..handshakes {
        let mut net = Net::new(seed, &[config.clone(), listener.clone()], FAIR);
        net.record = true;
        let known = KnownPeer::Key(net.nodes[1].endpoint.public_key().0);
        net.dial();
        net.run(20 * MS);
        assert_eq!(net.nodes[1].connected.len(), 1);
        let mut first = 0;
        for (from, _, datagram) in &net.tap {
            let Some(body) = known.open(datagram) else { continue };
            if *from == addr(0) {
                first = datagram.len();
            }
            let of = |seen: &mut Seen| {
                *seen.entry(body[1]).or_default().entry(datagram.len()).or_default() += 1;
            };
            if body[1] == 3 { of(paid.entry(first).or_default()) } else { of(&mut seen) }
        }
    }
    (seen, paid)
}

/// Chi-square of counts that should be equal for all lengths of the class, and its degrees of freedom.
fn chi_square(
    counts: &BTreeMap<usize, usize>,
    class: core::ops::RangeInclusive<usize>,
) -> (f64, f64) {
    assert!(counts.keys().all(|len| class.contains(len)), "{class:?}: {counts:?}");
    let cells = class.clone().count() as f64;
    let expected = counts.values().sum::<usize>() as f64 / cells;
    let off = |len| *counts.get(&len).unwrap_or(&0) as f64 - expected;
    (class.map(|len| off(len) * off(len) / expected).sum(), cells - 1.0)
}

/// Within five standard deviations of the mean.
fn assert_uniform(what: &str, (chi, freedom): (f64, f64)) {
    let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
    assert!(chi < bound, "{what}: chi-square {chi:.1} of {freedom} degrees of freedom");
}

const HANDSHAKES: u64 = 1_500;

#[test]
fn every_length_of_a_handshake_is_uniform_in_its_class() {
    let hybrid = LinkConfig::default();
    let plain = LinkConfig { post_quantum: PostQuantum::Never, ..LinkConfig::default() };
    let (seen, responses) = lengths(&hybrid, false, HANDSHAKES);
    assert!(responses.is_empty(), "all are hybrids");
    for (kind, class) in [(1, 1_200..=1_232), (4, 128..=255), (5, 128..=255), (6, 1_229..=1_232)] {
        assert_uniform(&format!("kind {kind}"), chi_square(&seen[&kind], class));
    }
    // The longest response depends on the length of its initial: uniform up to that.
    let (seen, responses) = lengths(&plain, false, HANDSHAKES);
    assert_uniform("plain initial", chi_square(&seen[&1], 1_200..=1_232));
    let (mut chi, mut freedom) = (0.0, 0.0);
    for (paid, seen) in responses {
        let of_paid = chi_square(&seen[&3], 1_200..=paid);
        (chi, freedom) = (chi + of_paid.0, freedom + of_paid.1);
    }
    assert!(freedom > 400.0);
    assert_uniform("response", (chi, freedom));
    let (seen, _) = lengths(&hybrid, true, HANDSHAKES);
    assert_uniform("retry", chi_square(&seen[&2], 64..=255));
}

#[test]
fn with_shaping_rest_and_finish_are_padded_like_initials() {
    let shaping = Shaping { level: Level::Low, ..Shaping::default() };
    let config = LinkConfig { shaping, ..LinkConfig::default() };
    let (seen, _) = lengths(&config, false, 500);
    for kind in [1, 4, 5] {
        assert_uniform(&format!("kind {kind}"), chi_square(&seen[&kind], 1_200..=1_232));
    }
}

/// An unproven address gets no more bytes than came from it, whatever length is drawn.
#[test]
fn no_answer_is_longer_than_what_came() {
    for post_quantum in [PostQuantum::Offer, PostQuantum::Never] {
        let config = LinkConfig { post_quantum, cookie_above: 4, ..LinkConfig::default() };
        let mut net = Net::pair(1, &config, FAIR);
        let known = net.nodes[1].endpoint.public_key();
        for n in 0..40 {
            let mut dialer = xylem_link::Endpoint::new(config.clone(), sim::key(50), [n; 32]);
            dialer.connect(net.now(), addr(1), Some(known));
            let (mut sent, mut buf) = (0, Vec::new());
            for _ in 0..4 {
                while dialer.poll_transmit(net.now(), &mut buf).is_some() {
                    sent += buf.len();
                    net.inject(addr(100 + n), addr(1), buf.clone());
                }
                net.run(250 * MS);
                dialer.handle_timeout(net.now());
                let got = net.outside.get(&addr(100 + n));
                let got: usize = got.map_or(0, |all| all.iter().map(Vec::len).sum());
                assert!(got > 0 && got <= sent, "{got} bytes for {sent}");
            }
            net.run(S);
        }
    }
}

/// A dialer that needs extra room learns by the dial whether the path has it.
#[test]
fn a_dial_that_needs_room_is_answered_where_the_path_has_it() {
    let mut seen = BTreeMap::new();
    for (mtu, answers, seeds) in [(1_243, false, 10), (1_252, true, 600)] {
        for seed in 0..seeds {
            let conditions = xylem_sim::Conditions { mtu, ..FAIR };
            let mut net =
                Net::new(seed, &[LinkConfig::default(), LinkConfig::default()], conditions);
            net.record = true;
            let key = net.nodes[1].endpoint.public_key();
            let now = net.now();
            net.nodes[0].endpoint.connect_with_room(now, addr(1), Some(key), &(1_244..=1_252));
            net.run(if answers { 20 * MS } else { S });
            assert_eq!(net.nodes[1].connected.len(), usize::from(answers), "{mtu}");
            let initials = net.tap.iter().filter(|(_, _, datagram)| {
                KnownPeer::Key(key.0).open(datagram).is_some_and(|body| body[1] == 1)
            });
            initials.for_each(|(.., it)| *seen.entry(it.len()).or_default() += 1);
        }
    }
    assert_uniform("initial with room", chi_square(&seen, 1_244..=1_252));
}
