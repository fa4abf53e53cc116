use super::*;
use crate::stored::StoredIndex;
use crate::{Index, VersionPolicy};
use std::fs;
use xylem_base::FileMedium;

const ALICE: [u8; 8] = [1; 8];
const BOB: [u8; 8] = [2; 8];

/// Bob's folder, and Alice's index.
struct World {
    dir: tempfile::TempDir,
    folder: SyncFolder,
    theirs: Index,
    clock: u64,
    now: u64,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["folder", "kept", "staged"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut folder = SyncFolder::open(
            &FileMedium::default(),
            &dir.path().join("folder"),
            &dir.path().join("kept"),
            BOB,
            "bob",
        )
        .unwrap();
        folder.names.insert(ALICE, "alice".to_owned());
        let mut theirs = Index::default();
        theirs.names.insert(ALICE, "alice".to_owned());
        Self { dir, folder, theirs, clock: 0, now: 1_000 }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("folder").join(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::write(self.at(path), content).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    /// Alice changes the path to this.
    fn alice_has(&mut self, path: &str, kind: ItemKind) {
        self.clock += 1;
        let item = self.theirs.items.entry(path.into()).or_insert_with(IndexItem::none);
        item.changed(kind, ALICE, self.clock, self.clock);
    }

    fn alice_writes(&mut self, path: &str, content: &str) {
        let root = xylem_hash::hash(content.as_bytes());
        let (size, mtime) = (content.len() as u64, (1_000_000_000, 5));
        self.alice_has(path, ItemKind::File { root, size, mode: 0o640, mtime });
        let staged = self.dir.path().join("staged").join(path);
        let _ = fs::remove_dir_all(&staged);
        fs::create_dir_all(staged.parent().unwrap()).unwrap();
        fs::write(staged, content).unwrap();
    }

    /// Bob writes this at that time, and a scan sees it.
    fn bob_writes(&mut self, path: &str, content: &str, edited_ms: u64) {
        self.write(path, content);
        let (root, size) = (xylem_hash::hash(content.as_bytes()), content.len() as u64);
        let mtime = modified(&self.at(path));
        let mut item = self.item(path);
        let kind = ItemKind::File { root, size, mode: 0o640, mtime };
        item.changed(kind, BOB, edited_ms, edited_ms.max(100));
        self.folder.changes.insert(path.into(), item);
        self.folder.settle().unwrap();
    }

    /// Returns the folder's item of a path.
    fn item(&self, path: &str) -> IndexItem {
        let mut entries = self.folder.stored.entries().unwrap().map(Result::unwrap);
        entries.find(|(at, _)| at == path.as_bytes()).unwrap().1
    }

    fn hear(&mut self) -> bool {
        self.apply().complete
    }

    fn apply(&mut self) -> Applied {
        let plan = self.folder.plan(&self.theirs).unwrap();
        let wanted = plan.wanted(&self.theirs).unwrap();
        let staged = self.dir.path().join("staged");
        self.folder.apply(plan, &staged, &wanted, self.now).unwrap()
    }
}

fn modified(at: &Path) -> (i64, u32) {
    let mtime = FileMedium::default().metadata(at).unwrap().mtime;
    (mtime.secs, mtime.nanos)
}

#[test]
fn files_follow_the_other_members_changes() {
    let mut world = World::new();
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("d/a", "one");
    world.alice_writes("d/same", "one");
    world.alice_has("link", ItemKind::Symlink { target: b"d/a".to_vec() });
    assert!(world.hear());
    assert_eq!(world.read("d/a").as_deref(), Some("one"));
    assert_eq!((world.read("d/same"), world.read("link")), (world.read("d/a"), world.read("d/a")));
    assert_eq!(Some(modified(&world.at("d/a"))), Some((1_000_000_000, 5)));
    world.alice_writes("d/a", "two, and longer");
    assert!(world.hear());
    assert_eq!(world.read("d/a").as_deref(), Some("two, and longer"));
    for path in ["d/a", "d/same", "d", "link"] {
        world.alice_has(path, ItemKind::Gone);
    }
    assert!(world.hear());
    assert!(!world.at("d").exists() && world.at("link").symlink_metadata().is_err());
    let left =
        fs::read_dir(world.at(".xylem-sync")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["id"]);
}

#[cfg(target_os = "linux")]
mod attributes;
#[cfg(unix)]
mod faults;

/// Other members may still be fetching the last index, or the one before.
#[test]
fn the_two_earlier_published_indexes_stay() {
    let mut world = World::new();
    let told: Vec<_> = (0..3_u8)
        .map(|n| {
            world.folder.stored.about = vec![n];
            world.folder.settle().unwrap();
            world.folder.publish_index().unwrap()
        })
        .collect();
    let read = |path: &std::path::PathBuf| Index::decode(&fs::read(path).unwrap()).unwrap().1;
    assert_eq!(told.iter().map(read).collect::<Vec<_>>(), [[0], [1], [2]]);
}

/// A change that no scan has seen is neither replaced nor removed.
#[test]
fn concurrent_local_changes_stay() {
    let mut world = World::new();
    for path in ["replaced", "removed"] {
        world.alice_writes(path, "one");
    }
    world.hear();
    world.write("replaced", "bob's own");
    world.write("removed", "bob's too");
    world.write("new", "bob was first");
    world.alice_writes("replaced", "alice's");
    world.alice_writes("new", "alice's");
    world.alice_has("removed", ItemKind::Gone);
    assert!(!world.hear(), "another look is needed");
    assert_eq!(world.read("replaced").as_deref(), Some("bob's own"));
    assert_eq!(world.read("removed").as_deref(), Some("bob's too"));
    assert_eq!(world.read("new").as_deref(), Some("bob was first"));
}

#[test]
fn no_change_goes_through_a_symbolic_link() {
    let mut world = World::new();
    let outside = world.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "bob's").unwrap();
    world.alice_has("way", ItemKind::Symlink { target: b"../outside".to_vec() });
    world.hear();
    // An index may list a link as a directory.
    world.alice_writes("way/new", "alice's");
    world.alice_writes("way/victim", "alice's");
    world.hear();
    assert!(!outside.join("new").exists());
    assert_eq!(fs::read_to_string(outside.join("victim")).unwrap(), "bob's");
    world.alice_has("way/victim", ItemKind::Gone);
    world.hear();
    assert!(outside.join("victim").exists());
}

#[test]
fn a_directory_with_local_files_in_it_stays() {
    let mut world = World::new();
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("d/a", "one");
    world.hear();
    world.write("d/mine", "bob's");
    world.alice_has("d/a", ItemKind::Gone);
    world.alice_writes("d", "a file now");
    assert!(world.hear());
    assert_eq!(world.read("d/mine").as_deref(), Some("bob's"));
    let kept = world.item("d");
    assert_eq!(
        kept.version.order(&world.theirs.items[b"d".as_slice()].version),
        Some(std::cmp::Ordering::Greater)
    );
    let beside = copy_path(b"d", "alice", &world.theirs.items[b"d".as_slice()].kind);
    assert_eq!(world.read(std::str::from_utf8(&beside).unwrap()).as_deref(), Some("a file now"));
}

/// No other member takes the changes of one that only reads.
#[test]
fn a_reader_changes_no_version_of_a_directory_that_stays() {
    let mut world = World::new();
    world.folder.set_read_only(true);
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.hear();
    world.write("d/mine", "bob's");
    world.alice_has("d", ItemKind::Gone);
    assert!(world.hear());
    assert_eq!(world.read("d/mine").as_deref(), Some("bob's"));
    world.folder.notice_emptied();
    assert!(!world.folder.take_uncovered(), "nothing is to be done until something changes here");
    // The next one is the same directory, with the permissions that it has now.
    world.alice_has("d", ItemKind::Directory { mode: 0o700 });
    assert!(world.hear());
    assert_eq!((modes(&world, "d"), world.read("d/mine").as_deref()), (0o700, Some("bob's")));
    // It goes with the last thing in it.
    world.alice_has("d", ItemKind::Gone);
    world.hear();
    fs::remove_file(world.at("d/mine")).unwrap();
    world.folder.notice_emptied();
    assert!(world.folder.take_uncovered() && world.hear());
    world.folder.notice_emptied();
    assert!(!world.at("d").exists() && !world.folder.take_uncovered());
    assert_eq!(world.folder.state(), world.theirs.state());
}

#[test]
fn a_folder_that_is_not_mounted_is_not_an_empty_one() {
    let mut world = World::new();
    world.alice_writes("a", "one");
    world.hear();
    fs::remove_dir_all(world.at(".xylem-sync")).unwrap();
    assert!(matches!(world.folder.read_rules(), Err(FolderError::NotThere(_))));
    let kept = world.dir.path().join("kept");
    assert!(SyncFolder::open(&FileMedium::default(), &world.at(""), &kept, BOB, "bob").is_err());
}

/// The index shows what is a change: it is not lost with a damaged file.
#[test]
fn a_damaged_index_is_restored_from_the_published_copy() {
    let mut world = World::new();
    world.alice_writes("a", "one");
    world.hear();
    let told = world.folder.publish_index().unwrap();
    let (version, state) = (world.item("a").version, world.folder.state());
    let (root, kept) = (world.dir.path().join("folder"), world.dir.path().join("kept"));
    let index = kept.join("index");
    let whole = fs::read(&index).unwrap();
    for damaged in [&whole[..whole.len() - 40], b"", &[&whole[..60], &[0; 80]].concat()] {
        fs::write(&index, damaged).unwrap();
        world.folder = SyncFolder::open(&FileMedium::default(), &root, &kept, BOB, "bob").unwrap();
        assert_eq!((world.item("a").version, world.folder.state()), (version.clone(), state));
        assert!(StoredIndex::open(&FileMedium::default(), &index).is_ok(), "it is whole again");
    }
    // Without any copy, the folder is refused.
    fs::write(&index, &whole[..20]).unwrap();
    fs::remove_file(told).unwrap();
    let refused = SyncFolder::open(&FileMedium::default(), &root, &kept, BOB, "bob");
    assert!(matches!(refused, Err(FolderError::Index { .. })));
    let old = [b"xylem sync index 2\n".as_slice(), &whole[19..]].concat();
    fs::write(&index, old).unwrap();
    let why = SyncFolder::open(&FileMedium::default(), &root, &kept, BOB, "bob")
        .err()
        .unwrap()
        .to_string();
    assert!(why.contains("an older version"), "{why}");
}

/// Lists the trash by path, without the days.
fn trash(world: &World) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![world.at(".xylem-sync/trash")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
                continue;
            }
            let content = match fs::read_link(entry.path()) {
                Ok(target) => target.to_string_lossy().into_owned(),
                Err(_) => fs::read_to_string(entry.path()).unwrap(),
            };
            let path = entry.path();
            let path = path.strip_prefix(world.at(".xylem-sync/trash")).unwrap();
            let path: PathBuf = path.components().skip(1).collect();
            found.push((path.to_string_lossy().into_owned(), content));
        }
    }
    found.sort();
    found
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect()
}

