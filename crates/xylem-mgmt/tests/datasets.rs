//! Datasets as a client fetches them, and the stream of face events.

mod common;

use common::{NOW_MS, Node, about, name};
use core::time::Duration;
use xylem_mgmt::client::{Dataset, DatasetError};
use xylem_mgmt::{
    ChannelStatus, CommandScope, ControlParameters, CsStatus, FaceEvent, FaceQueryFilter,
    FaceStatus, FibEntry, GeneralStatus, ManagementConfig, RibEntry, StrategyChoice, read_entries,
    types,
};
use xylem_packet::{Component, Data, InterestBuilder, Name};
use xylem_trust::{CommandStamp, Signer, Verifier};

fn node() -> Node {
    Node::new(ManagementConfig::default())
}

fn faces(node: &mut Node, filter: FaceQueryFilter) -> Vec<u64> {
    let content = node.dataset(Dataset::faces(CommandScope::Localhost, &filter));
    read_entries::<FaceStatus>(&content).unwrap().iter().map(|face| face.face_id).collect()
}

#[test]
fn every_dataset_is_read_back() {
    let mut node = node();
    let route = ControlParameters { cost: Some(3), expiration_ms: Some(60_000), ..about("/a/b") };
    node.command("rib", "register", &route);
    let multicast = name("/localhost/nfd/strategy/multicast/v=5");
    let choice = ControlParameters { strategy: Some(multicast.clone()), ..about("/m") };
    node.command("strategy-choice", "set", &choice);
    let (own, app, neighbour) = (node.own.0, node.app.0, node.neighbour.0);

    let content = node.dataset(Dataset::new(CommandScope::Localhost, "status", "general"));
    let status = GeneralStatus::from_value(&content).unwrap();
    assert!(status.version.starts_with("xylem "));
    assert_eq!((status.start_ms, status.current_ms), (NOW_MS - 5000, NOW_MS));
    assert_eq!(status.fib_entries, 2);
    assert!(status.in_interests >= 3 && status.out_data >= 2);

    let content = node.dataset(Dataset::new(CommandScope::Localhost, "faces", "list"));
    let list = read_entries::<FaceStatus>(&content).unwrap();
    assert_eq!(list.iter().map(|face| face.face_id).collect::<Vec<_>>(), [own, app, neighbour]);
    assert_eq!(list[1].uri, "unix:///run/app.sock");
    assert_eq!((list[1].scope, list[2].scope, list[1].persistency), (1, 0, 1));
    assert!(list[1].in_interests >= 4);

    let content = node.dataset(Dataset::new(CommandScope::Localhost, "fib", "list"));
    let fib = read_entries::<FibEntry>(&content).unwrap();
    let entry = fib.iter().find(|entry| entry.name == name("/a/b")).unwrap();
    assert_eq!((entry.next_hops[0].face_id, entry.next_hops[0].cost), (app, 3));
    assert!(fib.iter().any(|entry| entry.name == name("/localhost/nfd")));

    node.now = Duration::from_secs(20);
    let content = node.dataset(Dataset::new(CommandScope::Localhost, "rib", "list"));
    let rib = read_entries::<RibEntry>(&content).unwrap();
    assert_eq!((rib.len(), &rib[0].name), (1, &name("/a/b")));
    assert_eq!((rib[0].routes[0].face_id, rib[0].routes[0].expiration_ms), (app, Some(40_000)));

    let content = node.dataset(Dataset::new(CommandScope::Localhost, "cs", "info"));
    let cs = read_entries::<CsStatus>(&content).unwrap();
    assert_eq!((cs.len(), cs[0].flags), (1, types::CS_ADMIT | types::CS_SERVE));

    let content = node.dataset(Dataset::new(CommandScope::Localhost, "strategy-choice", "list"));
    let choices = read_entries::<StrategyChoice>(&content).unwrap();
    assert_eq!(choices.len(), 2);
    assert!(choices.contains(&StrategyChoice { name: name("/m"), strategy: multicast }));

    let content = node.dataset(Dataset::new(CommandScope::Localhost, "faces", "channels"));
    let channels = read_entries::<ChannelStatus>(&content).unwrap();
    assert_eq!(channels[0].local_uri, "tcp4://0.0.0.0:6363");
}

