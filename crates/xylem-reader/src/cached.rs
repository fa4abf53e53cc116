//! [`Cached`]: the stored part of one file, with a check value for each segment.
//!
//! Content of an earlier run is handed out only after its region was scanned from the root down ([`Scan`]). Everything
//! is checked again when it is read back: it must hash to the value that it had when it was proven. So each read
//! detects a disk that forgets, and other programs that write into the store. The check values take 16 bytes for each
//! segment touched since the file was opened.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use xylem_hash::Hash;
use xylem_hash::tree::{ChainingValue, chunk_group_cvs};
use xylem_object::ObjectId;
use xylem_store::{FileRef, Partial, Scan, ScanBuffer, Store, StoreError};
use xylem_tree::{Geometry, Node, NodeValue, Segment, SegmentIndex, SegmentSet, Verified};

/// A prefix of a segment's hash, long enough to identify it.
type CheckValue = [u8; 16];

/// Bytes of whole segments.
#[derive(Debug)]
pub(crate) struct SegmentBytes {
    /// Offset of the first byte in the file: the beginning of a segment.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl SegmentBytes {
    /// Space for the segments that overlap `bytes`.
    pub(crate) fn over(geometry: &Geometry, bytes: &Range<u64>) -> (Self, Range<u64>) {
        let segments = geometry.segments_of(bytes.clone());
        let range = bytes_of(geometry, &segments);
        let bytes = vec![0; (range.end - range.start) as usize];
        (Self { start: range.start, bytes }, segments)
    }

    /// The bytes of this range of the file, which must lie within.
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

/// The regions scanned last, of any files, with their bytes. Sequential reads need not read and hash them again.
#[derive(Debug, Default)]
pub(crate) struct RecentRegions(Mutex<VecDeque<(ObjectId, u64, Arc<ScannedRegion>)>>);

/// Most regions kept, each of 4 MiB: the one that is read, those checked ahead of it (16 MiB), and one that a second
/// thread of the kernel still uses.
const RECENT: usize = 6;

/// At most 4 MiB of a file, as proven.
#[derive(Debug)]
pub(crate) struct ScannedRegion {
    /// Offset of the first byte in the file.
    start: u64,
    bytes: Vec<u8>,
    /// Segments that verified.
    right: Vec<Range<u64>>,
}

impl RecentRegions {
    fn get(&self, id: ObjectId, region: u64) -> Option<Arc<ScannedRegion>> {
        let all = lock(&self.0);
        let found = all.iter().find(|(of, number, _)| (*of, *number) == (id, region));
        found.map(|(.., region)| region.clone())
    }

    fn put(&self, id: ObjectId, number: u64, region: ScannedRegion) {
        lock(&self.0).push_back((id, number, Arc::new(region)));
    }

    /// Makes room for one more. Reuses the oldest region's memory for the next scan, as the system takes long to supply
    /// new memory.
    fn make_room(&self) -> ScanBuffer {
        let mut all = lock(&self.0);
        let oldest = if all.len() >= RECENT { all.pop_front() } else { None };
        drop(all);
        let unused = oldest.and_then(|(.., region)| Arc::into_inner(region));
        unused.map_or_else(ScanBuffer::default, |region| ScanBuffer::over(region.bytes))
    }
}

/// One file, with the part of it that is stored.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) id: ObjectId,
    pub(crate) root: Hash,
    pub(crate) geometry: Geometry,
    /// The file's name, for messages.
    pub(crate) name: String,
    kept: Option<StoredPieces>,
    state: Mutex<CachedState>,
    recent: Arc<RecentRegions>,
    /// Held during a scan. Another thread that needs the same region waits for it.
    scanning: Mutex<()>,
}

/// The stored part of a file.
#[derive(Debug)]
struct StoredPieces {
    file: FileRef,
    scan: Scan,
    /// Used by the fetching thread.
    partial: Mutex<Partial>,
}

