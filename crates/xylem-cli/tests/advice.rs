//! The advice in messages: every command line that one names in backticks can be typed as it stands, and some of them are
//! followed to see that they do what the message says.
//!
//! Advice about peers, relays, mail and growing files is followed in the tests of these (`nat.rs`, `codes.rs`,
//! `follow.rs`, `witness.rs`, `lost_files.rs`, `sync_taking.rs`).

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use crate::common::{
    Node, Share, assert_exit, file, finish, noise, stderr, sum, text, until, xylem,
};

/// Rust sources below a folder.
fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
}

/// The string literals of a Rust source. Comments are left out, help texts (which are comments) among them.
fn literals(source: &str) -> Vec<String> {
    let bytes = source.as_bytes();
    let is_word = |at: usize| bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_';
    let after = |from: usize, what: &str| {
        let found = source.get(from..).and_then(|rest| rest.find(what));
        found.map_or(source.len(), |at| from + at + what.len())
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"//") {
            at = after(at, "\n");
        } else if rest.starts_with(b"/*") {
            at = after(at, "*/");
        } else if rest[0] == b'r' && (at == 0 || !is_word(at - 1) || bytes[at - 1] == b'b') {
            let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
            let begin = at + 1 + hashes;
            if bytes.get(begin) == Some(&b'"') {
                let quote = format!("\"{}", "#".repeat(hashes));
                at = after(begin + 1, &quote);
                found.push(source[begin + 1..at - quote.len()].to_owned());
            } else {
                at += 1;
            }
        } else if rest[0] == b'"' {
            let mut literal = Vec::new();
            at += 1;
            while bytes[at] != b'"' {
                if bytes[at] != b'\\' {
                    literal.push(bytes[at]);
                    at += 1;
                    continue;
                }
                match bytes[at + 1] {
                    // The next line continues the literal.
                    b'\n' => {
                        at += 2;
                        at += bytes[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
                        continue;
                    }
                    b'n' => literal.push(b'\n'),
                    other => literal.push(other),
                }
                at += 2;
            }
            at += 1;
            found.push(String::from_utf8(literal).expect("the source is UTF-8"));
        } else if rest[0] == b'\'' && rest.get(1) == Some(&b'\\') {
            at = after(at + 3, "'");
        } else if rest[0] == b'\'' {
            // A character, or else a lifetime.
            let width = source[at + 1..].chars().next().map_or(1, char::len_utf8);
            at += if bytes.get(at + 1 + width) == Some(&b'\'') { width + 2 } else { 1 };
        } else {
            at += 1;
        }
    }
    found
}

