//! Peers that lie about addresses.

use super::*;
use crate::cookie::address;
use crate::frame::{Candidates, MAX_CANDIDATES, SYMMETRIC};
use crate::{NatMapping, PathKind, ProbePace};

const RELAYED: [u8; 6] = [0xfd, 1, 1, 1, 1, 1];

fn host(n: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], port))
}

fn relayed() -> SocketAddr {
    "[fd01:101:101::1]:1".parse().unwrap()
}

/// Seals any frame as the peer.
fn sealed(from: &mut Endpoint, link: LinkId, frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.write(&mut out);
    up(from, link).seal_frames(&out)
}

fn candidates(number: u32, flags: u8, at: &[SocketAddr]) -> Vec<u8> {
    let addresses: Vec<_> = at.iter().map(|at| address(*at)).collect();
    let mut out = Vec::new();
    Frame::Candidates(Candidates::new(number, flags, &addresses).unwrap()).write(&mut out);
    out
}

/// The peer names a third party's ports, others every time, and the program probes every one. A few small datagrams go
/// there, and to many hosts together no more than the bound.
#[test]
fn a_named_victim_receives_few_small_datagrams() {
    for hosts in [1, 200] {
        let (mut a, mut b, [ours, theirs], _) = connected();
        let (mut sent, mut buf) = (vec![], Vec::new());
        for n in 0..2_000u16 {
            let now = Duration::from_millis(10) * u32::from(n);
            let port = |i: u8| host((n % hosts) as u8, 1_000 + n + u16::from(i));
            let named: Vec<_> = (0..MAX_CANDIDATES as u8).map(port).collect();
            let list = candidates(u32::from(n) + 1, SYMMETRIC, &named);
            let datagram = up(&mut b, theirs).seal_frames(&list);
            a.handle_datagram(now, at(2), BytesMut::from(&datagram[..]));
            a.handle_timeout(now);
            while let Some(event) = a.poll_event() {
                if let LinkEvent::Candidates { link, addresses, .. } = event {
                    a.probe(now, link, &addresses, ProbePace::Each);
                    a.probe(now, link, &addresses, ProbePace::Search);
                }
            }
            while let Some(t) = a.poll_transmit(now, &mut buf) {
                if t.to != at(2) {
                    sent.push(t.len);
                }
            }
            assert!(a.link(ours).is_some());
        }
        let most = if hosts == 1 { 24 } else { 128 };
        assert_eq!(sent.len(), most, "in 20 s");
        assert!(sent.iter().all(|len| *len <= 100), "{sent:?}");
    }
}

#[test]
fn a_flood_of_candidates_is_rate_limited() {
    let (mut a, mut b, [_, theirs], _) = connected();
    let mut events = 0;
    for n in 0..10_000u32 {
        let now = Duration::from_millis(1) * n;
        let list = candidates(n + 1, 0, &[host(1, n as u16 | 1)]);
        let observed = address(host(2, n as u16));
        for datagram in [
            up(&mut b, theirs).seal_frames(&list),
            sealed(&mut b, theirs, &Frame::Observed(&observed)),
        ] {
            a.handle_datagram(now, at(2), BytesMut::from(&datagram[..]));
        }
        events += core::iter::from_fn(|| a.poll_event()).count();
    }
    assert!((40..100).contains(&events), "{events} in 10 s");
}

