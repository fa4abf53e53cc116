//! [`Holdings`]: what a fetch has verified and written so far. Sinks add to it, whoever serves reads.

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
use crate::publish::sums::KeptSums;

/// Files of a directory up to this size are written in one go when they are whole, and hashed anew
/// when they are served: that costs less than looking for their nodes on disk. Larger ones are resumed.
pub(crate) const SMALL_FILE: u64 = 64 * 1024;
/// Runs of one object that a [`Have`] is made from; it holds no more.
const MAX_RUNS: usize = 4_096;
/// Objects that a [`Have`] names as partly there, beside the whole ones.
const MAX_PARTIAL: usize = 256;

/// Shared by the thread that fetches, the one that writes, and the one that serves. Cheap to clone.
#[derive(Clone, Default)]
pub struct Holdings(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The object itself (file or listing), and large files of a directory while they are fetched.
    objects: HashMap<ObjectId, Object>,
    tree: Option<Tree>,
    /// The list of sums for updates, where it is the publication's.
    sums: Option<Arc<KeptSums>>,
}

struct Object {
    open: Open,
    have: SegmentSet,
}

/// Where an object that is being fetched lies.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) file: FileRef,
    pub(crate) outboard: OutboardFile,
    /// The slot at which its outboard begins.
    pub(crate) base: u64,
}

/// A directory: its regular files by number, and which of them are whole.
struct Tree {
    place: PathBuf,
    files: ListedFiles,
    whole: SegmentSet,
    /// Files that lie where the directory comes to lie, and can be served from there.
    there: SegmentSet,
    outboards: OutboardFile,
}

/// A regular file as the listing has it.
pub(crate) struct ListedFile {
    /// Below the directory.
    pub(crate) path: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) root: Hash,
    /// Where its outboard begins among the directory's.
    pub(crate) slot: u64,
}

/// A file of a directory that is whole.
#[derive(Clone)]
pub(crate) struct Whole {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) outboards: OutboardFile,
    pub(crate) slot: u64,
}

/// Where to read an object.
#[derive(Clone)]
pub(crate) enum Place {
    Open(Open),
    Whole(Whole),
}

impl Tree {
    /// A regular file, as the listing on disk has it; `None` also where that can't be read any more.
    fn file(&mut self, number: u64) -> Option<ListedFile> {
        let listed = self.files.file(number).ok().flatten()?;
        let EntryKind::File { size, root } = listed.entry.kind else { return None };
        Some(ListedFile { path: listed.entry.path.clone(), size, root, slot: listed.slot })
    }
}

impl Holdings {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file or a listing is about to be written: what can be served of it is added from now on.
    ///
    /// # Errors
    /// Those of [`Partial::on_servable`].
    pub(crate) fn watch(&self, id: ObjectId, partial: &mut Partial) -> Result<(), StoreError> {
        let (outboard, base) = partial.outboard();
        let open = Open { file: partial.file().clone(), outboard: outboard.clone(), base };
        let have = SegmentSet::new(partial.geometry().segments());
        self.state().objects.insert(id, Object { open, have });
        let holdings = self.clone();
        partial.on_servable(Box::new(move |runs| {
            if let Some(object) = holdings.state().objects.get_mut(&id) {
                runs.iter().for_each(|run| object.have.insert_range(run.clone()));
            }
        }))
    }

    /// The object itself is there as a whole, from an earlier run.
    pub(crate) fn kept(&self, geometry: &Geometry, file: FileRef, outboard: OutboardFile) {
        let mut have = SegmentSet::new(geometry.segments());
        have.insert_range(0..geometry.segments());
        let open = Open { file, outboard, base: 0 };
        self.state().objects.insert(ObjectId::Root, Object { open, have });
    }

    /// A directory's listing is known: these are its regular files, which come to lie below `place`.
    pub(crate) fn plan(&self, place: &Path, files: ListedFiles, outboards: OutboardFile) {
        let whole = SegmentSet::new(files.totals().files);
        let (place, there) = (place.to_path_buf(), whole.clone());
        self.state().tree = Some(Tree { place, files, whole, there, outboards });
    }

    /// A file of the directory is whole and in its place.
    pub(crate) fn whole(&self, number: u64) {
        let mut state = self.state();
        if let Some(tree) = &mut state.tree {
            tree.whole.insert(number);
        }
        state.objects.remove(&ObjectId::File(number));
    }

    /// The publication's list of sums is there.
    pub(crate) fn keep_sums(&self, sums: KeptSums) {
        self.state().sums = Some(Arc::new(sums));
    }

    /// The list of sums.
    pub(crate) fn sums(&self) -> Option<Arc<KeptSums>> {
        self.state().sums.clone()
    }

    /// A file of the directory lies unchanged where the directory comes to lie, and its nodes with
    /// those of the others.
    pub(crate) fn there(&self, number: u64) {
        if let Some(tree) = &mut self.state().tree {
            tree.there.insert(number);
        }
    }

    /// The directory has its final name.
    pub fn moved(&self, place: &Path) {
        if let Some(tree) = &mut self.state().tree {
            tree.place = place.to_path_buf();
            let Tree { whole, there, .. } = tree;
            there.ranges().for_each(|range| whole.insert_range(range));
        }
    }

    /// What lies on disk is not what was written.
    pub(crate) fn lost(&self, id: ObjectId, index: SegmentIndex) {
        let mut state = self.state();
        if let Some(object) = state.objects.get_mut(&id) {
            object.have.remove(index.0);
        } else if let (ObjectId::File(number), Some(tree)) = (id, &mut state.tree) {
            tree.whole.remove(number);
        }
    }

    /// A directory's regular file.
    pub(crate) fn listed(&self, number: u64) -> Option<ListedFile> {
        self.state().tree.as_mut()?.file(number)
    }

    /// Whether a segment is there, with its proof.
    pub(crate) fn has(&self, id: ObjectId, index: SegmentIndex) -> bool {
        let state = self.state();
        match (state.objects.get(&id), id, &state.tree) {
            (Some(object), ..) => object.have.contains(index.0),
            (None, ObjectId::Sums, _) => state.sums.is_some(),
            (None, ObjectId::File(number), Some(tree)) => tree.whole.contains(number),
            _ => false,
        }
    }

    /// Where to read an object of which something is there.
    pub(crate) fn place(&self, id: ObjectId) -> Option<Place> {
        let mut state = self.state();
        if let Some(object) = state.objects.get(&id) {
            return Some(Place::Open(object.open.clone()));
        }
        let (ObjectId::File(number), Some(tree)) = (id, &mut state.tree) else { return None };
        let file = tree.file(number)?;
        tree.whole.contains(number).then(|| {
            Place::Whole(Whole {
                path: tree.place.join(crate::path::os_path(&file.path)),
                size: file.size,
                outboards: tree.outboards.clone(),
                slot: file.slot,
            })
        })
    }

    /// What can be asked for now.
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
        let runs_of = |(id, object): (&ObjectId, &Object)| (*id, runs(&object.have));
        Have {
            everything: false,
            whole_files: state.tree.as_ref().map_or_else(Vec::new, |t| runs(&t.whole)),
            partial: partial.into_iter().take(MAX_PARTIAL).map(runs_of).collect(),
        }
    }
}

/// The first runs of a set.
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
