//! Files of other users where the program writes. A file planted under a name that the program uses is neither written
//! through nor passed off as its own. Each test runs the real program.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;
use crate::common::decaying::decay;
use crate::common::fetching::Get;
use crate::common::{Share, assert_exit, file, get, noise, stderr, text, xylem};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// Whether files of other users can be made here; prints a line if not.
fn is_root() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if !root {
        eprintln!("skipped: needs root to make files of another user");
    }
    root
}

struct Place {
    dir: tempfile::TempDir,
    content: Vec<u8>,
    share: Share,
    /// The folder of the result, where other users may write.
    shared: PathBuf,
}

impl Place {
    fn new(size: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let content = noise(size, 1);
        let source = file(dir.path(), "out", &content);
        let share = Share::start(&source, &dir.path().join("publisher"));
        let shared = dir.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        Self { dir, content, share, shared }
    }

    fn part(&self) -> PathBuf {
        self.shared.join(".out.xylem-part")
    }

    /// Fetches into the shared folder, and checks the result.
    fn get(&self, more: &[&str]) {
        let store = self.dir.path().join("store");
        let arguments = [&[self.share.ticket.as_str(), "-o", text(&self.shared)], more].concat();
        assert_exit(&get(&store, &arguments), 0);
    }

    /// Starts a fetch into the shared folder.
    fn start(&self, more: &[&str]) -> Get {
        Get::start(&self.dir.path().join("store"), &self.share.ticket, &self.shared, more)
    }

    fn is_right(&self) {
        let out = self.shared.join("out");
        assert!(fs::read(&out).unwrap() == self.content);
        let (is, ours) = (fs::metadata(&out).unwrap(), fs::metadata(self.dir.path()).unwrap());
        assert_eq!((is.uid(), is.nlink()), (ours.uid(), 1));
    }
}

/// A file that must not change.
fn victim(dir: &Path) -> PathBuf {
    let victim = file(dir, "victim", b"precious");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    victim
}

fn is_untouched(victim: &Path) {
    assert_eq!(fs::read(victim).unwrap(), b"precious");
    assert_eq!(fs::metadata(victim).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn a_partial_file_that_is_a_hard_link_is_not_written_through() {
    let place = Place::new(300_000);
    let victim = victim(place.dir.path());
    fs::hard_link(&victim, place.part()).unwrap();
    place.get(&[]);
    place.is_right();
    is_untouched(&victim);
    // The same for a range, which has a name of its own.
    let part = place.shared.join(".out.10-20.part.xylem-part");
    fs::hard_link(&victim, &part).unwrap();
    place.get(&["--range", "10..20"]);
    is_untouched(&victim);
    let range = place.shared.join("out.10-20.part");
    assert!(fs::read(&range).unwrap() == place.content[10..20]);
}

#[test]
fn any_entry_under_a_partial_file_name_is_left_alone() {
    for plant in ["directory", "link", "pipe"] {
        let place = Place::new(300_000);
        let (victim, part) = (victim(place.dir.path()), place.part());
        match plant {
            "directory" => fs::create_dir(&part).unwrap(),
            "link" => symlink(&victim, &part).unwrap(),
            _ => assert!(Command::new("mkfifo").arg(&part).status().unwrap().success()),
        }
        place.get(&[]);
        place.is_right();
        is_untouched(&victim);
        assert!(part.symlink_metadata().is_ok(), "{plant}");
    }
}

#[test]
fn a_stream_is_not_written_to_another_user_s_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "log", b"line\n");
    let share = Share::with(&source, &dir.path().join("publisher"), &["--follow"]);
    let store = dir.path().join("store");
    let victim = file(dir.path(), "victim", b"");
    let other = dir.path().join("other");
    fs::hard_link(&victim, &other).unwrap();
    let mut refused = vec![other];
    if is_root() {
        let theirs = file(dir.path(), "theirs", b"");
        chown(&theirs, Some(NOBODY), None).unwrap();
        refused.push(theirs);
    }
    for output in refused {
        let ended = get(&store, &[&share.ticket, "--follow", "-o", text(&output)]);
        assert_exit(&ended, 4);
        assert!(stderr(&ended).contains(text(&output)), "{}", stderr(&ended));
        assert_eq!(fs::metadata(&output).unwrap().len(), 0);
    }
}

