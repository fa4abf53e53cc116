//! Tickets in the mainline DHT: [`TicketListings`] lists a sharer by its tickets, and [`TicketSearch`] finds it when every
//! address and relay of a ticket is silent. Both speak over the engine's own sockets for links. Where their NATs leave no
//! direct way, the two meet at volunteer relays (docs/spec/reach.md, "Tickets in the DHT").

use std::collections::HashMap;
use std::time::Duration;

use xylem_dht::{AnnouncedPorts, DhtEvent, DhtId, LookupId, LookupKind};
use xylem_engine::{Engine, Meeting, RelayNotice};
use xylem_hash::Hash;
use xylem_object::ticket::Address;
use xylem_object::{PublisherId, Ticket};
use xylem_peers::reachable::PeerAddress;
use xylem_reach::code::{CodePunching, CodeRole, PunchWay};
use xylem_reach::names::{RootMeeting, sharers_publisher};
use xylem_reach::relay::{ConnectTarget, VouchedName};
use xylem_reach::volunteer::{VolunteerChoice, VolunteerRelay};

use crate::discovery::VolunteerUse;
use crate::meeting::{CodeDht, DhtEntry, bind_both_families};
use crate::volunteers::{PUNCHED, VolunteerMeeting, register};

/// Most tickets by which a sharer is listed: the DHT's client remembers the nodes of 17 keys, two for each.
pub(crate) const MAX_LISTED_TICKETS: usize = 8;
/// Interval of announcements. Nodes forget peers that do not repeat them.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(20 * 60);
/// Pause after an announcement or lookup that failed, and between announcements of a changed address.
const RETRY: Duration = Duration::from_secs(30);
/// Pause before something that did not fit is tried again.
const BUSY: Duration = Duration::from_secs(1);
/// Interval of polls for getters. It also keeps the NAT's mapping. A getter waits 30 s by default.
const POLL: Duration = Duration::from_secs(28);
/// Interval at which the nodes that are polled are looked up anew.
const SEEK_EVERY: Duration = Duration::from_secs(3_600);
/// Interval at which punching begins anew: an address gets its few datagrams again. Volunteers are looked for again then.
const PUNCH_ANEW: Duration = Duration::from_secs(600);
/// Pause before volunteers are looked for again when another getter is listed.
const LOOK_SOON: Duration = Duration::from_secs(10);
/// Time without a getter that needs a volunteer after which the registrations with volunteers end. Nodes of the DHT list a
/// getter for about half an hour.
const UNUSED: Duration = Duration::from_secs(3_600);
/// Most volunteers with which a sharer is registered, for all its tickets.
const MAX_VOLUNTEERS: usize = 24;

fn punching(role: CodeRole, meeting: &RootMeeting, near: bool) -> Option<CodePunching> {
    // Without randomness no link works either.
    Some(CodePunching::with_key(role, meeting.punch, near, &xylem_base::random().ok()?))
}

/// One ticket by which the sharer is listed.
struct TicketListing {
    root: Hash,
    meeting: RootMeeting,
    /// Publications that have this ticket.
    uses: usize,
    announcing: Option<LookupId>,
    announce_at: Duration,
    /// When it was begun last.
    announced_at: Option<Duration>,
    is_listed: bool,
    /// Lookups of getters, polls included.
    seeks: Vec<LookupId>,
    seek_at: Duration,
    poll_at: Duration,
    /// When volunteers may be looked for, if a getter needs one.
    volunteers_at: Duration,
    /// When a getter was listed last to which no way was proven.
    needed: Option<Duration>,
    /// Those of the volunteers in use that getters of this ticket find.
    volunteers: Vec<[u8; 32]>,
}

impl TicketListing {
    fn new(root: &Hash, now: Duration) -> Self {
        Self {
            root: *root,
            meeting: RootMeeting::new(root),
            uses: 1,
            announcing: None,
            announce_at: now,
            announced_at: None,
            is_listed: false,
            seeks: Vec::new(),
            seek_at: now,
            poll_at: now,
            volunteers_at: now,
            needed: None,
            volunteers: Vec::new(),
        }
    }

