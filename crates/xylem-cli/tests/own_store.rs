//! Keys and trees in xylem's own stores: never published, and closed to other users.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{Share, assert_exit, file, finish, get, noise, stderr, text, xylem};

fn tree_sum(store: &Path, path: &Path) -> std::process::Output {
    let mut command = xylem(store);
    command.args(["sum", "--no-names", "--tree"]).arg(path);
    finish(command)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in files(from) {
        let to = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }
}

/// `share ~`: the store lies below the shared folder, and so do other stores, and copies of stores.
#[test]
fn no_store_is_part_of_a_publication() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let store = home.join(".local/share/xylem");
    fs::create_dir_all(&home).unwrap();
    file(&home, "mine", b"mine");
    let other = home.join("other-store");
    let mut new_key = xylem(&other);
    new_key.args(["key", "new", "/alice"]);
    assert_exit(&finish(new_key), 0);
    drop(Share::start(&home.join("mine"), &store));
    copy(&store, &home.join("backup/xylem"));
    copy(&store.join("keys"), &home.join("backup/only-keys"));
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xylem-store/tests/fixtures/format0");
    copy(&old, &home.join("old"));
    symlink(&store, home.join("link")).unwrap();

    let share = Share::start(&home, &store);
    let root = share.shared["root"].as_str().unwrap().to_owned();
    let left_out: Vec<String> = share.told_before("skipped");
    assert_eq!(left_out.len(), 5, "{left_out:?}");
    assert!(left_out.iter().all(|line| line.contains("xylem store")), "{left_out:?}");

    let out = dir.path().join("fetched");
    let away = dir.path().join("away");
    assert_exit(&get(&away, &[&share.ticket, "-o", text(&out)]), 0);
    let secrets: Vec<Vec<u8>> = files(&home)
        .into_iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "keys"))
        .map(|path| fs::read(path).unwrap())
        .collect();
    assert!(secrets.len() >= 5, "keys are there");
    for path in files(&out).into_iter().filter(|path| !path.is_symlink()) {
        assert!(!secrets.contains(&fs::read(&path).unwrap()), "{}", path.display());
    }
    assert_eq!(fs::read(out.join("mine")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(out.join(".local/share")).unwrap().count(), 0);

    // `sum --tree` leaves out the same and gets the same root.
    let summed = tree_sum(&away, &home);
    assert_exit(&summed, 0);
    assert_eq!(String::from_utf8_lossy(&summed.stdout).trim(), root);
    assert!(stderr(&summed).contains("xylem store"), "{}", stderr(&summed));
    let mut verify = xylem(&away);
    verify.arg("verify").arg(&home).arg(&share.ticket);
    assert_exit(&finish(verify), 0);
    drop(share);
    let again = Share::start(&home, &store);
    assert_eq!(again.shared["root"].as_str(), Some(root.as_str()));
    assert_eq!(again.told_before("skipped"), left_out);
}

#[test]
fn a_store_and_its_files_are_not_shared() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    drop(Share::start(&file(dir.path(), "mine", &noise(100_000, 1)), &store));
    symlink(&store, dir.path().join("link")).unwrap();
    let keys = dir.path().join("link/keys");
    let places = [&store, &store.join("keys"), &store.join("keys/publisher"), &keys];
    for path in places {
        for more in [&[][..], &["--follow"]] {
            let mut share = xylem(&store);
            share.args(["share", "--listen", "127.0.0.1:0"]).args(more).arg(path);
            let output = finish(share);
            assert_exit(&output, 2);
            assert_eq!(output.stdout, b"", "no ticket");
            let said = stderr(&output);
            assert!(more.len() == 1 && path.is_dir() || said.contains("xylem store"), "{said}");
        }
    }
    for path in [&store, &store.join("objects")] {
        assert_exit(&tree_sum(dir.path(), path), 2);
    }
}

