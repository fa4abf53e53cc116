//! [`Asking`]: what is fetched ends when it is not to be had any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use xylem_library::Stop;
use xylem_object::PublisherId;

/// A member is asked for so long if others wait; twice as long each time that this was not enough.
const TURN: Duration = Duration::from_secs(10);

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
    /// Somebody else is to be asked.
    others_wait: bool,
}

impl Heard {
    fn stop_what_is_gone(&self) {
        if let Some(now) = &self.now
            && self.last.get(&now.who).is_some_and(|[_, before]| *before > now.number)
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
        if let Some(now) = held.now.as_mut().filter(|now| now.who != member) {
            now.others_wait = true;
        }
        held.stop_what_is_gone();
    }

    /// What a member said under this number is asked for; `stop` ends that.
    pub(super) fn begin(&self, who: PublisherId, number: u64, others_wait: bool, stop: &Stop) {
        let mut held = self.held();
        let cut = held.cut.get(&who).copied().unwrap_or(0);
        let until = Instant::now() + TURN * 2_u32.saturating_pow(cut.min(12));
        held.now = Some(Turn { who, number, stop: stop.clone(), until, others_wait });
        held.stop_what_is_gone();
    }

    /// Time passes: who is slow does not keep others waiting for ever.
    pub(super) fn look_at_the_clock(&self) {
        let mut held = self.held();
        if let Some(now) = &held.now
            && now.others_wait
            && !now.stop.raised()
            && now.until <= Instant::now()
        {
            now.stop.raise();
            let who = now.who;
            let cut = held.cut.entry(who).or_default();
            *cut = cut.saturating_add(1);
        }
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
        asking.begin(member, 5, false, &stop);
        asking.heard(member, 6);
        asking.heard(PublisherId([2; 32]), 9);
        assert!(!stop.raised(), "the one before the last is there still");
        asking.heard(member, 7);
        assert!(stop.raised());
        let late = Stop::new();
        asking.begin(member, 5, false, &late);
        assert!(late.raised(), "it is gone before it is asked for");
    }

    #[test]
    fn who_is_slow_has_its_turn_and_no_more() {
        let (asking, slow) = (Asking::default(), PublisherId([1; 32]));
        let turn = |others_wait| {
            let stop = Stop::new();
            asking.begin(slow, 1, others_wait, &stop);
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
