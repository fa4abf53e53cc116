use super::*;
use crate::index::ItemKind;
use std::fs;

const ME: [u8; 8] = [1; 8];
const BOB: [u8; 8] = [2; 8];

/// A folder, and its known items with the members that changed them.
struct World {
    dir: tempfile::TempDir,
    rules: FolderRules,
    known: BTreeMap<Vec<u8>, IndexItem>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::create_dir(dir.path().join("kept")).unwrap();
        let rules = FolderRules::of(
            &FileMedium::default(),
            &dir.path().join("folder"),
            &dir.path().join("kept"),
        );
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

    /// A member has written this, and this member has scanned it.
    fn has(&mut self, by: [u8; 8], path: &str, text: &str) {
        self.write(path, text);
        let root = xylem_hash::hash(text.as_bytes());
        let kind = ItemKind::File { root, size: text.len() as u64, mode: 0o644, mtime: (0, 0) };
        let mut item = IndexItem::none();
        item.changed(kind, by, 1, 1);
        self.known.insert(path.into(), item);
    }

    fn read(&mut self) -> Result<RulesNews, FolderError> {
        let known = &self.known;
        self.rules.read(&|path| Ok(known.get(path).cloned()), &ME)
    }

    /// Returns the lines in force, and how many files wait and are wrong.
    fn lines(&mut self) -> (Vec<String>, usize, usize) {
        let news = self.read().unwrap();
        (self.rules.lines().unwrap().to_vec(), news.waiting.len(), news.wrong.len())
    }

    /// Starts anew.
    fn start(&mut self) {
        self.rules = FolderRules::of(&FileMedium::default(), &self.at(""), &self.kept());
    }
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// A path of the rules that is no file, or holds an invalid line, leaves the earlier rules in force, in a later run as
/// well.
#[cfg(unix)]
#[test]
fn unreadable_rules_are_not_taken_for_none() {
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
        // A member that never had valid rules shares nothing.
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
fn a_members_own_files_are_left_out_whatever_the_rules() {
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
fn rules_from_another_member_wait_for_acceptance() {
    let mut world = World::new();
    world.write(".xylemignore", "own\n#include team.rules\nlast\n");
    world.has(BOB, "team.rules", "secrets/\n");
    // The user that writes the line accepts the current content.
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
    // Touching the file does not accept it.
    world.has(ME, "team.rules", "");
    assert_eq!(world.lines().1, 1);
    world.has(BOB, "team.rules", "a\\");
    assert_eq!(world.lines(), (lines(&["own", "secrets/", "last"]), 0, 1));
    assert!(
        RulesChange::waiting(&FileMedium::default(), &world.at(""), &world.kept()).is_err(),
        "it is none"
    );
    world.has(BOB, "team.rules", "cache/\n");
    let change =
        RulesChange::waiting(&FileMedium::default(), &world.at(""), &world.kept()).unwrap();
    assert_eq!(change.files, ["team.rules"]);
    assert_eq!(change.uncovers, [PathBuf::from("secrets/key")]);
    assert_eq!((change.covers.as_slice(), change.more), (&[PathBuf::from("cache/x")][..], 0));
    assert_eq!(world.lines().1, 1, "to look is not to accept");
    change.accept().unwrap();
    let news = world.read().unwrap();
    assert!(news.changed && news.waiting.is_empty());
    assert_eq!(world.lines(), (lines(&["own", "cache/", "last"]), 0, 0));
    assert!(
        RulesChange::waiting(&FileMedium::default(), &world.at(""), &world.kept())
            .unwrap()
            .files
            .is_empty()
    );
    // The accepted content is damaged: that puts nothing in force that waits.
    world.has(BOB, "team.rules", "bob's\n");
    assert_eq!(world.lines(), (lines(&["own", "cache/", "last"]), 1, 0));
    fs::write(world.kept().join(ROLES).join(ACCEPTED), "").unwrap();
    world.start();
    assert_eq!(world.lines(), (lines(&["own", "cache/", "last"]), 1, 1));
    // A local change is in force at once, before and after a scan has seen it.
    world.write("team.rules", "mine\n");
    assert_eq!(world.lines(), (lines(&["own", "mine", "last"]), 0, 0));
    world.has(ME, "team.rules", "mine, too\n");
    assert_eq!(world.lines(), (lines(&["own", "mine, too", "last"]), 0, 0));
}

#[test]
fn a_missing_included_file_uncovers_nothing() {
    let mut world = World::new();
    world.write(".xylemignore", "own\n");
    assert_eq!(world.lines(), (lines(&["own"]), 0, 0));
    world.write(".xylemignore", "#include team.rules\n");
    assert_eq!(world.lines(), (lines(&["own"]), 0, 1), "the previous rules stay");
    // The file arrives from another member, so this member has not accepted it.
    world.has(BOB, "team.rules", "");
    assert_eq!(world.lines(), (lines(&["own"]), 1, 1));
    let change =
        RulesChange::waiting(&FileMedium::default(), &world.at(""), &world.kept()).unwrap();
    change.accept().unwrap();
    assert_eq!(world.lines(), (lines(&[]), 0, 0));
    world.has(ME, "team.rules", "secret\n");
    assert_eq!(world.lines(), (lines(&["secret"]), 0, 0));
    fs::remove_file(world.at("team.rules")).unwrap();
    assert_eq!(world.lines(), (lines(&["secret"]), 0, 1), "what was accepted stays");
    assert_eq!(world.lines(), (lines(&["secret"]), 0, 1));
    // A link would include a file from outside.
    #[cfg(unix)]
    {
        let outside = world.dir.path().join("outside");
        fs::write(&outside, "outside").unwrap();
        std::os::unix::fs::symlink(&outside, world.at("team.rules")).unwrap();
        assert_eq!(world.lines(), (lines(&["secret"]), 0, 1));
    }
}
