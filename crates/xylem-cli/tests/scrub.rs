//! `xylem scrub` on real files and in real processes: every kind of damage is named with its place, and mended from
//! peers. Nothing else is fetched or changed.

#![cfg(unix)]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::common::decaying::decay;
use crate::common::{Share, assert_exit, file, finish, get, noise, stderr, text, until, xylem};
use serde_json::Value;

const SEGMENT: usize = 8192;

/// A publisher of `content`, and a store that has fetched it.
struct FetchedCopy {
    dir: tempfile::TempDir,
    share: Share,
    store: PathBuf,
    out: PathBuf,
    content: Vec<u8>,
}

impl FetchedCopy {
    fn new(len: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let content = noise(len, len as u64 + 1);
        let source = file(dir.path(), "source", &content);
        let share = Share::start(&source, &dir.path().join("publisher"));
        let (store, out) = (dir.path().join("store"), dir.path().join("out"));
        assert_exit(&get(&store, &[&share.ticket, "-o", text(&out)]), 0);
        Self { dir, share, store, out, content }
    }

    fn is_whole(&self) -> bool {
        fs::read(&self.out).unwrap() == self.content
    }

    fn outboard(&self) -> PathBuf {
        let objects = fs::read_dir(self.store.join("objects")).unwrap();
        let mut names = objects.map(|entry| entry.unwrap().path());
        names.find(|path| path.extension().is_some_and(|e| e == "outboard")).unwrap()
    }
}

/// Runs `scrub`; returns its exit code, and its events except progress.
fn scrub(store: &Path, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = xylem(store);
    command.args(["--json", "scrub"]).args(arguments).stdin(Stdio::null());
    let output = finish(command);
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    let out = String::from_utf8(output.stdout).unwrap();
    let events = out.lines().map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = events.filter(|e: &Value| e["event"] != "hashing").collect();
    (output.status.code(), events)
}

fn of<'a>(events: &'a [Value], event: &str) -> Vec<&'a Value> {
    events.iter().filter(|e| e["event"] == event).collect()
}

/// Kinds of flaws with their byte ranges.
fn flaws(events: &[Value]) -> Vec<(String, u64, u64)> {
    let number = |v: &Value| v.as_u64().unwrap();
    let flaw = |e: &&Value| {
        (e["flaw"].as_str().unwrap().to_owned(), number(&e["start"]), number(&e["end"]))
    };
    of(events, "flaw").iter().map(flaw).collect()
}

fn done(events: &[Value]) -> &Value {
    of(events, "scrubbed").last().expect("it ends")
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x20], at).unwrap();
}

#[test]
fn damage_is_named_and_only_that_is_fetched_and_written() {
    let pair = FetchedCopy::new(5_000_001);
    let before = fs::metadata(&pair.out).unwrap();
    let (code, events) = scrub(&pair.store, &[]);
    assert_eq!((code, flaws(&events)), (Some(0), vec![]));
    assert_eq!(done(&events)["bytes"], 5_000_001);

    // First and last byte, both sides of a block's edge, two neighbours in the middle.
    let places = [0, 16_383, 16_384, 1_000_000, 1_000_000 + SEGMENT as u64, 5_000_000];
    decay(&pair.store, &pair.out, |file| places.iter().for_each(|at| flip(file, *at)));
    let (code, events) = scrub(&pair.store, &[text(&pair.out)]);
    let first = 1_000_000 / SEGMENT as u64 * SEGMENT as u64;
    let damaged = |start, end| ("damaged".to_owned(), start, end);
    let expected = [
        damaged(0, 8192),
        damaged(8192, 24_576),
        damaged(first, first + 16_384),
        damaged(610 * 8192, 5_000_001),
    ];
    // The first two touch: one range.
    let expected = [damaged(0, 24_576), expected[2].clone(), expected[3].clone()];
    assert_eq!((code, flaws(&events)), (Some(1), expected.to_vec()));
    let flaw = of(&events, "flaw");
    assert_eq!((&flaw[0]["first_block"], &flaw[0]["blocks"]), (&0.into(), &2.into()));
    assert_eq!((&flaw[2]["first_block"], &flaw[2]["blocks"]), (&305.into(), &1.into()));
    assert!(!pair.is_whole(), "nothing was changed");

    let (code, events) = scrub(&pair.store, &[text(&pair.out), "--repair"]);
    assert_eq!(code, Some(0), "{events:?}");
    assert!(pair.is_whole());
    let bad = 24_576 + 16_384 + 5_000_001 - 610 * 8192;
    assert_eq!(done(&events)["damaged"], bad);
    assert_eq!(done(&events)["mended"], bad);
    assert_eq!(done(&events)["fetched"], bad, "nothing but the bad segments");
    let after = fs::metadata(&pair.out).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!((after.ino(), after.mode()), (before.ino(), before.mode()));
    let (code, events) = scrub(&pair.store, &[]);
    assert_eq!((code, flaws(&events)), (Some(0), vec![]));
    assert!(fs::read_dir(pair.store.join("repairs")).unwrap().next().is_none());
}

