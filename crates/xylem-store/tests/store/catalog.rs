use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{memory, reopen};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_store::Medium;
use xylem_store::{
    CatalogRecord, Clobber, FORMAT, FileState, FileTime, MAX_KNOWN_PATH, MAX_NOTE, RecordError,
    RecordOrigin, Store, StoreError,
};

pub(crate) fn known(path: &[u8], content: &[u8]) -> CatalogRecord {
    CatalogRecord {
        path: path.to_vec(),
        root: xylem_hash::hash(content),
        directory: false,
        origin: RecordOrigin::Shared,
        size: content.len() as u64,
        state: FileState { size: 3, mtime: FileTime { secs: -5, nanos: 9 }, ino: 11 },
        pinned: false,
        used_s: 1_800_000_000,
        note: b"note".to_vec(),
    }
}

fn record_path(store: &Store, path: &[u8]) -> PathBuf {
    store.dir().join("known").join(xylem_hash::hash(path).to_hex())
}

#[test]
fn records_come_back_and_are_replaced() {
    let (_medium, store) = memory();
    assert!(store.known_at(b"/a").unwrap().is_none());
    let (a, odd) = (known(b"/a", b"1"), known(b"/not \xff UTF-8\n", b"2"));
    let odd =
        CatalogRecord { directory: true, origin: RecordOrigin::Fetched, note: Vec::new(), ..odd };
    for record in [&a, &odd] {
        store.remember(record).unwrap();
        assert_eq!(store.known_at(&record.path).unwrap().as_ref(), Some(record));
    }
    let newer = CatalogRecord { root: xylem_hash::hash(b"3"), ..a.clone() };
    store.remember(&newer).unwrap();
    let mut all: Vec<CatalogRecord> = store.known().unwrap().map(Result::unwrap).collect();
    all.sort_by(|x, y| x.path.cmp(&y.path));
    assert_eq!(all, [newer, odd.clone()]);
    store.forget(b"/a").unwrap();
    store.forget(b"/a").unwrap();
    assert!(store.known_at(b"/a").unwrap().is_none());
    assert_eq!(store.known().unwrap().count(), 1);
}

#[test]
fn paths_and_notes_are_accepted_up_to_their_limits() {
    let (_medium, store) = memory();
    let longest = CatalogRecord {
        path: vec![b'p'; MAX_KNOWN_PATH],
        note: vec![7; MAX_NOTE],
        ..known(b"", b"x")
    };
    store.remember(&longest).unwrap();
    assert_eq!(store.known_at(&longest.path).unwrap().as_ref(), Some(&longest));
    let long_path = CatalogRecord { path: vec![b'p'; MAX_KNOWN_PATH + 1], ..known(b"", b"x") };
    let long_note = CatalogRecord { note: vec![7; MAX_NOTE + 1], ..known(b"/x", b"x") };
    for long in [long_path, long_note] {
        assert!(matches!(store.remember(&long), Err(StoreError::OutOfRange { .. })));
    }
}

#[test]
fn damaged_records_are_passed_over_and_counted() {
    let (medium, store) = memory();
    store.remember(&known(b"/a", b"1")).unwrap();
    store.remember(&known(b"/b", b"2")).unwrap();
    let name = record_path(&store, b"/a");
    let whole = medium.read(&name).unwrap();
    let refused = |store: &Store| {
        assert!(store.known_at(b"/a").unwrap().is_none());
        let mut all = store.known().unwrap();
        assert_eq!(all.next().unwrap().unwrap().path, b"/b");
        assert!(all.next().is_none());
        assert_eq!(all.damaged(), 1);
    };
    for at in 0..whole.len() {
        let mut bad = whole.clone();
        bad[at] ^= 4;
        medium.write(&name, &bad).unwrap();
        refused(&store);
        medium.write(&name, &whole[..at]).unwrap();
        refused(&store);
    }
    medium.write(&name, &[whole.clone(), vec![0]].concat()).unwrap();
    refused(&store);
    medium.write(&name, &vec![0; 300_000]).unwrap();
    refused(&store);
    // Another path's record under this name, a link, a directory.
    medium.write(&name, &medium.read(&record_path(&store, b"/b")).unwrap()).unwrap();
    refused(&store);
    medium.remove_file(&name).unwrap();
    medium.symlink(&record_path(&store, b"/b"), &name).unwrap();
    refused(&store);
    medium.remove_file(&name).unwrap();
    medium.create_dir(&name, 0o700).unwrap();
    refused(&store);
}

#[test]
fn no_cut_and_no_flip_of_a_record_decodes() {
    let record = known(b"/path", b"content");
    let bytes = record.encode().unwrap();
    assert_eq!(CatalogRecord::decode(&bytes), Ok(record));
    assert_eq!(CatalogRecord::decode(b""), Err(RecordError::Magic));
    assert_eq!(CatalogRecord::decode(&bytes[..39]), Err(RecordError::Checksum));
    // Intact, with an unknown flag.
    let mut other = bytes;
    other[72] |= 4;
    let sum = xylem_hash::hash(&other[40..]);
    other[8..40].copy_from_slice(sum.as_bytes());
    assert_eq!(CatalogRecord::decode(&other), Err(RecordError::Content));
    assert_eq!(CatalogRecord::decode(&vec![0; 1 << 20]), Err(RecordError::TooLong));
}

