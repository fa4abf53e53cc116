//! The disk after the process was killed, or after a power loss. Any subset of the pages and name changes since the
//! last sync may be lost. Journalling file systems keep more order than this; no code may rely on it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use xylem_sim::Rng;

use crate::disk::{Disk, InodeBody, NameChange, NameStep, ROOT};
use crate::medium::FaultMedium;

/// Bytes that reach a device together.
const PAGE: usize = 4096;

/// The changes of names that a power loss leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameOrder {
    /// Any of them.
    None,
    /// The first ones.
    Journal,
}

impl FaultMedium {
    /// The disk as the next process finds it after this process was killed: without faults and without locks.
    #[must_use]
    pub fn image(&self) -> Self {
        self.copy(|bytes, _, _| bytes.to_vec())
    }

    /// The disk after a power loss: each 4 KiB page written since the last sync is kept or lost, by `seed`. Names stay
    /// as they were.
    #[must_use]
    pub fn power_loss(&self, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        self.copy(move |bytes, durable, pending| {
            let mut image = durable.to_vec();
            image.resize(bytes.len(), 0);
            for (at, piece) in pending {
                for (i, page) in piece.chunks(PAGE).enumerate() {
                    let at = at + i * PAGE;
                    if rng.chance(0.5) && at + page.len() <= image.len() {
                        image[at..at + page.len()].copy_from_slice(page);
                    }
                }
            }
            image
        })
    }

    /// The disk after a power loss that affects names too, by `seed`.
    ///
    /// Each 4 KiB page written since the last sync of a file is kept, lost, or torn in the middle. The file's size is
    /// the old or the new one. Each change of a name since the last sync of its directory has happened or not.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> Self {
        self.cut(seed, NameOrder::None)
    }

    /// As [`FaultMedium::power_cut`], on a file system with a journal: if a change of a name has happened, so have all
    /// before it.
    #[must_use]
    pub fn power_cut_in_order(&self, seed: u64) -> Self {
        self.cut(seed, NameOrder::Journal)
    }

    fn cut(&self, seed: u64, order: NameOrder) -> Self {
        let (mut rng, mut undone) = (Rng::new(seed), 0);
        let copy = self.copy(|bytes, durable, pending| {
            let mut image = durable.to_vec();
            if rng.chance(0.5) {
                image.resize(bytes.len(), 0);
            }
            let mut pages: Vec<(usize, &[u8])> = Vec::new();
            for (at, piece) in pending {
                pages.extend(piece.chunks(PAGE).enumerate().map(|(i, p)| (at + i * PAGE, p)));
            }
            while !pages.is_empty() {
                let (at, page) = pages.swap_remove(rng.index(pages.len()));
                let part = match rng.below(4) {
                    0 => page.len() / 2,
                    1 | 2 => page.len(),
                    _ => 0,
                };
                undone += u64::from(part < page.len());
                // Pages beyond the new size are skipped: the file was truncated after the write.
                if part > 0 && at + part <= bytes.len() {
                    image.resize(image.len().max(at + part), 0);
                    image[at..at + part].copy_from_slice(&page[..part]);
                }
            }
            image
        });
        let mut names = self.disk().names.clone();
        if order == NameOrder::Journal {
            let settled = names.iter().rposition(|step| step.settled).map_or(0, |last| last + 1);
            let kept = settled + rng.index(names.len() - settled + 1);
            undone += (names.len() - kept) as u64;
            names.truncate(kept);
            names.iter_mut().for_each(NameStep::settle_all);
        }
        undone += copy.disk().replay_names(&names, &mut rng);
        copy.disk().lost_changes = undone;
        copy
    }

    fn copy(&self, mut keep: impl FnMut(&[u8], &[u8], &[(usize, Vec<u8>)]) -> Vec<u8>) -> Self {
        let disk = self.disk();
        let mut inos: Vec<_> = disk.nodes.keys().copied().collect();
        inos.sort_unstable(); // so that one seed gives one image
        let nodes = inos.into_iter().map(|ino| {
            let mut node = disk.nodes[&ino].clone();
            if let InodeBody::File { bytes, durable, pending, lock } = &mut node.body {
                *bytes = keep(bytes, durable, pending);
                *durable = bytes.clone();
                pending.clear();
                *lock = None;
            }
            (ino, node)
        });
        let nodes = nodes.collect();
        let mut names = disk.names.clone();
        names.iter_mut().for_each(NameStep::settle_all);
        let copy = Disk {
            nodes,
            next: disk.next,
            tick: disk.tick,
            names,
            ignores_syncs: disk.ignores_syncs,
            refuses_exchange: disk.refuses_exchange,
            ..Disk::default()
        };
        Self { disk: Arc::new(Mutex::new(copy)), dir: ROOT }
    }
}

impl Disk {
    /// Applies the changes of names to an empty tree; each unsettled one happens by chance. Returns the number that did
    /// not happen.
    fn replay_names(&mut self, steps: &[NameStep], rng: &mut Rng) -> u64 {
        let mut dirs: BTreeMap<u64, BTreeMap<OsString, u64>> =
            BTreeMap::from([(ROOT, BTreeMap::new())]);
        let mut undone = 0;
        for step in steps {
            if !step.settled && rng.chance(0.5) {
                undone += 1;
                continue;
            }
            match step.what.clone() {
                NameChange::Made { dir, name, ino } => {
                    dirs.entry(dir).or_default().insert(name, ino);
                }
                NameChange::Moved { from, to, ino } => {
                    let there = dirs.entry(from.0).or_default();
                    // Another file may have this name if an earlier removal or rename was lost.
                    if there.get(&from.1) == Some(&ino) {
                        there.remove(&from.1);
                    }
                    dirs.entry(to.0).or_default().insert(to.1, ino);
                }
                NameChange::Exchanged { one, other, ino_one, ino_other } => {
                    dirs.entry(one.0).or_default().insert(one.1, ino_other);
                    dirs.entry(other.0).or_default().insert(other.1, ino_one);
                }
                NameChange::Gone { dir, name } => {
                    dirs.entry(dir).or_default().remove(&name);
                }
            }
        }
        for (ino, node) in &mut self.nodes {
            if let InodeBody::Dir { entries, .. } = &mut node.body {
                *entries = dirs.remove(ino).unwrap_or_default();
            }
        }
        self.names.clear();
        let made = self.nodes.iter().filter_map(|(dir, node)| match &node.body {
            InodeBody::Dir { entries, .. } => Some((*dir, entries)),
            _ => None,
        });
        let made = made.flat_map(|(dir, entries)| {
            entries.iter().map(move |(name, ino)| NameStep {
                what: NameChange::Made { dir, name: name.clone(), ino: *ino },
                settled: true,
            })
        });
        self.names = made.collect();
        undone
    }
}
