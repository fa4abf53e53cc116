//! rib/announce: which announcements make routes, for how long, and the answers to the others.

mod common;

use core::time::Duration;

use common::{NOW_MS, Node, about, name};
use xylem_forward::FaceId;
use xylem_mgmt::{
    AnnouncementError, CommandScope, CommandTrust, ControlResponse, MAX_ANNOUNCEMENT,
    ManagementConfig, PrefixAnnouncement, client, types,
};
use xylem_packet::tlv;
use xylem_packet::{Component, ContentType, Data, DataBuilder, Interest};
use xylem_trust::{Certificate, Signer, TrustStore, ValidityPeriod, self_signed};

const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };

fn key(identity: &str, seed: u8) -> Signer {
    Signer::ed25519(&[seed; 32], name(&format!("{identity}/KEY/{seed}")))
}

fn anchors(signers: &[&Signer]) -> TrustStore {
    let mut store = TrustStore::new();
    for signer in signers {
        let wire = self_signed(signer, 1, ALWAYS).unwrap();
        store.add_anchor(&Certificate::decode(&wire).unwrap()).unwrap();
    }
    store
}

fn announcement(prefix: &str, signer: &Signer) -> Vec<u8> {
    PrefixAnnouncement::sign(name(prefix).as_ref(), 1, 60_000, None, signer).unwrap()
}

fn announce(
    node: &mut Node,
    from: FaceId,
    scope: CommandScope,
    signer: &Signer,
    wire: &[u8],
) -> Option<ControlResponse> {
    let stamp = node.stamp();
    let command =
        client::announce(scope, wire, signer, stamp, stamp.nonce[..4].try_into().unwrap());
    let command = command.unwrap();
    let answers = node.send(from, &command);
    let data = Data::decode(answers.first()?).unwrap();
    Some(client::response(&Interest::decode(&command).unwrap(), &data).unwrap())
}

#[test]
fn an_announcement_makes_a_route_that_ends_with_it() {
    let mut node = Node::new(ManagementConfig::default());
    let (app, alice) = (node.app, key("/alice", 1));
    let answer =
        announce(&mut node, app, CommandScope::Localhost, &alice, &announcement("/alice", &alice))
            .unwrap();
    assert_eq!((answer.code, answer.text.as_str()), (200, "OK"));
    let done = answer.parameters.unwrap();
    assert_eq!(done.name, Some(name("/alice")));
    assert_eq!((done.face_id, done.origin), (Some(app.0), Some(types::ORIGIN_PREFIXANN)));
    // NFD's numbers.
    assert_eq!((done.cost, done.flags), (Some(2048), Some(types::ROUTE_CHILD_INHERIT)));
    assert_eq!(done.expiration_ms, Some(60_000));
    assert_eq!(node.fib()["/alice"], [(app.0, 2048)].into());
    assert_eq!(node.program.forwarder.announcements(), 1);

    // Its time has passed.
    node.now = Duration::from_millis(60_001);
    let now = node.now;
    node.management.handle_timeout(now, &mut node.program, &mut Vec::new());
    assert!(!node.fib().contains_key("/alice"));
    assert_eq!(node.program.forwarder.announcements(), 0);

    // Its announcer unregisters it, like any route of this origin.
    announce(&mut node, app, CommandScope::Localhost, &alice, &announcement("/alice", &alice))
        .unwrap();
    let mut gone = about("/alice");
    gone.origin = Some(types::ORIGIN_PREFIXANN);
    assert_eq!(node.command("rib", "unregister", &gone).code, 200);
    assert!(!node.fib().contains_key("/alice"));
    assert_eq!(node.program.forwarder.announcements(), 0);
}

