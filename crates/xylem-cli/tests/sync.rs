//! `xylem sync` as its users run it: folders of several processes that become equal.
#![cfg(target_os = "linux")]

use crate::common;
use crate::common::syncing::Member;
use crate::common::{Share, assert_exit, finish, get, stderr, text, until, xylem};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Waits until all members have the same state, report it, and have these paths.
fn converge(members: &[&Member], paths: &[&str]) {
    let (first, others) = members.split_first().unwrap();
    until("all have the same", || {
        let all = first.all();
        all.keys().map(String::as_str).eq(paths.iter().copied())
            && others.iter().all(|other| other.all() == all)
            && first.state().is_some()
            && others.iter().all(|other| other.state() == first.state())
    });
}

fn two(base: &Path) -> (Member, Member) {
    let (mut alice, mut bob) = (Member::new(base, "alice"), Member::new(base, "bob"));
    alice.start(None);
    bob.start(Some(&alice.ticket));
    (alice, bob)
}

#[test]
fn two_members_become_equal() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, mut bob) = (Member::new(dir.path(), "alice"), Member::new(dir.path(), "bob"));
    alice.write("a", "alice's");
    alice.write("deep/er/b", "alice's too");
    std::os::unix::fs::symlink("../a", alice.at("deep/link")).unwrap();
    fs::hard_link(alice.at("a"), alice.at("same")).unwrap();
    bob.write("c", "bob's");
    bob.write("a", "alice's");
    alice.start(None);
    bob.start(Some(&alice.ticket));
    let all = ["a", "c", "deep/", "deep/er/", "deep/er/b", "deep/link", "same"];
    converge(&[&alice, &bob], &all);
    assert_eq!(alice.all()["deep/link"], "-> ../a");
    // Changes, new folders and removals travel while both run, in both directions.
    alice.write("a", "alice's, changed");
    bob.has("a", "alice's, changed");
    bob.write("new/folder/d", "bob's");
    alice.has("new/folder/d", "bob's");
    bob.remove("c");
    fs::remove_dir_all(alice.at("deep")).unwrap();
    converge(&[&alice, &bob], &["a", "new/", "new/folder/", "new/folder/d", "same"]);
    assert_eq!(bob.all()["same"], "alice's, changed", "another name of the same file");
    // Modes are synchronized, and times are those of the file.
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(alice.at("a"), fs::Permissions::from_mode(0o700)).unwrap();
    until("the mode travels", || {
        bob.at("a").metadata().unwrap().permissions().mode() & 0o777 == 0o700
    });
    let time = |member: &Member| member.at("a").metadata().unwrap().modified().unwrap();
    assert_eq!(time(&alice), time(&bob));
}

#[test]
fn three_members_and_one_that_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, bob) = two(dir.path());
    let mut carol = Member::new(dir.path(), "carol");
    carol.start(Some(&bob.ticket));
    alice.write("a", "1");
    bob.write("b", "2");
    carol.write("c", "3");
    converge(&[&alice, &bob, &carol], &["a", "b", "c"]);
    // The founder need not run: the others know each other by now.
    alice.stop();
    carol.write("a", "carol's");
    bob.has("a", "carol's");
    bob.stop_and(|| carol.write("d", "while only carol runs"));
    alice.start(None);
    alice.has("d", "while only carol runs");
}

impl Member {
    /// Stops it, and runs `happens`.
    fn stop_and(mut self, happens: impl FnOnce()) {
        self.stop();
        happens();
    }
}

