//! [`VolunteerMeeting`]: volunteer relays at which the two sides of a code, or a sharer and a getter, meet when no direct
//! way is found, and [`VolunteerDials`]: dials through them (docs/spec/reach.md, "Volunteers").

use std::collections::HashMap;
use std::time::Duration;

use xylem_dht::{DhtEvent, DhtId, LookupId, LookupKind};
use xylem_engine::{Engine, FaceEnd, Meeting, RelayUse};
use xylem_forward::FaceId;
use xylem_mgmt::Persistency;
use xylem_object::PublisherKey;
use xylem_object::ticket::{Address, RelayContact};
use xylem_peers::reachable::{PeerAddress, Relay};
use xylem_reach::code::CodePunching;
use xylem_reach::relay::{ConnectTarget, RelayRefusal, VouchedName};
use xylem_reach::volunteer::{VolunteerChoice, VolunteerRelay, VolunteerSearch};

use crate::meeting::DhtEntry;

/// Time for punching, after the other side is listed; [`SEARCHED`]: the same where one side searches many ports.
pub(crate) const PUNCHED: Duration = Duration::from_millis(1_500);
const SEARCHED: Duration = Duration::from_millis(2_500);
/// Time for a lookup of volunteers. What is listed by then is enough.
const LOOKED: Duration = Duration::from_secs(2);
/// Pause before volunteers are looked up again, and how often they are.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
const MAX_LOOKS: u8 = 4;
/// Pause before a volunteer is asked again at which the other side is not registered yet.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// Most dials through one volunteer: 30 s of them, if each is refused at once.
const MAX_DIALS: usize = 60;
/// Time that a volunteer has before the next one is tried as well; [`STALLED`]: time for an exchange through it.
const TURN: Duration = Duration::from_millis(1_500);
const STALLED: Duration = Duration::from_secs(4);

/// See the module's documentation.
pub(crate) struct VolunteerMeeting {
    of: Meeting,
    choice: VolunteerChoice,
    near: bool,
    lookup: Option<LookupId>,
    looks: u8,
    look_at: Duration,
    /// When something is due, as it was reckoned last.
    due: Option<Duration>,
    is_over: bool,
}

impl VolunteerMeeting {
    /// Begins. Nothing is sent before [`VolunteerMeeting::poll`] is told that there is no direct way.
    pub(crate) fn new(choice: VolunteerChoice, entry: &DhtEntry) -> Self {
        let (of, near) = (entry.of(), entry.is_near());
        let look_at = Duration::ZERO;
        Self { of, choice, near, lookup: None, looks: 0, look_at, due: None, is_over: false }
    }

    /// Takes an event of the DHT's client; returns whether it is about volunteers.
    pub(crate) fn handle_event(&mut self, engine: &mut Engine, event: &DhtEvent) -> bool {
        let now = engine.now();
        match event {
            DhtEvent::Peers(id, peers) if self.lookup == Some(*id) => {
                if let Some(search) = engine.volunteer_search(self.of) {
                    peers.new.iter().for_each(|at| search.add(now, *at));
                }
                true
            }
            DhtEvent::Done(id, _) if self.lookup == Some(*id) => {
                self.lookup = None;
                true
            }
            _ => false,
        }
    }

    /// Looks for volunteers from `begins` on; `None`: a direct way is found, or nothing is listed yet. Returns them once,
    /// the nearest first.
    pub(crate) fn poll(
        &mut self,
        engine: &mut Engine,
        entry: &DhtEntry,
        begins: Option<Duration>,
    ) -> Vec<VolunteerRelay> {
        let found = self.find(engine, entry, begins);
        if found.is_some() {
            self.end(engine);
        }
        found.unwrap_or_default()
    }

