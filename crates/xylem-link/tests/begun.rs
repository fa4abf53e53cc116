//! Limits on the handshakes of one source, and their cost to others: first messages of small order, cookies that are
//! reused, one address that begins as many handshakes as it can.

mod sim;

use core::net::SocketAddr;
use core::time::Duration;

use sim::{FAIR, MS, Net, S, addr, key};
use xylem_link::{CloseReason, Endpoint, LinkConfig, PostQuantum};
use xylem_link_internals::internals::KnownPeer;
use xylem_sim::Conditions;

/// Position of the cookie in an initial (docs/spec/link.md, "Envelope").
const COOKIE: core::ops::Range<usize> = 2..26;
const EPHEMERAL: core::ops::Range<usize> = 26..58;
const DIALER_ID: core::ops::Range<usize> = 58..66;

/// An attacker with the ticket and one genuine first message, from which it makes others: nothing in a first message is
/// authenticated.
struct Attacker {
    known: KnownPeer,
    first: Vec<u8>,
}

impl Attacker {
    fn new(net: &Net) -> Self {
        let peer = net.nodes[1].endpoint.public_key();
        let config = LinkConfig { post_quantum: PostQuantum::Never, ..LinkConfig::default() };
        let mut dialer = Endpoint::new(config, key(200), [9; 32]);
        let mut buf = Vec::new();
        dialer.connect(Duration::ZERO, addr(1), Some(peer));
        dialer.poll_transmit(Duration::ZERO, &mut buf).unwrap();
        let known = KnownPeer::Key(peer.0);
        Self { known, first: known.open(&buf).unwrap() }
    }

    /// A first message under an id, which is also the dialer's.
    fn initial(&self, id: u64, cookie: Option<&[u8]>) -> Vec<u8> {
        let mut body = self.first.clone();
        body[DIALER_ID].copy_from_slice(&id.to_be_bytes());
        if let Some(cookie) = cookie {
            body[COOKIE].copy_from_slice(cookie);
        }
        self.known.seal(id.to_be_bytes(), &body, 1_200)
    }

    /// Cookies sent to an address, with the ids that they belong to.
    fn cookies(&self, net: &mut Net, at: SocketAddr) -> Vec<(u64, Vec<u8>)> {
        let got = net.outside.remove(&at).unwrap_or_default();
        let cookie = |datagram: &Vec<u8>| {
            let body = self.known.open(datagram)?;
            let id = u64::from_be_bytes(*datagram.first_chunk()?);
            (body[1] == 2).then(|| (id, body[2..26].to_vec()))
        };
        got.iter().filter_map(cookie).collect()
    }
}

/// Keys of small order cost the responder a Diffie-Hellman each and lead to no handshake: they must count against the
/// limits.
#[test]
fn first_messages_of_small_order_count_as_half_open() {
    let mut net = Net::pair(1, &LinkConfig::default(), FAIR);
    let attacker = Attacker::new(&net);
    let stats = |net: &Net| net.nodes[1].endpoint.endpoint_stats();
    for n in 0..100u8 {
        let mut body = attacker.first.clone();
        body[EPHEMERAL].fill(0);
        // The top bits are ignored.
        body[EPHEMERAL.end - 1] = n << 6;
        net.inject(addr(100 + n), addr(1), attacker.known.seal([n; 8], &body, 1_200));
        net.run(MS);
    }
    assert!(net.outside.values().flatten().all(|d| d.len() < 256), "no response");
    let after = stats(&net);
    assert_eq!((after.half_open, after.cookies_sent), (32, 68));
    // Another dialer gets in, with a cookie now, and without one when the failures are forgotten.
    net.connect();
    net.run(11 * S);
    assert_eq!((stats(&net).half_open, stats(&net).cookies_sent), (0, 69));
    net.dial();
    net.run(S);
    assert_eq!((net.nodes[1].connected.len(), stats(&net).cookies_sent), (2, 69));
}

/// How the one address uses its cookies.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// One cookie for first messages of many ids.
    One,
    /// One cookie for each.
    Each,
}

