//! `carriers`: wrapping a datagram for each carrier, and unwrapping it at the other end, in memory.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};

use bytes::{Buf, Bytes, BytesMut};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{ClientConnection, ServerConnection};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};
use xylem_carriers::{dns, framing, http, tls};

use super::rows::{OURS, PLAIN, compared, heading};
use crate::Error;
use crate::input;
use crate::race::{Answer, Contender};
use crate::series::Series;

/// Datagram sizes: small, that of a usual path, a jumbo frame, and the usual one over a carrier.
const SIZES: [usize; 4] = [128, 1_200, 8_952, 32_768];
const DONE: Answer = [1; 32];

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "carriers",
        "datagrams in TCP carriers",
        "operation",
        &[
            "Beside the link's own sealing, which is the same as over UDP. TLS 1.3 is rustls with \
             AES-256-GCM, and the plain library ring's AEAD alone; of WebSocket, tungstenite, and \
             of DNS over HTTPS, a copy of the bytes.",
            "There and back: wrapped by one end and unwrapped by the other. A client's WebSocket \
             frames are masked, a server's are not.",
            "The document names these operations and gives no figures.",
        ],
    ))?;
    for size in SIZES {
        let datagram = input::bytes(size);
        through_tls(series, &datagram)?;
        through_web_socket(series, &datagram)?;
        through_dns(series, &datagram)?;
    }
    Ok(())
}

fn label(what: &str, datagram: &[u8]) -> String {
    format!("{what} {}", input::size(datagram.len()))
}

/// A session's two ends, the handshake done.
struct Session {
    client: ClientConnection,
    server: ServerConnection,
    records: Vec<u8>,
    plain: BytesMut,
}

impl Session {
    fn new() -> Self {
        let made = || -> io::Result<Self> {
            let name = tls::server_name(None, IpAddr::V4(Ipv4Addr::LOCALHOST))?;
            let client = ClientConnection::new(tls::client()?, name).map_err(io::Error::other)?;
            let server = ServerConnection::new(tls::server(None)?).map_err(io::Error::other)?;
            let (records, plain) = (Vec::new(), BytesMut::new());
            let mut made = Self { client, server, records, plain };
            while made.client.is_handshaking() || made.server.is_handshaking() {
                made.client.write_tls(&mut made.records)?;
                made.up()?;
                made.server.write_tls(&mut made.records)?;
                let mut records = &made.records[..];
                while !records.is_empty() {
                    made.client.read_tls(&mut records)?;
                    made.client.process_new_packets().map_err(io::Error::other)?;
                }
                made.records.clear();
            }
            Ok(made)
        };
        made().expect("both ends are ours and nothing is lost between them")
    }

    /// Carries the records to the server.
    fn up(&mut self) -> io::Result<()> {
        let mut records = &self.records[..];
        while !records.is_empty() {
            self.server.read_tls(&mut records)?;
            self.server.process_new_packets().map_err(io::Error::other)?;
            let held = self.plain.len();
            self.plain.resize(held + 64 * 1024, 0);
            let read = self.server.reader().read(&mut self.plain[held..]).unwrap_or(0);
            self.plain.truncate(held + read);
        }
        self.records.clear();
        Ok(())
    }

    fn there_and_back(&mut self, datagram: &[u8]) -> Answer {
        let mut framed = BytesMut::new();
        framing::wrap(datagram, &mut framed);
        let wrote = self.client.writer().write_all(&framed);
        wrote.expect("a datagram is below the session's limit");
        while self.client.wants_write() {
            self.client.write_tls(&mut self.records).expect("memory takes all");
        }
        self.up().expect("what the client sealed is in order");
        let found = framing::unwrap(&mut self.plain).expect("what was wrapped");
        assert!(black_box(found).is_some_and(|found| found.len() == datagram.len()));
        DONE
    }
}

