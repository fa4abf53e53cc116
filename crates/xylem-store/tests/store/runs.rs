//! Segments that are written several at a time.

use std::path::Path;

use crate::support::{Source, memory, open, part, reopen};
use xylem_faults::DiskFault;
use xylem_sim::Rng;
use xylem_store::{Attributes, MAX_UNRECORDED, OverwritePolicy, Store, StoreError};

/// Fetches what is missing in batches of neighbours, some of them late, some twice.
fn fetch(store: &Store, source: &Source, seed: u64) -> Result<(), StoreError> {
    let mut rng = Rng::new(seed);
    let (mut partial, mut resumed) = open(store, source)?;
    let missing: Vec<u64> = resumed.have.missing().flatten().collect();
    let mut late: Vec<u64> = Vec::new();
    let mut rest = &missing[..];
    while !rest.is_empty() || !late.is_empty() {
        let (batch, behind) = rest.split_at(rest.len().min(1 + rng.index(90)));
        rest = behind;
        let mut wanted: Vec<u64> = batch.to_vec();
        if rng.below(3) == 0 || rest.is_empty() {
            wanted.append(&mut late);
        } else if wanted.len() > 2 {
            late.push(wanted.remove(rng.index(wanted.len() - 1)));
        }
        wanted.extend(wanted.first().copied().filter(|_| rng.below(4) == 0));
        wanted.sort_unstable();
        let mut proven: Vec<_> = Vec::new();
        for i in wanted {
            proven.push(source.segment(&mut resumed.verifier, i));
        }
        partial.put_all(&proven.iter().collect::<Vec<_>>())?;
        partial.put_nodes(&resumed.verifier.take_proven())?;
    }
    assert!(partial.is_complete());
    partial.finish_as(Path::new("/file"), &Attributes::default(), OverwritePolicy::Never)
}

#[test]
fn batches_of_any_kind_make_the_file() {
    for (seed, size) in [0, 1, 8_193, 300_000, 3_000_001].into_iter().enumerate() {
        let source = Source::new(size, 31);
        for short in [false, true] {
            let (medium, store) = memory();
            medium.set_short_writes(short);
            fetch(&store, &source, seed as u64).unwrap();
            assert!(medium.read(Path::new("/file")).unwrap() == source.bytes, "{size}");
        }
    }
}

#[test]
fn any_write_of_a_batch_may_be_the_last() {
    let source = Source::new(400_000, 32);
    let (medium, store) = memory();
    let before = medium.steps();
    fetch(&store, &source, 5).unwrap();
    let steps = medium.steps() - before;
    assert!(steps > 20, "{steps}");
    for fault in [DiskFault::Dead, DiskFault::Torn, DiskFault::Once] {
        for at in (0..steps).step_by(2) {
            let (medium, store) = memory();
            medium.fail_after(at, fault);
            assert!(fetch(&store, &source, 5).is_err() && medium.has_failed());
            let image = medium.image();
            let store = reopen(&image);
            if image.read(Path::new("/file")).is_err() {
                let (partial, resumed) = open(&store, &source).unwrap();
                source.check_resumed(&image, &part(), &resumed);
                drop(partial);
                fetch(&store, &source, 6).unwrap();
            }
            assert!(image.read(Path::new("/file")).unwrap() == source.bytes, "{fault:?} at {at}");
        }
    }
}

/// A kill after a batch loses no more than after single segments.
#[test]
fn nodes_follow_runs_as_soon_as_single_segments() {
    let source = Source::new(3_000_001, 33);
    let (medium, store) = memory();
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    let mut given = 0;
    for first in (0..source.geometry().segments()).step_by(32) {
        let batch = first..(first + 32).min(source.geometry().segments());
        let proven: Vec<_> =
            batch.clone().map(|i| source.segment(&mut resumed.verifier, i)).collect();
        partial.put_all(&proven.iter().collect::<Vec<_>>()).unwrap();
        given = batch.end;
        partial.put_nodes(&resumed.verifier.take_proven()).unwrap();
    }
    // The last batch's nodes were put after its data.
    let image = medium.image();
    let (_, resumed) = open(&reopen(&image), &source).unwrap();
    let lost = (given - source.check_resumed(&image, &part(), &resumed)) * 8_192;
    assert!(lost <= MAX_UNRECORDED + 32 * 8_192, "{lost}");
}
