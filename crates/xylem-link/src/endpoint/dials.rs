//! Dials: one that expects a key ends with its holder's answer. One that expects none (a knock, the
//! open envelope) may be answered by whoever is first, and goes on taking the answers of others until
//! the program has said which it keeps, or its time is over.

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use core::time::Duration;

use super::{Endpoint, Entry, State};
use crate::envelope::EnvelopeKey;
use crate::event::{CloseReason, LinkEvent, LinkId};
use crate::handshake::{Answered, Dialed, Dialing};
use crate::keys::PeerKey;

impl Endpoint {
    /// Dials `remote`. With `expected`, only the holder of that key can answer, and only those who
    /// know that key can tell that this is a handshake. The outcome comes as
    /// [`LinkEvent::Connected`] or [`LinkEvent::Closed`]; without, see [`Endpoint::keep`].
    pub fn connect(
        &mut self,
        now: Duration,
        remote: SocketAddr,
        expected: Option<PeerKey>,
    ) -> LinkId {
        self.dial(now, (remote, expected, EnvelopeKey::new(expected)))
    }

    /// As [`Endpoint::connect`], where more is to travel each way than the link itself sends: the length of each initial is
    /// drawn from `room`, and it does not arrive where the way carries less.
    pub fn connect_with_room(
        &mut self,
        now: Duration,
        remote: SocketAddr,
        expected: Option<PeerKey>,
        room: &RangeInclusive<usize>,
    ) -> LinkId {
        let link = self.connect(now, remote, expected);
        if let Some(Entry { state: State::Dialing(dialing), .. }) = self.links.get_mut(&link) {
            dialing.needs_room(room);
        }
        link
    }

    pub(super) fn dial(
        &mut self,
        now: Duration,
        to: (SocketAddr, Option<PeerKey>, EnvelopeKey),
    ) -> LinkId {
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
        let rng = (self.rng.child(), self.ahead.take_pair());
        let dialing = Dialing::new(&self.config, &self.key, rng, now, id, to);
        let cid = dialing.cid;
        self.insert(id, State::Dialing(Box::new(dialing)), Some(cid));
        id
    }

    /// Says that `link` is the answer that was wanted: its dial takes no others.
    ///
    /// A dial that expects no key ([`Endpoint::connect_by_knock`], or [`Endpoint::connect`] without
    /// one) may be answered by somebody who wins a race against the peer in earnest. So others are
    /// heard, too, for the 10 s that a dial lasts: each key that answers is a link of its own with a
    /// [`LinkEvent::Connected`] whose `dial` says which dial it belongs to (the first of them has the
    /// id that the call returned). The program judges the keys, keeps one link and closes the others.
    /// Four wait for that at a time. While one is there the dial sends nothing of its own accord; once
    /// all are closed it asks again. Does nothing where there is nothing to end.
    pub fn keep(&mut self, link: LinkId) {
        let Some(dial) = self.links.get_mut(&link).and_then(|entry| entry.dial.take()) else {
            return;
        };
        self.remove(dial);
    }

    /// This link is not, or no longer, an answer to its dial.
    pub(super) fn leave_dial(&mut self, link: LinkId) {
        let dial = self.links.get_mut(&link).and_then(|entry| entry.dial.take());
        if let Some(dial) = dial
            && let Some(Entry { state: State::Dialing(dialing), .. }) = self.links.get_mut(&dial)
        {
            dialing.lost_one();
            self.mark_ready(dial);
        }
    }

    /// A dial has come to its end without an answer; or with answers, and then there is nothing to say.
    pub(super) fn end_dial(&mut self, id: LinkId, reason: CloseReason) {
        let Some(Entry { state: State::Dialing(dialing), .. }) = self.unregister(id) else {
            return;
        };
        if dialing.id() == id {
            self.events.push_back(LinkEvent::Closed { link: id, reason });
        }
    }

    pub(super) fn on_dialed(&mut self, now: Duration, id: LinkId, dialed: Dialed) {
        match dialed {
            Dialed::Ignored => self.mark_ready(id),
            Dialed::OtherKey(peer) => {
                self.events.push_back(LinkEvent::OtherKey { link: id, peer });
                self.mark_ready(id);
            }
            Dialed::Failed(reason) => self.end_dial(id, reason),
            Dialed::Answered(answered) => self.complete_dialing(now, id, *answered),
        }
    }

    fn complete_dialing(&mut self, now: Duration, id: LinkId, answered: Answered) {
        let fresh = self.new_id();
        let full = self.links.len() >= self.config.max_links;
        let Some(Entry { state: State::Dialing(dialing), .. }) = self.links.get_mut(&id) else {
            return;
        };
        let dial = dialing.id();
        // The first answer has the id that the program knows; what takes the others is moved.
        let (link, goes_on) = if dial != id { (fresh, id) } else { (dial, fresh) };
        if link == fresh && full {
            return;
        }
        let Ok(new) = dialing.finish(&self.config, now, link, answered) else {
            return self.end_dial(id, CloseReason::PeerMisbehaved);
        };
        let others = dialing.takes_others();
        if link == id
            && let Some(Entry { state, ids, .. }) = self.unregister(id)
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
