//! Extended attributes in folders in step: `xylem sync DIR --xattrs`.
#![cfg(target_os = "linux")]

use crate::common;
use crate::common::syncing::Member;
use crate::common::{assert_exit, finish, skipped, until};
use rustix::fs::{XattrFlags, lgetxattr, lremovexattr, lsetxattr};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own, unmounted when dropped.
struct OwnDisk(PathBuf);

impl OwnDisk {
    /// A tmpfs in a member's folder; `None` where the system does not let us mount one.
    fn tmpfs(dir: &Path, member: &str) -> Option<Self> {
        Self::mount(&["-t", "tmpfs", "none"], dir.join(member))
    }

    /// An ext2 in a member's folder, with blocks that leave less than 1 KiB for a file's attributes.
    fn small_blocks(dir: &Path, member: &str) -> Option<Self> {
        let image = dir.join("image");
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let mut make = Command::new("mkfs.ext2");
        make.args(["-q", "-b", "1024", "-I", "256"]).arg(&image);
        let made = make.output().is_ok_and(|output| output.status.success());
        let image = image.to_str().unwrap();
        made.then(|| Self::mount(&["-o", "loop", image], dir.join(member))).flatten()
    }

    fn mount(what: &[&str], at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount").args(what).arg(&at).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(at))
    }
}

impl Drop for OwnDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn set(member: &Member, path: &str, name: &str, value: &str) {
    lsetxattr(member.at(path), name, value.as_bytes(), XattrFlags::empty()).unwrap();
}

fn get(member: &Member, path: &str, name: &str) -> Option<String> {
    let mut value = [0; 8_192];
    let len = lgetxattr(member.at(path), name, &mut value[..]).ok()?;
    Some(String::from_utf8_lossy(&value[..len]).into_owned())
}

fn has(member: &Member, path: &str, name: &str, value: Option<&str>) {
    until(&format!("{} has {name} of {path}: {value:?}", member.name), || {
        get(member, path, name).as_deref() == value
    });
}

/// Returns whether files in this directory can have attributes of users; a line reports that they cannot.
fn keeps_attributes(dir: &Path) -> bool {
    let keeps = lsetxattr(dir, "user.tried", b"", XattrFlags::empty()).is_ok();
    if !keeps {
        skipped("the file system of temporary files has no extended attributes of users");
    }
    keeps
}

fn status(member: &Member) -> Value {
    let mut command = member.command();
    command.arg("--status");
    let output = finish(command);
    let row = std::str::from_utf8(&output.stdout).unwrap().lines().next().unwrap_or("{}");
    serde_json::from_str(row).expect("JSON")
}

/// Waits until all have reported the same state as common to all.
fn in_step(members: &[&Member]) {
    until("all are in step", || {
        let first = members[0].state();
        let reported = members.iter().all(|member| member.state() == first);
        first.is_some() && reported && members.iter().all(|m| status(m)["step"] == "in_step")
    });
}

/// Alice and Cyd exchange attributes, Bob does not.
fn three(base: &Path) -> [Member; 3] {
    let mut all = ["alice", "bob", "cyd"].map(|name| Member::new(base, name));
    all[0].start_with(None, &["--xattrs"]);
    let ticket = all[0].ticket.clone();
    all[1].start(Some(&ticket));
    all[2].start_with(Some(&ticket), &["--xattrs"]);
    all
}

