//! Collection removes what nothing needs, and nothing else.

use std::path::Path;

use crate::catalog::known;
use crate::support::Source;
use crate::support::{memory, open, reopen};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_store::{
    CatalogRecord, CollectOptions, CollectSummary, ObjectPart, Objects, Store, StoreError,
    UnfinishedKind,
};

const DAY: u64 = 24 * 3600;
/// Later than any time that a fault medium assigns.
const NOW: u64 = 1_000_000_000;

fn how() -> CollectOptions {
    CollectOptions { now_s: NOW, unneeded_s: 3600, forgotten_s: 30 * DAY, dry_run: false }
}

fn collect(store: &Store, how: &CollectOptions) -> (CollectSummary, Vec<String>) {
    let mut gone = Vec::new();
    let done = store.collect(how, &mut |name, _| gone.push(name.display().to_string())).unwrap();
    gone.sort();
    (done, gone)
}

fn parts(store: &Store) -> usize {
    let mut count = 0;
    store.list(&mut |_| count += 1).unwrap();
    count
}

/// A store with: an existing file, one that is gone, a pinned root, a pinned path that is gone, a fetch in progress, an
/// interrupted one, leftovers, and an unneeded tree.
fn full() -> (FaultMedium, Store) {
    let (medium, store) = memory();
    medium.write(Path::new("/here"), b"here").unwrap();
    for (path, content) in [("/here", "here"), ("/gone", "gone"), ("/pinned", "pinned")] {
        let used_s = NOW - 40 * DAY;
        let record = CatalogRecord { used_s, ..known(path.as_bytes(), content.as_bytes()) };
        store.remember(&record).unwrap();
        store.put(&record.root, ObjectPart::Outboard, content.as_bytes()).unwrap();
    }
    store.pin_path(b"/pinned").unwrap();
    for content in ["kept", "garbage"] {
        let root = xylem_hash::hash(content.as_bytes());
        store.put(&root, ObjectPart::Outboard, content.as_bytes()).unwrap();
        store.put(&root, ObjectPart::Listing, content.as_bytes()).unwrap();
    }
    store.pin(&xylem_hash::hash(b"kept")).unwrap();
    let left = store.partial_path(&xylem_hash::hash(b"left"), ObjectPart::Outboard);
    medium.write(&left, b"nodes").unwrap();
    (medium, store)
}

#[test]
fn collecting_keeps_needed_files_and_removes_the_rest() {
    let (medium, store) = full();
    medium.write(Path::new("/store/new/7"), b"left over").unwrap();
    let (dry, would) = collect(&store, &CollectOptions { dry_run: true, ..how() });
    assert_eq!(parts(&store), 7);
    let (done, gone) = collect(&store, &how());
    assert_eq!((dry, &would), (done, &gone));
    let garbage = xylem_hash::hash(b"garbage").to_hex();
    let left = xylem_hash::hash(b"left").to_hex();
    let of_gone = xylem_hash::hash(b"gone").to_hex();
    let mut expected = vec![
        format!("known/{}", xylem_hash::hash(b"/gone").to_hex()),
        "new/7".to_owned(),
        format!("objects/{garbage}.listing"),
        format!("objects/{garbage}.outboard"),
        format!("objects/{of_gone}.outboard"),
        format!("partial/{left}.outboard"),
    ];
    expected.sort();
    assert_eq!(gone, expected);
    assert_eq!((done.parts, done.partials, done.records, done.leftovers), (3, 1, 1, 1));
    assert_eq!(parts(&store), 4);
    assert!(store.known_at(b"/here").unwrap().is_some());
    assert!(store.known_at(b"/pinned").unwrap().is_some());
    assert_eq!(medium.read(Path::new("/here")).unwrap(), b"here");
    assert_eq!(collect(&store, &how()).1, Vec::<String>::new());
    // Once unpinned it is removed as well.
    assert!(store.unpin(&xylem_hash::hash(b"kept")).unwrap());
    assert_eq!(collect(&store, &how()).0.parts, 2);
}

