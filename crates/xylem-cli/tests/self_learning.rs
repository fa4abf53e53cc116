//! `put --announce-prefix` and the strategy self-learning, over three nodes and a fourth that lies.
#![cfg(unix)]

use crate::common::serving::{Serving, certificate, run};
use crate::common::{Node, assert_exit, file, stderr, text, until};
use std::fs;
use std::path::Path;

/// The FIB of a node: prefixes and the faces of their next hops, except its own.
fn routes(dir: &Path, node: &Node, prefix: &str) -> Vec<serde_json::Value> {
    let output = run(dir, &["ndn", "ctl", "--json", "--at", node.at("unix"), "route", "list"]);
    assert_exit(&output, 0);
    let lines = String::from_utf8(output.stdout).unwrap();
    let rows = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
    rows.filter(|row: &serde_json::Value| row["prefix"] == prefix).collect()
}

/// A searches by way of B, finds the content at C, and knows the way from then on. An announcement that D has no right
/// to makes no route, although D answers.
#[test]
fn a_signed_announcement_makes_a_route_on_the_way_and_no_other_does() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for identity in ["/org", "/org/alice", "/eve"] {
        assert_exit(&run(dir, &["key", "new", identity]), 0);
    }
    let org = certificate(dir, &["/org"], "org.cert");
    let own = certificate(dir, &["/org/alice"], "own.cert");
    let alice = certificate(dir, &["--by", "/org", &own], "alice.cert");
    let believes = format!(
        "[node.management]\nlocalhop = true\nanchors = [{org:?}]\ncertificates = [{alice:?}]\n"
    );
    let learns =
        "[[node.strategy]]\nprefix = \"/\"\nstrategy = \"/localhost/nfd/strategy/self-learning\"\n";
    let node = |name: &str, connect: &[&str], more: &str| {
        let own = dir.join(name);
        fs::create_dir(&own).unwrap();
        Node::start(&own, &format!("connect = {connect:?}\n{learns}{more}"))
    };
    let c = node("c", &[], &believes);
    let b = node("b", &[c.at("udp4")], &believes);
    let d = node("d", &[], "");
    let a = node("a", &[b.at("udp4"), d.at("udp4")], &believes);

    let source = file(dir, "note", b"a note");
    let at_c = ["--sign", "key:/org/alice", "--at", c.at("unix"), "--announce-prefix"];
    let name = "/org/alice/note";
    let _serving = Serving::start(dir, &[&["ndn", "put", name, text(&source)], &at_c[..]].concat());
    until("the announcement", || !routes(dir, &c, name).is_empty());
    assert!(routes(dir, &a, name).is_empty() && routes(dir, &b, name).is_empty());
    let peek = |name: &str| run(dir, &["ndn", "peek", name, "--trust", &own, "--at", a.at("unix")]);
    until("the note", || peek(name).status.success());
    // From now on routes exist, by an announcement.
    until("the routes", || [&a, &b].iter().all(|node| routes(dir, node, name).len() == 1));
    let route = &routes(dir, &a, name)[0];
    assert_eq!(route["origin"], 129, "{route}");

    // Where announcements are checked, a key that may not sign for a prefix can't announce it.
    let eves = |at: &str| {
        let put = [
            "ndn",
            "put",
            "/org/alice/lie",
            text(&source),
            "--announce-prefix",
            "--sign",
            "key:/eve",
        ];
        [&put.map(str::to_owned)[..], &["--at".to_owned(), at.to_owned()]].concat()
    };
    let at_c = eves(c.at("unix"));
    let refused = run(dir, &at_c.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(!refused.status.success() && stderr(&refused).contains("403"), "{}", stderr(&refused));
    // D accepts announcements of programs on its machine. Its neighbours do not accept those of D.
    let at_d = eves(d.at("unix"));
    let _lying = Serving::start(dir, &at_d.iter().map(String::as_str).collect::<Vec<_>>());
    until("eve's announcement", || !routes(dir, &d, "/org/alice/lie").is_empty());
    until("an answer that nobody signed", || {
        let output = run(dir, &["ndn", "peek", "/org/alice/lie", "--at", a.at("unix")]);
        output.status.success()
    });
    assert!(routes(dir, &a, "/org/alice/lie").is_empty());
    assert_eq!(routes(dir, &a, name).len(), 1);
}
