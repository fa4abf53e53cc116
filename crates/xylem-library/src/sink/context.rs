//! [`Sink`]: one way to keep what is fetched, and the [`Context`] in which it works.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use xylem_link::LinkStats;
use xylem_object::{Manifest, ObjectId};
use xylem_transfer::{PeerStats, Transfer};
use xylem_tree::{Node, NodeValue, Recording, Segment, Verified, Verifier};

use super::error::SaveError;
use crate::event::LibraryEvent;
use crate::held::Holdings;
use crate::pieces::{PeerPicture, Picture, Pieces};
use crate::reachable::FaceAddress;

/// What was verified lies on disk after this long even if nothing more comes: a kill during a stall
/// costs next to nothing.
pub(super) const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// Proven nodes of a tree with their places.
pub type Nodes = Verified<Vec<(Node, NodeValue)>>;

/// What a sink may use while it works.
pub struct Context<'a> {
    /// Is asked for what is missing.
    pub transfer: &'a mut Transfer,
    /// Is kept up to date.
    pub tally: &'a mut Tally,
    /// Is given what happens.
    pub on_event: &'a mut dyn FnMut(LibraryEvent),
    /// Since an arbitrary epoch.
    pub now: Duration,
    /// Is given what is verified and written, where somebody serves it meanwhile.
    pub holdings: Option<&'a Holdings>,
}

/// Bytes of content by where they came from.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Over the network, in this run.
    pub fetched: u64,
    /// Left by an earlier run, read back and proven.
    pub resumed: u64,
    /// Found in old copies and proven.
    pub reused: u64,
    /// All that the result will have.
    pub total: u64,
    /// Files in the result.
    pub files: u64,
    /// Where in the result what was proven lies.
    pub pieces: Pieces,
}

impl Tally {
    /// Bytes of the result that are here and proven.
    pub fn verified(&self) -> u64 {
        (self.resumed + self.reused + self.fetched).min(self.total)
    }

    /// What that looks like, with those whom it comes from.
    pub fn picture(
        &self,
        peers: impl Iterator<Item = (FaceAddress, PeerStats, Option<LinkStats>)>,
    ) -> Option<Box<Picture>> {
        let pieces = self.pieces.digits(self.total, self.verified());
        let peers = peers.map(|(peer, stats, link)| PeerPicture { peer, stats, link }).collect();
        Some(Box::new(Picture { pieces, peers }))
    }
}

/// One way to keep what was fetched. Called in this order: `begin`, then `segment`, `nodes`,
/// `complete` and `poll` as things happen until `is_done`, then `finish`.
pub trait Sink {
    /// Verifies what an earlier run left and adds what is missing to the transfer.
    ///
    /// # Errors
    /// Those of the disk, here and below.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError>;
    /// Keeps a segment.
    fn segment(
        &mut self,
        object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError>;
    /// Keeps tree nodes, for the next run and for serving.
    fn nodes(&mut self, _object: ObjectId, _nodes: Nodes) -> Result<(), SaveError> {
        Ok(())
    }
    /// Every wanted segment of an object has been handed in.
    fn complete(&mut self, object: ObjectId, cx: &mut Context<'_>) -> Result<(), SaveError>;
    /// Called once for each turn of the event loop: adds work, holds the transfer back. Returns when
    /// to be called again.
    fn poll(&mut self, _cx: &mut Context<'_>) -> Result<Option<Duration>, SaveError> {
        Ok(None)
    }
    /// Whether nothing is missing any more.
    fn is_done(&self) -> bool;
    /// Gives the result its name; returns it.
    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError>;
    /// Pieces of these objects were refused by those who should have them: they are asked for after all others.
    fn refused(&mut self, _objects: &HashSet<ObjectId>, _cx: &mut Context<'_>) {}
    /// Ends without files of which pieces were refused by those who should have them, if nothing else is missing:
    /// their paths below the directory. None: it does not end so.
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
    /// Files that it did without, since pieces of them were refused: their paths below the directory.
    fn left(&mut self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// What `finish` could not do and the result is right without, a line each.
    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A verifier for a result that has no outboard: what it proves is not kept to be written.
pub(super) fn unrecorded(manifest: &Manifest) -> Verifier {
    let mut verifier = Verifier::new(manifest.geometry(), manifest.root);
    verifier.set_recording(Recording::Off);
    verifier
}
