//! [`Holdings`]: what a fetch has verified and written so far. Sinks add to it; the serving side reads it.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xylem_hash::Hash;
use xylem_object::listing::EntryKind;
use xylem_object::{Have, ObjectId};
use xylem_store::{FileRef, OutboardFile, Partial, StoreError};
use xylem_tree::{Geometry, SegmentIndex, SegmentSet};

use crate::listed::ListedFiles;
use crate::reads::{GrowingRead, ReadKind, Reads};
use crate::sums::KeptSums;

/// Largest small file, bytes. A small file of a directory is written at once when it is complete, and hashed anew when
/// it is served, which costs less than reading its nodes from disk. Larger files are resumed.
pub const SMALL_FILE: u64 = 64 * 1024;
/// Most runs of one object in a [`Have`].
const MAX_RUNS: usize = 4_096;
/// Most partial objects in a [`Have`], beside the complete ones.
const MAX_PARTIAL: usize = 256;

/// Shared by the threads that fetch, write and serve. Cheap to clone.
#[derive(Clone, Default)]
pub struct Holdings(Arc<Mutex<HoldingsState>>);

#[derive(Default)]
struct HoldingsState {
    /// The root object (file or listing), and large files of a directory while they are fetched.
    objects: HashMap<ObjectId, HeldObject>,
    tree: Option<HeldTree>,
    /// The list of sums for updates, if the publication has one.
    sums: Option<Arc<KeptSums>>,
    /// What reads the files for the serving side. `None`: it reads them itself, and waits for that.
    reads: Option<Reads>,
}

struct HeldObject {
    /// As the serving side reads it.
    open: OpenObject,
    /// Its nodes, if threads read them: more are written while they are read.
    nodes: Option<GrowingRead>,
    have: SegmentSet,
}

impl HeldObject {
    fn new(open: OpenObject, have: SegmentSet, reads: Option<&Reads>) -> Self {
        let mut object = Self { open, nodes: None, have };
        if let Some(reads) = reads {
            object.read_by(reads);
        }
        object
    }

    /// Has threads read it. Only segments that are here are read, and their bytes do not change.
    fn read_by(&mut self, reads: &Reads) {
        let nodes = reads.growing(self.open.outboard.file(), ReadKind::GrowingNodes);
        self.open.file = reads.file(&self.open.file);
        self.open.outboard = OutboardFile::new(nodes.file.clone());
        self.nodes = Some(nodes);
    }
}

/// Where an object that is being fetched lies.
#[derive(Clone)]
pub(crate) struct OpenObject {
    pub(crate) file: FileRef,
    pub(crate) outboard: OutboardFile,
    /// The slot at which its outboard begins.
    pub(crate) base: u64,
}

/// A directory: its regular files by number, and which of them are complete.
struct HeldTree {
    place: PathBuf,
    /// The directory's final place. Its files go there at the end, all at once or one by one.
    last_place: PathBuf,
    files: ListedFiles,
    whole: SegmentSet,
    /// Files that could not be read before the directory had its final name.
    unread: SegmentSet,
    /// Files that already lie at the directory's final place, and can be served from there.
    there: SegmentSet,
    outboards: OutboardFile,
    /// The outboards' file, if threads read it: it grows by those of each file that is completed.
    nodes: Option<GrowingRead>,
}

/// A regular file as listed.
pub(crate) struct ListedFile {
    /// Path below the directory.
    pub(crate) path: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) root: Hash,
    /// Where its outboard begins among the directory's.
    pub(crate) slot: u64,
}

/// A complete file of a directory.
#[derive(Clone)]
pub(crate) struct WholeFile {
    pub(crate) path: PathBuf,
    /// Where it lies if it is not at `path` any more.
    pub(crate) last_path: PathBuf,
    pub(crate) size: u64,
    pub(crate) outboards: OutboardFile,
    pub(crate) slot: u64,
}

/// Where to read an object.
#[derive(Clone)]
pub(crate) enum HeldPlace {
    Open(OpenObject),
    Whole(WholeFile),
}

impl HeldTree {
    /// Has threads read the listing, and the nodes of complete files.
    fn read_by(&mut self, reads: &Reads) {
        self.files.read_by(reads);
        let nodes = reads.growing(self.outboards.file(), ReadKind::GrowingNodes);
        self.outboards = OutboardFile::new(nodes.file.clone());
        self.nodes = Some(nodes);
    }