#[test]
fn replaced_and_removed_files_are_kept() {
    let mut world = World::new();
    world.folder.keep_versions(VersionPolicy::default());
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("d/a", "one");
    world.alice_writes("d/b", "bob's only copy");
    world.alice_writes("becomes", "a directory");
    world.alice_has("link", ItemKind::Symlink { target: b"d/a".to_vec() });
    assert!(world.hear());
    assert_eq!((world.folder.kept_count(), trash(&world)), (0, vec![]));
    world.alice_writes("d/a", "two");
    world.alice_has("becomes", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("link", "a file");
    assert!(world.hear());
    assert_eq!(world.folder.kept_count(), 3);
    world.alice_writes("d/a", "three");
    assert!(world.hear());
    for path in ["d/a", "d/b", "d"] {
        world.alice_has(path, ItemKind::Gone);
    }
    assert!(world.hear());
    assert!(!world.at("d").exists());
    // The version between two others within 30 s is not kept.
    let all = [
        ("becomes", "a directory"),
        ("d/a", "one"),
        ("d/a", "three"),
        ("d/b", "bob's only copy"),
        ("link", "d/a"),
    ];
    assert_eq!(trash(&world), pairs(&all));
    // Another mode is not another content.
    world.alice_writes("link", "a file");
    let (root, size) = (xylem_hash::hash(b"a file"), 6);
    world.alice_has("link", ItemKind::File { root, size, mode: 0o600, mtime: (1_000_000_000, 6) });
    assert!(world.hear());
    assert_eq!((world.folder.kept_count(), trash(&world)), (0, pairs(&all)));
}

/// A content that is elsewhere in the folder is not kept in the trash as well.
#[test]
fn moved_files_are_not_kept() {
    let mut world = World::new();
    world.folder.keep_versions(VersionPolicy::default());
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("d/a", "one");
    world.alice_writes("copy", "two");
    world.alice_writes("of", "two");
    world.alice_has("d/link", ItemKind::Symlink { target: b"a".to_vec() });
    assert!(world.hear());
    world.alice_has("e", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("e/a", "one");
    world.alice_has("e/link", ItemKind::Symlink { target: b"a".to_vec() });
    for path in ["d/a", "d/link", "d", "copy"] {
        world.alice_has(path, ItemKind::Gone);
    }
    assert!(world.hear());
    assert_eq!((world.folder.kept_count(), trash(&world)), (0, vec![]));
    assert_eq!(world.read("e/a").as_deref(), Some("one"));
    // Bob has changed the only other file with this content.
    world.alice_writes("copy", "one");
    assert!(world.hear());
    world.write("e/a", "bob's own");
    world.alice_has("copy", ItemKind::Gone);
    assert!(world.hear());
    // The last copy is removed, and a file is moved over another one.
    world.alice_writes("f", "three");
    assert!(world.hear());
    world.alice_writes("of", "three");
    world.alice_has("f", ItemKind::Gone);
    assert!(world.hear());
    assert_eq!(world.folder.kept_count(), 1);
    assert_eq!(trash(&world), pairs(&[("copy", "one"), ("of", "two")]));
}

#[test]
fn concurrent_local_changes_are_not_moved_to_the_trash() {
    let mut world = World::new();
    world.folder.keep_versions(VersionPolicy::default());
    for path in ["replaced", "removed"] {
        world.alice_writes(path, "one");
    }
    world.hear();
    world.write("replaced", "bob's own");
    world.write("removed", "bob's too");
    world.alice_writes("replaced", "alice's");
    world.alice_has("removed", ItemKind::Gone);
    assert!(!world.hear(), "another look is needed");
    assert_eq!(world.read("replaced").as_deref(), Some("bob's own"));
    assert_eq!(world.read("removed").as_deref(), Some("bob's too"));
    assert_eq!((world.folder.kept_count(), trash(&world)), (0, vec![]));
}

/// A file that cannot be kept is not removed.
#[test]
fn a_file_that_the_trash_cannot_take_stays() {
    let mut world = World::new();
    world.folder.keep_versions(VersionPolicy::default());
    world.alice_writes("a", "one");
    world.hear();
    fs::write(world.at(".xylem-sync/trash"), "in the way").unwrap();
    world.alice_has("a", ItemKind::Gone);
    assert!(!world.hear());
    assert_eq!(world.read("a").as_deref(), Some("one"));
    fs::remove_file(world.at(".xylem-sync/trash")).unwrap();
    assert!(!world.hear(), "it is tried again after a pause");
    world.now += 600_000;
    assert!(world.hear());
    assert_eq!(trash(&world), pairs(&[("a", "one")]));
}

fn counts(applied: &Applied) -> (u64, u64, bool) {
    (applied.put, applied.removed, applied.complete)
}

fn modes(world: &World, path: &str) -> u32 {
    FileMedium::default().metadata(&world.at(path)).unwrap().mode
}

#[cfg(unix)]
fn inode(world: &World, path: &str) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&world.at(path).symlink_metadata().unwrap())
}

