//! [`LossDetector`]: the packets of one flow that are under way, in the order of sending, and which of them are lost.
//!
//! It implements RFC 9002 section 6 over the caller's own records. A packet is lost if enough later packets have
//! arrived, or if a later one has and a round trip and a reordering window have passed (section 6.1; RFC 8985). If no
//! answer comes at all, the caller removes packets itself, by [`ProbeTimer`](crate::ProbeTimer). The detector knows no
//! wire format: a caller with other numbers in its acknowledgements translates them.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::{Rtt, SentPacket};

/// RFC 9002 section 6.1.1: this many later arrivals prove a loss, until the path has reordered more.
const PACKET_THRESHOLD: u64 = 3;
/// Largest packet threshold on a path that reorders.
const MAX_PACKET_THRESHOLD: u64 = 4_096;
/// RFC 8985 section 6.2: reordering widens the time threshold by a quarter round trip each, up to four quarters.
const MAX_QUARTERS: u32 = 4;
/// Reordering window on a path with a lower layer that repairs losses, in quarters of a round trip: at first, and at
/// most. An answer takes two round trips there, and more if the path reorders.
const REPAIRED_QUARTERS: u32 = 5;
const MAX_REPAIRED_QUARTERS: u32 = 12;

/// The caller's record of a packet that it sent.
pub trait SendRecord {
    /// Time of sending; not before that of earlier packets.
    fn sent_at(&self) -> Duration;
    /// Its size in bytes.
    fn bytes(&self) -> usize;
}

impl SendRecord for SentPacket {
    fn sent_at(&self) -> Duration {
        SentPacket::sent_at(self)
    }

    fn bytes(&self) -> usize {
        SentPacket::bytes(self) as usize
    }
}

/// The proof of a loss that a detector requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRule {
    /// Three later arrivals, or one later arrival and time (RFC 9002 section 6.1).
    PacketsOrTime,
    /// One later arrival and time: for flows with sources or caches that answer in any order.
    Time,
    /// Three later arrivals: for peers that may hold answers back for longer than a reordering window.
    Packets,
}

/// Detects losses among the packets of one flow. It holds the packets that have neither arrived nor been given up, by
/// their numbers in the order of sending.
///
/// Order of calls: [`on_sent`](Self::on_sent) for each packet; for each answer [`remove`](Self::remove), and
/// [`on_arrival`](Self::on_arrival) unless the answer may be to an earlier sending; then [`take_lost`](Self::take_lost)
/// until it returns `None`.
#[derive(Clone, Debug)]
pub struct LossDetector<T> {
    rule: LossRule,
    /// Records of the numbers `first..first + len`; `None` once removed. The front is under way.
    records: VecDeque<Option<T>>,
    first: u64,
    count: usize,
    bytes: usize,
    /// Packets with smaller numbers than this one were overtaken.
    largest_arrived: Option<u64>,
    packet_threshold: u64,
    /// The reordering window in quarters of a round trip, and when it last grew.
    quarters: u32,
    most_quarters: u32,
    widened_at: Option<Duration>,
}

impl<T: SendRecord> LossDetector<T> {
    /// A detector without packets under way; the first number is 0.
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

    /// Sets whether the lower layer repairs losses; if so, the time threshold leaves it the time for that.
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

    /// Number of packets under way.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes under way.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Length of the queue: the packets under way, and those removed after the oldest of them.
    #[inline]
    pub fn span(&self) -> usize {
        self.records.len()
    }

    /// The number of the oldest packet under way, if there is any.
    #[inline]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The oldest packet under way.
    #[inline]
    pub fn oldest(&self) -> Option<&T> {
        self.records.front()?.as_ref()
    }

