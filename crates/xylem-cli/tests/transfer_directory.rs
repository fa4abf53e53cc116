//! Directories in two processes: many entries, links, holes, names, leftovers of an earlier run.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::common;
use crate::common::{Share, assert_exit, file, finish, get, get_json, noise, text, xylem};

fn meta(path: &Path) -> fs::Metadata {
    fs::symlink_metadata(path).unwrap()
}

/// The root of a path, as `share` would publish it.
fn tree_sum(path: &Path) -> String {
    let mut command = xylem(path);
    command.args(["sum", "--no-names", "--tree"]).arg(path);
    String::from_utf8(finish(command).stdout).unwrap().trim().to_owned()
}

fn lines(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_of_many_entries_takes_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let folder_of = |name: &str, folders: usize| {
        let source = dir.path().join(name);
        for folder in 0..folders {
            let at = source.join(format!("folder-{folder:03}"));
            fs::create_dir_all(&at).unwrap();
            for n in 0..999 {
                fs::write(at.join(format!("file-with-some-name-{n:04}")), vec![7; n % 100])
                    .unwrap();
            }
        }
        source
    };
    // Fetched from first, as the pages of the program that serving touches count too, several megabytes of a debug build.
    let fetched = |share: &Share, name: &str, files: usize| {
        let out = dir.path().join(name).join("out");
        let (code, done) =
            get_json(&dir.path().join(name).join("store"), &[&share.ticket, "-o", text(&out)]);
        assert_eq!((code, &done["files"]), (Some(0), &files.into()), "{done}");
        out
    };
    // The memory of the program with a thirtieth of the entries.
    let few = Share::start(&folder_of("few", 1), &dir.path().join("store-of-few"));
    fetched(&few, "fetched-few", 999);
    let few_took = common::peak_memory(few.pid());
    let (source, store) = (folder_of("many", 30), dir.path().join("store"));
    let took = |share: &Share| common::peak_memory(share.pid()).saturating_sub(few_took);

    let share = Share::start(&source, &store);
    let out = fetched(&share, "fetched-many", 30 * 999);
    // 29,000 entries more; 600 bytes an entry would make 17 MB.
    assert!(took(&share) < 8_000_000, "share took {} bytes", took(&share));
    assert_eq!(tree_sum(&out), share.shared["root"].as_str().unwrap());
    drop(share);
    let again = Share::start(&source, &store);
    assert!(took(&again) < 8_000_000, "again it took {} bytes", took(&again));
}

#[test]
fn unchanged_files_are_not_hashed_again_and_keep_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir_all(source.join("sub/empty")).unwrap();
    for n in 0..30 {
        file(&source.join("sub"), &format!("f{n:02}"), &noise(n * 1_000, n as u64));
    }
    fs::hard_link(source.join("sub/f03"), source.join("again")).unwrap();
    std::os::unix::fs::symlink("sub/f04", source.join("link")).unwrap();
    // A file written less than two seconds before it is listed may have been written twice in one clock tick, so it is
    // read again.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let store = dir.path().join("store");
    let listing = |share: &Share| share.shared["root"].as_str().unwrap().to_owned();
    let first = Share::start(&source, &store);
    // A rewritten object in the store would be a new file.
    let made = || meta(&store.join(format!("objects/{}.listing", listing(&first)))).ino();
    let before = made();
    let second = Share::start(&source, &store);
    assert_eq!((&second.shared["name"], made()), (&first.shared["name"], before));
    let out = dir.path().join("fetched");
    assert_exit(&get(&dir.path().join("store-2"), &[&second.ticket, "-o", text(&out)]), 0);
    assert_eq!(tree_sum(&out), listing(&first));
    file(&source.join("sub"), "f05", b"other");
    let third = Share::start(&source, &store);
    assert_ne!(listing(&third), listing(&first));
}

