//! [`ObjectPart`]: the stored parts of an object, and the names of their files below the store's directory.

use std::path::PathBuf;

use xylem_hash::Hash;

use crate::layout::{OBJECTS, PARTIAL};

/// A stored part of an object, besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectPart {
    /// The in-order nodes of one file's (or one listing's) tree: `.outboard`.
    Outboard,
    /// The outboards of all files of a directory that have more than one segment, one after the
    /// other, under the listing's root: `.files`.
    FileOutboards,
    /// The listing of a directory: `.listing`.
    Listing,
    /// The signed manifest: `.manifest`.
    Manifest,
    /// The list of sums for updates, under the publication's root: `.sums`.
    Sums,
    /// Pieces of a file that is read without a whole fetch, and their nodes; never finished: `.content`.
    Content,
}

impl ObjectPart {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Outboard,
        Self::FileOutboards,
        Self::Listing,
        Self::Manifest,
        Self::Sums,
        Self::Content,
    ];

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Outboard => "outboard",
            Self::FileOutboards => "files",
            Self::Listing => "listing",
            Self::Manifest => "manifest",
            Self::Sums => "sums",
            Self::Content => "content",
        }
    }
}

pub(crate) fn object_name(root: &Hash, part: ObjectPart) -> PathBuf {
    PathBuf::from(format!("{OBJECTS}/{}.{}", root.to_hex(), part.extension()))
}

/// Name of a part of one of several fetches of the same object.
pub(crate) fn further_partial_name(root: &Hash, part: ObjectPart, place: u64) -> PathBuf {
    PathBuf::from(format!("{PARTIAL}/{}-{place:x}.{}", root.to_hex(), part.extension()))
}

pub(crate) fn partial_name(root: &Hash, part: ObjectPart) -> PathBuf {
    PathBuf::from(format!("{PARTIAL}/{}.{}", root.to_hex(), part.extension()))
}
