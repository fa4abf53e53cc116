//! A store of the first release (xylem 0.1.0, before there was a format file). `/tmp/xylem-format0` held `film`
//! (100,001 bytes) and `photos` (three files) when it shared both, and a fetch into it was killed midway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalog::known;
use xylem_faults::{DiskFault, FaultMedium};
use xylem_store::Medium;
use xylem_store::{CatalogRecord, CollectOptions, FORMAT, ObjectPart, Objects, OldShare, Store};

const FILM: &[u8] = b"/tmp/xylem-format0/film";
const PHOTOS: &[u8] = b"/tmp/xylem-format0/photos";

/// The fixture on a medium in memory.
fn fixture() -> FaultMedium {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format0");
    let medium = FaultMedium::new();
    let dir = |path: &Path| medium.create_dir(path, 0o700).unwrap();
    dir(Path::new("/store"));
    for name in ["objects", "partial", "shares", "new"] {
        let to = Path::new("/store").join(name);
        dir(&to);
        // Git keeps no empty directory.
        let Ok(files) = std::fs::read_dir(from.join(name)) else { continue };
        for file in files.map(Result::unwrap) {
            medium.write(&to.join(file.file_name()), &std::fs::read(file.path()).unwrap()).unwrap();
        }
    }
    medium
}

fn store(medium: &FaultMedium) -> Store {
    Store::open(Arc::new(medium.clone()), Path::new("/store")).unwrap()
}

/// The content of `film`: bytes as that release's tests made them.
fn film_bytes() -> Vec<u8> {
    let mut state = 3_u64;
    let mut bytes = Vec::new();
    while bytes.len() < 100_001 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    bytes.truncate(100_001);
    bytes
}

fn film() -> xylem_hash::Hash {
    xylem_hash::hash(&film_bytes())
}

/// Checks everything that the old store held, in any state of migration.
fn serves(store: &Store) {
    let share: OldShare = store.old_share(FILM).unwrap().unwrap();
    assert_eq!((share.root, share.state.size), (film(), 100_001));
    assert!(share.version > 1_700_000_000_000_000);
    let outboard = xylem_tree::Outboard::of(&film_bytes(), xylem_tree::SegmentSize::DEFAULT);
    let kept = store.object_bytes(&film(), ObjectPart::Outboard, 1 << 20).unwrap().unwrap();
    assert!(kept == outboard.as_bytes());
    let photos = store.old_share(PHOTOS).unwrap().unwrap().root;
    for part in [ObjectPart::Outboard, ObjectPart::FileOutboards, ObjectPart::Listing] {
        assert!(store.info(&photos, part).unwrap().is_some());
    }
    assert!(store.old_share(b"/elsewhere").unwrap().is_none());
}

#[test]
fn an_old_store_opens_serves_and_is_migrated() {
    let medium = fixture();
    let looked = Store::open_existing(Arc::new(medium.clone()), Path::new("/store")).unwrap();
    assert_eq!(looked.format().unwrap(), 0);
    serves(&looked);
    let store = store(&medium);
    assert_eq!(store.format().unwrap(), FORMAT);
    serves(&store);
    assert_eq!(store.known().unwrap().count(), 0);
    // When a path is shared again, its record is replaced, and no second one stays.
    let share = store.old_share(FILM).unwrap().unwrap();
    let record = CatalogRecord { root: share.root, state: share.state, ..known(FILM, b"") };
    store.remember(&record).unwrap();
    assert!(store.old_share(FILM).unwrap().is_none());
    assert_eq!(store.known_at(FILM).unwrap(), Some(record));
    assert!(store.old_share(PHOTOS).unwrap().is_some());
}

#[test]
fn interrupted_migration_loses_nothing() {
    for fault in [DiskFault::Dead, DiskFault::Torn, DiskFault::Once, DiskFault::Full] {
        for at in 0.. {
            let medium = fixture();
            medium.fail_after(at, fault);
            let opened = Store::open(Arc::new(medium.clone()), Path::new("/store"));
            let struck = medium.has_failed();
            assert!(opened.is_ok() || struck, "{fault:?} {at}");
            for image in [medium.image(), medium.power_loss(at), medium.power_cut(at)] {
                let store = store(&image);
                assert_eq!(store.format().unwrap(), FORMAT);
                serves(&store);
            }
            if !struck {
                assert!(at >= 5);
                break;
            }
        }
    }
}

#[test]
fn collecting_keeps_what_old_records_name_until_they_are_old() {
    let medium = fixture();
    let store = store(&medium);
    let how =
        |now_s| CollectOptions { now_s, unneeded_s: 0, forgotten_s: 1_000_000, dry_run: false };
    let done = store.collect(&how(100), &mut |_, _| {}).unwrap();
    assert_eq!((done.parts, done.records, done.partials), (0, 0, 0));
    serves(&store);
    let mut gone: Vec<PathBuf> = Vec::new();
    store.collect(&how(2_000_000), &mut |name, _| gone.push(name.into())).unwrap();
    assert_eq!(gone.len(), 2 + 4 + 1, "{gone:?}");
}

#[test]
fn damaged_or_truncated_old_records_are_ignored() {
    let medium = fixture();
    let key = xylem_hash::hash(FILM);
    let bytes = medium.read(&Path::new("/store/shares").join(key.to_hex())).unwrap();
    assert!(OldShare::decode(&key, &bytes).is_some());
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 4;
        assert_eq!(OldShare::decode(&key, &bad), None, "flip at {at}");
        assert_eq!(OldShare::decode(&key, &bytes[..at]), None, "cut to {at}");
    }
    assert_eq!(OldShare::decode(&xylem_hash::hash(PHOTOS), &bytes), None);
}
