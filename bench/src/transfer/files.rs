//! `files`: reading a shared file and writing a fetched one, against plain calls on the same file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use xylem_store::{
    Attributes, DiskMedium, FileCache, FileState, OverwritePolicy, Partial, SharedFile, Store,
    StoreError, hash_file,
};
use xylem_tree::{
    Geometry, Outboard, ProofError, Segment, SegmentIndex, SegmentSize, TreeVerifier, Verified,
    segment_signature, tile_content, tile_signature,
};

use super::rows::{OURS, PLAIN, Quoted, heading, number, row};
use crate::Error;
use crate::input;
use crate::race::{Answer, Contender};
use crate::report::Absent;
use crate::series::Series;

const MEGABYTE: usize = 1_000_000;
/// The document's chunk.
const CHUNK: usize = 256 << 10;
const READS: [(usize, f64); 3] = [(1, 62_975.0), (10, 649_470.0), (100, 31_114_000.0)];
/// `tree_hashing`, the document's benchmark on files.
const HASHES: [(usize, f64); 3] = [(1, 241_360.0), (10, 2_446_000.0), (100, 48_585_000.0)];
const WRITES: [(&str, bool, f64); 2] =
    [("in order", true, 4_805_000.0), ("out of order", false, 4_818_000.0)];
/// Number of chunks of those two.
const WRITTEN: usize = 100;
const WHOLE: [(usize, f64); 2] = [(1, 166_980.0), (10, 2_794_000.0)];
/// Coprime to every number of chunks here.
const STRIDE: usize = 37;

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "files",
        "files, one thread",
        "operation",
        &[
            "Files lie in memory (/dev/shm, where there is one). The plain library is std::fs: the same \
             reads and writes of 256 KiB, nothing checked. All rows are bound by memory and by the system, so that it is the bar.",
            "Ours reads as a share does, with a look at each read whether the file is still the one that \
             was hashed; every row of reads opens the file.",
            "Ours writes as a fetch does: proven segments of 8 KiB, in the order named of their 256 KiB, \
             the tree nodes beside them; opened, locked, scanned for what an earlier fetch left, and closed. The plain \
             library writes as many bytes of nodes into a second file. A \
             file put together gets its name as well, and so does the second one. Files are made anew each time, memory for them \
             included; the document's rates say that it wrote over what was there.",
            "A file's tree includes reading it and writing the outboard; the plain library is the official \
             BLAKE3 on 64 KiB at a time, and writes nothing.",
        ],
    ))?;
    let place = match Place::new() {
        Ok(place) => place,
        Err(error) => {
            let (table, what) = ("files".to_owned(), "all of it".to_owned());
            return series.absent(Absent { table, what, why: error.to_string() });
        }
    };
    let longest = series.longest();
    let fits = |megabytes: usize| megabytes * MEGABYTE <= longest;
    for (megabytes, document) in READS.into_iter().filter(|(m, _)| fits(*m)) {
        reads(series, &place, megabytes, document)?;
    }
    seeks(series, &place)?;
    for (megabytes, document) in HASHES.into_iter().filter(|(m, _)| fits(*m)) {
        hashes(series, &place, megabytes, document)?;
    }
    for (order, ascending, document) in WRITES.into_iter().filter(|_| WRITTEN * CHUNK <= longest) {
        let label = format!("{WRITTEN} x 256 KiB {order}");
        writes(series, &place, &label, WRITTEN * CHUNK, ascending, false, document)?;
    }
    for (megabytes, document) in WHOLE.into_iter().filter(|(m, _)| fits(*m)) {
        let label = format!("put {megabytes} MB together");
        writes(series, &place, &label, megabytes * MEGABYTE, true, true, document)?;
    }
    Ok(())
}

/// A folder that is removed when dropped, and a store in it.
struct Place {
    folder: TempDir,
    store: Store,
}

