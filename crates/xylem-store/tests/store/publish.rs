use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use xylem_sim::noise;
use xylem_tree::{NODE_LEN, OutboardBuilder, SegmentIndex, SegmentSize, segment_signature};

use crate::support::Source;
use xylem_store::{
    DiskMedium, FileState, FileTime, HashedFile, MediumFile, ObjectPart, OpenHow, OutboardFile,
    RegionReader, Store, StoreError, hash_file,
};

fn store(place: &Path) -> Store {
    Store::open(Arc::new(DiskMedium::new()), &place.join("store")).unwrap()
}

fn hash(path: &Path, on_bytes: &dyn Fn(u64)) -> Result<HashedFile, StoreError> {
    let medium = DiskMedium::new();
    hash_file(&medium, path, None, SegmentSize::DEFAULT, None, &mut Vec::new(), on_bytes)
}

#[test]
fn hashing_in_place_gives_root_and_outboard() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path());
    let path = place.path().join("file");
    let mut buffer = Vec::new();
    for size in [0, 1, 8191, 8192, 8193, 65_537, 4_194_304, 4_194_305, 9_000_000] {
        let source = Source::new(size, 30);
        fs::write(&path, &source.bytes).unwrap();
        let new = store.new_file().unwrap();
        let mut nodes = new.outboard().writer_at(0);
        let counted = std::cell::Cell::new(0);
        let hashed = hash_file(
            &**store.medium(),
            &path,
            None,
            SegmentSize::DEFAULT,
            Some(&mut nodes),
            &mut buffer,
            &|n| counted.set(counted.get() + n),
        )
        .unwrap();
        nodes.flush().unwrap();
        assert_eq!((hashed.root, hashed.geometry), (source.root(), source.geometry()));
        assert_eq!(counted.get(), size as u64);
        let kept = store.keep(new, &hashed.root, ObjectPart::Outboard).unwrap();
        assert!(
            fs::read(store.object_path(&hashed.root, ObjectPart::Outboard)).unwrap()
                == source.outboard.as_bytes()
        );
        drop(kept);
        // Proofs can be read from it in any order.
        let outboard = store.outboard(&hashed.root, ObjectPart::Outboard).unwrap().unwrap();
        let mut reader = outboard.reader_at(0);
        let n = source.geometry().segments();
        for i in (0..n).step_by(7).chain((0..n).rev().step_by(11)) {
            let (mut got, mut want) = (Vec::new(), Vec::new());
            let i = SegmentIndex(i);
            segment_signature(&source.geometry(), i, &mut reader, &mut got).unwrap();
            let mut memory = source.outboard.as_bytes();
            segment_signature(&source.geometry(), i, &mut memory, &mut want).unwrap();
            assert_eq!(got, want);
        }
    }
}

#[test]
fn two_threads_hash_one_file() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path());
    let path = place.path().join("file");
    let source = Source::new(5 * 4_194_304 + 12_345, 31);
    fs::write(&path, &source.bytes).unwrap();
    let new = store.new_file().unwrap();
    let mut nodes = new.outboard().writer_at(0);
    let reader = RegionReader::open(&**store.medium(), &path, None, SegmentSize::DEFAULT).unwrap();
    let (runs, done) = (reader.runs(2), Mutex::new(std::collections::BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (reader, mut buffer) = (reader.another(), Vec::new());
                for i in std::iter::from_fn(|| runs.next_run()).flatten() {
                    let region = reader.read_and_hash(i, &mut buffer).unwrap();
                    done.lock().unwrap().insert(i, region);
                }
            });
        }
    });
    let mut builder =
        OutboardBuilder::new(*reader.geometry(), |slot, run: &[u8]| nodes.write(slot, run));
    for region in done.into_inner().unwrap().into_values() {
        builder.push(region).map_err(|e| reader.build_error(e)).unwrap();
    }
    let root = builder.finish().map_err(|e| reader.build_error(e)).unwrap();
    let hashed = reader.finish(root).unwrap();
    nodes.flush().unwrap();
    assert_eq!(hashed.root, source.root());
    store.keep(new, &root, ObjectPart::Outboard).unwrap();
    assert!(
        fs::read(store.object_path(&root, ObjectPart::Outboard)).unwrap()
            == source.outboard.as_bytes()
    );
}

