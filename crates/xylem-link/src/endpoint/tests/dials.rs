//! Dials by a knock that several peers know and answer.

use super::*;

const KNOCK: [u8; 32] = [7; 32];

/// An endpoint that answers the knock.
fn answerer(n: u8) -> Endpoint {
    let mut endpoint = endpoint(n);
    assert!(endpoint.answer_knock(&KNOCK));
    endpoint
}

/// Carries a dial's first datagrams to one answering endpoint, and its answer back; returns what the dialer reports.
fn answer(a: &mut Endpoint, first: &[Vec<u8>], n: u8) -> Option<(LinkId, PeerKey, Option<LinkId>)> {
    let mut other = answerer(n);
    feed(&mut other, 1, first);
    let out = drain(&mut other);
    feed(a, n, &out);
    match a.poll_event()? {
        LinkEvent::Connected { link, peer, dial, .. } => Some((link, peer, dial)),
        event => panic!("{event:?}"),
    }
}

fn key_of(n: u8) -> PeerKey {
    StaticKey::generate([n; 32]).public()
}

#[test]
fn others_may_answer_until_the_program_keeps_one() {
    let mut a = endpoint(1);
    let dial = a.connect_by_knock(ZERO, at(2), &KNOCK);
    let first = drain(&mut a);
    assert_eq!(answer(&mut a, &first, 3), Some((dial, key_of(3), Some(dial))));
    let (second, peer, of) = answer(&mut a, &first, 4).unwrap();
    assert!(second != dial && (peer, of) == (key_of(4), Some(dial)));
    assert_eq!(answer(&mut a, &first, 4), None, "each key once");
    let (third, ..) = answer(&mut a, &first, 5).unwrap();
    let (fourth, ..) = answer(&mut a, &first, 6).unwrap();
    assert_eq!(answer(&mut a, &first, 8), None, "four at a time");
    a.close(dial);
    assert!(matches!(a.poll_event(), Some(LinkEvent::Closed { .. })));
    let (fifth, ..) = answer(&mut a, &first, 8).unwrap();
    a.keep(second);
    [third, fourth, fifth].into_iter().for_each(|link| a.close(link));
    while a.poll_event().is_some() {}
    assert_eq!(answer(&mut a, &first, 9), None, "kept: nobody else is taken");
    assert_eq!(a.link(second).map(Link::peer), Some(key_of(4)));
}

/// While a dial has an answer it sends nothing; when the program has closed that answer, the dial asks again; when its
/// time is over nothing is left of it.
#[test]
fn a_dial_whose_answers_are_all_closed_asks_again() {
    let mut a = endpoint(1);
    let envelope = EnvelopeKey::of_knock(&KNOCK);
    let dial = a.connect_by_knock(ZERO, at(2), &KNOCK);
    let first = drain(&mut a);
    answer(&mut a, &first, 3).unwrap();
    let asks = |a: &mut Endpoint, ms: u64| {
        let now = Duration::from_millis(ms);
        let (mut buf, mut asks) = (Vec::new(), 0);
        a.handle_timeout(now);
        while a.poll_transmit(now, &mut buf).is_some() {
            let body = envelope.open(&buf);
            let body = body.as_deref().and_then(HandshakeMessage::parse);
            asks += usize::from(matches!(body, Some(HandshakeMessage::Initial { .. })));
        }
        asks
    };
    assert_eq!(asks(&mut a, 1_000), 0);
    a.close(dial);
    assert_eq!((asks(&mut a, 1_001), asks(&mut a, 1_300)), (1, 1));
    while a.poll_event().is_some() {}
    assert!(answer(&mut a, &first, 4).is_some());
    assert_eq!(asks(&mut a, 9_999), 0);
    assert_eq!(asks(&mut a, 10_001), 0);
    while a.poll_event().is_some() {}
    assert_eq!(answer(&mut a, &first, 5), None, "its time is over");
    assert!(!a.links.values().any(|entry| matches!(entry.state, LinkState::Dialing(_))));
}
