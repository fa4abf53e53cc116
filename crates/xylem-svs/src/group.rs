//! The state machine of one member.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use xylem_congestion::SplitMix64;
use xylem_packet::{EncodeError, Interest, Name};
use xylem_trust::{CommandStamp, Signer};

use crate::table::MemberTable;
use crate::vector::MAX_SEQUENCE;
use crate::wire::{self, TrustedVector};
use crate::{
    GroupMember, GroupTiming, StateVector, SyncError, SyncTrust, SyncVersion, VectorLimits,
};

/// Maximum difference between our time and a bootstrap or signature time, in milliseconds: a day, the specification's
/// limit for bootstrap times in the future.
const DAY_MS: u64 = 86_400_000;

/// Settings of a group's member.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// The group's name.
    pub group: Name,
    /// The protocol version of the group.
    pub version: SyncVersion,
    /// The member's own name. Without a name it only listens, and repeats what others have sent.
    pub name: Option<Name>,
    /// The member's bootstrap time, in seconds since 1970; not used in versions 1 and 2. With the state of an earlier
    /// run, pass that run's time; without it, the present time.
    pub boot: u64,
    /// The known state, including the member's own number.
    pub state: StateVector,
    /// When to send.
    pub timing: GroupTiming,
    /// Limits on stored and sent state.
    pub limits: VectorLimits,
}

impl GroupConfig {
    /// A listener without a name or state, with default times and limits.
    pub fn new(group: Name, version: SyncVersion) -> Self {
        let (timing, limits) = (GroupTiming::default(), VectorLimits::default());
        GroupConfig {
            group,
            version,
            name: None,
            boot: 0,
            state: StateVector::new(),
            timing,
            limits,
        }
    }
}

/// An event of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEvent {
    /// A member has published these numbers. Any trusted signer can claim this of any member: only the publications
    /// themselves prove it.
    Updated {
        /// The member.
        member: GroupMember,
        /// The first new number.
        from: u64,
        /// The last new number.
        to: u64,
    },
    /// Others claim that this member has published more than it knows of: its state was lost, or a member lies. Its
    /// next publications would not be noticed. A new bootstrap time ([`Group::restart`]) solves both.
    Ahead {
        /// The claimed number.
        sequence: u64,
    },
}

/// Reasons for which a whole vector is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VectorRefusal {
    /// The sync Interest is malformed or not trusted.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The bootstrap time, or the signature's time, is more than a day ahead of ours.
    #[error("the vector's time is more than a day ahead")]
    Future,
    /// The signature is more than a day old.
    #[error("the vector was signed more than a day ago")]
    Stale,
}

/// The result of an accepted vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VectorOutcome {
    /// Number of members with new publications.
    pub updated: usize,
    /// Number of members left out: the table is full, or their bootstrap time is older than those kept.
    pub left_out: usize,
}

/// Steady or suppression state.
#[derive(Debug)]
enum SuppressionPhase {
    Steady,
    /// An old vector came; holds the merge of all vectors received since.
    Suppression {
        merged: StateVector,
    },
}

/// One member of one group. Call order: [`Self::receive`] for Interests below [`SyncVersion::prefix`],
/// [`Self::handle_timer`] at [`Self::next_timer`], [`Self::publish`] once a publication can be fetched. After each of
/// them call [`Self::poll_event`] and [`Self::poll_transmit`] until they return nothing.
#[derive(Debug)]
pub struct Group {
    group: Name,
    version: SyncVersion,
    own: Option<GroupMember>,
    timing: GroupTiming,
    table: MemberTable,
    phase: SuppressionPhase,
    timer: Duration,
    /// Remaining rounds of repetition; whether another member has sent in this round; whether this member certainly
    /// sends in it.
    rounds: u32,
    repetition_received: bool,
    must_send: bool,
    /// Whether a vector is to be sent.
    send_due: bool,
    /// Members of which others knew too little, and which did not fit into the vector that was sent.
    unsent_members: BTreeSet<GroupMember>,
    /// Number of answers since the last change, and time of the last one.
    useless_answers: u32,
    last_answer: Duration,
    /// The highest number of this member that others have claimed.
    claimed_sequence: u64,
    events: VecDeque<GroupEvent>,
    chance: SplitMix64,
}

