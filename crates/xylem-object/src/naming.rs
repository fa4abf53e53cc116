//! Names: which request a name is, and back.
//!
//! An object name O is chosen by the publisher; P = `O/v=<microseconds>` is one publication, never
//! changed after. All that can be asked for lies under P, save the pointer to the newest P:
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
//! Peers also ask each other who else is there, under P/32=peers: [`crate::peers`].
//!
//! The component types are those of the NDN naming conventions, revision 3. This is the one
//! definition: whoever makes or takes a name apart does it here.
//!
//! ```
//! use xylem_object::naming::{self, ObjectId, Request};
//! use xylem_packet::Name;
//! use xylem_tree::SegmentIndex;
//!
//! let object = Name::from_uri("/alice/model").unwrap();
//! let prefix = naming::versioned(object.as_ref(), 7)?;
//! let request = Request::Segment { object: ObjectId::File(2), index: SegmentIndex(5) };
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

/// Most bytes that P's components may take. With it, every Data packet of a publication of up to
/// [`crate::MAX_SEGMENTS`] segments stays within [`xylem_packet::MAX_PACKET`]: a full tile of a
/// directory's file, whose name and KeyLocator both hold P, is the largest.
pub const MAX_PREFIX: usize = 140;
/// Most bytes of a file name that [`default_name`] keeps.
pub const MAX_DEFAULT_FILE_NAME: usize = 96;

const ROOT: &[u8] = b"_root";
const TREE: &[u8] = b"tree";
const FILE: &[u8] = b"file";
const METADATA: &[u8] = b"metadata";
const HAVE: &[u8] = b"have";
const SUMS: &[u8] = b"sums";

/// Which of a publication's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// The object itself: the file, or the directory's listing.
    Root,
    /// A directory's regular file, by its place among the listing's regular files, from 0.
    File(u64),
    /// The list of sums that old copies are searched with ([`crate::sums`]).
    Sums,
}

/// What a name asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// The signed manifest.
    Manifest,
    /// One segment.
    Segment {
        /// Of which object.
        object: ObjectId,
        /// Which segment.
        index: SegmentIndex,
    },
    /// One tile of the tree.
    Tile {
        /// Of which object.
        object: ObjectId,
        /// Which tile.
        tile: Tile,
    },
    /// What the asked peer can serve of the publication now: [`crate::Have`].
    Have {
        /// Random, so that each question has a name of its own and no forwarder joins or caches the
        /// answers of different peers.
        nonce: [u8; 8],
    },
    /// Which version is the newest.
    Metadata,
}

/// A name that cannot be a publication's prefix P.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Nothing before the version.
    #[error("an object's name needs at least one component")]
    NoName,
    /// The last component is no version.
    #[error("the name does not end in a version (v=…)")]
    NoVersion,
    /// Above [`MAX_PREFIX`].
    #[error("the name takes {0} bytes, more than {MAX_PREFIX}: choose a shorter one")]
    TooLong(usize),
}

/// Checks that `prefix` can be a P: a name of at least one component, then a version, short enough.
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

/// O where the publisher chose none: `/xylem/<key id>/<file name>`.
///
/// Of the file name, control characters, `/` and what is not UTF-8 become `_`, and the name is cut
/// at [`MAX_DEFAULT_FILE_NAME`] bytes; a name that is empty becomes `_`.
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

/// The KeyLocator of what a publisher signs: `/xylem/<key id>/KEY`.
pub fn key_name(key: &KeyId) -> Name {
    publisher_name(key).child(Component::generic(b"KEY"))
}

fn publisher_name(key: &KeyId) -> Name {
    let mut name = Name::new();
    name.push(Component::generic(b"xylem")).push(Component::generic(key.to_string().as_bytes()));
    name
}

/// The name of what `request` asks for, of the publication at `prefix`.
pub fn encode(prefix: NameRef<'_>, request: &Request) -> Name {
    match *request {
        Request::Manifest => prefix.child(Component::generic(ROOT)),
        Request::Segment { object, index } => {
            let mut name = object_prefix(prefix, object);
            name.push(Component::segment(index.0));
            name
        }
        Request::Tile { object, tile } => {
            let mut name = object_prefix(prefix, object);
            name.push(Component::keyword(TREE))
                .push(Component::sequence(u64::from(tile.tier)))
                .push(Component::sequence(tile.index));
            name
        }
        Request::Have { nonce } => {
            let mut name = prefix.to_name();
            name.push(Component::keyword(HAVE)).push(Component::generic(&nonce));
            name
        }
        Request::Metadata => prefix.parent().child(Component::keyword(METADATA)),
    }
}

/// Whether `name` is that of a packet which says what the newest version of `object` is:
/// `O/32=metadata/v=V/seg=0`, whatever V.
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

/// What `name` asks for, of the publication at `prefix`; `None` if it is no name of the table
/// above. Whether there is such a segment or tile is for the tree to say.
pub fn parse(prefix: NameRef<'_>, name: NameRef<'_>) -> Option<Request> {
    let Some(under_prefix) = name.strip_prefix(prefix) else {
        let mut under_object = name.strip_prefix(prefix.parent())?.iter();
        let metadata = under_object.next() == Some(Component::keyword(METADATA));
        return (metadata && under_object.len() == 0).then_some(Request::Metadata);
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
        Request::Segment { object, index: SegmentIndex(index) }
    } else if first == Component::keyword(TREE) {
        let tier = u8::try_from(rest.next()?.as_number_of(SEQUENCE_COMPONENT)?).ok()?;
        Request::Tile {
            object,
            tile: Tile { tier, index: rest.next()?.as_number_of(SEQUENCE_COMPONENT)? },
        }
    } else if first == Component::generic(ROOT) && object == ObjectId::Root {
        Request::Manifest
    } else if first == Component::keyword(HAVE) && object == ObjectId::Root {
        Request::Have { nonce: nonce(rest.next()?)? }
    } else {
        return None;
    };
    rest.next().is_none().then_some(request)
}

fn nonce(component: Component<'_>) -> Option<[u8; 8]> {
    let nonce: [u8; 8] = component.value().try_into().ok()?;
    (component == Component::generic(&nonce)).then_some(nonce)
}
