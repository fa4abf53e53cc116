//! [`Endpoint`]: many links over one socket. It finds the link of each datagram and the link that sends next.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use bytes::{Bytes, BytesMut};
use zeroize::Zeroize;

use crate::config::LinkConfig;
use crate::cookie::CookieKey;
use crate::event::{CloseReason, LinkEvent, LinkId, Transmit};
use crate::handshake::{Dialing, HalfOpen};
use crate::header::ConnectionId;
use crate::kdf::{LinkRng, derive, label};
use crate::keys::{PeerKey, StaticKey};
use crate::link::{Link, LinkSendError};
use crate::mtu::{BASE_DATAGRAM, MAX_DATAGRAM};
use crate::queue::SpareBuffers;
use crate::reset::{Resetter, TokenTable};
use crate::stats::{EndpointStats, LinkStats};
use crate::way::SyntheticPrefixes;

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

use ahead::KeyPairPool;
use envelopes::Envelopes;
pub use envelopes::MAX_KNOCKS;
use firsts::{FirstMessage, FirstMessages};
use flood::FloodGuard;
use limits::{HalfOpens, HandshakeRates};
use share::DhSampler;

/// Packets and other events that may wait for `poll_event`; further datagrams are dropped.
const MAX_EVENTS: usize = 1 << 16;
/// Most retries (cookie demands) that wait to be sent; no more are made.
const MAX_REPLIES: usize = 64;

/// Many links over one socket.
///
/// Call order: pass received datagrams to [`Endpoint::handle_datagram`] and packets to [`Endpoint::send`]. Then call
/// [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`] until each gives `None`. Then sleep until a datagram comes
/// or [`Endpoint::poll_timeout`] is reached; the timeout calls for [`Endpoint::handle_timeout`] and another round.
/// `now` counts from an epoch of the caller's choice and never goes back.
pub struct Endpoint {
    config: LinkConfig,
    key: StaticKey,
    rng: LinkRng,
    /// Ephemeral key pairs for future handshakes.
    ahead: KeyPairPool,
    cookies: CookieKey,
    flood: FloodGuard,
    envelopes: Envelopes,
    links: HashMap<LinkId, LinkEntry>,
    /// Links that peers dialled by a knock with a key of its own.
    guests: HashSet<LinkId>,
    routes: HashMap<ConnectionId, LinkRoute>,
    firsts: FirstMessages,
    half_open: HalfOpens,
    rates: HandshakeRates,
    /// Limits datagrams that only a Diffie-Hellman can tell genuine or forged.
    share: DhSampler,
    timers: BTreeSet<(Duration, LinkId)>,
    /// Links that may have something to send; a link in here has no timer running.
    ready: VecDeque<LinkId>,
    replies: VecDeque<(SocketAddr, Vec<u8>)>,
    spare: SpareBuffers,
    /// The datagram that was opened last.
    opened: Option<Bytes>,
    resetter: Resetter,
    /// The peers' reset tokens.
    tokens: TokenTable,
    ways: SyntheticPrefixes,
    events: VecDeque<LinkEvent>,
    next_id: u64,
    stats: EndpointStats,
}

#[derive(Clone, Copy)]
struct LinkRoute {
    link: LinkId,
    handshake: bool,
}

struct LinkEntry {
    state: LinkState,
    /// The ids under which the link is found: one of a handshake, or those of the live epochs.
    ids: Vec<ConnectionId>,
    /// The first message that this link came from, if the peer dialled it, and until when copies of that message are
    /// recognized: a late copy must not begin another handshake.
    first: Option<(firsts::Origin, FirstMessage, Duration)>,
    /// For an answer to a dial that expects no key: the dial that takes further answers, while it lasts.
    dial: Option<LinkId>,
    timer: Option<Duration>,
    is_ready: bool,
    /// Until when its datagrams are dropped unopened.
    rests_until: Duration,
}

enum LinkState {
    Dialing(Box<Dialing>),
    HalfOpen(Box<HalfOpen>),
    Up(Box<Link>),
}

impl Endpoint {
    /// Makes an endpoint with this identity. `rng_seed`: 32 random bytes, never used for two endpoints.
    #[must_use]
    pub fn new(mut config: LinkConfig, key: StaticKey, mut rng_seed: [u8; 32]) -> Self {
        config.max_datagram = config.max_datagram.clamp(BASE_DATAGRAM, MAX_DATAGRAM);
        // Only dialers with a proven address may then displace older handshakes.
        config.cookie_above = config.cookie_above.min(config.max_half_open);
        let mut rng = LinkRng::new(&rng_seed);
        rng_seed.zeroize();
        Self {
            cookies: CookieKey::new(&rng.array()),
            ahead: KeyPairPool::new(&rng.secret()),
            resetter: Resetter::new(&key, &rng.array()),
            tokens: TokenTable::new(&mut rng),
            flood: FloodGuard::new(rng.array()),
            rng,
            envelopes: Envelopes::new(key.public()),
            config,
            key,
            links: HashMap::new(),
            guests: HashSet::new(),
            routes: HashMap::new(),
            firsts: FirstMessages::default(),
            half_open: HalfOpens::default(),
            rates: HandshakeRates::default(),
            share: DhSampler::new(&derive(label::SHARE, &[&rng_seed])),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            spare: SpareBuffers::default(),
            opened: None,
            ways: SyntheticPrefixes::default(),
            events: VecDeque::new(),
            next_id: 0,
            stats: EndpointStats::default(),
        }
    }

