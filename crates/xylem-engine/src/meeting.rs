//! The mainline DHT, the punching of codes, and the search for volunteer relays, over the sockets of encrypted links: what the DHT lists is then the
//! mapping that a NAT gives these very sockets (docs/spec/dht.md; docs/spec/reach.md, "Codes" and "Volunteers").
//!
//! All are sans-io. Their datagrams are told from those of links by what they answer: an answer of the DHT has the
//! transaction and the source of a query in progress, and a datagram of punching or of a volunteer has a mac. All others are
//! the link's.

use std::net::SocketAddr;
use std::time::Duration;

use xylem_dht::{DhtClient, DhtConfig};
use xylem_forward::FaceId;
use xylem_mgmt::Persistency;
use xylem_peers::reachable::PeerAddress;
use xylem_reach::code::{CodePunching, PUNCH_LEN, PunchWay};
use xylem_reach::volunteer::{VOLUNTEER_LEN, VolunteerAnswers, VolunteerReply, VolunteerSearch};

use crate::reaching::{PunchSocketUser, address_of};
use crate::{Engine, Network};

/// First byte of every datagram of the DHT: a dictionary in bencode.
const DICTIONARY: u8 = b'd';

/// What peers meet for in the DHT. Each has a client and punchings of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// A code.
    Code,
    /// Tickets.
    Tickets,
    /// Relaying for strangers.
    Volunteers,
}

impl Meeting {
    const ALL: [Self; 3] = [Self::Code, Self::Tickets, Self::Volunteers];
}

/// Answers that wait for a turn of the loop. More queries in one turn get none.
const MAX_ANSWERS: usize = 64;

/// What shares the sockets with links.
#[derive(Default)]
pub(crate) struct SocketSharers {
    of_code: MeetingSharers,
    of_tickets: MeetingSharers,
    of_volunteers: MeetingSharers,
    /// Answers queries for volunteer relays, if this engine is one.
    volunteer: Option<Box<VolunteerService>>,
}

#[derive(Default)]
struct MeetingSharers {
    dht: Option<Box<DhtClient>>,
    punchings: Vec<CodePunching>,
    /// Looks for volunteer relays.
    search: Option<Box<VolunteerSearch>>,
}

struct VolunteerService {
    answers: VolunteerAnswers,
    /// Answers to send.
    waiting: Vec<(SocketAddr, [u8; VOLUNTEER_LEN])>,
}

impl VolunteerService {
    fn take_in(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> bool {
        match self.answers.handle_datagram(now, from, datagram) {
            VolunteerReply::NotAQuery => return false,
            VolunteerReply::Answer(answer) if self.waiting.len() < MAX_ANSWERS => {
                self.waiting.push((from, answer));
            }
            VolunteerReply::Answer(_) | VolunteerReply::Nothing => {}
        }
        true
    }
}

impl MeetingSharers {
    fn is_empty(&self) -> bool {
        self.dht.is_none() && self.punchings.is_empty() && self.search.is_none()
    }

    fn take_in(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> bool {
        let dht = self.dht.as_mut().filter(|_| datagram.first() == Some(&DICTIONARY));
        dht.is_some_and(|dht| dht.handle_datagram(now, from, datagram))
            || self.take_in_punch(now, from.into(), datagram)
            || (self.search.as_mut()).is_some_and(|it| it.handle_datagram(now, from, datagram))
    }

    fn take_in_punch(&mut self, now: Duration, way: PunchWay, datagram: &[u8]) -> bool {
        datagram.len() == PUNCH_LEN
            && self.punchings.iter_mut().any(|it| it.handle_datagram(now, way, datagram))
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let dht = self.dht.as_ref().and_then(|dht| dht.poll_timeout());
        let punchings = self.punchings.iter().filter_map(CodePunching::poll_timeout);
        let search = self.search.as_ref().and_then(|search| search.poll_timeout());
        punchings.chain(dht).chain(search).min()
    }
}

impl SocketSharers {
    fn of(&mut self, what: Meeting) -> &mut MeetingSharers {
        match what {
            Meeting::Code => &mut self.of_code,
            Meeting::Tickets => &mut self.of_tickets,
            Meeting::Volunteers => &mut self.of_volunteers,
        }
    }

