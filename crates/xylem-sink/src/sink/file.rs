//! [`FileSink`]: a whole file: resumed, written as segments arrive, read back once more, and renamed.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use xylem_files::rescan::rescan;
use xylem_files::{LibraryEvent, SaveOptions, SpaceCheck};
use xylem_hash::Hash;
use xylem_object::{Manifest, ObjectId};
use xylem_store::{
    Attributes, FileRef, OpenHow, Partial, RefusedAttributes, Resumed, Resuming, Store, StoreError,
    set_attributes,
};
use xylem_tree::{Geometry, Segment, SegmentIndex, Verified};

use super::attributes::{attributes_of, warnings};
use super::context::{Context, FLUSH_EVERY, Nodes, Sink};
use super::destination::{Destination, require_room};
use super::error::SaveError;
use super::like::old_copies;
use super::writer::PartialWriter;
use crate::update::{SumsList, Update, UpdateSink, UpdateStart};

/// Most attempts to rename a file that other programs write to meanwhile.
const MAX_TRIES: u32 = 3;

/// One file that is being fetched.
pub(super) struct FileSink {
    manifest: Manifest,
    to: Destination,
    room: SpaceCheck,
    store: Store,
    /// Writes while the file grows.
    writer: Option<PartialWriter>,
    /// The file once it is complete.
    whole: Option<Partial>,
    flush_at: Duration,
    /// Bytes fetched in this run before the present writer began.
    fetched_before: u64,
    /// Old copies, until they are searched.
    copies: Vec<FileRef>,
    /// The list of sums while it arrives, and the start that waits for it.
    list: Option<(SumsList, UpdateStart)>,
    update: Option<Update>,
    /// Bytes of old copies handed to the present writer.
    reused: u64,
}

/// Saves what an update has proven.
struct FileReuse<'a> {
    writer: &'a mut PartialWriter,
    bytes: &'a mut u64,
}

impl UpdateSink for FileReuse<'_> {
    type Error = SaveError;

    fn reused(&mut self, segments: Vec<Verified<Segment<Bytes>>>) -> Result<(), SaveError> {
        for segment in segments {
            *self.bytes += segment.content.len() as u64;
            self.writer.segment(segment)?;
        }
        Ok(())
    }

    fn nodes(&mut self, nodes: Nodes) -> Result<(), SaveError> {
        Ok(self.writer.more_nodes(nodes)?)
    }
}

/// Hashes what an earlier run left.
pub(super) fn resume_partial(
    resuming: Resuming,
    id: ObjectId,
    cx: &mut Context<'_>,
) -> Result<(Partial, Resumed), SaveError> {
    let regions: Vec<u64> = resuming.regions().collect();
    let scans = rescan(resuming.scan(), &regions, &AtomicU64::new(0))?;
    let (mut partial, resumed) = resuming.finish(scans)?;
    for there in resumed.have.ranges() {
        let bytes = |index| partial.geometry().segment_range(SegmentIndex(index));
        let (start, end) = (bytes(there.start).start, bytes(there.end - 1).end);
        cx.tally.pieces.add(cx.tally.total, id, start, end - start);
    }
    if let Some(holdings) = cx.holdings {
        holdings.watch(id, &mut partial)?;
    }
    Ok((partial, resumed))
}

/// Hashes what an earlier run left and adds what is missing to the transfer. Returns the partial file and the number of
/// bytes that it had.
pub(super) fn resume(
    resuming: Resuming,
    id: ObjectId,
    root: Hash,
    geometry: Geometry,
    cx: &mut Context<'_>,
) -> Result<(Partial, u64), SaveError> {
    let (partial, Resumed { verifier, have, bytes }) = resume_partial(resuming, id, cx)?;
    let wanted = std::iter::once(0..geometry.segments());
    cx.transfer.add_object(id, root, geometry, wanted, have.ranges(), Some(verifier))?;
    Ok((partial, bytes))
}

