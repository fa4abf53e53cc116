//! When to acknowledge, as receiver: what arrived is in the replay window, there is no other record.

use core::time::Duration;

use crate::frame::{AckRanges, Frame};
use crate::replay::ReplayWindow;

/// An acknowledgement is not put off longer (docs/spec/link.md, Acknowledgements).
pub(super) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Datagrams that ask for an acknowledgement, one after the other, before one is sent.
const EVERY: u32 = 2;
/// An acknowledgement is due at once when the datagram that asks for it is so far behind the
/// newest that the window may soon forget it.
const MAX_BEHIND: u64 = 1_024;

#[derive(Debug, Default)]
pub(super) struct Acks {
    /// The highest number that asked, and when it arrived.
    largest: Option<(u64, Duration)>,
    waiting: u32,
    at_once: bool,
    deadline: Option<Duration>,
    /// Datagrams that a router has marked, modulo 2^32.
    marked: u32,
}

impl Acks {
    /// A datagram that asks for an acknowledgement arrived.
    pub(super) fn on_datagram(&mut self, now: Duration, number: u64, window: &ReplayWindow) {
        self.waiting += 1;
        self.deadline.get_or_insert(now + MAX_ACK_DELAY);
        match self.largest {
            Some((largest, _)) if number < largest => self.at_once = true,
            before => {
                let from = before.map_or(number, |(largest, _)| largest + 1);
                self.at_once |= window.has_gap(from, number);
                self.largest = Some((number, now));
            }
        }
    }

    /// A datagram arrived that a router has marked instead of dropping it.
    pub(super) fn on_mark(&mut self) {
        self.marked = self.marked.wrapping_add(1);
        self.at_once = true;
    }

    /// Whether an acknowledgement should be sent now even if nothing else is.
    pub(super) fn is_due(&self, now: Duration, window: &ReplayWindow) -> bool {
        let Some((largest, _)) = self.largest.filter(|_| self.is_waiting()) else { return false };
        self.at_once
            || self.waiting >= EVERY
            || self.deadline.is_some_and(|at| now >= at)
            || window.end() - largest > MAX_BEHIND
    }

    /// Whether one may go along with other frames.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0 || (self.at_once && self.largest.is_some())
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Appends the acknowledgement to `out`; nothing is owed afterwards.
    pub(super) fn write(&mut self, now: Duration, window: &ReplayWindow, out: &mut Vec<u8>) {
        let Some((largest, at)) = self.largest else { return };
        (self.waiting, self.at_once, self.deadline) = (0, false, None);
        let mut ranges = AckRanges::default();
        for range in window.seen_below(largest) {
            if !ranges.push(range) {
                break;
            }
        }
        let delay = now.saturating_sub(at).as_micros();
        let delay = u32::try_from(delay).unwrap_or(u32::MAX);
        // None only if the window has forgotten the number, long after it arrived.
        if let Some(ack) = ranges.ack(delay, self.marked) {
            Frame::Ack(ack).write(out);
        }
    }
}
