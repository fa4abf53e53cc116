//! [`hash_all`]: hashes many files, or one big one, on all cores.
//!
//! Small files go whole to the next free thread. A big file is cut into regions that all threads share. Memory is one
//! region's buffer for each thread, whatever the files' sizes.

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use xylem_base::{Blame, Failure, Stop, advised, blame_of, threads};
use xylem_hash::Hash;
use xylem_store::{
    FileRef, FileState, HashedFile, Medium, OutboardFile, OutboardWriter, RegionReader, RegionRuns,
    StoreError, hash_and_sum_file, hash_file,
};
use xylem_tree::{Geometry, OutboardBuilder, REGION_LEN, Region, SegmentSize};

use crate::event::LibraryEvent;

/// Most threads; more read no faster from any disk.
const MAX_THREADS: usize = 16;
/// Bytes of a list of sums gathered before a write.
const LIST_PIECE: usize = 64 * 1024;

/// Why files were not hashed.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// A file cannot be read, or changed meanwhile; or its outboard cannot be written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// The run was asked to stop.
    #[error("interrupted while hashing; nothing was published")]
    Interrupted,
}

impl Failure for HashError {
    fn blame(&self) -> Blame {
        match self {
            Self::Store(e) => blame_of(e),
            Self::Interrupted => Blame::Interrupted,
        }
    }
}

/// A file to hash, and where its outboard goes.
pub struct HashJob {
    /// Its path.
    pub path: PathBuf,
    /// The state that it must keep while it is read.
    pub state: FileState,
    /// First slot of its outboard in the outboard file; `None` if none is kept.
    pub slot: Option<u64>,
    /// Segment size of its tree.
    pub segment: SegmentSize,
    /// Offset of its list of sums in the file of lists; `None` if it has none or none is kept.
    pub sums: Option<u64>,
}

/// Files that receive the outputs of jobs.
#[derive(Clone, Copy, Default)]
pub struct HashOutputs<'a> {
    /// File of outboards.
    pub outboards: Option<&'a OutboardFile>,
    /// File of the lists of sums for updates.
    pub sums: Option<&'a FileRef>,
}

/// Returns the number of threads that hashing uses.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS))
}

/// Hashes every job; returns roots in the order of the jobs.
///
/// # Errors
/// A file cannot be read, has changed since its state was taken, or the call was asked to stop.
pub fn hash_all(
    medium: &dyn Medium,
    jobs: &[HashJob],
    takes: HashOutputs<'_>,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Vec<Hash>, HashError> {
    let progress = HashProgress { done: AtomicU64::new(0), total: total(jobs) };
    let work = HashWork { jobs, failing: Failing::EndsAll };
    let (roots, ()) = hash_beside(medium, work, takes, &progress, stop, on_event, |_| ())?;
    Ok(roots.into_iter().collect::<Result<_, _>>()?)
}

/// Like [`hash_all`], but a file that cannot be read, or changes meanwhile, has no root and does not stop the others.
///
/// # Errors
/// The outboards cannot be written.
pub fn hash_each(
    medium: &dyn Medium,
    jobs: &[HashJob],
    outboards: Option<&OutboardFile>,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Vec<Option<Hash>>, HashError> {
    let (stop, takes) = (Stop::new(), HashOutputs { outboards, ..HashOutputs::default() });
    let work = HashWork { jobs, failing: Failing::Alone };
    let progress = HashProgress { done: AtomicU64::new(0), total: total(jobs) };
    let (roots, ()) = hash_beside(medium, work, takes, &progress, &stop, on_event, |_| ())?;
    Ok(roots.into_iter().map(Result::ok).collect())
}

fn total(jobs: &[HashJob]) -> u64 {
    jobs.iter().map(|job| job.state.size).sum()
}

/// Scope of the failure of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The whole run.
    EndsAll,
    /// Only that file: its outcome is the error.
    Alone,
}

/// Files to hash.
#[derive(Clone, Copy)]
pub struct HashWork<'a> {
    /// One job for each file.
    pub jobs: &'a [HashJob],
    /// Scope of the failure of one file.
    pub failing: Failing,
}

/// Outcome of one job.
pub(crate) type HashOutcome = Result<Hash, StoreError>;

/// Progress of hashing that extends over several calls.
#[derive(Debug, Default)]
pub struct HashProgress {
    /// Bytes hashed.
    pub(crate) done: AtomicU64,
    /// Bytes in all, as far as they are known.
    pub total: u64,
}

