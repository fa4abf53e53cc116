//! `xylem sum --part` and `--merge`, with the program as a user starts it: one hash of data on several machines,
//! whatever is lost on the way.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const XYLEM: &str = env!("CARGO_BIN_EXE_xylem");

fn xylem(dir: &Path, args: &[&str]) -> Output {
    Command::new(XYLEM).args(args).current_dir(dir).stdin(Stdio::null()).output().expect("it runs")
}

/// The output of a run that has to succeed.
fn said(dir: &Path, args: &[&str]) -> String {
    let output = xylem(dir, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Exit code and line of a run that has to fail.
fn refused(dir: &Path, args: &[&str]) -> (i32, String) {
    let output = xylem(dir, args);
    assert!(output.stdout.is_empty(), "{args:?} printed something");
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    (output.status.code().expect("an exit code"), error)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn folder(len: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("big"), pattern(len)).expect("a file");
    dir
}

fn put(dir: &Path, name: &str, args: &[&str]) {
    fs::write(dir.join(name), said(dir, args)).expect("a part");
}

#[test]
fn parts_of_a_file_make_its_hash() {
    for len in [0, 1, 1024, 1025, 2048, 70_000, 9_000_001] {
        let dir = folder(len);
        let dir = dir.path();
        let whole = said(dir, &["sum", "--no-names", "big"]);
        put(dir, "all", &["sum", "--part", "big"]);
        assert_eq!(said(dir, &["sum", "--merge", "all"]), whole, "{len} in one");
        if len <= 2048 {
            continue;
        }
        put(dir, "a", &["sum", "--part", "--range", "..2048", "big"]);
        put(dir, "b", &["sum", "--part", "--range", "2K..64K", "big"]);
        put(dir, "c", &["sum", "--part", "--range", "64K..", "--num-threads", "3", "big"]);
        // A worker was lost, and another one repeated its part.
        for order in [["a", "b", "c", "b"], ["c", "b", "a", "a"]] {
            let args = [&["sum", "--merge"], &order[..]].concat();
            assert_eq!(said(dir, &args), whole, "{len} in three");
        }
        let (code, error) = refused(dir, &["sum", "--merge", "a", "b"]);
        assert_eq!(code, 2);
        assert!(error.contains(&format!("no part covers bytes 65536..{len}")), "{error}");
    }
}

#[test]
fn every_kind_of_hash_has_parts() {
    let dir = folder(3_000_000);
    let dir = dir.path();
    let kinds: [&[&str]; 2] = [&[], &["--derive-key", "a test of parts"]];
    for kind in kinds {
        let whole = said(dir, &[&["sum", "--no-names", "--length", "100", "big"], kind].concat());
        for (name, range) in [("a", "..1M"), ("b", "1M..")] {
            put(dir, name, &[&["sum", "--part", "--range", range, "big"], kind].concat());
        }
        let merge = [&["sum", "--merge", "--length", "100", "a", "b"], kind].concat();
        assert_eq!(said(dir, &merge), whole);
    }
    let (code, error) = refused(dir, &["sum", "--merge", "a", "b"]);
    assert_eq!(code, 2);
    assert!(error.contains("the parts are of another kind of hash: derive-key"), "{error}");
}

#[test]
fn standard_input_is_a_part() {
    let dir = folder(5_000_000);
    let dir = dir.path();
    let piped = |range: &str, bytes: &[u8]| {
        fs::write(dir.join("piece"), bytes).expect("a piece");
        let piece = fs::File::open(dir.join("piece")).expect("the piece");
        let args = ["sum", "--part", "--range", range, "--size", "5000000"];
        Command::new(XYLEM).args(args).stdin(piece).output().expect("it runs")
    };
    let bytes = pattern(5_000_000);
    for (name, range, bytes) in
        [("a", "0..3M", &bytes[..3 << 20]), ("b", "3M..", &bytes[3 << 20..])]
    {
        let output = piped(range, bytes);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(dir.join(name), output.stdout).expect("a part");
    }
    let whole = said(dir, &["sum", "--no-names", "big"]);
    assert_eq!(said(dir, &["sum", "--merge", "b", "a"]), whole);
    // Fewer bytes than the range has, and more: no part of it.
    for (bytes, why) in [(&bytes[..3000], "ended at byte 3000"), (&bytes[..], "goes on after")] {
        let output = piped("0..3M", bytes);
        assert!(!output.status.success() && output.stdout.is_empty());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn impossible_parts_are_refused_in_one_line() {
    let dir = folder(10_000);
    let dir = dir.path();
    put(dir, "a", &["sum", "--part", "--range", "..4K", "big"]);
    fs::write(dir.join("changed"), pattern(20_000)).expect("a file");
    put(dir, "other", &["sum", "--part", "--range", "4K..", "changed"]);
    fs::write(
        dir.join("lie"),
        fs::read_to_string(dir.join("a")).expect("it").replace("node", "no"),
    )
    .expect("a file");
    for (args, why) in [
        (&["sum", "--part", "--range", "100..", "big"][..], "multiple of 1024"),
        (&["sum", "--part", "--range", "0..100", "big"], "or at the end of the file"),
        (&["sum", "--part", "--range", "0..11K", "big"], "only 10000 bytes"),
        (&["sum", "--part", "--range", "10K..", "big"], "only 10000 bytes"),
        (&["sum", "--part", "big", "a"], "takes one file"),
        (&["sum", "--part", "."], "reads regular files"),
        (&["sum", "--part", "--size", "7", "big"], "--size is for standard input"),
        (&["sum", "--part", "nowhere"], "nowhere"),
        (&["sum", "--merge", "a", "other"], "different lengths: 10000 and 20000"),
        (&["sum", "--merge", "lie"], "lie, line 1: not a line of a part"),
        (&["sum", "--merge", "big"], "big"),
        (&["sum", "--merge"], "nothing to merge"),
    ] {
        let (code, error) = refused(dir, args);
        assert_eq!(code, 2, "{args:?}: {error}");
        assert!(error.contains(why), "{args:?}: {error}");
    }
}
