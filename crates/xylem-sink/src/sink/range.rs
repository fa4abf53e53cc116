//! [`RangeSink`]: part of a file, as a file of its own.

use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use xylem_object::{Manifest, ObjectId};
use xylem_store::{RangeFile, Store};
use xylem_tree::{Segment, Verified};

use super::context::{Context, Sink, unrecorded};
use super::destination::Destination;
use super::error::SaveError;

/// Bytes `range` of a file, written from offset 0 of the result.
pub(super) struct RangeSink {
    manifest: Manifest,
    to: Destination,
    range: Range<u64>,
    store: Store,
    file: Option<RangeFile>,
    done: bool,
}

impl RangeSink {
    pub(super) fn new(
        manifest: Manifest,
        to: Destination,
        range: Range<u64>,
        store: &Store,
    ) -> Self {
        Self { manifest, to, range, store: store.clone(), file: None, done: false }
    }
}

impl Sink for RangeSink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        (cx.tally.total, cx.tally.files) = (self.range.end - self.range.start, 1);
        cx.tally.pieces.begin_at(self.range.start);
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        let (range, part) = (self.range.clone(), &self.to.part);
        self.file = Some(RangeFile::open(&self.store, root, geometry, range, part)?);
        // A requested range is never empty. An empty file is complete: its manifest suffices.
        self.done = self.range.is_empty();
        if self.done {
            return Ok(());
        }
        let wanted = [geometry.segments_of(self.range.clone())];
        let verifier = Some(unrecorded(&self.manifest));
        Ok(cx.transfer.add_object(ObjectId::Root, root, geometry, wanted, [], verifier)?)
    }

    fn segment(
        &mut self,
        _object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        cx.tally.fetched += segment.content.len() as u64;
        Ok(self.file.as_mut().map_or(Ok(()), |file| file.put(&segment))?)
    }

    fn complete(&mut self, _object: ObjectId, _cx: &mut Context<'_>) -> Result<(), SaveError> {
        self.done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError> {
        if let Some(file) = &mut self.file {
            file.finish_as(&self.to.path, self.to.policy).map_err(SaveError::at_the_end)?;
        }
        Ok(Some(self.to.path.clone()))
    }
}
