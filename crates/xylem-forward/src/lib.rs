//! [`Forwarder`]: NDN forwarding without sockets or clock.
//!
//! Packets come in with the number of the face that they arrived on and leave in a vector of
//! (face, packet); time is passed in, and [`Forwarder::poll_timeout`] says when the forwarder
//! wants to be called again. The same code serves daemon, simulator and tests.
//!
//! Interests are remembered in the PIT, routed by the FIB, answered from the content store if one
//! is wanted; Data follows the PIT back (`docs/spec/forwarder.md`).
//!
//! Not here: faces as such (a face is a number and a scope), reassembly of NDNLPv2 fragments,
//! management, verification of Data.
//!
//! ```
//! use core::time::Duration;
//! use bytes::Bytes;
//! use xylem_forward::{Config, FaceScope, Forwarder};
//! use xylem_packet::{InterestBuilder, Name};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut forwarder = Forwarder::new(Config::default());
//! let consumer = forwarder.add_face(FaceScope::Local);
//! let producer = forwarder.add_face(FaceScope::NonLocal);
//! forwarder.add_route(Name::from_uri("/xylem")?.as_ref(), producer, 10)?;
//!
//! let name = Name::from_uri("/xylem/report.pdf/v=7/seg=0")?;
//! let mut interest = Vec::new();
//! InterestBuilder::new(name.as_ref()).nonce([1, 2, 3, 4]).encode(&mut interest)?;
//!
//! let mut out = Vec::new();
//! forwarder.handle_packet(Duration::ZERO, consumer, Bytes::from(interest), &mut out)?;
//! assert_eq!(out.len(), 1);
//! assert_eq!(out[0].0, producer);
//! # Ok(()) }
//! ```

mod config;
mod face;

mod name_hash;
mod wheel;

mod content_store;
mod dead_nonce;
mod fib;
mod pit;

mod rewrite;
mod strategy;

mod reasons;

mod forwarder;
mod on_interest;

mod on_data;

pub use config::Config;
pub use face::{FaceCounters, FaceId, FaceScope};
pub use forwarder::Forwarder;
pub use reasons::{Counters, DropReason, RouteError};
