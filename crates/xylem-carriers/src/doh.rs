//! Both ends of a link's datagrams in DNS over HTTPS (RFC 8484, over HTTP/1.1): the client posts queries, the server
//! answers them in order. Sans-io.
//!
//! A server may send only when it is asked. So the client keeps some queries unanswered, and the server holds them
//! until it has something to send, for 20 s at most. Requests of other programs get a web server's answers: 404, 405,
//! 415, or a DNS refusal.
//!
//! Bytes of the session come in by `receive` and go out by `poll`; datagrams go the other way.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::dns::{self, DnsMessage};
use crate::http::{self, HttpRefusal};
use crate::{MAX_UNSENT, MAX_UNWRITTEN, Malformed};

/// Path to which queries are posted.
const PATH: &str = "/dns-query";
/// Most unanswered queries of a client.
const MAX_IN_FLIGHT: usize = 64;
/// Empty queries that a client keeps at the server: the number while nothing comes back, and the most.
const MIN_POLLS: usize = 2;
const MAX_POLLS: usize = 32;
/// Queries that a server holds; the oldest is answered when one more comes.
const MAX_HELD: usize = MAX_POLLS + 4;
/// How long a server holds a query: less than proxies usually wait.
const HOLD: Duration = Duration::from_secs(20);
/// Time between two queries that are answered for their age alone, so that the server always has one.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest body of another client's request that is read before the refusal, in bytes.
const MAX_FOREIGN_BODY: usize = 64 * 1024;

/// Datagrams that wait to be sent, as lists of options that each fit one message.
#[derive(Default)]
struct WaitingDatagrams {
    lists: VecDeque<BytesMut>,
    bytes: usize,
}

impl WaitingDatagrams {
    fn queue(&mut self, datagram: &[u8]) -> bool {
        if datagram.is_empty()
            || datagram.len() > dns::MAX_DATAGRAM
            || self.bytes + datagram.len() > MAX_UNSENT
        {
            return false;
        }
        let joins = self.lists.back_mut().is_some_and(|last| dns::add_option(last, datagram));
        if !joins {
            let mut list = BytesMut::new();
            dns::add_option(&mut list, datagram);
            self.lists.push_back(list);
        }
        self.bytes += datagram.len();
        true
    }

    /// The next list, or one with an empty datagram.
    fn next(&mut self) -> Bytes {
        let Some(list) = self.lists.pop_front() else {
            let mut nothing = BytesMut::new();
            dns::add_option(&mut nothing, &[]);
            return nothing.freeze();
        };
        if self.lists.is_empty() {
            self.bytes = 0;
        } else {
            self.bytes = self.bytes.saturating_sub(list.len());
        }
        list.freeze()
    }

    fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}

/// The end that sends queries.
pub struct DohClient {
    host: String,
    waiting: WaitingDatagrams,
    in_flight: usize,
    polls: usize,
}

impl DohClient {
    /// `host`: the value of the `Host` field.
    pub fn new(host: String) -> Self {
        Self { host, waiting: WaitingDatagrams::default(), in_flight: 0, polls: MIN_POLLS }
    }

    /// Takes a datagram to be sent; `false` if there is no room, or it is too large for a DNS message.
    pub fn queue(&mut self, datagram: &[u8]) -> bool {
        self.waiting.queue(datagram)
    }

