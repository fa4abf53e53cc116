//! Objects that are read on demand: which segments are wanted changes while the transfer runs.

use core::ops::Range;

use xylem_hash::Hash;
use xylem_object::ObjectId;
use xylem_tree::Geometry;

use super::{Transfer, TransferPhase};
use crate::event::AddError;
use crate::object::TransferObject;

/// When a segment is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Before anything else, each segment together with the tiles that prove it, because a reader waits for it.
    Now,
    /// In its turn, in ascending order, because a reader may want it later.
    Ahead,
}

impl Transfer {
    /// Opens an object of which nothing is wanted yet. Call [`Transfer::want`] for what is wanted, as often as needed.
    /// The object stays when none of its segments is missing, with its known tree nodes, until
    /// [`Transfer::give_up_object`]. It has no [`TransferEvent::ObjectComplete`].
    ///
    /// [`TransferEvent::ObjectComplete`]: crate::TransferEvent::ObjectComplete
    ///
    /// # Errors
    /// See [`AddError`]. The transfer is unchanged.
    pub fn open_object(
        &mut self,
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
    ) -> Result<(), AddError> {
        self.may_add(id)?;
        self.objects.add(TransferObject::lasting(id, root, geometry, self.config.max_segments)?);
        self.progress.objects = self.objects.len();
        Ok(())
    }

    /// Wants these segments of an object that was [opened](Transfer::open_object). Segments past its end, and those
    /// fetched before, are ignored. Returns false if the object is not open.
    pub fn want(&mut self, id: ObjectId, segments: Range<u64>, urgency: Urgency) -> bool {
        let Some(geometry) = self.objects.geometry(id).copied() else { return false };
        let was_idle = self.objects.is_idle();
        let wanted = self.objects.want(id, segments, urgency == Urgency::Now);
        let fresh = wanted.unwrap_or(0);
        if was_idle && fresh > 0 {
            self.patience.restart(); // no segment was wanted until now
        }
        self.progress.wanted_segments += fresh;
        self.progress.wanted_bytes += fresh * geometry.segment_size().bytes() as u64;
        wanted.is_some()
    }

    /// Drops the wanted segments of an open object that no peer is asked for.
    pub fn drop_unasked(&mut self, id: ObjectId) {
        self.objects.drop_unasked(id);
    }

    /// Checks whether one more object may be added.
    pub(super) fn may_add(&self, id: ObjectId) -> Result<(), AddError> {
        if self.phase == TransferPhase::Over {
            return Err(AddError::Over);
        }
        if self.objects.len() >= self.config.max_objects {
            return Err(AddError::TooMany(self.objects.len()));
        }
        if self.objects.contains(id) {
            return Err(AddError::AlreadyThere);
        }
        Ok(())
    }
}
