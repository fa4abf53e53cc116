//! [`serve`]: a small HTTP/1.1 server for the pages of this program: metrics and `xylem ui`.
//!
//! It answers `GET` and `HEAD`, one request per connection, each on a thread of its own. [`xylem_carriers::http`]
//! parses the heads and refuses ambiguous ones. Clients that send slowly, read slowly or connect too often do not delay
//! the others: times and numbers of connections are bounded, also per address, and a connection without a request makes
//! room for a new one. The page decides on access, by `Host` and `Origin`.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use xylem_carriers::http::{HttpRefusal, MAX_HEAD, read_request};

/// Connections at once; further ones are closed.
const MAX_CONNECTIONS: usize = 128;
/// Connections at once from one address (IPv6: one /64).
const MAX_OF_ONE: usize = 32;
/// A client must send its request within this time.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// A connection is closed after this long if the client reads nothing.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// How long to wait for a client to notice a refusal while it sends more than a head.
const LINGER: Duration = Duration::from_secs(1);

/// A request.
#[derive(Debug)]
pub(crate) struct PageRequest {
    /// The part before the `?` as it was sent; percent signs are not decoded.
    pub(crate) path: String,
    /// The part after the `?`; empty without one.
    pub(crate) query: String,
    /// `Host`; empty if an HTTP/1.0 request has none.
    pub(crate) host: String,
    /// `Origin`, if a browser sends the origin of the page that makes the request.
    pub(crate) origin: Option<String>,
}

impl PageRequest {
    /// The value of a parameter of the query, as it was sent.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// A response.
pub(crate) struct Response {
    /// `200 OK`
    pub(crate) status: &'static str,
    /// `Content-Type`.
    pub(crate) kind: &'static str,
    /// Further fields of the head; each value is one line.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: HttpBody,
}

/// The body of a response.
pub(crate) enum HttpBody {
    Whole(Cow<'static, [u8]>),
    /// Written in pieces until the connection is closed, of this length if it is known. An error of the writer (the
    /// client is gone) ends it.
    Written(Option<u64>, Writer),
}

/// Writes a body.
pub(crate) type Writer = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()>>;

impl Response {
    /// `200 OK`
    pub(crate) fn ok(kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { status: "200 OK", kind, fields: Vec::new(), body: HttpBody::Whole(body.into()) }
    }

    /// A response with another status, and one line with the reason.
    pub(crate) fn refused(status: &'static str, why: &'static str) -> Self {
        let body = HttpBody::Whole(format!("{why}\n").into_bytes().into());
        Self { status, kind: "text/plain; charset=utf-8", fields: Vec::new(), body }
    }

    fn head(&self) -> String {
        let length = match &self.body {
            HttpBody::Whole(body) => Some(body.len() as u64),
            HttpBody::Written(length, _) => *length,
        };
        let mut head = format!("HTTP/1.1 {}\r\nContent-Type: {}\r\n", self.status, self.kind);
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(length) = length {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        head + "Connection: close\r\n\r\n"
    }
}

/// Accepts and answers connections as long as the process runs.
pub(crate) fn serve(
    listener: &TcpListener,
    answer: impl Fn(&PageRequest) -> Response + Send + Sync + 'static,
) {
    let (answer, open) = (Arc::new(answer), Arc::new(OpenConnections::default()));
    for connection in listener.incoming() {
        let Ok(connection) = connection else {
            // Most likely there are no file descriptors left; other connections will free some.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let Ok(from) = connection.peer_addr() else { continue };
        let connection = Arc::new(connection);
        let Some(counted) = ConnectionSlot::new(&open, from, &connection) else { continue };
        let answer = answer.clone();
        // If no thread can start, this connection is closed, like one too many.
        let _ = thread::Builder::new().name("http".into()).spawn(move || {
            // A client that has gone needs no answer.
            let _ = answer_one(&connection, &counted, &*answer);
            drop(counted);
        });
    }
}

/// Open connections, the oldest first.
#[derive(Default)]
struct OpenConnections {
    all: Mutex<Vec<OpenConnection>>,
    next: AtomicU64,
}

/// One open connection.
struct OpenConnection {
    number: u64,
    /// The client's address; for IPv6 its /64.
    from: IpAddr,
    /// Whether a whole request has arrived.
    has_asked: bool,
    connection: Arc<TcpStream>,
}

impl OpenConnections {
    fn all(&self) -> MutexGuard<'_, Vec<OpenConnection>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's entry among the open ones; removed on drop.
struct ConnectionSlot(Arc<OpenConnections>, u64);

impl ConnectionSlot {
    /// Adds a connection. If a limit is reached, closes the connection that has been without a request for the longest
    /// time; `None` if all have sent one. If all come from one address, as over loopback, idle ones would otherwise
    /// keep out all others.
    fn new(
        open: &Arc<OpenConnections>,
        from: SocketAddr,
        connection: &Arc<TcpStream>,
    ) -> Option<Self> {
        let from = match from.ip().to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => {
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64))
            }
            ip => ip,
        };
        let mut all = open.all();
        let many_of_one = all.iter().filter(|place| place.from == from).count() >= MAX_OF_ONE;
        if many_of_one || all.len() >= MAX_CONNECTIONS {
            let gives_way =
                |place: &OpenConnection| !place.has_asked && (!many_of_one || place.from == from);
            let idle = all.iter().position(gives_way)?;
            // The thread of that connection notices, and ends.
            let _ = all.remove(idle).connection.shutdown(Shutdown::Both);
        }
        let number = open.next.fetch_add(1, Ordering::Relaxed);
        all.push(OpenConnection { number, from, has_asked: false, connection: connection.clone() });
        Some(Self(open.clone(), number))
    }

