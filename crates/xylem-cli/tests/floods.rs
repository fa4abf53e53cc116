//! Peers that send without end messages that never become whole. A library that reads until it has a whole message
//! would never return. The real program, with honest peers beside them.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::common::{Share, assert_exit, file, finish, get, noise, text, until, xylem};
use tungstenite::handshake::derive_accept_key;

/// A WebSocket text message that begins and goes on with empty fragments (RFC 6455): unmasked for a server's, masked
/// for a client's.
const OF_SERVER: (&[u8], &[u8]) = (&[0x01, 0], &[0, 0]);
const OF_CLIENT: (&[u8], &[u8]) = (&[0x01, 0x80, 1, 2, 3, 4], &[0, 0x80, 1, 2, 3, 4]);

/// Sends the message for as long as the socket accepts it, until `over`.
fn flood(mut to: &TcpStream, (begins, repeats): (&[u8], &[u8]), over: &AtomicBool) {
    let many = repeats.repeat(64 * 1024);
    let _ = to.write_all(begins);
    while !over.load(Relaxed) && to.write_all(&many).is_ok() {}
}

/// Opens a WebSocket at `at`; `None` if the server does not agree.
fn opened(at: &str, path: &str) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(at).ok()?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(&mut socket).read_line(&mut line).ok()?;
    line.starts_with("HTTP/1.1 101").then_some(socket)
}

/// Set when it is dropped, so that floods end with their test.
struct StopFlag(Arc<AtomicBool>);

impl Drop for StopFlag {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Two strangers that flood a WebSocket port, and dial again each time the server hangs up.
fn strangers(at: &str, path: &'static str) -> (StopFlag, Arc<AtomicUsize>) {
    let (over, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..2 {
        let (at, over, came) = (at.to_owned(), over.clone(), came.clone());
        thread::spawn(move || {
            while !over.load(Relaxed) {
                if let Some(socket) = opened(&at, path) {
                    came.fetch_add(1, Relaxed);
                    flood(&socket, OF_CLIENT, &over);
                }
            }
        });
    }
    (StopFlag(over), came)
}

#[test]
fn strangers_that_flood_a_share_s_web_sockets_hold_up_no_fetch() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(3_000_000, 1);
    let source = file(dir.path(), "source", &content);
    let more = ["--web-listen", "127.0.0.1:0", "--listen", "xylem+ws://127.0.0.1:0"];
    let share = Share::with(&source, &dir.path().join("store"), &more);
    let web = share.shared["web"][0].as_str().unwrap();
    let carrier = share.carriers[0].split_once("://").unwrap().1;
    for (i, (at, path)) in [(web, "/"), (carrier, "/socket")].into_iter().enumerate() {
        let (_over, came) = strangers(at, path);
        until("the strangers", || came.load(Relaxed) >= 2);
        let out = dir.path().join(format!("out{i}"));
        let store = dir.path().join(format!("getter{i}"));
        assert_exit(&get(&store, &[&share.ticket, "--timeout", "60", "-o", text(&out)]), 0);
        assert!(fs::read(&out).unwrap() == content);
        // The server hangs up on them, and they dial again.
        until("the end of a flood", || came.load(Relaxed) > 2);
    }
}

/// A WebSocket server that completes the handshake and then floods its client.
fn hostile() -> (StopFlag, u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (over, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (ends, counted) = (over.clone(), came.clone());
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let (over, came) = (ends.clone(), counted.clone());
            thread::spawn(move || {
                let mut head = BufReader::new(&socket);
                let mut key = None;
                for line in head.by_ref().lines().map_while(Result::ok) {
                    let value =
                        line.split_once(": ").filter(|(name, _)| *name == "Sec-WebSocket-Key");
                    key = key.or(value.map(|(_, value)| value.to_owned()));
                    if line.is_empty() {
                        break;
                    }
                }
                let accept = derive_accept_key(key.unwrap_or_default().as_bytes());
                let head = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Accept: {accept}\r\n\r\n"
                );
                let _ = (&socket).write_all(head.as_bytes());
                came.fetch_add(1, Relaxed);
                flood(&socket, OF_SERVER, &over);
            });
        }
    });
    (StopFlag(over), port, came)
}

#[test]
fn a_server_that_floods_its_dialer_holds_up_no_get() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 2);
    let source = file(dir.path(), "source", &content);
    // Its ticket has the name, which a plain server can be asked for.
    let share = Share::plain(&source, &dir.path().join("store"));
    let (ticket, link) = (share.ticket.clone(), format!("xylem://{}", share.link));
    let (_over, port, came) = hostile();
    let schemes = ["ws", "xylem+ws"];
    let command = |scheme: &str, what: &str, more: &[&str]| {
        let uri = format!("{scheme}://127.0.0.1:{port}");
        let mut command = xylem(&dir.path().join(format!("{scheme}-{what}")));
        let out = dir.path().join(format!("{scheme}-{what}.out"));
        command.args(["get", &ticket, "--from", &uri, "-o", text(&out)]).args(more);
        command.stdin(Stdio::null());
        command
    };
    // An honest peer beside it is used.
    for scheme in schemes {
        let both = command(scheme, "both", &["--from", &link, "--timeout", "60"]);
        assert_exit(&finish(both), 0);
        assert!(fs::read(dir.path().join(format!("{scheme}-both.out"))).unwrap() == content);
    }
    drop(share);
    for scheme in schemes {
        // From the hostile server alone nothing comes, and the time runs out.
        let before = came.load(Relaxed);
        assert_exit(&finish(command(scheme, "alone", &["--timeout", "3"])), 3);
        assert!(came.load(Relaxed) > before, "it was dialled");
        // A user can end the wait by a signal.
        let before = came.load(Relaxed);
        let mut stopped = command(scheme, "stopped", &[]);
        let mut child = stopped.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the dial", || came.load(Relaxed) > before);
        thread::sleep(Duration::from_millis(300));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let mut code = None;
        until("the end", || {
            code = child.try_wait().unwrap();
            code.is_some()
        });
        assert_eq!(code.and_then(|code| code.code()), Some(130));
    }
}