#[test]
fn young_files_are_not_collected() {
    let (_medium, store) = full();
    // All files on the disk were written a moment ago, and the records were used yesterday.
    for path in [&b"/here"[..], b"/gone", b"/pinned"] {
        let record = store.known_at(path).unwrap().unwrap();
        store.remember(&CatalogRecord { used_s: 100, ..record }).unwrap();
    }
    let (done, gone) = collect(&store, &CollectOptions { now_s: 200, ..how() });
    assert_eq!(gone, Vec::<String>::new());
    assert_eq!(done.young, 4, "two parts, an interrupted fetch, a record");
    // With a clock set back, nothing is old.
    assert_eq!(collect(&store, &CollectOptions { now_s: 0, ..how() }).1, Vec::<String>::new());
}

#[test]
fn locked_files_are_not_collected() {
    let (_medium, store) = memory();
    let source = Source::new(100_000, 32);
    let (partial, _) = open(&store, &source).unwrap();
    // A directory's listing is a finished part while its files are still being fetched.
    store.put(&source.root(), ObjectPart::Listing, b"listing").unwrap();
    let new = store.new_file().unwrap();
    let at_once = CollectOptions { unneeded_s: 0, forgotten_s: 0, ..how() };
    let (done, gone) = collect(&store, &at_once);
    assert_eq!((done.busy, gone), (2, Vec::new()));
    drop((partial, new));
    let (done, _) = collect(&store, &at_once);
    assert_eq!((done.partials, done.parts, done.leftovers), (1, 1, 0));
}

/// Pieces that were read without a fetch are in the store, and are listed with their bytes.
#[test]
fn pieces_read_through_a_mount_are_listed() {
    let (medium, store) = memory();
    let root = xylem_hash::hash(b"film");
    medium.write(&store.partial_path(&root, ObjectPart::Content), b"pieces").unwrap();
    let all = store.unfinished().unwrap();
    let told: Vec<_> = all.iter().map(|one| (one.root, one.kind, one.bytes)).collect();
    assert_eq!(told, [(root, UnfinishedKind::Cache, 6)]);
}

#[test]
fn a_damaged_record_keeps_all_parts() {
    let (medium, store) = full();
    let name = store.dir().join("known").join(xylem_hash::hash(b"/here").to_hex());
    let mut bytes = medium.read(&name).unwrap();
    bytes[50] ^= 1;
    medium.write(&name, &bytes).unwrap();
    let (done, _) = collect(&store, &how());
    assert_eq!((done.damaged_records, done.parts), (1, 0));
    assert_eq!(store.unexplained_names().unwrap().len(), 1);
    assert!(!store.remove_damaged_record(Path::new("/here")).unwrap());
    assert!(store.remove_damaged_record(&name).unwrap());
    assert_eq!(collect(&store, &how()).0.parts, 4);
}

#[test]
fn an_inaccessible_path_counts_as_existing() {
    let (medium, store) = full();
    // A loop of links: neither existing nor plainly missing.
    medium.write(Path::new("/x"), b"").unwrap();
    let record = CatalogRecord { path: b"/x/inside".to_vec(), ..known(b"", b"garbage") };
    store.remember(&record).unwrap();
    let record = CatalogRecord { path: b"\0".to_vec(), ..known(b"", b"kept") };
    store.remember(&record).unwrap();
    collect(&store, &how());
    assert!(store.info(&xylem_hash::hash(b"kept"), ObjectPart::Outboard).unwrap().is_some());
}

#[test]
fn interrupted_collection_loses_nothing_and_is_completed_later() {
    for fault in [
        Some(DiskFault::Dead),
        Some(DiskFault::Torn),
        Some(DiskFault::Once),
        Some(DiskFault::Full),
        None,
    ] {
        for at in 0.. {
            let (medium, store) = full();
            match fault {
                Some(fault) => medium.fail_after(at, fault),
                None => medium.fail_read_after(at),
            }
            let done = store.collect(&how(), &mut |_, _| {});
            let struck = medium.has_failed();
            match &done {
                Ok(_) => assert!(!struck, "{fault:?} {at}"),
                Err(StoreError::NoSpace { .. }) => assert_eq!(fault, Some(DiskFault::Full)),
                Err(e) => assert!(matches!(e, StoreError::Io { .. }), "{e}"),
            }
            let image = medium.image();
            let store = reopen(&image);
            collect(&store, &how());
            assert_eq!(parts(&store), 4, "{fault:?} {at}");
            assert_eq!(store.known().unwrap().count(), 2);
            assert_eq!(image.read(Path::new("/here")).unwrap(), b"here");
            if !struck {
                assert!(at >= 3, "{fault:?} {at}");
                break;
            }
        }
    }
}
