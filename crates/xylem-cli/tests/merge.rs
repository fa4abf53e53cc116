//! `get --overwrite` into a directory that exists: published files are made or replaced, unchanged ones cost no
//! transfer, and the user's own stay unless `--delete` removes them.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{Share, assert_exit, file, finish, get, get_json, noise, stderr, text, xylem};
use serde_json::Value;

fn meta(path: &Path) -> fs::Metadata {
    fs::symlink_metadata(path).unwrap()
}

fn tree_sum(path: &Path) -> String {
    let mut command = xylem(&path.with_extension("no-store"));
    command.args(["sum", "--no-names", "--tree"]).arg(path);
    String::from_utf8(finish(command).stdout).unwrap().trim().to_owned()
}

/// All events of a `get`.
fn events(store: &Path, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = xylem(store);
    command.args(["--json", "get"]).args(arguments);
    let output = finish(command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code(), events)
}

/// A tree, its fetched copy, and two stores.
struct Pair {
    _dir: tempfile::TempDir,
    source: PathBuf,
    ours: PathBuf,
    store: PathBuf,
    away: PathBuf,
    into: PathBuf,
    outside: PathBuf,
}

impl Pair {
    /// Publishes the first version and fetches it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let source = at("tree");
        fs::create_dir_all(source.join("sub/deep")).unwrap();
        fs::create_dir_all(source.join("empty")).unwrap();
        file(&source, "big", &noise(700_000, 1));
        file(&source, "small", &noise(2_000, 2));
        file(&source, "sub/changes", &noise(90_000, 3));
        file(&source, "sub/deep/stays", &noise(100_001, 4));
        file(&source, "sub/goes", b"old");
        fs::hard_link(source.join("small"), source.join("sub/small-too")).unwrap();
        symlink("small", source.join("link")).unwrap();
        let (into, outside) = (at("into"), at("outside"));
        fs::create_dir(&into).unwrap();
        fs::create_dir(&outside).unwrap();
        file(&outside, "precious", b"precious");
        let pair = Self {
            ours: into.join("tree"),
            store: at("store"),
            away: at("away"),
            _dir: dir,
            source,
            into,
            outside,
        };
        let share = pair.share();
        assert_exit(&get(&pair.away, &[&share.ticket, "-o", text(&pair.into)]), 0);
        assert_eq!(tree_sum(&pair.ours), tree_sum(&pair.source));
        pair
    }

    fn share(&self) -> Share {
        Share::start(&self.source, &self.store)
    }

    /// Changes the source as its publisher would.
    fn second_version(&self) {
        file(&self.source, "sub/changes", &noise(90_000, 5));
        file(&self.source, "sub/new", &noise(30_000, 6));
        fs::create_dir(self.source.join("later")).unwrap();
        fs::remove_file(self.source.join("sub/goes")).unwrap();
        fs::remove_file(self.source.join("link")).unwrap();
        symlink("big", self.source.join("link")).unwrap();
        fs::hard_link(self.source.join("big"), self.source.join("later/big-too")).unwrap();
    }
}

