//! A bad network under virtual time, for tests and benchmarks of every crate of the workspace.
//!
//! Five parts, each usable without the others:
//!
//! - [`Rng`], a seeded generator of random numbers, and [`noise`], bytes from it;
//! - [`Path`], one direction of a network that delays, queues, marks, drops, reorders, duplicates and
//!   damages packets, as its [`Conditions`] state;
//! - [`Internet`], hosts with address translators (NATs) between them;
//! - [`EventQueue`], the virtual clock and the coming events;
//! - [`Simulation`], the loop that drives any number of nodes through an event queue.
//!
//! Everything follows from seeds: the same seed gives the same run on every machine. This crate
//! reads no clock, opens no socket and uses no other crate; no production crate depends on it.
//!
//! # Example
//!
//! Two nodes send a ball back and forth over paths that lose a tenth of the packets. Node 0 serves
//! again 100 ms after its last hit.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::time::Duration;
//! use xylem_sim::{Conditions, EventQueue, Path, Simulation, ms};
//!
//! struct Game {
//!     events: EventQueue<usize>, // the ball arrives at a node
//!     towards: [Path; 2],
//!     serve_at: Duration,
//!     hits: [u32; 2],
//! }
//!
//! impl Game {
//!     fn hit(&mut self, from: usize) {
//!         let now = self.events.now();
//!         if from == 0 {
//!             self.serve_at = now + ms(100);
//!         }
//!         self.hits[from] += 1;
//!         for delivery in self.towards[1 - from].send(now, 58, false) {
//!             self.events.schedule(delivery.at, 1 - from);
//!         }
//!     }
//! }
//!
//! impl Simulation for Game {
//!     type Event = usize;
//!
//!     fn queue(&mut self) -> &mut EventQueue<usize> {
//!         &mut self.events
//!     }
//!
//!     fn next_timer(&self) -> Option<Duration> {
//!         Some(self.serve_at)
//!     }
//!
//!     fn act(&mut self) -> ControlFlow<()> {
//!         if self.serve_at <= self.events.now() {
//!             self.hit(0);
//!         }
//!         ControlFlow::Continue(())
//!     }
//!
//!     fn handle(&mut self, node: usize) {
//!         self.hit(node);
//!     }
//! }
//!
//! let conditions = Conditions { delay: ms(10), loss: 0.1, ..Conditions::PERFECT };
//! let mut game = Game {
//!     events: EventQueue::new(),
//!     towards: [Path::new(conditions, 1), Path::new(conditions, 2)],
//!     serve_at: Duration::ZERO,
//!     hits: [0; 2],
//! };
//! game.run_until(ms(10_000));
//! assert!(game.hits[0] > game.hits[1] && game.hits[1] > 200);
//! ```

mod event_queue;
mod nat;
mod path;
mod rng;
mod simulation;

pub use event_queue::EventQueue;
pub use nat::{Arrival, FilteringBehaviour, Internet, MappingBehaviour, NatBehaviour, Realm};
pub use path::{Conditions, Path, PathCounts, PathDelivery};
pub use rng::{Rng, noise};
pub use simulation::Simulation;

use core::time::Duration;

/// A duration of `n` milliseconds.
#[must_use]
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A share of `n` percent, as a fraction of 1.
#[must_use]
pub const fn percent(n: u64) -> f64 {
    n as f64 / 100.0
}
