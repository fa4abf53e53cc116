//! The outstanding requests to one source, in the order of sending.
//!
//! A request leaves the table when it is answered, when it counts as lost, or when the source is dropped. Lost requests
//! are remembered for a while, because their Data may be late. Late Data is accepted and makes the loss detector more
//! patient.

use core::time::Duration;
use std::collections::VecDeque;

use xylem_congestion::{LossDetector, LossRule, Rtt, SendRecord, SentPacket};

use crate::key::{ItemKey, ItemKeyMap};

/// Bounds on the remembered lost requests: their number, and how long each is kept (about an Interest's lifetime).
const LATE_MAX: usize = 8_192;
const LATE_FOR: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, Debug)]
struct OutstandingRequest {
    key: ItemKey,
    sent: SentPacket,
    /// Another peer was asked for the same item too.
    copied: bool,
}

impl SendRecord for OutstandingRequest {
    fn sent_at(&self) -> Duration {
        self.sent.sent_at()
    }

    fn bytes(&self) -> usize {
        SendRecord::bytes(&self.sent)
    }
}

/// A request that counted as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostRequest {
    pub number: u64,
    pub sent: SentPacket,
    pub cause: LossCause,
    lost_at: Duration,
}

/// Why a request counted as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossCause {
    /// A later request was answered, so the path dropped this one. Congestion control counts the loss.
    Overtaken,
    /// Nothing was answered, and the item was asked of another peer. Congestion control does not count a loss.
    Silence,
}

/// How a Data relates to the requests to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestAnswer {
    /// Answers an outstanding request. `earlier` is a request for the same item that counted as lost; with it the round
    /// trip is ambiguous.
    Outstanding { number: u64, sent: SentPacket, earlier: Option<LostRequest> },
    /// Answers a request that counted as lost.
    Late(LostRequest),
    /// Was never requested from this source, or is answered already.
    Unasked,
}

#[derive(Debug)]
pub(crate) struct Flight {
    /// Losses are detected by the time since a later answer, not by the number of later answers. Caches and disks
    /// answer out of order, which is no loss.
    requests: LossDetector<OutstandingRequest>,
    by_key: ItemKeyMap<ItemKey, u64>,
    late: LostRequests,
    /// All requests below this number were checked for copying.
    copied_to: u64,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            requests: LossDetector::new(LossRule::Time),
            by_key: ItemKeyMap::default(),
            late: LostRequests::default(),
            copied_to: 0,
        }
    }
}

impl Flight {
    /// Bytes that the outstanding requests call for.
    pub(crate) fn bytes(&self) -> u64 {
        self.requests.bytes() as u64
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.requests.count()
    }

    pub(crate) fn is_outstanding(&self, key: ItemKey) -> bool {
        self.by_key.contains_key(&key)
    }

    /// The send record of an outstanding request.
    pub(crate) fn sent_of(&self, key: ItemKey) -> Option<SentPacket> {
        Some(self.requests.get(*self.by_key.get(&key)?)?.sent)
    }

    /// Adds a request. Returns false, and does nothing, if the same item is outstanding already. `copied`: another peer
    /// is asked for the item too, so it is not copied again.
    pub(crate) fn on_sent(&mut self, sent: SentPacket, key: ItemKey, copied: bool) -> bool {
        if self.by_key.contains_key(&key) {
            return false;
        }
        let number = self.requests.on_sent(OutstandingRequest { key, sent, copied });
        self.by_key.insert(key, number);
        true
    }

    /// Removes the request for `key` and returns how the answer relates to it.
    pub(crate) fn answered(&mut self, key: ItemKey) -> RequestAnswer {
        let late = self.late.remove(key);
        let number = self.by_key.remove(&key);
        let request = number.and_then(|number| Some((number, self.requests.remove(number)?)));
        match (request, late) {
            (Some((number, request)), earlier) => {
                RequestAnswer::Outstanding { number, sent: request.sent, earlier }
            }
            (None, Some(late)) => RequestAnswer::Late(late),
            (None, None) => RequestAnswer::Unasked,
        }
    }

    /// Records that this request was answered: earlier requests are now due.
    pub(crate) fn on_arrival(&mut self, number: u64) {
        self.requests.on_arrival(number);
    }

    /// Sets whether the path repairs its own losses, so that detection may wait longer.
    pub(crate) fn expect_repairs(&mut self, repairs: bool) {
        self.requests.expect_repairs(repairs);
    }

    /// Records that a request that counted as lost was answered: the path reorders.
    pub(crate) fn on_late(&mut self, now: Duration, late: &LostRequest, rtt: &Rtt) {
        self.requests.on_late(now, late.number, late.sent.sent_at(), rtt);
    }

    /// When the oldest request counts as lost, if a later one was answered.
    pub(crate) fn loss_due(&self, rtt: &Rtt) -> Option<Duration> {
        self.requests.loss_due(rtt)
    }

    /// Removes and returns the oldest request if it counts as lost by now.
    pub(crate) fn take_lost(&mut self, now: Duration, rtt: &Rtt) -> Option<(ItemKey, SentPacket)> {
        let (number, request) = self.requests.take_lost(now, rtt)?;
        Some(self.forget(now, number, request, LossCause::Overtaken))
    }

    /// Removes the oldest request because nothing is answered.
    pub(crate) fn give_up_oldest(&mut self, now: Duration) -> Option<ItemKey> {
        let (number, request) = self.requests.take_oldest()?;
        Some(self.forget(now, number, request, LossCause::Silence).0)
    }

