//! [`LibraryEvent`]: what happens while a call works on files.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use xylem_hash::Hash;
use xylem_packet::Name;
use xylem_store::StoreError;

use crate::error::advised;
use crate::json;
use crate::witness::Testimony;

/// What happens while a call works on files, in order; as JSON, an event of
/// `docs/spec/json-events.md`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LibraryEvent {
    /// Reading and hashing before serving, or reading back what an earlier run left.
    Hashing {
        /// Bytes read so far.
        done: u64,
        /// Bytes in all; 0 where not known.
        total: u64,
    },
    /// Something that was wanted could not be done; the run goes on.
    #[serde(rename = "trouble")]
    Warning {
        /// One line.
        what: String,
    },
    /// A path was left out of what is published or fetched.
    Skipped {
        /// The path.
        #[serde(serialize_with = "json::path")]
        path: PathBuf,
        /// Why.
        why: SkipReason,
    },
    /// A growing object has a new checkpoint.
    Checkpoint(CheckpointMade),
    /// A witness has co-signed a version.
    Cosigned(Testimony),
    /// What a directory holds that is about to be fetched, by its verified listing.
    Contents {
        /// Files in listing order; the first thousand at most.
        files: Vec<ListedSize>,
        /// Files beyond those.
        more: u64,
    },
    /// What a walk left out, when it is over.
    LeftOut {
        /// By patterns; a directory counts once.
        excluded: u64,
        /// Because it can't be read; the first ones were told one by one.
        unreadable: u64,
    },
    /// A fetch would bring this file, or make this link: a dry run.
    Planned {
        /// Its path below the directory; of a single file, where it would go.
        #[serde(serialize_with = "json::path")]
        path: PathBuf,
        /// Bytes; no more than these are fetched.
        bytes: u64,
        /// Something is there that it would replace.
        replaces: bool,
    },
    /// All that a fetch would do was told: a dry run.
    DryRun {
        /// Files and links that would be new or replaced.
        files: u64,
        /// Bytes of those; old copies may spare some.
        bytes: u64,
        /// How many would replace something.
        replaced: u64,
        /// Files and links that would be removed.
        removed: u64,
    },
    /// What is there and was not published is removed when the fetch is complete. Where it is more than a thousand
    /// files, there are several such events.
    Removing {
        /// Files and links.
        files: u64,
        /// Their paths below the directory.
        #[serde(serialize_with = "json::paths")]
        paths: Vec<PathBuf>,
    },
    /// Something was there already, of an earlier run or unchanged, and verified.
    Resumed {
        /// Bytes that need not be fetched again.
        bytes: u64,
    },
    /// A place that [`crate::scrub::scrub`] found bad.
    Flaw(FlawFound),
    /// A bad place is right again: fetched, proven, written and read back.
    Mended {
        /// The file.
        #[serde(serialize_with = "json::path")]
        path: PathBuf,
        /// What was wrong.
        flaw: Flaw,
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
    },
}

/// Why a path was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It is what an interrupted fetch left.
    UnfinishedFetch,
    /// A listing has no socket, pipe or device.
    NotAFile,
    /// It is a store, or a folder of keys or mail.
    Ours,
    /// It is what `xylem sync` keeps in a folder for its members alone: what others removed, and indices.
    KeptInStep,
    /// It is another name of this file, which is left out.
    TargetExcluded(PathBuf),
    /// It can't be read, and is not published; why, in one line.
    CannotRead(String),
    /// It was changed while it was read, and is published when it rests; what was found, in one line.
    Changing(String),
    /// Its name, its depth or its target can't be in a listing; why, in one line.
    NotListed(String),
    /// It can't be read while it is served; why, in one line.
    Unreadable(String),
    /// It was changed, moved or removed since it is served; what was found, in one line.
    Changed(String),
}

