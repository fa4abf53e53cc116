//! Hashes a sequence of files on several threads; results come out in the order of the sequence.
//!
//! One mechanism serves many small files and one big file alike: [`Feed`] cuts the sequence into
//! units (a whole file, or one aligned region of a big one), workers take units in order, and the
//! calling thread puts what they made back into order and joins regions by BLAKE3's own tree rule.
//! Only so many units are in flight as [`UNITS_PER_THREAD`] says, so memory depends neither on the
//! number of files nor on their sizes. What is not a regular file (standard input, a pipe, a
//! device) is read by the calling thread when its turn comes, because two readers of one pipe
//! would each get half of it.

use super::ordered::Ordered;
use super::region::{REGION, Region};
use crate::exit::Failure;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xylem_hash::tree::ChainingValue;
use xylem_hash::{Hash, Hasher, OutputReader};

/// Units that may be in flight, or wait for their turn, for each thread.
pub(super) const UNITS_PER_THREAD: usize = 16;

/// A file is cut up from this size on; below, one core is as fast as the threads' start.
const SPLIT_FROM: u64 = 4 * REGION as u64;

/// Bytes read at a time where a file is hashed as a whole.
const READ: usize = 256 << 10;

/// What one input came to.
pub(super) enum Digest {
    /// The plain hash; made from a file that was cut up.
    Root(Hash),
    /// Any kind of hash, with all the output that one may want.
    Output(OutputReader),
}

/// One input: a label of the caller's, and what to hash for it, if anything.
pub(super) struct Item<T> {
    pub(super) tag: T,
    pub(super) path: Option<PathBuf>,
}

/// Takes results in order.
pub(super) trait Sink<T> {
    /// What became of one item; `None` where it had no path. An error ends the run.
    fn result(&mut self, tag: T, found: Option<io::Result<Digest>>) -> Result<(), Failure>;
    /// Nothing is ready: a good moment to flush.
    fn idle(&mut self) -> Result<(), Failure>;
}

/// How to hash.
pub(super) struct Engine {
    /// A hasher of the wanted kind that has seen nothing yet.
    pub(super) base: Hasher,
    /// Whether a big file may be cut up (a plain hash, and nothing beyond its 32 bytes).
    pub(super) splits: bool,
    /// Threads that hash at the same time, at least 1.
    pub(super) threads: usize,
    /// Standard input is read for something else; `-` is then an error with this text.
    pub(super) stdin_is_taken: Option<&'static str>,
}

/// A piece of work.
pub(super) enum Unit<T> {
    /// Nothing to hash.
    Nothing(T),
    /// To be read by the calling thread.
    InTurn(T, PathBuf),
    /// A regular file.
    Whole(T, PathBuf),
    /// A region of a big file; the first one has the tag.
    Region(Option<T>, Region),
}

/// What a unit came to.
pub(super) enum Outcome<T> {
    /// Nothing was to be hashed.
    Nothing(T),
    /// Still to be read.
    InTurn(T, PathBuf),
    /// A whole file's hash.
    Whole(T, io::Result<Digest>),
    /// One region's node of the tree, and whether it is the file's last.
    Region { tag: Option<T>, value: io::Result<ChainingValue>, last: bool },
}

impl Engine {
    /// Hashes `items` and hands the results to `sink`.
    pub(super) fn run<T: Send>(
        &self,
        items: impl Iterator<Item = Item<T>> + Send,
        sink: &mut impl Sink<T>,
    ) -> Result<(), Failure> {
        let mut feed = Feed { items, cut: None, splits: self.splits && self.threads > 1 };
        // A single small input, the commonest use, is not worth a thread.
        let first = feed.next();
        let second = feed.next();
        let alone = second.is_none();
        let mut units = first.into_iter().chain(second).chain(feed);
        let mut ordered = Ordered::new(self, sink);
        if self.threads > 1 && !alone {
            return ordered.run_on_threads(units);
        }
        let mut buffer = Vec::new();
        units.try_for_each(|unit| {
            ordered.take(self.process(unit, &mut buffer))?;
            ordered.idle()
        })
    }

    /// Does one unit's work on the calling thread; `buffer` is kept between calls.
    pub(super) fn process<T>(&self, unit: Unit<T>, buffer: &mut Vec<u8>) -> Outcome<T> {
        match unit {
            Unit::Nothing(tag) => Outcome::Nothing(tag),
            Unit::InTurn(tag, path) => Outcome::InTurn(tag, path),
            Unit::Whole(tag, path) => {
                Outcome::Whole(tag, File::open(path).and_then(|file| self.read(file, buffer)))
            }
            Unit::Region(tag, region) => {
                Outcome::Region { tag, value: region.hash(buffer), last: region.last }
            }
        }
    }

    /// Hashes what is not a regular file, or standard input for `-`.
    pub(super) fn process_in_turn(&self, path: &Path) -> io::Result<Digest> {
        let mut buffer = Vec::new();
        if path != Path::new("-") {
            return self.read(File::open(path)?, &mut buffer);
        }
        match self.stdin_is_taken {
            Some(why) => Err(io::Error::other(why)),
            None => self.read(io::stdin().lock(), &mut buffer),
        }
    }

    fn read(&self, mut from: impl Read, buffer: &mut Vec<u8>) -> io::Result<Digest> {
        let mut hasher = self.base.clone();
        if buffer.len() < READ {
            buffer.resize(READ, 0);
        }
        loop {
            match from.read(buffer) {
                Ok(0) => return Ok(Digest::Output(hasher.finalize_xof())),
                Ok(n) => hasher.update(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
        }
    }
}

/// Cuts items into units, lazily: a file is looked at when a worker is ready for it.
struct Feed<I> {
    items: I,
    /// The rest of a big file.
    cut: Option<Region>,
    splits: bool,
}

impl<T, I: Iterator<Item = Item<T>>> Iterator for Feed<I> {
    type Item = Unit<T>;

    fn next(&mut self) -> Option<Unit<T>> {
        if let Some(region) = self.cut.take() {
            self.cut = region.following();
            return Some(Unit::Region(None, region));
        }
        let Item { tag, path } = self.items.next()?;
        let Some(path) = path else { return Some(Unit::Nothing(tag)) };
        let size = match fs::metadata(&path) {
            Ok(found) if found.is_file() && path != Path::new("-") => found.len(),
            _ => return Some(Unit::InTurn(tag, path)),
        };
        if !self.splits || size < SPLIT_FROM {
            return Some(Unit::Whole(tag, path));
        }
        // Where opening fails, hashing it as a whole fails in the same way and says so.
        let Ok(file) = File::open(&path) else { return Some(Unit::Whole(tag, path)) };
        let region = Region::first(Arc::new(file), size);
        self.cut = region.following();
        Some(Unit::Region(Some(tag), region))
    }
}
