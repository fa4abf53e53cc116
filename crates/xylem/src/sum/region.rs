//! One big file, cut into aligned regions that any worker may take, and joined to its root.

use super::engine::Desk;
use super::meter::Meter;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xylem_store::in_order;
use xylem_tree::parts::{AnyTree, Part, Subtree, subtrees};

/// Bytes of a region: a power of two, so that each is a whole subtree, and small enough that what
/// was read is still in the core's first caches when it is hashed (docs/benchmark-log.md).
pub(super) const REGION: usize = 64 << 10;

/// Regions that a worker takes at a time, at most: what is read of a disk comes by itself while the reading goes on
/// where it was.
const TAKE: u64 = 1024;
/// Regions in a row that are worth a handle of their own.
const WORTH_A_HANDLE: u64 = 64;
/// Regions that are worth a thread's waking.
const WORTH_A_THREAD: u64 = 8;

/// Bytes of a file, more than one region of them.
///
/// Call order, by any number of threads: [`Cut::take`], [`Cut::hash`], [`Cut::finish`], until
/// `take` has no more. One of the calls of `finish` returns the nodes over all the bytes.
pub(super) struct Cut<T> {
    /// The item's number.
    pub(super) number: u64,
    file: File,
    bytes: Range<u64>,
    threads: u64,
    progress: Mutex<Progress<T>>,
}

struct Progress<T> {
    /// Until the file is done.
    item: Option<T>,
    /// Regions that were taken.
    taken: u64,
    /// Regions that are finished.
    finished: u64,
    /// What was joined, up to the region `next`.
    part: Part,
    next: u64,
    /// Nodes whose turn to be joined has not come, by their first region.
    early: BTreeMap<u64, (Range<u64>, Vec<Subtree>)>,
    failed: Option<io::Error>,
}

impl<T> Cut<T> {
    /// The `bytes` of a file, which begin with a chunk; up to `threads` will work at them.
    pub(super) fn new(number: u64, item: T, file: File, bytes: Range<u64>, threads: usize) -> Self {
        let progress = Progress {
            item: Some(item),
            taken: 0,
            finished: 0,
            part: Part::default(),
            next: 0,
            early: BTreeMap::new(),
            failed: None,
        };
        Self { number, file, bytes, threads: threads as u64, progress: Mutex::new(progress) }
    }

    /// How many regions there are.
    fn regions(&self) -> u64 {
        self.bytes.end.div_ceil(REGION as u64) - self.bytes.start / REGION as u64
    }

    /// The bytes of the `region`th of them. Regions are aligned in the file; the first may begin in the
    /// middle of one.
    fn region(&self, region: u64) -> Range<u64> {
        let start = (self.bytes.start / REGION as u64 + region) * REGION as u64;
        let end = start.saturating_add(REGION as u64);
        start.max(self.bytes.start)..end.min(self.bytes.end)
    }

    /// How many threads are worth waking for it: each should have some regions.
    pub(super) fn worth_helpers(&self) -> usize {
        usize::try_from(self.regions() / WORTH_A_THREAD).unwrap_or(usize::MAX)
    }

    /// A worker that panicked has ended the process already, so a poisoned lock holds good data.
    fn lock(&self) -> MutexGuard<'_, Progress<T>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next regions to hash, fewer towards the end of the file, so that nobody waits long for
    /// the last; `None` where all were taken, or one could not be read.
    pub(super) fn take(&self) -> Option<Range<u64>> {
        let mut progress = self.lock();
        let left = self.regions() - progress.taken;
        if left == 0 || progress.failed.is_some() {
            return None;
        }
        let first = progress.taken;
        progress.taken += (left / (2 * self.threads)).clamp(1, TAKE);
        Some(first..progress.taken)
    }