    fn find(
        &mut self,
        engine: &mut Engine,
        entry: &DhtEntry,
        begins: Option<Duration>,
    ) -> Option<Vec<VolunteerRelay>> {
        self.due = None;
        let now = engine.now();
        let begins = begins.filter(|_| !self.is_over)?;
        if now < begins && self.looks == 0 {
            self.due = Some(begins);
            return None;
        }
        if now >= begins.max(self.look_at) && self.looks < MAX_LOOKS {
            self.look(engine, entry, now);
        }
        let looks_until = self.look_at.saturating_sub(LOOK_AGAIN);
        if self.lookup.is_some() && now < looks_until {
            self.due = Some(looks_until);
            return None;
        }
        let search = engine.volunteer_search(self.of)?;
        let chosen = search.chosen(now);
        let again = Some(self.look_at).filter(|at| self.looks < MAX_LOOKS && *at > now);
        self.due = match &chosen {
            None => search.settles_at().filter(|at| *at > now),
            Some(_) => again,
        };
        chosen.filter(|chosen| !chosen.is_empty())
    }

    fn look(&mut self, engine: &mut Engine, entry: &DhtEntry, now: Duration) {
        self.look_at = now + LOOKED + LOOK_AGAIN;
        self.looks += 1;
        let target = DhtId(self.choice.listed_under);
        self.lookup = entry.look_up(engine, LookupKind::Peers(target));
        // One search for all lookups, so that an address gets its few datagrams once. Without randomness no link works either.
        if engine.volunteer_search(self.of).is_none()
            && let Ok(seed) = xylem_base::random()
        {
            let search = VolunteerSearch::new(&self.choice, self.near, &seed);
            engine.search_volunteers(self.of, search);
        }
    }

    /// When [`VolunteerMeeting::poll`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.due
    }

    /// Whether it has found volunteers, or none after all lookups.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        self.is_over || (self.looks == MAX_LOOKS && now >= self.look_at)
    }

    /// Ends it: nothing more is looked for.
    pub(crate) fn end(&mut self, engine: &mut Engine) {
        engine.end_volunteer_search(self.of);
        (self.is_over, self.due) = (true, None);
    }
}

/// When volunteers are looked for, unless a direct way is found before: punching has had its time. `None` if one is found, or
/// if nothing is listed yet.
pub(crate) fn after_punching(punching: &CodePunching) -> Option<Duration> {
    let wait = if punching.may_search() { SEARCHED } else { PUNCHED };
    Some(punching.unproven_since()? + wait)
}

/// A volunteer as a relay of a ticket or of the user.
pub(crate) fn as_relay(volunteer: &VolunteerRelay) -> Relay {
    let addresses = volunteer.at.iter().copied().map(Address::Ip).collect();
    Relay::from(RelayContact { key: volunteer.key, addresses })
}

/// Registers with volunteers, by the name that the two sides compute from what they share, and by the names under which the
/// content is asked for. Returns the keys of those that were not used before.
pub(crate) fn register(
    engine: &mut Engine,
    volunteers: &[VolunteerRelay],
    names: &[VouchedName],
    common: &PublisherKey,
) -> Vec<[u8; 32]> {
    let vouch = common.vouch(&engine.link_key().0);
    let of_both = VouchedName { publisher: common.public(), vouch };
    let names: Vec<VouchedName> = names.iter().cloned().chain([of_both]).collect();
    let mut new = Vec::new();
    for volunteer in volunteers {
        let (names, uses) = (names.clone(), used(volunteer));
        match engine.use_relay(RelayUse { listens: true, names, ..uses }) {
            Ok(true) => new.push(volunteer.key),
            // The user's own relay, or one that claims its key.
            Ok(false) => {}
            Err(why) => tracing::debug!(%why, "cannot use a volunteer relay"),
        }
    }
    new
}

/// The terms of use for dials. Over UDP alone: that is where it has answered.
pub(crate) fn used(volunteer: &VolunteerRelay) -> RelayUse {
    let (key, udp, tcp, names) = (volunteer.key, volunteer.at.clone(), Vec::new(), Vec::new());
    RelayUse { key, udp, tcp, listens: false, names, wants_code: false, token: None }
}

/// Dials through volunteers: one after the other, each again while the other side is not registered there.
#[derive(Default)]
pub(crate) struct VolunteerDials {
    volunteers: Vec<VolunteerRelay>,
    targets: Vec<ConnectTarget>,
    /// Number of dials so far through each volunteer; each dial asks for another of the targets.
    dials: Vec<usize>,
    /// Faces that are dialled or up, the volunteer of each, and since when.
    faces: HashMap<FaceId, (usize, Duration)>,
    /// When each volunteer is dialled next.
    next: Vec<Option<Duration>>,
}