#[test]
fn faces_are_queried_by_every_field() {
    let mut node = node();
    let (own, app, neighbour) = (node.own.0, node.app.0, node.neighbour.0);
    let none = FaceQueryFilter::default;
    assert_eq!(faces(&mut node, none()), [own, app, neighbour]);
    for (filter, expected) in [
        (FaceQueryFilter { face_id: Some(app), ..none() }, vec![app]),
        (FaceQueryFilter { uri_scheme: Some("udp4".into()), ..none() }, vec![neighbour]),
        (FaceQueryFilter { uri: Some("udp://192.0.2.1".into()), ..none() }, vec![neighbour]),
        (FaceQueryFilter { local_uri: Some("unix:///run/app.sock".into()), ..none() }, vec![app]),
        (FaceQueryFilter { scope: Some(1), ..none() }, vec![own, app]),
        (FaceQueryFilter { persistency: Some(0), ..none() }, vec![]),
        (FaceQueryFilter { link_type: Some(0), scope: Some(0), ..none() }, vec![neighbour]),
    ] {
        assert_eq!(faces(&mut node, filter.clone()), expected, "{filter:?}");
    }
}

#[test]
fn long_datasets_are_segmented() {
    let mut node = node();
    for i in 0..2000u32 {
        let prefix = name("/prefix").child(Component::sequence(u64::from(i)));
        node.program.forwarder.add_route(prefix.as_ref(), node.neighbour, i).unwrap();
    }
    let content = node.dataset(Dataset::new(CommandScope::Localhost, "fib", "list"));
    assert!(content.len() > 20_000);
    assert_eq!(read_entries::<FibEntry>(&content).unwrap().len(), 2001);
}

/// Without a content store, segments of a discovered version are still available.
#[test]
fn versions_outlive_the_interest_that_made_them() {
    let mut node = node();
    let off = ControlParameters { capacity: Some(0), ..ControlParameters::default() };
    node.command("cs", "config", &off);
    let mut dataset = Dataset::new(CommandScope::Localhost, "faces", "list");
    let first = node.send(node.app, &dataset.interest([1; 4]).unwrap()).remove(0);
    let data = Data::decode(&first).unwrap();
    assert_eq!(Verifier::digest_sha256().data(&data), Ok(()));
    assert_eq!(data.meta().final_block_id, Some(Component::segment(0)));
    assert!(data.meta().freshness_ms > 0);
    assert!(dataset.data(&data).unwrap().is_some());
    let ask = |node: &mut Node, uri: &Name, nonce: u8, prefix: bool| {
        let mut wire = Vec::new();
        InterestBuilder::new(uri.as_ref())
            .nonce([nonce; 4])
            .can_be_prefix(prefix)
            .encode(&mut wire)
            .unwrap();
        node.send(node.app, &wire)
    };
    // NDNd asks for segment 0 again, by its full name; others for the version.
    let full = data.name().to_name();
    assert_eq!(ask(&mut node, &full, 2, false), std::slice::from_ref(&first));
    let version = data.name().parent().to_name();
    assert_eq!(ask(&mut node, &version, 3, true), [first]);
    assert!(ask(&mut node, &version.child(Component::segment(1)), 4, false).is_empty());
    node.now = Duration::from_secs(60);
    assert!(ask(&mut node, &full, 5, false).is_empty());
}

/// pynfdc signs its queries: the answer's name begins with the Interest's, digest and all.
#[test]
fn signed_queries_are_answered() {
    let mut node = node();
    let dataset = name("/localhost/nfd/status/general");
    let mut wire = Vec::new();
    let builder = InterestBuilder::new(dataset.as_ref())
        .nonce([1; 4])
        .can_be_prefix(true)
        .must_be_fresh(true);
    let stamp = CommandStamp::new([1; 8], NOW_MS);
    Signer::digest_sha256().interest(builder, &[], stamp, &mut wire).unwrap();
    let answers = node.send(node.app, &wire);
    let data = Data::decode(&answers[0]).unwrap();
    assert_eq!(data.name().len(), dataset.len() + 3);
    GeneralStatus::from_value(data.content()).unwrap();
}

