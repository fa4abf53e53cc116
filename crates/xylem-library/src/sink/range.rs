//! [`RangeSink`]: part of a file, as a file of its own.

use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use xylem_object::{Manifest, ObjectId};
use xylem_store::{Clobber, FileRef, OpenHow, OverwritePolicy, Store, install};
use xylem_tree::{Segment, Verified};

use super::error::SaveError;
use super::{Context, Destination, Sink};
use crate::ordered::ProvenPart;

/// Bytes `range` of a file, written from offset 0 of the result.
pub(super) struct RangeSink {
    manifest: Manifest,
    to: Destination,
    range: Range<u64>,
    store: Store,
    file: Option<FileRef>,
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
        let how = OpenHow::Create { mode: 0o666 };
        let file = FileRef::open(&**self.store.medium(), &self.to.part, how)?;
        file.lock().and_then(|()| file.set_len(0))?;
        self.file = Some(file);
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        let wanted = std::iter::once(geometry.segments_of(self.range.clone()));
        Ok(cx.transfer.add_object(ObjectId::Root, root, geometry, wanted, [], None)?)
    }

    fn segment(
        &mut self,
        _object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        cx.tally.fetched += segment.content.len() as u64;
        let part = ProvenPart::of(segment, &self.range);
        self.file.as_ref().map_or(Ok(()), |file| Ok(part.write_to(file, self.range.start)?))
    }

    fn complete(&mut self, _object: ObjectId, _cx: &mut Context<'_>) -> Result<(), SaveError> {
        self.done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError> {
        let clobber = match self.to.policy {
            OverwritePolicy::Never => Clobber::Never,
            OverwritePolicy::Replace => Clobber::Replace,
        };
        let durability = self.store.durability();
        if let Some(file) = &self.file {
            let (medium, to) = (&**self.store.medium(), &self.to);
            install(medium, file, &to.part, &to.path, clobber, durability)?;
        }
        Ok(Some(self.to.path.clone()))
    }
}
