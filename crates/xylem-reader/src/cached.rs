//! [`Cached`]: what is kept of one file, and of each segment what it hashes to.
//!
//! Nothing that an earlier run left is handed out before its region was scanned from the root down ([`Scan`]), and
//! nothing at all that does not hash, when it is read back, to what it hashed to when it was proven: a disk
//! that forgets, and whoever writes into the store, are found out at each read. What the checks take
//! is 16 bytes a segment of what was touched since the file was opened.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use xylem_hash::Hash;
use xylem_hash::tree::{ChainingValue, chunk_group_cvs};
use xylem_object::ObjectId;
use xylem_store::{FileRef, Partial, Scan, ScanBuffer, Store, StoreError};
use xylem_tree::{Geometry, Node, NodeValue, Segment, SegmentIndex, SegmentSet, Verified};

/// What a segment hashes to, as much of it as tells it from every other.
type Check = [u8; 16];

/// Bytes of whole segments.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The first byte's place in the file: where a segment begins.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    /// Room for the segments that hold any of `bytes`.
    pub(crate) fn over(geometry: &Geometry, bytes: &Range<u64>) -> (Self, Range<u64>) {
        let segments = geometry.segments_of(bytes.clone());
        let range = bytes_of(geometry, &segments);
        let bytes = vec![0; (range.end - range.start) as usize];
        (Self { start: range.start, bytes }, segments)
    }

    /// The bytes of this range of the file, which lies within.
    pub(crate) fn part(&mut self, range: &Range<u64>) -> &mut [u8] {
        let (start, end) = (range.start - self.start, range.end - self.start);
        &mut self.bytes[start as usize..end as usize]
    }
}

fn bytes_of(geometry: &Geometry, segments: &Range<u64>) -> Range<u64> {
    if segments.is_empty() {
        return 0..0;
    }
    let last = SegmentIndex(segments.end - 1);
    geometry.segment_range(SegmentIndex(segments.start)).start..geometry.segment_range(last).end
}

/// Regions of whatever files that were scanned last, with their bytes: who reads on needs not read and hash them once
/// more.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<VecDeque<(ObjectId, u64, Arc<Region>)>>);

/// Regions that are remembered, of 4 MiB: the one that is read, those that are looked at ahead of it (16 MiB), and one
/// that a kernel's second thread has not done with.
const RECENT: usize = 6;

/// 4 MiB of a file at most, as they were proven.
#[derive(Debug)]
pub(crate) struct Region {
    /// The first byte's place in the file.
    start: u64,
    bytes: Vec<u8>,
    /// Segments that were right.
    right: Vec<Range<u64>>,
}

impl Recent {
    fn get(&self, id: ObjectId, region: u64) -> Option<Arc<Region>> {
        let all = lock(&self.0);
        let found = all.iter().find(|(of, number, _)| (*of, *number) == (id, region));
        found.map(|(.., region)| region.clone())
    }

    fn put(&self, id: ObjectId, number: u64, region: Region) {
        lock(&self.0).push_back((id, number, Arc::new(region)));
    }

    /// Makes room for one more. What goes is scanned into next, as a system takes its time to hand out new memory.
    fn make_room(&self) -> ScanBuffer {
        let mut all = lock(&self.0);
        let oldest = if all.len() >= RECENT { all.pop_front() } else { None };
        drop(all);
        let unused = oldest.and_then(|(.., region)| Arc::into_inner(region));
        unused.map_or_else(ScanBuffer::default, |region| ScanBuffer::over(region.bytes))
    }
}

/// One file.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) id: ObjectId,
    pub(crate) root: Hash,
    pub(crate) geometry: Geometry,
    /// What it is called, for messages.
    pub(crate) name: String,
    kept: Option<Kept>,
    state: Mutex<State>,
    recent: Arc<Recent>,
    /// Held by who scans: another one who needs the same waits for it.
    scanning: Mutex<()>,
}

/// Where it is kept.
#[derive(Debug)]
struct Kept {
    file: FileRef,
    scan: Scan,
    /// For the thread that fetches.
    partial: Mutex<Partial>,
}