#[test]
fn answers_of_other_names_are_no_part_of_a_dataset() {
    let mut dataset = Dataset::new(CommandScope::Localhost, "rib", "list");
    let signer = Signer::digest_sha256();
    let mut read = |uri: &str| {
        let mut wire = Vec::new();
        let name = name(uri);
        signer.data(xylem_packet::DataBuilder::new(name.as_ref()), b"", &mut wire).unwrap();
        dataset.data(&Data::decode(&wire).unwrap())
    };
    for wrong in [
        "/localhost/nfd/rib/list",
        "/localhost/nfd/rib/list/v=1",
        "/localhost/nfd/rib/list/seg=0",
        "/localhost/nfd/fib/list/v=1/seg=0",
        "/localhost/nfd/rib/list/x/v=1/seg=0",
    ] {
        assert_eq!(read(wrong), Err(DatasetError::Name), "{wrong}");
    }
    // A later segment gives the version; the first segment is requested next.
    assert_eq!(read("/localhost/nfd/rib/list/v=1/seg=4"), Ok(None));
    assert_eq!(read("/localhost/nfd/rib/list/v=2/seg=0"), Err(DatasetError::Name));
    assert_eq!(read("/localhost/nfd/rib/list/v=1/seg=0"), Ok(Some(vec![])));
}

#[test]
fn face_events_reach_waiting_and_late_subscribers() {
    let mut node = node();
    let subscribe = |node: &mut Node, uri: &str, nonce: u8| {
        let mut wire = Vec::new();
        InterestBuilder::new(name(uri).as_ref())
            .nonce([nonce; 4])
            .can_be_prefix(true)
            .must_be_fresh(true)
            .lifetime_ms(60_000)
            .encode(&mut wire)
            .unwrap();
        node.send(node.app, &wire)
    };
    // No event so far: the Interest waits in the PIT.
    assert!(subscribe(&mut node, "/localhost/nfd/faces/events", 1).is_empty());
    let face = node.program.open("tcp4://192.0.2.9:6363", xylem_forward::FaceScope::NonLocal);
    let mut out = Vec::new();
    node.management.face_up(node.now, face, &node.program, &mut out);
    node.management.face_up(node.now, face, &node.program, &mut out);
    assert_eq!(out.len(), 1, "once for each face");
    let delivered = node.give_back(&out);
    assert_eq!(delivered[0].0, node.app);
    let data = Data::decode(&delivered[0].1).unwrap();
    assert_eq!(data.name(), name("/localhost/nfd/faces/events/seq=0").as_ref());
    let event = FaceEvent::decode(data.content()).unwrap();
    assert_eq!((event.kind, event.face_id), (FaceEvent::CREATED, face.0));
    assert_eq!(event.uri, "tcp4://192.0.2.9:6363");

    node.now = Duration::from_secs(5);
    let destroy = ControlParameters { face_id: Some(face.0), ..Default::default() };
    assert_eq!(node.command("faces", "destroy", &destroy).code, 200);
    let late = subscribe(&mut node, "/localhost/nfd/faces/events/seq=1", 2);
    let event = FaceEvent::decode(Data::decode(&late[0]).unwrap().content()).unwrap();
    assert_eq!((event.kind, event.face_id), (FaceEvent::DESTROYED, face.0));
    assert_eq!(event.uri, "tcp4://192.0.2.9:6363", "what has gone is still described");
    // A repeated report causes no second event.
    let mut out = Vec::new();
    node.management.face_gone(node.now, face, &mut node.program, &mut out);
    assert!(out.is_empty());
    // The newest is fresh for a second.
    node.now = Duration::from_secs(7);
    assert!(subscribe(&mut node, "/localhost/nfd/faces/events", 3).is_empty());
}