    /// Begins what is due.
    fn handle_timeout(&mut self, engine: &mut Engine, entry: &DhtEntry, now: Duration) {
        if self.announcing.is_none() && now >= self.announce_at {
            let sharers = DhtId(self.meeting.sharers);
            let kind = LookupKind::Announce(sharers, AnnouncedPorts::IMPLIED);
            self.announcing = entry.look_up(engine, kind);
            let pause = if self.announcing.is_some() { ANNOUNCE_EVERY } else { BUSY };
            (self.announce_at, self.announced_at) = (now + pause, Some(now));
        }
        let getters = DhtId(self.meeting.getters);
        if now >= self.seek_at {
            let begun = entry.look_up(engine, LookupKind::Peers(getters));
            let pause = if begun.is_some() { SEEK_EVERY } else { BUSY };
            (self.seek_at, self.poll_at) = (now + pause, now + POLL);
            self.seeks.extend(begun);
        }
        if now >= self.poll_at {
            self.poll_at = now + POLL;
            let begun = entry.ask_again(engine, getters);
            if begun.is_none() && self.seeks.is_empty() {
                // None of those nodes answers any more.
                self.seek_at = self.seek_at.min(now + RETRY);
            }
            self.seeks.extend(begun);
        }
    }

    fn poll_timeout(&self) -> Duration {
        let announce_at = self.announcing.is_none().then_some(self.announce_at);
        announce_at.into_iter().fold(self.seek_at.min(self.poll_at), Duration::min)
    }
}

/// Lists a public share by its tickets, and opens the NAT for getters that are listed there.
pub(crate) struct TicketListings {
    entry: DhtEntry,
    listings: Vec<TicketListing>,
    /// When punching begins anew.
    anew_at: Duration,
    uses: VolunteerUse,
    /// The search for volunteers at which getters of one ticket find this end. One goes on at a time.
    search: Option<(RootMeeting, VolunteerMeeting)>,
    /// Place of the listing after the last one for which volunteers were looked for.
    next_search: usize,
    /// The volunteers with which this end has registered for getters, and whether each is known to have registered it. A
    /// relay that is in use for something else is none of these.
    volunteers: HashMap<[u8; 32], bool>,
}

impl TicketListings {
    /// Begins without a ticket; nothing is sent before there is one. `None` if no peer would get in.
    pub(crate) fn new(engine: &mut Engine, how: &CodeDht) -> Option<Self> {
        let entry = DhtEntry::new(engine, Meeting::Tickets, how);
        let anew_at = engine.now();
        entry.is_open(engine).then(|| Self {
            entry,
            listings: Vec::new(),
            anew_at,
            uses: how.start.volunteers,
            search: None,
            next_search: 0,
            volunteers: HashMap::new(),
        })
    }

    /// Lists the sharer by the ticket of a publication, once there is room. Returns whether there is now.
    pub(crate) fn add(&mut self, engine: &mut Engine, root: &Hash) -> bool {
        let meeting = RootMeeting::new(root);
        let place = self.listings.iter().position(|listing| listing.meeting == meeting);
        match place {
            Some(place) => self.listings[place].uses += 1,
            None => self.listings.push(TicketListing::new(root, engine.now())),
        }
        self.punch_for_new(engine);
        place.unwrap_or(self.listings.len() - 1) < MAX_LISTED_TICKETS
    }

    /// Ends that for a publication that is no longer served.
    pub(crate) fn remove(&mut self, engine: &mut Engine, root: &Hash) {
        let meeting = RootMeeting::new(root);
        let Some(place) = self.listings.iter().position(|known| known.meeting == meeting) else {
            return;
        };
        self.listings[place].uses -= 1;
        if self.listings[place].uses == 0 {
            let ended = self.listings.remove(place);
            self.leave_volunteers(engine, &ended);
            let punchings = engine.punchings(Meeting::Tickets);
            if place < punchings.len() {
                punchings.remove(place);
            }
            self.punch_for_new(engine);
        }
    }

