//! Engines with a node of the DHT on loopback, which remembers each peer that announces itself.

use std::net::{SocketAddr, UdpSocket};

use xylem_dht::{AnnouncedPorts, DhtEvent, DhtId, LookupKind};
use xylem_mgmt::Persistency;
use xylem_peers::reachable::PeerAddress;
use xylem_reach::code::{CodePunching, CodeRole};
use xylem_reach::volunteer::{VolunteerChoice, VolunteerSearch};

use crate::testing::{engine, until};
use crate::{Engine, EngineEvent, Meeting};

/// A node that answers everything, and lists the one address that was announced last.
struct Node {
    socket: UdpSocket,
    listed: Option<SocketAddr>,
}

impl Node {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, listed: None }
    }

    fn at(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn turn(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            let query = &buffer[..len];
            let has = |what: &[u8]| query.windows(what.len()).any(|w| w == what);
            if has(b"13:announce_peer") {
                assert!(has(b"12:implied_porti1e"));
                self.listed = Some(from);
            }
            let place = query.windows(5).rposition(|w| w == b"1:t4:").unwrap() + 5;
            let mut answer = b"d1:rd2:id20:nodenodenodenodenode5:token2:ok".to_vec();
            if let Some(SocketAddr::V4(at)) = self.listed {
                answer.extend_from_slice(b"6:valuesl6:");
                answer.extend_from_slice(&at.ip().octets());
                answer.extend_from_slice(&at.port().to_be_bytes());
                answer.push(b'e');
            }
            answer.extend_from_slice(b"e1:t4:");
            answer.extend_from_slice(&query[place..place + 4]);
            answer.extend_from_slice(b"1:y1:re");
            let _ = self.socket.send_to(&answer, from);
        }
    }
}

fn own(engine: &Engine) -> SocketAddr {
    engine.link_addresses()[0]
}

/// The socket of links is the one that is announced, found and punched from, and links use it meanwhile.
#[test]
fn one_socket_speaks_to_the_dht_and_to_peers() {
    let (mut shows, mut takes, mut node) = (engine(1), engine(2), Node::new());
    let (a, b) = (own(&shows), own(&takes));
    let (hash, node_at) = (DhtId([7; 20]), node.at());
    for (engine, role, seed) in
        [(&mut shows, CodeRole::Offerer, 1), (&mut takes, CodeRole::Taker, 2)]
    {
        engine.enter_dht(Meeting::Code, vec![node.at()], [seed; 32]);
        engine.punch_for(Meeting::Code, vec![CodePunching::new(role, 7, true, &[seed; 32])]);
    }
    let now = shows.now();
    let kind = LookupKind::Announce(hash, AnnouncedPorts::IMPLIED);
    shows.dht(Meeting::Code).unwrap().lookup(now, kind).unwrap();
    let mut stored = false;
    until(
        &mut [&mut shows],
        || node.turn(),
        |engines, _| {
            while let Some(event) = engines[0].dht(Meeting::Code).unwrap().poll_event() {
                stored |= matches!(event, DhtEvent::Done(_, end) if end.stored == 1);
            }
            stored
        },
    );
    assert_eq!(node.listed, Some(a));
    // A link over the same socket, while the DHT is asked.
    let peer = PeerAddress::Link { address: a, key: Some(shows.link_key().0) };
    takes.dial(&peer, Persistency::Persistent).unwrap();
    let now = takes.now();
    takes.dht(Meeting::Code).unwrap().lookup(now, LookupKind::Peers(hash)).unwrap();
    let (mut found, mut proven, mut own_proof) = (false, None, None);
    until(
        &mut [&mut shows, &mut takes],
        || node.turn(),
        |engines, events| {
            while let Some(event) = engines[1].dht(Meeting::Code).unwrap().poll_event() {
                if let DhtEvent::Peers(_, peers) = event {
                    assert_eq!((peers.by, peers.new), (node_at, vec![a]));
                    found = true;
                    let now = engines[1].now();
                    engines[1].punching(Meeting::Code, 0).unwrap().add(now, a, node_at);
                }
            }
            proven = proven.or(engines[1].punching(Meeting::Code, 0).unwrap().poll_proven());
            let up = events.iter().any(|event| matches!(event, EngineEvent::FaceUp { .. }));
            // The offerer's last answer may arrive before it is proven itself.
            own_proof = own_proof.or(engines[0].punching(Meeting::Code, 0).unwrap().poll_proven());
            found && up && proven.is_some() && own_proof.is_some()
        },
    );
    assert_eq!((proven, own_proof), (Some(a.into()), Some(b.into())));
    shows.leave_dht(Meeting::Code);
    assert!(shows.dht(Meeting::Code).is_none() && shows.punching(Meeting::Code, 0).is_none());
}

