//! What callers of [`scrub`](super::scrub()) say and hear.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::{Error, json};

/// Damage is told in blocks of this many bytes.
pub const BLOCK: u64 = 16 * 1024;
/// What to re-read, and what to do about damage.
#[derive(Clone, Debug)]
pub struct ScrubOptions {
    /// Files and directories that were shared or fetched, or lie in such a directory; none:
    /// everything that the store knows of.
    pub paths: Vec<PathBuf>,
    /// Put right what is damaged.
    pub repair: bool,
    /// More tickets for the same content.
    pub tickets: Vec<String>,
    /// Bytes to read a second at most.
    pub limit_rate: Option<u64>,
    /// The store.
    pub store: PathBuf,
}

/// What is wrong with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Blocks of [`BLOCK`] bytes that `bytes` touch, from 0; none where the range is not one of the
    /// file's own bytes.
    #[must_use]
    pub fn blocks(self, bytes: &Range<u64>) -> Range<u64> {
        match self {
            Self::Damaged | Self::Unreadable | Self::Unproven | Self::Longer => {
                bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)
            }
            _ => 0..0,
        }
    }

    /// One word, as in JSON events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Unreadable => "unreadable",
            Self::Unproven => "unproven",
            Self::Longer => "longer",
            Self::Tree => "tree",
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Failed => "failed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// What is found while it goes on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ScrubEvent {
    /// One bad place.
    Found {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        flaw: Flaw,
        /// Which bytes (empty where it is not about bytes); the end is not included.
        bytes: Range<u64>,
        /// In words.
        what: String,
    },
    /// A bad place is right again: fetched, proven, written and read back.
    Mended {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        flaw: Flaw,
        /// Which bytes.
        bytes: Range<u64>,
    },
}

impl Serialize for ScrubEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "event", rename_all = "snake_case")]
        enum Row<'a> {
            Flaw {
                #[serde(serialize_with = "json::path")]
                path: &'a Path,
                flaw: &'a str,
                start: u64,
                end: u64,
                first_block: u64,
                blocks: u64,
                what: &'a str,
            },
            Mended {
                #[serde(serialize_with = "json::path")]
                path: &'a Path,
                flaw: &'a str,
                start: u64,
                end: u64,
            },
        }
        let row = match self {
            Self::Found { path, flaw, bytes, what } => {
                let blocks = flaw.blocks(bytes);
                Row::Flaw {
                    path,
                    flaw: flaw.name(),
                    start: bytes.start,
                    end: bytes.end,
                    first_block: blocks.start,
                    blocks: blocks.end - blocks.start,
                    what,
                }
            }
            Self::Mended { path, flaw, bytes } => {
                Row::Mended { path, flaw: flaw.name(), start: bytes.start, end: bytes.end }
            }
        };
        row.serialize(serializer)
    }
}

/// Outcome of [`crate::scrub()`].
#[derive(Clone, Debug, Default)]
pub struct ScrubSummary {
    /// Bytes read and compared.
    pub bytes: u64,
    /// Files compared.
    pub files: u64,
    /// Places found damaged, unreadable, unproven or too long.
    pub places: u64,
    /// Bytes in them.
    pub damaged: u64,
    /// Bytes of them that are right again.
    pub mended: u64,
    /// Files with a damaged tree.
    pub trees: u64,
    /// Trees of them that are right again.
    pub trees_mended: u64,
    /// Files that were edited.
    pub changed: u64,
    /// Files that are gone.
    pub missing: u64,
    /// Files that could not be opened.
    pub failed: u64,
    /// Repairs of an earlier run that could not be ended.
    pub unfinished: u64,
    /// Bytes of content that peers sent.
    pub fetched: u64,
    /// Why peers did not bring what is still missing, and who has to act.
    pub trouble: Option<Error>,
    /// How long it took.
    pub elapsed: Duration,
}

impl ScrubSummary {
    /// Whether everything is as it was recorded, or is again.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damaged == self.mended
            && self.trees == self.trees_mended
            && self.changed + self.missing + self.failed + self.unfinished == 0
    }
}