#[test]
fn attributes_reach_members_that_chose_them_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    if !keeps_attributes(dir.path()) {
        return;
    }
    let [alice, bob, cyd] = three(dir.path());
    alice.write("d/a", "one");
    set(&alice, "d/a", "user.a", "1");
    set(&alice, "d/a", "user.empty", "");
    set(&alice, "d", "user.d", "x");
    has(&cyd, "d/a", "user.a", Some("1"));
    has(&cyd, "d/a", "user.empty", Some(""));
    has(&cyd, "d", "user.d", Some("x"));
    bob.has("d/a", "one");
    in_step(&[&alice, &bob, &cyd]);
    // The other way, changed and removed. No other namespace travels.
    set(&cyd, "d/a", "user.a", "2");
    lremovexattr(cyd.at("d"), "user.d").unwrap();
    let is_trusted = lsetxattr(cyd.at("d/a"), "trusted.a", b"1", XattrFlags::empty()).is_ok();
    has(&alice, "d/a", "user.a", Some("2"));
    has(&alice, "d", "user.d", None);
    in_step(&[&alice, &bob, &cyd]);
    assert!(!is_trusted || get(&alice, "d/a", "trusted.a").is_none());
    for name in ["user.a", "user.empty", "user.d"] {
        assert_eq!((get(&bob, "d/a", name), get(&bob, "d", name)), (None, None), "{name}");
    }
    // A member that knows none on its disk edits in place, by a new file, and changes permissions.
    let permit = |mode: &str| {
        let done = Command::new("chmod").arg(mode).arg(bob.at("d/a")).status().unwrap();
        assert!(done.success());
    };
    bob.write("d/a", "two");
    alice.has("d/a", "two");
    bob.write(".new", "three");
    fs::rename(bob.at(".new"), bob.at("d/a")).unwrap();
    permit("0400");
    for member in [&alice, &cyd] {
        member.has("d/a", "three");
        has(member, "d/a", "user.a", Some("2"));
        has(member, "d/a", "user.empty", Some(""));
    }
    in_step(&[&alice, &bob, &cyd]);
    // What bob sets on his disk stays there.
    set(&bob, "d/a", "user.bobs", "1");
    bob.write("d/b", "bob's");
    set(&bob, "d/b", "user.bobs", "1");
    for member in [&alice, &cyd] {
        member.has("d/b", "bob's");
        assert_eq!(get(member, "d/b", "user.bobs"), None);
    }
    in_step(&[&alice, &bob, &cyd]);
    assert_eq!(get(&alice, "d/a", "user.a").as_deref(), Some("2"));
    assert_eq!(get(&alice, "d/a", "user.bobs"), None);
    assert_eq!(get(&bob, "d/a", "user.bobs").as_deref(), Some("1"));
    // A file that bob renames keeps them.
    fs::rename(bob.at("d/a"), bob.at("renamed")).unwrap();
    for member in [&alice, &cyd] {
        has(member, "renamed", "user.a", Some("2"));
    }
    in_step(&[&alice, &bob, &cyd]);
    assert_eq!(alice.all().len(), 3, "and there is no copy: {:?}", alice.all());
}

/// Two members that do not see each other change attributes; a third one edits the file.
#[test]
fn concurrent_changes_of_attributes_and_content_all_come() {
    let dir = tempfile::tempdir().unwrap();
    if !keeps_attributes(dir.path()) {
        return;
    }
    let [alice, bob, mut cyd] = three(dir.path());
    alice.write("a", "one");
    set(&alice, "a", "user.a", "1");
    has(&cyd, "a", "user.a", Some("1"));
    bob.has("a", "one");
    in_step(&[&alice, &bob, &cyd]);
    cyd.stop();
    set(&alice, "a", "user.a", "alice's");
    bob.write("a", "bob's");
    alice.has("a", "bob's");
    has(&alice, "a", "user.a", Some("alice's"));
    in_step(&[&alice, &bob]);
    set(&cyd, "a", "user.a", "cyd's");
    // The choice is remembered, and the later change wins.
    cyd.start(None);
    cyd.has("a", "bob's");
    has(&cyd, "a", "user.a", Some("cyd's"));
    has(&alice, "a", "user.a", Some("cyd's"));
    in_step(&[&alice, &bob, &cyd]);
    assert_eq!(alice.all().len(), 1, "there is no conflict copy: {:?}", alice.all());
    assert_eq!(get(&bob, "a", "user.a"), None);
}

