use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use xylem_hash::Hash;
use xylem_tree::TreeVerifier;

use crate::support::{Source, memory, reopen};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_store::{
    Attributes, DiskMedium, FileKind, FileTime, ObjectPart, OverwritePolicy, SmallFile, Staging,
    Store, StoreError,
};
use xylem_store::{Medium, Objects};

pub(crate) const PART: &str = "/.dir.xylem-part";

/// A directory to fetch: files by path, each with the slot where its outboard starts.
pub(crate) struct Tree {
    files: BTreeMap<&'static str, (Source, u64)>,
    dirs: Vec<&'static str>,
    pub root: Hash,
}

impl Tree {
    fn new() -> Self {
        Self::of_sizes(700_000, 40_000, 300_001)
    }

    /// Few bytes, for tests that fetch it again at each step.
    pub(crate) fn little() -> Self {
        Self::of_sizes(70_000, 9000, 50_001)
    }

    fn of_sizes(large: usize, medium: usize, other: usize) -> Self {
        let sizes = [
            ("a.txt", 100),
            ("deep/er/est/file", 8192),
            ("empty", 0),
            ("large", large),
            ("medium", medium),
            ("sub/large", other),
            ("sub/small", 4096),
        ];
        let mut slot = 0;
        let mut files = BTreeMap::new();
        for (seed, (path, size)) in sizes.into_iter().enumerate() {
            let source = Source::new(size, 50 + seed as u64);
            let slots = source.geometry().slots();
            files.insert(path, (source, slot));
            slot += slots;
        }
        let dirs = vec!["bare", "deep", "deep/er", "deep/er/est", "sub"];
        Self { files, dirs, root: xylem_hash::hash(b"the listing") }
    }

    fn kind(&self, path: &[u8]) -> Option<FileKind> {
        let path = std::str::from_utf8(path).ok()?;
        if self.files.contains_key(path) {
            return Some(FileKind::File);
        }
        if path == "link" {
            return Some(FileKind::Symlink);
        }
        self.dirs.contains(&path).then_some(FileKind::Directory)
    }

    pub(crate) fn open(&self, store: &Store, path: &Path) -> Result<Staging, StoreError> {
        Staging::open(store, self.root, path, &mut |p| Ok(self.kind(p)))
    }

    fn small(&self) -> Vec<SmallFile<'_>> {
        let small = self.files.iter().filter(|(_, (s, _))| s.bytes.len() <= 50_000);
        small
            .map(|(path, (s, _))| SmallFile {
                path: path.as_bytes(),
                size: s.bytes.len() as u64,
                root: s.root(),
            })
            .collect()
    }

    /// Fetches everything that is missing; returns how many small files and segments that took.
    pub(crate) fn fetch(&self, staging: &mut Staging) -> Result<(usize, u64), StoreError> {
        let small = self.small();
        let (mut wrote, mut segments) = (0, 0);
        let attributes = Attributes { mode: Some(0o640), mtime: Some(time(77)) };
        for (file, there) in small.iter().zip(staging.intact(&small)?) {
            if there {
                staging.set_attributes(file.path, &attributes)?;
                continue;
            }
            let source = &self.files[std::str::from_utf8(file.path).unwrap()].0;
            let mut verifier = TreeVerifier::new(source.geometry(), source.root());
            let n = source.geometry().segments();
            let proven: Vec<_> = (0..n).map(|i| source.segment(&mut verifier, i)).collect();
            staging.write_small(file, &proven, &attributes)?;
            let slot = self.files[std::str::from_utf8(file.path).unwrap()].1;
            staging.put_nodes(file, &source.geometry(), slot, &verifier.take_proven())?;
            wrote += 1;
        }
        for (path, (source, slot)) in &self.files {
            if source.bytes.len() <= 50_000 {
                continue;
            }
            let opened =
                staging.open_file(path.as_bytes(), source.root(), source.geometry(), *slot)?;
            let (mut partial, mut resumed) = opened.resume(&|_| {})?;
            segments += resumed.have.len() - resumed.have.count();
            source.give_rest(&mut partial, &mut resumed)?;
            partial.finish_in_place(&attributes)?;
        }
        staging.directory(b"bare")?;
        Ok((wrote, segments))
    }

    pub(crate) fn finish(&self, staging: &mut Staging, to: &Path) -> Result<(), StoreError> {
        staging.symlink(b"link", b"sub/small")?;
        for dir in self.dirs.iter().rev().chain([&""]) {
            let mode = if *dir == "sub" { 0o555 } else { 0o750 };
            let attributes = Attributes { mode: Some(mode), mtime: Some(time(dir.len() as i64)) };
            staging.finish_directory(dir.as_bytes(), &attributes)?;
        }
        staging.finish_as(to, OverwritePolicy::Never)
    }

    /// Checks that every file is there and correct.
    pub(crate) fn check_content(&self, medium: &FaultMedium, at: &str) {
        for (path, (source, _)) in &self.files {
            let path = Path::new(at).join(path);
            assert!(medium.read(&path).unwrap() == source.bytes, "{path:?}");
        }
        assert_eq!(count(medium, Path::new(at)), self.files.len() + self.dirs.len() + 1);
    }

    pub(crate) fn check(&self, medium: &FaultMedium, store: &Store, at: &str, resumed: bool) {
        for (path, (source, slot)) in &self.files {
            let path = Path::new(at).join(path);
            assert!(medium.read(&path).unwrap() == source.bytes, "{path:?}");
            let meta = medium.metadata(&path).unwrap();
            assert_eq!((meta.mode, meta.mtime), (0o640, time(77)), "{path:?}");
            if !resumed || source.bytes.len() > 50_000 {
                let name = store.object_path(&self.root, ObjectPart::FileOutboards);
                let nodes = medium.read(&name).unwrap();
                let from = *slot as usize * 32;
                let want = source.outboard.as_bytes();
                assert!(nodes[from..from + want.len()] == *want);
            }
        }
        let link = Path::new(at).join("link");
        assert_eq!(medium.read_link(&link).unwrap(), Path::new("sub/small"));
        let sub = medium.metadata(&Path::new(at).join("sub")).unwrap();
        assert_eq!((sub.mode, sub.mtime), (0o555, time(3)));
        let names = count(medium, Path::new(at));
        assert_eq!(names, self.files.len() + self.dirs.len() + 1);
    }
}

