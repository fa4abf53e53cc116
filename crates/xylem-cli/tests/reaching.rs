//! Reports of `share` and `xylem net reach` on how this machine is reached, and of `get` on the way that it took: in
//! network namespaces with public and private addresses, and at a relay on loopback.
#![cfg(unix)]

use std::path::Path;
use std::process::Stdio;

use crate::common;
use crate::common::relay::TestRelay;
use crate::common::{Share, assert_exit, file, finish, get_json, noise, text, until, xylem};
use serde_json::Value;

fn events(stdout: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(stdout);
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Runs `xylem net reach`; returns its exit code, and `what`, `good` and `says` of each try.
fn reach(dir: &Path, more: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = xylem(&dir.join("store"));
    command.args(["--json", "net", "reach"]).args(more).stdin(Stdio::null());
    let output = finish(command);
    (output.status.code(), events(&output.stdout))
}

fn tries<'a>(events: &'a [Value], what: &str) -> Vec<(Option<bool>, &'a str)> {
    let of = events.iter().filter(|event| event["event"] == "probe" && event["what"] == what);
    of.map(|event| (event["good"].as_bool(), event["says"].as_str().unwrap())).collect()
}

#[test]
fn a_machine_on_loopback_alone_is_reported_as_local_only() {
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = reach(dir.path(), &["--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(3), "{said:?}");
    let last = said.last().unwrap();
    assert_eq!(
        (&last["event"], &last["way"], &last["nat"]),
        (&"reach".into(), &"here".into(), &"unknown".into())
    );
    assert!(tries(&said, "port_mapping")[0].1.contains("not asked"));
    assert!(tries(&said, "relay_udp")[0].1.contains("none was given"), "{said:?}");
    // As lines for people.
    let mut command = xylem(&dir.path().join("store"));
    command.args(["net", "reach", "--listen", "127.0.0.1:0"]).stdin(Stdio::null());
    let output = finish(command);
    assert_exit(&output, 3);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.ends_with("Reach: this machine only\n"), "{said}");
}

/// It is where shares listen, and one of them does.
#[test]
fn the_port_of_a_share_ends_no_trial_of_reach() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut command = xylem(&dir.path().join("store"));
    command.args(["net", "reach", "--no-map"]).stdin(Stdio::null());
    command.env("XYLEM_LISTEN", taken.local_addr().unwrap().to_string());
    let output = finish(command);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", common::stderr(&output));
}

#[test]
fn registered_and_silent_relays_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let relay = TestRelay::honest();
    let (code, said) = reach(dir.path(), &["--listen", "127.0.0.1:0", "--relay", &relay.uri]);
    assert_eq!(code, Some(0), "{said:?}");
    let udp = tries(&said, "relay_udp");
    assert!(
        udp.iter().any(|(good, says)| *good == Some(true) && says.contains("registered")),
        "{udp:?}"
    );
    assert!(
        udp.iter().any(|(_, says)| says.contains("it sees this machine at 127.0.0.1:")),
        "{udp:?}"
    );
    // The relay listens for no TCP.
    assert_eq!(tries(&said, "relay_tcp")[0].0, Some(false), "{said:?}");
    let way = said.iter().find(|event| event["event"] == "reach").unwrap();
    assert_eq!(way["way"], "punched");

    let nobody = format!("{}@127.0.0.1:9", &relay.uri[..64]);
    let (code, said) = reach(dir.path(), &["--listen", "127.0.0.1:0", "--relay", &nobody]);
    assert_eq!(code, Some(3), "{said:?}");
    assert_eq!(tries(&said, "relay_udp")[0].0, Some(false), "{said:?}");
}

#[test]
fn share_reports_its_relay_and_get_reports_its_way() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", &noise(300_000, 3));
    let relay = TestRelay::honest();
    let share = Share::with(&source, &dir.path().join("store"), &["--relay", &relay.uri]);
    until("it is said", || !share.told("reach").is_empty());
    assert_eq!(share.told("reach")[0]["way"], "punched", "{:?}", share.told("reach"));
    let out = dir.path().join("out");
    let arguments = [&share.ticket, "-o", text(&out)];
    let (code, done) = get_json(&dir.path().join("other"), &arguments);
    assert_eq!(code, Some(0));
    let ways = done["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 1, "{done}");
    // On loopback both ways are found within a moment of each other.
    assert_eq!(ways[0]["way"], "lan", "{done}");
    assert_eq!(ways[0]["peer"], share.link.as_str());
    assert!(ways[0]["seconds"].as_f64().unwrap() >= 0.0);
    // The same for people, with -v.
    std::fs::remove_file(&out).unwrap();
    let mut command = xylem(&dir.path().join("third"));
    command.args(["-v", "get"]).args(arguments).stdin(Stdio::null());
    let output = finish(command);
    assert_exit(&output, 0);
    let said = common::stderr(&output);
    assert!(said.contains(&format!("Way to {}: ", share.link)), "{said}");
}