    /// Returns a regular file from the listing on disk; also `None` if the listing cannot be read.
    fn file(&mut self, number: u64) -> Option<ListedFile> {
        let listed = self.files.file(number).ok().flatten()?;
        let EntryKind::File { size, root } = listed.entry.kind else { return None };
        Some(ListedFile { path: listed.entry.path.clone(), size, root, slot: listed.slot })
    }
}

impl Holdings {
    fn state(&self) -> MutexGuard<'_, HoldingsState> {
        // A poisoned lock is safe to use: nothing panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a file or listing that is about to be written: its segments are added as they become servable.
    ///
    /// # Errors
    /// Those of [`Partial::on_servable`].
    pub fn watch(&self, id: ObjectId, partial: &mut Partial) -> Result<(), StoreError> {
        let (outboard, base) = partial.outboard();
        let open = OpenObject { file: partial.file().clone(), outboard: outboard.clone(), base };
        let have = SegmentSet::new(partial.geometry().segments());
        let mut state = self.state();
        let object = HeldObject::new(open, have, state.reads.as_ref());
        state.objects.insert(id, object);
        drop(state);
        let holdings = self.clone();
        partial.on_servable(Box::new(move |runs| {
            if let Some(object) = holdings.state().objects.get_mut(&id) {
                object.nodes.iter().for_each(GrowingRead::grew);
                runs.iter().for_each(|run| object.have.insert_range(run.clone()));
            }
        }))
    }

    /// Registers the root object as complete, from an earlier run.
    pub fn kept(&self, geometry: &Geometry, file: FileRef, outboard: OutboardFile) {
        let mut have = SegmentSet::new(geometry.segments());
        have.insert_range(0..geometry.segments());
        let open = OpenObject { file, outboard, base: 0 };
        let mut state = self.state();
        let object = HeldObject::new(open, have, state.reads.as_ref());
        state.objects.insert(ObjectId::Root, object);
    }

    /// Has the serving side read through `reads` what is registered, and what will be.
    pub(crate) fn read_by(&self, reads: &Reads) {
        let mut state = self.state();
        state.objects.values_mut().for_each(|object| object.read_by(reads));
        if let Some(tree) = &mut state.tree {
            tree.read_by(reads);
        }
        if let Some(sums) = state.sums.as_mut().and_then(Arc::get_mut) {
            sums.read_by(reads);
        }
        state.reads = Some(reads.clone());
    }

    /// Registers the regular files of a directory's listing, which will lie below `place`, and below `last_place` at
    /// the end.
    pub fn plan(
        &self,
        place: &Path,
        last_place: &Path,
        files: ListedFiles,
        outboards: OutboardFile,
    ) {
        let none = SegmentSet::new(files.totals().files);
        let mut tree = HeldTree {
            place: place.to_path_buf(),
            last_place: last_place.to_path_buf(),
            files,
            whole: none.clone(),
            unread: none.clone(),
            there: none,
            outboards,
            nodes: None,
        };
        let mut state = self.state();
        if let Some(reads) = &state.reads {
            tree.read_by(reads);
        }
        state.tree = Some(tree);
    }

    /// Marks a file of the directory as complete and in place.
    pub fn whole(&self, number: u64) {
        let mut state = self.state();
        if let Some(tree) = &mut state.tree {
            tree.nodes.iter().for_each(GrowingRead::grew);
            tree.whole.insert(number);
        }
        state.objects.remove(&ObjectId::File(number));
    }

    /// Registers the publication's list of sums.
    pub fn keep_sums(&self, mut sums: KeptSums) {
        let mut state = self.state();
        if let Some(reads) = &state.reads {
            sums.read_by(reads);
        }
        state.sums = Some(Arc::new(sums));
    }

    /// Returns the list of sums.
    pub(crate) fn sums(&self) -> Option<Arc<KeptSums>> {
        self.state().sums.clone()
    }

    /// Marks a file of the directory that lies unchanged at its final place; its nodes are stored among the others.
    pub fn mark_in_place(&self, number: u64) {
        if let Some(tree) = &mut self.state().tree {
            tree.there.insert(number);
        }
    }

