//! `xylem store` on unfinished work: where the data of interrupted fetches lie, and that data and proof are removed
//! together.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::common::{Share, assert_exit, file, finish, noise, stderr, text, until, xylem};
use serde_json::Value;

fn run(store: &Path, arguments: &[&str]) -> Output {
    let mut command = xylem(store);
    command.args(arguments).stdin(Stdio::null());
    finish(command)
}

fn rows(output: &Output, event: &str) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["event"] == event).collect()
}

/// Fetches a good part of a share, and is killed.
fn interrupted(share: &Share, store: &Path, out: &Path) -> PathBuf {
    let part = out.with_file_name(format!(".{}.xylem-part", out.file_name().unwrap().display()));
    let mut command = xylem(store);
    command.args(["--json", "get", &share.ticket, "--limit", "2M", "-o"]).arg(out);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut getting = command.spawn().unwrap();
    // The proof is in the store as well by then.
    let proven = || {
        let partial = fs::read_dir(store.join("partial")).into_iter().flatten().flatten();
        partial.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).max() > Some(0)
    };
    let has_come = || {
        let listed = run(store, &["--json", "store", "list"]);
        rows(&listed, "unfinished").first().is_some_and(|row| row["bytes"].as_u64() > Some(0))
    };
    until("some of it has come", || proven() && has_come());
    getting.kill().unwrap();
    getting.wait().unwrap();
    part
}

/// The data of an interrupted fetch, which lie beside the wanted file, and their proof are either both removed or both
/// kept.
#[test]
fn an_interrupted_fetch_goes_with_its_data_or_stays_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let (store, tree) = (dir.path().join("getter"), dir.path().join("tree"));
    fs::create_dir_all(tree.join("d")).unwrap();
    for name in ["a", "d/b"] {
        file(&tree, name, &noise(9_000_000, name.len() as u64));
    }
    let single = file(dir.path(), "single", &noise(20_000_000, 9));
    for source in [&single, &tree] {
        let share = Share::start(source, &dir.path().join("sharer"));
        let out = dir.path().join("wanted");
        let part = interrupted(&share, &store, &out);
        let listed = run(&store, &["--json", "store", "list"]);
        assert_exit(&listed, 0);
        let unfinished = rows(&listed, "unfinished");
        assert_eq!(unfinished.len(), 1, "{unfinished:?}");
        assert_eq!(unfinished[0]["path"], text(&part.canonicalize().unwrap()));
        assert_eq!(unfinished[0]["kind"], if source.is_dir() { "directory" } else { "file" });
        let bytes = unfinished[0]["bytes"].as_u64().unwrap();
        assert!(
            bytes > 0 && bytes <= 18_000_000.max(fs::metadata(&part).unwrap().len()),
            "{bytes}"
        );
        let totals = rows(&listed, "store_totals").remove(0);
        assert_eq!(
            (&totals["unfinished"], &totals["unfinished_bytes"]),
            (&1.into(), &bytes.into())
        );
        // A young one stays whole, and the next run resumes it.
        let output = run(&store, &["--json", "store", "gc"]);
        assert_exit(&output, 0);
        assert_eq!(rows(&output, "collected")[0]["fetches"], 0);
        assert!(part.exists() && fs::read_dir(store.join("partial")).unwrap().count() > 0);
        // On request each is named first, and then removed.
        let dry = run(&store, &["store", "gc", "--older-than", "0", "--dry-run"]);
        assert_exit(&dry, 0);
        let said = String::from_utf8(dry.stdout).unwrap();
        assert!(
            said.contains(&format!("Would remove {}", part.canonicalize().unwrap().display())),
            "{said}"
        );
        assert!(part.exists());
        let output = run(&store, &["store", "gc", "--older-than", "0"]);
        assert_exit(&output, 0);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("the data of 1 unfinished fetch"), "{said}");
        assert!(!part.exists());
        assert_eq!(fs::read_dir(store.join("partial")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(store.join("unfinished")).unwrap().count(), 0);
        assert!(rows(&run(&store, &["--json", "store", "list"]), "unfinished").is_empty());
    }
}

/// A fetch that runs is in use. A file with its final name leaves no record. Data without a record are named.
#[test]
fn data_in_use_stay_and_unknown_data_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("getter");
    let source = file(dir.path(), "single", &noise(20_000_000, 9));
    let share = Share::start(&source, &dir.path().join("sharer"));
    let small = file(dir.path(), "small", &noise(50_000, 1));
    let other = Share::start(&small, &dir.path().join("sharer-2"));
    let out = dir.path().join("whole");
    assert_exit(&run(&store, &["get", &other.ticket, "-o", text(&out)]), 0);
    let ranged = dir.path().join("ranged");
    assert_exit(&run(&store, &["get", &other.ticket, "--range", "5..70", "-o", text(&ranged)]), 0);
    assert_eq!(fs::read_dir(store.join("unfinished")).unwrap().count(), 0);
    let out = dir.path().join("wanted");
    let part = interrupted(&share, &store, &out);
    let mut command = xylem(&store);
    command.args(["get", &share.ticket, "--limit", "500K", "-o"]).arg(&out);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut getting = command.spawn().unwrap();
    let gc = || run(&store, &["--json", "store", "gc", "--older-than", "0", "--dry-run"]);
    until("it is at work again", || rows(&gc(), "collected")[0]["busy"] != 0);
    let output = run(&store, &["--json", "store", "gc", "--older-than", "0"]);
    assert_eq!(rows(&output, "collected")[0]["fetches"], 0);
    assert!(part.exists());
    getting.kill().unwrap();
    getting.wait().unwrap();
    // The records are lost, as if the data belonged to another store.
    fs::remove_dir_all(store.join("unfinished")).unwrap();
    let output = run(&store, &["store", "check"]);
    assert_exit(&output, 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let part = part.canonicalize().unwrap();
    let line = said.lines().find(|line| line.contains(text(&part)));
    assert!(
        line.is_some_and(|line| line.contains("has no record of")),
        "{said}{}",
        stderr(&output)
    );
    assert_exit(&run(&store, &["store", "gc", "--older-than", "0"]), 0);
    assert!(part.exists(), "it may be another store's");
}
