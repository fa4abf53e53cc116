use super::*;
use crate::folder::index::ItemKind;

const ME: [u8; 8] = [1; 8];
const BOB: [u8; 8] = [2; 8];

/// A folder, and who is known to have changed what in it last.
struct World {
    dir: tempfile::TempDir,
    rules: FolderRules,
    known: BTreeMap<Vec<u8>, Item>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::create_dir(dir.path().join("kept")).unwrap();
        let rules = FolderRules::of(&dir.path().join("folder"), &dir.path().join("kept"));
        Self { dir, rules, known: BTreeMap::new() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("folder").join(path)
    }

    fn kept(&self) -> PathBuf {
        self.dir.path().join("kept")
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// Somebody has this there, and this member has looked at it.
    fn has(&mut self, by: [u8; 8], path: &str, text: &str) {
        self.write(path, text);
        let root = xylem_hash::hash(text.as_bytes());
        let kind = ItemKind::File { root, size: text.len() as u64, mode: 0o644, mtime: (0, 0) };
        let mut item = Item::none();
        item.changed(kind, by, 1, 1);
        self.known.insert(path.into(), item);
    }

    fn read(&mut self) -> Result<RulesNews, FolderError> {
        let known = &self.known;
        self.rules.read(&|path| Ok(known.get(path).cloned()), &ME)
    }

    /// What is in force, and what waits and is wrong.
    fn lines(&mut self) -> (Vec<String>, usize, usize) {
        let news = self.read().unwrap();
        (self.rules.lines().unwrap().to_vec(), news.waiting.len(), news.wrong.len())
    }

    /// As after another start.
    fn start(&mut self) {
        self.rules = FolderRules::of(&self.at(""), &self.kept());
    }
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// What stands where the rules would and is no file, or holds a line that is none, leaves those before in force, in a later run as well.
#[cfg(unix)]
#[test]
fn rules_that_are_no_file_are_not_taken_for_none() {
    let mut world = World::new();
    let rules = world.at(".xylemignore");
    let beside = world.dir.path().join("beside");
    fs::write(&beside, b"secret*").unwrap();
    let place = |how: &[u8]| {
        drop(fs::remove_file(&rules));
        drop(fs::remove_dir(&rules));
        match how {
            b"link" => std::os::unix::fs::symlink(&beside, &rules).unwrap(),
            b"link to nowhere" => std::os::unix::fs::symlink("nowhere", &rules).unwrap(),
            b"directory" => fs::create_dir(&rules).unwrap(),
            text => fs::write(&rules, text).unwrap(),
        }
    };
    let bad: [&[u8]; 9] = [
        b"link to nowhere",
        b"directory",
        b"a\\",
        b"[[:x:]]",
        b"\xe4",
        &b"x".repeat(40_000),
        b"#include ../outside",
        b"#include .xylem-sync/index-0",
        &(0..20).flat_map(|n| format!("#include {n}\n").into_bytes()).collect::<Vec<_>>(),
    ];
    for how in bad {
        // Who never had any shares nothing.
        place(how);
        world.start();
        let why = world.read().unwrap_err().to_string();
        assert!(why.contains(".xylemignore") && why.contains("nothing is shared"), "{why}");
        assert!(world.rules.lines().is_none());
    }
    place(b"\xef\xbb\xbfsecret*\r\n");
    assert_eq!(world.lines(), (lines(&["secret*"]), 0, 0));
    place(b"link");
    assert_eq!(world.lines(), (lines(&["secret*"]), 0, 0));
    for how in bad {
        place(how);
        assert_eq!(world.lines(), (lines(&["secret*"]), 0, 1));
        world.start();
        assert_eq!(world.lines(), (lines(&["secret*"]), 0, 1));
        assert!(world.rules.leaves_out(b"secret.key", false));
    }
    fs::remove_file(&rules).unwrap();
    assert_eq!(world.lines(), (lines(&[]), 0, 0), "and without a file there are none");
}

#[test]
fn what_is_this_member_s_is_left_out_whatever_the_rules_say() {
    let mut world = World::new();
    world.write(".xylemignore", "!.xylemignore\n!/.xylem-sync\n!.xylem-sync/**\n");
    world.read().unwrap();
    for path in [".xylemignore", ".XYLEMIGNORE", ".xylem-sync/x", "a/.xylem-Sync/x"] {
        assert!(world.rules.leaves_out(path.as_bytes(), false), "{path}");
        assert!(!world.rules.leaves_out(b"a/.xylemignore", false));
    }
    assert!(world.rules.are_in(b".xylemignore") && !world.rules.are_in(b"a"));
}

#[test]
fn what_another_member_changes_waits_until_it_is_accepted() {
    let mut world = World::new();
    world.write(".xylemignore", "own\n#include team.rules\nlast\n");
    world.has(BOB, "team.rules", "secrets/\n");
    // Whoever writes the line takes what stands there.
    assert_eq!(world.lines(), (lines(&["own", "secrets/", "last"]), 0, 0));
    assert!(world.rules.are_in(b"team.rules"));
    world.write("secrets/key", "x");
    world.write("cache/x", "x");
    for text in ["cache/\n", ""] {
        world.has(BOB, "team.rules", text);
        assert_eq!(world.lines(), (lines(&["own", "secrets/", "last"]), 1, 0), "{text:?}");
        world.start();
        assert_eq!(world.lines(), (lines(&["own", "secrets/", "last"]), 1, 0), "{text:?}");
    }
    // To touch it is not to accept it.
    world.has(ME, "team.rules", "");
    assert_eq!(world.lines().1, 1);
    world.has(BOB, "team.rules", "a\\");
    assert_eq!(world.lines(), (lines(&["own", "secrets/", "last"]), 0, 1));
    assert!(RulesChange::waiting(&world.at(""), &world.kept()).is_err(), "it is none");
    world.has(BOB, "team.rules", "cache/\n");
    let change = RulesChange::waiting(&world.at(""), &world.kept()).unwrap();
    assert_eq!(change.files, ["team.rules"]);
    assert_eq!(change.uncovers, [PathBuf::from("secrets/key")]);
    assert_eq!((change.covers.as_slice(), change.more), (&[PathBuf::from("cache/x")][..], 0));
    assert_eq!(world.lines().1, 1, "to look is not to accept");
    change.accept().unwrap();
    let news = world.read().unwrap();
    assert!(news.changed && news.waiting.is_empty());
    assert_eq!(world.lines(), (lines(&["own", "cache/", "last"]), 0, 0));
    assert!(RulesChange::waiting(&world.at(""), &world.kept()).unwrap().files.is_empty());
    // What was accepted is damaged: nothing that waits is in force for that.
    world.has(BOB, "team.rules", "bob's\n");
    assert_eq!(world.lines(), (lines(&["own", "cache/", "last"]), 1, 0));
    fs::write(world.kept().join(ROLES).join(ACCEPTED), "").unwrap();
    world.start();
    assert_eq!(world.lines(), (lines(&["own", "cache/", "last"]), 1, 1));
    // What this member changes is in force at once, before it has looked at it or after.
    world.write("team.rules", "mine\n");
    assert_eq!(world.lines(), (lines(&["own", "mine", "last"]), 0, 0));
    world.has(ME, "team.rules", "mine, too\n");
    assert_eq!(world.lines(), (lines(&["own", "mine, too", "last"]), 0, 0));
}

#[test]
fn what_is_included_and_not_there_uncovers_nothing() {
    let mut world = World::new();
    world.write(".xylemignore", "own\n");
    assert_eq!(world.lines(), (lines(&["own"]), 0, 0));
    world.write(".xylemignore", "#include team.rules\n");
    assert_eq!(world.lines(), (lines(&["own"]), 0, 1), "the rules before stay");
    // It comes from another member: that is not what this one has seen.
    world.has(BOB, "team.rules", "");
    assert_eq!(world.lines(), (lines(&["own"]), 1, 1));
    let change = RulesChange::waiting(&world.at(""), &world.kept()).unwrap();
    change.accept().unwrap();
    assert_eq!(world.lines(), (lines(&[]), 0, 0));
    world.has(ME, "team.rules", "secret\n");
    assert_eq!(world.lines(), (lines(&["secret"]), 0, 0));
    fs::remove_file(world.at("team.rules")).unwrap();
    assert_eq!(world.lines(), (lines(&["secret"]), 0, 1), "what was accepted stays");
    assert_eq!(world.lines(), (lines(&["secret"]), 0, 1));
    // A link would bring what lies elsewhere.
    #[cfg(unix)]
    {
        let outside = world.dir.path().join("outside");
        fs::write(&outside, "outside").unwrap();
        std::os::unix::fs::symlink(&outside, world.at("team.rules")).unwrap();
        assert_eq!(world.lines(), (lines(&["secret"]), 0, 1));
    }
}