    /// Records that the directory has its final name. Files that could not be read before are offered again, as that may
    /// have been because they were on their way; they are verified when they are read, like all others.
    pub fn moved(&self, place: &Path) {
        if let Some(tree) = &mut self.state().tree {
            tree.nodes.iter().for_each(GrowingRead::grew);
            tree.place = place.to_path_buf();
            tree.last_place = tree.place.clone();
            let HeldTree { whole, unread, there, .. } = tree;
            for set in [&*there, &*unread] {
                set.ranges().for_each(|range| whole.insert_range(range));
            }
        }
    }

    /// Removes a segment that has changed on disk.
    pub(crate) fn remove_segment(&self, id: ObjectId, index: SegmentIndex) {
        let mut state = self.state();
        if let Some(object) = state.objects.get_mut(&id) {
            object.have.remove(index.0);
        } else if let (ObjectId::File(number), Some(tree)) = (id, &mut state.tree) {
            tree.whole.remove(number);
            tree.unread.insert(number);
        }
    }

    /// Returns whether a thread must read this file's part of the listing first.
    pub(crate) fn waits_for_listing(&self, number: u64) -> bool {
        let mut state = self.state();
        let listed = state.tree.as_mut().map(|tree| tree.files.file(number).map(drop));
        listed.is_some_and(|listed| listed.is_err_and(|e| e.is_waiting()))
    }

    /// Returns a directory's regular file.
    pub(crate) fn listed(&self, number: u64) -> Option<ListedFile> {
        self.state().tree.as_mut()?.file(number)
    }

    /// Returns whether a segment is here with its proof.
    pub(crate) fn has(&self, id: ObjectId, index: SegmentIndex) -> bool {
        let state = self.state();
        match (state.objects.get(&id), id, &state.tree) {
            (Some(object), ..) => object.have.contains(index.0),
            (None, ObjectId::Sums, _) => state.sums.is_some(),
            (None, ObjectId::File(number), Some(tree)) => tree.whole.contains(number),
            _ => false,
        }
    }

    /// Returns where to read an object of which some part is here.
    pub(crate) fn place(&self, id: ObjectId) -> Option<HeldPlace> {
        let mut state = self.state();
        if let Some(object) = state.objects.get(&id) {
            return Some(HeldPlace::Open(object.open.clone()));
        }
        let (ObjectId::File(number), Some(tree)) = (id, &mut state.tree) else { return None };
        let file = tree.file(number)?;
        tree.whole.contains(number).then(|| {
            let path = xylem_base::os_path(&file.path);
            HeldPlace::Whole(WholeFile {
                path: tree.place.join(&path),
                last_path: tree.last_place.join(&path),
                size: file.size,
                outboards: tree.outboards.clone(),
                slot: file.slot,
            })
        })
    }

    /// Returns what can be requested now.
    pub(crate) fn have(&self, directory: bool) -> Have {
        let state = self.state();
        let object = state.objects.get(&ObjectId::Root).is_some_and(|o| o.have.is_full());
        let files = state.tree.as_ref().is_some_and(|t| t.whole.is_full());
        if object && (files || !directory) {
            return Have::everything();
        }
        let mut partial: Vec<_> =
            state.objects.iter().filter(|(_, o)| !o.have.is_empty()).collect();
        partial.sort_by_key(|(id, _)| **id);
        let runs_of = |(id, object): (&ObjectId, &HeldObject)| (*id, runs(&object.have));
        Have {
            everything: false,
            whole_files: state.tree.as_ref().map_or_else(Vec::new, |t| runs(&t.whole)),
            partial: partial.into_iter().take(MAX_PARTIAL).map(runs_of).collect(),
        }
    }
}

/// Returns the first runs of a set.
fn runs(set: &SegmentSet) -> Vec<Range<u64>> {
    set.ranges().take(MAX_RUNS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_set() {
        let mut set = SegmentSet::new(200);
        assert_eq!(runs(&set), []);
        set.insert_range(3..7);
        set.insert(64);
        set.insert_range(190..200);
        assert_eq!(runs(&set), [3..7, 64..65, 190..200]);
        set.insert_range(0..200);
        assert_eq!(runs(&set), vec![0..200]);
    }
}
