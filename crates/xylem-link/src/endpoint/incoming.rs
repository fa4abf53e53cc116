//! Handshake datagrams: strangers' first messages, and what belongs to handshakes under way.

use core::net::SocketAddr;
use core::time::Duration;

use super::{Endpoint, Entry, MAX_REPLIES, State};
use crate::envelope::EnvelopeKey;
use crate::event::{LinkEvent, LinkId};
use crate::handshake::{DialedBy, HANDSHAKE_TIMEOUT, HalfOpen, Initial, Step};
use crate::header::ConnectionId;
use crate::kdf::Rng;
use crate::link::{Link, NewLink};
use crate::message::{
    COOKIE_LEN, Cookie, MIN_INITIAL, Message, NOISE_1_LEN, Offer, Parameters, peek_initial,
};

/// Length of a cookie demand, a third of the shortest initial at most.
const RETRY_LEN: core::ops::Range<usize> = 64..256;

impl Endpoint {
    /// A datagram of no known id: a first message, or nothing that we answer.
    pub(super) fn on_stranger(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) {
        let id = datagram.first_chunk().map(|cid| (from, ConnectionId(*cid)));
        if let Some(link) = id.and_then(|first| self.firsts.get(&first).copied()) {
            self.on_handshake(now, from, link, datagram);
            return;
        }
        let answered = self.config.accept_incoming
            && datagram.len() >= MIN_INITIAL
            && self.on_initial(now, from, datagram).is_some();
        if !answered {
            self.on_unknown(now, from, datagram);
        }
    }

    /// Whether those who lack our key, or a link, may learn that something is here.
    fn answers_strangers(&self) -> bool {
        self.config.stateless_reset && self.config.accept_open && self.config.accept_incoming
    }

    /// A datagram that means nothing: it may be the peer's word that it has lost its state, or be
    /// meant for what we were before we lost ours.
    fn on_unknown(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) {
        if let Some(id) = self.tokens.find(datagram)
            && let Some(Entry { state: State::Up(link), .. }) = self.links.get_mut(&id)
            && link.on_stranger(from, datagram)
        {
            self.settle(id);
            return;
        }
        self.stats.ignored += 1;
        if !self.answers_strangers() || self.replies.len() >= MAX_REPLIES {
            return;
        }
        // A dialer that has read our response may already send what we can read once we have its
        // finish: its ids are not unknown for good.
        let is_from = |id| match self.links.get(id) {
            Some(Entry { state: State::HalfOpen(half), .. }) => half.is_from(from),
            _ => false,
        };
        if self.half_open.iter().any(is_from) {
            return;
        }
        if let Some(reset) = self.resetter.answer(now, from, datagram) {
            self.replies.push_back((from, reset));
            self.stats.resets_sent += 1;
        }
    }

    fn on_initial(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> Option<()> {
        let loaded = self.half_open.len() >= self.config.cookie_above;
        let not_its_turn = loaded && self.flood.drops(now, from);
        let mut dropped = false;
        let mut opened = |by, key: &EnvelopeKey| {
            // Random bytes are told by one block: opening them for nothing is what a flood is for.
            let cookie = peek_initial(&key.peek(datagram)?)?;
            dropped |= not_its_turn && cookie == Cookie::None;
            if dropped { None } else { Some((by, key.open(datagram)?)) }
        };
        let found =
            self.envelopes.all(self.config.accept_open).find_map(|(by, key)| opened(by, key));
        if dropped {
            self.stats.refused += 1;
            return Some(());
        }
        let (by, body) = found?;
        let Some(Message::Initial { cookie, noise, part }) = Message::parse(&body) else {
            return None;
        };
        let target = ConnectionId(*datagram.first_chunk()?);
        if loaded && !self.cookies.is_good(now, from, noise, cookie) {
            let offer = Offer::decode(noise.last_chunk()?)?;
            if self.flood.answers(now, from) {
                self.demand_cookie(now, from, by, noise, offer.cid);
            } else {
                self.stats.refused += 1;
            }
            return Some(());
        }
        if self.half_open.len() >= self.config.max_half_open {
            // The newcomer has proven its address (cookie_above is lower). The oldest has had
            // the longest time to complete; refusing newcomers would let a flood shut the door.
            self.stats.refused += 1;
            let oldest = self.half_open.front().copied()?;
            self.remove(oldest);
        }
        if self.links.len() >= self.config.max_links {
            self.stats.refused += 1;
            return Some(());
        }
        let id = self.new_id();
        let rng = (Rng::new(&self.rng.array()), self.ahead.take_pair());
        let initial = Initial { from, by, noise, part, len: datagram.len() };
        let half = HalfOpen::new(&self.config, &self.key, rng, now, id, initial).ok()?;
        let cid = half.cid;
        self.half_open.push_back(id);
        let until = half.deadline;
        self.insert(id, State::HalfOpen(Box::new(half)), Some(cid));
        self.remember_first(id, (from, target), until);
        Some(())
    }

    fn demand_cookie(
        &mut self,
        now: Duration,
        from: SocketAddr,
        by: DialedBy,
        noise: &[u8; NOISE_1_LEN],
        to: ConnectionId,
    ) {
        if self.replies.len() >= MAX_REPLIES {
            self.stats.refused += 1;
            return;
        }
        let cookie = self.cookies.make(now, from, noise);
        // A byte of the cookie is as random as another to whoever cannot make cookies.
        let len = RETRY_LEN.start + usize::from(cookie[COOKIE_LEN - 1]) % RETRY_LEN.len();
        let envelope = self.envelopes.of(by);
        let mut reply = Vec::new();
        envelope.seal(to, &Message::Retry { cookie: &cookie }.to_vec(), len, &mut reply);
        self.replies.push_back((from, reply));
        self.stats.cookies_sent += 1;
    }

    pub(super) fn on_handshake(
        &mut self,
        now: Duration,
        from: SocketAddr,
        id: LinkId,
        datagram: &[u8],
    ) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        match &mut entry.state {
            // A belated copy of a first message.
            State::Up(_) => {}
            State::Dialing(dialing) => {
                let dialed = dialing.handle(now, datagram);
                self.on_dialed(now, id, dialed);
            }
            State::HalfOpen(half) => {
                let envelope = self.envelopes.of(half.by);
                match half.handle(from, envelope, datagram) {
                    Step::Complete(theirs) => self.complete_half_open(now, id, theirs),
                    Step::Waits => self.mark_ready(id),
                    Step::Failed => self.remove(id),
                }
            }
        }
    }

    fn complete_half_open(&mut self, now: Duration, id: LinkId, theirs: Parameters) {
        let Some(entry) = self.unregister(id) else { return };
        let State::HalfOpen(half) = entry.state else { return };
        if let Ok(new) = half.finish(&self.config, now, theirs) {
            self.establish(now, new, None);
            if let Some((first, _)) = entry.first {
                self.remember_first(id, first, now + HANDSHAKE_TIMEOUT);
            }
        }
    }

    /// `dial`: what the call that dialled returned.
    pub(super) fn establish(&mut self, now: Duration, new: NewLink, dial: Option<LinkId>) {
        let (id, peer, remote) = (new.id, new.peer, new.remote);
        let mut link = Link::new(&self.config, now, new);
        if self.answers_strangers() {
            link.tell_resets(self.resetter.key());
        }
        self.insert(id, State::Up(Box::new(link)), None);
        self.sync_routes(id);
        self.events.push_back(LinkEvent::Connected { link: id, peer, remote, dial });
    }
}
