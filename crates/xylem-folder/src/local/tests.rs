//! Scans real folders, and checks what is published and what the index holds afterwards.

use super::*;
use crate::stored::IndexSource;
use std::cmp::Ordering;
use std::fs;
use std::time::Duration;
use xylem_base::{Stop, UnixTime};
use xylem_files::walk::Selection;
use xylem_files::{LibraryEvent, SkipReason};
use xylem_packet::{Component, Name};
use xylem_publish::publish;

const ME: [u8; 8] = [1; 8];

struct World {
    dir: tempfile::TempDir,
    folder: SyncFolder,
    now_ms: u64,
    skipped: BTreeMap<String, SkipReason>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["folder", "kept", "store"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let base = dir.path().canonicalize().unwrap();
        let folder = SyncFolder::open(
            &FileMedium::default(),
            &base.join("folder"),
            &base.join("kept"),
            ME,
            "me",
        )
        .unwrap();
        Self { dir, folder, now_ms: 1_800_000_000_000, skipped: BTreeMap::new() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.root.join(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), content).unwrap();
    }

    /// Scans some seconds later. `meanwhile` is called for each path that is left out of the publication.
    fn look_while(&mut self, seconds: u64, meanwhile: &mut dyn FnMut(&str)) {
        self.now_ms += seconds * 1_000;
        self.folder.read_rules().unwrap();
        let held = self.folder.hold(self.now_ms);
        let exclude = self.folder.rules().map(<[String]>::to_vec);
        let selection = Selection { exclude, omitted: held, in_step: true, ..Selection::default() };
        let store_dir = self.dir.path().join("store");
        let store = Store::open(xylem_base::disk(), &store_dir).unwrap();
        let mut skipped = BTreeMap::new();
        let root = self.folder.root.clone();
        let name = |_: &[u8]| -> Name { [Component::generic(b"x")].into_iter().collect() };
        let now = UnixTime::new(Duration::from_secs(1));
        let mut told = |event| {
            if let LibraryEvent::Skipped { path, why } = event {
                let path = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                meanwhile(&path);
                skipped.insert(path, why);
            }
        };
        let published = publish(&store, &root, &name, &selection, now, &Stop::new(), &mut told);
        let (published, _) = published.unwrap();
        let root = published.manifest.root;
        self.folder.record_scan(&store_dir, &root, b"", self.now_ms).unwrap();
        skipped.remove(OWN);
        self.skipped = skipped;
    }

    fn look(&mut self, seconds: u64) {
        self.look_while(seconds, &mut |_| {});
    }

    fn item(&self, path: &str) -> Option<IndexItem> {
        let mut entries = self.folder.stored.entries().unwrap().map(Result::unwrap);
        entries.find(|(at, _)| at == path.as_bytes()).map(|(_, item)| item)
    }

    fn is_gone(&self, path: &str) -> bool {
        self.item(path).unwrap().kind.is_gone()
    }
}

/// Covers a socket, a tree that is too deep, and a file that is written to while it is read.
#[test]
fn an_unshareable_file_does_not_stop_the_others() {
    let mut world = World::new();
    world.write("a", "one");
    world.write("z", "one");
    std::os::unix::net::UnixListener::bind(world.at("socket")).unwrap();
    let deep = "d/".repeat(520);
    fs::create_dir_all(world.at(&deep)).unwrap();
    let a = world.at("a");
    // The socket is reported after `a` was found, and before `a` is hashed.
    let mut length = 3;
    world.look_while(0, &mut |path| {
        if path == "socket" {
            length += 1;
            fs::write(&a, "x".repeat(length)).unwrap();
        }
    });
    assert_eq!(world.skipped["socket"], SkipReason::NotAFile);
    assert!(matches!(&world.skipped["a"], SkipReason::Changing(_)), "{:?}", world.skipped);
    let too_deep: Vec<_> = world.skipped.iter().filter(|(path, _)| path.len() > 100).collect();
    assert!(matches!(too_deep[..], [(_, SkipReason::NotListed(_))]), "{too_deep:?}");
    assert!(world.item("a").is_none() && world.item("z").is_some());
    assert!(
        world.item(&deep[..2 * 512 - 1]).is_some() && world.item(&deep[..2 * 513 - 1]).is_none()
    );
    world.look(1);
    assert!(world.item("a").is_some(), "it rests");
}

#[cfg(target_os = "linux")]
mod attributes;

/// Other members would remove all files.
#[test]
fn a_missing_listing_is_no_empty_folder() {
    let mut world = World::new();
    world.write("a", "one");
    world.look(0);
    let (store, unknown) = (world.dir.path().join("store"), xylem_hash::hash(b"no listing"));
    let failed = world.folder.record_scan(&store, &unknown, b"", world.now_ms).unwrap_err();
    assert!(matches!(&failed, FolderError::Store(StoreError::NotFound { .. })), "{failed}");
    assert!(!world.is_gone("a"));
    world.look(1);
    assert!(!world.is_gone("a"));
    // A folder that is empty has a listing, too.
    fs::remove_file(world.at("a")).unwrap();
    world.look(60);
    assert!(world.is_gone("a"));
}

