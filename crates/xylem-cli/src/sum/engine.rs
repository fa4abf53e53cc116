//! Hashes one worker's input: a small file, a stream, or a region of a large file.
//!
//! Bytes come from files and standard input by `read`, never by a mapping. If another program truncates a mapped file,
//! the system ends the process that touches the lost page (SIGBUS), and safe Rust cannot catch that. Reading costs one
//! copy, from the page cache into a buffer that stays in the core's own cache (docs/explanation/hash.md has
//! measurements of both).
//!
//! [`SumPool`] distributes the work and puts the results into order.

use super::meter::ByteMeter;
use super::pool::SumPool;
use crate::exit::CommandFailure;
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::OnceLock;
use xylem_hash::{Hasher, OUT_LEN, OutputReader};
use xylem_tree::parts::AnyTree;

/// Smallest file in bytes that is split into regions. A smaller one is hashed before a second thread has started.
const SPLIT_FROM: u64 = 2 << 20;

/// Bytes per read where a file is hashed as a whole.
const READ: usize = 64 << 10;

/// The result for one input: bytes of BLAKE3's output from the wanted position on.
pub(super) enum Digest {
    /// The output, if at most a hash's length is wanted; the bytes after it are 0.
    Short([u8; OUT_LEN]),
    /// A reader of the output, if more is wanted.
    Long(Box<OutputReader>),
}

/// An input, with the caller's data about it.
pub(super) trait SumItem: Send {
    /// The path to hash, if there is one; `-` is standard input.
    fn path(&self) -> Option<&Path>;
}

/// Receives results in the order of the items.
pub(super) trait SumSink<T>: Send {
    /// Takes the result of one item; `None` if it had no path. An error ends the run.
    fn result(&mut self, item: T, found: Option<io::Result<Digest>>) -> Result<(), CommandFailure>;
    /// No result is ready: a good moment to flush.
    fn idle(&mut self) -> Result<(), CommandFailure>;
}

/// How to hash.
pub(super) struct SumSettings {
    /// An unused hasher of the wanted kind.
    pub(super) base: Hasher,
    /// Position of the first wanted byte of the output.
    pub(super) seek: u64,
    /// Bytes of output that are wanted; `seek + length` does not overflow.
    pub(super) length: u64,
    /// Operations on trees of the same kind.
    pub(super) tree: Box<dyn AnyTree>,
    /// Threads that hash at the same time.
    pub(super) threads: ThreadCount,
    /// Set if standard input has another use; `-` is then an error with this text.
    pub(super) stdin_is_taken: Option<&'static str>,
}

/// The number of threads at most.
pub(super) struct ThreadCount {
    asked: Option<NonZeroUsize>,
    cores: OnceLock<usize>,
}

impl ThreadCount {
    /// `asked` threads, or one per core for `None` and 0.
    pub(super) fn new(asked: Option<usize>) -> Self {
        Self { asked: asked.and_then(NonZeroUsize::new), cores: OnceLock::new() }
    }

    /// The number, at least 1. The cores are counted on first use: on Linux that reads several files below /proc and
    /// /sys, which takes longer than to hash a small file.
    pub(super) fn get(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.asked.map_or_else(|| *self.cores.get_or_init(cores), usize::from)
    }
}

/// How a path is hashed.
pub(super) enum PathHashing {
    /// Hashed already; `size` is the file's size before.
    Done { digest: io::Result<Digest>, size: u64 },
    /// A file that is large enough to be split.
    Big { file: File, size: u64 },
    /// Standard input, a pipe or a device. It is read in its turn by one thread, because two readers of one pipe would
    /// each get half of it.
    InTurn,
}

/// A worker's buffer and hasher, reused between files.
pub(super) struct WorkerBuffers {
    buffer: Vec<u8>,
    hasher: Hasher,
}

impl WorkerBuffers {
    /// Makes an empty buffer and a hasher like `base`.
    pub(super) fn new(base: &Hasher) -> Self {
        Self { buffer: Vec::new(), hasher: base.clone() }
    }

    /// The first `len` bytes of the buffer.
    pub(super) fn bytes(&mut self, len: usize) -> &mut [u8] {
        if self.buffer.len() < len {
            // Zeroed memory from the system costs nothing until it is written.
            self.buffer = vec![0; len];
        }
        &mut self.buffer[..len]
    }
}

impl SumSettings {
    /// Hashes `items`, of which a worker takes up to `ahead` at a time, and passes the results to `sink`.
    pub(super) fn run<T: SumItem>(
        &self,
        items: impl Iterator<Item = T> + Send,
        ahead: usize,
        meter: &ByteMeter,
        sink: &mut impl SumSink<T>,
    ) -> Result<(), CommandFailure> {
        SumPool::new(self, meter, items, ahead, sink).run()
    }

    /// Makes the state of one worker.
    pub(super) fn worker_buffers(&self) -> WorkerBuffers {
        WorkerBuffers::new(&self.base)
    }

    /// Examines a path, and hashes the file if it is small.
    pub(super) fn hash_path(
        &self,
        path: &Path,
        desk: &mut WorkerBuffers,
        meter: &ByteMeter,
    ) -> PathHashing {
        if path == Path::new("-") {
            return PathHashing::InTurn;
        }
        // Examine it before opening: to open a pipe would wait for its writer, or wake it.
        let kind = match fs::metadata(path) {
            Ok(kind) if kind.is_file() || kind.is_dir() => kind,
            Ok(_) => return PathHashing::InTurn,
            Err(error) => return PathHashing::Done { digest: Err(error), size: 0 },
        };
        let size = if kind.is_file() { kind.len() } else { 0 };
        let digest = match File::open(path) {
            Ok(file) if size >= SPLIT_FROM && self.threads.get() > 1 => {
                return PathHashing::Big { file, size };
            }
            Ok(file) => self.hash_stream(file, size, desk, meter),
            Err(error) => Err(error),
        };
        PathHashing::Done { digest, size }
    }

    /// Hashes a path that is not a regular file, or standard input for `-`.
    pub(super) fn hash_in_turn(&self, path: &Path, meter: &ByteMeter) -> io::Result<Digest> {
        let mut desk = self.worker_buffers();
        if path != Path::new("-") {
            return self.hash_stream(File::open(path)?, 0, &mut desk, meter);
        }
        match self.stdin_is_taken {
            Some(why) => Err(io::Error::other(why)),
            None => self.hash_stream(io::stdin().lock(), 0, &mut desk, meter),
        }
    }

    /// Hashes all that `from` gives. `size` is the size of a regular file a moment ago, or 0 if unknown (a file below
    /// /proc has size 0 and yet bytes).
    fn hash_stream(
        &self,
        mut from: impl Read,
        size: u64,
        desk: &mut WorkerBuffers,
        meter: &ByteMeter,
    ) -> io::Result<Digest> {
        // The buffer has room for one byte more: a read that stops at the size then proves that the file ends there.
        let room = match usize::try_from(size) {
            Ok(size @ 1..READ) => size + 1,
            _ => READ,
        };
        desk.bytes(room);
        let WorkerBuffers { buffer, hasher } = desk;
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

    /// The wanted part of an output.
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
