//! Objects of which more is wanted as somebody reads: what is wanted comes and goes while the transfer runs.

use core::ops::Range;

use xylem_hash::Hash;
use xylem_object::ObjectId;
use xylem_tree::Geometry;

use super::{Phase, Transfer};
use crate::event::AddError;
use crate::object::Object;

/// When something is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Before anything else, each segment together with the tiles that prove it: somebody waits for it.
    Now,
    /// In its turn, in ascending order: somebody may come to want it.
    Ahead,
}

impl Transfer {
    /// Opens an object of which nothing is wanted yet. [`Transfer::want`] says what is, as often as wanted; the
    /// object stays when nothing of it is missing, with the tree nodes that are known of it, until
    /// [`Transfer::give_up_object`]. There is no [`TransferEvent::ObjectComplete`] of it.
    ///
    /// [`TransferEvent::ObjectComplete`]: crate::TransferEvent::ObjectComplete
    ///
    /// # Errors
    /// See [`AddError`]; the transfer is as it was.
    pub fn open_object(
        &mut self,
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
    ) -> Result<(), AddError> {
        self.may_add(id)?;
        self.objects.add(Object::lasting(id, root, geometry, self.config.max_segments)?);
        self.progress.objects = self.objects.len();
        Ok(())
    }

    /// Wants these segments of an object that was [opened](Transfer::open_object). What is past its end, and
    /// what it has brought before, is passed over. False if it is not open.
    pub fn want(&mut self, id: ObjectId, segments: Range<u64>, urgency: Urgency) -> bool {
        let Some(geometry) = self.objects.geometry(id).copied() else { return false };
        let was_idle = self.objects.is_idle();
        let wanted = self.objects.want(id, segments, urgency == Urgency::Now);
        let fresh = wanted.unwrap_or(0);
        if was_idle && fresh > 0 {
            self.patience.restart(); // nothing was wanted until now
        }
        self.progress.wanted_segments += fresh;
        self.progress.wanted_bytes += fresh * geometry.segment_size().bytes() as u64;
        wanted.is_some()
    }

    /// Wants no more of an open object than what somebody has been asked for.
    pub fn want_no_more(&mut self, id: ObjectId) {
        self.objects.want_only_what_is_asked_for(id);
    }

    /// Whether one more object may be added.
    pub(super) fn may_add(&self, id: ObjectId) -> Result<(), AddError> {
        if self.phase == Phase::Over {
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
