//! [`Merge`]: brings a verified listing into an existing directory.
//!
//! The merge first determines what stays. If the place of a listed file holds a file of its size, that is hashed, and
//! stays if it has the listed root. Nothing is changed until all other files are complete in the staging directory. For
//! each file that stays, eight bytes are kept, which show at the end that it is still the hashed one.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_base::{canonical, os_path};
use xylem_files::hashing::{self, HashJob, packed_slots};
use xylem_files::{Exclusion, LibraryEvent, Listed, ListedEntries, ListedFiles, ours};
use xylem_hash::Hash;
use xylem_object::listing::{self, Entry, EntryKind};
use xylem_store::{
    Attributes, FileKind, FileState, MergeTarget, Meta, OutboardFile, RefusedAttributes, SmallFile,
    Staging, Store, StoreError, TargetListing,
};
use xylem_tree::{NODE_LEN, SegmentSize};

use super::tree::entry_attributes;
use crate::sink::context::Context;
use crate::sink::error::SaveError;

/// Files hashed together.
const BATCH: usize = 4_096;
/// Slots cleared at once.
const CLEARED: u64 = 4_096;
/// Most paths to be removed in one event.
const TOLD_TOGETHER: usize = 1_000;

/// A merge in progress; see the module's text.
pub(super) struct Merge {
    store: Store,
    target: MergeTarget,
    exclude: Exclusion,
    segment: SegmentSize,
    /// By file number: a fingerprint of a file that stays, from when it was hashed; 0 for one that does not.
    kept: Vec<u64>,
    /// Paths to be removed, directories before their contents.
    removed: Vec<(Vec<u8>, FileKind)>,
}

/// What a merge does with the files of the directory.
#[derive(Clone, Copy)]
pub(super) struct MergeRules<'a> {
    /// Paths that are neither compared nor removed.
    pub(super) exclude: &'a Exclusion,
    /// Whether files that are not listed are removed.
    pub(super) delete: bool,
    /// Segment size of the trees of files that stay.
    pub(super) segment: SegmentSize,
}

/// A file that may stay.
struct Candidate {
    number: u64,
    root: Hash,
    mark: u64,
    job: HashJob,
}

/// Returns a fingerprint of a file's metadata in eight bytes, never 0.
fn mark(meta: &Meta) -> u64 {
    let Meta { size, mtime, ctime, ino, .. } = meta;
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&size.to_le_bytes());
    bytes[8..16].copy_from_slice(&mtime.secs.to_le_bytes());
    bytes[16..20].copy_from_slice(&mtime.nanos.to_le_bytes());
    bytes[20..28].copy_from_slice(&ctime.secs.to_le_bytes());
    bytes[28..32].copy_from_slice(&ctime.nanos.to_le_bytes());
    bytes[32..].copy_from_slice(&ino.to_le_bytes());
    let hash = xylem_hash::hash(&bytes);
    let (first, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first).max(1)
}

impl Merge {
    /// Determines which entries of `listed` are in the directory at `path`, and what else is, without changes. `nodes`
    /// receives the trees of files that stay, for serving.
    ///
    /// # Errors
    /// Obstacles to the merge: a store, a directory in the place of a file, another file system.
    pub(super) fn plan(
        store: &Store,
        path: &Path,
        listed: &ListedFiles,
        rules: MergeRules<'_>,
        nodes: Option<&OutboardFile>,
        cx: &mut Context<'_>,
    ) -> Result<Self, SaveError> {
        let MergeRules { exclude, delete, segment } = rules;
        // A test's medium has no such path; then it has no links either.
        let place = canonical(path).unwrap_or_else(|_| path.to_path_buf());
        ours::require_outside(&**store.medium(), &place)?;
        let mut merge = Self {
            store: store.clone(),
            target: MergeTarget::open(store, path)?,
            exclude: exclude.clone(),
            segment,
            kept: vec![0; usize::try_from(listed.totals().files).unwrap_or(usize::MAX)],
            removed: Vec::new(),
        };
        merge.scan_existing(listed, delete, nodes, cx)?;
        if delete {
            merge.scan_removals(listed, cx)?;
            let files = merge.removed.iter().filter(|(_, kind)| *kind != FileKind::Directory);
            let paths: Vec<PathBuf> = files.map(|(path, _)| os_path(path)).collect();
            for some in paths.chunks(TOLD_TOGETHER) {
                let (files, paths) = (some.len() as u64, some.to_vec());
                (cx.on_event)(LibraryEvent::Removing { files, paths });
            }
        }
        Ok(merge)
    }

