//! [`SumsList`]: the list of sums while it arrives.

use std::time::Duration;

use bytes::Bytes;
use xylem_object::sums::list_len;
use xylem_object::{Manifest, ObjectId, PublicationKind};
use xylem_transfer::{AddError, Transfer};
use xylem_tree::{Segment, SegmentSet, Verified};

/// The file is fetched without the list after this long since the request or the last piece. A peer that has all else
/// need not have the list.
const PATIENCE: Duration = Duration::from_secs(3);

/// Interval at which lateness is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Deadline of a list. Time in which it was not checked, because of a slow disk for example, does not count: pieces may
/// have arrived unread.
pub(crate) struct ListDeadline {
    at: Duration,
    looked: Duration,
}

impl ListDeadline {
    pub(crate) fn new(now: Duration) -> Self {
        Self { at: now + PATIENCE, looked: now }
    }

    /// Extends the deadline after a piece arrived.
    pub(crate) fn extend(&mut self, now: Duration) {
        self.at = now + PATIENCE;
    }

    /// Returns when to check again; `None` if the deadline has passed.
    pub(crate) fn look(&mut self, now: Duration) -> Option<Duration> {
        let away = now.saturating_sub(self.looked);
        self.looked = now;
        if away > 2 * LOOK_EVERY {
            self.at += away;
        }
        (now < self.at).then_some(now + LOOK_EVERY)
    }
}

/// The list of one file.
pub(crate) struct SumsList {
    bytes: Vec<u8>,
    missing: SegmentSet,
    late: ListDeadline,
}

impl SumsList {
    /// Requests the list of the publication's one file; `None` if it has none.
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
        // A list of another length is invalid; the right length takes little memory.
        let len = list_len(manifest.size, manifest.segment);
        if manifest.kind != PublicationKind::File || sums.size != len {
            return Ok(None);
        }
        let all = 0..geometry.segments();
        transfer.add_object(ObjectId::Sums, sums.root, geometry, [all.clone()], [], None)?;
        let mut missing = SegmentSet::new(all.end);
        missing.insert_range(all);
        Ok(Some(Self { bytes: vec![0; len as usize], missing, late: ListDeadline::new(now) }))
    }

    /// Saves a piece.
    pub(crate) fn segment(&mut self, segment: &Verified<Segment<Bytes>>, now: Duration) {
        let rest = self.bytes.get_mut(segment.offset as usize..);
        if let Some(place) = rest.and_then(|rest| rest.get_mut(..segment.content.len())) {
            place.copy_from_slice(&segment.content);
            self.missing.remove(segment.index.0);
            self.late.extend(now);
        }
    }

    /// Returns its deadline.
    pub(crate) fn late(&mut self) -> &mut ListDeadline {
        &mut self.late
    }

    /// Returns the list once all of it has arrived.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        self.missing.is_empty().then_some(&self.bytes)
    }
}
