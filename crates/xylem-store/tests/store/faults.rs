use std::path::Path;

use crate::support::{Source, memory, open, part, reopen};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_store::{Attributes, ObjectPart, OverwritePolicy, Store, StoreError};
use xylem_tree::SegmentSet;

/// Fetches with a flush after every second segment. Returns the segments that were reported safe.
pub(crate) fn run(store: &Store, source: &Source) -> (SegmentSet, Result<(), StoreError>) {
    let mut safe = SegmentSet::new(source.geometry().segments());
    let outcome = (|| {
        let (mut partial, mut resumed) = open(store, source)?;
        safe = resumed.have.clone();
        for i in 0..safe.len() {
            if resumed.have.contains(i) {
                continue;
            }
            source.give(&mut partial, &mut resumed.verifier, i)?;
            if i % 2 == 1 {
                partial.flush()?;
                safe = partial.have().clone();
            }
        }
        partial.finish_as(Path::new("/file"), &Attributes::default(), OverwritePolicy::Never)
    })();
    (safe, outcome)
}

/// Checks what the next process finds on a disk: everything reported safe, nothing unverified, and it can complete the
/// file.
pub(crate) fn recover(image: &FaultMedium, source: &Source, safe: Option<&SegmentSet>) {
    let store = reopen(image);
    if image.read(Path::new("/file")).is_ok_and(|there| there == source.bytes) {
        return;
    }
    let (mut partial, mut resumed) = open(&store, source).unwrap();
    source.check_resumed(image, &part(), &resumed);
    for i in safe.into_iter().flat_map(SegmentSet::ranges).flatten() {
        assert!(resumed.have.contains(i), "segment {i} was reported safe");
    }
    source.give_rest(&mut partial, &mut resumed).unwrap();
    partial.finish_as(Path::new("/file"), &Attributes::default(), OverwritePolicy::Never).unwrap();
    assert!(image.read(Path::new("/file")).unwrap() == source.bytes);
    let outboard = image.read(&store.object_path(&source.root(), ObjectPart::Outboard)).unwrap();
    assert!(outboard == source.outboard.as_bytes());
}

fn steps_of_a_whole_fetch(source: &Source) -> u64 {
    let (medium, store) = memory();
    let before = medium.steps();
    run(&store, source).1.unwrap();
    medium.steps() - before
}

#[test]
fn every_step_of_a_fetch_may_be_the_last() {
    for size in [1, 8193, 100_001] {
        let source = Source::new(size, 20);
        let steps = steps_of_a_whole_fetch(&source);
        assert!(steps >= 4, "{steps}");
        for fault in [DiskFault::Dead, DiskFault::Torn] {
            for at in 0..steps {
                let (medium, store) = memory();
                medium.fail_after(at, fault);
                let (safe, outcome) = run(&store, &source);
                assert!(outcome.is_err() && medium.has_failed());
                recover(&medium.image(), &source, Some(&safe));
            }
        }
    }
}

#[test]
fn every_step_of_a_fetch_may_fail_once_within_a_run() {
    let source = Source::new(60_000, 21);
    for at in 0..steps_of_a_whole_fetch(&source) {
        let (medium, store) = memory();
        medium.fail_after(at, DiskFault::Once);
        assert!(run(&store, &source).1.is_err());
        // The same process tries again: the lock is free, and its segments are there.
        recover(&medium, &source, None);
    }
}

#[test]
fn losing_power_at_any_step_loses_pages_and_nothing_else() {
    let source = Source::new(100_001, 22);
    for at in 0..steps_of_a_whole_fetch(&source) {
        let (medium, store) = memory();
        medium.fail_after(at, DiskFault::Torn);
        assert!(run(&store, &source).1.is_err());
        for seed in 0..4 {
            let image = medium.power_loss(seed * 1000 + at);
            let final_name = Path::new("/file");
            if image.read(final_name).is_ok() {
                // Renamed before anything was synced. A caller that cannot accept this calls `sync`.
                continue;
            }
            recover(&image, &source, None);
        }
    }
}

#[test]
fn synced_segments_survive_a_loss_of_power() {
    let source = Source::new(300_000, 23);
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
    for seed in 0..8 {
        recover(&medium.power_loss(seed), &source, Some(&safe));
    }
}

#[test]
fn short_writes_are_continued() {
    let source = Source::new(400_000, 24);
    let (medium, store) = memory();
    medium.set_short_writes(true);
    run(&store, &source).1.unwrap();
    assert!(medium.read(Path::new("/file")).unwrap() == source.bytes);
}

#[test]
fn a_full_disk_keeps_what_was_verified() {
    let source = Source::new(400_000, 25);
    for space in [0, 1, 32, 8_191, 8_192, 40_000, 123_456, 399_999, 400_000, 402_000] {
        let (medium, store) = memory();
        medium.set_space(Some(space));
        let (safe, outcome) = run(&store, &source);
        match outcome {
            Err(e @ StoreError::NoSpace { .. }) => {
                let line = e.to_string();
                assert!(line.contains("no space left") && !line.contains('\n'), "{line}");
            }
            other => panic!("{space}: {other:?}"),
        }
        if space >= 123_456 {
            assert!(safe.count() * 8192 + 2 * 8192 + 4096 >= space, "{space}: {}", safe.count());
        }
        medium.set_space(None);
        recover(&medium, &source, Some(&safe));
    }
}

#[test]
fn a_fetch_goes_on_in_the_same_run_when_there_is_space_again() {
    let source = Source::new(400_000, 26);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    medium.set_space(Some(100_000));
    let mut refused = 0;
    for i in 0..source.geometry().segments() {
        let segment = source.segment(&mut resumed.verifier, i);
        let nodes = resumed.verifier.take_proven();
        if partial.put(&segment).is_err() {
            refused += 1;
            medium.set_space(None);
            partial.put(&segment).unwrap();
        }
        partial.put_nodes(&nodes).unwrap();
    }
    assert_eq!(refused, 1);
    partial.finish_as(Path::new("/file"), &Attributes::default(), OverwritePolicy::Never).unwrap();
    assert!(medium.read(Path::new("/file")).unwrap() == source.bytes);
    let outboard = medium.read(&store.object_path(&source.root(), ObjectPart::Outboard)).unwrap();
    assert!(outboard == source.outboard.as_bytes());
}