    /// Begins to punch for listings that have just got a place. For the others it goes on.
    fn punch_for_new(&mut self, engine: &mut Engine) {
        let near = self.entry.is_near();
        let punchings = engine.punchings(Meeting::Tickets);
        let new = self.listings.iter().take(MAX_LISTED_TICKETS).skip(punchings.len());
        punchings.extend(new.filter_map(|it| punching(CodeRole::Offerer, &it.meeting, near)));
    }

    /// Ends the search for volunteers of a ticket that has ended, and the registrations that no other ticket needs.
    fn leave_volunteers(&mut self, engine: &mut Engine, ended: &TicketListing) {
        if self.search.as_ref().is_some_and(|(of, _)| *of == ended.meeting) {
            self.end_search(engine);
        }
        self.leave_needless(engine);
    }

    /// Ends the registrations with volunteers that no ticket needs.
    fn leave_needless(&mut self, engine: &mut Engine) {
        let Self { listings, volunteers, .. } = self;
        let needless =
            |key: &[u8; 32], _: &mut bool| !listings.iter().any(|it| it.volunteers.contains(key));
        volunteers.extract_if(needless).for_each(|(key, _)| engine.leave_relay(&key));
    }

    /// The same for tickets for which no getter has needed one for long. To be called while no peer comes through a relay: its
    /// relay may be one of those that the last search did not choose again.
    fn leave_unused(&mut self, engine: &mut Engine, now: Duration) {
        let is_over = |it: &TicketListing| it.needed.is_none_or(|at| now >= at + UNUSED);
        for listing in self.listings.iter_mut().filter(|it| is_over(it)) {
            listing.volunteers.clear();
        }
        self.leave_needless(engine);
    }

    fn end_search(&mut self, engine: &mut Engine) {
        if let Some((_, mut search)) = self.search.take() {
            search.end(engine);
        }
    }

    /// Registers with volunteers where a getter is listed to which no direct way is found, by `names` and by the root.
    /// `is_relayed`: whether a peer comes through a relay now. Returns the volunteers that are new, to be reported.
    pub(crate) fn ask_volunteers(
        &mut self,
        engine: &mut Engine,
        names: &[VouchedName],
        is_relayed: bool,
    ) -> Vec<VolunteerRelay> {
        let now = engine.now();
        if self.uses == VolunteerUse::Never {
            return Vec::new();
        }
        if !self.volunteers.is_empty() && !is_relayed {
            self.leave_unused(engine, now);
        }
        if self.search.is_none() && !self.begin_search(engine, now) {
            return Vec::new();
        }
        let Some((of, search)) = &mut self.search else { return Vec::new() };
        let mut found = search.poll(engine, &self.entry, Some(now));
        let listing = self.listings.iter_mut().find(|it| it.meeting == *of);
        if let Some(listing) = listing.filter(|_| !found.is_empty()) {
            let room = MAX_VOLUNTEERS.saturating_sub(self.volunteers.len());
            let mut left = room;
            found.retain(|it| {
                let is_known = self.volunteers.contains_key(&it.key);
                let has_place = is_known || left > 0;
                left -= usize::from(!is_known && has_place);
                has_place
            });
            let new = register(engine, &found, names, &sharers_publisher(&listing.root));
            self.volunteers.extend(new.iter().map(|key| (*key, false)));
            let keys = found.iter().map(|volunteer| volunteer.key);
            listing.volunteers = keys.filter(|key| self.volunteers.contains_key(key)).collect();
            found.retain(|volunteer| new.contains(&volunteer.key));
        }
        if search.is_over(now) {
            self.end_search(engine);
        }
        found
    }