fn time(secs: i64) -> FileTime {
    FileTime { secs, nanos: 5 }
}

fn count(medium: &dyn Medium, dir: &Path) -> usize {
    let items = medium.list_dir(dir).unwrap();
    let below = items.iter().filter(|i| i.kind == FileKind::Directory);
    let below: usize = below.map(|i| count(medium, &dir.join(&i.name))).sum();
    items.len() + below
}

#[test]
fn a_directory_is_fetched_whole() {
    let tree = Tree::new();
    let (medium, store) = memory();
    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    assert!(!staging.was_resumed());
    assert!(matches!(tree.open(&store, Path::new(PART)), Err(StoreError::Busy { .. })));
    // Another place has its own trees.
    drop(tree.open(&store, Path::new("/.other")).unwrap());
    tree.fetch(&mut staging).unwrap();
    tree.finish(&mut staging, Path::new("/dir")).unwrap();
    tree.check(&medium, &store, "/dir", false);
    assert!(medium.metadata(Path::new(PART)).is_err());
}

#[test]
fn a_second_run_fetches_only_what_is_missing_or_damaged() {
    let tree = Tree::new();
    let (medium, store) = memory();
    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    let all = tree.small().len();
    assert_eq!(tree.fetch(&mut staging).unwrap().0, all);
    // As after a kill when the directories had been finished, before the last rename.
    medium.set_mode(Path::new("/.dir.xylem-part/sub"), 0o555).unwrap();
    drop(staging);
    let damage = |path: &str, at: usize| {
        let path = Path::new(PART).join(path);
        let mut bytes = medium.read(&path).unwrap();
        bytes[at] ^= 1;
        medium.write(&path, &bytes).unwrap();
    };
    damage("sub/small", 4000);
    damage("large", 600_000);
    medium.write(&Path::new(PART).join("a.txt"), &[0; 101]).unwrap();
    // Foreign files: of another version, or of another program.
    medium.write(&Path::new(PART).join("sub/stray"), b"stray").unwrap();
    medium.create_dir(&Path::new(PART).join("old"), 0o500).unwrap();
    medium.write(&Path::new(PART).join("old/file"), b"old").unwrap();
    medium.remove_file(&Path::new(PART).join("empty")).unwrap();
    medium.create_dir(&Path::new(PART).join("empty"), 0o700).unwrap();

    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    assert!(staging.was_resumed());
    assert_eq!(tree.fetch(&mut staging).unwrap(), (3, 1));
    tree.finish(&mut staging, Path::new("/dir")).unwrap();
    tree.check(&medium, &store, "/dir", true);
}

