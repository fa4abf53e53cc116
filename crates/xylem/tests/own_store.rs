//! Keys and trees of xylem's own on disk: never published, and open to nobody else.
#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use common::{Share, assert_exit, file, finish, get, noise, stderr, text, xylem};

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

/// `share ~`: the store lies below what is shared, and so do others, and copies of them.
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

    // Whoever walks it finds the same.
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
fn a_store_and_what_lies_in_it_are_not_shared() {
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

#[test]
fn keys_are_closed_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let mine = file(dir.path(), "mine", b"mine");
    let store = dir.path().join("store");
    fs::create_dir_all(store.join("keys/ndn")).unwrap();
    [&store, &store.join("keys"), &store.join("keys/ndn")].iter().for_each(|p| set_mode(p, 0o755));
    drop(Share::start(&mine, &store));
    assert_eq!([&store, &store.join("keys")].map(|path| mode(path)), [0o700; 2]);

    // Older programs and copies leave more.
    let mut new_key = xylem(&store);
    new_key.args(["key", "new", "/alice"]);
    assert_exit(&finish(new_key), 0);
    let named = files(&store.join("keys/ndn"));
    let named = named.iter().find(|path| path.extension().unwrap() == "key").unwrap();
    assert_eq!(mode(&store.join("keys/ndn")), 0o700);
    let keys = ["publisher", "link"].map(|name| store.join("keys").join(name));
    let folders = [store.clone(), store.join("keys"), store.join("keys/ndn")];
    folders.iter().for_each(|path| set_mode(path, 0o755));
    [&keys[0], &keys[1], named].iter().for_each(|path| set_mode(path, 0o644));
    drop(Share::start(&mine, &store));
    let mut list = xylem(&store);
    list.args(["key", "list"]);
    assert_exit(&finish(list), 0);
    assert_eq!(folders.each_ref().map(|path| mode(path)), [0o700; 3]);
    assert_eq!([&keys[0], &keys[1], named].map(|path| mode(path)), [0o600; 3]);

    // A folder that holds other things as well keeps its mode; the keys in it do not.
    let both = dir.path().join("both");
    fs::create_dir_all(&both).unwrap();
    set_mode(&both, 0o755);
    file(&both, "notes", b"mine");
    drop(Share::start(&mine, &both));
    assert_eq!((mode(&both), mode(&both.join("keys"))), (0o755, 0o700));
}

/// Somebody else's folder of keys is not used, whatever lies in it. Only root can arrange for one.
#[test]
fn keys_in_somebody_else_s_folder_are_refused() {
    use std::os::unix::fs::chown;
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o777);
    let mine = file(dir.path(), "mine", b"mine");
    let store = dir.path().join("store");
    fs::create_dir_all(store.join("keys")).unwrap();
    let somebody = 23_456;
    if chown(&store, Some(somebody), Some(somebody)).is_err() {
        eprintln!("SKIPPED: only root can give a folder away");
        return;
    }
    file(&store.join("keys"), "publisher", &[7; 32]);
    for (folder, key) in [(0o755, 0o644), (0o777, 0o666)] {
        set_mode(&store.join("keys"), folder);
        set_mode(&store.join("keys/publisher"), key);
        let mut share = xylem(&store);
        share.args(["share", "--listen", "127.0.0.1:0"]).arg(&mine).uid(somebody).gid(somebody);
        let output = finish(share);
        assert_exit(&output, 4);
        assert!(stderr(&output).contains("keys: others can open it"), "{}", stderr(&output));
    }
}
