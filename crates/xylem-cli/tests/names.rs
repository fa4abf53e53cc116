//! Names that a publisher chose: long, deep, or harmful to a terminal; and the modes of files with such names.
#![cfg(unix)]

use crate::common;
use crate::common::{Share, assert_exit, file, finish, noise, stderr, sum, text, xylem};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

fn run(store: &Path, inside: &Path, args: &[&str]) -> Output {
    let mut command = xylem(store);
    command.args(args).current_dir(inside).stdin(Stdio::null());
    finish(command)
}

/// Two places that share nothing.
struct Places {
    dir: tempfile::TempDir,
    ours: PathBuf,
    theirs: PathBuf,
}

impl Places {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        fs::create_dir(&ours).unwrap();
        fs::create_dir(&theirs).unwrap();
        Self { dir, ours, theirs }
    }

    fn store(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn get(&self, args: &[&str]) -> Output {
        run(&self.store("their-store"), &self.theirs, &[&["get", "--no-serve"], args].concat())
    }
}

#[test]
fn names_as_long_as_the_file_system_takes_are_fetched() {
    let places = Places::new();
    for len in [240, 241, 243, 244, 254, 255] {
        let name = "n".repeat(len - 4) + ".bin";
        let source = file(&places.ours, &name, &noise(100_000, len as u64));
        let share = Share::start(&source, &places.store("store"));
        let to = places.theirs.join(&name);
        assert_exit(&places.get(&[&share.ticket]), 0);
        assert_eq!(sum(&to), sum(&source), "{len}");
        // A name derived from a long one is cut to the limit of the file system.
        for more in [&["--rename"][..], &["--range", "5..10"]] {
            assert_exit(&places.get(&[&[&share.ticket[..]], more].concat()), 0);
        }
        let there = fs::read_dir(&places.theirs).unwrap().count();
        assert_eq!(there, 3, "{len}: the file, another one and a part");
        fs::remove_dir_all(&places.theirs).unwrap();
        fs::create_dir(&places.theirs).unwrap();
    }
}

#[test]
fn a_directory_of_long_names_is_fetched() {
    let places = Places::new();
    let tree = places.ours.join("d".repeat(255));
    fs::create_dir(&tree).unwrap();
    for len in [241, 255] {
        // A file written in one go, and one written piece by piece.
        file(&tree, &"s".repeat(len), &noise(100, 1));
        file(&tree, &"l".repeat(len), &noise(600_000, 2));
    }
    let share = Share::start(&tree, &places.store("store"));
    assert_exit(&places.get(&[&share.ticket]), 0);
    let to = places.theirs.join("d".repeat(255));
    for entry in fs::read_dir(&tree).unwrap() {
        let name = entry.unwrap().file_name();
        assert_eq!(sum(&to.join(&name)), sum(&tree.join(&name)));
    }
}

/// Directories inside one another, the last with a file in it; their path.
fn nested(top: &Path, depth: usize) -> PathBuf {
    let path = (0..depth).fold(top.to_path_buf(), |path, _| path.join("d"));
    fs::create_dir_all(&path).unwrap();
    file(&path, "f", b"deep");
    path
}

#[test]
fn every_depth_that_share_accepts_is_fetched() {
    let places = Places::new();
    // With the file, the maximum number of components of a path in a listing.
    let (deep, too_deep) = (places.ours.join("deep"), places.ours.join("too-deep"));
    nested(&deep, 511);
    for depth in [512, 700] {
        nested(&too_deep, depth);
        for verb in [&["share", "--listen", "127.0.0.1:0"][..], &["sum", "--tree"]] {
            let args = [verb, &[text(&too_deep)]].concat();
            let output = run(&places.store("store"), &places.ours, &args);
            assert_exit(&output, 2);
            assert!(stderr(&output).contains("nested too deep: at most 511"), "{output:?}");
        }
        fs::remove_dir_all(&too_deep).unwrap();
    }
    let share = Share::start(&deep, &places.store("store"));
    assert_exit(&places.get(&[&share.ticket]), 0);
    let verify = ["verify", "deep", &share.ticket];
    assert_exit(&run(&places.store("their-store"), &places.theirs, &verify), 0);
    let root = |of: &Path| {
        run(&places.store("their-store"), &places.theirs, &["sum", "--tree", text(of)]).stdout
    };
    let fetched = String::from_utf8(root(&places.theirs.join("deep"))).unwrap();
    let shared = String::from_utf8(root(&deep)).unwrap();
    assert_eq!(fetched.split_whitespace().next(), shared.split_whitespace().next());
}

/// A name with control characters that move a terminal's cursor, ring, end a line and reverse the text direction.
const EVIL: &str = "a\u{1b}]0;owned\u{7}\u{1b}[2J\r\nb\u{202e}fdp\u{9b}1m.exe";

