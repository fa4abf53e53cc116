//! Splits one big file into aligned regions that any worker may take, and joins their nodes to the root.

use super::engine::WorkerBuffers;
use super::meter::ByteMeter;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xylem_store::in_order;
use xylem_tree::parts::{AnyTree, MessagePart, PartNode, subtrees};

/// Bytes of a region: a power of two, so that each is a whole subtree. It is small enough that the data are still in
/// the core's first caches when they are hashed (docs/explanation/hash.md).
pub(super) const REGION: usize = 64 << 10;

/// Regions that a worker takes at a time at most. Sequential reads let the system read ahead.
const TAKE: u64 = 1024;
/// Regions in a row from which on a worker opens a file handle of its own.
const MIN_REGIONS_PER_HANDLE: u64 = 64;
/// Regions that make it worth to wake a thread.
const MIN_REGIONS_PER_THREAD: u64 = 8;

/// A range of a file that is longer than one region.
///
/// Order of calls, by any number of threads: [`SplitFile::take`], [`SplitFile::hash`], [`SplitFile::finish`], until `take` returns
/// nothing. One call of `finish` returns the nodes over all the bytes.
pub(super) struct SplitFile<T> {
    /// The item's number.
    pub(super) number: u64,
    file: File,
    bytes: Range<u64>,
    threads: u64,
    progress: Mutex<SplitProgress<T>>,
}

struct SplitProgress<T> {
    /// The item; `None` once the file is done.
    item: Option<T>,
    /// Number of regions that were taken.
    taken: u64,
    /// Number of regions that are finished.
    finished: u64,
    /// The joined nodes, up to the region `next`.
    part: MessagePart,
    next: u64,
    /// Nodes that cannot be joined yet, by their first region.
    early: BTreeMap<u64, (Range<u64>, Vec<PartNode>)>,
    failed: Option<io::Error>,
}

impl<T> SplitFile<T> {
    /// Splits the `bytes` of a file, which begin at a chunk's start, for up to `threads` workers.
    pub(super) fn new(number: u64, item: T, file: File, bytes: Range<u64>, threads: usize) -> Self {
        let progress = SplitProgress {
            item: Some(item),
            taken: 0,
            finished: 0,
            part: MessagePart::default(),
            next: 0,
            early: BTreeMap::new(),
            failed: None,
        };
        Self { number, file, bytes, threads: threads as u64, progress: Mutex::new(progress) }
    }

    /// The number of regions.
    fn regions(&self) -> u64 {
        self.bytes.end.div_ceil(REGION as u64) - self.bytes.start / REGION as u64
    }

    /// The bytes of the region with this index. Regions are aligned in the file; the first one may begin in the middle
    /// of an aligned region.
    fn region(&self, region: u64) -> Range<u64> {
        let start = (self.bytes.start / REGION as u64 + region) * REGION as u64;
        let end = start.saturating_add(REGION as u64);
        start.max(self.bytes.start)..end.min(self.bytes.end)
    }

    /// How many threads to wake: each should get several regions.
    pub(super) fn worth_helpers(&self) -> usize {
        usize::try_from(self.regions() / MIN_REGIONS_PER_THREAD).unwrap_or(usize::MAX)
    }

    /// A worker that panicked has ended the process already, so a poisoned lock holds good data.
    fn lock(&self) -> MutexGuard<'_, SplitProgress<T>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next regions to hash, fewer towards the end, so that the last ones are done soon. `None` if all are
    /// taken, or a read has failed.
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

    /// Reads and hashes regions. A file that has shrunk since its size was taken is an error; one that has grown is
    /// hashed up to that size.
    pub(super) fn hash(
        &self,
        regions: Range<u64>,
        tree: &dyn AnyTree,
        desk: &mut WorkerBuffers,
        meter: &ByteMeter,
    ) -> io::Result<Vec<PartNode>> {
        let mut nodes = Vec::with_capacity((regions.end - regions.start) as usize + 1);
        let own = if regions.end - regions.start < MIN_REGIONS_PER_HANDLE {
            None
        } else {
            in_order(&self.file)
        };
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

    /// Stores the nodes of regions. The call for the last outstanding ones returns the item, with the nodes over all
    /// the bytes or the first error.
    pub(super) fn finish(
        &self,
        regions: Range<u64>,
        nodes: io::Result<Vec<PartNode>>,
        tree: &dyn AnyTree,
    ) -> Option<(T, io::Result<MessagePart>)> {
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

impl<T> SplitProgress<T> {
    /// Joins the nodes that are next in order.
    fn join(&mut self, regions: Range<u64>, nodes: Vec<PartNode>, tree: &dyn AnyTree) {
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

    /// The beginning of an output, longer than a hash.
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

    /// Hashes a cut completely, finishing the taken regions in `order`.
    fn work_off(
        cut: &SplitFile<()>,
        order: impl Fn(&mut Vec<Range<u64>>),
    ) -> io::Result<MessagePart> {
        let (tree, hasher) = (Tree::plain(), Hasher::new());
        let mut desk = WorkerBuffers::new(&hasher);
        let mut taken: Vec<Range<u64>> = std::iter::from_fn(|| cut.take()).collect();
        assert_eq!(taken.iter().map(|r| r.end - r.start).sum::<u64>(), cut.regions());
        order(&mut taken);
        let meter = ByteMeter::silent();
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
                let cut = SplitFile::new(0, (), file_of(&bytes), 0..size as u64, threads);
                let part = work_off(&cut, order).expect("the file is whole");
                let output = part.output(&Tree::plain()).expect("all of it");
                let expected = Hasher::new().update(&bytes).finalize_xof();
                assert_eq!(start(output), start(expected), "{size}");
            }
        }
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let cut = SplitFile::new(0, (), file_of(&vec![1; 5 * REGION]), 0..30 * REGION as u64, 2);
        let error = work_off(&cut, |_| ()).expect_err("its bytes are gone");
        assert!(error.to_string().contains("shorter"), "{error}");
        assert!(cut.take().is_none(), "nothing more is read");
    }
}
