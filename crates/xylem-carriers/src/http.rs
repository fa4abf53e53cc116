//! Heads of HTTP/1.1 messages (RFC 9112): the fields that matter here, and the refusals of a web server.
//!
//! `httparse` parses the syntax. A body has one stated length. A message with an ambiguous end (chunked coding, two
//! lengths, bare line feeds) is refused, so that no proxy in front of this server can be made to see other messages
//! than it does (request smuggling).

use bytes::{BufMut, BytesMut};

use crate::Malformed;

/// Longest head that is read, in bytes.
pub const MAX_HEAD: usize = 8 * 1024;
/// Most fields of a head.
const MAX_FIELDS: usize = 64;
/// The media type of RFC 8484.
pub const DNS_MESSAGE: &str = "application/dns-message";

/// The relevant parts of a request's head.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// `GET`, `POST`, …
    pub method: String,
    /// The target as sent, with a query string if there is one.
    pub target: String,
    /// Length of the body, in bytes; 0 if none is stated.
    pub body_len: usize,
    /// The body is a DNS message.
    pub is_dns: bool,
    /// `Sec-WebSocket-Key` of a request for a WebSocket of version 13.
    pub web_socket_key: Option<String>,
    /// Neither HTTP/1.0 nor `Connection: close`.
    pub keep_alive: bool,
    /// `Host`: the addressed host; empty if it is missing, as HTTP/1.0 allows.
    pub host: String,
    /// `Origin`: the origin of the page that asks, if a browser sends it.
    pub origin: Option<String>,
}

/// The relevant parts of an answer's head.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct AnswerHead {
    /// Status code.
    pub status: u16,
    /// Length of the body, in bytes.
    pub body_len: usize,
    /// The body is a DNS message.
    pub is_dns: bool,
}

/// Fields that requests and answers share, after parsing.
#[derive(Default)]
struct HttpFields {
    length: Option<usize>,
    is_dns: bool,
    host: Option<String>,
    hosts: usize,
    origin: Option<String>,
    upgrade: bool,
    version_13: bool,
    key: Option<String>,
    /// `close` and `upgrade` of `Connection`.
    close: bool,
    connection_upgrade: bool,
}

/// Parses a request's head at the front of `input`; returns the head and its length. `None`: its end has not arrived
/// yet.
///
/// # Errors
/// [`Malformed`]: to be answered with 400.
pub fn read_request(input: &[u8]) -> Result<Option<(RequestHead, usize)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let status = parsed.parse(&input[..input.len().min(MAX_HEAD)]);
    let Some(len) = head_len(status, input)? else { return Ok(None) };
    let found = HttpFields::of(parsed.headers)?;
    let one_one = parsed.version == Some(1);
    if one_one && found.hosts != 1 {
        return Err(Malformed("no Host field, or more than one"));
    }
    let upgrades = found.upgrade && found.connection_upgrade && found.version_13;
    let request = RequestHead {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        body_len: found.length.unwrap_or(0),
        is_dns: found.is_dns,
        web_socket_key: found.key.filter(|_| one_one && upgrades),
        keep_alive: one_one && !found.close,
        host: found.host.filter(|_| found.hosts == 1).unwrap_or_default(),
        origin: found.origin,
    };
    Ok(Some((request, len)))
}

/// Parses an answer's head, like [`read_request`].
///
/// # Errors
/// [`Malformed`].
pub fn read_answer(input: &[u8]) -> Result<Option<(AnswerHead, usize)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let status = parsed.parse(&input[..input.len().min(MAX_HEAD)]);
    let Some(len) = head_len(status, input)? else { return Ok(None) };
    let found = HttpFields::of(parsed.headers)?;
    let body_len = found.length.ok_or(Malformed("an answer without a length"))?;
    let status = parsed.code.unwrap_or_default();
    Ok(Some((AnswerHead { status, body_len, is_dns: found.is_dns }, len)))
}

