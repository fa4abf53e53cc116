//! Reports of `xylem sync` to people, and their commands to it: `--status`, `--restore`, `--pause`, the background
//! node.
#![cfg(target_os = "linux")]

use crate::common::syncing::Member;
use crate::common::{assert_exit, finish, stderr, text, until, xylem};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn asked(member: &Member, arguments: &[&str]) -> Output {
    let mut command = member.command();
    command.args(arguments);
    finish(command)
}

fn rows(output: &Output) -> Vec<Value> {
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Exit code and output of `--status`.
fn status(member: &Member) -> (Option<i32>, Value) {
    let output = asked(member, &["--status"]);
    let row = rows(&output).into_iter().next().unwrap_or_default();
    (output.status.code(), row)
}

/// Ends a member as Ctrl-C does.
fn ended(member: &mut Member) {
    let mut child = member.running.take().unwrap();
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    child.wait().unwrap();
}

fn two(base: &Path) -> (Member, Member) {
    let (mut alice, mut bob) = (Member::new(base, "alice"), Member::new(base, "bob"));
    alice.start(None);
    bob.start(Some(&alice.ticket));
    (alice, bob)
}

#[test]
fn status_lists_members_and_whether_all_are_in_step() {
    let dir = tempfile::tempdir().unwrap();
    let never = Member::new(dir.path(), "never");
    assert_exit(&asked(&never, &["--status"]), 2);
    let (mut alice, mut bob) = two(dir.path());
    alice.write("a", "one");
    bob.has("a", "one");
    let bob_is = |here: bool, step: &str| {
        until(&format!("bob is there: {here}, {step}"), || {
            let (exit, row) = status(&alice);
            let member = &row["members"][0];
            (exit == Some(0)) == (step == "in_step")
                && row["step"] == step
                && member["name"] == "bob"
                && member["here"] == here
        });
    };
    bob_is(true, "in_step");
    let (_, row) = status(&alice);
    assert_eq!((&row["event"], &row["running"]), (&"sync_status".into(), &true.into()));
    assert_eq!(row["members"][0]["role"], "member");
    until("bob's process has written who is there", || {
        status(&bob).1["members"][0]["role"] == "founder"
    });
    ended(&mut bob);
    // An absent member does not prevent the others from being in step.
    bob_is(false, "in_step");
    let since = status(&alice).1["members"][0]["since_ms"].as_u64().unwrap();
    assert_eq!(status(&alice).1["members"][0]["since_ms"], since, "it stays away");
    // A process that was killed has not announced its end.
    alice.stop();
    let (exit, row) = status(&alice);
    assert_eq!(
        (exit, &row["step"], &row["running"]),
        (Some(1), &"not_running".into(), &false.into())
    );
    let mut command = xylem(&dir.path().join("alice-store"));
    command.arg("sync").arg(alice.at("")).arg("--status");
    let said = finish(command);
    assert_exit(&said, 1);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("not running") && said.contains("bob"), "{said}");
}

#[test]
fn a_member_that_starts_is_not_reported_as_stopped() {
    let base = tempfile::tempdir().unwrap();
    let mut alice = Member::new(base.path(), "alice");
    alice.start(None);
    // The first status is replaced after a second.
    until("the second status", || {
        let (_, row) = status(&alice);
        assert!(row["running"] == true && row["step"] != "not_running", "{row}");
        row["step"] == "in_step"
    });
}

