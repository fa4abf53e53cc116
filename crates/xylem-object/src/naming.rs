//! Names of requests: from a request to its name, and back.
//!
//! The publisher chooses an object name O. P = `O/v=<microseconds>` is one publication, which never changes. All
//! requests lie under P, except the pointer to the newest P:
//!
//! | name | holds |
//! |---|---|
//! | P/_root | the manifest |
//! | P/seg=n | segment n of the object itself |
//! | P/32=tree/seq=t/seq=i | tile i of tier t of its tree |
//! | P/32=file/seq=f/seg=n | segment n of a directory's regular file f |
//! | P/32=file/seq=f/32=tree/seq=t/seq=i | tile i of tier t of that file's tree |
//! | P/32=sums/seg=n, P/32=sums/32=tree/seq=t/seq=i | the same of the list of sums for updates |
//! | P/32=have/(8 bytes) | what the asked peer can serve of P now ([`crate::Have`]) |
//! | O/32=metadata | which P is the newest (RDR) |
//!
//! Peers also ask each other for further peers, under P/32=peers: [`crate::peers`].
//!
//! The component types are those of the NDN naming conventions, revision 3. This module is the only definition; all
//! code that composes or parses such names uses it.
//!
//! ```
//! use xylem_object::naming::{self, ObjectId, PublicationRequest};
//! use xylem_packet::Name;
//! use xylem_tree::SegmentIndex;
//!
//! let object = Name::from_uri("/alice/model").unwrap();
//! let prefix = naming::versioned(object.as_ref(), 7)?;
//! let request = PublicationRequest::Segment { object: ObjectId::File(2), index: SegmentIndex(5) };
//! let name = naming::encode(prefix.as_ref(), &request);
//! assert_eq!(name.to_string(), "/alice/model/v=7/32=file/seq=2/seg=5");
//! assert_eq!(naming::parse(prefix.as_ref(), name.as_ref()), Some(request));
//! # Ok::<(), naming::PrefixError>(())
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::types::{SEGMENT_COMPONENT, SEQUENCE_COMPONENT, VERSION_COMPONENT};
use xylem_packet::{Component, Name, NameRef};
use xylem_tree::{SegmentIndex, Tile};

use crate::keys::{KeyId, PublisherId};

/// Most bytes that P's components may take. It keeps every Data packet of a publication of up to
/// [`crate::MAX_SEGMENTS`] segments within [`xylem_packet::MAX_PACKET`]. The largest such packet is a full tile of a
/// directory's file, with P in both its name and its KeyLocator.
pub const MAX_PREFIX: usize = 140;
/// Most bytes of a file name that [`default_name`] keeps.
pub const MAX_DEFAULT_FILE_NAME: usize = 96;

const ROOT: &[u8] = b"_root";
const TREE: &[u8] = b"tree";
const FILE: &[u8] = b"file";
const METADATA: &[u8] = b"metadata";
const HAVE: &[u8] = b"have";
const SUMS: &[u8] = b"sums";

/// Identifies one object of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// The object itself: the file, or the directory's listing.
    Root,
    /// A directory's regular file, by its place among the listing's regular files, from 0.
    File(u64),
    /// The list of sums by which getters search old copies ([`crate::sums`]).
    Sums,
}

/// A request that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PublicationRequest {
    /// The signed manifest.
    Manifest,
    /// One segment.
    Segment {
        /// The object.
        object: ObjectId,
        /// The segment.
        index: SegmentIndex,
    },
    /// One tile of the tree.
    Tile {
        /// The object.
        object: ObjectId,
        /// The tile.
        tile: Tile,
    },
    /// The parts of the publication that the peer can serve now: [`crate::Have`].
    Have {
        /// Random, so that each request has its own name and no forwarder aggregates or caches the answers of different
        /// peers.
        nonce: [u8; 8],
    },
    /// The newest version.
    Metadata,
}

/// A name that cannot be a publication's prefix P.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// There is no name before the version.
    #[error("an object's name needs at least one component")]
    NoName,
    /// The last component is not a version.
    #[error("the name does not end in a version (v=…)")]
    NoVersion,
    /// Longer than [`MAX_PREFIX`].
    #[error("the name takes {0} bytes, more than {MAX_PREFIX}: choose a shorter one")]
    TooLong(usize),
}

/// Checks that `prefix` is a valid P: a name of at least one component, then a version, at most [`MAX_PREFIX`] bytes.
///
/// # Errors
/// See [`PrefixError`].
pub fn check_prefix(prefix: NameRef<'_>) -> Result<(), PrefixError> {
    match prefix.last() {
        None => return Err(PrefixError::NoName),
        Some(_) if version(prefix).is_none() => {
            return Err(PrefixError::NoVersion);
        }
        Some(_) if prefix.len() == 1 => return Err(PrefixError::NoName),
        Some(_) => {}
    }
    match prefix.value().len() {
        len if len > MAX_PREFIX => Err(PrefixError::TooLong(len)),
        _ => Ok(()),
    }
}

/// P: the object name with its version, microseconds since 1970 by convention.
///
/// # Errors
/// See [`check_prefix`].
pub fn versioned(object: NameRef<'_>, microseconds: u64) -> Result<Name, PrefixError> {
    let prefix = object.child(Component::version(microseconds));
    check_prefix(prefix.as_ref())?;
    Ok(prefix)
}