fn head_len(parsed: httparse::Result<usize>, input: &[u8]) -> Result<Option<usize>, Malformed> {
    match parsed {
        Ok(httparse::Status::Complete(len)) => {
            let head = &input[..len];
            let bare = |(at, byte): (usize, &u8)| {
                *byte == b'\n' && at.checked_sub(1).and_then(|at| head.get(at)) != Some(&b'\r')
            };
            match head.iter().enumerate().any(bare) {
                true => Err(Malformed("a line that ends without CR")),
                false => Ok(Some(len)),
            }
        }
        Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => Ok(None),
        Ok(httparse::Status::Partial) => Err(Malformed("the head is too long")),
        Err(_) => Err(Malformed("not HTTP")),
    }
}

impl HttpFields {
    fn of(headers: &[httparse::Header<'_>]) -> Result<Self, Malformed> {
        let mut found = Self::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
            let has =
                |token: &str| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token));
            if is("transfer-encoding") {
                return Err(Malformed("an unsupported transfer coding"));
            } else if is("content-length") {
                let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                let length = digits.then(|| value.parse().ok()).flatten();
                if found.length.is_some() || length.is_none() {
                    return Err(Malformed("an invalid or second Content-Length"));
                }
                found.length = length;
            } else if is("content-type") {
                found.is_dns = value.eq_ignore_ascii_case(DNS_MESSAGE);
            } else if is("host") {
                found.hosts += 1;
                found.host = Some(value.to_owned());
            } else if is("origin") {
                if found.origin.replace(value.to_owned()).is_some() {
                    return Err(Malformed("more than one Origin field"));
                }
            } else if is("connection") {
                found.close |= has("close");
                found.connection_upgrade |= has("upgrade");
            } else if is("upgrade") {
                found.upgrade |= has("websocket");
            } else if is("sec-websocket-version") {
                found.version_13 = value == "13";
            } else if is("sec-websocket-key") {
                // 16 bytes in base64.
                let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
                let good = value.len() == 24 && value.bytes().all(plain);
                found.key = good.then(|| value.to_owned());
            }
        }
        Ok(found)
    }
}

/// The answer of a web server to a request that it cannot serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpRefusal {
    /// 400: not HTTP as parsed here.
    BadRequest,
    /// 404: no such page.
    NotFound,
    /// 405: not with this method.
    NotAllowed,
    /// 413: the body is too large.
    TooLarge,
    /// 415: the body is of another kind.
    Unsupported,
}

impl HttpRefusal {
    fn line(self) -> &'static str {
        match self {
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::NotAllowed => "405 Method Not Allowed",
            Self::TooLarge => "413 Content Too Large",
            Self::Unsupported => "415 Unsupported Media Type",
        }
    }

    /// Appends the whole answer, without its body for a `HEAD` request.
    pub fn write(self, head_only: bool, keep_alive: bool, out: &mut BytesMut) {
        let line = self.line();
        let body = format!(
            "<html><head><title>{line}</title></head><body><h1>{line}</h1></body></html>\r\n"
        );
        let allow = if self == Self::NotAllowed { "Allow: GET, POST\r\n" } else { "" };
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {line}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n{allow}\
             Connection: {connection}\r\n\r\n",
            body.len()
        );
        out.put_slice(head.as_bytes());
        if !head_only {
            out.put_slice(body.as_bytes());
        }
    }
}

/// Appends the head of a `POST` with a DNS message of this length.
pub fn write_query_head(host: &str, body_len: usize, out: &mut BytesMut) {
    let head = format!(
        "POST /dns-query HTTP/1.1\r\nHost: {host}\r\nAccept: {DNS_MESSAGE}\r\n\
         Content-Type: {DNS_MESSAGE}\r\nContent-Length: {body_len}\r\n\r\n"
    );
    out.put_slice(head.as_bytes());
}

