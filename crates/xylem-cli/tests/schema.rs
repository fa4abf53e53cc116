//! `xylem ndn schema`: compiles texts to binary forms, and applies them to names.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const BLOG: &str = "blog.lvs";

/// A text compiled by python-ndn, and its binary form.
fn fixture(name: &str) -> PathBuf {
    let fixtures = "../xylem-trust/tests/fixtures/schema";
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(fixtures).join(name)
}

fn xylem(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xylem"))
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("the program runs")
}

fn schema(command: &str, file: &str, more: &[&str]) -> Output {
    let path = fixture(file);
    let mut args = vec!["ndn", "schema", command, path.to_str().expect("text")];
    args.extend_from_slice(more);
    xylem(&args)
}

fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (output.status.code().expect("an end"), text(&output.stdout), text(&output.stderr))
}

#[test]
fn compiled_schemas_equal_those_of_python_ndn() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["blog", "constraints", "group"] {
        let to = folder.path().join(name);
        let text = format!("{name}.lvs");
        let output = schema("compile", &text, &["-o", to.to_str().expect("text")]);
        assert_eq!(said(&output), (0, String::new(), String::new()));
        let theirs = std::fs::read(fixture(&format!("{name}.tlv"))).expect("a file");
        assert_eq!(std::fs::read(&to).expect("a file"), theirs);
        assert_eq!(schema("compile", &text, &[]).stdout, theirs);
    }
}

#[test]
fn a_schema_gives_the_rules_and_signers_of_a_name() {
    for file in [BLOG, "blog.tlv"] {
        let (code, out, _) = said(&schema("check", file, &[]));
        let rules = "7 rules: #KEY #author #draft #editor #post #root #site";
        assert_eq!((code, out), (0, format!("{rules}\nanchors: #root\n")));
        let post = "/example/blog/post/bob/2026/hello";
        let (code, out, _) = said(&schema("check", file, &[post]));
        assert_eq!((code, out.as_str()), (0, "#post  author=bob year=2026 title=hello\n"));

        let bob = "/example/blog/author/bob/KEY/1/eve/v=1";
        let eve = "/example/blog/author/eve/KEY/1/eve/v=1";
        let (code, out, _) = said(&schema("check", file, &[post, eve, bob]));
        assert_eq!(code, 0, "one may: {out}");
        assert_eq!(
            out,
            format!(
                "{eve}  may not sign: #post: the key matches #author, but with another value \
                 for author\n{bob}  may sign: #post <= #author\n"
            )
        );
        assert_eq!(said(&schema("check", file, &[post, eve])).0, 1);
        let (code, _, error) = said(&schema("check", file, &["/elsewhere"]));
        assert_eq!(code, 1);
        assert_eq!(error, "xylem: /elsewhere: no rule of the schema matches this name\n");
    }
    let rows = schema("check", BLOG, &["--json", "/example/blog/draft/bob/a/b", "/x/KEY/1/a/v=1"]);
    let row: Value = serde_json::from_slice(&rows.stdout).expect("one event");
    assert_eq!((&row["event"], &row["allowed"]), (&"permit".into(), &false.into()));
    assert_eq!(row["rule"], Value::Null);
}

#[test]
fn an_invalid_schema_is_one_line_and_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |bytes: &[u8]| {
        let path = folder.path().join("s");
        std::fs::write(&path, bytes).expect("a file");
        let path = path.to_str().expect("text").to_owned();
        let (code, out, error) = said(&xylem(&["ndn", "schema", "check", &path]));
        assert_eq!((code, out.as_str(), error.lines().count()), (2, "", 1), "{error}");
        error.replace(&format!("xylem: {path}: "), "")
    };
    assert_eq!(check(b"#a: \"x\"\n#b: #c\n"), "line 2, column 5: #c: there is no such rule\n");
    // The binary form begins with a letter, too.
    let text = check(b"a: b\n");
    assert!(text.starts_with("line 1, column 1: "), "{text}");
    assert!(check(b"a").starts_with("line 1, column 1: "));
    assert!(check(b"a\t\n").starts_with("line 1, column 1: "));
    assert!(
        check(b"a\x04").starts_with("the schema is malformed: an element extends past the end")
    );
    assert_eq!(check(b"\xff"), "neither a schema's text nor its binary form\n");
    let mut version = std::fs::read(fixture("blog.tlv")).expect("a file");
    version[5] = 9;
    assert_eq!(check(&version), "the schema has version 0x00011009; only 0x00011000 can be read\n");
    assert_eq!(said(&xylem(&["ndn", "schema", "check", "/nowhere"])).0, 2);
    // An endless device is read no further than the maximum size of a schema.
    let mut child = Command::new(env!("CARGO_BIN_EXE_xylem"))
        .args(["ndn", "schema", "compile", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    let block = [b' '; 1 << 16];
    while input.write_all(&block).is_ok() {}
    assert_eq!(child.wait().expect("an end").code(), Some(2));
}
