//! Hostile or silent peers: every command ends with one line that gives the reason, within `--timeout`, and takes no
//! more memory than proven content justifies.
#![cfg(unix)]

use crate::common::forwarder::answering;
use crate::common::{assert_exit, file, finish, stderr, text, xylem};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use xylem_object::naming::{self, PublicationRequest};
use xylem_object::{Manifest, PublisherKey, Ticket, sign_manifest};
use xylem_packet::{DataBuilder, Name};
use xylem_trust::Signer;

/// How a peer treats a connection that it has accepted.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Closes,
    ClosesLater,
    SaysNothing,
    Garbage,
}

const PEERS: [Peer; 4] = [Peer::Closes, Peer::ClosesLater, Peer::SaysNothing, Peer::Garbage];

impl Peer {
    /// Handles connections for ever; keeps open those that are not closed.
    fn take<S: Write>(self, connections: impl Iterator<Item = std::io::Result<S>>) {
        let mut open = Vec::new();
        for mut stream in connections.map_while(Result::ok) {
            match self {
                Self::Closes => drop(stream),
                // Late enough that it counts as a peer.
                Self::ClosesLater => std::thread::sleep(std::time::Duration::from_millis(200)),
                Self::SaysNothing => open.push(stream),
                Self::Garbage => {
                    let _ = stream.write_all(&xylem_sim::noise(10_000, 7));
                    open.push(stream);
                }
            }
        }
    }

    /// Listens over TCP and at a Unix socket; returns both URIs.
    fn listen(self, dir: &Path) -> [String; 2] {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = dir.join(format!("{self:?}.sock"));
        let unix = UnixListener::bind(&path).unwrap();
        let at = tcp.local_addr().unwrap();
        std::thread::spawn(move || self.take(tcp.incoming()));
        std::thread::spawn(move || self.take(unix.incoming()));
        [format!("tcp://{at}"), format!("unix://{}", path.display())]
    }
}

/// A manifest, its packet, and a ticket for it; `change` makes the manifest odd.
fn published(change: impl FnOnce(&mut Manifest)) -> (Name, Vec<u8>, Ticket) {
    let key = PublisherKey::from_bytes(&[7; 32]);
    let prefix: Name = "/ends/file/v=1".parse().unwrap();
    let mut manifest = Manifest::file(xylem_hash::hash(b"what nobody has"), 15, b"file");
    change(&mut manifest);
    let packet = sign_manifest(&manifest, prefix.as_ref(), &key).unwrap();
    let ticket = Ticket {
        publisher: key.public(),
        root: manifest.root,
        name: Some(prefix.clone()),
        link_key: None,
        size: None,
        kind: None,
        addresses: Vec::new(),
        relays: Vec::new(),
    };
    (prefix, packet, ticket)
}

/// The manifest packet of `prefix` with this content, signed.
fn signed(prefix: &Name, content: &[u8], signer: &Signer) -> Vec<u8> {
    let (mut out, name) =
        (Vec::new(), naming::encode(prefix.as_ref(), &PublicationRequest::Manifest));
    signer.data(DataBuilder::new(name.as_ref()), content, &mut out).unwrap();
    out
}

fn publisher() -> Signer {
    Signer::ed25519(&[7; 32], "/ends/KEY/1".parse().unwrap())
}

fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = xylem(&dir.join("store"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    finish(command)
}

#[test]
fn a_fetch_from_a_silent_or_garbage_peer_ends() {
    let (_, _, ticket) = published(|_| ());
    let ticket = ticket.to_string();
    let ends = |peer: Peer| -> JoinHandle<()> {
        let ticket = ticket.clone();
        std::thread::spawn(move || {
            let dir = tempfile::tempdir().unwrap();
            for (number, from) in peer.listen(dir.path()).iter().enumerate() {
                let out = format!("out-{number}");
                let more = ["--from", from, "--timeout", "2"];
                let cases: [&[&str]; 3] = [
                    &["get", &ticket, "-o", &out],
                    &["get", &ticket, "-o", &out, "--follow"],
                    &["verify", text(dir.path()), &ticket],
                ];
                for case in cases {
                    let output = run(dir.path(), &[case, &more].concat());
                    assert_eq!(output.status.code(), Some(3), "{peer:?} {case:?} {output:?}");
                    let said = stderr(&output);
                    let lines = said.lines().filter(|line| line.starts_with("xylem: "));
                    assert_eq!(lines.count(), 1, "{peer:?} {case:?} {said}");
                }
                assert!(!dir.path().join(out).exists());
            }
        })
    };
    PEERS.map(ends).into_iter().for_each(|ends| ends.join().unwrap());
}

#[test]
fn a_tool_with_a_silent_or_garbage_forwarder_ends() {
    let ends = |peer: Peer| {
        std::thread::spawn(move || {
            let dir = tempfile::tempdir().unwrap();
            let content = file(dir.path(), "content", b"content");
            for at in peer.listen(dir.path()) {
                let cases: [&[&str]; 5] = [
                    &["get", "/ends/file", "--insecure", "--timeout", "2", "--from", &at],
                    &["ndn", "peek", "/ends/file", "--at", &at],
                    &["ndn", "ping", "/ends/file", "-c", "1", "--timeout", "1", "--at", &at],
                    &["ndn", "put", "/ends/file", text(&content), "--at", &at],
                    &["ndn", "ctl", "status", "--at", &at],
                ];
                for case in cases {
                    let output = run(dir.path(), case);
                    assert_exit(&output, 3);
                }
            }
        })
    };
    PEERS.map(ends).into_iter().for_each(|ends| ends.join().unwrap());
}

/// Runs a command to its end; returns its output and its peak memory in bytes.
#[cfg(target_os = "linux")]
fn run_watched(mut command: Command) -> (Output, u64) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        // The process may have ended since.
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let line = status.iter().flat_map(|s| s.lines()).find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = kib.map_or(peak, |kib| peak.max(kib * 1024));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    (child.wait_with_output().unwrap(), peak)
}

