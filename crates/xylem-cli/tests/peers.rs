//! Fetching nodes serve each other, in processes: A shares, B fetches and serves meanwhile, C fetches from B, or finds
//! B through A. A peer that dies or has a damaged disk costs time and no bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::fetching::{FetchSetup, Get, from};
use crate::common::{Share, file, noise, skipped, text, under, until, xylem};

/// So slow that a fetch of [`SIZE`] takes some seconds.
const LIMIT: &str = "2M";
const SIZE: usize = 6_000_000;

const SEED: [&str; 3] = ["--listen", "127.0.0.1:0", "--seed"];

#[test]
fn a_getter_serves_what_it_has_meanwhile() {
    let place = FetchSetup::new(SIZE, 1);
    let a = place.share();
    let mut b = place.get("b", &a.ticket, &[&SEED[..], &["--limit", LIMIT]].concat());
    b.has_fetched(500_000);
    assert!(!b.has("done"));
    let (b_key, b_address) = b.address();
    let mut c = place.get("c", &a.ticket, &["--from", &b_key]);
    let done = c.done();
    assert_eq!(c.wait(), Some(0));
    place.is_right("c");
    assert_eq!(from(&done, &b_address), SIZE as u64);
    let served = b.done()["served"].as_u64().unwrap();
    assert!(served > 0, "B had not served when it was complete itself");
    place.is_right("b");
    // A node that only serves has no unfinished work, so it exits with 0.
    Command::new("kill").args(["-INT", &b.child.id().to_string()]).status().unwrap();
    assert_eq!(b.wait(), Some(0));
    // Started again, it serves the files on its disk.
    let b = place.get("b", &a.ticket, &SEED);
    let (b_key, _) = b.address();
    assert_eq!(b.done()["already_complete"], true);
    let mut d = place.get("d", &a.ticket, &["--from", &b_key]);
    assert_eq!(d.wait(), Some(0));
    place.is_right("d");
}

#[test]
fn a_peer_is_found_through_another_and_goes_on_alone() {
    let place = FetchSetup::new(SIZE, 2);
    let a = place.share();
    let b = place.get("b", &a.ticket, &SEED);
    b.done();
    let (_, b_address) = b.address();
    let mut c = place.get("c", &a.ticket, &["--limit", LIMIT]);
    c.event("peer_connected", |e| e["peer"] == b_address.as_str());
    c.has_fetched(1_000_000);
    assert!(!c.has("done"));
    let a_address = a.link.clone();
    drop(a);
    assert_eq!(c.wait(), Some(0));
    place.is_right("c");
    let done = c.done();
    assert!(from(&done, &b_address) > 0, "{done}");
    assert!(from(&done, &a_address) + from(&done, &b_address) == SIZE as u64, "{done}");
}

#[test]
fn a_fetch_survives_a_peer_that_dies() {
    let place = FetchSetup::new(SIZE, 3);
    let a = place.share();
    let mut b = place.get("b", &a.ticket, &[&SEED[..], &["--limit", LIMIT]].concat());
    let (b_key, b_address) = b.address();
    b.has_fetched(500_000);
    let both = ["--from", &b_key, "--from", &a.link, "--limit", LIMIT];
    let mut c = place.get("c", &a.ticket, &both);
    c.event("peer_connected", |e| e["peer"] == b_address.as_str());
    c.has_fetched(1_000_000);
    b.kill();
    assert_eq!(c.wait(), Some(0));
    place.is_right("c");
}

