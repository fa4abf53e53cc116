//! Mail where a store is not as it was: restored from a backup, or with damaged files. Later messages arrive, and
//! unreadable ones are named.

use crate::common;
use crate::common::{assert_exit, file, finish, stderr, text, until, xylem};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

struct Person {
    dir: tempfile::TempDir,
    at: String,
}

impl Person {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap().to_string();
        Self { dir: tempfile::tempdir().unwrap(), at }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = xylem(&self.store());
        command.arg("--json").args(arguments).stdin(Stdio::null());
        finish(command)
    }

    /// Files of a directory of its mail, sorted.
    fn files(&self, directory: &str) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.store().join("mail").join(directory));
        let mut files: Vec<_> =
            listed.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// The texts of its notes, sorted. The exit status of the listing is ignored, which is not 0 if it names damage.
    fn notes(&self) -> Vec<String> {
        let listed = self.run(&["inbox", "list"]);
        let arrived = events(&listed).into_iter().filter(|e| e["event"] == "mail");
        let read = |mail: Value| {
            let output = self.run(&["inbox", "accept", &mail["number"].to_string()]);
            let note = events(&output).into_iter().find(|e| e["event"] == "note");
            note.expect("a note")["text"].as_str().unwrap().to_owned()
        };
        let mut notes: Vec<String> = arrived.map(read).collect();
        notes.sort();
        notes
    }

    fn listen(&self) -> Listening {
        let mut command = xylem(&self.store());
        command.args(["--json", "inbox", "--listen", &self.at]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.by_ref().map(Result::unwrap).find(|line| line.contains("\"listening\"")).unwrap();
        let told = common::Events::default();
        let into = told.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                into.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Listening { child, told }
    }
}

struct Listening {
    child: Child,
    told: common::Events,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A sender and a receiver that have each other's cards.
fn two() -> (Person, Person) {
    let (ann, bob) = (Person::new(), Person::new());
    for (who, other, name) in [(&ann, &bob, "bob"), (&bob, &ann, "ann")] {
        let card = other.run(&["inbox", "card", "--announce", &other.at]);
        let card = events(&card)[0]["card"].as_str().unwrap().to_owned();
        assert_exit(&who.run(&["inbox", "trust", name, &card]), 0);
    }
    (ann, bob)
}

fn send(from: &Person, note: &str) -> Output {
    let note = file(from.dir.path(), "note", note.as_bytes());
    from.run(&["send", "--note", text(&note), "bob", "--timeout", "5"])
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

fn cut(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn mail_goes_on_after_a_backup_was_restored() {
    for (sender, receiver) in [(true, false), (false, true), (true, true)] {
        let (ann, bob) = two();
        let backup = [(&ann, sender), (&bob, receiver)];
        let listening = bob.listen();
        assert_exit(&send(&ann, "before"), 0);
        drop(listening);
        let kept = |who: &Person| who.dir.path().join("backup");
        backup.iter().for_each(|(who, _)| copy(&who.store(), &kept(who)));
        let listening = bob.listen();
        ["lost-1", "lost-2"].iter().for_each(|note| assert_exit(&send(&ann, note), 0));
        drop(listening);
        for (who, _) in backup.iter().filter(|(_, restored)| *restored) {
            copy(&kept(who), &who.store());
        }
        let _listening = bob.listen();
        for note in ["after-1", "after-2", "after-3"] {
            assert_exit(&send(&ann, note), 0);
        }
        let notes = bob.notes();
        for note in ["before", "after-1", "after-2", "after-3"] {
            assert!(notes.iter().any(|n| n == note), "{sender} {receiver}: {note} of {notes:?}");
        }
        assert!(ann.files("outbox").is_empty());
    }
}

#[test]
fn damaged_mail_is_named_and_nothing_is_lost_beside_it() {
    let (ann, bob) = two();
    let listening = bob.listen();
    for note in ["one", "two", "three"] {
        assert_exit(&send(&ann, note), 0);
    }
    drop(listening);
    let check = || bob.run(&["store", "check"]);
    assert_exit(&check(), 0);

    let named = |output: &Output, what: &str, path: &Path| {
        let (said, path) = (String::from_utf8_lossy(&output.stdout), text(path));
        assert_exit(output, 1);
        assert!(said.contains(what) && said.contains(path), "{said} {}", stderr(output));
    };
    let last = bob.files("inbox")[2].clone();
    cut(&last);
    // Numbering restarts where the last number is lost.
    fs::remove_file(bob.store().join("mail/last-number")).unwrap();
    named(&bob.run(&["inbox", "list"]), "a received message is damaged", &last);
    named(&check(), "a received message is damaged", &last);
    assert_eq!(bob.notes(), ["one", "two"]);
    let damaged = fs::read(&last).unwrap();
    let listening = bob.listen();
    assert_exit(&send(&ann, "four"), 0);
    drop(listening);
    assert_eq!(fs::read(&last).unwrap(), damaged, "it is kept");
    assert_eq!(bob.notes(), ["four", "one", "two"]);
    fs::remove_file(&last).unwrap();
    assert_exit(&check(), 0);

    // The state of a conversation is damaged: it is kept under another name and begun anew. The message that met it is
    // not lost.
    let session = bob.files("sessions")[0].clone();
    cut(&session);
    named(&check(), "the state of a conversation is damaged", &session);
    named(&bob.run(&["inbox", "list"]), "the state of a conversation is damaged", &session);
    let state = fs::read(&session).unwrap();
    let listening = bob.listen();
    let waits = send(&ann, "five");
    assert_exit(&waits, 3);
    until("a warning", || listening.told.lock().unwrap().iter().any(|e| e["event"] == "trouble"));
    assert_exit(&send(&ann, "six"), 0);
    assert_eq!(bob.notes(), ["five", "four", "one", "six", "two"]);
    drop(listening);
    let aside = bob.files("damaged");
    assert_eq!(aside.len(), 1);
    assert_eq!(fs::read(&aside[0]).unwrap(), state, "it is kept");
    assert_exit(&check(), 0);

    // A message in the outbox.
    assert_exit(&send(&ann, "seven"), 3);
    let waiting = ann.files("outbox")[0].clone();
    cut(&waiting);
    named(&ann.run(&["store", "check"]), "a message that waits for delivery is damaged", &waiting);
    named(&ann.run(&["inbox", "list"]), "a message that waits for delivery is damaged", &waiting);
    assert!(waiting.exists());
}
