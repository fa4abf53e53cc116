//! [`CodePunching`]: small datagrams between two peers that the DHT lists for one code. They open the NATs on both sides,
//! and show which addresses have a peer with the same number.
//!
//! Every address is foreign: any address can be listed in the DHT, and a datagram's source can be forged. So each address
//! gets few and small datagrams, few addresses are served at a time, and only an address that has returned what was sent
//! to it alone is reported ([`CodePunching::poll_proven`]). Layout: docs/spec/reach.md, "Codes".
//!
//! Where one side has a symmetric NAT, no listed address is of use. Then that side sends from many sockets, and the other
//! one to many ports of its host, until two of them meet ([`PortSearch`]).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::net::{IpAddr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use constant_time_eq::constant_time_eq_n;
use xylem_hash::{Hasher, OutputReader, keyed_hash};

use self::search::{PortSearch, SearchStep};
pub use self::search::{SEARCH_PORTS, SEARCH_SOCKETS, draw_search_ports};
use super::exchange::CodeRole;

/// Length of each datagram.
pub const PUNCH_LEN: usize = 32;
/// Most datagrams to an address, and to a host with all of its ports.
pub const MAX_PUNCHES: u8 = 10;
/// Listed addresses that are sent to at a time.
pub const MAX_PUNCHED: usize = 8;

/// Most listed addresses in all.
const MAX_LISTED: usize = 64;
/// Most other addresses that have sent something valid.
const MAX_OTHERS: usize = 64;
/// Time after which one of them makes room for another.
const FORGET_OTHERS: Duration = Duration::from_secs(60);
/// Pauses between the datagrams that are sent unasked. The rest of [`MAX_PUNCHES`] is for answers.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(150),
    Duration::from_millis(350),
    Duration::from_millis(700),
    Duration::from_millis(1_300),
    Duration::from_millis(2_000),
];

const TOKEN: usize = 8;
type PunchToken = [u8; TOKEN];

/// An address, IPv4 or a /64 of IPv6: what one victim has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum PunchedHost {
    V4([u8; 4]),
    V6([u8; 8]),
    /// In a network of private addresses many peers share one address.
    Near(SocketAddr),
}

/// A way to a peer: one of this side's sockets, and the peer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PunchWay {
    /// The peer's address.
    pub at: SocketAddr,
    /// Number of one of the many sockets ([`CodePunching::search_from`]); `None`: the socket of links.
    pub socket: Option<u16>,
}

impl From<SocketAddr> for PunchWay {
    /// From the socket of links.
    fn from(at: SocketAddr) -> Self {
        Self { at, socket: None }
    }
}

#[derive(Debug)]
struct PunchedAddress {
    way: PunchWay,
    /// Whether the DHT lists it.
    listed: bool,
    /// Datagrams that were sent unasked.
    unasked: usize,
    /// When the next one is due; `None`: no more.
    next: Option<Duration>,
    /// What the peer there wants to have returned.
    theirs: PunchToken,
    /// Whether an answer is due.
    answers: bool,
    proven: bool,
    since: Duration,
}

/// See the module's documentation. The program passes in addresses that the DHT lists and datagrams that arrive, and
/// sends what [`CodePunching::poll_transmit`] returns from the socket that is listed.
pub struct CodePunching {
    role: CodeRole,
    key: [u8; 32],
    secret: [u8; 32],
    near: bool,
    draws: OutputReader,
    peers: Vec<PunchedAddress>,
    hosts: HashMap<PunchedHost, u8>,
    proven: VecDeque<PunchWay>,
    /// Number of ways that were proven.
    proven_ways: usize,
    /// When an address was listed first; `None` once a way is proven.
    unproven_since: Option<Duration>,
    /// `None`: this side never searches.
    search: Option<PortSearch>,
}

impl CodePunching {
    /// For this side of a code of this number. `near`: the DHT is one of private addresses. `seed`: 32 random bytes.
    #[must_use]
    pub fn new(role: CodeRole, number: u32, near: bool, seed: &[u8; 32]) -> Self {
        let key = xylem_hash::derive_key("xylem-reach v1 code punch", &number.to_be_bytes());
        Self::with_key(role, key, near, seed)
    }