    /// Bytes of datagrams that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.bytes
    }

    /// Returns whether [`DohClient::poll`] has something to send.
    pub fn can_poll(&self) -> bool {
        let asks = !self.waiting.is_empty() || self.in_flight < self.polls;
        asks && self.in_flight < MAX_IN_FLIGHT
    }

    /// Appends requests that are due to `out`, while that is short.
    pub fn poll(&mut self, out: &mut BytesMut) {
        while self.can_poll() && out.len() < MAX_UNWRITTEN {
            let list = self.waiting.next();
            http::write_query_head(&self.host, dns::message_len(&list), out);
            dns::query(&list, out);
            self.in_flight += 1;
        }
    }

    /// Takes answers, as far as they are complete, and hands out the datagrams in them.
    ///
    /// # Errors
    /// [`Malformed`]: the other end is no server of ours.
    pub fn receive(
        &mut self,
        input: &mut BytesMut,
        each: &mut dyn FnMut(BytesMut),
    ) -> Result<(), Malformed> {
        while !input.is_empty() {
            let Some((head, head_len)) = http::read_answer(input)? else { break };
            if head.status != 200 || !head.is_dns || head.body_len > dns::MAX_MESSAGE {
                return Err(Malformed("the server's answer is not that of a xylem server"));
            }
            if input.len() < head_len + head.body_len {
                break;
            }
            self.in_flight =
                self.in_flight.checked_sub(1).ok_or(Malformed("an answer without a question"))?;
            input.advance(head_len);
            let message = input.split_to(head.body_len);
            let options = dns::read_answer(&message)?;
            let mut heard = false;
            dns::datagrams(message, options, &mut |datagram| {
                heard = true;
                each(datagram);
            });
            // More queries while answers carry datagrams, fewer while they do not.
            let polls = if heard { self.polls * 2 } else { self.polls / 2 };
            self.polls = polls.clamp(MIN_POLLS, MAX_POLLS);
        }
        Ok(())
    }
}

/// A query that is not answered yet.
struct HeldQuery {
    id: u16,
    since: Duration,
}

/// The end that answers queries.
#[derive(Default)]
pub struct DohServer {
    waiting: WaitingDatagrams,
    held: VecDeque<HeldQuery>,
    /// When a query was last answered for its age alone.
    last_expiry: Duration,
    /// A refusal has been sent that ends the connection.
    ends: bool,
}

impl DohServer {
    /// Makes the server of one connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Like [`DohClient::queue`].
    pub fn queue(&mut self, datagram: &[u8]) -> bool {
        self.waiting.queue(datagram)
    }

    /// Bytes of datagrams that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.bytes
    }

    /// Returns whether the connection is to be closed once all is sent.
    pub fn ends(&self) -> bool {
        self.ends
    }

    /// Returns whether [`DohServer::poll`] has something to send.
    pub fn can_poll(&self, now: Duration) -> bool {
        let old = |held: &HeldQuery| held.since + HOLD <= now && self.last_expiry + PAUSE <= now;
        let due = |oldest: &HeldQuery| self.held.len() > MAX_HELD || old(oldest);
        self.held.front().is_some_and(|oldest| !self.waiting.is_empty() || due(oldest))
    }

    /// Appends answers that are due to `out`, while that is short.
    pub fn poll(&mut self, now: Duration, out: &mut BytesMut) {
        while self.can_poll(now) && out.len() < MAX_UNWRITTEN {
            if self.waiting.is_empty() {
                self.last_expiry = now;
            }
            self.answer_oldest(out);
        }
    }

    fn answer_oldest(&mut self, out: &mut BytesMut) {
        let Some(HeldQuery { id, .. }) = self.held.pop_front() else { return };
        let list = self.waiting.next();
        http::write_answer_head(dns::message_len(&list), out);
        dns::answer(id, &list, out);
    }

    /// Takes requests, as far as they are complete and `out` has room for answers, and hands out the datagrams in them.
    /// Other requests are answered in `out`; returns whether there were any.
    pub fn receive(
        &mut self,
        now: Duration,
        input: &mut BytesMut,
        out: &mut BytesMut,
        each: &mut dyn FnMut(BytesMut),
    ) -> bool {
        let mut refused = false;
        while !input.is_empty() && !self.ends && out.len() < MAX_UNWRITTEN {
            let (request, head_len) = match http::read_request(input) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(_) => {
                    self.refuse(HttpRefusal::BadRequest, &http::RequestHead::default(), out);
                    return true;
                }
            };
            if request.body_len > MAX_FOREIGN_BODY {
                self.refuse(HttpRefusal::TooLarge, &http::RequestHead::default(), out);
                return true;
            }
            if input.len() < head_len + request.body_len {
                break;
            }
            input.advance(head_len);
            let message = input.split_to(request.body_len);
            if let Some(refusal) = refusal_of(&request) {
                refused = true;
                self.refuse(refusal, &request, out);
                continue;
            }
            match dns::read_query(&message) {
                Ok(DnsMessage::Ours { id, options }) => {
                    self.held.push_back(HeldQuery { id, since: now });
                    dns::datagrams(message, options, each);
                    self.poll(now, out);
                }
                Ok(DnsMessage::Foreign { question_end }) => {
                    refused = true;
                    self.answer_held(out);
                    http::write_answer_head(dns::refusal_len(question_end), out);
                    dns::refuse(&message, question_end, out);
                }
                Err(_) => {
                    refused = true;
                    self.refuse(HttpRefusal::BadRequest, &request, out);
                }
            }
        }
        refused
    }

    /// Answers held queries first, because answers go out in the order of the requests.
    fn answer_held(&mut self, out: &mut BytesMut) {
        while !self.held.is_empty() {
            self.answer_oldest(out);
        }
    }

    fn refuse(&mut self, refusal: HttpRefusal, request: &http::RequestHead, out: &mut BytesMut) {
        self.answer_held(out);
        refusal.write(request.method == "HEAD", request.keep_alive, out);
        self.ends = !request.keep_alive;
    }
}