/// Size and time are restored; only the change time shows the write.
#[test]
fn a_file_written_during_its_read_is_not_sent() {
    let mut world = World::new();
    world.write("a", "one");
    std::os::unix::net::UnixListener::bind(world.at("socket")).unwrap();
    let a = world.at("a");
    let then = a.metadata().unwrap().modified().unwrap();
    // Longer than a tick of the file system's clock.
    std::thread::sleep(Duration::from_millis(60));
    world.look_while(0, &mut |path| {
        if path == "socket" {
            fs::write(&a, "two").unwrap();
            fs::File::options().write(true).open(&a).unwrap().set_modified(then).unwrap();
        }
    });
    assert!(matches!(&world.skipped["a"], SkipReason::Changing(_)), "{:?}", world.skipped);
    assert!(world.item("a").is_none());
}

#[test]
fn other_content_of_the_same_size_and_time_is_sent() {
    let mut world = World::new();
    world.write("a", "one");
    world.look(0);
    let version = world.item("a").unwrap().version;
    std::thread::sleep(Duration::from_millis(60));
    let then = world.at("a").metadata().unwrap().modified().unwrap();
    world.write("a", "two");
    fs::File::options().write(true).open(world.at("a")).unwrap().set_modified(then).unwrap();
    world.look(60);
    assert_eq!(world.item("a").unwrap().version.order(&version), Some(Ordering::Greater));
}

#[test]
fn others_keep_the_earlier_version_of_a_held_file() {
    let mut world = World::new();
    world.write("log", "1");
    world.write("other", "1");
    world.look(0);
    // The first changes are sent at once.
    for text in ["first", "second"] {
        let before = world.item("log").unwrap().version;
        world.write("log", text);
        world.look(1);
        assert_eq!(world.item("log").unwrap().version.order(&before), Some(Ordering::Greater));
    }
    let (version, state) = (world.item("log").unwrap().version, world.folder.state());
    for second in 1..10 {
        world.write("log", &"x".repeat(second + 1));
        world.look(1);
        let held = world.item("log").unwrap();
        assert!(held.absent && held.version == version, "{second}");
        assert!(world.folder.needs_no_scan(b"log") && !world.folder.needs_no_scan(b"other"));
        assert_eq!(world.folder.state_as_held(), state, "nobody need hear of it");
        let why = world.folder.obstacles.get(b"log").unwrap();
        assert_eq!((why.kind, why.tried), (ObstacleKind::Busy, 1));
    }
    world.write("new", "1");
    world.look(0);
    assert_ne!(world.folder.state_as_held(), state, "and of all else they do");
    world.write("log", "after ten seconds");
    world.look(1);
    let sent = world.item("log").unwrap();
    assert!(!sent.absent && sent.version.order(&version) == Some(Ordering::Greater));
    assert!(world.folder.take_uncovered() && !world.folder.take_uncovered());
    // A held file that is removed counts as removed.
    world.write("log", "again");
    world.look(1);
    assert!(world.item("log").unwrap().absent);
    fs::remove_file(world.at("log")).unwrap();
    world.look(1);
    assert!(world.is_gone("log"));
}

#[test]
fn removing_a_rule_restores_paths_and_removes_nothing() {
    let mut world = World::new();
    world.write("cache/x", "one");
    world.write("cache/y", "one");
    world.write("f", "one");
    world.look(0);
    world.write(".xylemignore", "cache\n");
    world.look(60);
    assert!(world.item("cache/x").unwrap().absent && world.item(".xylemignore").is_none());
    assert!(
        world.folder.needs_no_scan(b"cache/new") && !world.folder.needs_no_scan(b".xylemignore")
    );
    fs::remove_file(world.at("cache/y")).unwrap();
    world.look(60);
    assert!(world.item("cache/y").unwrap().absent);
    world.folder.take_uncovered();
    fs::remove_file(world.at(".xylemignore")).unwrap();
    world.look(60);
    assert!(!world.item("cache/x").unwrap().absent);
    assert!(world.item("cache/y").is_none(), "nobody has removed it: others bring it");
    assert!(world.folder.take_uncovered(), "and what they have changed under the rule");
    // A file that is removed while no rule covers it counts as removed.
    fs::remove_file(world.at("f")).unwrap();
    world.look(60);
    assert!(world.is_gone("f"));
}

#[test]
fn a_new_marker_removes_no_files_of_others() {
    let mut world = World::new();
    world.write("a", "one");
    world.write("b", "one");
    world.look(0);
    for remove_all in [true, false] {
        let own = world.at(OWN);
        // The user recreated the directory by hand, as advised; or another file system is mounted.
        if remove_all {
            fs::remove_dir_all(&own).unwrap();
            fs::create_dir(&own).unwrap();
        } else {
            fs::write(own.join(MARKER), "0".repeat(64)).unwrap();
        }
        fs::remove_file(world.at("a")).unwrap();
        world.look(60);
        assert!(world.item("a").is_none() && world.item("b").is_some());
        assert!(world.folder.take_uncovered());
        world.write("a", "one");
        world.look(60);
    }
    // From then on, removals count again.
    fs::remove_file(world.at("a")).unwrap();
    world.look(60);
    assert!(world.is_gone("a"));
}