#[test]
fn a_cut_a_grown_and_a_punched_file_are_mended() {
    let pair = FetchedCopy::new(300_000);
    let repairs = |kind: &str, start: u64, end: u64| {
        let (code, events) = scrub(&pair.store, &[text(&pair.out)]);
        assert_eq!((code, flaws(&events)), (Some(1), vec![(kind.to_owned(), start, end)]));
        let (code, events) = scrub(&pair.store, &[text(&pair.out), "--repair"]);
        assert_eq!(code, Some(0), "{kind}: {events:?}");
        assert!(pair.is_whole(), "{kind}");
        done(&events)["fetched"].as_u64().unwrap()
    };
    decay(&pair.store, &pair.out, |file| file.set_len(100_000).unwrap());
    assert_eq!(repairs("damaged", 98_304, 300_000), 300_000 - 98_304);
    decay(&pair.store, &pair.out, |file| file.set_len(300_001).unwrap());
    assert_eq!(repairs("longer", 300_000, 300_001), 0);
    decay(&pair.store, &pair.out, |file| file.write_all_at(&[0; 4096], 8192).unwrap());
    assert_eq!(repairs("damaged", 8192, 16_384), 8192);
}

#[test]
fn a_damaged_tree_is_detected_and_made_from_the_data() {
    let pair = FetchedCopy::new(5_000_000);
    let outboard = pair.outboard();
    let right = fs::read(&outboard).unwrap();
    let fixed = |kinds: &[&str], fetched_at_most: u64| {
        let (code, events) = scrub(&pair.store, &[]);
        let found: Vec<_> = flaws(&events).into_iter().map(|f| f.0).collect();
        assert_eq!((code, found), (Some(1), kinds.iter().map(ToString::to_string).collect()));
        let (code, events) = scrub(&pair.store, &["--repair"]);
        assert_eq!(code, Some(0), "{events:?}");
        assert!(fs::read(&outboard).unwrap() == right && pair.is_whole());
        let fetched = done(&events)["fetched"].as_u64().unwrap();
        assert!(fetched <= fetched_at_most, "{fetched}: {events:?}");
    };
    for slot in [0_u64, 511, 700] {
        decay(&pair.store, &outboard, |file| flip(file, slot * 32 + 9));
        fixed(&["tree"], 0);
    }
    fs::remove_file(&outboard).unwrap();
    fixed(&["tree"], 0);
    decay(&pair.store, &outboard, |file| file.set_len(1000).unwrap());
    fixed(&["tree"], 0);
    // Tree and data are damaged at once: what remains of either is enough.
    decay(&pair.store, &outboard, |file| flip(file, 511 * 32));
    decay(&pair.store, &pair.out, |file| flip(file, 77));
    fixed(&["damaged", "tree"], SEGMENT as u64);
    // The tree is lost: peers are asked for it too.
    fs::remove_file(&outboard).unwrap();
    decay(&pair.store, &pair.out, |file| flip(file, 77));
    fixed(&["unproven", "tree"], 9 * SEGMENT as u64);
}

#[test]
fn edited_files_are_left_alone() {
    let pair = FetchedCopy::new(100_000);
    let file = OpenOptions::new().read(true).write(true).open(&pair.out).unwrap();
    flip(&file, 50_000);
    let edited = fs::read(&pair.out).unwrap();
    for arguments in [&["--repair"][..], &[]] {
        let (code, events) = scrub(&pair.store, arguments);
        assert_eq!((code, flaws(&events)), (Some(1), vec![("changed".to_owned(), 0, 0)]));
        assert!(fs::read(&pair.out).unwrap() == edited);
    }
    // Its bytes are right again and only its time differs: no flaw.
    flip(&file, 50_000);
    assert_eq!(scrub(&pair.store, &[]).0, Some(0));
    fs::remove_file(&pair.out).unwrap();
    let (code, events) = scrub(&pair.store, &[]);
    assert_eq!((code, &flaws(&events)[0].0[..]), (Some(1), "missing"));
}

