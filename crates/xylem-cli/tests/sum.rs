//! `xylem sum` against b3sum: a table of the output of b3sum 1.8.7, checked in, and b3sum itself where it is installed
//! (on PATH, or named by B3SUM; `B3SUM_TABLE=write` writes the table anew from it).
//!
//! Intended differences, besides the wording of wrong usage: where b3sum ends with 1 because an input cannot be used or
//! read, ours ends with 2 or 4 (tests/sum_faults.rs has each). Where a missing file's name breaks b3sum's line, ours
//! stays one. `--quiet` needs no `--check`. `--seek` past the last byte of the output is refused, where b3sum goes on
//! counting blocks.
//!
//! The files' bytes count 0..=250 over and over, as those of the official test vectors do.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const XYLEM: &str = env!("CARGO_BIN_EXE_xylem");
const TABLE: &str = include_str!("sum_table.txt");

const EMPTY: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
const ONE: &str = "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213";

/// Bytes 1000 to 1032 of the output for the file n1.
const ONE_FAR: &str = "35ea986f65097f6193ee6376340bffd0e52c1de4bd8179fb6c49010336e0be1a";

#[cfg(target_os = "linux")]
fn not_utf8() -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(b"abc\xffdef".to_vec())
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Sizes around every unit: block, chunk, eight chunks, region (1 MiB), cut-up file (4 MiB).
const SIZES: &[usize] = &[
    0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 8191, 8192, 8193, 65_537, 1_048_575, 1_048_576,
    1_048_577, 4_194_303, 4_194_304, 4_194_305, 5_243_000, 8_388_608, 9_000_001,
];

/// Names that need care.
const NAMES: &[&str] = &[
    "with space",
    "two  spaces",
    "back\\slash",
    "new\nline",
    "carriage\rreturn",
    "-dash",
    "x) = y",
    "BLAKE3 (z",
    "ümläut",
    "否认",
    "tab\there",
    " ",
    "line\r\nend",
    "folder/inside",
    "folder/in\\\nside",
];

fn fixture() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).expect(name);
    for size in SIZES {
        put(&format!("n{size}"), &pattern(*size));
    }
    fs::create_dir(dir.path().join("folder")).expect("a folder can be made");
    for (i, name) in NAMES.iter().enumerate() {
        put(name, &pattern(i));
    }
    #[cfg(target_os = "linux")]
    fs::write(dir.path().join(not_utf8()), b"").expect("Linux takes any bytes");
    let zeros = "0".repeat(64);
    put("good.sums", format!("{EMPTY}  n0\n{ONE}  n1\n").as_bytes());
    put("crlf.sums", format!("{EMPTY}  n0\r\n{ONE}  n1\r\n").as_bytes());
    put("open.sums", format!("{EMPTY}  n0").as_bytes());
    put("none.sums", b"");
    put("bom.sums", format!("\u{feff}{EMPTY}  n0\n{ONE}  n1\n").as_bytes());
    put("dash.sums", format!("{EMPTY}  -\n{ONE}  n1\n").as_bytes());
    put("hash-of-folder.sums", format!("{EMPTY}  folder\n").as_bytes());
    put("far.sums", format!("{ONE_FAR}  n1\n").as_bytes());
    put("tag.sums", format!("BLAKE3 (n0) = {EMPTY}\nBLAKE3 (x) = y) = {zeros}\n").as_bytes());
    put("bad.sums", format!("{EMPTY}  n1\n{ONE}  n1\n").as_bytes());
    put("worse.sums", format!("{EMPTY}  n1\n{zeros}  n0\n{EMPTY}  n0\n").as_bytes());
    put("gone.sums", format!("{EMPTY}  not-here\n{ONE}  n1\n{EMPTY}  folder\n").as_bytes());
    put(
        "odd.sums",
        format!("\\{ONE}  new\\nline\n\\{ONE}  back\\\\slash\n\\{zeros}  carriage\\rreturn\n")
            .as_bytes(),
    );
    put(
        "malformed.sums",
        [
            String::new(),
            "no sum at all".into(),
            format!("{EMPTY} n0"),
            format!("{}  n0", EMPTY.to_uppercase()),
            format!("{}  n0", &EMPTY[1..]),
            format!("{}  n0", "z".repeat(64)),
            format!("{}  n0", "ü".repeat(32)),
            format!("{EMPTY}  "),
            format!("\\{EMPTY}  n\\0"),
            format!("\\{EMPTY}  n0\\"),
            format!("{EMPTY}  n\u{fffd}0"),
            format!("{EMPTY}  n\00"),
            format!("BLAKE3 (n0) {EMPTY}"),
            format!("BLAKE3 () = {EMPTY}"),
            format!("{EMPTY}  n0"),
            "\\".into(),
        ]
        .join("\n")
        .as_bytes(),
    );
    put(
        "binary.sums",
        [format!("{EMPTY}  n0\n").as_bytes(), &[0xff, 0xfe, b'\n']].concat().as_slice(),
    );
    dir
}

