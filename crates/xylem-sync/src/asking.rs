//! [`FetchTurns`]: stops a fetch from a member when the fetched version is no longer served, or when other members
//! wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use xylem_base::Stop;
use xylem_object::PublisherId;

/// Time that a member's turn lasts if others wait; doubled after each turn that was too short.
const TURN: Duration = Duration::from_secs(10);
/// A turn also ends after this long without a sign of the member if others wait: it may be gone. Doubled likewise.
const SILENT: Duration = Duration::from_secs(3);
/// How many of the newest versions of its folder a member serves, so that a small change does not end the fetch of a
/// large version.
pub(crate) const SERVED: usize = 16;
/// Interval of [`FetchTurns::end_overdue_turn`] during a turn.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// The same interval at rest.
const CHECK_EVERY_AT_REST: Duration = Duration::from_secs(1);

/// The present fetch, shared with the thread that receives the members' statements. A member serves the versions of its
/// last [`SERVED`] statements, so the fetch of an older one is stopped.
#[derive(Clone, Default)]
pub(crate) struct FetchTurns(Arc<Mutex<TurnState>>);

#[derive(Default)]
struct TurnState {
    /// The numbers of the last statements of each member, the newest first.
    last: BTreeMap<PublisherId, VecDeque<u64>>,
    now: Option<Turn>,
    /// How many turns of each member ended before it was done.
    cut: BTreeMap<PublisherId, u32>,
}

struct Turn {
    who: PublisherId,
    number: u64,
    stop: Stop,
    until: Instant,
    /// Time without a sign of the member after which the turn ends.
    patience: Duration,
    /// Whether another member waits, or this one has made a newer statement.
    others_wait: bool,
    /// Members from which nothing is fetched, whatever they announce.
    readers: BTreeSet<PublisherId>,
    /// Bytes that have come; `moved` is the time of the last progress or other sign of the member.
    came: u64,
    moved: Instant,
}

impl Turn {
    /// Whether the turn is over for the sake of others.
    fn is_over(&self) -> bool {
        self.others_wait && (self.until <= Instant::now() || self.moved.elapsed() >= self.patience)
    }
}

impl TurnState {
    fn stop_what_is_gone(&self) {
        let newer = |last: &VecDeque<u64>, than| last.iter().filter(|said| **said > than).count();
        if let Some(now) = &self.now
            && self.last.get(&now.who).is_some_and(|last| newer(last, now.number) >= SERVED)
        {
            now.stop.raise();
        }
    }

    fn newest(&self, who: &PublisherId) -> u64 {
        self.last.get(who).and_then(|last| last.front().copied()).unwrap_or(0)
    }
}

impl FetchTurns {
    fn held(&self) -> MutexGuard<'_, TurnState> {
        // A poisoned lock holds good data: no thread panics within a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a member's statement with this number.
    pub(crate) fn record_statement(&self, member: PublisherId, number: u64) {
        let mut held = self.held();
        let last = held.last.entry(member).or_default();
        if last.front().is_none_or(|newest| number > *newest) {
            last.push_front(number);
            last.truncate(SERVED);
        }
        if let Some(now) = held.now.as_mut() {
            let says_more = now.who != member || number > now.number;
            now.others_wait |= says_more && !now.readers.contains(&member);
        }
        held.stop_what_is_gone();
    }

    /// Ends the turn of a member whose link is down. Its newest statement is fetched when it is back; it may make
    /// another one then.
    pub(crate) fn member_left(&self, member: &PublisherId) {
        let held = self.held();
        held.now.iter().filter(|now| now.who == *member).for_each(|now| now.stop.raise());
    }

    /// Stops the present fetch.
    pub(crate) fn halt(&self) {
        self.held().now.iter().for_each(|now| now.stop.raise());
    }

