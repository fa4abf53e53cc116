//! A client of the BitTorrent mainline DHT: finds and lists peers (BEP 5), reads and stores signed items (BEP 44), over
//! IPv4 and IPv6 (BEP 32). It answers no queries (BEP 43).
//!
//! Sans-io: datagrams and the time are passed to [`DhtClient`], datagrams and events are returned. So any socket can
//! speak it beside another protocol: what is listed by [`AnnouncedPort::Implied`] is that socket's mapping by a NAT,
//! and [`DhtClient::observed_v4`] is its address as nodes see it.
//!
//! Every datagram is foreign. What nodes list may be a lie or a victim's address: docs/spec/dht.md states how much of
//! it is used.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod address;
mod bencode;
mod client;
mod id;
mod item;
mod krpc;
mod lookup;
mod nodes;
mod observed;
mod rng;
mod search;
mod silent;
#[cfg(test)]
mod tests;

pub use client::{DhtClient, DhtConfig, DhtError, DhtEvent, MAX_BOOTSTRAP, MAX_LOOKUPS, Transmit};
pub use id::{DhtId, ID_LEN, KEY_LEN};
pub use item::{MAX_SALT, MAX_VALUE, MutableItem, signable};
pub use krpc::{AnnouncedPort, AnnouncedPorts};
pub use lookup::{ListedPeers, LookupEnd, LookupError, LookupId, LookupKind, MAX_PEERS};
pub use observed::{ObservedAddress, is_symmetric};
