//! A newer version over an older copy: only changed parts are transferred, and every byte is proven.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common;
use crate::common::{Share, assert_exit, file, get, get_json, noise, stderr, text, xylem};
use xylem_hash::tree::chunk_group_cv;

const SIZE: usize = 12_000_000;

/// Fetched and reused bytes of the `done` event; together they are all bytes.
fn moved(done: &serde_json::Value) -> (u64, u64) {
    let of = |field: &str| done[field].as_u64().unwrap();
    assert_eq!(of("fetched") + of("reused") + of("resumed"), of("bytes"), "{done}");
    (of("fetched"), of("reused"))
}

/// Fetches `new` over `old`; returns the number of bytes fetched.
fn fetched_over(old: &[u8], new: &[u8]) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let share = Share::start(&file(dir, "new", new), &dir.join("there"));
    let out = file(dir, "copy", old);
    let arguments = [&share.ticket, "--overwrite", "--no-serve", "-o", text(&out)];
    let (code, done) = get_json(&dir.join("here"), &arguments);
    assert_eq!(code, Some(0), "{done}");
    assert!(fs::read(&out).unwrap() == new, "the new content");
    moved(&done).0
}

#[test]
fn changed_in_place() {
    let old = noise(SIZE, 1);
    let mut new = old.clone();
    for place in [0, 5_000_000, SIZE - 1] {
        new[place] ^= 1;
    }
    let fetched = fetched_over(&old, &new);
    assert!(fetched <= 3 * 8192, "{fetched}");
}

#[test]
fn one_byte_inserted_at_the_front() {
    let old = noise(SIZE, 2);
    let fetched = fetched_over(&old, &[b"x", &old[..]].concat());
    assert!(fetched <= 2 * 8192, "{fetched}");
}

#[test]
fn appended_cut_off_and_moved() {
    let old = noise(SIZE, 3);
    let more = noise(1_000_000, 4);
    let fetched = fetched_over(&old, &[&old[..], &more[..]].concat());
    assert!(fetched <= 1_000_000 + 2 * 8192, "{fetched}");
    // Shorter: all of it is in the old copy.
    let fetched = fetched_over(&old, &old[..SIZE / 2]);
    assert_eq!(fetched, 0);
    // Two halves change places.
    let fetched = fetched_over(&old, &[&old[SIZE / 3..], &old[..SIZE / 3]].concat());
    assert!(fetched <= 4 * 8192, "{fetched}");
    // The same content: the root alone proves it.
    assert_eq!(fetched_over(&old, &old), 0);
    // Too small for a list: fetched as without one.
    assert_eq!(fetched_over(&old[..30_000], &old[1..30_000]), 29_999);
}

#[test]
fn old_copies_of_other_names() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let new = noise(SIZE, 5);
    let share = Share::start(&file(dir, "new", &new), &dir.join("there"));
    let first = file(dir, "first", &new[..SIZE / 2]);
    fs::create_dir(dir.join("folder")).unwrap();
    file(&dir.join("folder"), "new", &new[SIZE / 2 - 1000..]);
    let folder = dir.join("folder");
    let likes = ["--like", text(&first), "--like", text(&folder)];

    let out = dir.join("out");
    let arguments = [&[&share.ticket, "--no-serve", "-o", text(&out)], &likes[..]].concat();
    let (code, done) = get_json(&dir.join("here"), &arguments);
    assert_eq!(code, Some(0), "{done}");
    assert!(fs::read(&out).unwrap() == new);
    let (fetched, _) = moved(&done);
    assert!(fetched <= 3 * 8192, "{fetched}");
    // The old copies are not changed.
    assert!(fs::read(&first).unwrap() == new[..SIZE / 2]);

    // Without them, everything is fetched.
    let other = dir.join("other");
    let arguments = [&share.ticket, "--no-serve", "-o", text(&other)];
    let (_, done) = get_json(&dir.join("elsewhere"), &arguments);
    assert_eq!(moved(&done), (SIZE as u64, 0));

    // A missing copy is reported.
    let third = dir.join("third");
    let arguments = [&share.ticket, "--like", "/nowhere/old", "-o", text(&third)];
    let output = get(&dir.join("third-store"), &arguments);
    assert_ne!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("/nowhere/old"), "{}", stderr(&output));
}

#[test]
fn a_killed_update_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let old = noise(SIZE, 6);
    let new = [&noise(SIZE, 7)[..], &old[..]].concat();
    let share = Share::start(&file(dir, "new", &new), &dir.join("there"));
    let (like, out, store) = (file(dir, "old", &old), dir.join("out"), dir.join("here"));
    let like = text(&like);
    let mut command = xylem(&store);
    command
        .args(["--json", "get", &share.ticket, "--limit", "10M", "--like", like, "-o"])
        .arg(&out);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(event["event"] != "done", "it was over before the kill");
        if event["verified"].as_u64().is_some_and(|verified| verified > 4_000_000) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let arguments = [&share.ticket, "--like", like, "--no-serve", "-o", text(&out)];
    let (code, done) = get_json(&store, &arguments);
    assert_eq!(code, Some(0), "{done}");
    assert!(fs::read(&out).unwrap() == new);
    moved(&done);
    let resumed = done["resumed"].as_u64().unwrap();
    assert!(resumed >= 3_900_000, "{done}");
}

