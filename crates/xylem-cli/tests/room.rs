//! Lack of space is reported before anything is fetched. Needs root for a file system of its own; skipped without.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;
use crate::common::{Share, assert_exit, file, get, noise, stderr, text};

struct Small {
    place: PathBuf,
}

impl Small {
    /// Mounts a file system of two MiB; `None`, with a line, where this process may not mount.
    fn new(dir: &Path) -> Option<Self> {
        let place = dir.join("small");
        fs::create_dir(&place).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(&place);
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self { place });
        }
        common::skipped("no right to mount");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

#[test]
fn a_fetch_that_does_not_fit_is_not_begun() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = Small::new(dir.path()) else { return };
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    file(&tree, "a", &noise(1_500_000, 1));
    file(&tree, "b", &noise(1_500_000, 2));
    let alone = file(dir.path(), "file", &noise(3_000_000, 3));
    let publisher = dir.path().join("publisher");
    let shares = [Share::start(&tree, &publisher), Share::start(&alone, &publisher)];
    let (store, into) = (dir.path().join("store"), format!("{}/", text(&small.place)));
    for share in &shares {
        let got = get(&store, &[&share.ticket, "-o", &into]);
        assert_exit(&got, 4);
        let said = stderr(&got);
        assert!(
            said.contains("3000000 bytes are to be written") && said.contains("are free"),
            "{said}"
        );
        assert_eq!(fs::read_dir(&small.place).unwrap().count(), 0, "nothing is left there");
    }
    // Excluded files need no room, nor do files that exist.
    let rest = ["--exclude", "b"];
    assert_exit(&get(&store, &[&[&*shares[0].ticket, "-o", &into][..], &rest].concat()), 0);
    let range = ["--range", "0..1000000", "-o"];
    let part = small.place.join("part");
    let none = get(&store, &[&[&*shares[1].ticket][..], &range, &[text(&part)]].concat());
    assert_exit(&none, 4);
    // Zeros take no room: with `--no-space-check` a user can begin all the same.
    fs::remove_dir_all(small.place.join("tree")).unwrap();
    let zeros = file(dir.path(), "zeros", &vec![0; 4_000_000]);
    let zeros = Share::start(&zeros, &publisher);
    assert_exit(&get(&store, &[&zeros.ticket, "-o", &into]), 4);
    assert_exit(&get(&store, &[&zeros.ticket, "-o", &into, "--no-space-check"]), 0);
    assert_eq!(fs::metadata(small.place.join("zeros")).unwrap().len(), 4_000_000);
}