/// An answer with a wrong source is no answer, and reaches the link, which ignores it.
#[test]
fn an_unasked_answer_changes_nothing() {
    let (mut asks, mut node) = (engine(3), Node::new());
    let liar = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = own(&asks);
    asks.enter_dht(Meeting::Code, vec![node.at()], [3; 32]);
    let now = asks.now();
    asks.dht(Meeting::Code).unwrap().lookup(now, LookupKind::Peers(DhtId([1; 20]))).unwrap();
    for n in 0..100_u8 {
        let forged =
            [b"d1:rd2:id20:liarliarliarliarliar6:valuesl6:".as_slice(), &[9; 6], b"ee1:t4:"];
        let forged = [forged.concat(), vec![n; 4], b"1:y1:re".to_vec()].concat();
        liar.send_to(&forged, to).unwrap();
    }
    let mut end = None;
    until(
        &mut [&mut asks],
        || node.turn(),
        |engines, _| {
            while let Some(event) = engines[0].dht(Meeting::Code).unwrap().poll_event() {
                match event {
                    DhtEvent::Peers(_, peers) => panic!("{peers:?}"),
                    DhtEvent::Done(_, done) => end = Some(done),
                    _ => {}
                }
            }
            end.is_some()
        },
    );
    assert_eq!(end.unwrap().answered, 1);
}

/// A volunteer answers on the socket of its links, which is the one that the DHT lists, and to queries alone.
#[test]
fn a_volunteer_is_asked_and_answers_over_the_sockets_of_links() {
    let (mut relay, mut asks, other) = (engine(4), engine(5), engine(6));
    relay.answer_as_volunteer(&[4; 32]);
    let (at, key) = (own(&relay), relay.link_key().0);
    let mut search = VolunteerSearch::new(&VolunteerChoice::of_code(7), true, &[5; 32]);
    search.add(asks.now(), at);
    // This one is no volunteer.
    search.add(asks.now(), own(&other));
    asks.search_volunteers(Meeting::Code, search);
    let peer = PeerAddress::Link { address: at, key: Some(key) };
    asks.dial(&peer, Persistency::Persistent).unwrap();
    let (mut chosen, mut is_up) = (Vec::new(), false);
    until(
        &mut [&mut relay, &mut asks],
        || {},
        |engines, events| {
            let now = engines[1].now();
            let search = engines[1].volunteer_search(Meeting::Code).unwrap();
            chosen = search.chosen(now).unwrap_or_default();
            is_up |= events.iter().any(|event| matches!(event, EngineEvent::FaceUp { .. }));
            is_up && !chosen.is_empty()
        },
    );
    assert_eq!((chosen.len(), chosen[0].key, &chosen[0].at[..]), (1, key, &[at][..]));
    // A relay that drains answers no more.
    relay.drain_relay();
    let mut search = VolunteerSearch::new(&VolunteerChoice::of_code(7), true, &[6; 32]);
    search.add(asks.now(), at);
    asks.search_volunteers(Meeting::Code, search);
    let began = asks.now();
    until(
        &mut [&mut relay, &mut asks],
        || {},
        |engines, _| engines[1].now() > began + std::time::Duration::from_millis(500),
    );
    let now = asks.now() + std::time::Duration::from_secs(60);
    let search = asks.volunteer_search(Meeting::Code).unwrap();
    assert!(search.chosen(now).unwrap_or_default().is_empty());
    asks.leave_dht(Meeting::Code);
    assert!(asks.volunteer_search(Meeting::Code).is_none());
}
