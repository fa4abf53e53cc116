//! [`Remote`]: source of pieces that this machine does not have, or has lost.

use std::ops::Range;

use xylem_base::{Failure, Stop};
use xylem_hash::Hash;
use xylem_object::{ObjectId, Ticket};
use xylem_store::StoreError;
use xylem_transfer::TransferEvent;
use xylem_tree::{Geometry, TreeVerifier};

/// Requested segments of one object.
pub struct Wanted {
    /// Which object of the publication.
    pub object: ObjectId,
    /// The root that its bytes must prove.
    pub root: Hash,
    /// Its size and segments.
    pub geometry: Geometry,
    /// Runs of segments.
    pub segments: Vec<Range<u64>>,
    /// A verifier with the nodes proven already.
    pub verifier: Option<TreeVerifier>,
}

/// Receives each proven piece.
pub type Keep<'a> = dyn FnMut(TransferEvent) -> Result<(), StoreError> + 'a;

/// Peers that may have missing pieces: sources that are tried one after the other.
pub trait Remote {
    /// Switches to another target. `tickets` are for its root, the record's own first; the last `named` of them were
    /// named for this run.
    fn target(&mut self, tickets: &[Ticket], named: usize);

    /// Ensures that there is a source that answers, and returns the geometry of the root object (file or listing) as
    /// its publisher signed it; `None` if no source is left.
    ///
    /// # Errors
    /// Errors that end the whole run, such as an interruption. The reason why a source did not answer goes to `why`.
    fn connect(
        &mut self,
        why: &mut Option<Box<dyn Failure>>,
        stop: &Stop,
    ) -> Result<Option<Geometry>, Box<dyn Failure>>;

    /// Requests segments from the source and passes each proven piece to `keep`. Returns why the source did not deliver
    /// all, if so.
    ///
    /// # Errors
    /// Errors that end the whole run, `keep`'s among them.
    fn fetch(
        &mut self,
        wanted: Vec<Wanted>,
        keep: &mut Keep<'_>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Failure>>, Box<dyn Failure>>;

    /// Leaves the source, because nothing is missing for the moment.
    fn leave(&mut self);

    /// Leaves the source, because it is of no more use. The following one is tried from now on.
    fn give_up_source(&mut self);

    /// Returns whether a source answered with data that did not verify.
    fn misbehaved(&self) -> bool;
}