#[test]
fn in_step_and_the_names_of_new_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut alice = Member::new(dir.path(), "alice");
    alice.write("a", "one");
    alice.write("d/b", "two");
    alice.start(None);
    let mut bob = Member::new(dir.path(), "bob");
    let said = dir.path().join("said");
    let mut command = xylem(&dir.path().join("bob-store"));
    command.arg("sync").arg(bob.at("")).args([
        &alice.ticket,
        "--as",
        "bob",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
    bob.running = Some(command.spawn().unwrap());
    let lines = || fs::read_to_string(&said).unwrap();
    until("it says that it is in step", || lines().contains("In step with 1 other"));
    let lines = lines();
    let at = |what: &str| lines.find(what).unwrap_or_else(|| panic!("{what}: {lines}"));
    assert!(at("Ready as bob until Ctrl-C") < at("From alice: "), "{lines}");
    assert!(at("From alice: ") < at("In step with 1 other"), "{lines}");
    assert!(lines.contains("d/b") && !lines.contains("0 removed"), "{lines}");
    assert_eq!(lines.matches("In step").count(), 1, "{lines}");
    assert_eq!(bob.all(), alice.all());
}

#[test]
fn versions_are_listed_and_restored_for_all_members() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    alice.write("d/a", "one");
    bob.has("d/a", "one");
    alice.write("d/a", "number two");
    bob.has("d/a", "number two");
    let versions = || rows(&asked(&bob, &["--restore", "d/a"]));
    until("the version is listed", || versions().len() == 1);
    let kept = versions();
    assert_eq!((&kept[0]["event"], &kept[0]["bytes"]), (&"sync_kept".into(), &3.into()));
    let time = kept[0]["time"].as_str().unwrap().to_owned();
    let output = asked(&bob, &["--restore", &format!("d/a@{time}")]);
    assert_exit(&output, 0);
    let restored = rows(&output);
    assert_eq!(
        (&restored[0]["event"], &restored[0]["replaced"]),
        (&"sync_restored".into(), &true.into())
    );
    // The restored file is an edit like any other.
    bob.has("d/a", "one");
    alice.has("d/a", "one");
    assert!(versions().iter().any(|row| row["bytes"] == 10), "{:?}", versions());
    // All files of a removed directory come back.
    alice.write("e/f", "three");
    alice.write("e/g/h", "four");
    bob.has("e/g/h", "four");
    bob.has("e/f", "three");
    fs::remove_dir_all(alice.at("e")).unwrap();
    until("it is gone", || !bob.at("e").exists());
    let kept = rows(&asked(&bob, &["--restore", "e"]));
    assert_eq!(kept.len(), 2, "{kept:?}");
    let last = kept.iter().map(|row| row["time"].as_str().unwrap()).max().unwrap();
    assert_exit(&asked(&bob, &["--restore", &format!("e@{last}")]), 0);
    alice.has("e/f", "three");
    alice.has("e/g/h", "four");
    assert_exit(&asked(&bob, &["--restore", &format!("e@{last}")]), 2);
    for wrong in ["nothing", "../a", ".xylem-sync/index-0", "d/a@19700101T000000"] {
        let output = asked(&bob, &["--restore", wrong]);
        assert_exit(&output, 2);
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn versions_are_kept_as_asked_for_also_by_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut alice = Member::new(dir.path(), "alice");
    let mut bob = Member::new(dir.path(), "bob");
    alice.start(None);
    bob.start_with(Some(&alice.ticket), &["--versions", "none"]);
    alice.write("a", "one");
    bob.has("a", "one");
    alice.write("a", "two");
    bob.has("a", "two");
    assert!(!bob.at(".xylem-sync/trash").exists());
    bob.stop();
    bob.start(None);
    alice.write("a", "three");
    bob.has("a", "three");
    assert!(!bob.at(".xylem-sync/trash").exists());
    bob.stop();
    bob.start_with(None, &["--versions", "staggered:30"]);
    alice.write("a", "four");
    bob.has("a", "four");
    until("it is kept", || asked(&bob, &["--restore", "a"]).status.code() == Some(0));
    for wrong in ["trash:0", "simple", "forever"] {
        assert_exit(&asked(&alice, &["--versions", wrong]), 2);
    }
}

#[test]
fn while_it_is_paused_nothing_comes_and_nothing_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, mut bob) = two(dir.path());
    let mut carol = Member::new(dir.path(), "carol");
    carol.start(Some(&alice.ticket));
    alice.write("a", "one");
    bob.has("a", "one");
    assert_exit(&asked(&bob, &["--pause"]), 0);
    until("it is paused", || !bob.told("sync_paused").is_empty());
    until("the status says so", || status(&bob).1["step"] == "paused");
    assert_eq!(status(&bob).0, Some(1));
    bob.write("bob's", "own");
    alice.write("alice's", "own");
    carol.has("alice's", "own");
    carol.write("carol's", "own");
    alice.has("carol's", "own");
    assert!(!bob.at("alice's").exists() && !alice.at("bob's").exists());
    // Also over a restart, although no member can join by a process that has published nothing.
    bob.stop();
    let mut command = bob.command();
    command.args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    bob.running = Some(child);
    assert!(lines.any(|line| line.contains(r#""event":"sync_paused","paused":true"#)));
    assert!(!bob.at("alice's").exists() && !alice.at("bob's").exists());
    assert_exit(&asked(&bob, &["--resume"]), 0);
    std::thread::spawn(move || lines.for_each(drop));
    bob.has("alice's", "own");
    bob.has("carol's", "own");
    alice.has("bob's", "own");
}

fn service(store: &Path) -> Running {
    let mut command = xylem(store);
    command.args(["service", "run", "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    until("it answers", || {
        let mut command = xylem(store);
        command.args(["service", "status"]);
        finish(command).status.success()
    });
    running
}

#[test]
fn the_background_node_keeps_folders_in_step_also_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("alice-store");
    let alice = Member::new(dir.path(), "alice");
    let background = ["--background", "--as", "alice", "--listen", "127.0.0.1:0"];
    let output = asked(&alice, &background);
    assert_exit(&output, 4);
    assert!(stderr(&output).contains("no background node runs"), "{}", stderr(&output));
    let first = service(&store);
    let output = asked(&alice, &background);
    assert_exit(&output, 0);
    let ready = rows(&output);
    assert_eq!(ready[0]["event"], "sync_ready");
    let mut bob = Member::new(dir.path(), "bob");
    bob.start(ready[0]["ticket"].as_str());
    bob.write("a", "one");
    alice.has("a", "one");
    let listed = || rows(&asked(&alice, &["--list"]));
    until("the list says that it is in step", || {
        listed().first().is_some_and(|row| row["step"] == "in_step" && row["background"] == true)
    });
    // An option that the background node can't take is refused.
    assert_exit(&asked(&alice, &["--background", "--sign", "key:/a"]), 2);
    // Killed and restarted: the process of the folder has ended with it.
    drop(first);
    until("it has ended", || status(&alice).1["running"] == false);
    bob.write("b", "two");
    let second = service(&store);
    alice.has("b", "two");
    assert_exit(&asked(&alice, &["--stop"]), 0);
    assert_eq!(status(&alice).1["running"], false);
    assert_exit(&asked(&alice, &["--stop"]), 2);
    drop(second);
    let text = fs::read_to_string(store.join("service/folders.json")).unwrap();
    assert!(!text.contains(text_of(&alice)), "{text}");
}

fn text_of(member: &Member) -> &str {
    text(&member.base).trim_end_matches('/')
}
