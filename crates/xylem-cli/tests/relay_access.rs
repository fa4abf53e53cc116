//! A relay of the real program that serves its own users alone: by link key, or by a token.
#![cfg(unix)]

use crate::common;
use crate::common::fetching::FetchSetup;
use crate::common::relaying::{Client, until};
use crate::common::{Node, Share, assert_exit, get, stderr, xylem};
use xylem_object::Ticket;
use xylem_reach::relay::{RelayRefusal, TeamToken};

const TOKEN: &str = "correct-horse-battery";

/// A relay on loopback with more settings in its table.
fn relay(place: &FetchSetup, settings: &str) -> (Node, String) {
    let settings = format!(
        "[node]\nlisten = [\"xylem://127.0.0.1:0\"]\n[node.relay]\nreport_seconds = 1\n{settings}\n"
    );
    let node = Node::with(place.dir.path(), &settings);
    let uri = node.at("xylem").to_owned();
    (node, uri)
}

/// A share without the token is refused in one line. With it, the share is registered, and only a getter that has the
/// token, too, gets the file: its ticket has none.
#[test]
fn only_users_with_the_token_meet_at_a_closed_relay() {
    let place = FetchSetup::new(10_000, 1);
    let (node, uri) = relay(&place, &format!("tokens = [\"{TOKEN}\"]"));
    let with_token = format!("{uri}?token={TOKEN}");

    let share = Share::with(&place.source, &place.dir.path().join("refused"), &["--relay", &uri]);
    common::until("it is refused", || !share.told("relay").is_empty());
    let told = share.told("relay").remove(0);
    assert_eq!(told["registered"], false);
    let why = told["why"].as_str().expect("a reason");
    assert!(why.contains("serves only its own users") && why.contains("?token=TOKEN"), "{why}");

    let store = place.dir.path().join("store");
    let share = Share::with(&place.source, &store, &["--relay", &with_token]);
    common::until("it is registered", || {
        share.told("relay").iter().any(|told| told["registered"] == true)
    });
    let mut ticket: Ticket = share.ticket.parse().expect("a ticket");
    assert_eq!(ticket.relays.len(), 1);
    assert!(!format!("{ticket:?}").contains(TOKEN));
    // An address reserved for documentation never answers.
    ticket.addresses = vec!["192.0.2.1:9999".parse().expect("an address")];
    let ticket = ticket.to_string();

    let output = get(&place.dir.path().join("stranger"), &[&ticket, "--timeout", "3"]);
    assert_exit(&output, 3);
    assert!(stderr(&output).contains("serves only its own users"), "{}", stderr(&output));

    let mut fetched = place.get("b", &ticket, &["--relay", &with_token]);
    assert_eq!(fetched.wait(), Some(0));
    place.is_right("b");
    common::until("refusals are counted", || {
        let last = node.told("relayed").last().cloned().unwrap_or_default();
        last["refused_not_allowed"].as_u64() >= Some(2) && last["offences"] == 0
    });
}

/// A listed link key needs no token, a wrong token opens nothing, and a proof counts for its own client.
#[test]
fn a_closed_relay_serves_listed_keys() {
    let place = FetchSetup::new(1, 2);
    let hex = |key: [u8; 32]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let list = place.dir.path().join("list");
    std::fs::write(&list, format!("# people\n\n{} # Bob\n", hex(Client::key_of(2)))).unwrap();
    let settings = format!(
        "allow = [\"{}\"]\nallow_file = {list:?}\ntokens = [\"{TOKEN}\"]",
        hex(Client::key_of(1))
    );
    let (_node, uri) = relay(&place, &settings);
    let loopback = [127, 0, 0, 1].into();
    for seed in [1, 2] {
        let mut listed = Client::new(&uri, loopback, seed, true, vec![]);
        until("registration", &mut [&mut listed], |all| all[0].is_registered());
    }
    let relay_key = common::relaying::relay_at(&uri).0;
    let proof = |token: &str, seed| {
        let token: TeamToken = token.parse().expect("a token");
        token.proof(&relay_key, &Client::key_of(seed))
    };
    for (seed, proof) in
        [(3, None), (4, Some(proof("a-token-of-another-team", 4))), (5, Some(proof(TOKEN, 6)))]
    {
        let mut other = Client::proving(&uri, loopback, seed, proof);
        until("refusal", &mut [&mut other], |all| all[0].refused().is_some());
        assert_eq!(other.refused(), Some(RelayRefusal::NotAllowed));
    }
    let mut member = Client::proving(&uri, loopback, 6, Some(proof(TOKEN, 6)));
    until("registration", &mut [&mut member], |all| all[0].is_registered());
}