/// Permissions and times are changed on the existing file: what a program writes to the open file is what all members
/// get.
#[cfg(unix)]
#[test]
fn permissions_and_times_are_changed_in_place() {
    use std::io::Write as _;
    let mut world = World::new();
    world.folder.keep_versions(VersionPolicy::default());
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("d/log", "one");
    assert!(world.hear());
    let (before, mut open) = (inode(&world, "d/log"), {
        FileMedium::default().set_mode(&world.at("d/log"), 0o640).unwrap();
        fs::File::options().append(true).open(world.at("d/log")).unwrap()
    });
    let root = xylem_hash::hash(b"one");
    for mode in [0o755, 0o200, 0o444] {
        let mtime = (1_000_000_000 + i64::from(mode), 7);
        world.alice_has("d/log", ItemKind::File { root, size: 3, mode, mtime });
        world.alice_has("d", ItemKind::Directory { mode: mode | 0o500 });
        assert!(world.hear());
        assert_eq!((modes(&world, "d/log"), modes(&world, "d")), (mode, mode | 0o500));
        assert_eq!(Some(modified(&world.at("d/log"))), Some(mtime));
    }
    assert_eq!((inode(&world, "d/log"), world.folder.kept_count()), (before, 0));
    open.write_all(b" more").unwrap();
    assert_eq!(world.read("d/log").as_deref(), Some("one more"));
    // A concurrent local change is left for the next scan.
    world.alice_has("d/log", ItemKind::File { root, size: 3, mode: 0o600, mtime: (5, 0) });
    assert!(!world.hear());
    assert_eq!(modes(&world, "d/log"), 0o444);
    // Bits that are not exchanged stay.
    FileMedium::default().set_mode(&world.at("d"), 0o2544).unwrap();
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.hear();
    world.alice_has("d", ItemKind::Directory { mode: 0o700 });
    world.hear();
    assert_eq!(modes(&world, "d"), 0o2700);
    FileMedium::default().set_mode(&world.at("d"), 0o755).unwrap();
}

