//! Every operation on a disk that fails at every step: the error is one line that names the trouble, nothing unverified
//! is kept, nothing verified is lost, and the next run (of this process or another) completes it.

use std::path::Path;

use crate::catalog::known;
use crate::faults::{recover, run};
use crate::staging::{PART, Tree};
use crate::support::{Source, memory, open, part, reopen};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_store::Medium;
use xylem_store::{
    CatalogRecord, FileState, ObjectPart, Objects, OpenHow, Store, StoreError, hash_file,
};
use xylem_tree::SegmentSet;

/// Runs `act` with the fault at the first step, at the second and so on until none occurs. `after` examines the disk
/// that a killed process leaves, and this one if it still works.
fn every_step(
    prepare: &dyn Fn() -> (FaultMedium, Store),
    act: &dyn Fn(&Store) -> Result<(), StoreError>,
    after: &dyn Fn(&FaultMedium, bool),
) -> u64 {
    let mut steps = 0;
    let faults = [DiskFault::Dead, DiskFault::Torn, DiskFault::Once, DiskFault::Full].map(Some);
    for fault in faults.into_iter().chain([None]) {
        for at in 0.. {
            let (medium, store) = prepare();
            match fault {
                Some(fault) => medium.fail_after(at, fault),
                None => medium.fail_read_after(at),
            }
            let outcome = act(&store);
            let struck = medium.has_failed();
            if let Err(e) = &outcome {
                assert!(struck, "{e}");
                let line = e.to_string();
                assert!(line.starts_with('/') && !line.contains('\n'), "{line}");
                let full = matches!(e, StoreError::NoSpace { .. });
                assert_eq!(full, fault == Some(DiskFault::Full), "{line}");
                assert!(full || matches!(e, StoreError::Io { .. }), "{line}");
            }
            drop(store);
            after(&medium.image(), outcome.is_ok());
            if matches!(fault, Some(DiskFault::Once | DiskFault::Full) | None) {
                medium.heal();
                after(&medium, outcome.is_ok());
            }
            steps += 1;
            if !struck {
                outcome.unwrap();
                break;
            }
        }
    }
    steps
}

fn publish(store: &Store) -> Result<(), StoreError> {
    let medium = store.medium().clone();
    let path = Path::new("/film");
    let meta = medium.metadata(path).map_err(|e| StoreError::from_io("look", path, None, e))?;
    let new = store.new_file()?;
    let mut nodes = new.outboard().writer_at(0);
    let size = xylem_tree::SegmentSize::DEFAULT;
    let mut buffer = Vec::new();
    let hashed = hash_file(&*medium, path, None, size, Some(&mut nodes), &mut buffer, &|_| {})?;
    nodes.flush()?;
    store.keep(new, &hashed.root, ObjectPart::Outboard)?;
    let state = FileState::of(&meta);
    store.remember(&CatalogRecord { root: hashed.root, state, ..known(b"/film", b"") })
}

#[test]
fn publishing() {
    let source = Source::new(60_001, 40);
    let prepare = || {
        let (medium, store) = memory();
        medium.write(Path::new("/film"), &source.bytes).unwrap();
        (medium, store)
    };
    let whole = |medium: &FaultMedium| {
        let name = format!("/store/objects/{}.outboard", source.root().to_hex());
        medium.read(Path::new(&name)).ok()
    };
    let steps = every_step(&prepare, &publish, &|medium, done| {
        let store = reopen(medium);
        // A name leads to a whole file or to none.
        let right = |bytes: Vec<u8>| assert!(bytes == source.outboard.as_bytes());
        whole(medium).into_iter().for_each(right);
        let record = store.known_at(b"/film").unwrap();
        assert!(record.is_some() || !done);
        record.into_iter().for_each(|r| assert_eq!(r.root, source.root()));
        publish(&store).unwrap();
        assert!(whole(medium).unwrap() == source.outboard.as_bytes());
        assert_eq!(medium.read(Path::new("/film")).unwrap(), source.bytes);
        assert_eq!(medium.list_dir(Path::new("/store/new")).unwrap().len(), 0);
    });
    assert!(steps > 40, "{steps}");
}