#[test]
fn hard_links_come_out_as_hard_links_and_travel_once() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir_all(source.join("sub")).unwrap();
    file(&source, "first", &noise(300_000, 1));
    fs::hard_link(source.join("first"), source.join("second")).unwrap();
    fs::hard_link(source.join("first"), source.join("sub/third")).unwrap();
    file(&source, "alone", &noise(1_000, 2));
    let store = dir.path().join("store");
    let share = Share::start(&source, &store);
    let out = dir.path().join("fetched");
    let (code, done) = get_json(&dir.path().join("store-2"), &[&share.ticket, "-o", text(&out)]);
    assert_eq!((code, &done["files"], &done["fetched"]), (Some(0), &2.into(), &301_000.into()));
    for name in ["second", "sub/third"] {
        assert_eq!(meta(&out.join(name)).ino(), meta(&out.join("first")).ino());
    }
    assert_eq!((meta(&out.join("first")).nlink(), meta(&out.join("alone")).nlink()), (3, 1));
    assert_eq!(tree_sum(&out), tree_sum(&source));

    let mut verify = xylem(&dir.path().join("store-2"));
    verify.arg("verify").arg(&out).arg(&share.ticket);
    assert_exit(&finish(verify), 0);
    fs::remove_file(out.join("second")).unwrap();
    fs::copy(out.join("first"), out.join("second")).unwrap();
    let mut verify = xylem(&dir.path().join("store-2"));
    verify.arg("verify").arg(&out).arg(&share.ticket);
    let output = finish(verify);
    assert_exit(&output, 1);
    let said = lines(&output) + &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("is not a hard link to first"), "{said}");

    // Without its file a hard link is left out, and a line reports it.
    let some = dir.path().join("some");
    let arguments = [&share.ticket, "-o", text(&some), "--exclude", "first"];
    let output = get(&dir.path().join("store-3"), &arguments);
    assert_exit(&output, 0);
    assert!(!some.join("second").exists() && some.join("alone").exists());
    assert!(lines(&output).contains("a hard link to first, which is left out"));
}

#[test]
fn holes_are_neither_read_nor_written() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir(&source).unwrap();
    let make = |name: &str, size: u64, data: &[u64]| {
        let file = fs::File::create(source.join(name)).unwrap();
        file.set_len(size).unwrap();
        for at in data {
            file.write_all_at(&noise(10_000, *at), *at).unwrap();
        }
    };
    make("large", 40_000_000, &[0, 4_190_000, 20_000_000, 39_990_000]);
    make("small", 60_000, &[8_192]);
    make("nothing", 3_000_000, &[]);
    file(&source, "dense", &noise(1_000_000, 3));
    let share = Share::start(&source, &dir.path().join("store"));
    let out = dir.path().join("fetched");
    assert_exit(&get(&dir.path().join("store-2"), &[&share.ticket, "-o", text(&out)]), 0);
    assert_eq!(tree_sum(&out), tree_sum(&source));
    let alone = Share::start(&source.join("large"), &dir.path().join("store"));
    let copy = dir.path().join("large");
    assert_exit(&get(&dir.path().join("store-2"), &[&alone.ticket, "-o", text(&copy)]), 0);
    assert!(fs::read(&copy).unwrap() == fs::read(source.join("large")).unwrap());
    let pairs =
        ["large", "small", "nothing", "dense"].map(|name| (source.join(name), out.join(name)));
    for (was, is) in pairs.into_iter().chain([(source.join("large"), copy)]) {
        let (was, is) = (meta(&was).blocks(), meta(&is).blocks());
        assert!(is <= was + was / 100, "{was} blocks became {is}");
    }
}

#[test]
fn leftovers_of_an_earlier_run_are_used_or_removed() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    for folder in ["a", "a-b", "a.d", "z"] {
        fs::create_dir_all(source.join(folder)).unwrap();
        for n in 0..40 {
            file(&source.join(folder), &format!("f{n:02}"), &noise(n * 100, n as u64));
        }
    }
    file(&source, "a0", b"plain");
    let share = Share::start(&source, &dir.path().join("store"));
    // As after a kill: some files are right, one is wrong, and one is not in the listing.
    let part = dir.path().join(".fetched.xylem-part");
    for folder in ["a", "a-b", "foreign/deep"] {
        fs::create_dir_all(part.join(folder)).unwrap();
    }
    for n in 0..30 {
        let name = format!("a/f{n:02}");
        fs::copy(source.join(&name), part.join(&name)).unwrap();
    }
    fs::write(part.join("a/f07"), noise(700, 99)).unwrap();
    for stray in ["a-b/f00x", "a/f", "a/f39~", "foreign/deep/file", "A0", "zz"] {
        fs::write(part.join(stray), b"stray").unwrap();
    }
    fs::create_dir(part.join("a0")).unwrap();
    std::os::unix::fs::symlink("/etc", part.join("z")).unwrap();
    let out = dir.path().join("fetched");
    let (code, done) = get_json(&dir.path().join("store-2"), &[&share.ticket, "-o", text(&out)]);
    assert_eq!(code, Some(0), "{done}");
    assert_eq!(done["resumed"], (0..30).filter(|n| *n != 7).map(|n| n * 100).sum::<u64>());
    assert_eq!(tree_sum(&out), tree_sum(&source));
}

