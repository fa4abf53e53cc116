//! Handshake datagrams: first messages of strangers, and messages of handshakes under way.

use core::net::SocketAddr;
use core::time::Duration;

use super::firsts::FirstMessage;
use super::limits::RateSource;
use super::{Endpoint, LinkEntry, LinkState, MAX_REPLIES};
use crate::envelope::EnvelopeKey;
use crate::event::{LinkEvent, LinkId};
use crate::handshake::{FirstOutcome, HANDSHAKE_TIMEOUT, HalfOpen, InitialMessage};
use crate::header::ConnectionId;
use crate::link::{Link, NewLink};
use crate::message::{
    CookiePresence, HandshakeMessage, LinkParameters, MIN_INITIAL, OfferPayload, check,
    peek_initial,
};

/// Length of a retry (a cookie demand), in bytes: a quarter of the shortest initial at most.
const RETRY_LEN: core::ops::Range<usize> = 64..256;

impl Endpoint {
    /// Handles a datagram of unknown id: a first message, or one that is not answered.
    pub(super) fn on_stranger(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) {
        if self.on_first_again(now, from, datagram).is_some() {
            return;
        }
        let answered = self.config.accept_incoming
            && datagram.len() >= MIN_INITIAL
            && self.on_initial(now, from, datagram).is_some();
        if !answered {
            self.on_unknown(now, from, datagram);
        }
    }

