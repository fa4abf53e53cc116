//! Two fetches of one object at once, with one store, into two folders: each result is right, also when the other fetch
//! is killed in the middle. One destination has one fetch at a time.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::fetching::Get;
use crate::common::{Share, assert_exit, file, get, noise, stderr, text, xylem};

/// So slow that each takes some seconds.
const SLOW: [&str; 3] = ["--limit", "2M", "--no-serve"];

fn folder(dir: &Path, name: &str) -> PathBuf {
    let folder = dir.join(name);
    fs::create_dir(&folder).unwrap();
    folder
}

fn sum(path: &Path) -> String {
    let tree = if path.is_dir() { &["--tree"][..] } else { &[] };
    let output = xylem(path).args(["sum", "--no-names"]).args(tree).arg(path).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn both_end(dir: &Path, source: &Path) {
    let share = Share::start(source, &dir.join("publisher"));
    let (store, name) = (dir.join("store"), source.file_name().unwrap());
    let (one, two) = (folder(dir, "one"), folder(dir, "two"));
    let mut first = Get::start(&store, &share.ticket, &one, &SLOW);
    first.has_fetched(1_000_000);
    let mut second = Get::start(&store, &share.ticket, &two, &SLOW);
    second.has_fetched(1_000_000);
    let same = get(&store, &[&share.ticket, "-o", text(&one)]);
    assert_exit(&same, 4);
    assert!(stderr(&same).contains("another"), "{}", stderr(&same));
    first.kill();
    assert_eq!(second.wait(), Some(0));
    assert_eq!(sum(&two.join(name)), sum(source));
    // Data of the killed fetch are used.
    let mut again = Get::start(&store, &share.ticket, &one, &["--no-serve"]);
    assert_eq!(again.wait(), Some(0));
    assert!(again.done()["resumed"].as_u64() >= Some(500_000), "{}", again.done());
    assert_eq!(sum(&one.join(name)), sum(source));
    assert_eq!(fs::read_dir(store.join("partial")).unwrap().count(), 0);
    // Neither fetch harmed the other: the tree in the store serves both copies.
    for (fetched, to) in [(&one, "three"), (&two, "four")] {
        let on = Share::start(&fetched.join(name), &store);
        let to = folder(dir, to);
        assert_exit(&get(&dir.join("other"), &[&on.ticket, "-o", text(&to)]), 0);
        assert_eq!(sum(&to.join(name)), sum(source));
    }
}

#[test]
fn two_gets_of_a_file_at_once_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(5_000_000, 1));
    both_end(dir.path(), &source);
}

#[test]
fn two_gets_of_a_directory_at_once_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let source = folder(dir.path(), "source");
    for i in 0..100_usize {
        file(&source, &format!("{i}"), &noise(i * 300, i as u64));
    }
    file(&source, "large", &noise(2_500_000, 200));
    file(&source, "larger", &noise(2_500_000, 201));
    both_end(dir.path(), &source);
}
