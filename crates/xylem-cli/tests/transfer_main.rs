//! The main job in two processes: content shared on one side arrives on the other, whole, under its name, with the root
//! that `sum` prints.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common;
use crate::common::{
    Share, assert_exit, file, finish, get, get_json, noise, printed_root, sum, text, xylem,
};

#[test]
fn files_of_every_boundary_size_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    for size in [0, 1, 1024, 8191, 8192, 8193, 65_536, 65_537, 3_000_000] {
        let source = file(dir.path(), &format!("file-{size}"), &noise(size, size as u64));
        let share = Share::start(&source, &store);
        let out = dir.path().join(format!("fetched-{size}"));
        let output = get(&store, &[&share.ticket, "-o", text(&out)]);
        assert_exit(&output, 0);
        assert!(fs::read(&out).unwrap() == fs::read(&source).unwrap(), "{size} bytes differ");
        assert_eq!(printed_root(&output), sum(&source), "{size}");
        assert!(!dir.path().join(format!(".fetched-{size}.xylem-part")).exists());
    }
}

#[test]
fn a_file_goes_under_its_own_name_into_the_current_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    fs::create_dir_all(&here).unwrap();
    fs::create_dir_all(&there).unwrap();
    let source = file(&here, "with space é.bin", &noise(100_000, 1));
    let share = Share::start(&source, &dir.path().join("store"));
    let mut command = xylem(&dir.path().join("other-store"));
    command.arg("get").arg(&share.ticket).current_dir(&there);
    assert_exit(&finish(command), 0);
    let fetched = there.join("with space é.bin");
    assert_eq!(fs::read(&fetched).unwrap(), fs::read(&source).unwrap());
    let time = |p: &Path| fs::metadata(p).unwrap().modified().unwrap();
    assert_eq!(time(&fetched), time(&source));
}

#[cfg(unix)]
#[test]
fn a_directory_keeps_modes_links_times_and_empty_folders() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir_all(source.join("bin")).unwrap();
    fs::create_dir_all(source.join("empty/inner")).unwrap();
    let tool = file(&source.join("bin"), "tool", &noise(300_000, 2));
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let secret = file(&source, "secret", b"mine");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    file(&source, "nothing", b"");
    fs::write(source.join(std::ffi::OsStr::from_bytes(b"not-utf8-\xff")), b"bytes").unwrap();
    for i in 0..200 {
        file(&source.join("bin"), &format!("small-{i}"), &noise(i * 100, i as u64));
    }
    symlink("bin/tool", source.join("link")).unwrap();
    symlink("/nowhere/at/all", source.join("dangling")).unwrap();

    let store = dir.path().join("store");
    let share = Share::start(&source, &store);
    let out = dir.path().join("fetched");
    let output = get(&dir.path().join("store-2"), &[&share.ticket, "-o", text(&out)]);
    assert_exit(&output, 0);
    assert_same_tree(&source, &out);

    let tree_sum = |path: &Path| {
        let mut command = xylem(&store);
        command.args(["sum", "--no-names", "--tree"]).arg(path);
        String::from_utf8(finish(command).stdout).unwrap().trim().to_owned()
    };
    assert_eq!(printed_root(&output), tree_sum(&source));
    assert_eq!(tree_sum(&out), tree_sum(&source));
    assert!(!dir.path().join(".fetched.xylem-part").exists());
}

#[cfg(unix)]
fn assert_same_tree(a: &Path, b: &Path) {
    use std::os::unix::fs::MetadataExt;
    let names = |p: &Path| {
        let mut names: Vec<_> = fs::read_dir(p).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(a), names(b));
    for name in names(a) {
        let (a, b) = (a.join(&name), b.join(&name));
        let (was, is) = (fs::symlink_metadata(&a).unwrap(), fs::symlink_metadata(&b).unwrap());
        assert_eq!(was.file_type(), is.file_type(), "{}", a.display());
        if was.is_symlink() {
            assert_eq!(fs::read_link(&a).unwrap(), fs::read_link(&b).unwrap());
            continue;
        }
        assert_eq!(was.mode(), is.mode(), "{}", a.display());
        assert_eq!(
            (was.mtime(), was.mtime_nsec()),
            (is.mtime(), is.mtime_nsec()),
            "{}",
            a.display()
        );
        if was.is_dir() {
            assert_same_tree(&a, &b);
        } else {
            assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap(), "{}", a.display());
        }
    }
}

#[test]
fn a_range_is_fetched_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let content = noise(20_000_000, 3);
    let source = file(dir.path(), "big", &content);
    let share = Share::start(&source, &store);
    let out = dir.path().join("part");
    for (range, expected) in [
        ("5000000..5100000", &content[5_000_000..5_100_000]),
        ("19999999..", &content[19_999_999..]),
        ("..1", &content[..1]),
    ] {
        let arguments = [&share.ticket, "--range", range, "-o", text(&out), "--overwrite"];
        let (code, done) = get_json(&dir.path().join("store-2"), &arguments);
        assert_eq!(code, Some(0), "{range}");
        assert!(fs::read(&out).unwrap() == expected, "{range}");
        assert!(done["fetched"].as_u64().unwrap() < 200_000, "{range}: {done}");
    }
    let output = get(&store, &[&share.ticket, "--range", "20000001..20000002", "-o", text(&out)]);
    assert_exit(&output, 2);
}