#[derive(Debug)]
struct State {
    /// Segments that are there and were proven by this process.
    have: SegmentSet,
    /// Regions that were scanned, or of which nothing is known.
    scanned: SegmentSet,
    /// By region, in the order of its segments.
    checks: HashMap<u64, Vec<Check>>,
    /// Proven, handed to the disk, and perhaps not there yet.
    pending: Vec<(u64, Check)>,
    /// Whether more is kept.
    keeps: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here panics half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn short(value: &ChainingValue) -> Check {
    let mut check = [0; 16];
    check.copy_from_slice(&value.as_bytes()[..16]);
    check
}

impl Cached {
    /// A file of which pieces may be kept in `store`, if there is one. Where that can't be, it is read all the same: why
    /// not comes along.
    pub(crate) fn open(
        store: Option<&Store>,
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
        name: String,
        recent: Arc<Recent>,
    ) -> (Self, Option<StoreError>) {
        let (kept, why) = match store.map(|store| Kept::open(store, root, geometry)).transpose() {
            Ok(kept) => (kept, None),
            Err(why) => (None, Some(why)),
        };
        let regions = kept.as_ref().map_or(0, |kept| kept.scan.region_count());
        let mut scanned = SegmentSet::new(regions);
        if let Some(kept) = &kept {
            (0..regions).filter(|r| !kept.scan.is_proven(*r)).for_each(|r| {
                scanned.insert(r);
            });
        }
        let state = State {
            have: SegmentSet::new(geometry.segments()),
            scanned,
            checks: HashMap::new(),
            pending: Vec::new(),
            keeps: kept.is_some(),
        };
        let (state, scanning) = (Mutex::new(state), Mutex::default());
        (Self { id, root, geometry, name, kept, state, recent, scanning }, why)
    }

    /// Whether what is fetched is kept.
    pub(crate) fn keeps(&self) -> bool {
        lock(&self.state).keeps
    }

    /// Where its content lies, from the first byte on.
    pub(crate) fn file(&self) -> Option<&FileRef> {
        self.kept.as_ref().map(|kept| &kept.file)
    }

    /// Where these bytes are remembered together, if they are.
    pub(crate) fn remembered(&self, bytes: &Range<u64>) -> Option<Arc<Region>> {
        let segments = self.geometry.segments_of(bytes.clone());
        let region = self.kept.as_ref()?.scan.region_of(SegmentIndex(segments.start));
        self.recent.get(self.id, region).filter(|region| region.has(&segments))
    }

    /// Fills in what is there of `wanted` segments, which `piece` has room for; returns those that are not.
    pub(crate) fn fill(&self, piece: &mut Piece, wanted: &Range<u64>) -> Vec<u64> {
        let Some(kept) = &self.kept else { return wanted.clone().collect() };
        let (mut missing, mut at) = (Vec::new(), wanted.start);
        while at < wanted.end {
            self.look_at(kept, at);
            let region = kept.scan.region_of(SegmentIndex(at));
            let end = kept.scan.segments_of(region).end.min(wanted.end);
            let state = lock(&self.state);
            let run = (at..end).take_while(|i| state.have.contains(*i)).count() as u64;
            drop(state);
            if run == 0 {
                missing.push(at);
                at += 1;
                continue;
            }
            let segments = at..at + run;
            let place = bytes_of(&self.geometry, &segments);
            match self.recent.get(self.id, region).filter(|recent| recent.has(&segments)) {
                Some(recent) => piece.part(&place).copy_from_slice(recent.part(&place)),
                None => self.read(kept, &segments, piece.part(&place), &mut missing),
            }
            at += run;
        }
        missing
    }

    /// Reads segments back; those that are not what they were are missing from now on.
    fn read(&self, kept: &Kept, segments: &Range<u64>, bytes: &mut [u8], missing: &mut Vec<u64>) {
        let start = self.geometry.segment_range(SegmentIndex(segments.start)).start;
        let is_read = kept.file.read_full(bytes, start).is_ok_and(|got| got == bytes.len());
        let mut values = Vec::new();
        self.hash(segments.start, bytes, &mut values);
        let mut state = lock(&self.state);
        for (i, value) in segments.clone().zip(&values) {
            if !is_read || state.check(kept, i) != Some(short(value)) {
                state.have.remove(i);
                missing.push(i);
            }
        }
        drop(state);
        if missing.last().is_some_and(|last| segments.contains(last)) {
            tracing::warn!(file = %self.name, "what was kept is not what it was; it is fetched again");
        }
    }

    fn hash(&self, first: u64, bytes: &[u8], values: &mut Vec<ChainingValue>) {
        if self.geometry.segments() == 1 {
            values.push(ChainingValue::from_bytes(*xylem_hash::hash(bytes).as_bytes()));
            return;
        }
        let size = self.geometry.segment_size();
        chunk_group_cvs(bytes, size.bytes(), first * size.chunks(), values);
    }

    /// Scans the region of a segment, if an earlier run left something there that nobody has looked at.
    fn look_at(&self, kept: &Kept, segment: u64) {
        let region = kept.scan.region_of(SegmentIndex(segment));
        let is_scanned = || lock(&self.state).scanned.contains(region);
        if is_scanned() {
            return;
        }
        let _scanning = lock(&self.scanning);
        if is_scanned() {
            return;
        }
        let mut buffer = self.recent.make_room();
        let found = kept.scan.scan(region, &mut buffer);
        let first = kept.scan.segments_of(region).start;
        let mut state = lock(&self.state);
        let Ok(found) = found else {
            state.scanned.insert(region);
            return;
        };
        for i in found.right().iter().cloned().flatten() {
            // What this process has proven meanwhile is at least as good.
            if let Some(value) = buffer.leaves().get((i - first) as usize)
                && !state.have.contains(i)
            {
                state.know(kept, i, short(value));
            }
        }
        drop(state);
        let start = self.geometry.segment_range(SegmentIndex(first)).start;
        let (right, bytes) = (found.right().to_vec(), buffer.into_data());
        if !right.is_empty() {
            self.recent.put(self.id, region, Region { start, bytes, right });
        }
        lock(&self.state).scanned.insert(region);
    }

