//! Which part of a directory is shared: `--exclude`, `--ignore-file`, and unreadable entries.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Share, assert_exit, file, finish, get, stderr, text, xylem};

/// Paths of all entries below a directory, sorted.
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

/// Runs a `xylem share` that has to end by itself.
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
fn exclusions_follow_gitignore_rules_and_are_remembered() {
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

    // Sharing it again is the same publication; a new file that matches stays out as well.
    file(&site, "c.tmp", b"new");
    let again = Share::start(&site, &store);
    assert_eq!(root(&again), first);
    let told = again.told_before("trouble");
    assert!(
        told.iter().any(|line| line.contains("left out, as last time") && line.contains("/drafts"))
    );
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

    for more in [["--exclude", "a["], ["--exclude", "#*#"], ["--ignore-file", "/nowhere"]] {
        assert_exit(&refused(xylem(&store), &site, &more), 2);
    }
    let key = file(&site, "secret", &[7; 32]);
    assert_exit(&refused(xylem(&store), &site, &["--sign", &format!("ed25519:{}", text(&key))]), 2);
}

/// The record has the patterns of the last share: without it, files that were left out would be shared.
#[test]
fn a_damaged_record_shares_no_excluded_file() {
    let dir = tempfile::tempdir().unwrap();
    let (site, store) = (site(dir.path()), dir.path().join("store"));
    let rules = ["--exclude", "*.tmp"];
    let first = root(&Share::with(&site, &store, &rules));
    let record = fs::read_dir(store.join("known")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&record).unwrap();
    // A flipped byte, and a file that lost its content with the power.
    for damaged in [[&whole[..60], &[whole[60] ^ 1], &whole[61..]].concat(), Vec::new()] {
        fs::write(&record, damaged).unwrap();
        let output = refused(xylem(&store), &site, &[]);
        assert_exit(&output, 4);
        let said = stderr(&output);
        assert!(said.contains("record") && said.contains("--no-exclude"), "{said}");
    }
    assert_eq!(root(&Share::with(&site, &store, &rules)), first);
    assert_eq!(root(&Share::start(&site, &store)), first, "the new record has them");
    fs::write(&record, b"").unwrap();
    assert_ne!(root(&Share::with(&site, &store, &["--no-exclude"])), first);
}

/// A command of a user that may not read everything. Root may, so it runs as another user.
fn somebody(store: &Path) -> Command {
    let mut command = xylem(store);
    if chown(store.parent().unwrap(), Some(23_456), Some(23_456)).is_ok() {
        command.uid(23_456).gid(23_456);
    }
    command
}

#[test]
fn unreadable_files_end_no_share_unless_strict() {
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

#[test]
fn a_file_of_rules_is_read_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (dir.path().join("tree"), dir.path().join("store"));
    fs::create_dir(&tree).unwrap();
    for name in ["a.key", "b.txt", "1.txt", "{a,b}", "a"] {
        file(&tree, name, name.as_bytes());
    }
    let rules = dir.path().join("rules");
    for (bad, line, pattern) in [
        (&b"*.key\r\n[[:letters:]]\n"[..], 2, "[[:letters:]]"),
        (b"*.key\n\n# c\nb[\n", 4, "b["),
        (b"*.key\nb\\\n", 2, "b\\"),
        (b"*.k\xe9y\n", 1, "UTF-8"),
        (b"\xff\xfe*\0.\0k\0e\0y\0", 1, "UTF-8"),
    ] {
        fs::write(&rules, bad).unwrap();
        let said = refused(xylem(&store), &tree, &["--ignore-file", text(&rules)]);
        assert_exit(&said, 2);
        let said = stderr(&said);
        let names = [text(&rules), &format!("line {line}: "), pattern];
        assert!(names.iter().all(|name| said.contains(name)), "{said}");
    }
    // Read through a link, with a byte order mark.
    fs::write(&rules, b"\xef\xbb\xbf*.key\r\n[[:alpha:]].txt\r\n{a,b}\r\n").unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&rules, &link).unwrap();
    let share = Share::with(&tree, &store, &["--ignore-file", text(&link)]);
    let out = dir.path().join("out");
    assert_exit(&get(&dir.path().join("away"), &[&share.ticket, "-o", text(&out)]), 0);
    assert_eq!(paths(&out), ["1.txt", "a"]);
}