#[test]
fn after_a_lying_peer_the_next_one_is_asked() {
    let FetchedCopy { dir, share, store, out, content } = FetchedCopy::new(400_000);
    // The same bytes under another name: an honest second publication.
    let second = file(dir.path(), "second", &content);
    let honest = Share::start(&second, &dir.path().join("publisher-2"));
    // A publisher serves decayed bytes, of which it can't know, as it hashed them.
    drop(share);
    let (source, publisher) = (dir.path().join("source"), dir.path().join("publisher"));
    decay(&publisher, &source, |file| flip(file, 200_000));
    let lying = Share::start(&source, &publisher);
    decay(&store, &out, |file| [1, 200_000, 300_000].iter().for_each(|at| flip(file, *at)));
    let both = ["--from", &lying.ticket, "--from", &honest.ticket, "--timeout", "2"];

    // Every copy of one piece is bad: all others are mended.
    let only = [text(&out), "--repair", both[0], both[1], both[4], both[5]];
    let (code, events) = scrub(&store, &only);
    assert_eq!(code, Some(1), "{events:?}");
    assert!(!of(&events, "peer_misbehaved").is_empty());
    let start = 200_000 / SEGMENT as u64 * SEGMENT as u64;
    assert_eq!(of(&events, "mended").len(), 2, "{events:?}");
    let (_, events) = scrub(&store, &[text(&out)]);
    assert_eq!(flaws(&events), [("damaged".to_owned(), start, start + SEGMENT as u64)]);

    let arguments = [&[text(&out), "--repair"], &both[..]].concat();
    let (code, events) = scrub(&store, &arguments);
    assert_eq!(code, Some(0), "{events:?}");
    assert!(fs::read(&out).unwrap() == content);
}

#[test]
fn without_peers_exit_is_3_for_unknown_files_2() {
    let pair = FetchedCopy::new(100_000);
    let ticket = pair.share.ticket.clone();
    decay(&pair.store, &pair.out, |file| flip(file, 0));
    let FetchedCopy { dir, share, store, out, .. } = pair;
    drop(share);
    let (code, events) = scrub(&store, &[text(&out), "--repair", "--timeout", "1"]);
    assert_eq!(code, Some(3), "{events:?}");
    let other = file(dir.path(), "other", b"never heard of");
    assert_eq!(scrub(&store, &[text(&other)]).0, Some(2));
    assert_eq!(scrub(&store, &["nowhere"]).0, Some(2));
    assert_eq!(scrub(&store, &[text(&other), "--from", "xylem:nonsense"]).0, Some(2));
    // A ticket gives the expected content.
    let (code, events) = scrub(&store, &[text(&other), "--from", &ticket]);
    assert_eq!((code, flaws(&events).is_empty()), (Some(1), false));
}

