use std::path::Path;

use xylem_tree::SegmentSize;

use crate::support::{Source, memory, open, part, reopen, scan_all};
use xylem_store::{
    Attributes, FileTime, MAX_UNRECORDED, ObjectPart, OverwritePolicy, Partial, Scan, ScanBuffer,
    StoreError,
};
use xylem_store::{Medium, Objects};

const SIZES: [usize; 14] = [
    0, 1, 1023, 8191, 8192, 8193, 65_535, 65_536, 65_537, 300_000, 4_194_303, 4_194_304, 4_194_305,
    9_000_001,
];

#[test]
fn every_size_is_fetched_in_two_runs_and_its_outboard_serves() {
    for size in SIZES {
        let source = Source::new(size, 1);
        let (medium, store) = memory();
        let n = source.geometry().segments();
        let (mut partial, mut resumed) = open(&store, &source).unwrap();
        assert_eq!(resumed.have.is_full(), size == 0, "{size}");
        // Every third, backwards; then the rest in a second run.
        for i in (0..n).rev().filter(|i| i % 3 == 0) {
            source.give(&mut partial, &mut resumed.verifier, i).unwrap();
        }
        drop(partial);
        let (mut partial, mut resumed) = open(&store, &source).unwrap();
        assert_eq!(source.check_resumed(&medium, &part(), &resumed), n.div_ceil(3), "{size}");
        source.give_rest(&mut partial, &mut resumed).unwrap();
        let scans = scan_all(&partial.audit().unwrap()).unwrap();
        assert!(scans.iter().all(xylem_store::RegionScan::is_complete), "{size}");
        let mtime = FileTime { secs: -5, nanos: 7 };
        let attributes = Attributes { mode: Some(0o4755), mtime: Some(mtime) };
        let path = Path::new("/file");
        partial.finish_as(path, &attributes, OverwritePolicy::Never).unwrap();
        assert!(medium.read(path).unwrap() == source.bytes, "{size}");
        let meta = medium.metadata(path).unwrap();
        assert_eq!((meta.mode, meta.mtime), (0o755, mtime));
        assert!(medium.metadata(&part()).is_err());
        let outboard = store.object_path(&source.root(), ObjectPart::Outboard);
        assert!(medium.read(&outboard).unwrap() == source.outboard.as_bytes(), "{size}");
        let lost = store.partial_path(&source.root(), ObjectPart::Outboard);
        assert!(medium.metadata(&lost).is_err());
    }
}

#[test]
fn other_segment_sizes_work() {
    for k in 0..=3 {
        let segment = SegmentSize::from_log2_chunks(k).unwrap();
        let source = Source::of(xylem_sim::noise(4_500_000, 3), segment);
        let (medium, store) = memory();
        let (mut partial, mut resumed) = open(&store, &source).unwrap();
        for i in (0..source.geometry().segments()).filter(|i| i % 2 == 0) {
            source.give(&mut partial, &mut resumed.verifier, i).unwrap();
        }
        drop(partial);
        let (mut partial, mut resumed) = open(&store, &source).unwrap();
        let half = source.geometry().segments().div_ceil(2);
        assert_eq!(source.check_resumed(&medium, &part(), &resumed), half);
        source.give_rest(&mut partial, &mut resumed).unwrap();
        let attributes = Attributes::default();
        partial.finish_as(Path::new("/file"), &attributes, OverwritePolicy::Never).unwrap();
        let outboard = store.object_path(&source.root(), ObjectPart::Outboard);
        assert!(medium.read(&outboard).unwrap() == source.outboard.as_bytes());
    }
}

#[test]
fn a_killed_run_loses_a_bounded_amount() {
    let source = Source::new(6_000_000, 2);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    for i in 0..source.geometry().segments() {
        source.give(&mut partial, &mut resumed.verifier, i).unwrap();
        if i % 41 != 40 {
            continue;
        }
        let image = medium.image();
        let (_partial, found) = open(&reopen(&image), &source).unwrap();
        source.check_resumed(&image, &part(), &found);
        let limit = ((i + 1) * 8192 / 256).min(MAX_UNRECORDED);
        // One segment more; its nodes follow it at once.
        assert!(found.bytes + limit + 8192 >= (i + 1) * 8192, "{} of {}", found.bytes, i * 8192);
    }
}

