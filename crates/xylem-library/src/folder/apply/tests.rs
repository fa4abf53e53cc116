use super::*;
use crate::folder::stored::Stored;
use crate::folder::{Index, Vector, merge};

const ALICE: [u8; 8] = [1; 8];
const BOB: [u8; 8] = [2; 8];

/// Bob's folder, and what Alice tells of hers.
struct World {
    dir: tempfile::TempDir,
    folder: Folder,
    theirs: Index,
    clock: u64,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["folder", "kept", "staged"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut folder =
            Folder::open(&dir.path().join("folder"), &dir.path().join("kept"), BOB, "bob").unwrap();
        folder.names.insert(ALICE, "alice".to_owned());
        let mut theirs = Index::default();
        theirs.names.insert(ALICE, "alice".to_owned());
        Self { dir, folder, theirs, clock: 0 }
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

    /// Alice has this there now.
    fn alice_has(&mut self, path: &str, kind: ItemKind) {
        self.clock += 1;
        let item = self.theirs.items.entry(path.into()).or_insert_with(|| Item {
            kind: ItemKind::Gone,
            version: Vector::default(),
            by: ALICE,
            absent: false,
        });
        item.version.changed(ALICE, self.clock);
        item.kind = kind;
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

    /// What is known here of a path.
    fn item(&self, path: &str) -> Item {
        let mut entries = self.folder.stored.entries().unwrap().map(Result::unwrap);
        entries.find(|(at, _)| at == path.as_bytes()).unwrap().1
    }

    fn hear(&mut self) -> bool {
        let plan = merge(&self.folder.stored, &self.theirs, &|_, _| false).unwrap();
        let wanted = plan.wanted(&self.theirs).unwrap();
        let staged = self.dir.path().join("staged");
        self.folder.apply(plan, &staged, &wanted, 1000).unwrap()
    }
}

#[test]
fn what_alice_has_comes_and_goes() {
    let mut world = World::new();
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("d/a", "one");
    world.alice_writes("d/same", "one");
    world.alice_has("link", ItemKind::Symlink { target: b"d/a".to_vec() });
    assert!(world.hear());
    assert_eq!(world.read("d/a").as_deref(), Some("one"));
    assert_eq!((world.read("d/same"), world.read("link")), (world.read("d/a"), world.read("d/a")));
    assert_eq!(modified(&world.at("d/a").metadata().unwrap()), Some((1_000_000_000, 5)));
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

/// Others may be at the index that was told before, or at the one before that.
#[test]
fn the_two_indexes_that_were_told_before_stay() {
    let mut world = World::new();
    let told: Vec<_> = (0..3_u8)
        .map(|n| {
            world.folder.stored.about = vec![n];
            world.folder.settle().unwrap();
            world.folder.tell().unwrap()
        })
        .collect();
    let read = |path: &std::path::PathBuf| Index::decode(&fs::read(path).unwrap()).unwrap().1;
    assert_eq!(told.iter().map(read).collect::<Vec<_>>(), [[0], [1], [2]]);
}

/// What nobody has looked at yet is neither replaced nor removed.
#[test]
fn what_was_changed_here_meanwhile_stays() {
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
fn nothing_is_done_through_a_link() {
    let mut world = World::new();
    let outside = world.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "bob's").unwrap();
    world.alice_has("way", ItemKind::Symlink { target: b"../outside".to_vec() });
    world.hear();
    // An index may well say that a link is a directory.
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
fn a_directory_with_something_of_ours_in_it_stays() {
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
    let beside = aside(b"d", "alice", xylem_hash::hash(b"a file now").as_bytes());
    assert_eq!(world.read(std::str::from_utf8(&beside).unwrap()).as_deref(), Some("a file now"));
}

#[test]
fn a_folder_that_is_not_mounted_is_not_an_empty_one() {
    let mut world = World::new();
    world.alice_writes("a", "one");
    world.hear();
    fs::remove_dir_all(world.at(".xylem-sync")).unwrap();
    assert!(matches!(world.folder.read_rules(), Err(FolderError::NotThere(_))));
    let kept = world.dir.path().join("kept");
    assert!(Folder::open(&world.at(""), &kept, BOB, "bob").is_err());
}

/// What is known of the folder is what says that a change is one: it is not lost with a damaged file.
#[test]
fn a_damaged_index_is_taken_from_the_copy_that_was_told() {
    let mut world = World::new();
    world.alice_writes("a", "one");
    world.hear();
    let told = world.folder.tell().unwrap();
    let (version, state) = (world.item("a").version, world.folder.state());
    let (root, kept) = (world.dir.path().join("folder"), world.dir.path().join("kept"));
    let index = kept.join("index");
    let whole = fs::read(&index).unwrap();
    for damaged in [&whole[..whole.len() - 40], b"", &[&whole[..60], &[0; 80]].concat()] {
        fs::write(&index, damaged).unwrap();
        world.folder = Folder::open(&root, &kept, BOB, "bob").unwrap();
        assert_eq!((world.item("a").version, world.folder.state()), (version.clone(), state));
        assert!(Stored::open(&index).is_ok(), "it is whole again");
    }
    // Without any copy nothing is guessed.
    fs::write(&index, &whole[..20]).unwrap();
    fs::remove_file(told).unwrap();
    let refused = Folder::open(&root, &kept, BOB, "bob");
    assert!(matches!(refused, Err(FolderError::Index { .. })));
    let old = [b"xylem sync index 1\n".as_slice(), &whole[19..]].concat();
    fs::write(&index, old).unwrap();
    let why = Folder::open(&root, &kept, BOB, "bob").err().unwrap().to_string();
    assert!(why.contains("an earlier build"), "{why}");
}

/// What lies in the trash, by path, whatever the day.
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
fn what_others_replace_or_remove_is_kept() {
    let mut world = World::new();
    world.folder.keep_removed(7);
    world.alice_has("d", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("d/a", "one");
    world.alice_writes("d/b", "bob's only copy");
    world.alice_writes("becomes", "a directory");
    world.alice_has("link", ItemKind::Symlink { target: b"d/a".to_vec() });
    assert!(world.hear());
    assert_eq!((world.folder.removed(), trash(&world)), (0, vec![]));
    world.alice_writes("d/a", "two");
    world.alice_has("becomes", ItemKind::Directory { mode: 0o755 });
    world.alice_writes("link", "a file");
    assert!(world.hear());
    assert_eq!(world.folder.removed(), 3);
    world.alice_writes("d/a", "three");
    assert!(world.hear());
    for path in ["d/a", "d/b", "d"] {
        world.alice_has(path, ItemKind::Gone);
    }
    assert!(world.hear());
    assert!(!world.at("d").exists());
    // Of what was replaced twice within 30 s the one in between is not.
    let all = [
        ("becomes", "a directory"),
        ("d/a", "one"),
        ("d/a", "three"),
        ("d/b", "bob's only copy"),
        ("link", "d/a"),
    ];
    assert_eq!(trash(&world), pairs(&all));
    // Another mode is no other content.
    world.alice_writes("link", "a file");
    let (root, size) = (xylem_hash::hash(b"a file"), 6);
    world.alice_has("link", ItemKind::File { root, size, mode: 0o600, mtime: (1_000_000_000, 6) });
    assert!(world.hear());
    assert_eq!((world.folder.removed(), trash(&world)), (0, pairs(&all)));
}

/// What stands elsewhere in the folder afterwards is not kept twice; what does not stand there any more is.
#[test]
fn what_others_move_is_not_kept() {
    let mut world = World::new();
    world.folder.keep_removed(7);
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
    assert_eq!((world.folder.removed(), trash(&world)), (0, vec![]));
    assert_eq!(world.read("e/a").as_deref(), Some("one"));
    // Bob has changed the other one meanwhile: nothing else has what it was.
    world.alice_writes("copy", "one");
    assert!(world.hear());
    world.write("e/a", "bob's own");
    world.alice_has("copy", ItemKind::Gone);
    assert!(world.hear());
    // The last copy, and what another one is moved over.
    world.alice_writes("f", "three");
    assert!(world.hear());
    world.alice_writes("of", "three");
    world.alice_has("f", ItemKind::Gone);
    assert!(world.hear());
    assert_eq!(world.folder.removed(), 1);
    assert_eq!(trash(&world), pairs(&[("copy", "one"), ("of", "two")]));
}

#[test]
fn what_was_changed_here_meanwhile_is_not_in_the_trash() {
    let mut world = World::new();
    world.folder.keep_removed(7);
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
    assert_eq!((world.folder.removed(), trash(&world)), (0, vec![]));
}

/// What can't be kept is not removed.
#[test]
fn what_the_trash_does_not_take_stays() {
    let mut world = World::new();
    world.folder.keep_removed(7);
    world.alice_writes("a", "one");
    world.hear();
    fs::write(world.at(".xylem-sync/trash"), "in the way").unwrap();
    world.alice_has("a", ItemKind::Gone);
    assert!(!world.hear());
    assert_eq!(world.read("a").as_deref(), Some("one"));
    fs::remove_file(world.at(".xylem-sync/trash")).unwrap();
    assert!(world.hear());
    assert_eq!(trash(&world), pairs(&[("a", "one")]));
}
