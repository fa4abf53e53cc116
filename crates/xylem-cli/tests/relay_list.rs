//! Relays from a list that an organisation signs (`[relay_list]` in the settings), with the real program.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use xylem_object::Ticket;

use crate::common::{Node, Share, assert_exit, file, finish, noise, stderr, text, until, xylem};

/// An organisation with a key, its list, and settings that name both.
struct Organisation {
    dir: PathBuf,
    settings: PathBuf,
}

impl Organisation {
    fn new(dir: &Path) -> Self {
        let own = Self { dir: dir.to_path_buf(), settings: dir.join("settings.toml") };
        assert_exit(&own.key(&["new", "/org"]), 0);
        let certificate = own.key(&["cert", "/org"]);
        file(dir, "org.cert", &certificate.stdout);
        let table = format!(
            "[relay_list]\nfile = {:?}\nsigner = {:?}\nread_seconds = 1\n",
            dir.join("relays"),
            dir.join("org.cert")
        );
        fs::write(&own.settings, table).unwrap();
        own
    }

    fn key(&self, args: &[&str]) -> Output {
        let mut command = xylem(&self.dir.join("store of the organisation"));
        command.arg("key").args(args);
        finish(command)
    }

    /// Replaces the list, signed by this key.
    fn lists(&self, lines: &str, by: &str) {
        let list = file(&self.dir, "relays", format!("xylem relays 1\n{lines}\n").as_bytes());
        let signature = self.key(&["sign", text(&list), "--by", by]);
        assert_exit(&signature, 0);
        file(&self.dir, "relays.sig", &signature.stdout);
    }

    /// The program of one of its members.
    fn member(&self, store: &str) -> Command {
        let mut command = xylem(&self.dir.join(store));
        command.arg("--config").arg(&self.settings);
        command
    }

    /// A relay on loopback.
    fn relay(&self, name: &str) -> (Node, String) {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).unwrap();
        let settings =
            "[node]\nlisten = [\"xylem://127.0.0.1:0\"]\n[node.relay]\nreport_seconds = 1\n";
        let node = Node::with(&dir, settings);
        let uri = node.at("xylem").to_owned();
        (node, uri)
    }
}

fn registrations(node: &Node) -> Option<u64> {
    node.told("relayed").last()?["registrations"].as_u64()
}

/// A member's share registers with the listed relay, which its ticket names. When the list names another one, the running share
/// moves there.
#[test]
fn a_running_share_follows_the_list_of_its_organisation() {
    let dir = tempfile::tempdir().unwrap();
    let org = Organisation::new(dir.path());
    let ((old, old_uri), (new, new_uri)) = (org.relay("old"), org.relay("new"));
    org.lists(&format!("{old_uri} # Frankfurt"), "/org");
    let source = file(dir.path(), "source", &noise(300_000, 1));
    let share = Share::run(org.member("store"), &source, &[]);
    until("it is registered", || registrations(&old) == Some(1));
    let ticket: Ticket = share.ticket.parse().expect("a ticket");
    assert_eq!(ticket.relays.len(), 1);
    assert!(old_uri.contains(&ticket.relays[0].to_string()), "{:?}", ticket.relays);

    // Another key than the organisation's moves no member, and is reported.
    assert_exit(&org.key(&["new", "/mallory"]), 0);
    org.lists(&new_uri, "/mallory");
    until("a report", || {
        let told = share.told("trouble");
        told.iter()
            .any(|told| told["what"].as_str().is_some_and(|what| what.contains("stay in use")))
    });
    assert_eq!((registrations(&old), registrations(&new).unwrap_or(0)), (Some(1), 0));

    org.lists(&new_uri, "/org");
    until("it has moved", || registrations(&new) == Some(1) && registrations(&old) == Some(0));
}

/// A list that another key has signed, that has a wrong line or is missing, ends a command with one line. An old one is used, with a
/// warning. Named relays go before the list.
#[test]
fn a_wrong_list_is_refused_and_an_old_one_used() {
    let dir = tempfile::tempdir().unwrap();
    let org = Organisation::new(dir.path());
    let (_relay, uri) = org.relay("relay");
    assert_exit(&org.key(&["new", "/mallory"]), 0);
    let run = |more: &[&str]| {
        let mut command = org.member("member");
        command.args(["--json", "net", "reach", "--no-map", "--listen", "127.0.0.1:0"]).args(more);
        finish(command)
    };
    let refused = |code: i32, says: &str| {
        let output = run(&[]);
        assert_exit(&output, code);
        let said = stderr(&output);
        let events = String::from_utf8_lossy(&output.stdout).into_owned();
        let all = format!("{said}{events}");
        assert!(all.contains(says) && all.lines().count() <= 2, "{all}");
    };
    refused(2, "No such file");
    org.lists(&uri, "/mallory");
    refused(1, "relays.sig");
    org.lists(&format!("{uri}\nnonsense"), "/org");
    refused(2, "line 3");
    org.lists(&format!("{uri}?token=correct-horse-battery"), "/org");
    refused(2, "a list has no tokens");
    let nowhere = format!("{}@127.0.0.1:9", "a5".repeat(32));
    for (lines, more, way) in [
        (format!("until 2020-01-31\n{uri}"), &[][..], "punched"),
        (format!("until 2999-01-31\n{uri}"), &[], "punched"),
        (nowhere, &["--relay", &uri], "punched"),
    ] {
        org.lists(&lines, "/org");
        let output = run(more);
        assert_exit(&output, 0);
        let warned = stderr(&output).contains("past its last day");
        assert_eq!(warned, lines.contains("2020"), "{lines}: {}", stderr(&output));
        let events = String::from_utf8_lossy(&output.stdout).into_owned();
        let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
        assert_eq!(last["way"], way, "{events}");
    }
}
