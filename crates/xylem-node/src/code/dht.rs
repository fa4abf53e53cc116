//! Codes in the mainline DHT: [`OfferMeeting`] lists the peer that shows one, [`TakeMeeting`] finds it. Both speak over the
//! engine's own sockets for links (docs/spec/reach.md, "Codes").

use std::time::Duration;

use xylem_dht::{AnnouncedPorts, DhtEvent, DhtId, LookupId, LookupKind};
use xylem_engine::{Engine, Meeting, wall_clock};
use xylem_reach::code::{
    CodePunching, CodeRole, PunchWay, SpokenCode, meeting_key, meeting_window, meeting_windows,
};

use crate::discovery::VolunteerUse;
use crate::meeting::{CodeDht, DhtEntry, bind_both_families};
use crate::volunteers::{VolunteerMeeting, after_punching};
use xylem_reach::volunteer::{VolunteerChoice, VolunteerRelay};

fn key(number: u32, window: u64, role: CodeRole) -> DhtId {
    DhtId(meeting_key(number, window, role))
}

fn punch(engine: &mut Engine, role: CodeRole, number: u32, near: bool) {
    // Without randomness no link works either.
    if let Ok(seed) = xylem_base::random() {
        let punching = CodePunching::new(role, number, near, &seed).with_search();
        engine.punch_for(Meeting::Code, vec![punching]);
    }
}

/// Times for the check that a number is free: in all, for the names of the first nodes, and then until one answers. A code
/// is shown after that in any case: two codes with one number differ in their words.
const CHECK: Duration = Duration::from_secs(3);
const FIRST_NAMES: Duration = Duration::from_millis(1_500);
const FIRST_ANSWER: Duration = Duration::from_millis(500);
/// Most numbers that are drawn.
const MAX_DRAWS: u8 = 4;
/// Interval of polls for takers. [`LOOK_AGAIN`]: pause before takers are looked up anew, if no polled node answers.
const POLL: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Pause before an announcement is repeated that no node has stored.
const ANNOUNCE_AGAIN: Duration = Duration::from_secs(15);

/// Lists a code that is shown, and opens the NAT for takers.
pub(super) struct OfferMeeting {
    entry: DhtEntry,
    uses: VolunteerUse,
    /// Looks for volunteer relays, from when the code is shown.
    volunteers: Option<VolunteerMeeting>,
    began: Duration,
    number: u32,
    window: u64,
    /// Lookups that check whether the number is free.
    checks: Vec<LookupId>,
    taken: bool,
    draws: u8,
    /// When the check ends, as it was reckoned last.
    check_until: Duration,
    announcing: Option<LookupId>,
    /// When to announce; `None`: it is announced.
    announce_at: Option<Duration>,
    /// Lookups of takers, polls included.
    seeks: Vec<LookupId>,
    /// When takers are looked up; `None`: their nodes are known, and are polled.
    seek_at: Option<Duration>,
    poll_at: Duration,
    /// Whether it was reported that the DHT does not take the announcement.
    warned: bool,
    /// Whether a node has stored the announcement.
    is_listed: bool,
    /// Whether the user was told that the DHT leads here.
    told: bool,
}

/// What is to be reported of a code's announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListingReport {
    /// Nodes list it. It was reported otherwise before.
    Listed,
    /// Nodes answer, and none lists it.
    NotStored,
}

impl OfferMeeting {
    /// Begins to check a number. `None` if no peer would get in: the engine listens for this machine's programs alone.
    pub(super) fn new(engine: &mut Engine, how: &CodeDht, number: u32) -> Option<Self> {
        let entry = DhtEntry::new(engine, Meeting::Code, how);
        let now = engine.now();
        entry.is_open(engine).then(|| Self {
            entry,
            uses: how.start.volunteers,
            volunteers: None,
            began: now,
            number,
            window: meeting_window(wall_clock().seconds()),
            checks: Vec::new(),
            taken: false,
            draws: 1,
            check_until: now,
            announcing: None,
            announce_at: Some(now),
            seeks: Vec::new(),
            seek_at: Some(now),
            poll_at: now,
            warned: false,
            is_listed: false,
            told: false,
        })
    }