#[test]
fn a_file_that_is_edited_while_it_is_shared_does_not_stop_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir(&source).unwrap();
    for n in 0..20 {
        file(&source, &format!("f{n:02}"), &noise(2_000, n));
    }
    let share = Share::start(&source, &dir.path().join("store"));
    fs::write(source.join("f05"), b"edited").unwrap();
    let out = dir.path().join("fetched");
    let arguments = [&share.ticket, "-o", text(&out), "--timeout", "2"];
    let output = get(&dir.path().join("store-2"), &arguments);
    // All other files are in their places, and the changed one is named.
    assert_exit(&output, 1);
    assert!(lines(&output).contains("f05"), "{}", lines(&output));
    for n in (0..20).filter(|n| *n != 5) {
        let name = format!("f{n:02}");
        assert!(fs::read(out.join(&name)).unwrap() == fs::read(source.join(&name)).unwrap());
    }
    assert!(!out.join("f05").exists(), "it is not what was published");
    let skipped = share.told("skipped");
    assert_eq!(skipped.len(), 1, "told once: {skipped:?}");
    assert!(skipped[0]["path"].as_str().unwrap().ends_with("f05"));
    assert!(skipped[0]["why"].as_str().unwrap().contains("changed since it was hashed"));
}

/// It was listed with the permissions and the time that stand for a link.
#[cfg(unix)]
#[test]
fn the_second_name_of_a_file_stands_by_itself_when_the_first_is_gone() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir(&source).unwrap();
    let first = file(&source, "first", b"two names");
    fs::set_permissions(&first, fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&first, source.join("second")).unwrap();
    let store = dir.path().join("store");
    drop(Share::start(&source, &store));
    let is = fs::metadata(&first).unwrap();
    fs::remove_file(&first).unwrap();
    let share = Share::start(&source, &store);
    let out = dir.path().join("fetched");
    assert_exit(&get(&dir.path().join("store-2"), &[&share.ticket, "-o", text(&out)]), 0);
    let came = fs::metadata(out.join("second")).unwrap();
    assert_eq!((came.mode() & 0o777, came.mtime()), (0o640, is.mtime()));
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_invalid_elsewhere_are_reported_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("tree");
    fs::create_dir(&source).unwrap();
    for name in ["README", "readme", "aux.c", "fine"] {
        file(&source, name, b"x");
    }
    let share = Share::start(&source, &dir.path().join("store"));
    let out = dir.path().join("fetched");
    assert_exit(&get(&dir.path().join("store-2"), &[&share.ticket, "-o", text(&out)]), 0);
    assert_eq!(tree_sum(&out), tree_sum(&source), "here they are kept as they are");
    let mut refused = xylem(&dir.path().join("store"));
    refused.args(["share", "--portable", "--listen", "127.0.0.1:0"]).arg(&source);
    let output = finish(refused);
    assert_exit(&output, 2);
    assert!(lines(&output).contains("--portable"), "{}", lines(&output));
}

#[test]
fn a_folder_has_the_name_that_it_really_has() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("photos");
    fs::create_dir_all(source.join("2026")).unwrap();
    file(&source, "a", b"x");
    let store = dir.path().join("store");
    for (from, path) in [
        (&source, "."),
        (&source, "./"),
        (&source, "2026/.."),
        (&source.join("2026"), ".."),
        (&dir.path().to_path_buf(), "photos/"),
        (&dir.path().to_path_buf(), "photos//."),
    ] {
        let share = Share::inside(from, Path::new(path), &store);
        let there = tempfile::tempdir().unwrap();
        let mut command = xylem(&dir.path().join("store-2"));
        command.arg("get").arg(&share.ticket).current_dir(there.path());
        assert_exit(&finish(command), 0);
        assert!(there.path().join("photos/a").exists(), "{path}");
    }
}
