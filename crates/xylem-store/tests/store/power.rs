//! Loss of power: any subset of the pages and names since the last sync is on the disk.

use std::path::Path;

use crate::catalog::known;
use crate::faults::{recover, run};
use crate::staging::{PART, Tree};
use crate::support::{Source, memory, open, part, reopen};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_store::Medium;
use xylem_store::{ObjectPart, Objects, check_tree, segments_of_outboard};

/// Checks on a durable store that every outboard with a final name is whole.
fn outboards_are_whole(medium: &FaultMedium) {
    let store = reopen(medium);
    let mut all = Vec::new();
    store.list(&mut |info| all.push(info)).unwrap();
    for info in all.into_iter().filter(|info| info.part == ObjectPart::Outboard) {
        let bytes = store.object_bytes(&info.root, info.part, 1 << 20).unwrap().unwrap();
        let segments = segments_of_outboard(info.size).unwrap();
        let found = check_tree(&mut &bytes[..], segments, &info.root).unwrap();
        assert!(found.is_whole(), "{found:?}");
    }
}

#[test]
fn a_durable_final_name_is_whole_whenever_the_power_goes() {
    let source = Source::new(60_001, 60);
    for at in 0.. {
        let (medium, store) = memory();
        medium.fail_after(at, DiskFault::Torn);
        let (_, outcome) = run(&store.durable(), &source);
        let struck = medium.has_failed();
        for seed in 0..3 {
            let image = medium.power_cut(seed * 1000 + at);
            match image.read(Path::new("/file")) {
                Ok(there) => assert!(there == source.bytes, "step {at}, seed {seed}"),
                Err(_) => assert!(outcome.is_err(), "step {at}, seed {seed}"),
            }
            outboards_are_whole(&image);
            recover(&image, &source, None);
        }
        if !struck {
            outcome.unwrap();
            assert!(at > 20, "{at}");
            break;
        }
    }
}

#[test]
fn a_durable_directory_is_whole_whenever_the_power_goes() {
    let tree = Tree::little();
    let fetch = |store: &xylem_store::Store| {
        let mut staging = tree.open(store, Path::new(PART))?;
        tree.fetch(&mut staging)?;
        tree.finish(&mut staging, Path::new("/dir"))
    };
    for at in (0..).step_by(4) {
        let (medium, store) = memory();
        medium.fail_after(at, DiskFault::Dead);
        let outcome = fetch(&store.durable());
        let struck = medium.has_failed();
        for seed in 0..3 {
            let image = medium.power_cut(seed * 1000 + at);
            let store = reopen(&image);
            if image.metadata(Path::new("/dir")).is_ok() {
                tree.check_content(&image, "/dir");
                let kept = store.info(&tree.root, ObjectPart::FileOutboards).unwrap().is_some();
                assert!(kept || outcome.is_err());
                continue;
            }
            assert!(outcome.is_err(), "step {at}, seed {seed}");
            // The next run proves whatever is left, or fetches it again.
            fetch(&store.durable()).unwrap();
            tree.check_content(&image, "/dir");
        }
        if !struck {
            outcome.unwrap();
            break;
        }
    }
}

#[test]
fn a_durable_run_syncs_what_an_earlier_one_left() {
    let tree = Tree::little();
    for seed in 0..16 {
        let (medium, store) = memory();
        let mut staging = tree.open(&store, Path::new(PART)).unwrap();
        tree.fetch(&mut staging).unwrap();
        drop(staging);
        let mut staging = tree.open(&store.durable(), Path::new(PART)).unwrap();
        assert_eq!(tree.fetch(&mut staging).unwrap(), (0, 0));
        tree.finish(&mut staging, Path::new("/dir")).unwrap();
        tree.check_content(&medium.power_cut(seed), "/dir");
    }
}

#[test]
fn without_syncs_nothing_unverified_is_taken_for_verified() {
    let source = Source::new(100_001, 61);
    for at in (0..200).step_by(7) {
        let (medium, store) = memory();
        medium.fail_after(at, DiskFault::Torn);
        let _ = run(&store, &source);
        for seed in 0..4 {
            let image = medium.power_cut(seed * 1000 + at);
            if image.read(Path::new("/file")).is_err() {
                // `recover` checks that resumed content is correct, and completes it.
                recover(&image, &source, None);
            }
        }
    }
}

#[test]
fn synced_segments_that_were_reported_are_there() {
    let source = Source::new(300_000, 62);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    for i in 0..20 {
        source.give(&mut partial, &mut resumed.verifier, i).unwrap();
    }
    partial.sync().unwrap();
    let safe = partial.have().clone();
    for i in 20..30 {
        source.give(&mut partial, &mut resumed.verifier, i).unwrap();
    }
    partial.flush().unwrap();
    for seed in 0..16 {
        let image = medium.power_cut(seed);
        assert!(image.metadata(&part()).is_ok());
        recover(&image, &source, Some(&safe));
    }
}

#[test]
fn records_and_pins_are_old_or_new() {
    let (old, new) = (known(b"/a", b"old"), known(b"/a", b"new"));
    for at in 0..24 {
        for seed in 0..4 {
            let (medium, store) = memory();
            let store = store.durable();
            store.remember(&old).unwrap();
            medium.fail_after(at, DiskFault::Torn);
            let done = store.remember(&new).and_then(|()| store.pin(&new.root)).is_ok();
            let store = reopen(&medium.power_cut(seed * 100 + at));
            let found = store.known_at(b"/a").unwrap().unwrap();
            assert!(found.root == new.root || (found.root == old.root && !done), "{at} {seed}");
            assert!(!done || found.pinned);
        }
    }
}
