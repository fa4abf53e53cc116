//! [`Controller`]: congestion control, which limits the bytes that one flow has under way and the rate at which it
//! sends.
//!
//! The caller sends packets, keeps the [`SentPacket`] of each, and reports which arrived, were lost or came back marked; the
//! controller returns a window and a pacing rate. The crate also has what every sender needs: round-trip times and the
//! timers that follow from them ([`Rtt`], [`ProbeTimer`]), the packets under way and the detection of their losses
//! ([`LossDetector`]), a token bucket that spreads sending over time ([`Pacer`]), and random numbers that are not
//! secret ([`SplitMix64`]). A "packet" is whatever the caller counts: a datagram of a link, a frame, or the Data that
//! an Interest requests.
//!
//! The crate does not send or read a clock: time is a [`Duration`] since an epoch of the caller's that does not go
//! back. Only the loss detector allocates: feature `alloc`, on by default.
//!
//! ```
//! use core::time::Duration;
//! use xylem_congestion::{CongestionAlgorithm, Controller, Rtt};
//!
//! let ms = Duration::from_millis;
//! let (mut flow, mut rtt) = (Controller::new(CongestionAlgorithm::Cubic, ms(0), 1_200), Rtt::default());
//! let start = flow.window();
//! let (a, b) = (flow.on_sent(ms(0), 1_200, 0), flow.on_sent(ms(0), 1_200, 1_200));
//! rtt.sample(ms(20), ms(0));
//! flow.on_ack(ms(20), &a, &rtt);
//! flow.on_ack(ms(20), &b, &rtt);
//! flow.on_ack_end(ms(20), &rtt, 0);
//! assert!(flow.window() >= start && flow.pacing_rate() < u64::MAX);
//! ```
//!
//! [`Duration`]: core::time::Duration
#![cfg_attr(not(test), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

// Parts of every flow.
mod chance;
#[cfg(feature = "alloc")]
mod loss;
mod pacer;
mod rtt;
// Packets under way, and how fast they arrive.
mod delivery;
// The algorithms.
mod bbr;
mod cubic;
mod hystart;
mod ledbat;
mod math;
mod queue;
mod repaired;
// The algorithm of one flow.
mod controller;

pub use chance::SplitMix64;
pub use controller::{CongestionAlgorithm, Controller};
pub use delivery::SentPacket;
#[cfg(feature = "alloc")]
pub use loss::{LossDetector, LossRule, SendRecord};
pub use pacer::Pacer;
pub use rtt::{ProbeTimer, Rtt, TimeoutLimits, smoothed};
