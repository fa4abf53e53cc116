//! Selects the part of a [`Plan`] that is done in one go: what fits on the disk, is due, and takes a limited time. The
//! rest is planned anew afterwards.

use std::collections::{BTreeSet, HashMap, HashSet};

use xylem_hash::Hash;

use super::error::FolderError;
use super::index::{IndexItem, ItemKind};
use super::local::SyncFolder;
use super::merge::{Plan, PlannedChange};
use super::stored::IndexSource;

impl Plan {
    /// Returns the contents that have to be fetched: bytes, and one path for each.
    pub fn contents(&self) -> HashMap<Hash, (u64, Vec<u8>)> {
        let uses = self.uses();
        let place = |place: &PlannedChange| {
            let (root, size) = place.fetched().filter(|(root, _)| uses.contains_key(root))?;
            Some((root, (size, place.path.clone())))
        };
        self.put.iter().filter_map(place).collect()
    }

    /// Leaves out the paths that need one of these contents, as [`Plan::leave_out`] does.
    pub fn leave_out_contents(&mut self, roots: &HashSet<Hash>) -> usize {
        if roots.is_empty() {
            return 0;
        }
        let renamed: HashSet<usize> = self.renames().into_values().collect();
        let needs = |(at, place): (usize, &PlannedChange)| {
            let (root, _) = place.fetched().filter(|_| !renamed.contains(&at))?;
            roots.contains(&root).then(|| place.path.clone())
        };
        let left: HashSet<Vec<u8>> = self.put.iter().enumerate().filter_map(needs).collect();
        self.leave_out(|path, _| left.contains(path))
    }

    /// Leaves out all that the plan does at the paths that `leaves` selects: writes, removals, and moves of losing
    /// versions. It also leaves out what would remove or replace a directory that holds such a path. Returns the number
    /// of paths left out. [`Plan::rest`] is unchanged.
    pub fn leave_out(&mut self, mut leaves: impl FnMut(&[u8], &IndexItem) -> bool) -> usize {
        let mut left = BTreeSet::new();
        for place in self.put.iter().chain(&self.removed) {
            if leaves(&place.path, &place.item) {
                left.insert(place.path.clone());
            }
        }
        let stays: BTreeSet<Vec<u8>> = self
            .removed
            .iter()
            .filter(|place| left.contains(&place.path))
            .map(|p| p.path.clone())
            .collect();
        let above = self.removed.iter().chain(&self.put).filter(|place| {
            let below = [&place.path[..], b"/"].concat();
            matches!(place.before, ItemKind::Directory { .. })
                && !place.item.kind.is_directory()
                && stays.range(below.clone()..).next().is_some_and(|path| path.starts_with(&below))
        });
        let above: Vec<Vec<u8>> = above.map(|place| place.path.clone()).collect();
        left.extend(above);
        self.put.retain(|place| !left.contains(&place.path));
        self.removed.retain(|place| !left.contains(&place.path));
        self.noted.retain(|(path, item)| !leaves(path, item));
        left.len()
    }

    /// Keeps the files with content that is `here` already. It also keeps the smallest of the others, up to `budget`
    /// bytes in total, but at least one. If files have to wait, it sets [rest](Plan::rest).
    pub fn take_portion(&mut self, budget: u64, here: impl Fn(&Hash) -> bool) {
        let mut sizes: Vec<(u64, Hash)> = {
            let missing = self.contents().into_iter().filter(|(root, _)| !here(root));
            missing.map(|(root, (size, _))| (size, root)).collect()
        };
        sizes.sort_unstable_by_key(|(size, root)| (*size, *root.as_bytes()));
        let mut left = budget;
        let mut later: HashSet<Hash> = HashSet::new();
        for (n, (size, root)) in sizes.into_iter().enumerate() {
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None if n == 0 => left = 0,
                None => {
                    left = 0;
                    later.insert(root);
                }
            }
        }
        if !later.is_empty() {
            self.leave_out_contents(&later);
            self.rest = true;
        }
    }

    /// Returns files that are removed, and not moved: their content comes to no other path.
    pub fn removals(&self) -> HashSet<Vec<u8>> {
        let roots: HashSet<Hash> =
            self.put.iter().filter_map(|place| place.item.kind.root()).collect();
        let removed = self.removed.iter().filter(|place| match place.before {
            ItemKind::File { root, .. } => !roots.contains(&root),
            ItemKind::Symlink { .. } => true,
            ItemKind::Directory { .. } | ItemKind::Gone => false,
        });
        removed.map(|place| place.path.clone()).collect()
    }
}

impl SyncFolder {
    /// Returns the bytes that are free on the folder's disk, less what writing its indexes takes; `None` if that is
    /// unknown.
    pub fn room(&self) -> Option<u64> {
        let index = self.medium.metadata(&self.own("index-0"));
        let index = index.map_or(0, |meta| meta.size);
        let free = self.medium.free_bytes(&self.root).ok().flatten()?;
        Some(free.saturating_sub(index.saturating_mul(2)))
    }

