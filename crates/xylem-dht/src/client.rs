//! [`DhtClient`]: lookups, their queries in progress, and what is known of the network.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use xylem_congestion::{Rtt, TimeoutLimits};

use crate::address::{AddressScope, Host, canonical};
use crate::id::DhtId;
use crate::item::MutableItem;
use crate::krpc::{Answer, AnswerBody, Transaction};
use crate::lookup::{Learned, ListedPeers, Lookup, LookupEnd, LookupId, LookupKind, Work};
use crate::nodes::NodeCache;
use crate::observed::{ObservedAddress, ObservedAddresses};
use crate::rng::DhtRng;
use crate::search::Search;
use crate::silent::SilentAddresses;

/// Most lookups at once, polls included.
pub const MAX_LOOKUPS: usize = 16;
/// Most addresses where the network is entered.
pub const MAX_BOOTSTRAP: usize = 64;
/// Most queries in progress, late ones included.
const MAX_IN_PROGRESS: usize = 256;
/// Most events that wait for [`DhtClient::poll_event`]; beyond that, no lookup is begun.
const MAX_EVENTS: usize = 1_024;
/// Most targets with nodes that are remembered for polls: two for each of eight tickets, and one of volunteers.
const MAX_TARGETS: usize = 17;
/// Most nodes remembered of one target: twelve of each family.
const TARGET_NODES: usize = 24;
/// Nodes asked by one poll.
const POLLED: usize = 4;
/// Polls that a node may leave unanswered, in a row.
const MAX_MISSED_POLLS: u8 = 1;
/// Nodes from which a search starts.
const STARTS: usize = 16;
/// Time for which an answer is awaited, if it is late for the search.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// Time after a failed entry in which no other is tried. Doubled after each, while the other family answers: a machine
/// without IPv6 must not wait for it at each lookup.
const ENTER_AGAIN: Duration = Duration::from_secs(2);
/// Most doublings of it: some four minutes.
const MAX_DOUBLINGS: u32 = 7;
/// When a search goes on without an answer.
const TIMEOUT: TimeoutLimits = TimeoutLimits {
    least: Duration::from_millis(250),
    most: Duration::from_secs(2),
    doublings: 0,
    ack_delay: Duration::ZERO,
};

/// How to enter the network.
#[derive(Clone, Debug)]
pub struct DhtConfig {
    /// First nodes, of both families, [`MAX_BOOTSTRAP`] at most: well-known ones or those of an earlier run
    /// ([`DhtClient::known_nodes`]). If all of them are private or loopback addresses, the network is a local one, and
    /// such addresses are used from answers too.
    pub bootstrap: Vec<SocketAddr>,
    /// Whether IPv4 nodes are asked.
    pub ipv4: bool,
    /// Whether IPv6 nodes are asked.
    pub ipv6: bool,
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// Its payload.
    pub bytes: Vec<u8>,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DhtEvent {
    /// Addresses listed under the target, [`crate::MAX_PEERS`] at most for one lookup. It is not proven that a peer is
    /// there.
    Peers(LookupId, ListedPeers),
    /// A value that the key has signed, not necessarily newer than one before it.
    Item(LookupId, MutableItem),
    /// A lookup has ended.
    Done(LookupId, LookupEnd),
    /// The addresses of this socket that several nodes see have changed ([`DhtClient::observed_v4`]).
    Observed,
}

/// Why a lookup cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DhtError {
    /// [`MAX_LOOKUPS`] are in progress, or too many events wait.
    #[error("too many lookups at once")]
    Busy,
    /// No node of the target is known: look it up first.
    #[error("no node of this target is known")]
    Unknown,
    /// A salt or value is too long, a number negative, a port 0.
    #[error("the item or port is out of range")]
    OutOfRange,
}

struct PendingQuery {
    to: SocketAddr,
    lookup: LookupId,
    stores: bool,
    sent: Duration,
    /// When the search goes on without it; `None` once it has.
    late_at: Option<Duration>,
}

impl PendingQuery {
    fn ends_at(&self) -> Duration {
        self.sent.saturating_add(ANSWER_WITHIN)
    }
}

