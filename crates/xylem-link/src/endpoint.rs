//! Many links over one socket: which link a datagram belongs to, and which link sends next.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use bytes::{Bytes, BytesMut};
use zeroize::Zeroize;

use crate::config::Config;
use crate::cookie::CookieKey;
use crate::event::{CloseReason, LinkEvent, LinkId, Transmit};
use crate::handshake::{Dialing, HalfOpen};
use crate::header::ConnectionId;
use crate::kdf::{Rng, derive, label};
use crate::keys::{PeerKey, StaticKey};
use crate::link::{Link, SendError};
use crate::mtu::{BASE_DATAGRAM, MAX_DATAGRAM};
use crate::queue::Spare;
use crate::reset::{Resetter, TokenTable};
use crate::stats::{EndpointStats, LinkStats};
use crate::way::Ways;

mod ahead;
mod dials;
mod envelopes;
mod firsts;
mod flood;
mod incoming;
mod limits;
mod paths;
mod share;
mod streams;

use ahead::Ahead;
use envelopes::Envelopes;
pub use envelopes::MAX_KNOCKS;
use firsts::{First, Firsts};
use flood::Flood;
use limits::{HalfOpens, Rates};
use share::Share;

/// Packets and other events that may wait for `poll_event`; datagrams beyond it are dropped.
const MAX_EVENTS: usize = 1 << 16;
/// Cookie demands that wait to be sent; more are not made.
const MAX_REPLIES: usize = 64;

/// Many links over one socket.
///
/// Call order: give what the socket received to [`Endpoint::handle_datagram`] and what is to be
/// sent to [`Endpoint::send`]; then [`Endpoint::poll_transmit`] until it gives `None`,
/// [`Endpoint::poll_event`] likewise, and sleep until a datagram comes or
/// [`Endpoint::poll_timeout`] is reached, which calls for [`Endpoint::handle_timeout`] and another
/// round. `now` counts from an epoch of the caller's choice and never goes back.
pub struct Endpoint {
    config: Config,
    key: StaticKey,
    rng: Rng,
    /// Ephemeral key pairs for handshakes to come.
    ahead: Ahead,
    cookies: CookieKey,
    flood: Flood,
    envelopes: Envelopes,
    links: HashMap<LinkId, Entry>,
    /// Those that were dialled by a knock with a key of its own.
    guests: HashSet<LinkId>,
    routes: HashMap<ConnectionId, Route>,
    firsts: Firsts,
    half_open: HalfOpens,
    rates: Rates,
    /// Of what only a Diffie-Hellman can tell.
    share: Share,
    timers: BTreeSet<(Duration, LinkId)>,
    /// Links that may have something to send; one that is in here has no timer running.
    ready: VecDeque<LinkId>,
    replies: VecDeque<(SocketAddr, Vec<u8>)>,
    spare: Spare,
    /// The datagram opened last.
    used: Option<Bytes>,
    resetter: Resetter,
    /// Peers' reset tokens.
    tokens: TokenTable,
    ways: Ways,
    events: VecDeque<LinkEvent>,
    next_id: u64,
    stats: EndpointStats,
}

#[derive(Clone, Copy)]
struct Route {
    link: LinkId,
    handshake: bool,
}

struct Entry {
    state: State,
    /// The ids under which the link is found: one of a handshake, or those of the live epochs.
    ids: Vec<ConnectionId>,
    /// The first message that it came of, if it was dialled by the peer, and how long copies of
    /// that are recognized: a belated one must not begin another handshake.
    first: Option<(firsts::Origin, First, Duration)>,
    /// Of an answer to a dial that expects no key: what takes the others, as long as it does.
    dial: Option<LinkId>,
    timer: Option<Duration>,
    is_ready: bool,
    /// Until when its datagrams are dropped unopened.
    rests_until: Duration,
}

enum State {
    Dialing(Box<Dialing>),
    HalfOpen(Box<HalfOpen>),
    Up(Box<Link>),
}