    /// Checks whether the number is free, and draws another if not. Returns the number once it is to be shown.
    pub(super) fn check(&mut self, engine: &mut Engine) -> Option<u32> {
        if self.entry.poll(engine) {
            self.begin_check(engine);
        }
        while let Some(event) = self.entry.poll_event(engine) {
            match event {
                DhtEvent::Peers(id, _) => self.taken |= self.checks.contains(&id),
                DhtEvent::Done(id, _) => self.checks.retain(|check| *check != id),
                _ => {}
            }
        }
        if self.taken && self.draws < MAX_DRAWS {
            let seed = xylem_base::random().ok()?;
            (self.number, self.draws) = (SpokenCode::draw_number(&seed), self.draws + 1);
            self.begin_check(engine);
            return None;
        }
        self.check_until = match self.entry.entered() {
            _ if self.entry.has_answers(engine) => self.began + CHECK,
            Some(entered) => entered + FIRST_ANSWER,
            None => self.began + FIRST_NAMES,
        };
        let is_checked = self.entry.entered().is_some() && self.checks.is_empty();
        (is_checked || engine.now() >= self.check_until).then_some(self.number)
    }

    /// When [`OfferMeeting::check`] is due.
    pub(super) fn check_timeout(&self) -> Duration {
        self.check_until
    }

    fn begin_check(&mut self, engine: &mut Engine) {
        self.taken = false;
        // One that was shown lately is listed in the window before.
        let windows = [self.window, self.window.saturating_sub(1)];
        let kinds = windows.map(|at| LookupKind::Peers(key(self.number, at, CodeRole::Offerer)));
        self.checks =
            kinds.into_iter().filter_map(|kind| self.entry.look_up(engine, kind)).collect();
    }

    /// The number is shown from now on. Returns whether a node of the DHT has answered.
    pub(super) fn show(&mut self, engine: &mut Engine) -> bool {
        punch(engine, CodeRole::Offerer, self.number, self.entry.is_near());
        self.volunteers = self.uses.meeting(self.number, &self.entry);
        self.told = self.entry.has_answers(engine);
        self.told
    }

    /// Whether the DHT leads takers here.
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Announces the code, looks for takers, and has their addresses punched. Returns what is to be reported.
    pub(super) fn poll(&mut self, engine: &mut Engine) -> Option<ListingReport> {
        self.entry.poll(engine);
        let (now, mut report) = (engine.now(), None);
        while let Some(event) = self.entry.poll_event(engine) {
            match event {
                event if takes(&mut self.volunteers, engine, &event) => {}
                DhtEvent::Peers(id, peers) if self.seeks.contains(&id) => {
                    self.entry.punch_to(engine, 0, &peers);
                }
                DhtEvent::Done(id, end) if self.announcing == Some(id) => {
                    self.announcing = None;
                    if end.error.is_some() {
                        self.entry.more();
                        self.announce_at = Some(now + ANNOUNCE_AGAIN);
                        // One that was stored before is listed as long as the code lives.
                        let fails = end.answered > 0 && !self.is_listed;
                        if fails && !std::mem::replace(&mut self.warned, true) {
                            (report, self.told) = (Some(ListingReport::NotStored), false);
                        }
                    } else {
                        self.is_listed = true;
                        let told = std::mem::replace(&mut self.told, true);
                        report = (!told).then_some(ListingReport::Listed);
                    }
                }
                DhtEvent::Done(id, _) => self.seeks.retain(|seek| *seek != id),
                // Another network, or another port of the NAT: the address that is listed is an old one.
                DhtEvent::Observed if self.announcing.is_none() => {
                    self.announce_at = self.announce_at.or(Some(now + POLL));
                }
                _ => {}
            }
        }
        self.entry.entered()?;
        if self.announce_at.is_some_and(|at| at <= now) {
            let kind = key(self.number, self.window, CodeRole::Offerer);
            self.announcing =
                self.entry.look_up(engine, LookupKind::Announce(kind, AnnouncedPorts::IMPLIED));
            self.announce_at = self.announcing.is_none().then_some(now + POLL);
        }
        self.seek(engine, now);
        report
    }

    /// Volunteer relays at which to register now, with the code's number and window: a taker is listed, and punching leads
    /// nowhere.
    pub(super) fn poll_volunteers(
        &mut self,
        engine: &mut Engine,
    ) -> (Vec<VolunteerRelay>, u32, u64) {
        let found = poll_volunteers(&mut self.volunteers, engine, &self.entry);
        (found, self.number, self.window)
    }

