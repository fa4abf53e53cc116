//! The repository of `xylem ndn node`: what signed commands insert stays when its producer and the node itself have gone,
//! within a quota, until a command removes it.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Node, PATIENCE, assert_exit, file, finish, listen_in, stderr, until, xylem};
use xylem_mgmt::{
    CommandScope, ControlParameters, ProcessId, RepoNotice, RepoParameters, RepoResponse, client,
};
use xylem_packet::{Component, DataBuilder, Interest, InterestBuilder, Name, Packet};
use xylem_trust::{Certificate, CommandStamp, Signer, ValidityPeriod, self_signed};

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn key(identity: &str, seed: u8) -> Signer {
    Signer::ed25519(&[seed; 32], name(&format!("{identity}/KEY/{seed}")))
}

/// A node with a repository /repo of so many bytes, in which the key 1 of /alice may insert.
fn start(dir: &Path, bytes: u64) -> Node {
    let validity = ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };
    let wire = self_signed(&key("/alice", 1), 1, validity).unwrap();
    assert!(Certificate::decode(&wire).is_ok());
    let anchor = file(dir, "alice.cert", &wire);
    let settings = format!(
        "[node]\n{}\n[node.repo]\nprefix = \"/repo\"\ndirectory = \"{}\"\nrepo_bytes = {bytes}\nanchors = [\"{}\"]\n",
        listen_in(dir),
        dir.join("repo").display(),
        anchor.display()
    );
    Node::with(dir, &settings)
}

/// A client of the repository on the node's Unix socket, and a producer of packets.
struct RepoUser {
    socket: UnixStream,
    received: Vec<u8>,
    packets: BTreeMap<Name, Vec<u8>>,
    counter: u8,
}

impl RepoUser {
    /// Connects, and registers the prefixes of the client and of its packets.
    fn new(dir: &Path) -> Self {
        let socket = UnixStream::connect(dir.join("node.sock")).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut user = Self { socket, received: Vec::new(), packets: BTreeMap::new(), counter: 0 };
        for prefix in ["/client", "/alice"] {
            let parameters =
                ControlParameters { name: Some(name(prefix)), ..ControlParameters::default() };
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            user.counter += 1;
            let stamp = CommandStamp::new([user.counter; 8], now.as_millis() as u64);
            let signer = Signer::digest_sha256();
            let command = client::command(
                CommandScope::Localhost,
                "rib",
                "register",
                &parameters,
                &signer,
                stamp,
                [1; 4],
            );
            user.ask(&command.unwrap()).expect("it registers");
        }
        user
    }

