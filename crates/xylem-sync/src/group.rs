//! The state machine of one member.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use xylem_congestion::SplitMix64;
use xylem_packet::{EncodeError, Interest, Name};
use xylem_trust::{Signer, Stamp};

use crate::table::Table;
use crate::vector::MAX_SEQUENCE;
use crate::wire::{self, Believed};
use crate::{Believe, Limits, Member, StateVector, SyncError, Timing, Version};

/// How far a bootstrap time or a signature's time may be from ours: a day, as the specification says of
/// bootstrap times in the future.
const DAY_MS: u64 = 86_400_000;

/// What a group is made of.
#[derive(Debug, Clone)]
pub struct Config {
    /// The group's name.
    pub group: Name,
    /// The version that it speaks.
    pub version: Version,
    /// Our own name; without one we only listen, and repeat what others have said.
    pub name: Option<Name>,
    /// Our bootstrap time, in seconds since 1970; not used in versions 1 and 2. Who still has the state
    /// of an earlier run goes on with that one's; who has lost it takes the time of now.
    pub boot: u64,
    /// What we know already, our own number included.
    pub state: StateVector,
    /// When to speak.
    pub timing: Timing,
    /// How much is remembered and sent.
    pub limits: Limits,
}

impl Config {
    /// A listener that knows nothing, with default times and limits.
    pub fn new(group: Name, version: Version) -> Self {
        let (timing, limits) = (Timing::default(), Limits::default());
        Config { group, version, name: None, boot: 0, state: StateVector::new(), timing, limits }
    }
}

/// What there is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A member has published these. Whoever is believed may say so of any member: only the publications
    /// themselves prove it.
    Updated {
        /// Whose.
        member: Member,
        /// The first number that is new.
        from: u64,
        /// The last.
        to: u64,
    },
    /// Others say that we have published more than we know of: our state was lost, or somebody lies. What
    /// we publish next would not be seen; a new bootstrap time ([`Group::restart`]) mends both.
    Ahead {
        /// The number that they say.
        sequence: u64,
    },
}

/// Why a vector is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Not a sync Interest that can be read and believed.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// A bootstrap time, or the signature's time, more than a day ahead of ours.
    #[error("the vector is from more than a day ahead")]
    Future,
    /// Signed more than a day ago.
    #[error("the vector was signed more than a day ago")]
    Stale,
}

/// What became of a vector that was not refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Members of whom it said something new.
    pub updated: usize,
    /// Members that were left out: no place, or a bootstrap time older than those that are kept.
    pub left_out: usize,
}

/// Steady and suppression state.
#[derive(Debug)]
enum Phase {
    Steady,
    /// Somebody's vector was old; what has been said since.
    Suppression {
        merged: StateVector,
    },
}

/// One member of one group. Call order: [`Self::receive`] what comes for [`Version::prefix`],
/// [`Self::handle_timer`] at [`Self::next_timer`], [`Self::publish`] after something was made ready to
/// be fetched; after each of them [`Self::poll_event`] and [`Self::poll_transmit`] until they give nothing.
#[derive(Debug)]
pub struct Group {
    group: Name,
    version: Version,
    own: Option<Member>,
    timing: Timing,
    table: Table,
    phase: Phase,
    timer: Duration,
    /// Rounds of repeating that are left, whether somebody has spoken in this one, and whether we are sure
    /// to speak in it.
    rounds: u32,
    heard: bool,
    speaker: bool,
    /// A vector is to be sent.
    send: bool,
    /// Those of whom others knew too little, and who found no place in the vector that was sent.
    owed: BTreeSet<Member>,
    /// Answers since the last change, and when the last was given.
    fruitless: u32,
    answered: Duration,
    /// The most that others have said of us.
    ahead: u64,
    events: VecDeque<Event>,
    chance: SplitMix64,
}

