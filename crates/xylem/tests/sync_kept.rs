//! What `xylem sync` keeps beside a folder: whatever becomes of it, nobody is let in, and nothing is begun anew in silence.
#![cfg(target_os = "linux")]

mod common;

use common::syncing::Member;
use common::{assert_exit, finish, stderr, until, xylem};
use std::fs;
use std::path::{Path, PathBuf};

/// What a member's store keeps of its folder.
fn home(member: &Member) -> PathBuf {
    let homes = member.base.join(format!("{}-store/sync", member.name));
    fs::read_dir(homes).unwrap().next().unwrap().unwrap().path()
}

fn two(base: &Path) -> (Member, Member) {
    let (mut alice, mut bob) = (Member::new(base, "alice"), Member::new(base, "bob"));
    alice.start(None);
    bob.start(Some(&alice.ticket));
    alice.write("a", "alice's");
    bob.has("a", "alice's");
    until("alice knows bob", || !alice.told("sync_member").is_empty());
    (alice, bob)
}

fn role(member: &Member, how: &str, who: &str, exit: i32) -> String {
    let mut command = member.command();
    command.args([how, who]);
    let output = finish(command);
    assert_exit(&output, exit);
    stderr(&output)
}

/// A member that begins, and is refused with this exit and a line that says this.
fn is_refused(member: &Member, exit: i32, says: &str) {
    let mut command = member.command();
    command.args(["--listen", "127.0.0.1:0"]);
    let output = finish(command);
    assert_exit(&output, exit);
    assert!(stderr(&output).contains(says), "{}", stderr(&output));
}

#[test]
fn a_damaged_list_of_members_lets_nobody_in_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, bob) = two(dir.path());
    let mut carol = Member::new(dir.path(), "carol");
    carol.start(Some(&alice.ticket));
    carol.has("a", "alice's");
    until("alice has met both", || alice.told("sync_member").len() > 1);
    role(&alice, "--remove", "bob", 0);
    until("bob is told", || !bob.told("sync_refused").is_empty());
    alice.stop();
    let [list, copy] = ["list", "list.1"].map(|name| home(&alice).join("roles").join(name));
    let good = fs::read(&list).unwrap();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for (n, bad) in [&flipped[..], b""].into_iter().enumerate() {
        // Its copy is taken, and the list mended; that is said.
        fs::write(&list, bad).unwrap();
        alice.start(None);
        until("it is said", || {
            let told = alice.told("trouble");
            told.iter().any(|told| told["what"].as_str().is_some_and(|m| m.contains("mended")))
        });
        assert_eq!(fs::read(&list).unwrap(), good);
        alice.write("b", &format!("after damage {n}"));
        carol.has("b", &format!("after damage {n}"));
        alice.stop();
        assert!(!bob.at("b").exists());
        // Without it nothing is taken for an open group, and nothing is written over.
        fs::write(&list, bad).unwrap();
        fs::write(&copy, bad).unwrap();
        is_refused(&alice, 4, "whoever was removed would be let in again");
        for how in ["--remove", "--allow", "--read-only"] {
            let said = role(&alice, how, "carol", 4);
            assert!(said.contains("Bring one of the two back"), "{said}");
        }
        assert!(fs::read(&list).unwrap() == bad && fs::read(&copy).unwrap() == bad);
        fs::write(&list, &good).unwrap();
        fs::write(&copy, &good).unwrap();
    }
    // What a member that did not begin the group has of the list stands in what the founder has signed, too.
    carol.stop();
    for name in ["list", "list.1"] {
        fs::write(home(&carol).join("roles").join(name), "").unwrap();
    }
    alice.start(None);
    carol.start(None);
    carol.write("c", "carol's");
    alice.has("c", "carol's");
    assert!(!bob.at("c").exists());
}

