//! `share --web`: what its port serves to which clients. The page itself is tested in browsers by
//! crates/xylem-web/check-browser.py.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::common;
use crate::common::{Share, file, noise};
use xylem_object::{Ticket, pass};

fn share(dir: &Path, more: &[&str]) -> Share {
    let source = file(dir, "source", &noise(100_000, 1));
    Share::with(&source, &dir.join("store"), more)
}

fn at(share: &Share) -> String {
    share.shared["web"][0].as_str().expect("an address").to_owned()
}

/// Sends these bytes; returns the answer until its end, or the head of a WebSocket.
fn ask(at: &str, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(at).unwrap();
    // The server may hang up early on a client that it refuses.
    let _ = socket.write_all(bytes);
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = socket.read(&mut piece) {
        answer.extend_from_slice(&piece[..n]);
        if answer.starts_with(b"HTTP/1.1 101") && answer.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(at: &str, method: &str, path: &str, more: &str) -> String {
    ask(at, format!("{method} {path} HTTP/1.1\r\nHost: {at}\r\n{more}\r\n").as_bytes())
}

/// The HTTP status for a request to open a WebSocket there, as a page of `origin`.
fn opens(at: &str, path: &str, origin: Option<&str>) -> String {
    let origin = origin.map(|o| format!("Origin: {o}\r\n")).unwrap_or_default();
    let more = format!(
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{origin}"
    );
    let answer = get(at, "GET", path, &more);
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn pages_have_security_headers() {
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path(), &["--web-listen", "127.0.0.1:0"]);
    let at = at(&share);
    let scripts = ["/page.js", "/worker.js", "/engine.js", "/xylem.wasm"];
    for path in ["/", "/style.css", "/icon.svg"].into_iter().chain(scripts) {
        let answer = get(&at, "GET", path, "");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer:.80}");
        let head = answer.split("\r\n\r\n").next().unwrap();
        let policy = head.lines().find(|l| l.starts_with("Content-Security-Policy: ")).unwrap();
        assert!(policy.contains("default-src 'none'; script-src 'self' 'wasm-unsafe-eval';"));
        assert!(!policy.contains("unsafe-inline") && policy.contains("frame-ancestors 'none'"));
        assert!(head.contains("X-Content-Type-Options: nosniff"));
        assert!(head.contains("Referrer-Policy: no-referrer"));
        let alone = get(&at, "HEAD", path, "");
        assert_eq!(alone, format!("{head}\r\n\r\n"), "{path}");
    }
    assert!(get(&at, "GET", "/?x=1", "").contains("<!doctype html>"));
}

#[test]
fn a_wrong_path_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path(), &["--web-listen", "127.0.0.1:0"]);
    let at = at(&share);
    let status = |answer: String| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    for path in ["/nope", "/../etc/passwd", "/carried/page.js", "/%2e%2e/"] {
        assert_eq!(status(get(&at, "GET", path, "")), "404", "{path}");
    }
    assert_eq!(status(get(&at, "POST", "/", "Content-Length: 0\r\n")), "405");
    assert_eq!(status(ask(&at, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")), "400");
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(20_000));
    assert_eq!(status(ask(&at, long.as_bytes())), "400");
    // Clients that send nothing, or half a request, do not affect others.
    let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&at).unwrap()).collect();
    let mut half = TcpStream::connect(&at).unwrap();
    half.write_all(b"GET / HT").unwrap();
    assert!(get(&at, "GET", "/", "").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_page_from_elsewhere_needs_the_ticket() {
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path(), &["--web-listen", "127.0.0.1:0"]);
    let at = at(&share);
    let ticket: Ticket = share.ticket.parse().unwrap();
    let own = format!("/{}", pass::from_ticket(&ticket));
    let other = format!("/{}", "0".repeat(pass::LEN));
    let here = format!("http://{at}");
    for origin in [here.as_str(), "http://example.org", "null"] {
        assert_eq!(opens(&at, "/", Some(origin)), "403", "{origin}");
        assert_eq!(opens(&at, &other, Some(origin)), "404", "{origin}");
        assert_eq!(opens(&at, &own, Some(origin)), "101", "{origin}");
    }
    // A program that is no browser sends no origin.
    assert_eq!(opens(&at, "/", None), "101");
    assert_eq!(opens(&at, "/style.css", None), "404");
    // The page tells a wrong ticket from a stopped sharer by this request.
    assert!(get(&at, "HEAD", &own, "").starts_with("HTTP/1.1 200"));
    assert!(get(&at, "HEAD", &other, "").starts_with("HTTP/1.1 404"));
}

#[test]
fn browsers_are_served_where_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let without = share(dir.path(), &[]);
    assert_eq!(without.shared["web"], serde_json::json!([]));
    let ticket: Ticket = without.ticket.parse().unwrap();
    assert_eq!(ticket.name, None);
    drop(without);
    let with = share(dir.path(), &["--web-listen", "127.0.0.1:0"]);
    let ticket: Ticket = with.ticket.parse().unwrap();
    assert!(ticket.name.is_some(), "a page asks by name");
    // Getters over the encrypted link are served as well.
    let out = dir.path().join("out");
    let output = common::get(&dir.path().join("other"), &[&with.ticket, "-o", common::text(&out)]);
    common::assert_exit(&output, 0);
    assert!(std::fs::read(&out).unwrap() == noise(100_000, 1));
}

/// Getters at the page's port are reported like all others: the beginning, what was sent, the end.
#[test]
fn fetches_over_the_web_port_are_reported_to_the_sharer() {
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path(), &["--web-listen", "127.0.0.1:0"]);
    let from = format!("ws://{}", at(&share));
    let out = dir.path().join("out");
    let arguments = [&share.ticket, "--from", &from, "-o", common::text(&out)];
    common::assert_exit(&common::get(&dir.path().join("other"), &arguments), 0);
    let last = || share.told("getter").into_iter().rfind(|event| event["state"] == "ended");
    common::until("the end of the fetch", || last().is_some());
    let ended = last().unwrap();
    let began = &share.told("getter")[0];
    assert_eq!((&began["state"], &began["number"]), (&"began".into(), &ended["number"]));
    // Only encrypted links and the page report that all of it is there.
    assert_eq!((&ended["way"], &ended["complete"]), (&"web".into(), &false.into()), "{ended}");
    assert!(ended["peer"].as_str().unwrap().starts_with("wsclient://127.0.0.1:"), "{ended}");
    assert!(ended["sent"].as_u64().unwrap() > 100_000 && ended["bytes"] == 100_000, "{ended}");
    assert_eq!(began["name"], share.shared["name"]);
}
