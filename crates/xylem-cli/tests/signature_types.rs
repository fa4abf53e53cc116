//! Other numbers for the signature types that NDN has not registered: publishing and fetching under them.
#![cfg(unix)]

use crate::common::serving::run;
use crate::common::{
    Node, Share, assert_exit, file, finish, listen_in, stderr, text, until, xylem,
};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const NUMBERS: &str = "206,207,208,209";

fn assigned(dir: &Path, store: &str) -> Command {
    let mut command = xylem(&dir.join(store));
    command.env("XYLEM_SIGNATURE_TYPES", NUMBERS).current_dir(dir).stdin(Stdio::null());
    command
}

fn with_numbers(dir: &Path, args: &[&str]) -> Output {
    let mut command = assigned(dir, "store");
    command.args(args);
    finish(command)
}

/// A tree published under a group's numbers is fetched only by programs with the same numbers.
#[test]
fn trees_are_published_and_fetched_under_other_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix");
    let content: Vec<u8> = (0..100_000u32).map(|i| (i / 3) as u8).collect();
    let source = file(dir, "film", &content);
    let command = assigned(dir, "store-share");
    let share = Share::run(command, &source, &["--as", "/group/film", "--via", at]);
    share.registered(1);
    let ticket = share.ticket.clone();
    let out = dir.join("got");
    assert_exit(&with_numbers(dir, &["get", &ticket, "--from", at, "-o", text(&out)]), 0);
    assert_eq!(fs::read(&out).unwrap(), content);
    // The packets carry the numbers.
    let name = share.shared["name"].as_str().unwrap().to_owned();
    let segment = format!("{name}/seg=0");
    let seen = run(dir, &["ndn", "peek", &segment, "--json", "--at", at]);
    let seen = String::from_utf8(seen.stdout).unwrap();
    assert!(seen.contains("\"signature_type\":208"), "{seen}");
    // Under the default numbers the packets are of an unknown type, whatever their place in the tree.
    let other = dir.join("other");
    let refused = run(dir, &["get", &ticket, "--from", at, "--timeout", "2", "-o", text(&other)]);
    assert!(!refused.status.success() && !other.exists(), "{}", stderr(&refused));
}

/// In the other direction: type 6 is no digest of ours any more.
#[test]
fn digests_have_the_numbers_of_the_group_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // The command that registers the name is signed in the same way.
    let settings = format!("[node]\n{}\n", listen_in(dir));
    let node = Node::run(assigned(dir, "node-store"), dir, &settings);
    let at = node.at("unix");
    let source = file(dir, "note", b"a note");
    let mut put = assigned(dir, "store");
    put.args(["ndn", "put", "/group/note", text(&source), "--sign", "digest-blake3", "--at", at]);
    let mut put = put.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let peek = ["ndn", "peek", "/group/note", "--json", "--at", at];
    until("the note", || with_numbers(dir, &peek).status.success());
    let seen = |output: Output| String::from_utf8(output.stdout).unwrap();
    let (group, own) = (seen(with_numbers(dir, &peek)), seen(run(dir, &peek)));
    let number = "\"signature_type\":206";
    assert!(group.contains(number) && group.contains("\"verdict\":\"undamaged\""), "{group}");
    assert!(own.contains(number) && own.contains("\"verdict\":\"unknown\""), "{own}");
    let _ = put.kill();
    let _ = put.wait();
}

#[test]
fn numbers_that_cannot_be_are_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    for wrong in ["6,7,8", "6,7,8,8", "5,7,8,9", "6,7,8,200", "a,b,c,d", "6,7,8,9,10", "-1,7,8,9"] {
        let mut command = xylem(dir.path());
        command.env("XYLEM_SIGNATURE_TYPES", wrong).args(["key", "list"]);
        let output = finish(command);
        assert_exit(&output, 2);
        assert_eq!(stderr(&output).lines().count(), 1, "{wrong}");
    }
}