#[test]
fn standard_output_gets_the_bytes_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(10_000_000, 4);
    let source = file(dir.path(), "stream", &content);
    let share = Share::start(&source, &dir.path().join("store"));
    let output = get(&dir.path().join("store-2"), &[&share.ticket, "-o", "-"]);
    assert_exit(&output, 0);
    assert!(output.stdout == content);
    let arguments = [&share.ticket, "-o", "-", "--range", "1000000..2000000"];
    let output = get(&dir.path().join("store-2"), &arguments);
    assert_exit(&output, 0);
    assert!(output.stdout == content[1_000_000..2_000_000]);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "stream", &noise(30_000_000, 5));
    let share = Share::start(&source, &dir.path().join("store"));
    let mut command = xylem(&dir.path().join("store-2"));
    command.args(["get", &share.ticket, "-o", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn two_tickets_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (dir.path().join("store"), dir.path().join("store-2"));
    let sources: Vec<_> =
        (0..2).map(|i| file(dir.path(), &format!("s{i}"), &noise(15_000_000, 10 + i))).collect();
    let shares: Vec<_> = sources.iter().map(|s| Share::start(s, &store)).collect();
    std::thread::scope(|scope| {
        for (i, (share, source)) in shares.iter().zip(&sources).enumerate() {
            let (dir, other) = (dir.path(), &other);
            scope.spawn(move || {
                let out = dir.join(format!("out{i}"));
                assert_exit(&get(other, &[&share.ticket, "-o", text(&out)]), 0);
                assert!(fs::read(out).unwrap() == fs::read(source).unwrap());
            });
        }
    });
}

#[test]
fn plain_ndn_over_udp_and_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "plain", &noise(4_000_000, 6));
    let share = Share::plain(&source, &dir.path().join("store"));
    let address = share.plain.clone().unwrap();
    for transport in ["udp", "tcp"] {
        let out = dir.path().join(transport);
        let from = format!("{transport}://{address}");
        let output = get(
            &dir.path().join(transport),
            &[&share.ticket, "--from", &from, "-o", text(&out.with_extension("out"))],
        );
        assert_exit(&output, 0);
        assert!(fs::read(out.with_extension("out")).unwrap() == fs::read(&source).unwrap());
    }
}

#[test]
fn existing_files_are_neither_fetched_nor_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let source = file(dir.path(), "source", &noise(500_000, 7));
    let share = Share::start(&source, &store);
    let out = file(dir.path(), "out", &fs::read(&source).unwrap());
    let (code, done) = get_json(&store, &[&share.ticket, "-o", text(&out)]);
    assert_eq!(code, Some(0));
    assert_eq!(done["fetched"], 0);
    fs::write(&out, b"something else").unwrap();
    assert_exit(&get(&store, &[&share.ticket, "-o", text(&out)]), 2);
    assert_eq!(fs::read(&out).unwrap(), b"something else");
    assert_exit(&get(&store, &[&share.ticket, "-o", text(&out), "--rename"]), 0);
    assert_eq!(fs::read(&out).unwrap(), b"something else");
    assert!(fs::read(dir.path().join("out.1")).unwrap() == fs::read(&source).unwrap());
    assert_exit(&get(&store, &[&share.ticket, "-o", text(&out), "--overwrite"]), 0);
    assert!(fs::read(&out).unwrap() == fs::read(&source).unwrap());
}

#[test]
fn sharing_again_gives_the_same_ticket_name_without_hashing_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let source = file(dir.path(), "again", &noise(5_000_000, 8));
    let out = dir.path().join("out");
    let first = Share::start(&source, &store).ticket.clone();
    let second = Share::start(&source, &store);
    // The first ticket's port is gone; its content is still served.
    let output = get(&store, &[&first, "--from", &second.link, "-o", text(&out)]);
    assert_exit(&output, 0);
    assert!(fs::read(&out).unwrap() == fs::read(&source).unwrap());
}

#[test]
fn verify_names_the_damaged_range() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let content = noise(5_000_000, 9);
    let source = file(dir.path(), "original", &content);
    let share = Share::start(&source, &store);
    let copy = file(dir.path(), "copy", &content);
    let verify = |path: &Path| {
        let mut command = xylem(&dir.path().join("store-2"));
        command.arg("verify").arg(path).arg(&share.ticket);
        finish(command)
    };
    assert_exit(&verify(&copy), 0);
    let mut bad = content;
    bad[3_000_000] ^= 1;
    fs::write(&copy, &bad).unwrap();
    let output = verify(&copy);
    assert_exit(&output, 1);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &common::stderr(&output);
    let segment = 3_000_000 / 65_536 * 65_536;
    assert!(said.contains(&segment.to_string()), "{said}");
}

#[test]
fn bad_tickets_are_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "x", b"x");
    let share = Share::start(&source, &dir.path().join("store"));
    let cut = &share.ticket[..share.ticket.len() - 5];
    for ticket in ["xylem:", "xylem:zzzz", "nonsense", "", cut] {
        let output = get(&dir.path().join("store-2"), &[ticket]);
        assert_exit(&output, 2);
        assert_eq!(common::stderr(&output).trim().lines().count(), 1, "{ticket}");
    }
    let mut command = xylem(&dir.path().join("store"));
    command.arg("share").arg(dir.path().join("missing"));
    assert_exit(&finish(command), 2);
}
