//! [`Connection`] and the [`Application`]s that use it: the client side of an NDN forwarder, without a socket or a
//! clock.
//!
//! A [`Driver`] (`xylem-app`'s `Client`) passes in arriving frames and writes waiting ones. An application sends
//! requests and handles their answers: one [`Exchange`], the [`Discovery`] of an object's newest version, the segments
//! of an object by a [`SegmentFetch`], a [`Producer`] that serves a file, pings, generated load, and a [`SvsMember`] of
//! a sync group. [`verify_with_chain`] follows certificates to a trusted key. A [`Manager`] commands the forwarder, [`peek`]
//! requests one packet. Time is `now`, a duration since the connection began; randomness is passed in as seeds.
//!
//! Nothing here forwards, caches or encrypts. Nothing is trusted unless a key named by the caller verifies it.

mod application;
mod connection;
mod driver;
mod error;

mod exchange;
mod rdr;

mod certificates;
mod exact;

mod discover;
mod segments;

mod put;

mod histogram;
mod manage;
mod peek;
mod ping;
mod svs;
pub mod traffic;

pub use application::{Application, STOP_CHECK_EVERY};
pub use certificates::{Certificates, verify_with_chain};
pub use connection::{Connection, ForwarderMessage, FrameQueue, PacketOutbox};
pub use discover::{Discovered, Discovery, published_manifest, ticket_for};
pub use driver::{Driver, RunEnd};
pub use error::{CheckError, ClientError, NameFlaw, ObjectContradiction, PacketOverflow};
pub use exchange::{Exchange, ExchangeReply, InterestRequest, parse_name, satisfies};
pub use histogram::Histogram;
pub use manage::{ANNOUNCED_FOR, CommandAnswer, Manager, announce, register};
pub use peek::{Peeked, peek};
pub use ping::{PingOutcome, PingReport, PingServer, Pinger, ping_name};
pub use put::{Producer, PutSettings, SEGMENT_SIZE};
pub use rdr::{METADATA, Metadata};
pub use segments::{Expected, SegmentFetch, SegmentReceiver};
pub use svs::{
    MAX_PUBLICATION, SvsEvent, SvsKeys, SvsLine, SvsMember, UnknownSyncVersion, parse_version,
};
