//! A store that shares a file and a directory: listed, checked, repaired, collected, pinned.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_base::{Blame, Failure, Stop, UnixTime, disk, os_bytes};
use xylem_check::upkeep::{
    CheckFinding, CheckOptions, CheckSummary, FindingKind, PathState, Pinned, check_store,
    collect_store, list_store, pin, unpin,
};
use xylem_files::walk::Selection;
use xylem_packet::Name;
use xylem_publish::publish;
use xylem_store::{CollectSummary, Store};

/// Later than the clock of any machine that runs this.
const NOW: UnixTime = UnixTime::new(Duration::from_secs(1 << 40));

struct Place {
    dir: tempfile::TempDir,
    store: PathBuf,
}

/// Makes a store that shares a file of several segments and a directory of two such files and a small one.
fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::write(dir.path().join("film"), vec![7; 100_001]).unwrap();
    fs::create_dir(dir.path().join("photos")).unwrap();
    for (name, size) in [("a", 20_000), ("b", 5), ("c", 70_000)] {
        fs::write(dir.path().join("photos").join(name), vec![name.as_bytes()[0]; size]).unwrap();
    }
    let place = Place { dir, store };
    place.share("film");
    place.share("photos");
    place
}

impl Place {
    fn share(&self, name: &str) {
        let store = Store::open(disk(), &self.store).unwrap();
        let object = |_: &[u8]| "/a/b".parse::<Name>().unwrap();
        publish(
            &store,
            &self.path(name),
            &object,
            &Selection::default(),
            NOW,
            &Stop::new(),
            &mut |_| {},
        )
        .unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn list(&self) -> Vec<(String, PathState, bool)> {
        let mut all = Vec::new();
        list_store(&self.store, &mut |e| {
            let name = e.path.file_name().unwrap().to_string_lossy().into_owned();
            all.push((name, e.standing, e.pinned));
        })
        .unwrap();
        all
    }

    fn check(&self, repair_tree: bool) -> (CheckSummary, Vec<CheckFinding>) {
        let options = CheckOptions { store: self.store.clone(), repair_tree };
        let mut found = Vec::new();
        let stop = Stop::new();
        let done =
            check_store(&options, &|_| Ok(Vec::new()), &stop, &mut |f| found.push(f), &mut |_| {})
                .unwrap();
        (done, found)
    }

    fn objects(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.store.join("objects")).unwrap();
        let mut all: Vec<_> = all.map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    }
}

#[test]
fn records_are_listed_with_their_present_state() {
    let place = place();
    let as_it_was = |name: &str| (name.to_owned(), PathState::Unchanged, false);
    assert_eq!(place.list(), [as_it_was("film"), as_it_was("photos")]);
    fs::write(place.path("film"), b"other").unwrap();
    fs::remove_dir_all(place.path("photos")).unwrap();
    pin(&place.store, &place.path("photos")).unwrap();
    assert_eq!(
        place.list(),
        [
            ("film".to_owned(), PathState::Changed, false),
            ("photos".to_owned(), PathState::Gone, true)
        ]
    );
    let none = list_store(&place.path("nothing"), &mut |_| {}).unwrap_err();
    assert_eq!(none.blame(), Blame::Usage);
}

#[test]
fn unchanged_files_are_not_hashed_again() {
    let place = place();
    let identity = |path: &PathBuf| {
        let meta = disk().metadata(path).unwrap();
        (meta.ino, meta.mtime)
    };
    // A file written shortly before it was hashed is read once more, as it may have been written again.
    std::thread::sleep(std::time::Duration::from_millis(300));
    place.share("film");
    place.share("photos");
    let before: Vec<_> = place.objects().iter().map(identity).collect();
    assert_eq!(before.len(), 6);
    place.share("film");
    place.share("photos");
    assert_eq!(place.objects().iter().map(identity).collect::<Vec<_>>(), before);
}

