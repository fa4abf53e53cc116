//! Growing objects in real processes: a writer, a sharer, and followers.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common;
use crate::common::{
    Share, assert_exit, evidence, file, finish, get, noise, stderr, sum, text, until, xylem,
};

/// Quick checkpoints, so that tests are quick.
const EVERY: [&str; 5] = ["--follow", "--every", "0.1", "--every-bytes", "300K"];

fn share(path: &Path, store: &Path) -> Share {
    Share::with(path, store, &EVERY)
}

/// Shares on a given port, so that a restarted sharer is found again.
fn share_at(path: &Path, store: &Path, listen: &str) -> Share {
    let mut all = EVERY.to_vec();
    all.extend(["--listen", listen]);
    Share::with(path, store, &all)
}

/// A running `get --follow`; killed when dropped.
struct Follower(Option<Child>);

impl Follower {
    fn start(store: &Path, ticket: &str, output: &Path, more: &[&str]) -> Self {
        let mut command = xylem(store);
        command.args(["get", "--follow", ticket, "-o", text(output)]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    fn end(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn signal(&self, signal: &str) {
        send(self.0.as_ref().unwrap().id(), signal);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn send(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn append(path: &Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).unwrap() == fs::read(b).unwrap()
}

/// Steps across every boundary: bytes, chunks, segments, and more than one checkpoint at once.
const STEPS: [usize; 12] =
    [1, 1023, 1, 7167, 8192, 1, 8191, 20_000, 700_000, 5, 65_536 - 44, 1_300_000];

#[test]
fn followers_get_a_growing_file_over_kills_of_either_side() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let log = file(dir.path(), "app.log", b"");
    let all = noise(STEPS.iter().sum(), 7);
    let sharer = share(&log, &here("store"));
    let (ticket, listen) = (sharer.ticket.clone(), sharer.link.clone());
    let (early, late) = (here("early"), here("late"));
    let first = Follower::start(&here("first"), &ticket, &early, &[]);
    let (mut sharer, mut second) = (Some(sharer), None);
    let mut at = 0;
    for (n, step) in STEPS.iter().enumerate() {
        append(&log, &all[at..at + step]);
        at += step;
        match n {
            // Killed, and started again while bytes are new: the ticket stays good.
            4 => {
                drop(sharer.take());
                sharer = Some(share_at(&log, &here("store"), &listen));
            }
            6 => second = Some(Follower::start(&here("second"), &ticket, &late, &[])),
            // A follower that is killed goes on in a later run.
            8 => {
                until("the late one has something", || len(&late) > 0);
                second.take().unwrap().kill();
                second = Some(Follower::start(&here("second"), &ticket, &late, &[]));
            }
            _ => {}
        }
        until("the early one has it all", || len(&early) == at as u64);
        assert!(fs::read(&early).unwrap() == all[..at], "after step {n}");
    }
    until("the late one has it all", || len(&late) == at as u64);
    // An ordinary `get` fetches the newest checkpoint, whichever the ticket names. This ticket's checkpoint was made by
    // a process that has ended.
    let once = here("once");
    assert_exit(&get(&here("third"), &[&ticket, "-o", text(&once)]), 0);
    assert!(same(&once, &log));
    // A sharer that ends by a signal ends the stream.
    send(sharer.as_ref().unwrap().pid(), "-INT");
    for (follower, path) in [(first, &early), (second.unwrap(), &late)] {
        let output = follower.end();
        assert_exit(&output, 0);
        assert!(same(path, &log));
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(line.split_whitespace().next(), Some(sum(&log).as_str()));
    }
}

#[test]
fn standard_input_is_a_stream_that_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = xylem(&dir.path().join("store"));
    command.args(["share", "--listen", "127.0.0.1:0"]).args(EVERY).arg("-");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut ticket = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ticket).unwrap();
    let ticket = ticket.trim();
    let mut command = xylem(&dir.path().join("other"));
    command.args(["get", "--follow", ticket, "-o", "-"]);
    let reader = std::thread::spawn(move || finish(command));
    let all = noise(900_000, 3);
    let mut input = child.stdin.take().unwrap();
    for part in all.chunks(123_456) {
        input.write_all(part).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    drop(input);
    let output = reader.join().unwrap();
    assert_exit(&output, 0);
    assert!(output.stdout == all, "{} of {} bytes", output.stdout.len(), all.len());
    // The stream is over and still served.
    let again = dir.path().join("again");
    let output = get(&dir.path().join("third"), &["--follow", ticket, "-o", text(&again)]);
    assert_exit(&output, 0);
    assert!(fs::read(&again).unwrap() == all);
    // Also to a getter that does not follow, although the ticket was made while the stream was empty.
    let once = dir.path().join("once");
    assert_exit(&get(&dir.path().join("fourth"), &[ticket, "-o", text(&once)]), 0);
    assert!(fs::read(&once).unwrap() == all);
    send(child.id(), "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The only file with this ending among a store's growing objects.
fn growing(store: &Path, ending: &str) -> std::path::PathBuf {
    let all = fs::read_dir(store.join("growing")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = all.filter(|path| path.extension().is_some_and(|is| is == ending));
    found.next().expect("it has been shared")
}

#[test]
fn nodes_that_a_power_cut_lost_are_made_again() {
    type Damage = fn(&Path);
    let damages: [Damage; 5] = [
        |path| fs::write(path, vec![0; len(path) as usize]).unwrap(),
        |path| fs::File::options().write(true).open(path).unwrap().set_len(len(path) / 2).unwrap(),
        |path| fs::write(path, b"").unwrap(),
        |path| fs::remove_file(path).unwrap(),
        |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[40] ^= 0xff;
            fs::write(path, bytes).unwrap();
        },
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let (log, store) = (dir.path().join("log"), dir.path().join("store"));
        fs::write(&log, noise(400_000, 1)).unwrap();
        let check = || {
            let mut command = xylem(&store);
            command.args(["store", "check"]);
            finish(command)
        };
        drop(share(&log, &store));
        assert_exit(&check(), 0);
        damage(&growing(&store, "outboard"));
        let output = check();
        assert_exit(&output, 1);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("outboard"), "{n}: {told}");
        // Killed right away, too: the lost nodes are there again.
        drop(share(&log, &store));
        assert_exit(&check(), 0);
        let sharer = share(&log, &store);
        let out = dir.path().join("out");
        assert_exit(&get(&dir.path().join("other"), &[&sharer.ticket, "-o", text(&out)]), 0);
        assert!(same(&out, &log), "{n}");
    }
}

#[test]
fn after_damage_by_a_power_cut_the_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (log, store) = (dir.path().join("log"), dir.path().join("store"));
    fs::write(&log, noise(400_000, 1)).unwrap();
    let first = share(&log, &store);
    let (old, listen) = (first.ticket.clone(), first.link.clone());
    drop(first);
    let kept = growing(&store, "log");
    let mut bytes = fs::read(&kept).unwrap();
    bytes[..64].fill(0);
    fs::write(&kept, bytes).unwrap();
    let mut check = xylem(&store);
    check.args(["store", "check"]);
    assert_exit(&finish(check), 1);
    let mut all = EVERY.to_vec();
    all.extend(["--listen", &listen]);
    let sharer = Share::with(&log, &store, &all);
    assert_eq!(sharer.told_before("trouble").len(), 1);
    // Bytes published before are still proven.
    let out = dir.path().join("out");
    let follower =
        Follower::start(&dir.path().join("other"), &old, &out, &["--since", &version(&old)]);
    until("it has that checkpoint", || out.exists() && same(&out, &log));
    follower.signal("-INT");
    assert_exit(&follower.end(), 130);
}

/// The version that a ticket's name has.
fn version(ticket: &str) -> String {
    let ticket: xylem_object::Ticket = ticket.parse().unwrap();
    let name = ticket.name.expect("of a file that grows").to_string();
    name.rsplit_once("v=").unwrap().1.to_owned()
}

#[test]
fn get_takes_the_newest_checkpoint_and_cuts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let log = file(dir.path(), "app.log", b"one\ntwo\n");
    let sharer = share(&log, &here("store"));
    let ticket = sharer.ticket.clone();
    let follower = Follower::start(&here("follower"), &ticket, &here("copy"), &[]);
    append(&log, &noise(200_000, 1));
    until("the follower has it all", || len(&here("copy")) == len(&log));
    follower.signal("-INT");
    assert_exit(&follower.end(), 130);
    let stores = std::cell::Cell::new(0);
    let fetch = |more: &[&str]| {
        stores.set(stores.get() + 1);
        get(&here(&format!("store-{}", stores.get())), &[&[ticket.as_str()][..], more].concat())
    };
    // The copy is whole, and a line states that the file grows.
    let output = fetch(&["-o", text(&here("plain"))]);
    assert_exit(&output, 0);
    assert!(same(&here("plain"), &log));
    assert!(stderr(&output).contains("the file still grows"), "{}", stderr(&output));
    assert_exit(&fetch(&["-o", text(&here("part")), "--range", "100..150000"]), 0);
    assert!(fs::read(here("part")).unwrap() == fs::read(&log).unwrap()[100..150_000]);
    let output = fetch(&["-o", "-"]);
    assert_exit(&output, 0);
    assert!(output.stdout == fs::read(&log).unwrap());
    assert_exit(&fetch(&["-o", text(&here("like")), "--like", text(&here("plain"))]), 0);
    assert!(same(&here("like"), &log));
    // A complete copy stays unchanged.
    let asked: [&[&str]; 2] = [&[], &["--overwrite"]];
    for more in asked {
        assert_exit(&fetch(&[&["-o", text(&here("copy"))][..], more].concat()), 0);
        assert!(same(&here("copy"), &log), "{more:?}");
    }
    // A copy longer than the newest checkpoint is not cut, and neither is a copy with other content.
    let longer = [&fs::read(&log).unwrap()[..], b"more"].concat();
    fs::write(here("longer"), &longer).unwrap();
    let mut other = noise(300_000, 2);
    other[..8].copy_from_slice(b"one\ntwo\n");
    fs::write(here("other"), &other).unwrap();
    for more in asked {
        assert_exit(&fetch(&[&["-o", text(&here("longer"))][..], more].concat()), 0);
        assert!(fs::read(here("longer")).unwrap() == longer, "{more:?}");
        assert_exit(&fetch(&[&["-o", text(&here("other"))][..], more].concat()), 2);
        assert!(fs::read(here("other")).unwrap() == other, "{more:?}");
    }
    assert_exit(&fetch(&["-o", text(&here("other")), "--overwrite", "--follow"]), 2);
    assert!(fs::read(here("other")).unwrap() == other);
    // A prefix of the stream is replaced on request, and so is other content.
    let unlike = noise(5_000, 5);
    for begun in [&longer[..1_000], &unlike[..]] {
        fs::write(here("begun"), begun).unwrap();
        assert_exit(&fetch(&["-o", text(&here("begun"))]), 2);
        assert!(fs::read(here("begun")).unwrap() == begun);
        assert_exit(&fetch(&["-o", text(&here("begun")), "--overwrite"]), 0);
        assert!(same(&here("begun"), &log));
    }
    // A follower goes on after a prefix, and waits where the copy is longer than the published stream.
    let begun = [
        ("copy", None),
        ("longer", None),
        ("short", Some(&longer[..1_000])),
        ("else", Some(&unlike[..])),
    ];
    let followers = begun.map(|(name, content)| {
        if let Some(content) = content {
            fs::write(here(name), content).unwrap();
        }
        Follower::start(&here(&format!("of-{name}")), &ticket, &here(name), &["--overwrite"])
    });
    append(&log, b"more and more");
    for (follower, (name, _)) in followers.into_iter().zip(begun) {
        until("it has what came", || same(&here(name), &log));
        follower.signal("-INT");
        assert_exit(&follower.end(), 130);
    }
}

#[test]
fn other_verbs_take_the_newest_checkpoint_too() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let log = file(dir.path(), "app.log", b"one\ntwo\n");
    let sharer = share(&log, &here("store"));
    let ticket = sharer.ticket.clone();
    let follower = Follower::start(&here("follower"), &ticket, &here("copy"), &[]);
    append(&log, &noise(200_000, 1));
    until("the follower has it all", || len(&here("copy")) == len(&log));
    follower.signal("-INT");
    assert_exit(&follower.end(), 130);
    let run = |store: &str, arguments: &[&str]| {
        let mut command = xylem(&here(store));
        command.args(arguments);
        finish(command)
    };
    let shown = run("other", &["ticket", &ticket]);
    assert_exit(&shown, 0);
    let text_of = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text_of(&shown).contains("growing"), "{}", text_of(&shown));
    // Bytes beyond the ticket's checkpoint are compared with checkpoints signed since.
    assert_exit(&run("other", &["verify", text(&here("copy")), &ticket]), 0);
    fs::write(here("edited"), [&fs::read(&log).unwrap()[..150_000], b"x"].concat()).unwrap();
    assert_exit(&run("other", &["verify", text(&here("edited")), &ticket]), 1);
    // A reader has the content of the time at which it began.
    let options = xylem_reader::Options {
        lan: false,
        ..xylem_reader::Options::new(ticket.parse().unwrap(), here("reader"))
    };
    let stop = xylem_base::Stop::new();
    let reader = xylem_reader::Reader::open(options, &stop, Box::new(|_| {})).unwrap();
    let item = reader.item(0).unwrap().unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut reader.open_item(&item).unwrap(), &mut bytes).unwrap();
    assert!(bytes == fs::read(&log).unwrap());
    // A followed copy can be scrubbed.
    assert_exit(&run("follower", &["scrub", text(&here("copy"))]), 0);
    assert_exit(&run("follower", &["store", "check"]), 0);
    let mut changed = fs::read(here("copy")).unwrap();
    changed[77_777] ^= 1;
    fs::write(here("copy"), &changed).unwrap();
    assert_exit(&run("follower", &["scrub"]), 1);
    // A copy that has grown since is checked as far as it was verified.
    changed[77_777] ^= 1;
    changed.extend(b"not verified yet");
    fs::write(here("copy"), &changed).unwrap();
    assert_exit(&run("follower", &["scrub"]), 0);
    changed[77_777] ^= 1;
    fs::write(here("copy"), &changed).unwrap();
    assert_exit(&run("follower", &["scrub"]), 1);
}