    /// Marks that a request has arrived, so that this connection makes room for no other. False if it was closed
    /// already.
    fn has_asked(&self) -> bool {
        let mut all = self.0.all();
        let place = all.iter_mut().find(|place| place.number == self.1);
        place.is_some_and(|place| {
            place.has_asked = true;
            true
        })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.all().retain(|place| place.number != self.1);
    }
}

fn answer_one(
    mut connection: &TcpStream,
    counted: &ConnectionSlot,
    answer: &impl Fn(&PageRequest) -> Response,
) -> io::Result<()> {
    connection.set_write_timeout(Some(WRITE_TIME))?;
    connection.set_nodelay(true)?;
    let mut input = Vec::new();
    let head = read_head(connection, &mut input)?;
    if !counted.has_asked() {
        return Err(ErrorKind::ConnectionAborted.into());
    }
    let (response, head_only) = match head {
        Some((head, 0)) => match head.method.as_str() {
            "GET" | "HEAD" => {
                let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
                let (path, query) = (path.to_owned(), query.to_owned());
                let request = PageRequest { path, query, host: head.host, origin: head.origin };
                (answer(&request), head.method == "HEAD")
            }
            _ => return refuse(connection, HttpRefusal::NotAllowed),
        },
        Some(_) => return refuse(connection, HttpRefusal::NotAllowed),
        None => return refuse(connection, HttpRefusal::BadRequest),
    };
    connection.write_all(response.head().as_bytes())?;
    match response.body {
        _ if head_only => Ok(()),
        HttpBody::Whole(body) => connection.write_all(&body),
        HttpBody::Written(_, write) => write(&mut connection),
    }
}

/// Reads until the head is complete; returns it and how many bytes follow it. `None` if it is invalid.
fn read_head(
    mut connection: &TcpStream,
    input: &mut Vec<u8>,
) -> io::Result<Option<(xylem_carriers::http::RequestHead, usize)>> {
    let until = Instant::now() + HEAD_TIME;
    loop {
        match read_request(input) {
            Ok(Some((head, len))) => {
                let more = head.body_len.max(input.len() - len);
                return Ok(Some((head, more)));
            }
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        connection.set_read_timeout(Some(left))?;
        let mut piece = [0; 2048];
        // A head that is too long is refused before the buffer has grown far beyond the limit.
        debug_assert!(input.len() <= MAX_HEAD);
        match connection.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => input.extend_from_slice(&piece[..count]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Sends a refusal and waits a moment for the client to notice: closing with unread bytes would reset the connection
/// and lose the answer.
fn refuse(mut connection: &TcpStream, refusal: HttpRefusal) -> io::Result<()> {
    let mut out = bytes::BytesMut::new();
    refusal.write(false, false, &mut out);
    connection.write_all(&out)?;
    connection.shutdown(Shutdown::Write)?;
    connection.set_read_timeout(Some(LINGER))?;
    let until = Instant::now() + LINGER;
    let mut lost = [0; 4096];
    while Instant::now() < until && connection.read(&mut lost)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Starts a server of `answer` on a free port; it lasts as long as the test.
    fn served(answer: impl Fn(&PageRequest) -> Response + Send + Sync + 'static) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener, answer));
        at
    }

    fn ask(at: SocketAddr, text: &[u8]) -> String {
        let mut connection = TcpStream::connect(at).unwrap();
        connection.write_all(text).unwrap();
        let mut said = String::new();
        connection.read_to_string(&mut said).unwrap();
        said
    }

    fn echo(request: &PageRequest) -> Response {
        let PageRequest { path, query, host, origin } = request;
        let body = format!("{path} {query} {host} {origin:?}");
        let mut response = Response::ok("text/plain", body.into_bytes());
        response.fields.push(("Cache-Control", "no-store".to_owned()));
        response
    }

    #[test]
    fn a_request_is_parsed_and_answered() {
        let at = served(echo);
        let said = ask(at, b"GET /a?b=c&d=e HTTP/1.1\r\nHost: h:1\r\nOrigin: http://o\r\n\r\n");
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n\
             Content-Length: 31\r\nConnection: close"
        );
        assert_eq!(body, "/a b=c&d=e h:1 Some(\"http://o\")");
        let said = ask(at, b"HEAD / HTTP/1.0\r\n\r\n");
        assert!(said.contains("Content-Length: 8\r\n") && said.ends_with("\r\n\r\n"), "{said}");
    }

    #[test]
    fn requests_other_than_for_a_page_are_refused() {
        let at = served(echo);
        for (text, status) in [
            (&b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"[..], "405"),
            (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody", "405"),
            (b"GET / HTTP/1.1\r\n\r\n", "400"),
            (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
            (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400"),
            (&[b'a'; 3 * MAX_HEAD], "400"),
        ] {
            let said = ask(at, text);
            assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        }
    }

    #[test]
    fn parameters() {
        let query = "a=1&token=x=y&token=z&b".to_owned();
        let (path, host) = (String::new(), String::new());
        let request = PageRequest { path, query, host, origin: None };
        assert_eq!(request.parameter("token"), Some("x=y"));
        assert_eq!((request.parameter("b"), request.parameter("c")), (None, None));
    }

    #[test]
    fn a_streamed_body_arrives_without_a_length() {
        let at = served(|_| {
            let body = HttpBody::Written(
                None,
                Box::new(|out| {
                    (0..3).try_for_each(|_| out.write_all(b"bit\n").and_then(|()| out.flush()))
                }),
            );
            Response { status: "200 OK", kind: "text/event-stream", fields: Vec::new(), body }
        });
        let said = ask(at, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(said.ends_with("close\r\n\r\nbit\nbit\nbit\n"), "{said}");
        assert!(!said.contains("Content-Length"), "{said}");
    }

    /// Clients that send no whole request, and clients that never read the answer.
    #[test]
    fn idle_and_stalled_clients_block_no_others() {
        let at = served(|request| {
            let endless = |out: &mut dyn Write| loop {
                out.write_all(&[b'x'; 65536])?;
            };
            match request.path.as_str() {
                "/endless" => Response {
                    status: "200 OK",
                    kind: "text/plain",
                    fields: Vec::new(),
                    body: HttpBody::Written(None, Box::new(endless)),
                },
                _ => echo(request),
            }
        });
        let asks = |text: &'static [u8]| {
            let mut connection = TcpStream::connect(at).unwrap();
            connection.write_all(text).unwrap();
            connection
        };
        let _idle: Vec<TcpStream> = (0..8).map(|_| asks(b"GET / HT")).collect();
        let deaf = b"GET /endless HTTP/1.1\r\nHost: h\r\n\r\n";
        let _deaf: Vec<TcpStream> = (0..8).map(|_| asks(deaf)).collect();
        assert!(ask(at, b"GET /b HTTP/1.0\r\n\r\n").ends_with("/b   None"));
    }

    /// More idle connections than one address may have: a request on a new connection is answered.
    #[test]
    fn idle_connections_make_room_for_new_ones() {
        let at = served(echo);
        let idle: Vec<TcpStream> =
            (0..2 * MAX_OF_ONE).map(|_| TcpStream::connect(at).unwrap()).collect();
        for _ in 0..3 {
            assert!(ask(at, b"GET /b HTTP/1.0\r\n\r\n").ends_with("/b   None"));
        }
        drop(idle);
    }

    #[test]
    fn connections_are_counted_by_address() {
        let open = Arc::new(OpenConnections::default());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let connection = Arc::new(connection);
        let of = |text: &str| {
            let counted = ConnectionSlot::new(&open, text.parse().unwrap(), &connection);
            counted.filter(|counted| counted.has_asked())
        };
        let held: Vec<_> = (0..MAX_OF_ONE).map(|_| of("[2001:db8::1]:7").unwrap()).collect();
        assert!(of("[2001:db8::2]:7").is_none(), "the same /64");
        let mapped = of("[::ffff:192.0.2.1]:7").unwrap();
        let from = open.all().last().map(|place| place.from);
        assert_eq!(from, Some(IpAddr::from([192, 0, 2, 1])));
        drop(held);
        drop(mapped);
        assert!(of("[2001:db8::2]:7").is_some());
        assert!(open.all().is_empty(), "nothing is kept of who is gone");
        let of_many = |i: usize| of(&format!("192.0.2.{}:7", i / MAX_OF_ONE));
        let held: Vec<_> = (0..MAX_CONNECTIONS).map(|i| of_many(i).unwrap()).collect();
        assert!(of("198.51.100.1:7").is_none());
        drop(held);
    }
}
