//! Resuming an earlier run: nothing of it is trusted before it was scanned.

use xylem_tree::{NodeValue, SegmentSet, TreeVerifier};

use super::Partial;
use crate::error::StoreError;
use crate::scan::{RegionScan, Scan, ScanBuffer};

/// A fetch that was opened and not yet resumed: the content on disk has to be scanned first.
///
/// Scan [`Resuming::regions`] in any order on any threads, then call [`Resuming::finish`]; or [`Resuming::resume`] does
/// both here. A new file has nothing to scan.
#[derive(Debug)]
pub struct Resuming {
    pub(super) scan: Scan,
    pub(super) fresh: bool,
    pub(super) partial: Partial,
}

/// The content of an earlier run, proven again.
#[derive(Debug)]
pub struct Resumed {
    /// Knows every proven node that a missing segment needs, and has nothing left to write.
    pub verifier: TreeVerifier,
    /// Segments that are present and correct.
    pub have: SegmentSet,
    /// Bytes in those segments.
    pub bytes: u64,
}

impl Resuming {
    /// The scan to run over [`Resuming::regions`].
    #[must_use]
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    /// Regions that have to be scanned; none for a new file.
    pub fn regions(&self) -> impl Iterator<Item = u64> + '_ {
        self.scan.regions().filter(|_| !self.fresh)
    }

    /// Scans on this thread and finishes. `on_bytes` is called with the bytes of each region.
    ///
    /// # Errors
    /// The medium's.
    pub fn resume(self, on_bytes: &dyn Fn(u64)) -> Result<(Partial, Resumed), StoreError> {
        let mut buffer = ScanBuffer::default();
        let mut scans = Vec::new();
        for region in self.regions() {
            let scan = self.scan.scan(region, &mut buffer)?;
            on_bytes(scan.bytes());
            scans.push(scan);
        }
        self.finish(scans)
    }

    /// Takes the scans of all [`Resuming::regions`], in any order, and opens the fetch. A region that is left out
    /// counts as missing. Nodes that are wrong on disk and follow from correct data are repaired.
    ///
    /// # Errors
    /// The medium's.
    pub fn finish(
        self,
        scans: impl IntoIterator<Item = RegionScan>,
    ) -> Result<(Partial, Resumed), StoreError> {
        let Self { scan, mut partial, .. } = self;
        let scans: Vec<RegionScan> = scans.into_iter().collect();
        let mut verifier = scan.verifier(&scans);
        let mut kept_leaves = SegmentSet::new(partial.geometry.segments());
        for pair in scan.pairs(&scans) {
            let (left, right) = partial.geometry.children(pair.parent).unzip();
            let children = [left, right].into_iter().flatten();
            children.filter(|node| node.level == 0).for_each(|leaf| {
                kept_leaves.insert(leaf.index);
            });
        }
        let (mut bytes, mut done) = (0, Vec::new());
        for found in &scans {
            for right in &found.right {
                partial.have.insert_range(right.clone());
                let segment = partial.geometry.segment_size().bytes() as u64;
                let end = right.end.saturating_mul(segment).min(partial.geometry.size());
                bytes += end - right.start * segment;
                done.push(right.clone());
            }
            for (slot, nodes) in &found.mend {
                partial.nodes.push(partial.base.saturating_add(*slot), nodes);
                if partial.nodes.is_full() {
                    partial.flush()?;
                }
            }
        }
        partial.kept_leaves = kept_leaves;
        // Only now, so that no pair is adopted again below a complete subtree.
        done.into_iter().for_each(|segments| verifier.forget_complete(segments));
        // The only node that a verifier knows without a proof from received data.
        let top = partial.geometry.root();
        let root = NodeValue::from(partial.root);
        partial.nodes.push(partial.base.saturating_add(top.slot()), &root.0);
        drop(verifier.take_proven());
        let have = partial.have.clone();
        Ok((partial, Resumed { verifier, have, bytes }))
    }
}