#[test]
fn a_member_that_was_removed_is_told_so_once() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, mut bob) = two(dir.path());
    role(&alice, "--remove", "bob", 0);
    let refused = |bob: &Member| {
        until("bob is told", || !bob.told("sync_refused").is_empty());
        let told = bob.told("sync_refused");
        assert_eq!((told.len(), &told[0]["removed"]), (1, &serde_json::Value::Bool(true)));
    };
    refused(&bob);
    alice.write("b", "not for bob");
    // So after another start; and nobody is here or away for it.
    bob.stop();
    bob.start(None);
    refused(&bob);
    assert!(bob.told("sync_member").is_empty(), "{:?}", bob.told("sync_member"));
    assert!(bob.at("a").exists() && !bob.at("b").exists(), "what is there stays");
    until("its status says so", || {
        let mut command = bob.command();
        command.arg("--status");
        let output = finish(command);
        String::from_utf8_lossy(&output.stdout).contains("removed from the group by its founder")
    });
    // What it was called is forgotten with it.
    let told = alice.told("sync_member");
    role(&alice, "--allow", told[0]["key"].as_str().unwrap(), 0);
    bob.has("b", "not for bob");
    assert_eq!(bob.told("sync_refused").len(), 1);
}

/// Without it whose history it shows to be rewritten would be believed again.
#[test]
fn damaged_evidence_ends_with_4() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, bob) = two(dir.path());
    alice.stop();
    let evidence = home(&alice).join("evidence");
    fs::create_dir_all(&evidence).unwrap();
    let key = "ab".repeat(32);
    for bad in [&b""[..], b"not what was kept"] {
        fs::write(evidence.join(&key), bad).unwrap();
        is_refused(&alice, 4, &key);
        let mut command = alice.command();
        command.arg("--history");
        assert_exit(&finish(command), 4);
    }
    fs::remove_file(evidence.join(&key)).unwrap();
    alice.start(None);
    alice.write("b", "goes on");
    bob.has("b", "goes on");
}

/// A full disk of the store; here what is to be written has a directory in its place.
#[test]
fn what_can_not_be_kept_now_is_kept_later_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = two(dir.path());
    let members = home(&alice).join("members");
    until("alice has kept bob", || members.is_file());
    until("there is no room for it", || {
        let _ = fs::remove_file(&members);
        fs::create_dir(&members).is_ok()
    });
    let mut carol = Member::new(dir.path(), "carol");
    carol.start(Some(&alice.ticket));
    let warned = || {
        let told = alice.told("trouble");
        let is_it = |m: &str| m.contains("is not written down, and tried again");
        told.iter().filter(|told| told["what"].as_str().is_some_and(is_it)).count()
    };
    until("alice says so", || warned() == 1);
    carol.write("c", "carol's");
    alice.has("c", "carol's");
    bob.has("c", "carol's");
    fs::remove_dir(&members).unwrap();
    until("alice has kept them", || members.is_file());
    assert_eq!(warned(), 1, "once");
}

/// The folder says whose it is: where it is, and where the store is, does not matter.
#[test]
fn a_folder_that_was_renamed_goes_on_and_one_of_another_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut alice, bob) = two(dir.path());
    let key = alice.told("sync_ready")[0]["key"].clone();
    alice.stop();
    for what in ["", "-store"] {
        let at = |name: &str| dir.path().join(format!("{name}{what}"));
        fs::rename(at("alice"), at("moved")).unwrap();
    }
    let mut moved = Member::new(dir.path(), "moved");
    moved.start(None);
    assert_eq!(moved.told("sync_ready")[0]["key"], key, "it is the same member");
    moved.write("b", "from another place");
    bob.has("b", "from another place");
    moved.stop();
    // A store that does not know it begins no group with it.
    let mut command = xylem(&dir.path().join("other-store"));
    command.arg("sync").arg(dir.path().join("moved"));
    let output = finish(command);
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert!(said.contains("another store") && said.contains(".xylem-sync/home"), "{said}");
    // Nor does this one with a copy.
    fs::create_dir_all(dir.path().join("copy/.xylem-sync")).unwrap();
    let mark = |name: &str| dir.path().join(name).join(".xylem-sync/home");
    fs::copy(mark("moved"), mark("copy")).unwrap();
    let mut command = xylem(&dir.path().join("moved-store"));
    command.arg("sync").arg(dir.path().join("copy"));
    let output = finish(command);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("a copy of"), "{}", stderr(&output));
}

#[test]
fn two_programs_with_a_store_each_do_not_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (alice, _bob) = two(dir.path());
    let mut command = xylem(&dir.path().join("other-store"));
    command.arg("sync").arg(dir.path().join("alice")).arg(&alice.ticket);
    command.args(["--listen", "127.0.0.1:0"]);
    let output = finish(command);
    assert_exit(&output, 4);
    assert!(stderr(&output).contains("another `xylem sync`"), "{}", stderr(&output));
}