#[test]
fn fetching_a_file() {
    let source = Source::new(40_001, 41);
    let steps = every_step(&memory, &|store| run(store, &source).1, &|medium, done| {
        let there = medium.read(Path::new("/file"));
        assert!(there.is_ok() || !done);
        there.into_iter().for_each(|bytes| assert!(bytes == source.bytes));
        recover(medium, &source, None);
    });
    assert!(steps > 50, "{steps}");
}

#[test]
fn fetching_a_file_durably() {
    let source = Source::new(20_001, 42);
    let act = |store: &Store| run(&store.clone().durable(), &source).1;
    let steps = every_step(&memory, &act, &|medium, _| recover(medium, &source, None));
    assert!(steps > 60, "{steps}");
}

#[test]
fn resuming_a_file() {
    let source = Source::new(60_001, 43);
    let mut safe = SegmentSet::new(source.geometry().segments());
    safe.insert_range(0..3);
    let prepare = || {
        let (medium, store) = memory();
        let (mut partial, mut resumed) = open(&store, &source).unwrap();
        for i in 0..5 {
            source.give(&mut partial, &mut resumed.verifier, i).unwrap();
        }
        partial.flush().unwrap();
        drop(partial);
        // One segment is damaged.
        let file = medium.open(&part(), OpenHow::ReadWrite).unwrap();
        file.write_at(b"spoiled", 3 * 8192).unwrap();
        (medium, store)
    };
    let steps = every_step(&prepare, &|store| run(store, &source).1, &|medium, done| {
        assert!(!done || medium.read(Path::new("/file")).unwrap() == source.bytes);
        recover(medium, &source, Some(&safe));
    });
    assert!(steps > 30, "{steps}");
}

fn fetch_tree(tree: &Tree, store: &Store) -> Result<(), StoreError> {
    let mut staging = tree.open(store, Path::new(PART))?;
    tree.fetch(&mut staging)?;
    tree.finish(&mut staging, Path::new("/dir"))
}

#[test]
fn fetching_and_resuming_a_directory() {
    let tree = Tree::little();
    let steps = every_step(&memory, &|store| fetch_tree(&tree, store), &|medium, done| {
        let store = reopen(medium);
        let named = medium.metadata(Path::new("/dir")).is_ok();
        assert!(named || !done);
        if named {
            // All files are there, or the name would not be. The outboards may be missing.
            let kept = store.info(&tree.root, ObjectPart::FileOutboards).unwrap().is_some();
            assert!(kept || !done);
            tree.check_content(medium, "/dir");
            return;
        }
        fetch_tree(&tree, &store).unwrap();
        tree.check(medium, &store, "/dir", true);
    });
    assert!(steps > 200, "{steps}");
}

#[test]
fn the_catalog() {
    let (old, new) = (known(b"/a", b"old"), known(b"/a", b"new"));
    let prepare = || {
        let (medium, store) = memory();
        store.remember(&old).unwrap();
        store.remember(&known(b"/b", b"other")).unwrap();
        (medium, store)
    };
    let act = |store: &Store| {
        let store = store.clone().durable();
        store.remember(&new)?;
        store.pin_path(b"/a")?;
        store.forget(b"/b")
    };
    every_step(&prepare, &act, &|medium, done| {
        let store = reopen(medium);
        let a = store.known_at(b"/a").unwrap().unwrap();
        let pinned = a.pinned;
        let plain = CatalogRecord { pinned: false, ..a };
        assert!(plain == new || (plain == old && !done && !pinned));
        assert!(!done || pinned);
        let b = store.known_at(b"/b").unwrap();
        assert!(b.is_none() || b == Some(known(b"/b", b"other")));
        act(&store).unwrap();
        assert_eq!(store.known().unwrap().count(), 1);
    });
}
