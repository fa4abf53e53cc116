//! What one peer was asked and has not answered, in the order of sending.
//!
//! A request leaves the table in one of three ways: it is answered, it counts as lost, or the peer is
//! dropped. Lost ones are remembered a while: their Data may be late rather than lost, is then welcome,
//! and tells the loss detector that it was too quick.

use core::time::Duration;
use std::collections::VecDeque;

use xylem_congestion::Sent;

use crate::key::{Key, KeyMap};

/// How many requests thought lost are remembered, and for how long: about an Interest's lifetime.
const LATE_MAX: usize = 8_192;
const LATE_FOR: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    sent: Sent,
    outstanding: bool,
    /// Another peer has been asked for the same thing.
    copied: bool,
}

/// A request that counted as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    pub sent: Sent,
    pub told: Told,
    lost_at: Duration,
}

/// Whether congestion control was told of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Yes: something later was answered.
    Loss,
    /// No: nothing was answered, and it was asked of somebody else.
    Nothing,
}

/// How an arriving Data relates to what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An outstanding request. `earlier`: one for the same that counted as lost, so that the round
    /// trip cannot be told.
    Outstanding { sequence: u64, sent: Sent, earlier: Option<Late> },
    /// A request that counted as lost.
    Late(Late),
    /// Never asked of this peer, or answered already.
    Unasked,
}

#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// `entries[i]` is request number `base + i`; the front one is outstanding.
    base: u64,
    entries: VecDeque<Entry>,
    by_key: KeyMap<Key, u64>,
    late: KeyMap<Key, Late>,
    late_order: VecDeque<(Key, Duration)>,
    copied_to: u64,
    /// What the outstanding requests weigh.
    bytes: u64,
}

