//! Trust schemas in use: what `get` and a node refuse, and the reasons that they report.
#![cfg(unix)]

use crate::common::serving::{Serving, certificate, run};
use crate::common::{Node, assert_exit, file, finish, stderr, text, until};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Rules of a blog with objects as `xylem ndn put` publishes them: metadata and segments.
const BLOG: &str = r#"
#KEY: "KEY"/_/_/_
#root: "blog"/#KEY
#author: "blog"/"author"/author/#KEY <= #root
#post: "blog"/"post"/author/_title
#metadata: #post/"32=metadata"/_version/_segment <= #author
#segment: #post/_version/_segment & { _version: $eq_type("v=0"), _segment: $eq_type("seg=0") } <= #author
#whole: #post <= #author
"#;

/// Runs `xylem ndn put` and waits until the object is there.
fn put(dir: &Path, at: &str, name: &str, source: &str, by: &str) -> Serving {
    let key = format!("key:{by}");
    let serving = Serving::start(dir, &["ndn", "put", name, source, "--sign", &key, "--at", at]);
    let there = ["get", name, "--insecure", "--from", at, "-o", "-"];
    until("the object", || run(dir, &there).status.success());
    serving
}

/// The name of a certificate in a file.
fn name_of(path: &str) -> String {
    let wire = xylem_trust::Armor::decode(&fs::read(path).unwrap()).unwrap();
    xylem_packet::Data::decode(&wire).unwrap().name().to_string()
}

#[test]
fn get_refuses_what_the_schema_forbids_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for identity in ["/blog", "/blog/author/bob", "/elsewhere"] {
        assert_exit(&run(dir, &["key", "new", identity]), 0);
    }
    let bob = certificate(dir, &["/blog/author/bob"], "bob.cert");
    let elsewhere = certificate(dir, &["/elsewhere"], "elsewhere.cert");
    let schema = text(&file(dir, "blog.lvs", BLOG.as_bytes())).to_owned();
    let compiled = text(&dir.join("blog.tlv")).to_owned();
    assert_exit(&run(dir, &["ndn", "schema", "compile", &schema, "-o", &compiled]), 0);

    let node = Node::start(dir, "");
    let at = node.at("unix").to_owned();
    let source = text(&file(dir, "post", &[7; 30_000])).to_owned();
    let by = "/blog/author/bob";
    let _own = put(dir, &at, "/blog/post/bob/hello", &source, by);
    let _stolen = put(dir, &at, "/blog/post/alice/hello", &source, by);
    let get = |name: &str, schema: &str, anchor: &str| {
        let whom = ["--schema", schema, "--trust", anchor];
        run(dir, &[&["get", name, "--from", &at, "-o", "got", "--overwrite"], &whom[..]].concat())
    };
    for schema in [&schema, &compiled] {
        assert_exit(&get("/blog/post/bob/hello", schema, &bob), 0);
        assert_eq!(fs::read(dir.join("got")).unwrap(), [7; 30_000]);
        fs::remove_file(dir.join("got")).unwrap();
    }
    // The key is trusted and its signature is right, but the name is another author's.
    let refused = get("/blog/post/alice/hello", &schema, &bob);
    assert_exit(&refused, 1);
    assert!(!dir.join("got").exists());
    let (said, by) = (stderr(&refused), name_of(&bob));
    let why = "the key matches #author, but with another value for author";
    let line = format!("may not be signed by {by} under the schema: #metadata: {why}\n");
    assert!(said.lines().count() == 1 && said.ends_with(&line), "{said}");
    // Without the schema a key signs below its owner's name alone.
    let hierarchy = ["get", "/blog/post/bob/hello", "--trust", &bob, "--from", &at, "-o", "got"];
    let refused = run(dir, &hierarchy);
    assert_exit(&refused, 1);
    let said = stderr(&refused);
    let key = by.rsplitn(3, '/').last().unwrap();
    assert!(
        said.contains(&format!("is not under /blog/author/bob, the identity of the key {key}")),
        "{said}"
    );

    // A trust anchor that can't work is reported before any packet is sent.
    let refused = get("/blog/post/bob/hello", &schema, &elsewhere);
    assert_exit(&refused, 2);
    let said = stderr(&refused);
    assert!(said.contains("no rule of the schema matches") && said.contains("#root"), "{said}");
    let no_anchor = run(dir, &["get", "/blog/post/bob/hello", "--schema", &schema, "--from", &at]);
    assert_exit(&no_anchor, 2);
}