impl Group {
    /// A member that sends at once, so that others send what it lacks. `seed` determines its jitter and has to differ
    /// between members. `None` for a group or member without a name, or a state that exceeds the limits.
    pub fn new(config: GroupConfig, now: Duration, seed: u64) -> Option<Self> {
        let boot = if config.version == SyncVersion::V3 { config.boot } else { 0 };
        let own = config.name.map(|name| GroupMember::new(name, boot));
        if config.group.is_empty() || own.as_ref().is_some_and(|own| own.name.is_empty()) {
            return None;
        }
        let mut table = MemberTable::new(config.limits);
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
            phase: SuppressionPhase::Steady,
            timer: now,
            rounds: 0,
            repetition_received: false,
            must_send: false,
            send_due: true,
            unsent_members: BTreeSet::new(),
            useless_answers: 0,
            last_answer: Duration::ZERO,
            claimed_sequence: 0,
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

    /// The protocol version of the group.
    pub fn version(&self) -> SyncVersion {
        self.version
    }

    /// This member, if it has a name.
    pub fn own(&self) -> Option<&GroupMember> {
        self.own.as_ref()
    }

    /// All known numbers, to be stored for [`GroupConfig::state`].
    pub fn state(&self) -> StateVector {
        self.table.vector()
    }

    /// The latest number of a member; 0 if it is unknown.
    pub fn sequence(&self, member: &GroupMember) -> u64 {
        self.table.get(member)
    }

    /// Sets the round trip of this group, as measured by fetching: rounds of repetition are as long.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.timing.set_settle(round_trip);
    }

    /// Announces one more publication, which can be fetched now; returns its number. `None` without a name, or if no
    /// number is left.
    pub fn publish(&mut self, now: Duration) -> Option<u64> {
        let own = self.own.clone()?;
        let next = self.table.get(&own).checked_add(1).filter(|next| *next <= MAX_SEQUENCE)?;
        if !self.table.raise(Some(now), &own, next) {
            return None;
        }
        self.changed(now, true);
        self.phase = SuppressionPhase::Steady;
        self.send_due = true;
        Some(next)
    }

    /// Begins a new life of this member: numbers begin with 1 again. False if that is not possible: without a name, in
    /// version 1 or 2, or with a time not after the present one's.
    pub fn restart(&mut self, boot: u64) -> bool {
        match &mut self.own {
            Some(own) if self.version == SyncVersion::V3 && boot > own.boot => {
                own.boot = boot;
                self.claimed_sequence = 0;
                true
            }
            _ => false,
        }
    }

    /// Takes a sync Interest. `unix_ms` is the time in milliseconds since 1970.
    ///
    /// # Errors
    /// `Sync`: of another group, malformed, or refused by `believe`; `Future` and `Stale`. Nothing has changed then.
    pub fn receive(
        &mut self,
        now: Duration,
        unix_ms: u64,
        interest: &Interest<'_>,
        believe: &mut (impl SyncTrust + ?Sized),
    ) -> Result<VectorOutcome, VectorRefusal> {
        let believed = wire::decode(self.version, &self.group, interest, believe)?;
        let latest = unix_ms.saturating_add(DAY_MS);
        let boots = believed.vector.iter().any(|(member, _)| member.boot > latest / 1000);
        if boots || believed.signed_ms.is_some_and(|signed| signed > latest) {
            return Err(VectorRefusal::Future);
        }
        if believed.signed_ms.is_some_and(|signed| signed.saturating_add(DAY_MS) < unix_ms) {
            return Err(VectorRefusal::Stale);
        }
        Ok(self.merge_vector(now, believed))
    }

