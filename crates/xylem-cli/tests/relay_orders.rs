//! Orders to a relay of the real program that runs: `xylem relay top`, `ban`, `unban` and `drain`.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use xylem_reach::relay::{ConnectTarget, RelayEvent, RelayRefusal};

use crate::common;
use crate::common::fetching::Get;
use crate::common::relaying::{Client, until};
use crate::common::{assert_exit, stderr, xylem};

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A relay, and its URI.
fn relay(dir: &Path, more: &[&str]) -> (Get, String) {
    let mut command = xylem(&dir.join("relay"));
    command.args(["--json", "relay", "--listen", "xylem://127.0.0.1:0"]).args(more);
    let relay = Get::of(command);
    let told = relay.event("relaying", |_| true);
    let uri = told["uris"][0].as_str().expect("an address").to_owned();
    (relay, uri)
}

/// The JSON lines that `xylem relay ARGS` prints, and its exit code.
fn order(dir: &Path, args: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = xylem(&dir.join("relay"));
    command.args(["--json", "relay"]).args(args);
    let output = common::finish(command);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    (output.status.code(), lines.collect())
}

fn hex(key: [u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn top_names_the_clients_that_use_a_relay() {
    let dir = tempfile::tempdir().unwrap();
    let (_relay, uri) = relay(dir.path(), &[]);
    let mut b = Client::new(&uri, LOOPBACK, 1, true, vec![]);
    until("registration", &mut [&mut b], |all| all[0].is_registered());
    let mut a = Client::new(&uri, LOOPBACK, 2, false, vec![]);
    let tag = a.connect(ConnectTarget::Key(b.key));
    until("connection", &mut [&mut a, &mut b], |all| {
        all[0].events.contains(&RelayEvent::Connected(tag))
    });
    let (mut load, began) = (Value::Null, Instant::now());
    while load["bytes_per_second"].as_u64() < Some(1_000) {
        assert!(began.elapsed() < Duration::from_secs(20), "{load}");
        for _ in 0..5 {
            a.send(tag, &[7; 1_000]);
            b.turn();
        }
        // The target answers, or the relay would forward no more.
        if let Some((back, _)) = b.received.last() {
            b.send(*back, b"answer");
        }
        let (code, mut lines) = order(dir.path(), &["top", "--once"]);
        assert_eq!((code, lines.len()), (Some(0), 1));
        load = lines.remove(0);
    }
    assert_eq!((&load["registrations"], &load["circuits"]), (&2.into(), &1.into()));
    let keys: Vec<&str> =
        load["clients"].as_array().unwrap().iter().filter_map(|one| one["key"].as_str()).collect();
    assert!(keys.contains(&&*hex(a.key)) && keys.contains(&&*hex(b.key)), "{load}");
    assert_eq!(load["sites"][0]["site"], "127.0.0.0/24");
    let mut command = xylem(&dir.path().join("relay"));
    command.args(["relay", "top", "--once"]);
    let output = common::finish(command);
    assert_exit(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("2 registrations, 1 pair, "), "{text}");
}

/// A banned client loses its registration at once and gets no new one, also from the relay after a restart.
#[test]
fn a_ban_holds_over_a_restart_until_it_is_lifted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut running, uri) = relay(dir.path(), &[]);
    let mut a = Client::new(&uri, LOOPBACK, 1, true, vec![]);
    until("registration", &mut [&mut a], |all| all[0].is_registered());
    let key = hex(a.key);
    let (code, lines) = order(dir.path(), &["ban", &key, "192.0.2.7/24"]);
    assert_eq!(code, Some(0));
    assert_eq!((&lines[0]["who"], &lines[0]["removed"]), (&Value::from(key.clone()), &1.into()));
    assert_eq!(lines[1]["who"], "192.0.2.0/24");
    let refused = |uri: &str| {
        let mut again = Client::new(uri, LOOPBACK, 1, true, vec![]);
        until("refusal", &mut [&mut again], |all| all[0].refused().is_some());
        assert_eq!(again.refused(), Some(RelayRefusal::Banned));
    };
    refused(&uri);
    let mut other = Client::new(&uri, LOOPBACK, 2, true, vec![]);
    until("registration", &mut [&mut other], |all| all[0].is_registered());

    running.kill();
    let (_running, uri) = relay(dir.path(), &[]);
    refused(&uri);
    let (_, lines) = order(dir.path(), &["ban"]);
    assert_eq!(lines[0]["bans"], serde_json::json!([key, "192.0.2.0/24"]));
    assert_eq!(order(dir.path(), &["unban", &key, "192.0.2.0/24"]).0, Some(0));
    let mut again = Client::new(&uri, LOOPBACK, 1, true, vec![]);
    until("registration", &mut [&mut again], |all| all[0].is_registered());
    assert_eq!(order(dir.path(), &["unban", &key]).0, Some(2));
}