/// The anchor is the blog's own key, which certifies authors. Their certificates are fetched, and checked by the schema
/// like packets.
#[test]
fn certificates_on_the_way_to_the_anchor_are_judged_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (bob, eve) = ("/blog/author/bob", "/blog/author/bob/eve");
    for identity in ["/blog", bob, eve] {
        assert_exit(&run(dir, &["key", "new", identity]), 0);
    }
    let root = certificate(dir, &["/blog"], "root.cert");
    let certified = |who: &str, by: &str, named: &str| {
        let own = certificate(dir, &[who], "own.cert");
        let signed = certificate(dir, &["--by", by, &own], named);
        assert_exit(&run(dir, &["key", "import", &signed]), 0);
        signed
    };
    let certificates = [certified(bob, "/blog", "bob.cert"), certified(eve, bob, "eve.cert")];
    let schema = text(&file(dir, "blog.lvs", BLOG.as_bytes())).to_owned();
    let node = Node::start(dir, "");
    let at = node.at("unix").to_owned();
    let [bob_at, eve_at] = &certificates;
    let _certificates = Serving::start(dir, &["key", "serve", "--at", &at, bob_at, eve_at]);
    for path in &certificates {
        let named = name_of(path);
        until("a certificate", || run(dir, &["ndn", "peek", &named, "--at", &at]).status.success());
    }

    let source = text(&file(dir, "post", &[7; 30_000])).to_owned();
    let _own = put(dir, &at, "/blog/post/bob/hello", &source, bob);
    let _stolen = put(dir, &at, "/blog/post/alice/hello", &source, bob);
    let _eves = put(dir, &at, "/blog/post/eve/hello", &source, eve);
    let get = |name: &str| {
        let whom = ["--schema", &schema, "--trust", &root, "--overwrite"];
        run(dir, &[&["get", name, "--from", &at, "-o", "got"], &whom[..]].concat())
    };
    assert_exit(&get("/blog/post/bob/hello"), 0);
    assert_eq!(fs::read(dir.join("got")).unwrap(), [7; 30_000]);
    fs::remove_file(dir.join("got")).unwrap();
    let refused = |name: &str, line: &str| {
        let output = get(name);
        assert_exit(&output, 1);
        let said = stderr(&output);
        assert!(said.lines().count() == 1 && said.ends_with(line), "{said}");
        assert!(!dir.join("got").exists());
    };
    let by_bob = format!("may not be signed by {} under the schema: ", name_of(&certificates[0]));
    let why = "#metadata: the key matches #author, but with another value for author\n";
    refused("/blog/post/alice/hello", &format!("{by_bob}{why}"));
    // Bob signed a certificate that the schema lets no key sign.
    let why = "no rule of the schema matches this name\n";
    refused("/blog/post/eve/hello", &format!("{} {by_bob}{why}", name_of(&certificates[1])));
}