#[test]
fn a_flush_leaves_nothing_to_lose() {
    let source = Source::new(500_000, 4);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    for i in [0, 60, 7, 8, 33] {
        source.give(&mut partial, &mut resumed.verifier, i).unwrap();
    }
    partial.flush().unwrap();
    let image = medium.image();
    let (_partial, found) = open(&reopen(&image), &source).unwrap();
    assert_eq!(found.have.ranges().collect::<Vec<_>>(), [0..1, 7..9, 33..34, 60..61]);
}

#[test]
fn flipped_bytes_in_the_part_file_are_not_present() {
    let source = Source::new(4_194_304 + 50_000, 5);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    source.give_rest(&mut partial, &mut resumed).unwrap();
    drop(partial);
    for at in [0, 8191, 8192, 4_194_303, 4_194_304, 4_244_303_usize] {
        let image = medium.image();
        let mut bytes = image.read(&part()).unwrap();
        bytes[at] ^= 0x10;
        image.write(&part(), &bytes).unwrap();
        let (mut partial, mut found) = open(&reopen(&image), &source).unwrap();
        let bad = at as u64 / 8192;
        assert_eq!(found.have.missing().collect::<Vec<_>>(), vec![bad..bad + 1]);
        source.give_rest(&mut partial, &mut found).unwrap();
        partial
            .finish_as(Path::new("/file"), &Attributes::default(), OverwritePolicy::Never)
            .unwrap();
        assert!(image.read(Path::new("/file")).unwrap() == source.bytes);
    }
}

#[test]
fn a_flip_anywhere_in_the_outboard_is_noticed_and_mended() {
    let source = Source::new(20 * 8192 - 5, 6);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    source.give_rest(&mut partial, &mut resumed).unwrap();
    drop(partial);
    let name = store.partial_path(&source.root(), ObjectPart::Outboard);
    for slot in 0..source.geometry().slots() as usize {
        let image = medium.image();
        let mut nodes = image.read(&name).unwrap();
        nodes[slot * 32 + slot % 32] ^= 1;
        image.write(&name, &nodes).unwrap();
        let store = reopen(&image);
        let (mut partial, found) = open(&store, &source).unwrap();
        // The data are whole and the region is the file: they prove themselves against the root.
        assert!(found.have.is_full());
        partial
            .finish_as(Path::new("/file"), &Attributes::default(), OverwritePolicy::Never)
            .unwrap();
        let outboard =
            image.read(&store.object_path(&source.root(), ObjectPart::Outboard)).unwrap();
        assert!(outboard == source.outboard.as_bytes(), "slot {slot}");
    }
}

#[test]
fn flips_in_data_and_outboard_together_leave_nothing_unverified() {
    let source = Source::new(2 * 4_194_304 + 99_999, 7);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    source.give_rest(&mut partial, &mut resumed).unwrap();
    drop(partial);
    let name = store.partial_path(&source.root(), ObjectPart::Outboard);
    let (data, nodes) = (medium.read(&part()).unwrap(), medium.read(&name).unwrap());
    for seed in 0..12_usize {
        let image = medium.image();
        let (mut data, mut nodes) = (data.clone(), nodes.clone());
        for hit in 0..5 {
            data[(seed * 1_234_567 + hit * 777_777) % source.bytes.len()] ^= 1;
            let count = nodes.len();
            nodes[(seed * 54_321 + hit * 9_999) % count] ^= 0x80;
        }
        image.write(&part(), &data).unwrap();
        image.write(&name, &nodes).unwrap();
        let (mut partial, mut found) = open(&reopen(&image), &source).unwrap();
        source.check_resumed(&image, &part(), &found);
        assert!(!found.have.is_full());
        source.give_rest(&mut partial, &mut found).unwrap();
        let scans = scan_all(&partial.audit().unwrap()).unwrap();
        assert!(scans.len() == 3 && scans.iter().all(|s| s.is_complete()));
        drop(partial);
        assert!(image.read(&part()).unwrap() == source.bytes);
        assert!(image.read(&name).unwrap() == source.outboard.as_bytes());
    }
}

