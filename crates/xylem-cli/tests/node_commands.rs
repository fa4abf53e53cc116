//! Signed commands that an attacker recorded, and replays to a `xylem ndn node` that was restarted.
#![cfg(unix)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::Node;
use xylem_mgmt::{CommandScope, ControlParameters, client};
use xylem_packet::{Data, Interest, Name};
use xylem_trust::{CommandStamp, Signer};

fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

/// `rib/register` of a prefix, signed at this time. `nonce` is the Interest's. The signature does not cover it, so a
/// replay changes it, and no forwarder takes it for a loop.
fn register(prefix: &str, stamp: u8, time_ms: u64, nonce: u8) -> Vec<u8> {
    let name = Name::from_uri(prefix).unwrap();
    let parameters = ControlParameters { name: Some(name.clone()), ..Default::default() };
    // A key for each clock: a node keeps the newest time of each key.
    let signer = Signer::ed25519(&[1; 32], name);
    let stamp = CommandStamp::new([stamp; 8], time_ms);
    client::command(
        CommandScope::Localhost,
        "rib",
        "register",
        &parameters,
        &signer,
        stamp,
        [nonce; 4],
    )
    .unwrap()
}

/// The node's answer to a command.
fn answer(dir: &Path, command: &[u8]) -> u64 {
    let mut socket = UnixStream::connect(dir.join("node.sock")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(command).unwrap();
    let mut received = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let n = socket.read(&mut piece).expect("the node answers");
        assert!(n > 0, "the node hung up");
        received.extend_from_slice(&piece[..n]);
        if let Ok(data) = Data::decode(&received) {
            let command = Interest::decode(command).unwrap();
            return client::response(&command, &data).unwrap().code;
        }
    }
}

/// After the node was killed and restarted, a replayed command works neither if its signer's clock was right nor if it
/// was a minute ahead. New commands work at once.
#[test]
fn a_recorded_command_is_refused_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let now = now_ms();
    let recorded =
        |nonce| [register("/right", 1, now, nonce), register("/ahead", 2, now + 60_000, nonce)];
    for command in recorded(1) {
        assert_eq!(answer(dir, &command), 200);
    }
    node.kill();
    let _node = Node::start(dir, "");
    for command in recorded(2) {
        assert_eq!(answer(dir, &command), 403, "recorded before the restart");
    }
    assert_eq!(answer(dir, &register("/right", 3, now_ms(), 3)), 200);
    assert_eq!(answer(dir, &register("/ahead", 4, now_ms() + 62_000, 4)), 200);
}
