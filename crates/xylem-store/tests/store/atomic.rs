//! A file has all of its old content or all of its new content, whichever step fails and whenever the power is lost.
//! Writes that were reported stay.

use std::path::Path;

use xylem_faults::{DiskFault, FaultMedium};
use xylem_sim::noise;
use xylem_store::{Clobber, Durability, FileRef, Medium, OpenHow, StoreError};
use xylem_store::{install, remove_unfinished, write_atomically};

const NAME: &str = "/keys/name.key";

/// A disk with the older file, if given, which no loss of power removes.
fn disk(old: Option<&[u8]>) -> FaultMedium {
    let medium = FaultMedium::new();
    medium.create_dir(Path::new("/keys"), 0o700).unwrap();
    if let Some(old) = old {
        medium.write(Path::new(NAME), old).unwrap();
    }
    medium.sync_dir(Path::new("/")).unwrap();
    medium
}

fn write(medium: &FaultMedium, bytes: &[u8], clobber: Clobber) -> Result<(), StoreError> {
    write_atomically(medium, Path::new(NAME), bytes, 0o600, clobber)
}

#[test]
fn what_was_reported_written_survives_a_loss_of_power() {
    let (old, new) = (noise(9_000, 1), noise(10_000, 2));
    for old in [None, Some(&old[..])] {
        for seed in 0..64 {
            let medium = disk(old);
            write(&medium, &new, Clobber::Replace).unwrap();
            for image in [medium.power_loss(seed), medium.power_cut(seed)] {
                assert!(image.read(Path::new(NAME)).unwrap() == new, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_file_is_old_or_new_whatever_step_fails() {
    let (old, new) = (noise(9_000, 3), noise(10_000, 4));
    for fault in [DiskFault::Dead, DiskFault::Torn, DiskFault::Once, DiskFault::Full] {
        for at in 0.. {
            let medium = disk(Some(&old));
            medium.fail_after(at, fault);
            let done = write(&medium, &new, Clobber::Replace).is_ok();
            let struck = medium.has_failed();
            let images = (0..16).map(|seed| medium.power_cut(seed)).chain([medium.image()]);
            for image in images {
                let there = image.read(Path::new(NAME)).unwrap();
                assert!(there == new || (there == old && !done), "{fault:?} at step {at}");
                // Leftovers of this writer do not hinder the next.
                write(&image, &old, Clobber::Replace).unwrap();
                assert_eq!(image.read(Path::new(NAME)).unwrap(), old);
                assert_eq!(image.list_dir(Path::new("/keys")).unwrap().len(), 1);
            }
            if !struck {
                assert!(done && at >= 4, "only {at} steps");
                break;
            }
        }
    }
}

#[test]
fn a_secret_is_private_from_its_first_byte_on() {
    let medium = disk(None);
    // A killed process left it readable for all users.
    let left = Path::new("/keys/.name.key.new-0");
    medium.open(left, OpenHow::CreateNew { mode: 0o644 }).unwrap();
    medium.write(left, b"longer than what comes after it").unwrap();
    write(&medium, b"secret", Clobber::Never).unwrap();
    assert_eq!(medium.metadata(Path::new(NAME)).unwrap().mode, 0o600);
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"secret");
    assert!(medium.metadata(left).is_err());
}

#[test]
fn an_existing_file_is_replaced_only_on_request() {
    let medium = disk(Some(b"old"));
    let refused = write(&medium, b"new", Clobber::Never);
    assert!(matches!(refused, Err(StoreError::Exists { .. })));
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"old");
    assert_eq!(medium.list_dir(Path::new("/keys")).unwrap().len(), 1);
}

#[test]
fn several_may_write_one_file() {
    let medium = disk(None);
    let open = |n: u32| {
        let name = format!("/keys/.name.key.new-{n}");
        let file =
            FileRef::open(&medium, Path::new(&name), OpenHow::Create { mode: 0o600 }).unwrap();
        file.lock().unwrap();
        file
    };
    let mut others: Vec<FileRef> = (0..15).map(open).collect();
    write(&medium, b"ours", Clobber::Never).unwrap();
    others.push(open(15));
    let busy = write(&medium, b"ours", Clobber::Replace);
    assert!(matches!(busy, Err(StoreError::Busy { .. })));
}

#[test]
fn leftovers_of_a_killed_writer_are_recognized_and_removed() {
    let medium = disk(Some(b"old"));
    let left = Path::new("/keys/.name.key.new-3");
    let held = FileRef::open(&medium, left, OpenHow::Create { mode: 0o600 }).unwrap();
    held.lock().unwrap();
    assert!(remove_unfinished(&medium, left) && medium.metadata(left).is_ok(), "it is written");
    drop(held);
    assert!(remove_unfinished(&medium, left) && medium.metadata(left).is_err());
    for other in [NAME, "/keys/.hidden", "/keys/.a.new-b", "/keys/name.new-1"] {
        assert!(!remove_unfinished(&medium, Path::new(other)), "{other}");
    }
    assert_eq!(medium.read(Path::new(NAME)).unwrap(), b"old");
}

#[test]
fn without_durability_nothing_is_flushed() {
    let medium = disk(None);
    let (part, name) = (Path::new("/keys/part"), Path::new(NAME));
    let file = FileRef::open(&medium, part, OpenHow::Create { mode: 0o600 }).unwrap();
    file.write_all(b"content", 0).unwrap();
    let before = medium.steps();
    install(&medium, &file, part, name, Clobber::Never, Durability::Cached).unwrap();
    assert_eq!(medium.steps() - before, 1, "the rename alone");
}
