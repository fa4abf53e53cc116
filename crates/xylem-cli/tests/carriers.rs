//! The encrypted link within TLS, WebSocket and DNS over HTTPS, between processes. A share is fetched through each
//! carrier; a connection that carries no link costs itself and nothing else.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::common::{Node, Share, assert_exit, file, get, noise, stderr, text, until};
use xylem_node::Carrier;

/// The schemes of all carriers.
fn schemes() -> [&'static str; Carrier::ALL.len()] {
    Carrier::ALL.map(Carrier::scheme)
}

fn share(source: &Path, store: &Path) -> Share {
    share_with(source, store, &[])
}

fn share_with(source: &Path, store: &Path, more: &[&str]) -> Share {
    let places = schemes().map(|scheme| format!("--listen={scheme}://127.0.0.1:0"));
    Share::with(source, store, &[&places.each_ref().map(String::as_str)[..], more].concat())
}

/// `HOST:PORT` of a face URI.
fn authority(uri: &str) -> &str {
    uri.split_once("://").expect("a URI").1
}

#[test]
fn a_share_is_fetched_through_every_carrier() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(20_000_000, 1);
    let source = file(dir.path(), "source", &content);
    let share = share(&source, &dir.path().join("store"));
    assert_eq!(share.carriers.len(), schemes().len());
    for (scheme, uri) in schemes().iter().zip(&share.carriers) {
        assert!(uri.starts_with(&format!("{scheme}://127.0.0.1:")), "{uri}");
        let out = dir.path().join(format!("{scheme}.out"));
        let store = dir.path().join(scheme);
        let output = get(&store, &[&share.ticket, "--from", uri, "-o", text(&out)]);
        assert_exit(&output, 0);
        assert!(fs::read(&out).unwrap() == content, "{scheme}");
    }
    // By a host's name, and under another name.
    for more in ["", "?sni=www.example.org"] {
        let uri = share.carriers[0].replace("127.0.0.1", "localhost") + more;
        let out = dir.path().join(format!("named{}", more.len()));
        let store = dir.path().join(format!("store{}", more.len()));
        assert_exit(&get(&store, &[&share.ticket, "--from", &uri, "-o", text(&out)]), 0);
    }
}

#[test]
fn only_the_key_of_the_ticket_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(100_000, 2));
    for open in [false, true] {
        let more: &[&str] = if open { &["--accept-open"] } else { &[] };
        let share = share_with(&source, &dir.path().join("store"), more);
        for uri in &share.carriers {
            let uri = uri.replace("://", &format!("://{}@", "07".repeat(32)));
            let store = dir.path().join("other");
            let arguments = [&share.ticket, "--from", &uri, "--timeout", "3", "--ask-who-answers"];
            let output = get(&store, &arguments);
            assert_exit(&output, 3);
            // Only a responder that answers strangers reports that another key is there.
            let told = stderr(&output).contains("the peer's key is not the one that was dialled");
            assert_eq!(told, open, "{uri}: {}", stderr(&output));
        }
    }
}

#[test]
fn nodes_reach_each_other_through_carriers_and_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(1_000_000, 3);
    let source = file(dir.path(), "source", &content);
    let plain = Share::plain(&source, &dir.path().join("store"));
    let route = |to: &str| format!("[[node.route]]\nprefix = \"/\"\nto = \"{to}\"");
    let inner_dir = dir.path().join("inner");
    fs::create_dir_all(&inner_dir).unwrap();
    let upstream = route(&format!("tcp4://{}", plain.plain.clone().unwrap()));
    let inner = |places: &[String]| {
        let listen: Vec<String> = places.iter().map(|uri| format!("\"{uri}\"")).collect();
        Node::with(&inner_dir, &format!("[node]\nlisten = [{}]\n{upstream}\n", listen.join(", ")))
    };
    let first = inner(&schemes().map(|scheme| format!("{scheme}://127.0.0.1:0")));
    let places = first.listens.clone();
    let outer: Vec<(&str, Node)> = schemes()
        .iter()
        .map(|scheme| {
            let at = dir.path().join(format!("outer-{scheme}"));
            fs::create_dir_all(&at).unwrap();
            (*scheme, Node::start(&at, &route(first.at(scheme))))
        })
        .collect();
    let fetch = |node: &Node, name: &str| {
        let out = dir.path().join(name);
        let store = dir.path().join(format!("{name}-store"));
        let output = get(&store, &[&plain.ticket, "--from", node.at("unix"), "-o", text(&out)]);
        output.status.success() && fs::read(&out).unwrap() == content
    };
    for (scheme, node) in &outer {
        assert!(fetch(node, scheme), "{scheme}");
    }
    first.kill();
    let _second = inner(&places);
    for (scheme, node) in &outer {
        let mut tries = 0;
        until("a fetch after the restart", || {
            tries += 1;
            fetch(node, &format!("{scheme}-again{tries}"))
        });
    }
}

/// Connections that a process has open.
fn open(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Bytes of memory that a process has in use.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux tells it");
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn answer(to: &str, request: &[u8]) -> String {
    let mut socket = TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = socket.write_all(request);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn a_connection_without_a_link_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(200_000, 4);
    let source = file(dir.path(), "source", &content);
    let share = share(&source, &dir.path().join("store"));
    let before = open(share.pid());
    let web_socket = authority(&share.carriers[1]);
    for (request, says) in [
        ("GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 404 "),
        ("GET /socket HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 "),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 400 "),
        ("nonsense\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let said = answer(web_socket, request.as_bytes());
        assert!(said.starts_with(says), "{request:?} got {said:?}");
    }
    // Garbage, half a greeting, a greeting that is not TLS, a head without an end, no bytes at all.
    let noise_bytes = noise(300_000, 5);
    let client_hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let head = b"GET /socket HTTP/1.1\r\nHost: h\r\nX: ";
    let mut held = Vec::new();
    for uri in &share.carriers {
        for bytes in [&noise_bytes[..], client_hello, b"GET / HTTP/1.1\r\n", head, b""] {
            for half_closed in [false, true] {
                let mut socket = TcpStream::connect(authority(uri)).unwrap();
                let _ = socket.write_all(bytes);
                if half_closed {
                    let _ = socket.shutdown(std::net::Shutdown::Write);
                }
                held.push(socket);
            }
        }
    }
    // More connections from one host than it may have.
    for _ in 0..200 {
        held.push(TcpStream::connect(authority(&share.carriers[0])).unwrap());
    }
    assert!(memory(share.pid()) < 200 << 20, "{}", memory(share.pid()));
    // The share closes these connections; the test never does.
    until("the end of all that came to nothing", || open(share.pid()) <= before);
    let out = dir.path().join("out");
    let from = share.carriers[0].as_str();
    let output = get(&dir.path().join("s"), &[&share.ticket, "--from", from, "-o", text(&out)]);
    assert_exit(&output, 0);
    assert!(fs::read(&out).unwrap() == content);
    drop(held);
}
