//! [`GetSummary`]: the outcome of a fetch.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use xylem_base::json;
use xylem_hash::Hash;
use xylem_peers::reachable::{FaceAddress, PeerWay};

/// Outcome of a fetch.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "done")]
pub struct GetSummary {
    /// Root of the file or of the directory's listing; what `xylem sum` prints.
    #[serde(serialize_with = "json::text")]
    pub root: Hash,
    /// Final path; `None` for standard output.
    #[serde(serialize_with = "json::maybe_path")]
    pub path: Option<PathBuf>,
    /// Verified bytes of content in the result.
    pub bytes: u64,
    /// Files in the result.
    pub files: u64,
    /// Bytes of content fetched over the network in this run.
    pub fetched: u64,
    /// Bytes left by an earlier run that verified.
    pub resumed: u64,
    /// Bytes found in old copies and proven.
    pub reused: u64,
    /// Duration of the fetch.
    #[serde(rename = "seconds", serialize_with = "json::seconds")]
    pub elapsed: Duration,
    /// All of it was here already; nothing was fetched.
    pub already_complete: bool,
    /// Bytes of content by the peer that sent them.
    pub peers: Vec<PeerBytes>,
    /// Bytes of content sent to other peers meanwhile.
    pub served: u64,
    /// How peers were reached.
    pub ways: Vec<PeerWay>,
}

/// Bytes from one peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerBytes {
    /// Its address.
    pub peer: FaceAddress,
    /// Verified bytes of content.
    pub bytes: u64,
}

impl GetSummary {
    /// Makes an empty summary of a fetch of this root.
    pub fn new(root: Hash) -> Self {
        Self {
            root,
            path: None,
            bytes: 0,
            files: 0,
            fetched: 0,
            resumed: 0,
            reused: 0,
            elapsed: Duration::ZERO,
            already_complete: false,
            peers: Vec::new(),
            served: 0,
            ways: Vec::new(),
        }
    }
}