#[test]
fn outboards_of_many_files_stand_in_one() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path());
    let sources: Vec<_> =
        [20_000, 8193, 4_300_000, 70_000].iter().map(|s| Source::new(*s, 32)).collect();
    let new = store.new_file().unwrap();
    let mut nodes = new.outboard().writer_at(0);
    let (mut base, mut bases, mut want) = (0, Vec::new(), Vec::new());
    for (i, source) in sources.iter().enumerate() {
        let path = place.path().join(i.to_string());
        fs::write(&path, &source.bytes).unwrap();
        nodes.rebase(base);
        let medium = &**store.medium();
        let size = SegmentSize::DEFAULT;
        let mut buffer = Vec::new();
        hash_file(medium, &path, None, size, Some(&mut nodes), &mut buffer, &|_| {}).unwrap();
        bases.push(base);
        base += source.geometry().slots();
        want.extend_from_slice(source.outboard.as_bytes());
    }
    nodes.flush().unwrap();
    let mut got = vec![0; want.len()];
    new.outboard().reader_at(0).read(0, &mut got).unwrap();
    assert!(got == want);
    let mut reader = new.outboard().reader_at(0);
    for (base, source) in bases.iter().zip(&sources) {
        reader.rebase(*base);
        let mut node = [0; NODE_LEN];
        for slot in [0, 1, source.geometry().slots() - 1] {
            reader.read(slot, &mut node).unwrap();
            let at = slot as usize * NODE_LEN;
            assert_eq!(node, source.outboard.as_bytes()[at..at + NODE_LEN]);
        }
    }
    let beyond = reader.read(1 << 40, &mut [0; NODE_LEN]);
    assert!(matches!(beyond, Err(StoreError::Corrupt { .. })), "{beyond:?}");
    let beyond = reader.read(u64::MAX / 64, &mut [0; NODE_LEN]);
    assert!(matches!(beyond, Err(StoreError::OutOfRange { .. })), "{beyond:?}");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    type Edit = Box<dyn Fn(&fs::File)>;
    let edits: [Edit; 4] = [
        Box::new(|f| f.set_len(9_000_001).unwrap()),
        Box::new(|f| f.set_len(5_000_000).unwrap()),
        Box::new(|f| f.set_len(0).unwrap()),
        Box::new(|f| f.set_modified(std::time::UNIX_EPOCH).unwrap()),
    ];
    for (n, edit) in edits.iter().enumerate() {
        fs::write(&path, noise(9_000_000, 33)).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let got = hash(&path, &|_| edit(&file));
        assert!(matches!(got, Err(StoreError::Changed { .. })), "edit {n}: {got:?}");
    }
}

#[test]
fn a_file_that_is_not_as_the_walk_saw_it_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    fs::write(&path, b"12345").unwrap();
    let state = hash(&path, &|_| {}).unwrap().state;
    let medium = DiskMedium::new();
    let again = |expected: FileState| {
        RegionReader::open(&medium, &path, Some(expected), SegmentSize::DEFAULT).map(drop)
    };
    again(state).unwrap();
    let mtime = FileTime { secs: 1, nanos: 2 };
    for wrong in [
        FileState { size: 6, ..state },
        FileState { mtime, ..state },
        FileState { ino: state.ino ^ 1, ..state },
    ] {
        assert!(matches!(again(wrong), Err(StoreError::Changed { .. })));
    }
}

#[test]
fn only_regular_files_are_hashed() {
    let place = tempfile::tempdir().unwrap();
    assert!(matches!(hash(place.path(), &|_| {}), Err(StoreError::Unsafe { .. })));
    assert!(matches!(hash(Path::new("/dev/null"), &|_| {}), Err(StoreError::Unsafe { .. })));
    let missing = place.path().join("missing");
    assert!(matches!(hash(&missing, &|_| {}), Err(StoreError::NotFound { .. })));
}

#[test]
fn an_outboard_on_a_full_disk_is_a_clear_error() {
    let (medium, store) = crate::support::memory();
    medium.write(Path::new("/big"), &noise(9_000_000, 34)).unwrap();
    let new = store.new_file().unwrap();
    let mut nodes = new.outboard().writer_at(0);
    medium.set_space(Some(40_000));
    let size = SegmentSize::DEFAULT;
    let path = Path::new("/big");
    let got = hash_file(&medium, path, None, size, Some(&mut nodes), &mut Vec::new(), &|_| {})
        .and_then(|_| nodes.flush());
    assert!(matches!(got, Err(StoreError::NoSpace { .. })), "{got:?}");
    let file: &OutboardFile = &new.outboard();
    assert!(file.file().metadata().unwrap().size <= 40_000);
}

#[test]
fn links_are_followed_only_in_paths_from_the_user() {
    use xylem_store::Medium as _;
    let place = tempfile::tempdir().unwrap();
    let (file, link) = (place.path().join("file"), place.path().join("link"));
    fs::write(&file, b"content").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(hash(&link, &|_| {}).unwrap().root, xylem_hash::hash(b"content"));
    let medium = DiskMedium::new();
    for how in [
        OpenHow::ReadNoFollow,
        OpenHow::ReadWrite,
        OpenHow::Create { mode: 0o600 },
        OpenHow::CreateNew { mode: 0o600 },
    ] {
        let opened: Result<Arc<dyn MediumFile>, _> = medium.open(&link, how);
        assert!(opened.is_err(), "{how:?}");
    }
}
