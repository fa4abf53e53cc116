//! One big file, cut into aligned regions that any worker may take, and joined to its root.

use super::engine::Desk;
use super::meter::Meter;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xylem_hash::tree::{Kind, Tree, Value};
use xylem_hash::{CHUNK_LEN, OUT_LEN, OutputReader};

/// Bytes of a region: a power of two, so that each is a whole subtree, and small enough that what
/// was read is still in the core's first caches when it is hashed (docs/benchmark-log.md).
pub(super) const REGION: usize = 64 << 10;

/// Regions that a worker takes at a time, at most.
const TAKE: u64 = 8;

/// The value of a node. One run has one tree, so nodes of two kinds never meet.
pub(super) type Node = [u8; OUT_LEN];

/// A tree of any kind: plain, keyed, or key-deriving.
pub(super) trait AnyTree: Send + Sync {
    /// The node over an aligned part of the message, and not all of it.
    fn node(&self, bytes: &[u8], first_chunk: u64) -> Node;
    /// The node over two.
    fn parent(&self, left: &Node, right: &Node) -> Node;
    /// The output of the message that has these two under its root.
    fn root(&self, left: &Node, right: &Node) -> OutputReader;
}

impl<K: Kind> AnyTree for Tree<K>
where
    Tree<K>: Send + Sync,
{
    fn node(&self, bytes: &[u8], first_chunk: u64) -> Node {
        *self.chunk_group_cv(bytes, first_chunk).as_bytes()
    }

    fn parent(&self, left: &Node, right: &Node) -> Node {
        *self.parent_cv(&Value::from_bytes(*left), &Value::from_bytes(*right)).as_bytes()
    }

    fn root(&self, left: &Node, right: &Node) -> OutputReader {
        self.root_output(&Value::from_bytes(*left), &Value::from_bytes(*right))
    }
}

/// A file of more than one region.
///
/// Call order, by any number of threads: [`Cut::take`], [`Cut::hash`], [`Cut::finish`], until
/// `take` has no more. One of the calls of `finish` returns the file's output.
pub(super) struct Cut<T> {
    /// The item's number.
    pub(super) number: u64,
    file: File,
    size: u64,
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
    joiner: Joiner,
    /// Nodes whose turn to be joined has not come, by their first region.
    early: BTreeMap<u64, Vec<Node>>,
    failed: Option<io::Error>,
}

impl<T> Cut<T> {
    /// A file of `size` bytes, which is above [`REGION`]; up to `threads` will work at it.
    pub(super) fn new(number: u64, item: T, file: File, size: u64, threads: usize) -> Self {
        assert!(size > REGION as u64, "a file of one region has a root and no inner node");
        let progress = Progress {
            item: Some(item),
            taken: 0,
            finished: 0,
            joiner: Joiner::default(),
            early: BTreeMap::new(),
            failed: None,
        };
        Self { number, file, size, threads: threads as u64, progress: Mutex::new(progress) }
    }

    /// How many regions there are, 2 at least.
    fn regions(&self) -> u64 {
        self.size.div_ceil(REGION as u64)
    }

    /// How many threads are worth waking for it: each should have some regions.
    pub(super) fn worth_helpers(&self) -> usize {
        usize::try_from(self.regions() / TAKE).unwrap_or(usize::MAX)
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
    ) -> io::Result<Vec<Node>> {
        let hash = |region: u64| {
            let offset = region * REGION as u64;
            let bytes = desk.bytes((self.size - offset).min(REGION as u64) as usize);
            read_exact_at(&self.file, bytes, offset).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    io::Error::new(error.kind(), "it became shorter while it was read")
                }
                _ => error,
            })?;
            meter.add(bytes.len() as u64);
            Ok(tree.node(bytes, offset / CHUNK_LEN as u64))
        };
        regions.map(hash).collect()
    }

    /// Takes the nodes of regions; the call for the last ones that were at work gets the item
    /// back, with the file's output or the first error.
    pub(super) fn finish(
        &self,
        regions: Range<u64>,
        nodes: io::Result<Vec<Node>>,
        tree: &dyn AnyTree,
    ) -> Option<(T, io::Result<OutputReader>)> {
        let mut progress = self.lock();
        progress.finished += regions.end - regions.start;
        match nodes {
            Ok(nodes) => progress.join(regions.start, nodes, tree),
            Err(error) => {
                progress.failed.get_or_insert(error);
            }
        }
        let all = progress.taken == self.regions() || progress.failed.is_some();
        if !all || progress.finished < progress.taken {
            return None;
        }
        let item = progress.item.take()?;
        let output = match progress.failed.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut progress.joiner)
                .root(tree)
                .expect("only a file of two regions or more is cut up")),
        };
        Some((item, output))
    }
}