impl Group {
    /// A member that speaks at once, so that others say what it lacks. `seed` is what its
    /// jitter follows from: another one for each member. `None` for a group or member without a name, or
    /// a state that breaks the limits.
    pub fn new(config: Config, now: Duration, seed: u64) -> Option<Self> {
        let boot = if config.version == Version::V3 { config.boot } else { 0 };
        let own = config.name.map(|name| Member::new(name, boot));
        if config.group.is_empty() || own.as_ref().is_some_and(|own| own.name.is_empty()) {
            return None;
        }
        let mut table = Table::new(config.limits);
        for (member, sequence) in config.state.iter() {
            if !table.raise(None, member, sequence) {
                return None;
            }
        }
        let mut group = Group {
            group: config.group,
            version: config.version,
            own,
            timing: config.timing,
            table,
            phase: Phase::Steady,
            timer: now,
            rounds: 0,
            heard: false,
            speaker: false,
            send: true,
            owed: BTreeSet::new(),
            fruitless: 0,
            answered: Duration::ZERO,
            ahead: 0,
            events: VecDeque::new(),
            chance: SplitMix64::new(seed),
        };
        group.begin_rounds(now, true);
        Some(group)
    }

    /// The group's name.
    pub fn name(&self) -> &Name {
        &self.group
    }

    /// The version that it speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// We ourselves, if we have a name.
    pub fn own(&self) -> Option<&Member> {
        self.own.as_ref()
    }

    /// All that is known, to be kept for [`Config::state`].
    pub fn state(&self) -> StateVector {
        self.table.vector()
    }

    /// The latest number of a member; 0 if there is none.
    pub fn sequence(&self, member: &Member) -> u64 {
        self.table.get(member)
    }