    /// Counts the files of the folder.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn count_files(&self) -> Result<usize, FolderError> {
        let mut files = 0_usize;
        for entry in self.stored.entries()? {
            let (_, item) = entry?;
            files = files.saturating_add(usize::from(!item.absent && item.kind.root().is_some()));
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LosingVersion, MergeSide};

    fn place(path: &str, content: &str, before: ItemKind) -> PlannedChange {
        let root = xylem_hash::hash(content.as_bytes());
        let kind = ItemKind::File { root, size: content.len() as u64, mode: 0o644, mtime: (0, 0) };
        PlannedChange { path: path.into(), item: item(kind), before, losing: None }
    }

    fn item(kind: ItemKind) -> IndexItem {
        IndexItem { kind, ..IndexItem::none() }
    }

    fn paths(plan: &Plan) -> Vec<&str> {
        plan.put.iter().map(|place| std::str::from_utf8(&place.path).unwrap()).collect()
    }

    #[test]
    fn the_smallest_files_and_local_contents_come_first() {
        let put = ["aaaa", "b", "cccccccc", "dd", "b"];
        let put = put.iter().enumerate();
        let put = put.map(|(n, content)| place(&format!("{n}"), content, ItemKind::Gone)).collect();
        let whole = Plan { put, ..Plan::default() };
        let of = |budget, here: &str| {
            let mut plan = whole.clone();
            plan.take_portion(budget, |root| *root == xylem_hash::hash(here.as_bytes()));
            plan
        };
        // Two paths with one content count once.
        assert_eq!(paths(&of(3, "")), ["1", "3", "4"]);
        assert_eq!(paths(&of(3, "cccccccc")), ["1", "2", "3", "4"]);
        assert_eq!(paths(&of(0, "")), ["1", "4"], "one at least");
        assert!(of(3, "").rest && !of(15, "").rest);
        assert_eq!(of(15, "").put, whole.put);
    }

    #[test]
    fn a_path_that_is_left_out_moves_nothing_aside() {
        let mut theirs = place("a", "theirs", ItemKind::Gone);
        let ours = place("a", "ours", ItemKind::Gone).item;
        let beaten =
            |whose| Some(LosingVersion { to: b"a.conflict".to_vec(), item: ours.clone(), whose });
        theirs.losing = beaten(MergeSide::Ours);
        let put = vec![theirs, place("b", "x", ItemKind::Gone)];
        let mut plan = Plan { put, ..Plan::default() };
        assert_eq!(plan.leave_out(|path, _| path == b"a"), 1);
        assert_eq!(paths(&plan), ["b"]);
        assert!(!plan.rest);
        // A losing version's content is fetched. A path that only changes permissions, or is renamed, needs no content.
        let mut kept = place("a", "kept", place("a", "kept", ItemKind::Gone).item.kind);
        let described = kept.clone();
        kept.losing = beaten(MergeSide::Theirs);
        let gone = PlannedChange {
            before: described.item.kind.clone(),
            ..place("old", "", ItemKind::Gone)
        };
        let renamed = place("new", "kept", ItemKind::Gone);
        let (put, gone) = (vec![kept, described, renamed], vec![gone]);
        let mut plan = Plan { put, removed: gone, ..Plan::default() };
        let roots: Vec<Hash> = plan.contents().into_keys().collect();
        assert_eq!(roots, [xylem_hash::hash(b"ours")]);
        assert_eq!(plan.leave_out_contents(&roots.into_iter().collect()), 1);
        plan.put.truncate(0);
        assert!(plan.contents().is_empty());
    }

    #[test]
    fn a_directory_stays_with_what_stays_in_it() {
        let gone = |path: &str, before| PlannedChange {
            path: path.into(),
            item: item(ItemKind::Gone),
            before,
            losing: None,
        };
        let directory = || ItemKind::Directory { mode: 0o755 };
        let file = |content| place("", content, ItemKind::Gone).item.kind;
        let mut plan = Plan {
            removed: vec![
                gone("d/e/f", file("f")),
                gone("d/e", directory()),
                gone("d/g", file("g")),
                gone("d", directory()),
                gone("dd", directory()),
            ],
            ..Plan::default()
        };
        assert_eq!(plan.leave_out(|path, _| path == b"d/e/f"), 3);
        let left: Vec<_> = plan.removed.iter().map(|place| place.path.as_slice()).collect();
        assert_eq!(left, [b"d/g".as_slice(), b"dd"]);
    }

    #[test]
    fn a_moved_file_does_not_count_as_removed() {
        let gone = |path, content| {
            let before = place(path, content, ItemKind::Gone).item.kind;
            PlannedChange {
                path: Vec::from(path),
                item: item(ItemKind::Gone),
                before,
                losing: None,
            }
        };
        let plan = Plan {
            removed: vec![gone("old", "moved"), gone("removed", "x")],
            put: vec![place("new", "moved", ItemKind::Gone)],
            ..Plan::default()
        };
        assert_eq!(plan.removals(), HashSet::from([b"removed".to_vec()]));
    }
}