    /// Begins a turn: the version of a member's statement `number` is fetched, and `stop` ends that. `waits` returns
    /// whether another member is to be fetched from, given the number of its newest statement, which the caller may not
    /// have seen. Nothing is fetched from `readers`.
    pub(crate) fn begin(
        &self,
        who: PublisherId,
        number: u64,
        waits: impl Fn(&PublisherId, u64) -> bool,
        readers: BTreeSet<PublisherId>,
        stop: &Stop,
    ) {
        let cut = self.early_ends(&who);
        let mut held = self.held();
        let others_wait = held.newest(&who) > number
            || held.last.keys().any(|other| *other != who && waits(other, held.newest(other)));
        let (stop, now, longer) = (stop.clone(), Instant::now(), 2_u32.saturating_pow(cut.min(12)));
        held.now = Some(Turn {
            who,
            number,
            stop,
            until: now + TURN * longer,
            patience: SILENT * longer,
            others_wait,
            readers,
            came: 0,
            moved: now,
        });
        held.stop_what_is_gone();
    }

    /// Records a sign of the member of this turn.
    pub(crate) fn record_sign(&self) {
        self.held().now.iter_mut().for_each(|now| now.moved = Instant::now());
    }

    /// Records the bytes that have come in this turn.
    pub(crate) fn record_bytes(&self, bytes: u64) {
        if let Some(now) = self.held().now.as_mut().filter(|now| now.came != bytes) {
            (now.came, now.moved) = (bytes, Instant::now());
        }
    }

    /// Time until [`FetchTurns::end_overdue_turn`] is due.
    pub(crate) fn check_interval(&self) -> Duration {
        if self.held().now.is_some() { CHECK_EVERY } else { CHECK_EVERY_AT_REST }
    }

    /// Ends a turn that has taken too long, so that others do not wait for ever.
    pub(crate) fn end_overdue_turn(&self) {
        let mut held = self.held();
        if let Some(now) = held.now.as_ref().filter(|now| now.is_over() && !now.stop.raised()) {
            now.stop.raise();
            let who = now.who;
            let cut = held.cut.entry(who).or_default();
            *cut = cut.saturating_add(1);
        }
    }

    /// How many turns of a member ended early since it was last done.
    pub(crate) fn early_ends(&self, who: &PublisherId) -> u32 {
        self.held().cut.get(who).copied().unwrap_or(0)
    }

