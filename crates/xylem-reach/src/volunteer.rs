//! Volunteer relays: relays that serve strangers, and are listed in the mainline DHT ([`crate::names::volunteers_key`]).
//!
//! An address that is listed there is a claim of some node. So an asker sends it a small datagram first ([`VolunteerSearch`]), to
//! which a volunteer answers with its link key ([`VolunteerAnswers`]). The two sides of a code, or the sharer and the getter of
//! a ticket, ask independently, and rank what answers in the same order ([`VolunteerChoice`]), so that they meet at the same
//! relays without a message about that. Nothing secret is in any of it: what the relay passes is encrypted, and each side
//! proves itself by the code's words or by its link key. Layout: docs/spec/reach.md, "Volunteers".
//!
//! ```
//! use core::time::Duration;
//! use xylem_reach::volunteer::{VolunteerAnswers, VolunteerChoice, VolunteerReply, VolunteerSearch};
//!
//! let (relay, asker) = ("192.0.2.1:7348".parse().unwrap(), "198.51.100.7:4000".parse().unwrap());
//! let mut volunteer = VolunteerAnswers::new([7; 32], &[1; 32]);
//! let mut search = VolunteerSearch::new(&VolunteerChoice::of_code(12_345), false, &[2; 32]);
//! search.add(Duration::ZERO, relay);
//! let now = Duration::from_millis(300);
//! let (to, query) = search.poll_transmit(now).unwrap();
//! let VolunteerReply::Answer(answer) = volunteer.handle_datagram(now, asker, &query) else { panic!() };
//! search.handle_datagram(now, to, &answer);
//! assert_eq!(search.chosen(now).unwrap()[0].key, [7; 32]);
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use constant_time_eq::constant_time_eq_n;
use xylem_hash::{Hash, Hasher, OutputReader, keyed_hash};
use xylem_link::source;

use crate::kind::is_global;
use crate::names::{DHT_KEY_LEN, VOLUNTEER_SHARDS, volunteers_key};
use crate::relay::rate::{Allowance, HostBuckets, LeakyBucket};

/// Length of a query and of an answer in bytes. They are equally long, so a volunteer amplifies nothing.
pub const VOLUNTEER_LEN: usize = 64;
/// Most hosts that a search sends queries to.
pub const MAX_ASKED_VOLUNTEERS: usize = 24;
/// Most queries to a host.
pub const MAX_VOLUNTEER_QUERIES: usize = 2;
/// Volunteers at which the two sides of a code meet, of each family of addresses.
pub const CHOSEN_VOLUNTEERS: usize = 3;

/// Most hosts that a search remembers.
const MAX_LISTED: usize = 64;
/// Pause after the first listed address before the first query, so that the best of those that are listed are asked.
const GATHER: Duration = Duration::from_millis(300);
/// Pause before the second query to a host.
const REPEAT: Duration = Duration::from_millis(500);
/// Time for an answer after the first query.
const SILENT: Duration = Duration::from_millis(1_200);

/// Answers of a volunteer to one host and to all together.
const TO_HOST: Allowance = Allowance { per_second: 4, burst: Duration::from_secs(4) };
const TO_ALL: Allowance = Allowance { per_second: 256, burst: Duration::from_secs(4) };

const SALT: usize = 8;
const MAC: usize = 8;
const HIDDEN: usize = VOLUNTEER_LEN - SALT - MAC;

type Salt = [u8; SALT];

/// What a datagram is.
#[derive(Clone, Copy)]
enum VolunteerKind {
    Query = 0,
    Answer = 1,
}

/// The key of all these datagrams. It is well known: it makes them look random, and tells them from others.
fn well_known() -> [u8; 32] {
    xylem_hash::derive_key("xylem-reach v1 volunteer relays", b"")
}

fn mask(key: &[u8; 32], kind: VolunteerKind, salt: &Salt) -> [u8; HIDDEN] {
    let mut mask = [0; HIDDEN];
    let mut hasher = Hasher::new_keyed(key);
    hasher.update(&[0, kind as u8]).update(salt).finalize_xof().fill(&mut mask);
    mask
}

fn mac(key: &[u8; 32], kind: VolunteerKind, before: &[u8]) -> [u8; MAC] {
    let mut mac = [0; MAC];
    let hash = keyed_hash(key, &[&[1, kind as u8], before].concat());
    mac.copy_from_slice(&hash.as_bytes()[..MAC]);
    mac
}