impl SkipReason {
    /// Why what is served can't be read.
    pub fn of_served(e: &StoreError) -> Self {
        match e {
            StoreError::Changed { .. } | StoreError::NotFound { .. } => Self::Changed(advised(e)),
            _ => Self::Unreadable(advised(e)),
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnfinishedFetch => f.write_str("an unfinished fetch of xylem"),
            Self::Ours => f.write_str("a xylem store, whose keys and trees are never published"),
            Self::KeptInStep => f.write_str(
                "what `xylem sync` keeps for its members alone, which is never published",
            ),
            Self::NotAFile => f.write_str("not a file, directory or link"),
            Self::CannotRead(why)
            | Self::Changing(why)
            | Self::NotListed(why)
            | Self::Unreadable(why)
            | Self::Changed(why) => f.write_str(why),
            Self::TargetExcluded(target) => {
                write!(f, "a hard link to {}, which is left out", target.display())
            }
        }
    }
}

impl Serialize for SkipReason {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        json::text(self, to)
    }
}

/// A file of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedSize {
    /// Its path below the directory.
    #[serde(serialize_with = "json::path")]
    pub path: PathBuf,
    /// Its bytes.
    pub size: u64,
}

/// A checkpoint of a growing object: made, or fetched and proven to continue the last one.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointMade {
    /// Counted from 0.
    pub number: u64,
    /// Version component of its name.
    pub version: u64,
    /// Versioned NDN name.
    #[serde(serialize_with = "json::text")]
    pub name: Name,
    /// Root.
    #[serde(serialize_with = "json::text")]
    pub root: Hash,
    /// Bytes of content.
    pub bytes: u64,
    /// The publisher says that nothing comes after it.
    pub last: bool,
}

/// What is wrong with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Flaw {
    /// The bytes are not those that were hashed.
    Damaged,
    /// The disk does not give the bytes back.
    Unreadable,
    /// Something in there is wrong, and the tree that would tell what is damaged as well.
    Unproven,
    /// The file goes on where it should end.
    Longer,
    /// Nodes of the tree are wrong; the range is where the tree lies in its own file.
    Tree,
    /// Somebody edited the file since it was hashed. It is left alone.
    Changed,
    /// The file is gone.
    Missing,
    /// The file can't be opened or read at all.
    Failed,
    /// A repair was killed before its end, and all bytes are right: only the time is another.
    Unfinished,
}

impl Flaw {
    /// Whether its range is one of the file's own bytes.
    pub(crate) fn is_of_bytes(self) -> bool {
        matches!(self, Self::Damaged | Self::Unreadable | Self::Unproven | Self::Longer)
    }
}

/// A bad place. Its range is empty where it is not about bytes.
#[derive(Clone, Debug, Serialize)]
pub struct FlawFound {
    /// The file.
    #[serde(serialize_with = "json::path")]
    pub path: PathBuf,
    /// What is wrong.
    pub flaw: Flaw,
    /// First bad byte.
    pub start: u64,
    /// The byte after the last bad one.
    pub end: u64,
    /// First block of 16 KiB that it touches, counted from 0.
    pub first_block: u64,
    /// Blocks that it touches; 0 where it is not about bytes of the file.
    pub blocks: u64,
    /// In words.
    pub what: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::Path;
    use xylem_store::Difference;

    #[test]
    fn what_is_not_there_any_more_is_no_bad_disk() {
        let path = PathBuf::from("a");
        let changed = StoreError::Changed { path: path.clone(), what: Difference::Mtime };
        let of =
            |kind: io::ErrorKind| StoreError::from_io("read", Path::new("a"), None, kind.into());
        for (e, is_change) in [
            (changed, true),
            (StoreError::NotFound { path }, true),
            (of(io::ErrorKind::NotFound), true),
            (of(io::ErrorKind::PermissionDenied), false),
        ] {
            let is = matches!(SkipReason::of_served(&e), SkipReason::Changed(_));
            assert_eq!(is, is_change, "{e}");
        }
    }
}
