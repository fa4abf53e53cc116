//! Keys under a passphrase, SafeBags, and trusted keys: the real program.

use crate::common::{assert_exit, file, finish, stderr, text, xylem};
use std::fs;
use std::path::Path;
use std::process::Output;

fn run(store: &Path, args: &[&str]) -> Output {
    let mut command = xylem(store);
    command.args(args);
    finish(command)
}

fn printed(store: &Path, args: &[&str]) -> String {
    let output = run(store, args);
    assert_exit(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts one line on standard error with all these parts, and this exit code.
fn refused(store: &Path, args: &[&str], code: i32, parts: &[&str]) {
    let output = run(store, args);
    assert_exit(&output, code);
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn a_key_under_a_passphrase_signs_only_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let pass = file(dir.path(), "pass", b"correct horse\n");
    let wrong = file(dir.path(), "wrong", b"incorrect\n");
    let pass = ["--passphrase-file", text(&pass)];
    fn with<'a>(args: &[&'a str], pass: &[&'a str]) -> Vec<&'a str> {
        [args, pass].concat()
    }
    for kind in ["ed25519", "ecdsa"] {
        let who = format!("/{kind}");
        let made =
            printed(&store, &with(&["key", "new", &who, "--type", kind, "--passphrase"], &pass));
        assert!(made.trim_end().ends_with("  encrypted"), "{made}");
        let sums = file(dir.path(), "SUMS", b"0000  a\n");
        let sign = ["key", "sign", text(&sums), "--by", &who];
        let needed = ["is encrypted under a passphrase", "--passphrase-file", &who];
        refused(&store, &sign, 2, &needed);
        let bad = [&sign[..], &["--passphrase-file", text(&wrong)]].concat();
        refused(&store, &bad, 2, &[&who, "wrong passphrase"]);
        let missing = [&sign[..], &["--passphrase-file", "/nowhere/pass"]].concat();
        refused(&store, &missing, 2, &["/nowhere/pass"]);
        let signature = printed(&store, &with(&sign, &pass));
        let signature = file(dir.path(), "SUMS.sig", signature.as_bytes());
        // Commands that need no secret ask for no passphrase.
        let certificate = printed(&store, &["key", "cert", &who]);
        let certificate = file(dir.path(), "cert", certificate.as_bytes());
        assert!(printed(&store, &["key", "list"]).contains("encrypted"));
        let check = ["key", "check", text(&sums), text(&signature), "--trust", text(&certificate)];
        printed(&store, &check);
        // Every verb asks in the same way.
        for verb in [
            vec!["ndn", "put", "/x/y", text(&sums), "--sign", &format!("key:{who}")],
            vec!["key", "cert", "--by", &who, text(&certificate)],
        ] {
            refused(&store, &verb, 2, &["is encrypted under a passphrase"]);
        }
    }
}

#[test]
fn the_secret_is_nowhere_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let pass = file(dir.path(), "pass", b"correct horse");
    printed(&store, &["key", "new", "/alice"]);
    let key = dir.path().join("alice.key");
    printed(&store, &["key", "export", "/alice", "-o", text(&key)]);
    let bare = fs::read_to_string(&key).unwrap();
    let secret = bare.lines().max_by_key(|line| line.len()).unwrap();
    let held = |folder: &str| -> String {
        let files = fs::read_dir(store.join(folder)).unwrap().map(|f| f.unwrap().path());
        files.filter(|f| f.is_file()).map(|f| fs::read_to_string(f).unwrap_or_default()).collect()
    };
    assert!(held("keys/ndn").contains(secret));
    let given = ["key", "passphrase", "/alice", "--new-passphrase-file", text(&pass)];
    printed(&store, &given);
    assert!(!held("keys/ndn").contains(secret), "the secret is still there");
    assert!(held("keys/ndn").contains("BEGIN NDN SAFEBAG"));
    // Once the passphrase is removed, the same key lies there as before.
    let remove = ["key", "passphrase", "/alice", "--no-passphrase"];
    refused(&store, &remove, 2, &["is encrypted"]);
    printed(&store, &[&remove[..], &["--passphrase-file", text(&pass)]].concat());
    assert!(held("keys/ndn").contains(secret));
}

#[test]
fn the_publishers_key_can_have_a_passphrase() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let pass = file(dir.path(), "pass", b"correct horse");
    // The first use makes the key.
    let sums = file(dir.path(), "SUMS", b"0000  a\n");
    let own = || printed(&store, &["--json", "key", "list"]);
    let put = ["ndn", "put", "/x/y", text(&sums), "--sign", "ed25519", "--at", "tcp://127.0.0.1:1"];
    run(&store, &put);
    let before = own();
    assert!(before.contains("\"publisher\""), "{before}");
    let given = ["key", "passphrase", "publisher", "--new-passphrase-file", text(&pass)];
    printed(&store, &given);
    assert_eq!(own(), before, "the same publisher, and nobody is asked who it is");
    refused(&store, &["share", text(&sums)], 2, &["is encrypted under a passphrase"]);
    let bare = fs::read(store.join("keys/publisher")).unwrap();
    assert!(bare.len() > 100 && bare.starts_with(b"-----BEGIN NDN SAFEBAG-----"));
    let remove =
        ["key", "passphrase", "publisher", "--no-passphrase", "--passphrase-file", text(&pass)];
    printed(&store, &remove);
    assert_eq!(fs::read(store.join("keys/publisher")).unwrap().len(), 32);
    assert_eq!(own(), before);
}

