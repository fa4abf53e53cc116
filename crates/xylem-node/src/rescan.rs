//! Reading back what lies on disk on all cores, against the tree.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use xylem_store::{RegionScan, Scan, ScanBuffer, StoreError};

use crate::hashing;

/// Scans `regions` of a file; the outcomes come in no particular order.
///
/// # Errors
/// The first error of any thread. Wrong bytes are no error.
pub(crate) fn rescan(
    scan: &Scan,
    regions: &[u64],
    counted: &AtomicU64,
) -> Result<Vec<RegionScan>, StoreError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut buffer, mut found) = (ScanBuffer::default(), Vec::new());
        while let Some(&region) = regions.get(next.fetch_add(1, Ordering::Relaxed)) {
            let region = scan.scan(region, &mut buffer)?;
            counted.fetch_add(region.bytes(), Ordering::Relaxed);
            found.push(region);
        }
        Ok(found)
    };
    let threads = hashing::threads().min(regions.len());
    if threads < 2 {
        return work();
    }
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work()?;
        for helper in helpers {
            all.extend(helper.join().unwrap_or_else(|p| std::panic::resume_unwind(p))?);
        }
        Ok(all)
    })
}
