//! Damage of every kind is located, distinguished from a damaged tree, and repaired in place.

use std::ops::Range;
use std::path::Path;

use xylem_tree::{NODE_LEN, SegmentSize, TreeVerifier};

use crate::support::{Source, memory, reopen, scan_all};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_store::{
    FileRef, FileRepair, FileState, Medium, OpenHow, OutboardFile, RepairRecord, Scan, ScanBuffer,
    Store, StoreError,
};

const FILE: &str = "/file";
const TREE: &str = "/tree";
const SEGMENT: usize = SegmentSize::DEFAULT.bytes();

/// A file and its outboard on a disk of their own.
fn lay(source: &Source) -> (FaultMedium, Store) {
    let (medium, store) = memory();
    medium.write(Path::new(FILE), &source.bytes).unwrap();
    medium.write(Path::new(TREE), source.outboard.as_bytes()).unwrap();
    (medium, store)
}

fn open(medium: &FaultMedium, path: &str) -> FileRef {
    FileRef::open(medium, Path::new(path), OpenHow::ReadWrite).unwrap()
}

fn flip(medium: &FaultMedium, path: &str, at: usize) {
    let mut bytes = medium.read(Path::new(path)).unwrap();
    bytes[at] ^= 0x40;
    medium.write(Path::new(path), &bytes).unwrap();
}

/// The result of a scrub: segments that are correct, unreadable, unproven; slots to repair, with values.
#[derive(Debug, Default, PartialEq)]
struct Found {
    right: Vec<u64>,
    unreadable: Vec<u64>,
    unproven: Vec<u64>,
    mend: Vec<(u64, Vec<u8>)>,
}

impl Found {
    fn bad(&self, source: &Source) -> Vec<u64> {
        let all = 0..source.geometry().segments();
        all.filter(|s| !self.right.contains(s)).collect()
    }
}

fn scrub(medium: &FaultMedium, source: &Source, with_tree: bool) -> Found {
    let tree = OutboardFile::new(open(medium, TREE));
    let tree = with_tree.then_some(&tree);
    let (geometry, root) = (source.geometry(), source.root());
    let mut scan = Scan::tolerant(open(medium, FILE), tree, 0, geometry, root, 2).unwrap();
    let mut buffer = ScanBuffer::default();
    if (0..scan.region_count()).any(|region| !scan.is_proven(region)) {
        let tops = (0..scan.region_count()).map(|r| scan.top_of(r, &mut buffer).unwrap());
        let tops: Vec<_> = tops.collect();
        scan.prove_from(&tops).unwrap();
    }
    let mut found = Found::default();
    for (slot, value) in scan.upper_repairs() {
        found.mend.push((*slot, value.0.to_vec()));
    }
    for region in 0..scan.region_count() {
        let region = scan.scan(region, &mut buffer).unwrap();
        let all = |ranges: &[Range<u64>]| ranges.iter().cloned().flatten().collect::<Vec<u64>>();
        found.right.extend(all(region.right()));
        found.unreadable.extend(all(region.unreadable()));
        found.unproven.extend(all(region.unproven()));
        for (slot, nodes) in region.repairs() {
            let each = nodes.chunks(NODE_LEN).enumerate();
            found.mend.extend(each.map(|(i, node)| (slot + i as u64, node.to_vec())));
        }
    }
    found
}

#[test]
fn one_flipped_bit_anywhere_is_one_bad_segment() {
    for size in [1, 1024, 8191, 8192, 8193, 16_384, 16_385, 100_001, (4 << 20) + 20_000] {
        let source = Source::new(size, size as u64);
        let (medium, _) = lay(&source);
        let edges = [0, 1023, 1024, 8191, 8192, 16_383, 16_384, (4 << 20) - 1, 4 << 20];
        for at in edges.into_iter().chain([size / 2, size - 1]).filter(|at| *at < size) {
            flip(&medium, FILE, at);
            let found = scrub(&medium, &source, true);
            assert_eq!(found.bad(&source), [(at / SEGMENT) as u64], "{at} of {size}");
            assert_eq!((found.unproven, found.mend), (vec![], vec![]), "{at} of {size}");
            flip(&medium, FILE, at);
        }
        assert_eq!(scrub(&medium, &source, true).bad(&source), Vec::<u64>::new());
    }
}

