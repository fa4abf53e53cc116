//! [`inspect`]: reads files back on all cores and compares them with their trees.

use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use xylem_base::threads;
use xylem_hash::Hash;
use xylem_store::{FileRef, OutboardFile, RegionRuns, RegionScan, Scan, ScanBuffer, StoreError};
use xylem_tree::{Geometry, NodeValue};

use crate::hashing;

/// Scans `regions` of a file; outcomes are in no particular order.
///
/// # Errors
/// The first error of any thread. Wrong bytes are no error.
pub fn rescan(
    scan: &Scan,
    regions: &[u64],
    counted: &AtomicU64,
) -> Result<Vec<RegionScan>, StoreError> {
    on_cores(regions.len() as u64, &|i, buffer| {
        let region = scan.scan(regions[i as usize], buffer)?;
        counted.fetch_add(region.bytes(), Ordering::Relaxed);
        Ok(Some(region))
    })
}

/// Processes one number, on any thread, and returns the outcome.
type Work<'a, T> = dyn Fn(u64, &mut ScanBuffer) -> Result<Option<T>, StoreError> + Sync + 'a;

/// Runs `work` for `0..count` on all cores; outcomes are in no particular order, without those that are `None`.
///
/// # Errors
/// The first error of any thread, which ends that thread's work.
pub fn on_cores<T: Send>(count: u64, work: &Work<'_, T>) -> Result<Vec<T>, StoreError> {
    let (runs, readers) = (RegionRuns::new(count, hashing::threads()), AtomicUsize::new(0));
    let share = || {
        let reader = readers.fetch_add(1, Ordering::Relaxed);
        let (mut buffer, mut found) = (ScanBuffer::of_reader(reader), Vec::new());
        for i in iter::from_fn(|| runs.next_run()).flatten() {
            found.extend(work(i, &mut buffer)?);
        }
        Ok(found)
    };
    let count = hashing::threads().min(usize::try_from(count).unwrap_or(usize::MAX));
    if count < 2 {
        return share();
    }
    thread::scope(|scope| {
        let helpers = threads::helpers(scope, count - 1, share);
        let mut all = share()?;
        for helper in helpers {
            all.extend(helper.join().unwrap_or_else(|p| std::panic::resume_unwind(p))?);
        }
        Ok(all)
    })
}

/// A file and its expected content.
#[derive(Debug, Clone)]
pub struct InspectedFile {
    /// The file.
    pub file: FileRef,
    /// Its outboard and first slot there; `None` if there is none.
    pub outboard: Option<(OutboardFile, u64)>,
    /// Size and segments.
    pub geometry: Geometry,
    /// Its expected root.
    pub root: Hash,
}

/// Which threads read.
pub enum Readers<'a> {
    /// This thread with its buffer, while others read other files.
    Here(&'a mut ScanBuffer),
    /// All cores.
    All,
}

/// Result of an inspection: which segments are right, and which nodes of the outboard are wrong.
#[derive(Debug)]
pub struct Inspection {
    /// Contains the nodes above the regions.
    pub scan: Scan,
    /// All regions, ascending.
    pub regions: Vec<RegionScan>,
}