impl VolunteerDials {
    /// Begins with the first of these. The other side is registered there as one of `targets`.
    pub(crate) fn begin(
        &mut self,
        engine: &mut Engine,
        volunteers: Vec<VolunteerRelay>,
        targets: Vec<ConnectTarget>,
    ) {
        self.targets = targets;
        for (turn, volunteer) in (0_u32..).zip(&volunteers) {
            self.next.push(Some(engine.now() + TURN * turn));
            self.dials.push(0);
            if let Err(why) = engine.use_relay(used(volunteer)) {
                tracing::debug!(%why, "cannot use a volunteer relay");
            }
        }
        self.volunteers = volunteers;
    }

    /// Whether there are volunteers to dial through.
    pub(crate) fn has_begun(&self) -> bool {
        !self.volunteers.is_empty()
    }

    /// Dials what is due. Returns the new faces, and the peer of each.
    pub(crate) fn poll(&mut self, engine: &mut Engine) -> Vec<(FaceId, PeerAddress)> {
        let (now, mut dialled) = (engine.now(), Vec::new());
        for place in 0..self.volunteers.len() {
            if self.next[place].take_if(|at| *at <= now).is_none() {
                continue;
            }
            if self.dials[place] >= MAX_DIALS {
                continue;
            }
            let volunteer = &self.volunteers[place];
            let target = self.targets.get(self.dials[place] % self.targets.len().max(1));
            let (Some(target), Some(at)) = (target.copied(), volunteer.at.first()) else {
                continue;
            };
            self.dials[place] += 1;
            let peer = PeerAddress::Relayed { relay: volunteer.key, at: *at, target, key: None };
            if let Ok(face) = engine.dial(&peer, Persistency::Persistent) {
                self.faces.insert(face, (place, now));
                dialled.push((face, peer));
            }
        }
        dialled
    }

    /// A face is up: its exchange begins now.
    pub(crate) fn came_up(&mut self, now: Duration, face: FaceId) {
        if let Some((_, since)) = self.faces.get_mut(&face) {
            *since = now;
        }
    }

    /// A face is gone. If it was one of these, its volunteer is asked again: the other side may not be registered there
    /// yet.
    pub(crate) fn went_down(&mut self, now: Duration, face: FaceId, why: &FaceEnd) {
        let Some((place, _)) = self.faces.remove(&face) else { return };
        self.next[place] = Some(now + ASK_AGAIN);
        if matches!(why, FaceEnd::Relay(RelayRefusal::NotHere)) {
            // Meanwhile the others.
            let others = self.next.iter_mut().zip(&self.dials).filter(|(_, dials)| **dials == 0);
            others.filter_map(|(next, _)| next.as_mut()).for_each(|at| *at = (*at).min(now));
        }
    }

    /// Faces with an exchange that has not ended within [`STALLED`].
    pub(crate) fn overdue(&self, now: Duration) -> Vec<FaceId> {
        let all = self.faces.iter().filter(|(_, (_, since))| now >= *since + STALLED);
        all.map(|(face, _)| *face).collect()
    }

    /// The relays for the fetch that follows: first the one through which this peer is reached, then the others. None if it
    /// is reached through none.
    pub(crate) fn relays_of(&self, peer: &PeerAddress) -> Vec<Relay> {
        let PeerAddress::Relayed { relay, .. } = peer else { return Vec::new() };
        let of = |it: &&VolunteerRelay| it.key == *relay;
        let (used, others): (Vec<_>, Vec<_>) = self.volunteers.iter().partition(of);
        // A relay that the user has named is none of these.
        let others = others.into_iter().filter(|_| !used.is_empty());
        used.iter().copied().chain(others).map(as_relay).collect()
    }

    /// When [`VolunteerDials::poll`] or [`VolunteerDials::overdue`] is due.
    pub(crate) fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let turns = self.faces.values().map(|(_, since)| *since + STALLED).filter(|at| *at > now);
        self.next.iter().flatten().copied().chain(turns).min()
    }
}