#[test]
fn a_damaged_tree_is_repaired_from_intact_data() {
    for (size, step) in [(16_385, 1), (300_000, 1), ((9 << 20) + 1, 97)] {
        let source = Source::new(size, 3);
        let (medium, _) = lay(&source);
        let slots = source.geometry().slots();
        let upper = [511, 1023, slots - 1];
        for slot in (0..slots).step_by(step).chain(upper).filter(|slot| *slot < slots) {
            let at = slot as usize * NODE_LEN;
            flip(&medium, TREE, at + 5);
            let found = scrub(&medium, &source, true);
            assert_eq!(found.bad(&source), Vec::<u64>::new(), "slot {slot} of {size}");
            let was = source.outboard.as_bytes()[at..at + NODE_LEN].to_vec();
            assert_eq!(found.mend, [(slot, was)], "slot {slot} of {size}");
            flip(&medium, TREE, at + 5);
        }
    }
}

#[test]
fn a_lost_tree_is_rebuilt_and_hides_no_damage() {
    let source = Source::new((9 << 20) + 1, 4);
    let (medium, _) = lay(&source);
    let found = scrub(&medium, &source, false);
    assert_eq!(found.bad(&source), Vec::<u64>::new());
    assert_eq!(found.mend.len() as u64, source.geometry().slots());
    for (slot, value) in &found.mend {
        let at = *slot as usize * NODE_LEN;
        assert_eq!(value[..], source.outboard.as_bytes()[at..at + NODE_LEN]);
    }
    // Without a tree it is unknown which segment is damaged: none of them passes.
    flip(&medium, FILE, 5 << 20);
    let found = scrub(&medium, &source, false);
    assert_eq!(found.right, Vec::<u64>::new());
    assert_eq!(found.unproven.len() as u64, source.geometry().segments());
}

#[test]
fn data_and_tree_damaged_together() {
    let source = Source::new(300_000, 5);
    let (medium, _) = lay(&source);
    flip(&medium, FILE, 5 * SEGMENT + 1);
    for slot in 0..source.geometry().slots() {
        flip(&medium, TREE, slot as usize * NODE_LEN);
        let found = scrub(&medium, &source, true);
        let bad = found.bad(&source);
        if slot == 2 * 5 {
            // Its own leaf: either of the two below one parent could be wrong.
            assert_eq!((&bad[..], &found.unproven[..]), (&[4, 5][..], &[4, 5][..]));
        } else {
            assert_eq!(bad, [5], "slot {slot}");
            let mended: Vec<u64> = found.mend.iter().map(|(slot, _)| *slot).collect();
            assert_eq!(mended, [slot]);
        }
        flip(&medium, TREE, slot as usize * NODE_LEN);
    }
}

#[test]
fn cut_grown_and_punched_files() {
    // Zeros at the end: missing bytes must not count as zeros.
    let mut bytes = xylem_sim::noise(100_000, 6);
    bytes[60_000..].fill(0);
    let source = Source::of(bytes.clone(), SegmentSize::DEFAULT);
    for len in [0, 1, 8191, 8192, 60_000, 99_999] {
        let (medium, _) = lay(&source);
        medium.write(Path::new(FILE), &bytes[..len]).unwrap();
        let found = scrub(&medium, &source, true);
        assert_eq!(found.bad(&source), (len as u64 / 8192..13).collect::<Vec<_>>(), "{len}");
    }
    let (medium, _) = lay(&source);
    medium.write(Path::new(FILE), &[&bytes[..], b"more"].concat()).unwrap();
    assert_eq!(scrub(&medium, &source, true).bad(&source), Vec::<u64>::new());
    // A hole of two pages across three segments.
    bytes[2 * SEGMENT - 100..3 * SEGMENT + 100].fill(0);
    medium.write(Path::new(FILE), &bytes).unwrap();
    assert_eq!(scrub(&medium, &source, true).bad(&source), [1, 2, 3]);
}

