//! Hashes what one worker holds: a small file whole, a stream to its end, a region of a big file.
//!
//! Bytes come from files and standard input by `read`, never by a mapping: the system ends a
//! process that touches a mapped page which another program has cut off meanwhile (SIGBUS), and
//! safe Rust cannot catch that. Reading costs one copy, from the page cache into a buffer that
//! stays in the core's own cache (docs/benchmark-log.md has both measured).
//!
//! [`Pool`] decides who does what, and puts the results into order.

use super::meter::Meter;
use super::pool::Pool;
use crate::exit::Failure;
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::OnceLock;
use xylem_hash::{Hasher, OUT_LEN, OutputReader};
use xylem_tree::parts::AnyTree;

/// A file is cut up from this size on; below, it is hashed before a second thread has begun.
const SPLIT_FROM: u64 = 2 << 20;

/// Bytes read at a time where a file is hashed as a whole.
const READ: usize = 64 << 10;

/// What one input came to: bytes of BLAKE3's output from the wanted place on.
pub(super) enum Digest {
    /// No more than a hash's length was asked for, and here it is; the bytes after are 0.
    Short([u8; OUT_LEN]),
    /// To be read on.
    Long(Box<OutputReader>),
}

/// One input: what the caller knows it by.
pub(super) trait Item: Send {
    /// What to hash, if anything; `-` is standard input.
    fn path(&self) -> Option<&Path>;
}

/// Takes results in the order of the items.
pub(super) trait Sink<T>: Send {
    /// What became of one item; `None` where it had no path. An error ends the run.
    fn result(&mut self, item: T, found: Option<io::Result<Digest>>) -> Result<(), Failure>;
    /// Nothing is ready: a good moment to flush.
    fn idle(&mut self) -> Result<(), Failure>;
}

/// How to hash.
pub(super) struct SumSettings {
    /// A hasher of the wanted kind that has seen nothing yet.
    pub(super) base: Hasher,
    /// Where the output starts.
    pub(super) seek: u64,
    /// How much of it is wanted; `seek + length` does not overflow.
    pub(super) length: u64,
    /// The parts of the same kind of tree.
    pub(super) tree: Box<dyn AnyTree>,
    /// Threads that hash at the same time.
    pub(super) threads: Threads,
    /// Standard input is read for something else; `-` is then an error with this text.
    pub(super) stdin_is_taken: Option<&'static str>,
}

/// How many threads at most.
pub(super) struct Threads {
    asked: Option<NonZeroUsize>,
    cores: OnceLock<usize>,
}

impl Threads {
    /// `asked`, or one per core for `None` and 0.
    pub(super) fn new(asked: Option<usize>) -> Self {
        Self { asked: asked.and_then(NonZeroUsize::new), cores: OnceLock::new() }
    }

    /// At least 1. The cores are counted when they are first needed: on Linux that means reading
    /// several files below /proc and /sys, which takes longer than to hash a small file.
    pub(super) fn get(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.asked.map_or_else(|| *self.cores.get_or_init(cores), usize::from)
    }
}

/// What a path turned out to be.
pub(super) enum Found {
    /// Hashed at once; how many bytes it was said to have.
    Done { digest: io::Result<Digest>, size: u64 },
    /// A file that is worth cutting up.
    Big { file: File, size: u64 },
    /// Standard input, a pipe, a device: to be read when its turn comes and by one thread, because
    /// two readers of one pipe would each get half of it.
    InTurn,
}

/// A worker's own things, kept between files.
pub(super) struct Desk {
    buffer: Vec<u8>,
    hasher: Hasher,
}

impl Desk {
    /// With a hasher like `base`.
    pub(super) fn new(base: &Hasher) -> Self {
        Self { buffer: Vec::new(), hasher: base.clone() }
    }

    /// The first `len` bytes of the buffer.
    pub(super) fn bytes(&mut self, len: usize) -> &mut [u8] {
        if self.buffer.len() < len {
            // Zeros from the system, which cost nothing until they are written over.
            self.buffer = vec![0; len];
        }
        &mut self.buffer[..len]
    }
}

impl SumSettings {
    /// Hashes `items`, of which a worker takes up to `ahead` at a time, and hands the results to
    /// `sink`.
    pub(super) fn run<T: Item>(
        &self,
        items: impl Iterator<Item = T> + Send,
        ahead: usize,
        meter: &Meter,
        sink: &mut impl Sink<T>,
    ) -> Result<(), Failure> {
        Pool::new(self, meter, items, ahead, sink).run()
    }

    /// For one worker.
    pub(super) fn desk(&self) -> Desk {
        Desk::new(&self.base)
    }

    /// Looks at a path, and hashes it if it is small.
    pub(super) fn hash_path(&self, path: &Path, desk: &mut Desk, meter: &Meter) -> Found {
        if path == Path::new("-") {
            return Found::InTurn;
        }
        // Looked at before it is opened: opening a pipe would wait for its writer, or wake it.
        let kind = match fs::metadata(path) {
            Ok(kind) if kind.is_file() || kind.is_dir() => kind,
            Ok(_) => return Found::InTurn,
            Err(error) => return Found::Done { digest: Err(error), size: 0 },
        };
        let size = if kind.is_file() { kind.len() } else { 0 };
        let digest = match File::open(path) {
            Ok(file) if size >= SPLIT_FROM && self.threads.get() > 1 => {
                return Found::Big { file, size };
            }
            Ok(file) => self.hash_stream(file, size, desk, meter),
            Err(error) => Err(error),
        };
        Found::Done { digest, size }
    }

    /// Hashes what is not a regular file, or standard input for `-`.
    pub(super) fn hash_in_turn(&self, path: &Path, meter: &Meter) -> io::Result<Digest> {
        let mut desk = self.desk();
        if path != Path::new("-") {
            return self.hash_stream(File::open(path)?, 0, &mut desk, meter);
        }
        match self.stdin_is_taken {
            Some(why) => Err(io::Error::other(why)),
            None => self.hash_stream(io::stdin().lock(), 0, &mut desk, meter),
        }
    }

    /// Hashes what `from` gives until its end; `size` is what a regular file had a moment ago, 0
    /// where nobody knows (a file below /proc says 0 and has bytes).
    fn hash_stream(
        &self,
        mut from: impl Read,
        size: u64,
        desk: &mut Desk,
        meter: &Meter,
    ) -> io::Result<Digest> {
        // With room for one byte more, a read that stops at the size says that the file ends there.
        let room = match usize::try_from(size) {
            Ok(size @ 1..READ) => size + 1,
            _ => READ,
        };
        desk.bytes(room);
        let Desk { buffer, hasher } = desk;
        hasher.reset();
        loop {
            match from.read(&mut buffer[..room]) {
                Ok(0) => break,
                Ok(n) => {
                    hasher.update(&buffer[..n]);
                    meter.add(n as u64);
                    if n < room && hasher.count() == size {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.digest(hasher.finalize_xof()))
    }

    /// What is wanted of an output.
    pub(super) fn digest(&self, mut output: OutputReader) -> Digest {
        output.set_position(self.seek);
        match usize::try_from(self.length) {
            Ok(length @ ..=OUT_LEN) => {
                let mut bytes = [0; OUT_LEN];
                output.fill(&mut bytes[..length]);
                Digest::Short(bytes)
            }
            _ => Digest::Long(Box::new(output)),
        }
    }
}