    fn forget(
        &mut self,
        now: Duration,
        number: u64,
        lost: OutstandingRequest,
        cause: LossCause,
    ) -> (ItemKey, SentPacket) {
        self.by_key.remove(&lost.key);
        self.late.insert(lost.key, LostRequest { number, sent: lost.sent, cause, lost_at: now });
        (lost.key, lost.sent)
    }

    /// The oldest outstanding request that no second peer was asked for, and when it was sent. The search passes each
    /// request once.
    pub(crate) fn oldest_uncopied(&mut self) -> Option<(ItemKey, Duration)> {
        self.copied_to = self.copied_to.max(self.requests.first());
        while self.copied_to < self.requests.next_number() {
            if let Some(request) = self.requests.get(self.copied_to).filter(|r| !r.copied) {
                return Some((request.key, request.sent_at()));
            }
            self.copied_to += 1;
        }
        None
    }

    /// Marks the result of [`Self::oldest_uncopied`] as copied.
    pub(crate) fn mark_copied(&mut self) {
        if let Some(request) = self.requests.get_mut(self.copied_to) {
            request.copied = true;
            self.copied_to += 1;
        }
    }

    /// Removes all requests and returns the outstanding ones, oldest first.
    pub(crate) fn drain(&mut self) -> Vec<ItemKey> {
        let keys = core::iter::from_fn(|| Some(self.requests.take_oldest()?.1.key)).collect();
        self.by_key.clear();
        self.late = LostRequests::default();
        keys
    }
}

/// Requests that recently counted as lost.
#[derive(Debug, Default)]
struct LostRequests {
    by_key: ItemKeyMap<ItemKey, LostRequest>,
    order: VecDeque<(ItemKey, Duration)>,
}

impl LostRequests {
    fn remove(&mut self, key: ItemKey) -> Option<LostRequest> {
        if self.by_key.is_empty() { None } else { self.by_key.remove(&key) }
    }

    fn insert(&mut self, key: ItemKey, late: LostRequest) {
        let now = late.lost_at;
        while let Some(&(old, at)) = self.order.front() {
            if self.order.len() < LATE_MAX && at + LATE_FOR > now {
                break;
            }
            self.order.pop_front();
            if self.by_key.get(&old).is_some_and(|late| late.lost_at == at) {
                self.by_key.remove(&old);
            }
        }
        self.by_key.insert(key, late);
        self.order.push_back((key, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RequestedItem;
    use xylem_congestion::{CongestionAlgorithm, Controller};
    use xylem_object::naming::ObjectId;
    use xylem_tree::SegmentIndex;

    fn key(i: u64) -> ItemKey {
        RequestedItem::Segment(ObjectId::Root, SegmentIndex(i)).into()
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(now: Duration) -> SentPacket {
        let mut flow = Controller::new(CongestionAlgorithm::Cubic, ms(0), 8_800);
        flow.on_sent(now, 1_000, 0)
    }

    fn late(number: u64) -> LostRequest {
        LostRequest { number, sent: at(ms(number)), cause: LossCause::Overtaken, lost_at: ms(10) }
    }

    /// A round trip with which an answer that is 1 ms late counts as lost.
    fn quick() -> Rtt {
        let mut rtt = Rtt::default();
        rtt.sample(Duration::ZERO, ms(0));
        rtt
    }

    #[test]
    fn answered_lost_and_late_requests_are_told_apart() {
        let mut f = Flight::default();
        for i in 0..4 {
            assert!(f.on_sent(at(ms(i)), key(i), false));
        }
        assert!(!f.on_sent(at(ms(9)), key(3), false));
        assert_eq!(
            f.answered(key(2)),
            RequestAnswer::Outstanding { number: 2, sent: at(ms(2)), earlier: None }
        );
        assert_eq!(f.answered(key(2)), RequestAnswer::Unasked);
        assert_eq!(f.take_lost(ms(10), &quick()), None, "nothing later is known to have arrived");
        f.on_arrival(2);
        assert_eq!(f.take_lost(ms(10), &quick()), Some((key(0), at(ms(0)))));
        assert_eq!(f.take_lost(ms(10), &quick()), Some((key(1), at(ms(1)))));
        assert_eq!(f.take_lost(ms(10), &quick()), None, "3 was sent after 2");
        assert_eq!((f.outstanding(), f.bytes()), (1, 1_000));
        assert!(f.on_sent(at(ms(11)), key(0), false));
        assert_eq!(
            f.answered(key(0)),
            RequestAnswer::Outstanding { number: 4, sent: at(ms(11)), earlier: Some(late(0)) }
        );
        assert_eq!(f.answered(key(1)), RequestAnswer::Late(late(1)));
        assert_eq!(f.answered(key(1)), RequestAnswer::Unasked);
        assert_eq!(f.drain(), [key(3)]);
        assert_eq!((f.outstanding(), f.bytes(), f.requests.next_number()), (0, 0, 5));
    }

    #[test]
    fn lost_requests_are_forgotten_in_time() {
        let mut f = Flight::default();
        for i in 0..LATE_MAX as u64 + 10 {
            f.on_sent(at(ms(0)), key(i), false);
            f.give_up_oldest(ms(1));
        }
        assert!(f.late.by_key.len() <= LATE_MAX && f.late.order.len() <= LATE_MAX);
        f.on_sent(at(ms(0)), key(1 << 40), false);
        f.give_up_oldest(ms(20_000));
        assert_eq!(f.late.by_key.len(), 1);
    }

    #[test]
    fn each_request_is_copied_once() {
        let mut f = Flight::default();
        for i in 0..3 {
            f.on_sent(at(ms(i)), key(i), i == 1);
        }
        f.answered(key(0));
        assert_eq!(f.oldest_uncopied(), Some((key(2), ms(2))));
        f.mark_copied();
        assert_eq!(f.oldest_uncopied(), None);
    }
}
