//! [`FacePlaces`]: the faces of one kind, and which of them gives way when one more comes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use xylem_link::source;

use super::{AdmissionVerdict, part, site};

/// A proven face gives way only after it has been silent for this long.
const RESTING: Duration = Duration::from_secs(60);
/// Strangers have one place in this many; useful faces have the others, and those that strangers leave free.
const STRANGERS: usize = 4;
/// One source may have one place in this many, and one site twice as many.
const OF_SOURCE: usize = 4;
/// A site with more than one place in this many gives way first.
const GREEDY: usize = 16;

/// Merit of a face. A higher standing gives way later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaceStanding {
    /// Nothing readable has arrived.
    Silent,
    /// A packet has arrived.
    Heard,
    /// It was sent Data, or has sent requested Data.
    Useful,
    /// Useful, and its address is proven.
    Proven,
}

impl FaceStanding {
    fn is_stranger(self) -> bool {
        self < Self::Useful
    }
}

/// Index of a face's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatIndex(usize);

#[derive(Debug)]
struct Guest<K> {
    key: K,
    source: IpAddr,
    site: IpAddr,
    standing: FaceStanding,
    last_received: Duration,
}

/// The faces of one kind; see the module's documentation.
#[derive(Debug)]
pub(super) struct FacePlaces<K> {
    most: usize,
    of_source: usize,
    of_site: usize,
    guests: Vec<Option<Guest<K>>>,
    free: Vec<usize>,
    strangers: usize,
    sources: HashMap<IpAddr, usize>,
    sites: HashMap<IpAddr, usize>,
}

impl<K: Copy> FacePlaces<K> {
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        let of_source = part(most, OF_SOURCE);
        Self {
            most,
            of_source,
            of_site: of_source.saturating_mul(2).min(most),
            guests: Vec::new(),
            free: Vec::new(),
            strangers: 0,
            sources: HashMap::new(),
            sites: HashMap::new(),
        }
    }

    /// All faces are from one host, which may have all places.
    pub(super) fn of_one_host(most: usize) -> Self {
        let most = most.max(1);
        Self { of_source: most, of_site: most, ..Self::new(most) }
    }

    pub(super) fn len(&self) -> usize {
        self.guests.len().saturating_sub(self.free.len())
    }

    /// Half of the places are taken.
    pub(super) fn is_crowded(&self) -> bool {
        self.len() >= part(self.most, 2)
    }

    /// Decides whether there is a place for one more face from `from`. `full`: a limit other than that of places is
    /// reached.
    pub(super) fn judge(&self, now: Duration, from: IpAddr, full: bool) -> AdmissionVerdict<K> {
        let (source, site) = (source(from), site(from));
        let count = |of: &HashMap<IpAddr, usize>, who| of.get(&who).copied().unwrap_or(0);
        let one = if count(&self.sources, source) >= self.of_source {
            self.one_of(now, self.of_source, |guest| guest.source == source)
        } else if count(&self.sites, site) >= self.of_site {
            self.one_of(now, self.of_site, |guest| guest.site == site)
        } else if full || self.len() >= self.most || self.strangers >= part(self.most, STRANGERS) {
            self.any_face(now)
        } else {
            return AdmissionVerdict::Room;
        };
        one.map_or(AdmissionVerdict::Full, AdmissionVerdict::Instead)
    }

    /// Chooses the face that gives way among all, from a greedy site first.
    pub(super) fn any_face(&self, now: Duration) -> Option<K> {
        let greedy = self.sites.iter().max_by_key(|(site, count)| (**count, **site));
        let greedy = greedy.filter(|(_, count)| **count > part(self.most, GREEDY));
        let crowd = self.strangers >= part(self.most, STRANGERS);
        let of_greedy = greedy.and_then(|(greedy, _)| {
            let strangers = |guest: &Guest<K>| guest.standing.is_stranger();
            let one = |guest: &Guest<K>| guest.site == *greedy && (!crowd || strangers(guest));
            self.one_of(now, self.most, one)
        });
        of_greedy.or_else(|| self.one_of(now, self.most, |_| true))
    }

    /// Chooses the face that gives way among those selected, which may have `most` places. If strangers hold their
    /// share of these, a stranger gives way; otherwise a useful face, so that strangers can fill their share. In each
    /// group the face that is silent longest goes. A proven face gives way only when it rests.
    fn one_of(&self, now: Duration, most: usize, among: impl Fn(&Guest<K>) -> bool) -> Option<K> {
        let among = || self.guests.iter().flatten().filter(|guest| among(guest));
        let oldest = |standing: fn(FaceStanding) -> bool| {
            let some = among().filter(|guest| standing(guest.standing));
            some.min_by_key(|guest| guest.last_received)
        };
        let strangers = among().filter(|guest| guest.standing.is_stranger()).count();
        let stranger = || oldest(FaceStanding::is_stranger);
        let useful = || oldest(|standing| standing == FaceStanding::Useful);
        let resting = || {
            let rests = |guest: &&Guest<K>| guest.last_received.saturating_add(RESTING) <= now;
            oldest(|standing| standing == FaceStanding::Proven).filter(rests)
        };
        let one = match strangers >= part(most, STRANGERS) {
            true => stranger(),
            false => useful().or_else(resting).or_else(stranger),
        };
        one.map(|guest| guest.key)
    }

    pub(super) fn take(
        &mut self,
        now: Duration,
        from: IpAddr,
        key: K,
        standing: FaceStanding,
    ) -> SeatIndex {
        let (source, site) = (source(from), site(from));
        for (counts, who) in [(&mut self.sources, source), (&mut self.sites, site)] {
            let count = counts.entry(who).or_default();
            *count = count.saturating_add(1);
        }
        self.strangers = self.strangers.saturating_add(usize::from(standing.is_stranger()));
        let guest = Some(Guest { key, source, site, standing, last_received: now });
        match self.free.pop() {
            Some(place) => {
                self.guests[place] = guest;
                SeatIndex(place)
            }
            None => {
                self.guests.push(guest);
                SeatIndex(self.guests.len().saturating_sub(1))
            }
        }
    }

    #[inline]
    pub(super) fn received(&mut self, place: SeatIndex, now: Duration) {
        if let Some(Some(guest)) = self.guests.get_mut(place.0) {
            guest.last_received = now;
        }
    }

    #[inline]
    pub(super) fn raise(&mut self, place: SeatIndex, standing: FaceStanding) {
        let Some(Some(guest)) = self.guests.get_mut(place.0) else { return };
        if standing > guest.standing {
            let known = guest.standing.is_stranger() && !standing.is_stranger();
            guest.standing = standing;
            self.strangers = self.strangers.saturating_sub(usize::from(known));
        }
    }

    pub(super) fn standing(&self, place: SeatIndex) -> Option<FaceStanding> {
        self.guests.get(place.0)?.as_ref().map(|guest| guest.standing)
    }

    pub(super) fn free(&mut self, place: SeatIndex) {
        let Some(guest) = self.guests.get_mut(place.0).and_then(Option::take) else { return };
        self.free.push(place.0);
        self.strangers = self.strangers.saturating_sub(usize::from(guest.standing.is_stranger()));
        for (counts, who) in [(&mut self.sources, guest.source), (&mut self.sites, guest.site)] {
            if let Some(count) = counts.get_mut(&who) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    counts.remove(&who);
                }
            }
        }
    }
}
