//! [`Asking`]: what is fetched ends when it is not to be had any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use xylem_library::Stop;
use xylem_object::PublisherId;

/// A member is asked for so long if others wait; twice as long each time that this was not enough.
const TURN: Duration = Duration::from_secs(10);
/// And until there has been no sign of it for so long: it has gone without a word, perhaps. Twice as long each time, too.
const SILENT: Duration = Duration::from_secs(3);
/// Who refuses a part of what it said before it said more is asked for the rest until nothing has come for so long.
const REST: Duration = Duration::from_millis(300);
/// While somebody is asked the clock is looked at so often,
const LOOK: Duration = Duration::from_millis(100);
/// and so often at rest.
const LOOK_AT_REST: Duration = Duration::from_secs(1);

/// What is asked of whom, for who hears what members say meanwhile: a member serves what it said last and what it
/// said before that, so that whatever is older need not be waited for.
#[derive(Clone, Default)]
pub(super) struct Asking(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    /// The numbers of the last two statements of each member, the newest first.
    last: BTreeMap<PublisherId, [u64; 2]>,
    now: Option<Turn>,
    /// How often members have not been done when their turn was over.
    cut: BTreeMap<PublisherId, u32>,
}

struct Turn {
    who: PublisherId,
    number: u64,
    stop: Stop,
    until: Instant,
    /// Without a sign of it this is the end as well.
    patience: Duration,
    /// Somebody else is to be asked.
    others_wait: bool,
    /// Who is asked for nothing, whatever it says.
    readers: BTreeSet<PublisherId>,
    /// How much has come, and when that was less, or there was another sign of it.
    came: u64,
    moved: Instant,
    /// It does not have a part any more: its folder has changed since.
    refused: bool,
}

impl Turn {
    /// Whether others have waited for long enough.
    fn is_over(&self) -> bool {
        self.others_wait && (self.until <= Instant::now() || self.moved.elapsed() >= self.patience)
    }
}

impl Heard {
    fn stop_what_is_gone(&self) {
        if let Some(now) = &self.now
            && self.last.get(&now.who).is_some_and(|[_, before]| *before > now.number)
        {
            now.stop.raise();
        }
        if let Some(now) = &self.now
            && now.refused
            && now.moved.elapsed() >= REST
            && self.last.get(&now.who).is_some_and(|[newest, _]| *newest > now.number)
        {
            now.stop.raise();
        }
    }
}

impl Asking {
    fn held(&self) -> MutexGuard<'_, Heard> {
        // A thread that panicked has not left it half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member says something, under this number.
    pub(super) fn heard(&self, member: PublisherId, number: u64) {
        let mut held = self.held();
        let last = held.last.entry(member).or_default();
        if number > last[0] {
            *last = [number, last[0]];
        }
        if let Some(now) = held.now.as_mut() {
            now.others_wait |= now.who != member && !now.readers.contains(&member);
        }
        held.stop_what_is_gone();
    }

    /// There is no link to a member any more: what it said last is asked for when it is back, where it may say something else.
    pub(super) fn away(&self, member: &PublisherId) {
        let held = self.held();
        held.now.iter().filter(|now| now.who == *member).for_each(|now| now.stop.raise());
    }

