//! Dials the peers that a ticket or `--from` names and the peers that others report. Redials the named ones.

mod named;

use std::collections::HashMap;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_mgmt::Persistency;
use xylem_object::Ticket;
use xylem_peers::PeerToDial;
use xylem_peers::reachable::{
    FaceAddress, FetchWays, PeerAddress, PeerWay, Redials, Relay, Starts,
};

use crate::dial::named::NamedPeer;
use crate::discovery::LanSearch;
use crate::event::Event;
use crate::fetch::FetchError;
use crate::look_up::resolved;
use crate::meeting::CodeDht;
use crate::reaching;
use crate::ticket_meeting::TicketSearch;
use crate::volunteers::{as_relay, used};
use xylem_engine::{Engine, FaceEnd, RelayUse, ways_to};
use xylem_reach::relay::ConnectTarget;

/// Most peers or relays used to introduce further peers.
const MAX_INTRODUCERS: usize = 2;

/// The peers to dial, and those that are up.
pub(crate) struct Dialler {
    /// Peers that the ticket or `--from` names, and the ticket's sharer at addresses found elsewhere. None is removed:
    /// other fields name them by their place here.
    named: Vec<NamedPeer>,
    /// Relays through which some of `named` are dialled. Empty after the first dial.
    relays: Vec<RelayUse>,
    /// All relays through which some of `named` are dialled.
    of_ticket: Vec<RelayUse>,
    /// Whether all addresses lead to one node, so that the first that answers is enough.
    one_node: bool,
    /// Faces to `named`, each with the peer's place there.
    dialled: HashMap<FaceId, usize>,
    /// Addresses still to be dialled.
    starts: Starts,
    /// Queries on the LAN, until a peer is up.
    nearby: Option<LanSearch>,
    /// Its search in the DHT, until a peer is up.
    meeting: Option<TicketSearch>,
    /// Faces to peers that others reported, by key. The first address of a peer that answers is enough.
    found: HashMap<FaceId, [u8; 32]>,
    up: HashMap<FaceId, FaceAddress>,
    ways: FetchWays,
    /// Whether any peer has ever been up.
    was_up: bool,
    /// When peers that have failed are dialled again.
    redials: Redials,
}

/// The addresses to dial for a named peer, those through a NAT64 included.
fn through_nat64(peer: &PeerAddress) -> Vec<PeerAddress> {
    match peer {
        PeerAddress::Link { address, key } => {
            let link = |address| PeerAddress::Link { address, key: *key };
            ways_to(*address).into_iter().map(link).collect()
        }
        other => vec![other.clone()],
    }
}

/// A face to a peer that others reported, with that peer's other faces.
pub(crate) struct ReportedPeer {
    pub(crate) key: [u8; 32],
    pub(crate) others: usize,
    /// Whether one of the other faces is up.
    pub(crate) up: bool,
}