    /// Begins a search for the next ticket that needs one: a getter is listed, and punching to it has had its time.
    fn begin_search(&mut self, engine: &mut Engine, now: Duration) -> bool {
        let listed = self.listings.len().min(MAX_LISTED_TICKETS);
        for place in (0..listed).map(|place| (self.next_search + place) % listed) {
            let since = engine.punching(Meeting::Tickets, place);
            let since = since.and_then(|it| it.unproven_host_since());
            if since.is_none_or(|since| now < since + PUNCHED) {
                continue;
            }
            let listing = &mut self.listings[place];
            listing.needed = Some(now);
            if now < listing.volunteers_at {
                continue;
            }
            listing.volunteers_at = now + PUNCH_ANEW;
            self.next_search = place + 1;
            let choice = VolunteerChoice::of_root(&listing.root);
            self.search = Some((listing.meeting, VolunteerMeeting::new(choice, &self.entry)));
            return true;
        }
        false
    }

    /// Handles the report of a relay. Returns whether it is a volunteer's, which concerns nothing else.
    pub(crate) fn handle_relay(
        &mut self,
        engine: &mut Engine,
        relay: &[u8; 32],
        what: &RelayNotice,
    ) -> bool {
        let Some(is_registered) = self.volunteers.get_mut(relay) else { return false };
        match what {
            RelayNotice::Registered { .. } => *is_registered = true,
            // One that has served may be restarting, and is dialled once more.
            RelayNotice::Failed { .. } if std::mem::take(is_registered) => {}
            RelayNotice::Failed { .. } => {
                engine.leave_relay(relay);
                self.volunteers.remove(relay);
                self.listings.iter_mut().for_each(|it| it.volunteers.retain(|key| key != relay));
            }
            RelayNotice::Observed { .. } => {}
        }
        true
    }

    fn punch_anew(&mut self, engine: &mut Engine) {
        self.anew_at = engine.now() + PUNCH_ANEW;
        let near = self.entry.is_near();
        let all = self.listings.iter().take(MAX_LISTED_TICKETS);
        let all = all.filter_map(|it| punching(CodeRole::Offerer, &it.meeting, near));
        engine.punch_for(Meeting::Tickets, all.collect());
    }

    /// Whether a node lists the sharer by one of its tickets at least.
    pub(crate) fn is_listed(&self) -> bool {
        self.listings.iter().any(|listing| listing.is_listed)
    }

    /// Announces, looks for getters, and has their addresses punched.
    pub(crate) fn handle_timeout(&mut self, engine: &mut Engine) {
        if self.listings.is_empty() {
            return;
        }
        self.entry.poll(engine);
        let now = engine.now();
        while let Some(event) = self.entry.poll_event(engine) {
            let search = self.search.as_mut();
            if search.is_some_and(|(_, search)| search.handle_event(engine, &event)) {
                continue;
            }
            match event {
                DhtEvent::Peers(id, peers) => {
                    let place = self.listings.iter().position(|it| it.seeks.contains(&id));
                    if let Some(place) = place {
                        let is_new = self.entry.punch_to(engine, place, &peers);
                        let at = &mut self.listings[place].volunteers_at;
                        // Another getter, for which there may be volunteers by now.
                        *at = if is_new { (*at).min(now + LOOK_SOON) } else { *at };
                    }
                }
                DhtEvent::Done(id, end) => {
                    for listing in &mut self.listings {
                        listing.seeks.retain(|seek| *seek != id);
                        if listing.announcing == Some(id) {
                            listing.announcing = None;
                            listing.is_listed |= end.error.is_none();
                            if end.error.is_some() {
                                listing.announce_at = now + RETRY;
                                self.entry.more_or_again(engine);
                            }
                        }
                    }
                }
                // Another network, or another port of the NAT: the address that is listed is an old one. A NAT that
                // gives each node another port changes it all the time.
                DhtEvent::Observed => {
                    for listing in &mut self.listings {
                        let at = listing.announced_at.map_or(now, |at| now.max(at + RETRY));
                        listing.announce_at = listing.announce_at.min(at);
                    }
                }
                _ => {}
            }
        }
        if now >= self.anew_at {
            self.punch_anew(engine);
        }
        if self.entry.entered().is_some() {
            let Self { entry, listings, .. } = self;
            let listed = listings.iter_mut().take(MAX_LISTED_TICKETS);
            listed.for_each(|listing| listing.handle_timeout(engine, entry, now));
        }
    }

