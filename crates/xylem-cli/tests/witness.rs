//! Witnesses in real processes: honest and dishonest publishers, witnesses that co-sign, and getters that demand
//! co-signatures.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::common::fetching::Get;
use crate::common::{
    Share, assert_exit, evidence, file, finish, noise, stderr, text, until, xylem,
};
use serde_json::Value;

/// Quick checkpoints, so that tests are quick.
const FOLLOW: [&str; 5] = ["--follow", "--every", "0.1", "--every-bytes", "300K"];

/// A folder for a test: a publisher's key, and the stores of all participants.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        file(world.0.path(), "publisher", &[7; 32]);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(world.path("publisher"), mode).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, store: &str, args: &[&str]) -> Output {
        let mut command = xylem(&self.path(store));
        command.args(args).stdin(Stdio::null());
        finish(command)
    }

    /// Makes a witness with a store of this name; returns the file of its certificate.
    fn witness(&self, name: &str) -> String {
        let key = format!("/{name}");
        assert_exit(&self.run(name, &["key", "new", &key]), 0);
        self.certificate(name, &key, &format!("{name}.cert"))
    }

    fn certificate(&self, store: &str, key: &str, named: &str) -> String {
        let output = self.run(store, &["key", "cert", key]);
        assert_exit(&output, 0);
        text(&file(self.0.path(), named, &output.stdout)).to_owned()
    }

    /// A file called `log`, in a folder of the store's name.
    fn log(&self, store: &str, content: &[u8]) -> PathBuf {
        let dir = self.path(&format!("{store}-files"));
        fs::create_dir_all(&dir).unwrap();
        file(&dir, "log", content)
    }

    /// Publishes with the one publisher's key, out of this store.
    fn share(&self, store: &str, path: &Path, follow: bool, witnesses: &[&str]) -> Share {
        let key = format!("ed25519:{}", text(&self.path("publisher")));
        let mut args = vec!["--sign", &key];
        args.extend(if follow { &FOLLOW[..] } else { &[] });
        args.extend(witnesses.iter().flat_map(|witness| ["--witness", witness]));
        Share::with(path, &self.path(store), &args)
    }

    /// Runs a witness once on a ticket.
    fn look(&self, name: &str, ticket: &str, more: &[&str]) -> Output {
        let key = format!("key:/{name}");
        let args = ["witness", ticket, "--sign", &key, "--once", "--timeout", "10"];
        self.run(name, &[&args[..], more].concat())
    }

    fn get(&self, ticket: &str, more: &[&str]) -> Output {
        let args = ["--json", "get", ticket, "--overwrite", "--no-serve", "-o"];
        let out = self.path("out");
        self.run("getter", &[&args[..], &[text(&out)], more].concat())
    }
}

/// A follower that demands a witness.
fn follower(world: &World, store: &str, ticket: &str, more: &[&str]) -> Get {
    let mut command = xylem(&world.path(store));
    let out = world.path(&format!("{store}-out"));
    command.args(["--json", "get", "--follow", ticket, "-o", text(&out)]).args(more);
    Get::of(command)
}

/// The number of bytes that a follower has.
fn followed(world: &World, store: &str) -> u64 {
    fs::metadata(world.path(&format!("{store}-out"))).map_or(0, |meta| meta.len())
}

/// A running `xylem witness`; killed when dropped.
struct Watcher(Child);