impl Place {
    fn new() -> Result<Self, StoreError> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new()
            .prefix("xylem-bench-")
            .tempdir_in(&parent)
            .map_err(|e| StoreError::from_io("make a folder", &parent, None, e))?;
        let store = Store::open(Arc::new(DiskMedium::new()), &folder.path().join("store"))?;
        Ok(Self { folder, store })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file with this many bytes, ready to be hashed.
    fn file(&self, bytes: usize) -> io::Result<(PathBuf, SharedFile)> {
        let path = self.path("source");
        std::fs::write(&path, input::bytes(bytes))?;
        let mut buffer = Vec::new();
        let medium = &**self.store.medium();
        let size = SegmentSize::DEFAULT;
        let hashed = hash_file(medium, &path, None, size, None, &mut buffer, &|_| {})
            .map_err(io::Error::other)?;
        let state: FileState = hashed.state;
        let ctime = medium.metadata(&path)?.ctime;
        Ok((path.clone(), SharedFile { path, state, ctime }))
    }
}

/// The answer of a run that may fail: a failed run agrees with no other.
fn judged<F>(result: Result<u64, F>, who: &str) -> Answer {
    match result {
        Ok(value) => number(value),
        Err(_) => [who.len() as u8; 32],
    }
}

fn missing<E>(series: &mut Series<'_, E>, what: &str, why: String) -> Result<(), Error<E>> {
    series.absent(Absent { table: "files".to_owned(), what: what.to_owned(), why })
}

fn reads<E>(
    series: &mut Series<'_, E>,
    place: &Place,
    megabytes: usize,
    document: f64,
) -> Result<(), Error<E>> {
    let label = format!("read {megabytes} MB by 256 KiB");
    let size = megabytes * MEGABYTE;
    let (path, shared) = match place.file(size) {
        Ok(file) => file,
        Err(error) => return missing(series, &label, error.to_string()),
    };
    let offsets: Vec<usize> = (0..size).step_by(CHUNK).collect();
    let (mut ours, mut plain) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut contenders = [
        Contender::new(OURS, "read", || {
            let mut cache = FileCache::new(place.store.medium().clone(), 1);
            let mut read = || {
                let mut sum = 0;
                for at in &offsets {
                    let piece = &mut ours[..CHUNK.min(size - at)];
                    cache.read_at(0, &shared, *at as u64, piece)?;
                    sum += u64::from(piece[0]);
                }
                Ok::<u64, StoreError>(sum)
            };
            judged(read(), OURS)
        }),
        Contender::new(PLAIN, "read", || {
            let mut read = || {
                let (file, mut sum) = (File::open(&path)?, 0);
                for at in &offsets {
                    let piece = &mut plain[..CHUNK.min(size - at)];
                    file.read_exact_at(piece, *at as u64)?;
                    sum += u64::from(piece[0]);
                }
                Ok::<u64, io::Error>(sum)
            };
            judged(read(), PLAIN)
        }),
    ];
    row(series, &label, 1, &mut contenders, Quoted::of(document).bound_by_the_host())
}

fn seeks<E>(series: &mut Series<'_, E>, place: &Place) -> Result<(), Error<E>> {
    let label = "256 KiB read anywhere";
    let chunks = 16;
    let (path, shared) = match place.file(chunks * CHUNK) {
        Ok(file) => file,
        Err(error) => return missing(series, label, error.to_string()),
    };
    let (mut ours, mut plain) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut our_turn, mut plain_turn) = (0, 0);
    let at = |turn: &mut usize| {
        *turn += STRIDE;
        (*turn % chunks * CHUNK) as u64
    };
    let mut contenders = [
        Contender::new(OURS, "ours", || {
            let mut cache = FileCache::new(place.store.medium().clone(), 1);
            let read = cache.read_at(0, &shared, at(&mut our_turn), &mut ours);
            judged(read.map(|_| u64::from(ours[0])), OURS)
        }),
        Contender::new(PLAIN, "plain", || {
            let at = at(&mut plain_turn);
            let read = File::open(&path).and_then(|file| file.read_exact_at(&mut plain, at));
            judged(read.map(|()| u64::from(plain[0])), PLAIN)
        }),
    ];
    row(series, label, 1, &mut contenders, Quoted::of(80_739.0).bound_by_the_host())
}

