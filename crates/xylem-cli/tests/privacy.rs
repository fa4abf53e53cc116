//! Facts that a fetching node reveals of itself, and the peers that learn them, with the program's defaults: nothing
//! with `--no-serve`, nothing to other peers with `--from`, nothing to NDN forwarders.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::fetching::{FetchSetup, from};
use crate::common::{Share, assert_exit, file, get, noise, text};

/// So slow that a fetch of [`SIZE`] takes some seconds.
const SLOW: [&str; 2] = ["--limit", "2M"];
const SIZE: usize = 5_000_000;

/// UDP sockets that a process has.
#[cfg(target_os = "linux")]
fn udp_sockets(pid: u32) -> usize {
    let mut inodes = String::new();
    for table in ["udp", "udp6"] {
        inodes += &fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
    }
    let of_system =
        |inode: &str| inodes.lines().any(|l| l.split_whitespace().nth(9) == Some(inode));
    let opened = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = opened.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    let is_udp = |target: &Path| {
        let target = target.to_string_lossy();
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(of_system)
    };
    targets.filter(|target| is_udp(target)).count()
}

/// The same pair of fetches twice. Which peers learn of the first one, and which sockets it opens, differs by the flag
/// alone.
#[test]
#[cfg(target_os = "linux")]
fn without_serving_there_is_no_port_and_nothing_is_announced() {
    for serves in [true, false] {
        let place = FetchSetup::new(SIZE, 1);
        let a = place.share();
        let quiet: &[&str] = if serves { &["--listen", "127.0.0.1:0"] } else { &["--no-serve"] };
        let b = place.get("b", &a.ticket, &[quiet, &SLOW].concat());
        b.has_fetched(500_000);
        let sockets = udp_sockets(b.child.id());
        assert_eq!(sockets > 1, serves, "{sockets} sockets, serving: {serves}");
        let c = place.get("c", &a.ticket, &SLOW);
        if serves {
            let (_, address) = b.address();
            c.event("peer_connected", |e| e["peer"] == address.as_str());
            continue;
        }
        let done = c.done();
        assert!(!b.has("offering"));
        assert_eq!(done["peers"].as_array().unwrap().len(), 1, "A alone: {done}");
        assert_eq!(from(&done, &a.link), SIZE as u64, "{done}");
    }
}

#[test]
fn with_from_no_other_peer_is_dialled_or_informed() {
    let place = FetchSetup::new(SIZE, 2);
    let a = place.share();
    let seed = ["--listen", "127.0.0.1:0", "--seed"];
    let b = place.get("b", &a.ticket, &seed);
    b.done();
    let (_, address) = b.address();
    // A introduces B: a getter that may ask other peers finds it.
    let told = place.get("told", &a.ticket, &SLOW);
    told.event("peer_connected", |e| e["peer"] == address.as_str());
    let bound = place.get("bound", &a.ticket, &[&["--from", &a.link][..], &SLOW].concat());
    let done = bound.done();
    assert_eq!(done["peers"].as_array().unwrap().len(), 1, "A alone: {done}");
    assert_eq!(from(&done, &a.link), SIZE as u64, "{done}");
}

/// A relay here sees every packet to the forwarder.
#[test]
fn forwarders_learn_nothing_of_peers() {
    let place = FetchSetup::new(SIZE, 3);
    let share = Share::with(
        &place.source,
        &place.dir.path().join("store"),
        &["--plain-listen", "127.0.0.1:0"],
    );
    let relay = UdpSocket::bind("127.0.0.1:0").unwrap();
    let way = format!("udp://{}", relay.local_addr().unwrap());
    let forwarder = share.plain.clone().unwrap();
    let (asked, questions) = channel();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        let mut getter = None;
        while let Ok((len, from)) = relay.recv_from(&mut buffer) {
            let to = if from.to_string() == forwarder {
                getter
            } else {
                getter = Some(from);
                let _ = asked.send(buffer[..len].to_vec());
                forwarder.parse().ok()
            };
            let Some(to) = to else { continue };
            let _ = relay.send_to(&buffer[..len], to);
        }
    });
    let out = place.out("udp");
    let arguments = [&share.ticket, "--from", &way, "-o", text(&out)];
    assert_exit(&get(&place.dir.path().join("other"), &arguments), 0);
    assert!(fs::read(&out).unwrap() == fs::read(&place.source).unwrap());
    let questions: Vec<Vec<u8>> = questions.try_iter().collect();
    assert!(questions.len() > 100, "{} datagrams of Interests", questions.len());
    // Keyword components (type 32) of the protocols between peers, docs/spec/peers.md.
    for word in ["peers", "fetched", "have", "find"] {
        let component = [&[32, word.len() as u8], word.as_bytes()].concat();
        let told = questions.iter().any(|q| q.windows(component.len()).any(|w| w == component));
        assert!(!told, "{word}");
    }
}

/// With `--post-quantum require` on either side, no link to a peer without ML-KEM-768 is made.
#[test]
fn a_hybrid_can_be_demanded_by_either_side() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(50_000, 4));
    let tried = |shared: &str, fetched: &str| {
        let store = dir.path().join(format!("store-{shared}"));
        let share = Share::with(&source, &store, &["--post-quantum", shared]);
        let out = dir.path().join(format!("out-{shared}-{fetched}"));
        let flags = ["--post-quantum", fetched, "--timeout", "3", "-o", text(&out)];
        let ran = get(&dir.path().join("other"), &[&[&share.ticket[..]], &flags[..]].concat());
        assert_exit(&ran, if out.exists() { 0 } else { 3 });
        out.exists()
    };
    assert!(tried("require", "offer") && tried("require", "require") && tried("offer", "require"));
    assert!(tried("never", "offer") && tried("never", "never"));
    assert!(!tried("never", "require"));
    assert!(!tried("require", "never"));
}

/// With cover traffic a link lasts equally long for every small file: four seconds at a steady rate, which is all that
/// an observer sees. The getter is informed, has the file before that, and may end the link.
#[test]
fn under_cover_links_of_small_fetches_last_as_long() {
    for level in ["high", "paranoid"] {
        for (bytes, ends) in [(1_000, false), (400_000, false), (400_000, true)] {
            let dir = tempfile::tempdir().unwrap();
            let content = noise(bytes, 3);
            let source = file(dir.path(), "source", &content);
            let share = Share::with(&source, &dir.path().join("a"), &["--shape", level]);
            let out = dir.path().join("out");
            let mut command = common::xylem(&dir.path().join("b"));
            command.args(["--json", "get", &share.ticket, "--shape", level, "-o"]).arg(&out);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let begun = Instant::now();
            let mut child = command.spawn().unwrap();
            let mut held = false;
            for line in BufReader::new(child.stdout.take().unwrap()).lines() {
                let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
                assert_ne!(event["event"], "offering", "others are served, which shows");
                if event["event"] == "holding" {
                    held = true;
                    assert!(fs::read(&out).unwrap() == content, "it is there by then");
                    if ends {
                        let pid = child.id().to_string();
                        assert!(
                            Command::new("kill").args(["-TERM", &pid]).status().unwrap().success()
                        );
                    }
                }
            }
            assert!(child.wait().unwrap().success());
            assert!(held, "{level}: nothing is said of it");
            assert!(ends || begun.elapsed() >= Duration::from_secs(4), "{level}, {bytes} bytes");
        }
    }
}