#[test]
fn a_killed_repair_goes_on() {
    let pair = FetchedCopy::new(16_000_000);
    let before = fs::metadata(&pair.out).unwrap().modified().unwrap();
    let mut mid_way = 0;
    for _ in 0..4 {
        decay(&pair.store, &pair.out, |file| {
            file.write_all_at(&vec![0; 6_000_000], 5_000_000).unwrap();
        });
        let mut command = xylem(&pair.store);
        // Slow enough that no machine finishes between two checks of the folder.
        command.args(["scrub", "--repair", "--limit", "16MiB"]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let begun = || fs::read_dir(pair.store.join("repairs")).unwrap().next().is_some();
        until("a repair", begun);
        std::thread::sleep(Duration::from_millis(15));
        child.kill().unwrap();
        child.wait().unwrap();
        mid_way += u32::from(begun() && !pair.is_whole());
        // A half-done repair is not taken for an edit, whatever the file's time is now.
        let (_, events) = scrub(&pair.store, &[]);
        assert!(flaws(&events).iter().all(|f| f.0 == "damaged" || f.0 == "unfinished"));
        let (code, events) = scrub(&pair.store, &["--repair"]);
        assert_eq!(code, Some(0), "{events:?}");
        assert!(pair.is_whole());
        assert_eq!(fs::metadata(&pair.out).unwrap().modified().unwrap(), before);
        assert!(!begun());
    }
    assert!(mid_way > 0, "no kill came before the end");
}

/// Killed after its last write and before it removed its record: later decay is damage again.
#[test]
fn a_repair_that_died_at_its_end_leaves_nothing_behind() {
    let pair = FetchedCopy::new(4_000_000);
    decay(&pair.store, &pair.out, |file| {
        file.write_all_at(&vec![0; 2_000_000], 1_000_000).unwrap()
    });
    let mut command = xylem(&pair.store);
    command.args(["scrub", "--repair", "--limit", "4MiB"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut record = None;
    until("a record", || {
        let found = fs::read_dir(pair.store.join("repairs")).ok().and_then(|mut all| all.next());
        let path = found.map(|entry| entry.unwrap().path());
        record = path.and_then(|path| Some((fs::read(&path).ok()?, path)));
        record.as_ref().is_some_and(|(bytes, _)| bytes.len() > 100)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (bytes, path) = record.unwrap();
    assert_eq!(scrub(&pair.store, &["--repair"]).0, Some(0));
    fs::write(&path, &bytes).unwrap();
    decay(&pair.store, &pair.out, |file| file.write_all_at(&[0; 100], 3_500_000).unwrap());
    let (code, events) = scrub(&pair.store, &[]);
    assert_eq!((code, flaws(&events)[0].0.as_str()), (Some(1), "damaged"), "{events:?}");
    assert_eq!(scrub(&pair.store, &["--repair"]).0, Some(0));
    assert!(pair.is_whole() && !path.exists());
    fs::write(&path, &bytes).unwrap();
    assert_eq!(scrub(&pair.store, &[]).0, Some(0));
    assert!(!path.exists(), "the record of a repair that was done");
}

#[test]
fn a_directory_with_its_listing() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir_all(source.join("deep/er")).unwrap();
    let large = noise(1_000_000, 1);
    let small = noise(3000, 2);
    file(&source, "large", &large);
    file(&source, "deep/er/small", &small);
    file(&source, "deep/other", &noise(70_000, 3));
    file(&source, "left-out.tmp", &noise(70_000, 4));
    for i in 0..300 {
        file(&source, &format!("deep/a-name-that-makes-the-listing-long-{i}"), &noise(20, i));
    }
    std::os::unix::fs::symlink("large", source.join("link")).unwrap();
    let share = Share::start(&source, &dir.path().join("publisher"));
    let (store, out) = (dir.path().join("store"), dir.path().join("out"));
    let fetched = get(&store, &[&share.ticket, "-o", text(&out), "--exclude", "*.tmp"]);
    assert_exit(&fetched, 0);
    let (code, events) = scrub(&store, &[]);
    assert_eq!((code, flaws(&events)), (Some(0), vec![]), "what was left out is not missing");
    assert_eq!(done(&events)["files"], 303);

    decay(&store, &out.join("large"), |file| flip(file, 999_999));
    decay(&store, &out.join("deep/er/small"), |file| flip(file, 0));
    let listing = fs::read_dir(store.join("objects")).unwrap().map(|e| e.unwrap().path());
    let listing = listing.into_iter().find(|p| p.extension().is_some_and(|e| e == "listing"));
    let listing = listing.unwrap();
    decay(&store, &listing, |file| flip(file, 9000));
    // Within the directory, and in all of its listing: a damaged listing counts as damage, and its content is not
    // trusted.
    let (code, events) = scrub(&store, &[text(&out)]);
    assert_eq!(code, Some(1));
    assert_eq!(flaws(&events)[0], ("damaged".to_owned(), 8192, 16_384), "{events:?}");
    let (code, events) = scrub(&store, &["--repair"]);
    assert_eq!(code, Some(0), "{events:?}");
    assert!(fs::read(out.join("large")).unwrap() == large);
    assert!(fs::read(out.join("deep/er/small")).unwrap() == small);
    let bad = 8192 + 1_000_000 - 122 * 8192 + 3000;
    assert_eq!(done(&events)["fetched"], bad, "{events:?}");

    decay(&store, &out.join("large"), |file| flip(file, 0));
    let (code, events) = scrub(&store, &[text(&out.join("deep"))]);
    assert_eq!((code, flaws(&events)), (Some(0), vec![]));
    assert_eq!(done(&events)["files"], 302);
    assert_eq!(scrub(&store, &[text(&out.join("large"))]).0, Some(1));
    file(&out, "added", b"later");
    assert_eq!(scrub(&store, &[text(&out.join("added"))]).0, Some(2));
}

#[test]
fn an_unreadable_file_is_exit_4_others_are_checked() {
    let pair = FetchedCopy::new(50_000);
    let second = pair.dir.path().join("second");
    assert_exit(&get(&pair.store, &[&pair.share.ticket, "-o", text(&second)]), 0);
    fs::set_permissions(&pair.out, fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(&pair.out).is_ok() {
        return; // a user that may read everything can't run this
    }
    let (code, events) = scrub(&pair.store, &[]);
    assert_eq!((code, flaws(&events).len()), (Some(4), 1), "{events:?}");
    assert_eq!(done(&events)["bytes"], 50_000);
}

#[test]
fn a_limit_slows_it_down_and_a_signal_ends_it() {
    let pair = FetchedCopy::new(16_000_000);
    let mut command = xylem(&pair.store);
    command.args(["scrub", "--limit", "1M"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("bytes were read"), "{said}");
}
