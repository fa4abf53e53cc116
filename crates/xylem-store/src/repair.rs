//! [`FileRepair`]: repairs segments of a damaged file in place.
//!
//! It writes only `Verified` segments, and only those that were found wrong; it leaves segments alone that are right.
//! In the end size, mode and modification time are the recorded ones, so that the file still counts as the one that was
//! hashed.
//!
//! Writing changes the modification time, which distinguishes edited files from damaged ones. So the time is set back
//! after every write. Before the first write a [`RepairRecord`] is stored (`repairs/<key>`) that names the file, its
//! state and the segments. If the process dies in between, the next run can attribute the changes. Layout:
//! docs/spec/scrub.md, "Repair record".
//!
//! Only a file's owner can set its time back. For a file of another user, the record stays after the repair, with the
//! time of the last write and without segments. A file that still has that time was not edited; one with another time
//! was.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::ops::Range;
use std::path::{Path, PathBuf};

use xylem_hash::{Hash, Hasher};
use xylem_tree::{Geometry, Segment, Verified};

use crate::error::StoreError;
use crate::file::{FileRef, FileState, read_whole, require_regular};
use crate::layout::REPAIRS;
use crate::medium::{FileTime, OpenHow};
use crate::store::Store;

const MAGIC: &[u8; 8] = b"xyrepair";
const CHECKSUM: usize = 8;
const BODY: usize = CHECKSUM + 32;
/// Root, size, mtime (seconds, nanoseconds), inode number.
const HEAD: usize = 32 + 8 + 8 + 4 + 8;
const RANGE: usize = 16;
/// Most ranges of segments in a record: a limit of this program. More are joined with their neighbours.
const MAX_RANGES: usize = 65_536;

/// The record of a repair that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairRecord {
    /// Root of the intact file.
    pub root: Hash,
    /// The state that the file has to have in the end.
    pub state: FileState,
    /// Segments that may be written, ascending and disjoint.
    pub segments: Vec<Range<u64>>,
}

/// The result of setting the time back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeRestored {
    Restored,
    /// The file is another user's; its time is now this.
    Left(FileTime),
}

impl RepairRecord {
    /// Whether all of `segments` may be written.
    #[must_use]
    pub fn covers(&self, segments: &[Range<u64>]) -> bool {
        let holds = |r: &Range<u64>| {
            let at = self.segments.partition_point(|own| own.end <= r.start);
            self.segments.get(at).is_some_and(|own| own.start <= r.start && r.end <= own.end)
        };
        segments.iter().all(holds)
    }

    /// Encodes a record that is stored under `key`.
    #[must_use]
    pub fn encode(&self, key: &Hash) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(self.root.as_bytes());
        body.extend_from_slice(&self.state.size.to_le_bytes());
        body.extend_from_slice(&self.state.mtime.secs.to_le_bytes());
        body.extend_from_slice(&self.state.mtime.nanos.to_le_bytes());
        body.extend_from_slice(&self.state.ino.to_le_bytes());
        for range in joined(&self.segments) {
            body.extend_from_slice(&range.start.to_le_bytes());
            body.extend_from_slice(&range.end.to_le_bytes());
        }
        [&MAGIC[..], checksum(key, &body).as_bytes(), &body].concat()
    }

    /// Decodes a record; `None` if it is truncated, damaged or stored under another key.
    #[must_use]
    pub fn decode(key: &Hash, bytes: &[u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(BODY)?;
        if !head.starts_with(MAGIC) || head[CHECKSUM..] != checksum(key, body).as_bytes()[..] {
            return None;
        }
        let (root, rest) = body.split_first_chunk::<32>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let (secs, rest) = rest.split_first_chunk::<8>()?;
        let (nanos, rest) = rest.split_first_chunk::<4>()?;
        let (ino, rest) = rest.split_first_chunk::<8>()?;
        let (ranges, odd) = rest.as_chunks::<RANGE>();
        let mut segments = Vec::with_capacity(ranges.len().min(MAX_RANGES));
        for range in ranges {
            let (start, end) = range.split_first_chunk::<8>()?;
            let range = u64::from_le_bytes(*start)..u64::from_le_bytes(*end.first_chunk()?);
            let after = segments.last().map_or(0, |last: &Range<u64>| last.end);
            if range.is_empty() || range.start < after || segments.len() == MAX_RANGES {
                return None;
            }
            segments.push(range);
        }
        odd.is_empty().then_some(Self {
            root: Hash::from_bytes(*root),
            state: FileState {
                size: u64::from_le_bytes(*size),
                mtime: FileTime {
                    secs: i64::from_le_bytes(*secs),
                    nanos: u32::from_le_bytes(*nanos),
                },
                ino: u64::from_le_bytes(*ino),
            },
            segments,
        })
    }
}