    /// Handles a copy of a known first message, or its rest. `None`: it is neither.
    fn on_first_again(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> Option<()> {
        let firsts = self.firsts.get(&(from, ConnectionId(*datagram.first_chunk()?)));
        // A repetition of the id may use another envelope, but no more of them than exist.
        let envelopes =
            self.envelopes.all(true).filter(|(by, _)| firsts.iter().any(|f| f.by == *by));
        let (by, body) = if firsts.is_empty() {
            return None;
        } else {
            let mut opened = envelopes.filter_map(|(by, key)| Some((by, key.open(datagram)?)));
            opened.next()?
        };
        let message = HandshakeMessage::parse(&body)?;
        let mut ours = firsts.iter().filter(|first| first.by == by);
        // A rest belongs to each first message that it fits: an attacker may have repeated the dialer's with an
        // ephemeral key of its own. Its bytes are counted once.
        let (found, len): (Vec<LinkId>, usize) = match &message {
            HandshakeMessage::Initial { head, .. } if datagram.len() >= MIN_INITIAL => {
                let content = head.content();
                (vec![ours.find(|first| first.content == content)?.link], datagram.len())
            }
            HandshakeMessage::Rest { rest } => {
                let check = Some(check(rest));
                let found: Vec<_> = ours.filter(|first| first.check == check).collect();
                let share = datagram.len().checked_div(found.len())?;
                (found.iter().map(|first| first.link).collect(), share)
            }
            _ => return None,
        };
        for id in found {
            // An established link has been answered already: this is a late copy.
            if let Some(LinkEntry { state: LinkState::HalfOpen(half), .. }) =
                self.links.get_mut(&id)
            {
                match half.on_first(&message, len) {
                    FirstOutcome::Failed => {
                        self.half_open.fail(now, self.config.max_half_open);
                        self.remove(id);
                    }
                    _ => self.mark_ready(id),
                }
            }
        }
        Some(())
    }

    /// Returns whether peers that lack our key, or a link, may learn that a program is here.
    fn answers_strangers(&self) -> bool {
        self.config.stateless_reset && self.config.accept_open && self.config.accept_incoming
    }

    /// Handles a datagram without meaning here: it may be the peer's stateless reset, or belong to a link that this
    /// side has lost.
    fn on_unknown(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) {
        if let Some(id) = self.tokens.find(datagram)
            && let Some(LinkEntry { state: LinkState::Up(link), .. }) = self.links.get_mut(&id)
            && link.on_unknown_datagram(from, datagram)
        {
            self.report_and_schedule(id);
            return;
        }
        self.stats.ignored += 1;
        if !self.answers_strangers() || self.replies.len() >= MAX_REPLIES {
            return;
        }
        // A dialer that has read our response may already send sealed datagrams, readable once its finish is here: its
        // ids are not unknown for good.
        if self.half_open.has(RateSource::of(from)) {
            return;
        }
        if let Some(reset) = self.resetter.answer(now, from, datagram) {
            self.replies.push_back((from, reset));
            self.stats.resets_sent += 1;
        }
    }

    fn on_initial(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> Option<()> {
        self.half_open.forget_failed(now);
        let loaded = self.half_open.count() >= self.config.cookie_above;
        let not_its_turn = loaded && self.flood.drops(now, from);
        let mut dropped = false;
        let mut opened = |by, key: &EnvelopeKey| {
            // One block tells random bytes apart: a flood aims at the cost of opening them in full.
            let cookie = peek_initial(&key.peek(datagram)?)?;
            dropped |= not_its_turn && cookie == CookiePresence::None;
            if dropped { None } else { Some((by, key.open(datagram)?)) }
        };
        let found =
            self.envelopes.all(self.config.accept_open).find_map(|(by, key)| opened(by, key));
        if dropped {
            self.stats.refused += 1;
            return Some(());
        }
        let (by, body) = found?;
        let Some(HandshakeMessage::Initial { cookie, head }) = HandshakeMessage::parse(&body)
        else {
            return None;
        };
        let target = ConnectionId(*datagram.first_chunk()?);
        let initial = InitialMessage { from, by, target, head, len: datagram.len() };
        if loaded && !self.cookies.is_good(now, from, target, &head, cookie) {
            if self.flood.answers(now, from) {
                self.demand_cookie(now, &initial);
            } else {
                self.stats.refused += 1;
            }
            return Some(());
        }
        let source = RateSource::of(from);
        // A dialer that has shown a cookie has a real address, so a rate limit per address applies.
        if self.links.len() >= self.config.max_links || loaded && !self.rates.admits(now, source) {
            self.stats.refused += 1;
            return Some(());
        }
        self.begin(now, source, &initial);
        Some(())
    }

    /// Begins a handshake; a malformed one only counts as failed.
    fn begin(&mut self, now: Duration, source: RateSource, initial: &InitialMessage<'_>) {
        if !initial.is_answered(&self.config) {
            self.stats.ignored += 1;
            return;
        }
        if self.half_open.live() >= self.config.max_half_open {
            // The newcomer has proven its address (cookie_above is lower). The oldest handshake has had the longest
            // time to complete; to refuse newcomers would let a flood block all dialers.
            self.stats.refused += 1;
            self.half_open.to_displace(source).into_iter().for_each(|oldest| self.remove(oldest));
        }
        let id = self.new_id();
        let half = initial.is_sound().then(|| {
            let (rng, ephemeral) = (self.rng.child(), self.ahead.take_pair());
            let key = self.envelopes.key_of(initial.by).unwrap_or(&self.key);
            HalfOpen::new(&self.config, key, rng, ephemeral, now, id, initial)
        });
        let Some(Ok(half)) = half else {
            self.half_open.fail(now, self.config.max_half_open);
            return;
        };
        let (cid, until, head) = (half.cid, half.deadline, &initial.head);
        self.half_open.push(id, source);
        self.insert(id, LinkState::HalfOpen(Box::new(half)), Some(cid));
        let check = head.part.map(|part| *part.check);
        let first = FirstMessage { link: id, by: initial.by, content: head.content(), check };
        self.remember_first((initial.from, initial.target), first, until);
    }

    fn demand_cookie(&mut self, now: Duration, initial: &InitialMessage<'_>) {
        let InitialMessage { from, by, target, head, .. } = *initial;
        let offer = OfferPayload::decode(head.noise.last_chunk().expect("9 of 41 bytes"));
        let Some(OfferPayload { cid, .. }) = offer else { return };
        if self.replies.len() >= MAX_REPLIES {
            self.stats.refused += 1;
            return;
        }
        let cookie = self.cookies.make(now, from, target, &head);
        // The last bytes of a cookie are random to every side that cannot make cookies.
        let random = cookie.last_chunk().map_or(0, |last| u64::from_be_bytes(*last));
        let len = RETRY_LEN.start + (random % RETRY_LEN.len() as u64) as usize;
        let Some(envelope) = self.envelopes.of(by) else { return };
        let mut reply = Vec::new();
        envelope.seal(cid, &HandshakeMessage::Retry { cookie: &cookie }.to_vec(), len, &mut reply);
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
            // An established link's ids are those of epochs.
            LinkState::Up(_) => {}
            LinkState::Dialing(dialing) => {
                // One block tells whether this may be a response.
                if dialing.may_be_response(datagram) && !self.share.samples(now) {
                    dialing.schedule_extra_initial(now);
                    return self.mark_ready(id);
                }
                let dialed = dialing.handle(now, datagram);
                self.on_dialed(now, id, dialed);
            }
            LinkState::HalfOpen(half) => {
                let Some(envelope) = self.envelopes.of(half.by) else { return };
                if let Some(theirs) = half.on_finish(from, envelope, datagram) {
                    self.complete_half_open(now, id, theirs);
                }
            }
        }
    }

    fn complete_half_open(&mut self, now: Duration, id: LinkId, theirs: LinkParameters) {
        let Some(entry) = self.unregister(id) else { return };
        let LinkState::HalfOpen(half) = entry.state else { return };
        if self.envelopes.key_of(half.by).is_some() {
            self.guests.insert(id);
        }
        if let Ok(new) = half.finish(&self.config, now, theirs) {
            self.establish(now, new, None);
            if let Some((from, first, _)) = entry.first {
                self.remember_first(from, first, now + HANDSHAKE_TIMEOUT);
            }
        }
    }

    /// `dial`: the id that the dialling call returned.
    pub(super) fn establish(&mut self, now: Duration, new: NewLink, dial: Option<LinkId>) {
        let (id, peer, remote) = (new.id, new.peer, new.remote);
        let mut link = Link::new(&self.config, now, new);
        link.set_ways(self.ways);
        if self.answers_strangers() {
            link.send_reset_tokens(self.resetter.key());
        }
        self.insert(id, LinkState::Up(Box::new(link)), None);
        self.sync_routes(id);
        self.events.push_back(LinkEvent::Connected { link: id, peer, remote, dial });
    }
}