#[test]
fn a_partial_file_of_another_user_is_left_alone() {
    if !is_root() {
        return;
    }
    let place = Place::new(300_000);
    fs::write(place.part(), &place.content[..200_000]).unwrap();
    fs::set_permissions(place.part(), fs::Permissions::from_mode(0o666)).unwrap();
    chown(place.part(), Some(NOBODY), None).unwrap();
    place.get(&[]);
    place.is_right();
    assert_eq!(fs::read(place.part()).unwrap().len(), 200_000);
}

#[test]
fn a_partial_directory_of_another_user_is_left_alone() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, shared) = (dir.path().join("tree"), dir.path().join("shared"));
    for folder in [&source, &shared] {
        fs::create_dir(folder).unwrap();
    }
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    file(&source, "small", b"small");
    file(&source, "large", &noise(700_000, 2));
    let share = Share::start(&source, &dir.path().join("publisher"));
    let part = shared.join(".tree.xylem-part");
    fs::create_dir(&part).unwrap();
    for (name, content) in [("small", &b"small"[..]), ("large", &[0; 9]), ("more", b"more")] {
        let planted = file(&part, name, content);
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o666)).unwrap();
        chown(&planted, Some(NOBODY), None).unwrap();
    }
    chown(&part, Some(NOBODY), None).unwrap();
    let output = get(&dir.path().join("store"), &[&share.ticket, "-o", text(&shared)]);
    assert_exit(&output, 0);
    let got = shared.join("tree");
    for name in ["", "small", "large"] {
        assert_eq!(fs::metadata(got.join(name)).unwrap().uid(), 0, "{name}");
    }
    assert!(!got.join("more").exists());
    assert_eq!(fs::read_dir(&part).unwrap().count(), 3);
}

#[test]
fn planted_files_in_a_partial_directory_are_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir(&source).unwrap();
    file(&source, "small", b"small");
    let large = noise(700_000, 2);
    file(&source, "large", &large);
    let share = Share::start(&source, &dir.path().join("publisher"));
    let (victim, part) = (victim(dir.path()), dir.path().join("into/.tree.xylem-part"));
    fs::create_dir_all(&part).unwrap();
    for name in ["small", "large"] {
        fs::hard_link(&victim, part.join(name)).unwrap();
    }
    let into = dir.path().join("into");
    let output = get(&dir.path().join("store"), &[&share.ticket, "-o", text(&into)]);
    assert_exit(&output, 0);
    is_untouched(&victim);
    assert!(fs::read(into.join("tree/large")).unwrap() == large);
    assert_eq!(fs::metadata(&victim).unwrap().nlink(), 1);
}

/// A fetch that takes a second or two, which leaves time to interfere.
const SLOW: [&str; 3] = ["--limit", "20M", "--no-serve"];