#[test]
fn a_partition_ends_with_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, mut bob) = (Member::new(dir.path(), "alice"), Member::new(dir.path(), "bob"));
    // All of it is one version: once bob reports that version, it is durable, so that he can be killed.
    for (path, content) in
        [("both.txt", "old"), ("removed", "old"), ("changed", "old"), ("moved", "as it was")]
    {
        alice.write(path, content);
    }
    alice.start(None);
    bob.start(Some(&alice.ticket));
    converge(&[&alice, &bob], &["both.txt", "changed", "moved", "removed"]);
    bob.stop();
    alice.write("both.txt", "alice's");
    bob.write("both.txt", "bob's, who was later");
    bob.remove("removed");
    alice.write("removed", "alice has changed it");
    alice.remove("changed");
    bob.write("changed", "bob has changed it");
    fs::create_dir(bob.at("elsewhere")).unwrap();
    fs::rename(bob.at("moved"), bob.at("elsewhere/moved")).unwrap();
    until("alice has seen all of hers", || {
        alice.told("in_step").len() > 1 || !alice.at("changed").exists()
    });
    bob.start(None);
    let conflict =
        |member: &Member| member.all().into_keys().find(|path| path.starts_with("both.conflict-"));
    until("the conflict is there", || conflict(&alice).is_some() && conflict(&bob).is_some());
    let conflict = conflict(&alice).unwrap();
    converge(
        &[&alice, &bob],
        &[&conflict, "both.txt", "changed", "elsewhere/", "elsewhere/moved", "removed"],
    );
    let all = alice.all();
    let (kept, beside) = (&all["both.txt"], &all[&conflict]);
    let whose = if conflict.contains("alice") { "alice's" } else { "bob's, who was later" };
    assert_eq!(beside, whose, "the name says whose it is");
    assert_ne!(kept, beside);
    assert!(conflict.ends_with(".txt"));
    assert_eq!(all["removed"], "alice has changed it");
    assert_eq!(all["changed"], "bob has changed it");
    assert_eq!(all["elsewhere/moved"], "as it was");
    // The member that resolves the conflict names the file. Both members report the copy, however it came.
    let named = |member: &Member, what: &str| -> Vec<String> {
        let took = member.told("sync_took");
        let all = took.iter().flat_map(|took| took[what].as_array().unwrap().clone());
        all.map(|path| path.as_str().unwrap().to_owned()).collect()
    };
    let met: Vec<String> = [&alice, &bob].iter().flat_map(|m| named(m, "conflicts")).collect();
    assert!(!met.is_empty() && met.iter().all(|path| path == "both.txt"), "{met:?}");
    for member in [&alice, &bob] {
        assert!(named(member, "copies").iter().all(|path| *path == conflict));
        // Each has replaced the file itself.
        assert!(member.told("skipped").is_empty(), "{:?}", member.told("skipped"));
    }
}

/// Contents of all files below a folder.
fn below(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
                continue;
            }
            // Without the folder of the day.
            let path = entry.path().strip_prefix(dir).unwrap().components().skip(1).collect();
            let path: std::path::PathBuf = path;
            let content = fs::read_to_string(entry.path());
            // For a link, its target.
            let content = content.or_else(|_| Ok(text(&fs::read_link(entry.path())?).to_owned()));
            let content: std::io::Result<String> = content;
            found.push((path.to_string_lossy().into_owned(), content.unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn files_removed_or_replaced_by_others_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut alice = Member::new(dir.path(), "alice");
    let (mut bob, mut carol) = (Member::new(dir.path(), "bob"), Member::new(dir.path(), "carol"));
    alice.start(None);
    bob.start(Some(&alice.ticket));
    carol.start_with(Some(&alice.ticket), &["--trash", "0"]);
    for (path, content) in [("sub/removed", "the only copy"), ("replaced", "one"), ("own", "bob's")]
    {
        alice.write(path, content);
    }
    let all = [&alice, &bob, &carol];
    converge(&all, &["own", "replaced", "sub/", "sub/removed"]);
    alice.remove("sub/removed");
    fs::remove_dir(alice.at("sub")).unwrap();
    alice.write("replaced", "another");
    converge(&all, &["own", "replaced"]);
    bob.remove("own");
    converge(&all, &["replaced"]);
    let trash = |member: &Member| below(&member.at(".xylem-sync/trash"));
    let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect()
    };
    // A user's own removals are not kept in the trash.
    assert_eq!(trash(&bob), pairs(&[("replaced", "one"), ("sub/removed", "the only copy")]));
    assert_eq!(trash(&alice), pairs(&[("own", "bob's")]));
    assert_eq!(trash(&carol), []);
    let kept = |member: &Member| -> u64 {
        member.told("sync_took").iter().map(|took| took["kept"].as_u64().unwrap()).sum()
    };
    // The trash is reported a moment after a file went there.
    until("what was kept is told", || [kept(&alice), kept(&bob), kept(&carol)] == [1, 2, 0]);
}