    /// For this side of a meeting for which both have this key. The taker is the side that dials.
    #[must_use]
    pub fn with_key(role: CodeRole, key: [u8; 32], near: bool, seed: &[u8; 32]) -> Self {
        let mut draws = Hasher::new_derive_key("xylem-reach v1 code punching");
        Self {
            role,
            key,
            secret: xylem_hash::derive_key("xylem-reach v1 code punch tokens", seed),
            near,
            draws: draws.update(seed).finalize_xof(),
            peers: Vec::new(),
            hosts: HashMap::new(),
            proven: VecDeque::new(),
            proven_ways: 0,
            unproven_since: None,
            search: None,
        }
    }

    /// Searches many ports where one side has a symmetric NAT.
    #[must_use]
    pub fn with_search(mut self) -> Self {
        self.search = Some(PortSearch::default());
        self
    }

    /// Adds an address that a node of the DHT lists for the other side. Returns whether it is new.
    pub fn add(&mut self, now: Duration, at: SocketAddr, by: SocketAddr) -> bool {
        let at = canonical(at);
        if let Some(search) = &mut self.search {
            search.listed(now, at, by);
        }
        let has_room = self.listed() < MAX_LISTED;
        let way = PunchWay::from(at);
        if let Some(known) = self.peers.iter_mut().find(|peer| peer.way == way) {
            let fresh = has_room && !known.listed;
            known.listed |= fresh;
            return fresh;
        }
        let fresh = has_room;
        if fresh {
            if self.proven_ways == 0 {
                self.unproven_since.get_or_insert(now);
            }
            self.peers.push(PunchedAddress::new(way, now, true));
        }
        fresh
    }

    /// Tells whether this side's NAT gives each destination another port, as far as nodes of the DHT see it.
    pub fn set_symmetric(&mut self, symmetric: Option<bool>) {
        if let Some(search) = &mut self.search {
            search.symmetric = symmetric;
        }
    }

    /// Since when an address is listed without any way that is proven.
    #[must_use]
    pub fn unproven_since(&self) -> Option<Duration> {
        self.unproven_since
    }

    /// Since when an address is listed of a host to which no way is proven, also if one is proven to another: a sharer has
    /// many getters.
    #[must_use]
    pub fn unproven_host_since(&self) -> Option<Duration> {
        let proven = |of: &PunchedAddress| {
            let host = self.host(of.way.at);
            self.peers.iter().any(|peer| peer.proven && self.host(peer.way.at) == host)
        };
        let listed = self.peers.iter().filter(|peer| peer.listed && !proven(peer));
        listed.map(|peer| peer.since).min()
    }

    /// Whether this side searches many ports, or soon does: one side alone has a symmetric NAT.
    #[must_use]
    pub fn may_search(&self) -> bool {
        self.search.as_ref().is_some_and(PortSearch::is_of_use)
    }

    /// The address to which many sockets are to be opened now, once; then call [`CodePunching::search_from`].
    pub fn poll_sockets(&mut self, now: Duration) -> Option<SocketAddrV4> {
        let search = self.search.as_mut().filter(|_| self.proven_ways == 0)?;
        let to = search.poll_sockets(now)?;
        self.hosts.remove(&PunchedHost::V4(to.ip().octets()));
        Some(to)
    }

    /// The numbers of the sockets that were opened for [`CodePunching::poll_sockets`].
    pub fn search_from(&mut self, now: Duration, sockets: impl Iterator<Item = u16>) {
        if let Some(search) = &mut self.search {
            search.search_from(now, sockets);
        }
    }

    /// Takes a datagram. Returns false if it is none of these; then nothing has changed.
    pub fn handle_datagram(
        &mut self,
        now: Duration,
        from: impl Into<PunchWay>,
        datagram: &[u8],
    ) -> bool {
        let other = match self.role {
            CodeRole::Taker => CodeRole::Offerer,
            CodeRole::Offerer => CodeRole::Taker,
        };
        let Some((theirs, returned)) = open(&self.key, other, datagram) else { return false };
        let mut from = from.into();
        from.at = canonical(from.at);
        let is_proof = constant_time_eq_n(&returned, &self.token(from));
        let role = self.role;
        let Some(peer) = self.peer_at(now, from) else { return true };
        let is_fresh = is_proof && !peer.proven;
        // The taker's address is proven first, and the offerer's by the answer to that. Then the taker falls silent.
        peer.answers = role == CodeRole::Offerer || !peer.proven;
        peer.theirs = theirs;
        peer.proven |= is_proof;
        if is_proof {
            peer.next = None;
        }
        if is_fresh {
            self.proven.push_back(from);
            self.proven_ways = self.proven_ways.saturating_add(1);
            self.unproven_since = None;
        }
        true
    }

