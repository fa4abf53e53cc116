//! Events as JSON, one object per line; `docs/spec/json-events.md` is the contract.

use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;
use xylem_library::LibraryEvent;
use xylem_library::keys::KeyEntry;
use xylem_library::scrub::ScrubSummary;
use xylem_library::upkeep::{CheckSummary, Finding, StoreEntry};
use xylem_library::verify::{Damage, VerifySummary};
use xylem_node::Event;
use xylem_node::mail::{MailEvent, Message, MessageContent};

/// One line on standard output with `--json`. Field order is as written; readers go by name.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Json<'a> {
    /// Ready to serve.
    Shared {
        ticket: &'a str,
        name: &'a str,
        root: &'a str,
        bytes: u64,
        files: u64,
        listen: &'a [SocketAddr],
        plain: &'a [SocketAddr],
        carriers: &'a [String],
    },
    /// A face URI where the node listens.
    Listening { uri: &'a str },
    /// A forwarder took the registration of a prefix.
    Registered { forwarder: &'a str, prefix: &'a str },
    /// A link came up.
    PeerConnected { peer: &'a str },
    /// Which shaping level is in force on a link.
    Shaped { peer: &'a str, level: &'static str, wanted: &'static str },
    /// A link ended.
    PeerGone { peer: &'a str, why: &'a str },
    /// A peer sent something that did not verify.
    PeerMisbehaved { peer: &'a str, what: &'a str },
    /// The signed manifest verified.
    Found { name: &'a str, directory: bool, root: &'a str, bytes: u64, files: u64 },
    /// Progress of a fetch.
    Progress { verified: u64, total: u64, peers: usize },
    /// A fetch is done.
    Done {
        root: &'a str,
        path: Option<String>,
        bytes: u64,
        files: u64,
        fetched: u64,
        resumed: u64,
        seconds: f64,
        already_complete: bool,
        peers: Vec<FromPeer<'a>>,
        served: u64,
    },
    /// What is fetched is served to others from now on.
    Offering { listen: &'a [SocketAddr], key: String },
    /// Our card.
    Card { card: &'a str },
    /// Somebody who has a name.
    Person { name: &'a str, publisher: &'a str },
    /// A message that came.
    Mail {
        number: u32,
        from: &'a str,
        known: bool,
        publisher: &'a str,
        kind: &'a str,
        name: &'a str,
        bytes: u64,
        sent_ms: u64,
        received_ms: u64,
        accepted: bool,
        ticket: Option<&'a str>,
    },
    /// What a note says.
    Note { number: u32, text: &'a str },
    /// A message waits to be delivered.
    MailQueued { to: &'a str, id: &'a str },
    /// It was taken.
    MailDelivered { to: &'a str, id: &'a str, direct: bool },
    /// It still waits, or was given up.
    MailWaiting { to: &'a str, id: &'a str, why: &'a str, gone: bool },
    /// Its receiver has what it named.
    MailFetched { by: &'a str, id: &'a str },
    /// One result of `sum`.
    Sum { path: String, hash: &'a str },
    /// One result of `sum --check`.
    Check { path: String, ok: bool, why: Option<&'a str> },
    /// One step of `try`.
    Step { what: &'a str },
    /// One piece of news of `bench`; its own fields, `report` first, stand beside `event`.
    #[cfg(feature = "bench")]
    Bench(&'a xylem_bench::Report),
    /// The packet that `peek` found.
    Packet {
        name: &'a str,
        bytes: usize,
        content: &'a str,
        content_type: u64,
        freshness_ms: u64,
        final_block_id: Option<&'a str>,
        signature: &'a str,
        signature_type: u64,
        key: Option<&'a str>,
        verdict: &'a str,
        seconds: f64,
    },
    /// `put` is ready.
    Published { name: &'a str, segments: Option<u64>, bytes: u64 },
    /// `ping --serve` or `traffic --serve` is ready.
    Serving { prefix: &'a str },
    /// What they answered.
    Served { answered: u64, bytes: Option<u64>, ignored: Option<u64> },
    /// One ping.
    Ping { number: u64, answer: &'a str, nack: Option<u64>, milliseconds: Option<f64> },
    /// All pings.
    Pings {
        sent: u64,
        answered: u64,
        nacked: u64,
        lost: u64,
        min_ms: f64,
        mean_ms: f64,
        max_ms: f64,
    },
    /// What `traffic` measured.
    Traffic {
        sent: u64,
        answered: u64,
        nacked: u64,
        lost: u64,
        unasked: u64,
        congested: u64,
        bytes: u64,
        seconds: f64,
        per_second: f64,
        p50_us: f64,
        p90_us: f64,
        p99_us: f64,
        max_us: f64,
        mean_us: f64,
        cpu_us: Option<f64>,
        forwarder_cpu_us: Option<f64>,
        forwarder_memory: Option<u64>,
    },
    /// `verify --extends`.
    Extends {
        old_bytes: u64,
        new_bytes: u64,
        proof_bytes: usize,
        extends: bool,
        why: Option<&'a str>,
    },
    /// `ctl status`.
    Status {
        version: &'a str,
        uptime_seconds: f64,
        fib_entries: u64,
        pit_entries: u64,
        cs_entries: u64,
        in_interests: u64,
        in_data: u64,
        in_nacks: u64,
        out_interests: u64,
        out_data: u64,
        out_nacks: u64,
        satisfied: u64,
        unsatisfied: u64,
    },
    /// A row of `ctl face list`.
    Face {
        face: u64,
        remote: &'a str,
        local: &'a str,
        scope: &'a str,
        persistency: &'a str,
        link: &'a str,
        mtu: Option<u64>,
        expires_seconds: Option<f64>,
        reliability: bool,
        congestion_marking: bool,
        local_fields: bool,
        in_interests: u64,
        in_data: u64,
        in_nacks: u64,
        in_bytes: u64,
        out_interests: u64,
        out_data: u64,
        out_nacks: u64,
        out_bytes: u64,
    },
    /// A row of `ctl route list`.
    Route {
        prefix: &'a str,
        face: u64,
        origin: u64,
        cost: u64,
        inherit: bool,
        capture: bool,
        expires_seconds: Option<f64>,
    },
    /// A row of `ctl fib list`.
    Fib { prefix: &'a str, face: u64, cost: u64 },
    /// `ctl cs info`.
    Cs { capacity: u64, entries: u64, hits: u64, misses: u64, admit: bool, serve: bool },
    /// A row of `ctl strategy list`.
    Strategy { prefix: &'a str, strategy: &'a str },
    /// What `ctl` changed.
    Changed {
        what: &'a str,
        prefix: Option<&'a str>,
        face: Option<u64>,
        uri: Option<&'a str>,
        origin: Option<u64>,
        cost: Option<u64>,
        capacity: Option<u64>,
        count: Option<u64>,
        strategy: Option<&'a str>,
    },
    /// An object that `get NAME` fetched.
    Object {
        name: &'a str,
        root: &'a str,
        path: Option<String>,
        bytes: u64,
        segments: u64,
        proven: bool,
        seconds: f64,
    },
    /// One name that `store gc` removed.
    Removed { path: String, bytes: u64, dry_run: bool },
    /// `store gc` is done.
    Collected {
        parts: u64,
        partials: u64,
        records: u64,
        leftovers: u64,
        bytes: u64,
        young: u64,
        busy: u64,
        dry_run: bool,
    },
    /// What `store pin` or `store unpin` did.
    Pinned { path: Option<String>, root: Option<&'a str>, pinned: bool },
    /// Why the run ends.
    Error { exit: u8, message: &'a str },
    /// One bad place that `verify` found.
    Damage(&'a Damage),
    /// `verify` is done.
    Verified(&'a VerifySummary),
    /// `scrub` is done.
    Scrubbed {
        #[serde(flatten)]
        summary: &'a ScrubSummary,
        seconds: f64,
    },
    /// A key, of `key`.
    Key(&'a KeyEntry),
    /// A row of `store list`.
    Known(&'a StoreEntry),
    /// One thing that `store check` found.
    Finding(&'a Finding),
    /// `store check` is done.
    StoreChecked(&'a CheckSummary),
    /// What happens with files; its own tag.
    #[serde(untagged)]
    Library(&'a LibraryEvent),
}

/// A path as JSON text; bytes that are not UTF-8 become U+FFFD.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What came from one peer.
#[derive(Debug, Serialize)]
pub(crate) struct FromPeer<'a> {
    pub(crate) peer: &'a str,
    pub(crate) bytes: u64,
}

impl<'a> Json<'a> {
    /// The event as the library reports it; `None` for one that this version has no form for.
    pub(crate) fn of(event: &'a Event) -> Option<Self> {
        Some(match event {
            Event::Library(event) => Self::Library(event),
            Event::Shared { ticket, name, root, bytes, files, listen, plain, carriers } => {
                let (bytes, files) = (*bytes, *files);
                Self::Shared { ticket, name, root, bytes, files, listen, plain, carriers }
            }
            Event::Listening { uri } => Self::Listening { uri },
            Event::Registered { forwarder, prefix } => Self::Registered { forwarder, prefix },
            Event::PeerConnected { peer } => Self::PeerConnected { peer },
            Event::Shaped { peer, level, wanted } => {
                Self::Shaped { peer, level: level.name(), wanted: wanted.name() }
            }
            Event::PeerGone { peer, why } => Self::PeerGone { peer, why },
            Event::PeerMisbehaved { peer, what } => Self::PeerMisbehaved { peer, what },
            Event::Found { name, directory, root, bytes, files } => {
                Self::Found { name, directory: *directory, root, bytes: *bytes, files: *files }
            }
            Event::Progress { verified, total, peers } => {
                Self::Progress { verified: *verified, total: *total, peers: *peers }
            }
            Event::Offering { listen, key } => {
                Self::Offering { listen, key: key.iter().map(|b| format!("{b:02x}")).collect() }
            }
            Event::Mail(event) => match event {
                MailEvent::Arrived(message) => Self::mail(message),
                MailEvent::Queued { to, id } => Self::MailQueued { to, id },
                MailEvent::Delivered { to, id, direct } => {
                    Self::MailDelivered { to, id, direct: *direct }
                }
                MailEvent::Waiting { to, id, why, gone } => {
                    Self::MailWaiting { to, id, why, gone: *gone }
                }
                MailEvent::Fetched { by, id } => Self::MailFetched { by, id },
                _ => return None,
            },
            _ => return None,
        })
    }

    /// A message that came.
    pub(crate) fn mail(message: &'a Message) -> Self {
        let (kind, ticket) = match &message.what {
            MessageContent::Ticket(ticket) => ("ticket", Some(ticket.as_str())),
            MessageContent::Note(_) => ("note", None),
        };
        Self::Mail {
            number: message.number,
            from: &message.from,
            known: message.known,
            publisher: &message.publisher,
            kind,
            name: &message.name,
            bytes: message.size,
            sent_ms: message.sent_ms,
            received_ms: message.received_ms,
            accepted: message.accepted,
            ticket,
        }
    }

    /// One line of JSON, without its newline.
    pub(crate) fn to_line(&self) -> String {
        serde_json::to_string(self)
            .expect("plain fields without maps or non-text keys always serialise")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use xylem_library::upkeep::{FindingKind, Origin, Standing};
    use xylem_library::{CheckpointMade, Flaw, FlawFound, ListedSize, SkipReason};
    use xylem_packet::Name;

    /// One of each kind.
    fn library_events() -> Vec<LibraryEvent> {
        let (path, what) = (PathBuf::from("a\nb"), "w".to_owned());
        let (name, root) = (Name::from_uri("/a/v=2").unwrap(), xylem_hash::hash(b""));
        let (flaw, start, end) = (Flaw::Damaged, 0, 1);
        vec![
            LibraryEvent::Hashing { done: 1, total: 2 },
            LibraryEvent::Warning { what: what.clone() },
            LibraryEvent::Skipped { path: path.clone(), why: SkipReason::NotAFile },
            LibraryEvent::Checkpoint(CheckpointMade {
                number: 1,
                version: 2,
                name,
                root,
                bytes: 1,
                last: false,
            }),
            LibraryEvent::Contents {
                files: vec![ListedSize { path: path.clone(), size: 1 }],
                more: 0,
            },
            LibraryEvent::Resumed { bytes: 1 },
            LibraryEvent::Flaw(FlawFound {
                path: path.clone(),
                flaw,
                start,
                end,
                first_block: 0,
                blocks: 1,
                what,
            }),
            LibraryEvent::Mended { path, flaw, start, end },
        ]
    }

    /// One of each kind.
    #[cfg(feature = "bench")]
    fn bench_reports() -> Vec<xylem_bench::Report> {
        let mut reports = Vec::new();
        xylem_bench::hash::run(&["streaming"], xylem_bench::Effort::ONCE, &mut |report| {
            reports.push(report);
            Ok::<(), std::convert::Infallible>(())
        })
        .expect("this table exists and its contenders agree");
        let [table, what, why] = ["t", "w", "y"].map(str::to_owned);
        let absent = xylem_bench::report::Absent { table, what, why };
        reports.push(xylem_bench::Report::Absent(absent));
        reports
    }

    #[test]
    fn every_event_is_one_documented_line() {
        let specification = include_str!("../../../../docs/spec/json-events.md");
        let (library, root) = (library_events(), xylem_hash::hash(b""));
        let (path, what) = (PathBuf::from("a\nb"), "w".to_owned());
        let damage = Damage { path: path.clone(), start: 0, end: 1, what: what.clone() };
        let verified =
            VerifySummary { root, bytes: 1, files: 1, damage: Vec::new(), located: true };
        let key = KeyEntry {
            name: Name::from_uri("/a/KEY/1").unwrap(),
            algorithm: "ed25519",
            certificate: None,
            valid_until_ms: Some(1),
        };
        let known = StoreEntry {
            path: path.clone(),
            root,
            directory: false,
            origin: Origin::Shared,
            bytes: 1,
            standing: Standing::Unchanged,
            pinned: false,
            used_s: 1,
            ticket: None,
        };
        let finding = Finding { kind: FindingKind::Damaged, path, what };
        let events = [
            Json::Packet {
                name: "/a",
                bytes: 1,
                content: "00",
                content_type: 0,
                freshness_ms: 0,
                final_block_id: None,
                signature: "hmac",
                signature_type: 4,
                key: None,
                verdict: "proven",
                seconds: 0.5,
            },
            Json::Published { name: "/a", segments: None, bytes: 1 },
            Json::Serving { prefix: "/a" },
            Json::Served { answered: 1, bytes: None, ignored: None },
            Json::Ping { number: 1, answer: "nack", nack: Some(50), milliseconds: None },
            Json::Pings {
                sent: 1,
                answered: 1,
                nacked: 0,
                lost: 0,
                min_ms: 0.5,
                mean_ms: 0.5,
                max_ms: 0.5,
            },
            Json::Traffic {
                sent: 1,
                answered: 1,
                nacked: 0,
                lost: 0,
                unasked: 0,
                congested: 0,
                bytes: 1,
                seconds: 0.5,
                per_second: 2.0,
                p50_us: 1.0,
                p90_us: 1.0,
                p99_us: 1.0,
                max_us: 1.0,
                mean_us: 1.0,
                cpu_us: None,
                forwarder_cpu_us: None,
                forwarder_memory: None,
            },
            Json::Object {
                name: "/a",
                root: "00",
                path: None,
                bytes: 1,
                segments: 1,
                proven: true,
                seconds: 0.5,
            },
            Json::Status {
                version: "v",
                uptime_seconds: 0.5,
                fib_entries: 0,
                pit_entries: 0,
                cs_entries: 0,
                in_interests: 0,
                in_data: 0,
                in_nacks: 0,
                out_interests: 0,
                out_data: 0,
                out_nacks: 0,
                satisfied: 0,
                unsatisfied: 0,
            },
            Json::Face {
                face: 1,
                remote: "r",
                local: "l",
                scope: "local",
                persistency: "permanent",
                link: "ad-hoc",
                mtu: None,
                expires_seconds: None,
                reliability: false,
                congestion_marking: false,
                local_fields: false,
                in_interests: 0,
                in_data: 0,
                in_nacks: 0,
                in_bytes: 0,
                out_interests: 0,
                out_data: 0,
                out_nacks: 0,
                out_bytes: 0,
            },
            Json::Route {
                prefix: "/a",
                face: 1,
                origin: 0,
                cost: 0,
                inherit: true,
                capture: false,
                expires_seconds: None,
            },
            Json::Fib { prefix: "/a", face: 1, cost: 0 },
            Json::Cs { capacity: 1, entries: 0, hits: 0, misses: 0, admit: true, serve: true },
            Json::Strategy { prefix: "/a", strategy: "/s" },
            Json::Changed {
                what: "cs-erased",
                prefix: None,
                face: None,
                uri: None,
                origin: None,
                cost: None,
                capacity: None,
                count: None,
                strategy: None,
            },
            Json::Extends {
                old_bytes: 1,
                new_bytes: 2,
                proof_bytes: 32,
                extends: true,
                why: Some("w"),
            },
            Json::Shared {
                ticket: "xylem:a",
                name: "/a",
                root: "00",
                bytes: 1,
                files: 1,
                listen: &[],
                plain: &[],
                carriers: &[],
            },
            Json::Listening { uri: "tcp4://127.0.0.1:6363" },
            Json::Registered { forwarder: "unix:///x", prefix: "/a" },
            Json::PeerConnected { peer: "p" },
            Json::Shaped { peer: "p", level: "low", wanted: "high" },
            Json::PeerGone { peer: "p", why: "x" },
            Json::PeerMisbehaved { peer: "p", what: "x" },
            Json::Found { name: "n", directory: true, root: "00", bytes: 1, files: 1 },
            Json::Progress { verified: 1, total: 2, peers: 3 },
            Json::Done {
                root: "00",
                path: None,
                bytes: 1,
                files: 1,
                fetched: 1,
                resumed: 0,
                seconds: 0.5,
                already_complete: false,
                peers: vec![FromPeer { peer: "p", bytes: 1 }],
                served: 0,
            },
            Json::Offering { listen: &[], key: String::new() },
            Json::Card { card: "xylem-peer:a" },
            Json::Person { name: "n", publisher: "00" },
            Json::Mail {
                number: 1,
                from: "n",
                known: true,
                publisher: "00",
                kind: "ticket",
                name: "f",
                bytes: 1,
                sent_ms: 1,
                received_ms: 1,
                accepted: false,
                ticket: Some("xylem:a"),
            },
            Json::Note { number: 1, text: "t" },
            Json::MailQueued { to: "n", id: "00" },
            Json::MailDelivered { to: "n", id: "00", direct: true },
            Json::MailWaiting { to: "n", id: "00", why: "w", gone: false },
            Json::MailFetched { by: "n", id: "00" },
            Json::Sum { path: "a".into(), hash: "00" },
            Json::Check { path: "a".into(), ok: true, why: None },
            Json::Step { what: "x" },
            Json::Error { exit: 2, message: "x" },
            Json::Damage(&damage),
            Json::Verified(&verified),
            Json::Scrubbed { summary: &ScrubSummary::default(), seconds: 0.5 },
            Json::Key(&key),
            Json::Known(&known),
            Json::Finding(&finding),
            Json::StoreChecked(&CheckSummary::default()),
        ];
        let events = events.into_iter().chain(library.iter().map(Json::Library));
        #[cfg(feature = "bench")]
        let reports = bench_reports();
        #[cfg(feature = "bench")]
        let events = events.chain(reports.iter().map(Json::Bench));
        for event in events {
            let line = event.to_line();
            assert!(!line.contains('\n'), "{line}");
            let value: serde_json::Value = serde_json::from_str(&line).expect(&line);
            let fields = value.as_object().expect("an event is an object");
            let name = fields["event"].as_str().expect("the tag is text");
            let row = specification
                .lines()
                .find(|row| row.starts_with(&format!("| `{name}` |")))
                .unwrap_or_else(|| panic!("{name} is not documented"));
            for field in fields.keys().filter(|field| *field != "event") {
                assert!(row.contains(&format!("`{field}`")), "{name}.{field} is not documented");
            }
        }
    }
}