#[test]
fn a_merge_fetches_only_what_has_changed() {
    let pair = Pair::new();
    let Pair { ours, away, into, .. } = &pair;
    let big = meta(&ours.join("big")).ino();
    let stays = meta(&ours.join("sub/deep/stays"));
    // The user's changes meanwhile: files of their own, and another mode and time.
    file(ours, "mine", b"mine");
    fs::create_dir(ours.join("sub/my-folder")).unwrap();
    file(ours, "sub/my-folder/notes", b"notes");
    fs::set_permissions(ours.join("big"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::File::options()
        .write(true)
        .open(ours.join("sub/deep/stays"))
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    pair.second_version();
    let share = pair.share();
    let (code, done) = get_json(away, &[&share.ticket, "-o", text(into), "--overwrite"]);
    assert_eq!((code, &done["fetched"]), (Some(0), &120_000.into()), "{done}");
    assert_eq!(done["path"], text(ours));
    assert_eq!(fs::read(ours.join("mine")).unwrap(), b"mine");
    assert_eq!(fs::read(ours.join("sub/my-folder/notes")).unwrap(), b"notes");
    assert_eq!(fs::read(ours.join("sub/goes")).unwrap(), b"old");
    let now = meta(&ours.join("sub/deep/stays"));
    assert_eq!((meta(&ours.join("big")).ino(), now.ino()), (big, stays.ino()));
    assert_eq!(now.mtime(), stays.mtime());
    assert_eq!(meta(&ours.join("big")).mode(), meta(&pair.source.join("big")).mode());
    assert_eq!(meta(&ours.join("later/big-too")).ino(), big);
    assert!(!into.join(".tree.xylem-part").exists());
    // The copy equals the published tree, except for the user's own files.
    for path in ["mine", "sub/my-folder/notes", "sub/goes"] {
        fs::remove_file(ours.join(path)).unwrap();
    }
    fs::remove_dir(ours.join("sub/my-folder")).unwrap();
    let parent = meta(&pair.source.join("sub"));
    let time = fs::File::open(ours.join("sub")).unwrap();
    time.set_modified(parent.modified().unwrap()).unwrap();
    let time = fs::File::open(ours).unwrap();
    time.set_modified(meta(&pair.source).modified().unwrap()).unwrap();
    assert_eq!(tree_sum(ours), tree_sum(&pair.source));

    // A second run changes and fetches nothing.
    let (code, done) = get_json(away, &[&share.ticket, "-o", text(into), "--overwrite"]);
    assert_eq!((code, &done["fetched"]), (Some(0), &0.into()), "{done}");
}

/// A file that was renamed, or that now exists twice, is found by its content.
#[test]
fn renamed_files_are_not_fetched() {
    let pair = Pair::new();
    let Pair { source, ours, away, into, .. } = &pair;
    fs::rename(source.join("big"), source.join("sub/renamed")).unwrap();
    fs::copy(source.join("sub/deep/stays"), source.join("twice")).unwrap();
    let share = pair.share();
    let arguments = [&*share.ticket, "-o", text(into), "--overwrite", "--delete"];
    let (code, done) = get_json(away, &arguments);
    assert_eq!((code, &done["fetched"]), (Some(0), &0.into()), "{done}");
    assert_eq!(tree_sum(ours), tree_sum(source));
    assert!(!ours.join("big").exists());
}

#[test]
fn delete_removes_unpublished_files_and_nothing_else() {
    let pair = Pair::new();
    let Pair { ours, away, into, outside, .. } = &pair;
    pair.second_version();
    fs::create_dir_all(ours.join("mine/below")).unwrap();
    file(ours, "mine/below/a", b"a");
    file(ours, "mine/b", b"b");
    file(ours, "sub/c.keep", b"excluded");
    file(ours, ".d.xylem-part", b"unfinished");
    symlink(outside, ours.join("sub/way-out")).unwrap();
    let inner = ours.join("inner-store");
    drop(Share::start(&outside.join("precious"), &inner));
    let share = pair.share();
    let arguments = [&share.ticket, "-o", text(into), "--delete", "--exclude", "*.keep"];
    assert_exit(&get(away, &arguments), 2); // --delete belongs to --overwrite
    assert!(ours.join("mine/b").exists());
    let arguments = [&arguments[..], &["--overwrite"]].concat();
    let (code, events) = events(away, &arguments);
    assert_eq!(code, Some(0), "{events:?}");
    let removing: Vec<_> = events.iter().filter(|e| e["event"] == "removing").collect();
    assert_eq!(removing[0]["files"], 4, "{events:?}");
    let paths = ["mine/b", "mine/below/a", "sub/goes", "sub/way-out"];
    let mut told: Vec<&str> =
        removing[0]["paths"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
    told.sort_unstable();
    assert_eq!(told, paths);
    assert!(!ours.join("mine").exists() && meta(outside).is_dir());
    for path in paths {
        assert!(ours.join(path).symlink_metadata().is_err(), "{path}");
    }
    assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
    assert_eq!(fs::read(ours.join("sub/c.keep")).unwrap(), b"excluded");
    assert!(ours.join(".d.xylem-part").exists() && inner.join("keys/publisher").exists());
    fs::remove_dir_all(inner).unwrap();
    fs::remove_file(ours.join(".d.xylem-part")).unwrap();
    fs::remove_file(ours.join("sub/c.keep")).unwrap();
    // Reported to people as well.
    file(ours, "one-more", b"");
    let mut command = xylem(away);
    command.args(["-v", "get", "--overwrite", "--delete", &share.ticket, "-o", text(into)]);
    let said = finish(command);
    assert_exit(&said, 0);
    let said = stderr(&said);
    assert!(said.contains("Removes 1 file that the publication does not have"), "{said}");
    assert!(said.contains("removes one-more"), "{said}");
    assert_eq!(tree_sum(ours), tree_sum(&pair.source));
}

#[test]
fn links_are_replaced_and_never_entered() {
    let pair = Pair::new();
    let Pair { ours, away, into, outside, .. } = &pair;
    for more in [&[][..], &["--delete"]] {
        fs::remove_dir_all(ours.join("sub")).unwrap();
        fs::create_dir_all(outside.join("deep")).unwrap();
        file(outside, "changes", b"outside");
        file(outside, "deep/stays", &noise(100_001, 4));
        symlink(outside, ours.join("sub")).unwrap();
        fs::remove_file(ours.join("small")).unwrap();
        symlink(outside.join("precious"), ours.join("small")).unwrap();
        let share = pair.share();
        let arguments = [&[&*share.ticket, "-o", text(into), "--overwrite"], more].concat();
        assert_exit(&get(away, &arguments), 0);
        assert!(meta(&ours.join("sub")).is_dir() && meta(&ours.join("small")).is_file());
        assert_eq!(fs::read(outside.join("changes")).unwrap(), b"outside");
        assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(outside).unwrap().count(), 3);
        assert_eq!(tree_sum(ours), tree_sum(&pair.source));
    }
}

#[test]
fn a_folder_in_the_way_is_reported_before_anything_changes() {
    let pair = Pair::new();
    let Pair { ours, away, into, .. } = &pair;
    pair.second_version();
    let share = pair.share();
    fs::remove_file(ours.join("small")).unwrap();
    fs::remove_file(ours.join("sub/small-too")).unwrap();
    fs::create_dir(ours.join("small")).unwrap();
    file(ours, "small/notes", b"notes");
    let before = tree_sum(ours);
    let arguments = [&*share.ticket, "-o", text(into), "--overwrite"];
    let refused = get(away, &arguments);
    assert_exit(&refused, 4);
    assert!(stderr(&refused).contains("small: refused: a folder that is not empty"));
    assert_eq!(tree_sum(ours), before, "nothing was changed");
    // A store, which must never be removed, is not removed for this either.
    let store = ours.join("small/store");
    drop(Share::start(&ours.join("big"), &store));
    assert_exit(&get(away, &[&arguments[..], &["--delete"]].concat()), 4);
    assert!(store.join("keys/publisher").exists() && ours.join("small/notes").exists());
    fs::remove_dir_all(store).unwrap();
    assert_exit(&get(away, &[&arguments[..], &["--delete"]].concat()), 0);
    assert_eq!(tree_sum(ours), tree_sum(&pair.source));
    // An empty folder may be removed: nothing is lost.
    fs::remove_file(ours.join("sub/new")).unwrap();
    fs::create_dir(ours.join("sub/new")).unwrap();
    assert_exit(&get(away, &arguments), 0);
    assert_eq!(tree_sum(ours), tree_sum(&pair.source));
}

#[test]
fn a_store_is_not_merged_into() {
    let pair = Pair::new();
    let Pair { ours, away, into, .. } = &pair;
    file(&pair.source, "sub/deep/stays", b"of the publisher");
    let share = pair.share();
    let store = ours.join("sub/deep");
    fs::remove_dir_all(&store).unwrap();
    drop(Share::start(&ours.join("big"), &store));
    for more in [&[][..], &["--delete"]] {
        let arguments = [&[&*share.ticket, "-o", text(into), "--overwrite"], more].concat();
        let refused = get(away, &arguments);
        assert_exit(&refused, 2);
        assert!(stderr(&refused).contains("xylem store"), "{}", stderr(&refused));
    }
    let arguments = ["-o", text(into), "--overwrite", "--delete", "--exclude", "sub/deep"];
    assert_exit(&get(away, &[&[&*share.ticket], &arguments[..]].concat()), 0);
    assert!(store.join("keys/publisher").exists() && !store.join("stays").exists());
}

/// A part of a file never gets the file's name, unless the user asks for it.
#[test]
fn a_range_has_a_name_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(100_000, 1);
    let film = file(dir.path(), "film", &content);
    let share = Share::start(&film, &dir.path().join("store"));
    let away = dir.path().join("away");
    let into = dir.path().join("into");
    fs::create_dir(&into).unwrap();
    let mut command = xylem(&away);
    command.current_dir(&into).args(["get", &share.ticket, "--range", "1000..3K"]);
    assert_exit(&finish(command), 0);
    let (code, done) = get_json(&away, &[&share.ticket, "-o", text(&into), "--range", "90K.."]);
    assert_eq!(code, Some(0));
    assert_eq!(done["path"], text(&into.join("film.92160-100000.part")));
    assert!(!into.join("film").exists());
    assert_eq!(fs::read(into.join("film.1000-3072.part")).unwrap(), content[1000..3072]);
    let named = into.join("named");
    assert_exit(&get(&away, &[&share.ticket, "-o", text(&named), "--range", "..5"]), 0);
    assert_eq!(fs::read(named).unwrap(), content[..5]);
}

/// `-o newdir/` makes the folder, but none above it.
#[test]
fn a_folder_that_is_named_with_a_slash_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let film = file(dir.path(), "film", b"film");
    let share = Share::start(&film, &dir.path().join("store"));
    let away = dir.path().join("away");
    let place = |name: &str| format!("{}/{name}", text(dir.path()));
    assert_exit(&get(&away, &[&share.ticket, "-o", &place("new/")]), 0);
    assert_eq!(fs::read(dir.path().join("new/film")).unwrap(), b"film");
    let refused = get(&away, &[&share.ticket, "-o", &place("a/b/")]);
    assert_exit(&refused, 2);
    assert!(!dir.path().join("a").exists());
    assert_exit(&get(&away, &[&share.ticket, "-o", &place("film/")]), 2);
}