#[test]
fn the_end_of_its_validity_ends_the_route_as_well() {
    let mut node = Node::new(ManagementConfig::default());
    let (app, alice) = (node.app, key("/alice", 1));
    let lasts = |node: &mut Node, from: u64, to: u64| {
        let period = ValidityPeriod { not_before_ms: from, not_after_ms: to };
        let prefix = name("/alice");
        let wire =
            PrefixAnnouncement::sign(prefix.as_ref(), 1, 60_000, Some(period), &alice).unwrap();
        let answer = announce(node, app, CommandScope::Localhost, &alice, &wire).unwrap();
        (answer.code, answer.parameters.unwrap().expiration_ms)
    };
    assert_eq!(lasts(&mut node, 0, NOW_MS + 5000), (200, Some(6000)), "the last second is whole");
    assert_eq!(lasts(&mut node, 0, NOW_MS + 500_000), (200, Some(60_000)));
    let gone = about("/alice");
    let gone = xylem_mgmt::ControlParameters { origin: Some(types::ORIGIN_PREFIXANN), ..gone };
    node.command("rib", "unregister", &gone);
    assert_eq!(lasts(&mut node, 0, NOW_MS - 2000), (403, None));
    assert_eq!(lasts(&mut node, NOW_MS + 2000, NOW_MS + 9000), (403, None));
    assert!(!node.fib().contains_key("/alice"));
}

#[test]
fn with_anchors_only_keys_for_a_prefix_announce_it() {
    let (alice, bob) = (key("/alice", 1), key("/bob", 2));
    let store = anchors(&[&alice, &bob]);
    let config = ManagementConfig { localhost: CommandTrust::Anchors(store), ..Default::default() };
    let mut node = Node::new(config);
    let app = node.app;
    let right = announcement("/alice/files", &alice);
    assert_eq!(
        announce(&mut node, app, CommandScope::Localhost, &bob, &right).unwrap().code,
        200,
        "he passes it on"
    );
    assert!(node.fib().contains_key("/alice/files"));

    let stranger = key("/eve", 3);
    let forged = key("/alice", 4);
    let mut damaged = announcement("/alice/x", &alice);
    *damaged.last_mut().unwrap() ^= 1;
    for (what, wire) in [
        ("somebody else's prefix", announcement("/alice/y", &bob)),
        ("above his own", announcement("/", &bob)),
        ("a key that nobody knows", announcement("/eve", &stranger)),
        ("another key of that name", announcement("/alice/y", &forged)),
        ("a digest", announcement("/alice/y", &Signer::digest_sha256())),
        ("a signature that is wrong", damaged),
    ] {
        let before = node.fib();
        let answer = announce(&mut node, app, CommandScope::Localhost, &bob, &wire).unwrap();
        assert_eq!(answer.code, 403, "{what}: {}", answer.text);
        assert!(answer.text.starts_with("Prefix announcement rejected: "), "{}", answer.text);
        assert_eq!(node.fib(), before, "{what}");
    }
    // The command itself has to be signed by a known key, too.
    assert_eq!(
        announce(&mut node, app, CommandScope::Localhost, &stranger, &right).unwrap().code,
        403
    );
}

#[test]
fn neighbours_announce_where_they_may_register() {
    let (alice, bob) = (key("/alice", 1), key("/bob", 2));
    let mut closed = Node::new(ManagementConfig::default());
    let (neighbour, wire) = (closed.neighbour, announcement("/alice", &alice));
    assert!(announce(&mut closed, neighbour, CommandScope::Localhop, &alice, &wire).is_none());
    let localhop = Some(anchors(&[&alice]));
    let mut open = Node::new(ManagementConfig { localhop, ..Default::default() });
    let neighbour = open.neighbour;
    assert_eq!(
        announce(&mut open, neighbour, CommandScope::Localhop, &alice, &wire).unwrap().code,
        200
    );
    assert_eq!(open.fib()["/alice"], [(neighbour.0, 2048)].into());
    let other = announcement("/bob", &bob);
    assert_eq!(
        announce(&mut open, neighbour, CommandScope::Localhop, &alice, &other).unwrap().code,
        403
    );
}