#[test]
fn unreadable_sectors_are_damage_and_do_not_end_a_scrub() {
    let source = Source::new((4 << 20) + 20_000, 7);
    let (medium, _) = lay(&source);
    let file = Path::new(FILE);
    medium.fail_reads(file, 20_000..20_512).unwrap();
    medium.fail_reads(file, (4 << 20) + 8192..(4 << 20) + 8193).unwrap();
    let found = scrub(&medium, &source, true);
    assert_eq!(found.bad(&source), [2, 513]);
    assert_eq!((found.unreadable, found.unproven), (vec![2, 513], vec![]));
    // A fetch that resumes this content gets an error instead.
    let tree = OutboardFile::new(open(&medium, TREE));
    let (geometry, root) = (source.geometry(), source.root());
    let scan = Scan::new(open(&medium, FILE), &tree, 0, geometry, root).unwrap();
    assert!(matches!(scan_all(&scan), Err(StoreError::Io { .. })));
    // A bad sector under the tree damages the tree, not the data.
    let (medium, _) = lay(&source);
    medium.fail_reads(Path::new(TREE), 4096..8192).unwrap();
    let found = scrub(&medium, &source, true);
    assert_eq!(found.bad(&source), Vec::<u64>::new());
    let mended: Vec<u64> = found.mend.iter().map(|(slot, _)| *slot).collect();
    assert_eq!(mended, (128..256).collect::<Vec<_>>());
}

/// Damages some segments and repairs them. `state` is that from before the damage.
fn mend(store: &Store, source: &Source, state: FileState, bad: &[u64]) -> Result<u64, StoreError> {
    let segments = bad.iter().map(|s| *s..*s + 1).collect();
    let (geometry, root) = (source.geometry(), source.root());
    let mut repair =
        FileRepair::begin(store, opened(store), b"file", root, geometry, state, segments)?;
    let mut verifier = TreeVerifier::new(geometry, root);
    for s in 0..geometry.segments() {
        // All segments are put; only damaged ones may be written.
        repair.put(&source.segment(&mut verifier, s))?;
    }
    repair.finish()
}

/// The file, open for writing.
fn opened(store: &Store) -> FileRef {
    FileRef::open(&**store.medium(), Path::new(FILE), OpenHow::ReadWrite).unwrap()
}

fn state_of(medium: &FaultMedium) -> FileState {
    FileState::of(&medium.metadata(Path::new(FILE)).unwrap())
}

fn damage(medium: &FaultMedium, bad: &[u64], state: FileState) {
    for s in bad {
        flip(medium, FILE, *s as usize * SEGMENT + 7);
    }
    medium.set_mtime(Path::new(FILE), state.mtime).unwrap();
}

#[test]
fn a_repair_writes_bad_segments_only_and_keeps_the_state() {
    let source = Source::new(100_000, 8);
    let (medium, store) = lay(&source);
    let state = state_of(&medium);
    let bad = [0, 5, 6, 12];
    damage(&medium, &bad, state);
    // Damage elsewhere, which is not to be repaired, stays.
    flip(&medium, FILE, 9 * SEGMENT);
    medium.set_mtime(Path::new(FILE), state.mtime).unwrap();
    let written = mend(&store, &source, state, &bad).unwrap();
    assert_eq!(written, 3 * 8192 + (100_000 - 12 * 8192));
    assert_eq!(scrub(&medium, &source, true).bad(&source), [9]);
    assert_eq!(state_of(&medium), state);
    assert_eq!(store.repair_begun(b"file").unwrap(), None);
    assert_eq!(mend(&store, &source, state, &[9]).unwrap(), 8192);
    assert_eq!(medium.read(Path::new(FILE)).unwrap(), source.bytes);
    // Correct already: nothing is written.
    assert_eq!(mend(&store, &source, state, &bad).unwrap(), 0);
}

#[test]
fn a_repair_gives_back_the_size() {
    let source = Source::new(100_000, 9);
    for len in [50_000, 120_000] {
        let (medium, store) = lay(&source);
        let state = state_of(&medium);
        let mut bytes = source.bytes.clone();
        bytes.resize(len, 1);
        medium.write(Path::new(FILE), &bytes).unwrap();
        let bad = scrub(&medium, &source, true).bad(&source);
        mend(&store, &source, state, &bad).unwrap();
        assert_eq!(medium.read(Path::new(FILE)).unwrap(), source.bytes);
        assert_eq!(state_of(&medium), state);
    }
}