fn seal(
    key: &[u8; 32],
    kind: VolunteerKind,
    salt: Salt,
    body: &[u8; HIDDEN],
) -> [u8; VOLUNTEER_LEN] {
    let mut datagram = [0; VOLUNTEER_LEN];
    let (before, last) = datagram.split_at_mut(SALT + HIDDEN);
    let hidden = body.iter().zip(mask(key, kind, &salt)).map(|(byte, mask)| byte ^ mask);
    for (place, byte) in before.iter_mut().zip(salt.into_iter().chain(hidden)) {
        *place = byte;
    }
    last.copy_from_slice(&mac(key, kind, before));
    datagram
}

/// The salt and the body of a datagram of this kind; `None` for anything else.
fn open(key: &[u8; 32], kind: VolunteerKind, datagram: &[u8]) -> Option<(Salt, [u8; HIDDEN])> {
    let datagram: &[u8; VOLUNTEER_LEN] = datagram.try_into().ok()?;
    let (before, last) = datagram.split_first_chunk::<{ SALT + HIDDEN }>()?;
    let last: &[u8; MAC] = last.try_into().ok()?;
    if !constant_time_eq_n(&mac(key, kind, before), last) {
        return None;
    }
    let (salt, hidden) = before.split_first_chunk::<SALT>()?;
    let mut body = mask(key, kind, salt);
    body.iter_mut().zip(hidden).for_each(|(place, byte)| *place ^= byte);
    Some((*salt, body))
}

/// A volunteer's reply to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolunteerReply {
    /// The datagram is no query.
    NotAQuery,
    /// It is a query that gets no answer, because a rate is exceeded.
    Nothing,
    /// The answer, to be sent to where the query came from.
    Answer([u8; VOLUNTEER_LEN]),
}

/// The volunteer's side: answers queries with the relay's link key, to each host at a limited rate.
pub struct VolunteerAnswers {
    key: [u8; 32],
    link_key: [u8; 32],
    draws: OutputReader,
    hosts: HostBuckets,
    all: LeakyBucket,
}

impl VolunteerAnswers {
    /// For a relay with this public link key. `seed`: 32 random bytes.
    #[must_use]
    pub fn new(link_key: [u8; 32], seed: &[u8; 32]) -> Self {
        let mut draws = Hasher::new_derive_key("xylem-reach v1 volunteer's salts");
        let rates = xylem_hash::derive_key("xylem-reach v1 volunteer's rates", seed);
        Self {
            key: well_known(),
            link_key,
            draws: draws.update(seed).finalize_xof(),
            hosts: HostBuckets::new(rates),
            all: LeakyBucket::default(),
        }
    }

    /// Takes a datagram that has arrived at the relay's port.
    pub fn handle_datagram(
        &mut self,
        now: Duration,
        from: SocketAddr,
        datagram: &[u8],
    ) -> VolunteerReply {
        if datagram.len() != VOLUNTEER_LEN {
            return VolunteerReply::NotAQuery;
        }
        let Some((asked, _)) = open(&self.key, VolunteerKind::Query, datagram) else {
            return VolunteerReply::NotAQuery;
        };
        let may = self.hosts.take(now, from.ip(), 1, Some(TO_HOST))
            && self.all.take(now, 1, Some(TO_ALL));
        if !may {
            return VolunteerReply::Nothing;
        }
        let (mut salt, mut body) = (Salt::default(), [0; HIDDEN]);
        self.draws.fill(&mut salt);
        let known = asked.iter().chain(&self.link_key);
        body.iter_mut().zip(known).for_each(|(place, byte)| *place = *byte);
        VolunteerReply::Answer(seal(&self.key, VolunteerKind::Answer, salt, &body))
    }
}

/// A volunteer that has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolunteerRelay {
    /// The link key that it has to prove.
    pub key: [u8; 32],
    /// Addresses over UDP that have answered with this key. The relay is at those that prove it.
    pub at: Vec<SocketAddr>,
    /// Time from the query to the answer.
    pub round_trip: Duration,
}

struct ListedVolunteer {
    /// Listed addresses of the host, which differ in their ports: one may be an old one, or a liar's.
    at: Vec<SocketAddr>,
    /// Its place in the order of these two sides: a hash, which an attacker with few hosts cannot choose.
    rank: [u8; 32],
    /// The queries that were sent to it.
    queries: Vec<SentQuery>,
    answer: Option<VolunteerAnswered>,
}

struct SentQuery {
    salt: Salt,
    to: SocketAddr,
    at: Duration,
}

struct VolunteerAnswered {
    from: SocketAddr,
    link_key: [u8; 32],
    round_trip: Duration,
}