#[test]
fn a_stale_part_file_is_not_trusted() {
    let old = Source::new(200_000, 8);
    let new = Source::new(150_000, 9);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &old).unwrap();
    old.give_rest(&mut partial, &mut resumed).unwrap();
    drop(partial);
    let (mut partial, mut resumed) = open(&store, &new).unwrap();
    assert!(resumed.have.is_empty());
    new.give_rest(&mut partial, &mut resumed).unwrap();
    partial.finish_as(Path::new("/f"), &Attributes::default(), OverwritePolicy::Never).unwrap();
    assert!(medium.read(Path::new("/f")).unwrap() == new.bytes);
}

#[test]
fn segments_and_nodes_of_another_object_are_refused() {
    let (a, b) = (Source::new(50_000, 10), Source::new(50_000, 11));
    let (_medium, store) = memory();
    let (mut partial, _) = open(&store, &a).unwrap();
    let mut verifier = xylem_tree::TreeVerifier::new(b.geometry(), b.root());
    let segment = b.segment(&mut verifier, 0);
    assert!(matches!(partial.put(&segment), Err(StoreError::OutOfRange { .. })));
    let nodes = verifier.take_proven();
    assert!(matches!(partial.put_nodes(&nodes), Err(StoreError::OutOfRange { .. })));
}

#[test]
fn one_fetch_at_a_time_works_on_an_object() {
    let (a, b) = (Source::new(50_000, 12), Source::new(50_000, 13));
    let (medium, store) = memory();
    let first = open(&store, &a).unwrap();
    // The same object, from another process; then another object into the same part file.
    assert!(matches!(open(&reopen(&medium), &a), Err(StoreError::Busy { .. })));
    assert!(matches!(open(&store, &b), Err(StoreError::Busy { .. })));
    let other = Partial::open(&store, b.root(), b.geometry(), Path::new("/other")).unwrap();
    drop((first, other));
    open(&store, &a).unwrap();
}

#[test]
fn failed_finishing_can_be_repeated() {
    let source = Source::new(50_000, 14);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    source.give(&mut partial, &mut resumed.verifier, 3).unwrap();
    let (none, never) = (Attributes::default(), OverwritePolicy::Never);
    let early = partial.finish_as(Path::new("/file"), &none, never);
    assert!(matches!(early, Err(StoreError::Incomplete { missing: 6, .. })));
    for i in 0..7 {
        if i != 3 {
            source.give(&mut partial, &mut resumed.verifier, i).unwrap();
        }
    }
    medium.write(Path::new("/file"), b"precious").unwrap();
    let taken = partial.finish_as(Path::new("/file"), &none, never);
    assert!(matches!(taken, Err(StoreError::Exists { .. })));
    assert_eq!(medium.read(Path::new("/file")).unwrap(), b"precious");
    partial.finish_as(Path::new("/file"), &none, OverwritePolicy::Replace).unwrap();
    assert!(medium.read(Path::new("/file")).unwrap() == source.bytes);
}

#[test]
fn two_threads_may_scan_one_file() {
    let source = Source::new(3 * 4_194_304 + 17, 15);
    let (_medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    for i in (0..source.geometry().segments()).filter(|i| i % 100 != 7) {
        source.give(&mut partial, &mut resumed.verifier, i).unwrap();
    }
    drop(partial);
    let resuming = Partial::open(&store, source.root(), source.geometry(), &part()).unwrap();
    let regions: Vec<u64> = resuming.regions().collect();
    assert_eq!(regions, [0, 1, 2, 3]);
    let work = |scan: &Scan, mine: &[u64]| -> Vec<_> {
        let mut buffer = ScanBuffer::default();
        mine.iter().map(|r| scan.scan(*r, &mut buffer).unwrap()).collect()
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| work(resuming.scan(), &[3, 1]));
        (work(resuming.scan(), &[0, 2]), odd.join().unwrap())
    });
    let (mut partial, mut resumed) = resuming.finish(odd.into_iter().chain(even)).unwrap();
    assert_eq!(resumed.have.len() - resumed.have.count(), 16);
    source.give_rest(&mut partial, &mut resumed).unwrap();
    assert!(partial.is_complete());
}