fn hashes<E>(
    series: &mut Series<'_, E>,
    place: &Place,
    megabytes: usize,
    document: f64,
) -> Result<(), Error<E>> {
    let label = format!("tree of a file of {megabytes} MB");
    let (path, _) = match place.file(megabytes * MEGABYTE) {
        Ok(file) => file,
        Err(error) => return missing(series, &label, error.to_string()),
    };
    let medium = &**place.store.medium();
    let (mut buffer, mut plain) = (Vec::new(), vec![0; 64 << 10]);
    let mut contenders = [
        Contender::new(OURS, "hash", || {
            let mut hash = || {
                let new = place.store.new_file()?;
                let mut nodes = new.outboard().writer_at(0);
                let size = SegmentSize::DEFAULT;
                let hashed =
                    hash_file(medium, &path, None, size, Some(&mut nodes), &mut buffer, &|_| {})?;
                nodes.flush()?;
                Ok::<_, StoreError>(*hashed.root.as_bytes())
            };
            hash().unwrap_or([1; 32])
        }),
        Contender::new(PLAIN, "hash", || {
            let mut hash = || {
                let (file, mut hasher, mut at) = (File::open(&path)?, blake3::Hasher::new(), 0);
                loop {
                    let got = file.read_at(&mut plain, at)?;
                    if got == 0 {
                        return Ok::<_, io::Error>(*hasher.finalize().as_bytes());
                    }
                    hasher.update(&plain[..got]);
                    at += got as u64;
                }
            };
            hash().unwrap_or([2; 32])
        }),
    ];
    row(series, &label, 1, &mut contenders, Quoted::of(document).bound_by_the_host())
}

/// The input of a fetch of `size` bytes: segments in the order of requests, and the plain chunks.
struct Fetched {
    geometry: Geometry,
    root: xylem_hash::Hash,
    segments: Vec<Verified<Segment<Vec<u8>>>>,
    nodes: Verified<Vec<(xylem_tree::Node, xylem_tree::NodeValue)>>,
    bytes: Vec<u8>,
    chunks: Vec<usize>,
    /// The whole outboard, for a writer without nodes.
    outboard: Vec<u8>,
}

impl Fetched {
    fn new(size: usize, ascending: bool) -> Result<Self, ProofError> {
        let bytes = input::bytes(size);
        let outboard = Outboard::of(&bytes, SegmentSize::DEFAULT);
        let (geometry, root) = (*outboard.geometry(), outboard.root());
        let mut verifier = TreeVerifier::new(geometry, root);
        let count = size.div_ceil(CHUNK);
        let step = if ascending { 1 } else { STRIDE };
        let chunks: Vec<usize> = (0..count).map(|n| n * step % count).collect();
        let mut segments = Vec::new();
        let per_chunk = (CHUNK / SegmentSize::DEFAULT.bytes()) as u64;
        for chunk in &chunks {
            let first = *chunk as u64 * per_chunk;
            for i in first..(first + per_chunk).min(geometry.segments()) {
                segments.push(proven(&outboard, &bytes, &mut verifier, SegmentIndex(i))?);
            }
        }
        let (nodes, outboard) = (verifier.take_proven(), outboard.as_bytes().to_vec());
        Ok(Self { geometry, root, segments, nodes, bytes, chunks, outboard })
    }