impl Dialler {
    /// Dials the peers in `from`. If there are none, dials the ticket's, through the ticket's relays and `relays` as
    /// well.
    pub(crate) fn new(
        ticket: &Ticket,
        from: &[PeerAddress],
        relays: &[Relay],
    ) -> Result<Self, FetchError> {
        let one_node = from.is_empty();
        let (of_ticket, mut unknown) = resolved(&ticket.addresses);
        unknown.iter().for_each(|why| tracing::warn!(%why, "cannot use an address of the ticket"));
        let link = |address: &_| PeerAddress::Link { address: *address, key: None };
        let peers: Vec<PeerAddress> = match one_node {
            true => of_ticket.iter().map(link).collect(),
            false => from.iter().flat_map(through_nat64).collect(),
        };
        let named = |mut peer: PeerAddress| {
            // The ticket's key holds for the ticket's addresses even if `from` names them. At any other address any key
            // may answer.
            let of_ticket = peer.link_address().is_some_and(|address| of_ticket.contains(&address));
            let mut must_vouch = false;
            if let Some(key @ None) = peer.link_key_mut().filter(|_| of_ticket) {
                *key = ticket.link_key;
                must_vouch = key.is_none();
            }
            NamedPeer::new(peer, must_vouch)
        };
        let mut named: Vec<NamedPeer> = peers.into_iter().map(named).collect();
        let mut uses: Vec<RelayUse> = Vec::new();
        let of_ticket: Vec<Relay> = ticket.relays.iter().cloned().map(Relay::from).collect();
        for relay in of_ticket.iter().chain(relays).filter(|_| one_node) {
            match reaching::to_dial(relay) {
                Ok(relay) => match uses.iter_mut().find(|known| known.key == relay.key) {
                    // A ticket has no token of a relay.
                    Some(known) => known.token = known.token.take().or(relay.token),
                    None => uses.push(relay),
                },
                Err(why) => unknown.push(why),
            }
        }
        // Ask the relay for the ticket's key. Without one, ask for any peer that the publisher vouches for.
        let publisher = ConnectTarget::Publisher(ticket.publisher);
        for relay in &uses {
            let peer = reaching::through(relay, ticket.link_key, publisher);
            named.extend(peer.map(|peer| NamedPeer::new(peer, ticket.link_key.is_none())));
        }
        match unknown.into_iter().next() {
            Some(why) if named.is_empty() => return Err(FetchError::NoSuchHost(why)),
            None if named.is_empty() => return Err(FetchError::NoAddress),
            _ => {}
        }
        Ok(Self {
            named,
            of_ticket: uses.clone(),
            relays: uses,
            one_node,
            dialled: HashMap::new(),
            starts: Starts::default(),
            nearby: None,
            meeting: None,
            found: HashMap::new(),
            up: HashMap::new(),
            ways: FetchWays::default(),
            was_up: false,
            redials: Redials::default(),
        })
    }

    /// Dials all peers. Addresses of one node are dialled shortly after one another; others at once.
    pub(crate) fn dial(&mut self, engine: &mut Engine) {
        self.redials.begin(engine.now());
        for relay in self.relays.drain(..) {
            if let Err(e) = engine.use_relay(relay) {
                tracing::warn!(%e, "cannot use a relay");
            }
        }
        if self.one_node {
            let at = |(i, peer): (usize, &NamedPeer)| Some((i, peer.address().link_address()?));
            let addresses = self.named.iter().enumerate().filter_map(at);
            self.starts = Starts::new(engine.now(), addresses);
            // Dial through relays at once: that takes longer in any case.
            let relayed = |i: &usize| self.named[*i].is_relayed();
            let relayed: Vec<usize> = (0..self.named.len()).filter(relayed).collect();
            relayed.into_iter().for_each(|i| self.dial_one(engine, i));
            return self.dial_next(engine);
        }
        (0..self.named.len()).for_each(|i| self.dial_one(engine, i));
    }

    /// Dials the addresses that are due.
    pub(crate) fn dial_next(&mut self, engine: &mut Engine) {
        self.dial_nearby(engine);
        while let Some(i) = self.redials.next(engine.now()) {
            match self.named[i].address().link_address().filter(|_| self.one_node) {
                Some(address) => self.starts.again(i, address),
                None => self.dial_one(engine, i),
            }
        }
        while let Some(i) = self.starts.next(engine.now()) {
            self.dial_one(engine, i);
        }
    }

    fn dial_one(&mut self, engine: &mut Engine, i: usize) {
        let peer = &mut self.named[i];
        peer.begin(engine.now());
        match engine.dial(peer.address(), Persistency::Persistent) {
            Ok(face) => drop(self.dialled.insert(face, i)),
            Err(e) => {
                peer.failed(engine.now(), e.into());
                self.starts.failed();
                self.redial_if_alone(engine.now());
            }
        }
    }

    /// While no peer is up, schedules every idle peer for another dial, each after its own pause.
    fn redial_if_alone(&mut self, now: Duration) {
        if !self.up.is_empty() {
            return self.redials.clear();
        }
        for i in 0..self.named.len() {
            if !self.starts.has(i) && self.dialled.values().all(|dialled| *dialled != i) {
                self.redials.failed(now, i);
            }
        }
    }