/// Arguments, and the content of standard input.
type Row = (Vec<OsString>, Vec<u8>);

/// The cases that are run, among them every case of b3sum's own tests.
fn rows() -> Vec<Row> {
    let key: Vec<u8> = (0..32).collect();
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |args: &[&str], stdin: &[u8]| {
        rows.push((args.iter().map(OsString::from).collect(), stdin.to_vec()));
    };
    for size in SIZES {
        row(&[&format!("n{size}")], b"");
    }
    for name in NAMES {
        row(&["--", name], b"");
        row(&["--tag", "--", name], b"");
    }
    row(&[], b"from standard input");
    row(&["-"], b"from standard input");
    row(&["n1", "-", "n0", "-"], &pattern(100_000));
    row(&["--tag", "-"], b"x");
    row(&["--no-names", "n0", "n1"], b"");
    row(&["--no-names", "--tag", "n0", "n1"], b"");
    row(&["--no-names", "new\nline"], b"");
    row(&["n0", "not-here", "folder", "n1"], b"");
    row(&["n5243000", "n0", "n4194305", "n1", "n9000001", "folder", "n1025"], b"");
    for threads in ["0", "1", "3"] {
        row(&["--num-threads", threads, "n5243000", "n0", "n9000001"], b"");
    }
    row(&["--no-mmap", "n1", "n8388608"], b"");
    for size in ["n0", "n1", "n1024", "n1025", "n9000001"] {
        row(&["--keyed", size], &key);
        row(&["--derive-key", "xylem 2026 test context", size], b"");
        row(&["-l", "100", size], b"");
        row(&["--length=7", "--seek", "3", size], b"");
        row(&["--length=64", "--seek=63", "--keyed", "--tag", size], &key);
    }
    for args in [&["--keyed"][..], &["--derive-key", "c"], &["-l", "99", "--seek", "7"]] {
        for threads in ["--num-threads=1", "--num-threads=3"] {
            row(&[args, &[threads, "n5243000", "n1", "n9000001"]].concat(), &key);
        }
    }
    row(&["--derive-key", "", "-"], b"material");
    row(&["--derive-key", "BLAKE3 2019-12-28 10:28:41 example context", "-"], b"key material");
    row(&["n1", "n1"], b"");
    row(&["--tag", "n0", "not-here", "n1"], b"");
    for (length, seek) in [("100", "0"), ("99", "0"), ("99", "1"), ("1", "99"), ("0", "5")] {
        row(&["--raw", "--length", length, "--seek", seek], b"foo");
        row(&["--raw", "--no-names", "--tag", "-l", length, "--seek", seek, "n9000001"], b"");
    }
    row(&["-l", "100000", "--seek", "33", "n9000001"], b"");
    row(&["--seek=18446744073709551583", "n1", "n9000001"], b"");
    row(&["--length"], b"foo");
    row(&["-l", "0", "n1"], b"");
    row(&["-l", "32", "--seek", "1", "n9000001"], b"");
    row(&["-l", "31", "--seek", "1", "n9000001"], b"");
    row(&["-l", "2", "--seek", "1000000000000", "n1"], b"");
    row(&["--raw", "n1"], b"");
    row(&["--raw", "-l", "70", "--seek", "5", "-"], b"x");
    row(&["--raw", "n0", "n1"], b"");
    for bytes in [0, 1, 31, 33, 64] {
        row(&["--keyed", "n1"], &pattern(bytes));
    }
    row(&["--keyed"], &key);
    row(&["--keyed", "-", "n1"], &key);
    for list in [
        "good",
        "crlf",
        "open",
        "none",
        "tag",
        "bad",
        "worse",
        "gone",
        "odd",
        "malformed",
        "binary",
        "bom",
        "dash",
        "hash-of-folder",
    ] {
        row(&["--check", &format!("{list}.sums")], b"");
        row(&["-c", "--quiet", &format!("{list}.sums")], b"");
    }
    row(&["-c"], format!("{EMPTY}  n0\n").as_bytes());
    row(&["-c", "-"], format!("{ONE}  n0\n").as_bytes());
    row(&["-c", "good.sums", "bad.sums", "good.sums"], b"");
    row(&["-c", "good.sums", "not-here", "good.sums"], b"");
    row(&["-c", "folder"], b"");
    row(&["-c", "--num-threads", "1", "worse.sums"], b"");
    row(&["-c", "--seek", "1000", "far.sums", "good.sums"], b"");
    row(&["-c", "--no-mmap", "good.sums"], b"");
    row(&["-c", "--tag", "good.sums"], b"");
    row(&["-c", "-l", "32", "good.sums"], b"");
    row(&["--keyed", "--derive-key", "x", "n1"], &key);
    row(&["--length", "x", "n1"], b"");
    row(&["--no-such-flag"], b"");
    #[cfg(target_os = "linux")]
    for flags in [&[][..], &["--tag"]] {
        let args = flags.iter().map(OsString::from).chain([not_utf8(), "n1".into()]);
        rows.push((args.collect(), Vec::new()));
    }
    rows
}