/// Reads a whole file and checks it. Unreadable parts count as wrong. `took` receives the number of bytes as they are
/// read, and returns whether to continue; the result is `None` if it returned false.
///
/// # Errors
/// The medium's, other than those of reading at one place.
pub fn inspect(
    subject: &InspectedFile,
    readers: &mut Readers<'_>,
    took: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Option<Inspection>, StoreError> {
    inspect_again(subject, Vec::new(), readers, took)
}

/// Like [`inspect`], with the regions `right` known to be right throughout.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_again(
    subject: &InspectedFile,
    right: Vec<RegionScan>,
    readers: &mut Readers<'_>,
    took: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Option<Inspection>, StoreError> {
    let InspectedFile { file, outboard, geometry, root } = subject;
    let base = outboard.as_ref().map_or(0, |(_, base)| *base);
    let nodes = outboard.as_ref().map(|(file, _)| file);
    let count = match readers {
        Readers::All => hashing::threads(),
        Readers::Here(_) => 1,
    };
    let mut scan = Scan::tolerant(file.clone(), nodes, base, *geometry, *root, count)?;
    let known: std::collections::HashSet<u64> = right.iter().map(RegionScan::region).collect();
    let todo: Vec<u64> = (0..scan.region_count()).filter(|r| !known.contains(r)).collect();
    let lost: Vec<u64> = todo.iter().copied().filter(|r| !scan.is_proven(*r)).collect();
    if !lost.is_empty() {
        // The outboard does not prove these regions: perhaps the data does.
        let tops = readers.each(&lost, &|region, buffer| {
            if !took(0) {
                return Ok(None);
            }
            let top = scan.top_of(region, buffer)?;
            took(scan.region_len(region));
            Ok(top.map(|top| (region, top)))
        })?;
        let mut data: Vec<Option<NodeValue>> = vec![None; scan.region_count() as usize];
        for (region, top) in tops {
            data[region as usize] = Some(top);
        }
        scan.prove_from(&data)?;
    }
    let mut regions = right;
    let wanted = todo.len();
    let before = regions.len();
    regions.extend(readers.each(&todo, &|region, buffer| {
        if !took(0) {
            return Ok(None);
        }
        let found = scan.scan(region, buffer)?;
        if lost.binary_search(&region).is_err() {
            took(found.bytes());
        }
        Ok(Some(found))
    })?);
    if regions.len() < before + wanted {
        return Ok(None);
    }
    regions.sort_unstable_by_key(RegionScan::region);
    scan.close_readers();
    Ok(Some(Inspection { scan, regions }))
}

impl Readers<'_> {
    fn each<T: Send>(&mut self, regions: &[u64], work: &Work<'_, T>) -> Result<Vec<T>, StoreError> {
        match self {
            Self::All => on_cores(regions.len() as u64, &|i, b| work(regions[i as usize], b)),
            Self::Here(buffer) => {
                let done = regions.iter().filter_map(|r| work(*r, buffer).transpose());
                done.collect()
            }
        }
    }
}

impl Inspection {
    /// Returns the segments that are not right: ascending, disjoint, neighbours joined.
    pub fn bad(&self) -> Vec<Range<u64>> {
        let geometry = self.scan.geometry();
        let (mut bad, mut at) = (Vec::new(), 0);
        let end = geometry.segments()..geometry.segments();
        for right in self.regions.iter().flat_map(RegionScan::right).chain([&end]) {
            if right.start > at {
                bad.push(at..right.start);
            }
            at = at.max(right.end);
        }
        bad
    }

    /// Returns the segments that could not be read, joined.
    pub fn unreadable(&self) -> Vec<Range<u64>> {
        joined(self.regions.iter().flat_map(RegionScan::unreadable))
    }

    /// Returns the segments that the tree cannot prove either way, joined.
    pub fn unproven(&self) -> Vec<Range<u64>> {
        joined(self.regions.iter().flat_map(RegionScan::unproven))
    }

    /// Returns the right values of wrong nodes in the outboard: runs with their first slots.
    pub fn mend(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let upper = self.scan.upper_repairs().iter().map(|(slot, value)| (*slot, &value.0[..]));
        let runs = self.regions.iter().flat_map(RegionScan::repairs);
        upper.chain(runs.map(|(slot, nodes)| (*slot, &nodes[..])))
    }

    /// Returns the bytes of a range of segments.
    pub fn bytes_of(&self, segments: &Range<u64>) -> Range<u64> {
        let geometry = self.scan.geometry();
        let bytes = geometry.segment_size().bytes() as u64;
        let end = segments.end.saturating_mul(bytes).min(geometry.size());
        segments.start.saturating_mul(bytes).min(end)..end
    }
}

fn joined<'a>(ranges: impl Iterator<Item = &'a Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range.clone()),
        }
    }
    all
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use xylem_store::{DiskMedium, OpenHow};
    use xylem_tree::{REGION_LEN, SegmentSize};

    use super::*;

    /// Results of damaged files are kept until all files are read, so they must not hold many handles.
    #[test]
    fn an_inspection_holds_only_the_files_own_handle() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file");
        let bytes = vec![7; 2 * REGION_LEN + 1];
        fs::write(&path, &bytes).unwrap();
        let subject = InspectedFile {
            file: FileRef::open(&DiskMedium::default(), &path, OpenHow::Read).unwrap(),
            outboard: None,
            geometry: Geometry::new(bytes.len() as u64, SegmentSize::DEFAULT),
            root: xylem_hash::hash(&bytes),
        };
        let found = inspect(&subject, &mut Readers::All, &|_| true).unwrap().unwrap();
        assert_eq!(found.bad(), Vec::<Range<u64>>::new());
        let handles = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| {
            let leads_to = fs::read_link(fd.ok()?.path()).ok()?;
            (leads_to == path).then_some(())
        });
        assert_eq!(handles.count(), 1);
    }
}