/// Inverts a byte of a file, as another program of the same user could.
fn flip(path: &Path, at: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_byte_changed_after_it_was_read_back_is_noticed() {
    // Changes are detected both by watching and by reading back at the end.
    for size in [24_000_000, 9_000_000] {
        let place = Place::new(size);
        let mut get = place.start(&["--limit", "8M", "--no-serve"]);
        // Most is read back by then, and half a second is left.
        get.has_fetched(size as u64 - 4_000_000);
        flip(&place.part(), 100);
        assert_eq!(get.wait(), Some(0));
        place.is_right();
    }
}

#[test]
fn a_reader_of_a_partial_file_disturbs_nothing() {
    let place = Place::new(24_000_000);
    let mut get = place.start(&SLOW);
    get.has_fetched(1_000_000);
    let held = fs::File::open(place.part()).unwrap();
    get.has_fetched(10_000_000);
    assert!(fs::read(place.part()).unwrap().len() == 24_000_000);
    assert_eq!(get.wait(), Some(0));
    drop(held);
    place.is_right();
}

/// A folder with subfolders, each with small files and a large one.
fn tree(dir: &Path) -> PathBuf {
    let tree = dir.join("tree");
    for folder in 0..5_u64 {
        let below = tree.join(folder.to_string());
        fs::create_dir_all(&below).unwrap();
        for n in 0..20_u64 {
            file(&below, &n.to_string(), &noise(100_000, folder * 100 + n));
        }
        file(&below, "large", &noise(1_000_000, folder * 100 + 99));
    }
    tree
}

fn same(one: &Path, two: &Path) -> bool {
    Command::new("diff").arg("-r").args([one, two]).output().unwrap().status.success()
}

/// Fetches a tree, and changes its partial directory when the first subfolders are there.
fn meddled(meddle: impl Fn(&Path)) -> (Option<i32>, bool) {
    let dir = tempfile::tempdir().unwrap();
    let source = tree(dir.path());
    let share = Share::start(&source, &dir.path().join("publisher"));
    let into = dir.path().join("into");
    fs::create_dir(&into).unwrap();
    let limited = ["--limit", "10M", "--no-serve"];
    let mut get = Get::start(&dir.path().join("store"), &share.ticket, &into, &limited);
    get.has_fetched(7_000_000);
    meddle(&into.join(".tree.xylem-part"));
    (get.wait(), same(&source, &into.join("tree")))
}

#[test]
fn files_of_a_directory_that_are_changed_after_they_were_written_are_noticed() {
    let small = |part: &Path| flip(&part.join("0/3"), 10);
    assert_eq!(meddled(small), (Some(0), true));
    let large = |part: &Path| flip(&part.join("0/large"), 900_000);
    assert_eq!(meddled(large), (Some(0), true));
    let missing = |part: &Path| fs::remove_file(part.join("0/19")).unwrap();
    assert_eq!(meddled(missing), (Some(0), true));
    let more = |part: &Path| fs::write(part.join("0/more"), b"more").unwrap();
    assert_eq!(meddled(more), (Some(0), true));
}

#[test]
fn folders_that_are_swapped_while_they_are_fetched_are_noticed() {
    let swap = |part: &Path| {
        fs::rename(part.join("0"), part.with_file_name("gone")).unwrap();
        fs::create_dir(part.join("0")).unwrap();
        for n in 0..20 {
            fs::write(part.join(format!("0/{n}")), [7; 100_000]).unwrap();
        }
    };
    assert_eq!(meddled(swap), (Some(0), true));
    let link = |part: &Path| {
        let gone = part.with_file_name("gone");
        fs::rename(part.join("1"), &gone).unwrap();
        symlink(&gone, part.join("1")).unwrap();
    };
    assert_eq!(meddled(link), (Some(0), true));
}

/// Runs a line of shell as `nobody`; returns whether it succeeded.
fn as_nobody(line: &str) -> bool {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", line]);
    command.output().unwrap().status.success()
}

#[test]
fn another_user_can_neither_open_nor_replace_a_fetch() {
    if !is_root() {
        return;
    }
    let place = Place::new(9_000_000);
    fs::set_permissions(&place.shared, fs::Permissions::from_mode(0o777)).unwrap();
    let mut get = place.start(&SLOW);
    get.has_fetched(3_000_000);
    let (part, shared) = (text(&place.part()).to_owned(), text(&place.shared).to_owned());
    assert!(!as_nobody(&format!("cat {part}")) && !as_nobody(&format!("echo evil >> {part}")));
    assert!(as_nobody(&format!("cd {shared} && mv {part} theirs && echo evil > {part}")));
    assert_eq!(get.wait(), Some(4));
    assert!(!place.shared.join("out").exists());

    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let source = tree(dir.path());
    let share = Share::start(&source, &dir.path().join("publisher"));
    let into = dir.path().join("into");
    fs::create_dir(&into).unwrap();
    fs::set_permissions(&into, fs::Permissions::from_mode(0o777)).unwrap();
    let mut get = Get::start(&dir.path().join("store"), &share.ticket, &into, &SLOW);
    get.has_fetched(3_000_000);
    let part = ".tree.xylem-part";
    let into = text(&into);
    assert!(!as_nobody(&format!("cat {into}/{part}/0/1")));
    assert!(as_nobody(&format!(
        "cd {into} && mv {part} theirs && mkdir {part} && echo > {part}/0"
    )));
    assert_eq!(get.wait(), Some(4));
    assert!(!Path::new(into).join("tree").exists());
}

#[test]
fn a_missing_file_is_not_made_again_through_a_hard_link() {
    let place = Place::new(300_000);
    place.get(&[]);
    fs::remove_file(place.shared.join("out")).unwrap();
    let victim = victim(place.dir.path());
    fs::hard_link(&victim, place.part()).unwrap();
    let mut scrub = xylem(&place.dir.path().join("store"));
    scrub.args(["scrub", "--repair"]).arg(place.shared.join("out"));
    assert_exit(&scrub.output().unwrap(), 0);
    place.is_right();
    is_untouched(&victim);
}

#[test]
fn damage_behind_a_link_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let source = tree(dir.path());
    let share = Share::start(&source, &dir.path().join("publisher"));
    let (store, into) = (dir.path().join("store"), dir.path().join("into"));
    fs::create_dir(&into).unwrap();
    assert_exit(&get(&store, &[&share.ticket, "-o", text(&into)]), 0);
    let (got, gone) = (into.join("tree"), dir.path().join("gone"));
    fs::rename(got.join("0"), &gone).unwrap();
    symlink(&gone, got.join("0")).unwrap();
    let theirs = gone.join("3");
    decay(&store, &theirs, |_| flip(&theirs, 10));
    let changed = fs::read(&theirs).unwrap();
    let output = xylem(&store).args(["scrub", "--repair"]).arg(&got).output().unwrap();
    assert!(!output.status.success());
    assert!(fs::read(&theirs).unwrap() == changed);
    // In its own place it is mended.
    fs::remove_file(got.join("0")).unwrap();
    fs::rename(&gone, got.join("0")).unwrap();
    assert_exit(&xylem(&store).args(["scrub", "--repair"]).arg(&got).output().unwrap(), 0);
    assert!(same(&source, &got));
}