/// Returns whether all content on disk agrees with the tree, once nothing is left to be written.
pub(super) fn read_back(partial: &mut Partial, attributes: &Attributes) -> Result<bool, SaveError> {
    partial.complete(attributes)?;
    let scan = partial.audit()?;
    let regions: Vec<u64> = scan.regions().collect();
    let scans = rescan(&scan, &regions, &AtomicU64::new(0))?;
    let right: u64 = scans.iter().flat_map(|s| s.right()).map(|r| r.end - r.start).sum();
    Ok(right == partial.geometry().segments())
}

/// Returns the attributes that a file gets. Its mode is not part of its root, so the umask applies, as with `cp`.
fn file_attributes(manifest: &Manifest, store: &Store) -> Attributes {
    let said = attributes_of(manifest);
    let umask = store.medium().umask();
    Attributes { mode: said.mode.map(|mode| mode & !umask), ..said }
}

/// Gives a file that has the manifest's content already the mode and time that a fetch gives it. Returns warnings about
/// those that cannot be set.
///
/// # Errors
/// The medium's.
pub fn restore_attributes(
    store: &Store,
    path: &Path,
    manifest: &Manifest,
) -> Result<Vec<String>, StoreError> {
    let mut unset = RefusedAttributes::default();
    let file = FileRef::open(&**store.medium(), path, OpenHow::ReadNoFollow)?;
    set_attributes(&file, &file_attributes(manifest, store), &mut unset)?;
    Ok(warnings(&unset))
}

impl FileSink {
    /// # Errors
    /// A named old copy that cannot be opened.
    pub(super) fn new(
        manifest: Manifest,
        to: Destination,
        options: &SaveOptions,
        store: &Store,
    ) -> Result<Self, SaveError> {
        let copies = old_copies(&manifest, &to, &options.like, store)?;
        Ok(Self {
            room: options.room,
            manifest,
            to,
            copies,
            list: None,
            update: None,
            reused: 0,
            store: store.clone(),
            writer: None,
            whole: None,
            flush_at: Duration::ZERO,
            fetched_before: 0,
        })
    }

    fn open(&mut self, cx: &mut Context<'_>) -> Result<u64, SaveError> {
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        let resuming = Partial::open(&self.store, root, geometry, &self.to.part)?;
        let (partial, resumed) = resume_partial(resuming, ObjectId::Root, cx)?;
        self.writer = Some(PartialWriter::new(partial)?);
        let Resumed { verifier, have, bytes } = resumed;
        let start = UpdateStart { id: ObjectId::Root, root, geometry, verifier, have };
        let list = match self.copies.is_empty() || start.have.is_full() {
            true => None,
            false => SumsList::of_file(&self.manifest, cx.now, cx.transfer)?,
        };
        match list {
            Some(list) => self.list = Some((list, start)),
            None => fetch_all(start, cx)?,
        }
        Ok(bytes)
    }

    /// Starts the update once the list is here or has failed.
    fn begin_update(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        let Some((list, start)) = self.list.take() else { return Ok(()) };
        match list.whole() {
            Some(bytes) => match Update::begin(start, bytes, std::mem::take(&mut self.copies)) {
                Ok(update) => self.update = Some(update),
                Err(start) => fetch_all(*start, cx)?,
            },
            None => fetch_all(start, cx)?,
        }
        Ok(())
    }

    fn attributes(&self) -> Attributes {
        file_attributes(&self.manifest, &self.store)
    }

    /// Finishes writing: every segment was handed to the writer.
    fn close(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        self.update = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let Some((mut partial, root)) = writer.finish()? else { return Ok(()) };
        cx.tally.reused = self.reused;
        cx.tally.fetched = self.manifest.size.saturating_sub(cx.tally.resumed + self.reused);
        // The hash read while the file grew counts only if no other program can have written since.
        if root == Some(self.manifest.root) && partial.is_untouched()
            || read_back(&mut partial, &self.attributes())?
        {
            self.whole = Some(partial);
            return Ok(());
        }
        // Another program changed the partial file while it grew: the damaged parts are fetched again.
        drop(partial);
        let there = self.open(cx)?;
        self.fetched_before = there.saturating_sub(cx.tally.resumed + self.reused);
        Ok(())
    }
}

