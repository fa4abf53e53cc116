//! [`StreamSink`]: standard output, in order.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use xylem_object::{Manifest, ObjectId};
use xylem_tree::{Segment, Verified};

use super::context::{Context, Sink, unrecorded};
use super::error::SaveError;
use crate::ordered::{OrderedTarget, OrderedWriter, WriteError};

/// Most segments requested past the first missing one; they are held out of order.
const WINDOW_SEGMENTS: u64 = 1_024;
/// Interval at which a full queue is tried again.
const RETRY: Duration = Duration::from_millis(2);

/// Bytes `range` of a file to standard output.
pub(super) struct StreamSink {
    manifest: Manifest,
    range: Range<u64>,
    writer: OrderedWriter,
    complete: bool,
}

impl StreamSink {
    pub(super) fn new(manifest: Manifest, range: Range<u64>) -> Result<Self, WriteError> {
        let first = manifest.geometry().segments_of(range.clone()).start;
        let writer = OrderedWriter::new(
            OrderedTarget::Range { root: manifest.root, range: range.clone() },
            first,
        )?;
        Ok(Self { manifest, range, writer, complete: false })
    }
}

impl Sink for StreamSink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        (cx.tally.total, cx.tally.files) = (self.range.end - self.range.start, 1);
        cx.tally.pieces.begin_at(self.range.start);
        cx.transfer.in_order_window(Some(WINDOW_SEGMENTS));
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        // An empty file is one empty segment, verified like any other.
        let wanted = geometry.segments_of(self.range.clone());
        let wanted = if self.manifest.size == 0 { 0..1 } else { wanted };
        let verifier = Some(unrecorded(&self.manifest));
        Ok(cx.transfer.add_object(ObjectId::Root, root, geometry, [wanted], [], verifier)?)
    }

    fn segment(
        &mut self,
        _object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        cx.tally.fetched += segment.content.len() as u64;
        Ok(self.writer.segment(segment, &mut |_| {})?)
    }

    fn complete(&mut self, _object: ObjectId, _cx: &mut Context<'_>) -> Result<(), SaveError> {
        self.complete = true;
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Result<Option<Duration>, SaveError> {
        self.writer.push()?;
        cx.transfer.set_paused(cx.now, self.writer.is_full());
        Ok(self.writer.is_waiting().then_some(cx.now + RETRY))
    }

    fn is_done(&self) -> bool {
        self.complete && !self.writer.is_waiting()
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError> {
        match self.writer.finish() {
            // All was verified; a reader may close its end early.
            Ok(()) | Err(WriteError::StdoutClosed) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}
