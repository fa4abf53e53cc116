//! [`LibraryEvent`]: what happens while a call works on files.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use xylem_base::{advised, json};
use xylem_hash::Hash;
use xylem_object::witness::WitnessStatement;
use xylem_packet::Name;
use xylem_store::StoreError;

/// Events of a call that works on files, in order. As JSON, an event of `docs/spec/json-events.md`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LibraryEvent {
    /// Content is read and hashed before serving, or verified after an earlier run.
    Hashing {
        /// Bytes read so far.
        done: u64,
        /// Bytes in all; 0 if unknown.
        total: u64,
    },
    /// Something requested could not be done; the run continues.
    #[serde(rename = "trouble")]
    Warning {
        /// One line.
        what: String,
    },
    /// A path was left out of the publication or fetch.
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
    /// Contents of a directory about to be fetched, from its verified listing.
    Contents {
        /// Files in listing order; at most the first thousand.
        files: Vec<ListedSize>,
        /// Number of further files.
        more: u64,
    },
    /// Counts of what a finished walk left out.
    LeftOut {
        /// Left out by patterns; a directory counts once.
        excluded: u64,
        /// Left out as unreadable; the first of these were reported one by one.
        unreadable: u64,
    },
    /// Dry run: a fetch would write this file or make this link.
    Planned {
        /// Its path below the directory; for a single file, its destination.
        #[serde(serialize_with = "json::path")]
        path: PathBuf,
        /// Its size, an upper limit of the bytes fetched.
        bytes: u64,
        /// Whether it would replace something.
        replaces: bool,
    },
    /// Dry run: totals, after the last planned file.
    DryRun {
        /// Files and links that would be new or replaced.
        files: u64,
        /// Their bytes; old copies may save some.
        bytes: u64,
        /// How many would replace something.
        replaced: u64,
        /// Files and links that would be removed.
        removed: u64,
    },
    /// Unpublished files that will be removed when the fetch is complete. Beyond a thousand files there are several
    /// such events.
    Removing {
        /// Number of files and links.
        files: u64,
        /// Their paths below the directory.
        #[serde(serialize_with = "json::paths")]
        paths: Vec<PathBuf>,
    },
    /// Content of an earlier run, or unchanged content, was found and verified.
    Resumed {
        /// Bytes that need not be fetched again.
        bytes: u64,
    },
    /// A bad place that `scrub` found.
    Flaw(FlawFound),
    /// A bad place was repaired: fetched, verified, written and read back.
    Mended {
        /// The file.
        #[serde(serialize_with = "json::path")]
        path: PathBuf,
        /// The flaw.
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
    /// It is the rest of an interrupted fetch.
    UnfinishedFetch,
    /// It is a socket, pipe or device, which a listing cannot contain.
    NotAFile,
    /// It is a store, or a folder of keys or mail.
    Ours,
    /// It is what `xylem sync` keeps in a folder for its member alone: the trash and indices.
    KeptInStep,
    /// It is a hard link to this file, which is left out.
    TargetExcluded(PathBuf),
    /// It cannot be read, and is not published; one line.
    CannotRead(String),
    /// It changed while it was read, and is published once it rests; one line that names the change.
    Changing(String),
    /// Its name, its depth or its target cannot be listed; one line.
    NotListed(String),
    /// It cannot be read while it is served; one line.
    Unreadable(String),
    /// It was changed, moved or removed since it was shared; one line that names the change.
    Changed(String),
}

impl SkipReason {
    /// Returns the reason why served content cannot be read.
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
            Self::KeptInStep => {
                f.write_str("private data of `xylem sync`, which is never published")
            }
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
    /// Its size, bytes.
    pub size: u64,
}

/// Co-signature of a version by a witness, as reported to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Testimony {
    /// The witness.
    #[serde(serialize_with = "json::text")]
    pub witness: Name,
    /// The version.
    pub version: u64,
    /// Size of the version in bytes.
    pub bytes: u64,
    /// Whether the witness verified that the version begins with what it saw before.
    pub proven: bool,
    /// Time of the co-signature, by the witness's clock, in milliseconds since 1970.
    pub time_ms: u64,
    /// Start of the witness's unbroken record, in milliseconds since 1970.
    pub since_ms: u64,
    /// First version of that record.
    pub first: u64,
}

impl Testimony {
    /// Makes the report of a statement by `witness`.
    #[must_use]
    pub fn new(witness: Name, said: &WitnessStatement) -> Self {
        let WitnessStatement { version, size, proven, time_ms, since_ms, first, .. } = *said;
        Self { witness, version, bytes: size, proven, time_ms, since_ms, first }
    }
}

/// A checkpoint of a growing object: made here, or fetched and proven to continue the last one.
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
    /// Whether the publisher marked it as the last.
    pub last: bool,
}

/// Kind of flaw at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Flaw {
    /// The bytes are not those that were hashed.
    Damaged,
    /// The disk does not return the bytes.
    Unreadable,
    /// Some bytes are wrong, and the tree that would locate the damage is wrong too.
    Unproven,
    /// The file is longer than it should be.
    Longer,
    /// Nodes of the tree are wrong; the range lies in the tree's own file.
    Tree,
    /// The file was edited after it was hashed. It is left alone.
    Changed,
    /// The file is gone.
    Missing,
    /// The file cannot be opened or read at all.
    Failed,
    /// A repair was killed before its end: all bytes are right, only the time differs.
    Unfinished,
}

impl Flaw {
    /// Returns whether its range is one of the file's own bytes.
    pub fn is_of_bytes(self) -> bool {
        matches!(self, Self::Damaged | Self::Unreadable | Self::Unproven | Self::Longer)
    }
}

/// A bad place. Its range is empty if it does not concern bytes.
#[derive(Clone, Debug, Serialize)]
pub struct FlawFound {
    /// The file.
    #[serde(serialize_with = "json::path")]
    pub path: PathBuf,
    /// The flaw.
    pub flaw: Flaw,
    /// First bad byte.
    pub start: u64,
    /// The byte after the last bad one.
    pub end: u64,
    /// First block of 16 KiB that it touches, counted from 0.
    pub first_block: u64,
    /// Number of blocks that it touches; 0 if it does not concern bytes of the file.
    pub blocks: u64,
    /// Description in words.
    pub what: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::Path;
    use xylem_store::Difference;

    #[test]
    fn a_removed_file_counts_as_changed_not_unreadable() {
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
