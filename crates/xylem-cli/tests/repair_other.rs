//! `xylem scrub --repair` by a user that does not own the file but may write to it. All damage is mended, and the file
//! does not count as edited afterwards, although only its owner could have set its time back. Only root can run as two
//! users.
#![cfg(unix)]

use crate::common::decaying::{decay, untouched};
use crate::common::{Share, file, finish, noise, skipped, stderr, xylem};
use serde_json::Value;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OWNER: u32 = 45_001;
const OTHER: u32 = 45_002;

/// Files of the user OWNER that the user OTHER has shared, and a second, healthy share of the same content.
struct World {
    _dir: tempfile::TempDir,
    shared: PathBuf,
    store: PathBuf,
    ticket: String,
    _healthy: Share,
}

fn by_other(store: &Path) -> Command {
    let mut command = xylem(store);
    command.uid(OTHER).gid(OTHER);
    command
}

/// Gives a file, or a folder with files, to OWNER, and lets all users write to it.
fn give(path: &Path) {
    let everybody = if path.is_dir() { 0o777 } else { 0o666 };
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
    chown(path, Some(OWNER), Some(OWNER)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(everybody)).unwrap();
}

impl World {
    /// `None` where there are no two users. `make` makes the shared content.
    fn new(make: impl Fn(&Path)) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let (shared, source) = (dir.path().join("shared"), dir.path().join("source"));
        [&shared, &source].into_iter().for_each(|path| make(path));
        if chown(dir.path(), Some(OWNER), Some(OWNER)).is_err() {
            skipped("only root can give files to somebody else");
            return None;
        }
        give(&shared);
        let store = dir.path().join("store-of-other");
        let mut version = by_other(&store);
        if !version.arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success()) {
            skipped("others may not run the program where it lies");
            return None;
        }
        drop(Share::run(by_other(&store), &shared, &[]));
        let healthy = Share::start(&source, &dir.path().join("publisher"));
        let ticket = healthy.ticket.clone();
        Some(Self { _dir: dir, shared, store, ticket, _healthy: healthy })
    }

    /// Runs `scrub` as OTHER; returns its exit code, its events, and its errors and warnings.
    fn scrub(&self, repair: bool) -> (Option<i32>, Vec<Value>, String) {
        let mut command = by_other(&self.store);
        command.args(["--json", "scrub"]).arg(&self.shared).stdin(Stdio::null());
        if repair {
            command.args(["--repair", "--from", &self.ticket]);
        }
        let output = finish(command);
        let said = stderr(&output);
        assert!(!said.contains("panicked"), "{said}");
        let out = String::from_utf8(output.stdout).unwrap();
        let events: Vec<Value> =
            out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let warned = events.iter().filter(|e| e["event"] == "trouble");
        let said = warned.map(|e| e.to_string()).fold(said, |all, one| all + &one);
        (output.status.code(), events, said)
    }
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x20], at).unwrap();
}

fn flaws(events: &[Value]) -> Vec<&str> {
    events.iter().filter(|e| e["event"] == "flaw").map(|e| e["flaw"].as_str().unwrap()).collect()
}

/// Damage in three places of `path`, which is the shared file or lies in the shared folder, is mended each time; an
/// edit is left alone.
fn is_mended(world: &World, path: &Path) {
    let content = fs::read(path).unwrap();
    for round in 0..2 {
        let places = [5 + round, 400_000 + round, 900_000 + round];
        decay(&world.store, path, |file| places.iter().for_each(|at| flip(file, *at)));
        let (code, events, said) = world.scrub(false);
        assert_eq!((code, flaws(&events)), (Some(1), vec!["damaged"; 3]), "{round}: {said}");
        let (code, events, said) = world.scrub(true);
        assert_eq!(code, Some(0), "{round}: {events:?} {said}");
        assert!(said.contains("its time can't be set back"), "{round}: {said}");
        assert!(fs::read(path).unwrap() == content, "{round}");
        let (code, events, said) = world.scrub(true);
        assert_eq!((code, flaws(&events)), (Some(0), vec![]), "{round}: {said}");
    }
    // Its owner writes to it, in a mended place and elsewhere.
    for at in [5, 1_000_000] {
        flip(&OpenOptions::new().read(true).write(true).open(path).unwrap(), at);
    }
    let edited = fs::read(path).unwrap();
    let (code, events, said) = world.scrub(true);
    assert_eq!((code, flaws(&events)), (Some(1), vec!["changed"]), "{said}");
    assert!(fs::read(path).unwrap() == edited);
    // The owner appends to it.
    OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap();
    let (code, events, said) = world.scrub(true);
    assert_eq!((code, flaws(&events)), (Some(1), vec!["changed"]), "{said}");
    assert_eq!(fs::read(path).unwrap().len(), edited.len() + 4);
}

#[test]
fn a_file_of_another_user_is_mended_in_all_places() {
    let content = noise(1_200_000, 10);
    let Some(world) = World::new(|path| fs::write(path, &content).unwrap()) else { return };
    is_mended(&world, &world.shared);
}

#[test]
fn files_of_another_user_in_a_directory_are_mended() {
    let make = |path: &Path| {
        fs::create_dir(path).unwrap();
        for n in 0..3 {
            file(path, &format!("file-{n}"), &noise(1_200_000, n));
        }
        // Both have the same root: times are part of it.
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        let set = |path: &Path| {
            let times = FileTimes::new().set_modified(time);
            File::open(path).unwrap().set_times(times).unwrap();
        };
        for n in 0..3 {
            let path = path.join(format!("file-{n}"));
            fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
            set(&path);
        }
        set(path);
    };
    let Some(world) = World::new(make) else { return };
    is_mended(&world, &world.shared.join("file-1"));
}

/// A file that can't be written is reported in one line, and not changed.
#[test]
fn a_file_that_may_not_be_written_is_named() {
    let content = noise(1_200_000, 10);
    let Some(world) = World::new(|path| fs::write(path, &content).unwrap()) else { return };
    decay(&world.store, &world.shared, |file| flip(file, 5));
    fs::set_permissions(&world.shared, Permissions::from_mode(0o644)).unwrap();
    untouched(&world.store, &world.shared);
    let (code, _, said) = world.scrub(true);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not allowed to open"), "{said}");
}