/// Others have seen the earlier numbers of this member at the path: what it writes there has to be new to them.
#[test]
fn a_change_has_a_larger_number_than_all_earlier_ones_though_the_clock_was_set_back() {
    let mut world = World::new();
    world.write("a.tmp", "first");
    world.look(1);
    let seen_by_others = world.item("a.tmp").unwrap().version;
    world.write(".xylemignore", "*.tmp\n");
    world.look(1);
    fs::remove_file(world.at("a.tmp")).unwrap();
    world.look(1);
    world.write(".xylemignore", "\n");
    world.look(1);
    assert!(world.item("a.tmp").is_none(), "it is forgotten");
    world.now_ms -= 3_600_000;
    world.write("a.tmp", "second");
    world.look(1);
    assert!(!seen_by_others.has_seen(world.item("a.tmp").unwrap().content));
    // The same after a restart without its index, by the numbers of its statements.
    world.now_ms -= 3_600_000;
    world.folder.raise_numbers(seen_by_others.newest() + 1_000_000);
    world.write("b", "new");
    world.look(1);
    assert!(world.item("b").unwrap().content.number > seen_by_others.newest() + 1_000_000);
}

#[test]
fn an_unreadable_file_is_not_taken_for_removed() {
    use std::os::unix::fs::PermissionsExt;
    let mut world = World::new();
    world.write("d/e/a", "one");
    world.write("f", "one");
    world.look(0);
    let set = |path: PathBuf, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let (d, f) = (world.at("d"), world.at("f"));
    set(d.clone(), 0);
    set(f.clone(), 0);
    if fs::read(&f).is_ok() {
        // Root can read all files.
        return;
    }
    world.write("g", "one");
    world.look(60);
    for path in ["d/e/a", "d/e", "f"] {
        assert!(world.item(path).unwrap().absent, "{path}");
    }
    assert!(world.item("g").is_some());
    let unreadable = |why: &SkipReason| matches!(why, SkipReason::CannotRead(_));
    assert!(unreadable(&world.skipped["d"]) && unreadable(&world.skipped["f"]));
    set(d, 0o755);
    set(f, 0o644);
    world.look(60);
    for path in ["d/e/a", "d/e", "f"] {
        assert!(!world.item(path).unwrap().absent, "{path}");
    }
}

/// Size and time are as before, and no scan has seen the write: an incoming change waits for the next scan.
#[test]
fn a_write_unseen_by_scans_is_not_overwritten_or_moved() {
    let mut world = World::new();
    for path in ["removed", "renamed", "replaced", "as-it-was"] {
        world.write(path, &format!("content of {path}"));
    }
    world.look(0);
    std::thread::sleep(Duration::from_millis(60));
    let silent = |world: &World, path: &str| {
        let then = world.at(path).metadata().unwrap().modified().unwrap();
        world.write(path, &format!("CONTENT OF {path}"));
        fs::File::options().write(true).open(world.at(path)).unwrap().set_modified(then).unwrap();
    };
    for path in ["removed", "renamed", "replaced"] {
        silent(&world, path);
    }
    // Another member has changed all of the files.
    let (staged, mut theirs, now_ms) =
        (world.dir.path().join("staged"), Index::default(), world.now_ms + 1_000);
    fs::create_dir(&staged).unwrap();
    let mut has = |path: &str, kind: ItemKind| {
        let mut item = world.item(path).unwrap_or_else(IndexItem::none);
        item.changed(kind, [2; 8], now_ms, now_ms);
        theirs.items.insert(path.into(), item);
    };
    let new = |content: &str, at: &str| {
        fs::write(staged.join(at), content).unwrap();
        let (root, size) = (xylem_hash::hash(content.as_bytes()), content.len() as u64);
        ItemKind::File { root, size, mode: 0o644, mtime: (1_000_000_000, 5) }
    };
    has("moved", world.item("renamed").unwrap().kind);
    for path in ["removed", "renamed"] {
        has(path, ItemKind::Gone);
    }
    has("replaced", new("other", "replaced"));
    has("as-it-was", new("others", "as-it-was"));
    let plan = world.folder.plan(&theirs).unwrap();
    let wanted = plan.wanted(&theirs).unwrap();
    let applied = world.folder.apply(plan, &staged, &wanted, now_ms).unwrap();
    assert!(!applied.complete);
    for path in ["removed", "renamed", "replaced"] {
        let content = fs::read_to_string(world.at(path)).unwrap();
        assert_eq!(content, format!("CONTENT OF {path}"));
    }
    assert_eq!(fs::read_to_string(world.at("as-it-was")).unwrap(), "others");
    assert!(!world.at("moved").exists());
    // The next scan sees the writes, and then nothing stands in the way.
    world.look(1);
    let plan = world.folder.plan(&theirs).unwrap();
    assert!(plan.put.iter().any(|place| place.path == b"replaced" && place.losing.is_some()));
    assert!(plan.removed.is_empty(), "what was changed is not removed");
}