/// A renamed file stays the same file here: nothing is fetched or copied, and a program that has it open goes on
/// writing to it.
#[cfg(unix)]
#[test]
fn a_file_that_is_renamed_is_renamed_here() {
    use std::io::Write as _;
    let mut world = World::new();
    world.folder.keep_versions(VersionPolicy::default());
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("d/log", "one");
    world.alice_writes("becomes", "two");
    world.alice_writes("moves", "three");
    assert!(world.hear());
    let log = inode(&world, "d/log");
    FileMedium::default().set_mode(&world.at("d/log"), 0o640).unwrap();
    let mut open = fs::File::options().append(true).open(world.at("d/log")).unwrap();
    let renamed = |world: &mut World, from: &str, to: &str, content: &str, mode| {
        let (root, size) = (xylem_hash::hash(content.as_bytes()), content.len() as u64);
        world.alice_has(from, ItemKind::Gone);
        world.alice_has(to, ItemKind::File { root, size, mode, mtime: (1_000_000_000, 5) });
    };
    renamed(&mut world, "d/log", "e/log.1", "one", 0o600);
    world.alice_has("d", ItemKind::Gone);
    world.alice_has("e", ItemKind::Directory { mode: 0o750 });
    // A directory replaces a file, before a file comes into it.
    renamed(&mut world, "moves", "becomes/it", "three", 0o640);
    world.alice_has("becomes", ItemKind::Directory { mode: 0o755 });
    fs::remove_dir_all(world.dir.path().join("staged")).unwrap();
    let applied = world.apply();
    assert!(applied.complete, "{applied:?}, {:?}", world.folder.obstacles);
    assert_eq!(world.read("becomes/it").as_deref(), Some("three"));
    assert_eq!(trash(&world), pairs(&[("becomes", "two")]));
    assert_eq!((inode(&world, "e/log.1"), modes(&world, "e/log.1")), (log, 0o600));
    assert_eq!((modes(&world, "e"), world.at("d").exists()), (0o750, false));
    open.write_all(b" more").unwrap();
    assert_eq!(world.read("e/log.1").as_deref(), Some("one more"));
}