#[test]
fn a_record_is_old_or_new_whatever_step_fails() {
    let (old, new) = (known(b"/a", b"old"), known(b"/a", b"new"));
    for fault in [DiskFault::Dead, DiskFault::Torn, DiskFault::Once] {
        for at in 0.. {
            let (medium, store) = memory();
            store.remember(&old).unwrap();
            medium.fail_after(at, fault);
            let done = store.remember(&new).is_ok();
            let struck = medium.has_failed();
            let found = reopen(&medium.image()).known_at(b"/a").unwrap().unwrap();
            assert!(found == new || (found == old && !done), "{fault:?} {at}");
            if !struck {
                assert!(done && at > 3, "{at}");
                break;
            }
        }
    }
}

#[test]
fn a_durable_record_survives_a_loss_of_power() {
    for seed in 0..32 {
        let (medium, store) = memory();
        store.clone().durable().remember(&known(b"/a", b"old")).unwrap();
        store.durable().remember(&known(b"/a", b"new")).unwrap();
        for image in [medium.power_loss(seed), medium.power_cut(seed)] {
            let store = reopen(&image);
            assert_eq!(store.known_at(b"/a").unwrap(), Some(known(b"/a", b"new")));
        }
    }
}

#[test]
fn pins_survive_changes_of_their_record() {
    let (medium, store) = memory();
    let record = known(b"/a", b"1");
    store.remember(&record).unwrap();
    assert!(!store.unpin(&record.root).unwrap());
    store.pin_path(b"/a").unwrap();
    store.pin_path(b"/a").unwrap();
    assert!(store.known_at(b"/a").unwrap().unwrap().pinned);
    store.remember(&CatalogRecord { root: xylem_hash::hash(b"2"), ..record.clone() }).unwrap();
    let store = reopen(&medium.image());
    assert!(store.known_at(b"/a").unwrap().unwrap().pinned);
    assert!(store.unpin_path(b"/a").unwrap());
    assert!(!store.known_at(b"/a").unwrap().unwrap().pinned);
    store.remember(&record).unwrap();
    store.pin(&record.root).unwrap();
    assert!(store.known_at(b"/a").unwrap().unwrap().pinned);
}

#[test]
fn a_newer_format_is_refused_in_one_line_and_an_unreadable_one_too() {
    let (medium, store) = memory();
    assert_eq!(store.format().unwrap(), FORMAT);
    let name = Path::new("/store/format");
    assert_eq!(medium.read(name).unwrap(), b"xylem store 1\n");
    let open = || Store::open(Arc::new(medium.clone()), Path::new("/store"));
    medium.write(name, b"xylem store 2\n").unwrap();
    let newer = open().unwrap_err();
    assert!(matches!(newer, StoreError::Format { version: 2, .. }));
    let line = newer.to_string();
    assert!(line.contains("/store") && line.contains("format 2") && !line.contains('\n'), "{line}");
    for bad in [&b"xylem store -1\n"[..], b"xylem store 0\n", b"xylem store 99999999999\n", b"x"] {
        medium.write(name, bad).unwrap();
        assert!(matches!(open(), Err(StoreError::Corrupt { .. })), "{bad:?}");
    }
    // Nothing else was changed, and what a loss of power may leave is repaired.
    for lost in [&b""[..], &[0; 14]] {
        medium.write(name, lost).unwrap();
        assert_eq!(open().unwrap().format().unwrap(), FORMAT);
    }
}

#[test]
fn a_store_is_made_whole_whatever_step_of_making_it_fails() {
    for fault in [DiskFault::Dead, DiskFault::Torn, DiskFault::Once] {
        for at in 0.. {
            let medium = FaultMedium::new();
            medium.fail_after(at, fault);
            let made = Store::open(Arc::new(medium.clone()), Path::new("/a/store"));
            let struck = medium.has_failed();
            for image in [medium.image(), medium.power_loss(at)] {
                let store = Store::open(Arc::new(image), Path::new("/a/store")).unwrap();
                store.remember(&known(b"/a", b"1")).unwrap();
                assert_eq!(store.format().unwrap(), FORMAT);
            }
            if !struck {
                made.unwrap();
                assert!(at >= 9);
                break;
            }
        }
    }
}

#[test]
fn looking_at_a_store_changes_nothing() {
    let (medium, store) = memory();
    store.remember(&known(b"/a", b"1")).unwrap();
    let look = |dir: &str| Store::open_existing(Arc::new(medium.clone()), Path::new(dir));
    assert!(matches!(look("/nothing"), Err(StoreError::NotFound { .. })));
    medium.rename(Path::new("/store/format"), Path::new("/x"), Clobber::Replace).unwrap();
    let steps = medium.steps();
    let store = look("/store").unwrap();
    assert_eq!((store.format().unwrap(), store.known().unwrap().count()), (0, 1));
    assert_eq!(medium.steps(), steps);
}