#[cfg(target_os = "linux")]
#[test]
fn a_claim_of_two_tebibytes_takes_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    // The publisher's own claim of a size, in the smallest segments: no part of it is ever proven.
    let mut content = Vec::new();
    let (prefix, _, ticket) = published(|manifest| {
        manifest.size = 2 << 40;
        manifest.total_size = manifest.size;
        content = manifest.encode();
    });
    let at = content.windows(3).position(|field| field == [0x8b, 1, 3]).expect("SEGMENT_LOG2");
    content[at + 2] = 0;
    let packet = signed(&prefix, &content, &publisher());
    let root = naming::encode(prefix.as_ref(), &PublicationRequest::Manifest);
    let asked_for = root.clone();
    let asked: Arc<Mutex<u64>> = Arc::default();
    let counted = asked.clone();
    let from = answering(&dir.path().join("peer.sock"), move |interest| {
        if interest.name() == root.as_ref() {
            return packet.clone();
        }
        *counted.lock().unwrap() += 1;
        Vec::new()
    });
    // There is no room for it, which is reported at once. An attempt in spite of that takes no memory either.
    let mut command = xylem(&dir.path().join("store"));
    command
        .args(["get", &ticket.to_string(), "--from", &from, "-o", "out"])
        .current_dir(dir.path());
    assert_exit(&run_watched(command).0, 4);
    // The program's own pages count as well, and depend on how it was built: a claim of 15 bytes that is not served either.
    let (_, small, small_ticket) = published(|_| ());
    let small_from = answering(&dir.path().join("small.sock"), move |interest| {
        if interest.name() == asked_for.as_ref() { small.clone() } else { Vec::new() }
    });
    let mut command = xylem(&dir.path().join("store"));
    command.args(["get", &small_ticket.to_string(), "--from", &small_from, "--timeout", "3"]);
    command.args(["-o", "small"]).current_dir(dir.path());
    let (output, usual) = run_watched(command);
    assert_exit(&output, 3);
    for more in [&["-o", "out", "--no-space-check"][..], &["-o", "-"]] {
        let mut command = xylem(&dir.path().join("store"));
        command.args(["get", &ticket.to_string(), "--from", &from, "--timeout", "3"]).args(more);
        command.current_dir(dir.path());
        let (output, peak) = run_watched(command);
        assert_exit(&output, 3);
        assert!(stderr(&output).contains("no progress"), "{output:?}");
        assert!(*asked.lock().unwrap() > 0, "it believed the publisher");
        // What is under way takes some 40 MiB, whatever is claimed; a bit for each segment would be 256 MiB.
        assert!(peak < usual + (64 << 20), "{peak} bytes for a claim, {usual} without: {more:?}");
    }
}

#[test]
fn a_manifest_that_is_wrong_ends_the_fetch_and_is_named() {
    let (prefix, right, ticket) = published(|_| ());
    let other_root = published(|manifest| manifest.root = xylem_hash::hash(b"other")).1;
    let mut damaged = right.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let nonsense = [0x81, 0xff, 1, 2, 3];
    let unsigned = signed(&prefix, &nonsense, &Signer::digest_sha256());
    let malformed = signed(&prefix, &nonsense, &publisher());
    for (what, packet) in [
        ("other root", other_root),
        ("damaged", damaged),
        ("unsigned", unsigned),
        ("malformed", malformed),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let from = answering(&dir.path().join("peer.sock"), move |_| packet.clone());
        let args = ["get", &ticket.to_string(), "--from", &from, "--timeout", "3", "-o", "out"];
        let output = run(dir.path(), &args);
        assert_eq!(output.status.code(), Some(3), "{what}: {output:?}");
        assert!(stderr(&output).contains("manifest"), "{what}: {output:?}");
        assert!(!dir.path().join("out").exists());
    }
}
