//! Which addresses a ticket names, and how `share` reports them.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::common;
use crate::common::{Share, assert_exit, file, finish, until, xylem};

fn addresses(reachable: &serde_json::Value) -> Vec<&str> {
    reachable["addresses"].as_array().unwrap().iter().filter_map(|a| a.as_str()).collect()
}

#[test]
fn announced_addresses_come_first_and_names_stay_names() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), "source", b"x");
    let announce = ["--announce", "me.example.org:7000", "--announce", "198.51.100.9:443"];
    let share = Share::with(&source, &dir.path().join("store"), &announce);
    until("it is told", || !share.told("reachable").is_empty());
    let told = share.told("reachable");
    assert_eq!(addresses(&told[0]), ["me.example.org:7000", "198.51.100.9:443", &share.link]);
    for wrong in ["me.example.org", "0.0.0.0.0:7", ":7", "me..org:7", "me.org:70000"] {
        let mut command = xylem(&dir.path().join("store"));
        command.args(["share", "--announce", wrong]).arg(&source);
        let output = finish(command);
        assert_exit(&output, 2);
    }
}

/// A machine with a default route over one interface, another network beside it, and the bridge that
/// container software leaves behind.
#[cfg(target_os = "linux")]
const MACHINE: &str = "
    ip link set lo up &&
    ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up &&
    ip link add lan type veth peer name lan-far && ip addr add 198.51.100.7/24 dev lan &&
    ip link set lan-far up && ip link set lan up &&
    ip link add uplink type veth peer name uplink-far && ip addr add 192.168.50.7/24 dev uplink &&
    ip link set uplink-far up && ip link set uplink up &&
    ip route add default via 192.168.50.1
";

#[cfg(target_os = "linux")]
#[test]
fn a_ticket_names_the_addresses_that_a_person_would() {
    let dir = tempfile::tempdir().unwrap();
    let can = Command::new("unshare").args(["-n", "sh", "-c", MACHINE]).output();
    if !can.is_ok_and(|made| made.status.success()) {
        common::skipped("no right to make a network namespace, or no veth");
        return;
    }
    let source = file(dir.path(), "source", b"x");
    let run = |arguments: &[&str]| {
        // Bounded by `timeout`: a share never ends by itself.
        let script = format!("{} && exec timeout 20 \"$@\"", MACHINE.trim_end());
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", &script, "sh", common::XYLEM, "--store"]);
        command.arg(dir.path().join("store")).args(arguments).arg("share").arg(&source);
        command.env_remove("XYLEM_LISTEN").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = run(&["--json"]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told: Option<serde_json::Value> = lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .find(|event: &serde_json::Value| event["event"] == "reachable");
    let _ = child.kill();
    child.wait().unwrap();
    let told = told.expect("where it can be reached is told");
    let named: Vec<&str> =
        addresses(&told).iter().filter_map(|at| at.rsplit_once(':')).map(|(ip, _)| ip).collect();
    assert_eq!(named, ["192.168.50.7", "198.51.100.7"], "{told}");
    let left: Vec<&str> = told["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|l| l["interface"].as_str())
        .collect();
    assert!(left.contains(&"docker0") && left.contains(&"lo"), "{told}");

    let mut child = run(&["-v"]);
    let mut lines = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        lines.push(line);
        if lines.iter().any(|line| line.contains("on docker0")) {
            break;
        }
    }
    let _ = child.kill();
    child.wait().unwrap();
    let says = |part: &str| assert!(lines.iter().any(|line| line.contains(part)), "{lines:?}");
    says("Reachable at 192.168.50.7:");
    says("not in the ticket: 172.17.0.1 on docker0 (a network of containers");
}
