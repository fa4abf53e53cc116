//! Checks events against docs/spec/json-events.md: each is one line, and its name and every field are documented.

use super::json_line;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xylem_files::{
    CheckpointMade, Flaw, FlawFound, LibraryEvent, ListedSize, SkipReason, Testimony,
};
use xylem_node::code::{CodeEnd, CodeEvent, Offered};
use xylem_node::mail::{MailEvent, MailMessage, MessageContent};
use xylem_node::{
    Event, FaceAddress, FetchReport, GetSummary, GetterReport, GetterState, NatKind, PeerBytes,
    PeerWay, ReachStatus, ReachWay, ShapeLevel, TriedPeer, WayTaken,
};
use xylem_object::ticket::Address;
use xylem_object::{PublicationKind, PublisherId, Ticket};
use xylem_packet::Name;
use xylem_peers::reachable::{LeftOut, Unsuited};

const SPECIFICATION: &str = include_str!("../../../../docs/spec/json-events.md");

/// The row of an event in the table.
fn row(name: &str) -> &'static str {
    let is_it = |row: &&str| row.starts_with(&format!("| `{name}` |"));
    SPECIFICATION.lines().find(is_it).unwrap_or_else(|| panic!("{name} is not documented"))
}

/// Returns an event's name; panics unless it and its fields are in the specification.
pub(crate) fn assert_documented(event: &impl Serialize) -> String {
    let line = json_line(event);
    assert!(!line.contains('\n'), "{line}");
    let value: serde_json::Value = serde_json::from_str(&line).expect(&line);
    let fields = value.as_object().expect("an event is an object");
    let name = fields["event"].as_str().expect("the tag is text");
    for field in fields.keys().filter(|field| *field != "event") {
        assert!(row(name).contains(&format!("`{field}`")), "{name}.{field} is not documented");
    }
    name.to_owned()
}