impl<T> Progress<T> {
    /// Joins what is in order.
    fn join(&mut self, first: u64, nodes: Vec<Node>, tree: &dyn AnyTree) {
        self.early.insert(first, nodes);
        while let Some(nodes) = self.early.remove(&self.joiner.regions) {
            nodes.into_iter().for_each(|node| self.joiner.push(node, tree));
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

/// Joins regions' nodes, given in order, to the root: memory for one node per level.
///
/// A BLAKE3 tree's left halves are always full, so the finished subtrees to the left of any region
/// are the ones that the binary digits of the number of regions before it name. A pair is merged
/// only when another region follows, because the last merge of all makes the root and is marked so.
#[derive(Default)]
struct Joiner {
    stack: Vec<Node>,
    regions: u64,
}

impl Joiner {
    /// Adds the next region's node.
    fn push(&mut self, node: Node, tree: &dyn AnyTree) {
        while self.stack.len() > self.regions.count_ones() as usize {
            let right =
                self.stack.pop().expect("the stack has more nodes than digits, so at least 1");
            let left = self.stack.pop().expect("every digit before the last pair has its node");
            self.stack.push(tree.parent(&left, &right));
        }
        self.stack.push(node);
        self.regions += 1;
    }

    /// The output of the root; `None` for fewer than two regions, which is no file that was cut up.
    fn root(mut self, tree: &dyn AnyTree) -> Option<OutputReader> {
        let mut right = self.stack.pop()?;
        while self.stack.len() > 1 {
            right = tree.parent(&self.stack.pop()?, &right);
        }
        self.stack.pop().map(|left| tree.root(&left, &right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use xylem_hash::Hasher;

    /// More than a hash's length.
    fn start(mut output: OutputReader) -> [u8; 100] {
        let mut bytes = [0; 100];
        output.fill(&mut bytes);
        bytes
    }

    #[test]
    fn joins_to_the_root_in_every_mode() {
        // Small groups stand for regions: the rule does not depend on their size.
        for groups in 2..70_usize {
            for tail in [1, 1023, 1024] {
                let bytes: Vec<u8> =
                    (0..(groups - 1) * 1024 + tail).map(|i| (i % 251) as u8).collect();
                let trees: [(&dyn AnyTree, Hasher); 3] = [
                    (&Tree::plain(), Hasher::new()),
                    (&Tree::keyed(&[7; 32]), Hasher::new_keyed(&[7; 32])),
                    (&Tree::derive_key("a test"), Hasher::new_derive_key("a test")),
                ];
                for (tree, mut hasher) in trees {
                    let mut joiner = Joiner::default();
                    for (i, group) in bytes.chunks(1024).enumerate() {
                        joiner.push(tree.node(group, i as u64), tree);
                    }
                    let output = joiner.root(tree).expect("two groups at least");
                    let expected = hasher.update(&bytes).finalize_xof();
                    assert_eq!(start(output), start(expected), "{groups} groups, {tail}");
                }
            }
        }
        assert!(Joiner::default().root(&Tree::plain()).is_none());
    }

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a temporary file can be made");
        file.write_all(bytes).expect("and written");
        file
    }

    /// Works a cut off, finishing what was taken in `order`.
    fn work_off(cut: &Cut<()>, order: impl Fn(&mut Vec<Range<u64>>)) -> io::Result<OutputReader> {
        let (tree, hasher) = (Tree::plain(), Hasher::new());
        let mut desk = Desk::new(&hasher);
        let mut taken: Vec<Range<u64>> = std::iter::from_fn(|| cut.take()).collect();
        assert_eq!(taken.iter().map(|r| r.end - r.start).sum::<u64>(), cut.regions());
        order(&mut taken);
        let meter = Meter::silent();
        let mut outputs = taken.into_iter().filter_map(|regions| {
            let nodes = cut.hash(regions.clone(), &tree, &mut desk, &meter);
            cut.finish(regions, nodes, &tree)
        });
        let ((), output) = outputs.next().expect("the last call has it");
        assert!(outputs.next().is_none(), "one output");
        output
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
                let cut = Cut::new(0, (), file_of(&bytes), size as u64, threads);
                let output = work_off(&cut, order).expect("the file is whole");
                let expected = Hasher::new().update(&bytes).finalize_xof();
                assert_eq!(start(output), start(expected), "{size}");
            }
        }
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let cut = Cut::new(0, (), file_of(&vec![1; 5 * REGION]), 30 * REGION as u64, 2);
        let error = work_off(&cut, |_| ()).expect_err("its bytes are gone");
        assert!(error.to_string().contains("shorter"), "{error}");
        assert!(cut.take().is_none(), "nothing more is read");
    }
}