#[test]
fn schemas_without_end_are_refused_before_anything_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_exit(&run(dir, &["key", "new", "/a"]), 0);
    let anchor = certificate(dir, &["/a"], "a.cert");
    let refused = |named: &str, bytes: &[u8], part: &str| {
        let schema = text(&file(dir, named, bytes)).to_owned();
        // No program listens at that address.
        let at = "tcp://127.0.0.1:1";
        let get = ["get", "/a/b", "--schema", &schema, "--trust", &anchor, "--from", at];
        let output = run(dir, &get);
        assert_exit(&output, 2);
        let said = stderr(&output);
        assert!(said.lines().count() == 1 && said.contains(part), "{named}: {said}");
        // In little memory: no more can be had here.
        let mut limited = Command::new("sh");
        let check = "ulimit -v 262144 && exec \"$0\" ndn schema check \"$1\"";
        limited.args(["-c", check, env!("CARGO_BIN_EXE_xylem"), &schema]);
        limited.env_clear().stdin(Stdio::null());
        let output = finish(limited);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(part), "{named}: {}", stderr(&output));
    };
    refused("names.lvs", b"#a: #b/x\n#b: #a/y\n", "refers to itself");
    refused("signers.lvs", b"#a: \"a\" <= #b\n#b: \"b\" <= #a\n", "a loop of signatures");
    // Each rule doubles the one before: 2^40 nodes.
    let mut doubling = "#r0: \"a\"\n#r0: \"b\"\n".to_owned();
    for at in 1..=40 {
        let before = at - 1;
        doubling += &format!("#r{at}: #r{before}/#r{before}\n");
    }
    refused("doubling.lvs", doubling.as_bytes(), "too many names");
    let many: String = (0..1_000_000).map(|at| format!("#r{at}: \"n{at}\"\n")).collect();
    refused("many.lvs", many.as_bytes(), "1 MiB");
    // A length without its bytes, and the largest possible length.
    let head = [0x61, 4, 0, 1, 0x10, 0, 0x25, 1, 0, 0x69, 1, 0];
    refused("short.tlv", &[&head[..], &[0x63, 200, 0x25, 1, 0]].concat(), "past the end");
    let longest = [0x63, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
    refused("long.tlv", &[&head[..], &longest].concat(), "past the end");
    // A million nodes.
    let nodes: Vec<u8> = (0..1_000_000).flat_map(|_| [0x63, 3, 0x25, 1, 0]).collect();
    refused("nodes.tlv", &[&head[..], &nodes].concat(), "16,384 nodes");
}

#[test]
fn a_node_obeys_commands_that_its_schema_allows() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for identity in ["/org", "/org/operator/bob"] {
        assert_exit(&run(dir, &["key", "new", identity]), 0);
    }
    let org = certificate(dir, &["/org"], "org.cert");
    let own = certificate(dir, &["/org/operator/bob"], "own.cert");
    let bob = certificate(dir, &["--by", "/org", &own], "bob.cert");
    let commands = r#"
        #KEY: "KEY"/_/_/_
        #admin: "org"/#KEY
        #operator: "org"/"operator"/_/#KEY <= #admin
        #routes: "localhost"/"nfd"/"rib"/_verb <= #operator | #admin
        #all: "localhost"/"nfd"/_module/_verb <= #admin
    "#;
    let commands = text(&file(dir, "commands.lvs", commands.as_bytes())).to_owned();
    let settings = format!(
        "[node.management]\nanchors = [{org:?}]\ncertificates = [{bob:?}]\nschema = {commands:?}\n"
    );
    let node = Node::start(dir, &settings);
    let at = node.at("unix").to_owned();
    let ctl = |by: &str, args: &[&str]| {
        let key = format!("key:{by}");
        run(dir, &[&["ndn", "ctl", "--at", &at, "--sign", &key], args].concat())
    };
    let cache = ["cs", "config", "--capacity", "10"];
    assert_exit(&ctl("/org", &cache), 0);
    let refused = ctl("/org/operator/bob", &cache);
    assert!(!refused.status.success());
    let said = stderr(&refused);
    let by = name_of(&bob);
    let line = format!(
        "403 /localhost/nfd/cs/config may not be signed by {by} under the schema: #all: the key has \
         to match #admin, and matches #operator\n"
    );
    assert!(said.lines().count() == 1 && said.ends_with(&line), "{said}");
    // An operator may register.
    let source = text(&file(dir, "note", b"a note")).to_owned();
    let _serving = put(dir, &at, "/notes/1", &source, "/org/operator/bob");
}
