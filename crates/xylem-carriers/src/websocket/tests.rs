//! Peers that never complete a message: bounds on how often their connection is read in a turn.

use super::*;

/// Reads after which a turn should long have ended.
const MANY: usize = 100_000;

/// A connection that repeats the same bytes for ever, after a configurable beginning.
struct Endless {
    begins: Vec<u8>,
    repeats: Vec<u8>,
    at: usize,
    written: Vec<u8>,
    /// Answers a client's request first.
    answers: bool,
    reads: usize,
}

impl Endless {
    fn new(begins: &[u8], repeats: &[u8]) -> Self {
        let (begins, repeats) = (begins.to_vec(), repeats.to_vec());
        Self { begins, repeats, at: 0, written: Vec::new(), answers: false, reads: 0 }
    }
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        assert!(self.reads < MANY, "the connection is read without an end");
        if self.answers {
            let asked = String::from_utf8_lossy(&self.written);
            let key = asked.split("Sec-WebSocket-Key: ").nth(1).and_then(|key| key.lines().next());
            let accept = derive_accept_key(key.expect("a key").as_bytes());
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            self.begins.splice(..0, head.into_bytes());
            self.answers = false;
        }
        for byte in &mut *into {
            let repeats = || self.repeats[(self.at - self.begins.len()) % self.repeats.len()];
            *byte = self.begins.get(self.at).copied().unwrap_or_else(repeats);
            self.at += 1;
        }
        Ok(into.len())
    }
}

impl Write for Endless {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An open socket at the client's end; its server sends these bytes.
fn of_client(begins: &[u8], repeats: &[u8]) -> CarrierWebSocket<Endless> {
    let server = Endless { answers: true, ..Endless::new(begins, repeats) };
    match ask(server, "h").expect("the answer is right") {
        WebSocketOpening::Open(socket) => socket,
        WebSocketOpening::Waits(_) => panic!("all of the answer has come"),
    }
}

/// An open socket at the server's end; its client sends these bytes, after its request.
fn of_server(begins: &[u8], repeats: &[u8]) -> CarrierWebSocket<Endless> {
    let request = "GET /socket HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let client = Endless::new(&[request.as_bytes(), begins].concat(), repeats);
    match Box::new(ServerOpening::new(client)).advance().expect("the request is right") {
        WebSocketOpening::Open(socket) => socket,
        WebSocketOpening::Waits(_) => panic!("all of the request has come"),
    }
}

/// Turns until the connection has ended; `None`: it is still open after `most`. No turn reads much.
fn turns(mut socket: CarrierWebSocket<Endless>, most: usize) -> Option<usize> {
    for turn in 0..most {
        let before = socket.pipe().at;
        let received = socket.receive(&mut |_| {});
        let read = socket.pipe().at - before;
        assert!(read <= TURN, "{read} bytes in a turn");
        match received {
            Ok(received) => assert!(received.more, "whoever has more to read is come back to"),
            Err(e) => {
                assert_eq!(e.kind(), io::ErrorKind::InvalidData, "{e}");
                return Some(turn);
            }
        }
    }
    None
}

#[test]
fn a_message_without_an_end_ends_the_connection() {
    // A text begins, and continues with empty frames: unmasked from a server, masked from a client.
    let server: (&[u8], &[u8]) = (&[0x01, 0], &[0, 0]);
    let client: (&[u8], &[u8]) = (&[0x01, 0x80, 1, 2, 3, 4], &[0, 0x80, 1, 2, 3, 4]);
    let most = MAX_UNFINISHED as usize / TURN + 2;
    assert!(turns(of_client(server.0, server.1), most).is_some());
    assert!(turns(of_server(client.0, client.1), most).is_some());
}

#[test]
fn endless_messages_are_taken_a_few_per_turn() {
    for repeats in [
        // Empty messages, pings, and a datagram in pieces, most of which are empty.
        &[0x82, 0][..],
        &[0x89, 0],
        &[0x02, 0, 0, 0, 0, 0, 0x80, 1, 7],
    ] {
        assert_eq!(turns(of_client(&[], repeats), 200), None, "{repeats:?}");
    }
}

#[test]
fn an_endless_opening_fails() {
    let asked = ask(Endless::new(b"HTTP/1.1 101 x\r\n", b"X: y\r\n"), "h");
    assert!(asked.is_err());
    let greeted =
        Box::new(ServerOpening::new(Endless::new(b"", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")));
    assert!(greeted.advance().is_err());
    assert!(
        Box::new(ServerOpening::new(Endless::new(b"GET / HTTP/1.1\r\n", b"X: y\r\n")))
            .advance()
            .is_err()
    );
}
