//! [`Copies`]: whole files elsewhere on this machine, found by their content: below old copies of the directory under
//! any name, and in the directory itself.
//!
//! Only files of a wanted size are hashed. A file is hashed again as it is copied, so that the first hash need not be
//! trusted.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_base::canonical;
use xylem_files::hashing::{self, HashJob};
use xylem_files::walk::{DirectoryWalk, FoundKind, WalkEntry, WalkRules};
use xylem_files::{LibraryEvent, Listed, ListedFiles, Only};
use xylem_hash::Hash;
use xylem_object::listing::EntryKind;
use xylem_store::{FileRef, Medium, OpenHow};
use xylem_tree::SegmentSize;

use crate::sink::error::SaveError;

/// Files hashed together.
const BATCH: usize = 4_096;

/// Files found by root; see the module's text.
#[derive(Default)]
pub(crate) struct Copies {
    medium: Option<Arc<dyn Medium>>,
    found: HashMap<Hash, PathBuf>,
    /// Files that have parts of the content with this root.
    parts: HashMap<Hash, PathBuf>,
}

impl Copies {
    /// Returns the files that `only` locates.
    pub(super) fn known(medium: &Arc<dyn Medium>, only: &Only) -> Self {
        let (found, parts) = ((*only.copies).clone(), (*only.parts).clone());
        Self { medium: Some(medium.clone()), found, parts }
    }

    /// Searches the directories `places` for the files of `listed` that are `missing`.
    ///
    /// # Errors
    /// Those of the listing. An unreadable file is no copy.
    pub(crate) fn find(
        medium: &Arc<dyn Medium>,
        places: &[PathBuf],
        listed: &ListedFiles,
        missing: &dyn Fn(&Listed) -> bool,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Self, SaveError> {
        let (mut sizes, mut roots) = (HashSet::new(), HashSet::new());
        for found in listed.entries() {
            let found = found?;
            if let EntryKind::File { size, root } = found.entry.kind
                && size > 0
                && missing(&found)
            {
                sizes.insert(size);
                roots.insert(root);
            }
        }
        let mut copies = Self { medium: Some(medium.clone()), ..Self::default() };
        for place in places.iter().filter(|_| !roots.is_empty()) {
            copies.look(&**medium, place, &sizes, &roots, on_event);
        }
        Ok(copies)
    }

    /// Searches one place; an unreadable place counts as empty.
    fn look(
        &mut self,
        medium: &dyn Medium,
        place: &Path,
        sizes: &HashSet<u64>,
        roots: &HashSet<Hash>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) {
        let place = canonical(place).unwrap_or_else(|_| place.to_path_buf());
        let rules = WalkRules { strict: false, ..WalkRules::all() };
        let Ok(mut walk) = DirectoryWalk::new(medium, &place, rules, &mut |_| {}) else { return };
        let mut jobs = Vec::new();
        loop {
            let found = walk.next(&mut |_| {}).ok().flatten();
            let ended = found.is_none();
            if let Some(WalkEntry { path, kind: FoundKind::File(state), .. }) = found
                && sizes.contains(&state.size)
            {
                let (path, segment) = (walk.place(&path), SegmentSize::DEFAULT);
                jobs.push(HashJob { path, state, slot: None, segment, sums: None });
            }
            if jobs.len() == BATCH || ended {
                self.hash(medium, &std::mem::take(&mut jobs), roots, on_event);
            }
            if ended {
                return;
            }
        }
    }

    fn hash(
        &mut self,
        medium: &dyn Medium,
        jobs: &[HashJob],
        roots: &HashSet<Hash>,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) {
        let found = hashing::hash_each(medium, jobs, None, on_event).unwrap_or_default();
        for (job, root) in jobs.iter().zip(found) {
            if let Some(root) = root.filter(|root| roots.contains(root)) {
                self.found.entry(root).or_insert_with(|| job.path.clone());
            }
        }
    }

    /// Returns where a file with this root was found.
    pub(crate) fn path(&self, root: &Hash) -> Option<&Path> {
        self.found.get(root).map(PathBuf::as_path)
    }

    /// Opens a file with this root, to be copied.
    pub(super) fn get(&self, root: &Hash) -> Option<FileRef> {
        self.open(self.found.get(root)?)
    }

    /// Opens a file with a part of the content of this root, left by an earlier fetch.
    pub(super) fn part(&self, root: &Hash) -> Option<FileRef> {
        self.open(self.parts.get(root)?)
    }

    fn open(&self, path: &Path) -> Option<FileRef> {
        FileRef::open(self.medium.as_deref()?, path, OpenHow::ReadNoFollow).ok()
    }
}