    /// The next packet from the node.
    fn next(&mut self) -> Option<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(Some(len)) = xylem_packet::frame_len(&self.received)
                && len <= self.received.len()
            {
                return Some(self.received.drain(..len).collect());
            }
            let mut piece = [0; 9_000];
            match self.socket.read(&mut piece) {
                Ok(0) => panic!("the node hung up"),
                Ok(len) => self.received.extend_from_slice(&piece[..len]),
                Err(_) if Instant::now() < deadline => return None,
                Err(e) => panic!("{e}"),
            }
        }
    }

    /// Sends an Interest, and answers the node's until there is Data for it; for four seconds at most.
    fn ask(&mut self, interest: &[u8]) -> Option<Vec<u8>> {
        let wanted = Interest::decode(interest).unwrap().name().to_name();
        self.socket.write_all(interest).unwrap();
        let deadline = Instant::now() + Duration::from_secs(4);
        while Instant::now() < deadline {
            let Some(frame) = self.next() else { continue };
            match Packet::decode(&frame) {
                Ok(Packet::Data(data)) if data.name() == wanted.as_ref() => {
                    return Some(data.content().to_vec());
                }
                Ok(Packet::Interest(interest)) => {
                    if let Some(packet) = self.packets.get(&interest.name().to_name()) {
                        self.socket.write_all(packet).unwrap();
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Publishes packets of `len` octets below this name.
    fn publish(&mut self, under: &str, count: u64, len: usize) {
        for n in 0..count {
            let name = name(under).child(Component::segment(n));
            let mut wire = Vec::new();
            let last = Component::segment(count - 1);
            let builder = DataBuilder::new(name.as_ref()).final_block_id(last);
            key("/alice", 1).data(builder, &vec![n as u8; len], &mut wire).unwrap();
            self.packets.insert(name, wire);
        }
    }

    /// Gives a command, and waits for its end. Returns its code and the number of packets; `None`: no answer.
    fn command(
        &mut self,
        verb: &str,
        of: &str,
        last: u64,
        signer: &Signer,
    ) -> Option<(u64, Option<u64>)> {
        self.counter += 1;
        let process = ProcessId::new(&[self.counter; 4]);
        let mut content = Vec::new();
        let parameters = RepoParameters {
            name: Some(name(of)),
            start_block: Some(0),
            end_block: Some(last),
            process: process.clone(),
            ..RepoParameters::default()
        };
        parameters.write_value(&mut content);
        let message = name(&format!("/client/msg/repo/{verb}"));
        let message = message.child(Component::generic(&[self.counter; 4]));
        let mut wire = Vec::new();
        signer.data(DataBuilder::new(message.as_ref()), &content, &mut wire).unwrap();
        self.packets.insert(message, wire);

        let mut parameters = Vec::new();
        let publisher = Some(name("/client"));
        let nonce = ProcessId::new(&[self.counter; 4]);
        RepoNotice { publisher, nonce, forwarding_hint: None }.write_value(&mut parameters);
        let mut notice = Vec::new();
        InterestBuilder::new(name(&format!("/repo/{verb}/notify")).as_ref())
            .encode_with_parameters(&mut notice, &parameters)
            .unwrap();
        self.ask(&notice)?;
        let mut parameters = Vec::new();
        RepoParameters { process, ..RepoParameters::default() }.write_value(&mut parameters);
        let check = name("/repo").child(Component::generic(format!("{verb} check").as_bytes()));
        let check = check.child(Component::generic(&parameters));
        for round in 0..200 {
            let mut wire = Vec::new();
            let builder = InterestBuilder::new(check.as_ref()).must_be_fresh(true);
            builder.nonce([self.counter, round, 7, 7]).encode(&mut wire).unwrap();
            let response = RepoResponse::from_value(&self.ask(&wire)?).unwrap();
            let code = response.status_code.unwrap();
            if code != 300 {
                return Some((code, response.insert_num.or(response.delete_num)));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the command never ends");
    }
}

/// What a program gets from the node by this name.
fn peeked(dir: &Path, of: &str) -> Option<Vec<u8>> {
    let mut command = xylem(&dir.join("peek"));
    let at = format!("unix://{}", dir.join("node.sock").display());
    command.args(["ndn", "peek", "--payload", "--lifetime", "1", "--at", &at, of]);
    let output = finish(command);
    output.status.success().then_some(output.stdout)
}

#[test]
fn inserted_packets_outlive_their_producer_and_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = start(dir, 1 << 20);
    let mut user = RepoUser::new(dir);
    user.publish("/alice/file", 30, 1_000);
    assert_eq!(user.command("insert", "/alice/file", 29, &key("/alice", 1)), Some((200, Some(30))));
    drop(user);
    assert_eq!(peeked(dir, "/alice/file/seg=7"), Some(vec![7; 1_000]));
    node.kill();
    let node = start(dir, 1 << 20);
    assert_eq!(peeked(dir, "/alice/file/seg=29"), Some(vec![29; 1_000]));

    let mut user = RepoUser::new(dir);
    assert_eq!(user.command("delete", "/alice/file", 9, &key("/alice", 1)), Some((200, Some(10))));
    assert_eq!(peeked(dir, "/alice/file/seg=9"), None);
    until("it reports the removal", || {
        node.told("repository").iter().any(|event| event["change"] == "removed")
    });
    node.kill();
    let node = start(dir, 1 << 20);
    assert_eq!(peeked(dir, "/alice/file/seg=9"), None);
    assert_eq!(peeked(dir, "/alice/file/seg=10"), Some(vec![10; 1_000]));
    drop(node);
}

#[test]
fn the_repository_stays_within_its_quota() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = start(dir, 65_536);
    let mut user = RepoUser::new(dir);
    user.publish("/alice/large", 100, 1_400);
    let (code, stored) = user.command("insert", "/alice/large", 99, &key("/alice", 1)).unwrap();
    assert_eq!(code, 400);
    assert!(stored.is_some_and(|stored| (30..=42).contains(&stored)), "{stored:?}");
    assert!(fs::metadata(dir.join("repo").join("packets.repo")).unwrap().len() <= 65_536);
    until("it reports the reason", || {
        let events = node.told("repository");
        events.iter().any(|event| event["failed"] == "the repository is full")
    });
    // Removed packets make room.
    let removed = user.command("delete", "/alice/large", 99, &key("/alice", 1));
    assert_eq!(removed.map(|it| it.0), Some(200));
    user.publish("/alice/small", 10, 1_400);
    assert_eq!(user.command("insert", "/alice/small", 9, &key("/alice", 1)), Some((200, Some(10))));
}

#[test]
fn keys_that_are_not_trusted_insert_and_remove_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let _node = start(dir, 1 << 20);
    let mut user = RepoUser::new(dir);
    user.publish("/alice/file", 3, 100);
    assert_eq!(user.command("insert", "/alice/file", 2, &key("/alice", 1)), Some((200, Some(3))));
    // Forged commands have no answer: the genuine one may still come.
    for (verb, stranger) in [("insert", key("/alice", 2)), ("delete", Signer::digest_sha256())] {
        assert_eq!(user.command(verb, "/alice/file", 2, &stranger), None, "{verb}");
    }
    assert_eq!(user.command("insert", "/bob/file", 2, &key("/alice", 1)), Some((403, None)));
    drop(user);
    assert_eq!(peeked(dir, "/alice/file/seg=2"), Some(vec![2; 100]));
}

#[test]
fn without_the_table_there_is_no_repository() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let _node = Node::start(dir, "");
    let mut user = RepoUser::new(dir);
    assert_eq!(user.command("insert", "/alice/file", 0, &key("/alice", 1)), None);
}

#[test]
fn a_repository_needs_anchors() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let run = |settings: &str| {
        let config = file(dir, "node.toml", settings.as_bytes());
        let mut command = xylem(&dir.join("store"));
        command.arg("--config").arg(config).args(["ndn", "node"]);
        let output = finish(command);
        assert_exit(&output, 2);
        stderr(&output)
    };
    let repo = "[node.repo]\nprefix = \"/repo\"\ndirectory = \"/nowhere\"\n";
    assert!(run(repo).contains("anchors"));
    assert!(run(&format!("{repo}anchors = []\n")).contains("anchors"));
    let small = format!("{repo}anchors = [\"x\"]\nrepo_bytes = 9\n");
    assert!(run(&small).contains("repo_bytes"));
}
