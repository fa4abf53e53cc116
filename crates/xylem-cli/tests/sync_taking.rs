//! How a member of a folder in step applies changes of others: one file can't hold up another.
#![cfg(target_os = "linux")]

use crate::common;
use crate::common::syncing::Member;
use crate::common::{assert_exit, finish, until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn two(base: &Path) -> (Member, Member) {
    let (mut alice, mut bob) = (Member::new(base, "alice"), Member::new(base, "bob"));
    alice.start(None);
    bob.start(Some(&alice.ticket));
    (alice, bob)
}

/// A small file system, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where the system does not let us mount one.
    fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(at);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(at.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_file_without_room_is_left_out_others_come() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&dir.path().join("bob"), "4m") else {
        common::skipped("no right to mount a tmpfs");
        return;
    };
    let (alice, mut bob) = two(dir.path());
    alice.write("small", "1");
    bob.has("small", "1");
    let large: String = "0123456789abcdef".repeat(1 << 20);
    alice.write("large", &large);
    alice.write("after", "2");
    bob.has("after", "2");
    // Both ways, and however often the large file is changed meanwhile.
    bob.write("bobs", "3");
    alice.has("bobs", "3");
    alice.write("small", "4");
    bob.has("small", "4");
    assert!(!bob.at("large").exists());
    // A restart meets the same obstacle.
    bob.stop();
    bob.start(None);
    alice.write("later", "5");
    bob.has("later", "5");
    // The large file is replaced by a small one.
    fs::write(alice.at("large"), "small now").unwrap();
    bob.has("large", "small now");
    until("nothing is left over", || {
        let left = fs::read_dir(bob.at(".xylem-sync")).unwrap();
        let mut names =
            left.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        !names.any(|name| name.contains("incoming") || name == "staged")
    });
    drop((alice, bob, disk));
}

#[test]
fn a_removal_of_most_of_a_folder_waits_for_confirmation() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let name = |n: usize| format!("d{}/f{n:02}", n % 3);
    for n in 0..60 {
        alice.write(&name(n), &format!("content {n}"));
    }
    bob.has(&name(59), "content 59");
    until("bob has all", || bob.all().len() == 63);
    // Any number of files may be moved: that is no removal.
    fs::create_dir(alice.at("below")).unwrap();
    fs::rename(alice.at("d0"), alice.at("below/d0")).unwrap();
    fs::rename(alice.at("d1"), alice.at("below/d1")).unwrap();
    fs::rename(alice.at("d2"), alice.at("below/d2")).unwrap();
    until("bob has what was moved", || bob.all() == alice.all());
    fs::remove_dir_all(alice.at("below")).unwrap();
    alice.write("new", "comes all the same");
    bob.has("new", "comes all the same");
    let below =
        |member: &Member| member.all().keys().filter(|path| path.starts_with("below/d")).count();
    assert_eq!(below(&bob), 63, "nothing has gone");
    // Nor does it come back to the member that removed it.
    bob.write("bobs", "x");
    alice.has("bobs", "x");
    assert_eq!(below(&alice), 0);
    let mut accept = bob.command();
    accept.arg("--accept-removals");
    assert_exit(&finish(accept), 0);
    until("it goes here, too", || bob.all() == alice.all());
    // A folder that is emptied step by step waits for no confirmation.
    for n in 0..60 {
        alice.write(&format!("g{n:02}"), &format!("other {n}"));
    }
    until("bob has all", || bob.all() == alice.all());
    for n in 0..60 {
        alice.remove(&format!("g{n:02}"));
        if n % 8 == 7 || n == 59 {
            until("it goes", || bob.all() == alice.all());
        }
    }
}
