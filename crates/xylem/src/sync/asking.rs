//! [`Asking`]: what is fetched ends when it is not to be had any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use xylem_library::Stop;
use xylem_object::PublisherId;

/// A member is asked for so long if others wait; twice as long each time that this was not enough.
const TURN: Duration = Duration::from_secs(10);
/// And until there has been no sign of it for so long: it has gone without a word, perhaps. Twice as long each time, too.
const SILENT: Duration = Duration::from_secs(3);
/// A member serves so many versions of its folder, the newest ones: a large one that is being fetched somewhere is not taken
/// away by each small change.
pub(super) const SERVED: usize = 16;
/// While somebody is asked the clock is looked at so often,
const LOOK: Duration = Duration::from_millis(100);
/// and so often at rest.
const LOOK_AT_REST: Duration = Duration::from_secs(1);

/// What is asked of whom, for the thread that hears what members say meanwhile: a member serves what it said in its last
/// [`SERVED`] statements, so that whatever is older need not be waited for.
#[derive(Clone, Default)]
pub(super) struct Asking(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    /// The numbers of the last statements of each member, the newest first.
    last: BTreeMap<PublisherId, VecDeque<u64>>,
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
    /// Another member is to be asked, or this one for what it has said since.
    others_wait: bool,
    /// Who is asked for nothing, whatever it says.
    readers: BTreeSet<PublisherId>,
    /// How much has come, and when that was less, or there was another sign of it.
    came: u64,
    moved: Instant,
}

impl Turn {
    /// Whether others have waited for long enough.
    fn is_over(&self) -> bool {
        self.others_wait && (self.until <= Instant::now() || self.moved.elapsed() >= self.patience)
    }
}

impl Heard {
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

impl Asking {
    fn held(&self) -> MutexGuard<'_, Heard> {
        // A thread that panicked has not left it half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member says something, under this number.
    pub(super) fn heard(&self, member: PublisherId, number: u64) {
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

    /// There is no link to a member any more: what it said last is asked for when it is back, where it may say something else.
    pub(super) fn away(&self, member: &PublisherId) {
        let held = self.held();
        held.now.iter().filter(|now| now.who == *member).for_each(|now| now.stop.raise());
    }

    /// What is asked for ends, and nothing else is asked.
    pub(super) fn halt(&self) {
        self.held().now.iter().for_each(|now| now.stop.raise());
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

    /// After what time [`Asking::look_at_the_clock`] is due.
    pub(super) fn looks_after(&self) -> Duration {
        if self.held().now.is_some() { LOOK } else { LOOK_AT_REST }
    }

    /// Time passes: who is slow does not keep others waiting for ever.
    pub(super) fn look_at_the_clock(&self) {
        let mut held = self.held();
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

    /// A member serves its last versions: what it said before is not to be had.
    #[test]
    fn what_a_member_does_not_serve_any_more_is_not_waited_for() {
        let (asking, member, stop) = (Asking::default(), PublisherId([1; 32]), Stop::new());
        asking.heard(member, 5);
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &stop);
        let newer = 6..6 + SERVED as u64;
        for number in newer.clone().take(SERVED - 1) {
            asking.heard(member, number);
            asking.heard(PublisherId([2; 32]), 100 + number);
        }
        assert!(!stop.raised(), "it is served still");
        asking.heard(member, newer.end - 1);
        assert!(stop.raised());
        let late = Stop::new();
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &late);
        assert!(late.raised(), "it is gone before it is asked for");
    }

    /// A member that changes its folder while it is asked for something large has its turn, and is asked for what is newer then.
    #[test]
    fn what_a_member_says_meanwhile_waits_for_a_turn() {
        let (asking, member, stop) = (Asking::default(), PublisherId([1; 32]), Stop::new());
        asking.heard(member, 5);
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &stop);
        let over = || {
            asking.held().now.as_mut().unwrap().until = Instant::now();
            asking.look_at_the_clock();
            stop.raised()
        };
        asking.heard(member, 5);
        assert!(!over(), "it says nothing else");
        asking.heard(member, 6);
        assert!(over());
        asking.end(false);
        let next = Stop::new();
        asking.begin(member, 5, (|_, _| false, BTreeSet::new()), &next);
        assert!(asking.held().now.as_ref().unwrap().others_wait, "it has said so already");
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
                9,
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
        asking.begin(first, 2, (|_, _| false, [reader].into()), &Stop::new());
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