#[test]
fn every_step_of_a_repair_may_be_the_last() {
    let source = Source::new(60_000, 10);
    let bad = [1, 4, 7];
    let mut ended = false;
    for fault in [DiskFault::Dead, DiskFault::Torn] {
        for step in 0..40 {
            let (medium, store) = lay(&source);
            let state = state_of(&medium);
            damage(&medium, &bad, state);
            medium.fail_after(step, fault);
            let outcome = mend(&store, &source, state, &bad);
            ended |= outcome.is_ok();
            let image = medium.image();
            // An edited file would be left alone, so a check has to see that this was no edit.
            let begun = reopen(&image).repair_begun(b"file").unwrap();
            let left = scrub(&image, &source, true).bad(&source);
            assert!(left.iter().all(|s| bad.contains(s)), "{fault:?} {step}: {left:?}");
            if state_of(&image).mtime != state.mtime {
                let begun = begun.expect("a changed time comes with a record");
                assert_eq!((begun.root, begun.state), (source.root(), state));
                let left: Vec<_> = left.iter().map(|s| *s..*s + 1).collect();
                assert!(begun.covers(&left));
            }
            mend(&reopen(&image), &source, state, &left).unwrap();
            assert_eq!(image.read(Path::new(FILE)).unwrap(), source.bytes, "{fault:?} {step}");
            assert_eq!(state_of(&image), state, "{fault:?} {step}");
            assert_eq!(reopen(&image).repair_begun(b"file").unwrap(), None);
        }
    }
    assert!(ended, "more steps than were tried");
}

#[test]
fn one_repair_at_a_time_and_only_of_its_own_object() {
    let source = Source::new(60_000, 11);
    let (medium, store) = lay(&source);
    let (geometry, root, state) = (source.geometry(), source.root(), state_of(&medium));
    let begin = || {
        let bad = std::iter::once(0..1).collect();
        FileRepair::begin(&store, opened(&store), b"file", root, geometry, state, bad)
    };
    let mut first = begin().unwrap();
    assert!(matches!(begin(), Err(StoreError::Busy { .. })));
    let other = Source::new(60_000, 12);
    let mut verifier = TreeVerifier::new(other.geometry(), other.root());
    let foreign = first.put(&other.segment(&mut verifier, 0));
    assert!(matches!(foreign, Err(StoreError::OutOfRange { .. })));
    drop(first);
    assert!(begin().is_ok());
    assert_eq!(medium.read(Path::new(FILE)).unwrap(), source.bytes);
}

#[test]
fn repair_records_are_read_back_unless_damaged() {
    let key = xylem_hash::hash(b"key");
    let state = FileState { size: 9, mtime: Default::default(), ino: 3 };
    let segments = vec![1..2, 5..9, 9..10];
    let record = RepairRecord { root: key, state, segments };
    let bytes = record.encode(&key);
    assert_eq!(RepairRecord::decode(&key, &bytes), Some(record.clone()));
    assert_eq!(RepairRecord::decode(&record.root, &bytes), Some(record.clone()));
    assert_eq!(RepairRecord::decode(&xylem_hash::hash(b"other"), &bytes), None);
    for at in 0..bytes.len() {
        assert_eq!(RepairRecord::decode(&key, &bytes[..at]), None);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(RepairRecord::decode(&key, &damaged), None, "byte {at}");
    }
    // Intact but invalid: ranges that overlap or are empty.
    let overlapping = vec![1..5, 4..6];
    let empty = vec![1..1, 2..3];
    for segments in [overlapping, empty] {
        let bytes = RepairRecord { segments, ..record.clone() }.encode(&key);
        assert_eq!(RepairRecord::decode(&key, &bytes), None);
    }
    let covers = |range: Range<u64>| record.covers(std::slice::from_ref(&range));
    assert!(covers(5..9) && covers(6..7) && covers(1..2));
    assert!(!covers(0..2) && !covers(2..3) && !covers(5..10) && !covers(10..11));
    // Too many ranges are joined, and still cover the segments.
    let many = (0..200_000).map(|i| 2 * i..2 * i + 1).collect::<Vec<_>>();
    let record = RepairRecord { segments: many.clone(), ..record };
    let back = RepairRecord::decode(&key, &record.encode(&key)).unwrap();
    assert!(back.covers(&many) && back.segments.len() <= 65_536);
}
