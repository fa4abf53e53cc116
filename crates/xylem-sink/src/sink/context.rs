//! [`Sink`]: one way to save fetched content, and the [`Context`] in which it works.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use xylem_files::LibraryEvent;
use xylem_files::held::Holdings;
use xylem_link::LinkStats;
use xylem_object::{Manifest, ObjectId};
use xylem_peers::reachable::FaceAddress;
use xylem_transfer::{PeerStats, Transfer};
use xylem_tree::{Node, NodeValue, Recording, Segment, TreeVerifier, Verified};

use super::error::SaveError;
use crate::pieces::{PeerPicture, PieceMap, ProgressSnapshot};

/// Verified content is on disk after this long even if no more arrives: a kill during a stall costs almost nothing.
pub(super) const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// Proven nodes of a tree with their places.
pub type Nodes = Verified<Vec<(Node, NodeValue)>>;

/// Parts that a sink uses while it works.
pub struct Context<'a> {
    /// The transfer, to request missing content.
    pub transfer: &'a mut Transfer,
    /// Counts, which the sink updates.
    pub tally: &'a mut Tally,
    /// Receives events.
    pub on_event: &'a mut dyn FnMut(LibraryEvent),
    /// The time since an arbitrary epoch.
    pub now: Duration,
    /// Records verified, written content, if it is served meanwhile.
    pub holdings: Option<&'a Holdings>,
}

/// Bytes of content by their origin.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Fetched over the network in this run.
    pub fetched: u64,
    /// Left by an earlier run, read back and proven.
    pub resumed: u64,
    /// Found in old copies and proven.
    pub reused: u64,
    /// Size of the result.
    pub total: u64,
    /// Files in the result.
    pub files: u64,
    /// Where in the result the proven bytes lie.
    pub pieces: PieceMap,
}

impl Tally {
    /// Returns how many bytes of the result are here and proven.
    pub fn verified(&self) -> u64 {
        (self.resumed + self.reused + self.fetched).min(self.total)
    }

    /// Returns the state for display, with the peers of the fetch.
    pub fn picture(
        &self,
        peers: impl Iterator<Item = (FaceAddress, PeerStats, Option<LinkStats>)>,
    ) -> Option<Box<ProgressSnapshot>> {
        let pieces = self.pieces.digits(self.total, self.verified());
        let peers = peers.map(|(peer, stats, link)| PeerPicture { peer, stats, link }).collect();
        Some(Box::new(ProgressSnapshot { pieces, peers }))
    }
}

/// One way to save fetched content. Calls come in this order: `begin`; then `segment`, `nodes`, `complete` and `poll`
/// as events occur, until `is_done`; then `finish`.
pub trait Sink {
    /// Verifies what an earlier run left and adds what is missing to the transfer.
    ///
    /// # Errors
    /// Those of the disk, here and below.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError>;
    /// Saves a segment.
    fn segment(
        &mut self,
        object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError>;
    /// Saves tree nodes, for the next run and for serving.
    fn nodes(&mut self, _object: ObjectId, _nodes: Nodes) -> Result<(), SaveError> {
        Ok(())
    }
    /// Called when every wanted segment of an object was delivered.
    fn complete(&mut self, object: ObjectId, cx: &mut Context<'_>) -> Result<(), SaveError>;
    /// Called once for each turn of the event loop: adds work or pauses the transfer. Returns when to be called again.
    fn poll(&mut self, _cx: &mut Context<'_>) -> Result<Option<Duration>, SaveError> {
        Ok(None)
    }
    /// Returns whether nothing is missing.
    fn is_done(&self) -> bool;
    /// Gives the result its final name and returns it.
    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError>;
    /// Notes that the peers that should have these objects refused pieces of them: they are requested after all others.
    fn refused(&mut self, _objects: &HashSet<ObjectId>, _cx: &mut Context<'_>) {}
    /// Completes without the files of which pieces were refused, if nothing else is missing. Returns their paths below
    /// the directory; empty if it does not complete so.
    ///
    /// # Errors
    /// As `poll`.
    fn end_without(
        &mut self,
        _refused: &HashSet<ObjectId>,
        _cx: &mut Context<'_>,
    ) -> Result<Vec<PathBuf>, SaveError> {
        Ok(Vec::new())
    }
    /// Returns the files left out because pieces were refused: their paths below the directory.
    fn left(&mut self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Returns a warning for each step of `finish` that failed without affecting the content.
    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Makes a verifier for a result without outboard: proven nodes are not recorded for writing.
pub(super) fn unrecorded(manifest: &Manifest) -> TreeVerifier {
    let mut verifier = TreeVerifier::new(manifest.geometry(), manifest.root);
    verifier.set_recording(Recording::Off);
    verifier
}