    /// When [`TicketListings::handle_timeout`] or [`TicketListings::ask_volunteers`] is due. Addresses that are punched wake
    /// the engine, so that the latter is called.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let listed = self.listings.iter().take(MAX_LISTED_TICKETS);
        let search = self.search.as_ref().and_then(|(_, search)| search.poll_timeout());
        let due = listed.map(TicketListing::poll_timeout).chain(search).min();
        // The engine is woken when the first nodes are known.
        due.map(|due| due.min(self.anew_at)).filter(|_| self.entry.entered().is_some())
    }
}

/// Time without any peer before the DHT is asked: a relay that was restarted has its clients back by then, and a
/// good ticket costs no datagram.
const ASK_AFTER: Duration = Duration::from_secs(3);
/// Time for the first nodes' names, for a sharer to be listed, and for a listed one to answer: its NAT opens when it
/// polls.
const NAMES: Duration = Duration::from_secs(3);
const LISTED: Duration = Duration::from_secs(8);
const ANSWERED: Duration = Duration::from_secs(40);
/// Pause before sharers are looked up again: at first, and at most. It doubles.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Time until a getter looks for volunteers after a sharer is listed, if this side's NAT gives each destination another port.
const NO_WAY: Duration = Duration::from_secs(4);
/// The same for other NATs: the sharer's next poll, [`POLL`] later at most, may open the direct way. A getter that waits for 20 s
/// or more finds volunteers in time, and then waits anew.
const NO_WAY_YET: Duration = Duration::from_secs(12);
/// Pause before volunteers are looked for again.
const VOLUNTEERS_AGAIN: Duration = Duration::from_secs(120);
/// Time for a sharer to be found through a volunteer.
const RELAYED: Duration = Duration::from_secs(40);
const MOST_PAUSE: Duration = Duration::from_secs(60);

/// Looks for a ticket's sharer in the DHT, and lists this machine as a getter.
pub(crate) struct TicketSearch {
    entry: DhtEntry,
    root: Hash,
    meeting: RootMeeting,
    /// The publisher that vouches for the key, if the ticket or the name tells it.
    publisher: Option<PublisherId>,
    /// Looks for volunteers, unless that is turned off.
    volunteers: Option<VolunteerMeeting>,
    /// When the first address was listed.
    listed: Option<Duration>,
    /// When volunteers were found last.
    relayed: Option<Duration>,
    /// When the next search for volunteers may begin.
    volunteers_at: Duration,
    /// The ticket's link key, if it has one.
    key: Option<[u8; 32]>,
    /// When it asks, and whether it does.
    asks_at: Duration,
    asks: bool,
    look_at: Duration,
    pause: Duration,
    looking: Option<LookupId>,
    announcing: Option<LookupId>,
    announce_at: Duration,
    /// When the last new address was listed.
    found: Option<Duration>,
    /// No node answers.
    is_alone: bool,
}

impl TicketSearch {
    /// For a fetch that begins now. `None` if the ticket names only addresses of this machine.
    pub(crate) fn new(engine: &mut Engine, ticket: &Ticket, how: &CodeDht) -> Option<Self> {
        let entry = DhtEntry::new(engine, Meeting::Tickets, how);
        let is_own = |address: &Address| match address {
            Address::Ip(at) => at.ip().is_loopback(),
            Address::Host(..) => false,
        };
        let is_here = ticket.relays.is_empty() && ticket.addresses.iter().all(is_own);
        (entry.is_near() || !is_here).then(|| {
            Self::with(entry, engine, &ticket.root, ticket.link_key, Some(ticket.publisher), how)
        })
    }