    fn seek(&mut self, engine: &mut Engine, now: Duration) {
        let takers = key(self.number, self.window, CodeRole::Taker);
        if self.seek_at.is_some_and(|at| at <= now) {
            let begun = self.entry.look_up(engine, LookupKind::Peers(takers));
            self.seek_at = begun.is_none().then_some(now + POLL);
            self.seeks.extend(begun);
            self.poll_at = now + POLL;
        }
        if self.seek_at.is_some() || now < self.poll_at {
            return;
        }
        self.poll_at = now + POLL;
        match self.entry.ask_again(engine, takers) {
            Some(poll) => self.seeks.push(poll),
            // The lookup of takers is not over yet.
            _ if !self.seeks.is_empty() => {}
            _ => self.seek_at = Some(now + LOOK_AGAIN),
        }
    }

    /// When [`OfferMeeting::poll`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let volunteers = self.volunteers.as_ref().and_then(|it| it.poll_timeout());
        let due = [self.announce_at, self.seek_at.or(Some(self.poll_at)), volunteers];
        due.into_iter().flatten().min().filter(|_| self.entry.entered().is_some())
    }

    /// Ends it: nothing is sent any more.
    pub(super) fn leave(&self, engine: &mut Engine) {
        self.entry.leave(engine);
    }
}

impl VolunteerUse {
    fn meeting(self, number: u32, entry: &DhtEntry) -> Option<VolunteerMeeting> {
        (self == Self::Ask).then(|| VolunteerMeeting::new(VolunteerChoice::of_code(number), entry))
    }
}

fn poll_volunteers(
    volunteers: &mut Option<VolunteerMeeting>,
    engine: &mut Engine,
    entry: &DhtEntry,
) -> Vec<VolunteerRelay> {
    let begins = engine.punching(Meeting::Code, 0).and_then(|it| after_punching(it));
    volunteers.as_mut().map(|it| it.poll(engine, entry, begins)).unwrap_or_default()
}

/// Whether an event of the DHT is about volunteers.
fn takes(volunteers: &mut Option<VolunteerMeeting>, engine: &mut Engine, event: &DhtEvent) -> bool {
    volunteers.as_mut().is_some_and(|it| it.handle_event(engine, event))
}

/// Time for the first nodes' names to be looked up.
const NAMES: Duration = Duration::from_secs(3);
/// Time for an offerer to be listed, and then for one that is listed to answer.
const LISTED: Duration = Duration::from_secs(8);
const ANSWERED: Duration = Duration::from_secs(12);
/// Pause before offerers are looked up again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Looks for the peer that shows a code, and lists this one as its taker.
pub(super) struct TakeMeeting {
    entry: DhtEntry,
    number: u32,
    began: Duration,
    /// Lookups of offerers, with the window of each.
    asks: Vec<(LookupId, u64)>,
    /// When to look them up again; `None` while that is done.
    ask_at: Option<Duration>,
    /// Windows in which this taker is announced, with the lookup of each.
    announced: Vec<(LookupId, u64)>,
    /// When the last new address was found.
    found: Option<Duration>,
    /// The windows in which offerers are listed.
    windows: Vec<u64>,
    volunteers: Option<VolunteerMeeting>,
    /// No node answers.
    is_alone: bool,
}

impl TakeMeeting {
    /// Begins. The engine gets sockets of both families, if it has none.
    pub(super) fn new(engine: &mut Engine, how: &CodeDht, number: u32) -> Self {
        bind_both_families(engine);
        let (entry, began) = (DhtEntry::new(engine, Meeting::Code, how), engine.now());
        punch(engine, CodeRole::Taker, number, entry.is_near());
        let volunteers = how.start.volunteers.meeting(number, &entry);
        Self {
            entry,
            windows: Vec::new(),
            volunteers,
            number,
            began,
            asks: Vec::new(),
            ask_at: Some(began),
            announced: Vec::new(),
            found: None,
            is_alone: false,
        }
    }