    /// The address as known, or a new one if there is room.
    fn peer_at(&mut self, now: Duration, from: PunchWay) -> Option<&mut PunchedAddress> {
        if let Some(place) = self.peers.iter().position(|peer| peer.way == from) {
            return self.peers.get_mut(place);
        }
        let others = self.peers.iter().filter(|peer| !peer.listed).count();
        if others >= MAX_OTHERS {
            let old = |peer: &PunchedAddress| {
                !peer.listed && now >= peer.since.saturating_add(FORGET_OTHERS)
            };
            let place = self.peers.iter().position(old)?;
            let gone = self.peers.remove(place);
            let host = self.host(gone.way.at);
            if self.peers.iter().all(|peer| self.host(peer.way.at) != host) {
                self.hosts.remove(&host);
            }
        }
        self.peers.push(PunchedAddress::new(from, now, false));
        self.peers.last_mut()
    }

    /// The next datagram to send, if one is due.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<(PunchWay, [u8; PUNCH_LEN])> {
        self.poll_answer(now).or_else(|| self.poll_search(now))
    }

    /// The next datagram of a search.
    fn poll_search(&mut self, now: Duration) -> Option<(PunchWay, [u8; PUNCH_LEN])> {
        let is_over = self.proven_ways > 0;
        let search = self.search.as_mut()?;
        if is_over {
            search.end();
        }
        let way = match search.poll(now, &mut self.draws)? {
            SearchStep::Begins(host) => {
                // Those that were sent to its listed ports are counted no more: what is in the host's first answer to this
                // search has to be answered.
                self.hosts.remove(&PunchedHost::V4(host.octets()));
                return self.poll_search(now);
            }
            SearchStep::Send(way) => way,
        };
        Some((way, self.sealed(way, PunchToken::default())))
    }

    fn sealed(&mut self, to: PunchWay, theirs: PunchToken) -> [u8; PUNCH_LEN] {
        let mut salt = PunchToken::default();
        self.draws.fill(&mut salt);
        seal(&self.key, self.role, salt, self.token(to), theirs)
    }

    fn poll_answer(&mut self, now: Duration) -> Option<(PunchWay, [u8; PUNCH_LEN])> {
        let due = |peer: &PunchedAddress| peer.answers || peer.next.is_some_and(|at| at <= now);
        let places: Vec<usize> = self.served().collect();
        let place = places.into_iter().find(|place| self.peers.get(*place).is_some_and(due))?;
        let way = self.peers.get(place)?.way;
        let allowed = self.count(way.at);
        let peer = self.peers.get_mut(place)?;
        let answers = core::mem::take(&mut peer.answers);
        if !allowed {
            peer.next = None;
            // At most as many calls as there are addresses.
            return self.poll_answer(now);
        }
        if !answers {
            peer.next = PAUSES.get(peer.unasked).map(|pause| now.saturating_add(*pause));
            peer.unasked = peer.unasked.saturating_add(1);
        }
        let theirs = peer.theirs;
        Some((way, self.sealed(way, theirs)))
    }

    /// The addresses to serve now: all that have sent something valid, and the first few others.
    fn served(&self) -> impl Iterator<Item = usize> {
        let is_open = |peer: &PunchedAddress| peer.next.is_some();
        let open = self.peers.iter().enumerate().filter(move |(_, peer)| is_open(peer));
        let answers = self.peers.iter().enumerate().filter(|(_, peer)| peer.answers);
        answers.chain(open.take(MAX_PUNCHED)).map(|(place, _)| place)
    }

    /// Counts a datagram to this address; false if it may get none.
    fn count(&mut self, at: SocketAddr) -> bool {
        let count = self.hosts.entry(self.host(at)).or_default();
        let allowed = *count < MAX_PUNCHES;
        *count = count.saturating_add(u8::from(allowed));
        allowed
    }

    /// The next way that is proven: the far end has received a datagram of ours, and a peer with the number is there.
    pub fn poll_proven(&mut self) -> Option<PunchWay> {
        self.proven.pop_front()
    }

    /// When [`CodePunching::poll_transmit`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let due = |peer: &PunchedAddress| peer.next.filter(|_| !peer.answers);
        let served = self.served().filter_map(|place| self.peers.get(place));
        let search = self.search.as_ref().and_then(|it| it.poll_timeout(self.proven_ways > 0));
        served.map(|peer| due(peer).unwrap_or(Duration::ZERO)).chain(search).min()
    }

    /// Number of addresses that the DHT has listed.
    #[must_use]
    pub fn listed(&self) -> usize {
        self.peers.iter().filter(|peer| peer.listed).count()
    }

    /// What only a peer at the far end of this way receives from us.
    fn token(&self, way: PunchWay) -> PunchToken {
        let mut material = [0; 21];
        let (ip, rest) = material.split_at_mut(16);
        let (port, socket) = rest.split_at_mut(2);
        let octets = match way.at.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        ip.copy_from_slice(&octets);
        port.copy_from_slice(&way.at.port().to_be_bytes());
        if let (Some(number), [is_one, two @ ..]) = (way.socket, socket) {
            *is_one = 1;
            two.copy_from_slice(&number.to_be_bytes());
        }
        first(&keyed_hash(&self.secret, &material))
    }

    fn host(&self, at: SocketAddr) -> PunchedHost {
        match at.ip() {
            _ if self.near => PunchedHost::Near(at),
            IpAddr::V4(ip) => PunchedHost::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let mut network = [0; 8];
                network.copy_from_slice(&ip.octets()[..8]);
                PunchedHost::V6(network)
            }
        }
    }
}

