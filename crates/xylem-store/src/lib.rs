//! [`Store`]: files, their outboards and partial fetches on disk.
//!
//! It knows roots (BLAKE3 hashes) and no names: other crates know an object's name, its signer and its peers. To
//! publish, a file is hashed in its place ([`hash_file`]) and its tree goes into the store's directory. To serve, bytes
//! are read from the file's own place ([`FileCache`]) and proofs from the outboard ([`OutboardReader`]). To fetch,
//! proven segments and nodes go in ([`Partial::put`], which takes only `Verified`), and a file gets its final name when
//! it is whole ([`Partial::finish_as`], [`Staging`] for directories). A later run resumes what an earlier one left, and
//! trusts nothing that does not hash to the root ([`Scan`]).
//!
//! It has no thread, no clock and no cache of content. It flushes to the device only when asked ([`Partial::sync`]),
//! and accesses files only through [`Medium`]. docs/spec/store.md describes the layout and the assumptions about the
//! medium.
//!
//! ```
//! use std::sync::Arc;
//! use xylem_store::{DiskMedium, ObjectPart, Store, hash_file};
//! use xylem_tree::SegmentSize;
//!
//! let place = tempfile::tempdir()?;
//! let file = place.path().join("file");
//! std::fs::write(&file, vec![7; 100_000])?;
//!
//! let medium = Arc::new(DiskMedium::new());
//! let store = Store::open(medium.clone(), &place.path().join("store"))?;
//! let new = store.new_file()?;
//! let mut nodes = new.outboard().writer_at(0);
//! let hashed = hash_file(
//!     &*medium,
//!     &file,
//!     None,
//!     SegmentSize::DEFAULT,
//!     Some(&mut nodes),
//!     &mut Vec::new(),
//!     &|_bytes| {},
//! )?;
//! nodes.flush()?;
//! store.keep(new, &hashed.root, ObjectPart::Outboard)?;
//! assert_eq!(hashed.root, xylem_hash::hash(&[7; 100_000]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// In the order in which bytes flow: the basis of everything, the store's own directory, publishing and serving,
// fetching.
mod layout;
mod parts;

mod error;
mod medium;

mod disk;
mod file;
mod sparse;

mod long_names;

mod atomic;
mod dirs;

mod store;

mod format;
mod known;
mod old_shares;
mod pins;

mod catalog;
mod objects;

mod outboard;

mod node_buffer;

mod part;

mod runs;

mod publish;

mod serve;

mod scan;

mod blocks;
mod servable;

mod attributes;
mod partial;

mod ordered;
mod range;

mod repair;

mod seen;

mod names;
mod sweep;

mod unfinished;

mod staging;

mod check;
mod collect;

pub use atomic::{
    Durability, install, read_small, remove_unfinished, write_atomically, write_whole,
};
pub use catalog::KnownPaths;
pub use check::{TreeCheck, check_growing_tree, check_tree, segments_of_outboard};
pub use collect::{CollectOptions, CollectSummary};
pub use dirs::{create_dirs, keep_private, require_private};
pub use disk::{DiskMedium, in_order, read_stream};
pub use error::{Difference, StoreError};

pub use attributes::{Attributes, OverwritePolicy, RefusedAttributes, set_attributes};
pub use file::{FileRef, FileState};
pub use format::is_store;
pub use known::{CatalogRecord, MAX_KNOWN_PATH, MAX_NOTE, RecordError, RecordOrigin};
pub use layout::FORMAT;
pub use long_names::name_around;
pub use medium::{
    Clobber, DirItem, FileKind, FileTime, FileWatch, Medium, MediumFile, Meta, OpenHow,
};
pub use names::{FolderNames, FolderVisit};
pub use objects::{ObjectInfo, Objects};
pub use old_shares::OldShare;
pub use ordered::{GrowingFile, VerifiedStream};
pub use outboard::{OutboardFile, OutboardReader, OutboardWriter};
pub use part::PartFile;
pub use partial::{MAX_UNRECORDED, Partial, Resumed, Resuming};
pub use parts::ObjectPart;
pub use publish::{HashedFile, RegionReader, hash_and_sum_file, hash_file, require_size};
pub use range::RangeFile;
pub use repair::{FileRepair, RepairRecord};
pub use runs::RegionRuns;
pub use scan::{RegionScan, Scan, ScanBuffer};
pub use seen::{DiskAttributes, DiskAttributesReader, DiskAttributesWriter};
pub use servable::OnServable;
pub use serve::{FileCache, SharedFile, SharedRead, limit_open_files};
pub use sparse::{SparseReader, is_zero};
pub use staging::{IsSpared, MAX_SMALL_FILE, MergeTarget, SmallFile, Staging, TargetListing};
pub use store::{NewFile, Store};
pub use sweep::{MAX_DEPTH, remove_tree};
pub use unfinished::{Unfinished, UnfinishedKind};
