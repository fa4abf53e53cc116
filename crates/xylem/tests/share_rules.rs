//! What of a directory is shared: `--exclude`, `--ignore-file`, and what can't be read.
#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Share, assert_exit, file, finish, get, stderr, text, xylem};

/// Paths of all that is below a directory, sorted.
fn paths(dir: &Path) -> Vec<String> {
    fn below(dir: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            found.push(text(entry.path().strip_prefix(root).unwrap()).to_owned());
            if entry.file_type().unwrap().is_dir() {
                below(&entry.path(), root, found);
            }
        }
    }
    let mut found = Vec::new();
    below(dir, dir, &mut found);
    found.sort_unstable();
    found
}

fn root(share: &Share) -> String {
    share.shared["root"].as_str().unwrap().to_owned()
}

/// `xylem share` that is to end by itself.
fn refused(mut command: Command, path: &Path, more: &[&str]) -> Output {
    command.args(["share", "--listen", "127.0.0.1:0"]).args(more).arg(path);
    finish(command)
}

fn site(dir: &Path) -> PathBuf {
    let site = dir.join("site");
    fs::create_dir_all(site.join("drafts")).unwrap();
    fs::create_dir_all(site.join("build/deep")).unwrap();
    fs::create_dir_all(site.join("sub/drafts")).unwrap();
    for name in ["index", "a.tmp", "keep.tmp", "drafts/one", "build/deep/o", "sub/b.tmp"] {
        file(&site, name, name.as_bytes());
    }
    file(&site, "sub/drafts/two", b"two");
    file(&site, ".gitignore", b"# what is made\nindex\n\nbuild/\n");
    site
}

#[test]
fn what_is_left_out_goes_by_gitignore_s_rules_and_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let (site, store) = (site(dir.path()), dir.path().join("store"));
    let away = dir.path().join("away");
    let fetched = |share: &Share, name: &str| {
        let out = dir.path().join(name);
        assert_exit(&get(&away, &[&share.ticket, "-o", text(&out)]), 0);
        paths(&out)
    };
    let rules = ["--exclude", "*.tmp", "--exclude", "!keep.tmp", "--exclude", "/drafts"];
    let share = Share::with(&site, &store, &rules);
    let left = [
        ".gitignore",
        "build",
        "build/deep",
        "build/deep/o",
        "index",
        "keep.tmp",
        "sub",
        "sub/drafts",
        "sub/drafts/two",
    ];
    assert_eq!(fetched(&share, "one"), left, "the tree's own .gitignore is a file like any other");
    let told = share.told_before("left_out");
    assert!(told[0].contains("\"excluded\":3,\"unreadable\":0"), "{told:?}");
    let first = root(&share);
    for arguments in [&["verify", text(&site), &share.ticket][..], &["scrub", text(&site)]] {
        let mut command = xylem(&store);
        command.args(arguments);
        assert_exit(&finish(command), 0);
    }
    drop(share);

    // Sharing it again is sharing the same; what is new and matches stays out as well.
    file(&site, "c.tmp", b"new");
    let again = Share::start(&site, &store);
    assert_eq!(root(&again), first);
    let told = again.told_before("trouble");
    assert!(told.iter().any(|line| line.contains("as last time") && line.contains("/drafts")));
    drop(again);
    let rules = text(&site).to_owned() + "/.gitignore";
    let by_file = Share::with(&site, &store, &["--ignore-file", &rules]);
    let got = fetched(&by_file, "two");
    assert!(got.contains(&"a.tmp".to_owned()) && !got.contains(&"index".to_owned()), "{got:?}");
    assert!(!got.iter().any(|path| path.starts_with("build")), "{got:?}");
    drop(by_file);
    let all = Share::with(&site, &store, &["--no-exclude"]);
    assert_eq!(fetched(&all, "three"), paths(&site));
    drop(all);
    let all = root(&Share::start(&site, &store));
    assert_ne!(all, first, "nothing is left out any more");

    for more in [["--exclude", "a{"], ["--ignore-file", "/nowhere"]] {
        assert_exit(&refused(xylem(&store), &site, &more), 2);
    }
    let key = file(&site, "secret", &[7; 32]);
    assert_exit(&refused(xylem(&store), &site, &["--key", text(&key)]), 2);
}

/// As somebody who may not read everything. Root may, and is somebody else for this.
fn somebody(store: &Path) -> Command {
    let mut command = xylem(store);
    if chown(store.parent().unwrap(), Some(23_456), Some(23_456)).is_ok() {
        command.uid(23_456).gid(23_456);
    }
    command
}

#[test]
fn what_can_t_be_read_ends_no_share_unless_strict() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, own) = (dir.path().join("tree"), dir.path().join("own"));
    let set =
        |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    set(dir.path(), 0o755);
    fs::create_dir_all(tree.join("closed")).unwrap();
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::create_dir(&own).unwrap();
    file(&tree, "closed/inner", b"inner");
    for n in 0..12 {
        set(&file(&tree, &format!("sub/secret-{n:02}"), b"secret"), 0);
    }
    file(&tree, "sub/public", b"public");
    file(&tree, "top", b"top");
    set(&tree.join("closed"), 0);
    let store = own.join("store");
    let share = Share::run(somebody(&store), &tree, &[]);
    let out = dir.path().join("out");
    assert_exit(&get(&dir.path().join("away"), &[&share.ticket, "-o", text(&out)]), 0);
    assert_eq!(paths(&out), ["closed", "sub", "sub/public", "top"]);
    let skipped = share.told_before("skipped");
    assert_eq!(skipped.len(), 10, "{skipped:?}");
    assert!(skipped.iter().all(|line| line.contains("not allowed to")), "{skipped:?}");
    let told = share.told_before("left_out");
    assert!(told[0].contains("\"excluded\":0,\"unreadable\":13"), "{told:?}");
    let first = root(&share);
    drop(share);
    assert_eq!(root(&Share::run(somebody(&store), &tree, &[])), first);

    let strict = refused(somebody(&store), &tree, &["--strict"]);
    assert_exit(&strict, 4);
    assert!(strict.stdout.is_empty() && stderr(&strict).contains("not allowed to"));
    let mut sum = somebody(&store);
    sum.args(["sum", "--tree"]).arg(&tree);
    assert_exit(&finish(sum), 4);
    set(&tree.join("closed"), 0o755);
}