#[test]
fn every_damaged_part_is_found_and_rebuilt_from_the_file() {
    let place = place();
    let (done, found) = place.check(false);
    assert_eq!((done.bad, done.records, done.trees, done.listings), (0, 2, 4, 1), "{found:?}");
    for object in place.objects() {
        let whole = fs::read(&object).unwrap();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut bad = whole.clone();
            bad[at] ^= 1;
            fs::write(&object, &bad).unwrap();
            let (done, found) = place.check(false);
            assert!(done.bad > 0 && found[0].kind == FindingKind::Damaged, "{object:?} {at}");
            assert!(found.iter().any(|f| f.path == object), "{object:?} {found:?}");
            let (done, found) = place.check(true);
            assert_eq!((done.bad, done.repaired), (0, 1), "{object:?} {at} {found:?}");
            assert_eq!(fs::read(&object).unwrap(), whole);
        }
        fs::write(&object, &whole[..whole.len() - 1]).unwrap();
        assert!(place.check(false).0.bad > 0, "{object:?}");
        assert_eq!(place.check(true).0.bad, 0);
        fs::remove_file(&object).unwrap();
        let (done, found) = place.check(false);
        if object.extension().is_some_and(|part| part == "sums") {
            // A share from before the lists has none.
            assert_eq!(done.bad, 0, "{found:?}");
            fs::write(&object, &whole).unwrap();
            continue;
        }
        assert!(done.bad > 0, "{object:?}");
        assert!(found.iter().any(|f| f.kind == FindingKind::Missing), "{object:?} {found:?}");
        assert_eq!(place.check(true).0.bad, 0);
        assert_eq!(fs::read(&object).unwrap(), whole, "{object:?}");
    }
    assert_eq!(place.check(false).0.bad, 0);
}

#[test]
fn a_tree_is_not_rebuilt_from_another_file() {
    let place = place();
    let object = place.objects().into_iter().find(|p| p.metadata().unwrap().len() == 800).unwrap();
    let mut bad = fs::read(&object).unwrap();
    bad[100] ^= 1;
    fs::write(&object, &bad).unwrap();
    fs::write(place.path("film"), b"other").unwrap();
    let (done, _) = place.check(true);
    assert_eq!((done.bad, done.repaired), (1, 0));
    assert_eq!(fs::read(&object).unwrap(), bad);
}

#[test]
fn damaged_records_and_foreign_files_are_reported() {
    let place = place();
    let record = fs::read_dir(place.store.join("known")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&record).unwrap();
    bytes[60] ^= 1;
    fs::write(&record, bytes).unwrap();
    let stranger = place.store.join("objects/notes.txt");
    fs::write(&stranger, b"mine").unwrap();
    assert_eq!(place.check(false).0.bad, 2);
    let (done, found) = place.check(true);
    assert_eq!((done.bad, done.repaired), (1, 1), "{found:?}");
    assert!(!record.exists() && stranger.exists());
    assert_eq!(place.list().len(), 1);
}

#[test]
fn collection_spares_recorded_and_pinned_content() {
    let place = place();
    let collect = || collect_store(&place.store, Some(Duration::ZERO), false, NOW, &mut |_, _| {});
    assert_eq!(collect().unwrap(), CollectSummary::default());
    fs::remove_file(place.path("film")).unwrap();
    let root = xylem_hash::hash(&vec![7; 100_001]).to_string();
    assert_eq!(
        pin(&place.store, Path::new(&root)).unwrap(),
        Pinned::Root(xylem_hash::Hash::from_hex(&root).unwrap(), true)
    );
    assert_eq!(collect().unwrap().parts, 0);
    unpin(&place.store, Path::new(&root)).unwrap();
    assert_eq!(unpin(&place.store, Path::new(&root)).unwrap_err().blame(), Blame::Usage);
    assert_eq!(pin(&place.store, Path::new("/nowhere")).unwrap_err().blame(), Blame::Usage);
    let would =
        collect_store(&place.store, Some(Duration::ZERO), true, NOW, &mut |_, _| {}).unwrap();
    let done = collect().unwrap();
    assert_eq!((done.records, done.parts), (1, 2));
    assert_eq!(would, done);
    assert_eq!(place.objects().len(), 4);
    assert_eq!(place.check(false).0.bad, 0);
}

#[test]
fn a_record_of_the_first_format_keeps_its_version() {
    let place = place();
    let key = os_bytes(place.path("film").as_os_str());
    let root = xylem_hash::hash(&vec![7; 100_001]);
    let store = Store::open(disk(), &place.store).unwrap();
    store.forget(&key).unwrap();
    // As xylem 0.1.0 wrote it: layout, root, version, size, seconds, nanoseconds, inode.
    let mut record = vec![1];
    record.extend_from_slice(root.as_bytes());
    record.extend_from_slice(&77_u64.to_le_bytes());
    record.extend_from_slice(&[0; 28]);
    let name = xylem_hash::hash(&key);
    let sum = xylem_hash::hash(&[name.as_bytes(), &record[..]].concat());
    let bytes = [b"xyshare1", sum.as_bytes().as_slice(), record.as_slice()].concat();
    fs::create_dir_all(place.store.join("shares")).unwrap();
    fs::write(place.store.join("shares").join(name.to_string()), bytes).unwrap();
    place.share("film");
    let known = store.known_at(&key).unwrap().unwrap();
    // The note begins with its layout and the version.
    assert_eq!((known.root, &known.note[1..9]), (root, &77_u64.to_le_bytes()[..]));
    assert!(store.old_share(&key).unwrap().is_none());
}