/// The texts in backticks that begin a command line of the program.
fn commands(text: &str) -> impl Iterator<Item = String> {
    let inside = text.split('`').skip(1).step_by(2);
    let commands = inside.filter(|inside| inside.starts_with("xylem "));
    commands.map(|command| command.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The words of a command line after the program's name, with a value in place of each placeholder.
fn words_of(command: &str) -> Vec<String> {
    let words = command.split(' ').skip(1).filter(|word| *word != "…");
    let value = |word: &str| match word {
        "KEY" | "{key}" => "0".repeat(64),
        "HOST:PORT" => "127.0.0.1:1".to_owned(),
        "key:NAME" => "key:/x".to_owned(),
        word if word.contains('{') => "x".to_owned(),
        word => word.to_owned(),
    };
    words.map(value).collect()
}

/// Settings are read after the whole command line was parsed and before its verb begins: a file of settings that is
/// missing ends each run there. An incomplete command line, such as `xylem get --wait`, is good advice.
#[test]
fn every_command_in_a_message_can_be_typed() {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    let all: BTreeSet<String> = files
        .iter()
        .flat_map(|path| literals(&fs::read_to_string(path).unwrap()))
        .flat_map(|literal| commands(&literal).collect::<Vec<_>>())
        .collect();
    assert!(all.len() > 60, "{} commands: {all:?}", all.len());
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("no-such.toml");
    let good = [
        text(&missing),
        "required arguments were not provided",
        "a value is required for",
        // In place of the arguments that are missing.
        "send needs the peer",
    ];
    let mut wrong = Vec::new();
    for command in &all {
        let mut run = xylem(&dir.path().join("store"));
        run.current_dir(dir.path()).stdin(Stdio::null());
        run.args(["--config", text(&missing)]).args(words_of(command));
        let output = finish(run);
        let said = stderr(&output);
        if output.status.code() != Some(2) || !good.iter().any(|part| said.contains(part)) {
            wrong.push(format!("{command}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!dir.path().join("store").exists(), "a verb began");
}

#[test]
fn literals_are_found_and_comments_are_not() {
    let source = r##"
        //! `xylem one`
        /* "`xylem two`" */
        let a = "say `xylem three \
                 --four`, or \"`xylem five`\"";
        let b = ('"', '\'', "x"); // "`xylem six`"
        fn f<'a>(x: &'a str) -> &'a str { r#"raw "`xylem seven`""# }
    "##;
    let found: Vec<String> = literals(source).iter().flat_map(|text| commands(text)).collect();
    assert_eq!(found, ["xylem three --four", "xylem five", "xylem seven"]);
}

/// Runs a command in a folder to its end.
fn run(dir: &Path, words: &[&str]) -> Output {
    let mut command = xylem(&dir.join("store"));
    command.current_dir(dir).args(words).stdin(Stdio::null());
    finish(command)
}

/// The words of the advice in an output that begins with `begin`, with these values for its placeholders.
fn advice(output: &Output, begin: &str, values: &[(&str, &str)]) -> Vec<String> {
    let said = format!("{}{}", stderr(output), String::from_utf8_lossy(&output.stdout));
    let found = commands(&said).find(|command| command.starts_with(begin));
    let found = found.unwrap_or_else(|| panic!("no `{begin}` in {said}"));
    let value = |word: &str| {
        let known = values.iter().find(|(placeholder, _)| *placeholder == word);
        known.map_or(word, |(_, value)| value).to_owned()
    };
    found.split(' ').skip(1).map(value).collect()
}

/// Follows the advice in an output; returns the output of the advised command, which has to succeed.
fn follow(dir: &Path, output: &Output, begin: &str, values: &[(&str, &str)]) -> String {
    let words = advice(output, begin, values);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let followed = run(dir, &words);
    assert_exit(&followed, 0);
    format!("{}{}", stderr(&followed), String::from_utf8_lossy(&followed.stdout))
}

#[test]
fn advice_about_missing_keys_makes_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let none = run(dir, &["key", "list"]);
    follow(dir, &none, "xylem inbox card", &[]);
    let listed = run(dir, &["key", "list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("card xylem-peer:"));
    let none = run(dir, &["key", "serve"]);
    assert_exit(&none, 2);
    follow(dir, &none, "xylem key new", &[("/NAME", "/ann")]);
    assert_exit(&run(dir, &["key", "cert", "/ann"]), 0);
    // A CA names the key that it lacks.
    let at = format!("unix://{}", text(&dir.join("no-forwarder")));
    let lacks = run(dir, &["ndn", "ca", "/org", "--at", &at]);
    assert_exit(&lacks, 2);
    follow(dir, &lacks, "xylem key new /org", &[]);
    let has = run(dir, &["ndn", "ca", "/org", "--at", &at]);
    assert_exit(&has, 3);
    assert!(stderr(&has).contains("no forwarder at"), "{}", stderr(&has));
}

/// A folder with a shared file `film` in its store; nothing serves it any more.
fn shared() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let film = file(dir.path(), "film", &noise(3_000_000, 5));
    drop(Share::start(&film, &dir.path().join("store")));
    (dir, film)
}

#[test]
fn advice_about_pins_lists_and_removes_them() {
    let (dir, film) = shared();
    let dir = dir.path();
    file(dir, "other", b"x");
    let unknown = run(dir, &["store", "pin", "other"]);
    assert_exit(&unknown, 2);
    assert!(follow(dir, &unknown, "xylem store list", &[]).contains(text(&film)));
    assert_exit(&run(dir, &["store", "pin", &sum(&film)]), 0);
    let by_root = run(dir, &["store", "unpin", "film"]);
    assert_exit(&by_root, 2);
    follow(dir, &by_root, "xylem store unpin", &[]);
    let gone = run(dir, &["store", "unpin", "film"]);
    assert!(stderr(&gone).contains("is not pinned"), "{}", stderr(&gone));
}

#[test]
fn advice_about_a_damaged_tree_repairs_it() {
    let (dir, _) = shared();
    let dir = dir.path();
    let objects = fs::read_dir(dir.join("store/objects")).unwrap();
    let mut trees = objects.map(|entry| entry.unwrap().path());
    let tree = trees.find(|path| path.extension().is_some_and(|end| end == "outboard")).unwrap();
    let mut nodes = fs::read(&tree).unwrap();
    nodes[2_000] ^= 1;
    fs::write(&tree, nodes).unwrap();
    let damaged = run(dir, &["store", "check"]);
    assert_exit(&damaged, 1);
    follow(dir, &damaged, "xylem store check --repair-tree", &[]);
    assert_exit(&run(dir, &["store", "check"]), 0);
}

#[test]
fn advice_about_unknown_names_lists_known_ones() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let no_verb = run(dir, &["man", "frobnicate"]);
    assert_exit(&no_verb, 2);
    let listed = follow(dir, &no_verb, "xylem man --list", &[]);
    let verb: Vec<&str> = listed.lines().next().unwrap().split(' ').collect();
    assert_exit(&run(dir, &[&["man"], &verb[..]].concat()), 0);
    let no_message = run(dir, &["inbox", "accept", "7"]);
    assert_exit(&no_message, 2);
    assert!(follow(dir, &no_message, "xylem inbox", &[]).contains("No mail"));
    let not_shared = run(dir, &["unshare", "film"]);
    assert_exit(&not_shared, 2);
    let listed = follow(dir, &not_shared, "xylem shares", &[]);
    assert!(listed.contains("does not run"), "{listed}");
}

#[test]
fn advice_about_a_taken_name_frees_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let card = |who: &str| {
        let mut command = xylem(&dir.join(who));
        command.args(["inbox", "card"]).stdin(Stdio::null());
        String::from_utf8(finish(command).stdout).unwrap().trim().to_owned()
    };
    let (first, second) = (card("first"), card("second"));
    assert_exit(&run(dir, &["inbox", "trust", "ann", &first]), 0);
    let taken = run(dir, &["inbox", "trust", "ann", &second]);
    assert_exit(&taken, 2);
    follow(dir, &taken, "xylem inbox forget ann", &[]);
    assert_exit(&run(dir, &["inbox", "trust", "ann", &second]), 0);
}

#[test]
fn advice_about_parts_makes_lines_that_merge() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let film = file(dir, "film", &noise(100_000, 6));
    file(dir, "part", b"no part\n");
    let no_part = run(dir, &["sum", "--merge", "part"]);
    assert_exit(&no_part, 2);
    let mut words = advice(&no_part, "xylem sum --part", &[]);
    words.push("film".to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let part = run(dir, &words);
    assert_exit(&part, 0);
    fs::write(dir.join("part"), part.stdout).unwrap();
    let merged = run(dir, &["sum", "--merge", "part"]);
    assert_exit(&merged, 0);
    assert!(String::from_utf8_lossy(&merged.stdout).contains(&sum(&film)));
}

#[test]
fn advice_about_tee_stores_the_input() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    file(dir, "log", b"x");
    let not_input = run(dir, &["share", "log", "--follow", "--tee", "kept"]);
    assert_exit(&not_input, 2);
    let words = advice(&not_input, "xylem share --follow - --tee", &[("FILE", "kept")]);
    let mut command = xylem(&dir.join("store"));
    command.current_dir(dir).args(words).args(["--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut share = Running(command.spawn().unwrap());
    share.0.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    until("the input is stored", || {
        fs::read(dir.join("kept")).is_ok_and(|kept| kept == b"a line\n")
    });
}

#[test]
fn advice_about_a_missing_face_lists_the_faces() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let at = ["--at", node.at("unix")];
    let show = [&["ndn", "ctl", "face", "show", "udp4://127.0.0.1:9"][..], &at].concat();
    let none = run(dir.path(), &show);
    assert_exit(&none, 2);
    let words = advice(&none, "xylem ndn ctl face list", &[]);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(at).collect();
    let listed = run(dir.path(), &words);
    assert_exit(&listed, 0);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("face 1 "), "all faces");
}

/// A running program; killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the background node, `share` and `shares` advise leads to a share, to its row, and to its end.
#[cfg(unix)]
#[test]
fn advice_about_the_background_node_leads_around() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let film = file(dir, "film", &noise(100_000, 7));
    let none = run(dir, &["shares"]);
    let mut words = advice(&none, "xylem service run", &[]);
    words.insert(0, "--json".to_owned());
    words.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
    let mut command = xylem(&dir.join("store"));
    command.current_dir(dir).args(words).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut node = Running(command.spawn().unwrap());
    let mut events = BufReader::new(node.0.stdout.take().unwrap()).lines();
    let listens = |line: &std::io::Result<String>| line.as_ref().unwrap().contains("listening");
    assert!(events.any(|line| listens(&line)), "it listens");
    std::thread::spawn(move || events.for_each(drop));
    let mut empty = run(dir, &["shares"]);
    until("the node answers", || {
        empty = run(dir, &["shares"]);
        stderr(&empty).contains("Nothing is shared")
    });
    let second = run(dir, &["service", "run", "--listen", "127.0.0.1:0"]);
    assert_exit(&second, 4);
    let status = follow(dir, &second, "xylem service status", &[]);
    assert!(status.contains("The background node runs"), "{status}");
    let words = advice(&empty, "xylem share PATH", &[("PATH", text(&film))]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let shared = run(dir, &words);
    assert_exit(&shared, 0);
    let listed = follow(dir, &shared, "xylem shares", &[]);
    assert!(listed.contains(text(&film)), "{listed}");
    follow(dir, &shared, "xylem unshare PATH", &[("PATH", text(&film))]);
    assert!(stderr(&run(dir, &["shares"])).contains("Nothing is shared"));
}