#[test]
fn the_choice_is_remembered_shown_and_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    if !keeps_attributes(dir.path()) {
        return;
    }
    let [mut alice, mut bob, cyd] = three(dir.path());
    alice.write("a", "one");
    set(&alice, "a", "user.a", "1");
    has(&cyd, "a", "user.a", Some("1"));
    bob.has("a", "one");
    assert_eq!((&status(&alice)["xattrs"], &status(&bob)["xattrs"]), (&true.into(), &false.into()));
    // With the choice, what the group has recorded comes, and what it has not goes to the others.
    bob.stop();
    set(&bob, "a", "user.a", "bob's");
    bob.write("b", "two");
    set(&bob, "b", "user.b", "bob's");
    bob.start_with(None, &["--xattrs"]);
    has(&bob, "a", "user.a", Some("1"));
    has(&alice, "b", "user.b", Some("bob's"));
    in_step(&[&alice, &bob, &cyd]);
    // Taken back: nothing is removed, sent, or applied.
    alice.stop();
    alice.start_with(None, &["--no-xattrs"]);
    lremovexattr(alice.at("a"), "user.a").unwrap();
    set(&bob, "b", "user.b", "2");
    alice.write("c", "three");
    bob.has("c", "three");
    has(&cyd, "b", "user.b", Some("2"));
    in_step(&[&alice, &bob, &cyd]);
    assert_eq!(get(&bob, "a", "user.a").as_deref(), Some("1"));
    assert_eq!(get(&alice, "b", "user.b").as_deref(), Some("bob's"));
    alice.stop();
    assert_eq!(status(&alice)["xattrs"], false);
    // Both at once make no sense.
    let mut both = alice.command();
    both.args(["--xattrs", "--no-xattrs"]);
    assert_exit(&finish(both), 2);
    let mut shown = common::xylem(&bob.base.join("bob-store"));
    shown.arg("sync").arg(bob.at("")).arg("--status");
    let shown = String::from_utf8_lossy(&finish(shown).stdout).into_owned();
    assert!(shown.contains("extended attributes are exchanged (--xattrs)"), "{shown}");
}

/// Attributes that are larger than what travels concern their file alone, and its content travels.
#[test]
fn large_attributes_are_reported_and_stop_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = OwnDisk::tmpfs(dir.path(), "alice");
    let Some(disk) = disk.filter(|disk| keeps_attributes(&disk.0)) else {
        skipped("no right to mount a tmpfs, or it has no extended attributes of users");
        return;
    };
    if !keeps_attributes(dir.path()) {
        return;
    }
    let [alice, bob, cyd] = three(dir.path());
    alice.write("a", "one");
    set(&alice, "a", "user.large", &"x".repeat(4_096));
    alice.write("b", "two");
    set(&alice, "b", "user.b", "1");
    has(&cyd, "b", "user.b", Some("1"));
    cyd.has("a", "one");
    bob.has("a", "one");
    until("the reason is listed", || {
        let row = status(&alice);
        let missing = row["missing"].as_array().cloned().unwrap_or_default();
        let named = missing.iter().find(|one| one["path"] == "a");
        row["step"] == "behind" && named.is_some_and(|one| one["kind"] == "attributes")
    });
    alice.write("a", "one, and more");
    cyd.has("a", "one, and more");
    assert_eq!(get(&cyd, "a", "user.large"), None);
    assert_eq!(get(&alice, "a", "user.large").map(|value| value.len()), Some(4_096));
    set(&alice, "a", "user.large", "small now");
    has(&cyd, "a", "user.large", Some("small now"));
    in_step(&[&alice, &bob, &cyd]);
    drop((alice, bob, cyd, disk));
}

/// A disk that takes none of a file's attributes: the file comes, and others keep theirs.
#[test]
fn attributes_without_room_on_the_disk_stop_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = OwnDisk::small_blocks(dir.path(), "cyd") else {
        skipped("no mkfs.ext2 here, or no right to mount");
        return;
    };
    if !keeps_attributes(dir.path()) {
        return;
    }
    let [alice, bob, cyd] = three(dir.path());
    alice.write("a", "one");
    let large = "x".repeat(3_000);
    set(&alice, "a", "user.a", &large);
    alice.write("b", "two");
    set(&alice, "b", "user.b", "1");
    cyd.has("a", "one");
    has(&cyd, "b", "user.b", Some("1"));
    until("the reason is listed once", || {
        let row = status(&cyd);
        let missing = row["missing"].as_array().cloned().unwrap_or_default();
        missing.len() == 1 && missing[0]["path"] == "a" && missing[0]["kind"] == "attributes"
    });
    // What the disk lacks is no change of this member, not even if it edits the file.
    cyd.write("a", "cyd's");
    for member in [&alice, &bob] {
        member.has("a", "cyd's");
    }
    in_step(&[&alice, &bob]);
    assert_eq!(get(&alice, "a", "user.a"), Some(large));
    set(&alice, "a", "user.a", "small now");
    has(&cyd, "a", "user.a", Some("small now"));
    in_step(&[&alice, &bob, &cyd]);
    drop((alice, bob, cyd, disk));
}
