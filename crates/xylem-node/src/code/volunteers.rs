//! [`VolunteerMeeting`]: volunteer relays at which the two sides of a code meet when no direct way is found, and
//! [`VolunteerDials`]: the taker's dials through them (docs/spec/reach.md, "Volunteers").

use std::collections::HashMap;
use std::time::Duration;

use xylem_dht::{DhtEvent, DhtId, LookupId, LookupKind};
use xylem_engine::{Engine, FaceEnd, Meeting, RelayUse};
use xylem_forward::FaceId;
use xylem_mgmt::Persistency;
use xylem_object::ticket::{Address, RelayContact};
use xylem_peers::reachable::{PeerAddress, Relay};
use xylem_reach::code::meeting_publisher;
use xylem_reach::names::volunteers_key_of_code;
use xylem_reach::relay::{ConnectTarget, RelayRefusal, VouchedName};
use xylem_reach::volunteer::{VolunteerRelay, VolunteerSearch};

use crate::meeting::DhtEntry;

/// Time for punching, after the other side is listed; [`SEARCHED`]: the same where one side searches many ports.
const PUNCHED: Duration = Duration::from_millis(1_500);
const SEARCHED: Duration = Duration::from_millis(2_500);
/// Time for a lookup of volunteers. What is listed by then is enough.
const LOOKED: Duration = Duration::from_secs(2);
/// Pause before volunteers are looked up again, and how often they are.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
const MAX_LOOKS: u8 = 4;
/// Pause before a volunteer is asked again at which the offerer is not registered yet.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// Time that a volunteer has before the next one is tried as well; [`STALLED`]: time for an exchange through it.
const TURN: Duration = Duration::from_millis(1_500);
const STALLED: Duration = Duration::from_secs(4);

/// See the module's documentation.
pub(super) struct VolunteerMeeting {
    number: u32,
    near: bool,
    lookup: Option<LookupId>,
    looks: u8,
    look_at: Duration,
    /// When something is due, as it was reckoned last.
    due: Option<Duration>,
    is_over: bool,
}

impl VolunteerMeeting {
    /// Begins. Nothing is sent before [`VolunteerMeeting::poll`] finds that there is no direct way.
    pub(super) fn new(number: u32, entry: &DhtEntry) -> Self {
        let look_at = Duration::ZERO;
        let near = entry.is_near();
        Self { number, near, lookup: None, looks: 0, look_at, due: None, is_over: false }
    }