    /// Whether all of the sharer's relays report it absent. Volunteers are none of these: it may not have registered there yet.
    pub(crate) fn sharer_is_absent(&self) -> bool {
        let mut relayed = self.named.iter().filter(|peer| peer.is_by_named_relay()).peekable();
        relayed.peek().is_some() && relayed.all(NamedPeer::is_absent)
    }

    /// Whether waiting is hopeless: no peer has ever been up, and for a while relays have reported the sharer absent and
    /// no other path has led to it.
    pub(crate) fn is_hopeless(&self, now: Duration) -> bool {
        let silent = self.named.iter().all(|peer| peer.is_hopeless(now));
        let asks = self.nearby.as_ref().is_some_and(|nearby| nearby.is_hopeful(now))
            || self.meeting.as_ref().is_some_and(|meeting| meeting.is_hopeful(now));
        let alone = self.found.is_empty() && !self.was_up && !asks;
        self.sharer_is_absent() && silent && alone
    }

    /// When [`Dialler::dial_next`] is due.
    pub(crate) fn poll_start(&self) -> Option<Duration> {
        let nearby = self.nearby.as_ref().map(LanSearch::poll_timeout);
        let again = self.redials.poll_timeout();
        self.starts.poll_timeout().into_iter().chain(again).chain(nearby).min()
    }

    /// Also looks for the ticket's sharer on the LAN while no peer is up.
    pub(crate) fn ask_the_lan(&mut self, ticket: &Ticket, now: Duration) {
        if self.one_node {
            self.nearby = LanSearch::new(ticket, now);
        }
    }

    /// Dials the addresses that the sharer announces on the LAN as if the ticket named them.
    fn dial_nearby(&mut self, engine: &mut Engine) {
        if !self.up.is_empty() {
            self.nearby = None;
        }
        let Some(nearby) = &mut self.nearby else { return };
        let found = nearby.handle_timeout(engine.now());
        self.dial_like_named(engine, found);
    }

    /// Also looks for the ticket's sharer in the DHT when all of its addresses and relays are silent.
    pub(crate) fn ask_the_dht(&mut self, engine: &mut Engine, ticket: &Ticket, how: &CodeDht) {
        if self.one_node {
            self.meeting = TicketSearch::new(engine, ticket, how);
        }
    }

    /// When [`Dialler::meet`] is due. It is also called whenever the loop wakes.
    pub(crate) fn poll_meeting(&self, now: Duration) -> Option<Duration> {
        self.meeting.as_ref().map(|meeting| meeting.poll_timeout(now))
    }

    /// Looks for the sharer in the DHT, and dials the addresses at which it has answered as if the ticket named them, and if
    /// there are none, volunteers as if the ticket named these relays. Returns true once the DHT lists a sharer, and once
    /// volunteers are found: it may answer later.
    pub(crate) fn meet(&mut self, engine: &mut Engine, on_event: &mut dyn FnMut(Event)) -> bool {
        if !self.up.is_empty() {
            self.meeting.take().into_iter().for_each(|meeting| meeting.leave(engine));
        }
        let Some(meeting) = &mut self.meeting else { return false };
        if meeting.begins(engine.now()) {
            on_event(Event::TicketInDht);
        }
        let was_listed = meeting.is_listed();
        let found = meeting.handle_timeout(engine);
        let volunteers = meeting.poll_volunteers(engine);
        let is_new = (meeting.is_listed() && !was_listed) || !volunteers.is_empty();
        let (key, sharers) = (meeting.link_key(), meeting.sharers());
        self.dial_like_named(engine, found);
        if !volunteers.is_empty() {
            on_event(Event::Volunteers { relays: volunteers.iter().map(as_relay).collect() });
        }
        for uses in volunteers.iter().map(used) {
            let peer = reaching::through(&uses, key, sharers);
            if let Err(why) = engine.use_relay(uses) {
                tracing::debug!(%why, "cannot use a volunteer relay");
            }
            let is_new = |peer: &PeerAddress| self.named.iter().all(|it| it.address() != peer);
            if let Some(peer) = peer.filter(is_new) {
                self.dial_named(engine, NamedPeer::by_volunteer(peer));
            }
        }
        is_new
    }