/// Folders that other users could read are closed; for the store's own, a line reports it. Folders that others could
/// write to, and keys that they could read, are refused, with the remedy.
#[test]
fn keys_are_closed_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let mine = file(dir.path(), "mine", b"mine");
    let store = dir.path().join("store");
    fs::create_dir_all(store.join("keys/ndn")).unwrap();
    [&store, &store.join("keys"), &store.join("keys/ndn")].iter().for_each(|p| set_mode(p, 0o755));
    let in_store = |arguments: &[&str]| {
        let mut command = xylem(&store);
        command.args(arguments);
        finish(command)
    };
    let made = in_store(&["key", "new", "/alice"]);
    assert_exit(&made, 0);
    assert!(stderr(&made).contains("others could look into this store (mode 0755)"));
    drop(Share::start(&mine, &store));
    let folders = [store.clone(), store.join("keys"), store.join("keys/ndn")];
    assert_eq!(folders.each_ref().map(|path| mode(path)), [0o700; 3]);
    let listed = in_store(&["key", "list"]);
    assert_exit(&listed, 0);
    assert!(!stderr(&listed).contains("warning"), "{}", stderr(&listed));

    // The modes after a copy that widened all of them: they are closed again, as long as no other user could write
    // there.
    folders.iter().for_each(|path| set_mode(path, 0o755));
    drop(Share::start(&mine, &store));
    assert_exit(&in_store(&["key", "list"]), 0);
    assert_eq!(folders.each_ref().map(|path| mode(path)), [0o700; 3]);

    // A key that other users could read counts as known to them.
    let share = ["share", text(&mine), "--listen", "127.0.0.1:0"];
    let card = ["inbox", "card"];
    let named = files(&store.join("keys/ndn"));
    let named = named.iter().find(|path| path.extension().unwrap() == "key").unwrap();
    let own = ["publisher", "link"].map(|name| store.join("keys").join(name));
    let uses =
        [(&own[0], &share[..]), (&own[1], &share), (&own[1], &card), (named, &["key", "list"])];
    for (key, used) in uses {
        for wide in [0o644, 0o640, 0o606] {
            set_mode(key, wide);
            let before = fs::read(key).unwrap();
            let output = in_store(used);
            assert_exit(&output, 4);
            let said = stderr(&output);
            assert!(said.contains(&format!("(mode {wide:04o})")), "{said}");
            assert!(said.contains(&format!("chmod 600 {}", key.display())), "{said}");
            assert_eq!((mode(key), fs::read(key).unwrap()), (wide, before));
        }
        set_mode(key, 0o600);
    }
    let named_by_flag = file(dir.path(), "key", &[7; 32]);
    set_mode(&named_by_flag, 0o644);
    let output =
        in_store(&[&share[..], &["--sign", &format!("ed25519:{}", text(&named_by_flag))]].concat());
    assert_exit(&output, 4);

    // Where other users could write, no file can be trusted.
    fs::create_dir_all(store.join("service")).unwrap();
    let uses: [(&str, &[&str]); 6] = [
        ("", &share),
        ("", &["get", "xylem:", "--overwrite"]),
        ("keys", &share),
        ("keys/ndn", &["key", "list"]),
        ("mail", &card),
        ("service", &["service", "run", "--listen", "127.0.0.1:0"]),
    ];
    let real = Share::start(&mine, &dir.path().join("publisher"));
    for (folder, used) in uses {
        let path = if folder.is_empty() { store.clone() } else { store.join(folder) };
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("format-or-not"), "").unwrap();
        let out = dir.path().join("out");
        let used: Vec<&str> = match used[0] {
            "get" => vec!["get", &real.ticket, "-o", text(&out)],
            _ => used.to_vec(),
        };
        for wide in [0o777, 0o770, 0o702] {
            set_mode(&path, wide);
            let output = in_store(&used);
            assert_exit(&output, 4);
            let said = stderr(&output);
            assert!(said.contains(&format!("chmod 700 {}", path.display())), "{folder}: {said}");
            assert_eq!(mode(&path), wide);
        }
        set_mode(&path, 0o700);
        fs::remove_file(path.join("format-or-not")).unwrap();
    }
    drop(Share::start(&mine, &store));

    // An empty folder has no planted files.
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    set_mode(&empty, 0o777);
    drop(Share::start(&mine, &empty));
    assert_eq!(mode(&empty), 0o700);

    // A folder that holds other files as well keeps its mode; the keys in it do not.
    let both = dir.path().join("both");
    fs::create_dir_all(&both).unwrap();
    set_mode(&both, 0o755);
    file(&both, "notes", b"mine");
    drop(Share::start(&mine, &both));
    assert_eq!((mode(&both), mode(&both.join("keys"))), (0o755, 0o700));
}

/// A store, key folder or key of another user is never used, whatever it contains and whichever user runs the program.
/// Only root can set up such a case.
#[test]
fn keys_in_a_folder_of_another_user_are_refused() {
    use std::os::unix::fs::chown;
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o777);
    let mine = file(dir.path(), "mine", b"mine");
    let store = dir.path().join("store");
    fs::create_dir_all(store.join("keys")).unwrap();
    set_mode(&store, 0o700);
    let somebody = 23_456;
    if chown(&store, Some(somebody), Some(somebody)).is_err() {
        common::skipped("only root can give a folder away");
        return;
    }
    let publisher = file(&store.join("keys"), "publisher", &[7; 32]);
    let share = |user: u32| {
        let mut share = xylem(&store);
        share.args(["share", "--listen", "127.0.0.1:0"]).arg(&mine).uid(user).gid(user);
        finish(share)
    };
    for (folder, key) in [(0o755, 0o644), (0o777, 0o666)] {
        set_mode(&store.join("keys"), folder);
        set_mode(&publisher, key);
        let output = share(somebody);
        assert_exit(&output, 4);
        assert!(stderr(&output).contains("keys: other users can open it"), "{}", stderr(&output));
    }
    set_mode(&publisher, 0o600);
    set_mode(&store.join("keys"), 0o700);
    let theirs = [(&store, 0), (&store.join("keys"), somebody), (&publisher, somebody)];
    for (path, user) in theirs {
        for path in [&store, &store.join("keys"), &publisher] {
            chown(path, Some(user), Some(user)).unwrap();
        }
        chown(path, Some(34_567), Some(34_567)).unwrap();
        // The other user's folder can be entered: the only reason to refuse it is its owner.
        set_mode(&store, 0o711);
        set_mode(&store.join("keys"), 0o711);
        let output = share(user);
        assert_exit(&output, 4);
        let said = stderr(&output);
        assert!(said.contains("belongs to another user (uid 34567)"), "{said}");
        assert!(said.contains(text(path)), "{said}");
        set_mode(&store, 0o700);
        set_mode(&store.join("keys"), 0o700);
    }
}
