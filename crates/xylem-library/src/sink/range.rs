//! Part of a file, as a file of its own.

use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use xylem_object::{Manifest, ObjectId};
use xylem_store::{RangeFile, Store};
use xylem_tree::{Segment, Verified};

use super::{Context, Destination, Sink, added, stored, unrecorded};
use crate::Error;

/// Bytes `range` of a file, written from offset 0 of the result.
pub struct RangeSink {
    manifest: Manifest,
    to: Destination,
    range: Range<u64>,
    store: Store,
    file: Option<RangeFile>,
    done: bool,
}

impl RangeSink {
    pub fn new(manifest: Manifest, to: Destination, range: Range<u64>, store: &Store) -> Self {
        Self { manifest, to, range, store: store.clone(), file: None, done: false }
    }
}

impl Sink for RangeSink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        (cx.tally.total, cx.tally.files) = (self.range.end - self.range.start, 1);
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        let file = RangeFile::open(&self.store, root, geometry, self.range.clone(), &self.to.part);
        self.file = Some(stored(file)?);
        let wanted = std::iter::once(geometry.segments_of(self.range.clone()));
        let verifier = unrecorded(&self.manifest);
        added(cx.transfer.add_object(ObjectId::Root, root, geometry, wanted, [], Some(verifier)))
    }

    fn segment(
        &mut self,
        _object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        cx.tally.fetched += segment.content.len() as u64;
        self.file.as_mut().map_or(Ok(()), |file| stored(file.put(&segment)))
    }

    fn complete(&mut self, _object: ObjectId, _cx: &mut Context<'_>) -> Result<(), Error> {
        self.done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, Error> {
        if let Some(file) = &mut self.file {
            stored(file.finish_as(&self.to.path, self.to.policy))?;
        }
        Ok(Some(self.to.path.clone()))
    }
}