impl Endpoint {
    /// An endpoint with this identity. `rng_seed`: 32 random bytes, never used for two endpoints.
    #[must_use]
    pub fn new(mut config: Config, key: StaticKey, mut rng_seed: [u8; 32]) -> Self {
        config.max_datagram = config.max_datagram.clamp(BASE_DATAGRAM, MAX_DATAGRAM);
        // So that only dialers with a proven address can push older ones out.
        config.cookie_above = config.cookie_above.min(config.max_half_open);
        let mut rng = Rng::new(&rng_seed);
        rng_seed.zeroize();
        Self {
            cookies: CookieKey::new(&rng.array()),
            ahead: Ahead::new(&rng.secret()),
            resetter: Resetter::new(&key, &rng.array()),
            tokens: TokenTable::new(&mut rng),
            flood: Flood::new(rng.array()),
            rng,
            envelopes: Envelopes::new(key.public()),
            config,
            key,
            links: HashMap::new(),
            guests: HashSet::new(),
            routes: HashMap::new(),
            firsts: Firsts::default(),
            half_open: HalfOpens::default(),
            rates: Rates::default(),
            share: Share::new(&derive(label::SHARE, &[&rng_seed])),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            spare: Spare::default(),
            used: None,
            ways: Ways::default(),
            events: VecDeque::new(),
            next_id: 0,
            stats: EndpointStats::default(),
        }
    }

    /// Takes 32 random bytes in, from a source that nobody can read in advance (the operating
    /// system's), for all that is drawn from now on. Without it everything follows from the seed:
    /// whoever copies this process's memory once can compute every key to come, and the ratchets
    /// heal nothing. A program calls it now and then, more often than [`Config::ratchet`] says.
    pub fn add_entropy(&mut self, mut random: [u8; 32]) {
        self.rng.add(&random);
        self.ahead.add_entropy(&self.rng.secret());
        for entry in self.links.values_mut() {
            if let State::Up(link) = &mut entry.state {
                link.add_entropy(&random);
            }
        }
        random.zeroize();
    }

    /// Our public key.
    #[must_use]
    pub fn public_key(&self) -> PeerKey {
        self.key.public()
    }

    /// Takes one datagram from the socket. It is opened in place; packets come out as slices of
    /// it. What is not for us, or not authentic, is dropped without a trace but a counter.
    pub fn handle_datagram(&mut self, now: Duration, from: SocketAddr, datagram: BytesMut) {
        self.handle_marked_datagram(now, from, false, datagram);
    }

    /// The same, of a datagram that may have been `marked` by a router instead of dropped (ECN CE).
    pub fn handle_marked_datagram(
        &mut self,
        now: Duration,
        from: SocketAddr,
        marked: bool,
        datagram: BytesMut,
    ) {
        if self.events.len() >= MAX_EVENTS {
            self.stats.ignored += 1;
            return;
        }
        let route =
            datagram.first_chunk().and_then(|cid| self.routes.get(&ConnectionId(*cid)).copied());
        match route {
            None => self.on_stranger(now, from, &datagram),
            Some(route) if route.handshake => {
                self.on_handshake(now, from, route.link, &datagram);
            }
            Some(Route { link: id, .. }) => {
                let Some(entry) = self.links.get_mut(&id) else { return };
                let State::Up(link) = &mut entry.state else { return };
                if entry.rests_until > now {
                    self.stats.unopened += 1;
                    return;
                }
                let before = link.received();
                let Self { events, used, .. } = self;
                let changed = link.handle(now, from, (marked, datagram), events, used);
                // What was not authentic moves nothing, not even whose turn it is to send.
                let touched = changed || link.received() != before || link.has_ended();
                if changed {
                    self.sync_routes(id);
                }
                if touched {
                    self.settle(id);
                }
            }
        }
    }