#[test]
fn every_step_of_a_directory_fetch_may_be_the_last() {
    let tree = Tree::new();
    let run = |store: &Store| {
        let mut staging = tree.open(store, Path::new(PART))?;
        tree.fetch(&mut staging)?;
        tree.finish(&mut staging, Path::new("/dir"))
    };
    let (medium, store) = memory();
    let before = medium.steps();
    run(&store).unwrap();
    let steps = medium.steps() - before;
    for at in (0..steps).step_by(3) {
        let (medium, store) = memory();
        medium.fail_after(at, DiskFault::Torn);
        assert!(run(&store).is_err());
        let image = medium.image();
        let store = reopen(&image);
        if image.metadata(Path::new("/dir")).is_err() {
            run(&store).unwrap();
            tree.check(&image, &store, "/dir", true);
        }
    }
}

#[test]
fn planted_links_are_never_followed() {
    let tree = Tree::new();
    let (medium, store) = memory();
    medium.create_dir(Path::new("/victim"), 0o700).unwrap();
    medium.write(Path::new("/victim/small"), b"precious").unwrap();
    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    let at = |name: &str| Path::new(PART).join(name);
    // During the fetch, so that no sweep can remove them.
    medium.symlink(Path::new("/victim"), &at("sub")).unwrap();
    medium.symlink(Path::new("/victim/small"), &at("a.txt")).unwrap();
    medium.symlink(Path::new("/victim/small"), &at("large")).unwrap();
    let (source, _) = &tree.files["sub/small"];
    let mut verifier = TreeVerifier::new(source.geometry(), source.root());
    let proven = [source.segment(&mut verifier, 0)];
    let file = SmallFile { path: b"sub/small", size: 4096, root: source.root() };
    let through = staging.write_small(&file, &proven, &Attributes::default());
    assert!(matches!(through, Err(StoreError::Unsafe { .. })), "{through:?}");
    assert!(staging.directory(b"sub").is_err());
    assert!(staging.finish_directory(b"sub", &Attributes::default()).is_err());
    assert!(staging.symlink(b"sub/link", b"x").is_err());
    assert!(staging.intact(&[file]).is_err());
    medium.remove_file(&at("sub")).unwrap();
    tree.fetch(&mut staging).unwrap();
    drop(staging);
    // Between two runs: removed, even if the listing has the name.
    medium.remove_file(&at("medium")).unwrap();
    medium.symlink(Path::new("/victim/small"), &at("medium")).unwrap();
    medium.symlink(Path::new("/victim"), &at("link")).unwrap();
    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    tree.fetch(&mut staging).unwrap();
    tree.finish(&mut staging, Path::new("/dir")).unwrap();
    tree.check(&medium, &store, "/dir", true);
    assert_eq!(medium.read(Path::new("/victim/small")).unwrap(), b"precious");
    assert_eq!(medium.list_dir(Path::new("/victim")).unwrap().len(), 1);
    // The staging directory itself.
    medium.symlink(Path::new("/victim"), Path::new("/.link-part")).unwrap();
    let beside = Staging::open(&store, tree.root, Path::new("/.link-part"), &mut |_| Ok(None));
    assert_ne!(beside.unwrap().path(), Path::new("/.link-part"));
    assert_eq!(medium.list_dir(Path::new("/victim")).unwrap().len(), 1);
}

#[test]
fn paths_that_lead_out_are_refused() {
    let tree = Tree::new();
    let (_medium, store) = memory();
    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    let bad: [&[u8]; 11] =
        [b"", b".", b"..", b"/etc", b"../x", b"a/../../x", b"a//b", b"a/", b"a/./b", b"a\0b", b"/"];
    for path in bad {
        let source = Source::new(0, 0);
        let got = staging.open_file(path, source.root(), source.geometry(), 0);
        assert!(matches!(got, Err(StoreError::Unsafe { .. })), "{path:?}: {got:?}");
        let got = staging.symlink(path, b"x");
        assert!(matches!(got, Err(StoreError::Unsafe { .. })), "{path:?}: {got:?}");
        if !path.is_empty() {
            let got = staging.directory(path);
            assert!(matches!(got, Err(StoreError::Unsafe { .. })), "{path:?}: {got:?}");
        }
    }
    let deep = vec!["d"; 600].join("/");
    assert!(staging.directory(deep.as_bytes()).is_err());
}