#[test]
fn missing_bytes_do_not_count_as_zeros() {
    let size = 4_194_304 + 100_000;
    let source = Source::of(vec![0; size], SegmentSize::DEFAULT);
    let (medium, store) = memory();
    store.put(&source.root(), ObjectPart::Outboard, source.outboard.as_bytes()).unwrap();
    let outboard = store.outboard(&source.root(), ObjectPart::Outboard).unwrap().unwrap();
    for len in [size, size - 1, size - 100_000, 8192, 8191, 0] {
        medium.write(Path::new("/file"), &vec![0; len]).unwrap();
        let file =
            xylem_store::FileRef::open(&medium, Path::new("/file"), xylem_store::OpenHow::Read)
                .unwrap();
        let scan = Scan::new(file, &outboard, 0, source.geometry(), source.root()).unwrap();
        let scans = scan_all(&scan).unwrap();
        let right: u64 = scans.iter().flat_map(|s| s.right()).map(|r| r.end - r.start).sum();
        let whole = if len == size { source.geometry().segments() } else { len as u64 / 8192 };
        assert_eq!(right, whole, "{len}");
    }
}

/// For any order of arrival, also over two runs: a reported segment can be served from the disk at that moment, with
/// proofs and tiles. In the end every segment was reported once.
#[test]
fn segments_reported_as_servable_are_provable_from_disk() {
    use std::sync::{Arc, Mutex};
    use xylem_tree::{Anchor, NodeSource, SegmentIndex, segment_signature, tile_content};

    struct OnDisk(Vec<u8>);
    impl NodeSource for OnDisk {
        type Error = ();
        fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), ()> {
            let at = first_slot as usize * 32;
            out.fill(0);
            let there = self.0.get(at..).unwrap_or_default();
            let len = there.len().min(out.len());
            out[..len].copy_from_slice(&there[..len]);
            Ok(())
        }
    }

    for (size, step) in [(5_000, 1), (65_536, 3), (700_001, 7), (17_000_000, 1_001)] {
        let source = Source::new(size, 11);
        let (medium, store) = memory();
        let (geometry, n) = (source.geometry(), source.geometry().segments());
        let told: Arc<Mutex<Vec<u64>>> = Arc::default();
        let outboard = store.partial_path(&source.root(), ObjectPart::Outboard);
        let check = || {
            for i in told.lock().unwrap().drain(..) {
                let index = SegmentIndex(i);
                let range = geometry.segment_range(index);
                let data = medium.read(&part()).unwrap();
                let content = &data[range.start as usize..range.end as usize];
                let (mut nodes, mut proof) = (OnDisk(medium.read(&outboard).unwrap()), Vec::new());
                segment_signature(&geometry, index, &mut nodes, &mut proof).unwrap();
                match geometry.tile_of_segment(index) {
                    None => drop(
                        Anchor::root(geometry, source.root())
                            .segment(index, content, &proof)
                            .unwrap(),
                    ),
                    Some(tile) => {
                        tile_content(&geometry, tile, &mut nodes, &mut Vec::new()).unwrap()
                    }
                }
            }
        };
        let mut total = 0;
        for run in 0..2 {
            let (mut partial, mut resumed) = open(&store, &source).unwrap();
            let into = told.clone();
            let tell = move |runs: &[std::ops::Range<u64>]| {
                into.lock().unwrap().extend(runs.iter().cloned().flatten());
            };
            partial.on_servable(Box::new(tell)).unwrap();
            assert_eq!(told.lock().unwrap().len() as u64, resumed.have.count(), "{size}");
            total = 0;
            let order: Vec<u64> =
                (0..n).map(|k| k * step % n).filter(|i| run == 1 || i % 2 == 0).collect();
            for (given, i) in order.into_iter().enumerate() {
                if !resumed.have.contains(i) {
                    source.give(&mut partial, &mut resumed.verifier, i).unwrap();
                }
                if given % 97 == 0 {
                    partial.flush().unwrap();
                    total += told.lock().unwrap().len() as u64;
                    check();
                }
            }
            partial.flush().unwrap();
            total += told.lock().unwrap().len() as u64;
            check();
        }
        assert_eq!(total, n, "{size}");
    }
}
