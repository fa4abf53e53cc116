//! The virtual clock and the queue of coming events.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;

/// Events in the order of their times; events of one time in the order in which they were scheduled. The queue holds
/// the current time too, which moves only by [`EventQueue::advance`].
#[derive(Debug)]
pub struct EventQueue<T> {
    now: Duration,
    order: BinaryHeap<Reverse<Scheduled<T>>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Scheduled<T> {
    at: Duration,
    number: u64,
    event: T,
}

impl<T> Scheduled<T> {
    const fn key(&self) -> (Duration, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for Scheduled<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Scheduled<T> {}

impl<T> PartialOrd for Scheduled<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Scheduled<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { now: Duration::ZERO, order: BinaryHeap::new(), scheduled: 0 }
    }
}

impl<T> EventQueue<T> {
    /// An empty queue at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The current virtual time.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Moves the time to `to`; the time never goes back.
    pub fn advance(&mut self, to: Duration) {
        self.now = self.now.max(to);
    }

    /// Adds an event. An event with a past time is the next to happen.
    pub fn schedule(&mut self, at: Duration, event: T) {
        self.scheduled += 1;
        self.order.push(Reverse(Scheduled { at, number: self.scheduled, event }));
    }

    /// The time of the first event.
    #[must_use]
    pub fn next_at(&self) -> Option<Duration> {
        self.order.peek().map(|Reverse(first)| first.at)
    }

    /// Removes and returns the first event, if its time has come.
    pub fn pop_due(&mut self) -> Option<T> {
        self.next_at().filter(|at| *at <= self.now)?;
        self.order.pop().map(|Reverse(first)| first.event)
    }

    /// Number of events in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether the queue has no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, ms};

    #[test]
    fn events_come_by_time_and_then_as_scheduled() {
        let mut rng = Rng::new(1);
        let mut events = EventQueue::new();
        for number in 0..1_000 {
            let at = ms(rng.below(20));
            events.schedule(at, (at, number));
        }
        assert_eq!(events.len(), 1_000);
        let mut seen = Vec::new();
        for now in 0..20 {
            events.advance(ms(now));
            assert_eq!(events.next_at(), Some(ms(now)));
            seen.extend(core::iter::from_fn(|| events.pop_due()));
        }
        assert!(seen.len() == 1_000 && seen.is_sorted() && events.is_empty());
    }

    #[test]
    fn time_never_goes_back() {
        let mut events = EventQueue::new();
        events.advance(ms(5));
        events.advance(ms(3));
        assert_eq!(events.now(), ms(5));
        events.schedule(ms(6), 2);
        events.schedule(ms(1), 1);
        assert_eq!((events.pop_due(), events.pop_due()), (Some(1), None));
    }
}