fn events() -> Vec<Event> {
    let ticket = Ticket {
        publisher: PublisherId([1; 32]),
        root: xylem_hash::hash(b""),
        name: None,
        link_key: None,
        size: None,
        kind: Some(PublicationKind::File),
        addresses: Vec::new(),
        relays: Vec::new(),
    };
    let (name, root) = (Name::from_uri("/a/v=1").expect("is a name"), ticket.root);
    let address = SocketAddr::from(([127, 0, 0, 1], 7));
    let peer = || FaceAddress::Link(address);
    let path = || PathBuf::from("a\nb");
    let id = xylem_mail::EnvelopeId([1; 16]);
    let message = |what| {
        Box::new(MailMessage {
            number: 1,
            from: "n".into(),
            known: true,
            publisher: ticket.publisher,
            name: "f".into(),
            size: 1,
            sent_ms: 1,
            received_ms: 1,
            accepted: false,
            what,
        })
    };
    let summary = GetSummary {
        root,
        path: None,
        bytes: 1,
        files: 1,
        fetched: 1,
        resumed: 0,
        reused: 0,
        elapsed: Duration::from_millis(500),
        already_complete: false,
        peers: vec![PeerBytes { peer: peer(), bytes: 1 }],
        served: 0,
        ways: vec![PeerWay {
            peer: peer(),
            way: WayTaken::Direct,
            relay: Some(address),
            after: Duration::from_millis(20),
            direct_after: Some(Duration::from_millis(30)),
        }],
    };
    let (to, by, why) = ("n".to_owned(), "n".to_owned(), "w".to_owned());
    let library = [
        LibraryEvent::Hashing { done: 1, total: 2 },
        LibraryEvent::Warning { what: "w".into() },
        LibraryEvent::Skipped { path: path(), why: SkipReason::NotAFile },
        LibraryEvent::Checkpoint(CheckpointMade {
            number: 1,
            version: 2,
            name: name.clone(),
            root,
            bytes: 1,
            last: false,
        }),
        LibraryEvent::Cosigned(Testimony {
            witness: name.clone(),
            version: 2,
            bytes: 1,
            proven: true,
            time_ms: 3,
            since_ms: 1,
            first: 1,
        }),
        LibraryEvent::Contents { files: vec![ListedSize { path: path(), size: 1 }], more: 0 },
        LibraryEvent::LeftOut { excluded: 1, unreadable: 2 },
        LibraryEvent::Planned { path: path(), bytes: 1, replaces: true },
        LibraryEvent::DryRun { files: 1, bytes: 1, replaced: 1, removed: 1 },
        LibraryEvent::Removing { files: 1, paths: vec![path()] },
        LibraryEvent::Resumed { bytes: 1 },
        LibraryEvent::Flaw(FlawFound {
            path: path(),
            flaw: Flaw::Damaged,
            start: 0,
            end: 1,
            first_block: 0,
            blocks: 1,
            what: "w".into(),
        }),
        LibraryEvent::Mended { path: path(), flaw: Flaw::Tree, start: 0, end: 1 },
    ];
    let mail = [
        MailEvent::Arrived(message(MessageContent::Ticket(Box::new(ticket.clone())))),
        MailEvent::Arrived(message(MessageContent::Note("t".into()))),
        MailEvent::Queued { to: to.clone(), id },
        MailEvent::Stored { to: to.clone(), id, at: "192.0.2.1:7348".into() },
        MailEvent::Delivered { to: to.clone(), id, direct: true },
        MailEvent::Lost { from: to.clone(), count: 102 },
        MailEvent::Unread { to: to.clone(), count: 102, again: 3 },
        MailEvent::Again { to: to.clone(), id, was: id },
        MailEvent::Waiting { to, id, why, gone: false },
        MailEvent::Fetched { by, id },
    ];
    let (fetched, getter) = (name.clone(), name.clone());
    let mut events = vec![
        Event::Shared {
            ticket: Box::new(ticket.clone()),
            name: name.clone(),
            root,
            bytes: 1,
            files: 1,
            signed_by: None,
            listen: vec![address],
            plain: vec![],
            web: vec![],
            carriers: vec![peer()],
        },
        Event::Reachable {
            addresses: vec![Address::Ip(address)],
            left_out: vec![LeftOut {
                address: address.ip(),
                interface: "lo".into(),
                why: Unsuited::Loopback,
            }],
        },
        Event::Mapped { address, by: "PCP".into() },
        Event::TicketInDht,
        Event::RootInDht,
        Event::Volunteers { relays: Vec::new() },
        Event::Announced { root, publisher: ticket.publisher, name: None },
        Event::Listening { uri: peer() },
        Event::Relaying {
            uris: vec!["u".into()],
            hosts: vec!["h".into()],
            second_port: Some(7349),
        },
        Event::Volunteering,
        Event::Relayed { counts: xylem_node::RelayMetrics::default().each().into() },
        Event::Repository {
            change: xylem_node::RepositoryChange::Inserted,
            name: name.clone(),
            packets: 1,
            failed: Some("x".into()),
            counts: [("stored_packets", 1), ("stored_bytes", 512), ("quota_bytes", 65_536)]
                .into_iter()
                .chain([("inserted", 1), ("removed", 0), ("refused", 0)])
                .collect(),
        },
        Event::Registered { forwarder: peer(), prefix: name },
        Event::PeerConnected { peer: peer() },
        Event::Moved { peer: FaceAddress::Relayed(address), to: peer() },
        Event::Relay { relay: address, registered: false, over_tcp: false, why: Some("x".into()) },
        Event::OtherKey { peer: peer(), key: [1; 32] },
        Event::Unanswered {
            peers: vec![TriedPeer { peer: peer(), connected: false, why: None }],
            seconds: 0.5,
        },
        Event::Shaped { peer: peer(), level: ShapeLevel::Low, wanted: ShapeLevel::High },
        Event::Holding { seconds: 2.5 },
        Event::PeerGone { peer: peer(), why: "w".into() },
        Event::PeerMisbehaved { peer: peer(), what: "w".into() },
        Event::Found { name: "n".into(), directory: true, root, bytes: 1, files: 1 },
        Event::Progress { verified: 1, total: 2, peers: 3, relayed: 1, picture: None },
        Event::Reach(ReachStatus {
            way: ReachWay::Direct,
            at: Some(address),
            proven: false,
            over_ipv4: Some(ReachWay::Lan),
            nat: NatKind::None,
            says: "w".into(),
        }),
        Event::Offering {
            listen: vec![address],
            key: [1; 32],
            ticket: Some(Box::new(ticket.clone())),
        },
        Event::Seeding(Box::new(summary)),
        Event::Fetched(FetchReport {
            peer: peer(),
            name: fetched,
            bytes: 1,
            fetched: 1,
            sent: 1,
            elapsed: Duration::from_millis(500),
        }),
        Event::Getter(GetterReport {
            number: 1,
            state: GetterState::Began,
            peer: peer(),
            way: WayTaken::Direct,
            name: getter,
            bytes: 1,
            sent: 1,
            complete: false,
            elapsed: Duration::from_millis(500),
        }),
    ];
    events.extend(library.into_iter().map(Event::Library));
    events.extend(mail.into_iter().map(Event::Mail));
    events.extend(
        [
            CodeEvent::Shown {
                code: "7-alpha-cobra-violin".parse().expect("is a code"),
                of: Offered::Ticket,
                seconds: 600,
                lan: true,
                dht: true,
                dht_waits: false,
                relay: None,
                at: vec![Address::Ip(address)],
            },
            CodeEvent::InDht,
            CodeEvent::Listed,
            CodeEvent::Wrong { left: 2 },
            CodeEvent::Ended { why: CodeEnd::Used },
            CodeEvent::Taken { peer: peer() },
        ]
        .map(Event::Code),
    );
    events
}

