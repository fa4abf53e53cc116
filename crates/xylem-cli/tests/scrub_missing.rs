//! `xylem scrub --repair` fetches missing files, and restores nothing that was not asked for.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::common::{Share, assert_exit, file, finish, get, noise, stderr, text, until, xylem};

fn scrub(store: &Path, arguments: &[&str]) -> Output {
    let mut command = xylem(store);
    command.arg("scrub").args(arguments).stdin(Stdio::null());
    finish(command)
}

fn tree_sum(path: &Path) -> String {
    let output = xylem(path).args(["sum", "--no-names", "--tree"]).arg(path).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// A folder with entries of every kind, shared, and fetched to `out` without `*.tmp`.
fn directory(dir: &Path) -> (Share, PathBuf, PathBuf) {
    let source = dir.join("source");
    fs::create_dir_all(source.join("sub/deep/empty")).unwrap();
    file(&source, "large", &noise(1_500_000, 1));
    for (i, size) in [0, 1, 9_000, 70_000].into_iter().enumerate() {
        file(&source.join("sub/deep"), &format!("{size}"), &noise(size, i as u64));
        file(&source, &format!("{size}"), &noise(size, 10 + i as u64));
    }
    file(&source, "left.tmp", &noise(9_000, 3));
    std::os::unix::fs::symlink("sub/deep", source.join("link")).unwrap();
    fs::hard_link(source.join("9000"), source.join("another")).unwrap();
    let share = Share::start(&source, &dir.join("publisher"));
    let (store, out) = (dir.join("store"), dir.join("out"));
    let left = ["-o", text(&out), "--exclude", "*.tmp"];
    assert_exit(&get(&store, &[&[&*share.ticket][..], &left].concat()), 0);
    (share, store, out)
}

#[test]
fn missing_entries_of_a_directory_come_back_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let (_share, store, out) = directory(dir.path());
    let whole = tree_sum(&out);
    fs::remove_file(out.join("large")).unwrap();
    fs::remove_file(out.join("0")).unwrap();
    fs::remove_file(out.join("70000")).unwrap();
    fs::remove_file(out.join("link")).unwrap();
    fs::remove_file(out.join("another")).unwrap();
    fs::remove_dir_all(out.join("sub")).unwrap();
    let found = scrub(&store, &[]);
    assert_exit(&found, 1);
    assert!(stderr(&found).contains("--repair fetches"), "{}", stderr(&found));
    assert!(!out.join("large").exists() && !out.join("sub").exists());
    let repaired = scrub(&store, &["--repair"]);
    assert_exit(&repaired, 0);
    assert!(stderr(&repaired).contains("restored"), "{}", stderr(&repaired));
    // Names, contents, modes and times equal those fetched, without the excluded files.
    assert_eq!(tree_sum(&out), whole);
    assert!(!out.join("left.tmp").exists());
    assert_exit(&scrub(&store, &[]), 0);
}

#[test]
fn a_lost_file_comes_back_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (_share, store, out) = directory(dir.path());
    let whole = tree_sum(&out);
    let source = file(dir.path(), "one", &noise(200_000, 9));
    let one = Share::start(&source, &dir.path().join("publisher-2"));
    let single = dir.path().join("single");
    assert_exit(&get(&store, &[&one.ticket, "-o", text(&single)]), 0);
    fs::remove_dir_all(&out).unwrap();
    fs::remove_file(&single).unwrap();
    assert_exit(&scrub(&store, &["--repair"]), 1);
    assert!(!out.exists() && !single.exists(), "somebody removed it, and asked for nothing");
    assert_exit(&scrub(&store, &["--repair", text(&single), text(&out)]), 0);
    assert_eq!(tree_sum(&out), whole);
    assert!(fs::read(&single).unwrap() == fs::read(&source).unwrap());
    let times = [&single, &source].map(|path| fs::metadata(path).unwrap().modified().unwrap());
    assert_eq!(times[0], times[1]);
    // The store takes it for the fetched copy, and hashes nothing for that.
    let list = xylem(&store).args(["store", "list"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&list.stdout).contains("changed"), "{list:?}");
}

#[test]
fn a_killed_repair_resumes_and_names_only_whole_files() {
    let dir = tempfile::tempdir().unwrap();
    let (_share, store, out) = directory(dir.path());
    fs::remove_file(out.join("large")).unwrap();
    let mut command = xylem(&store);
    command.args(["scrub", "--repair", "--limit", "500K"]).arg(&out);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    until("the part", || out.join(".large.xylem-part").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!out.join("large").exists());
    assert_exit(&scrub(&store, &["--repair", text(&out)]), 0);
    assert!(fs::read(out.join("large")).unwrap() == noise(1_500_000, 1));
    assert!(!out.join(".large.xylem-part").exists());
}

#[test]
fn nothing_is_written_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (_share, store, out) = directory(dir.path());
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_dir_all(out.join("sub")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, out.join("sub")).unwrap();
    let repaired = scrub(&store, &["--repair"]);
    assert_ne!(repaired.status.code(), Some(0));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn nobody_there_is_exit_3() {
    let dir = tempfile::tempdir().unwrap();
    let (share, store, out) = directory(dir.path());
    drop(share);
    fs::remove_file(out.join("large")).unwrap();
    let repaired = scrub(&store, &["--repair", "--timeout", "1"]);
    assert_exit(&repaired, 3);
    assert!(!out.join("large").exists());
}
