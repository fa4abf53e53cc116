//! The loop that drives nodes through virtual time.

use core::ops::ControlFlow;
use core::time::Duration;

use crate::EventQueue;

/// Rounds without progress of time after which the nodes are taken to wake each other for ever.
const MOST_ROUNDS: u32 = 100_000;

/// Nodes, the network between them, and one event queue. A run consists of rounds. In a round all nodes act
/// ([`Self::act`]), time passes until the next event or timer, and the due events are handled ([`Self::handle`]).
pub trait Simulation {
    /// An event: usually an arrival.
    type Event;

    /// The event queue, which holds the time too.
    fn queue(&mut self) -> &mut EventQueue<Self::Event>;

    /// Lets all nodes do what they can at the current time: handle due timers, send. `Break` ends the run.
    fn act(&mut self) -> ControlFlow<()>;

    /// The earliest time at which a node must act without an event.
    fn next_timer(&self) -> Option<Duration>;

    /// Handles an event that is due.
    fn handle(&mut self, event: Self::Event);

    /// Runs until `end`, which then is the current time, or until [`Self::act`] breaks.
    ///
    /// # Panics
    ///
    /// If time stands still because a timer stays due.
    fn run_until(&mut self, end: Duration) {
        let mut rounds = 0;
        while self.act().is_continue() {
            let timer = self.next_timer();
            let queue = self.queue();
            let before = queue.now();
            let next = [timer, queue.next_at()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                queue.advance(end);
                return;
            };
            queue.advance(next);
            rounds = if queue.now() > before { 0 } else { rounds + 1 };
            assert!(rounds < MOST_ROUNDS, "time stands still at {before:?}");
            while let Some(event) = self.queue().pop_due() {
                self.handle(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ms;

    /// Counts ticks and events. Its timer ticks every 10 ms; each tick schedules an event 5 ms later.
    struct Ticks {
        events: EventQueue<u32>,
        next: Duration,
        step: Duration,
        log: Vec<(Duration, u32)>,
        stop_after: usize,
    }

    impl Ticks {
        fn new(step: Duration) -> Self {
            let events = EventQueue::new();
            Self { events, next: ms(10), step, log: Vec::new(), stop_after: usize::MAX }
        }
    }

    impl Simulation for Ticks {
        type Event = u32;

        fn queue(&mut self) -> &mut EventQueue<u32> {
            &mut self.events
        }

        fn act(&mut self) -> ControlFlow<()> {
            if self.next <= self.events.now() {
                self.next += self.step;
                self.log.push((self.events.now(), 0));
                self.events.schedule(self.events.now() + ms(5), 1);
            }
            match self.log.len() >= self.stop_after {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }

        fn next_timer(&self) -> Option<Duration> {
            Some(self.next)
        }

        fn handle(&mut self, event: u32) {
            self.log.push((self.events.now(), event));
        }
    }

    #[test]
    fn timers_and_events_take_their_turns_until_the_end() {
        let mut ticks = Ticks::new(ms(10));
        ticks.run_until(ms(22));
        assert_eq!(ticks.log, [(ms(10), 0), (ms(15), 1), (ms(20), 0)]);
        assert_eq!((ticks.events.now(), ticks.events.len()), (ms(22), 1));
        ticks.run_until(ms(25));
        assert_eq!(ticks.log.last(), Some(&(ms(25), 1)));
    }

    #[test]
    fn a_simulation_ends_itself() {
        let mut ticks = Ticks { stop_after: 3, ..Ticks::new(ms(10)) };
        ticks.run_until(ms(1_000));
        assert_eq!((ticks.events.now(), ticks.log.len()), (ms(20), 3));
    }

    #[test]
    #[should_panic(expected = "time stands still")]
    fn a_timer_that_stays_due_is_found() {
        Ticks::new(Duration::ZERO).run_until(ms(1_000));
    }
}
