//! Events as JSON, one object per line; `docs/spec/json-events.md` is the contract.

use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use xylem_library::scrub::ScrubEvent;
use xylem_library::{CheckpointMade, LibraryEvent};
use xylem_node::Event;
use xylem_node::mail::{MailEvent, Message, MessageContent};

/// One line on standard output with `--json`. Field order is as written; readers go by name.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Json<'a> {
    /// Reading and hashing.
    Hashing { done: u64, total: u64 },
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
    /// Something could not be done, and the run goes on.
    Trouble { what: &'a str },
    /// A path was left out.
    Skipped { path: String, why: &'a str },
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
    /// What a directory holds.
    Contents { files: Vec<Item>, more: u64 },
    /// Something of an earlier run verified.
    Resumed { bytes: u64 },
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
    /// One bad place that `verify` found.
    Damage { path: String, start: u64, end: u64, what: &'a str },
    /// `verify` is done.
    Verified { root: &'a str, bytes: u64, files: u64, damaged: usize, located: bool },
    /// One bad place that `scrub` found.
    Flaw {
        path: String,
        flaw: &'a str,
        start: u64,
        end: u64,
        first_block: u64,
        blocks: u64,
        what: &'a str,
    },
    /// One of them that is right again.
    Mended { path: String, flaw: &'a str, start: u64, end: u64 },
    /// `scrub` is done.
    Scrubbed {
        bytes: u64,
        files: u64,
        places: u64,
        damaged: u64,
        mended: u64,
        trees: u64,
        trees_mended: u64,
        changed: u64,
        missing: u64,
        failed: u64,
        fetched: u64,
        seconds: f64,
    },
    /// One result of `sum`.
    Sum { path: String, hash: &'a str },
    /// One result of `sum --check`.
    Check { path: String, ok: bool, why: Option<&'a str> },
    /// One step of `try`.
    Step { what: &'a str },
    /// One piece of news of `bench`; its own fields, `report` first, stand beside `event`.
    #[cfg(feature = "bench")]
    Bench(&'a xylem_bench::Report),
    /// A key, of `key`.
    Key {
        name: &'a str,
        algorithm: &'a str,
        certificate: Option<&'a str>,
        valid_until_ms: Option<u64>,
    },
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
    /// A checkpoint of a growing object.
    Checkpoint { number: u64, version: u64, name: &'a str, root: &'a str, bytes: u64, last: bool },
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
    /// A row of `store list`.
    Known {
        path: String,
        root: &'a str,
        directory: bool,
        origin: &'a str,
        bytes: u64,
        state: &'a str,
        pinned: bool,
        used_s: u64,
        ticket: Option<&'a str>,
    },
    /// One thing that `store check` found.
    Finding { kind: &'a str, path: String, what: &'a str },
    /// `store check` is done.
    StoreChecked {
        records: u64,
        trees: u64,
        listings: u64,
        manifests: u64,
        bytes: u64,
        bad: u64,
        repaired: u64,
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
}

/// One file of a directory.
#[derive(Debug, Serialize)]
pub(crate) struct Item {
    path: String,
    size: u64,
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
            Event::Library(LibraryEvent::Hashing { done, total }) => {
                Self::Hashing { done: *done, total: *total }
            }
            Event::Shared { ticket, name, root, bytes, files, listen, plain, carriers } => {
                let (bytes, files) = (*bytes, *files);
                Self::Shared { ticket, name, root, bytes, files, listen, plain, carriers }
            }
            Event::Library(LibraryEvent::Checkpoint(CheckpointMade {
                number,
                version,
                name,
                root,
                bytes,
                last,
            })) => {
                let (number, version, bytes, last) = (*number, *version, *bytes, *last);
                Self::Checkpoint { number, version, name, root, bytes, last }
            }
            Event::Listening { uri } => Self::Listening { uri },
            Event::Registered { forwarder, prefix } => Self::Registered { forwarder, prefix },
            Event::Library(LibraryEvent::Warning { what }) => Self::Trouble { what },
            Event::Library(LibraryEvent::Skipped { path, why }) => {
                Self::Skipped { path: path_text(path), why }
            }
            Event::PeerConnected { peer } => Self::PeerConnected { peer },
            Event::Shaped { peer, level, wanted } => {
                Self::Shaped { peer, level: level.name(), wanted: wanted.name() }
            }
            Event::PeerGone { peer, why } => Self::PeerGone { peer, why },
            Event::PeerMisbehaved { peer, what } => Self::PeerMisbehaved { peer, what },
            Event::Found { name, directory, root, bytes, files } => {
                Self::Found { name, directory: *directory, root, bytes: *bytes, files: *files }
            }
            Event::Library(LibraryEvent::Contents { files, more }) => {
                let item =
                    |(path, size): &(PathBuf, u64)| Item { path: path_text(path), size: *size };
                Self::Contents { files: files.iter().map(item).collect(), more: *more }
            }
            Event::Library(LibraryEvent::Resumed { bytes }) => Self::Resumed { bytes: *bytes },
            Event::Progress { verified, total, peers } => {
                Self::Progress { verified: *verified, total: *total, peers: *peers }
            }
            Event::Offering { listen, key } => {
                Self::Offering { listen, key: key.iter().map(|b| format!("{b:02x}")).collect() }
            }
            Event::Library(LibraryEvent::Scrub(event)) => return Self::scrub(event),
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

    fn scrub(event: &'a ScrubEvent) -> Option<Self> {
        Some(match event {
            ScrubEvent::Found { path, flaw, bytes, what } => {
                let blocks = flaw.blocks(bytes);
                Self::Flaw {
                    path: path_text(path),
                    flaw: flaw.name(),
                    start: bytes.start,
                    end: bytes.end,
                    first_block: blocks.start,
                    blocks: blocks.end - blocks.start,
                    what,
                }
            }
            ScrubEvent::Mended { path, flaw, bytes } => Self::Mended {
                path: path_text(path),
                flaw: flaw.name(),
                start: bytes.start,
                end: bytes.end,
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
            Json::Checkpoint {
                number: 1,
                version: 2,
                name: "/a/v=2",
                root: "00",
                bytes: 1,
                last: false,
            },
            Json::Extends {
                old_bytes: 1,
                new_bytes: 2,
                proof_bytes: 32,
                extends: true,
                why: Some("w"),
            },
            Json::Hashing { done: 1, total: 2 },
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
            Json::Trouble { what: "w" },
            Json::Skipped { path: "a\nb".into(), why: "x" },
            Json::PeerConnected { peer: "p" },
            Json::Shaped { peer: "p", level: "low", wanted: "high" },
            Json::PeerGone { peer: "p", why: "x" },
            Json::PeerMisbehaved { peer: "p", what: "x" },
            Json::Found { name: "n", directory: true, root: "00", bytes: 1, files: 1 },
            Json::Contents { files: vec![], more: 0 },
            Json::Resumed { bytes: 1 },
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
            Json::Damage { path: String::new(), start: 0, end: 1, what: "x" },
            Json::Verified { root: "00", bytes: 1, files: 1, damaged: 0, located: true },
            Json::Flaw {
                path: "a".into(),
                flaw: "damaged",
                start: 0,
                end: 1,
                first_block: 0,
                blocks: 1,
                what: "x",
            },
            Json::Mended { path: "a".into(), flaw: "tree", start: 0, end: 1 },
            Json::Scrubbed {
                bytes: 1,
                files: 1,
                places: 0,
                damaged: 0,
                mended: 0,
                trees: 0,
                trees_mended: 0,
                changed: 0,
                missing: 0,
                failed: 0,
                fetched: 0,
                seconds: 0.5,
            },
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
        ];
        #[cfg(feature = "bench")]
        let reports = bench_reports();
        #[cfg(feature = "bench")]
        let events = events.into_iter().chain(reports.iter().map(Json::Bench));
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