    /// A round trip in this group, as fetching shows it: rounds of repeating follow it.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.timing.set_settle(round_trip);
    }

    /// Something of ours can be fetched: gives its number, and tells the group. `None` if we have no name, or
    /// no number is left.
    pub fn publish(&mut self, now: Duration) -> Option<u64> {
        let own = self.own.clone()?;
        let next = self.table.get(&own).checked_add(1).filter(|next| *next <= MAX_SEQUENCE)?;
        if !self.table.raise(Some(now), &own, next) {
            return None;
        }
        self.changed(now, true);
        self.phase = Phase::Steady;
        self.send = true;
        Some(next)
    }

    /// Begins another life of ours: numbers begin with 1 again. False if there is no such life: no name,
    /// version 1 or 2, or a time that is not after the present one's.
    pub fn restart(&mut self, boot: u64) -> bool {
        match &mut self.own {
            Some(own) if self.version == Version::V3 && boot > own.boot => {
                own.boot = boot;
                self.ahead = 0;
                true
            }
            _ => false,
        }
    }

    /// A sync Interest has come. `unix_ms` is the time in milliseconds since 1970.
    ///
    /// # Errors
    /// `Sync`: not ours, unreadable, or `believe` says no; `Future` and `Stale`. Nothing has changed then.
    pub fn receive(
        &mut self,
        now: Duration,
        unix_ms: u64,
        interest: &Interest<'_>,
        believe: &mut (impl Believe + ?Sized),
    ) -> Result<Received, Refusal> {
        let believed = wire::decode(self.version, &self.group, interest, believe)?;
        let latest = unix_ms.saturating_add(DAY_MS);
        let boots = believed.vector.iter().any(|(member, _)| member.boot > latest / 1000);
        if boots || believed.signed_ms.is_some_and(|signed| signed > latest) {
            return Err(Refusal::Future);
        }
        if believed.signed_ms.is_some_and(|signed| signed.saturating_add(DAY_MS) < unix_ms) {
            return Err(Refusal::Stale);
        }
        Ok(self.take(now, believed))
    }

    /// Takes over what is new in a vector, and finds out whether it is old.
    fn take(&mut self, now: Duration, believed: Believed) -> Received {
        let vector = believed.vector;
        let mut received = Received::default();
        for (member, sequence) in vector.iter() {
            let known = self.table.get(member);
            if sequence >= known {
                self.owed.remove(member);
            }
            if self.own.as_ref() == Some(member) {
                if sequence > known.max(self.ahead) {
                    self.ahead = sequence;
                    self.events.push_back(Event::Ahead { sequence });
                }
            } else if sequence > known {
                if self.table.raise(Some(now), member, sequence) {
                    received.updated = received.updated.saturating_add(1);
                    let (member, from) = (member.clone(), known.saturating_add(1));
                    self.events.push_back(Event::Updated { member, from, to: sequence });
                } else {
                    received.left_out = received.left_out.saturating_add(1);
                }
            }
        }
        let (mut old, mut long) = (false, false);
        let lately = now.saturating_sub(self.timing.suppression);
        for (member, sequence) in self.table.iter() {
            let theirs = vector.get(member);
            if theirs < sequence && !(believed.part && theirs == 0) {
                old = true;
                long |= !self.table.learned_after(member, lately);
            }
        }
        if received.updated > 0 {
            self.changed(now, false);
        }
        match &mut self.phase {
            Phase::Suppression { merged } => merged.merge(&vector),
            Phase::Steady if long => {
                self.phase = Phase::Suppression { merged: vector };
                if now.saturating_sub(self.answered) > self.timing.periodic {
                    self.fruitless = 0;
                }
                let wait = self.timing.suppression(self.fruitless, &mut self.chance);
                self.timer = now.saturating_add(wait);
            }
            // What is old in it changed so lately that its sender will have heard by now.
            Phase::Steady if old => {}
            // What is new is repeated, by somebody who had to be told as well.
            Phase::Steady if received.updated > 0 => {}
            Phase::Steady if self.rounds > 0 => self.heard = true,
            Phase::Steady => self.rest(now),
        }
        received
    }

    /// When [`Self::handle_timer`] is to be called.
    pub fn next_timer(&self) -> Duration {
        self.timer
    }

    /// The time has come; calling it too early does nothing.
    pub fn handle_timer(&mut self, now: Duration) {
        if now < self.timer {
            return;
        }
        match core::mem::replace(&mut self.phase, Phase::Steady) {
            Phase::Suppression { merged } => {
                let lacking = self.table.iter().filter(|(member, n)| merged.get(member) < *n);
                self.owed = lacking.map(|(member, _)| member.clone()).collect();
                if self.owed.is_empty() {
                    self.rest(now);
                    return;
                }
                self.send = true;
                self.answered = now;
                self.fruitless = self.fruitless.saturating_add(1);
                self.begin_rounds(now, true);
            }
            Phase::Steady if !self.owed.is_empty() => {
                self.send = true;
                self.timer = now.saturating_add(self.timing.round(&mut self.chance));
            }
            Phase::Steady if self.rounds > 0 => {
                let members = self.table.len();
                let speaks = self.speaker || Timing::speaks(members, &mut self.chance);
                self.send |= speaks && !self.heard;
                (self.heard, self.speaker) = (false, false);
                self.rounds = self.rounds.saturating_sub(1);
                if self.rounds == 0 {
                    self.rest(now);
                } else {
                    self.timer = now.saturating_add(self.timing.round(&mut self.chance));
                }
            }
            Phase::Steady => {
                self.send = true;
                self.rest(now);
            }
        }
    }

    /// Something that others told us. False if there is nothing.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Appends the sync Interest that is to be sent now. `stamp` and `nonce` are random each time, and the stamp says the time. False
    /// if there is none.
    ///
    /// # Errors
    /// `TooLong` if [`Limits::vector_bytes`] leave too little room for names and signature.
    pub fn poll_transmit(
        &mut self,
        now: Duration,
        signer: &Signer,
        stamp: Stamp,
        nonce: [u8; 4],
        out: &mut Vec<u8>,
    ) -> Result<bool, EncodeError> {
        if !core::mem::take(&mut self.send) {
            return Ok(false);
        }
        let vector = self.table.part(self.own.iter().chain(&self.owed));
        self.owed.retain(|member| vector.get(member) == 0);
        if !self.owed.is_empty() {
            let soon = now.saturating_add(self.timing.round(&mut self.chance));
            self.timer = self.timer.min(soon);
        }
        let part = !self.table.fits();
        wire::encode(self.version, &self.group, (&vector, part), signer, stamp, nonce, out)?;
        Ok(true)
    }

    /// Something is new, here or there: it is repeated for some rounds.
    fn changed(&mut self, now: Duration, speaker: bool) {
        self.fruitless = 0;
        if matches!(self.phase, Phase::Steady) || speaker {
            self.begin_rounds(now, speaker);
        }
    }

    fn begin_rounds(&mut self, now: Duration, speaker: bool) {
        (self.rounds, self.heard, self.speaker) = (Timing::ROUNDS, false, speaker);
        self.timer = now.saturating_add(self.timing.round(&mut self.chance));
    }

    fn rest(&mut self, now: Duration) {
        self.timer = now.saturating_add(self.timing.periodic(&mut self.chance));
    }
}