fn through_tls<E>(series: &mut Series<'_, E>, datagram: &[u8]) -> Result<(), Error<E>> {
    let mut session = Session::new();
    let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).map(LessSafeKey::new).expect("32 bytes");
    let nonce = || Nonce::assume_unique_for_key([3; 12]);
    let mut sealed = vec![0; datagram.len() + 16];
    let mut contenders = [
        Contender::new(OURS, "through", || session.there_and_back(black_box(datagram))),
        Contender::new(PLAIN, "through", || {
            let (bytes, tag) = sealed.split_at_mut(datagram.len());
            bytes.copy_from_slice(datagram);
            let made = key.seal_in_place_separate_tag(nonce(), Aad::empty(), bytes);
            tag.copy_from_slice(made.expect("not longer than the AEAD takes").as_ref());
            let opened = key.open_in_place(nonce(), Aad::empty(), &mut sealed);
            black_box(opened.expect("sealed with this key").len());
            DONE
        }),
    ];
    let compare = compared(None);
    series.row(
        label("TLS there and back", datagram),
        datagram.len(),
        &mut contenders,
        &compare,
        vec![],
    )
}

/// Bytes that one end has written and the other reads.
#[derive(Default)]
struct Wire(BytesMut);

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = into.len().min(self.0.len());
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0.copy_to_slice(&mut into[..len]);
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn through_web_socket<E>(series: &mut Series<'_, E>, datagram: &[u8]) -> Result<(), Error<E>> {
    for (what, from, to) in [
        ("WebSocket to the server", Role::Client, Role::Server),
        ("WebSocket to the client", Role::Server, Role::Client),
    ] {
        let end = |role| {
            let settings = WebSocketConfig::default().read_buffer_size(64 * 1024);
            WebSocket::from_raw_socket(Wire::default(), role, Some(settings))
        };
        let (mut sender, mut receiver) = (end(from), end(to));
        let mut copy = vec![0; datagram.len()];
        let mut contenders = [
            Contender::new(OURS, "through", || {
                let message = Message::Binary(Bytes::copy_from_slice(black_box(datagram)));
                sender.send(message).expect("memory takes all");
                std::mem::swap(sender.get_mut(), receiver.get_mut());
                let found = receiver.read().expect("a whole message");
                assert!(black_box(found).len() == datagram.len());
                DONE
            }),
            Contender::new(PLAIN, "through", || {
                black_box(&mut copy).copy_from_slice(black_box(datagram));
                DONE
            }),
        ];
        let compare = compared(None);
        series.row(label(what, datagram), datagram.len(), &mut contenders, &compare, vec![])?;
    }
    Ok(())
}

fn through_dns<E>(series: &mut Series<'_, E>, datagram: &[u8]) -> Result<(), Error<E>> {
    let mut out = BytesMut::new();
    let mut copy = vec![0; datagram.len()];
    let mut contenders = [
        Contender::new(OURS, "query", || {
            let mut options = BytesMut::new();
            dns::add_option(&mut options, black_box(datagram));
            out.clear();
            http::write_query_head("dns.example", dns::message_len(&options), &mut out);
            dns::query(&options, &mut out);
            black_box(&out);
            DONE
        }),
        Contender::new(PLAIN, "query", || {
            black_box(&mut copy).copy_from_slice(black_box(datagram));
            DONE
        }),
    ];
    let compare = compared(None);
    let name = label("DNS over HTTPS query", datagram);
    series.row(name, datagram.len(), &mut contenders, &compare, vec![])?;

    let (mut options, mut answer) = (BytesMut::new(), BytesMut::new());
    dns::add_option(&mut options, datagram);
    http::write_answer_head(dns::message_len(&options), &mut answer);
    dns::answer(0, &options, &mut answer);
    let mut copy = vec![0; datagram.len()];
    let mut contenders = [
        Contender::new(OURS, "answer", || {
            let mut input = BytesMut::from(black_box(&answer[..]));
            let head = http::read_answer(&input).expect("is well formed").expect("is whole");
            input.advance(head.1);
            let options = dns::read_answer(&input).expect("is well formed");
            dns::datagrams(input, options, &mut |found| drop(black_box(found)));
            DONE
        }),
        Contender::new(PLAIN, "answer", || {
            black_box(&mut copy).copy_from_slice(black_box(datagram));
            DONE
        }),
    ];
    let name = label("DNS over HTTPS answer", datagram);
    series.row(name, datagram.len(), &mut contenders, &compare, vec![])
}