#[test]
fn synthetic_addresses_are_neither_announced_nor_accepted() {
    let (mut a, mut b, links, _) = connected();
    for end in [&mut a, &mut b] {
        assert!(end.add_synthetic_prefix(RELAYED, PathKind::Relayed));
        while end.poll_event().is_some() {}
    }
    a.announce_candidates(links[0], &[relayed(), host(1, 1), host(1, 0)], NatMapping::Symmetric);
    let told = drain(&mut a);
    feed(&mut b, 1, &told);
    let (link, mapping) = (links[1], NatMapping::Symmetric);
    let addresses = vec![host(1, 1)];
    let event = LinkEvent::Candidates { link, addresses, mapping };
    assert_eq!(next_event(&mut b), Some(event));
    let list = candidates(1, 0, &[relayed(), host(2, 2)]);
    let datagram = up(&mut b, links[1]).seal_frames(&list);
    feed(&mut a, 2, &[datagram]);
    let (link, mapping) = (links[0], NatMapping::Stable);
    let event = LinkEvent::Candidates { link, addresses: vec![host(2, 2)], mapping };
    assert_eq!(next_event(&mut a), Some(event));
    // An observed address is ignored if the peer comes by one of our synthetic ways.
    let mut link_of_a = |frame: &[u8]| {
        let datagram = up(&mut b, links[1]).seal_frames(frame);
        a.handle_datagram(ZERO, relayed(), BytesMut::from(&datagram[..]));
    };
    link_of_a(&[0]);
    up(&mut a, links[0]).seal_frames(&[0]);
    assert!(!drain(&mut a).is_empty());
}

/// A search over many ports runs only if exactly one side has announced a symmetric NAT, and only at hosts that the
/// peer has named.
#[test]
fn a_search_needs_exactly_one_symmetric_nat() {
    let ports = |n: u8| (1..=2_000).map(|port| host(n, port)).collect::<Vec<_>>();
    for (ours, theirs, searched) in [
        (None, Some(SYMMETRIC), 0),
        (Some(NatMapping::Stable), None, 0),
        (Some(NatMapping::Stable), Some(0), 0),
        (Some(NatMapping::Symmetric), Some(SYMMETRIC), 0),
        (Some(NatMapping::Stable), Some(SYMMETRIC), 1_024),
        // Our NAT is symmetric: our own sockets are searched, and not the ports of others.
        (Some(NatMapping::Symmetric), Some(0), 0),
    ] {
        let (mut a, mut b, links, _) = connected();
        if let Some(mapping) = ours {
            a.announce_candidates(links[0], &[host(1, 1)], mapping);
        }
        if let Some(flags) = theirs {
            let list = candidates(1, flags, &[host(2, 2)]);
            let datagram = up(&mut b, links[1]).seal_frames(&list);
            feed(&mut a, 2, &[datagram]);
        }
        assert_eq!(a.probe(ZERO, links[0], &ports(3), ProbePace::Search), 0, "not named");
        assert_eq!(a.probe(ZERO, links[0], &ports(2), ProbePace::Search), searched);
        assert_eq!(a.probe(ZERO, links[0], &ports(2), ProbePace::Search), 0, "once");
    }
}

/// A list is repeated until it is acknowledged; a newer list replaces it.
#[test]
fn candidates_are_repeated_until_acknowledged() {
    let (mut a, mut b, links, _) = connected();
    while b.poll_event().is_some() {}
    a.announce_candidates(links[0], &[host(1, 1)], NatMapping::Stable);
    drain(&mut a);
    a.announce_candidates(links[0], &[host(1, 2)], NatMapping::Stable);
    let mut buf = Vec::new();
    let (mut now, mut times) = (ZERO, 0);
    while now < Duration::from_secs(5) {
        now += Duration::from_millis(10);
        a.handle_timeout(now);
        while a.poll_transmit(now, &mut buf).is_some() {
            times += 1;
            if times > 3 {
                b.handle_datagram(now, at(1), BytesMut::from(&buf[..]));
            }
        }
        while b.poll_transmit(now, &mut buf).is_some() {
            a.handle_datagram(now, at(2), BytesMut::from(&buf[..]));
        }
    }
    let (link, mapping, addresses) = (links[1], NatMapping::Stable, vec![host(1, 2)]);
    let event = LinkEvent::Candidates { link, addresses, mapping };
    assert_eq!(next_event(&mut b), Some(event));
    assert_eq!(next_event(&mut b), None);
    assert!((4..10).contains(&times), "{times}: it was known after the fourth");
}
