//! Content that changes while size and modification time stay (reproducible archives, encrypted containers, `touch
//! -r`): the change time and the inode number reveal it. And changes to a file's attributes alone, which cost one
//! reading.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::decaying::decay;
use crate::common::{Share, assert_exit, file, finish, get, noise, sum, text, until, xylem};

const SEGMENT: usize = 8_192;

/// Writes a file with a fixed modification time.
fn put(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Replaces a file by another one with the same name.
fn replace(path: &Path, content: &[u8]) {
    let new = path.with_extension("new");
    put(&new, content);
    fs::rename(new, path).unwrap();
}

/// The content of a file of two segments, and the same with one byte changed.
fn two(seed: u64) -> (Vec<u8>, Vec<u8>) {
    let first = noise(2 * SEGMENT, seed);
    let mut second = first.clone();
    second[SEGMENT + 7] ^= 1;
    (first, second)
}

#[test]
fn sharing_again_publishes_the_present_content() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    let (first, second) = two(1);
    fs::create_dir(&folder).unwrap();
    let change: [fn(&Path, &[u8]); 2] = [put, replace];
    for (round, change) in change.into_iter().enumerate() {
        for path in [folder.join("file"), dir.path().join("alone")] {
            put(&path, &first);
        }
        let (store, into) = (dir.path().join("store"), dir.path().join(format!("into-{round}")));
        fs::create_dir(&into).unwrap();
        for shared in [&folder, &dir.path().join("alone")] {
            let path = if shared.is_dir() { shared.join("file") } else { shared.clone() };
            drop(Share::start(shared, &store));
            let times = fs::metadata(&folder).unwrap().modified().unwrap();
            change(&path, &second);
            File::open(&folder).unwrap().set_modified(times).unwrap();
            let share = Share::start(shared, &store);
            let got = get(&dir.path().join("other"), &[&share.ticket, "-o", text(&into)]);
            assert_exit(&got, 0);
        }
        assert!(fs::read(into.join("folder/file")).unwrap() == second, "{round}");
        assert!(fs::read(into.join("alone")).unwrap() == second, "{round}");
    }
}

/// An older program noted no change times: files changed since are read, and the rest is trusted.
#[test]
fn a_store_of_an_older_version_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (store, path) = (dir.path().join("store"), dir.path().join("alone"));
    let (first, second) = two(2);
    put(&path, &first);
    drop(Share::start(&path, &store));
    fs::remove_dir_all(store.join("seen")).unwrap();
    let share = Share::start(&path, &store);
    assert_eq!(share.shared["root"].as_str().unwrap(), sum(&path));
    drop(share);
    fs::remove_dir_all(store.join("seen")).unwrap();
    put(&path, &second);
    let share = Share::start(&path, &store);
    assert_eq!(share.shared["root"].as_str().unwrap(), sum(&path));
}

#[test]
fn content_that_changes_while_served_is_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let (first, second) = two(3);
    put(&path, &first);
    let share = Share::start(&path, &dir.path().join("store"));
    // A new mode or another hard link does not change the content.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&path, dir.path().join("link")).unwrap();
    let out = dir.path().join("out");
    assert_exit(&get(&dir.path().join("first"), &[&share.ticket, "-o", text(&out)]), 0);
    assert!(fs::read(&out).unwrap() == first);
    put(&path, &second);
    let again = dir.path().join("again");
    let arguments = [&share.ticket, "-o", text(&again), "--timeout", "2"];
    assert_exit(&get(&dir.path().join("second"), &arguments), 3);
    until("who shares it is told", || !share.told("skipped").is_empty());
}

#[test]
fn repair_leaves_an_edit_alone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let (first, second) = two(4);
    put(&folder.join("file"), &first);
    put(&folder.join("other"), &first);
    let share = Share::start(&folder, &dir.path().join("publisher"));
    let alone = Share::start(&folder.join("file"), &dir.path().join("publisher"));
    let (store, into) = (dir.path().join("store"), dir.path().join("into"));
    fs::create_dir(&into).unwrap();
    for ticket in [&share.ticket, &alone.ticket] {
        assert_exit(&get(&store, &[ticket, "-o", text(&into)]), 0);
    }
    let repair = |path: &Path| {
        let mut scrub = xylem(&store);
        scrub.args(["--json", "scrub", "--repair"]).arg(path);
        let output = finish(scrub);
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), said.contains("\"flaw\":\"changed\""))
    };
    for path in [into.join("folder/file"), into.join("file")] {
        put(&path, &second);
        assert_eq!(repair(&path), (Some(1), true));
        assert!(fs::read(&path).unwrap() == second);
        put(&path, &first);
        assert_eq!(repair(&path), (Some(0), false));
        // Its present attributes are noted, and later decay is mended.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(repair(&path), (Some(0), false));
        for _ in 0..2 {
            decay(&store, &path, |file| {
                std::os::unix::fs::FileExt::write_all_at(file, b"decayed", 100).unwrap();
            });
            assert_eq!(repair(&path), (Some(0), false));
            assert!(fs::read(&path).unwrap() == first);
        }
    }
    // In an older store without notes, a file that was changed after it was fetched counts as touched.
    fs::remove_dir_all(store.join("seen")).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let path = into.join("folder/other");
    put(&path, &second);
    assert_eq!(repair(&path), (Some(1), true));
    assert!(fs::read(&path).unwrap() == second);
}

#[cfg(target_os = "linux")]
#[test]
fn members_get_a_file_that_replaced_another() {
    use crate::common::syncing::Member;

    let dir = tempfile::tempdir().unwrap();
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| Member::new(dir.path(), name));
    put(&alice.at("VERSION"), b"1.2.3\n");
    alice.start(None);
    bob.start(Some(&alice.ticket.clone()));
    bob.has("VERSION", "1.2.3\n");
    put(&dir.path().join("new"), b"1.2.4\n");
    fs::rename(dir.path().join("new"), alice.at("VERSION")).unwrap();
    bob.has("VERSION", "1.2.4\n");
    // It is found as well when it changes while the member does not run.
    alice.stop();
    put(&dir.path().join("new"), b"1.2.5\n");
    fs::rename(dir.path().join("new"), alice.at("VERSION")).unwrap();
    alice.start(None);
    bob.has("VERSION", "1.2.5\n");
}

#[test]
fn any_store_detects_a_file_changed_since_it_was_hashed() {
    // The same file in two stores: each has noted its attributes for itself.
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "file", &noise(100, 9));
    for store in ["a", "b"] {
        drop(Share::start(&path, &dir.path().join(store)));
    }
    put(&path, &noise(100, 10));
    for store in ["a", "b"] {
        let share = Share::start(&path, &dir.path().join(store));
        assert_eq!(share.shared["root"].as_str().unwrap(), sum(&path));
    }
}