#[test]
fn an_invalid_announcement_is_refused() {
    let mut node = Node::new(ManagementConfig::default());
    let (app, alice) = (node.app, key("/alice", 1));
    let mut say = |wire: &[u8]| {
        let answer = announce(&mut node, app, CommandScope::Localhost, &alice, wire).unwrap();
        assert!(node.fib().keys().all(|prefix| prefix.starts_with("/local")), "{}", answer.text);
        (answer.code, answer.text)
    };
    assert_eq!(say(&[]).0, 400, "nothing");
    assert_eq!(say(&[1, 2, 3]).0, 400, "no Data");
    let with = |uri: &str, typ: ContentType, content: &[u8]| {
        let mut out = Vec::new();
        let name = name(uri);
        let builder = DataBuilder::new(name.as_ref()).content_type(typ);
        alice.data(builder, content, &mut out).unwrap();
        out
    };
    let (good, typ) = ([0x6d, 1, 60], ContentType::PREFIX_ANNOUNCEMENT);
    let uri = "/alice/32=PA/v=1/seg=0";
    assert_eq!(say(&with(uri, ContentType::BLOB, &good)).0, 400);
    for wrong in [
        "/alice",
        "/32=PA/v=1",
        "/alice/32=AP/v=1/seg=0",
        "/alice/8=PA/v=1/seg=0",
        "/alice/32=PA/seg=0/v=1",
    ] {
        assert_eq!(say(&with(wrong, typ, &good)).0, 400, "{wrong}");
    }
    let critical = [&good[..], &[0x6f, 1, 1]].concat();
    let twice = [&good[..], &good].concat();
    for content in
        [&[][..], &[0x6d, 3, 0, 0, 0], &critical, &twice, &[0x6d, 1], &[0xfd, 0, 0xfd, 0]]
    {
        assert_eq!(say(&with(uri, typ, content)).0, 400, "{content:?}");
    }
    assert_eq!(say(&with(uri, typ, &[0x6d, 1, 0])).0, 403, "it says nothing for no time");
    // A route can't take management's place, and the limit of a prefix's length holds.
    assert_eq!(say(&announcement("/localhost/nfd", &alice)).0, 403);
    assert_eq!(say(&announcement("/localhost/nfd/rib", &alice)).0, 403);
    assert_eq!(say(&announcement(&"/x".repeat(64), &alice)).0, 414);
    let long = announcement(&format!("/{}", "x".repeat(MAX_ANNOUNCEMENT)), &alice);
    assert_eq!(PrefixAnnouncement::decode(&long).unwrap_err(), AnnouncementError::TooLong);
    assert_eq!(say(&long).0, 400);
}

#[test]
fn unknown_elements_that_are_not_critical_are_ignored() {
    let alice = key("/alice", 1);
    let mut content = vec![0x6d, 1, 60];
    tlv::write_element(&mut content, 0xFE_00, b"later");
    let name = name("/alice/32=PA/v=9/seg=0");
    let builder = DataBuilder::new(name.as_ref()).content_type(ContentType::PREFIX_ANNOUNCEMENT);
    let mut wire = Vec::new();
    alice.data(builder, &content, &mut wire).unwrap();
    let read = PrefixAnnouncement::decode(&wire).unwrap();
    assert_eq!((read.expiration_ms, read.validity), (60, None));
    assert_eq!(read.prefix().to_string(), "/alice");
    assert_eq!(Component::keyword(b"PA"), read.data.name().get(1).unwrap());
}

/// Each may have 2 KiB: endless announcements take a bounded amount of memory.
#[test]
fn the_number_of_announcements_is_bounded() {
    let mut node = Node::new(ManagementConfig::default());
    let (app, alice) = (node.app, key("/alice", 1));
    for i in 0..4096 {
        let wire = announcement(&format!("/alice/{i}"), &alice);
        let wire = PrefixAnnouncement::decode(&wire).unwrap();
        node.program.forwarder.set_announcement(wire.prefix(), app, wire.wire);
    }
    let more = announcement("/more", &alice);
    assert_eq!(announce(&mut node, app, CommandScope::Localhost, &alice, &more).unwrap().code, 503);
}
