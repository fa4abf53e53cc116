//! Runs the documentation's examples: one shares, another fetches, a third reads a part; two keep
//! folders in step.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xylem_sim::noise;

/// `cargo test` builds them beside the tests. For this test alone, `cargo build -p xylem --examples` does.
fn example(name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let built: PathBuf = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    let program = built.join(name);
    assert!(program.exists(), "{}: build the examples first", program.display());
    Command::new(program)
}

#[test]
fn what_one_shares_the_others_get_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let content = noise(300_000, 1);
    std::fs::write(folder.join("a"), &content).unwrap();
    std::fs::write(folder.join("b"), b"the end of b").unwrap();
    let store = |name: &str| dir.path().join(name);

    let mut share = example("share")
        .arg(&folder)
        .arg(store("publisher"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ticket = String::new();
    BufReader::new(share.stdout.take().unwrap()).read_line(&mut ticket).unwrap();
    let ticket = ticket.trim_end();

    let said = |command: &mut Command| {
        let output = command.stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    let list = said(example("read").arg(ticket).env("XDG_DATA_HOME", store("reader")));
    assert_eq!(String::from_utf8(list).unwrap(), "      300000  a\n          12  b\n");
    let end = said(example("read").args([ticket, "a"]).arg(store("reader")));
    assert!(end == content[299_000..]);
    let got = said(example("get").arg(ticket).arg(dir.path().join("copy")).arg(store("getter")));
    assert!(String::from_utf8(got).unwrap().ends_with("copy\n"));
    assert!(std::fs::read(dir.path().join("copy/a")).unwrap() == content);

    // The example ends with its input.
    drop(share.stdin.take());
    assert!(share.wait().unwrap().success());
}

#[test]
fn two_keep_folders_in_step() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let member = |name: &str, ticket: &str| {
        std::fs::create_dir(at(name)).unwrap();
        let store = at(&format!("{name}-store"));
        let mut command = example("sync");
        command.arg(at(name)).arg(ticket).arg(store).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut printed = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut printed).unwrap();
        (child, printed.trim_end().to_owned())
    };
    let (mut first, ticket) = member("first", "-");
    std::fs::write(at("first/letter"), "hello").unwrap();
    let (mut second, _) = member("second", &ticket);
    let end = Instant::now() + Duration::from_secs(60);
    while !std::fs::read(at("second/letter")).is_ok_and(|text| text == b"hello") {
        assert!(Instant::now() < end, "it does not arrive");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The example ends with its input.
    for child in [&mut first, &mut second] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