/// Hashes every job while `beside` runs on this thread; returns outcomes in the order of the jobs.
pub fn hash_beside<R>(
    medium: &dyn Medium,
    HashWork { jobs, failing }: HashWork<'_>,
    takes: HashOutputs<'_>,
    progress: &HashProgress,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
    beside: impl FnOnce(&mut dyn FnMut(LibraryEvent)) -> R,
) -> Result<(Vec<HashOutcome>, R), HashError> {
    let HashProgress { done, total } = progress;
    let counted = |bytes| {
        done.fetch_add(bytes, Ordering::Relaxed);
    };
    let hash = || HashPool { medium, jobs, failing, takes, stop, counted: &counted }.run();
    let (outcome, beside) = threads::beside(hash, |running| {
        let beside = beside(on_event);
        while running() {
            on_event(LibraryEvent::Hashing { done: done.load(Ordering::Relaxed), total: *total });
        }
        beside
    });
    let hashed = match outcome {
        // After a stop a medium may return errors instead of waiting: that is an interruption, not a failure.
        Err(_) if stop.raised() => None,
        hashed => hashed?,
    };
    Ok((hashed.ok_or(HashError::Interrupted)?, beside))
}

struct HashPool<'a> {
    medium: &'a dyn Medium,
    jobs: &'a [HashJob],
    failing: Failing,
    takes: HashOutputs<'a>,
    stop: &'a Stop,
    counted: &'a (dyn Fn(u64) + Sync),
}

impl HashPool<'_> {
    /// Returns the outcome of each job, or `None` if the run was stopped.
    fn run(&self) -> Result<Option<Vec<HashOutcome>>, StoreError> {
        let mut roots: Vec<Option<HashOutcome>> = self.jobs.iter().map(|_| None).collect();
        let (big, small): (Vec<_>, Vec<_>) =
            (0..self.jobs.len()).partition(|i| self.jobs[*i].state.size > 2 * REGION_LEN as u64);
        for (i, hashed) in self.hash_small(&small)? {
            roots[i] = Some(hashed);
        }
        for i in big {
            let job = &self.jobs[i];
            roots[i] = match self.hash_big(job) {
                Err(e) if self.is_alone(job, &e) => Some(Err(e)),
                hashed => hashed?.map(Ok),
            };
        }
        Ok(roots.into_iter().collect())
    }

    /// Returns whether an error concerns this job alone. A failed write is not the file's fault.
    fn is_alone(&self, job: &HashJob, e: &StoreError) -> bool {
        self.failing == Failing::Alone && e.path() == job.path
    }

    fn writer(&self, job: &HashJob) -> Option<OutboardWriter> {
        Some(self.takes.outboards?.writer_at(job.slot?))
    }

    /// Returns where a job's list goes: the file and the offset in it.
    fn list(&self, job: &HashJob) -> Option<SumsWriter<'_>> {
        Some(SumsWriter { file: self.takes.sums?, at: job.sums?, bytes: Vec::new() })
    }

    fn hash_small(&self, indices: &[usize]) -> Result<Vec<(usize, HashOutcome)>, StoreError> {
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<StoreError>> = Mutex::new(None);
        let work = || {
            let (mut buffer, mut roots) = (Vec::new(), Vec::new());
            let mut writer = self.takes.outboards.map(|o| o.writer_at(0));
            while let Some(&i) = indices.get(next.fetch_add(1, Ordering::Relaxed)) {
                let job = &self.jobs[i];
                let kept = match (writer.as_mut(), job.slot) {
                    (Some(writer), Some(slot)) => {
                        writer.rebase(slot);
                        Some(writer)
                    }
                    _ => None,
                };
                let expected = Some(job.state);
                let size = job.segment;
                let (path, counted) = (&job.path, self.counted);
                let hashed = match self.list(job) {
                    None => {
                        hash_file(self.medium, path, expected, size, kept, &mut buffer, counted)
                    }
                    Some(mut list) => hash_and_sum_file(
                        self.medium,
                        path,
                        expected,
                        size,
                        kept,
                        &mut buffer,
                        &mut list.bytes,
                        counted,
                    )
                    .and_then(|hashed| list.write(0).map(|()| hashed)),
                };
                match hashed {
                    Ok(HashedFile { root, .. }) => roots.push((i, Ok(root))),
                    Err(e) if self.is_alone(job, &e) => roots.push((i, Err(e))),
                    Err(e) => {
                        failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(e);
                    }
                }
                let broken = failed.lock().unwrap_or_else(|e| e.into_inner()).is_some();
                if broken || self.stop.raised() {
                    break;
                }
            }
            if let Some(Err(e)) = writer.map(|mut w| w.flush()) {
                failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(e);
            }
            roots
        };
        let mut all = Vec::with_capacity(indices.len());
        thread::scope(|scope| {
            let others = threads().min(indices.len()).saturating_sub(1);
            let helpers = threads::helpers(scope, others, work);
            all.extend(work());
            for helper in helpers {
                all.extend(helper.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            }
        });
        match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(e) => Err(e),
            None => Ok(all),
        }
    }

    fn hash_big(&self, job: &HashJob) -> Result<Option<Hash>, StoreError> {
        let reader = RegionReader::open(self.medium, &job.path, Some(job.state), job.segment)?;
        let runs = reader.runs(threads());
        let mut writer = self.writer(job);
        let mut list = self.list(job);
        let has_list = list.is_some();
        let mut builder = OutboardBuilder::new(*reader.geometry(), |slot, nodes: &[u8]| {
            writer.as_mut().map_or(Ok(()), |w| w.write(slot, nodes))
        });
        // Regions arrive nearly in order: about a run of nodes for each thread waits here.
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        let mut take = |region: Result<(Region, Vec<u8>), StoreError>| {
            let (region, sums) = region?;
            waiting.insert(region.index(), (region, sums));
            while let Some((region, sums)) = waiting.remove(&next) {
                builder.push(region).map_err(|e| reader.build_error(e))?;
                if let Some(list) = &mut list {
                    list.bytes.extend_from_slice(&sums);
                    list.write(LIST_PIECE)?;
                }
                next += 1;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let (send, receive) = mpsc::sync_channel(2 * threads());
            let (reader, runs) = (&reader, &runs);
            let started = threads::helpers(scope, threads(), {
                let send = send.clone();
                move || {
                    read_regions(reader, runs, has_list, |region, bytes| {
                        (self.counted)(bytes);
                        send.send(region).is_ok() && !self.stop.raised()
                    });
                }
            });
            drop(send);
            if started.is_empty() {
                let mut taken = Ok(());
                read_regions(reader, runs, has_list, |region, bytes| {
                    (self.counted)(bytes);
                    taken = take(region);
                    taken.is_ok() && !self.stop.raised()
                });
                taken?;
            }
            receive.into_iter().try_for_each(&mut take)
        })?;
        list.map_or(Ok(()), |mut list| list.write(0))?;
        if self.stop.raised() {
            return Ok(None);
        }
        let root = builder.finish().map_err(|e| reader.build_error(e))?;
        if let Some(mut writer) = writer {
            writer.flush()?;
        }
        Ok(Some(reader.finish(root)?.root))
    }
}

