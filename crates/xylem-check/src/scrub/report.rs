//! Reports and counts what was found and mended.

use std::ops::Range;
use std::path::Path;

use xylem_files::{Flaw, FlawFound, LibraryEvent};
use xylem_tree::NODE_LEN;

use super::Scrub;
use super::item::Flawed;

/// Damage is reported in blocks of this many bytes.
const BLOCK: u64 = 16 * 1024;

impl Scrub<'_> {
    pub(super) fn report(
        &mut self,
        path: &Path,
        flaw: Flaw,
        bytes: Range<u64>,
        what: &str,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) {
        match flaw {
            Flaw::Changed => self.summary.changed += 1,
            Flaw::Missing => self.summary.missing += 1,
            Flaw::Failed => self.summary.failed += 1,
            Flaw::Tree => self.summary.trees += 1,
            Flaw::Unfinished => {}
            _ => {
                self.summary.places += 1;
                self.summary.damaged += bytes.end - bytes.start;
            }
        }
        let blocks = match flaw.is_of_bytes() {
            true => bytes.start / BLOCK..bytes.end.div_ceil(BLOCK),
            false => 0..0,
        };
        on_event(LibraryEvent::Flaw(FlawFound {
            path: path.to_path_buf(),
            flaw,
            start: bytes.start,
            end: bytes.end,
            first_block: blocks.start,
            blocks: blocks.end - blocks.start,
            what: what.to_owned(),
        }));
    }

    /// Reports that a missing path was restored.
    pub(super) fn report_restored(
        &mut self,
        path: &Path,
        bytes: u64,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) {
        self.summary.restored += 1;
        let (path, flaw) = (path.to_path_buf(), Flaw::Missing);
        on_event(LibraryEvent::Mended { path, flaw, start: 0, end: bytes });
    }

    /// Reports the flaws of a file, and returns them for later.
    pub(super) fn report_flawed(
        &mut self,
        one: &Flawed,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> (Vec<(Range<u64>, Flaw)>, u64) {
        let places = one.places();
        for (bytes, flaw) in &places {
            let what = match flaw {
                Flaw::Unreadable => "can't be read from the disk",
                Flaw::Unproven => "is damaged at an unknown place, as its tree is damaged too",
                Flaw::Longer => "is beyond its former end",
                _ if bytes.start >= one.size => "is cut off",
                _ => "is damaged",
            };
            self.report(&one.item.path, *flaw, bytes.clone(), what, on_event);
        }
        let nodes = one.wrong_nodes();
        if nodes > 0 {
            let what = match nodes {
                1 => "a node of its tree is wrong or lost".to_owned(),
                _ => format!("{nodes} nodes of its tree are wrong or lost"),
            };
            let tree = self.tree_bytes(one);
            self.report(&one.item.path, Flaw::Tree, tree, &what, on_event);
        }
        if one.unfinished && places.is_empty() {
            let what = "a repair was killed before it set the time back";
            self.report(&one.item.path, Flaw::Unfinished, 0..0, what, on_event);
        }
        (places, nodes)
    }

    /// Returns the bytes from the first wrong node to the last, in the outboard's file.
    fn tree_bytes(&self, one: &Flawed) -> Range<u64> {
        let base = one.item.slot.unwrap_or(0);
        let ends =
            one.found.mend().map(|(slot, nodes)| (slot, slot + (nodes.len() / NODE_LEN) as u64));
        let all = ends.fold((u64::MAX, 0), |all, run| (all.0.min(run.0), all.1.max(run.1)));
        let node = NODE_LEN as u64;
        (base + all.0.min(all.1)).saturating_mul(node)..(base + all.1).saturating_mul(node)
    }

    pub(super) fn report_mended(
        &mut self,
        one: &Flawed,
        places: &[(Range<u64>, Flaw)],
        still: &[(Range<u64>, Flaw)],
        nodes: u64,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) {
        let mut mended = |flaw: Flaw, bytes: Range<u64>| {
            let path = one.item.path.clone();
            on_event(LibraryEvent::Mended { path, flaw, start: bytes.start, end: bytes.end });
        };
        for (bytes, flaw) in places {
            for part in without(bytes, still) {
                self.summary.mended += part.end - part.start;
                mended(*flaw, part);
            }
        }
        if nodes > 0 && one.wrong_nodes() == 0 {
            self.summary.trees_mended += 1;
            mended(Flaw::Tree, 0..0);
        }
        if one.unfinished && places.is_empty() {
            mended(Flaw::Unfinished, 0..0);
        }
    }
}

/// Returns the parts of `bytes` that are in none of `still`, which ascend.
fn without(bytes: &Range<u64>, still: &[(Range<u64>, Flaw)]) -> Vec<Range<u64>> {
    let (mut left, mut at) = (Vec::new(), bytes.start);
    for (bad, _) in still.iter().filter(|(bad, _)| bad.end > bytes.start && bad.start < bytes.end) {
        if bad.start > at {
            left.push(at..bad.start);
        }
        at = at.max(bad.end);
    }
    if at < bytes.end {
        left.push(at..bytes.end);
    }
    left
}