/// A relay that is named by its host alone is asked for its key, which holds for the run and is in the ticket. One that
/// answers no strangers is reported in one line.
#[test]
fn a_relay_named_without_its_key_is_asked_for_it() {
    let place = FetchSetup::new(1_000, 5);
    for opens in [true, false] {
        let dir = place.dir.path().join(format!("{opens}"));
        std::fs::create_dir(&dir).unwrap();
        let settings = format!(
            "[node]\nlisten = [\"xylem://127.0.0.1:0\"]\naccept_open = {opens}\n[node.relay]\n"
        );
        let node = Node::with(&dir, &settings);
        let (key, at) = common::relaying::relay_at(node.at("xylem"));
        common::until("relaying", || !node.told("relaying").is_empty());
        let hosts = node.told("relaying").remove(0)["hosts"].clone();
        if opens {
            assert_eq!(hosts, serde_json::json!([at.to_string()]));
            let store = dir.join("store");
            let share = Share::with(&place.source, &store, &["--relay", &at.to_string()]);
            common::until("it is registered", || {
                share.told("relay").iter().any(|told| told["registered"] == true)
            });
            let ticket: Ticket = share.ticket.parse().expect("a ticket");
            assert_eq!(ticket.relays[0].key, key);
        } else {
            assert_eq!(hosts, serde_json::json!([]));
            let mut command = xylem(&dir.join("store"));
            command.args(["share", "--relay", &at.to_string()]).arg(&place.source);
            let output = common::finish(command);
            assert_exit(&output, 3);
            let text = stderr(&output);
            assert!(text.contains("KEY@HOST:PORT") && text.lines().count() == 1, "{text}");
        }
    }
}

/// A relay for strangers has no list, and a unit, which all can read, has no token.
#[test]
fn a_token_is_refused_where_it_makes_no_sense() {
    let place = FetchSetup::new(1, 4);
    let settings = place.dir.path().join("settings.toml");
    std::fs::write(&settings, format!("[node.relay]\ntokens = [\"{TOKEN}\"]\n")).unwrap();
    let mut command = xylem(&place.dir.path().join("relay"));
    command.args(["relay", "--volunteer", "--config"]).arg(&settings);
    let output = common::finish(command);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("--volunteer"), "{}", stderr(&output));
    let mut command = xylem(&place.dir.path().join("service"));
    let relay = format!("{}@192.0.2.1:1?token={TOKEN}", "a5".repeat(32));
    command.args(["service", "install", "--no-start", "--relay", &relay]);
    let output = common::finish(command);
    assert_exit(&output, 2);
    let text = stderr(&output);
    assert!(text.contains("under `relay` in the settings") && !text.contains(TOKEN), "{text}");
}

#[test]
fn a_token_that_others_can_read_causes_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let place = FetchSetup::new(1, 6);
    let settings = place.dir.path().join("settings.toml");
    // The list ends the run after the warning.
    let list = format!("tokens = [\"{TOKEN}\"]\nallow_file = \"/missing\"\n");
    std::fs::write(&settings, format!("[node.relay]\n{list}")).unwrap();
    for (mode, warns) in [(0o644, true), (0o640, true), (0o600, false)] {
        std::fs::set_permissions(&settings, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = xylem(&place.dir.path().join("relay"));
        command.args(["relay", "--listen", "xylem://127.0.0.1:0", "--config"]).arg(&settings);
        let output = common::finish(command);
        assert_exit(&output, 2);
        let text = stderr(&output);
        assert_eq!(text.contains("other users of this machine"), warns, "{mode:o}: {text}");
        assert!(!text.contains(TOKEN), "{text}");
    }
}

/// A closed relay whose list is missing or broken does not start: it would serve fewer than it should.
#[test]
fn a_relay_without_its_list_does_not_start() {
    let place = FetchSetup::new(1, 3);
    let list = place.dir.path().join("list");
    let settings = place.dir.path().join("settings.toml");
    std::fs::write(&settings, format!("[node.relay]\nallow_file = {list:?}\n")).unwrap();
    let run = || {
        let mut command = xylem(&place.dir.path().join("relay"));
        command.args(["relay", "--listen", "xylem://127.0.0.1:0", "--config"]).arg(&settings);
        common::finish(command)
    };
    for (content, why) in
        [(None, "No such file"), (Some("# people\nBob\n"), "line 2 is no link key")]
    {
        if let Some(content) = content {
            std::fs::write(&list, content).unwrap();
        }
        let output = run();
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    // A pipe without a writer would never end.
    std::fs::remove_file(&list).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&list).status().unwrap().success());
    let output = run();
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("not a file"), "{}", stderr(&output));
}