#[cfg(target_os = "linux")]
mod namespaces {
    use super::*;
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command};

    /// A machine of its own with one interface that has a default route.
    fn machine(address: &str, router: &str) -> String {
        format!(
            "ip link set lo up && ip link add up type veth peer name far && \
             ip addr add {address} dev up nodad && ip link set far up && ip link set up up && \
             ip route add default via {router} dev up"
        )
    }

    fn can(machine: &str) -> bool {
        let made = Command::new("unshare").args(["-n", "sh", "-c", machine]).output();
        let can = made.is_ok_and(|made| made.status.success());
        if !can {
            common::skipped("no right to make a network namespace, or no veth");
        }
        can
    }

    fn on(machine: &str, store: &Path, arguments: &[&str]) -> Child {
        // Bounded by `timeout`: a share never ends by itself.
        let script = format!("{machine} && exec timeout 20 \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", &script, "sh", common::XYLEM, "--store"]);
        command.arg(store).args(arguments).env_remove("XYLEM_LISTEN").env_remove("XYLEM_RELAY");
        command.env("XDG_CONFIG_HOME", store).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The first line of a share about reach.
    fn said(mut child: Child) -> String {
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let found = lines.map_while(Result::ok).find(|line| line.starts_with("Reach: "));
        let _ = child.kill();
        child.wait().unwrap();
        found.expect("how it is reached is said")
    }

    #[test]
    fn share_reports_only_known_facts_about_reach() {
        let dir = tempfile::tempdir().unwrap();
        let (source, store) = (file(dir.path(), "source", b"x"), dir.path().join("store"));
        let public = machine("198.51.100.7/24", "198.51.100.1");
        if !can(&public) {
            return;
        }
        let table = [
            (public, "directly at 198.51.100.7:7348, unless a firewall drops UDP"),
            (
                machine("192.168.50.7/24", "192.168.50.1"),
                "this LAN only: name a relay (--relay) or forward UDP 7348",
            ),
            (
                machine("100.64.9.9/10", "100.64.0.1"),
                "this LAN only: name a relay (--relay) or forward UDP 7348",
            ),
        ];
        for (machine, says) in table {
            let child = on(&machine, &store, &["share", "--no-map", "--no-lan", text(&source)]);
            assert_eq!(said(child), format!("Reach: {says}"));
        }
        let announced = ["share", "--announce", "me.example.org:7000", text(&source)];
        let child = on(&machine("192.168.50.7/24", "192.168.50.1"), &store, &announced);
        assert_eq!(said(child), "Reach: as announced, unchecked");
    }

    #[test]
    fn a_machine_reports_its_addresses_without_a_relay() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let public = machine("198.51.100.7/24", "198.51.100.1");
        if !can(&public) {
            return;
        }
        for (machine, code, way) in
            [(public, 0, "direct"), (machine("192.168.50.7/24", "192.168.50.1"), 3, "lan")]
        {
            let output =
                on(&machine, &store, &["--json", "net", "reach"]).wait_with_output().unwrap();
            assert_exit(&output, code);
            let said = events(&output.stdout);
            assert_eq!(said.last().unwrap()["way"], way, "{said:?}");
            assert_eq!(tries(&said, "ipv4")[0].0, (code == 0).then_some(true));
            // There is no router at the other end of that cable.
            let mapping = tries(&said, "port_mapping");
            assert_eq!(mapping[0].0, (code == 3).then_some(false), "{mapping:?}");
        }
    }

    #[test]
    fn a_router_is_not_asked_where_settings_forbid_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let machine = machine("192.168.50.7/24", "192.168.50.1");
        if !can(&machine) {
            return;
        }
        fs::create_dir_all(store.join("xylem")).unwrap();
        fs::write(store.join("xylem/config.toml"), "map = false\n").unwrap();
        let output = on(&machine, &store, &["--json", "net", "reach"]).wait_with_output().unwrap();
        assert_exit(&output, 3);
        let said = events(&output.stdout);
        let mapping = tries(&said, "port_mapping");
        assert!(mapping[0].0.is_none() && mapping[0].1.contains("not asked"), "{mapping:?}");
    }
}