/// One address shows cookies and begins 6,000 handshakes a second, while ten dialers connect over 100 ms: each of them
/// is connected within a second.
#[test]
fn one_address_with_cookies_does_not_block_others() {
    for uses in [Use::One, Use::Each] {
        let configs = vec![LinkConfig::default(); 11];
        let mut net = Net::new(3, &configs, Conditions { delay: 50 * MS, ..FAIR });
        let attacker = Attacker::new(&net);
        let (from, to) = (addr(250), addr(1));
        let expected = net.nodes[1].endpoint.public_key();
        let (mut next, mut one) = (0u64, None);
        let mut dialed: Vec<(usize, Duration)> = Vec::new();
        while net.now() < 4 * S {
            for (id, cookie) in attacker.cookies(&mut net, from) {
                net.inject(from, to, attacker.initial(id, Some(&cookie)));
                one.get_or_insert(cookie);
            }
            for _ in 0..6 {
                next += 1;
                let cookie = one.as_deref().filter(|_| matches!(uses, Use::One));
                // The cookie was given for a first message of another id.
                let mut initial = attacker.initial(next, cookie);
                if cookie.is_some() {
                    let body = attacker.known.open(&attacker.initial(33, cookie)).unwrap();
                    initial = attacker.known.seal(next.to_be_bytes(), &body, 1_200);
                }
                net.inject(from, to, initial);
            }
            net.run(MS);
            // The dials are a fifth of a second apart, once the attack is at full rate.
            let n = dialed.len();
            if n < 10 && net.now() >= S + n as u32 * 200 * MS {
                let node = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10][n];
                let now = net.now();
                net.nodes[node].endpoint.connect(now, to, Some(expected));
                dialed.push((node, now));
            }
            for (node, at) in &dialed {
                let up = !net.nodes[*node].connected.is_empty();
                assert!(up || net.now() < *at + S, "{uses:?}: node {node}");
            }
        }
        assert_eq!((dialed.len(), net.nodes[1].connected.len()), (10, 10));
        let stats = net.nodes[1].endpoint.endpoint_stats();
        assert!(stats.half_open < 200, "{stats:?}");
    }
}

/// Where all places are taken, a newcomer displaces a handshake of its own network, and not another's.
#[test]
fn a_newcomer_displaces_handshakes_of_its_own_network() {
    let config = LinkConfig { cookie_above: 2, max_half_open: 12, ..LinkConfig::default() };
    let mut net = Net::pair(1, &config, FAIR);
    let attacker = Attacker::new(&net);
    let begin = |net: &mut Net, from: SocketAddr, id: u64| {
        net.inject(from, addr(1), attacker.initial(id, None));
        net.run(3 * MS);
        for (id, cookie) in attacker.cookies(net, from) {
            net.inject(from, addr(1), attacker.initial(id, Some(&cookie)));
        }
        net.run(3 * MS);
    };
    let other = addr(60);
    begin(&mut net, other, 1);
    let network = |n: u16| SocketAddr::from(([0x2001, 0xdb8, 0, 7, n, 0, 0, n], 1_000 + n));
    for n in 0..30 {
        begin(&mut net, network(n), 100 + u64::from(n));
        net.outside.clear();
    }
    assert_eq!(net.nodes[1].endpoint.endpoint_stats().half_open, 12);
    // Its half-open handshake is still there: a copy of its first message is answered at once.
    net.inject(other, addr(1), attacker.initial(1, None));
    net.run(3 * MS);
    assert_eq!(net.outside[&other].len(), 1);
    assert!(net.outside[&other][0].len() >= 1_200, "a response");
}

/// A side that requires a hybrid accepts no link without one, as dialer or responder; the dial ends with the reason or
/// with a timeout.
#[test]
fn a_required_hybrid_is_never_left_out() {
    use PostQuantum::{Never, Offer, Require};
    if !Require.is_possible() {
        return;
    }
    for (dialer, responder, comes_up) in [
        (Require, Require, true),
        (Require, Offer, true),
        (Offer, Require, true),
        (Require, Never, false),
        (Never, Require, false),
    ] {
        let config = |post_quantum| LinkConfig { post_quantum, ..LinkConfig::default() };
        let mut net = Net::new(1, &[config(dialer), config(responder)], FAIR);
        net.record = true;
        let link = net.dial();
        net.run(11 * S);
        let node = &net.nodes[0];
        assert_eq!(node.connected.len(), usize::from(comes_up));
        assert_eq!(net.nodes[1].connected.len(), usize::from(comes_up));
        if comes_up {
            assert!(node.endpoint.stats(link).unwrap().post_quantum);
        } else if dialer == Require {
            assert_eq!(node.closed, [(link, CloseReason::NoPostQuantum)]);
            assert!(net.now() > 10 * S && net.tap.len() <= 4, "at once, and nothing after");
        } else {
            assert_eq!(node.closed, [(link, CloseReason::HandshakeTimeout)]);
            assert!(net.tap.iter().all(|(from, ..)| *from == node.at), "it is not answered");
        }
    }
}
