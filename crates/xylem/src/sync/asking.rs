//! [`Asking`]: what is fetched ends when it is not to be had any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xylem_library::Stop;
use xylem_library::folder::Statement;
use xylem_object::PublisherId;

/// What is asked of whom, for who hears what members say meanwhile: a member serves what it said last and what it
/// said before that, so that whatever is older need not be waited for.
#[derive(Clone, Default)]
pub(super) struct Asking(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    /// The numbers of the last two statements of each member, the newest first.
    last: BTreeMap<PublisherId, [u64; 2]>,
    now: Option<(PublisherId, u64, Stop)>,
}

impl Heard {
    fn stop_what_is_gone(&self) {
        if let Some((who, number, stop)) = &self.now
            && self.last.get(who).is_some_and(|[_, before]| before > number)
        {
            stop.raise();
        }
    }
}

impl Asking {
    fn held(&self) -> MutexGuard<'_, Heard> {
        // A thread that panicked has not left it half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member says something.
    pub(super) fn heard(&self, said: &Statement) {
        let mut held = self.held();
        let last = held.last.entry(said.member).or_default();
        if said.number > last[0] {
            *last = [said.number, last[0]];
        }
        held.stop_what_is_gone();
    }

    /// What a member said under this number is asked for; `stop` ends that.
    pub(super) fn begin(&self, who: PublisherId, number: u64, stop: &Stop) {
        let mut held = self.held();
        held.now = Some((who, number, stop.clone()));
        held.stop_what_is_gone();
    }

    /// It is not asked for any more.
    pub(super) fn end(&self) {
        self.held().now = None;
    }
}