/// What is known of one family's network.
struct Family {
    v6: bool,
    nodes: NodeCache,
    rtt: Rtt,
    observed: ObservedAddresses,
    /// The lookup that enters the network, while it lasts.
    entering: Option<LookupId>,
    /// When an entry has failed, and how many have in a row.
    failed_at: Option<Duration>,
    failures: u32,
}

struct KnownTarget {
    target: DhtId,
    nodes: Vec<(DhtId, SocketAddr, u8)>,
}

/// A client of the DHT that answers no queries (BEP 43). It has no socket and no clock.
///
/// After each call that changes it, drain [`DhtClient::poll_transmit`] and then [`DhtClient::poll_event`], and
/// call [`DhtClient::handle_timeout`] at [`DhtClient::poll_timeout`]. `now` is the time since any epoch, and never
/// decreases.
///
/// ```
/// use core::time::Duration;
/// use xylem_dht::{DhtClient, DhtConfig, DhtId, LookupKind};
///
/// let bootstrap = vec!["127.0.0.1:6881".parse().unwrap()];
/// let mut dht = DhtClient::new(DhtConfig { bootstrap, ipv4: true, ipv6: false }, [7; 32]);
/// dht.lookup(Duration::ZERO, LookupKind::Peers(DhtId([1; 20]))).unwrap();
/// let first = dht.poll_transmit(Duration::ZERO).unwrap();
/// assert!(first.to.port() == 6881 && first.bytes.starts_with(b"d1:ad2:id20:"));
/// ```
pub struct DhtClient {
    bootstrap: Vec<SocketAddr>,
    scope: AddressScope,
    families: Vec<Family>,
    rng: DhtRng,
    lookups: Vec<Lookup>,
    next_lookup: u64,
    pending: HashMap<Transaction, PendingQuery>,
    targets: VecDeque<KnownTarget>,
    silent: SilentAddresses,
    events: VecDeque<DhtEvent>,
}

impl DhtClient {
    /// Makes a client. `seed`: 32 random bytes, never used for two clients. Nothing is sent before the first lookup.
    pub fn new(config: DhtConfig, seed: [u8; 32]) -> Self {
        let bootstrap = admitted(config.bootstrap);
        let scope = AddressScope::of(&bootstrap);
        let family = |v6| Family {
            v6,
            nodes: NodeCache::new(scope),
            rtt: Rtt::default(),
            observed: ObservedAddresses::default(),
            entering: None,
            failed_at: None,
            failures: 0,
        };
        let wanted = [(false, config.ipv4), (true, config.ipv6)];
        Self {
            bootstrap,
            scope,
            families: wanted.into_iter().filter(|w| w.1).map(|(v6, _)| family(v6)).collect(),
            rng: DhtRng::new(seed),
            lookups: Vec::new(),
            next_lookup: 0,
            pending: HashMap::new(),
            targets: VecDeque::new(),
            silent: SilentAddresses::new(scope),
            events: VecDeque::new(),
        }
    }

    /// Enters the network at other addresses from now on: those before were all silent, or the network has changed.
    pub fn set_bootstrap(&mut self, bootstrap: Vec<SocketAddr>) {
        self.bootstrap = admitted(bootstrap);
        self.scope = AddressScope::of(&self.bootstrap);
        self.silent.set_scope(self.scope);
        for family in &mut self.families {
            family.nodes.set_scope(self.scope);
            family.observed.clear();
            (family.failed_at, family.failures) = (None, 0);
        }
    }

    /// Begins a lookup; [`DhtEvent::Done`] reports its end.
    ///
    /// # Errors
    /// [`DhtError::Busy`], [`DhtError::OutOfRange`].
    pub fn lookup(&mut self, now: Duration, kind: LookupKind) -> Result<LookupId, DhtError> {
        if !kind.fits() {
            return Err(DhtError::OutOfRange);
        }
        self.check_room()?;
        let target = kind.target();
        let id = self.begin(Work::Question(kind), target);
        self.start_searches(now, id);
        Ok(id)
    }