/// A file moved by another member is not lost, and takes no room in the trash. A file that it was moved over does.
#[test]
fn files_moved_by_others_are_not_kept_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    for (path, content) in [("a/sub/x", "one"), ("a/sub/y", "two"), ("own", "three"), ("z", "four")]
    {
        alice.write(path, content);
    }
    std::os::unix::fs::symlink("../z", alice.at("a/sub/link")).unwrap();
    let before = ["a/", "a/sub/", "a/sub/link", "a/sub/x", "a/sub/y", "own", "z"];
    converge(&[&alice, &bob], &before);
    fs::rename(alice.at("a/sub"), alice.at("a/sub2")).unwrap();
    let after = ["a/", "a/sub2/", "a/sub2/link", "a/sub2/x", "a/sub2/y", "own", "z"];
    converge(&[&alice, &bob], &after);
    let trash = || below(&bob.at(".xylem-sync/trash"));
    let kept =
        || -> u64 { bob.told("sync_took").iter().map(|took| took["kept"].as_u64().unwrap()).sum() };
    // A moved file leaves the trash once all of it is in its place; the trash's own folders are removed after that.
    until("nothing is kept, and no empty folders", || !bob.at(".xylem-sync/trash").exists());
    assert_eq!(kept(), 0);
    fs::rename(alice.at("z"), alice.at("own")).unwrap();
    converge(&[&alice, &bob], &["a/", "a/sub2/", "a/sub2/link", "a/sub2/x", "a/sub2/y", "own"]);
    until("what it was moved over is told", || kept() == 1);
    assert_eq!(trash(), [("own".to_owned(), "three".to_owned())]);
}

/// Files that a folder keeps for its members alone are never part of what its owner publishes, by whichever command and
/// from whichever parent folder.
#[test]
fn internal_files_of_a_folder_are_never_shared() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(&dir.path().join("all"));
    alice.write("private", "the only copy");
    alice.write("sub/a", "alice's");
    converge(&[&alice, &bob], &["private", "sub/", "sub/a"]);
    alice.remove("private");
    converge(&[&alice, &bob], &["sub/", "sub/a"]);
    let own = bob.at(".xylem-sync");
    until("it is in the trash", || below(&own.join("trash")).len() == 1);

    let (store, away) = (dir.path().join("store"), dir.path().join("away"));
    let mut card = xylem(&away);
    card.args(["inbox", "card"]);
    let card = common::file(dir.path(), "card", &finish(card).stdout);
    // By itself, for one recipient, and as a part of the parent folder, beside another folder in step.
    let (folder, above) = (bob.at(""), dir.path().join("all"));
    let own_store = dir.path().join("all/bob-store");
    let shares: [(_, _, &[&str], _, _); 5] = [
        (&own_store, &folder, &[], "sub/a", 1),
        (&store, &folder, &[], "sub/a", 1),
        (&store, &folder, &[], "sub/a", 1),
        (&store, &folder, &["--for", text(&card)], "sub/a", 1),
        (&store, &above, &[], "bob/sub/a", 2),
    ];
    for (number, (store, what, more, file, left_out)) in shares.into_iter().enumerate() {
        let share = Share::with(what, store, more);
        let told = share.told_before("skipped");
        let told: Vec<_> = told.iter().filter(|line| line.contains(".xylem-sync")).collect();
        assert_eq!(told.len(), left_out, "{told:?}");
        assert!(told.iter().all(|line| line.contains("never published")), "{told:?}");
        let out = dir.path().join(format!("out-{number}"));
        assert_exit(&get(&away, &[&share.ticket, "-o", text(&out)]), 0);
        assert_eq!(fs::read_to_string(out.join(file)).unwrap(), "alice's");
        assert!(!out.join(".xylem-sync").exists() && !out.join("bob/.xylem-sync").exists());
        if more.is_empty() {
            // `verify` of the folder finds what was shared.
            let mut verify = xylem(&away);
            verify.arg("verify").arg(what).arg(&share.ticket);
            assert_exit(&finish(verify), 0);
        }
    }

    // The internal folder itself is refused, like a store.
    for what in [&own, &own.join("trash"), &own.join("index-0")] {
        let mut share = xylem(&store);
        share.args(["share", "--listen", "127.0.0.1:0"]).arg(what);
        let output = finish(share);
        assert_exit(&output, 2);
        assert_eq!(output.stdout, b"", "no ticket");
        assert!(stderr(&output).contains("private data of `xylem sync`"), "{}", stderr(&output));
    }
    // The members still synchronize.
    alice.write("later", "alice's");
    bob.has("later", "alice's");
}