#[derive(Debug)]
struct CachedState {
    /// Segments that are stored and were proven by this process.
    have: SegmentSet,
    /// Regions that were scanned, or that nothing is known of.
    scanned: SegmentSet,
    /// Check values by region, in the order of its segments.
    checks: HashMap<u64, Vec<CheckValue>>,
    /// Proven segments that were passed to the disk but may not have arrived there.
    pending: Vec<(u64, CheckValue)>,
    /// Whether more content is stored.
    keeps: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code here panics in the middle of a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn short(value: &ChainingValue) -> CheckValue {
    let mut check = [0; 16];
    check.copy_from_slice(&value.as_bytes()[..16]);
    check
}

impl Cached {
    /// Opens a file and its pieces in `store`, if one is given. If that fails the file can be read all the same; the
    /// error is returned too.
    pub(crate) fn open(
        store: Option<&Store>,
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
        name: String,
        recent: Arc<RecentRegions>,
    ) -> (Self, Option<StoreError>) {
        let (kept, why) =
            match store.map(|store| StoredPieces::open(store, root, geometry)).transpose() {
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
        let state = CachedState {
            have: SegmentSet::new(geometry.segments()),
            scanned,
            checks: HashMap::new(),
            pending: Vec::new(),
            keeps: kept.is_some(),
        };
        let (state, scanning) = (Mutex::new(state), Mutex::default());
        (Self { id, root, geometry, name, kept, state, recent, scanning }, why)
    }

    /// Whether fetched content is stored.
    pub(crate) fn stores(&self) -> bool {
        lock(&self.state).keeps
    }

    /// The file that holds the content from its first byte on.
    pub(crate) fn file(&self) -> Option<&FileRef> {
        self.kept.as_ref().map(|kept| &kept.file)
    }

    /// The kept region that holds all of these bytes, if there is one.
    pub(crate) fn remembered(&self, bytes: &Range<u64>) -> Option<Arc<ScannedRegion>> {
        let segments = self.geometry.segments_of(bytes.clone());
        let region = self.kept.as_ref()?.scan.region_of(SegmentIndex(segments.start));
        self.recent.get(self.id, region).filter(|region| region.has(&segments))
    }

    /// Fills `piece`, which has space for the `wanted` segments, with those that are stored. Returns the others.
    pub(crate) fn fill(&self, piece: &mut SegmentBytes, wanted: &Range<u64>) -> Vec<u64> {
        let Some(kept) = &self.kept else { return wanted.clone().collect() };
        let (mut missing, mut at) = (Vec::new(), wanted.start);
        while at < wanted.end {
            self.scan_region_of(kept, at);
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

    /// Reads segments back. Segments that do not match their check values are missing from now on.
    fn read(
        &self,
        kept: &StoredPieces,
        segments: &Range<u64>,
        bytes: &mut [u8],
        missing: &mut Vec<u64>,
    ) {
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
            tracing::warn!(file = %self.name, "stored data was changed or damaged; it is fetched again");
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

    /// Scans the region of a segment, if an earlier run left something there that has not been scanned.
    fn scan_region_of(&self, kept: &StoredPieces, segment: u64) {
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
            // Keep what this process has proven meanwhile.
            if let Some(value) = buffer.leaves().get((i - first) as usize)
                && !state.have.contains(i)
            {
                state.set_check(kept, i, short(value));
            }
        }
        drop(state);
        let start = self.geometry.segment_range(SegmentIndex(first)).start;
        let (right, bytes) = (found.right().to_vec(), buffer.into_data());
        if !right.is_empty() {
            self.recent.put(self.id, region, ScannedRegion { start, bytes, right });
        }
        lock(&self.state).scanned.insert(region);
    }

    /// Runs of the segments among these that are not stored.
    pub(crate) fn missing(&self, segments: Range<u64>) -> Vec<Range<u64>> {
        if let Some(kept) = &self.kept
            && !segments.is_empty()
        {
            let of = |i| kept.scan.region_of(SegmentIndex(i));
            for region in of(segments.start)..=of(segments.end - 1) {
                self.scan_region_of(kept, kept.scan.segments_of(region).start);
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

    /// Stores a proven segment. It can be read after the next [`Cached::flush`].
    ///
    /// # Errors
    /// Those of the disk, once. From then on nothing more is stored, but nothing stored is lost.
    pub(crate) fn put(&self, segment: &Verified<Segment<Bytes>>) -> Result<(), StoreError> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.stores()) else { return Ok(()) };
        let put = {
            let mut partial = lock(&kept.partial);
            // It was only fetched because the stored copy is missing or wrong.
            partial.mark_missing(segment.index);
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

    /// Stores proven nodes, likewise.
    ///
    /// # Errors
    /// As [`Cached::put`].
    pub(crate) fn put_nodes(
        &self,
        nodes: &Verified<Vec<(Node, NodeValue)>>,
    ) -> Result<(), StoreError> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.stores()) else { return Ok(()) };
        let put = lock(&kept.partial).put_nodes(nodes);
        if put.is_err() {
            lock(&self.state).stop();
        }
        put
    }

    /// Writes the content of earlier calls; from now on it can be read.
    ///
    /// # Errors
    /// As [`Cached::put`].
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let Some(kept) = self.kept.as_ref().filter(|_| self.stores()) else { return Ok(()) };
        let flushed = lock(&kept.partial).flush();
        let mut state = lock(&self.state);
        if flushed.is_err() {
            state.stop();
        }
        for (i, check) in std::mem::take(&mut state.pending) {
            state.set_check(kept, i, check);
        }
        flushed
    }
}

impl ScannedRegion {
    fn has(&self, segments: &Range<u64>) -> bool {
        let holds = |r: &Range<u64>| r.start <= segments.start && segments.end <= r.end;
        self.right.iter().any(holds)
    }

    /// The bytes of this range of the file, which must lie within.
    pub(crate) fn part(&self, bytes: &Range<u64>) -> &[u8] {
        &self.bytes[(bytes.start - self.start) as usize..(bytes.end - self.start) as usize]
    }
}

impl StoredPieces {
    fn open(store: &Store, root: Hash, geometry: Geometry) -> Result<Self, StoreError> {
        // Regions are scanned when they are read, so that the first read need not wait for a scan of the whole file.
        let (partial, _) = Partial::open_cached(store, root, geometry)?.finish([])?;
        let (outboard, base) = partial.outboard();
        let file = partial.file().clone();
        let scan = Scan::new(file.clone(), outboard, base, geometry, root)?;
        Ok(Self { file, scan, partial: Mutex::new(partial) })
    }
}

impl CachedState {
    fn stop(&mut self) {
        self.keeps = false;
        self.pending.clear();
    }

    fn set_check(&mut self, kept: &StoredPieces, i: u64, check: CheckValue) {
        let region = kept.scan.region_of(SegmentIndex(i));
        let segments = kept.scan.segments_of(region);
        let room = (segments.end - segments.start) as usize;
        let checks = self.checks.entry(region).or_insert_with(|| vec![CheckValue::default(); room]);
        if let Some(place) = checks.get_mut((i - segments.start) as usize) {
            *place = check;
            self.have.insert(i);
        }
    }

    fn check(&self, kept: &StoredPieces, i: u64) -> Option<CheckValue> {
        let region = kept.scan.region_of(SegmentIndex(i));
        let first = kept.scan.segments_of(region).start;
        self.checks.get(&region)?.get((i - first) as usize).copied()
    }
}
