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
        let (list, signature) = self.signs(lines, by);
        self.puts(&list, &signature);
    }

    /// A list and its signature by this key.
    fn signs(&self, lines: &str, by: &str) -> (Vec<u8>, Vec<u8>) {
        let list = format!("xylem relays 1\n{lines}\n").into_bytes();
        let signature = self.key(&["sign", text(&file(&self.dir, "to sign", &list)), "--by", by]);
        assert_exit(&signature, 0);
        (list, signature.stdout)
    }

    /// Puts both files in place of the earlier ones.
    fn puts(&self, list: &[u8], signature: &[u8]) {
        file(&self.dir, "relays", list);
        file(&self.dir, "relays.sig", signature);
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

/// The warnings of a share that have this text.
fn warnings(share: &Share, with: &str) -> usize {
    let told = share.told("trouble");
    told.iter().filter(|told| told["what"].as_str().is_some_and(|what| what.contains(with))).count()
}

/// A member's share registers with the listed relay, which its ticket names. When the list names another one, the running share
/// moves there, and to nothing else.
#[test]
fn a_running_share_follows_the_list_of_its_organisation() {
    let dir = tempfile::tempdir().unwrap();
    let org = Organisation::new(dir.path());
    let ((old, old_uri), (new, new_uri)) = (org.relay("old"), org.relay("new"));
    let earlier = org.signs(&new_uri, "/org");
    org.lists(&format!("{old_uri} # Frankfurt"), "/org");
    let source = file(dir.path(), "source", &noise(300_000, 1));
    let share = Share::run(org.member("store"), &source, &[]);
    until("it is registered", || registrations(&old) == Some(1));
    let ticket: Ticket = share.ticket.parse().expect("a ticket");
    assert_eq!(ticket.relays.len(), 1);
    assert!(old_uri.contains(&ticket.relays[0].to_string()), "{:?}", ticket.relays);

    // Another key than the organisation's moves no member, and is reported.
    assert_exit(&org.key(&["new", "/mallory"]), 0);
    let stays = |what: &str, reports: &str| {
        // A second reading changes nothing either.
        let before = warnings(&share, reports);
        until(what, || warnings(&share, reports) >= before + 2);
        assert_eq!((registrations(&old), registrations(&new).unwrap_or(0)), (Some(1), 0), "{what}");
    };
    org.lists(&new_uri, "/mallory");
    stays("another key", "key is unknown");
    // An earlier list of the organisation's moves no member back.
    org.puts(&earlier.0, &earlier.1);
    stays("an earlier list", "older than the one in use");
    // While the new relay's name leads nowhere, the share stays where it is.
    let (key, _) = new_uri.split_once('@').expect("a key");
    org.lists(&format!("{key}@relay.invalid:1"), "/org");
    stays("a name that leads nowhere", "relay.invalid");

    org.lists(&new_uri, "/org");
    until("it has moved", || registrations(&new) == Some(1) && registrations(&old) == Some(0));
}

/// The code on the screen has its number from the relay that was listed first. It leads to the share also after the list names another.
#[test]
fn a_code_keeps_its_relay_when_the_list_names_another() {
    let dir = tempfile::tempdir().unwrap();
    let org = Organisation::new(dir.path());
    let ((old, old_uri), (new, new_uri)) = (org.relay("old"), org.relay("new"));
    org.lists(&old_uri, "/org");
    let source = file(dir.path(), "source", &noise(100_000, 1));
    let share = Share::run(org.member("store"), &source, &["--code", "--no-dht"]);
    until("a code", || !share.told("code").is_empty());
    let code = share.told("code")[0]["code"].as_str().expect("a text").to_owned();
    org.lists(&new_uri, "/org");
    until("it has come to the new relay", || registrations(&new) == Some(1));
    let mut get = xylem(&dir.path().join("store of the getter"));
    get.args(["get", &code, "--relay", &old_uri, "--no-lan", "--no-dht", "-o"]);
    get.arg(dir.path().join("out"));
    assert_exit(&finish(get), 0);
    assert!(fs::read(dir.path().join("out")).unwrap() == fs::read(&source).unwrap());
    assert_eq!(registrations(&old), Some(1));
}

/// A command that looks for a ticket and then for content reads the list once.
#[test]
fn an_old_list_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let org = Organisation::new(dir.path());
    let (_relay, uri) = org.relay("relay");
    org.lists(&format!("until 2020-01-31\n{uri}"), "/org");
    let source = file(dir.path(), "source", b"content");
    let share = Share::run(xylem(&dir.path().join("store")), &source, &[]);
    let mut get = org.member("member");
    get.args(["get", &share.ticket, "-o"]).arg(dir.path().join("out"));
    let output = finish(get);
    assert_exit(&output, 0);
    let said = stderr(&output);
    assert_eq!(said.matches("past its last day").count(), 1, "{said}");
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
