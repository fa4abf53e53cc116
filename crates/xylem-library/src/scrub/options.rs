//! [`ScrubOptions`] and [`ScrubSummary`]: what callers of [`scrub`](super::scrub) say and get.

use std::path::PathBuf;

use serde::Serialize;
use xylem_object::Ticket;

use crate::error::Failure;

/// What to re-read, and what to do about damage.
#[derive(Clone, Debug)]
pub struct ScrubOptions {
    /// Files and directories that were shared or fetched, or lie in such a directory; none:
    /// everything that the store knows of.
    pub paths: Vec<PathBuf>,
    /// Put right what is damaged.
    pub repair: bool,
    /// More tickets for the same content.
    pub tickets: Vec<Ticket>,
}

/// Outcome of [`scrub`](super::scrub).
#[derive(Debug, Default, Serialize)]
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
    /// Files, directories and links that are gone.
    pub missing: u64,
    /// Those of them that are there again.
    pub restored: u64,
    /// Files that could not be opened.
    pub failed: u64,
    /// Repairs of an earlier run that could not be ended.
    #[serde(skip)]
    pub unfinished: u64,
    /// Bytes of content that peers sent.
    pub fetched: u64,
    /// Why peers did not bring what is still missing, and who has to act.
    #[serde(skip)]
    pub not_brought: Option<NotBrought>,
}

/// Why peers did not bring what is still missing.
#[derive(Debug, thiserror::Error)]
pub enum NotBrought {
    /// They answered with something else.
    #[error("{0}")]
    Misbehaved(Box<dyn Failure>),
    /// They did not answer, or do not have it.
    #[error("{0}")]
    Unreachable(Box<dyn Failure>),
}

impl ScrubSummary {
    /// Whether everything is as it was recorded, or is again.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damaged == self.mended
            && self.trees == self.trees_mended
            && self.missing == self.restored
            && self.changed + self.failed + self.unfinished == 0
    }
}