    fn dial_like_named(&mut self, engine: &mut Engine, found: Vec<PeerAddress>) {
        for peer in found {
            let at = peer.link_address();
            if self.named.iter().all(|known| known.address().link_address() != at) {
                let must_vouch = peer.link_key().is_none();
                self.dial_named(engine, NamedPeer::new(peer, must_vouch));
            }
        }
    }

    fn dial_named(&mut self, engine: &mut Engine, peer: NamedPeer) {
        self.named.push(peer);
        self.dial_one(engine, self.named.len() - 1);
    }

    /// Dials a peer that another reported. Returns how many of its addresses are tried.
    pub(crate) fn dial_found(&mut self, engine: &mut Engine, found: &PeerToDial) -> usize {
        let before = self.found.len();
        for address in &found.addresses {
            let peer = PeerAddress::Link { address: *address, key: Some(found.key) };
            // Skip an address that the system refuses.
            if let Ok(face) = engine.dial(&peer, Persistency::Persistent) {
                self.found.insert(face, found.key);
            }
        }
        self.found.len() - before
    }

    /// Peers or relays that may introduce other peers: the ticket's relays, then named peers that are up.
    /// [`MAX_INTRODUCERS`] at most.
    pub(crate) fn introducers(&self, engine: &Engine) -> Vec<RelayUse> {
        let mut introducers = self.of_ticket.clone();
        for (face, _) in self.ups().filter(|(face, is_link)| *is_link && self.is_named(*face)) {
            let peer = engine.link_peer(face).zip(engine.link_at(face));
            introducers.extend(peer.map(|(key, at)| reaching::introducer(key.0, at)));
        }
        introducers.truncate(MAX_INTRODUCERS);
        introducers
    }

    /// Dials a reported peer through an introducer, unless the peer is up already.
    pub(crate) fn dial_introduced(
        &mut self,
        engine: &mut Engine,
        key: [u8; 32],
        introducer: RelayUse,
    ) {
        let up = self.up.keys().any(|face| self.found.get(face) == Some(&key));
        let peer = reaching::through(&introducer, Some(key), ConnectTarget::Key(key));
        if up || introducer.key == key || engine.use_relay(introducer).is_err() {
            return;
        }
        if let Some(Ok(face)) = peer.map(|peer| engine.dial(&peer, Persistency::Persistent)) {
            self.found.insert(face, key);
        }
    }

    /// Whether a face leads to a reported peer through an introducer. Such a face only introduces the two; content
    /// takes a path of its own.
    pub(crate) fn is_introduced(&self, face: FaceId, at: &FaceAddress) -> bool {
        self.found.contains_key(&face) && matches!(at, FaceAddress::Relayed(_))
    }

    /// The reported peer behind a face, and its other faces.
    pub(crate) fn found_at(&self, face: FaceId) -> Option<ReportedPeer> {
        let key = *self.found.get(&face)?;
        let others = || self.found.iter().filter(|(other, k)| **other != face && **k == key);
        let up = others().any(|(other, _)| self.up.contains_key(other));
        Some(ReportedPeer { key, others: others().count(), up })
    }

    /// Whether reported peers may be dialled: `--from` named none.
    pub(crate) fn may_find(&self) -> bool {
        self.one_node
    }

