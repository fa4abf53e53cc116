//! How a member of `xylem sync` scans its own folder, and which part of it the others get.
#![cfg(target_os = "linux")]

use crate::common::syncing::Member;
use crate::common::{assert_exit, finish, until};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Two running members.
fn two(base: &Path) -> (Member, Member) {
    let (mut alice, mut bob) = (Member::new(base, "alice"), Member::new(base, "bob"));
    alice.start(None);
    bob.start(Some(&alice.ticket));
    (alice, bob)
}

#[test]
fn rules_are_each_member_s_own() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, mut bob) = (Member::new(dir.path(), "alice"), Member::new(dir.path(), "bob"));
    alice.write(".xylemignore", "secret*\n");
    alice.write("secret.key", "alice's");
    alice.write("a", "1");
    bob.write(".xylemignore", "");
    alice.start(None);
    bob.start(Some(&alice.ticket));
    bob.has("a", "1");
    // Bob's rules do not apply to alice, whatever he changes in them.
    bob.write(".xylemignore", "!secret*\n");
    bob.write("b", "1");
    alice.has("b", "1");
    bob.remove(".xylemignore");
    bob.write("c", "1");
    alice.has("c", "1");
    alice.write("d", "1");
    bob.has("d", "1");
    assert_eq!(fs::read_to_string(alice.at(".xylemignore")).unwrap(), "secret*\n");
    assert!(!bob.at("secret.key").exists() && !bob.at(".xylemignore").exists());
    // Removal of the rules is a change like any other.
    alice.remove(".xylemignore");
    bob.has("secret.key", "alice's");
}

#[test]
fn removing_a_rule_fetches_files_and_removes_none() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    alice.write("cache/x", "1");
    alice.write("cache/y", "1");
    bob.has("cache/x", "1");
    bob.has("cache/y", "1");
    alice.write(".xylemignore", "cache\n");
    alice.write("a", "1");
    bob.has("a", "1");
    fs::remove_file(alice.at("cache/y")).unwrap();
    bob.write("cache/x", "bob's");
    bob.write("cache/z", "bob's");
    bob.write("b", "1");
    alice.has("b", "1");
    assert_eq!(fs::read_to_string(alice.at("cache/x")).unwrap(), "1");
    fs::remove_file(alice.at(".xylemignore")).unwrap();
    alice.has("cache/x", "bob's");
    alice.has("cache/z", "bob's");
    alice.has("cache/y", "1");
    assert!(bob.at("cache/y").exists());
}

#[test]
fn shared_rules_wait_until_they_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, mut bob) = (Member::new(dir.path(), "alice"), Member::new(dir.path(), "bob"));
    alice.write(".xylemignore", "#include team.rules\n");
    alice.write("team.rules", "secret*\n");
    alice.write("secret.key", "alice's");
    alice.start(None);
    bob.start(Some(&alice.ticket));
    bob.has("team.rules", "secret*\n");
    bob.write("team.rules", "");
    alice.has("team.rules", "");
    until("alice is told", || !alice.told("sync_rules_wait").is_empty());
    assert_eq!(alice.told("sync_rules_wait")[0]["files"][0], "team.rules");
    alice.write("a", "1");
    bob.has("a", "1");
    assert!(!bob.at("secret.key").exists());
    let mut command = alice.command();
    command.arg("--accept-rules");
    let done = finish(command);
    assert_exit(&done, 0);
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["uncovers"][0], "secret.key");
    bob.has("secret.key", "alice's");
    assert_eq!(alice.told("sync_rules_wait").len(), 1);
}

#[test]
fn invalid_rules_leave_the_earlier_ones_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, bob) = two(dir.path());
    alice.write(".xylemignore", "secret*\n");
    alice.write("secret.key", "alice's");
    alice.write("a", "1");
    bob.has("a", "1");
    for wrong in [&b"a\\\n"[..], b"\xe4\n", &b"x".repeat(40_000)] {
        fs::write(alice.at(".xylemignore"), wrong).unwrap();
        alice.stop();
        alice.start(None);
        until("alice says so", || !alice.told("trouble").is_empty());
        let name = format!("n{}", wrong.len());
        alice.write(&name, "1");
        bob.has(&name, "1");
        bob.write(&name, "2");
        alice.has(&name, "2");
    }
    assert!(!bob.at("secret.key").exists());
}