    /// Merges a vector, and decides whether it is old.
    fn merge_vector(&mut self, now: Duration, believed: TrustedVector) -> VectorOutcome {
        let vector = believed.vector;
        let mut received = VectorOutcome::default();
        for (member, sequence) in vector.iter() {
            let known = self.table.get(member);
            if sequence >= known {
                self.unsent_members.remove(member);
            }
            if self.own.as_ref() == Some(member) {
                if sequence > known.max(self.claimed_sequence) {
                    self.claimed_sequence = sequence;
                    self.events.push_back(GroupEvent::Ahead { sequence });
                }
            } else if sequence > known {
                if self.table.raise(Some(now), member, sequence) {
                    received.updated = received.updated.saturating_add(1);
                    let (member, from) = (member.clone(), known.saturating_add(1));
                    self.events.push_back(GroupEvent::Updated { member, from, to: sequence });
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
            SuppressionPhase::Suppression { merged } => merged.merge(&vector),
            SuppressionPhase::Steady if long => {
                self.phase = SuppressionPhase::Suppression { merged: vector };
                if now.saturating_sub(self.last_answer) > self.timing.periodic {
                    self.useless_answers = 0;
                }
                let wait = self.timing.suppression(self.useless_answers, &mut self.chance);
                self.timer = now.saturating_add(wait);
            }
            // Its old numbers changed so recently that its sender is about to receive the change.
            SuppressionPhase::Steady if old => {}
            // The rounds for the new numbers have just begun: this vector does not count as a repetition in them.
            SuppressionPhase::Steady if received.updated > 0 => {}
            SuppressionPhase::Steady if self.rounds > 0 => self.repetition_received = true,
            SuppressionPhase::Steady => self.schedule_periodic(now),
        }
        received
    }

    /// When to call [`Self::handle_timer`].
    pub fn next_timer(&self) -> Duration {
        self.timer
    }

    /// Handles the timer; a call before its time has no effect.
    pub fn handle_timer(&mut self, now: Duration) {
        if now < self.timer {
            return;
        }
        match core::mem::replace(&mut self.phase, SuppressionPhase::Steady) {
            SuppressionPhase::Suppression { merged } => {
                let lacking = self.table.iter().filter(|(member, n)| merged.get(member) < *n);
                self.unsent_members = lacking.map(|(member, _)| member.clone()).collect();
                if self.unsent_members.is_empty() {
                    self.schedule_periodic(now);
                    return;
                }
                self.send_due = true;
                self.last_answer = now;
                self.useless_answers = self.useless_answers.saturating_add(1);
                self.begin_rounds(now, true);
            }
            SuppressionPhase::Steady if !self.unsent_members.is_empty() => {
                self.send_due = true;
                self.timer = now.saturating_add(self.timing.round(&mut self.chance));
            }
            SuppressionPhase::Steady if self.rounds > 0 => {
                let members = self.table.len();
                let speaks =
                    self.must_send || GroupTiming::is_drawn_to_send(members, &mut self.chance);
                self.send_due |= speaks && !self.repetition_received;
                (self.repetition_received, self.must_send) = (false, false);
                self.rounds = self.rounds.saturating_sub(1);
                if self.rounds == 0 {
                    self.schedule_periodic(now);
                } else {
                    self.timer = now.saturating_add(self.timing.round(&mut self.chance));
                }
            }
            SuppressionPhase::Steady => {
                self.send_due = true;
                self.schedule_periodic(now);
            }
        }
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<GroupEvent> {
        self.events.pop_front()
    }

    /// Appends the sync Interest that is due, if any; false if there is none. `stamp` and `nonce` have to be random
    /// each time, and the stamp has the present time.
    ///
    /// # Errors
    /// `TooLong` if [`VectorLimits::vector_bytes`] leaves too little room for names and signature.
    pub fn poll_transmit(
        &mut self,
        now: Duration,
        signer: &Signer,
        stamp: CommandStamp,
        nonce: [u8; 4],
        out: &mut Vec<u8>,
    ) -> Result<bool, EncodeError> {
        if !core::mem::take(&mut self.send_due) {
            return Ok(false);
        }
        let vector = self.table.vector_to_send(self.own.iter().chain(&self.unsent_members));
        self.unsent_members.retain(|member| vector.get(member) == 0);
        if !self.unsent_members.is_empty() {
            let soon = now.saturating_add(self.timing.round(&mut self.chance));
            self.timer = self.timer.min(soon);
        }
        let element = wire::vector_element(self.version, &vector, !self.table.fits());
        wire::encode(self.version, &self.group, element, signer, stamp, nonce, out)?;
        Ok(true)
    }

    /// Begins rounds of repetition after a change, here or at another member.
    fn changed(&mut self, now: Duration, speaker: bool) {
        self.useless_answers = 0;
        if matches!(self.phase, SuppressionPhase::Steady) || speaker {
            self.begin_rounds(now, speaker);
        }
    }

    fn begin_rounds(&mut self, now: Duration, speaker: bool) {
        (self.rounds, self.repetition_received, self.must_send) =
            (GroupTiming::ROUNDS, false, speaker);
        self.timer = now.saturating_add(self.timing.round(&mut self.chance));
    }

    fn schedule_periodic(&mut self, now: Duration) {
        self.timer = now.saturating_add(self.timing.periodic(&mut self.chance));
    }
}
