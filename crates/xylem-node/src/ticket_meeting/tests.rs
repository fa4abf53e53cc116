//! Listings of a sharer, with one node of the DHT on loopback that lists a getter.

use std::net::UdpSocket;

use xylem_base::Stop;
use xylem_engine::{EngineError, EngineEvent, Program, RelayUse};
use xylem_forward::{Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, LinkConfig, StaticKey};
use xylem_reach::code::{MAX_PUNCHES, PUNCH_LEN};
use xylem_reach::names::{VOLUNTEER_SHARDS, volunteers_key};
use xylem_reach::volunteer::{CHOSEN_VOLUNTEERS, VolunteerAnswers, VolunteerReply};

use super::*;
use crate::discovery::DhtStart;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Lists tickets, at a node that answers everything and lists `getter` under the key of the first.
struct Lists {
    listings: TicketListings,
    node: UdpSocket,
    getter: UdpSocket,
    first: [u8; 20],
    announced: Vec<[u8; 20]>,
    punches: usize,
    /// Volunteer relays, which answer questions and accept no link.
    volunteers: Vec<UdpSocket>,
    /// The volunteers to be reported, each time that there were any.
    chosen: Vec<Vec<VolunteerRelay>>,
    until: Duration,
}

impl Lists {
    fn turn(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok((len, from)) = self.node.recv_from(&mut buffer) {
            let query = &buffer[..len];
            let behind = |what: &[u8]| {
                let place = query.windows(what.len()).rposition(|w| w == what)?;
                Some(&query[place + what.len()..])
            };
            let key = behind(b"9:info_hash20:").map(|rest| *rest.first_chunk::<20>().unwrap());
            let mut answer = b"d1:rd2:id20:nodenodenodenodenode5:token2:ok".to_vec();
            let is_shard = || (0..VOLUNTEER_SHARDS).any(|n| key == Some(volunteers_key(n)));
            let listed = match key {
                _ if key == Some(self.first) => std::slice::from_ref(&self.getter),
                _ if is_shard() => &self.volunteers,
                _ => &[],
            };
            if !listed.is_empty() {
                answer.extend_from_slice(b"6:valuesl");
                for socket in listed {
                    answer.extend_from_slice(b"6:\x7f\x00\x00\x01");
                    answer.extend(socket.local_addr().unwrap().port().to_be_bytes());
                }
                answer.push(b'e');
            }
            answer.extend_from_slice(b"e1:t4:");
            answer.extend_from_slice(&behind(b"1:t4:").unwrap()[..4]);
            answer.extend_from_slice(b"1:y1:re");
            self.announced.extend(key.filter(|_| behind(b"13:announce_peer").is_some()));
            let _ = self.node.send_to(&answer, from);
        }
        while let Ok((len, _)) = self.getter.recv_from(&mut buffer) {
            assert_eq!(len, PUNCH_LEN);
            self.punches += 1;
        }
        for (n, volunteer) in (1_u8..).zip(&self.volunteers) {
            while let Ok((len, from)) = volunteer.recv_from(&mut buffer) {
                let mut answers = VolunteerAnswers::new([n; 32], &[n; 32]);
                let reply = answers.handle_datagram(Duration::ZERO, from, &buffer[..len]);
                if let VolunteerReply::Answer(answer) = reply {
                    let _ = volunteer.send_to(&answer, from);
                }
            }
        }
    }
}

impl Program for Lists {
    type Error = EngineError;

    fn handle(&mut self, _: &mut Engine, _: EngineEvent) -> Result<(), EngineError> {
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, _: Duration) -> Result<(), EngineError> {
        self.turn();
        self.listings.handle_timeout(engine);
        let chosen = self.listings.ask_volunteers(engine, &[], false);
        self.chosen.extend(Some(chosen).filter(|chosen| !chosen.is_empty()));
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, _: bool) -> bool {
        engine.now() >= self.until
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        Some(now + Duration::from_millis(2))
    }
}

fn root(n: u8) -> Hash {
    Hash::from_bytes([n; 32])
}