    /// The packet under way with this number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&T> {
        self.records.get(self.place(number)?)?.as_ref()
    }

    /// As [`Self::get`], mutable. Do not change time or size.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number)?;
        self.records.get_mut(place)?.as_mut()
    }

    /// All packets under way with their numbers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let numbered = (self.first..).zip(&self.records);
        numbered.filter_map(|(number, record)| Some((number, record.as_ref()?)))
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// Records a sent packet. Returns its number.
    #[inline]
    pub fn on_sent(&mut self, record: T) -> u64 {
        let number = self.next_number();
        self.count += 1;
        self.bytes += record.bytes();
        self.records.push_back(Some(record));
        number
    }

    /// Removes a packet for any reason; `None` if it is not under way.
    #[inline]
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let record = self.records.get_mut(place)?.take()?;
        self.count -= 1;
        self.bytes -= record.bytes();
        self.trim();
        Some(record)
    }

    /// Removes the oldest packet.
    pub fn take_oldest(&mut self) -> Option<(u64, T)> {
        let number = self.first;
        Some((number, self.remove(number)?))
    }

    /// Restores the invariant that the front is under way.
    fn trim(&mut self) {
        while let Some(None) = self.records.front() {
            self.records.pop_front();
            self.first += 1;
        }
    }

    /// Records the arrival of this number, which overtakes the packets sent before it.
    #[inline]
    pub fn on_arrival(&mut self, number: u64) {
        self.largest_arrived = self.largest_arrived.max(Some(number));
    }

    /// Handles the late arrival of a packet that had counted as lost. The path reorders more than was known, so both
    /// thresholds grow, within their limits, until this packet would not have counted as lost. Under
    /// [`LossRule::Time`] (docs/spec/transfer.md) a late arrival shows less: the time threshold grows by a quarter of a
    /// round trip, and only if the packet was sent after the threshold last grew.
    ///
    /// - `number`, `sent_at`: the packet's number, and when it was sent.
    /// - `rtt`: the flow's round trips.
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

    /// Time at which [`Self::take_lost`] returns a packet if nothing more arrives; zero for at once.
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

    /// Removes the oldest packet, with its number, if it is lost by now.
    pub fn take_lost(&mut self, now: Duration, rtt: &Rtt) -> Option<(u64, T)> {
        if self.loss_due(rtt)? > now {
            return None;
        }
        self.take_oldest()
    }

    /// Frees memory that an idle flow does not need, except room for `keep` records.
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

    struct TimedRecord(u64);

    impl SendRecord for TimedRecord {
        fn sent_at(&self) -> Duration {
            ms(self.0)
        }

        fn bytes(&self) -> usize {
            10
        }
    }

    /// A round trip of 100 ms, of which a quarter is 25 ms.
    fn known() -> Rtt {
        let mut rtt = Rtt::default();
        rtt.sample(ms(100), ms(0));
        rtt
    }

    fn sent(rule: LossRule, at: impl IntoIterator<Item = u64>) -> LossDetector<TimedRecord> {
        let mut detector = LossDetector::new(rule);
        for at in at {
            detector.on_sent(TimedRecord(at));
        }
        detector
    }

    fn arrive(detector: &mut LossDetector<TimedRecord>, number: u64) {
        assert!(detector.remove(number).is_some());
        detector.on_arrival(number);
    }

    fn lost(detector: &mut LossDetector<TimedRecord>, now: u64) -> Vec<u64> {
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
    fn late_arrivals_widen_both_thresholds() {
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
    fn the_window_leaves_time_for_repairs() {
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
    fn records_are_found_by_number_until_removed() {
        let mut detector = sent(LossRule::Time, 0..4);
        assert!(detector.remove(1).is_some());
        assert_eq!(detector.iter().map(|(number, _)| number).collect::<Vec<_>>(), [0, 2, 3]);
        assert!(detector.get(1).is_none() && detector.get_mut(2).is_some_and(|r| r.0 == 2));
        assert_eq!((detector.span(), detector.count()), (4, 3));
        assert!(detector.remove(0).is_some());
        assert_eq!((detector.first(), detector.span()), (2, 2));
    }
}