impl Watcher {
    fn start(world: &World, name: &str, ticket: &str) -> Self {
        let mut command: Command = xylem(&world.path(name));
        command.args(["witness", ticket, "--sign", &format!("key:/{name}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn events(output: &Output, event: &str) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|value| value["event"] == event).collect()
}

fn append(path: &Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// The version of the share's newest co-signature.
fn cosigned(share: &Share) -> Option<u64> {
    share.told("cosigned").last().and_then(|said| said["version"].as_u64())
}

/// The number of bytes that a witness has co-signed last.
fn cosigned_bytes(share: &Share, witness: &str) -> Option<u64> {
    let told = share.told("cosigned");
    told.iter().rfind(|said| said["witness"] == witness).and_then(|said| said["bytes"].as_u64())
}

fn checkpoint(share: &Share) -> Option<u64> {
    share.told("checkpoint").last().and_then(|made| made["version"].as_u64())
}

#[test]
fn a_growing_log_is_cosigned_and_getters_can_demand_it() {
    let world = World::new();
    let (w, x) = (world.witness("w"), world.witness("x"));
    let log = world.log("alice", &noise(100_000, 1));
    let share = world.share("alice", &log, true, &[&w]);
    let demand = ["--witness", &w, "--timeout", "2"];
    let refused = world.get(&share.ticket, &demand);
    assert_exit(&refused, 3);
    assert!(stderr(&refused).contains(", not by /w"), "{}", stderr(&refused));
    assert!(!world.path("out").exists(), "nothing is fetched before");

    let _watcher = Watcher::start(&world, "w", &share.ticket);
    until("the first is co-signed", || cosigned(&share).is_some());
    let got = world.get(&share.ticket, &demand);
    assert_exit(&got, 0);
    let said = &events(&got, "cosigned")[0];
    assert_eq!((&said["witness"], &said["proven"]), (&"/w".into(), &false.into()));
    assert_eq!(said["first"], said["version"], "nothing was seen before");

    for n in 0..4 {
        append(&log, &noise(70_000, n));
        let length = fs::metadata(&log).unwrap().len();
        until("it is co-signed", || {
            let told = share.told("cosigned");
            told.last().is_some_and(|said| said["bytes"] == length)
        });
    }
    let last = share.told("cosigned").last().unwrap().clone();
    assert_eq!(last["proven"], true);
    assert_eq!(last["first"], said["first"]);
    // The ticket's own checkpoint is accepted as a prefix of the co-signed one.
    let got = world.get(&share.ticket, &demand);
    assert_exit(&got, 0);
    assert_eq!(events(&got, "cosigned")[0]["version"], last["version"]);
    // A demand for another witness is not met by this one.
    assert_exit(&world.get(&share.ticket, &["--witness", &x, "--timeout", "1"]), 3);
    // Too old, where a maximum age is demanded.
    let fresh = ["--witnessed-within", "3600"];
    assert_exit(&world.get(&share.ticket, &[&demand[..], &fresh].concat()), 0);
    let stale = ["--witnessed-within", "0.000001"];
    assert_exit(&world.get(&share.ticket, &[&demand[..], &stale].concat()), 3);
}

#[test]
fn two_histories_are_found_out_by_a_witness_and_by_verify() {
    let world = World::new();
    let w = world.witness("w");
    let mut bytes = noise(100_000, 1);
    let honest = world.share("alice", &world.log("alice", &bytes), true, &[&w]);
    assert_exit(&world.look("w", &honest.ticket, &[]), 0);
    // The same key, another store, another history, shown to some getters only.
    bytes[30_000] ^= 1;
    bytes.extend(noise(50_000, 2));
    let forked = world.share("mallory", &world.log("mallory", &bytes), true, &[&w]);
    let found = world.look("w", &honest.ticket, &["--from", &forked.link]);
    assert_exit(&found, 1);
    assert!(stderr(&found).contains("TWO HISTORIES"), "{}", stderr(&found));
    assert!(forked.told("cosigned").is_empty());
    let kept = evidence(&world.path("w"));
    assert_eq!(kept.len(), 1);
    // Any program can check the evidence, without a peer.
    let shown = world.run("anybody", &["--json", "verify", "--evidence", text(&kept[0])]);
    assert_exit(&shown, 0);
    let row = &events(&shown, "evidence")[0];
    assert_eq!((&row["earlier_bytes"], &row["later_bytes"]), (&100_000.into(), &150_000.into()));
    let mut flipped = fs::read(&kept[0]).unwrap();
    let at = flipped.len() - 9;
    flipped[at] ^= 1;
    let bad = file(world.0.path(), "bad", &flipped);
    assert_exit(&world.run("anybody", &["verify", "--evidence", text(&bad)]), 1);
    assert_exit(&world.run("anybody", &["verify", "--evidence", &w]), 2);

    // Getters of the other history find no witness for it.
    assert_exit(&world.get(&forked.ticket, &["--witness", &w, "--timeout", "1"]), 3);
    // Two getters that compare their tickets find it out, too.
    let extends = |store: &str, old: &Share, new: &Share, more: &[&str]| {
        let args = ["--json", "verify", "--extends", &old.ticket, &new.ticket];
        world.run(store, &[&args[..], more].concat())
    };
    let compared = extends("bob", &honest, &forked, &[]);
    assert_exit(&compared, 1);
    let row = &events(&compared, "extends")[0];
    assert!(row["two_histories"].is_string(), "{row}");
    let kept = evidence(&world.path("bob"));
    assert_eq!(row["evidence"], text(&kept[0]));
    assert_exit(&world.run("anybody", &["verify", "--evidence", text(&kept[0])]), 0);
    // The honest history goes on.
    append(&world.path("alice-files").join("log"), &noise(10_000, 3));
    until("a checkpoint", || checkpoint(&honest).is_some());
    assert_exit(&world.look("w", &honest.ticket, &[]), 0);
    assert_eq!(cosigned(&honest), checkpoint(&honest));
}

#[test]
fn verify_lists_the_witnesses_of_an_extension() {
    let world = World::new();
    let (w, x) = (world.witness("w"), world.witness("x"));
    let log = world.log("alice", &noise(100_000, 1));
    let before = world.share("alice", &log, true, &[&w]);
    let old = before.ticket.clone();
    drop(before);
    append(&log, &noise(100_000, 2));
    let share = world.share("alice", &log, true, &[&w]);
    let extends = |more: &[&str]| {
        let args = ["--json", "verify", "--timeout", "2", "--extends", &old, &share.ticket];
        world.run("bob", &[&args[..], more].concat())
    };
    assert_exit(&extends(&[]), 0);
    assert_exit(&extends(&["--witness", &w]), 3);
    assert_exit(&world.look("w", &share.ticket, &[]), 0);
    let shown = extends(&["--witness", &w]);
    assert_exit(&shown, 0);
    assert_eq!(events(&shown, "extends")[0]["extends"], true);
    assert_eq!(events(&shown, "cosigned")[0]["witness"], "/w");
    assert_exit(&extends(&["--witness", &w, "--witness", &x]), 3);
    assert_exit(&extends(&["--witness", &w, "--witness", &x, "--threshold", "1"]), 0);
}

#[test]
fn two_of_three_are_enough_and_one_key_is_one_witness() {
    let world = World::new();
    let all = ["a", "b", "c"].map(|name| world.witness(name));
    let [a, b, c] = &all;
    let share = world.share("alice", &world.log("alice", b"a file"), false, &[a, b, c]);
    let every = ["--witness", a, "--witness", b, "--witness", c, "--timeout", "1"];
    let two = [&every[..], &["--threshold", "2"]].concat();
    assert_exit(&world.look("a", &share.ticket, &[]), 0);
    assert_exit(&world.get(&share.ticket, &two), 3);
    // The same key under a second certificate is no second witness.
    let again = world.certificate("a", "/a", "again.cert");
    let twice = ["--witness", a, "--witness", &again, "--threshold", "2"];
    let refused = world.get(&share.ticket, &twice);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("one key counts once"), "{}", stderr(&refused));
    assert_exit(&world.look("c", &share.ticket, &[]), 0);
    let got = world.get(&share.ticket, &two);
    assert_exit(&got, 0);
    let warns = |output: &Output| {
        let told = events(output, "trouble");
        told.iter().any(|told| told["what"].as_str().unwrap().contains("two histories"))
    };
    assert!(!warns(&got));
    // With a threshold of one of two, each half of the getters could be shown another history.
    let half = ["--witness", a, "--witness", b, "--threshold", "1", "--timeout", "1"];
    let got = world.get(&share.ticket, &half);
    assert_exit(&got, 0);
    assert!(warns(&got), "{}", String::from_utf8_lossy(&got.stdout));
    let refused = world.get(&share.ticket, &every);
    assert_exit(&refused, 3);
    assert!(stderr(&refused).contains(", not by /b"), "{}", stderr(&refused));
}

#[test]
fn removed_and_unknown_witnesses_are_refused() {
    let world = World::new();
    let (w, x) = (world.witness("w"), world.witness("x"));
    let log = world.log("alice", b"a file");
    let share = world.share("alice", &log, false, &[&w]);
    let refused = world.look("x", &share.ticket, &[]);
    assert_exit(&refused, 3);
    assert!(
        stderr(&refused).contains("the share accepts no co-signatures of /x"),
        "{}",
        stderr(&refused)
    );
    assert_exit(&world.look("w", &share.ticket, &[]), 0);
    drop(share);
    // Kept co-signatures are served after a restart.
    let share = world.share("alice", &log, false, &[&w]);
    assert_exit(&world.get(&share.ticket, &["--witness", &w, "--timeout", "1"]), 0);
    drop(share);
    // Those of a witness that the share no longer names are not.
    let share = world.share("alice", &log, false, &[&x]);
    assert_exit(&world.get(&share.ticket, &["--witness", &w, "--timeout", "1"]), 3);
    assert_exit(&world.look("w", &share.ticket, &[]), 3);
    assert_exit(&world.look("x", &share.ticket, &[]), 0);
    assert_exit(&world.get(&share.ticket, &["--witness", &x, "--timeout", "1"]), 0);
}

#[test]
fn an_updated_file_is_found_by_the_first_ticket_and_cosigned_in_order() {
    let world = World::new();
    let w = world.witness("w");
    let log = world.log("alice", b"the first");
    let share = world.share("alice", &log, false, &[&w]);
    let first = share.ticket.clone();
    assert_exit(&world.look("w", &first, &[]), 0);
    let listen = share.link.clone();
    drop(share);
    fs::write(&log, b"the second one").unwrap();
    let share = world.share("alice", &log, false, &[&w]);
    let demand = ["--witness", &w, "--timeout", "1"];
    assert_exit(&world.get(&share.ticket, &demand), 3);
    // The ticket of the first version leads to the second, wherever that is served now.
    let at = ["--from", &share.link];
    assert_exit(&world.look("w", &first, if share.link == listen { &[] } else { &at }), 0);
    let got = world.get(&share.ticket, &demand);
    assert_exit(&got, 0);
    let said = &events(&got, "cosigned")[0];
    assert_eq!(said["proven"], false);
    assert!(said["first"].as_u64() < said["version"].as_u64(), "{said}");
}

#[test]
fn a_killed_witness_knows_all_that_it_signed() {
    let world = World::new();
    let w = world.witness("w");
    let mut bytes = noise(50_000, 1);
    let log = world.log("alice", &bytes);
    let share = world.share("alice", &log, true, &[&w]);
    for n in 0..8 {
        let (before, watcher) = (cosigned(&share), Watcher::start(&world, "w", &share.ticket));
        let more = noise(9_000, n);
        append(&log, &more);
        bytes.extend(more);
        // The witness is killed just when the share has its co-signature.
        until("a co-signature", || cosigned(&share) > before);
        drop(watcher);
        // Its record has what it signed: a history without that does not mislead it.
        let said = share.told("cosigned").last().unwrap()["bytes"].as_u64().unwrap() as usize;
        let mut other = bytes[..said].to_vec();
        other[said - 1] ^= 1;
        other.extend(noise(100, 99));
        let forked = world.share(&format!("mallory{n}"), &world.log("mallory", &other), true, &[]);
        let found = world.look("w", &share.ticket, &["--from", &forked.link]);
        assert_exit(&found, 1);
        assert!(stderr(&found).contains("TWO HISTORIES"), "{}", stderr(&found));
    }
}

#[test]
fn an_undelivered_cosignature_is_remembered() {
    let world = World::new();
    world.witness("w");
    let mut bytes = noise(50_000, 1);
    // This share accepts no co-signatures.
    let share = world.share("alice", &world.log("alice", &bytes), true, &[]);
    assert_exit(&world.look("w", &share.ticket, &[]), 3);
    bytes[10] ^= 1;
    bytes.extend(noise(100, 2));
    let forked = world.share("mallory", &world.log("mallory", &bytes), true, &[]);
    let found = world.look("w", &share.ticket, &["--from", &forked.link]);
    assert_exit(&found, 1);
    assert!(stderr(&found).contains("TWO HISTORIES"), "{}", stderr(&found));
}

#[test]
fn lost_records_are_reported_and_damaged_ones_sign_nothing() {
    let world = World::new();
    let w = world.witness("w");
    let log = world.log("alice", &noise(50_000, 1));
    let share = world.share("alice", &log, true, &[&w]);
    assert_exit(&world.look("w", &share.ticket, &[]), 0);
    let dir = world.path("w").join("witness");
    let is_record = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "seen");
    let record = fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.path()).find(is_record);
    let record = record.unwrap();
    let good = fs::read(&record).unwrap();
    fs::write(&record, &good[..good.len() - 1]).unwrap();
    append(&log, &noise(9_000, 2));
    let first = cosigned(&share);
    until("a checkpoint", || checkpoint(&share) > first);
    let refused = world.look("w", &share.ticket, &[]);
    assert_exit(&refused, 4);
    assert!(stderr(&refused).contains("damaged"), "{}", stderr(&refused));
    assert_eq!(cosigned(&share), first);
    // With a lost record it goes on, and reports that to its user and to the share.
    fs::remove_file(&record).unwrap();
    let anew = world.look("w", &share.ticket, &[]);
    assert_exit(&anew, 0);
    assert!(stderr(&anew).contains("no version of"), "{}", stderr(&anew));
    let said = share.told("cosigned").last().unwrap().clone();
    assert_eq!(said["first"], said["version"]);
    let lost =
        |event: &Value| event["what"].as_str().is_some_and(|w| w.contains("lost its record"));
    assert!(share.told("trouble").iter().any(lost));
    // Two processes must not use one record: the running one holds it, once it has signed.
    let watcher = Watcher::start(&world, "w", &share.ticket);
    append(&log, &noise(9_000, 3));
    let before = said["version"].as_u64();
    until("the next is co-signed", || cosigned(&share) > before);
    let refused = world.look("w", &share.ticket, &[]);
    assert_exit(&refused, 4);
    assert!(stderr(&refused).contains("another process"), "{}", stderr(&refused));
    drop(watcher);
}

/// With the older record its signature would be false: it has seen later versions.
#[test]
fn a_witness_restored_from_a_backup_signs_nothing() {
    let world = World::new();
    let w = world.witness("w");
    let log = world.log("alice", &noise(50_000, 1));
    let share = world.share("alice", &log, true, &[&w]);
    assert_exit(&world.look("w", &share.ticket, &[]), 0);
    let (dir, backup) = (world.path("w").join("witness"), world.path("backup"));
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    copy(&dir, &backup);
    let first = cosigned(&share);
    append(&log, &noise(9_000, 2));
    until("a checkpoint", || checkpoint(&share) > first);
    assert_exit(&world.look("w", &share.ticket, &[]), 0);
    until("the second is kept", || cosigned(&share) > first);
    let second = cosigned(&share);
    copy(&backup, &dir);
    append(&log, &noise(9_000, 3));
    until("a checkpoint", || checkpoint(&share) > second);
    let refused = world.look("w", &share.ticket, &[]);
    assert_exit(&refused, 4);
    assert!(stderr(&refused).contains("the store is an older copy"), "{}", stderr(&refused));
    assert_eq!(cosigned(&share), second, "nothing was signed");
}

/// The share that shows another history hides the co-signature, so that the copy alone has it.
#[test]
fn a_restored_witness_is_found_out_by_the_copy_of_its_record() {
    let world = World::new();
    let w = world.witness("w");
    let copies = world.path("copies");
    let log = world.log("alice", &noise(50_000, 1));
    let share = world.share("alice", &log, true, &[&w]);
    let look =
        |world: &World, ticket: &str| world.look("w", ticket, &["--record-copy", text(&copies)]);
    let absent = look(&world, &share.ticket);
    assert_exit(&absent, 2);
    assert!(stderr(&absent).contains(text(&copies)), "{}", stderr(&absent));
    fs::create_dir(&copies).unwrap();
    assert_exit(&look(&world, &share.ticket), 0);
    drop(share);
    // A share that hides the co-signatures serves none.
    fs::remove_dir_all(world.path("alice").join("witnessed")).unwrap();
    fs::remove_dir_all(world.path("w").join("witness")).unwrap();
    let share = world.share("alice", &log, true, &[&w]);
    let refused = look(&world, &share.ticket);
    assert_exit(&refused, 4);
    assert!(stderr(&refused).contains("is newer than"), "{}", stderr(&refused));
    assert_eq!(cosigned(&share), None, "nothing was signed");
}

#[test]
fn a_follower_accepts_only_versions_that_witnesses_have_seen() {
    let world = World::new();
    let (w, x) = (world.witness("w"), world.witness("x"));
    let log = world.log("alice", &noise(100_000, 1));
    let share = world.share("alice", &log, true, &[&w, &x]);
    let both = ["--witness", &w, "--witness", &x];
    // No witness has seen it.
    let mut early =
        follower(&world, "early", &share.ticket, &[&both[..], &["--timeout", "2"]].concat());
    assert_eq!(early.wait(), Some(3));
    assert_eq!(followed(&world, "early"), 0);

    let patient = [&both[..], &["--timeout", "100"]].concat();
    let patient = follower(&world, "patient", &share.ticket, &patient);
    let of_both = ["w", "x"].map(|name| Watcher::start(&world, name, &share.ticket));
    until("it has the beginning", || followed(&world, "patient") == 100_000);
    for n in 0..3 {
        append(&log, &noise(70_000, n));
        let length = fs::metadata(&log).unwrap().len();
        until("it has what both have seen", || followed(&world, "patient") == length);
    }
    let [of_w, of_x] = of_both;
    drop(of_x);
    let seen = fs::metadata(&log).unwrap().len();
    append(&log, &noise(70_000, 9));
    let length = fs::metadata(&log).unwrap().len();
    until("one has seen more", || cosigned_bytes(&share, "/w") == Some(length));
    // One of two is enough with a threshold of one, and not without.
    let one = [&both[..], &["--threshold", "1", "--timeout", "100"]].concat();
    let _one = follower(&world, "one", &share.ticket, &one);
    until("it has it all", || followed(&world, "one") == length);
    let hasty = [&both[..], &["--timeout", "2"]].concat();
    assert_eq!(follower(&world, "hasty", &share.ticket, &hasty).wait(), Some(3));
    assert_eq!(followed(&world, "hasty"), 0);
    assert_eq!(followed(&world, "patient"), seen);
    let _of_x = Watcher::start(&world, "x", &share.ticket);
    until("both have seen it", || followed(&world, "patient") == length);
    assert_eq!(patient.event("cosigned", |said| said["bytes"] == length)["proven"], true);
    drop(of_w);
}

#[test]
fn a_follower_with_silent_witnesses_ends() {
    let world = World::new();
    let w = world.witness("w");
    let share = world.share("alice", &world.log("alice", &noise(100_000, 1)), true, &[&w]);
    assert_exit(&world.look("w", &share.ticket, &[]), 0);
    // No new version comes, which an attacker may have arranged.
    let demand = ["--witness", &w, "--witnessed-within", "8", "--timeout", "5"];
    let mut quiet = follower(&world, "quiet", &share.ticket, &demand);
    until("it has it all", || followed(&world, "quiet") == 100_000);
    quiet.event("error", |e| e["message"].as_str().unwrap().contains(", not by /w"));
    assert_eq!(quiet.wait(), Some(3));
}

#[test]
fn a_getter_finds_two_histories_by_a_witness() {
    let world = World::new();
    let w = world.witness("w");
    let mut bytes = noise(100_000, 1);
    let honest = world.log("alice", &bytes);
    bytes[30_000] ^= 1;
    // The history shown to some getters is the older one, so that the witnessed history should begin with it.
    let forked = world.share("mallory", &world.log("mallory", &bytes), true, &[]);
    let name = forked.shared["name"].as_str().unwrap();
    let version = name.rsplit_once("v=").unwrap().1.to_owned();
    let honest = world.share("alice", &honest, true, &[&w]);
    assert_exit(&world.look("w", &honest.ticket, &[]), 0);
    let from = ["--from", &forked.link, "--from", &honest.link, "--witness", &w];
    let found = world.get(&forked.ticket, &[&from[..], &["--timeout", "10"]].concat());
    assert_exit(&found, 1);
    assert!(stderr(&found).contains("TWO HISTORIES"), "{}", stderr(&found));
    assert!(!world.path("out").exists());
    let more = [&from[..], &["--timeout", "10", "--since", &version]].concat();
    assert_eq!(follower(&world, "victim", &forked.ticket, &more).wait(), Some(1));
    assert_eq!(followed(&world, "victim"), 0);
    for store in ["getter", "victim"] {
        let kept = evidence(&world.path(store));
        assert_eq!(kept.len(), 1, "{store}");
        assert_exit(&world.run("anybody", &["verify", "--evidence", text(&kept[0])]), 0);
    }
}