    /// Keys of the named peers.
    pub(crate) fn named_keys(&self) -> impl Iterator<Item = [u8; 32]> + '_ {
        self.named.iter().filter_map(|peer| peer.address().link_key())
    }

    /// Handles a face that came up. Returns whether it should be used; a redundant face is closed.
    pub(crate) fn came_up(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        peer: &FaceAddress,
    ) -> bool {
        let twin = self.twin_of(face).filter(|_| !self.found.contains_key(&face));
        if let Some(key) = self.found.get(&face) {
            let same = |up: &FaceId| self.found.get(up) == Some(key);
            if self.up.keys().any(same) {
                engine.drop_face(face, "another address of the same peer answered first");
                return false;
            }
        } else if let Some(up) = twin {
            let relayed = |at: &FaceAddress| matches!(at, FaceAddress::Relayed(_));
            let worse = self.up.get(&up).is_some_and(relayed) && !relayed(peer);
            let (given_up, why) = match worse {
                true => (up, "the same node answers without a relay"),
                false => (face, "another address of the same node answered first"),
            };
            // The node has answered, so this address has not failed.
            self.dialled.remove(&given_up);
            engine.drop_face(given_up, why);
            if !worse {
                return false;
            }
        }
        self.ways.came_up(engine.now(), face, peer, twin);
        // While the path goes through a relay, keep looking for a better one.
        let relayed = matches!(peer, FaceAddress::Relayed(_));
        if self.one_node && self.dialled.contains_key(&face) && !relayed {
            self.starts.clear();
        }
        self.was_up = true;
        self.redials.clear();
        self.up.insert(face, peer.clone());
        true
    }

    /// Another face that is up and leads to the same node.
    fn twin_of(&self, face: FaceId) -> Option<FaceId> {
        let mut others = self.up.keys().filter(|up| **up != face);
        let twin = others.find(|up| self.dialled.contains_key(up)).copied();
        twin.filter(|_| self.one_node)
    }

    /// The address at which a face came up, and its present address. The link may have left the relay while the peer
    /// proved its identity.
    pub(crate) fn leads_to(
        &self,
        engine: &Engine,
        face: FaceId,
    ) -> Option<(FaceAddress, FaceAddress)> {
        let at = engine.face(face)?.address.clone();
        let left = !matches!(at, FaceAddress::Relayed(_));
        let relay = self.named_at(face).filter(|peer| left && peer.is_relayed());
        Some((relay.map_or_else(|| at.clone(), |peer| FaceAddress::from(peer.address())), at))
    }

    /// Events for a face that is used from now on. It came up at `peer` and is now at `at`.
    pub(crate) fn admitted(
        &mut self,
        now: Duration,
        face: FaceId,
        peer: FaceAddress,
        at: &FaceAddress,
    ) -> impl Iterator<Item = Event> + use<> {
        let moved = (peer != *at).then(|| self.moved(now, face, at.clone())).flatten();
        let moved = moved.map(|peer| Event::Moved { peer, to: at.clone() });
        std::iter::once(Event::PeerConnected { peer }).chain(moved)
    }

    /// Records that a face's link has moved to another path. Returns its former address.
    pub(crate) fn moved(
        &mut self,
        now: Duration,
        face: FaceId,
        to: FaceAddress,
    ) -> Option<FaceAddress> {
        self.ways.moved(now, face, &to);
        let at = self.up.get_mut(&face)?;
        Some(std::mem::replace(at, to))
    }

    /// Takes in a face that came up without a dial of its own: another answer to a dial that expects no key. It has to
    /// prove as much as the first.
    pub(crate) fn adopt(&mut self, face: FaceId, at: &FaceAddress) {
        let is_it = |peer: &NamedPeer| {
            peer.address().is_keyless() && FaceAddress::from(peer.address()) == *at
        };
        if !self.dialled.contains_key(&face)
            && !self.found.contains_key(&face)
            && let Some(i) = self.named.iter().position(is_it)
        {
            self.dialled.insert(face, i);
        }
    }

    /// Records that a peer with another key answers there. Returns whether to report that: only once, and only while no
    /// peer is up.
    pub(crate) fn other_key(&mut self, face: FaceId) -> bool {
        let Some(i) = self.dialled.get(&face) else { return false };
        self.named[*i].other_key() && self.up.is_empty()
    }

    /// Whether a face leads to one node over an encrypted link, rather than to any node behind a forwarder.
    pub(crate) fn is_link(&self, face: FaceId) -> bool {
        let is_link = |peer: &NamedPeer| peer.address().is_link();
        self.found.contains_key(&face) || self.named_at(face).is_some_and(is_link)
    }

    /// Whether a named peer is up or may still come up.
    pub(crate) fn is_dialling(&self) -> bool {
        !(self.dialled.is_empty() && self.starts.is_empty())
    }

    /// Whether the peer on a face has to show that the publisher vouches for its key.
    pub(crate) fn must_vouch(&self, face: FaceId) -> bool {
        self.named_at(face).is_some_and(NamedPeer::must_vouch)
    }

    /// Whether the peer on a face may have any key.
    pub(crate) fn is_anybody(&self, face: FaceId) -> bool {
        self.named_at(face).is_some_and(NamedPeer::is_anybody)
    }

    /// Whether any peer is to be reached over an encrypted link.
    pub(crate) fn has_links(&self) -> bool {
        self.named.iter().any(|peer| peer.address().is_link())
    }

    /// Faces that are up and lead over an encrypted link.
    pub(crate) fn links(&self) -> impl Iterator<Item = FaceId> + '_ {
        self.up.keys().copied().filter(|face| self.is_link(*face))
    }

    /// Faces that are up, and whether each leads over an encrypted link.
    pub(crate) fn ups(&self) -> impl Iterator<Item = (FaceId, bool)> + '_ {
        self.up.keys().map(|face| (*face, self.is_link(*face)))
    }

    /// Handles a face that is gone. Returns whether it was up.
    pub(crate) fn went_down(&mut self, now: Duration, face: FaceId, why: FaceEnd) -> bool {
        if let Some(i) = self.dialled.remove(&face) {
            self.named[i].failed(now, why);
            self.starts.failed();
        }
        self.found.remove(&face);
        let was_up = self.up.remove(&face).is_some();
        if was_up && self.up.is_empty() {
            self.redials.begin(now);
        }
        self.redial_if_alone(now);
        was_up
    }

    /// Peers that are up.
    pub(crate) fn count(&self) -> usize {
        self.up.len()
    }

    /// The paths by which peers were reached.
    pub(crate) fn ways(&self) -> Vec<PeerWay> {
        self.ways.all()
    }

    /// Number of peers that are up through a relay.
    pub(crate) fn relayed(&self) -> usize {
        self.up.values().filter(|at| matches!(at, FaceAddress::Relayed(_))).count()
    }

    /// The address of a face that is up.
    pub(crate) fn address(&self, face: FaceId) -> FaceAddress {
        self.up.get(&face).cloned().unwrap_or(FaceAddress::Gone(face))
    }

    /// Whether any peer has ever been up.
    pub(crate) fn was_up(&self) -> bool {
        self.was_up
    }

    /// The named peer to which a face leads.
    fn named_at(&self, face: FaceId) -> Option<&NamedPeer> {
        self.dialled.get(&face).map(|i| &self.named[*i])
    }

    /// Whether a face leads to a named peer.
    pub(crate) fn is_named(&self, face: FaceId) -> bool {
        self.dialled.contains_key(&face)
    }

    /// Whether another named peer may still come up.
    pub(crate) fn is_reaching(&self) -> bool {
        !self.one_node && self.dialled.keys().any(|face| !self.up.contains_key(face))
    }

    /// The named peers, and whether each is up.
    pub(crate) fn tried(&self) -> impl Iterator<Item = (&PeerAddress, bool)> {
        let is_up = |i| self.up.keys().any(|face| self.dialled.get(face) == Some(&i));
        self.named.iter().enumerate().map(move |(i, peer)| (peer.address(), is_up(i)))
    }

    /// A failure that a peer had, or may have.
    pub(crate) fn warning(&self, i: usize) -> Option<String> {
        self.named[i].warning()
    }

    /// All failures in one line, each with its peer.
    pub(crate) fn warnings(&self) -> String {
        let line = |peer: &NamedPeer| {
            let at = FaceAddress::from(peer.address());
            peer.failure().map(|why| format!("{}: {why}", at.for_people()))
        };
        self.named.iter().filter_map(line).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests;