#[test]
fn a_change_in_the_middle_is_reported_to_the_sharer() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let mut content = noise(400_000, 1);
    let log = file(dir.path(), "log", &content);
    let sharer = share(&log, &here("store"));
    content[100_000] ^= 1;
    // In place, like an editor that does not append.
    let mut there = fs::File::options().write(true).open(&log).unwrap();
    there.write_all(&content[..200_000]).unwrap();
    let output = get(&here("other"), &[&sharer.ticket, "-o", text(&here("out")), "--timeout", "2"]);
    assert_exit(&output, 3);
    assert!(!stderr(&output).contains("misbehave"), "{}", stderr(&output));
    until("it is told", || {
        sharer.told("skipped").iter().any(|e| e.to_string().contains("another name (--as)"))
    });
}

#[test]
fn rotation_of_a_log_ends_the_stream_for_followers() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let log = file(dir.path(), "app.log", b"first\n");
    let mut command = xylem(&here("store"));
    command.args(["share", "--listen", "127.0.0.1:0"]).args(EVERY).arg(&log);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sharer = command.spawn().unwrap();
    let mut ticket = String::new();
    BufReader::new(sharer.stdout.as_mut().unwrap()).read_line(&mut ticket).unwrap();
    let follower = Follower::start(&here("other"), ticket.trim(), &here("copy"), &[]);
    until("it has the beginning", || len(&here("copy")) == 6);
    let mut writer = fs::OpenOptions::new().append(true).open(&log).unwrap();
    fs::rename(&log, here("app.log.1")).unwrap();
    fs::write(&log, b"of the next day\n").unwrap();
    // The writer has not opened the new file yet.
    writer.write_all(b"last\n").unwrap();
    assert_exit(&follower.end(), 0);
    assert_eq!(fs::read(here("copy")).unwrap(), b"first\nlast\n");
    let output = sharer.wait_with_output().unwrap();
    assert_exit(&output, 4);
    assert!(stderr(&output).contains("was replaced by another file"), "{}", stderr(&output));
}

