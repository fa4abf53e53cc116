//! Datagrams of one kind that are under way, found by packet number. Only some of a link's datagrams are of that kind,
//! so the loss detector counts them by consecutive serials of its own.

use core::ops::{Range, RangeInclusive};
use core::time::Duration;
use std::collections::VecDeque;

use xylem_congestion::{LossDetector, LossRule, Rtt, SendRecord};

/// Capacity that is kept while no datagram is under way.
const AT_REST: usize = 8;

/// Datagrams that have neither been acknowledged nor given up, each with a record of the caller's.
#[derive(Debug)]
pub(crate) struct Ledger<T> {
    flight: LossDetector<T>,
    /// Their packet numbers, one for each place of the detector's queue, gaps included.
    numbers: VecDeque<u64>,
}

/// A datagram that counts as lost.
#[derive(Debug)]
pub(crate) struct LostRecord<T> {
    pub number: u64,
    pub serial: u64,
    pub record: T,
}

impl<T: SendRecord> Default for Ledger<T> {
    fn default() -> Self {
        Self { flight: LossDetector::new(LossRule::PacketsOrTime), numbers: VecDeque::new() }
    }
}

impl<T: SendRecord> Ledger<T> {
    /// Bytes under way.
    pub(crate) fn bytes(&self) -> usize {
        self.flight.bytes()
    }

    /// Places in the detector's queue: datagrams under way and gaps between them.
    pub(crate) fn span(&self) -> usize {
        self.flight.span()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(crate) fn oldest(&self) -> Option<&T> {
        self.flight.oldest()
    }

    /// Records of the datagrams under way, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.flight.iter().map(|(_, record)| record)
    }

    /// Records a sent datagram. Numbers grow.
    pub(crate) fn on_sent(&mut self, number: u64, record: T) {
        debug_assert!(self.numbers.back().is_none_or(|last| *last < number));
        self.numbers.push_back(number);
        self.flight.on_sent(record);
    }

    /// The record of this number, if it is under way.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let place = self.numbers.binary_search(&number).ok()?;
        self.flight.get(self.flight.first() + place as u64)
    }

    /// Handles an acknowledged range: passes the records of its datagrams under way to `arrived`. Returns false if all
    /// of the range is below the datagrams under way: later, lower ranges can then be skipped.
    pub(crate) fn acknowledge(
        &mut self,
        range: &RangeInclusive<u64>,
        mut arrived: impl FnMut(T),
    ) -> bool {
        if self.numbers.front().is_none_or(|first| range.end() < first) {
            return false;
        }
        for serial in self.serials(range) {
            let Some(record) = self.flight.remove(serial) else { continue };
            self.flight.on_arrival(serial);
            arrived(record);
        }
        self.drop_numbers();
        true
    }

    /// The serials of the datagrams in this range of numbers, as far as they may be under way.
    fn serials(&self, numbers: &RangeInclusive<u64>) -> Range<u64> {
        let from = self.numbers.partition_point(|number| number < numbers.start());
        let end = self.numbers.partition_point(|number| number <= numbers.end());
        self.flight.first() + from as u64..self.flight.first() + end as u64
    }

    /// See [`LossDetector::loss_due`].
    pub(crate) fn loss_due(&self, rtt: &Rtt) -> Option<Duration> {
        self.flight.loss_due(rtt)
    }

    /// See [`LossDetector::take_lost`].
    pub(crate) fn take_lost(&mut self, now: Duration, rtt: &Rtt) -> Option<LostRecord<T>> {
        let number = *self.numbers.front()?;
        let (serial, record) = self.flight.take_lost(now, rtt)?;
        self.drop_numbers();
        Some(LostRecord { number, serial, record })
    }

    /// Removes the oldest datagram under way.
    pub(crate) fn take_oldest(&mut self) -> Option<T> {
        let (_, record) = self.flight.take_oldest()?;
        self.drop_numbers();
        Some(record)
    }

    /// See [`LossDetector::on_late`].
    pub(crate) fn on_late(&mut self, now: Duration, serial: u64, sent_at: Duration, rtt: &Rtt) {
        self.flight.on_late(now, serial, sent_at, rtt);
    }

    /// Releases memory if nothing is under way.
    pub(crate) fn shrink(&mut self) {
        if self.numbers.is_empty() {
            self.flight.shrink(AT_REST);
            self.numbers.shrink_to(AT_REST);
        }
    }

    /// Aligns the numbers with the detector's queue: its front is the oldest datagram under way.
    fn drop_numbers(&mut self) {
        let left = self.numbers.len() - self.flight.span();
        self.numbers.drain(..left);
    }
}