/// A sharer without tickets, and the node of the DHT that it knows.
fn sharer() -> (Engine, TicketListings, UdpSocket, tempfile::TempDir) {
    let endpoint = Endpoint::new(LinkConfig::default(), StaticKey::generate([1; 32]), [1; 32]);
    let seed = ForwarderSeed::from_random([1; 16]);
    let forwarder = Forwarder::new(ForwarderConfig::end_host(), seed);
    let mut engine = Engine::new(endpoint, forwarder).unwrap();
    engine.bind_link("127.0.0.1:0".parse().unwrap()).unwrap();
    let (node, dir) = (socket(), tempfile::tempdir().unwrap());
    let bootstrap = Some(vec![node.local_addr().unwrap().to_string()]);
    let how = CodeDht::new(DhtStart { bootstrap, ..Default::default() }, dir.path());
    let listings = TicketListings::new(&mut engine, &how).unwrap();
    (engine, listings, node, dir)
}

fn lists(listings: TicketListings, node: UdpSocket, volunteers: usize, seconds: u64) -> Lists {
    let first = RootMeeting::new(&root(0)).getters;
    Lists {
        listings,
        node,
        getter: socket(),
        first,
        announced: Vec::new(),
        punches: 0,
        volunteers: (0..volunteers).map(|_| socket()).collect(),
        chosen: Vec::new(),
        until: Duration::from_secs(seconds),
    }
}

#[test]
fn a_sharer_is_listed_by_eight_tickets_and_punches_to_a_listed_getter() {
    let (mut engine, mut listings, node, _dir) = sharer();
    let key = |n| RootMeeting::new(&root(n)).sharers;
    let room: Vec<bool> = (0..10).map(|n| listings.add(&mut engine, &root(n))).collect();
    assert_eq!(room.iter().filter(|has| **has).count(), MAX_LISTED_TICKETS);
    // One that has gone makes room for the next, unless a publication more has the same ticket.
    assert!(listings.add(&mut engine, &root(1)));
    listings.remove(&mut engine, &root(1));
    listings.remove(&mut engine, &root(2));
    assert!(!listings.add(&mut engine, &root(10)));
    let mut lists = lists(listings, node, 0, 4);
    engine.run(&mut lists, &Stop::default()).unwrap();
    lists.announced.sort();
    lists.announced.dedup();
    let mut expected: Vec<_> = [0, 1, 3, 4, 5, 6, 7, 8].map(key).to_vec();
    expected.sort();
    assert_eq!(lists.announced, expected);
    assert!(lists.listings.is_listed());
    assert!((1..=usize::from(MAX_PUNCHES)).contains(&lists.punches), "{}", lists.punches);
}

/// A holder of the root can list any getter. The sharer registers with three strangers' relays, and with no more after that.
#[test]
fn each_ticket_gets_three_volunteers_and_no_more() {
    let (mut engine, mut listings, node, _dir) = sharer();
    listings.add(&mut engine, &root(0));
    // This one has no getter.
    listings.add(&mut engine, &root(1));
    let mut lists = lists(listings, node, 6, 10);
    engine.run(&mut lists, &Stop::default()).unwrap();
    let chosen: Vec<usize> = lists.chosen.iter().map(Vec::len).collect();
    assert_eq!(chosen, [CHOSEN_VOLUNTEERS]);
}

/// A volunteer may be the relay that the user has named, or claim its key.
#[test]
fn the_users_relay_stays_in_use_when_a_ticket_ends() {
    let (mut engine, mut listings, node, _dir) = sharer();
    listings.add(&mut engine, &root(0));
    let mut lists = lists(listings, node, CHOSEN_VOLUNTEERS, 6);
    let uses = |n: u8| {
        let at = lists.volunteers[usize::from(n) - 1].local_addr().unwrap();
        let (key, udp, tcp, names) = ([n; 32], vec![at], Vec::new(), Vec::new());
        RelayUse { key, udp, tcp, listens: true, names, wants_code: false, token: None }
    };
    let (own, other) = (uses(1), uses(2));
    assert!(engine.use_relay(own.clone()).unwrap());
    engine.run(&mut lists, &Stop::default()).unwrap();
    // What is reported are strangers' relays alone.
    let chosen: Vec<usize> = lists.chosen.iter().map(Vec::len).collect();
    assert_eq!(chosen, [CHOSEN_VOLUNTEERS - 1]);
    lists.listings.remove(&mut engine, &root(0));
    assert!(engine.use_relay(other).unwrap(), "the volunteer was not left");
    assert!(!engine.use_relay(own).unwrap(), "the user's relay was left");
}
