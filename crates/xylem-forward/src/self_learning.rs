//! The self-learning strategy: a forwarder without a route asks all neighbours and learns from the answer.
//!
//! An Interest with a route goes to every next hop, marked NonDiscovery so that no other forwarder searches again. An
//! Interest without a route goes to every face that leads to another machine, unless it is marked itself. A forwarder
//! with a route sends the announcement of the prefix with the Data. Each forwarder on the way back passes the
//! announcement to its [`Outlet`], whose owner checks signatures and adds routes. Nothing is accepted here without that
//! check.

#[cfg(feature = "alloc")]
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use xylem_packet::NameRef;

use crate::forwarder::Forwarder;
use crate::memory::Flat;
use crate::pit::entry::SelfLearningState;
use crate::storage::Storage;
use crate::strategy::{ForwardChoice, OutgoingInterest};
use crate::strategy_choice::RetxSuppression;
use crate::{FaceId, FaceScope, IncomingPacket, LearnedRoute, Outlet};

/// The announcing face and the announcement's Data.
#[cfg(feature = "alloc")]
type Announced = (FaceId, Box<[u8]>);

/// The announcements received from the faces of this forwarder: one Data for each prefix and face.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    #[cfg(feature = "alloc")]
    by_prefix: BTreeMap<Box<[u8]>, Vec<Announced>>,
    /// The prefixes that each face announces, so that a face that ends finds its own alone.
    #[cfg(feature = "alloc")]
    by_face: BTreeSet<(FaceId, Box<[u8]>)>,
}

impl Announcements {
    /// The announcement to send with a Data to another machine.
    #[inline]
    pub(crate) fn announcement_to_send<'a>(
        &'a self,
        learning: SelfLearningState,
        name: NameRef<'_>,
        incoming: &IncomingPacket<'a>,
    ) -> Option<&'a [u8]> {
        if learning.searched {
            incoming.announcement
        } else if learning.wanted {
            self.of(name)
        } else {
            None
        }
    }

    /// The newest announcement for the longest prefix of a name. With arrays there is none.
    #[cfg(feature = "alloc")]
    fn of(&self, name: NameRef<'_>) -> Option<&[u8]> {
        let prefixes = (0..=name.len()).rev().map(|len| name.prefix(len));
        let mut known = prefixes.filter_map(|prefix| self.by_prefix.get(prefix.value()));
        known.next()?.last().map(|(_, announcement)| &**announcement)
    }

    #[cfg(not(feature = "alloc"))]
    fn of(&self, _name: NameRef<'_>) -> Option<&[u8]> {
        None
    }

    /// Removes a face's announcements.
    #[cfg(feature = "alloc")]
    pub(crate) fn forget(&mut self, face: FaceId) {
        let is_its = |(other, _): &&(FaceId, Box<[u8]>)| *other == face;
        let first = (face, Box::default());
        while let Some((_, prefix)) =
            self.by_face.range(first.clone()..).next().filter(is_its).cloned()
        {
            self.remove(&prefix, face);
        }
    }

    #[cfg(feature = "alloc")]
    fn remove(&mut self, prefix: &[u8], face: FaceId) {
        if let Some(of_prefix) = self.by_prefix.get_mut(prefix) {
            of_prefix.retain(|(other, _)| *other != face);
            if of_prefix.is_empty() {
                self.by_prefix.remove(prefix);
            }
        }
        self.by_face.remove(&(face, prefix.into()));
    }

    #[cfg(not(feature = "alloc"))]
    pub(crate) fn forget(&mut self, _face: FaceId) {}
}

#[cfg(feature = "alloc")]
impl Forwarder<crate::Heap> {
    /// Stores the Data in which `prefix` is announced behind `face`, to be sent with answers to neighbours that search.
    /// There is one for each prefix and face. The owner of the routes has to limit their number.
    pub fn set_announcement(&mut self, prefix: NameRef<'_>, face: FaceId, announcement: &[u8]) {
        self.unset_announcement(prefix, face);
        let of_prefix = self.announcements.by_prefix.entry(prefix.value().into()).or_default();
        of_prefix.push((face, announcement.into()));
        self.announcements.by_face.insert((face, prefix.value().into()));
    }

    /// Removes such an announcement.
    pub fn unset_announcement(&mut self, prefix: NameRef<'_>, face: FaceId) {
        self.announcements.remove(prefix.value(), face);
    }

    /// Number of stored announcements.
    pub fn announcements(&self) -> usize {
        self.announcements.by_prefix.values().map(Vec::len).sum()
    }
}

impl<S: Storage> Forwarder<S> {
    /// Asks every next hop, with suppression for each by itself. Without any, asks everywhere, if a search is
    /// permitted. The caller sends the last one.
    pub(crate) fn self_learning(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        route: Option<u32>,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> ForwardChoice {
        let is_searched_for = !incoming.non_discovery;
        let learning = &mut self.pit.get_mut(id).learning;
        learning.chosen = true;
        match route {
            Some(route) => {
                learning.wanted |= is_searched_for && leaving.from.scope == FaceScope::NonLocal;
                self.multicast(now, id, leaving, route, RetxSuppression::USUAL, out)
            }
            None if is_searched_for => {
                learning.searched = true;
                self.search(now, id, leaving, out)
            }
            None => self.none_eligible(id, leaving),
        }
    }

    /// Asks every face to another machine, up to the maximum number of next hops.
    fn search(
        &mut self,
        now: u64,
        id: u32,
        leaving: &OutgoingInterest<'_>,
        out: &mut impl Outlet,
    ) -> ForwardChoice {
        self.matches.truncate(0);
        for face in self.faces.ids() {
            let number = face.0 as u32;
            let is_far =
                self.faces.get(number).is_some_and(|f| f.settings.scope == FaceScope::NonLocal);
            if is_far
                && self.may_go(leaving, number)
                && (self.matches.as_slice().len() >= self.max_next_hops
                    || !self.matches.push(number))
            {
                break;
            }
        }
        let mut any = false;
        let mut waits = None;
        for i in 0..self.matches.as_slice().len() {
            let face = self.matches.as_slice()[i];
            let before = self.pit.out_records(id).find(|record| record.face == face);
            if before.is_none() && !self.pit.has_room_for_out(id) {
                continue;
            }
            any = true;
            let how = RetxSuppression::USUAL;
            let Some(suppression) = Self::suppression(now, before, how) else { continue };
            if let Some((face, suppression)) = waits.replace((face, suppression)) {
                self.send_interest(now, id, leaving, face, suppression, out);
            }
        }
        match waits {
            Some((face, suppression)) => ForwardChoice::Send(face, suppression),
            None if any => ForwardChoice::Wait,
            None => self.none_eligible(id, leaving),
        }
    }

    /// Reports an announcement that came with the answer to a search.
    #[inline]
    pub(crate) fn note_announcement(
        &self,
        face: FaceId,
        learning: SelfLearningState,
        name: NameRef<'_>,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) {
        if learning.searched
            && let Some(announcement) = incoming.announcement
        {
            out.on_learned(LearnedRoute::Announced { face, name, announcement });
        }
    }
}