#[cfg(target_os = "linux")]
#[test]
fn a_stream_that_is_over_is_served_without_a_busy_loop() {
    let dir = tempfile::tempdir().unwrap();
    let share = Share::with(Path::new("-"), &dir.path().join("store"), &EVERY);
    let is_last = |event: &serde_json::Value| event["last"] == true;
    until("the last checkpoint", || share.told("checkpoint").iter().any(is_last));
    // The work at the end of the stream may sleep once or twice.
    let enough = common::sleeps(share.pid()) + 10;
    until("sleep", || common::sleeps(share.pid()) >= enough);
}

#[test]
fn a_stopped_follower_exits_with_130_and_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let log = file(dir.path(), "log", &noise(50_000, 1));
    let sharer = share(&log, &here("store"));
    let out = here("out");
    let follower = Follower::start(&here("other"), &sharer.ticket, &out, &[]);
    until("it has the beginning", || len(&out) == 50_000);
    follower.signal("-INT");
    assert_exit(&follower.end(), 130);
    append(&log, &noise(10_000, 2));
    // Bytes that a loss of power left after the verified ones are cut off.
    append(&out, &[0; 3_000]);
    let follower = Follower::start(&here("other"), &sharer.ticket, &out, &[]);
    until("it has the rest", || len(&out) == 60_000 && same(&out, &log));
    // Another follower cannot write the same file.
    let second = get(&here("other"), &["--follow", &sharer.ticket, "-o", text(&out)]);
    assert_exit(&second, 4);
    send(sharer.pid(), "-TERM");
    assert_exit(&follower.end(), 0);
    assert!(same(&out, &log));
    drop(sharer);
    // A file that is no prefix of the stream is left alone.
    let mine = file(dir.path(), "mine", b"something else");
    let sharer = share(&log, &here("store"));
    let refused = get(&here("other"), &["--follow", &sharer.ticket, "-o", text(&mine)]);
    assert_exit(&refused, 2);
    assert_eq!(fs::read(&mine).unwrap(), b"something else");
}

