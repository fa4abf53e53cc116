//! Who cannot be reached, and who no longer has what a ticket names: what people and scripts are told.
#![cfg(unix)]

mod common;

use std::path::Path;
use std::process::Stdio;

use common::{Share, assert_exit, file, finish, get, noise, stderr, xylem};

/// A ticket whose sharer has gone, and where it listened.
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
    assert!(end.starts_with(&format!("xylem: nobody answered in 5 s: {at}")), "{end}");
    assert!(!said.contains("kept"), "nothing was fetched: {said}");
    // The kernel answers for a port of its own machine that nobody has.
    #[cfg(target_os = "linux")]
    assert!(first.contains("nothing listens at that port") && end.contains("nothing listens"));
}

#[test]
fn with_q_silence_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let (ticket, _) = dead_ticket(dir.path());
    let output = get(&dir.path().join("other"), &["-q", &ticket, "--timeout", "1"]);
    assert_exit(&output, 3);
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

#[test]
fn silence_is_an_event() {
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