/// The version at the end of a P.
pub fn version(prefix: NameRef<'_>) -> Option<u64> {
    prefix.last()?.as_number_of(VERSION_COMPONENT)
}

/// The default O, if the publisher chose none: `/xylem/<key id>/<file name>`.
///
/// In the file name, control characters, `/` and bytes that are not UTF-8 become `_`. The name is truncated at
/// [`MAX_DEFAULT_FILE_NAME`] bytes; an empty name becomes `_`.
pub fn default_name(publisher: &PublisherId, file_name: &[u8]) -> Name {
    let mut kept = String::new();
    for character in String::from_utf8_lossy(file_name).chars() {
        let replaced = character.is_control() || matches!(character, '/' | '\u{fffd}');
        let character = if replaced { '_' } else { character };
        if kept.len().saturating_add(character.len_utf8()) > MAX_DEFAULT_FILE_NAME {
            break;
        }
        kept.push(character);
    }
    if kept.is_empty() {
        kept.push('_');
    }
    publisher_name(&publisher.key_id()).child(Component::generic(kept.as_bytes()))
}

/// The KeyLocator in packets that a publisher signs: `/xylem/<key id>/KEY`.
pub fn key_name(key: &KeyId) -> Name {
    publisher_name(key).child(Component::generic(b"KEY"))
}

fn publisher_name(key: &KeyId) -> Name {
    let mut name = Name::new();
    name.push(Component::generic(b"xylem")).push(Component::generic(key.to_string().as_bytes()));
    name
}

/// The name of `request` for the publication at `prefix`.
pub fn encode(prefix: NameRef<'_>, request: &PublicationRequest) -> Name {
    match *request {
        PublicationRequest::Manifest => prefix.child(Component::generic(ROOT)),
        PublicationRequest::Segment { object, index } => {
            let mut name = object_prefix(prefix, object);
            name.push(Component::segment(index.0));
            name
        }
        PublicationRequest::Tile { object, tile } => {
            let mut name = object_prefix(prefix, object);
            name.push(Component::keyword(TREE))
                .push(Component::sequence(u64::from(tile.tier)))
                .push(Component::sequence(tile.index));
            name
        }
        PublicationRequest::Have { nonce } => {
            let mut name = prefix.to_name();
            name.push(Component::keyword(HAVE)).push(Component::generic(&nonce));
            name
        }
        PublicationRequest::Metadata => prefix.parent().child(Component::keyword(METADATA)),
    }
}

/// Returns whether `name` is that of a metadata packet, which states the newest version of `object`:
/// `O/32=metadata/v=V/seg=0`, for any V.
pub fn is_metadata(object: NameRef<'_>, name: NameRef<'_>) -> bool {
    let Some(rest) = name.strip_prefix(object) else { return false };
    let mut rest = rest.iter();
    rest.next() == Some(Component::keyword(METADATA))
        && rest.next().is_some_and(|c| c.as_number_of(VERSION_COMPONENT).is_some())
        && rest.next() == Some(Component::segment(0))
        && rest.next().is_none()
}

fn object_prefix(prefix: NameRef<'_>, object: ObjectId) -> Name {
    let mut name = prefix.to_name();
    match object {
        ObjectId::Root => {}
        ObjectId::File(file) => {
            name.push(Component::keyword(FILE)).push(Component::sequence(file));
        }
        ObjectId::Sums => {
            name.push(Component::keyword(SUMS));
        }
    }
    name
}

/// Parses the request that `name` stands for, of the publication at `prefix`; `None` if the table above has no such
/// name. Whether the segment or tile exists depends on the tree and is not checked here.
pub fn parse(prefix: NameRef<'_>, name: NameRef<'_>) -> Option<PublicationRequest> {
    let Some(under_prefix) = name.strip_prefix(prefix) else {
        let mut under_object = name.strip_prefix(prefix.parent())?.iter();
        let metadata = under_object.next() == Some(Component::keyword(METADATA));
        return (metadata && under_object.len() == 0).then_some(PublicationRequest::Metadata);
    };
    let mut rest = under_prefix.iter();
    let mut first = rest.next()?;
    let mut object = ObjectId::Root;
    if first == Component::keyword(FILE) {
        object = ObjectId::File(rest.next()?.as_number_of(SEQUENCE_COMPONENT)?);
        first = rest.next()?;
    } else if first == Component::keyword(SUMS) {
        object = ObjectId::Sums;
        first = rest.next()?;
    }
    let request = if let Some(index) = first.as_number_of(SEGMENT_COMPONENT) {
        PublicationRequest::Segment { object, index: SegmentIndex(index) }
    } else if first == Component::keyword(TREE) {
        let tier = u8::try_from(rest.next()?.as_number_of(SEQUENCE_COMPONENT)?).ok()?;
        PublicationRequest::Tile {
            object,
            tile: Tile { tier, index: rest.next()?.as_number_of(SEQUENCE_COMPONENT)? },
        }
    } else if first == Component::generic(ROOT) && object == ObjectId::Root {
        PublicationRequest::Manifest
    } else if first == Component::keyword(HAVE) && object == ObjectId::Root {
        PublicationRequest::Have { nonce: nonce(rest.next()?)? }
    } else {
        return None;
    };
    rest.next().is_none().then_some(request)
}

fn nonce(component: Component<'_>) -> Option<[u8; 8]> {
    let nonce: [u8; 8] = component.value().try_into().ok()?;
    (component == Component::generic(&nonce)).then_some(nonce)
}