#[test]
fn a_peer_with_a_changed_disk_sends_nothing_wrong() {
    let place = FetchSetup::new(SIZE, 4);
    let a = place.share();
    let b = place.get("b", &a.ticket, &SEED);
    b.done();
    let (b_key, _) = b.address();
    let mut bytes = fs::read(place.out("b")).unwrap();
    bytes[4_000_000] ^= 1;
    // In place: the node has the file open.
    fs::write(place.out("b"), &bytes).unwrap();
    let mut c = place.get("c", &a.ticket, &["--from", &b_key, "--timeout", "2", "--no-serve"]);
    assert_eq!(c.wait(), Some(3), "B does not have it all any more");
    assert!(!c.has("peer_misbehaved"), "and did not send what is wrong");
    assert!(!c.has("offering"));
    let mut c = place.get("c", &a.ticket, &["--from", &b_key, "--from", &a.link]);
    assert_eq!(c.wait(), Some(0));
    place.is_right("c");
    assert!(!c.has("peer_misbehaved"));
    assert!(c.done()["resumed"].as_u64().unwrap() > SIZE as u64 / 2);
}

#[test]
fn a_directory_is_served_while_it_is_fetched() {
    let place = FetchSetup::new(SIZE, 5);
    let source = place.dir.path().join("tree");
    fs::create_dir_all(source.join("sub/empty")).unwrap();
    for i in 0..150_usize {
        file(&source.join("sub"), &format!("small-{i}"), &noise(i * 400, i as u64));
    }
    file(&source, "large", &noise(3_000_000, 6));
    file(&source, "zlarge", &noise(300_000, 7));
    let a = Share::start(&source, &place.dir.path().join("store-a"));
    let share_ticket = a.ticket.clone();
    let b = place.get("b", &a.ticket, &[&SEED[..], &["--limit", LIMIT]].concat());
    b.has_fetched(500_000);
    assert!(!b.has("done"));
    let (b_key, b_address) = b.address();
    let mut c = place.get("c", &a.ticket, &["--from", &b_key]);
    assert_eq!(c.wait(), Some(0));
    assert!(b.done()["served"].as_u64() > Some(0));
    let done = c.done();
    assert!(from(&done, &b_address) >= 3_300_000, "{done}");
    // With all of the content on B's disk A is not needed.
    drop(a);
    let mut d = place.get("d", &share_ticket, &["--from", &b_key]);
    assert_eq!(d.wait(), Some(0));
    for who in ["b", "c", "d"] {
        assert_eq!(done["root"], tree_sum(&place.out(who)), "{who}");
    }
}

/// A peer requests its files in the moment in which the directory moves to its final place.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_is_served_while_it_moves_to_its_place() {
    let place = FetchSetup::new(1, 5);
    let source = place.dir.path().join("tree");
    fs::create_dir(&source).unwrap();
    for (name, size) in [("large", 300_000), ("small", 30_000)] {
        file(&source, name, &noise(size, 8));
    }
    let a = Share::start(&source, &place.dir.path().join("store-a"));
    let mut command = xylem(&place.dir.path().join("store-b"));
    command.args(["--json", "get", &a.ticket, "-o"]).arg(place.out("b")).args(SEED);
    let log = place.dir.path().join("strace.log");
    let (path, out) = (text(&log), place.out("b"));
    let inject = "inject=renameat2:delay_exit=8000000";
    let arguments =
        ["-f", "-qq", "-o", path, "-P", text(&out), "-e", "trace=renameat2", "-e", inject];
    if !Command::new("strace").arg("true").output().is_ok_and(|output| output.status.success()) {
        return skipped("no strace that may trace, which holds up a renaming");
    }
    let b = Get::of(under("strace", &arguments, &command));
    until("the directory has its name", || out.exists());
    let mut c = place.get("c", &b.own_ticket(), &[]);
    assert_eq!(c.wait(), Some(0));
    assert_eq!(c.done()["root"], tree_sum(&out));
    assert_eq!(c.done()["root"], tree_sum(&place.out("c")));
    let done = b.done();
    assert!(fs::read_to_string(&log).unwrap().contains("(DELAYED)"), "{done}");
}

fn tree_sum(path: &Path) -> String {
    let output = xylem(path).args(["sum", "--no-names", "--tree"]).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