/// A shared file and an excluded one each get a line every few milliseconds: all else goes on, both ways.
#[test]
fn a_busy_file_delays_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, mut bob) = (Member::new(dir.path(), "alice"), Member::new(dir.path(), "bob"));
    alice.write(".xylemignore", "*.tmp\n");
    alice.start(None);
    bob.start(Some(&alice.ticket));
    for busy in ["log", "x.tmp"] {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (path, over) = (alice.at(busy), &over);
            scope.spawn(move || {
                let mut file = File::options().create(true).append(true).open(path).unwrap();
                while !over.load(Ordering::Relaxed) {
                    file.write_all(b"line\n").unwrap();
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            for n in 0..3 {
                let (to, from) = (format!("to-{busy}-{n}"), format!("from-{busy}-{n}"));
                alice.write(&to, "1");
                bob.write(&from, "1");
                bob.has(&to, "1");
                alice.has(&from, "1");
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    bob.has("log", &fs::read_to_string(alice.at("log")).unwrap());
    assert!(!bob.at("x.tmp").exists());
}

/// Versions announced while a file gets a line each tenth of a second. One version a second would be too many.
#[test]
fn a_file_that_keeps_changing_makes_few_versions() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    alice.write("log", "0");
    bob.has("log", "0");
    let versions = || {
        let mut command = alice.command();
        command.arg("--history");
        let told = String::from_utf8(finish(command).stdout).unwrap();
        let rows = told.lines().map(|line| serde_json::from_str(line).unwrap());
        let ours = rows.filter(|row: &serde_json::Value| row["name"] == "this member");
        ours.filter_map(|row| row["length"].as_u64()).max().unwrap()
    };
    let (before, began) = (versions(), Instant::now());
    while began.elapsed() < Duration::from_secs(9) {
        alice.write("log", &format!("{:?}", began.elapsed()));
        std::thread::sleep(Duration::from_millis(100));
    }
    // Two versions at once: on a machine that is held up, a pause may look like rest, once or twice.
    let made = versions() - before;
    assert!(made <= 6, "{made} versions");
    bob.has("log", &fs::read_to_string(alice.at("log")).unwrap());
}

/// A write through a hard link elsewhere causes no event in the watched folder.
#[test]
fn a_change_without_an_event_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, mut bob) = (Member::new(dir.path(), "alice"), Member::new(dir.path(), "bob"));
    alice.more_env.push(("XYLEM_SYNC_RESCAN", "1".to_owned()));
    alice.write("a", "1");
    alice.start(None);
    bob.start(Some(&alice.ticket));
    bob.has("a", "1");
    let outside = dir.path().join("outside");
    fs::hard_link(alice.at("a"), &outside).unwrap();
    File::options().write(true).open(&outside).unwrap().write_all(b"2").unwrap();
    bob.has("a", "2");
}

#[test]
fn a_marker_made_by_hand_means_fetch_again() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, mut bob) = two(dir.path());
    alice.write("a", "1");
    alice.write("d/b", "1");
    bob.has("a", "1");
    bob.has("d/b", "1");
    bob.stop();
    // As on a new disk, where a user follows the hint and makes the marker.
    fs::remove_dir_all(bob.at("")).unwrap();
    fs::create_dir_all(bob.at(".xylem-sync")).unwrap();
    bob.start(None);
    bob.has("a", "1");
    bob.has("d/b", "1");
    bob.write("c", "1");
    alice.has("c", "1");
    assert!(alice.at("a").exists() && alice.at("d/b").exists());
    // Removals from now on are published.
    bob.remove("a");
    until("alice has it no more", || !alice.at("a").exists());
}

#[test]
fn an_unshareable_entry_is_reported_once_and_delays_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let _socket = UnixListener::bind(alice.at("socket")).unwrap();
    fs::create_dir_all(alice.at(&"d/".repeat(520))).unwrap();
    for name in ["a", "b", "c"] {
        alice.write(name, "1");
        bob.has(name, "1");
    }
    let told = |end: &str| {
        let skipped = alice.told("skipped").into_iter();
        skipped.filter(|event| event["path"].as_str().is_some_and(|at| at.ends_with(end))).count()
    };
    assert_eq!((told("socket"), told("d/d/d")), (1, 1));
}
