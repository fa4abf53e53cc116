//! Two sides and a victim, under virtual time.

use super::*;

const NUMBER: u32 = 48_213;

fn side(role: CodeRole, near: bool) -> CodePunching {
    CodePunching::new(role, NUMBER, near, &[role_byte(role) + 1; 32])
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
            all.push((now, to));
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
    taker.add(Duration::ZERO, b);
    let mut flying: Vec<(Duration, SocketAddr, SocketAddr, [u8; PUNCH_LEN])> = Vec::new();
    for ms in 0..20_000_u64 {
        let now = Duration::from_millis(ms);
        if ms == 9_000 {
            offerer.add(now, a);
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
                holes.push((own, to));
                flying.push((now + Duration::from_millis(50), own, to, datagram));
            }
            while let Some(peer) = side.poll_proven() {
                proven.push((own, peer, ms));
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
    taker.add(now, b);
    let (_, first) = taker.poll_transmit(now).unwrap();
    assert!(offerer.handle_datagram(now, a, &first));
    assert_eq!(offerer.poll_proven(), None, "its source may be forged");
    let (to, answer) = offerer.poll_transmit(now).unwrap();
    assert_eq!(to, a);
    assert!(taker.handle_datagram(now, b, &answer));
    assert_eq!(taker.poll_proven(), Some(b));
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
    taker.add(Duration::ZERO, victim);
    let mut forger = side(CodeRole::Offerer, false);
    // The liar knows the number, and has what was sent to its own address.
    taker.add(Duration::ZERO, liar);
    while let Some((to, datagram)) = taker.poll_transmit(Duration::ZERO) {
        if to == liar {
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
    for role in [CodeRole::Taker, CodeRole::Offerer] {
        let mut side = side(role, false);
        let other = if role == CodeRole::Taker { CodeRole::Offerer } else { CodeRole::Taker };
        let mut forger = self::side(other, false);
        let mut all = Vec::new();
        for round in 0..60 {
            let now = Duration::from_secs(10 * round);
            for n in 0..1_000_u16 {
                side.add(now, at("203.0.113.9:7348"));
                side.add(now, SocketAddr::from(([203, 0, 113, 9], 1_024 + n)));
            }
            for n in 0..100_u16 {
                let forged = SocketAddr::from(([203, 0, 113, 9], 9_000 + n));
                forger.add(now, forged);
                while let Some((to, datagram)) = forger.poll_transmit(now) {
                    side.handle_datagram(now, to, &datagram);
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
        side.add(Duration::ZERO, SocketAddr::from(([198, 51, n, 1], 7_348)));
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
        let datagram = seal(&forger.key, CodeRole::Taker, [0; 8], (forger.token(from), [0; 8]));
        assert!(offerer.handle_datagram(now, from, &datagram));
        while offerer.poll_transmit(now).is_some() {
            answers += 1;
        }
    }
    assert!(offerer.peers.len() <= MAX_OTHERS && offerer.hosts.len() <= MAX_OTHERS);
    assert!(answers <= MAX_OTHERS, "{answers}");
    forger.add(Duration::ZERO, at("127.0.0.1:1"));
}

/// A node of the DHT lists addresses that have sent something valid before.
#[test]
fn forged_sources_that_are_listed_are_bounded() {
    let mut offerer = side(CodeRole::Offerer, false);
    let forger = side(CodeRole::Taker, true);
    for n in 0..1_000_u32 {
        let now = Duration::from_millis(u64::from(n));
        let from = SocketAddr::from(((0x0800_0000 + n).to_be_bytes(), 9));
        let datagram = seal(&forger.key, CodeRole::Taker, [0; 8], (forger.token(from), [0; 8]));
        assert!(offerer.handle_datagram(now, from, &datagram));
        offerer.add(now, from);
    }
    assert_eq!(offerer.listed(), MAX_LISTED);
    assert!(offerer.peers.len() <= MAX_LISTED + MAX_OTHERS, "{}", offerer.peers.len());
}

#[test]
fn hosts_of_a_near_network_are_addresses_with_ports() {
    let mut side = side(CodeRole::Offerer, true);
    for port in [1, 2, 3] {
        side.add(Duration::ZERO, SocketAddr::from(([127, 0, 0, 1], port)));
    }
    assert_eq!(sent(&mut side, 0, 60).len(), 3 * (PAUSES.len() + 1));
}
