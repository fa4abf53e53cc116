//! [`List`]: the list of sums while it comes.

use std::time::Duration;

use bytes::Bytes;
use xylem_object::sums::list_len;
use xylem_object::{Kind, Manifest, ObjectId};
use xylem_transfer::{AddError, Transfer};
use xylem_tree::{Segment, SegmentSet, Verified};

/// Without the list for this long after it was asked for, or after a piece of it came, the file is
/// fetched without: who has all else need not have it.
pub(crate) const LIST_PATIENCE: Duration = Duration::from_secs(3);

/// The list of one file.
pub(crate) struct List {
    bytes: Vec<u8>,
    missing: SegmentSet,
    late_at: Duration,
}

impl List {
    /// Asks for the list of the publication's one file; `None` if it has none.
    ///
    /// # Errors
    /// The transfer's.
    pub(crate) fn of_file(
        manifest: &Manifest,
        now: Duration,
        transfer: &mut Transfer,
    ) -> Result<Option<Self>, AddError> {
        let (Some(sums), Some(geometry)) = (manifest.sums, manifest.sums_geometry()) else {
            return Ok(None);
        };
        // A list of another length is none, and of no length that would take much memory.
        let len = list_len(manifest.size, manifest.segment);
        if manifest.kind != Kind::File || sums.size != len {
            return Ok(None);
        }
        let all = 0..geometry.segments();
        transfer.add_object(ObjectId::Sums, sums.root, geometry, [all.clone()], [], None)?;
        let mut missing = SegmentSet::new(all.end);
        missing.insert_range(all);
        Ok(Some(Self { bytes: vec![0; len as usize], missing, late_at: now + LIST_PATIENCE }))
    }

    /// Keeps a piece.
    pub(crate) fn segment(&mut self, segment: &Verified<Segment<Bytes>>, now: Duration) {
        let rest = self.bytes.get_mut(segment.offset as usize..);
        if let Some(place) = rest.and_then(|rest| rest.get_mut(..segment.content.len())) {
            place.copy_from_slice(&segment.content);
            self.missing.remove(segment.index.0);
            self.late_at = now + LIST_PATIENCE;
        }
    }

    /// When it is not waited for any longer.
    pub(crate) fn late_at(&self) -> Duration {
        self.late_at
    }

    /// The list, if all of it has come.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        self.missing.is_empty().then_some(&self.bytes)
    }
}
