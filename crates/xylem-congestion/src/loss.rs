//! [`LossDetector`]: what one flow has under way, in the order of sending, and which of it is lost.
//!
//! RFC 9002 section 6 over records that are the caller's own: something is lost when enough of what was
//! sent later has arrived, or when something later has and a round trip and a reordering window have
//! passed (section 6.1; RFC 8985). What nothing at all answers is the caller's to take out, by
//! [`ProbeTimer`](crate::ProbeTimer). It knows no wire: who numbers acknowledges, translates.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::{Rtt, Sent};

/// RFC 9002 section 6.1.1: so many later arrivals prove a loss, before the path has reordered more.
const PACKET_THRESHOLD: u64 = 3;
/// A path that reorders lets the packet threshold grow up to here.
const MAX_PACKET_THRESHOLD: u64 = 4_096;
/// RFC 8985 section 6.2: reordering widens the time threshold by a quarter round trip, up to four.
const MAX_QUARTERS: u32 = 4;
/// Where what is lost below is repaired there, an answer takes two round trips then, and more on a path that
/// reorders: so many quarters at first, and so many at most.
const REPAIRED_QUARTERS: u32 = 5;
const MAX_REPAIRED_QUARTERS: u32 = 12;

/// What a caller keeps of something that it has sent.
pub trait SendRecord {
    /// When it was sent: not before what was sent earlier.
    fn sent_at(&self) -> Duration;
    /// What it weighs.
    fn bytes(&self) -> usize;
}

impl SendRecord for Sent {
    fn sent_at(&self) -> Duration {
        Sent::sent_at(self)
    }

    fn bytes(&self) -> usize {
        Sent::bytes(self) as usize
    }
}

/// What proves a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRule {
    /// Three later arrivals, or one and time (RFC 9002 section 6.1).
    PacketsOrTime,
    /// One later arrival, and time: where several sources or caches answer in an order of their own.
    Time,
    /// Three later arrivals: where answers may be held back for longer than a reordering window.
    Packets,
}

/// The packets of one flow that have neither arrived nor been given up, numbered in the order of
/// sending, and the detector of losses among them.
///
/// Order of calls: [`on_sent`](Self::on_sent) for each; for each that is answered
/// [`remove`](Self::remove), and [`on_arrival`](Self::on_arrival) unless the answer may be to an earlier
/// sending; then [`take_lost`](Self::take_lost) until `None`.
#[derive(Clone, Debug)]
pub struct LossDetector<T> {
    rule: LossRule,
    /// Numbers `first..first + len`; `None` once it has left. The front is under way.
    records: VecDeque<Option<T>>,
    first: u64,
    count: usize,
    bytes: usize,
    /// What has a smaller number than this was overtaken.
    largest_arrived: Option<u64>,
    packet_threshold: u64,
    /// The reordering window in quarters of a round trip, and when it last grew.
    quarters: u32,
    most_quarters: u32,
    widened_at: Option<Duration>,
}

impl<T: SendRecord> LossDetector<T> {
    /// Nothing is under way; the first number is 0.
    pub const fn new(rule: LossRule) -> Self {
        Self {
            rule,
            records: VecDeque::new(),
            first: 0,
            count: 0,
            bytes: 0,
            largest_arrived: None,
            packet_threshold: PACKET_THRESHOLD,
            quarters: 1,
            most_quarters: MAX_QUARTERS,
            widened_at: None,
        }
    }

    /// What carries these repairs what it loses: time has to leave it the chance to. Or it does not.
    pub fn expect_repairs(&mut self, repairs: bool) {
        let (least, most) = match repairs {
            true => (REPAIRED_QUARTERS, MAX_REPAIRED_QUARTERS),
            false => (1, MAX_QUARTERS),
        };
        if self.most_quarters != most {
            (self.quarters, self.most_quarters) = (least, most);
        }
    }

    /// The number that the next record gets.
    #[inline]
    pub fn next_number(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// How many are under way.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// What those under way weigh.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Places in the queue: those under way, and what has left behind the oldest of them.
    #[inline]
    pub fn span(&self) -> usize {
        self.records.len()
    }

    /// The number of the oldest that is under way, if anything is.
    #[inline]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The oldest that is under way.
    #[inline]
    pub fn oldest(&self) -> Option<&T> {
        self.records.front()?.as_ref()
    }

    /// What is under way by this number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&T> {
        self.records.get(self.place(number)?)?.as_ref()
    }