/// The refusal of a web server that offers only DNS over HTTPS. `None`: the body has to be parsed.
fn refusal_of(request: &http::RequestHead) -> Option<HttpRefusal> {
    let path = request.target.split('?').next().unwrap_or_default();
    match (path, request.method.as_str()) {
        (PATH, "POST") if request.is_dns => None,
        (PATH, "POST") => Some(HttpRefusal::Unsupported),
        // RFC 8484 allows queries in the target too; this server does not accept them.
        (PATH, "GET" | "HEAD") => Some(HttpRefusal::BadRequest),
        (_, "GET" | "HEAD" | "POST") => Some(HttpRefusal::NotFound),
        _ => Some(HttpRefusal::NotAllowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    struct Pair {
        client: DohClient,
        server: DohServer,
        up: BytesMut,
        down: BytesMut,
        at_server: Vec<Vec<u8>>,
        at_client: Vec<Vec<u8>>,
        answers: usize,
    }

    impl Pair {
        fn new() -> Self {
            Self {
                client: DohClient::new("h".into()),
                server: DohServer::new(),
                up: BytesMut::new(),
                down: BytesMut::new(),
                at_server: Vec::new(),
                at_client: Vec::new(),
                answers: 0,
            }
        }

        fn turn(&mut self, now: Duration) {
            self.client.poll(&mut self.up);
            let asked = self.client.in_flight;
            let Self { at_server, at_client, .. } = self;
            let refused = self.server.receive(now, &mut self.up, &mut self.down, &mut |d| {
                at_server.push(d.to_vec());
            });
            assert!(!refused);
            self.server.poll(now, &mut self.down);
            self.client.receive(&mut self.down, &mut |d| at_client.push(d.to_vec())).unwrap();
            self.answers += asked - self.client.in_flight;
        }
    }

    #[test]
    fn datagrams_travel_both_ways_and_in_order() {
        let mut pair = Pair::new();
        let datagrams: Vec<Vec<u8>> = (0..500_u32).map(|i| i.to_be_bytes().repeat(300)).collect();
        for datagram in &datagrams {
            assert!(pair.client.queue(datagram) && pair.server.queue(datagram));
        }
        for _ in 0..40 {
            pair.turn(NOW);
        }
        assert!(pair.at_server == datagrams && pair.at_client == datagrams);
        assert_eq!((pair.client.waiting(), pair.server.waiting()), (0, 0));
    }

    #[test]
    fn a_server_always_holds_a_query() {
        let mut pair = Pair::new();
        for second in 0..200 {
            pair.turn(Duration::from_secs(second));
            assert!(!pair.server.held.is_empty(), "second {second}");
            assert!(pair.server.held.len() <= MAX_HELD);
        }
        // Two at a time, each after 20 s.
        assert!((16..=20).contains(&pair.answers), "{}", pair.answers);
        assert!(pair.server.queue(b"at once"));
        pair.turn(Duration::from_secs(200));
        assert_eq!(pair.at_client, [b"at once".to_vec()]);
    }

    #[test]
    fn uploads_alone_do_not_fill_the_server() {
        let mut pair = Pair::new();
        for i in 0..1_000_u32 {
            assert!(pair.client.queue(&i.to_be_bytes().repeat(4_000)));
            pair.turn(NOW);
            assert!(pair.server.held.len() <= MAX_HELD + 1);
        }
        assert_eq!(pair.at_server.len(), 1_000);
        assert!(pair.client.in_flight <= MAX_IN_FLIGHT);
    }

    #[test]
    fn queues_are_bounded() {
        let mut client = DohClient::new("h".into());
        let taken = (0..1_000).filter(|_| client.queue(&[1; 30_000])).count();
        assert_eq!(taken, MAX_UNSENT / 30_000);
        assert!(!client.queue(&[]) && !client.queue(&vec![0; dns::MAX_DATAGRAM + 1]));
    }

    fn asked(text: &str) -> (String, DohServer) {
        let (mut server, mut out) = (DohServer::new(), BytesMut::new());
        let input = &mut BytesMut::from(text.as_bytes());
        let refused = server.receive(NOW, input, &mut out, &mut |_| panic!("no datagram"));
        assert!(refused, "{text:?}");
        (String::from_utf8_lossy(&out).into_owned(), server)
    }

    #[test]
    fn other_requests_get_a_web_servers_answers() {
        for (request, line, ends) in [
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "404 Not Found", false),
            ("GET /dns-query.php HTTP/1.1\r\nHost: h\r\n\r\n", "404", false),
            ("GET / HTTP/1.0\r\n\r\n", "404", true),
            ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "404", true),
            ("GET /dns-query?dns=AAAB HTTP/1.1\r\nHost: h\r\n\r\n", "400", false),
            ("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n", "405", false),
            ("POST /dns-query HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "415", false),
            ("\x16\x03\x01\x02\0\x01\0", "400", true),
            ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "400", true),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999\r\n\r\n", "413", true),
        ] {
            let (said, server) = asked(request);
            assert!(said.starts_with(&format!("HTTP/1.1 {line}")), "{request:?} got {said:?}");
            assert_eq!(server.ends(), ends, "{request:?}");
        }
        let (said, _) = asked("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(said.ends_with("\r\n\r\n") && !said.contains("<html>"), "{said}");
    }

    #[test]
    fn a_flood_of_requests_waits_until_answers_are_read() {
        let (mut server, mut out) = (DohServer::new(), BytesMut::new());
        let mut input = BytesMut::from(&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(20_000)[..]);
        server.receive(NOW, &mut input, &mut out, &mut |_| {});
        assert!(out.len() < MAX_UNWRITTEN + 1_000 && !input.is_empty());
    }

    #[test]
    fn a_client_refuses_unexpected_answers() {
        let mut pair = Pair::new();
        pair.client.poll(&mut pair.up);
        pair.server.receive(NOW, &mut pair.up, &mut pair.down, &mut |_| {});
        pair.server.answer_held(&mut pair.down);
        let twice = pair.down.clone();
        pair.client.receive(&mut pair.down, &mut |_| {}).unwrap();
        assert!(pair.client.receive(&mut twice.clone(), &mut |_| {}).is_err());
        let mut client = DohClient::new("h".into());
        client.poll(&mut BytesMut::new());
        let mut page = BytesMut::new();
        HttpRefusal::NotFound.write(false, true, &mut page);
        assert!(client.receive(&mut page, &mut |_| {}).is_err());
    }
}
