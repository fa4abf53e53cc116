//! Part of a file, as a file of its own.

use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use xylem_object::{Manifest, ObjectId};
use xylem_store::{Clobber, FileRef, OpenHow, OverwritePolicy, Store, StoreError};
use xylem_tree::{Segment, Verified};

use super::{Context, Destination, Sink, added, stored};
use crate::Error;

/// Bytes `range` of a file, written from offset 0 of the result.
pub struct RangeSink {
    manifest: Manifest,
    to: Destination,
    range: Range<u64>,
    store: Store,
    file: Option<FileRef>,
    done: bool,
}

/// The part of a segment that lies in `range`, and where in the range it begins.
pub(super) fn within(segment: &Segment<Bytes>, range: &Range<u64>) -> (u64, Bytes) {
    let end = segment.offset + segment.content.len() as u64;
    let from = segment.offset.max(range.start).min(end);
    let until = end.min(range.end).max(from);
    let place = |at: u64| (at - segment.offset) as usize;
    (from.saturating_sub(range.start), segment.content.slice(place(from)..place(until)))
}

impl RangeSink {
    pub fn new(manifest: Manifest, to: Destination, range: Range<u64>, store: &Store) -> Self {
        Self { manifest, to, range, store: store.clone(), file: None, done: false }
    }
}

impl Sink for RangeSink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        (cx.tally.total, cx.tally.files) = (self.range.end - self.range.start, 1);
        let how = OpenHow::Create { mode: 0o666 };
        let file = stored(FileRef::open(&**self.store.medium(), &self.to.part, how))?;
        stored(file.lock().and_then(|()| file.set_len(0)))?;
        self.file = Some(file);
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        let wanted = std::iter::once(geometry.segments_of(self.range.clone()));
        added(cx.transfer.add_object(ObjectId::Root, root, geometry, wanted, [], None))
    }

    fn segment(
        &mut self,
        _object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let (at, bytes) = within(&segment, &self.range);
        cx.tally.fetched += segment.content.len() as u64;
        self.file.as_ref().map_or(Ok(()), |f| stored(f.write_all(&bytes, at)))
    }

    fn complete(&mut self, _object: ObjectId, _cx: &mut Context<'_>) -> Result<(), Error> {
        self.done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, Error> {
        let clobber = match self.to.policy {
            OverwritePolicy::Never => Clobber::Never,
            OverwritePolicy::Replace => Clobber::Replace,
        };
        if let Some(file) = self.file.as_ref().filter(|_| self.store.is_durable()) {
            stored(file.sync())?;
        }
        let renamed = self.store.medium().rename(&self.to.part, &self.to.path, clobber);
        let named = |e| StoreError::from_io("rename to this name", &self.to.path, None, e);
        stored(renamed.map_err(named))?;
        stored(self.store.settle_beside(&self.to.path))?;
        Ok(Some(self.to.path.clone()))
    }
}