/// Root ignores permissions: then the test shows only that they are unchanged.
#[cfg(unix)]
#[test]
fn files_in_read_only_directories_are_put_and_removed() {
    let mut world = World::new();
    world.folder.keep_versions(VersionPolicy::default());
    for dir in ["ro", "ro/none", "ro/none/sub"] {
        world.alice_has(dir, ItemKind::Directory { mode: 0o755 });
    }
    for path in ["ro/f", "ro/none/g", "ro/none/sub/h"] {
        world.alice_writes(path, path);
    }
    let lock = |world: &mut World| {
        for (dir, mode) in [("ro", 0o555), ("ro/none", 0o000), ("ro/none/sub", 0o400)] {
            world.alice_has(dir, ItemKind::Directory { mode });
        }
    };
    lock(&mut world);
    assert_eq!(counts(&world.apply()), (6, 0, true));
    assert_eq!(modes(&world, "ro"), 0o555);
    world.alice_writes("ro/none/sub/h", "changed");
    world.alice_writes("ro/none/sub/new", "new");
    world.alice_has("ro/f", ItemKind::Gone);
    world.alice_has(
        "ro/none/g",
        ItemKind::File {
            root: xylem_hash::hash(b"ro/none/g"),
            size: 9,
            mode: 0o400,
            mtime: (9, 9),
        },
    );
    assert_eq!(counts(&world.apply()), (3, 1, true));
    assert_eq!(modes(&world, "ro"), 0o555);
    let unlocked =
        UnlockedParents::on_the_way(&FileMedium::default(), &world.at(""), b"ro/none/sub/h")
            .unwrap();
    assert_eq!(world.read("ro/none/sub/h").as_deref(), Some("changed"));
    assert_eq!(modes(&world, "ro/none/g"), 0o400);
    drop(unlocked);
    for path in ["ro/none/sub/h", "ro/none/sub/new", "ro/none/sub", "ro/none/g", "ro/none", "ro"] {
        world.alice_has(path, ItemKind::Gone);
    }
    assert_eq!(counts(&world.apply()), (0, 6, true));
    assert!(!world.at("ro").exists());
}