    /// Returns where a listed path lies, if anything is there.
    pub(super) fn there(&mut self, path: &[u8]) -> Result<Option<PathBuf>, SaveError> {
        Ok(self.target.metadata(path)?.map(|_| self.target.place(path)))
    }

    /// Returns how many files and links are to be removed.
    pub(super) fn removes(&self) -> u64 {
        self.removed.iter().filter(|(_, kind)| *kind != FileKind::Directory).count() as u64
    }

    /// Completes without these unavailable files. Existing files there stay. Nothing is removed, since a file to be
    /// removed may be one of the unavailable ones under another name.
    pub(super) fn without(&mut self, lost: Arc<BTreeSet<Vec<u8>>>) {
        self.exclude.without(lost);
        self.removed.clear();
    }

    /// Returns the place of a listed path.
    pub(super) fn place(&self, path: &[u8]) -> PathBuf {
        self.target.place(path)
    }

    /// Returns whether the file of this number stays as it is.
    pub(super) fn keeps(&self, number: u64) -> bool {
        let kept = usize::try_from(number).ok().and_then(|number| self.kept.get(number));
        kept.is_some_and(|mark| *mark != 0)
    }

    fn scan_existing(
        &mut self,
        listed: &ListedFiles,
        delete: bool,
        nodes: Option<&OutboardFile>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        let (mut batch, mut elsewhere) = (Vec::new(), Vec::new());
        let mut names_of_one = HashSet::new();
        for found in listed.entries() {
            let found = found?;
            let Listed { entry, number, slot } = &found;
            if self.exclude.leaves_out(entry) {
                continue;
            }
            let Some(meta) = self.target.metadata(&entry.path)? else { continue };
            let place = self.target.place(&entry.path);
            match (meta.kind, &entry.kind) {
                (FileKind::Directory, EntryKind::Directory) => {
                    if ours::is_ours(&**self.store.medium(), &place)? {
                        let (path, store) = (place.clone(), place);
                        return Err(ours::OwnError::InStore { path, store }.into());
                    }
                    if self.target.is_elsewhere(&meta) {
                        elsewhere.push(entry.path.clone());
                    }
                }
                (FileKind::Directory, _) if !delete => self.target.require_empty(&entry.path)?,
                (FileKind::File, EntryKind::File { size, root }) if meta.size == *size => {
                    // Two published files must not be one file here.
                    if meta.links > 1 && !names_of_one.insert((meta.dev, meta.ino)) {
                        continue;
                    }
                    let state = FileState::of(&meta);
                    let takes = packed_slots(*size, self.segment) > 0;
                    let slot = Some(*slot).filter(|_| takes && nodes.is_some());
                    let job =
                        HashJob { path: place, state, slot, segment: self.segment, sums: None };
                    batch.push(Candidate { number: *number, root: *root, mark: mark(&meta), job });
                }
                _ => {}
            }
            if batch.len() == BATCH {
                self.hash(std::mem::take(&mut batch), nodes, cx)?;
            }
        }
        self.hash(batch, nodes, cx)?;
        if !elsewhere.is_empty() {
            self.require_here(listed, &elsewhere)?;
        }
        Ok(())
    }