/// The lines for people on the terminal.
#[test]
fn lines_report_each_change() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, mut bob) = two(dir.path());
    alice.write("notes.txt", "old");
    converge(&[&alice, &bob], &["notes.txt"]);
    bob.stop();
    bob.write("notes.txt", "bob's");
    alice.write("notes.txt", "alice's");
    // Without --json, and under the name of the last run.
    let said = dir.path().join("said");
    let mut command = xylem(&dir.path().join("bob-store"));
    command.arg("sync").arg(bob.at("")).args(["--listen", "127.0.0.1:0"]);
    command.env_remove("USERNAME").env("USER", "somebody");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
    bob.running = Some(command.spawn().unwrap());
    let lines = || fs::read_to_string(&said).unwrap();
    let copies = || alice.all().into_keys().filter(|path| path.contains(".conflict-"));
    until("all is there", || copies().count() > 0 && alice.all() == bob.all());
    let named = |copy: String| {
        let whose = if copy.contains("-alice-") { "alice" } else { "bob" };
        lines().contains(&format!("{copy}: {whose}"))
    };
    until("a copy is named", || copies().any(named));
    // One of the two resolved the conflict; the other may have received only the result.
    let settled = lines().contains("notes.txt: changed by two members; both versions are kept");
    let took = alice.told("sync_took");
    let by_alice = took.iter().any(|took| took["conflicts"][0] == "notes.txt");
    assert!(settled || by_alice, "{}", lines());
    let misled =
        |line: &str| line.contains(".conflict-") && line.contains("changed by two members");
    assert!(!lines().lines().any(misled), "{}", lines());
    assert!(!lines().contains("no longer served"), "{}", lines());
    assert!(lines().contains("Ready as bob until"), "{}", lines());
}

/// A renamed file is not fetched: its content is present.
#[test]
fn renames_move_no_content() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let content: String =
        common::noise(3_000_000, 7).iter().map(|b| char::from(b % 64 + 32)).collect();
    alice.write("large", &content);
    bob.has("large", &content);
    let served = |member: &Member| -> u64 {
        member.told("fetched").iter().filter_map(|event| event["fetched"].as_u64()).sum()
    };
    // A completed fetch is reported a moment after the content is there.
    until("the first fetch is told", || served(&alice) >= 3_000_000);
    let before = served(&alice);
    fs::create_dir(alice.at("folder")).unwrap();
    fs::rename(alice.at("large"), alice.at("folder/renamed")).unwrap();
    bob.has("folder/renamed", &content);
    converge(&[&alice, &bob], &["folder/", "folder/renamed"]);
    let fetched = served(&alice) - before;
    assert!(fetched < 1_000_000, "{fetched} bytes were fetched");
}