/// One place that fails is noted, and everything else is done; the place is tried again when it is due.
#[test]
fn a_failed_place_does_not_stop_the_others() {
    let mut world = World::new();
    world.write("taken", "bob's own, that no look has seen");
    for path in ["a", "taken", "z"] {
        world.alice_writes(path, path);
    }
    let applied = world.apply();
    assert_eq!((applied.put, applied.complete), (2, false));
    assert_eq!((world.read("a").as_deref(), world.read("z").as_deref()), (Some("a"), Some("z")));
    assert_eq!(world.folder.obstacles.count(), 0, "a look may settle it");
    world.alice_writes("taken", "alice's");
    assert!(!world.hear());
    let obstacle = world.folder.obstacles.get(b"taken").unwrap().clone();
    assert_eq!((obstacle.kind, obstacle.tried), (ObstacleKind::NotPlaced, 1));
    // Before that time it is not tried.
    world.alice_writes("taken", "alice's");
    let applied = world.apply();
    assert_eq!((applied.put, applied.complete), (0, false));
    assert_eq!(world.folder.obstacles.get(b"taken"), Some(&obstacle));
    fs::remove_file(world.at("taken")).unwrap();
    world.alice_writes("taken", "alice's");
    world.now = obstacle.again_ms;
    assert_eq!(world.apply().put, 1);
    assert_eq!(world.folder.obstacles.count(), 0);
}

