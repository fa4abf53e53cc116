//! Files of a shared directory that were changed or removed since. A getter gets the rest and the names of those files,
//! and with the next ticket fetches those alone.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::common::{Share, assert_exit, file, get, get_json, noise, stderr, text, until};

fn source(dir: &Path) -> std::path::PathBuf {
    let source = dir.join("tree");
    fs::create_dir_all(source.join("sub")).unwrap();
    file(&source, "large", &noise(3_000_000, 1));
    file(&source, "grows", &noise(200_000, 2));
    file(&source, "goes", &noise(2_000, 3));
    file(&source, "small", b"small");
    file(&source, "sub/stays", &noise(70_000, 4));
    fs::hard_link(source.join("grows"), source.join("sub/grows-too")).unwrap();
    std::os::unix::fs::symlink("small", source.join("link")).unwrap();
    source
}

fn grow(path: &Path) {
    fs::File::options().append(true).open(path).unwrap().write_all(b"!").unwrap();
}

#[test]
fn lost_files_are_named_and_the_rest_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let share = Share::start(&source, &dir.path().join("publisher"));
    grow(&source.join("grows"));
    fs::remove_file(source.join("goes")).unwrap();
    let (store, into) = (dir.path().join("store"), dir.path().join("into"));
    fs::create_dir(&into).unwrap();
    let got = get(&store, &[&share.ticket, "-o", text(&into), "--timeout", "3"]);
    assert_exit(&got, 1);
    let said = stderr(&got);
    let last = said.lines().last().unwrap();
    assert!(last.contains("goes") && last.contains("grows") && !last.contains("large"), "{said}");
    assert!(last.contains("ask for a new ticket"), "{said}");
    let ours = into.join("tree");
    for path in ["large", "small", "sub/stays"] {
        assert!(
            fs::read(ours.join(path)).unwrap() == fs::read(source.join(path)).unwrap(),
            "{path}"
        );
    }
    assert_eq!(fs::read_link(ours.join("link")).unwrap(), Path::new("small"));
    for path in ["grows", "goes", "sub/grows-too"] {
        assert!(!ours.join(path).exists(), "{path}");
    }
    assert!(!into.join(".tree.xylem-part").exists());
    until("who shares it is told", || share.told("skipped").len() >= 2);
    drop(share);

    // The next ticket brings only the new files.
    let share = Share::start(&source, &dir.path().join("publisher"));
    let arguments = [&share.ticket, "-o", text(&into), "--overwrite"];
    let (code, done) = get_json(&store, &arguments);
    assert_eq!((code, &done["fetched"]), (Some(0), &200_001.into()), "{done}");
    assert!(
        fs::read(ours.join("sub/grows-too")).unwrap() == fs::read(source.join("grows")).unwrap()
    );
}

/// Where a file can't be fetched, existing files stay, including those that were to be removed.
#[test]
fn an_update_leaves_the_old_file_and_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let (store, into) = (dir.path().join("store"), dir.path().join("into"));
    fs::create_dir(&into).unwrap();
    let share = Share::start(&source, &dir.path().join("publisher"));
    assert_exit(&get(&store, &[&share.ticket, "-o", text(&into)]), 0);
    drop(share);
    let ours = into.join("tree");
    file(&ours, "mine", b"mine");
    let before = fs::read(ours.join("grows")).unwrap();
    file(&source, "grows", &noise(200_000, 9));
    file(&source, "small", b"newer");
    let share = Share::start(&source, &dir.path().join("publisher"));
    grow(&source.join("grows"));
    let arguments = [&share.ticket, "-o", text(&into), "--overwrite", "--delete", "--timeout", "3"];
    let got = get(&store, &arguments);
    assert_exit(&got, 1);
    assert!(stderr(&got).lines().last().unwrap().contains("grows"), "{}", stderr(&got));
    assert_eq!(fs::read(ours.join("small")).unwrap(), b"newer");
    assert!(fs::read(ours.join("grows")).unwrap() == before);
    assert_eq!(fs::read(ours.join("mine")).unwrap(), b"mine");
}

/// A publisher that does not answer is waited for, and half a directory is never put in place.
#[test]
fn an_absent_publisher_is_not_taken_for_lost_files() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(dir.path());
    let share = Share::start(&source, &dir.path().join("publisher"));
    let ticket = share.ticket.clone();
    drop(share);
    let out = dir.path().join("out");
    assert_exit(&get(&dir.path().join("store"), &[&ticket, "-o", text(&out), "--timeout", "1"]), 3);
    assert!(!out.exists());
}