    /// As [`Self::get`], to change what neither counts for age nor for weight.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number)?;
        self.records.get_mut(place)?.as_mut()
    }

    /// Everything under way with its number, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let numbered = (self.first..).zip(&self.records);
        numbered.filter_map(|(number, record)| Some((number, record.as_ref()?)))
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// Something leaves. Returns its number.
    #[inline]
    pub fn on_sent(&mut self, record: T) -> u64 {
        let number = self.next_number();
        self.count += 1;
        self.bytes += record.bytes();
        self.records.push_back(Some(record));
        number
    }

    /// Takes one out, whatever became of it; `None` if it is not under way.
    #[inline]
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let record = self.records.get_mut(place)?.take()?;
        self.count -= 1;
        self.bytes -= record.bytes();
        self.trim();
        Some(record)
    }

    /// Takes the oldest out.
    pub fn take_oldest(&mut self) -> Option<(u64, T)> {
        let number = self.first;
        Some((number, self.remove(number)?))
    }

    /// The front is under way.
    fn trim(&mut self) {
        while let Some(None) = self.records.front() {
            self.records.pop_front();
            self.first += 1;
        }
    }

    /// The one of this number has arrived: what was sent before is due.
    #[inline]
    pub fn on_arrival(&mut self, number: u64) {
        self.largest_arrived = self.largest_arrived.max(Some(number));
    }

    /// What had counted as lost arrived after all, the one of this number, sent then: the path reorders
    /// by more than was thought. Both thresholds grow to what was seen; where time is the only one
    /// (docs/spec/transfer.md), of which an answer says less, it grows by a quarter, once for all that was sent before
    /// it last grew.
    pub fn on_late(&mut self, now: Duration, number: u64, sent_at: Duration, rtt: &Rtt) {
        let behind = self.largest_arrived.unwrap_or(0).saturating_sub(number).saturating_add(1);
        self.packet_threshold = self.packet_threshold.max(behind).min(MAX_PACKET_THRESHOLD);
        let is_known = self.widened_at.is_some_and(|at| sent_at <= at);
        let quarters = match self.rule {
            LossRule::Time if is_known => return,
            LossRule::Time => self.quarters + 1,
            _ => rtt.quarters_beyond(now.saturating_sub(sent_at)),
        };
        self.quarters = self.quarters.max(quarters.min(self.most_quarters));
        self.widened_at = Some(now);
    }

    /// When [`Self::take_lost`] has something if nothing more arrives; zero: at once.
    pub fn loss_due(&self, rtt: &Rtt) -> Option<Duration> {
        let (newest, oldest) = (self.largest_arrived?, self.oldest()?);
        if newest < self.first {
            return None;
        }
        if self.rule != LossRule::Time && newest - self.first >= self.packet_threshold {
            return Some(Duration::ZERO);
        }
        (self.rule != LossRule::Packets)
            .then(|| oldest.sent_at().saturating_add(rtt.loss_delay(self.quarters)))
    }

    /// Takes out the oldest with its number if it is lost by now.
    pub fn take_lost(&mut self, now: Duration, rtt: &Rtt) -> Option<(u64, T)> {
        if self.loss_due(rtt)? > now {
            return None;
        }
        self.take_oldest()
    }

    /// Gives memory back that a flow at rest does not need: room for so many is kept.
    pub fn shrink(&mut self, keep: usize) {
        if self.records.is_empty() {
            self.records.shrink_to(keep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    struct Record(u64);

    impl SendRecord for Record {
        fn sent_at(&self) -> Duration {
            ms(self.0)
        }

        fn bytes(&self) -> usize {
            10
        }
    }

    /// A round trip of 100 ms, so that a quarter is 25.
    fn known() -> Rtt {
        let mut rtt = Rtt::default();
        rtt.sample(ms(100), ms(0));
        rtt
    }

    fn sent(rule: LossRule, at: impl IntoIterator<Item = u64>) -> LossDetector<Record> {
        let mut detector = LossDetector::new(rule);
        for at in at {
            detector.on_sent(Record(at));
        }
        detector
    }

    fn arrive(detector: &mut LossDetector<Record>, number: u64) {
        assert!(detector.remove(number).is_some());
        detector.on_arrival(number);
    }

    fn lost(detector: &mut LossDetector<Record>, now: u64) -> Vec<u64> {
        core::iter::from_fn(|| detector.take_lost(ms(now), &known())).map(|(n, _)| n).collect()
    }

    #[test]
    fn three_later_arrivals_prove_a_loss() {
        for rule in [LossRule::PacketsOrTime, LossRule::Packets] {
            let mut detector = sent(rule, [0; 6]);
            arrive(&mut detector, 2);
            assert_eq!(lost(&mut detector, 1), [], "two later ones may have overtaken it");
            arrive(&mut detector, 3);
            assert_eq!(detector.loss_due(&known()), Some(ms(0)));
            assert_eq!(lost(&mut detector, 1), [0]);
            assert_eq!((detector.first(), detector.count(), detector.bytes()), (1, 3, 30));
            arrive(&mut detector, 5);
            assert_eq!(lost(&mut detector, 1), [1]);
            assert!(detector.remove(1).is_none() && detector.remove(99).is_none());
        }
    }

    #[test]
    fn one_later_arrival_and_a_reordering_window_prove_a_loss() {
        let mut detector = sent(LossRule::Time, 0..9);
        assert_eq!(detector.loss_due(&known()), None, "nothing has arrived");
        arrive(&mut detector, 7);
        assert_eq!(detector.loss_due(&known()), Some(ms(125)));
        assert_eq!(lost(&mut detector, 124), []);
        assert_eq!(lost(&mut detector, 127), [0, 1, 2]);
        assert_eq!(lost(&mut detector, 9_999), [3, 4, 5, 6]);
        assert_eq!(detector.loss_due(&known()), None, "nothing later has arrived");
        assert_eq!(detector.take_oldest().map(|(number, _)| number), Some(8));
        assert_eq!((detector.span(), detector.next_number()), (0, 9));
        let mut packets = sent(LossRule::Packets, 0..9);
        arrive(&mut packets, 2);
        assert_eq!((packets.loss_due(&known()), lost(&mut packets, 9_999)), (None, Vec::new()));
    }

    #[test]
    fn what_comes_late_widens_both_thresholds() {
        let mut detector = sent(LossRule::PacketsOrTime, [0; 5_000]);
        arrive(&mut detector, 10);
        assert_eq!(lost(&mut detector, 50), (0..8).collect::<Vec<_>>());
        detector.on_late(ms(110), 0, ms(0), &known());
        assert_eq!(detector.loss_due(&known()), Some(ms(125)), "no later than was borne with");
        detector.on_late(ms(140), 1, ms(0), &known());
        assert_eq!(detector.loss_due(&known()), Some(ms(150)), "two quarters");
        arrive(&mut detector, 18);
        assert_eq!(lost(&mut detector, 145), [], "11 later ones, where 10 came in between");
        detector.on_late(ms(151), 2, ms(0), &known());
        assert_eq!(detector.loss_due(&known()), Some(ms(175)));
        detector.on_arrival(4_999);
        detector.on_late(ms(152), 3, ms(0), &known());
        assert_eq!((detector.packet_threshold, detector.quarters), (MAX_PACKET_THRESHOLD, 3));
        detector.on_late(ms(900), 4, ms(0), &known());
        assert_eq!(detector.quarters, MAX_QUARTERS);
    }

    #[test]
    fn the_window_alone_grows_once_a_round_trip() {
        let mut detector = sent(LossRule::Time, [0; 9]);
        arrive(&mut detector, 8);
        detector.on_late(ms(60), 0, ms(0), &known());
        detector.on_late(ms(61), 1, ms(0), &known());
        assert_eq!(detector.loss_due(&known()), Some(ms(150)), "two quarters");
        detector.on_late(ms(80), 2, ms(61), &known());
        assert_eq!(detector.loss_due(&known()), Some(ms(175)));
    }

    #[test]
    fn repairs_are_waited_for() {
        let mut detector = sent(LossRule::Time, [0; 9]);
        detector.expect_repairs(true);
        arrive(&mut detector, 8);
        assert_eq!(detector.loss_due(&known()), Some(ms(225)));
        (1..30).for_each(|n| detector.on_late(ms(n * 300), 1, ms(n * 300 - 1), &known()));
        detector.expect_repairs(true);
        assert_eq!(detector.loss_due(&known()), Some(ms(400)), "what was learnt is kept");
        detector.expect_repairs(false);
        assert_eq!(detector.loss_due(&known()), Some(ms(125)));
    }

    #[test]
    fn records_are_found_by_number_until_they_leave() {
        let mut detector = sent(LossRule::Time, 0..4);
        assert!(detector.remove(1).is_some());
        assert_eq!(detector.iter().map(|(number, _)| number).collect::<Vec<_>>(), [0, 2, 3]);
        assert!(detector.get(1).is_none() && detector.get_mut(2).is_some_and(|r| r.0 == 2));
        assert_eq!((detector.span(), detector.count()), (4, 3));
        assert!(detector.remove(0).is_some());
        assert_eq!((detector.first(), detector.span()), (2, 2));
    }
}