impl Flight {
    /// Bytes that the outstanding requests call for.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn is_outstanding(&self, key: Key) -> bool {
        self.by_key.contains_key(&key)
    }

    /// An outstanding request as it was sent.
    pub(crate) fn sent_of(&self, key: Key) -> Option<Sent> {
        let place = self.by_key.get(&key)?.checked_sub(self.base)?;
        Some(self.entries.get(usize::try_from(place).ok()?)?.sent)
    }

    /// The number that the next request will get.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// When the request that has waited longest was sent, and its number.
    pub(crate) fn oldest(&self) -> Option<(u64, Duration)> {
        self.entries.front().map(|e| (self.base, e.sent.sent_at()))
    }

    /// Enters a request; false (and nothing done) if the same is outstanding already. A copy of what
    /// another peer was asked is not copied again.
    pub(crate) fn sent(&mut self, sent: Sent, key: Key, copied: bool) -> bool {
        if self.by_key.contains_key(&key) {
            return false;
        }
        self.by_key.insert(key, self.next_sequence());
        self.bytes += sent.bytes();
        self.entries.push_back(Entry { key, sent, outstanding: true, copied });
        true
    }

    /// Takes the request that `key` answers out of the table.
    pub(crate) fn answered(&mut self, key: Key) -> Answer {
        let late = if self.late.is_empty() { None } else { self.late.remove(&key) };
        match (self.by_key.remove(&key), late) {
            (Some(sequence), late) => {
                let entry = &mut self.entries[(sequence - self.base) as usize];
                entry.outstanding = false;
                let sent = entry.sent;
                self.bytes -= sent.bytes();
                self.drop_settled();
                Answer::Outstanding { sequence, sent, earlier: late }
            }
            (None, Some(late)) => Answer::Late(late),
            (None, None) => Answer::Unasked,
        }
    }

    fn drop_settled(&mut self) {
        while self.entries.front().is_some_and(|e| !e.outstanding) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// Counts the oldest request as lost if its number is below `before` and it was sent by `sent_by`.
    pub(crate) fn lose_oldest(
        &mut self,
        now: Duration,
        before: u64,
        sent_by: Duration,
        told: Told,
    ) -> Option<(Key, Sent)> {
        let (sequence, sent_at) = self.oldest()?;
        if sequence >= before || sent_at > sent_by {
            return None;
        }
        let Entry { key, sent, .. } = self.entries.pop_front()?;
        self.by_key.remove(&key);
        self.bytes -= sent.bytes();
        self.base += 1;
        self.drop_settled();
        self.remember(key, Late { sent, lost_at: now, told });
        Some((key, sent))
    }

    fn remember(&mut self, key: Key, late: Late) {
        let now = late.lost_at;
        while let Some(&(old, at)) = self.late_order.front() {
            if self.late_order.len() < LATE_MAX && at + LATE_FOR > now {
                break;
            }
            self.late_order.pop_front();
            if self.late.get(&old).is_some_and(|l| l.lost_at == at) {
                self.late.remove(&old);
            }
        }
        self.late.insert(key, late);
        self.late_order.push_back((key, now));
    }

    /// The oldest outstanding request that was not yet asked of a second peer, and when it was sent.
    /// Walks forward over each request once.
    pub(crate) fn oldest_uncopied(&mut self) -> Option<(Key, Duration)> {
        self.copied_to = self.copied_to.max(self.base);
        loop {
            let entry = self.entries.get((self.copied_to - self.base) as usize)?;
            if entry.outstanding && !entry.copied {
                return Some((entry.key, entry.sent.sent_at()));
            }
            self.copied_to += 1;
        }
    }

    /// [`Self::oldest_uncopied`] counts as copied from here on.
    pub(crate) fn mark_copied(&mut self) {
        let place = self.copied_to.saturating_sub(self.base) as usize;
        if let Some(entry) = self.entries.get_mut(place) {
            entry.copied = true;
            self.copied_to += 1;
        }
    }

    /// Empties the table: what was outstanding, oldest first.
    pub(crate) fn drain(&mut self) -> Vec<Key> {
        let keys = self.entries.iter().filter(|e| e.outstanding).map(|e| e.key).collect();
        *self = Self { base: self.next_sequence(), ..Self::default() };
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Wanted;
    use xylem_congestion::{Algorithm, Controller};
    use xylem_object::naming::ObjectId;
    use xylem_tree::SegmentIndex;

    fn key(i: u64) -> Key {
        Wanted::Segment(ObjectId::Root, SegmentIndex(i)).into()
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(now: Duration) -> Sent {
        let mut flow = Controller::new(Algorithm::Cubic, ms(0), 8_800);
        flow.on_sent(now, 1_000, 0)
    }

    fn late(sent_at: u64) -> Late {
        Late { sent: at(ms(sent_at)), told: Told::Loss, lost_at: ms(10) }
    }

    #[test]
    fn answers_lost_and_late() {
        let mut f = Flight::default();
        for i in 0..4 {
            assert!(f.sent(at(ms(i)), key(i), false));
        }
        assert!(!f.sent(at(ms(9)), key(3), false));
        assert_eq!(
            f.answered(key(2)),
            Answer::Outstanding { sequence: 2, sent: at(ms(2)), earlier: None }
        );
        assert_eq!(f.answered(key(2)), Answer::Unasked);
        assert_eq!(f.lose_oldest(ms(10), 2, ms(5), Told::Loss), Some((key(0), at(ms(0)))));
        assert_eq!(f.lose_oldest(ms(10), 2, ms(5), Told::Loss), Some((key(1), at(ms(1)))));
        assert_eq!(f.lose_oldest(ms(10), 2, ms(5), Told::Loss), None); // 3 was sent after 2
        assert_eq!((f.outstanding(), f.bytes()), (1, 1_000));
        assert!(f.sent(at(ms(11)), key(0), false));
        assert_eq!(
            f.answered(key(0)),
            Answer::Outstanding { sequence: 4, sent: at(ms(11)), earlier: Some(late(0)) }
        );
        assert_eq!(f.answered(key(1)), Answer::Late(late(1)));
        assert_eq!(f.answered(key(1)), Answer::Unasked);
        assert_eq!(f.drain(), [key(3)]);
        assert_eq!((f.outstanding(), f.bytes(), f.next_sequence()), (0, 0, 5));
    }

    #[test]
    fn what_was_lost_is_forgotten_in_time() {
        let mut f = Flight::default();
        for i in 0..LATE_MAX as u64 + 10 {
            f.sent(at(ms(0)), key(i), false);
            f.lose_oldest(ms(1), u64::MAX, ms(0), Told::Loss);
        }
        assert!(f.late.len() <= LATE_MAX && f.late_order.len() <= LATE_MAX);
        f.sent(at(ms(0)), key(1 << 40), false);
        f.lose_oldest(ms(20_000), u64::MAX, ms(0), Told::Loss);
        assert_eq!(f.late.len(), 1);
    }

    #[test]
    fn each_request_is_copied_once() {
        let mut f = Flight::default();
        for i in 0..3 {
            f.sent(at(ms(i)), key(i), i == 1);
        }
        f.answered(key(0));
        assert_eq!(f.oldest_uncopied(), Some((key(2), ms(2))));
        f.mark_copied();
        assert_eq!(f.oldest_uncopied(), None);
    }
}