    /// Asks four of the nodes closest to a target for its peers, others each time. They are known from the last lookup
    /// of the target's peers. It costs a round trip, and no node learns of it that did not know.
    ///
    /// # Errors
    /// [`DhtError::Unknown`] if there was no such lookup, or none of those nodes answers any more; [`DhtError::Busy`].
    pub fn poll_peers(&mut self, target: DhtId) -> Result<LookupId, DhtError> {
        self.check_room()?;
        let known = self.targets.iter_mut().find(|known| known.target == target);
        let known = known.filter(|known| !known.nodes.is_empty()).ok_or(DhtError::Unknown)?;
        let asked = POLLED.min(known.nodes.len());
        let nodes: Vec<_> = known.nodes.iter().take(asked).map(|(id, at, _)| (*id, *at)).collect();
        known.nodes.rotate_left(asked);
        let id = self.begin(Work::Poll, target);
        let families: Vec<bool> = self.families.iter().map(|family| family.v6).collect();
        let scope = self.scope;
        if let Some(lookup) = self.lookups.iter_mut().find(|lookup| lookup.id == id) {
            for v6 in families {
                let mut search = Search::poll(v6, target, scope);
                search.start(nodes.iter().copied());
                lookup.searches.push(search);
            }
        }
        Ok(id)
    }

    /// Ends a lookup without an event.
    pub fn cancel(&mut self, id: LookupId) {
        self.lookups.retain(|lookup| lookup.id != id);
        self.events.retain(|event| match event {
            DhtEvent::Peers(of, _) | DhtEvent::Item(of, _) | DhtEvent::Done(of, _) => *of != id,
            DhtEvent::Observed => true,
        });
    }

    /// Takes a datagram that has arrived. Returns whether it is the answer to a query in progress: its transaction and
    /// its source are those of the query. Nothing else is ours, and it changes nothing.
    pub fn handle_datagram(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let from = canonical(from);
        let Some(answer) = Answer::parse(datagram) else { return false };
        if self.pending.get(&answer.transaction).is_none_or(|query| query.to != from) {
            return false;
        }
        let Some(query) = self.pending.remove(&answer.transaction) else { return false };
        self.silent.answered(from);
        let is_entry = self.bootstrap.contains(&from);
        let scope = self.scope;
        if let Some(family) = self.families.iter_mut().find(|f| f.v6 == from.is_ipv6()) {
            family.rtt.sample(now.saturating_sub(query.sent), Duration::ZERO);
            // The first queries were sent before any round trip was known, and would be awaited for a second.
            let wait = family.rtt.timeout(&TIMEOUT, 0);
            let of_family = |query: &&mut PendingQuery| query.to.is_ipv6() == family.v6;
            for waiting in self.pending.values_mut().filter(of_family) {
                let late_at = waiting.sent.saturating_add(wait);
                waiting.late_at = waiting.late_at.map(|at| at.min(late_at));
            }
            let mut bound = false;
            if let AnswerBody::Response(response) = &answer.body {
                family.nodes.insert(response.id, from, is_entry);
                bound = response.id.is_bound_to(from.ip());
            }
            // BEP 42 has nodes report our address, and choose ids that are bound to theirs. Nodes with invented ids,
            // which place themselves next to what is looked for, are not believed.
            let same_family = |seen: &SocketAddr| bound && seen.is_ipv6() == family.v6;
            if let Some(seen) = answer.seen.filter(|s| scope.admits(*s)).filter(same_family)
                && family.observed.report(Host::of(from, scope), seen)
                && !self.events.contains(&DhtEvent::Observed)
            {
                self.events.push_back(DhtEvent::Observed);
            }
        }
        let Some(lookup) = self.lookups.iter_mut().find(|lookup| lookup.id == query.lookup) else {
            return true;
        };
        let id = lookup.id;
        let is_poll = matches!(lookup.work, Work::Poll);
        match answer.body {
            AnswerBody::Response(_) if query.stores => lookup.stored(from),
            AnswerBody::Response(response) => match lookup.answered(from, &response) {
                Learned::Peers(peers) => self.events.push_back(DhtEvent::Peers(id, peers)),
                Learned::Item(item) => self.events.push_back(DhtEvent::Item(id, item)),
                Learned::Nothing => {}
            },
            AnswerBody::Error(error) => lookup.failed(from, query.stores, error),
        }
        if is_poll {
            let target = lookup.target;
            self.poll_answered(target, from);
        }
        true
    }