#[test]
fn small_files_take_only_their_own_proven_segments() {
    let (_medium, store) = memory();
    let tree = Tree::new();
    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    let source = Source::new(20_000, 60);
    let mut verifier = TreeVerifier::new(source.geometry(), source.root());
    let proven: Vec<_> = (0..3).map(|i| source.segment(&mut verifier, i)).collect();
    let none = Attributes::default();
    let right = SmallFile { path: b"f", size: 20_000, root: source.root() };
    let wrong_root = SmallFile { root: xylem_hash::hash(b""), ..right };
    let wrong_size = SmallFile { size: 20_001, ..right };
    assert!(staging.write_small(&wrong_root, &proven, &none).is_err());
    assert!(staging.write_small(&wrong_size, &proven, &none).is_err());
    assert!(staging.write_small(&right, &proven[..2], &none).is_err());
    assert!(staging.write_small(&right, &proven[1..], &none).is_err());
    assert!(staging.write_small::<Vec<u8>>(&right, &[], &none).is_err());
    staging.write_small(&right, &proven, &none).unwrap();
    assert_eq!(staging.intact(&[right]).unwrap(), [true]);
    let (geometry, nodes) = (source.geometry(), verifier.take_proven());
    assert!(staging.put_nodes(&wrong_root, &geometry, 0, &nodes).is_err());
    staging.put_nodes(&right, &geometry, 0, &nodes).unwrap();
}

#[test]
fn a_directory_replaces_another_only_on_request() {
    let tree = Tree::new();
    let (medium, store) = memory();
    medium.create_dir(Path::new("/dir"), 0o700).unwrap();
    medium.create_dir(Path::new("/dir/sub"), 0o700).unwrap();
    medium.write(Path::new("/dir/sub/precious"), b"x").unwrap();
    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    tree.fetch(&mut staging).unwrap();
    let taken = tree.finish(&mut staging, Path::new("/dir"));
    assert!(matches!(taken, Err(StoreError::Exists { .. })));
    assert_eq!(medium.read(Path::new("/dir/sub/precious")).unwrap(), b"x");
    staging.finish_as(Path::new("/dir"), OverwritePolicy::Replace).unwrap();
    tree.check(&medium, &store, "/dir", true);
    assert!(medium.metadata(Path::new("/.dir.xylem-part.old")).is_err());
}

#[test]
fn a_fetch_does_not_replace_published_outboards() {
    let tree = Tree::new();
    let (medium, store) = memory();
    store.put(&tree.root, ObjectPart::FileOutboards, b"whole").unwrap();
    let mut staging = tree.open(&store, Path::new(PART)).unwrap();
    tree.fetch(&mut staging).unwrap();
    tree.finish(&mut staging, Path::new("/dir")).unwrap();
    let name = store.object_path(&tree.root, ObjectPart::FileOutboards);
    assert_eq!(medium.read(&name).unwrap(), b"whole");
    let lost = store.partial_path(&tree.root, ObjectPart::FileOutboards);
    assert!(medium.metadata(&lost).is_err());
}

#[test]
fn modes_times_and_links_arrive_on_a_real_disk() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let place = tempfile::tempdir().unwrap();
    let tree = Tree::new();
    let store = Store::open(Arc::new(DiskMedium::new()), &place.path().join("store")).unwrap();
    let (part, to) = (place.path().join(".dir.xylem-part"), place.path().join("dir"));
    drop({
        let mut staging = tree.open(&store, &part).unwrap();
        tree.fetch(&mut staging).unwrap();
        staging
    });
    // A read-only file and directory of an earlier run can be completed.
    std::fs::set_permissions(part.join("large"), std::fs::Permissions::from_mode(0o444)).unwrap();
    std::fs::set_permissions(part.join("sub"), std::fs::Permissions::from_mode(0o500)).unwrap();
    let mut staging = tree.open(&store, &part).unwrap();
    assert_eq!(tree.fetch(&mut staging).unwrap(), (0, 0));
    tree.finish(&mut staging, &to).unwrap();
    for (path, (source, _)) in &tree.files {
        let path = to.join(path);
        assert!(std::fs::read(&path).unwrap() == source.bytes, "{path:?}");
        let meta = path.metadata().unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, 0o640);
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (77, 5));
    }
    let sub = to.join("sub").metadata().unwrap();
    assert_eq!((sub.permissions().mode() & 0o7777, sub.mtime()), (0o555, 3));
    assert_eq!(std::fs::read_link(to.join("link")).unwrap(), Path::new("sub/small"));
    std::fs::set_permissions(to.join("sub"), std::fs::Permissions::from_mode(0o700)).unwrap();
}