    /// Ends the turn; `whole`: all was fetched.
    pub(crate) fn end(&self, whole: bool) {
        let mut held = self.held();
        if let Some(now) = held.now.take().filter(|_| whole) {
            held.cut.remove(&now.who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member serves its last versions only.
    #[test]
    fn a_fetch_of_a_version_no_longer_served_stops() {
        let (asking, member, stop) = (FetchTurns::default(), PublisherId([1; 32]), Stop::new());
        asking.record_statement(member, 5);
        asking.begin(member, 5, |_, _| false, BTreeSet::new(), &stop);
        let newer = 6..6 + SERVED as u64;
        for number in newer.clone().take(SERVED - 1) {
            asking.record_statement(member, number);
            asking.record_statement(PublisherId([2; 32]), 100 + number);
        }
        assert!(!stop.raised(), "it is served still");
        asking.record_statement(member, newer.end - 1);
        assert!(stop.raised());
        let late = Stop::new();
        asking.begin(member, 5, |_, _| false, BTreeSet::new(), &late);
        assert!(late.raised(), "it is gone before it is asked for");
    }

    /// A member that changes its folder during a large fetch keeps its turn; the newer version is fetched afterwards.
    #[test]
    fn a_newer_version_waits_for_the_end_of_the_turn() {
        let (asking, member, stop) = (FetchTurns::default(), PublisherId([1; 32]), Stop::new());
        asking.record_statement(member, 5);
        asking.begin(member, 5, |_, _| false, BTreeSet::new(), &stop);
        let over = || {
            asking.held().now.as_mut().unwrap().until = Instant::now();
            asking.end_overdue_turn();
            stop.raised()
        };
        asking.record_statement(member, 5);
        assert!(!over(), "it says nothing else");
        asking.record_statement(member, 6);
        assert!(over());
        asking.end(false);
        let next = Stop::new();
        asking.begin(member, 5, |_, _| false, BTreeSet::new(), &next);
        assert!(asking.held().now.as_ref().unwrap().others_wait, "it has said so already");
    }

    /// A member that comes back serves what it announces then.
    #[test]
    fn a_fetch_from_a_member_that_left_stops() {
        let (asking, member, stop) = (FetchTurns::default(), PublisherId([1; 32]), Stop::new());
        asking.begin(member, 5, |_, _| false, BTreeSet::new(), &stop);
        asking.member_left(&PublisherId([3; 32]));
        assert!(!stop.raised(), "that was somebody else");
        asking.member_left(&member);
        assert!(stop.raised());
    }

    #[test]
    fn a_silent_member_loses_its_turn_early() {
        let (asking, gone) = (FetchTurns::default(), PublisherId([1; 32]));
        asking.record_statement(PublisherId([2; 32]), 1);
        let turn = |others_wait, answers: bool| {
            let stop = Stop::new();
            asking.begin(gone, 1, |_, _| others_wait, BTreeSet::new(), &stop);
            // Pretend that nothing has come for this long.
            let patience = asking.held().now.as_ref().unwrap().patience;
            asking.held().now.as_mut().unwrap().moved -= patience;
            if answers {
                asking.record_sign();
            }
            asking.end_overdue_turn();
            (patience.as_secs(), stop.raised())
        };
        assert_eq!([turn(false, false), turn(true, true)], [(3, false), (3, false)]);
        assert_eq!([turn(true, false), turn(true, false)], [(3, true), (6, true)]);
        assert_eq!(
            [asking.early_ends(&gone), asking.early_ends(&PublisherId([2; 32]))],
            [2, 0],
            "others are first"
        );
        asking.end(false);
        assert_eq!(asking.early_ends(&gone), 2);
        asking.end(true);
    }

    #[test]
    fn waiting_is_judged_by_the_newest_statement() {
        let (asking, first, second) =
            (FetchTurns::default(), PublisherId([1; 32]), PublisherId([2; 32]));
        let waits = |known: u64| {
            let stop = Stop::new();
            asking.begin(
                first,
                9,
                |who, newest| *who == second && newest > known,
                BTreeSet::new(),
                &stop,
            );
            asking.held().now.as_ref().unwrap().others_wait
        };
        asking.record_statement(first, 9);
        assert!(!waits(7), "nobody else has said anything");
        asking.record_statement(second, 8);
        assert!(waits(7) && !waits(8));
    }

    #[test]
    fn a_reader_never_ends_the_turn_of_another() {
        let (asking, first, reader) =
            (FetchTurns::default(), PublisherId([1; 32]), PublisherId([2; 32]));
        asking.begin(first, 2, |_, _| false, [reader].into(), &Stop::new());
        asking.record_statement(first, 2);
        asking.record_statement(reader, 3);
        let others_wait = || asking.held().now.as_ref().unwrap().others_wait;
        assert!(!others_wait());
        asking.record_statement(PublisherId([3; 32]), 1);
        assert!(others_wait());
    }

    #[test]
    fn a_slow_member_has_growing_turns_while_others_wait() {
        let (asking, slow) = (FetchTurns::default(), PublisherId([1; 32]));
        asking.record_statement(PublisherId([2; 32]), 1);
        let turn = |others_wait| {
            let stop = Stop::new();
            asking.begin(slow, 1, |_, _| others_wait, BTreeSet::new(), &stop);
            let given = asking.held().now.as_ref().unwrap().until - Instant::now();
            // Its time is over now.
            asking.held().now.as_mut().unwrap().until = Instant::now();
            asking.end_overdue_turn();
            (given.as_secs_f64().round() as u64, stop.raised())
        };
        assert_eq!(turn(false), (10, false), "nobody waits");
        asking.end(false);
        assert_eq!([turn(true), turn(true), turn(true)], [(10, true), (20, true), (40, true)]);
        asking.end(true);
        assert_eq!(turn(true), (10, true), "it was done in the end");
    }
}
