//! [`FileSink`]: a whole file, resumed, written as segments come, read back once more, named.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use xylem_hash::Hash;
use xylem_object::{Manifest, ObjectId};
use xylem_store::{Partial, Resumed, Resuming, Store};
use xylem_tree::{Geometry, Segment, Verified};

use super::attributes::{attributes_of, warnings};
use super::context::{Context, FLUSH_EVERY, Nodes, Sink};
use super::destination::Destination;
use super::error::SaveError;
use super::writer::Writer;
use crate::event::LibraryEvent;
use crate::rescan::rescan;

/// One file that is being fetched.
pub(super) struct FileSink {
    manifest: Manifest,
    to: Destination,
    store: Store,
    /// Writes while the file grows.
    writer: Option<Writer>,
    /// The file once it is whole.
    whole: Option<Partial>,
    flush_at: Duration,
    /// Bytes fetched in this run before the writer of now began.
    fetched_before: u64,
}

/// Re-hashes what an earlier run left and adds what is missing to the transfer. Returns the partial
/// file and the bytes that were there.
pub(super) fn resume(
    resuming: Resuming,
    id: ObjectId,
    root: Hash,
    geometry: Geometry,
    cx: &mut Context<'_>,
) -> Result<(Partial, u64), SaveError> {
    let regions: Vec<u64> = resuming.regions().collect();
    let scans = rescan(resuming.scan(), &regions, &AtomicU64::new(0))?;
    let (mut partial, Resumed { verifier, have, bytes }) = resuming.finish(scans)?;
    if let Some(holdings) = cx.holdings {
        holdings.watch(id, &mut partial)?;
    }
    let wanted = std::iter::once(0..geometry.segments());
    cx.transfer.add_object(id, root, geometry, wanted, have.ranges(), Some(verifier))?;
    Ok((partial, bytes))
}

/// Whether everything on disk agrees with the tree.
pub(super) fn audit(partial: &mut Partial) -> Result<bool, SaveError> {
    let scan = partial.audit()?;
    let regions: Vec<u64> = scan.regions().collect();
    let scans = rescan(&scan, &regions, &AtomicU64::new(0))?;
    let right: u64 = scans.iter().flat_map(|s| s.right()).map(|r| r.end - r.start).sum();
    Ok(right == partial.geometry().segments())
}

impl FileSink {
    pub(super) fn new(manifest: Manifest, to: Destination, store: &Store) -> Self {
        Self {
            manifest,
            to,
            store: store.clone(),
            writer: None,
            whole: None,
            flush_at: Duration::ZERO,
            fetched_before: 0,
        }
    }

    fn open(&mut self, cx: &mut Context<'_>) -> Result<u64, SaveError> {
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        let resuming = Partial::open(&self.store, root, geometry, &self.to.part)?;
        let (partial, bytes) = resume(resuming, ObjectId::Root, root, geometry, cx)?;
        self.writer = Some(Writer::new(partial));
        Ok(bytes)
    }
}

impl Sink for FileSink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        (cx.tally.total, cx.tally.files) = (self.manifest.size, 1);
        cx.tally.resumed = self.open(cx)?;
        if cx.tally.resumed > 0 {
            (cx.on_event)(LibraryEvent::Resumed { bytes: cx.tally.resumed });
        }
        Ok(())
    }

    fn segment(
        &mut self,
        _object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        _cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        self.writer.as_mut().map_or(Ok(()), |w| Ok(w.segment(segment)?))
    }

    fn nodes(&mut self, _object: ObjectId, nodes: Nodes) -> Result<(), SaveError> {
        self.writer.as_mut().map_or(Ok(()), |w| Ok(w.nodes(nodes)?))
    }

    fn complete(&mut self, _object: ObjectId, cx: &mut Context<'_>) -> Result<(), SaveError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let Some((mut partial, root)) = writer.finish()? else { return Ok(()) };
        cx.tally.fetched = self.manifest.size - cx.tally.resumed;
        if root == Some(self.manifest.root) || audit(&mut partial)? {
            self.whole = Some(partial);
            return Ok(());
        }
        // Somebody changed the partial file while it grew: what is wrong is fetched again.
        drop(partial);
        self.fetched_before = self.open(cx)?.saturating_sub(cx.tally.resumed);
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Result<Option<Duration>, SaveError> {
        let Some(writer) = &mut self.writer else { return Ok(None) };
        cx.tally.fetched = self.fetched_before + writer.written();
        if cx.now < self.flush_at {
            writer.push_on()?;
        } else {
            writer.flush()?;
            self.flush_at = cx.now + FLUSH_EVERY;
        }
        Ok(None)
    }

    fn is_done(&self) -> bool {
        self.whole.is_some()
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError> {
        let attributes = attributes_of(&self.manifest);
        if let Some(partial) = &mut self.whole {
            partial.finish_as(&self.to.path, &attributes, self.to.policy)?;
        }
        Ok(Some(self.to.path.clone()))
    }

    fn warnings(&mut self) -> Vec<String> {
        let unset = self.whole.as_mut().map(Partial::take_unset).unwrap_or_default();
        warnings(&unset)
    }
}