/// Unpublished entries are removed without following them: links to themselves, to nowhere, to a folder, to another
/// file system or a store. Entries nested deeper than the limit stay, and are reported.
#[test]
fn links_and_depths_do_not_end_a_removal() {
    let make_deep = |at: &Path| {
        let deep: std::path::PathBuf = std::iter::repeat_n("d", 600).collect();
        fs::create_dir_all(at.join(deep)).unwrap();
    };
    /// Puts an entry into the destination of a pair.
    type Make<'a> = &'a dyn Fn(&Path, &Pair);
    let makes: [(&str, Make<'_>); 5] = [
        ("itself", &|at, _| symlink("a", at.join("a")).unwrap()),
        ("nowhere", &|at, _| symlink("nowhere", at.join("a")).unwrap()),
        ("a folder", &|at, pair| symlink(&pair.outside, at.join("a")).unwrap()),
        ("a store", &|at, pair| symlink(&pair.store, at.join("a")).unwrap()),
        ("a depth", &|at, _| make_deep(&at.join("a"))),
    ];
    for (what, make) in makes {
        let pair = Pair::new();
        make(&pair.ours, &pair);
        pair.second_version();
        let share = pair.share();
        let arguments = [&share.ticket, "-o", text(&pair.into), "--overwrite", "--delete"];
        let got = get(&pair.away, &arguments);
        assert_exit(&got, 0);
        assert!(fs::read(pair.ours.join("sub/new")).unwrap() == noise(30_000, 6), "{what}");
        assert_eq!(fs::read(pair.outside.join("precious")).unwrap(), b"precious", "{what}");
        assert!(pair.store.join("objects").is_dir(), "{what}");
        let deep = what == "a depth";
        assert_eq!(fs::symlink_metadata(pair.ours.join("a")).is_ok(), deep, "{what}");
        assert_eq!(stderr(&got).contains("nested too deep"), deep, "{}", stderr(&got));
        if deep {
            let rest = fs::symlink_metadata(pair.ours.join("a")).unwrap();
            assert!(rest.is_dir());
        }
    }
}

/// `--dry-run` lists exactly what a run then does, and does nothing.
#[test]
fn a_dry_run_lists_what_a_run_does() {
    let pair = Pair::new();
    file(&pair.ours, "mine", b"mine");
    pair.second_version();
    let share = pair.share();
    let before = tree_sum(&pair.ours);
    let with = [&*share.ticket, "-o", text(&pair.into), "--overwrite", "--delete"];
    let dry = [&with[..], &["--dry-run"]].concat();
    let (code, told) = events(&pair.away, &dry);
    assert_eq!(code, Some(0), "{told:?}");
    assert_eq!(tree_sum(&pair.ours), before);
    assert!(!pair.into.join(".tree.xylem-part").exists());
    let named = |event: &str| -> Vec<(String, bool)> {
        let of = told.iter().filter(|told| told["event"] == event);
        of.map(|told| (told["path"].as_str().unwrap().to_owned(), told["replaces"] == true))
            .collect()
    };
    let planned = ["later/big-too", "link", "sub/changes", "sub/new"];
    let planned = planned.map(|path| (path.to_owned(), path == "link" || path == "sub/changes"));
    assert_eq!(named("planned"), planned);
    let gone = |told: &[Value]| -> Vec<String> {
        let of = told.iter().filter(|told| told["event"] == "removing");
        let paths = of.flat_map(|told| told["paths"].as_array().unwrap().clone());
        paths.map(|path| path.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(gone(&told), ["mine", "sub/goes"]);
    let end = told.iter().find(|told| told["event"] == "dry_run").unwrap();
    assert_eq!((&end["files"], &end["bytes"]), (&4.into(), &120_000.into()), "{end}");
    assert_eq!((&end["replaced"], &end["removed"]), (&2.into(), &2.into()), "{end}");
    // In words, with each file, and in agreement with the run that follows.
    for arguments in [&dry[..], &with[..]] {
        let got = get(&pair.away, arguments);
        assert_exit(&got, 0);
        for path in ["mine", "sub/goes"] {
            assert!(stderr(&got).contains(&format!("removes {path}")), "{}", stderr(&got));
        }
    }
    assert_ne!(tree_sum(&pair.ours), before);
    let (_, told) = events(&pair.away, &dry);
    let end = told.iter().find(|told| told["event"] == "dry_run").unwrap();
    assert_eq!((&end["files"], &end["removed"]), (&0.into(), &0.into()), "{end}");
    // A single file.
    let alone = Share::start(&pair.source.join("big"), &pair.store);
    for (out, files, replaced) in [("new", 1, 0), ("small", 1, 1), ("big", 0, 0)] {
        let at = pair.ours.join(out);
        let dry = [&*alone.ticket, "-o", text(&at), "--overwrite", "--dry-run"];
        let (code, told) = events(&pair.away, &dry);
        let end = told.iter().find(|told| told["event"] == "dry_run").unwrap();
        assert_eq!((code, &end["files"]), (Some(0), &files.into()), "{out}: {end}");
        assert_eq!(&end["replaced"], &serde_json::Value::from(replaced), "{out}: {end}");
    }
    assert!(!pair.ours.join("new").exists());
    for more in [&["-o", "-"][..], &["--range", "1..2"], &["--seed"], &["--follow"]] {
        let arguments = [&[&*alone.ticket, "--dry-run"][..], more].concat();
        assert_exit(&get(&pair.away, &arguments), 2);
    }
}
