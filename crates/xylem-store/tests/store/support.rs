//! A publisher in memory, and a fetch that verifies everything that it puts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_hash::Hash;
use xylem_sim::noise;
use xylem_tree::{
    Geometry, Outboard, ProofError, Segment, SegmentIndex, SegmentSize, Tile, TreeVerifier,
    Verified, segment_signature, tile_content, tile_signature,
};

use xylem_faults::FaultMedium;
use xylem_store::{Partial, RegionScan, Resumed, Scan, ScanBuffer, Store, StoreError};

/// A peer that has the whole file.
pub(crate) struct Source {
    pub bytes: Vec<u8>,
    pub outboard: Outboard,
}

impl Source {
    pub(crate) fn new(size: usize, seed: u64) -> Self {
        Self::of(noise(size, seed), SegmentSize::DEFAULT)
    }

    pub(crate) fn of(bytes: Vec<u8>, segment: SegmentSize) -> Self {
        let outboard = Outboard::of(&bytes, segment);
        Self { bytes, outboard }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        *self.outboard.geometry()
    }

    pub(crate) fn root(&self) -> Hash {
        self.outboard.root()
    }

    pub(crate) fn slice(&self, i: u64) -> &[u8] {
        let range = self.geometry().segment_range(SegmentIndex(i));
        &self.bytes[range.start as usize..range.end as usize]
    }

    /// One proven segment. Fetches tiles as the verifier requests them.
    pub(crate) fn segment(
        &self,
        verifier: &mut TreeVerifier,
        i: u64,
    ) -> Verified<Segment<Vec<u8>>> {
        let mut signature = Vec::new();
        let (geo, mut nodes) = (self.geometry(), self.outboard.as_bytes());
        segment_signature(&geo, SegmentIndex(i), &mut nodes, &mut signature).unwrap();
        loop {
            match verifier.segment(SegmentIndex(i), self.slice(i).to_vec(), &signature) {
                Err(ProofError::NeedTile(tile)) => self.tile(verifier, tile),
                other => return other.unwrap(),
            }
        }
    }

    fn tile(&self, verifier: &mut TreeVerifier, tile: Tile) {
        let (geo, mut nodes) = (self.geometry(), self.outboard.as_bytes());
        let (mut inside, mut proof) = (Vec::new(), Vec::new());
        tile_content(&geo, tile, &mut nodes, &mut inside).unwrap();
        tile_signature(&geo, tile, &mut nodes, &mut proof).unwrap();
        verifier.tile(tile, &inside, &proof).unwrap();
    }

    /// Proves and puts one segment with its nodes.
    pub(crate) fn give(
        &self,
        partial: &mut Partial,
        verifier: &mut TreeVerifier,
        i: u64,
    ) -> Result<(), StoreError> {
        let segment = self.segment(verifier, i);
        partial.put(&segment)?;
        partial.put_nodes(&verifier.take_proven())
    }

    /// Proves and puts all missing segments.
    pub(crate) fn give_rest(
        &self,
        partial: &mut Partial,
        resumed: &mut Resumed,
    ) -> Result<(), StoreError> {
        for range in resumed.have.missing().collect::<Vec<_>>() {
            for i in range {
                self.give(partial, &mut resumed.verifier, i)?;
            }
        }
        Ok(())
    }

    /// Asserts that resumed segments are correct. Returns their number.
    pub(crate) fn check_resumed(
        &self,
        medium: &FaultMedium,
        part: &Path,
        resumed: &Resumed,
    ) -> u64 {
        let there = medium.read(part).unwrap();
        let mut bytes = 0;
        for i in resumed.have.ranges().flatten() {
            let range = self.geometry().segment_range(SegmentIndex(i));
            assert_eq!(&there[range.start as usize..range.end as usize], self.slice(i));
            bytes += range.end - range.start;
        }
        assert_eq!(bytes, resumed.bytes);
        resumed.have.count()
    }
}

/// A store in memory, with `/out` beside it.
pub(crate) fn memory() -> (FaultMedium, Store) {
    let medium = FaultMedium::new();
    medium.write(Path::new("/x"), b"").unwrap();
    let store = Store::open(Arc::new(medium.clone()), Path::new("/store")).unwrap();
    (medium, store)
}

pub(crate) fn reopen(medium: &FaultMedium) -> Store {
    Store::open(Arc::new(medium.clone()), Path::new("/store")).unwrap()
}

pub(crate) fn part() -> PathBuf {
    PathBuf::from("/.file.xylem-part")
}

pub(crate) fn open(store: &Store, source: &Source) -> Result<(Partial, Resumed), StoreError> {
    Partial::open(store, source.root(), source.geometry(), &part())?.resume(&|_| {})
}

/// Scans every region, on this thread.
pub(crate) fn scan_all(scan: &Scan) -> Result<Vec<RegionScan>, StoreError> {
    let mut buffer = ScanBuffer::default();
    scan.regions().map(|region| scan.scan(region, &mut buffer)).collect()
}