/// Reads and hashes regions, with their sums if a list is wanted. Stops when none is left, one fails, or `hand` returns
/// false.
fn read_regions(
    reader: &RegionReader,
    runs: &RegionRuns,
    has_list: bool,
    mut hand: impl FnMut(Result<(Region, Vec<u8>), StoreError>, u64) -> bool,
) {
    let (reader, mut buffer) = (reader.another(), Vec::new());
    for index in iter::from_fn(|| runs.next_run()).flatten() {
        let mut sums = Vec::new();
        let region = match has_list {
            true => reader.read_hash_and_sum(index, &mut buffer, &mut sums),
            false => reader.read_and_hash(index, &mut buffer),
        };
        let failed = region.is_err();
        let range = Region::range(reader.geometry(), index);
        if !hand(region.map(|region| (region, sums)), range.end - range.start) || failed {
            break;
        }
    }
}

/// A file's list of sums, gathered before it is written.
struct SumsWriter<'a> {
    file: &'a FileRef,
    at: u64,
    bytes: Vec<u8>,
}

impl SumsWriter<'_> {
    /// Writes the gathered bytes, if they are more than `limit`.
    fn write(&mut self, limit: usize) -> Result<(), StoreError> {
        if self.bytes.len() > limit {
            self.file.write_all(&self.bytes, self.at)?;
            self.at += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// Returns the slots of a file's outboard in a packed outboard file: none for a file of one segment, since its only
/// node is the root in the listing.
pub fn packed_slots(size: u64, segment: SegmentSize) -> u64 {
    let geometry = Geometry::new(size, segment);
    if geometry.segments() == 1 { 0 } else { geometry.slots() }
}

/// Returns the state of the file at `path`; follows links.
///
/// # Errors
/// The medium's, such as [`StoreError::NotFound`].
pub fn state_of(medium: &dyn Medium, path: &Path) -> Result<FileState, StoreError> {
    RegionReader::open(medium, path, None, SegmentSize::DEFAULT).map(|r| r.state())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file spans several regions and ends with a hole, which is not read.
    #[test]
    fn every_byte_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let len = 3 * REGION_LEN as u64 + 5;
        std::fs::write(&path, vec![7; REGION_LEN + 3]).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        let medium = xylem_store::DiskMedium::new();
        let state = state_of(&medium, &path).unwrap();
        let job = HashJob { path, state, slot: None, segment: SegmentSize::DEFAULT, sums: None };
        let progress = HashProgress { done: AtomicU64::new(0), total: len };
        let (stop, takes) = (Stop::new(), HashOutputs::default());
        let work = HashWork { jobs: &[job], failing: Failing::EndsAll };
        hash_beside(&medium, work, takes, &progress, &stop, &mut |_| (), |_| ()).unwrap();
        assert_eq!(progress.done.into_inner(), len);
    }
}