    /// Goes on. Returns ways to a peer that shows a code of this number, to be dialled.
    pub(super) fn poll(&mut self, engine: &mut Engine) -> Vec<PunchWay> {
        if self.entry.poll(engine) {
            (self.is_alone, self.ask_at) = (false, Some(engine.now()));
        }
        let now = engine.now();
        while let Some(event) = self.entry.poll_event(engine) {
            match event {
                event if takes(&mut self.volunteers, engine, &event) => {}
                DhtEvent::Peers(id, peers) => {
                    let window = self.asks.iter().find(|(ask, _)| *ask == id).map(|(_, at)| *at);
                    if let Some(window) = window
                        && self.entry.punch_to(engine, 0, &peers)
                    {
                        self.found = Some(now);
                        if !self.windows.contains(&window) {
                            self.windows.push(window);
                        }
                        self.announce(engine, window);
                    }
                }
                DhtEvent::Done(id, end) => {
                    // The next round of lookups announces again what no node has stored.
                    self.announced.retain(|(of, _)| *of != id || end.error.is_none());
                    let asked = self.asks.len();
                    self.asks.retain(|(ask, _)| *ask != id);
                    if asked > 0 && self.asks.is_empty() {
                        self.ask_at = Some(now + ASK_AGAIN);
                        self.is_alone = !self.entry.has_answers(engine) && !self.entry.more();
                    }
                }
                _ => {}
            }
        }
        if self.entry.entered().is_some() && self.ask_at.is_some_and(|at| at <= now) {
            self.ask(engine);
        }
        let Some(punching) = engine.punching(Meeting::Code, 0) else { return Vec::new() };
        std::iter::from_fn(|| punching.poll_proven()).collect()
    }

    fn ask(&mut self, engine: &mut Engine) {
        let windows = meeting_windows(wall_clock().seconds());
        // A taker of the same window, which is the likely case, need not be announced after the offerer is found.
        self.announce(engine, windows[0]);
        for window in windows {
            let offerers = key(self.number, window, CodeRole::Offerer);
            let ask = self.entry.look_up(engine, LookupKind::Peers(offerers));
            self.asks.extend(ask.map(|ask| (ask, window)));
        }
        self.ask_at = self.asks.is_empty().then(|| engine.now() + ASK_AGAIN);
    }

    fn announce(&mut self, engine: &mut Engine, window: u64) {
        if self.announced.iter().any(|(_, at)| *at == window) {
            return;
        }
        let takers = key(self.number, window, CodeRole::Taker);
        let kind = LookupKind::Announce(takers, AnnouncedPorts::IMPLIED);
        self.announced.extend(self.entry.look_up(engine, kind).map(|id| (id, window)));
    }

    /// Volunteer relays through which to dial now, and the windows in which an offerer is listed: punching leads nowhere.
    pub(super) fn poll_volunteers(&mut self, engine: &mut Engine) -> (Vec<VolunteerRelay>, &[u64]) {
        (poll_volunteers(&mut self.volunteers, engine, &self.entry), &self.windows)
    }

    /// Whether the peer may still be found.
    pub(super) fn is_hopeful(&self, now: Duration) -> bool {
        let until = match self.found {
            _ if self.entry.entered().is_none() => self.began + NAMES,
            _ if self.is_alone => return false,
            Some(found) => found + ANSWERED,
            None => self.began + LISTED,
        };
        now < until
    }

    /// Whether a node of the DHT has answered, and whether an offerer was listed.
    pub(super) fn outcome(&self, engine: &mut Engine) -> (bool, bool) {
        (self.entry.has_answers(engine), self.found.is_some())
    }

    /// When [`TakeMeeting::poll`] or [`TakeMeeting::is_hopeful`] is due.
    pub(super) fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let found = self.found.map(|found| found + ANSWERED);
        let ends = [Some(self.began + NAMES), Some(self.began + LISTED), found];
        let asks = self.ask_at.filter(|_| self.entry.entered().is_some());
        // While a peer tries the code, volunteers are not asked, and what was due stays so.
        let volunteers = self.volunteers.as_ref().and_then(|it| it.poll_timeout());
        let volunteers = volunteers.filter(|at| *at > now);
        let later = ends.into_iter().flatten().filter(|at| *at > now);
        later.chain(asks).chain(volunteers).min()
    }

    /// Ends it: nothing is sent any more.
    pub(super) fn leave(&self, engine: &mut Engine) {
        self.entry.leave(engine);
    }
}

#[cfg(test)]
mod tests;