/// At most [`MAX_RANGES`] ranges that hold all of `ranges`.
fn joined(ranges: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> + '_ {
    let together = ranges.len().div_ceil(MAX_RANGES).max(1);
    ranges.chunks(together).filter_map(|run| Some(run.first()?.start..run.last()?.end))
}

fn checksum(key: &Hash, body: &[u8]) -> Hash {
    let mut hasher = Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(body);
    hasher.finalize()
}

fn record_name(canonical_path: &[u8]) -> (Hash, PathBuf) {
    let key = xylem_hash::hash(canonical_path);
    let name = Path::new(REPAIRS).join(key.to_hex());
    (key, name)
}

impl Store {
    /// The record of an unfinished repair of this path, if there is an intact one.
    ///
    /// # Errors
    /// The medium's, except "not found".
    pub fn repair_begun(&self, canonical_path: &[u8]) -> Result<Option<RepairRecord>, StoreError> {
        let (key, name) = record_name(canonical_path);
        let file = self.open_named(&name, OpenHow::ReadNoFollow)?;
        file.map_or(Ok(None), |file| read_record(&file, &key))
    }

    /// Removes the record of a complete repair of this path, if its process died before it removed that. A repair in
    /// progress is left alone.
    ///
    /// # Errors
    /// The medium's.
    pub fn repair_ended(&self, canonical_path: &[u8]) -> Result<(), StoreError> {
        let (_, name) = record_name(canonical_path);
        match self.lock_named(&name) {
            Err(StoreError::Busy { .. }) => Ok(()),
            Err(e) => Err(e),
            Ok(_locked) => self.remove_named(&name),
        }
    }
}

/// Sets the modification time back, if we own the file.
fn restore(file: &FileRef, state: &FileState) -> Result<TimeRestored, StoreError> {
    let now = file.metadata()?.mtime;
    if now == state.mtime {
        return Ok(TimeRestored::Restored);
    }
    match file.set_mtime(state.mtime) {
        Ok(()) => Ok(TimeRestored::Restored),
        Err(StoreError::Permission { .. }) => Ok(TimeRestored::Left(now)),
        Err(e) => Err(e),
    }
}