    /// The socket cannot send to this address: its network is not reachable. The lookup goes on without an answer.
    pub fn handle_unreachable(&mut self, now: Duration, to: SocketAddr) {
        let to = canonical(to);
        for query in self.pending.values_mut().filter(|query| query.to == to) {
            query.late_at = query.late_at.map(|late_at| late_at.min(now));
        }
        self.handle_timeout(now);
    }

    /// The next datagram to send, if there is one.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<Transmit> {
        self.handle_timeout(now);
        loop {
            if let Some(transmit) = self.next_transmit(now) {
                return Some(transmit);
            }
            if !self.settle(now) {
                return None;
            }
        }
    }

    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<DhtEvent> {
        self.events.pop_front()
    }

    /// When [`DhtClient::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.pending.values().map(|query| query.late_at.unwrap_or(query.ends_at())).min()
    }

    /// Goes on without answers that are late.
    pub fn handle_timeout(&mut self, now: Duration) {
        let mut late = Vec::new();
        self.pending.retain(|_, query| {
            if query.late_at.is_some_and(|late_at| now >= late_at) {
                query.late_at = None;
                late.push((query.lookup, query.to, query.stores));
            }
            now < query.ends_at()
        });
        // One order for one seed, whatever the order of the map.
        late.sort();
        for (id, to, stores) in late {
            if let Some(family) = self.families.iter_mut().find(|f| f.v6 == to.is_ipv6()) {
                family.nodes.fail(to);
            }
            let Some(lookup) = self.lookups.iter_mut().find(|lookup| lookup.id == id) else {
                continue;
            };
            lookup.late(to, stores);
            if matches!(lookup.work, Work::Poll) {
                let target = lookup.target;
                self.poll_missed(target, to);
            }
        }
    }

    /// IPv4 addresses of this socket as nodes report them, the most frequent one first. The latest report of each of 64
    /// hosts counts. [`crate::is_symmetric`] judges the NAT from them.
    pub fn observed_v4(&self) -> Vec<ObservedAddress> {
        self.observed(false)
    }

    /// As [`Self::observed_v4`], for IPv6.
    pub fn observed_v6(&self) -> Vec<ObservedAddress> {
        self.observed(true)
    }

    fn observed(&self, v6: bool) -> Vec<ObservedAddress> {
        let family = self.families.iter().find(|family| family.v6 == v6);
        family.map(|family| family.observed.list()).unwrap_or_default()
    }

    /// Nodes that have answered lately, for the next run's [`DhtConfig::bootstrap`].
    pub fn known_nodes(&self, most: usize) -> Vec<SocketAddr> {
        self.families.iter().flat_map(|family| family.nodes.latest(most)).collect()
    }

    /// Number of lookups in progress, those of the client's own included.
    pub fn lookups(&self) -> usize {
        self.lookups.len()
    }

    fn check_room(&self) -> Result<(), DhtError> {
        let asked = self.lookups.iter().filter(|lookup| !matches!(lookup.work, Work::Enter));
        let room = asked.count() < MAX_LOOKUPS && self.events.len() < MAX_EVENTS;
        if room { Ok(()) } else { Err(DhtError::Busy) }
    }

    fn begin(&mut self, work: Work, target: DhtId) -> LookupId {
        let id = LookupId(self.next_lookup);
        self.next_lookup = self.next_lookup.saturating_add(1);
        // An entry searches for the id that it claims.
        let own = if matches!(work, Work::Enter) { target } else { DhtId(self.rng.array()) };
        self.lookups.push(Lookup::new(id, work, target, own, self.scope));
        id
    }

    /// Starts the searches of a lookup from known nodes, and enters the network where none is known.
    fn start_searches(&mut self, now: Duration, id: LookupId) {
        for place in 0..self.families.len() {
            self.enter(now, place, false);
        }
        let Some(lookup) = self.lookups.iter_mut().find(|lookup| lookup.id == id) else { return };
        let target = lookup.target;
        let known = self.targets.iter().find(|known| known.target == target);
        lookup.searches.clear();
        let wants: Vec<bool> = self.families.iter().map(|family| lookup.wants(family.v6)).collect();
        for (family, _) in self.families.iter().zip(wants).filter(|(_, wants)| *wants) {
            let mut search = Search::new(family.v6, target, self.scope);
            search.start(family.nodes.nearest(&target, STARTS));
            let known = known.iter().flat_map(|known| &known.nodes);
            search.start(known.map(|(id, at, _)| (*id, *at)));
            lookup.searches.push(search);
        }
    }

    /// Enters a family's network, if no node of it is known (or in any case) and it is not being entered.
    fn enter(&mut self, now: Duration, place: usize, in_any_case: bool) {
        let other = self.families.iter().any(|family| family.nodes.len() > 0);
        let Some(family) = self.families.get(place) else { return };
        let (v6, scope) = (family.v6, self.scope);
        let doublings =
            if other { family.failures.saturating_sub(1).min(MAX_DOUBLINGS) } else { 0 };
        let pause = ENTER_AGAIN.saturating_mul(1 << doublings);
        let lately = family.failed_at.is_some_and(|at| now < at.saturating_add(pause));
        let known = family.nodes.len() > 0 && !in_any_case;
        let here: Vec<SocketAddr> =
            self.bootstrap.iter().copied().filter(|at| at.is_ipv6() == v6).collect();
        if known || lately || family.entering.is_some() || here.is_empty() {
            return;
        }
        let target = DhtId(self.rng.array());
        let id = self.begin(Work::Enter, target);
        let mut search = Search::new(v6, target, scope);
        here.into_iter().for_each(|at| search.enter_at(at));
        if let Some(lookup) = self.lookups.iter_mut().find(|lookup| lookup.id == id) {
            lookup.searches.push(search);
        }
        if let Some(family) = self.families.get_mut(place) {
            family.entering = Some(id);
        }
    }

    fn next_transmit(&mut self, now: Duration) -> Option<Transmit> {
        let both = self.families.len() > 1;
        for lookup in &mut self.lookups {
            while self.pending.len() < MAX_IN_PROGRESS
                && let Some((to, stores)) = lookup.next_query()
            {
                // Addresses of an entry were given by the caller. It is they that foreign nodes cannot choose.
                let is_ours = self.bootstrap.contains(&to);
                if !is_ours && !self.silent.admits(now, to) {
                    lookup.failed(to, stores, None);
                    continue;
                }
                self.silent.sent(now, to);
                let mut transaction: Transaction = self.rng.array();
                while self.pending.contains_key(&transaction) {
                    transaction = self.rng.array();
                }
                let bytes = lookup.encode(to, stores, transaction, both);
                let family = self.families.iter().find(|family| family.v6 == to.is_ipv6());
                let wait = family.map_or(TIMEOUT.most, |family| family.rtt.timeout(&TIMEOUT, 0));
                let late_at = Some(now.saturating_add(wait));
                let query = PendingQuery { to, lookup: lookup.id, stores, sent: now, late_at };
                self.pending.insert(transaction, query);
                return Some(Transmit { to, bytes });
            }
        }
        None
    }

    /// Moves lookups that have settled to their next step; returns whether one has moved.
    fn settle(&mut self, now: Duration) -> bool {
        let settled = |lookup: &Lookup| {
            let waits = self.families.iter().any(|family| {
                let empty = |search: &Search| search.v6 == family.v6 && search.answers() == 0;
                family.entering.is_some_and(|entering| entering != lookup.id)
                    && matches!(lookup.work, Work::Question(_))
                    && lookup.searches.iter().any(empty)
            });
            lookup.is_settled() && !waits
        };
        let Some(place) = self.lookups.iter().position(settled) else { return false };
        let Some(lookup) = self.lookups.get_mut(place) else { return false };
        if lookup.answers() == 0 && !lookup.again && matches!(lookup.work, Work::Question(_)) {
            // All known nodes are silent: this machine may have moved to another network.
            lookup.again = true;
            let id = lookup.id;
            for place in 0..self.families.len() {
                self.enter(now, place, true);
            }
            if self.families.iter().any(|family| family.entering.is_some()) {
                self.start_searches(now, id);
                return true;
            }
        }
        let Some(lookup) = self.lookups.get_mut(place) else { return false };
        if lookup.store() {
            return true;
        }
        let lookup = self.lookups.remove(place);
        self.end(now, &lookup);
        true
    }

    fn end(&mut self, now: Duration, lookup: &Lookup) {
        match &lookup.work {
            Work::Enter => {
                for family in &mut self.families {
                    if family.entering == Some(lookup.id) {
                        family.entering = None;
                        let failed = lookup.answers() == 0;
                        family.failed_at = failed.then_some(now);
                        family.failures =
                            if failed { family.failures.saturating_add(1) } else { 0 };
                        let v6 = family.v6;
                        for waiting in &mut self.lookups {
                            let target = waiting.target;
                            let here = |search: &&mut Search| search.v6 == v6;
                            if matches!(waiting.work, Work::Question(_))
                                && let Some(search) = waiting.searches.iter_mut().find(here)
                                && search.answers() == 0
                            {
                                search.start(family.nodes.nearest(&target, STARTS));
                            }
                        }
                    }
                }
                return;
            }
            Work::Question(LookupKind::Peers(target) | LookupKind::Announce(target, _)) => {
                self.remember(*target, lookup);
            }
            Work::Question(_) | Work::Poll => {}
        }
        self.events.push_back(DhtEvent::Done(lookup.id, lookup.end()));
    }

    /// Remembers the nodes closest to a target for polls, those with an id that is bound to their address first: others
    /// may have invented theirs for this target.
    fn remember(&mut self, target: DhtId, lookup: &Lookup) {
        let nearest = lookup.searches.iter().flat_map(|search| search.nearest());
        let mut nodes: Vec<_> =
            nearest.take(TARGET_NODES).map(|node| (node.id, node.at, 0_u8)).collect();
        nodes.sort_by_key(|(id, at, _)| (!id.is_bound_to(at.ip()), id.distance(&target)));
        if nodes.is_empty() {
            return;
        }
        self.targets.retain(|known| known.target != target);
        if self.targets.len() >= MAX_TARGETS {
            self.targets.pop_front();
        }
        self.targets.push_back(KnownTarget { target, nodes });
    }

    /// Records that a node of a target answers a poll.
    fn poll_answered(&mut self, target: DhtId, at: SocketAddr) {
        self.count_missed_polls(target, at, |_| 0);
    }

    /// Records that a node of a target does not answer a poll. After a few it is forgotten.
    fn poll_missed(&mut self, target: DhtId, at: SocketAddr) {
        self.count_missed_polls(target, at, |missed| missed.saturating_add(1));
    }

    fn count_missed_polls(&mut self, target: DhtId, at: SocketAddr, count: fn(u8) -> u8) {
        let Some(known) = self.targets.iter_mut().find(|known| known.target == target) else {
            return;
        };
        for node in known.nodes.iter_mut().filter(|node| node.1 == at) {
            node.2 = count(node.2);
        }
        known.nodes.retain(|node| node.2 <= MAX_MISSED_POLLS);
    }
}

/// The addresses of a caller that can be sent to.
fn admitted(bootstrap: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut admitted: Vec<SocketAddr> = Vec::new();
    for at in bootstrap.into_iter().map(canonical) {
        let room = admitted.len() < MAX_BOOTSTRAP;
        if room && AddressScope::Local.admits(at) && !admitted.contains(&at) {
            admitted.push(at);
        }
    }
    admitted
}
