use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::support::{Source, memory, open, reopen};
use xylem_faults::DiskFault;
use xylem_store::{
    Attributes, DiskMedium, Medium, ObjectPart, Objects, OpenHow, OverwritePolicy, Store,
    StoreError,
};

#[test]
fn the_directory_is_private_and_made_with_its_parents() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("a/b/store");
    for _ in 0..2 {
        Store::open(Arc::new(DiskMedium::new()), &dir).unwrap();
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn a_store_on_a_link_or_a_file_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (file, link) = (place.path().join("file"), place.path().join("link"));
    std::fs::write(&file, b"").unwrap();
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    for path in [file, link] {
        let got = Store::open(Arc::new(DiskMedium::new()), &path);
        assert!(matches!(got, Err(StoreError::Unsafe { .. })), "{got:?}");
    }
}

#[test]
fn new_files_vanish_unless_kept_and_leftovers_are_taken_over() {
    let (medium, store) = memory();
    let root = xylem_hash::hash(b"root");
    {
        let (a, b) = (store.new_file().unwrap(), store.new_file().unwrap());
        assert_ne!(a.file().path(), b.file().path());
        a.file().write_all(b"left over", 0).unwrap();
        medium.fail_after(0, DiskFault::Dead); // so that dropping cannot remove them
    }
    let medium = medium.image();
    let store = reopen(&medium);
    let names = |dir: &str| medium.list_dir(Path::new(dir)).unwrap().len();
    assert_eq!(names("/store/new"), 2);
    let new = store.new_file().unwrap();
    assert_eq!(new.file().metadata().unwrap().size, 0);
    new.file().write_all(b"listing", 0).unwrap();
    store.keep(new, &root, ObjectPart::Listing).unwrap();
    assert_eq!(names("/store/new"), 1);
    assert_eq!(store.object_bytes(&root, ObjectPart::Listing, 7).unwrap().unwrap(), b"listing");
    let too_large = store.object_bytes(&root, ObjectPart::Listing, 6);
    assert!(matches!(too_large, Err(StoreError::Corrupt { .. })));
    assert!(store.object_bytes(&root, ObjectPart::Manifest, 7).unwrap().is_none());
    store.remove(&root, ObjectPart::Listing).unwrap();
    store.remove(&root, ObjectPart::Listing).unwrap();
    assert!(store.object(&root, ObjectPart::Listing).unwrap().is_none());
}

#[test]
fn a_late_lock_does_not_hold_a_finished_file() {
    let (_medium, store) = memory();
    let source = Source::new(20_000, 70);
    let (mut partial, mut resumed) = open(&store, &source).unwrap();
    let first = partial.outboard().0.file().clone();
    let busy = open(&store, &source);
    assert!(matches!(busy, Err(StoreError::Busy { .. })));
    assert!(busy.unwrap_err().to_string().contains("in use"));
    source.give_rest(&mut partial, &mut resumed).unwrap();
    let name = Path::new("/file");
    partial.finish_as(name, &Attributes::default(), OverwritePolicy::Never).unwrap();
    // The name is free again, and leads to a file other than the finished one.
    let (second, _) = open(&store, &source).unwrap();
    let second = second.outboard().0.file().metadata().unwrap();
    assert_ne!(first.metadata().unwrap().ino, second.ino);
}

#[test]
fn errors_name_the_place_in_one_line() {
    let medium = DiskMedium::new();
    let missing = Path::new("/nonexistent/xylem");
    let e = xylem_store::FileRef::open(&medium, missing, OpenHow::Read).unwrap_err();
    assert!(matches!(e, StoreError::NotFound { .. }));
    assert_eq!(e.to_string(), "/nonexistent/xylem: no such file or directory");
    assert_eq!(e.path(), missing);
}
