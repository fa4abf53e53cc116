//! What a loss of power leaves: pages and names since the last sync, in any subset.
//!
//! Journalling file systems keep more order than this; nothing here is to rely on it.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::{Body, Disk, FaultMedium, PAGE, ROOT};

/// One change of a name.
#[derive(Clone)]
pub(super) struct NameStep {
    what: What,
    /// On the device for sure.
    settled: bool,
}

#[derive(Clone)]
pub(super) enum What {
    Made { dir: u64, name: OsString, ino: u64 },
    Moved { from: (u64, OsString), to: (u64, OsString), ino: u64 },
    Gone { dir: u64, name: OsString },
}

impl NameStep {
    pub(super) fn new(what: What) -> Self {
        Self { what, settled: false }
    }

    /// Syncing a directory settles what happened in it; a rename is one step, wherever it leads.
    pub(super) fn settle(&mut self, synced: u64) {
        self.settled |= match &self.what {
            What::Made { dir, .. } | What::Gone { dir, .. } => *dir == synced,
            What::Moved { from, to, .. } => from.0 == synced || to.0 == synced,
        };
    }

    pub(super) fn settle_all(&mut self) {
        self.settled = true;
    }
}

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % sides
    }
}

impl FaultMedium {
    /// The disk after the power went, names included: of what was written since the last sync of
    /// a file, each page of 4 KiB is there, is not, or is torn in the middle, and the size is the old
    /// or the new one; of what happened to names since the last sync of their directory, each step
    /// has happened or not. All by `seed`.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(2).wrapping_add(1));
        let copy = self.copy(|bytes, durable, pending| {
            let mut image = durable.to_vec();
            if dice.roll(2) == 0 {
                image.resize(bytes.len(), 0);
            }
            let mut pages: Vec<(usize, &[u8])> = Vec::new();
            for (at, piece) in pending {
                pages.extend(piece.chunks(PAGE).enumerate().map(|(i, p)| (at + i * PAGE, p)));
            }
            while !pages.is_empty() {
                let (at, page) = pages.swap_remove(dice.roll(pages.len() as u64) as usize);
                let part = match dice.roll(4) {
                    0 => page.len() / 2,
                    1 | 2 => page.len(),
                    _ => 0,
                };
                // Beyond the new size: it was cut since.
                if part > 0 && at + part <= bytes.len() {
                    image.resize(image.len().max(at + part), 0);
                    image[at..at + part].copy_from_slice(&page[..part]);
                }
            }
            image
        });
        copy.disk().replay_names(&self.disk().names, &mut dice);
        copy
    }
}

impl Disk {
    fn replay_names(&mut self, steps: &[NameStep], dice: &mut Dice) {
        let mut dirs: BTreeMap<u64, BTreeMap<OsString, u64>> =
            BTreeMap::from([(ROOT, BTreeMap::new())]);
        for step in steps.iter().filter(|s| s.settled || dice.roll(2) == 0) {
            match step.what.clone() {
                What::Made { dir, name, ino } => {
                    dirs.entry(dir).or_default().insert(name, ino);
                }
                What::Moved { from, to, ino } => {
                    let there = dirs.entry(from.0).or_default();
                    // Another file may have had the name before, where its end was lost.
                    if there.get(&from.1) == Some(&ino) {
                        there.remove(&from.1);
                    }
                    dirs.entry(to.0).or_default().insert(to.1, ino);
                }
                What::Gone { dir, name } => {
                    dirs.entry(dir).or_default().remove(&name);
                }
            }
        }
        for (ino, node) in &mut self.nodes {
            if let Body::Dir { entries, .. } = &mut node.body {
                *entries = dirs.remove(ino).unwrap_or_default();
            }
        }
        self.names.clear();
        let made = self.nodes.iter().filter_map(|(dir, node)| match &node.body {
            Body::Dir { entries, .. } => Some((*dir, entries)),
            _ => None,
        });
        let made = made.flat_map(|(dir, entries)| {
            entries.iter().map(move |(name, ino)| NameStep {
                what: What::Made { dir, name: name.clone(), ino: *ino },
                settled: true,
            })
        });
        self.names = made.collect();
    }
}
