//! [`Packet`]: one NDN packet, parsed in place.
//!
//! It implements NDN packet format v0.3, naming conventions rev. 3 and NDNLPv2 (`docs/spec/packet.md` lists the parts
//! covered). Bytes come from a face as one complete TLV: a datagram, or a packet that [`frame_len`] separates from a
//! stream. `decode` checks every rule once and returns a view that borrows the bytes; its accessors neither fail nor
//! copy. The builders append packets for a face to a `Vec<u8>` and write a Data's content directly into its place.
//! [`link_service`] lies between packets and a socket: fragments, link headers, reliability.
//!
//! Signing, verification and forwarding are elsewhere: this crate only carries the bytes of signatures.
//!
//! ```
//! use xylem_packet::{Component, DataBuilder, InterestBuilder, Name, Packet, SignatureType};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let name: Name = "/xylem/report.pdf/v=7".parse()?;
//! let name = name.child(Component::segment(0));
//!
//! let mut interest = Vec::new();
//! InterestBuilder::new(name.as_ref()).nonce([1, 2, 3, 4]).encode(&mut interest)?;
//!
//! let mut data = Vec::new();
//! DataBuilder::new(name.as_ref())
//!     .signature(SignatureType::DIGEST_SHA256, None)
//!     .encode(&mut data, b"content", |signed, value| {
//!         value.extend_from_slice(&xylem_packet::sha256(signed));
//!     })?;
//!
//! let (Packet::Interest(interest), Packet::Data(data)) =
//!     (Packet::decode(&interest)?, Packet::decode(&data)?)
//! else {
//!     unreachable!()
//! };
//! assert_eq!(interest.name(), data.name());
//! assert_eq!(data.name().to_string(), "/xylem/report.pdf/v=7/seg=0");
//! assert_eq!(data.content(), b"content");
//! # Ok(()) }
//! ```
//!
//! Features: `std` (default) adds SHA-256 and what needs it; `alloc` adds owned names, building into a `Vec`, and the
//! link service. Without either, everything else works in memory that the caller lends: views, [`FixedName`], and the
//! builders' `encode_to_slice`.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod tlv;
pub mod types;

mod buffer;
mod error;

mod component;
mod fixed_name;
mod name;
#[cfg(feature = "alloc")]
mod owned_name;
mod uri;

mod signature;

mod acks;
mod data;
mod data_builder;
mod interest;
mod interest_builder;
mod lp;
mod packet;
pub mod probe;

#[cfg(feature = "alloc")]
pub mod link_service;

pub use acks::{Acks, AcksIter};
pub use buffer::{Buffer, Slice};
pub use component::Component;
pub use data::{ContentType, Data, MetaInfo};
pub use data_builder::DataBuilder;
#[cfg(feature = "alloc")]
pub use data_builder::DataWriter;
pub use error::{DecodeError, EncodeError};
pub use fixed_name::FixedName;
pub use interest::{DEFAULT_LIFETIME_MS, Interest, InterestSignature};
pub use interest_builder::InterestBuilder;
pub use lp::{CachePolicy, LpPacket, MAX_PIT_TOKEN, NackReason};
pub use name::{Components, NameRef, Names};
#[cfg(feature = "alloc")]
pub use owned_name::Name;
pub use packet::{MAX_FRAME, MAX_PACKET, Packet, frame_len};
pub use signature::{KeyLocator, SignatureInfo, SignatureType};
pub use uri::UriError;

/// SHA-256 of `bytes`: the hash of parameters digests, implicit digests and signature type 0.
#[cfg(feature = "std")]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}