impl ListedVolunteer {
    fn first_asked(&self) -> Option<Duration> {
        self.queries.first().map(|query| query.at)
    }

    /// Until when an answer is waited for.
    fn waits_until(&self) -> Option<Duration> {
        let asked = self.first_asked().filter(|_| self.answer.is_none())?;
        Some(asked.saturating_add(SILENT))
    }

    /// When the second query is due.
    fn again_at(&self) -> Option<Duration> {
        let is_due = self.answer.is_none() && self.queries.len() < MAX_VOLUNTEER_QUERIES;
        Some(self.first_asked().filter(|_| is_due)?.saturating_add(REPEAT))
    }
}

/// What decides at which volunteers two sides meet. Both compute it from what they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolunteerChoice {
    /// The key in the DHT under which both look for volunteers, one of those of all volunteers.
    pub listed_under: [u8; DHT_KEY_LEN],
    /// The key of the hash that ranks hosts.
    order: [u8; 32],
}

impl VolunteerChoice {
    /// For the two sides of a code of this number.
    #[must_use]
    pub fn of_code(number: u32) -> Self {
        let order = "xylem-reach v1 order of volunteers for a code";
        Self::new(number, xylem_hash::derive_key(order, &number.to_be_bytes()))
    }

    /// For the sharers and the getters of content with this root.
    #[must_use]
    pub fn of_root(root: &Hash) -> Self {
        let order = "xylem-reach v1 order of volunteers for a root";
        let order = xylem_hash::derive_key(order, root.as_bytes());
        Self::new(u32::from(order[0]), order)
    }

    fn new(number: u32, order: [u8; 32]) -> Self {
        let shard = number.checked_rem(u32::from(VOLUNTEER_SHARDS)).unwrap_or(0);
        Self { listed_under: volunteers_key(u8::try_from(shard).unwrap_or(0)), order }
    }
}

/// The asker's side: finds out which listed addresses have a volunteer, and chooses those at which the other side looks
/// as well. The program passes in the addresses that the DHT lists and the datagrams that arrive.
pub struct VolunteerSearch {
    key: [u8; 32],
    order: [u8; 32],
    near: bool,
    draws: OutputReader,
    /// In the order of their ranks.
    listed: Vec<ListedVolunteer>,
    begins: Option<Duration>,
}

impl VolunteerSearch {
    /// For two sides that share `choice`. `near`: the DHT is one of private addresses. `seed`: 32 random bytes.
    #[must_use]
    pub fn new(choice: &VolunteerChoice, near: bool, seed: &[u8; 32]) -> Self {
        let mut draws = Hasher::new_derive_key("xylem-reach v1 volunteer search");
        Self {
            key: well_known(),
            order: choice.order,
            near,
            draws: draws.update(seed).finalize_xof(),
            listed: Vec::new(),
            begins: None,
        }
    }

    /// Adds an address that a node of the DHT lists. One of each host is used, and none that is not of the internet unless
    /// the DHT is near.
    pub fn add(&mut self, now: Duration, at: SocketAddr) {
        let at = SocketAddr::new(at.ip().to_canonical(), at.port());
        if at.port() == 0 || !(self.near || is_global(at.ip())) {
            return;
        }
        let rank = self.rank(at);
        let place = self.listed.partition_point(|known| known.rank < rank);
        if let Some(known) = self.listed.get_mut(place).filter(|known| known.rank == rank) {
            if known.at.len() < MAX_VOLUNTEER_QUERIES && !known.at.contains(&at) {
                known.at.push(at);
            }
            return;
        }
        // When all places are taken, one that ranks better takes the last, if that was not asked yet.
        if self.listed.len() >= MAX_LISTED && !self.drop_last(rank) {
            return;
        }
        self.begins.get_or_insert(now.saturating_add(GATHER));
        let fresh = ListedVolunteer { at: vec![at], rank, queries: Vec::new(), answer: None };
        self.listed.insert(place, fresh);
    }

    fn drop_last(&mut self, rank: [u8; 32]) -> bool {
        let worse = |it: &&mut ListedVolunteer| it.rank > rank && it.queries.is_empty();
        let is_worse = self.listed.last_mut().filter(worse).is_some();
        if is_worse {
            self.listed.pop();
        }
        is_worse
    }