#[test]
fn rules_exclude_files() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, mut bob) = (Member::new(dir.path(), "alice"), Member::new(dir.path(), "bob"));
    alice.write(".xylemignore", "*.tmp\n/build/\n");
    alice.write("build/out", "x");
    alice.write("a.tmp", "x");
    alice.write("a", "x");
    alice.start(None);
    bob.start(Some(&alice.ticket));
    bob.has("a", "x");
    assert_eq!(bob.all().into_keys().collect::<Vec<_>>(), ["a"]);
    // A rule added later removes nothing anywhere.
    bob.write("b", "y");
    alice.has("b", "y");
    bob.write(".xylemignore", "b\n");
    alice.write("c", "z");
    bob.has("c", "z");
    assert!(alice.at("b").exists() && bob.at("b").exists() && alice.at("a.tmp").exists());
}

#[test]
fn a_readers_directory_goes_with_the_last_thing_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    alice.write("d/x", "alice's");
    bob.has("d/x", "alice's");
    let mut command = alice.command();
    command.args(["--read-only", "bob"]);
    assert_exit(&finish(command), 0);
    until("bob is told", || !bob.told("sync_read_only").is_empty());
    bob.write("d/own", "bob's");
    fs::remove_dir_all(alice.at("d")).unwrap();
    until("bob removes what alice removed", || !bob.at("d/x").exists());
    // He has applied her next change, too.
    alice.write("a", "alice's");
    bob.has("a", "alice's");
    assert!(bob.at("d/own").exists() && !alice.at("d").exists());
    fs::remove_file(bob.at("d/own")).unwrap();
    until("the directory goes", || !bob.at("d").exists());
}

#[test]
fn a_read_only_member_changes_nothing_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, bob) = two(dir.path());
    alice.write("a", "alice's");
    bob.has("a", "alice's");
    until("alice knows bob", || !alice.told("sync_member").is_empty());
    let mut command = alice.command();
    command.args(["--read-only", "bob"]);
    assert_exit(&finish(command), 0);
    until("bob is told", || !bob.told("sync_read_only").is_empty());
    bob.write("b", "bob's");
    alice.write("c", "alice's");
    bob.has("c", "alice's");
    // Alice then has a later statement of bob: bob has applied her change and has reported that.
    alice.write("d", "alice's");
    bob.has("d", "alice's");
    assert!(!alice.at("b").exists());
    assert!(bob.at("b").exists(), "it stays with bob");
    // Taken back, the change counts as if it had been made now.
    let mut command = alice.command();
    command.args(["--allow", "bob"]);
    assert_exit(&finish(command), 0);
    alice.has("b", "bob's");
    // A removed member receives nothing more.
    let mut command = alice.command();
    command.args(["--remove", "bob"]);
    assert_exit(&finish(command), 0);
    until("bob is away", || {
        alice.told("sync_member").last().is_some_and(|told| told["up"] == false)
    });
    alice.write("e", "alice's");
    bob.write("f", "bob's");
    // Bob's ticket admits no new member from now on, unless alice permits it.
    let mut carol = Member::new(dir.path(), "carol");
    carol.start(Some(&alice.ticket));
    let mut key = String::new();
    until("alice hears that carol wants to be one", || {
        let told = alice.told("sync_applies").into_iter().find(|told| told["name"] == "carol");
        key = told.map_or(String::new(), |told| told["key"].as_str().unwrap().to_owned());
        !key.is_empty()
    });
    assert!(!carol.at("e").exists());
    let mut command = alice.command();
    command.args(["--allow", &key]);
    assert_exit(&finish(command), 0);
    carol.has("e", "alice's");
    assert!(!bob.at("e").exists());
    assert!(!alice.at("f").exists() && !carol.at("f").exists());
    // Nor after a restart.
    alice.stop();
    alice.start(None);
    carol.write("g", "carol's");
    alice.has("g", "carol's");
    assert!(!bob.at("g").exists());
    let mut command = carol.command();
    command.args(["--allow", "bob"]);
    assert_exit(&finish(command), 2);
}