    /// Takes an event of the DHT's client; returns whether it is about volunteers.
    pub(super) fn handle_event(&mut self, engine: &mut Engine, event: &DhtEvent) -> bool {
        let now = engine.now();
        match event {
            DhtEvent::Peers(id, peers) if self.lookup == Some(*id) => {
                if let Some(search) = engine.volunteer_search(Meeting::Code) {
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

    /// Looks for volunteers once no direct way was found in time. Returns them once, the nearest first.
    pub(super) fn poll(&mut self, engine: &mut Engine, entry: &DhtEntry) -> Vec<VolunteerRelay> {
        let found = self.find(engine, entry);
        if found.is_some() {
            self.end(engine);
        }
        found.unwrap_or_default()
    }

    fn find(&mut self, engine: &mut Engine, entry: &DhtEntry) -> Option<Vec<VolunteerRelay>> {
        self.due = None;
        let now = engine.now();
        let punching = engine.punching(Meeting::Code, 0).filter(|_| !self.is_over)?;
        let wait = if punching.may_search() { SEARCHED } else { PUNCHED };
        // None: a direct way was found.
        let begins = punching.unproven_since()? + wait;
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
        let search = engine.volunteer_search(Meeting::Code)?;
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
        let target = DhtId(volunteers_key_of_code(self.number));
        self.lookup = entry.look_up(engine, LookupKind::Peers(target));
        // One search for all lookups, so that an address gets its few datagrams once. Without randomness no link works either.
        if engine.volunteer_search(Meeting::Code).is_none()
            && let Ok(seed) = xylem_base::random()
        {
            let search = VolunteerSearch::new(self.number, self.near, &seed);
            engine.search_volunteers(Meeting::Code, search);
        }
    }

    /// When [`VolunteerMeeting::poll`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.due
    }

    /// Ends it: nothing more is looked for.
    pub(super) fn end(&mut self, engine: &mut Engine) {
        engine.end_volunteer_search(Meeting::Code);
        (self.is_over, self.due) = (true, None);
    }
}

/// A volunteer as a relay of a ticket or of the user.
pub(super) fn as_relay(volunteer: &VolunteerRelay) -> Relay {
    let addresses = volunteer.at.iter().copied().map(Address::Ip).collect();
    Relay::from(RelayContact { key: volunteer.key, addresses })
}

/// Registers with volunteers, by the name that follows from the code's number and window, and by the names under which the
/// content is asked for. Returns the keys of those that were not used before.
pub(super) fn register(
    engine: &mut Engine,
    volunteers: &[VolunteerRelay],
    names: &[VouchedName],
    number: u32,
    window: u64,
) -> Vec<[u8; 32]> {
    let publisher = meeting_publisher(number, window);
    let vouch = publisher.vouch(&engine.link_key().0);
    let of_code = VouchedName { publisher: publisher.public(), vouch };
    let names: Vec<VouchedName> = names.iter().cloned().chain([of_code]).collect();
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

/// Over UDP alone: that is where it has answered.
fn used(volunteer: &VolunteerRelay) -> RelayUse {
    let (key, udp, tcp, names) = (volunteer.key, volunteer.at.clone(), Vec::new(), Vec::new());
    RelayUse { key, udp, tcp, listens: false, names, wants_code: false, token: None }
}

/// The taker's dials through volunteers: one after the other, each again while the offerer is not registered there.
#[derive(Default)]
pub(super) struct VolunteerDials {
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
    /// Begins with the first of these. The offerer was listed in these windows.
    pub(super) fn begin(
        &mut self,
        engine: &mut Engine,
        volunteers: Vec<VolunteerRelay>,
        number: u32,
        windows: &[u64],
    ) {
        let target = |window: &u64| meeting_publisher(number, *window).public();
        self.targets = windows.iter().map(target).map(ConnectTarget::Publisher).collect();
        for (turn, volunteer) in (0_u32..).zip(&volunteers) {
            self.next.push(Some(engine.now() + TURN * turn));
            self.dials.push(0);
            if let Err(why) = engine.use_relay(used(volunteer)) {
                tracing::debug!(%why, "cannot use a volunteer relay");
            }
        }
        self.volunteers = volunteers;
    }

    /// Dials what is due. Returns the new faces, and the peer of each.
    pub(super) fn poll(&mut self, engine: &mut Engine) -> Vec<(FaceId, PeerAddress)> {
        let (now, mut dialled) = (engine.now(), Vec::new());
        for place in 0..self.volunteers.len() {
            if self.next[place].take_if(|at| *at <= now).is_none() {
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
    pub(super) fn came_up(&mut self, now: Duration, face: FaceId) {
        if let Some((_, since)) = self.faces.get_mut(&face) {
            *since = now;
        }
    }

    /// A face is gone. If it was one of these, its volunteer is asked again: the offerer may not be registered there yet.
    pub(super) fn went_down(&mut self, now: Duration, face: FaceId, why: &FaceEnd) {
        let Some((place, _)) = self.faces.remove(&face) else { return };
        self.next[place] = Some(now + ASK_AGAIN);
        if matches!(why, FaceEnd::Relay(RelayRefusal::NotHere)) {
            // Meanwhile the others.
            let others = self.next.iter_mut().zip(&self.dials).filter(|(_, dials)| **dials == 0);
            others.filter_map(|(next, _)| next.as_mut()).for_each(|at| *at = (*at).min(now));
        }
    }

    /// Faces with an exchange that has not ended within [`STALLED`].
    pub(super) fn overdue(&self, now: Duration) -> Vec<FaceId> {
        let all = self.faces.iter().filter(|(_, (_, since))| now >= *since + STALLED);
        all.map(|(face, _)| *face).collect()
    }

    /// The relays for what the code leads to: first the one through which this peer is reached, then the others. None if it
    /// is reached through none.
    pub(super) fn relays_of(&self, peer: &PeerAddress) -> Vec<Relay> {
        let PeerAddress::Relayed { relay, .. } = peer else { return Vec::new() };
        let of = |it: &&VolunteerRelay| it.key == *relay;
        let (used, others): (Vec<_>, Vec<_>) = self.volunteers.iter().partition(of);
        // A relay that the user has named is none of these.
        let others = others.into_iter().filter(|_| !used.is_empty());
        used.iter().copied().chain(others).map(as_relay).collect()
    }

    /// When [`VolunteerDials::poll`] or [`VolunteerDials::overdue`] is due.
    pub(super) fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let turns = self.faces.values().map(|(_, since)| *since + STALLED).filter(|at| *at > now);
        self.next.iter().flatten().copied().chain(turns).min()
    }
}