    /// For content of which nothing is known but its root. The first peer that answers has to show that it has it.
    pub(crate) fn of_root(
        engine: &mut Engine,
        root: &Hash,
        publisher: Option<PublisherId>,
        how: &CodeDht,
    ) -> Self {
        let entry = DhtEntry::new(engine, Meeting::Tickets, how);
        Self::with(entry, engine, root, None, publisher, how)
    }

    fn with(
        entry: DhtEntry,
        engine: &Engine,
        root: &Hash,
        key: Option<[u8; 32]>,
        publisher: Option<PublisherId>,
        how: &CodeDht,
    ) -> Self {
        let asks_at = engine.now() + ASK_AFTER;
        let asks = how.start.volunteers == VolunteerUse::Ask;
        let choice = VolunteerChoice::of_root(root);
        let volunteers = asks.then(|| VolunteerMeeting::new(choice, &entry));
        Self {
            entry,
            root: *root,
            meeting: RootMeeting::new(root),
            publisher,
            volunteers,
            listed: None,
            relayed: None,
            volunteers_at: asks_at,
            key,
            asks_at,
            asks: false,
            look_at: asks_at,
            pause: ASK_AGAIN,
            looking: None,
            announcing: None,
            announce_at: asks_at,
            found: None,
            is_alone: false,
        }
    }

    /// Begins to ask once it is time. Returns true then: this is reported before anything is sent.
    pub(crate) fn begins(&mut self, now: Duration) -> bool {
        now >= self.asks_at && !std::mem::replace(&mut self.asks, true)
    }

    /// Goes on, after [`TicketSearch::begins`]. Returns peers to dial as if the ticket named them.
    pub(crate) fn handle_timeout(&mut self, engine: &mut Engine) -> Vec<PeerAddress> {
        if !self.asks {
            return Vec::new();
        }
        if self.entry.entered().is_none() && engine.punching(Meeting::Tickets, 0).is_none() {
            bind_both_families(engine);
            let near = self.entry.is_near();
            let all = punching(CodeRole::Taker, &self.meeting, near);
            engine.punch_for(Meeting::Tickets, all.into_iter().collect());
        }
        let now = engine.now();
        if self.entry.poll(engine) {
            (self.is_alone, self.look_at) = (false, now);
        }
        while let Some(event) = self.entry.poll_event(engine) {
            let volunteers = self.volunteers.as_mut();
            if volunteers.is_some_and(|it| it.handle_event(engine, &event)) {
                continue;
            }
            match event {
                DhtEvent::Peers(id, peers) if self.looking == Some(id) => {
                    let fresh = self.entry.punch_to(engine, 0, &peers);
                    self.found = fresh.then_some(now).or(self.found);
                    self.listed = self.listed.or(self.found);
                }
                DhtEvent::Done(id, _) if self.looking == Some(id) => {
                    self.looking = None;
                    self.look_at = now + self.pause;
                    self.pause = MOST_PAUSE.min(self.pause * 2);
                    self.is_alone = !self.entry.has_answers(engine) && !self.entry.more();
                }
                DhtEvent::Done(id, end) if self.announcing == Some(id) => {
                    self.announcing = None;
                    let pause = if end.error.is_some() { RETRY } else { ANNOUNCE_EVERY };
                    self.announce_at = now + pause;
                }
                _ => {}
            }
        }
        self.ask(engine, now);
        let Some(punching) = engine.punching(Meeting::Tickets, 0) else { return Vec::new() };
        let proven: Vec<PunchWay> = std::iter::from_fn(|| punching.poll_proven()).collect();
        // Without a search all ways are from the socket of links.
        let peer = |way: PunchWay| PeerAddress::Link { address: way.at, key: self.key };
        proven.into_iter().map(peer).collect()
    }

    fn ask(&mut self, engine: &mut Engine, now: Duration) {
        if self.entry.entered().is_none() {
            return;
        }
        if self.looking.is_none() && now >= self.look_at {
            let sharers = LookupKind::Peers(DhtId(self.meeting.sharers));
            self.looking = self.entry.look_up(engine, sharers);
            self.look_at = now + BUSY;
        }
        // Without a sharer there no peer looks for getters.
        if self.found.is_some() && self.announcing.is_none() && now >= self.announce_at {
            let getters = DhtId(self.meeting.getters);
            let kind = LookupKind::Announce(getters, AnnouncedPorts::IMPLIED);
            self.announcing = self.entry.look_up(engine, kind);
            self.announce_at = now + BUSY;
        }
    }

