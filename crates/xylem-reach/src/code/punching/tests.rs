//! Two sides and a victim, under virtual time.

use super::*;

const NUMBER: u32 = 48_213;

fn side(role: CodeRole, near: bool) -> CodePunching {
    CodePunching::new(role, NUMBER, near, &[role_byte(role) + 1; 32])
}

/// A node of the DHT in a network of its own.
fn node(n: u8) -> SocketAddr {
    SocketAddr::from(([8, 8, n, 8], 6_881))
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// All datagrams of the next `seconds`, with the time of each.
fn sent(side: &mut CodePunching, from: u64, seconds: u64) -> Vec<(Duration, SocketAddr)> {
    let (mut now, end) = (Duration::from_secs(from), Duration::from_secs(from + seconds));
    let mut all = Vec::new();
    while now < end {
        while let Some((to, datagram)) = side.poll_transmit(now) {
            assert_eq!(datagram.len(), PUNCH_LEN);
            all.push((now, to.at));
        }
        let Some(next) = side.poll_timeout() else { break };
        assert!(next > now, "nothing is due after all was sent");
        now = next;
    }
    all
}

/// Whether a NAT lets a datagram in: only from where one was sent to before.
fn passes(holes: &[(SocketAddr, SocketAddr)], from: SocketAddr, to: SocketAddr) -> bool {
    holes.contains(&(to, from))
}

/// Both sides are behind NATs that let in only addresses that were sent to. The offerer learns of the taker later.
#[test]
fn two_port_restricted_nats_are_opened() {
    let (a, b) = (at("198.51.100.1:1000"), at("198.51.100.2:2000"));
    let (mut taker, mut offerer) = (side(CodeRole::Taker, false), side(CodeRole::Offerer, false));
    let (mut holes, mut proven) = (Vec::new(), Vec::new());
    taker.add(Duration::ZERO, b, node(1));
    let mut flying: Vec<(Duration, SocketAddr, SocketAddr, [u8; PUNCH_LEN])> = Vec::new();
    for ms in 0..20_000_u64 {
        let now = Duration::from_millis(ms);
        if ms == 9_000 {
            offerer.add(now, a, node(1));
        }
        let arrived: Vec<_> = flying.extract_if(.., |(when, ..)| *when <= now).collect();
        for (_, from, to, datagram) in arrived {
            if passes(&holes, from, to) {
                let side = if to == a { &mut taker } else { &mut offerer };
                assert!(side.handle_datagram(now, from, &datagram));
            }
        }
        for (side, own) in [(&mut taker, a), (&mut offerer, b)] {
            while let Some((to, datagram)) = side.poll_transmit(now) {
                holes.push((own, to.at));
                flying.push((now + Duration::from_millis(50), own, to.at, datagram));
            }
            while let Some(peer) = side.poll_proven() {
                proven.push((own, peer.at, ms));
            }
        }
    }
    let sides: Vec<_> = proven.iter().map(|(own, peer, _)| (*own, *peer)).collect();
    assert_eq!(sides, [(b, a), (a, b)]);
    assert!(proven.iter().all(|(_, _, ms)| *ms < 9_500), "{proven:?}");
}

#[test]
fn an_open_offerer_answers_a_taker_that_it_was_not_told_of() {
    let (a, b) = (at("198.51.100.1:1000"), at("198.51.100.2:2000"));
    let (mut taker, mut offerer) = (side(CodeRole::Taker, false), side(CodeRole::Offerer, false));
    let now = Duration::ZERO;
    taker.add(now, b, node(1));
    let (_, first) = taker.poll_transmit(now).unwrap();
    assert!(offerer.handle_datagram(now, a, &first));
    assert_eq!(offerer.poll_proven(), None, "its source may be forged");
    let (to, answer) = offerer.poll_transmit(now).unwrap();
    assert_eq!(to, a.into());
    assert!(taker.handle_datagram(now, b, &answer));
    assert_eq!(taker.poll_proven(), Some(b.into()));
    assert!(
        !offerer.handle_datagram(now, a, &answer),
        "a side's own datagrams are none of the other's"
    );
    assert!(!side(CodeRole::Taker, false).handle_datagram(now, b, &answer[..31]));
    let mut other = CodePunching::new(CodeRole::Taker, NUMBER + 1, false, &[3; 32]);
    assert!(!other.handle_datagram(now, b, &answer), "another number");
}

/// An answer proves nothing if it does not return what was sent to its source.
#[test]
fn a_forged_source_is_not_proven() {
    let (victim, liar) = (at("203.0.113.9:7"), at("198.51.100.9:9"));
    let mut taker = side(CodeRole::Taker, false);
    taker.add(Duration::ZERO, victim, node(1));
    let mut forger = side(CodeRole::Offerer, false);
    // The liar knows the number, and has what was sent to its own address.
    taker.add(Duration::ZERO, liar, node(1));
    while let Some((to, datagram)) = taker.poll_transmit(Duration::ZERO) {
        if to.at == liar {
            forger.handle_datagram(Duration::ZERO, at("192.0.2.1:1"), &datagram);
        }
    }
    let (_, forged) = forger.poll_transmit(Duration::ZERO).unwrap();
    assert!(taker.handle_datagram(Duration::ZERO, victim, &forged));
    assert_eq!(taker.poll_proven(), None);
}

/// Poisoned answers: a victim's address a thousand times, with a thousand ports, among others, again and again, and
/// datagrams with its forged source.
#[test]
fn a_victim_gets_ten_small_datagrams() {
    let both = [CodeRole::Taker, CodeRole::Offerer];
    for (role, symmetric) in both.into_iter().flat_map(|role| [(role, false), (role, true)]) {
        let mut side = side(role, false).with_search();
        side.set_symmetric(Some(symmetric));
        let other = if role == CodeRole::Taker { CodeRole::Offerer } else { CodeRole::Taker };
        let mut forger = self::side(other, false);
        let mut all = Vec::new();
        for round in 0..60 {
            let now = Duration::from_secs(10 * round);
            for n in 0..1_000_u16 {
                side.add(now, at("203.0.113.9:7348"), node(1));
                side.add(now, SocketAddr::from(([203, 0, 113, 9], 1_024 + n)), node(2));
            }
            for n in 0..100_u16 {
                let forged = SocketAddr::from(([203, 0, 113, 9], 9_000 + n));
                forger.add(now, forged, node(1));
                while let Some((to, datagram)) = forger.poll_transmit(now) {
                    side.handle_datagram(now, to.at, &datagram);
                }
            }
            all.extend(sent(&mut side, 10 * round, 10));
        }
        assert_eq!(all.len(), usize::from(MAX_PUNCHES), "{all:?}");
    }
}

#[test]
fn eight_addresses_are_sent_to_at_a_time() {
    let mut side = side(CodeRole::Taker, false);
    for n in 0..200_u8 {
        side.add(Duration::ZERO, SocketAddr::from(([198, 51, n, 1], 7_348)), node(1));
    }
    let all = sent(&mut side, 0, 3_600);
    assert_eq!(all.len(), MAX_LISTED * (PAUSES.len() + 1));
    for (now, _) in &all {
        let second = *now..*now + Duration::from_secs(1);
        let mut hosts: Vec<_> =
            all.iter().filter(|(at, _)| second.contains(at)).map(|(_, to)| to).collect();
        hosts.sort();
        hosts.dedup();
        assert!(hosts.len() <= 2 * MAX_PUNCHED, "{}", hosts.len());
    }
}

/// Strangers that know the number and forge sources fill no memory, and cause no more than they send.
#[test]
fn forged_sources_are_bounded() {
    let mut offerer = side(CodeRole::Offerer, false);
    let mut forger = side(CodeRole::Taker, true);
    let mut answers = 0;
    for n in 0..20_000_u32 {
        let now = Duration::from_millis(u64::from(n));
        let from = SocketAddr::from(((0x0800_0000 + n).to_be_bytes(), 9));
        let datagram =
            seal(&forger.key, CodeRole::Taker, [0; 8], forger.token(from.into()), [0; 8]);
        assert!(offerer.handle_datagram(now, from, &datagram));
        while offerer.poll_transmit(now).is_some() {
            answers += 1;
        }
    }
    assert!(offerer.peers.len() <= MAX_OTHERS && offerer.hosts.len() <= MAX_OTHERS);
    assert!(answers <= MAX_OTHERS, "{answers}");
    forger.add(Duration::ZERO, at("127.0.0.1:1"), node(1));
}

/// A node of the DHT lists addresses that have sent something valid before.
#[test]
fn forged_sources_that_are_listed_are_bounded() {
    let mut offerer = side(CodeRole::Offerer, false);
    let forger = side(CodeRole::Taker, true);
    for n in 0..1_000_u32 {
        let now = Duration::from_millis(u64::from(n));
        let from = SocketAddr::from(((0x0800_0000 + n).to_be_bytes(), 9));
        let datagram =
            seal(&forger.key, CodeRole::Taker, [0; 8], forger.token(from.into()), [0; 8]);
        assert!(offerer.handle_datagram(now, from, &datagram));
        offerer.add(now, from, node(1));
    }
    assert_eq!(offerer.listed(), MAX_LISTED);
    assert!(offerer.peers.len() <= MAX_LISTED + MAX_OTHERS, "{}", offerer.peers.len());
}

#[test]
fn hosts_of_a_near_network_are_addresses_with_ports() {
    let mut side = side(CodeRole::Offerer, true);
    for port in [1, 2, 3] {
        side.add(Duration::ZERO, SocketAddr::from(([127, 0, 0, 1], port)), node(1));
    }
    assert_eq!(sent(&mut side, 0, 60).len(), 3 * (PAUSES.len() + 1));
}

/// A side with a NAT that gives each destination another port, or none, and lets in only the addresses that were sent to.
struct Home {
    side: CodePunching,
    host: [u8; 4],
    symmetric: bool,
    /// Mappings: socket, destination, port outside.
    mappings: Vec<(Option<u16>, SocketAddr, u16)>,
    proven: Vec<(PunchWay, u64)>,
    sent: usize,
}

impl Home {
    fn new(role: CodeRole, host: [u8; 4], symmetric: bool, seed: u8) -> Self {
        let side = CodePunching::new(role, NUMBER, false, &[seed; 32]).with_search();
        Self { side, host, symmetric, mappings: Vec::new(), proven: Vec::new(), sent: 0 }
    }

    /// The address outside from which a datagram leaves.
    fn leaves(&mut self, way: PunchWay, draws: &mut OutputReader) -> SocketAddr {
        let known = |(socket, to, _): &&(Option<u16>, SocketAddr, u16)| {
            *socket == way.socket && (!self.symmetric || *to == way.at)
        };
        let known = self.mappings.iter().find(known).map(|(.., port)| *port);
        let port = known.unwrap_or_else(|| {
            let mut two = [0; 2];
            draws.fill(&mut two);
            u16::from_be_bytes(two).max(1_024)
        });
        self.mappings.push((way.socket, way.at, port));
        SocketAddr::from((self.host, port))
    }

    /// The way by which a datagram comes in, if the NAT lets it in.
    fn comes_in(&self, from: SocketAddr, to: SocketAddr) -> Option<PunchWay> {
        let passes =
            |(_, at, port): &&(Option<u16>, SocketAddr, u16)| *at == from && *port == to.port();
        self.mappings.iter().find(passes).map(|(socket, ..)| PunchWay { at: from, socket: *socket })
    }
}

/// One of the two has a symmetric NAT. Returns the milliseconds until each side had a way, and the datagrams of both.
fn search(symmetric: [bool; 2], seed: u8) -> ([Option<u64>; 2], usize) {
    let mut draws = Hasher::new().update(&[seed]).finalize_xof();
    let roles = [CodeRole::Taker, CodeRole::Offerer];
    let hosts = [[198, 51, 100, 1], [198, 51, 100, 2]];
    let mut homes: Vec<Home> =
        (0..2).map(|n| Home::new(roles[n], hosts[n], symmetric[n], seed + n as u8)).collect();
    let mut flying: VecDeque<(u64, SocketAddr, SocketAddr, [u8; PUNCH_LEN])> = VecDeque::new();
    for ms in 0..12_000_u64 {
        let now = Duration::from_millis(ms);
        // Nodes see each side at the address that it has towards them. The offerer learns of the taker a second later.
        for (n, begins) in [(0, 0), (1, 1_000)] {
            if ms >= begins && (ms - begins) % 1_000 == 0 {
                for k in 0..8 {
                    let way = PunchWay::from(node(k));
                    let listed = homes[1 - n].leaves(way, &mut draws);
                    homes[n].side.add(now, listed, node(k));
                }
                let symmetric = homes[n].symmetric;
                homes[n].side.set_symmetric(Some(symmetric));
            }
        }
        while flying.front().is_some_and(|(at, ..)| *at <= ms) {
            let (_, from, to, datagram) = flying.pop_front().unwrap();
            let home = homes.iter_mut().find(|home| to.ip() == IpAddr::from(home.host)).unwrap();
            if let Some(way) = home.comes_in(from, to) {
                assert!(home.side.handle_datagram(now, way, &datagram));
            }
        }
        for home in &mut homes {
            if home.side.poll_sockets(now).is_some() {
                home.side.search_from(now, 0..256);
            }
            while let Some((way, datagram)) = home.side.poll_transmit(now) {
                home.sent += 1;
                let from = home.leaves(way, &mut draws);
                flying.push_back((ms + 50, from, way.at, datagram));
            }
            while let Some(way) = home.side.poll_proven() {
                home.proven.push((way, ms));
            }
        }
    }
    let first = |home: &Home| home.proven.first().map(|(_, ms)| *ms);
    ([first(&homes[0]), first(&homes[1])], homes[0].sent + homes[1].sent)
}

#[test]
fn many_ports_open_one_symmetric_nat() {
    let mut open = 0;
    for seed in 0..60 {
        let (found, sent) = search([seed % 2 == 0, seed % 2 == 1], 3 * seed);
        assert!(sent <= search::SEARCH_PORTS + 2 * search::SEARCH_SOCKETS + 40, "{sent}");
        if let [Some(taker), Some(offerer)] = found {
            assert!(taker < 6_000 && offerer < 6_000, "{found:?}");
            open += 1;
        }
    }
    assert!(open >= 57, "{open} of 60");
}

#[test]
fn two_symmetric_nats_are_not_searched() {
    let (found, sent) = search([true, true], 1);
    assert_eq!(found, [None, None]);
    assert!(sent <= 2 * usize::from(MAX_PUNCHES), "{sent}");
    let (found, sent) = search([false, false], 1);
    assert!(found[0].is_some() && found[1].is_some() && sent < 20, "{found:?}, {sent}");
}

/// A host that many nodes of few networks list, under any ports, is not searched; one that three networks list is, once.
#[test]
fn a_host_is_searched_only_if_nodes_of_three_networks_list_it() {
    let victim = |port| SocketAddr::from(([203, 0, 113, 9], port));
    for symmetric in [false, true] {
        let mut side = side(CodeRole::Offerer, false).with_search();
        side.set_symmetric(Some(symmetric));
        for n in 0..200_u16 {
            let by = SocketAddr::from(([8, 8, (n % 2) as u8, (n / 2) as u8], 6_881));
            side.add(Duration::ZERO, victim(if symmetric { 7_348 } else { 2_000 + n }), by);
        }
        assert!(sent(&mut side, 0, 600).len() <= usize::from(MAX_PUNCHES));
        assert_eq!(side.poll_sockets(Duration::from_secs(600)), None);
    }
    let mut side = side(CodeRole::Offerer, false).with_search();
    side.set_symmetric(Some(false));
    for round in 0..10 {
        for n in 0..30 {
            let host = SocketAddr::from(([203, 0, 113, round], 2_000 + u16::from(n)));
            side.add(Duration::from_secs(round.into()), host, node(n));
        }
    }
    let all = sent(&mut side, 10, 600);
    let most = MAX_LISTED * (PAUSES.len() + 1) + search::SEARCH_PORTS;
    assert!(all.len() > search::SEARCH_PORTS && all.len() <= most, "{}", all.len());
}

/// One node lists hosts without end; the peer's host is searched all the same.
#[test]
fn hosts_that_one_node_lists_do_not_keep_the_peer_from_being_searched() {
    let mut side = side(CodeRole::Offerer, false).with_search();
    side.set_symmetric(Some(false));
    for round in 0..3 {
        let now = Duration::from_secs(round);
        for n in 0..200_u8 {
            side.add(now, SocketAddr::from(([203, 0, n, 9], 2_000)), node(99));
        }
        for n in 0..3_u16 {
            side.add(now, SocketAddr::from(([198, 51, 100, 1], 3_000 + n)), node(n as u8));
        }
    }
    let all = sent(&mut side, 10, 60);
    let searched = all.iter().filter(|(_, to)| to.ip() == IpAddr::from([198, 51, 100, 1]));
    assert!(searched.count() >= search::SEARCH_PORTS);
}

/// What the DHT lists after a way was found is no reason to ask a stranger's relay.
#[test]
fn addresses_listed_after_a_way_was_proven_count_for_nothing() {
    let (a, b) = (at("198.51.100.1:1000"), at("198.51.100.2:2000"));
    let (mut taker, mut offerer) = (side(CodeRole::Taker, false), side(CodeRole::Offerer, false));
    let now = Duration::ZERO;
    taker.add(now, b, node(1));
    assert_eq!(taker.unproven_since(), Some(now));
    let (_, first) = taker.poll_transmit(now).unwrap();
    assert!(offerer.handle_datagram(now, a, &first));
    let (_, answer) = offerer.poll_transmit(now).unwrap();
    assert!(taker.handle_datagram(now, b, &answer));
    assert_eq!(taker.unproven_since(), None);
    taker.add(now, at("203.0.113.9:1"), node(2));
    assert_eq!(taker.unproven_since(), None);
}
