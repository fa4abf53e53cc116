//! [`Signer`] and [`Verifier`]: sign packets, and check which key made a packet and that it is unchanged.
//!
//! They handle signature types 0, 1 (verified only), 3, 4, 5, 6 and 7 on Data and Interests, certificates, and the
//! decision which keys are trusted (`docs/spec/trust.md`). Packets come from xylem-packet's views and builders; keys
//! come from files that the caller reads. A [`Verifier`] is made from one algorithm and one key before anything of a
//! packet's signature is read, so that no packet can choose a weaker algorithm. Time is passed in as milliseconds since
//! 1970.
//!
//! Not in this crate: types 8 and 9 (xylem-object and xylem-tree), fetching certificates, reading files.
//!
//! Without the feature `std` only the digests and the keyed hash exist: types 0, 6 and 7 in [`digest`] and
//! [`Verifier`]. Without the feature `ring`, for browsers, where no C can be compiled, there is Ed25519 besides (type
//! 5), but no private key files.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use xylem_packet::{Data, DataBuilder, Name};
//! use xylem_trust::{Signer, TrustError, Verifier};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let signer = Signer::ed25519(&[7; 32], Name::from_uri("/alice/KEY/1")?);
//! let name = Name::from_uri("/alice/note")?;
//! let mut wire = Vec::new();
//! signer.data(DataBuilder::new(name.as_ref()), b"hello", &mut wire)?;
//!
//! let verifier = Verifier::of(&signer.public().unwrap())?;
//! assert_eq!(verifier.data(&Data::decode(&wire)?), Ok(()));
//! let last = wire.len() - 1;
//! wire[last] ^= 1;
//! assert_eq!(verifier.data(&Data::decode(&wire)?), Err(TrustError::BadSignature));
//! # Ok(()) }
//! # main().unwrap() }
//! ```
#![cfg_attr(not(feature = "std"), no_std)]

pub mod digest;

#[cfg(feature = "std")]
mod der;
mod error;

#[cfg(feature = "ring")]
mod encrypted;
#[cfg(feature = "ring")]
mod private_key;
#[cfg(feature = "std")]
mod public_key;
#[cfg(feature = "std")]
mod signature;
#[cfg(feature = "std")]
mod signer;

mod verifier;

#[cfg(feature = "std")]
mod replay;

#[cfg(feature = "std")]
mod certificate;
#[cfg(feature = "std")]
mod issue;
#[cfg(feature = "std")]
mod validity;

#[cfg(feature = "std")]
mod armor;
#[cfg(feature = "ring")]
mod safebag;

#[cfg(feature = "std")]
mod rules;
#[cfg(feature = "std")]
mod store;

#[cfg(feature = "std")]
mod chain;

#[cfg(feature = "std")]
mod policy;

#[cfg(feature = "std")]
pub mod schema;

#[cfg(feature = "std")]
pub use armor::Armor;
#[cfg(feature = "std")]
pub use certificate::{Certificate, key_name_of};
#[cfg(feature = "std")]
pub use chain::{
    CertificateChain, CertificateQuery, ChainAction, ChainError, ChainFlaw, MAX_CHAIN, MAX_QUERIES,
    Moment,
};
pub use error::TrustError;
#[cfg(feature = "std")]
pub use error::{CertificateError, KeyError};
#[cfg(feature = "std")]
pub use issue::{Issue, self_signed};
#[cfg(feature = "std")]
pub use policy::{PacketRefusal, TrustPolicy, TrustVerdict};
#[cfg(feature = "ring")]
pub use private_key::{PrivateKey, is_key_packet};
#[cfg(feature = "std")]
pub use public_key::PublicKey;
#[cfg(feature = "std")]
pub use replay::{CommandStamp, ReplayError, ReplayGuard};
#[cfg(feature = "std")]
pub use rules::{HierarchyRules, PrefixRules, RuleRefusal, TrustRules};
#[cfg(feature = "ring")]
pub use safebag::{SafeBag, SafeBagError};
#[cfg(feature = "std")]
pub use signature::Signature;
#[cfg(feature = "std")]
pub use signer::Signer;
#[cfg(feature = "ring")]
pub use signer::generate_ecdsa_p256;
#[cfg(feature = "std")]
pub use store::{MAX_CERTIFICATES, TrustStore};
#[cfg(feature = "std")]
pub use validity::{ValidityPeriod, parse_utc, utc};
pub use verifier::Verifier;