    /// Reads regions and hashes them. A file that shrank since its size was taken is an error;
    /// one that grew is hashed up to that size.
    pub(super) fn hash(
        &self,
        regions: Range<u64>,
        tree: &dyn AnyTree,
        desk: &mut Desk,
        meter: &Meter,
    ) -> io::Result<Vec<Subtree>> {
        let mut nodes = Vec::with_capacity((regions.end - regions.start) as usize + 1);
        let own =
            if regions.end - regions.start < WORTH_A_HANDLE { None } else { in_order(&self.file) };
        let file = own.as_ref().unwrap_or(&self.file);
        for region in regions {
            let place = self.region(region);
            let bytes = desk.bytes((place.end - place.start) as usize);
            read_exact_at(file, bytes, place.start).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    io::Error::new(error.kind(), "it became shorter while it was read")
                }
                _ => error,
            })?;
            meter.add(bytes.len() as u64);
            nodes.extend(subtrees(tree, place.start, bytes).map_err(io::Error::other)?);
        }
        Ok(nodes)
    }

    /// Takes the nodes of regions; the call for the last ones that were at work gets the item
    /// back, with the nodes over all the bytes or the first error.
    pub(super) fn finish(
        &self,
        regions: Range<u64>,
        nodes: io::Result<Vec<Subtree>>,
        tree: &dyn AnyTree,
    ) -> Option<(T, io::Result<Part>)> {
        let mut progress = self.lock();
        progress.finished += regions.end - regions.start;
        match nodes {
            Ok(nodes) => progress.join(regions, nodes, tree),
            Err(error) => {
                progress.failed.get_or_insert(error);
            }
        }
        let all = progress.taken == self.regions() || progress.failed.is_some();
        if !all || progress.finished < progress.taken {
            return None;
        }
        let item = progress.item.take()?;
        let part = match progress.failed.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut progress.part)),
        };
        Some((item, part))
    }
}

impl<T> Progress<T> {
    /// Joins what is in order.
    fn join(&mut self, regions: Range<u64>, nodes: Vec<Subtree>, tree: &dyn AnyTree) {
        self.early.insert(regions.start, (regions, nodes));
        while let Some((regions, nodes)) = self.early.remove(&self.next) {
            nodes.into_iter().for_each(|node| self.part.push(tree, node));
            self.next = regions.end;
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                bytes = &mut bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use xylem_hash::tree::Tree;
    use xylem_hash::{Hasher, OutputReader};

    /// More than a hash's length.
    fn start(mut output: OutputReader) -> [u8; 100] {
        let mut bytes = [0; 100];
        output.fill(&mut bytes);
        bytes
    }

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a temporary file can be made");
        file.write_all(bytes).expect("and written");
        file
    }

    /// Works a cut off, finishing what was taken in `order`.
    fn work_off(cut: &Cut<()>, order: impl Fn(&mut Vec<Range<u64>>)) -> io::Result<Part> {
        let (tree, hasher) = (Tree::plain(), Hasher::new());
        let mut desk = Desk::new(&hasher);
        let mut taken: Vec<Range<u64>> = std::iter::from_fn(|| cut.take()).collect();
        assert_eq!(taken.iter().map(|r| r.end - r.start).sum::<u64>(), cut.regions());
        order(&mut taken);
        let meter = Meter::silent();
        let mut parts = taken.into_iter().filter_map(|regions| {
            let nodes = cut.hash(regions.clone(), &tree, &mut desk, &meter);
            cut.finish(regions, nodes, &tree)
        });
        let ((), part) = parts.next().expect("the last call has it");
        assert!(parts.next().is_none(), "once");
        part
    }

    #[test]
    fn regions_cover_a_file_once_in_any_order() {
        let sizes = [REGION + 1, 2 * REGION - 1, 2 * REGION, 2 * REGION + 1, 77 * REGION + 77];
        for size in sizes {
            let bytes: Vec<u8> = (0..size).map(|i| (i % 253) as u8).collect();
            for (threads, order) in [
                (1, (|_| ()) as fn(&mut Vec<Range<u64>>)),
                (2, |taken| taken.reverse()),
                (3, |taken| {
                    let half = taken.len() / 2;
                    taken.rotate_left(half);
                }),
            ] {
                let cut = Cut::new(0, (), file_of(&bytes), 0..size as u64, threads);
                let part = work_off(&cut, order).expect("the file is whole");
                let output = part.output(&Tree::plain()).expect("all of it");
                let expected = Hasher::new().update(&bytes).finalize_xof();
                assert_eq!(start(output), start(expected), "{size}");
            }
        }
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let cut = Cut::new(0, (), file_of(&vec![1; 5 * REGION]), 0..30 * REGION as u64, 2);
        let error = work_off(&cut, |_| ()).expect_err("its bytes are gone");
        assert!(error.to_string().contains("shorter"), "{error}");
        assert!(cut.take().is_none(), "nothing more is read");
    }
}
