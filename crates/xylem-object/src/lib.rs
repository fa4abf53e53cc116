//! [`Publication`]: a file or a directory as named, signed, self-proving NDN packets.
//!
//! ```text
//! publish   root, size → Manifest → sign → Publication ⇄ Interests in, Data out (content and
//!           proofs read through Source)                               → forward → link → network
//! fetch     Ticket → names to ask for → manifest verified → listing read; segments and tiles go to
//!           xylem-tree's Verifier as they are
//! ```
//!
//! Bytes come from a [`ObjectSource`] (xylem-store's files and outboards) and leave as Data packets that any peer may store,
//! forward and serve again. Only the manifest is signed; each segment carries the part of the tree (BLAKE3 or SHA-256)
//! that proves it. This crate opens no files, sockets or clocks. It does not schedule requests (xylem-transfer) or
//! verify segments (xylem-tree). The formats, with test vectors: docs/spec/object.md.
//!
//! ```
//! use xylem_object::{PublicationKind, Manifest, Publication, PublisherKey, naming, sign_manifest};
//!
//! let key = PublisherKey::from_bytes(&[7; 32]);
//! let object = naming::default_name(&key.public(), b"hello.txt");
//! let prefix = naming::versioned(object.as_ref(), 1_700_000_000_000_000)?;
//! let manifest = Manifest::file(xylem_hash::hash(b"hello"), 5, b"hello.txt");
//! let packet = sign_manifest(&manifest, prefix.as_ref(), &key).unwrap();
//! let publication = Publication::new(prefix, packet, &key.public()).unwrap().with_metadata(&key);
//! assert_eq!(publication.manifest().kind, PublicationKind::File);
//! # Ok::<(), naming::PrefixError>(())
//! ```

pub mod fetched;
pub mod find;
pub mod growing;
pub mod have;
pub mod keys;
pub mod listing;
pub mod manifest;
pub mod naming;
pub mod packets;
pub mod pass;
pub mod peers;
pub mod produce;
pub mod publication;
pub mod sums;
pub mod template;
pub mod ticket;
pub mod witness;

pub use growing::Growing;
pub use have::{Have, HaveError};
pub use keys::{KeyId, PublisherId, PublisherIdError, PublisherKey};
pub use manifest::{
    Manifest, ManifestError, PublicationKind, sign_manifest, sign_manifest_with, verify_manifest,
    verify_manifest_with,
};
pub use naming::ObjectId;
pub use produce::{Packets, produce};
pub use publication::{ObjectSource, Publication, PublicationError, ServeOutcome};
pub use sums::UpdateSums;
pub use template::SegmentTemplate;
pub use ticket::{Ticket, TicketError};

/// Most segments that an object may have: 2^31. The manifest and two tiles then link any segment to the signature.
pub const MAX_SEGMENTS: u64 = 1 << 31;
/// Most bytes that an object may have, in segments of 8 KiB: 16 TiB.
pub const MAX_SIZE: u64 = 1 << 44;
