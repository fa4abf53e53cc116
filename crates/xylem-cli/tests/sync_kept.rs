//! State that `xylem sync` keeps beside a folder. Whatever happens to it, no stranger is admitted, and nothing is begun
//! anew silently.
#![cfg(target_os = "linux")]

use crate::common::syncing::Member;
use crate::common::{assert_exit, finish, stderr, until, xylem};
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of a member's store with the state of its folder.
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

/// Asserts that a member fails to start, with this exit code and a line that contains `says`.
fn is_refused(member: &Member, exit: i32, says: &str) {
    let mut command = member.command();
    command.args(["--listen", "127.0.0.1:0"]);
    let output = finish(command);
    assert_exit(&output, exit);
    assert!(stderr(&output).contains(says), "{}", stderr(&output));
}

#[test]
fn a_damaged_list_of_members_admits_no_removed_member() {
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
        // The copy is used and the list mended, which is reported.
        fs::write(&list, bad).unwrap();
        alice.start(None);
        until("it is said", || {
            let told = alice.told("trouble");
            told.iter()
                .any(|told| told["what"].as_str().is_some_and(|m| m.contains("was repaired")))
        });
        assert_eq!(fs::read(&list).unwrap(), good);
        alice.write("b", &format!("after damage {n}"));
        carol.has("b", &format!("after damage {n}"));
        alice.stop();
        assert!(!bob.at("b").exists());
        // Without the copy the group is not taken for an open one, and nothing is overwritten.
        fs::write(&list, bad).unwrap();
        fs::write(&copy, bad).unwrap();
        is_refused(&alice, 4, "removed members would be admitted again");
        for how in ["--remove", "--allow", "--read-only"] {
            let said = role(&alice, how, "carol", 4);
            assert!(said.contains("Restore one of the two"), "{said}");
        }
        assert!(fs::read(&list).unwrap() == bad && fs::read(&copy).unwrap() == bad);
        fs::write(&list, &good).unwrap();
        fs::write(&copy, &good).unwrap();
    }
    // A member that is not the founder has its part of the list in the founder's signed statement, too.
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
fn a_removed_member_reports_its_removal_once() {
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
    // The same after a restart, and no member is reported as present or away.
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
    // The name given to a removed member is dropped with it, so it is allowed by its key.
    let told = alice.told("sync_member");
    role(&alice, "--allow", told[0]["key"].as_str().unwrap(), 0);
    bob.has("b", "not for bob");
    assert_eq!(bob.told("sync_refused").len(), 1);
}

/// Without the evidence, a member with a proven rewritten history would be trusted again.
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

/// As with a full disk of the store; here a directory stands in the place of the file.
#[test]
fn state_that_cannot_be_written_is_written_later() {
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
        let is_it = |m: &str| m.contains("cannot save the state of the members");
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

/// The folder itself names its owner: the paths of the folder and of the store do not matter.
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
    // A store that does not know the folder begins no group with it.
    let mut command = xylem(&dir.path().join("other-store"));
    command.arg("sync").arg(dir.path().join("moved"));
    let output = finish(command);
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert!(
        said.contains("does not know its group") && said.contains(".xylem-sync/home"),
        "{said}"
    );
    // Nor does the owner's store with a copy of the folder.
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
