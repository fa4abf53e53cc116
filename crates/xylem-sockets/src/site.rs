//! [`Site`]: a few web pages, and a WebSocket for pages that have a ticket, on one port.
//!
//! A [`SiteConnection`] is one connection. [`xylem_carriers::http`] reads a request's head; the answer is a page, or the
//! connection becomes a WebSocket. There is one request a connection. A slow request is given up with other connections
//! that do not come up. The answer's head restricts the browser: no script, style or picture but the site's own, no
//! frame around it.
//!
//! A browser reports which page opens a WebSocket (`Origin`). Such a page has to ask for a pass that the site knows
//! ([`Site::let_in`]), wherever it was loaded from; programs that are not browsers need none.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use mio::net::TcpStream;
use tungstenite::handshake::derive_accept_key;
use xylem_carriers::http::{MAX_HEAD, RequestHead, read_request};

/// Most bytes read after a refused head, so that the answer is not lost with them.
const MAX_REST: usize = 64 * 1024;

/// The content security policy of pages. Scripts open connections to other sharers, at addresses that are not known
/// beforehand.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
    worker-src 'self'; connect-src 'self' ws: wss:; img-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// One resource that a site serves.
#[derive(Clone, Debug)]
pub struct SitePage {
    /// Its path, from `/` on.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Whether the body is compressed with gzip, which every browser accepts.
    pub gzip: bool,
    /// The content.
    pub body: &'static [u8],
}

/// Pages, and the passes that let pages open a WebSocket. See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Site {
    pages: Vec<SitePage>,
    passes: Vec<String>,
}

impl Site {
    /// A site with these pages, which lets no page open a WebSocket yet.
    pub fn new(pages: Vec<SitePage>) -> Self {
        Self { pages, passes: Vec::new() }
    }

    /// Lets pages that ask for `/PASS` open a WebSocket.
    pub fn add_pass(&mut self, pass: String) {
        self.passes.push(pass);
    }

    fn answer(&self, request: &RequestHead) -> SiteAnswer {
        let target = request.target.split('?').next().unwrap_or_default();
        let pass = target.strip_prefix('/').unwrap_or_default();
        let known = self.passes.iter().any(|known| known == pass);
        if let Some(key) = &request.web_socket_key {
            return match request.origin {
                _ if known => SiteAnswer::Upgrade(key.clone(), true),
                None if target == "/" => SiteAnswer::Upgrade(key.clone(), false),
                Some(_) if target == "/" => SiteAnswer::Page(text(
                    FORBIDDEN,
                    "only a page that has the ticket can connect here",
                )),
                _ => SiteAnswer::Page(text(NOT_FOUND, "this ticket is not shared here")),
            };
        }
        let mut reply = match self.pages.iter().find(|page| page.path == target) {
            _ if !matches!(request.method.as_str(), "GET" | "HEAD") => {
                text(NOT_ALLOWED, "only GET and HEAD are allowed")
            }
            _ if known => text(FOUND, "shared here"),
            Some(page) => page.reply(),
            None => text(NOT_FOUND, "no such page"),
        };
        if request.method == "HEAD" {
            reply.body = Bytes::new();
        }
        SiteAnswer::Page(reply)
    }
}

impl SitePage {
    fn reply(&self) -> SiteReply {
        let coding = if self.gzip { "Content-Encoding: gzip\r\n" } else { "" };
        SiteReply::new(FOUND, self.media_type, coding, Bytes::from_static(self.body))
    }
}

const FOUND: &str = "200 OK";
const BAD: &str = "400 Bad Request";
const FORBIDDEN: &str = "403 Forbidden";
const NOT_FOUND: &str = "404 Not Found";
const NOT_ALLOWED: &str = "405 Method Not Allowed";

enum SiteAnswer {
    /// The key, and whether messages hold trains or single packets.
    Upgrade(String, bool),
    Page(SiteReply),
}

struct SiteReply {
    head: String,
    body: Bytes,
}

impl SiteReply {
    fn new(status: &str, media_type: &str, coding: &str, body: Bytes) -> Self {
        let allow = if status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n{coding}{allow}\
             Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Embedder-Policy: require-corp\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n",
            body.len()
        );
        Self { head, body }
    }

    /// The part to be written last comes first.
    fn answering(self) -> SiteState {
        SiteState::Answering(vec![self.body, self.head.into()])
    }
}