impl PunchedAddress {
    fn new(way: PunchWay, now: Duration, listed: bool) -> Self {
        Self {
            way,
            listed,
            unasked: 0,
            next: listed.then_some(now),
            theirs: PunchToken::default(),
            answers: false,
            proven: false,
            since: now,
        }
    }
}

fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

fn first(hash: &xylem_hash::Hash) -> PunchToken {
    let mut token = PunchToken::default();
    token.copy_from_slice(&hash.as_bytes()[..TOKEN]);
    token
}

fn role_byte(role: CodeRole) -> u8 {
    match role {
        CodeRole::Taker => 0,
        CodeRole::Offerer => 1,
    }
}

/// What hides the two tokens, and the mac over all before it.
fn mask(key: &[u8; 32], role: CodeRole, salt: &PunchToken) -> [u8; 2 * TOKEN] {
    let mut material = [0; 2 + TOKEN];
    material[1] = role_byte(role);
    material[2..].copy_from_slice(salt);
    let mut mask = [0; 2 * TOKEN];
    mask.copy_from_slice(&keyed_hash(key, &material).as_bytes()[..2 * TOKEN]);
    mask
}

fn mac(key: &[u8; 32], role: CodeRole, before: &[u8]) -> PunchToken {
    first(&keyed_hash(key, &[&[1, role_byte(role)], before].concat()))
}

fn seal(
    key: &[u8; 32],
    role: CodeRole,
    salt: PunchToken,
    ours: PunchToken,
    theirs: PunchToken,
) -> [u8; PUNCH_LEN] {
    let mut datagram = [0; PUNCH_LEN];
    let (before, last) = datagram.split_at_mut(3 * TOKEN);
    let tokens = ours.iter().chain(&theirs);
    let hidden = tokens.zip(mask(key, role, &salt)).map(|(byte, mask)| byte ^ mask);
    for (place, byte) in before.iter_mut().zip(salt.into_iter().chain(hidden)) {
        *place = byte;
    }
    last.copy_from_slice(&mac(key, role, before));
    datagram
}

/// The token of the sender, and the one that it returns.
fn open(key: &[u8; 32], role: CodeRole, datagram: &[u8]) -> Option<(PunchToken, PunchToken)> {
    let datagram: &[u8; PUNCH_LEN] = datagram.try_into().ok()?;
    let (before, last) = datagram.split_first_chunk::<{ 3 * TOKEN }>()?;
    let last: &PunchToken = last.try_into().ok()?;
    if !constant_time_eq_n(&mac(key, role, before), last) {
        return None;
    }
    let (salt, hidden) = before.split_first_chunk::<TOKEN>()?;
    let mut tokens = [0; 2 * TOKEN];
    for ((token, byte), mask) in tokens.iter_mut().zip(hidden).zip(mask(key, role, salt)) {
        *token = byte ^ mask;
    }
    let (theirs, returned) = tokens.split_first_chunk::<TOKEN>()?;
    Some((*theirs, returned.try_into().ok()?))
}

mod search;

#[cfg(test)]
mod tests;
