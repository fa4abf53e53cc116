//! [`Forwarder`]: NDN forwarding without sockets or clock.
//!
//! Packets come in with the number of the face that they arrived on, and leave through an [`Outlet`], bare and with
//! their link headers as fields. Time is passed in; [`Forwarder::poll_timeout`] returns when the forwarder has to be
//! called again. The same code serves daemon, simulator and microcontroller: without the feature `alloc` the tables are
//! arrays of sizes that the program chooses ([`Fixed`]).
//!
//! Interests are stored in the PIT, routed by the FIB, and answered from the content store if one is configured. Data
//! follows the PIT back (`docs/spec/forwarder.md`).
//!
//! Not in this crate: faces as such (a face is a number and a few settings), NDNLPv2 (a link service removes and adds
//! headers), management, verification of Data.
//!
//! ```
//! use core::time::Duration;
//! use xylem_forward::{ForwarderConfig, FaceId, FaceScope, Forwarder, IncomingPacket, OutgoingPacket, ForwarderSeed};
//! use xylem_packet::{InterestBuilder, Name};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let random = [7; 16];
//! let mut forwarder = Forwarder::new(ForwarderConfig::default(), ForwarderSeed::from_random(random));
//! let consumer = forwarder.add_face(FaceScope::Local);
//! let producer = forwarder.add_face(FaceScope::NonLocal);
//! forwarder.add_route(Name::from_uri("/xylem")?.as_ref(), producer, 10)?;
//!
//! let name = Name::from_uri("/xylem/report.pdf/v=7/seg=0")?;
//! let mut interest = Vec::new();
//! InterestBuilder::new(name.as_ref()).nonce([1, 2, 3, 4]).encode(&mut interest)?;
//!
//! let mut sent = Vec::new();
//! let mut outlet = |to: FaceId, packet: OutgoingPacket<'_>| sent.push((to, packet.packet.to_vec()));
//! forwarder.handle_packet(Duration::ZERO, consumer, IncomingPacket::bare(&interest), &mut outlet)?;
//! assert_eq!(sent, [(producer, interest)]);
//! # Ok(()) }
//! ```
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod cache_info;
mod config;
mod exchange;
mod face;
mod reasons;
mod strategy_choice;

mod memory;

mod slab;
mod table;

mod name_hash;
mod names;
mod recent;
mod wheel;

mod content_store;
mod faces;
mod fib;
mod measurements;
mod pit;
mod prefixes;
mod storage;

mod rewrite;
#[cfg(feature = "alloc")]
mod second_level;

mod forwarder;
mod routes;

mod crowding;
#[cfg(feature = "alloc")]
mod kept;
mod on_interest;
mod self_learning;
mod strategy;

mod on_data;

pub use cache_info::{CsInfo, CsSettings};
pub use config::{ForwarderConfig, ForwarderSeed, UnsolicitedPolicy};
pub use exchange::{IncomingPacket, LearnedRoute, OutgoingPacket, Outlet};
pub use face::{FaceCounters, FaceId, FaceScope, FaceSettings, LinkType};
pub use fib::NextHop;
pub use forwarder::Forwarder;
pub use reasons::{DropReason, ForwarderCounters, RouteError};
#[cfg(feature = "alloc")]
pub use second_level::{SecondLevelAnswer, SecondLevelCache};
#[cfg(feature = "alloc")]
pub use storage::Heap;
pub use storage::{Fixed, Standard, Storage};
pub use strategy_choice::{AsfParameters, ForwardingStrategy, RetxSuppression};

/// SHA-256, used for implicit digests and parameters digests.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}