#[test]
fn a_folder_that_is_not_in_step_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let alice = Member::new(dir.path(), "alice");
    let with = |args: &[&str], says: &str| {
        let mut command = xylem(&dir.path().join("store"));
        command.arg("sync").args(args);
        let output = finish(command);
        assert_exit(&output, 2);
        assert!(common::stderr(&output).contains(says), "{}", common::stderr(&output));
    };
    let folder = common::text(&alice.base).to_owned() + "/alice";
    with(&[&folder, "xylem:abc"], "for `xylem get`, not of a folder in step");
    with(&[&folder, "xylem-sync:abc"], "damaged");
    with(&[&folder, "--remove", "bob"], "not in step");
    with(&[&(folder.clone() + "/none")], "no such folder");
    with(&[common::text(dir.path())], "lies in the folder");
    with(&[&folder, "--as", "../bob"], "a name is");
}

/// A folder of many files, and kills at any moment, end in the same state.
#[test]
fn a_member_that_is_killed_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, mut bob) = (Member::new(dir.path(), "alice"), Member::new(dir.path(), "bob"));
    for n in 0..300 {
        alice.write(&format!("d{}/{n}", n % 7), &format!("file {n}"));
    }
    alice.start(None);
    bob.start(Some(&alice.ticket));
    until("some are there", || bob.all().len() > 10);
    bob.stop();
    alice.write("d0/0", "changed meanwhile");
    bob.start(None);
    bob.has("d0/0", "changed meanwhile");
    until("all have the same", || bob.all() == alice.all());
    assert!(!bob.all().keys().any(|path| path.contains("conflict")), "{:?}", bob.all().keys());
}

/// A member that does not answer, while others have content to offer, is asked again in its next turn. Its partial data
/// are kept meanwhile.
#[test]
fn partial_data_of_a_member_stay_while_others_are_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, mut bob) = two(dir.path());
    let mut carol = Member::new(dir.path(), "carol");
    carol.start(Some(&alice.ticket));
    alice.write("a", "1");
    converge(&[&alice, &bob, &carol], &["a"]);
    // Leftovers of a former member, and of a run that ended before it put files in place.
    for left in [".incoming-0011223344556677.xylem-part", "incoming-0011223344556677", "staged"] {
        fs::create_dir_all(carol.at(".xylem-sync").join(left)).unwrap();
    }
    bob.stop();
    bob.write("b", "2");
    let large = dir.path().join("large");
    let mut noise = 1_u64;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (noise >> 56) as u8
    })
    .take(128 << 20)
    .collect();
    fs::write(&large, &content).unwrap();
    fs::rename(&large, alice.at("large")).unwrap();
    let signal = |name: &str| {
        let pid = alice.running.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    // The staged file, whatever the folder of staged files is called.
    let staged = || {
        let all = fs::read_dir(carol.at(".xylem-sync")).unwrap().flatten();
        all.map(|entry| entry.path().join("large")).find_map(|path| path.metadata().ok())
    };
    until("some of it is there", || staged().is_some_and(|large| large.blocks() > 2048));
    signal("-STOP");
    bob.start(None);
    carol.has("b", "2");
    let parts = || fs::read_dir(carol.at(".xylem-sync/staged")).into_iter().flatten().flatten();
    let came = parts().map(|entry| entry.metadata().unwrap().blocks()).max();
    assert!(came.is_some_and(|blocks| blocks > 2048), "what has come is there still");
    assert!(carol.at("large").metadata().is_err(), "it was whole before its member stood still");
    signal("-CONT");
    until("all of it is there", || carol.at("large").is_file());
    assert!(fs::read(carol.at("large")).unwrap() == content);
    until("nothing is left where it was", || {
        let all = fs::read_dir(carol.at(".xylem-sync")).unwrap().flatten();
        let mut names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        !names.any(|name| name.contains("incoming") || name == "staged")
    });
}