/// Requests all that is missing.
pub(super) fn fetch_all(start: UpdateStart, cx: &mut Context<'_>) -> Result<(), SaveError> {
    let UpdateStart { id, root, geometry, verifier, have } = start;
    let wanted = std::iter::once(0..geometry.segments());
    Ok(cx.transfer.add_object(id, root, geometry, wanted, have.ranges(), Some(verifier))?)
}

impl Sink for FileSink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        (cx.tally.total, cx.tally.files) = (self.manifest.size, 1);
        let medium = self.store.medium().clone();
        let require =
            |sink: &Self, missing| require_room(&*medium, &sink.to.part, missing, sink.room);
        // Checked before anything is written there.
        if medium.metadata(&self.to.part).is_err() {
            require(self, self.manifest.size)?;
        }
        cx.tally.resumed = self.open(cx)?;
        require(self, self.manifest.size.saturating_sub(cx.tally.resumed))?;
        if cx.tally.resumed > 0 {
            (cx.on_event)(LibraryEvent::Resumed { bytes: cx.tally.resumed });
        }
        Ok(())
    }

    fn segment(
        &mut self,
        object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        if object == ObjectId::Sums {
            if let Some((list, _)) = &mut self.list {
                list.segment(&segment, cx.now);
            }
            return Ok(());
        }
        if let Some(update) = &mut self.update {
            update.segment(segment.index);
        }
        self.writer.as_mut().map_or(Ok(()), |w| Ok(w.segment(segment)?))
    }

    fn nodes(&mut self, object: ObjectId, nodes: Nodes) -> Result<(), SaveError> {
        if object == ObjectId::Sums {
            return Ok(());
        }
        if let Some(update) = &mut self.update {
            update.nodes(&nodes);
        }
        self.writer.as_mut().map_or(Ok(()), |w| Ok(w.nodes(nodes)?))
    }

    fn complete(&mut self, object: ObjectId, cx: &mut Context<'_>) -> Result<(), SaveError> {
        match (object, &mut self.update) {
            (ObjectId::Sums, _) => self.begin_update(cx),
            (_, Some(update)) => {
                update.round_is_over();
                Ok(())
            }
            (_, None) => self.close(cx),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Result<Option<Duration>, SaveError> {
        let mut again = None;
        if let Some((list, _)) = &mut self.list {
            again = list.late().look(cx.now);
            if again.is_none() {
                cx.transfer.give_up_object(ObjectId::Sums);
                self.begin_update(cx)?;
            }
        }
        let Some(writer) = &mut self.writer else { return Ok(again) };
        if let Some(update) = &mut self.update {
            let mut keeper = FileReuse { writer, bytes: &mut self.reused };
            again = update.poll(cx.now, cx.transfer, &mut keeper)?;
            if update.is_done() {
                self.close(cx)?;
                return Ok(None);
            }
        }
        let Some(writer) = &mut self.writer else { return Ok(again) };
        let written = writer.written();
        cx.tally.reused = self.reused.min(written);
        cx.tally.fetched = self.fetched_before + written - cx.tally.reused;
        if cx.now < self.flush_at {
            writer.push_on()?;
        } else {
            cx.transfer.flush_nodes();
            writer.flush()?;
            self.flush_at = cx.now + FLUSH_EVERY;
        }
        Ok(again)
    }

    fn is_done(&self) -> bool {
        self.whole.is_some()
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError> {
        let attributes = self.attributes();
        let Some(partial) = &mut self.whole else { return Ok(Some(self.to.path.clone())) };
        let mut tries = 0;
        loop {
            tries += 1;
            match partial.finish_as(&self.to.path, &attributes, self.to.policy) {
                Ok(()) => return Ok(Some(self.to.path.clone())),
                Err(changed @ StoreError::Changed { .. }) => {
                    if tries == MAX_TRIES || !read_back(partial, &attributes)? {
                        return Err(SaveError::at_the_end(changed));
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn warnings(&mut self) -> Vec<String> {
        let unset = self.whole.as_mut().map(Partial::take_unset).unwrap_or_default();
        warnings(&unset)
    }
}
