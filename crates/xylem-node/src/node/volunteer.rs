//! [`VolunteerListing`]: lists a relay in the mainline DHT, for peers that know no relay (docs/spec/reach.md, "Volunteers").

use std::time::Duration;

use xylem_dht::{AnnouncedPorts, DhtEvent, DhtId, LookupId, LookupKind};
use xylem_engine::{Engine, Meeting};
use xylem_reach::names::{VOLUNTEER_SHARDS, volunteers_key};

use crate::event::Event;
use crate::meeting::{CodeDht, DhtEntry};

/// Interval of announcements. Nodes forget peers that do not repeat them.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(20 * 60);
/// Pause after an announcement that failed, and before one of a changed address.
const RETRY: Duration = Duration::from_secs(30);
/// Pause between the first announcements under two keys, and before one that did not fit is tried again.
const STEP: Duration = Duration::from_millis(200);
/// Time for the first listing, before it is reported that there is none.
const FIRST_LISTING: Duration = Duration::from_secs(30);

/// One of the keys.
struct VolunteerShard {
    key: DhtId,
    announcing: Option<LookupId>,
    due: Duration,
    is_listed: bool,
}

impl VolunteerShard {
    fn announce(&mut self, engine: &mut Engine, entry: &DhtEntry, now: Duration) {
        if self.announcing.is_some() || now < self.due {
            return;
        }
        let kind = LookupKind::Announce(self.key, AnnouncedPorts::IMPLIED);
        self.announcing = entry.look_up(engine, kind);
        self.due = now + if self.announcing.is_some() { ANNOUNCE_EVERY } else { STEP };
    }
}

/// See the module's documentation.
pub(super) struct VolunteerListing {
    entry: DhtEntry,
    shards: Vec<VolunteerShard>,
    /// When it is reported that no node lists this relay; `None`: something was reported.
    told_at: Option<Duration>,
}

impl VolunteerListing {
    /// Begins, and answers those that ask whether a volunteer is here. `None` if the relay listens for this machine's programs
    /// alone.
    pub(super) fn new(engine: &mut Engine, how: &CodeDht) -> Option<Self> {
        let entry = DhtEntry::new(engine, Meeting::Volunteers, how);
        let now = engine.now();
        // Without randomness no link works either.
        let seed = xylem_base::random().ok().filter(|_| entry.is_open(engine))?;
        engine.answer_as_volunteer(&seed);
        let shard = |shard: u8| VolunteerShard {
            key: DhtId(volunteers_key(shard)),
            announcing: None,
            due: now + STEP * u32::from(shard),
            is_listed: false,
        };
        let shards = (0..VOLUNTEER_SHARDS).map(shard).collect();
        Some(Self { entry, shards, told_at: Some(now + FIRST_LISTING) })
    }

    /// Announces what is due, and reports the first listing.
    pub(super) fn handle_timeout(&mut self, engine: &mut Engine, on_event: &mut dyn FnMut(Event)) {
        self.entry.poll(engine);
        let now = engine.now();
        while let Some(event) = self.entry.poll_event(engine) {
            match event {
                DhtEvent::Done(id, end) => {
                    let ended = self.shards.iter_mut().find(|it| it.announcing == Some(id));
                    let Some(shard) = ended else { continue };
                    shard.announcing = None;
                    shard.is_listed |= end.error.is_none();
                    if end.error.is_some() {
                        shard.due = now + RETRY;
                        self.entry.more_or_again(engine);
                    }
                }
                // Another address: the one that is listed is old.
                DhtEvent::Observed => {
                    let later = now + RETRY;
                    self.shards.iter_mut().for_each(|it| it.due = it.due.min(later));
                }
                _ => {}
            }
        }
        if self.entry.entered().is_some() {
            let Self { entry, shards, .. } = self;
            shards.iter_mut().for_each(|shard| shard.announce(engine, entry, now));
        }
        self.report(now, on_event);
    }

    fn report(&mut self, now: Duration, on_event: &mut dyn FnMut(Event)) {
        let listed = self.shards.iter().filter(|shard| shard.is_listed).count();
        if self.told_at.is_some() && listed == self.shards.len() {
            self.told_at = None;
            on_event(Event::Volunteering);
        } else if self.told_at.take_if(|at| *at <= now).is_some() {
            let what = format!(
                "nodes of the DHT list this relay under {listed} of {VOLUNTEER_SHARDS} keys so far; it is tried again, and \
                 until then few peers or none find it"
            );
            on_event(Event::warning(what));
        }
    }

    /// When [`VolunteerListing::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let idle = self.shards.iter().filter(|shard| shard.announcing.is_none());
        let due = idle.map(|shard| shard.due).min().filter(|_| self.entry.entered().is_some());
        due.into_iter().chain(self.told_at).min()
    }

    /// Ends it.
    pub(super) fn leave(&self, engine: &mut Engine) {
        self.entry.leave(engine);
    }
}