    /// Puts all of it into a part file, and completes it under the name in `named`, if any.
    fn put(&self, store: &Store, part: &Path, named: Option<&Path>) -> Result<u64, StoreError> {
        let opened = Partial::open(store, self.root, self.geometry, part)?;
        let (mut partial, _) = opened.resume(&|_| {})?;
        let per_report = self.segments.len().div_ceil(self.chunks.len()).max(1);
        let mut nodes = Some(&self.nodes);
        let mut batch = Vec::with_capacity(per_report);
        for segments in self.segments.chunks(per_report) {
            batch.clear();
            batch.extend(segments);
            partial.put_all(&batch)?;
            if let Some(nodes) = nodes.take() {
                partial.put_nodes(nodes)?;
            }
        }
        let size = self.bytes.len() as u64;
        if let Some(path) = named {
            partial.finish_as(path, &Attributes::default(), OverwritePolicy::Replace)?;
            return Ok(size);
        }
        partial.flush()?;
        drop(partial);
        store.remove_partial(&self.root, xylem_store::ObjectPart::Outboard)?;
        let removed = std::fs::remove_file(part);
        removed.map_err(|e| StoreError::from_io("remove", part, None, e))?;
        Ok(size)
    }

    /// The same by plain calls.
    fn write(&self, part: &Path, named: Option<&Path>) -> io::Result<u64> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(part)?;
        file.set_len(self.bytes.len() as u64)?;
        for chunk in &self.chunks {
            let at = chunk * CHUNK;
            let end = (at + CHUNK).min(self.bytes.len());
            file.write_all_at(&self.bytes[at..end], at as u64)?;
        }
        let nodes = part.with_extension("nodes");
        let second = OpenOptions::new().write(true).create(true).truncate(true).open(&nodes)?;
        second.write_all_at(&self.outboard, 0)?;
        match named {
            Some(path) => {
                std::fs::rename(part, path)?;
                std::fs::rename(nodes, path.with_extension("nodes"))?;
            }
            None => {
                std::fs::remove_file(part)?;
                std::fs::remove_file(nodes)?;
            }
        }
        Ok(self.bytes.len() as u64)
    }
}

/// One segment, with the tiles that its proof ends at.
fn proven(
    outboard: &Outboard,
    bytes: &[u8],
    verifier: &mut TreeVerifier,
    i: SegmentIndex,
) -> Result<Verified<Segment<Vec<u8>>>, ProofError> {
    let (geometry, read) = (outboard.geometry(), "the outboard is whole");
    let range = geometry.segment_range(i);
    let content = &bytes[range.start as usize..range.end as usize];
    let mut proof = Vec::new();
    segment_signature(geometry, i, &mut outboard.as_bytes(), &mut proof).expect(read);
    loop {
        match verifier.segment(i, content.to_vec(), &proof) {
            Err(ProofError::NeedTile(tile)) => {
                let (mut inside, mut above) = (Vec::new(), Vec::new());
                tile_content(geometry, tile, &mut outboard.as_bytes(), &mut inside).expect(read);
                tile_signature(geometry, tile, &mut outboard.as_bytes(), &mut above).expect(read);
                verifier.tile(tile, &inside, &above)?;
            }
            outcome => return outcome,
        }
    }
}

fn writes<E>(
    series: &mut Series<'_, E>,
    place: &Place,
    label: &str,
    size: usize,
    ascending: bool,
    named: bool,
    document: f64,
) -> Result<(), Error<E>> {
    let fetched = match Fetched::new(size, ascending) {
        Ok(fetched) => fetched,
        Err(error) => return missing(series, label, error.to_string()),
    };
    let ours = (place.path(".ours.xylem-part"), place.path("ours"));
    let plain = (place.path(".plain.part"), place.path("plain"));
    let mut contenders = [
        Contender::new(OURS, "write", || {
            let name = named.then_some(ours.1.as_path());
            judged(fetched.put(&place.store, &ours.0, name), OURS)
        }),
        Contender::new(PLAIN, "write", || {
            let name = named.then_some(plain.1.as_path());
            judged(fetched.write(&plain.0, name), PLAIN)
        }),
    ];
    row(series, label, 1, &mut contenders, Quoted::of(document).bound_by_the_host())
}
