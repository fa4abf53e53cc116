//! [`LibraryEvent`]: what a call tells while it works on files.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::json;
use crate::scrub::ScrubEvent;

/// What happens while a call works on files, in order.
///
/// As JSON it is one of docs/spec/json-events.md.
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
    /// A path was left out of what is published or fetched, and why.
    Skipped {
        /// The path.
        #[serde(serialize_with = "json::path")]
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A growing object has a new checkpoint.
    Checkpoint(CheckpointMade),
    /// What a directory holds that is about to be fetched, by its verified listing.
    Contents {
        /// Files in listing order with their sizes; the first thousand at most.
        #[serde(serialize_with = "items")]
        files: Vec<(PathBuf, u64)>,
        /// Files beyond those.
        more: u64,
    },
    /// Something of an earlier run was there and verified.
    Resumed {
        /// Bytes that need not be fetched again.
        bytes: u64,
    },
    /// Something that [`crate::scrub::scrub`] found or mended.
    #[serde(untagged)]
    Scrub(ScrubEvent),
}

/// A checkpoint of a growing object: made, or fetched and proven to continue the last one.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointMade {
    /// Counted from 0.
    pub number: u64,
    /// Version component of its name.
    pub version: u64,
    /// Versioned NDN name, as URI.
    pub name: String,
    /// Root, hexadecimal.
    pub root: String,
    /// Bytes of content.
    pub bytes: u64,
    /// The publisher says that nothing comes after it.
    pub last: bool,
}

fn items<S: Serializer>(files: &[(PathBuf, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Item<'a> {
        #[serde(serialize_with = "json::path")]
        path: &'a Path,
        size: u64,
    }
    serializer.collect_seq(files.iter().map(|(path, size)| Item { path, size: *size }))
}