    /// Mixes in 32 random bytes for all that is drawn from now on. The source must be unpredictable, such as the
    /// operating system's. Without new randomness everything follows from the seed: an attacker that copies this
    /// process's memory once can compute every later key, and the ratchets heal nothing. A program calls it repeatedly,
    /// more often than [`LinkConfig::ratchet`] states.
    pub fn add_entropy(&mut self, mut random: [u8; 32]) {
        self.rng.add(&random);
        self.ahead.add_entropy(&self.rng.secret());
        for entry in self.links.values_mut() {
            if let LinkState::Up(link) = &mut entry.state {
                link.add_entropy(&random);
            }
        }
        random.zeroize();
    }

    /// This endpoint's public key.
    #[must_use]
    pub fn public_key(&self) -> PeerKey {
        self.key.public()
    }

    /// Takes one datagram from the socket. It is opened in place; packets come out as slices of it. A datagram that is
    /// not for this endpoint, or not authentic, is dropped; only a counter changes.
    pub fn handle_datagram(&mut self, now: Duration, from: SocketAddr, datagram: BytesMut) {
        self.handle_marked_datagram(now, from, false, datagram);
    }

    /// Like [`Endpoint::handle_datagram`], for a datagram that a router may have `marked` instead of dropping it (ECN
    /// CE).
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
            Some(LinkRoute { link: id, .. }) => {
                let Some(entry) = self.links.get_mut(&id) else { return };
                let LinkState::Up(link) = &mut entry.state else { return };
                if entry.rests_until > now {
                    self.stats.unopened += 1;
                    return;
                }
                let before = link.received();
                let Self { events, opened: used, .. } = self;
                let changed = link.handle(now, from, marked, datagram, events, used);
                // A datagram that is not authentic changes nothing, not even the order in which links send.
                let touched = changed || link.received() != before || link.has_ended();
                if changed {
                    self.sync_routes(id);
                }
                if touched {
                    self.report_and_schedule(id);
                }
            }
        }
    }

    /// Drops what arrives over a link until `until`, unopened, which costs next to nothing: for a link that takes other
    /// links' share. To the peer it looks like packet loss; a rest should be shorter than the idle timeout.
    pub fn rest(&mut self, link: LinkId, until: Duration) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.rests_until = until;
        }
    }

    /// Returns the datagram that was handled last, if it was opened. Once no packet out of it is held, its memory can
    /// be reclaimed ([`Bytes::try_into_mut`]).
    pub fn take_opened_datagram(&mut self) -> Option<Bytes> {
        self.opened.take()
    }

    /// Queues a packet of 1..=65,536 bytes. It is copied once, to where it will be sealed.
    ///
    /// # Errors
    /// See [`LinkSendError`]; the packet is not queued then.
    pub fn send(&mut self, link: LinkId, packet: &[u8]) -> Result<(), LinkSendError> {
        let entry = self.links.get_mut(&link).ok_or(LinkSendError::NoLink)?;
        let LinkState::Up(up) = &mut entry.state else { return Err(LinkSendError::NotConnected) };
        up.send(packet, &mut self.spare)?;
        self.mark_ready(link);
        Ok(())
    }

    /// Writes what is to be sent next to `buf`, replacing its content. The buffer itself may be exchanged for another
    /// one, which costs less than copying. `None`: nothing for now.
    pub fn poll_transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((to, reply)) = self.replies.pop_front() {
            *buf = reply;
            return Some(Transmit { to, len: buf.len(), segment_size: None, ecn: false });
        }
        while let Some(id) = self.ready.pop_front() {
            let Some(entry) = self.links.get_mut(&id) else { continue };
            entry.is_ready = false;
            let transmit = match &mut entry.state {
                LinkState::Dialing(dialing) => dialing.poll_transmit(now, buf),
                LinkState::HalfOpen(half) => {
                    let envelope = self.envelopes.of(half.by);
                    envelope.and_then(|envelope| half.poll_transmit(envelope, buf))
                }
                LinkState::Up(link) => {
                    let transmit = link.transmit(now, buf);
                    self.spare.keep(link.take_used_buffer());
                    transmit
                }
            };
            if transmit.is_some() {
                // It goes behind all other links that have something to send, so that none starves.
                self.mark_ready(id);
                return transmit;
            }
            self.settle_and_set_timer(id);
        }
        // Nothing waits to be sent: time to make a key pair for a future handshake.
        self.ahead.make_one();
        None
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// When [`Endpoint::handle_timeout`] is due, once `poll_transmit` has given `None`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Runs the timers that are due. Calling early or twice does no harm.
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

    /// Closes a link, informs the peer, and reports [`LinkEvent::Closed`] with [`CloseReason::Local`]. Packets still in
    /// the queue are not sent. Does nothing if there is no such link.
    pub fn close(&mut self, link: LinkId) {
        self.detach_from_dial(link);
        let Some(entry) = self.links.get_mut(&link) else { return };
        match &mut entry.state {
            LinkState::HalfOpen(_) => return,
            LinkState::Dialing(_) => self.remove(link),
            LinkState::Up(up) if up.is_closing() => return,
            LinkState::Up(up) => {
                up.close(CloseReason::Local);
                self.mark_ready(link);
            }
        }
        self.events.push_back(LinkEvent::Closed { link, reason: CloseReason::Local });
    }

    /// The established link with this id, if there is one.
    #[must_use]
    pub fn link(&self, link: LinkId) -> Option<&Link> {
        match &self.links.get(&link)?.state {
            LinkState::Up(up) if !up.is_closing() => Some(up),
            _ => None,
        }
    }

    /// Returns whether the peer dialled by a knock that is answered by a key of its own
    /// ([`Endpoint::answer_knock_by`]). The dialer may be any program that has guessed that knock.
    #[must_use]
    pub fn is_guest(&self, link: LinkId) -> bool {
        self.guests.contains(&link)
    }

    /// Counters of the established link with this id, if there is one.
    #[must_use]
    pub fn stats(&self, link: LinkId) -> Option<LinkStats> {
        self.link(link).map(Link::stats)
    }

    /// A secret for a purpose outside of links, derived from the static key: the same whenever this key is used.
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

    fn insert(&mut self, id: LinkId, state: LinkState, handshake_id: Option<ConnectionId>) {
        if let Some(cid) = handshake_id {
            self.routes.insert(cid, LinkRoute { link: id, handshake: true });
        }
        let ids = handshake_id.into_iter().collect();
        let (timer, rests_until) = (None, Duration::ZERO);
        let entry =
            LinkEntry { state, ids, first: None, dial: None, timer, is_ready: false, rests_until };
        self.links.insert(id, entry);
        self.mark_ready(id);
    }

    /// From now until `until`, copies of this first message belong to its link.
    fn remember_first(&mut self, from: firsts::Origin, first: FirstMessage, until: Duration) {
        if let Some(entry) = self.links.get_mut(&first.link) {
            entry.first = Some((from, first, until));
            self.firsts.insert(from, first);
        }
    }

    /// Removes a link from every table.
    fn unregister(&mut self, id: LinkId) -> Option<LinkEntry> {
        self.detach_from_dial(id);
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
        if matches!(entry.state, LinkState::HalfOpen(_)) {
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

    /// Updates the routes of an established link: its live connection ids and its peer's token.
    fn sync_routes(&mut self, id: LinkId) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        let LinkState::Up(link) = &entry.state else { return };
        for cid in entry.ids.drain(..) {
            self.routes.remove(&cid);
        }
        for cid in link.connection_ids() {
            entry.ids.push(cid);
            self.routes.insert(cid, LinkRoute { link: id, handshake: false });
        }
        self.tokens.set(id, link.peer_token());
    }

    /// Finishes the handling of a link that changed: reports its end if it has ended, and lets it send.
    fn report_and_schedule(&mut self, id: LinkId) {
        let Some(LinkEntry { state, .. }) = self.links.get_mut(&id) else { return };
        if let LinkState::Up(link) = state
            && let Some(to) = link.take_new_address()
        {
            self.events.push_back(LinkEvent::Moved { link: id, to });
        }
        if let LinkState::Up(link) = state
            && let Some(reason) = link.take_ended()
        {
            let was_closing = link.is_closing();
            if reason == CloseReason::PeerMisbehaved && !was_closing {
                // The peer receives a close, in case only its program is broken.
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

    /// Lets a link with nothing to send sleep until its next timeout. A timer that is too early is left alone: it only
    /// costs one extra wake-up.
    fn settle_and_set_timer(&mut self, id: LinkId) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        if let LinkState::Up(link) = &mut entry.state
            && link.has_ended()
        {
            self.report_and_schedule(id);
            return;
        }
        let next = match &entry.state {
            LinkState::Dialing(dialing) => Some(dialing.next_timeout()),
            LinkState::HalfOpen(half) => Some(half.deadline),
            LinkState::Up(link) => link.next_timeout(),
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
            LinkState::Dialing(dialing) => match dialing.is_over(now) {
                Some(reason) => self.end_dial(id, reason),
                None => self.mark_ready(id),
            },
            LinkState::HalfOpen(half) if now >= half.deadline => self.remove(id),
            LinkState::HalfOpen(_) => self.mark_ready(id),
            LinkState::Up(link) => {
                link.handle_timeout(now);
                self.report_and_schedule(id);
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
