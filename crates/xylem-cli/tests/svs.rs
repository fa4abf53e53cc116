//! `xylem ndn svs` as its users run it: members at one node, which publish lines and print those of others.
#![cfg(unix)]

use crate::common::{Node, file, text, until, xylem};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A member that runs until it is dropped.
struct Svs {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    warned: Arc<Mutex<Vec<String>>>,
}

fn keep(from: impl std::io::Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let into = lines.clone();
    std::thread::spawn(move || {
        let read = BufReader::new(from).lines().map_while(Result::ok);
        read.for_each(|line| into.lock().unwrap().push(line));
    });
    lines
}

impl Svs {
    fn start(dir: &Path, at: &str, args: &[&str]) -> Self {
        let mut command = xylem(&dir.join("store"));
        command.args(["ndn", "svs", "/group", "--at", at]).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let said = keep(child.stdout.take().expect("piped"));
        let warned = keep(child.stderr.take().expect("piped"));
        let member = Self { child, said, warned };
        until("it has joined", || {
            let joined = |line: &String| line.contains("a member of") || line.contains("joined");
            member.warned.lock().unwrap().iter().any(joined)
                || member.said.lock().unwrap().iter().any(joined)
        });
        member
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for a line on standard output.
    fn hears(&self, line: &str) {
        until(line, || self.said.lock().unwrap().iter().any(|said| said == line));
    }

    fn heard(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }
}

impl Drop for Svs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn members_receive_what_others_publish() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    for version in ["3", "2", "1"] {
        let version = ["--sync-version", version];
        let member = |name: &str, scheme: &str| {
            Svs::start(dir, node.at(scheme), &[&["--as", name], &version[..]].concat())
        };
        let (mut alice, mut bob) = (member("/alice", "unix"), member("/bob", "tcp4"));
        alice.say("hello");
        bob.hears("/alice 1: hello");
        bob.say("hello to you");
        alice.hears("/bob 1: hello to you");
        for n in 2..=50 {
            alice.say(&format!("line {n}"));
        }
        bob.hears("/alice 50: line 50");
        let expected: Vec<String> = (2..=50).map(|n| format!("/alice {n}: line {n}")).collect();
        assert_eq!(bob.heard()[1..], expected, "in order, each once");
        // A late member learns the state and fetches all lines. It publishes nothing, and receives no Interest.
        let late = Svs::start(dir, node.at("unix"), &version);
        late.hears("/alice 50: line 50");
        late.hears("/bob 1: hello to you");
    }
}

#[test]
fn a_restarted_member_counts_as_a_new_life() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix");
    let listener = Svs::start(dir, at, &["--json"]);
    let lives = || {
        let mut boots = Vec::new();
        for line in listener.heard() {
            let event: serde_json::Value = serde_json::from_str(&line).unwrap();
            if event["event"] == "publication" {
                assert_eq!(event["number"], 1);
                boots.push(event["boot"].as_u64().unwrap());
            }
        }
        boots
    };
    for (n, line) in ["first", "second"].iter().enumerate() {
        let mut alice = Svs::start(dir, at, &["--as", "/alice"]);
        alice.say(line);
        until("it is heard", || lives().len() == n + 1);
    }
    let boots = lives();
    assert!(boots[1] > boots[0], "{boots:?}");
}

#[test]
fn only_members_with_the_groups_key_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix");
    let (ours, theirs) = (file(dir, "ours", b"a secret"), file(dir, "theirs", b"another"));
    let hmac = |path: &Path| format!("hmac:{}", text(path));
    let (ours, theirs) = (hmac(&ours), hmac(&theirs));
    let member = |name: &str, key: &str| {
        Svs::start(dir, at, &["--as", name, "--sign", key, "--key", key, "-v"])
    };
    let (mut alice, bob) = (member("/alice", &ours), member("/bob", &ours));
    let mut mallory = member("/mallory", &theirs);
    mallory.say("believe me");
    until("a vector is refused", || {
        let refused = |line: &String| line.contains("the signature is wrong");
        bob.warned.lock().unwrap().iter().any(refused)
    });
    alice.say("hello");
    bob.hears("/alice 1: hello");
    assert_eq!(bob.heard(), ["/alice 1: hello"]);
    assert!(mallory.heard().is_empty());
}

#[test]
fn an_interrupted_member_ends_well() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let mut alice = Svs::start(dir, node.at("unix"), &["--as", "/alice"]);
    // The end of standard input is not the end of the member: others fetch from it.
    alice.say("last words");
    drop(alice.child.stdin.take());
    let listener = Svs::start(dir, node.at("unix"), &[]);
    listener.hears("/alice 1: last words");
    let pid = alice.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(alice.child.wait().unwrap().code(), Some(0));
}
