//! [`Group`]: the members of a group announce to each other how much each of them has published.
//!
//! State Vector Sync (docs/spec/sync.md): a vector of the latest sequence number of each member travels in sync
//! Interests to all others. They take new numbers from it, and answer it if it is old. Versions 1, 2 and 3 of the
//! protocol are supported, as in python-ndn, NDNts and ndnd.
//!
//! Sans-io. Sync Interests come in ([`Group::receive`]) and go out ([`Group::poll_transmit`]). The time comes in, and
//! [`Group::next_timer`] returns when to call the group again. [`Group::poll_event`] returns publications of others. A
//! [`SyncTrust`] decides which signers are trusted, before a vector is parsed.
//!
//! Not here: fetching publications (their names are [`publication_name`]'s), registering the [`SyncVersion::prefix`], a
//! socket, a clock.
//!
//! ```
//! use std::time::Duration;
//! use xylem_packet::{Interest, Name};
//! use xylem_svs::{GroupConfig, GroupEvent, Group, SyncVersion};
//! use xylem_trust::{Signer, CommandStamp, Verifier};
//!
//! let group = Name::from_uri("/chat").unwrap();
//! let member = |name, seed| {
//!     let name = Some(Name::from_uri(name).unwrap());
//!     let config = GroupConfig { name, boot: 1_700_000_000, ..GroupConfig::new(group.clone(), SyncVersion::V3) };
//!     Group::new(config, Duration::ZERO, seed).unwrap()
//! };
//! let (mut alice, mut bob) = (member("/alice", 1), member("/bob", 2));
//!
//! let (now, unix_ms) = (Duration::from_millis(1), 1_700_000_001_000);
//! assert_eq!(alice.publish(now), Some(1));
//! let signer = Signer::hmac(b"key of the group", Name::from_uri("/key").unwrap());
//! let mut wire = Vec::new();
//! let stamp = CommandStamp::new([7; 8], unix_ms);
//! assert!(alice.poll_transmit(now, &signer, stamp, [1, 2, 3, 4], &mut wire).unwrap());
//!
//! let mut believe = Verifier::hmac(b"key of the group");
//! bob.receive(now, unix_ms, &Interest::decode(&wire).unwrap(), &mut believe).unwrap();
//! let Some(GroupEvent::Updated { member, from, to }) = bob.poll_event() else { panic!() };
//! assert_eq!((member.name.to_string().as_str(), from, to), ("/alice", 1, 1));
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod group;
mod table;
mod timing;
mod vector;
mod wire;

pub use group::{Group, GroupConfig, GroupEvent, VectorOutcome, VectorRefusal};
pub use table::VectorLimits;
pub use timing::GroupTiming;
pub use vector::{GroupMember, MAX_ENTRIES, MAX_SEQUENCE, StateVector, VectorError};
pub use wire::{Anyone, SyncError, SyncTrust, SyncVersion, publication_name};