    /// Volunteers through which to ask for the sharer now: no direct way to it is found. They are returned once.
    pub(crate) fn poll_volunteers(&mut self, engine: &mut Engine) -> Vec<VolunteerRelay> {
        let now = engine.now();
        let Some(volunteers) = self.volunteers.as_mut().filter(|_| self.asks) else {
            return Vec::new();
        };
        if volunteers.is_over(now) && now >= self.volunteers_at {
            // The sharer may have come back meanwhile, at others, and a silent volunteer too, which is asked anew.
            volunteers.end(engine);
            *volunteers = VolunteerMeeting::new(VolunteerChoice::of_root(&self.root), &self.entry);
        }
        // A way that is proven may lead to a liar, or to another sharer. This search ends when a peer is up.
        let is_symmetric = self.entry.is_symmetric(engine) == Some(true);
        let wait = if is_symmetric { NO_WAY } else { NO_WAY_YET };
        let begins = self.listed.map(|listed| (listed + wait).max(self.volunteers_at));
        let found = volunteers.poll(engine, &self.entry, begins);
        if volunteers.is_over(now) {
            self.volunteers_at = self.volunteers_at.max(now + VOLUNTEERS_AGAIN);
        }
        if !found.is_empty() {
            self.relayed = Some(now);
        }
        found
    }

    /// What to ask volunteers for, if no key is known: what the publisher vouches for, or any sharer of this content.
    pub(crate) fn sharers(&self) -> ConnectTarget {
        let any = || sharers_publisher(&self.root).public();
        ConnectTarget::Publisher(self.publisher.unwrap_or_else(any))
    }

    /// The ticket's link key, if it has one.
    pub(crate) fn link_key(&self) -> Option<[u8; 32]> {
        self.key
    }

    /// Whether the DHT lists a sharer.
    pub(crate) fn is_listed(&self) -> bool {
        self.found.is_some()
    }

    /// Whether a sharer may still be found.
    pub(crate) fn is_hopeful(&self, now: Duration) -> bool {
        let until = match self.found {
            _ if !self.asks => return true,
            _ if self.entry.entered().is_none() => self.asks_at + NAMES,
            _ if self.is_alone => return false,
            Some(found) => found + ANSWERED,
            None => self.asks_at + LISTED,
        };
        now < until.max(self.relayed.map_or(until, |at| at + RELAYED))
    }

    /// When [`TicketSearch::begins`] or [`TicketSearch::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self, now: Duration) -> Duration {
        if !self.asks {
            return self.asks_at;
        }
        // Answers and punches are looked at soon. The engine's sockets wake it for them.
        let look_at = self.looking.is_none().then_some(self.look_at);
        let announces = self.found.is_some() && self.announcing.is_none();
        let announce_at = announces.then_some(self.announce_at);
        let ends = [NAMES, LISTED].map(|time| self.asks_at + time).into_iter();
        let later = self.found.map(|found| found + ANSWERED).into_iter();
        let later = later.chain(self.relayed.map(|at| at + RELAYED));
        let volunteers = self.volunteers.as_ref().and_then(|it| it.poll_timeout());
        let ends = ends.chain(later).chain(volunteers).filter(|at| *at > now);
        let entered = self.entry.entered().is_some();
        let due = [look_at, announce_at].into_iter().flatten().filter(|_| entered);
        due.chain(ends).min().unwrap_or(Duration::MAX)
    }

    /// Ends it: nothing is sent any more.
    pub(crate) fn leave(&self, engine: &mut Engine) {
        engine.end_volunteer_search(Meeting::Tickets);
        self.entry.leave(engine);
    }
}

#[cfg(test)]
mod tests;