    /// What a member said under this number is asked for; `stop` ends that. `waits` tells
    /// of another member whether it is to be asked too, by the number of its last statement, which may be one that the caller has
    /// not seen. `readers` are asked for nothing.
    pub(super) fn begin(
        &self,
        who: PublisherId,
        number: u64,
        (waits, readers): (impl Fn(&PublisherId, u64) -> bool, BTreeSet<PublisherId>),
        stop: &Stop,
    ) {
        let cut = self.cut(&who);
        let mut held = self.held();
        let others_wait =
            held.last.iter().any(|(other, [newest, _])| *other != who && waits(other, *newest));
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
            refused: false,
        });
        held.stop_what_is_gone();
    }

    /// Who is asked is there.
    pub(super) fn answers(&self) {
        self.held().now.iter_mut().for_each(|now| now.moved = Instant::now());
    }

    /// So many bytes of what is asked for have come.
    pub(super) fn came(&self, bytes: u64) {
        if let Some(now) = self.held().now.as_mut().filter(|now| now.came != bytes) {
            (now.came, now.moved) = (bytes, Instant::now());
        }
    }

    /// A part of what is asked for was refused.
    pub(super) fn refused(&self) {
        self.held().now.iter_mut().for_each(|now| now.refused = true);
    }

    /// After what time [`Asking::look_at_the_clock`] is due.
    pub(super) fn looks_after(&self) -> Duration {
        if self.held().now.is_some() { LOOK } else { LOOK_AT_REST }
    }

    /// Time passes: who is slow does not keep others waiting for ever.
    pub(super) fn look_at_the_clock(&self) {
        let mut held = self.held();
        held.stop_what_is_gone();
        if let Some(now) = held.now.as_ref().filter(|now| now.is_over() && !now.stop.raised()) {
            now.stop.raise();
            let who = now.who;
            let cut = held.cut.entry(who).or_default();
            *cut = cut.saturating_add(1);
        }
    }

    /// How many turns of a member have ended, since it last was done, before it was.
    pub(super) fn cut(&self, who: &PublisherId) -> u32 {
        self.held().cut.get(who).copied().unwrap_or(0)
    }

    /// It is not asked for any more; whether it was all there.
    pub(super) fn end(&self, whole: bool) {
        let mut held = self.held();
        if let Some(now) = held.now.take().filter(|_| whole) {
            held.cut.remove(&now.who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member serves its last two versions: what it said before is not to be had.
    #[test]
    fn what_a_member_does_not_serve_any_more_is_not_waited_for() {
        let (asking, member, stop) = (Asking::default(), PublisherId([1; 32]), Stop::new());
        asking.heard(member, 5);
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &stop);
        asking.heard(member, 6);
        asking.heard(PublisherId([2; 32]), 9);
        assert!(!stop.raised(), "the one before the last is there still");
        asking.heard(member, 7);
        assert!(stop.raised());
        let late = Stop::new();
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &late);
        assert!(late.raised(), "it is gone before it is asked for");
    }

    /// The folder of a member has changed since it said what is asked for: what it says now is to be had.
    #[test]
    fn what_is_refused_is_not_waited_for_once_there_is_something_newer() {
        let (asking, member, stop) = (Asking::default(), PublisherId([1; 32]), Stop::new());
        let later = || {
            let mut held = asking.held();
            held.now.as_mut().unwrap().moved -= REST;
            drop(held);
            asking.look_at_the_clock();
            stop.raised()
        };
        asking.heard(member, 5);
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &stop);
        asking.refused();
        assert!(!later(), "it says nothing else");
        asking.came(7);
        asking.heard(member, 6);
        assert!(!stop.raised(), "the rest comes");
        asking.came(7);
        assert!(later());
    }

    #[test]
    fn what_is_not_refused_is_waited_for() {
        let (asking, member, stop) = (Asking::default(), PublisherId([1; 32]), Stop::new());
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &stop);
        asking.heard(member, 6);
        asking.held().now.as_mut().unwrap().moved -= REST;
        asking.look_at_the_clock();
        assert!(!stop.raised(), "it may be far away");
    }

    /// Who comes back has begun anew, and serves what it says then.
    #[test]
    fn who_is_away_is_not_waited_for() {
        let (asking, member, stop) = (Asking::default(), PublisherId([1; 32]), Stop::new());
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &stop);
        asking.away(&PublisherId([3; 32]));
        assert!(!stop.raised(), "that was somebody else");
        asking.away(&member);
        assert!(stop.raised());
    }

    #[test]
    fn who_gives_no_sign_does_not_keep_others_for_a_turn() {
        let (asking, gone) = (Asking::default(), PublisherId([1; 32]));
        asking.heard(PublisherId([2; 32]), 1);
        let turn = |others_wait, answers: bool| {
            let stop = Stop::new();
            asking.begin(gone, 1, (|_, _| others_wait, BTreeSet::new()), &stop);
            // So long has nothing come.
            let patience = asking.held().now.as_ref().unwrap().patience;
            asking.held().now.as_mut().unwrap().moved -= patience;
            if answers {
                asking.answers();
            }
            asking.look_at_the_clock();
            (patience.as_secs(), stop.raised())
        };
        assert_eq!([turn(false, false), turn(true, true)], [(3, false), (3, false)]);
        assert_eq!([turn(true, false), turn(true, false)], [(3, true), (6, true)]);
        assert_eq!(
            [asking.cut(&gone), asking.cut(&PublisherId([2; 32]))],
            [2, 0],
            "others are first"
        );
        asking.end(false);
        assert_eq!(asking.cut(&gone), 2);
        asking.end(true);
    }

    #[test]
    fn who_waits_is_asked_by_what_it_said_last() {
        let (asking, first, second) =
            (Asking::default(), PublisherId([1; 32]), PublisherId([2; 32]));
        let waits = |known: u64| {
            let stop = Stop::new();
            asking.begin(
                first,
                1,
                (|who, newest| *who == second && newest > known, BTreeSet::new()),
                &stop,
            );
            asking.held().now.as_ref().unwrap().others_wait
        };
        asking.heard(first, 9);
        assert!(!waits(7), "nobody else has said anything");
        asking.heard(second, 8);
        assert!(waits(7) && !waits(8));
    }

    #[test]
    fn who_only_reads_waits_for_nothing() {
        let (asking, first, reader) =
            (Asking::default(), PublisherId([1; 32]), PublisherId([2; 32]));
        asking.begin(first, 1, (|_, _| false, [reader].into()), &Stop::new());
        asking.heard(first, 2);
        asking.heard(reader, 3);
        let others_wait = || asking.held().now.as_ref().unwrap().others_wait;
        assert!(!others_wait());
        asking.heard(PublisherId([3; 32]), 1);
        assert!(others_wait());
    }

    #[test]
    fn who_is_slow_has_its_turn_and_no_more() {
        let (asking, slow) = (Asking::default(), PublisherId([1; 32]));
        asking.heard(PublisherId([2; 32]), 1);
        let turn = |others_wait| {
            let stop = Stop::new();
            asking.begin(slow, 1, (|_, _| others_wait, BTreeSet::new()), &stop);
            let given = asking.held().now.as_ref().unwrap().until - Instant::now();
            // Its time is over now.
            asking.held().now.as_mut().unwrap().until = Instant::now();
            asking.look_at_the_clock();
            (given.as_secs_f64().round() as u64, stop.raised())
        };
        assert_eq!(turn(false), (10, false), "nobody waits");
        asking.end(false);
        assert_eq!([turn(true), turn(true), turn(true)], [(10, true), (20, true), (40, true)]);
        asking.end(true);
        assert_eq!(turn(true), (10, true), "it was done in the end");
    }
}
