//! Sharing many things: in one process, in the background node of a user, and again after restarts.

mod common;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use common::{assert_exit, file, finish, get, noise, printed_root, stderr, sum, text, xylem};

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn several_paths_are_shared_at_once_with_a_ticket_each() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let tree = dir.path().join("tree");
    fs::create_dir_all(&tree).unwrap();
    file(&tree, "inside", &noise(20_000, 3));
    // The same name and other bytes, the same bytes and another name.
    fs::create_dir_all(dir.path().join("other")).unwrap();
    let paths = [
        file(dir.path(), "one.bin", &noise(300_000, 1)),
        file(&dir.path().join("other"), "one.bin", &noise(200_000, 2)),
        tree,
        file(dir.path(), "same.bin", &noise(300_000, 1)),
    ];
    let mut command = xylem(&store);
    command.args(["share", "--listen", "127.0.0.1:0"]).args(&paths);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let tickets: Vec<String> = lines.take(paths.len()).map(Result::unwrap).collect();
    let _share = Running(child);
    // From the last to the first: each is found by its own name.
    for (at, (path, ticket)) in paths.iter().zip(&tickets).enumerate().rev() {
        assert!(ticket.starts_with("xylem:"), "{ticket}");
        let out = dir.path().join(format!("out-{at}"));
        let output = get(&dir.path().join("getter"), &[ticket, "-o", text(&out)]);
        assert_exit(&output, 0);
        let (source, got) = match path.is_dir() {
            true => (path.join("inside"), out.join("inside")),
            false => (path.clone(), out),
        };
        assert!(fs::read(got).unwrap() == fs::read(&source).unwrap(), "{}", path.display());
        if path.is_file() {
            assert_eq!(printed_root(&output), sum(&source));
        }
    }
    let distinct: HashMap<_, _> = tickets.iter().map(|t| (t, ())).collect();
    assert_eq!(distinct.len(), paths.len());
}

#[test]
fn a_name_is_for_one_path() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = xylem(&dir.path().join("store"));
    command.args(["share", "--as", "/a/b", "one", "two"]).stdin(Stdio::null());
    let output = finish(command);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("--as names one PATH"), "{}", stderr(&output));
}
