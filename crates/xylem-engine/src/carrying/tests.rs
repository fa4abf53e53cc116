//! Links that leave the connection that they began in.

use xylem_link::ProbePace;
use xylem_mgmt::{Carrier, Persistency};
use xylem_peers::reachable::PeerAddress;
use xylem_reach::relay::RelayConfig;

use super::*;
use crate::EngineEvent;
use crate::testing::{engine, until};

/// The end of a connection ends the link that runs over it, but not a link that has moved to a better way.
#[test]
fn a_link_that_has_moved_outlives_its_connection() {
    let (mut a, mut b) = (engine(1), engine(2));
    let at = a.bind_carrier(Carrier::WebSocket, "127.0.0.1:0".parse().unwrap()).unwrap();
    let key = Some(a.link_key().0);
    let peer = PeerAddress::Carried { carrier: Carrier::WebSocket, address: at, name: None, key };
    b.dial(&peer, Persistency::Persistent).unwrap();
    until(
        &mut [&mut a, &mut b],
        || {},
        |_, events| {
            events.iter().filter(|event| matches!(event, EngineEvent::FaceUp { .. })).count() == 2
        },
    );
    // Each probes the other's address, as both do after a relay.
    let (ours, theirs) = (link_of(&b), link_of(&a));
    let over = b.net.endpoint.link(ours).expect("it is up").remote();
    let id = b.net.carriers.of_address(over).expect("it goes over a connection");
    let (at_a, at_b) = (a.link_addresses()[0], b.link_addresses()[0]);
    let now = [a.now(), b.now()];
    a.net.endpoint.probe(now[0], theirs, &[at_b], ProbePace::Each);
    b.net.endpoint.probe(now[1], ours, &[at_a], ProbePace::Each);
    let moved = |event: &EngineEvent| matches!(event, EngineEvent::Moved { .. });
    until(
        &mut [&mut a, &mut b],
        || {},
        |_, events| events.iter().filter(|event| moved(event)).count() == 2,
    );
    b.end_carrier(id, "the connection is gone");
    until(
        &mut [&mut a, &mut b],
        || {},
        |engines, events| {
            assert!(!events.iter().any(|event| matches!(event, EngineEvent::FaceDown { .. })));
            engines.iter().all(|engine| engine.net.carriers.count() == 0)
        },
    );
    assert_eq!((link_of(&b), link_of(&a)), (ours, theirs));
    assert_eq!(b.net.endpoint.link(ours).map(|up| up.remote()), Some(at_a));
}

/// Their memory would grow with all that is received over connections until a datagram comes over UDP.
#[test]
fn a_relay_keeps_no_memory_of_datagrams_over_connections() {
    let (mut a, mut b) = (engine(1), engine(2));
    a.relay(RelayConfig::default()).unwrap();
    let at = a.bind_carrier(Carrier::WebSocket, "127.0.0.1:0".parse().unwrap()).unwrap();
    let key = Some(a.link_key().0);
    let peer = PeerAddress::Carried { carrier: Carrier::WebSocket, address: at, name: None, key };
    b.dial(&peer, Persistency::Persistent).unwrap();
    until(
        &mut [&mut a, &mut b],
        || {},
        |engines, events| {
            assert_eq!(engines[0].net.link_sockets.opened(), 0);
            events.iter().filter(|event| matches!(event, EngineEvent::FaceUp { .. })).count() == 2
        },
    );
}

/// The link of the only face that has one.
fn link_of(engine: &Engine) -> LinkId {
    let link = |(_, face): (FaceId, &EngineFace)| match face.transport {
        Transport::Link(link) => Some(link),
        _ => None,
    };
    engine.faces().find_map(link).expect("a link")
}