#[test]
fn a_history_that_was_rewritten_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let mut bytes = noise(100_000, 1);
    let log = file(dir.path(), "log", &bytes);
    let sharer = share(&log, &here("store"));
    let listen = sharer.link.clone();
    let old = sharer.ticket.clone();
    let out = here("out");
    let follower = Follower::start(&here("other"), &old, &out, &[]);
    until("it has the beginning", || len(&out) == 100_000);
    drop(sharer);
    // The publisher's state is wiped, a byte in the middle of the published part changed, and the same key signs on
    // under the same name.
    fs::remove_dir_all(here("store").join("growing")).unwrap();
    bytes[30_000] ^= 1;
    bytes.extend(noise(50_000, 2));
    fs::write(&log, &bytes).unwrap();
    let forger = share_at(&log, &here("store"), &listen);
    let output = follower.end();
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("another history"), "{}", stderr(&output));
    // The deceived follower keeps evidence that any verifier accepts.
    let kept = evidence(&here("other"));
    assert_eq!(kept.len(), 1);
    let mut shown = xylem(&here("anybody"));
    shown.args(["verify", "--evidence", text(&kept[0])]);
    assert_exit(&finish(shown), 0);
    assert_eq!(fs::read(&out).unwrap().len(), 100_000, "nothing of it was written");
    let extends = |old: &str, new: &str| {
        let mut command = xylem(&here("other"));
        command.args(["verify", "--extends", old, new]);
        finish(command)
    };
    let output = extends(&old, &forger.ticket);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("NOT A CONTINUATION"), "{}", stderr(&output));
    // A true continuation is accepted.
    let before = forger.ticket.clone();
    drop(forger);
    append(&log, &noise(1_000_000, 3));
    let sharer = share_at(&log, &here("store"), &listen);
    assert_exit(&extends(&before, &sharer.ticket), 0);
    assert_exit(&extends(&sharer.ticket, &before), 1);
    assert_exit(&extends("xylem:aaaa", &before), 2);
}

