//! docs/mistakes.md held to its word: the tests that it names exist, and documents claim nothing of
//! what others announced and never had.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files below `dir` whose name ends in `end`; build outputs are left out.
fn files(dir: &Path, end: &str, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files(&path, end, into);
        } else if path.to_string_lossy().ends_with(end) {
            into.push(path);
        }
    }
}

fn read(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// What stands in backticks in the last column of the document's table.
fn named_tests() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/mistakes.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let last = rows.filter_map(|row| row.trim_end_matches('|').rsplit(" | ").next());
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_test_that_the_document_names_exists() {
    let mut sources = Vec::new();
    files(&root().join("crates"), ".rs", &mut sources);
    let code = read(&sources);
    let (mut functions, mut places) = (0, 0);
    for name in named_tests() {
        let is_function = name.matches('_').count() > 1
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_function {
            assert!(code.contains(&format!("fn {name}(")), "no test {name}");
            functions += 1;
        } else if name.contains('/') {
            let exists = |place: &Path| place.join(&name).exists();
            assert!(exists(&root()) || exists(&root().join("crates")), "no {name}");
            places += 1;
        }
    }
    assert!(functions > 50 && places > 5, "{functions} tests and {places} places were found");
}

/// WRAITH: a DHT whose bootstrap printed a line and sent nothing; an AF_XDP type around an ordinary
/// UDP socket. What the documents name has to be linked in.
#[test]
fn nothing_is_claimed_that_is_not_there() {
    const CLAIMS: [(&str, &[&str]); 5] = [
        ("AF_XDP", &["xsk-rs", "xdp", "aya"]),
        ("io_uring", &["io-uring", "rustix-uring", "tokio-uring"]),
        ("DHT", &["mainline"]),
        ("WebRTC", &["str0m", "webrtc"]),
        ("QUIC connection", &["quinn-proto", "quinn"]),
    ];
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let mut documents = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    files(&root().join("docs"), ".md", &mut documents);
    files(&root().join("crates"), "README.md", &mut documents);
    files(&root().join("crates/xylem/src"), ".rs", &mut documents);
    documents.retain(|path| !path.ends_with("docs/mistakes.md"));
    assert!(documents.len() > 20);
    let text = read(&documents);
    for (claim, crates) in CLAIMS {
        let linked = crates.iter().any(|name| lock.contains(&format!("name = \"{name}\"\n")));
        assert!(
            linked || !text.contains(claim),
            "{claim} is claimed, and none of {crates:?} linked"
        );
    }
}
