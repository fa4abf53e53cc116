//! Tests of a fetch's private parts.

use super::*;
use xylem_object::{PublicationKind, PublisherKey};
use xylem_packet::{Component, DataBuilder};
use xylem_trust::Signer;

fn fetch() -> Fetch {
    let ticket = Ticket {
        publisher: PublisherKey::from_bytes(&[1; 32]).public(),
        root: xylem_hash::hash(b"x"),
        name: Some(Name::from_uri("/a/v=1").unwrap()),
        link_key: None,
        size: Some(1),
        kind: Some(PublicationKind::File),
        addresses: vec!["127.0.0.1:1".parse().unwrap()],
        relays: Vec::new(),
    };
    let give_up = Duration::from_secs(1);
    Fetch::new(&ticket, &[], give_up, None, &LinkOptions::default(), false).unwrap()
}

/// Queues along the path set the congestion mark of a packet. The mark changes nothing else about it.
#[test]
fn a_congestion_mark_does_not_hide_a_pointer() {
    let mut fetch = fetch();
    let object = Name::from_uri("/a").unwrap();
    fetch.watch(object.clone());
    let name = [Component::keyword(b"metadata"), Component::version(1), Component::segment(0)]
        .into_iter()
        .fold(object, |name, component| name.child(component));
    let mut packet = Vec::new();
    Signer::digest_sha256().data(DataBuilder::new(name.as_ref()), b"", &mut packet).unwrap();
    let packet = Bytes::from(packet);
    for marked in [false, true] {
        let event =
            EngineEvent::Packet { from: FaceId(7), packet: packet.clone(), nack: None, marked };
        let Fetch { engine, work } = &mut fetch;
        work.handle(engine, event, &mut |_| {});
        assert_eq!(fetch.next_pointer(), Some(packet.clone()), "marked: {marked}");
    }
}