#[test]
fn a_file_that_shrinks_or_is_rewritten_ends_the_share() {
    type Change = fn(&Path);
    let changes: [Change; 3] = [
        |log| fs::File::options().write(true).open(log).unwrap().set_len(10).unwrap(),
        |log| fs::write(log, noise(200_000, 9)).unwrap(),
        |log| {
            let other = log.with_extension("new");
            fs::write(&other, noise(200_000, 9)).unwrap();
            fs::rename(other, log).unwrap();
        },
    ];
    for change in changes {
        let dir = tempfile::tempdir().unwrap();
        let log = file(dir.path(), "log", &noise(100_000, 1));
        let mut command = xylem(&dir.path().join("store"));
        command.args(["share", "--listen", "127.0.0.1:0"]).args(EVERY).arg(&log);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ticket = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ticket).unwrap();
        change(&log);
        let output = child.wait_with_output().unwrap();
        assert_exit(&output, 4);
        assert!(stderr(&output).contains("not only appended to"), "{}", stderr(&output));
        // A later share does not take it for the same file either.
        let again = finish({
            let mut command = xylem(&dir.path().join("store"));
            command.args(["share", "--listen", "127.0.0.1:0"]).args(EVERY).arg(&log);
            command
        });
        assert_exit(&again, 4);
    }
}