    /// Drops what comes over a link until then, unopened, which costs next to nothing: for a link that
    /// takes others' turns. To the peer it is like a network that loses; a rest should be shorter than the
    /// idle timeout.
    pub fn rest(&mut self, link: LinkId, until: Duration) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.rests_until = until;
        }
    }

    /// The datagram that was handled last, if it was opened. Once nobody keeps a packet out of it, its
    /// memory can be had again ([`Bytes::try_into_mut`]).
    pub fn take_opened_datagram(&mut self) -> Option<Bytes> {
        self.used.take()
    }

    /// Queues a packet of 1..=65,536 bytes. It is copied once, to where it will be sealed.
    ///
    /// # Errors
    /// See [`SendError`]; the packet is not queued then.
    pub fn send(&mut self, link: LinkId, packet: &[u8]) -> Result<(), SendError> {
        let entry = self.links.get_mut(&link).ok_or(SendError::NoLink)?;
        let State::Up(up) = &mut entry.state else { return Err(SendError::NotConnected) };
        up.send(packet, &mut self.spare)?;
        self.mark_ready(link);
        Ok(())
    }

    /// Writes what is to be sent next to `buf`, replacing what is in it (the buffer itself may be
    /// exchanged for another one, which costs less than copying). `None`: nothing for now.
    pub fn poll_transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((to, reply)) = self.replies.pop_front() {
            *buf = reply;
            return Some(Transmit { to, len: buf.len(), segment_size: None, ecn: false });
        }
        while let Some(id) = self.ready.pop_front() {
            let Some(entry) = self.links.get_mut(&id) else { continue };
            entry.is_ready = false;
            let transmit = match &mut entry.state {
                State::Dialing(dialing) => dialing.poll_transmit(now, buf),
                State::HalfOpen(half) => {
                    let envelope = self.envelopes.of(half.by);
                    envelope.and_then(|envelope| half.poll_transmit(envelope, buf))
                }
                State::Up(link) => {
                    let transmit = link.transmit(now, buf);
                    self.spare.keep(link.take_used_buffer());
                    transmit
                }
            };
            if transmit.is_some() {
                // Behind all other links that have something to send, so that none is kept waiting.
                self.mark_ready(id);
                return transmit;
            }
            self.settle_and_arm(id);
        }
        // Nothing waits to be sent: time to make a key pair for a handshake to come.
        self.ahead.make_one();
        None
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// When [`Endpoint::handle_timeout`] is due, once `poll_transmit` has given `None`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does what time has made due. Calling early or twice does no harm.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.half_open.forget_failed(now);
        while let Some((at, id)) = self.timers.first().copied() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            self.on_timer(now, id);
        }
    }

    /// Closes a link, tells the peer, and reports [`LinkEvent::Closed`] with [`CloseReason::Local`].
    /// What is still queued is not sent. Does nothing if there is no such link.
    pub fn close(&mut self, link: LinkId) {
        self.leave_dial(link);
        let Some(entry) = self.links.get_mut(&link) else { return };
        match &mut entry.state {
            State::HalfOpen(_) => return,
            State::Dialing(_) => self.remove(link),
            State::Up(up) if up.is_closing() => return,
            State::Up(up) => {
                up.close(CloseReason::Local);
                self.mark_ready(link);
            }
        }
        self.events.push_back(LinkEvent::Closed { link, reason: CloseReason::Local });
    }

    /// An established link, if there is one of this id.
    #[must_use]
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        match &self.links.get(&link)?.state {
            State::Up(up) if !up.is_closing() => Some(up),
            _ => None,
        }
    }

    /// Whether the peer has dialled by a knock that is answered by a key of its own
    /// ([`Endpoint::answer_knock_by`]): it may be anybody who has guessed that.
    #[must_use]
    pub fn is_guest(&self, link: LinkId) -> bool {
        self.guests.contains(&link)
    }

    /// Counters of an established link, if there is one of this id.
    #[must_use]
    pub fn stats(&self, link: LinkId) -> Option<LinkStats> {
        self.link(link).map(Link::stats)
    }

    /// A secret for something beside links, which follows from the static key: the same whenever this key is used.
    #[must_use]
    pub fn secret_for(&self, context: &'static str) -> [u8; 32] {
        derive(context, &[self.key.secret()])
    }

    /// Counters of the endpoint.
    #[must_use]
    pub fn endpoint_stats(&self) -> EndpointStats {
        EndpointStats { links: self.links.len(), half_open: self.half_open.count(), ..self.stats }
    }

    fn new_id(&mut self) -> LinkId {
        self.next_id += 1;
        LinkId(self.next_id)
    }

    fn insert(&mut self, id: LinkId, state: State, handshake_id: Option<ConnectionId>) {
        if let Some(cid) = handshake_id {
            self.routes.insert(cid, Route { link: id, handshake: true });
        }
        let ids = handshake_id.into_iter().collect();
        let (timer, rests_until) = (None, Duration::ZERO);
        let entry =
            Entry { state, ids, first: None, dial: None, timer, is_ready: false, rests_until };
        self.links.insert(id, entry);
        self.mark_ready(id);
    }

    /// Copies of this first message belong to its link from now on, until the time given.
    fn remember_first(&mut self, from: firsts::Origin, first: First, until: Duration) {
        if let Some(entry) = self.links.get_mut(&first.link) {
            entry.first = Some((from, first, until));
            self.firsts.insert(from, first);
        }
    }

    /// Takes a link out of every table.
    fn unregister(&mut self, id: LinkId) -> Option<Entry> {
        self.leave_dial(id);
        let entry = self.links.remove(&id)?;
        self.guests.remove(&id);
        for cid in &entry.ids {
            self.routes.remove(cid);
        }
        if let Some((from, ..)) = &entry.first {
            self.firsts.remove(from, id);
        }
        self.tokens.remove(id);
        if let Some(at) = entry.timer {
            self.timers.remove(&(at, id));
        }
        if matches!(entry.state, State::HalfOpen(_)) {
            self.half_open.remove(id);
        }
        Some(entry)
    }

    fn remove(&mut self, id: LinkId) {
        self.unregister(id);
    }

    fn mark_ready(&mut self, id: LinkId) {
        if let Some(entry) = self.links.get_mut(&id).filter(|entry| !entry.is_ready) {
            entry.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Brings the routes of an established link in line with its live connection ids and its
    /// peer's token.
    fn sync_routes(&mut self, id: LinkId) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        let State::Up(link) = &entry.state else { return };
        for cid in entry.ids.drain(..) {
            self.routes.remove(&cid);
        }
        for cid in link.connection_ids() {
            entry.ids.push(cid);
            self.routes.insert(cid, Route { link: id, handshake: false });
        }
        self.tokens.set(id, link.peer_token());
    }

    /// Sees to a link that has been touched: reports its end if it has come, and lets it send.
    fn settle(&mut self, id: LinkId) {
        let Some(Entry { state, .. }) = self.links.get_mut(&id) else { return };
        if let State::Up(link) = state
            && let Some(to) = link.take_move()
        {
            self.events.push_back(LinkEvent::Moved { link: id, to });
        }
        if let State::Up(link) = state
            && let Some(reason) = link.take_ended()
        {
            let was_closing = link.is_closing();
            if reason == CloseReason::PeerMisbehaved && !was_closing {
                // The peer is told, in case its program is only broken.
                link.close(reason);
            } else {
                self.remove(id);
            }
            if !was_closing {
                self.events.push_back(LinkEvent::Closed { link: id, reason });
            }
        }
        self.mark_ready(id);
    }

    /// A link that has nothing to send goes to sleep until its next timeout. A timer that is too
    /// early is left alone: it only costs one look.
    fn settle_and_arm(&mut self, id: LinkId) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        if let State::Up(link) = &mut entry.state
            && link.has_ended()
        {
            self.settle(id);
            return;
        }
        let next = match &entry.state {
            State::Dialing(dialing) => Some(dialing.next_timeout()),
            State::HalfOpen(half) => Some(half.deadline),
            State::Up(link) => link.next_timeout(),
        };
        let next = next.into_iter().chain(entry.first.map(|(.., until)| until)).min();
        if let Some(next) = next
            && entry.timer.is_none_or(|armed| next < armed)
        {
            if let Some(armed) = entry.timer.replace(next) {
                self.timers.remove(&(armed, id));
            }
            self.timers.insert((next, id));
        }
    }

    fn on_timer(&mut self, now: Duration, id: LinkId) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        entry.timer = None;
        if let Some((from, ..)) = entry.first.take_if(|(.., until)| now >= *until) {
            self.firsts.remove(&from, id);
        }
        match &mut entry.state {
            State::Dialing(dialing) => match dialing.is_over(now) {
                Some(reason) => self.end_dial(id, reason),
                None => self.mark_ready(id),
            },
            State::HalfOpen(half) if now >= half.deadline => self.remove(id),
            State::HalfOpen(_) => self.mark_ready(id),
            State::Up(link) => {
                link.handle_timeout(now);
                self.settle(id);
            }
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("key", &self.key)
            .field("stats", &self.endpoint_stats())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