    /// Determines which candidates have their roots.
    fn hash(
        &mut self,
        batch: Vec<Candidate>,
        nodes: Option<&OutboardFile>,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        let (mut wanted, mut jobs) = (Vec::new(), Vec::new());
        for Candidate { number, root, mark, job } in batch {
            wanted.push((number, root, mark, (job.slot, job.state.size)));
            jobs.push(job);
        }
        let medium = &**self.store.medium();
        let roots = hashing::hash_each(medium, &jobs, nodes, cx.on_event)?;
        for ((number, root, mark, (slot, size)), is) in wanted.into_iter().zip(roots) {
            let kept = usize::try_from(number).ok().and_then(|number| self.kept.get_mut(number));
            if let (Some(kept), true) = (kept, is == Some(root)) {
                *kept = mark;
                if let (Some(_), Some(holdings)) = (nodes, cx.holdings) {
                    holdings.mark_in_place(number);
                }
            } else if let (Some(nodes), Some(slot)) = (nodes, slot) {
                // The slots must be empty for the tree of the published file.
                clear(nodes, slot, packed_slots(size, self.segment))?;
            }
        }
        Ok(())
    }

    /// Checks that whatever must be moved goes to the directory's own file system.
    fn require_here(&self, listed: &ListedFiles, elsewhere: &[Vec<u8>]) -> Result<(), SaveError> {
        for found in listed.entries() {
            let Listed { entry, number, .. } = found?;
            let stays = match entry.kind {
                EntryKind::Directory => true,
                EntryKind::File { .. } => self.keeps(number),
                _ => false,
            };
            let below = |dir: &Vec<u8>| {
                entry.path.strip_prefix(&**dir).is_some_and(|rest| rest.first() == Some(&b'/'))
            };
            if !stays && !self.exclude.leaves_out(&entry) && elsewhere.iter().any(below) {
                return Err(SaveError::Elsewhere(self.target.place(&entry.path)));
            }
        }
        Ok(())
    }

    fn scan_removals(
        &mut self,
        listed: &ListedFiles,
        cx: &mut Context<'_>,
    ) -> Result<(), SaveError> {
        let mut entries = listed.entries().peekable();
        let mut has = |path: &[u8]| wanted(&mut entries, path);
        let (exclude, medium) = (&self.exclude, &**self.store.medium());
        let mut spares = |path: &[u8], place: &Path, kind: FileKind| {
            let (name, is_folder) =
                (path.rsplit(|b| *b == b'/').next(), kind == FileKind::Directory);
            // A link is only removed, wherever it leads.
            Ok(exclude.matches(path, is_folder)
                || listing::is_reserved(name.unwrap_or(path))
                || (is_folder && ours::is_ours(medium, place)?))
        };
        let removed = &mut self.removed;
        let mut listing = TargetListing { has: &mut has, spares: &mut spares };
        let mut found = |path: &[u8], kind| removed.push((path.to_vec(), kind));
        let too_deep = self.target.unlisted(&mut listing, &mut found)?;
        for path in too_deep {
            let what = format!("{}: not removed, as it is nested too deep", path.display());
            (cx.on_event)(LibraryEvent::Warning { what });
        }
        Ok(())
    }

    /// Brings all entries to their places, once all that was missing is complete in `staging`.
    ///
    /// # Errors
    /// If a file that stays has changed, nothing was changed yet. After any other error, running it again completes it.
    pub(super) fn finish(
        &mut self,
        staging: &mut Staging,
        listed: &mut ListedFiles,
        own: &Attributes,
        unset: &mut RefusedAttributes,
        warnings: &mut Vec<String>,
    ) -> Result<(), SaveError> {
        self.target.start_changes()?;
        self.require_unchanged(listed)?;
        while let Some((path, kind)) = self.removed.pop() {
            self.target.remove(&path, kind)?;
        }
        for found in listed.entries() {
            let Listed { entry, number, .. } = found?;
            match entry.kind {
                _ if self.exclude.leaves_out(&entry) => {}
                EntryKind::Directory => self.target.directory(&entry.path)?,
                EntryKind::File { .. } if self.keeps(number) => {
                    self.target.set_attributes(&entry.path, &entry_attributes(&entry), unset)?;
                }
                EntryKind::File { .. } => staging.move_file(&mut self.target, &entry.path)?,
                _ => {}
            }
        }
        self.links(staging, listed, warnings)?;
        // Children before parents: making a child changes its parent's time.
        for found in listed.entries_reversed() {
            let Listed { entry, .. } = found?;
            if entry.kind == EntryKind::Directory && !self.exclude.leaves_out(&entry) {
                self.target.finish_directory(&entry.path, &entry_attributes(&entry), unset)?;
            }
        }
        self.target.finish_directory(b"", own, unset)?;
        Ok(staging.finish_merged()?)
    }