/// Unchanged files of a directory cost no transfer. In changed files only the changed parts are transferred, whether
/// the old ones are replaced or lie elsewhere.
#[test]
fn files_of_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let tree = |at: &Path, files: &[(&str, &[u8])]| {
        fs::create_dir_all(at.join("sub")).unwrap();
        files.iter().for_each(|(name, content)| drop(file(at, name, content)));
    };
    let (a, b, c) = (noise(3_000_000, 20), noise(2_000_000, 21), noise(1_000_000, 22));
    let shifted = [b"x", &a[..]].concat();
    let mut changed = c.clone();
    changed[500_000] ^= 1;
    let old = [("a", &a[..]), ("b", &b), ("sub/c", &c), ("small", b"old"), ("same", b"same")];
    let new =
        [("a", &shifted[..]), ("b", &b), ("sub/c", &changed), ("small", b"new"), ("same", b"same")];
    tree(&dir.join("new"), &new);
    let share = Share::start(&dir.join("new"), &dir.join("there"));
    let whole: u64 = new.iter().map(|(_, content)| content.len() as u64).sum();
    let check = |out: &Path, done: &serde_json::Value| {
        for (name, content) in new {
            assert!(fs::read(out.join(name)).unwrap() == content, "{name}");
        }
        let (fetched, _) = moved(done);
        assert_eq!(done["bytes"], whole);
        assert!(fetched <= 4 * 8192, "{done}");
    };

    let (elsewhere, out) = (dir.join("elsewhere"), dir.join("out"));
    tree(&elsewhere, &old);
    let like = text(&elsewhere);
    let arguments = [&share.ticket, "--like", like, "--no-serve", "-o", text(&out)];
    let (code, done) = get_json(&dir.join("here"), &arguments);
    assert_eq!(code, Some(0), "{done}");
    check(&out, &done);
    assert!(fs::read(elsewhere.join("a")).unwrap() == a, "it stays as it was");

    // Into an existing folder it goes under its own name.
    let folder = dir.join("folder");
    let over = folder.join("new");
    tree(&over, &old);
    let arguments = [&share.ticket, "--overwrite", "--no-serve", "-o", text(&folder)];
    let (code, done) = get_json(&dir.join("another"), &arguments);
    assert_eq!(code, Some(0), "{done}");
    check(&over, &done);
}

/// The file in a store with the list of a share's sums.
fn list_in(store: &Path) -> PathBuf {
    let objects = fs::read_dir(store.join("objects")).unwrap();
    let mut lists = objects.map(|entry| entry.unwrap().path());
    lists.find(|path| path.extension().is_some_and(|e| e == "sums")).expect("a list")
}

/// A publisher signs a list that claims that the getter has every part: the whole content is fetched, and never a wrong
/// byte.
#[test]
fn a_list_that_lies() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (path, store) = (file(dir, "new", &noise(SIZE, 8)), dir.join("there"));
    drop(Share::start(&path, &store));
    let list = list_in(&store);
    let blocks = (fs::metadata(&list).unwrap().len() - 32) / 6;
    let zeros = vec![0; 8192];
    let mut lies = Vec::new();
    for block in 0..blocks {
        lies.extend([0; 4]); // the weak sum of zeros
        lies.extend(&chunk_group_cv(&zeros, block * 8).as_bytes()[..2]);
    }
    let seal = xylem_hash::hash(&lies);
    fs::write(&list, [&lies[..], seal.as_bytes()].concat()).unwrap();

    let share = Share::start(&path, &store);
    assert_eq!(fs::read(list_in(&store)).unwrap()[..lies.len()], lies, "it is what is published");
    let out = file(dir, "old", &vec![0; SIZE]);
    let arguments = [&share.ticket, "--overwrite", "--no-serve", "-o", text(&out)];
    let (code, done) = get_json(&dir.join("here"), &arguments);
    assert_eq!(code, Some(0), "{done}");
    assert!(fs::read(&out).unwrap() == noise(SIZE, 8));
    assert_eq!(moved(&done), (SIZE as u64, 0));
}

/// A store from before there were lists, or one with a damaged list, makes the list at the next share.
#[test]
fn a_list_that_is_missing_or_damaged_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (path, store) = (file(dir, "new", &noise(SIZE, 9)), dir.join("there"));
    drop(Share::start(&path, &store));
    let list = list_in(&store);
    let right = fs::read(&list).unwrap();
    fs::remove_file(&list).unwrap();
    drop(Share::start(&path, &store));
    assert!(fs::read(&list).unwrap() == right);

    let mut wrong = right.clone();
    wrong[100] ^= 1;
    fs::write(&list, &wrong).unwrap();
    let mut command = xylem(&store);
    command.args(["store", "check"]);
    let output = common::finish(command);
    assert_exit(&output, 1);
    drop(Share::start(&path, &store));
    assert!(fs::read(&list).unwrap() == right);
}
