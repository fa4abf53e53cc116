//! A dry run: reports what a fetch would do, and fetches nothing but a directory's listing. [`DryFile`] is that of a
//! single file; the directory sink has its own, because it knows what stays.

use std::path::PathBuf;

use bytes::Bytes;
use xylem_files::LibraryEvent;
use xylem_files::hashing::{self, HashJob};
use xylem_object::{Manifest, ObjectId};
use xylem_store::{FileKind, Store};
use xylem_tree::{Segment, Verified};

use super::context::{Context, Sink};
use super::destination::Destination;
use super::error::SaveError;

/// Totals of a dry run.
#[derive(Default)]
pub(super) struct DryRun {
    files: u64,
    bytes: u64,
    replaced: u64,
    pub(super) removed: u64,
}

impl DryRun {
    /// Reports one file or link that would be written.
    pub(super) fn add_file(
        &mut self,
        path: PathBuf,
        bytes: u64,
        replaces: bool,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.replaced += u64::from(replaces);
        on_event(LibraryEvent::Planned { path, bytes, replaces });
    }

    /// Reports the totals.
    pub(super) fn end(self, on_event: &mut dyn FnMut(LibraryEvent)) {
        let Self { files, bytes, replaced, removed } = self;
        on_event(LibraryEvent::DryRun { files, bytes, replaced, removed });
    }
}

/// Dry run of a single file; see the module's text.
pub(super) struct DryFile {
    manifest: Manifest,
    to: Destination,
    store: Store,
    done: bool,
}

impl DryFile {
    pub(super) fn new(manifest: Manifest, to: Destination, store: &Store) -> Self {
        Self { manifest, to, store: store.clone(), done: false }
    }

    /// Returns whether the existing file has the published root.
    fn is_there(&self, cx: &mut Context<'_>) -> Result<bool, SaveError> {
        let (path, segment) = (self.to.path.clone(), self.manifest.segment);
        let state = hashing::state_of(&**self.store.medium(), &path)?;
        if state.size != self.manifest.size {
            return Ok(false);
        }
        let job = HashJob { path, state, slot: None, segment, sums: None };
        let is = hashing::hash_each(&**self.store.medium(), &[job], None, cx.on_event)?;
        Ok(is.first().copied().flatten() == Some(self.manifest.root))
    }
}

impl Sink for DryFile {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), SaveError> {
        self.done = true;
        let (path, mut plan) = (self.to.path.clone(), DryRun::default());
        let there = self.store.medium().metadata(&path);
        let is_file = there.as_ref().is_ok_and(|meta| meta.kind == FileKind::File);
        if !is_file || !self.is_there(cx)? {
            plan.add_file(path, self.manifest.size, there.is_ok(), cx.on_event);
        }
        plan.end(cx.on_event);
        Ok(())
    }

    fn segment(
        &mut self,
        _object: ObjectId,
        _segment: Verified<Segment<Bytes>>,
        _cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        Ok(())
    }

    fn complete(&mut self, _object: ObjectId, _cx: &mut Context<'_>) -> Result<(), SaveError> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, SaveError> {
        Ok(None)
    }
}
