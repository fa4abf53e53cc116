//! Dials. A dial that expects a key ends when the key's holder answers. A dial that expects none (a knock, the open
//! envelope) accepts the first answer, and then further ones until the program chooses which link to keep, or the
//! dial's time is over.

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use core::time::Duration;

use super::{Endpoint, LinkEntry, LinkState};
use crate::envelope::EnvelopeKey;
use crate::event::{CloseReason, LinkEvent, LinkId};
use crate::handshake::{AcceptedResponse, DialTarget, Dialing, ResponseVerdict};
use crate::keys::PeerKey;

impl Endpoint {
    /// Dials `remote`. With `expected`, only the holder of that key can answer, and only holders of the public key can
    /// tell that this is a handshake. The outcome is reported as [`LinkEvent::Connected`] or [`LinkEvent::Closed`].
    /// Without `expected`, see [`Endpoint::keep`].
    pub fn connect(
        &mut self,
        now: Duration,
        remote: SocketAddr,
        expected: Option<PeerKey>,
    ) -> LinkId {
        let envelope = EnvelopeKey::new(expected);
        self.dial(now, DialTarget { remote, expected, envelope })
    }

    /// Like [`Endpoint::connect`], for a path on which datagrams need extra room (a relay's header). The length of each
    /// initial is drawn from `room`; an initial does not arrive where the path carries less.
    pub fn connect_with_room(
        &mut self,
        now: Duration,
        remote: SocketAddr,
        expected: Option<PeerKey>,
        room: &RangeInclusive<usize>,
    ) -> LinkId {
        let link = self.connect(now, remote, expected);
        if let Some(LinkEntry { state: LinkState::Dialing(dialing), .. }) =
            self.links.get_mut(&link)
        {
            dialing.needs_room(room);
        }
        link
    }

    pub(super) fn dial(&mut self, now: Duration, to: DialTarget) -> LinkId {
        let id = self.new_id();
        let refused = if self.links.len() >= self.config.max_links {
            Some(CloseReason::TooManyLinks)
        } else {
            (!self.config.post_quantum.is_possible()).then_some(CloseReason::NoPostQuantum)
        };
        if let Some(reason) = refused {
            self.events.push_back(LinkEvent::Closed { link: id, reason });
            return id;
        }
        let (rng, ephemeral) = (self.rng.child(), self.ahead.take_pair());
        let dialing = Dialing::new(&self.config, &self.key, rng, ephemeral, now, id, to);
        let cid = dialing.cid;
        self.insert(id, LinkState::Dialing(Box::new(dialing)), Some(cid));
        id
    }

    /// Keeps `link` as the wanted answer: its dial accepts no others.
    ///
    /// A dial that expects no key ([`Endpoint::connect_by_knock`], or [`Endpoint::connect`] without one) may be
    /// answered by an attacker that wins a race against the genuine peer. So further answers are accepted for the 10 s
    /// that a dial lasts. Each key that answers is a link of its own, with a [`LinkEvent::Connected`] that names the
    /// dial in `dial` (the first of them has the id that the call returned). The program judges the keys, keeps one
    /// link and closes the others. At most four such links wait at a time. While one is there the dial sends nothing of
    /// its own accord; once all are closed it asks again. Does nothing if the dial has ended.
    pub fn keep(&mut self, link: LinkId) {
        let Some(dial) = self.links.get_mut(&link).and_then(|entry| entry.dial.take()) else {
            return;
        };
        self.remove(dial);
    }

    /// Removes this link from the answers of its dial.
    pub(super) fn detach_from_dial(&mut self, link: LinkId) {
        let dial = self.links.get_mut(&link).and_then(|entry| entry.dial.take());
        if let Some(dial) = dial
            && let Some(LinkEntry { state: LinkState::Dialing(dialing), .. }) =
                self.links.get_mut(&dial)
        {
            dialing.on_answer_closed();
            self.mark_ready(dial);
        }
    }

    /// Ends a dial. It is reported only if there was no answer.
    pub(super) fn end_dial(&mut self, id: LinkId, reason: CloseReason) {
        let Some(LinkEntry { state: LinkState::Dialing(dialing), .. }) = self.unregister(id) else {
            return;
        };
        if dialing.id() == id {
            self.events.push_back(LinkEvent::Closed { link: id, reason });
        }
    }

    pub(super) fn on_dialed(&mut self, now: Duration, id: LinkId, dialed: ResponseVerdict) {
        match dialed {
            ResponseVerdict::Ignored => self.mark_ready(id),
            ResponseVerdict::OtherKey(peer) => {
                self.events.push_back(LinkEvent::OtherKey { link: id, peer });
                self.mark_ready(id);
            }
            ResponseVerdict::Failed(reason) => self.end_dial(id, reason),
            ResponseVerdict::Answered(answered) => self.complete_dialing(now, id, *answered),
        }
    }

    fn complete_dialing(&mut self, now: Duration, id: LinkId, answered: AcceptedResponse) {
        let fresh = self.new_id();
        let full = self.links.len() >= self.config.max_links;
        let Some(LinkEntry { state: LinkState::Dialing(dialing), .. }) = self.links.get_mut(&id)
        else {
            return;
        };
        let dial = dialing.id();
        // The first answer takes the id that the program knows; the dial itself moves to a new id.
        let (link, goes_on) = if dial != id { (fresh, id) } else { (dial, fresh) };
        if link == fresh && full {
            return;
        }
        let Ok(new) = dialing.finish(&self.config, now, link, answered) else {
            return self.end_dial(id, CloseReason::PeerMisbehaved);
        };
        let others = dialing.accepts_any_key();
        if link == id
            && let Some(LinkEntry { state, ids, .. }) = self.unregister(id)
            && others
        {
            self.insert(goes_on, state, ids.first().copied());
        }
        self.establish(now, new, Some(dial));
        if others && let Some(entry) = self.links.get_mut(&link) {
            entry.dial = Some(goes_on);
        }
    }
}
