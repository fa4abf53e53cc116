//! Checks docs/mistakes.md: the tests that its rows name exist. Documents claim no feature that other projects announced
//! and never had. docs/threat_model.py checks the tests that the threat model names.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files below `dir` with names that end in `end`; build outputs are left out.
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

/// The texts in backticks in the last column of each row of a document's tables.
fn rows(document: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &str| line.starts_with("|---");
    let is_row = |at: usize| {
        lines[at].starts_with("| ") && !lines.get(at + 1).is_some_and(|next| is_rule(next))
    };
    let names = |at: usize| {
        let last = lines[at].trim_end_matches('|').rsplit("| ").next().unwrap_or_default();
        last.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    (0..lines.len()).filter(|at| is_row(*at)).map(names).collect()
}

fn is_test(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.matches('_').count() > 1 && name.chars().all(is_word)
}

#[test]
fn every_row_names_tests_that_exist() {
    let mut sources = Vec::new();
    files(&root().join("crates"), ".rs", &mut sources);
    files(&root().join("crates"), ".py", &mut sources);
    let code = read(&sources);
    let rows = rows("docs/mistakes.md");
    assert!(rows.len() >= 25, "{} rows", rows.len());
    let mut functions = 0;
    for name in rows.iter().flatten() {
        if is_test(name) {
            let is_there =
                ["fn", "def"].iter().any(|kind| code.contains(&format!("{kind} {name}(")));
            assert!(is_there, "no test {name}");
            functions += 1;
        } else if name.contains('/') {
            let exists = |place: &Path| place.join(name).exists();
            assert!(exists(&root()) || exists(&root().join("crates")), "no {name}");
        }
    }
    assert!(functions >= 50, "{functions} tests");
}

/// WRAITH had a DHT with a bootstrap that printed a line and sent nothing, and an AF_XDP type around an ordinary UDP
/// socket. A feature that the documents name has to be linked in.
#[test]
fn nothing_is_claimed_that_is_not_there() {
    const CLAIMS: [(&str, &[&str]); 5] = [
        ("AF_XDP", &["xsk-rs", "xdp", "aya"]),
        ("io_uring", &["io-uring", "rustix-uring", "tokio-uring"]),
        ("DHT", &["xylem-dht"]),
        ("WebRTC", &["str0m", "webrtc"]),
        ("QUIC connection", &["quinn-proto", "quinn"]),
    ];
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let mut documents = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    files(&root().join("docs"), ".md", &mut documents);
    files(&root().join("crates"), "README.md", &mut documents);
    files(&root().join("crates/xylem-cli/src"), ".rs", &mut documents);
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
