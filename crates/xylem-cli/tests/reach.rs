//! Sharers that cannot be reached or no longer have what a ticket names: the messages for people and the events for
//! scripts.
#![cfg(unix)]

use std::path::Path;
use std::process::Stdio;

use crate::common::{Share, assert_exit, file, finish, get, noise, stderr, xylem};

/// A ticket of a sharer that has gone, and the address where it listened.
fn dead_ticket(dir: &Path) -> (String, String) {
    let share = Share::start(&file(dir, "source", &noise(50_000, 1)), &dir.join("store"));
    (share.ticket.clone(), share.link.clone())
}

#[test]
fn a_peer_that_is_not_there_is_named_explained_and_blamed() {
    let dir = tempfile::tempdir().unwrap();
    let (ticket, at) = dead_ticket(dir.path());
    let output = get(&dir.path().join("other"), &[&ticket, "--timeout", "5"]);
    assert_exit(&output, 3);
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    let [first, hint, end] = lines[..] else { panic!("three lines: {said}") };
    assert!(first.starts_with(&format!("No answer yet from {at}")), "{first}");
    for part in ["xylem share", "UDP port", "--announce"] {
        assert!(hint.contains(part), "{hint}");
    }
    assert!(end.starts_with(&format!("xylem: no peer answered in 5 s: {at}")), "{end}");
    assert!(!said.contains("kept"), "nothing was fetched: {said}");
    // The kernel refuses datagrams to a port of its own machine that no socket has.
    #[cfg(target_os = "linux")]
    assert!(first.contains("nothing listens at that port") && end.contains("nothing listens"));
}

#[test]
fn with_q_an_unreachable_peer_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let (ticket, _) = dead_ticket(dir.path());
    let output = get(&dir.path().join("other"), &["-q", &ticket, "--timeout", "1"]);
    assert_exit(&output, 3);
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

#[test]
fn an_unreachable_peer_is_an_event() {
    let dir = tempfile::tempdir().unwrap();
    let (ticket, at) = dead_ticket(dir.path());
    let mut command = xylem(&dir.path().join("other"));
    command.args(["--json", "get", &ticket, "--timeout", "1"]).stdin(Stdio::null());
    let output = finish(command);
    assert_exit(&output, 3);
    let events: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names, ["unanswered", "error"], "{events:?}");
    assert_eq!(events[0]["peers"][0]["peer"], at.as_str());
    assert_eq!(events[0]["peers"][0]["connected"], false);
    assert!(events[0]["seconds"].as_f64().unwrap() >= 0.5);
}

fn share_at(path: &Path, store: &Path, listen: &str) -> Share {
    Share::with(path, store, &["--listen", listen])
}

/// The file is changed and shared again, with the same key, name and port: the old ticket's sharer is there and has
/// another version.
#[test]
fn a_version_that_is_no_longer_offered_is_reported_so() {
    let dir = tempfile::tempdir().unwrap();
    let (source, store) = (file(dir.path(), "source", &noise(50_000, 1)), dir.path().join("store"));
    // The ticket has the name, by which the newest version can be asked for.
    let old = Share::with(&source, &store, &["--as", "/alice/source"]);
    let (ticket, at) = (old.ticket.clone(), old.link.clone());
    drop(old);
    file(dir.path(), "source", &noise(50_000, 2));
    let _new = Share::with(&source, &store, &["--as", "/alice/source", "--listen", &at]);
    let output = get(&dir.path().join("other"), &[&ticket]);
    assert_exit(&output, 3);
    let expected = format!(
        "xylem: {at} no longer offers this version, it has a newer one; ask for a new ticket\n"
    );
    // Other peers that the ticket names are waited for a moment.
    assert!(stderr(&output).ends_with(&expected), "{}", stderr(&output));
}

/// Neither the name nor the version is served any more.
#[test]
fn a_node_without_the_publication_refuses_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (source, store) = (file(dir.path(), "source", &noise(50_000, 1)), dir.path().join("store"));
    let old = Share::start(&source, &store);
    let (ticket, at) = (old.ticket.clone(), old.link.clone());
    drop(old);
    let _new = share_at(&file(dir.path(), "another", b"x"), &store, &at);
    let output = get(&dir.path().join("other"), &[&ticket]);
    assert_exit(&output, 3);
    let said = stderr(&output);
    assert!(said.starts_with(&format!("xylem: {at} does not offer this")), "{said}");
    assert!(said.contains("new ticket") && !said.contains("kept"), "{said}");
}

/// While one peer refuses, another that is still being reached is waited for.
#[test]
fn one_peer_s_refusal_does_not_end_the_fetch() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(50_000, 1);
    let source = file(dir.path(), "source", &content);
    let store = dir.path().join("store");
    let old = Share::start(&source, &store);
    let ticket = old.ticket.clone();
    let gone = Share::with(&file(dir.path(), "another", b"x"), &store, &[]);
    let out = dir.path().join("out");
    let arguments =
        [&ticket, "--from", &gone.link, "--from", &old.link, "-o", out.to_str().unwrap()];
    assert_exit(&get(&dir.path().join("other"), &arguments), 0);
    assert!(std::fs::read(&out).unwrap() == content);
}

/// The sharer still has the manifest, but not the content that it describes.
#[test]
fn changes_of_a_shared_file_are_reported_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(3_000_000, 8));
    let share = Share::start(&source, &dir.path().join("store"));
    std::fs::write(&source, noise(3_000_000, 9)).unwrap();
    let out = dir.path().join("out");
    let arguments = [&share.ticket, "-o", out.to_str().unwrap(), "--timeout", "3"];
    let output = get(&dir.path().join("other"), &arguments);
    assert_exit(&output, 3);
    let said = stderr(&output);
    let refuses = format!("{} refuses parts of it, which were changed there", share.link);
    assert!(said.contains(&format!("warning: {refuses}")), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with(&format!("xylem: {refuses}")), "{said}");
    let told = share.told("skipped");
    assert!(told[0]["why"].as_str().unwrap().contains("share it again"), "{told:?}");
}