fn text(status: &str, line: &str) -> SiteReply {
    SiteReply::new(status, "text/plain; charset=utf-8", "", Bytes::from(format!("{line}\n")))
}

enum SiteState {
    Asking,
    /// These parts are to be written.
    Answering(Vec<Bytes>),
    /// The answer is written; the other end has to read it.
    Leaving(usize),
    /// The head of the answer, and whether messages will hold trains.
    Upgrading(Bytes, bool),
}

/// One connection to a site.
pub(crate) struct SiteConnection {
    site: Arc<Site>,
    socket: TcpStream,
    read: Vec<u8>,
    state: SiteState,
}

/// The result of a visit.
pub(crate) enum VisitOutcome {
    /// It continues when the socket is ready.
    Waits(SiteConnection),
    /// It is a WebSocket now.
    Upgraded {
        /// Its connection.
        socket: TcpStream,
        /// Bytes that followed the request.
        read: Vec<u8>,
        /// Messages hold trains of packets.
        trains: bool,
    },
}

impl SiteConnection {
    pub(crate) fn new(socket: TcpStream, site: Arc<Site>) -> Self {
        Self { site, socket, read: Vec::new(), state: SiteState::Asking }
    }

    /// Continues as far as the socket allows.
    ///
    /// # Errors
    /// The visit is over, with success or not.
    pub(crate) fn advance(mut self) -> io::Result<VisitOutcome> {
        loop {
            self.state = match std::mem::replace(&mut self.state, SiteState::Asking) {
                SiteState::Asking => match read_request(&self.read) {
                    Ok(Some((request, len))) => {
                        self.read.drain(..len);
                        match self.site.answer(&request) {
                            SiteAnswer::Upgrade(key, trains) => {
                                SiteState::Upgrading(switch(&key), trains)
                            }
                            SiteAnswer::Page(reply) => reply.answering(),
                        }
                    }
                    Ok(None) => {
                        if !self.fill(MAX_HEAD)? {
                            return Ok(VisitOutcome::Waits(self));
                        }
                        SiteState::Asking
                    }
                    Err(_) => text(BAD, "not a valid request").answering(),
                },
                SiteState::Answering(mut parts) => {
                    while let Some(part) = parts.last_mut() {
                        if !write(&mut self.socket, part)? {
                            self.state = SiteState::Answering(parts);
                            return Ok(VisitOutcome::Waits(self));
                        }
                        parts.pop();
                    }
                    self.socket.shutdown(Shutdown::Write)?;
                    SiteState::Leaving(0)
                }
                SiteState::Leaving(seen) => {
                    self.read.clear();
                    let more = self.fill(MAX_HEAD)?;
                    let seen = seen + self.read.len();
                    self.state = SiteState::Leaving(seen);
                    if seen > MAX_REST {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    if !more {
                        return Ok(VisitOutcome::Waits(self));
                    }
                    SiteState::Leaving(seen)
                }
                SiteState::Upgrading(mut head, trains) => {
                    if !write(&mut self.socket, &mut head)? {
                        self.state = SiteState::Upgrading(head, trains);
                        return Ok(VisitOutcome::Waits(self));
                    }
                    let Self { socket, read, .. } = self;
                    return Ok(VisitOutcome::Upgraded { socket, read, trains });
                }
            };
        }
    }

    /// Reads up to `most` bytes in all; false: none have arrived. The end of the connection is an error.
    fn fill(&mut self, most: usize) -> io::Result<bool> {
        let had = self.read.len();
        self.read.resize(most.max(had), 0);
        let got = loop {
            match self.socket.read(&mut self.read[had..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.read.truncate(had + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed")),
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// The answer that opens a WebSocket (RFC 6455 section 4.2.2).
fn switch(key: &str) -> Bytes {
    let accept = derive_accept_key(key.as_bytes());
    Bytes::from(format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    ))
}

/// True: all of it is written.
fn write(socket: &mut TcpStream, part: &mut Bytes) -> io::Result<bool> {
    while part.has_remaining() {
        match socket.write(part) {
            Ok(n) => part.advance(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
