//! Reading a file back while it is still being fetched: when the last segment is there, so is the
//! root of what really lies on disk.
//!
//! It is computed from the bytes of the file alone, apart from all that was verified on arrival, so
//! that a write to a wrong place, or somebody else's, is noticed before the file gets its name.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use xylem_hash::Hash;
use xylem_store::{FileRef, Partial, StoreError};
use xylem_tree::{Geometry, OutboardBuilder, Region, SegmentIndex, hash_region};

/// Which regions are whole, and a thread that hashes those.
pub(super) struct Audit {
    geometry: Geometry,
    /// Segments that each region still lacks.
    missing: Vec<u32>,
    queue: Sender<u64>,
    thread: JoinHandle<Result<Option<Hash>, StoreError>>,
}

/// Segments of one whole region.
fn segments_a_region(geometry: &Geometry) -> u64 {
    Region::first_segment(geometry, 1).0
}

impl Audit {
    /// Begins with what is in the file already.
    pub(super) fn new(partial: &Partial) -> Self {
        let (file, geometry) = (partial.file().clone(), *partial.geometry());
        let (queue, regions) = mpsc::channel();
        let thread = thread::spawn(move || hash_regions(&file, geometry, regions.iter()));
        let each = segments_a_region(&geometry);
        let left = |index: u64| (geometry.segments() - index * each).min(each) as u32;
        let missing = (0..Region::count(&geometry)).map(left).collect();
        let mut audit = Self { geometry, missing, queue, thread };
        for range in partial.have().ranges() {
            for segment in range {
                audit.take(SegmentIndex(segment));
            }
        }
        audit
    }

    /// A segment is about to be whole on disk: true if it completes a region, which is then to be
    /// flushed and handed in with [`Audit::region`].
    pub(super) fn completes(&mut self, segment: SegmentIndex) -> Option<u64> {
        let region = segment.0 / segments_a_region(&self.geometry);
        let missing = self.missing.get_mut(usize::try_from(region).ok()?)?;
        *missing = missing.saturating_sub(1);
        (*missing == 0).then_some(region)
    }

    fn take(&mut self, segment: SegmentIndex) {
        if let Some(region) = self.completes(segment) {
            self.region(region);
        }
    }

    /// Hashes a region, all of which is on disk.
    pub(super) fn region(&self, region: u64) {
        // The thread ends early only with an error, which `finish` tells.
        let _ = self.queue.send(region);
    }

    /// The root of the whole file; `None` if regions were missing.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn finish(self) -> Result<Option<Hash>, StoreError> {
        drop(self.queue);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn hash_regions(
    file: &FileRef,
    geometry: Geometry,
    regions: impl Iterator<Item = u64>,
) -> Result<Option<Hash>, StoreError> {
    let no_sink = |_: u64, _: &[u8]| Ok::<(), StoreError>(());
    let mut builder = OutboardBuilder::new(geometry, no_sink);
    let (mut waiting, mut next, mut buffer) = (BTreeMap::new(), 0, Vec::new());
    for index in regions {
        let range = Region::range(&geometry, index);
        buffer.resize((range.end - range.start) as usize, 0);
        if file.read_full(&mut buffer, range.start)? < buffer.len() {
            return Ok(None);
        }
        let first = Region::first_segment(&geometry, index);
        let Some(region) = hash_region(&geometry, first, &buffer) else { return Ok(None) };
        waiting.insert(index, region);
        while let Some(region) = waiting.remove(&next) {
            if builder.push(region).is_err() {
                return Ok(None);
            }
            next += 1;
        }
    }
    Ok(builder.finish().ok())
}