    /// Segments among these that are not there, as runs.
    pub(crate) fn missing(&self, segments: Range<u64>) -> Vec<Range<u64>> {
        if let Some(kept) = &self.kept
            && !segments.is_empty()
        {
            let of = |i| kept.scan.region_of(SegmentIndex(i));
            for region in of(segments.start)..=of(segments.end - 1) {
                self.look_at(kept, kept.scan.segments_of(region).start);
            }
        }
        let state = lock(&self.state);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for i in segments.filter(|i| !state.have.contains(*i)) {
            match runs.last_mut() {
                Some(run) if run.end == i => run.end += 1,
                _ => runs.push(i..i + 1),
            }
        }
        runs
    }

    /// Keeps a proven segment, after the next [`Cached::flush`].
    ///
    /// # Errors
    /// Those of the disk, once: from then on nothing is kept, and nothing that is there lost.
    pub(crate) fn put(&self, segment: &Verified<Segment<Bytes>>) -> Result<(), StoreError> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.keeps()) else { return Ok(()) };
        let put = {
            let mut partial = lock(&kept.partial);
            // It was not fetched if what is there were right.
            partial.forget(segment.index);
            partial.put(segment)
        };
        let mut values = Vec::with_capacity(1);
        self.hash(segment.index.0, &segment.content, &mut values);
        let mut state = lock(&self.state);
        if put.is_err() {
            state.stop();
        } else if let Some(value) = values.first() {
            state.pending.push((segment.index.0, short(value)));
        }
        put
    }

    /// Keeps proven nodes, likewise.
    ///
    /// # Errors
    /// As [`Cached::put`].
    pub(crate) fn put_nodes(
        &self,
        nodes: &Verified<Vec<(Node, NodeValue)>>,
    ) -> Result<(), StoreError> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.keeps()) else { return Ok(()) };
        let put = lock(&kept.partial).put_nodes(nodes);
        if put.is_err() {
            lock(&self.state).stop();
        }
        put
    }

    /// Writes what was put; from now on it is there.
    ///
    /// # Errors
    /// As [`Cached::put`].
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.keeps()) else { return Ok(()) };
        let flushed = lock(&kept.partial).flush();
        let mut state = lock(&self.state);
        if flushed.is_err() {
            state.stop();
        }
        for (i, check) in std::mem::take(&mut state.pending) {
            state.know(kept, i, check);
        }
        flushed
    }
}

impl Region {
    fn has(&self, segments: &Range<u64>) -> bool {
        let holds = |r: &Range<u64>| r.start <= segments.start && segments.end <= r.end;
        self.right.iter().any(holds)
    }

    /// The bytes of this range of the file, which lies within.
    pub(crate) fn part(&self, bytes: &Range<u64>) -> &[u8] {
        &self.bytes[(bytes.start - self.start) as usize..(bytes.end - self.start) as usize]
    }
}

impl Kept {
    fn open(store: &Store, root: Hash, geometry: Geometry) -> Result<Self, StoreError> {
        // What is there is scanned where somebody reads it, not all of it before anybody can.
        let (partial, _) = Partial::open_cached(store, root, geometry)?.finish([])?;
        let (outboard, base) = partial.outboard();
        let file = partial.file().clone();
        let scan = Scan::new(file.clone(), outboard, base, geometry, root)?;
        Ok(Self { file, scan, partial: Mutex::new(partial) })
    }
}

impl State {
    fn stop(&mut self) {
        self.keeps = false;
        self.pending.clear();
    }

    fn know(&mut self, kept: &Kept, i: u64, check: Check) {
        let region = kept.scan.region_of(SegmentIndex(i));
        let segments = kept.scan.segments_of(region);
        let room = (segments.end - segments.start) as usize;
        let checks = self.checks.entry(region).or_insert_with(|| vec![Check::default(); room]);
        if let Some(place) = checks.get_mut((i - segments.start) as usize) {
            *place = check;
            self.have.insert(i);
        }
    }

    fn check(&self, kept: &Kept, i: u64) -> Option<Check> {
        let region = kept.scan.region_of(SegmentIndex(i));
        let first = kept.scan.segments_of(region).start;
        self.checks.get(&region)?.get((i - first) as usize).copied()
    }
}