#[test]
fn links_in_a_store_are_not_followed() {
    for folder in ["objects", "partial", "known", "pins", "new", "repairs", "seen"] {
        let place = Place::new(300_000);
        let (store, victim) = (place.dir.path().join("store"), place.dir.path().join("victim"));
        fs::create_dir(&store).unwrap();
        fs::create_dir(&victim).unwrap();
        symlink(&victim, store.join(folder)).unwrap();
        let output = get(&store, &[&place.share.ticket, "-o", text(&place.shared)]);
        assert_exit(&output, 4);
        assert!(stderr(&output).contains("symbolic link"), "{}", stderr(&output));
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    }
}

/// The store may belong to another user: the error names that and the remedy, and not an unreachable node.
#[test]
fn a_store_that_may_not_be_looked_into_is_named() {
    let dir = tempfile::tempdir().unwrap();
    if !is_root() || !as_nobody(&format!("{} --version", common::XYLEM)) {
        return;
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let store = dir.path().join("store");
    let source = dir.path().join("data");
    fs::write(&source, "data").unwrap();
    for line in ["shares", "unshare data", "service status", "share data"] {
        let line = format!("{} --store {} {line}", common::XYLEM, text(&store));
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c"]);
        let output = command.arg(&line).current_dir("/").output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{line}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(text(&store)) && said.contains("--store DIR"), "{line}: {said}");
    }
}
