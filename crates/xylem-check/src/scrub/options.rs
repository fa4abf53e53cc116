//! [`ScrubOptions`] and [`ScrubSummary`]: input and result of [`scrub`](super::scrub).

use std::path::PathBuf;

use serde::Serialize;
use xylem_base::Failure;
use xylem_base::FileMedium;
use xylem_object::Ticket;

/// Selection of what to re-read, and whether to repair.
#[derive(Clone, Debug)]
pub struct ScrubOptions {
    /// Files and directories that were shared or fetched, or lie in such a directory; if empty, all that the store
    /// knows.
    pub paths: Vec<PathBuf>,
    /// Repair damage.
    pub repair: bool,
    /// More tickets for the same content.
    pub tickets: Vec<Ticket>,
    /// Where the store and what it names are, for the caller that opens it.
    pub medium: FileMedium,
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
    /// Missing ones that were restored.
    pub restored: u64,
    /// Files that could not be opened.
    pub failed: u64,
    /// Repairs of an earlier run that could not be ended.
    #[serde(skip)]
    pub unfinished: u64,
    /// Bytes of content that peers sent.
    pub fetched: u64,
    /// Why peers did not deliver what is still missing.
    #[serde(skip)]
    pub not_brought: Option<DeliveryFailure>,
}

/// Why peers did not deliver what is still missing.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryFailure {
    /// They answered with data that did not verify.
    #[error("{0}")]
    Misbehaved(Box<dyn Failure>),
    /// They did not answer, or do not have it.
    #[error("{0}")]
    Unreachable(Box<dyn Failure>),
}

impl ScrubSummary {
    /// Returns whether all is as recorded, or is again.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damaged == self.mended
            && self.trees == self.trees_mended
            && self.missing == self.restored
            && self.changed + self.failed + self.unfinished == 0
    }
}
