//! Copies on a file system that keeps no fractions of seconds (ext2 with small inodes, FAT, HFS+), and none of the
//! modes. The store notes which times and modes the disk kept, so that such copies are recognized, mended and served.
//! Needs root for a loop device; skipped without.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common;
use crate::common::decaying::decay;
use crate::common::{
    Share, assert_exit, file, finish, get, noise, printed_root, stderr, text, xylem,
};

/// A small file system of its own on a loop device; unmounted when dropped.
struct Coarse {
    place: PathBuf,
}

impl Coarse {
    /// `None`, with a line, where this can't be made.
    fn new(dir: &Path, make: &[&str]) -> Option<Self> {
        let (image, place) = (dir.join("image"), dir.join("coarse"));
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        fs::create_dir(&place).unwrap();
        let run = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let made = run(Command::new(make[0]).args(&make[1..]).arg(&image))
            && run(Command::new("mount").args(["-o", "loop"]).args([&image, &place]));
        if !made {
            common::skipped(&format!("no {} here, or no right to mount", make[0]));
        }
        made.then_some(Self { place })
    }
}

impl Drop for Coarse {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

fn known_again(make: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let Some(coarse) = Coarse::new(dir.path(), make) else { return };
    let source = dir.path().join("source");
    fs::create_dir_all(source.join("below")).unwrap();
    let content = noise(300_000, 1);
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_683_263_105, 123_456_789);
    for path in ["a", "below/b", "below", "."] {
        let path = source.join(path);
        if !path.exists() {
            fs::write(&path, &content).unwrap();
        }
        File::open(&path).unwrap().set_modified(time).unwrap();
    }
    let share = Share::start(&source, &dir.path().join("publisher"));
    let (store, copy) = (dir.path().join("store"), coarse.place.join("source"));
    let into = format!("{}/", text(&coarse.place));
    let got = get(&store, &[&share.ticket, "-o", &into]);
    assert_exit(&got, 0);
    assert!(
        stderr(&got).contains("this disk cannot store the published modes or times"),
        "{}",
        stderr(&got)
    );
    let mut sum = xylem(&dir.path().join("none"));
    sum.args(["sum", "--no-names", "--tree"]).arg(&copy);
    let there = String::from_utf8(finish(sum).stdout).unwrap();
    assert_eq!(printed_root(&got), there.trim());
    // The copy is what the ticket names: a second `get` finds nothing to do.
    assert_exit(&get(&store, &[&share.ticket, "-o", &into]), 0);

    decay(&store, &copy.join("below/b"), |file| file.write_all_at(b"decayed", 200_000).unwrap());
    let mut scrub = xylem(&store);
    scrub.args(["scrub", "--repair"]).arg(&copy);
    assert_exit(&finish(scrub), 0);
    assert!(fs::read(copy.join("below/b")).unwrap() == content);

    drop(share);
    let on = Share::start(&copy, &store);
    assert!(on.shared["signed_by"].is_string(), "{}", on.shared);
    drop(on);
    // An edited copy is not the published content.
    file(&copy, "a", b"edited");
    let own = Share::start(&copy, &store);
    assert!(own.shared["signed_by"].is_null(), "{}", own.shared);
}

#[test]
fn copies_on_ext2_are_known_again() {
    known_again(&["mkfs.ext2", "-q", "-I", "128"]);
}

#[test]
fn copies_on_fat_are_known_again() {
    known_again(&["mkfs.vfat"]);
}