    /// The rank of a host: an IPv4 address, or a /64 of IPv6. One host has one place in the order.
    fn rank(&self, at: SocketAddr) -> [u8; 32] {
        let ip = match source(at.ip()) {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let port = if self.near { at.port() } else { 0 };
        let mut material = [0; 18];
        let (host, two) = material.split_at_mut(16);
        host.copy_from_slice(&ip.octets());
        two.copy_from_slice(&port.to_be_bytes());
        *keyed_hash(&self.order, &material).as_bytes()
    }

    /// Whether any address is listed.
    #[must_use]
    pub fn has_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    /// The next query to send, if one is due.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<(SocketAddr, [u8; VOLUNTEER_LEN])> {
        let again = |it: &ListedVolunteer| it.again_at().is_some_and(|at| at <= now);
        let place = match self.listed.iter().position(again) {
            Some(place) => place,
            None => self.next_to_ask().filter(|_| self.begins.is_some_and(|at| at <= now))?,
        };
        let mut salt = Salt::default();
        self.draws.fill(&mut salt);
        let query = seal(&self.key, VolunteerKind::Query, salt, &[0; HIDDEN]);
        let asked = self.listed.get_mut(place)?;
        let to = *asked.at.get(asked.queries.len()).or(asked.at.first())?;
        asked.queries.push(SentQuery { salt, to, at: now });
        Some((to, query))
    }

    /// The best host that was not asked, if one more may be.
    fn next_to_ask(&self) -> Option<usize> {
        let asked = self.listed.iter().filter(|it| !it.queries.is_empty()).count();
        let fresh = self.listed.iter().position(|it| it.queries.is_empty());
        fresh.filter(|_| asked < MAX_ASKED_VOLUNTEERS)
    }

    /// When [`VolunteerSearch::poll_transmit`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let again = self.listed.iter().filter_map(ListedVolunteer::again_at);
        let next = self.begins.filter(|_| self.next_to_ask().is_some());
        again.chain(next).min()
    }

    /// Takes a datagram. Returns false if it is no answer of a volunteer; then nothing has changed.
    pub fn handle_datagram(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> bool {
        if datagram.len() != VOLUNTEER_LEN {
            return false;
        }
        let Some((_, body)) = open(&self.key, VolunteerKind::Answer, datagram) else {
            return false;
        };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let Some((returned, rest)) = body.split_first_chunk::<SALT>() else { return true };
        let Some(link_key) = rest.first_chunk::<32>() else { return true };
        for asked in self.listed.iter_mut().filter(|it| it.answer.is_none()) {
            let is_it = |query: &&SentQuery| query.to == from && query.salt == *returned;
            if let Some(query) = asked.queries.iter().find(is_it) {
                let round_trip = now.saturating_sub(query.at);
                asked.answer = Some(VolunteerAnswered { from, link_key: *link_key, round_trip });
                break;
            }
        }
        true
    }

    /// The volunteers at which to meet, the nearest first, once no better ones may still answer. The other side
    /// chooses the same of those that answer both.
    #[must_use]
    pub fn chosen(&self, now: Duration) -> Option<Vec<VolunteerRelay>> {
        let mut chosen: Vec<VolunteerRelay> = Vec::new();
        for is_v4 in [true, false] {
            for it in self.best(now, |at| at.is_ipv4() == is_v4)? {
                let Some(answered) = &it.answer else { continue };
                let (key, round_trip, at) = (answered.link_key, answered.round_trip, answered.from);
                // Any volunteer can answer with another's key. The relay is dialled at all of them.
                match chosen.iter_mut().find(|known| known.key == key) {
                    Some(known) => known.at.push(at),
                    None => chosen.push(VolunteerRelay { key, at: vec![at], round_trip }),
                }
            }
        }
        chosen.sort_by_key(|it| it.round_trip);
        Some(chosen)
    }

    /// The first few of a family that have answered; `None` while a better one may still do so.
    fn best(
        &self,
        now: Duration,
        is_of: impl Fn(SocketAddr) -> bool,
    ) -> Option<Vec<&ListedVolunteer>> {
        let (mut best, may_ask) = (Vec::new(), self.next_to_ask().is_some());
        for it in self.listed.iter().filter(|it| it.at.first().is_some_and(|at| is_of(*at))) {
            if best.len() >= CHOSEN_VOLUNTEERS {
                break;
            }
            if it.answer.is_some() {
                best.push(it);
            } else if it.waits_until().is_some_and(|until| now < until)
                || (it.queries.is_empty() && may_ask)
            {
                return None;
            }
        }
        Some(best)
    }

    /// When [`VolunteerSearch::chosen`] has an answer at the latest, as far as is known now.
    #[must_use]
    pub fn settles_at(&self) -> Option<Duration> {
        self.listed.iter().filter_map(ListedVolunteer::waits_until).max()
    }
}

#[cfg(test)]
mod tests;