#[test]
fn safebags_go_out_and_come_in() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let pass = file(dir.path(), "pass", b"correct horse");
    let pass = ["--passphrase-file", text(&pass)];
    printed(&here, &["key", "new", "/alice"]);
    let bag = dir.path().join("alice.safebag");
    let out = ["key", "export", "/alice", "--safebag", "-o", text(&bag)];
    refused(&here, &out, 2, &["--passphrase-file"]);
    printed(&here, &[&out[..], &pass].concat());
    assert!(
        !fs::read_to_string(&bag).unwrap().contains("BEGIN"),
        "base64 alone, as ndnsec reads it"
    );
    refused(&there, &["key", "import", text(&bag)], 2, &["is encrypted"]);
    let came = printed(&there, &[&["key", "import", text(&bag)][..], &pass].concat());
    assert!(came.contains("encrypted"), "it stays under its passphrase: {came}");
    let certificate = |store: &Path| printed(store, &["key", "cert", "/alice"]);
    assert_eq!(certificate(&here), certificate(&there));

    // A SafeBag of another library.
    let fixture = include_str!("../../xylem-trust/tests/fixtures/ndnts-safebag.txt");
    let hex = fixture.lines().find_map(|line| line.strip_prefix("bag ")).unwrap();
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    let raw: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let theirs = file(dir.path(), "theirs", &raw);
    let came = printed(&there, &[&["key", "import", text(&theirs)][..], &pass].concat());
    assert!(came.starts_with("/ndnts/alice/KEY/"), "{came}");
    // A damaged SafeBag is named.
    let half = file(dir.path(), "half", &raw[..raw.len() / 2]);
    refused(&there, &[&["key", "import", text(&half)][..], &pass].concat(), 2, &["not a SafeBag"]);
}

#[test]
fn only_keys_named_in_full_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let made = printed(&store, &["key", "new", "/alice"]);
    let name = made.split_whitespace().next().unwrap();
    printed(&store, &["key", "new", "/bob"]);
    refused(&store, &["key", "delete", "/alice"], 2, &["not the full name of a key"]);
    refused(&store, &["key", "delete", "/carol"], 2, &["no key /carol"]);
    assert_exit(&run(&store, &["key", "delete", name]), 0);
    let left = printed(&store, &["key", "list"]);
    assert!(!left.contains("/alice") && left.contains("/bob"), "{left}");
}

#[test]
fn a_trusted_key_is_accepted_for_its_prefix_only() {
    let dir = tempfile::tempdir().unwrap();
    let (theirs, ours) = (dir.path().join("theirs"), dir.path().join("ours"));
    printed(&theirs, &["key", "new", "/org"]);
    let certificate = printed(&theirs, &["key", "cert", "/org", "--base64"]);
    assert!(!certificate.contains("BEGIN"));
    let certificate = file(dir.path(), "org.cert", certificate.as_bytes());
    let sums = file(dir.path(), "SUMS", b"0000  a\n");
    let signature = printed(&theirs, &["key", "sign", text(&sums), "--by", "/org"]);
    let signature = file(dir.path(), "SUMS.sig", signature.as_bytes());
    let check = ["key", "check", text(&sums), text(&signature)];
    refused(&ours, &check, 2, &["no key to verify the signature"]);
    // For another prefix, for this one, and for no more.
    let said = printed(&ours, &["key", "trust", text(&certificate), "/elsewhere"]);
    assert!(said.starts_with("trusted for /elsewhere: /org/KEY/"), "{said}");
    refused(&ours, &check, 1, &["is not under /elsewhere"]);
    printed(&ours, &["key", "trust", text(&certificate)]);
    printed(&ours, &check);
    let list = printed(&ours, &["key", "list"]);
    assert!(list.contains("trusted for /elsewhere /org: /org/KEY/"), "{list}");
    printed(&ours, &["key", "untrust", "/org", "/org"]);
    refused(&ours, &check, 1, &["is not under /elsewhere"]);
    refused(&ours, &["key", "untrust", "/orgs"], 2, &["not trusted"]);
    printed(&ours, &["key", "untrust", "/org"]);
    refused(&ours, &check, 2, &["no key to verify the signature"]);
}
