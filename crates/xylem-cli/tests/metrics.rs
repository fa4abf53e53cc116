//! `--metrics`: what `share`, `get --seed` and `ndn node` show to Prometheus.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::common::fetching::Get;
use crate::common::{
    Node, Share, assert_exit, file, finish, get, listen_in, noise, skipped, stderr, text, until,
    xylem,
};

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The page at this port; empty while nothing listens.
fn page(port: u16) -> String {
    let mut page = String::new();
    let Ok(mut connection) = TcpStream::connect(("127.0.0.1", port)) else { return page };
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    connection.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    page.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The value of a metric, summed over its labels; `None` if the page does not have it.
fn value(page: &str, name: &str) -> Option<u64> {
    let of = |line: &str| {
        let (what, value) = line.rsplit_once(' ')?;
        (what.split('{').next() == Some(name)).then(|| value.parse::<u64>().unwrap())
    };
    let found: Vec<u64> =
        page.lines().filter(|line| !line.starts_with('#')).filter_map(of).collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

/// The text format: each metric has its help and type before its values, once.
fn is_well_formed(page: &str) {
    let mut known = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let (name, help) = line.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
        assert!(help.ends_with('.') && !known.contains(&name), "{page}");
        known.push(name);
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        assert_eq!(kind == "counter", name.ends_with("_total"), "{page}");
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (what, value) = line.rsplit_once(' ').unwrap();
            assert!(what == name || what.starts_with(&format!("{name}{{")), "{line}");
            value.parse::<u64>().unwrap();
        }
    }
    assert!(!known.is_empty());
    let mut promtool = std::process::Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    match promtool.stderr(Stdio::piped()).spawn() {
        Err(_) => skipped("no promtool"),
        Ok(mut tool) => {
            tool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
            let said = tool.wait_with_output().unwrap();
            assert!(said.status.success(), "{}", stderr(&said));
        }
    }
}

#[test]
fn a_share_shows_what_it_has_served() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (one, port) = (file(dir.path(), "o\"ne", &noise(300_000, 1)), free_port());
    let two = file(dir.path(), "two", b"2");
    let more = ["--metrics", &port.to_string(), text(&two)];
    let share = Share::with(&one, &at("store"), &more);
    until("the second ticket", || !share.told("shared").is_empty());
    let ticket = share.told("shared")[0]["ticket"].as_str().unwrap().to_owned();
    let idle = page(port);
    is_well_formed(&idle);
    assert_eq!(value(&idle, "xylem_shares"), Some(2), "{idle}");
    assert_eq!(value(&idle, "xylem_share_sent_bytes_total"), Some(0), "{idle}");
    for who in ["a", "b"] {
        assert_exit(
            &get(&at(who), &[&ticket, "--no-serve", "-o", text(&at(&format!("of-{who}")))]),
            0,
        );
    }
    let mut counted = String::new();
    until("both fetches and ends are counted", || {
        counted = page(port);
        value(&counted, "xylem_share_fetched_total") == Some(2)
            && value(&counted, "xylem_peers") == Some(0)
    });
    is_well_formed(&counted);
    assert_eq!(value(&counted, "xylem_share_peers_total"), Some(2), "{counted}");
    let sent = value(&counted, "xylem_share_sent_bytes_total").unwrap();
    assert!((600_000..900_000).contains(&sent), "{counted}");
    // All of it is that of the file that was fetched.
    let of_one = |line: &&str| line.contains("/o\\\"ne\"}") && line.starts_with("xylem_share_sent");
    assert!(counted.lines().find(of_one).unwrap().ends_with(&format!(" {sent}")), "{counted}");
}

#[test]
fn a_seed_shows_what_it_has_served() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let source = file(dir.path(), "source", &noise(300_000, 2));
    let share = Share::start(&source, &at("store"));
    let port = free_port();
    let more = ["--seed", "--listen", "127.0.0.1", "--metrics", &port.to_string()];
    let seed = Get::start(&at("seed"), &share.ticket, &at("copy"), &more);
    seed.done();
    let idle = page(port);
    is_well_formed(&idle);
    assert_eq!(value(&idle, "xylem_shares_served"), Some(1), "{idle}");
    let (key, _) = seed.address();
    let out = at("of-a");
    let from = [&*share.ticket, "--from", &key, "--no-serve", "-o", text(&out)];
    assert_exit(&get(&at("a"), &from), 0);
    let mut counted = String::new();
    until("the fetch and its end are counted", || {
        counted = page(port);
        value(&counted, "xylem_share_fetched_total") == Some(1)
            && value(&counted, "xylem_peers") == Some(0)
    });
    is_well_formed(&counted);
    assert_eq!(value(&counted, "xylem_share_peers_total"), Some(1), "{counted}");
    let sent = value(&counted, "xylem_share_sent_bytes_total").unwrap();
    assert!((300_000..450_000).contains(&sent), "{counted}");
    // Without --seed nothing is served for long enough to be counted.
    let mut command = xylem(&at("b"));
    command.args(["get", &share.ticket, "--metrics", "0", "-o", text(&at("of-b"))]);
    let refused = finish(command);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("--metrics counts what --seed serves"));
}

#[cfg(unix)]
#[test]
fn a_node_shows_what_it_has_forwarded() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let settings = format!("[node]\n{}\n", listen_in(dir.path()));
    let (command, flags) = (xylem(&dir.path().join("store")), ["--metrics", &port.to_string()]);
    let node = Node::with_flags(command, dir.path(), &settings, &flags);
    until("it shows no packet", || value(&page(port), "xylem_ndn_in_data_total") == Some(0));
    is_well_formed(&page(port));
    let file = file(dir.path(), "source", &noise(200_000, 3));
    let store = dir.path().join("sharer");
    let share = Share::via(&file, &store, node.at("unix"));
    let out = dir.path().join("copy");
    let asked = [&*share.ticket, "--from", node.at("unix"), "-o", text(&out)];
    assert_exit(&get(&dir.path().join("getter"), &asked), 0);
    let mut counted = String::new();
    until("the packets are counted", || {
        counted = page(port);
        value(&counted, "xylem_ndn_in_data_total") >= Some(25)
    });
    is_well_formed(&counted);
    assert!(value(&counted, "xylem_ndn_out_bytes_total") > Some(200_000), "{counted}");
    assert!(value(&counted, "xylem_ndn_faces") > Some(0), "{counted}");
    assert!(value(&counted, "xylem_ndn_satisfied_total") >= Some(25), "{counted}");
}
