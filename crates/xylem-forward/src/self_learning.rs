//! The self-learning strategy: who does not know the way asks everybody, and learns from the answer.
//!
//! An Interest for which there is a route goes to every next hop, marked so that nobody searches
//! again (NonDiscovery). One for which there is none goes to every face that leads to another machine,
//! unless it is marked itself. Whoever knows the way puts the announcement of the prefix beside the Data; on
//! its way back each forwarder hands it to its [`Outlet`], behind which signatures are checked and routes are
//! made. Nothing is believed here.

#[cfg(feature = "alloc")]
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use xylem_packet::NameRef;

use crate::forwarder::Forwarder;
use crate::memory::Flat;
use crate::pit::entry::Learning;
use crate::storage::Storage;
use crate::strategy::{Choice, Leaving};
use crate::{FaceId, FaceScope, Incoming, Lesson, Outlet};

/// By whom, and the Data.
#[cfg(feature = "alloc")]
type Announced = (FaceId, Box<[u8]>);

/// What the faces of this forwarder have announced: a Data for each prefix and face.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    #[cfg(feature = "alloc")]
    by_prefix: BTreeMap<Box<[u8]>, Vec<Announced>>,
}

impl Announcements {
    /// What is to travel with a Data to another machine.
    #[inline]
    pub(crate) fn beside<'a>(
        &'a self,
        learning: Learning,
        name: NameRef<'_>,
        incoming: &Incoming<'a>,
    ) -> Option<&'a [u8]> {
        if learning.searched {
            incoming.announcement
        } else if learning.wanted {
            self.of(name)
        } else {
            None
        }
    }

    /// The one that came last for the longest prefix of a name; in arrays there is none.
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

    /// A face has gone, and what it had announced.
    #[cfg(feature = "alloc")]
    pub(crate) fn forget(&mut self, face: FaceId) {
        self.by_prefix.retain(|_, of_prefix| {
            of_prefix.retain(|(other, _)| *other != face);
            !of_prefix.is_empty()
        });
    }

    #[cfg(not(feature = "alloc"))]
    pub(crate) fn forget(&mut self, _face: FaceId) {}
}

#[cfg(feature = "alloc")]
impl Forwarder<crate::Heap> {
    /// Keeps the Data by which `prefix` is announced behind `face`, so that it can travel with answers to those
    /// who search. One for each prefix and face; how many there may be is for the owner of the routes to limit.
    pub fn set_announcement(&mut self, prefix: NameRef<'_>, face: FaceId, announcement: &[u8]) {
        self.unset_announcement(prefix, face);
        let of_prefix = self.announcements.by_prefix.entry(prefix.value().into()).or_default();
        of_prefix.push((face, announcement.into()));
    }

    /// Forgets such an announcement.
    pub fn unset_announcement(&mut self, prefix: NameRef<'_>, face: FaceId) {
        let by_prefix = &mut self.announcements.by_prefix;
        if let Some(of_prefix) = by_prefix.get_mut(prefix.value()) {
            of_prefix.retain(|(other, _)| *other != face);
            if of_prefix.is_empty() {
                by_prefix.remove(prefix.value());
            }
        }
    }

    /// How many announcements are kept.
    pub fn announcements(&self) -> usize {
        self.announcements.by_prefix.values().map(Vec::len).sum()
    }
}

impl<S: Storage> Forwarder<S> {
    /// Every way there is, each at its own pace; without any, everywhere, if it may be searched for. The last one is
    /// sent by the caller.
    pub(crate) fn self_learning(
        &mut self,
        now: u64,
        id: u32,
        leaving: &Leaving<'_>,
        (route, incoming): (Option<u32>, &Incoming<'_>),
        out: &mut impl Outlet,
    ) -> Choice {
        let is_searched_for = !incoming.non_discovery;
        let learning = &mut self.pit.get_mut(id).learning;
        learning.chosen = true;
        match route {
            Some(route) => {
                learning.wanted |= is_searched_for && leaving.from.scope == FaceScope::NonLocal;
                self.multicast(now, id, leaving, route, out)
            }
            None if is_searched_for => {
                learning.searched = true;
                self.search(now, id, leaving, out)
            }
            None => self.none_eligible(id, leaving),
        }
    }

    /// Asks every other machine that there is a face to, as many of them as an entry may have next hops.
    fn search(
        &mut self,
        now: u64,
        id: u32,
        leaving: &Leaving<'_>,
        out: &mut impl Outlet,
    ) -> Choice {
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
            let before = self.pit.outs(id).find(|record| record.face == face);
            if before.is_none() && !self.pit.has_room_for_out(id) {
                continue;
            }
            any = true;
            let Some(suppression) = Self::suppression(now, before) else { continue };
            if let Some(next) = waits.replace((face, suppression)) {
                self.send_interest(now, id, leaving, next, out);
            }
        }
        match waits {
            Some((face, suppression)) => Choice::Send(face, suppression),
            None if any => Choice::Wait,
            None => self.none_eligible(id, leaving),
        }
    }

    /// An answer came from where everybody was asked.
    #[inline]
    pub(crate) fn note_announcement(
        &self,
        face: FaceId,
        learning: Learning,
        name: NameRef<'_>,
        incoming: &Incoming<'_>,
        out: &mut impl Outlet,
    ) {
        if learning.searched
            && let Some(announcement) = incoming.announcement
        {
            out.learned(Lesson::Announced { face, name, announcement });
        }
    }
}
