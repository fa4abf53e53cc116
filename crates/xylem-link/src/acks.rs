//! When a receiver acknowledges. The replay window is the only record of what arrived.

use core::time::Duration;
use std::collections::VecDeque;

use crate::frame::{AckRanges, Frame};
use crate::replay::ReplayWindow;

/// Longest delay of an acknowledgement (docs/spec/link.md, Acknowledgements).
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Distance from the newest packet number at which an acknowledgement is due at once: the window may soon forget the
/// datagram that asks.
const MAX_BEHIND: u64 = 1_024;
/// Limits on late datagrams: how many an acknowledgement names although too many gaps lie above them, and how many
/// acknowledgements name each, as some are lost. A late datagram that no acknowledgement names would count as lost and
/// be sent again.
const MAX_LATE: usize = AckRanges::MOST / 2;
const LATE_REPORTS: u8 = 4;

/// Acknowledgements owed for one kind of datagram. Stream datagrams and fragment datagrams are acknowledged separately,
/// because only the former drive the sender's congestion window.
#[derive(Debug)]
pub(crate) struct PendingAcks {
    /// Datagrams in a row that ask, before an acknowledgement is sent.
    every: u32,
    /// The highest number that asked, and its arrival time.
    largest: Option<(u64, Duration)>,
    /// The most recent datagrams that later ones overtook, and how often each was named.
    late: VecDeque<(u64, u8)>,
    waiting: u32,
    at_once: bool,
    deadline: Option<Duration>,
}

impl PendingAcks {
    /// Acknowledges after `every` datagrams, unless time or a gap makes it due sooner.
    pub(crate) fn new(every: u32) -> Self {
        Self {
            every,
            largest: None,
            late: VecDeque::new(),
            waiting: 0,
            at_once: false,
            deadline: None,
        }
    }

    /// Records a datagram that asks for an acknowledgement. Returns whether datagrams were reordered or are missing
    /// below it.
    pub(crate) fn on_datagram(
        &mut self,
        now: Duration,
        number: u64,
        window: &ReplayWindow,
    ) -> bool {
        self.waiting += 1;
        self.deadline.get_or_insert(now + MAX_ACK_DELAY);
        let uneven = match self.largest {
            Some((largest, _)) if number < largest => {
                if self.late.len() == MAX_LATE {
                    self.late.pop_front();
                }
                self.late.push_back((number, 0));
                true
            }
            before => {
                self.largest = Some((number, now));
                window.has_gap(before.map_or(number, |(largest, _)| largest + 1), number)
            }
        };
        self.at_once |= uneven;
        uneven
    }

    /// Records a datagram that a router marked instead of dropping it.
    pub(crate) fn on_mark(&mut self) {
        self.at_once = true;
    }

    /// Returns whether an acknowledgement should be sent now even if no other frame is.
    pub(crate) fn is_due(&self, now: Duration, window: &ReplayWindow) -> bool {
        let Some((largest, _)) = self.largest.filter(|_| self.is_waiting()) else { return false };
        self.at_once
            || self.waiting >= self.every
            || self.deadline.is_some_and(|at| now >= at)
            || window.end() - largest > MAX_BEHIND
    }

    /// Returns whether an acknowledgement may go along with other frames.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0 || (self.at_once && self.largest.is_some())
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Appends the acknowledgement to `out`; nothing is owed afterwards. `marked`: datagrams so far that a router
    /// marked, modulo 2^32.
    pub(crate) fn write(
        &mut self,
        now: Duration,
        window: &ReplayWindow,
        marked: u32,
        out: &mut Vec<u8>,
    ) {
        let Some((largest, at)) = self.largest else { return };
        (self.waiting, self.at_once, self.deadline) = (0, false, None);
        let mut ranges = AckRanges::default();
        let mut lowest = largest;
        for range in window.seen_below(largest).take(AckRanges::MOST - self.late.len()) {
            lowest = *range.start();
            ranges.push(range);
        }
        self.add_late_ranges(window, lowest, &mut ranges);
        let delay = now.saturating_sub(at).as_micros();
        let delay = u32::try_from(delay).unwrap_or(u32::MAX);
        // None only if the window has forgotten the number, long after it arrived.
        if let Some(ack) = ranges.ack(delay, marked) {
            Frame::Ack(ack).write(out);
        }
    }

    /// Adds the late datagrams below `lowest`, highest first.
    fn add_late_ranges(&mut self, window: &ReplayWindow, mut lowest: u64, ranges: &mut AckRanges) {
        if self.late.is_empty() {
            return;
        }
        self.late.make_contiguous().sort_unstable_by(|a, b| b.cmp(a));
        for (number, reports) in &mut self.late {
            *reports += 1;
            // A number that adjoins a run is not late: the number below a run has not been seen.
            if *number < lowest
                && let Some(range) = window.seen_below(*number).next()
            {
                lowest = *range.start();
                ranges.push(range);
            }
        }
        self.late.retain(|(_, reports)| *reports < LATE_REPORTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;

    fn named(acks: &mut PendingAcks, window: &ReplayWindow) -> Vec<u64> {
        let mut out = Vec::new();
        acks.write(Duration::ZERO, window, 0, &mut out);
        let Some(Ok(Frame::Ack(ack))) = Frames::new(&out).next() else { return Vec::new() };
        ack.ranges().flatten().collect()
    }

    /// Every second datagram is still on its way, so there are more gaps than an acknowledgement has room for.
    #[test]
    fn late_datagrams_are_named_below_any_number_of_gaps() {
        let (mut acks, mut window) = (PendingAcks::new(32), ReplayWindow::default());
        let mut come = |acks: &mut PendingAcks, number| {
            window.insert(number);
            acks.on_datagram(Duration::ZERO, number, &window);
            named(acks, &window)
        };
        for number in (1..2_000).step_by(2) {
            assert!(come(&mut acks, number).contains(&number));
        }
        let late = come(&mut acks, 500);
        assert!(late.contains(&1_999) && [499, 500].iter().all(|n| late.contains(n)));
        for number in [2_001, 2_003, 2_005] {
            assert!(come(&mut acks, number).contains(&500), "an acknowledgement may be lost");
        }
        assert!(!come(&mut acks, 2_007).contains(&500));
        // More late datagrams at once than there is room for, in any order, some adjoining.
        for number in (0..60).map(|i| (i * 7 % 60) * 2 + 600) {
            assert!(come(&mut acks, number).contains(&number), "{number}");
        }
        assert!(acks.late.len() <= MAX_LATE);
    }
}