    fn all(&self) -> [&MeetingSharers; 3] {
        [&self.of_code, &self.of_tickets, &self.of_volunteers]
    }

    /// Takes a datagram that is not for a link; returns false if it may be for one.
    #[inline]
    pub(crate) fn take_in(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> bool {
        if self.volunteer.is_none() && self.all().iter().all(|it| it.is_empty()) {
            return false;
        }
        Meeting::ALL.into_iter().any(|what| self.of(what).take_in(now, from, datagram))
            || (self.volunteer.as_mut()).is_some_and(|it| it.take_in(now, from, datagram))
    }

    /// The same for one that has arrived at one of many sockets of a meeting.
    pub(crate) fn take_in_punch(
        &mut self,
        what: Meeting,
        now: Duration,
        way: PunchWay,
        datagram: &[u8],
    ) -> bool {
        self.of(what).take_in_punch(now, way, datagram)
    }

    /// Like [`SocketSharers::take_in`], for datagrams of `stride` bytes that arrived as one train.
    pub(crate) fn take_in_train(
        &mut self,
        now: Duration,
        from: SocketAddr,
        train: &[u8],
        stride: usize,
    ) -> bool {
        let mut datagrams = train.chunks(stride.max(1));
        if !datagrams.next().is_some_and(|first| self.take_in(now, from, first)) {
            return false;
        }
        // Those of one length in a row are of one protocol, except an attacker's, which are lost this way.
        for datagram in datagrams {
            self.take_in(now, from, datagram);
        }
        true
    }

    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.all().iter().filter_map(|it| it.poll_timeout()).min()
    }
}

impl Engine {
    /// Enters the DHT at these addresses over the sockets for links that there are now. Nothing is sent before the first
    /// lookup. One more call replaces the client. `seed`: 32 random bytes.
    pub fn enter_dht(&mut self, what: Meeting, bootstrap: Vec<SocketAddr>, seed: [u8; 32]) {
        let has = |v4: bool| self.net.link_sockets.locals().any(|at| at.is_ipv4() == v4);
        let config = DhtConfig { bootstrap, ipv4: has(true), ipv6: has(false) };
        self.net.sharers.of(what).dht = Some(Box::new(DhtClient::new(config, seed)));
    }

    /// The client of the DHT, if it was entered. The engine sends and receives for it, and calls it when it is due.
    pub fn dht(&mut self, what: Meeting) -> Option<&mut DhtClient> {
        self.net.sharers.of(what).dht.as_deref_mut()
    }

    /// Uses these from now on, in place of those before.
    pub fn punch_for(&mut self, what: Meeting, punchings: Vec<CodePunching>) {
        self.net.sharers.of(what).punchings = punchings;
    }

    /// All of them, to add one or to end one.
    pub fn punchings(&mut self, what: Meeting) -> &mut Vec<CodePunching> {
        &mut self.net.sharers.of(what).punchings
    }

    /// One of the punchings, by its place among them.
    pub fn punching(&mut self, what: Meeting, place: usize) -> Option<&mut CodePunching> {
        self.net.sharers.of(what).punchings.get_mut(place)
    }

    /// Asks the addresses that this search has, and gets, whether a volunteer relay is there.
    pub fn search_volunteers(&mut self, what: Meeting, search: VolunteerSearch) {
        self.net.sharers.of(what).search = Some(Box::new(search));
    }

    /// The search for volunteer relays, if there is one.
    pub fn volunteer_search(&mut self, what: Meeting) -> Option<&mut VolunteerSearch> {
        self.net.sharers.of(what).search.as_deref_mut()
    }

    /// Ends it: nothing more is asked.
    pub fn end_volunteer_search(&mut self, what: Meeting) {
        self.net.sharers.of(what).search = None;
    }