#[track_caller]
fn harmless(output: &Output, what: &str) {
    for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let said = String::from_utf8(bytes.clone()).unwrap();
        let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!said.contains(acts), "{what}, {stream}: {said:?}");
    }
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_escaped() {
    let places = Places::new();
    let tree = places.ours.join("tree");
    fs::create_dir(&tree).unwrap();
    let in_tree = file(&tree, EVIL, &noise(50_000, 1));
    let alone = file(&places.ours, EVIL, &noise(50_000, 2));
    let store = places.store("their-store");
    for (what, name) in [(&alone, EVIL), (&tree, "tree")] {
        let share = Share::start(what, &places.store("store"));
        let fetched = places.get(&["-v", &share.ticket]);
        assert_exit(&fetched, 0);
        harmless(&fetched, "get");
        assert!(!fetched.stdout.is_empty() || what == &tree);
        harmless(&places.get(&["-v", &share.ticket]), "get of what is there");
        let ticket = run(&store, &places.theirs, &["ticket", &share.ticket]);
        harmless(&ticket, "ticket");
        let damaged = match name {
            "tree" => places.theirs.join("tree").join(EVIL),
            name => places.theirs.join(name),
        };
        let mut bytes = fs::read(&damaged).unwrap();
        bytes[20_000] ^= 1;
        let there = fs::metadata(&damaged).unwrap().modified().unwrap();
        fs::write(&damaged, bytes).unwrap();
        fs::File::options().write(true).open(&damaged).unwrap().set_modified(there).unwrap();
        let at = places.theirs.join(name);
        let verify = run(&store, &places.theirs, &["verify", text(&at), &share.ticket]);
        assert_exit(&verify, 1);
        harmless(&verify, "verify");
        let scrub = run(&store, &places.theirs, &["scrub", text(&at)]);
        assert_exit(&scrub, 1);
        harmless(&scrub, "scrub");
        harmless(&run(&store, &places.theirs, &["store", "list"]), "store list");
        harmless(&run(&store, &places.theirs, &["store", "check"]), "store check");
        let taken = places.get(&[&share.ticket]);
        assert_exit(&taken, 2);
        harmless(&taken, "get where something else is");
        harmless(&run(&store, &places.ours, &["-v", "get", "--json", &share.ticket]), "JSON");
    }
    fs::remove_file(in_tree).unwrap();
}

#[test]
fn a_file_gets_no_mode_bit_that_the_umask_takes_away() {
    let places = Places::new();
    let source = file(&places.ours, "open", b"for everybody, says the publisher");
    for (mode, umask, is) in [
        (0o777, "022", 0o755),
        (0o777, "077", 0o700),
        (0o666, "027", 0o640),
        (0o777, "000", 0o777),
        (0o600, "000", 0o600),
    ] {
        fs::set_permissions(&source, fs::Permissions::from_mode(mode)).unwrap();
        let share = Share::start(&source, &places.store("store"));
        let to = places.theirs.join(format!("{mode:o}-{umask}"));
        let store = places.store("their-store");
        let script = format!("umask {umask}; exec \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, "sh", common::XYLEM, "--store"]).arg(&store);
        command.args(["get", "--no-serve", &share.ticket, "-o"]).arg(&to);
        assert_exit(&finish(command), 0);
        let got = fs::metadata(&to).unwrap().permissions().mode() & 0o7777;
        assert_eq!(got, is, "{mode:o} under {umask}: {got:o}");
    }
}

#[test]
fn every_verb_reads_its_ticket_from_a_file_or_standard_input() {
    let places = Places::new();
    let source = file(&places.ours, "file", &noise(20_000, 3));
    let share = Share::start(&source, &places.store("store"));
    let ticket = file(places.dir.path(), "ticket", share.ticket.as_bytes());
    let at = format!("@{}", text(&ticket));
    let store = places.store("their-store");
    for from in [&at[..], "-"] {
        let cases: [&[&str]; 4] = [
            &["get", from, "--no-serve", "--overwrite", "-o", "file"],
            &["verify", "file", from],
            &["ticket", from],
            &["scrub", "file", "--repair", "--from", from],
        ];
        for case in cases {
            let mut command = xylem(&store);
            command.args(case).current_dir(&places.theirs);
            command.stdin(fs::File::open(&ticket).unwrap());
            assert_exit(&finish(command), 0);
        }
        let mut command = xylem(&store);
        command.args(["send", from, "nobody"]).stdin(fs::File::open(&ticket).unwrap());
        let said = stderr(&finish(command));
        assert!(said.contains("no person is named nobody"), "{said}");
    }
}