#[test]
fn every_event_is_one_documented_line() {
    let names: Vec<String> = events().iter().map(assert_documented).collect();
    let found = names.join(" ");
    assert_eq!(
        found,
        "shared reachable mapped ticket_in_dht root_in_dht volunteer_relays announced listening relaying volunteering relayed repository registered peer_connected moved relay other_key unanswered shaped holding peer_gone peer_misbehaved found progress \
         reach \
         offering done fetched getter hashing trouble skipped checkpoint cosigned contents left_out planned dry_run removing resumed flaw mended mail mail \
         mail_queued mail_stored mail_delivered mail_lost mail_unread mail_again mail_waiting mail_fetched code \
         code_in_dht code_listed code_wrong \
         code_ended code_taken"
    );
}

/// Values keep the form that scripts rely on.
#[test]
fn values_are_text_where_people_write_them() {
    let events = events();
    let line = json_line(&events[0]);
    for part in [r#""ticket":"xylem:"#, r#""name":"/a/v=1""#, r#""listen":["127.0.0.1:7"]"#] {
        assert!(line.contains(part), "{line}");
    }
    assert!(line.contains(r#""root":"af1349b9f5f9a1a6"#), "{line}");
    let line =
        json_line(events.iter().find(|e| matches!(e, Event::Seeding(_))).expect("is among them"));
    assert!(line.contains(r#""path":null"#) && line.contains(r#""seconds":0.5"#), "{line}");
    assert!(line.contains(r#""peers":[{"peer":"127.0.0.1:7","bytes":1}]"#), "{line}");
}

/// Output of verbs other than events: each row type names itself in its attribute.
#[test]
fn every_row_of_a_verb_is_documented() {
    fn sources(dir: &Path, rows: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).expect("is there").flatten() {
            if entry.path().is_dir() {
                sources(&entry.path(), rows);
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("is text");
            let names = text.split("#[serde(tag = \"event\", rename = \"").skip(1);
            rows.extend(names.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
    let mut rows = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut rows);
    rows.retain(|name| !name.is_empty() && !name.contains('\\'));
    assert!(rows.len() > 25, "{rows:?}");
    rows.iter().for_each(|name| assert!(!row(name).is_empty()));
}