/// Appends the head of an answer with a DNS message of this length.
pub fn write_answer_head(body_len: usize, out: &mut BytesMut) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {DNS_MESSAGE}\r\nContent-Length: {body_len}\r\n\
         Cache-Control: no-store\r\n\r\n"
    );
    out.put_slice(head.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: &str = "POST /dns-query HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\
                        Content-Type: application/dns-message\r\n\r\n";

    #[test]
    fn heads_written_here_are_parsed() {
        let mut head = BytesMut::new();
        write_query_head("host.example", 77, &mut head);
        let (request, len) = read_request(&head).unwrap().unwrap();
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/dns-query"));
        assert_eq!((request.body_len, request.is_dns, len), (77, true, head.len()));
        assert!(request.keep_alive && request.web_socket_key.is_none());
        head.clear();
        write_answer_head(99, &mut head);
        let (answer, len) = read_answer(&head).unwrap().unwrap();
        assert_eq!(
            (answer, len),
            (AnswerHead { status: 200, body_len: 99, is_dns: true }, head.len())
        );
    }

    #[test]
    fn an_incomplete_head_waits_up_to_a_limit() {
        for len in 0..POST.len() {
            assert_eq!(read_request(&POST.as_bytes()[..len]), Ok(None), "cut to {len}");
        }
        let long = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}", "x".repeat(MAX_HEAD));
        assert!(read_request(long.as_bytes()).is_err());
        let many = format!("GET / HTTP/1.1\r\n{}", "A: b\r\n".repeat(MAX_FIELDS + 1));
        assert!(read_request(many.as_bytes()).is_err());
    }

    #[test]
    fn ambiguous_messages_are_refused() {
        for fields in [
            "Transfer-Encoding: chunked",
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding : chunked",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: +5",
            "Content-Length: 5, 5",
            "Content-Length: 0x5",
            "Content-Length: ",
            "Content-Length: 99999999999999999999999",
            "Content-Length : 5",
            " Content-Length: 5",
            "X: y\r\n folded: z",
            "X: y\nContent-Length: 5",
            "Host: other",
            "X\0: y",
        ] {
            let text = format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
            assert!(read_request(text.as_bytes()).is_err(), "{fields:?}");
        }
        for text in ["POST / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "GET /\r\n\r\n"] {
            assert!(read_request(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(read_answer(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "no length");
    }

    #[test]
    fn a_web_socket_request_needs_all_its_fields() {
        let fields = [
            "Connection: keep-alive, Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ];
        let of = |left_out: usize| {
            let kept = fields.iter().enumerate().filter(|(i, _)| *i != left_out);
            let kept: Vec<&str> = kept.map(|(_, field)| *field).collect();
            let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n\r\n", kept.join("\r\n"));
            read_request(text.as_bytes()).unwrap().unwrap().0.web_socket_key
        };
        assert_eq!(of(9).as_deref(), Some("dGhlIHNhbXBsZSBub25jZQ=="));
        for (i, field) in fields.iter().enumerate() {
            assert_eq!(of(i), None, "without {field}");
        }
    }

    #[test]
    fn host_and_origin_are_parsed() {
        let of = |fields: &str| {
            let text = format!("GET /a?b=c HTTP/1.1\r\n{fields}\r\n\r\n");
            read_request(text.as_bytes()).map(|read| {
                let (request, _) = read.unwrap();
                (request.host, request.origin)
            })
        };
        let both = of("Host:  127.0.0.1:80 \r\norigin: http://evil.example");
        let (host, origin) = ("127.0.0.1:80".to_owned(), "http://evil.example".to_owned());
        assert_eq!(both, Ok((host.clone(), Some(origin))));
        assert_eq!(of("Host: 127.0.0.1:80"), Ok((host, None)));
        assert!(of("Host: h\r\nOrigin: http://h\r\nOrigin: http://i").is_err());
        let old = b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n";
        assert_eq!(read_request(old).unwrap().unwrap().0.host, "", "one of two would be a guess");
    }

    #[test]
    fn refusals_are_complete_answers() {
        let mut out = BytesMut::new();
        HttpRefusal::NotFound.write(false, true, &mut out);
        let (answer, len) = read_answer(&out).unwrap().unwrap();
        assert_eq!((answer.status, len + answer.body_len), (404, out.len()));
    }
}