/// A copy that exists with the right content is no failure; one with another content is left alone.
#[test]
fn an_existing_conflict_copy_counts_as_done() {
    let mut world = World::new();
    world.folder.keep_versions(VersionPolicy::default());
    world.alice_writes("a", "one");
    world.alice_writes("b", "one");
    assert!(world.hear());
    for path in ["a", "b"] {
        world.bob_writes(path, "bob's", 1);
        world.alice_writes(path, "alice's");
    }
    let item = world.item("a");
    let copy =
        |path: &str| String::from_utf8(copy_path(path.as_bytes(), "bob", &item.kind)).unwrap();
    world.write(&copy("a"), "bob's");
    world.write(&copy("b"), "else!");
    let applied = world.apply();
    assert_eq!(applied.conflicts, [b"a"]);
    assert_eq!(applied.copies, [(copy("a").into_bytes(), "bob".to_owned())]);
    assert_eq!(world.read("a").as_deref(), Some("alice's"));
    assert_eq!(world.read(&copy("a")).as_deref(), Some("bob's"));
    assert_eq!((world.read("b").as_deref(), applied.complete), (Some("bob's"), false));
    assert_eq!(applied.noted, [b"b"]);
    assert_eq!(world.read(&copy("b")).as_deref(), Some("else!"));
    let why = &world.folder.obstacles.get(b"b").unwrap().why;
    assert!(why.contains("the name of its conflict copy is taken"), "{why}");
}

/// Both versions are kept, whichever wins; the losing one is moved once the other is there.
#[test]
fn both_versions_of_a_conflict_are_kept_and_reported() {
    let mut world = World::new();
    world.alice_writes("ours", "one");
    world.alice_writes("theirs", "one");
    assert!(world.hear());
    world.bob_writes("theirs", "bob's, earlier", 1);
    world.alice_writes("theirs", "alice's, later");
    world.bob_writes("ours", "bob's, later", 1_000_000);
    world.alice_writes("ours", "alice's, earlier");
    // A content that was not fetched moves nothing.
    let staged = world.dir.path().join("staged");
    fs::rename(&staged, world.dir.path().join("away")).unwrap();
    assert_eq!(world.apply(), Applied::default());
    assert_eq!(world.read("theirs").as_deref(), Some("bob's, earlier"));
    fs::rename(world.dir.path().join("away"), &staged).unwrap();
    let applied = world.apply();
    assert!(applied.complete);
    assert_eq!(applied.conflicts, [b"ours".to_vec(), b"theirs".to_vec()]);
    let whose: Vec<&str> = applied.copies.iter().map(|(_, whose)| whose.as_str()).collect();
    assert_eq!(whose, ["alice", "bob"]);
    assert_eq!(world.read("ours").as_deref(), Some("bob's, later"));
    assert_eq!(world.read("theirs").as_deref(), Some("alice's, later"));
    let content = |n: usize| world.read(std::str::from_utf8(&applied.copies[n].0).unwrap());
    assert_eq!(content(0).as_deref(), Some("alice's, earlier"));
    assert_eq!(content(1).as_deref(), Some("bob's, earlier"));
}

/// A damaged record of work in progress is ignored; one that cannot be read is an error.
#[test]
fn an_unreadable_record_of_work_in_progress_is_an_error() {
    let world = World::new();
    let (root, kept) = (world.at(""), world.dir.path().join("kept"));
    fs::write(kept.join("pending"), "no index").unwrap();
    assert!(
        SyncFolder::open(&FileMedium::default(), &root, &kept, BOB, "bob").is_ok(),
        "what was put is a change of ours"
    );
    fs::remove_file(kept.join("pending")).unwrap();
    fs::create_dir(kept.join("pending")).unwrap();
    assert!(matches!(
        SyncFolder::open(&FileMedium::default(), &root, &kept, BOB, "bob"),
        Err(FolderError::Store(_))
    ));
}
