//! `xylem key sign` and `key check`: a file and its signature, no network.

use crate::common::{assert_exit, file, finish, stderr, text, xylem};
use std::fs;
use std::process::Output;

#[test]
fn a_signed_file_is_proven_offline_and_a_changed_one_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let run = |args: &[&str]| -> Output {
        let mut command = xylem(&store);
        command.arg("key").args(args);
        finish(command)
    };
    let printed = |name: &str, args: &[&str]| {
        let output = run(args);
        assert_exit(&output, 0);
        file(dir.path(), name, &output.stdout)
    };
    for who in ["/release", "/mallory"] {
        assert_exit(&run(&["new", who]), 0);
    }
    let sums = file(dir.path(), "SUMS", b"0000  a\n");
    let signature = printed("SUMS.sig", &["sign", text(&sums), "--by", "/release"]);
    let trusted = printed("release.cert", &["cert", "/release"]);
    let mallory = printed("mallory.cert", &["cert", "/mallory"]);
    let check = |more: &[&str]| run(&[&["check", text(&sums), text(&signature)], more].concat());

    let good = check(&["--trust", text(&trusted)]);
    assert_exit(&good, 0);
    assert!(String::from_utf8_lossy(&good.stdout).ends_with("SUMS: signed by /release\n"));
    let event: serde_json::Value =
        serde_json::from_slice(&check(&["--trust", text(&trusted), "--json"]).stdout).unwrap();
    assert_eq!((&event["event"], &event["identity"]), (&"signature".into(), &"/release".into()));

    // Another's key, no key, another's signature, another file.
    assert_exit(&check(&["--trust", text(&mallory)]), 1);
    assert_exit(&check(&[]), 2);
    let forged = printed("forged.sig", &["sign", text(&sums), "--by", "/mallory"]);
    let forged = run(&["check", text(&sums), text(&forged), "--trust", text(&trusted)]);
    assert_exit(&forged, 1);
    fs::write(&sums, b"0000  b\n").unwrap();
    let changed = check(&["--trust", text(&trusted)]);
    assert_exit(&changed, 1);
    assert!(stderr(&changed).contains("other content"), "{}", stderr(&changed));
    assert!(changed.stdout.is_empty());
}
