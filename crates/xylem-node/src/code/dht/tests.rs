//! The check of numbers, with one node of the DHT on loopback that lists what it is told.

use std::net::UdpSocket;

use xylem_base::Stop;
use xylem_engine::{EngineError, EngineEvent, Program};
use xylem_forward::{Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, LinkConfig, StaticKey};

use super::*;
use crate::discovery::DhtStart;

/// A node that answers everything; `listed`: the keys under which it lists a peer. `None`: all of them.
struct Node {
    socket: UdpSocket,
    listed: Option<Vec<[u8; 20]>>,
    announced: Vec<[u8; 20]>,
}

impl Node {
    fn new(listed: Option<Vec<[u8; 20]>>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, listed, announced: Vec::new() }
    }

    fn turn(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            let query = &buffer[..len];
            let behind = |what: &[u8]| {
                let place = query.windows(what.len()).rposition(|w| w == what)?;
                Some(&query[place + what.len()..])
            };
            let hash = behind(b"9:info_hash20:").map(|rest| *rest.first_chunk::<20>().unwrap());
            let is_listed =
                |hash: &[u8; 20]| self.listed.as_ref().is_none_or(|listed| listed.contains(hash));
            let mut answer = b"d1:rd2:id20:nodenodenodenodenode5:token2:ok".to_vec();
            if hash.is_some_and(|hash| is_listed(&hash)) {
                answer.extend_from_slice(b"6:valuesl6:\x7f\x00\x00\x01\x23\x45e");
            }
            answer.extend_from_slice(b"e1:t4:");
            answer.extend_from_slice(&behind(b"1:t4:").unwrap()[..4]);
            answer.extend_from_slice(b"1:y1:re");
            self.announced.extend(hash.filter(|_| behind(b"13:announce_peer").is_some()));
            let _ = self.socket.send_to(&answer, from);
        }
    }
}

/// Shows a code as a server does: checks, then announces.
struct Shows<'a> {
    meeting: OfferMeeting,
    node: &'a mut Node,
    number: Option<u32>,
    until: Duration,
}

impl Program for Shows<'_> {
    type Error = EngineError;

    fn handle(&mut self, _: &mut Engine, _: EngineEvent) -> Result<(), EngineError> {
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, _: Duration) -> Result<(), EngineError> {
        self.node.turn();
        if self.number.is_none() {
            self.number = self.meeting.check(engine);
            let answers = self.number.is_none() || self.meeting.show(engine);
            assert!(answers || self.node.listed.as_ref().is_some_and(Vec::is_empty));
        } else {
            self.meeting.poll(engine);
        }
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, _: bool) -> bool {
        !self.node.announced.is_empty() || engine.now() >= self.until
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        Some(now + Duration::from_millis(2))
    }
}

/// The number that is shown, and the keys that were announced.
fn shown(node: &mut Node, number: u32, bootstrap: &str) -> (u32, u64, Vec<[u8; 20]>) {
    let key = StaticKey::generate([1; 32]);
    let endpoint = Endpoint::new(LinkConfig::default(), key, [1; 32]);
    let seed = ForwarderSeed::from_random([1; 16]);
    let forwarder = Forwarder::new(ForwarderConfig::end_host(), seed);
    let mut engine = Engine::new(endpoint, forwarder).unwrap();
    engine.bind_link("127.0.0.1:0".parse().unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let start = DhtStart { bootstrap: Some(vec![bootstrap.to_owned()]), ..Default::default() };
    let meeting = OfferMeeting::new(&mut engine, &CodeDht::new(start, dir.path()), number).unwrap();
    let window = meeting.window;
    let until = Duration::from_secs(20);
    let mut shows = Shows { meeting, node, number: None, until };
    engine.run(&mut shows, &Stop::default()).unwrap();
    (shows.number.unwrap(), window, shows.node.announced.clone())
}

#[test]
fn a_free_number_is_kept_and_announced() {
    let mut node = Node::new(Some(Vec::new()));
    let at = node.socket.local_addr().unwrap().to_string();
    let (number, window, announced) = shown(&mut node, 48_213, &at);
    assert_eq!(number, 48_213);
    assert_eq!(announced, [meeting_key(48_213, window, CodeRole::Offerer)]);
}

/// A number that was announced up to ten minutes ago is another's. Where all are taken, some draws are enough.
#[test]
fn another_number_is_drawn_for_one_that_is_taken() {
    let window = meeting_window(wall_clock().seconds());
    let taken = [window, window - 1, window + 1];
    for window in taken {
        let key = meeting_key(48_213, window.saturating_sub(1), CodeRole::Offerer);
        let mut node = Node::new(Some(vec![key, meeting_key(48_213, window, CodeRole::Offerer)]));
        let at = node.socket.local_addr().unwrap().to_string();
        let (number, ..) = shown(&mut node, 48_213, &at);
        assert_ne!(number, 48_213);
        assert!((10_000..100_000).contains(&number));
    }
    let mut node = Node::new(None);
    let at = node.socket.local_addr().unwrap().to_string();
    let (_, _, announced) = shown(&mut node, 48_213, &at);
    assert_eq!(announced.len(), 1);
}
