//! The files below a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Contents of files by their path below a folder, with `/` between names.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// Reads a tree. Unfinished fetches (`.NAME.xylem-part`) are no files of the user and left out.
pub(crate) fn read(dir: &Path) -> Tree {
    let mut tree = Tree::new();
    walk(dir, "", &mut tree);
    tree
}

fn walk(dir: &Path, below: &str, tree: &mut Tree) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("names of the test are UTF-8");
        if name.ends_with(".xylem-part") {
            continue;
        }
        let path = format!("{below}{name}");
        if entry.file_type().expect("a type").is_dir() {
            walk(&entry.path(), &format!("{path}/"), tree);
        } else {
            tree.insert(path, fs::read(entry.path()).expect("a file"));
        }
    }
}

/// How two trees differ, a line a path; `None` if they do not.
pub(crate) fn difference(expected: &Tree, found: &Tree) -> Option<String> {
    let mut lines = Vec::new();
    for (path, content) in expected {
        match found.get(path) {
            None => lines.push(format!("{path} is gone")),
            Some(other) if other != content => {
                lines.push(format!("{path}: {} other bytes, not {}", other.len(), content.len()));
            }
            Some(_) => {}
        }
    }
    let more = found.keys().filter(|path| !expected.contains_key(*path));
    lines.extend(more.map(|path| format!("{path} came from nowhere")));
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Whether a rule of the test's leaves a path of the shared folder out.
pub(crate) fn is_left_out(rule: &str, path: &str) -> bool {
    match rule {
        "*.key" => path.ends_with(".key"),
        "/d" => path.starts_with("d/"),
        other => unreachable!("no such rule: {other}"),
    }
}