    /// Answers from now on those that ask whether a volunteer relay is here. `seed`: 32 random bytes.
    pub fn answer_as_volunteer(&mut self, seed: &[u8; 32]) {
        let answers = VolunteerAnswers::new(self.link_key().0, seed);
        let service = VolunteerService { answers, waiting: Vec::new() };
        self.net.sharers.volunteer = Some(Box::new(service));
    }

    /// Answers no more.
    pub(crate) fn end_volunteer_answers(&mut self) {
        self.net.sharers.volunteer = None;
    }

    /// Dials a link by the knock over a way that punching has opened.
    ///
    /// # Errors
    /// Those of [`Engine::dial`].
    pub fn dial_punched(&mut self, way: PunchWay) -> std::io::Result<FaceId> {
        let peer = PeerAddress::Link { address: way.at, key: None };
        match (way.socket, way.at) {
            (Some(number), SocketAddr::V4(at)) => {
                let to = address_of(self.net.reaching.socket_prefix(), number, at);
                self.dial_link(&peer, to)
            }
            _ => self.dial(&peer, Persistency::Persistent),
        }
    }

    /// The local UDP port of a way that punching has opened.
    pub fn punched_port(&self, way: PunchWay) -> Option<u16> {
        let socket = match way.socket {
            Some(number) => self.net.reaching.punching.socket(number),
            None => self.net.link_sockets.socket_for(way.at),
        };
        Some(socket?.local().port())
    }

    /// Ends both: nothing of them is sent any more.
    pub fn leave_dht(&mut self, what: Meeting) {
        *self.net.sharers.of(what) = MeetingSharers::default();
    }
}

impl Network {
    /// Sends what clients of the DHT and punchings have to send.
    pub(crate) fn flush_sharers(&mut self, now: Duration) {
        let mut volunteer = self.sharers.volunteer.take();
        for (to, answer) in volunteer.iter_mut().flat_map(|it| it.waiting.drain(..)) {
            self.send_beside_links(to, &answer);
        }
        self.sharers.volunteer = volunteer;
        for what in Meeting::ALL {
            let mut sharers = std::mem::take(self.sharers.of(what));
            if let Some(dht) = &mut sharers.dht {
                while let Some(transmit) = dht.poll_transmit(now) {
                    if !self.send_beside_links(transmit.to, &transmit.bytes) {
                        dht.handle_unreachable(now, transmit.to);
                    }
                }
            }
            if let Some(search) = &mut sharers.search {
                while let Some((to, query)) = search.poll_transmit(now) {
                    self.send_beside_links(to, &query);
                }
            }
            for punching in &mut sharers.punchings {
                if let Some(to) = punching.poll_sockets(now) {
                    let user = PunchSocketUser::Meeting(what);
                    let numbers = self.open_extra_sockets(now, user, to);
                    punching.search_from(now, numbers.into_iter());
                }
                while let Some((way, datagram)) = punching.poll_transmit(now) {
                    match way.socket {
                        Some(number) => self.send_from_extra(number, way.at, &datagram),
                        None => drop(self.send_beside_links(way.at, &datagram)),
                    }
                }
            }
            *self.sharers.of(what) = sharers;
        }
    }

    /// Sends from one of many sockets, if it is still open.
    fn send_from_extra(&self, number: u16, to: SocketAddr, datagram: &[u8]) {
        if let Some(socket) = self.reaching.punching.socket(number) {
            // A datagram that is lost here is one that is lost.
            let _ = socket.send_one(to, datagram);
        }
    }

    /// Sends a datagram of another protocol from the socket that links to this address use; false if there is no way.
    fn send_beside_links(&self, to: SocketAddr, datagram: &[u8]) -> bool {
        let socket = self.link_sockets.socket_for(to);
        socket.is_some_and(|socket| socket.send_one(to, datagram).is_ok())
    }
}

#[cfg(test)]
mod tests;
