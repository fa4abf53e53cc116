//! [`Remote`]: where pieces come from that this machine does not have, or has lost.

use std::ops::Range;

use xylem_hash::Hash;
use xylem_object::{ObjectId, Ticket};
use xylem_store::StoreError;
use xylem_transfer::TransferEvent;
use xylem_tree::{Geometry, Verifier};

use crate::error::Failure;
use crate::stop::Stop;

/// Segments of one object that are asked for.
pub struct Wanted {
    /// Which object of the publication.
    pub object: ObjectId,
    /// What its bytes are proven against.
    pub root: Hash,
    /// Its size and segments.
    pub geometry: Geometry,
    /// Runs of segments.
    pub segments: Vec<Range<u64>>,
    /// Nodes that are proven already.
    pub verifier: Option<Verifier>,
}

/// What is done with each proven piece.
pub type Keep<'a> = dyn FnMut(TransferEvent) -> Result<(), StoreError> + 'a;

/// Others who may have what is missing here: sources that are asked one after the other.
pub trait Remote {
    /// Goes on with another target; `tickets` for its root, the record's own first, of which the last
    /// `named` were named for this run.
    fn target(&mut self, tickets: &[Ticket], named: usize);

    /// Makes sure of a source that answers, and returns the shape of the object itself (file or listing)
    /// as its publisher signed it; `None` if none is left.
    ///
    /// # Errors
    /// What ends the whole run, such as an interruption. Why a source did not answer goes to `why`.
    fn connect(
        &mut self,
        why: &mut Option<Box<dyn Failure>>,
        stop: &Stop,
    ) -> Result<Option<Geometry>, Box<dyn Failure>>;

    /// Asks the source for segments and hands over each proven piece. `Some`: why it did not bring all.
    ///
    /// # Errors
    /// What ends the whole run, `keep`'s errors among them.
    fn fetch(
        &mut self,
        wanted: Vec<Wanted>,
        keep: &mut Keep<'_>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Failure>>, Box<dyn Failure>>;

    /// Leaves the source, whether it is of no more use (`next`: the one after it is asked from now on)
    /// or nothing is missing for the moment.
    fn leave(&mut self, next: bool);

    /// Whether somebody answered, though with something that did not verify.
    fn misbehaved(&self) -> bool;
}