fn read_record(file: &FileRef, key: &Hash) -> Result<Option<RepairRecord>, StoreError> {
    match read_whole(file, (BODY + HEAD + RANGE * MAX_RANGES) as u64) {
        Ok(bytes) => Ok(RepairRecord::decode(key, &bytes)),
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

/// A repair of one file in progress. Call order: [`FileRepair::begin`], [`FileRepair::put`] as segments are proven,
/// [`FileRepair::finish`]. Dropping it keeps what was written, and the record.
#[derive(Debug)]
pub struct FileRepair {
    store: Store,
    /// Name and file of the record; the file holds the lock while open.
    record: (PathBuf, FileRef),
    file: FileRef,
    geometry: Geometry,
    key: Hash,
    wanted: RepairRecord,
    time: TimeRestored,
    written: u64,
}

impl FileRepair {
    /// Starts to write `segments` (ascending, disjoint) of the object `root` to `file`, which is open for writing, and
    /// stores the record. `state` is the recorded one: size and time are set to it.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while another process repairs the same file; the medium's. The file's
    /// bytes are unchanged then.
    pub fn begin(
        store: &Store,
        file: FileRef,
        canonical_path: &[u8],
        root: Hash,
        geometry: Geometry,
        state: FileState,
        segments: Vec<Range<u64>>,
    ) -> Result<Self, StoreError> {
        require_regular(file.path(), &file.metadata()?)?;
        let (key, name) = record_name(canonical_path);
        let record = store.lock_named(&name)?;
        let segments: Vec<_> = joined(&segments).collect();
        let mut wanted = RepairRecord { root, state, segments };
        match read_record(&record, &key)? {
            Some(old) if old.root == root && old.state == state && old.covers(&wanted.segments) => {
                wanted = old;
            }
            _ => {
                // First, so that changes of an earlier run do not count as an edit while the record is rewritten.
                restore(&file, &state)?;
                record.set_len(0)?;
                record.write_all(&wanted.encode(&key), 0)?;
            }
        }
        if file.metadata()?.size != state.size {
            file.set_len(state.size)?;
        }
        let time = restore(&file, &state)?;
        let (store, record) = (store.clone(), (name, record));
        Ok(Self { store, record, file, geometry, key, wanted, time, written: 0 })
    }

    /// Takes a proven segment. Writes it if it is among the permitted ones and differs from the file. Returns whether
    /// it was written.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] for a segment of another object; [`StoreError::NoSpace`] (for a
    /// file with holes), the medium's.
    pub fn put<B: AsRef<[u8]>>(
        &mut self,
        segment: &Verified<Segment<B>>,
    ) -> Result<bool, StoreError> {
        let content = segment.content.as_ref();
        let range = self.geometry.segment_range(segment.index);
        let end = segment.offset.saturating_add(content.len() as u64);
        if segment.root() != self.wanted.root || range != (segment.offset..end) {
            let path = self.file.path().into();
            return Err(StoreError::OutOfRange { path, offset: segment.offset });
        }
        let number = segment.index.0;
        if !self.wanted.covers(std::slice::from_ref(&(number..number.saturating_add(1)))) {
            return Ok(false);
        }
        let mut there = vec![0; content.len()];
        // An unreadable segment counts as wrong.
        let got = self.file.read_full(&mut there, range.start);
        if got.is_ok_and(|got| got == content.len()) && there == content {
            return Ok(false);
        }
        let written = self.file.write_all(content, range.start);
        // Also after a failed write, which may have happened in part.
        self.time = restore(&self.file, &self.wanted.state)?;
        written?;
        self.written = self.written.saturating_add(content.len() as u64);
        Ok(true)
    }

    /// Bytes written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The time that stays on a file if we cannot set it back.
    #[must_use]
    pub fn time_left(&self) -> Option<FileTime> {
        match self.time {
            TimeRestored::Restored => None,
            TimeRestored::Left(time) => Some(time),
        }
    }

    /// Makes the writes durable and removes the record. If the file's time is not the recorded one, the record keeps
    /// that time.
    ///
    /// # Errors
    /// The medium's; a later call starts anew.
    pub fn finish(mut self) -> Result<u64, StoreError> {
        if self.written > 0 {
            self.file.sync()?;
        }
        if self.time == TimeRestored::Restored {
            // A failed write may have changed the time, which without the record would count as an edit.
            self.time = restore(&self.file, &self.wanted.state)?;
        }
        match self.time_left() {
            None => self.store.remove_named(&self.record.0)?,
            Some(mtime) => {
                let state = FileState { mtime, ..self.wanted.state };
                let ended = RepairRecord { root: self.wanted.root, state, segments: Vec::new() };
                let bytes = ended.encode(&self.key);
                self.record.1.write_all(&bytes, 0)?;
                self.record.1.set_len(bytes.len() as u64)?;
            }
        }
        Ok(self.written)
    }
}