#[test]
fn verify_names_unpublished_files() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, store) = (site(dir.path()), dir.path().join("store"));
    let share = Share::with(&tree, &store, &["--exclude", "*.tmp"]);
    let copy = dir.path().join("copy");
    assert_exit(&get(&dir.path().join("away"), &[&share.ticket, "-o", text(&copy)]), 0);
    let verify = |at: &Path, more: &[&str]| {
        let mut verify = xylem(&store);
        verify.args(["verify", text(at), &share.ticket]).args(more);
        finish(verify)
    };
    assert_exit(&verify(&copy, &[]), 0);
    // Files that were excluded in the sharer's own folder count as expected.
    let own = verify(&tree, &[]);
    assert_exit(&own, 0);
    assert!(stderr(&own).contains("Left out 3"), "{}", stderr(&own));
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    let file_of = copy.join("build/deep/o");
    let before = fs::metadata(&file_of).unwrap().permissions().mode() & 0o777;
    type Add<'a> = Box<dyn Fn() + 'a>;
    let cases: [(&str, Add<'_>, Add<'_>); 6] = [
        (
            "evil.py: a file",
            Box::new(|| drop(file(&copy, "evil.py", b"evil"))),
            Box::new(|| fs::remove_file(copy.join("evil.py")).unwrap()),
        ),
        (
            "x.tmp: a file",
            Box::new(|| drop(file(&copy, "x.tmp", b"left out elsewhere"))),
            Box::new(|| fs::remove_file(copy.join("x.tmp")).unwrap()),
        ),
        (
            ".git: a directory",
            Box::new(|| {
                fs::create_dir_all(copy.join(".git/hooks")).unwrap();
                file(&copy, ".git/config", b"evil");
            }),
            Box::new(|| fs::remove_dir_all(copy.join(".git")).unwrap()),
        ),
        (
            "sub/link: a link",
            Box::new(|| std::os::unix::fs::symlink("/etc/passwd", copy.join("sub/link")).unwrap()),
            Box::new(|| fs::remove_file(copy.join("sub/link")).unwrap()),
        ),
        (
            "build/deep/o: has mode 4",
            Box::new(|| mode(&file_of, 0o4000 | before)),
            Box::new(|| mode(&file_of, before)),
        ),
        (
            "pipe: not a file",
            Box::new(|| {
                let made = Command::new("mkfifo").arg(copy.join("pipe")).status();
                assert!(made.unwrap().success());
            }),
            Box::new(|| fs::remove_file(copy.join("pipe")).unwrap()),
        ),
    ];
    for (expected, add, remove) in &cases {
        add();
        let said = verify(&copy, &[]);
        assert_exit(&said, 1);
        let lines = String::from_utf8(said.stdout).unwrap();
        let expected = format!("{}/{expected}", copy.display());
        assert!(lines.lines().count() == 1 && lines.starts_with(&expected), "{expected}: {lines}");
        assert_exit(&verify(&copy, &["--allow-extra"]), 0);
        remove();
    }
    assert_exit(&verify(&copy, &[]), 0);
    // With damage, both are named.
    file(&copy, "evil.py", b"evil");
    file(&copy, "keep.tmp", b"also not published");
    file(&copy, "index", b"index");
    fs::write(copy.join("index"), b"edited").unwrap();
    let said = verify(&copy, &["--json"]);
    assert_exit(&said, 1);
    let lines = String::from_utf8(said.stdout).unwrap();
    let last = lines.lines().last().unwrap();
    assert!(last.contains("\"damaged\":2,\"extra\":2"), "{lines}");
}

/// Files with a reported size of zero and content: their length is known after reading.
#[cfg(target_os = "linux")]
#[test]
fn files_with_a_false_size_are_not_shared_as_empty() {
    let dir = tempfile::tempdir().unwrap();
    let version = Path::new("/proc/version");
    let asked: [&[&str]; 2] = [&[], &["--follow"]];
    for more in asked {
        let output = refused(xylem(&dir.path().join("store")), version, more);
        assert_exit(&output, 4);
        assert!(stderr(&output).contains("a reported size of 0"), "{}", stderr(&output));
    }
    // A truly empty file is shared as empty.
    let share = Share::start(&file(dir.path(), "empty", b""), &dir.path().join("store"));
    assert_eq!(share.shared["bytes"], 0);
}