/// A relay that drains keeps its pairs, takes no more, and ends by itself.
#[test]
fn a_relay_that_drains_keeps_its_pairs_and_then_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (mut running, uri) = relay(dir.path(), &[]);
    let mut b = Client::new(&uri, LOOPBACK, 1, true, vec![]);
    until("registration", &mut [&mut b], |all| all[0].is_registered());
    let mut a = Client::new(&uri, LOOPBACK, 2, false, vec![]);
    let tag = a.connect(ConnectTarget::Key(b.key));
    until("connection", &mut [&mut a, &mut b], |all| {
        all[0].events.contains(&RelayEvent::Connected(tag))
    });
    a.send(tag, b"before");
    until("datagram", &mut [&mut a, &mut b], |all| !all[1].received.is_empty());
    let (code, lines) = order(dir.path(), &["drain", "--within", "6"]);
    assert_eq!((code, &lines[0]["event"]), (Some(0), &"relay_draining".into()));
    let began = Instant::now();
    let mut late = Client::new(&uri, LOOPBACK, 3, true, vec![]);
    until("refusal", &mut [&mut late], |all| all[0].refused().is_some());
    assert_eq!(late.refused(), Some(RelayRefusal::Ending));
    let again = a.connect(ConnectTarget::Key(b.key));
    until("refusal", &mut [&mut a, &mut b], |all| {
        all[0].events.contains(&RelayEvent::Refused(Some(again), RelayRefusal::Ending))
    });
    let before = b.received.len();
    a.send(tag, b"still");
    until("datagram", &mut [&mut a, &mut b], |all| all[1].received.len() > before);
    // It notifies its clients at the end.
    until("notice", &mut [&mut a, &mut b], |all| {
        all.iter().all(|one| one.events.contains(&RelayEvent::Lost))
    });
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(running.wait(), Some(0));
    // Nobody takes orders any more.
    assert_eq!(order(dir.path(), &["top", "--once"]).0, Some(3));
}

/// The counts of `--metrics` are those of the moment, however rarely the relay reports.
#[test]
fn metrics_are_of_the_moment() {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("settings.toml");
    std::fs::write(&settings, "[node.relay]\nreport_seconds = 3600\n").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = settings.to_str().unwrap();
    let (_relay, uri) = relay(dir.path(), &["--metrics", &port.to_string(), "--config", settings]);
    let mut a = Client::new(&uri, LOOPBACK, 1, true, vec![]);
    until("registration", &mut [&mut a], |all| all[0].is_registered());
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    connection.read_to_string(&mut page).unwrap();
    assert!(page.contains("\nxylem_relay_registrations 1\n"), "{page}");
}

/// Orders are this user's alone, and one relay of a store takes them.
#[test]
fn orders_are_for_the_relay_and_its_user() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(order(dir.path(), &["top", "--once"]).0, Some(3), "no relay runs");
    let (_relay, _) = relay(dir.path(), &[]);
    let folder = dir.path().join("relay/service");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("relay.sock"))), (0o700, 0o600));
    let mut command = xylem(&dir.path().join("relay"));
    command.args(["relay", "ban", "relay.example.org"]);
    let output = common::finish(command);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("not a link key"), "{}", stderr(&output));
}