fn run(program: &Path, first: Option<&str>, args: &[OsString], stdin: &[u8], dir: &Path) -> Output {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("XYLEM_"))
    {
        command.env_remove(name);
    }
    let mut child = command
        .args(first)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut to = child.stdin.take().expect("it is piped");
    let bytes = stdin.to_vec();
    // The program may end without reading all of it.
    let writer = std::thread::spawn(move || drop(to.write_all(&bytes)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends");
    output
}

/// The compared part of a run, as text: exit code, standard output, and those lines of standard error that b3sum begins
/// with its name. The others are wrong usage, worded by each program itself.
fn outcome(output: &Output, name: &str) -> String {
    let mut text = format!("= {}\n", output.status.code().expect("not killed"));
    for line in output.stdout.split_inclusive(|b| *b == b'\n') {
        writeln!(text, "| {}", line.escape_ascii()).expect("writing to a String cannot fail");
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        if let Some(said) = line.strip_prefix(&format!("{name}: ")) {
            writeln!(text, "! {}", said.escape_debug()).expect("writing to a String cannot fail");
        }
    }
    text
}

fn title(args: &[OsString], stdin: &[u8]) -> String {
    let escape = |arg: &OsString| arg.as_encoded_bytes().escape_ascii().to_string();
    let args: Vec<String> = args.iter().map(escape).collect();
    format!(
        "$ {:?} < {} bytes {}",
        args,
        stdin.len(),
        xylem_hash::hash(stdin).to_hex().get(..8).unwrap_or_default()
    )
}

/// b3sum, if it is of the table's version: others differ.
fn b3sum() -> Option<PathBuf> {
    let found = b3sum_of_any_version()?;
    let version = Command::new(&found).arg("--version").output().ok()?;
    version.stdout.starts_with(b"b3sum 1.8.").then_some(found)
}

fn b3sum_of_any_version() -> Option<PathBuf> {
    let named = std::env::var_os("B3SUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path =
        || std::env::split_paths(&path).map(|dir| dir.join("b3sum")).find(|p| p.is_file());
    named.or_else(on_path)
}

/// The table: each row's title and outcome.
fn table() -> BTreeMap<&'static str, &'static str> {
    let rows = TABLE.split("\n\n").filter_map(|row| row.trim_start().split_once('\n'));
    rows.filter(|(title, _)| title.starts_with('$')).collect()
}

/// After its lines that begin with `Error:` b3sum ends with 1. Ours give advice instead, so only the output before them
/// is compared there. Exit codes are compared only as 0 or not 0.
fn comparable(text: &str, fatal: bool) -> String {
    let (exit, said) = text.split_once('\n').unwrap_or((text, ""));
    let keep = |l: &&str| !(fatal && l.starts_with('!'));
    let exit = if exit == "= 0" { exit } else { "failed" };
    std::iter::once(exit).chain(said.lines().filter(keep)).collect::<Vec<_>>().join("\n")
}

#[test]
#[cfg(unix)]
fn output_equals_that_of_b3sum() {
    let dir = fixture();
    if std::env::var_os("B3SUM_TABLE").is_some_and(|v| v == "write") {
        let b3sum = b3sum().expect("b3sum is needed to write its table");
        return write_table(&b3sum, dir.path());
    }
    let table = table();
    let rows = rows();
    assert_eq!(
        table.len(),
        rows.len(),
        "the table has other rows; write it with B3SUM_TABLE=write"
    );
    for (args, stdin) in rows {
        let title = title(&args, &stdin);
        let expected = table.get(title.as_str()).unwrap_or_else(|| panic!("no row {title}"));
        let ours = run(Path::new(XYLEM), Some("sum"), &args, &stdin, dir.path());
        let ours = outcome(&ours, "xylem");
        let fatal = !expected.starts_with("= 0") && !expected.contains("\n!");
        assert_eq!(comparable(&ours, fatal), comparable(expected.trim_end(), fatal), "{title}");
    }
}

#[test]
#[cfg(unix)]
fn the_table_equals_the_output_of_b3sum() {
    let Some(b3sum) = b3sum() else {
        // Writes past libtest's capture, so that a skipped test is seen.
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: b3sum is not installed; its table stands alone");
        return;
    };
    let dir = fixture();
    let table = table();
    for (args, stdin) in rows() {
        let title = title(&args, &stdin);
        let theirs = outcome(&run(&b3sum, None, &args, &stdin, dir.path()), "b3sum");
        assert_eq!(theirs.trim_end(), table[title.as_str()].trim_end(), "{title}");
    }
}

fn write_table(b3sum: &Path, dir: &Path) {
    let mut text = String::from(
        "What b3sum 1.8.7 does, for tests/sum.rs (B3SUM_TABLE=write writes this file anew).\n\
         $ arguments < standard input's length and hash; = exit code; | standard output; ! standard\n\
         error, where the line begins with the program's name, which is left out.\n\n",
    );
    for (args, stdin) in rows() {
        let theirs = run(b3sum, None, &args, &stdin, dir);
        writeln!(text, "{}\n{}", title(&args, &stdin), outcome(&theirs, "b3sum"))
            .expect("writing to a String cannot fail");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sum_table.txt");
    fs::write(path, text).expect("the table can be written");
}

/// The official test vectors' first 32 bytes, from the BLAKE3 repository's test_vectors.json.
#[test]
fn official_vectors() {
    let dir = fixture();
    for (size, hash) in [
        (0, EMPTY),
        (1, ONE),
        (1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"),
        (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
        (1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"),
    ] {
        let args = ["--no-names".into(), format!("n{size}").into()];
        let output = run(Path::new(XYLEM), Some("sum"), &args, b"", dir.path());
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{hash}\n"));
    }
}

/// Where b3sum lets a missing file's name break its line, ours stays one.
#[test]
fn a_complaint_is_one_line() {
    let dir = fixture();
    let args = ["not\nhere\u{1b}[2J".into()];
    let output = run(Path::new(XYLEM), Some("sum"), &args, b"", dir.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "xylem: not\\nhere\\u{1b}[2J: No such file or directory (os error 2)\n");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn many_files_come_in_order() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let mut args: Vec<OsString> = vec!["--num-threads".into(), "5".into()];
    let mut expected = String::new();
    for i in 0..500_usize {
        // Small and split files in turn, so that threads finish out of order.
        let bytes = pattern(if i % 125 == 7 { 4_194_304 + i } else { i * 37 });
        let name = format!("f{i}");
        fs::write(dir.path().join(&name), &bytes).expect("a file can be written");
        writeln!(expected, "{}  {name}", xylem_hash::hash(&bytes)).expect("a String takes it");
        args.push(name.into());
    }
    let output = run(Path::new(XYLEM), Some("sum"), &args, b"", dir.path());
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == expected.as_bytes(), "{}", String::from_utf8_lossy(&output.stdout));

    let list = expected.as_bytes();
    let output = run(Path::new(XYLEM), Some("sum"), &["-c".into()], list, dir.path());
    assert_eq!(output.status.code(), Some(0));
    let oks: String = (0..500).map(|i| format!("f{i}: OK\n")).collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), oks);
}

#[test]
fn json_lines() {
    let dir = fixture();
    let sum = |args: &[&str]| {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let output = run(Path::new(XYLEM), Some("sum"), &args, b"", dir.path());
        let lines = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        let events: Vec<serde_json::Value> =
            lines.lines().map(|l| serde_json::from_str(l).expect(l)).collect();
        (output.status.code(), events)
    };
    let (code, events) = sum(&["--json", "n0", "two  spaces"]);
    assert_eq!(code, Some(0));
    assert_eq!(events[0], serde_json::json!({"event": "sum", "path": "n0", "hash": EMPTY}));
    assert_eq!(events[1]["path"], "two  spaces");
    let (code, events) = sum(&["--json", "-c", "gone.sums"]);
    assert_eq!(code, Some(1));
    assert_eq!(events[1]["ok"], true);
    assert_eq!(events[0]["ok"], false);
    assert!(events[0]["why"].as_str().is_some_and(|why| why.contains("No such file")));
    let (code, _) = sum(&["--json", "--raw", "n0"]);
    assert_eq!(code, Some(2));
}