/// A fresh directory with one small file and one large one in it.
fn two_files(store: &Store, small: &[u8], large: &[u8]) -> Result<Staging, StoreError> {
    let mut staging =
        Staging::open(store, xylem_hash::hash(b"two"), Path::new(PART), &mut |path| {
            Ok([small, large].contains(&path).then_some(FileKind::File))
        })?;
    let source = Source::new(4_000, 1);
    let mut verifier = TreeVerifier::new(source.geometry(), source.root());
    let file = SmallFile { path: small, size: 4_000, root: source.root() };
    let attributes = Attributes { mode: Some(0o640), mtime: Some(time(5)) };
    staging.write_small(&file, &[source.segment(&mut verifier, 0)], &attributes)?;
    let source = Source::new(300_000, 2);
    let opened = staging.open_file(large, source.root(), source.geometry(), 0)?;
    let (mut partial, mut resumed) = opened.resume(&|_| {})?;
    source.give_rest(&mut partial, &mut resumed)?;
    partial.finish_in_place(&attributes)?;
    Ok(staging)
}

fn is_collision<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Collision { .. }))
}

#[test]
fn colliding_names_are_refused_and_replace_nothing() {
    for (one, other) in [("readme", "README"), ("caf\u{e9}", "cafe\u{301}")] {
        let (one, other) = (one.as_bytes(), other.as_bytes());
        let (medium, store) = memory();
        two_files(&store, one, other).unwrap();
        let (medium, store) = {
            drop((medium, store));
            memory()
        };
        medium.fold_names();
        assert!(is_collision(two_files(&store, one, other)), "a large file after a small one");
        let first = Path::new(PART).join(std::str::from_utf8(one).unwrap());
        assert_eq!(medium.read(&first).unwrap().len(), 4_000, "it is what it was");
        // An earlier run left this file under its own name.
        assert!(is_collision(two_files(&store, one, other)), "in a second run too");
        assert_eq!(medium.read(&first).unwrap().len(), 4_000);
        let mut staging = two_files(&store, one, b"large").unwrap();
        assert!(is_collision(staging.symlink(other, b"x")));
        assert!(is_collision(staging.hard_link(other, b"large")));
        staging.directory(b"d").unwrap();
        assert!(is_collision(staging.directory(other)));
    }
}

#[test]
fn hard_links_are_links_and_lead_nowhere_else() {
    let (medium, store) = memory();
    let mut staging = two_files(&store, b"small", b"large").unwrap();
    staging.directory(b"d").unwrap();
    assert!(staging.hard_link(b"d/again", b"large").unwrap());
    let inode = |path: &str| medium.metadata(&Path::new(PART).join(path)).unwrap().ino;
    assert_eq!(inode("d/again"), inode("large"));
    medium.create_dir(Path::new("/victim"), 0o700).unwrap();
    medium.write(Path::new("/victim/file"), b"precious").unwrap();
    medium.symlink(Path::new("/victim"), &Path::new(PART).join("planted")).unwrap();
    for (path, target) in [
        (&b"x"[..], &b"planted/file"[..]),
        (b"x", b"../victim/file"),
        (b"x", b"/victim/file"),
        (b"x", b"planted"),
        (b"x", b"d"),
        (b"x", b"missing"),
        (b"planted/x", b"large"),
        (b"../x", b"large"),
    ] {
        assert!(staging.hard_link(path, target).is_err(), "{}", target.escape_ascii());
    }
    assert_eq!(medium.list_dir(Path::new("/victim")).unwrap().len(), 1);
    // Without links: a copy, compared with the right content.
    let source = Source::new(300_000, 2);
    let copy = SmallFile { path: b"d/copy", size: 300_000, root: source.root() };
    let attributes = Attributes { mode: Some(0o640), mtime: Some(time(5)) };
    staging.copy_file(&copy, b"large", &attributes).unwrap();
    assert!(medium.read(&Path::new(PART).join("d/copy")).unwrap() == source.bytes);
    let wrong = SmallFile { path: b"d/wrong", ..copy };
    assert!(staging.copy_file(&wrong, b"small", &attributes).is_err());
}

#[test]
fn attributes_that_cannot_be_set_cost_no_content() {
    let (medium, store) = memory();
    medium.refuse_attributes();
    let mut staging = two_files(&store, b"small", b"large").unwrap();
    staging.finish_directory(b"", &Attributes { mode: Some(0o700), mtime: Some(time(1)) }).unwrap();
    let unset = staging.take_unset();
    assert_eq!(unset.errors.len(), 3, "a time, and mode and time of the directory: {unset:?}");
    assert!(staging.take_unset().errors.is_empty(), "told once");
    staging.finish_as(Path::new("/two"), OverwritePolicy::Never).unwrap();
    assert_eq!(medium.read(Path::new("/two/small")).unwrap().len(), 4_000);
    assert_eq!(medium.read(Path::new("/two/large")).unwrap().len(), 300_000);
}