    fn require_unchanged(&mut self, listed: &ListedFiles) -> Result<(), SaveError> {
        for found in listed.entries() {
            let Listed { entry, number, .. } = found?;
            if !matches!(entry.kind, EntryKind::File { .. }) || !self.keeps(number) {
                continue;
            }
            let now = self.target.metadata(&entry.path)?;
            let is = now.filter(|meta| meta.kind == FileKind::File).map(|meta| mark(&meta));
            let was = usize::try_from(number).ok().and_then(|number| self.kept.get(number));
            if is.as_ref() != was {
                return Err(SaveError::ChangedMeanwhile(self.target.place(&entry.path)));
            }
        }
        Ok(())
    }

    /// Makes links, hard ones first.
    fn links(
        &mut self,
        staging: &mut Staging,
        listed: &mut ListedFiles,
        warnings: &mut Vec<String>,
    ) -> Result<(), SaveError> {
        for symbolic in [false, true] {
            for found in listed.entries() {
                let Listed { entry, .. } = found?;
                if self.exclude.leaves_out(&entry) {
                    continue;
                }
                match &entry.kind {
                    EntryKind::Symlink { target } if symbolic => {
                        staging.move_symlink(&mut self.target, &entry.path, target)?;
                    }
                    EntryKind::HardLink { target }
                        if !symbolic && !self.exclude.matches(target, false) =>
                    {
                        let Some(file) = listed.find(target)?.map(|found| found.entry.clone())
                        else {
                            continue;
                        };
                        if !self.hard_link(staging, &entry, &file)? {
                            warnings.push(copied_warning(&entry.path, target));
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn hard_link(
        &mut self,
        staging: &mut Staging,
        entry: &Entry,
        file: &Entry,
    ) -> Result<bool, SaveError> {
        let EntryKind::File { size, root } = file.kind else { return Ok(true) };
        let copy = SmallFile { path: &entry.path, size, root };
        let attributes = entry_attributes(file);
        Ok(staging.move_hard_link(&mut self.target, &copy, &file.path, &attributes)?)
    }
}

/// Overwrites slots with zeros, which mean unwritten.
fn clear(nodes: &OutboardFile, slot: u64, slots: u64) -> Result<(), StoreError> {
    let (mut at, zeros) = (slot, vec![0; NODE_LEN * slots.min(CLEARED) as usize]);
    while at < slot + slots {
        let piece = &zeros[..NODE_LEN * (slot + slots - at).min(CLEARED) as usize];
        nodes.file().write_all(piece, at * NODE_LEN as u64)?;
        at += CLEARED;
    }
    Ok(())
}

/// Returns the warning about a hard link that became a copy.
pub(super) fn copied_warning(path: &[u8], target: &[u8]) -> String {
    let (path, target) = (os_path(path), os_path(target));
    let what = "is a copy, as the file system refused a hard link to";
    format!("{} {what} {}", path.display(), target.display())
}

/// Returns what the listing has at paths, which must be queried in order: a directory, or anything else.
fn wanted(
    entries: &mut std::iter::Peekable<ListedEntries>,
    path: &[u8],
) -> Result<Option<FileKind>, StoreError> {
    loop {
        match entries.peek() {
            Some(Ok(listed)) if listed.entry.path.as_slice() < path => drop(entries.next()),
            Some(Ok(listed)) if listed.entry.path == path => {
                let directory = listed.entry.kind == EntryKind::Directory;
                let kind = if directory { FileKind::Directory } else { FileKind::File };
                return Ok(Some(kind));
            }
            Some(Err(_)) => return entries.next().transpose().map(|_| None),
            _ => return Ok(None),
        }
    }
}
