//! The tools against a real node: peek, put, get by name, ping, traffic, ctl.
#![cfg(unix)]

use crate::common;
use crate::common::{
    Node, XYLEM, assert_exit, file, finish, noise, stderr, sum, text, until, xylem,
};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

/// A serving tool that is killed when dropped; keeps its standard output.
struct Serving {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Serving {
    /// Starts `xylem ARGS` at the forwarder and waits for its first line.
    fn start(dir: &Path, at: &str, args: &[&str]) -> Self {
        let mut command = xylem(&dir.join("store"));
        command.args(args).args(["--at", at]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let said = Arc::new(Mutex::new(Vec::new()));
        let into = said.clone();
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| into.lock().unwrap().push(line));
        });
        let serving = Self { child, said };
        until("a first line", || !serving.said.lock().unwrap().is_empty());
        serving
    }

    fn first(&self) -> String {
        self.said.lock().unwrap()[0].clone()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `xylem ARGS` to its end.
fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = xylem(&dir.join("store"));
    command.args(args).stdin(Stdio::null());
    finish(command)
}

/// The JSON events of a run that has to succeed.
fn events(dir: &Path, args: &[&str]) -> Vec<Value> {
    let output = run(dir, &[&["--json"], args].concat());
    assert_exit(&output, 0);
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn event<'a>(events: &'a [Value], name: &str) -> &'a Value {
    events.iter().find(|e| e["event"] == name).unwrap_or_else(|| panic!("{name} in {events:?}"))
}

/// The public key of a store's own identity, as `get --publisher` takes it.
fn publisher(dir: &Path) -> String {
    let seed = std::fs::read(dir.join("store/keys/publisher")).expect("put made a key");
    let signer = xylem_trust::Signer::ed25519(
        &seed.try_into().expect("32 bytes"),
        "/k".parse().expect("a name"),
    );
    match signer.public() {
        Some(xylem_trust::PublicKey::Ed25519(key)) => {
            key.iter().map(|b| format!("{b:02x}")).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn put_objects_are_fetched_over_every_kind_of_face() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    for (i, size) in [0, 1, 8_000, 8_001, 3_000_000].into_iter().enumerate() {
        let content = noise(size, 7 + i as u64);
        let source = file(dir, "source", &content);
        let name = format!("/tools/object-{i}");
        let put = ["ndn", "put", &name, text(&source), "--segments"];
        let serving = Serving::start(dir, node.at("unix"), &put);
        assert!(serving.first().starts_with(&format!("{name}/v=")));
        let key = publisher(dir);
        for scheme in ["unix", "tcp4", "udp4"] {
            let to = dir.join(format!("got-{i}-{scheme}"));
            let from = node.at(scheme);
            let get = ["get", &name, "--publisher", &key, "--from", from, "-o", text(&to)];
            let events = events(dir, &get);
            let object = event(&events, "object");
            assert_eq!(std::fs::read(&to).unwrap(), content, "{size} over {scheme}");
            assert_eq!(object["proven"], true);
            assert_eq!(object["bytes"], size as u64);
            assert_eq!(object["segments"], (size as u64).div_ceil(8_000).max(1));
            assert_eq!(object["root"].as_str(), Some(sum(&to).as_str()));
        }
    }
}

#[test]
fn every_signature_type_is_accepted_from_its_key_only() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix");
    let content = noise(50_000, 3);
    let source = file(dir, "source", &content);
    let secret = file(dir, "secret", &[7; 32]);
    let other = file(dir, "other", &[8; 32]);
    for (i, how) in ["hmac", "blake3-keyed"].into_iter().enumerate() {
        let (key, wrong) = (format!("{how}:{}", text(&secret)), format!("{how}:{}", text(&other)));
        let name = format!("/tools/signed-{i}");
        let _serving =
            Serving::start(dir, at, &["ndn", "put", &name, text(&source), "--sign", &key]);
        let got = dir.join(format!("got-{i}"));
        let get =
            |key: &str| run(dir, &["get", &name, "--from", at, "--key", key, "-o", text(&got)]);
        let refused = get(&wrong);
        assert_exit(&refused, 1);
        assert!(stderr(&refused).contains("signature is wrong"), "{}", stderr(&refused));
        assert!(!got.exists());
        assert_exit(&get(&key), 0);
        assert_eq!(std::fs::read(&got).unwrap(), content);
    }
    for how in ["digest-sha256", "digest-blake3"] {
        let name = format!("/tools/{how}");
        let _serving =
            Serving::start(dir, at, &["ndn", "put", &name, text(&source), "--sign", how]);
        let got = dir.join(how);
        let get = |more: &[&str]| {
            let get = ["get", &name, "--from", at, "-o", text(&got)];
            run(dir, &[&get, more].concat())
        };
        // Any program can make a digest, so `get` refuses it without `--insecure`, with a key as well.
        assert_exit(&get(&[]), 2);
        assert_exit(&get(&["--key", &format!("hmac:{}", text(&secret))]), 1);
        let taken = get(&["--insecure"]);
        assert_exit(&taken, 0);
        assert!(stderr(&taken).contains("not verified"), "{}", stderr(&taken));
        assert_eq!(std::fs::read(&got).unwrap(), content);
    }
}

#[test]
fn names_of_our_own_objects_are_fetched_as_by_a_ticket() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix");
    let content = noise(1_000_000, 5);
    let source = file(dir, "source", &content);
    let share = ["--as", "/tools/own", "--via", at];
    let _share = common::Share::with(&source, &dir.join("store"), &share);
    let key = publisher(dir);
    let got = dir.join("got");
    // The share reports its registrations at a time of its own.
    until("the share can be fetched by name", || {
        let get = [
            "get",
            "/tools/own",
            "--publisher",
            &key,
            "--from",
            at,
            "-o",
            text(&got),
            "--overwrite",
            "--timeout",
            "3",
        ];
        run(dir, &get).status.code() == Some(0)
    });
    assert_eq!(std::fs::read(&got).unwrap(), content);
    let part = dir.join("part");
    let get = [
        "get",
        "/tools/own",
        "--publisher",
        &key,
        "--from",
        at,
        "-o",
        text(&part),
        "--range",
        "500000..600000",
    ];
    assert_exit(&run(dir, &get), 0);
    assert_eq!(std::fs::read(&part).unwrap(), content[500_000..600_000]);
    let wrong = "00".repeat(31) + "05";
    let refused = run(dir, &["get", "/tools/own", "--publisher", &wrong, "--from", at]);
    assert!(matches!(refused.status.code(), Some(1 | 2)), "{}", stderr(&refused));
}

/// Temporary directories are often memory: long input would fill it.
#[test]
fn input_of_put_lies_in_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let nowhere = format!("unix://{}", text(&dir.path().join("sock")));
    let mut command = xylem(&store);
    command.args(["ndn", "put", "/tools/note", "--sign", "digest-sha256", "--at", &nowhere]);
    command.env("TMPDIR", dir.path().join("absent")).stdin(Stdio::null());
    let output = finish(command);
    assert!(!stderr(&output).contains("temporary"), "{}", stderr(&output));
    assert_exit(&output, 3);
}

#[test]
fn one_packet_put_and_peeked_at() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("tcp4");
    let source = file(dir, "note", b"hello");
    let serving = Serving::start(dir, at, &["ndn", "put", "/tools/note", text(&source)]);
    assert_eq!(serving.first(), "/tools/note");
    let peeked = run(dir, &["ndn", "peek", "/tools/note", "-p", "--at", at]);
    assert_exit(&peeked, 0);
    assert_eq!(peeked.stdout, b"hello");
    assert!(stderr(&peeked).contains("not verified: ed25519"), "{}", stderr(&peeked));
    let whole = run(dir, &["-q", "ndn", "peek", "/tools", "--prefix", "--fresh", "--at", at]);
    assert_exit(&whole, 0);
    assert_eq!(whole.stdout[0], 6, "a Data packet");
    assert_eq!(stderr(&whole), "");
    let key = publisher(dir);
    let events = events(dir, &["ndn", "peek", "/tools/note", "--publisher", &key, "--at", at]);
    let packet = event(&events, "packet");
    assert_eq!(packet["name"], "/tools/note");
    assert_eq!(packet["content"], "68656c6c6f");
    assert_eq!((&packet["verdict"], &packet["signature"]), (&"proven".into(), &"ed25519".into()));
    let nobody = run(dir, &["ndn", "peek", "/tools/nothing", "--lifetime", "0.3", "--at", at]);
    assert_exit(&nobody, 3);
    let other =
        run(dir, &["ndn", "peek", "/tools/note", "--publisher", &"11".repeat(32), "--at", at]);
    assert!(matches!(other.status.code(), Some(1 | 2)), "{}", stderr(&other));
}

#[test]
fn pings_are_answered_counted_and_missed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix");
    let serve = ["--json", "ndn", "ping", "/tools", "--serve", "--size", "100"];
    let _serving = Serving::start(dir, at, &serve);
    let pinged =
        events(dir, &["ndn", "ping", "/tools", "-c", "5", "-i", "0.01", "-n", "40", "--at", at]);
    let numbers: Vec<u64> = pinged
        .iter()
        .filter(|e| e["answer"] == "answer")
        .filter_map(|e| e["number"].as_u64())
        .collect();
    assert_eq!(numbers, [40, 41, 42, 43, 44]);
    let all = event(&pinged, "pings");
    assert_eq!((all["sent"].as_u64(), all["answered"].as_u64()), (Some(5), Some(5)));
    assert!(all["min_ms"].as_f64() <= all["mean_ms"].as_f64());
    let missed = run(
        dir,
        &["ndn", "ping", "/nobody", "-c", "2", "-i", "0.01", "--timeout", "0.2", "--at", at],
    );
    assert_exit(&missed, 3);
    let said = String::from_utf8_lossy(&missed.stdout).into_owned();
    assert!(said.contains("2 packets transmitted, 0 received"), "{said}");
}

#[test]
fn traffic_counts_every_interest_over_every_kind_of_face() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let serve = ["--json", "ndn", "traffic", "/load", "--serve", "--size", "500"];
    let _serving = Serving::start(dir, node.at("unix"), &serve);
    let pid = node.pid().to_string();
    for (i, scheme) in ["unix", "tcp4", "udp4"].into_iter().enumerate() {
        let start = (i * 1_000_000_000).to_string();
        let load = [
            "ndn",
            "traffic",
            "/load",
            "--duration",
            "0.5",
            "--window",
            "32",
            "--lifetime",
            "2",
            "--pit-token",
            "4",
            "--pid",
            &pid,
            "--start",
            &start,
            "--at",
            node.at(scheme),
        ];
        let events = events(dir, &load);
        let report = event(&events, "traffic");
        let number = |field: &str| report[field].as_u64().expect(field);
        let (sent, answered) = (number("sent"), number("answered"));
        assert!(sent > 32 && answered > 0, "{scheme}: {report}");
        assert_eq!(sent, answered + number("nacked") + number("lost"), "{scheme}: {report}");
        assert_eq!(number("unasked"), 0, "{scheme}: {report}");
        assert!(number("bytes") > 500 * answered);
        assert!(report["p50_us"].as_f64() <= report["p99_us"].as_f64());
        assert!(report["forwarder_memory"].as_u64() > Some(100_000));
    }
    // The rate is accurate to half a second's Interests, and repeated names are answered from the cache.
    let load = [
        "ndn",
        "traffic",
        "/load",
        "--rate",
        "400",
        "--duration",
        "0.5",
        "--names",
        "10",
        "--at",
        node.at("unix"),
    ];
    let events = events(dir, &load);
    let sent = event(&events, "traffic")["sent"].as_u64();
    assert!(sent > Some(20) && sent <= Some(201), "{sent:?}");
    let nobody = run(
        dir,
        &[
            "ndn",
            "traffic",
            "/nobody",
            "--duration",
            "0.2",
            "--lifetime",
            "0.2",
            "--at",
            node.at("unix"),
        ],
    );
    assert_exit(&nobody, 3);
}

#[test]
fn ctl_shows_and_changes_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let at = node.at("unix");
    let ctl = |args: &[&str]| events(dir, &[&["ndn", "ctl"], args, &["--at", at]].concat());
    let status = ctl(&["status"]);
    assert!(event(&status, "status")["version"].as_str().unwrap().contains("xylem"));
    let made = ctl(&["face", "create", "udp://127.0.0.1:9"]);
    let made = event(&made, "changed");
    let face = made["face"].as_u64().expect("a number");
    assert_eq!(made["uri"], "udp4://127.0.0.1:9");
    let again = ctl(&["face", "create", "udp4://127.0.0.1:9"]);
    let again = event(&again, "changed");
    assert_eq!((again["face"].as_u64(), &again["what"]), (Some(face), &"face-exists".into()));
    // What a face can have is changed, whether the face is named or to be made.
    let number = face.to_string();
    ctl(&["face", "create", "udp4://127.0.0.1:9", "--mtu", "1400"]);
    ctl(&["face", "update", &number, "--persistency", "permanent", "--reliability", "on"]);
    let shown = ctl(&["face", "show", "udp4://127.0.0.1:9"]);
    let shown = event(&shown, "face");
    assert_eq!((shown["face"].as_u64(), shown["mtu"].as_u64()), (Some(face), Some(1400)));
    assert_eq!((&shown["persistency"], &shown["reliability"]), (&"permanent".into(), &true.into()));
    assert!(shown["local"].as_str().unwrap().starts_with("udp4://"), "{shown}");
    let channels = ctl(&["channel", "list"]);
    let unix = |channel: &Value| channel["local"].as_str().unwrap().starts_with("unix://");
    assert!(channels.iter().any(unix), "{channels:?}");
    let here = shown["local"].as_str().unwrap();
    for (filter, found) in [
        (&["--scheme", "udp4"][..], true),
        (&["--local", here], true),
        (&["udp://127.0.0.1:9", "--scheme", "udp4", "--local", here], true),
        (&["--scheme", "tcp4"], false),
        (&["--local", "udp4://127.0.0.1:1"], false),
    ] {
        let listed = ctl(&[&["face", "list"], filter].concat());
        let is_it = |row: &Value| row["face"].as_u64() == Some(face);
        assert_eq!(listed.iter().any(is_it), found, "{filter:?}: {listed:?}");
    }
    ctl(&["route", "add", "/r/a", "udp://127.0.0.1:9", "--cost", "7"]);
    let routes = ctl(&["route", "list", "/r/a"]);
    let route = event(&routes, "route");
    assert_eq!((route["face"].as_u64(), route["cost"].as_u64()), (Some(face), Some(7)));
    assert_eq!(route["origin"], 255);
    for (filter, found) in [
        (&["--next-hop", "udp://127.0.0.1:9"][..], true),
        (&["--next-hop", &number, "--origin", "255"], true),
        (&["/r/a", "--origin", "255"], true),
        (&["--origin", "0"], false),
        (&["--next-hop", "1"], false),
    ] {
        let listed = ctl(&[&["route", "list"], filter].concat());
        let is_it = |row: &Value| row["prefix"] == "/r/a";
        assert_eq!(listed.iter().any(is_it), found, "{filter:?}: {listed:?}");
    }
    for uri in ["udp4://127.0.0.1:0", "tcp4://127.0.0.1:0", "ws://127.0.0.1:0"] {
        for command in [&["face", "create", uri][..], &["route", "add", "/r/b", uri]] {
            let refused = run(dir, &[&["ndn", "ctl"], command, &["--at", at]].concat());
            assert_exit(&refused, 2);
            assert!(stderr(&refused).contains("406 port 0"), "{uri}: {}", stderr(&refused));
        }
    }
    let fib = ctl(&["fib", "list"]);
    assert!(
        fib.iter().any(|e| e["prefix"] == "/r/a" && e["face"].as_u64() == Some(face)),
        "{fib:?}"
    );
    let report = ctl(&["report"]);
    for of in ["status", "channel", "face", "route", "fib", "cs", "strategy"] {
        assert!(report.iter().any(|row| row["event"] == of), "{of}: {report:?}");
    }
    ctl(&["route", "remove", "/r/a", &face.to_string()]);
    assert!(ctl(&["route", "list", "/r/a"]).is_empty());
    for (name, strategy) in [
        ("/a", "/best-route/"),
        ("/localhost/any", "/multicast/"),
        ("/localhost/nfd/status", "/best-route/"),
        ("/ndn/broadcast/any", "/multicast/"),
    ] {
        let shown = ctl(&["strategy", "show", name]);
        let shown = event(&shown, "strategy")["strategy"].as_str().unwrap();
        assert!(shown.contains(strategy), "{name}: {shown}");
    }
    ctl(&["strategy", "set", "/r", "multicast"]);
    let chosen = ctl(&["strategy", "list"]);
    let of_r = chosen.iter().find(|e| e["prefix"] == "/r").expect("it was set");
    assert!(of_r["strategy"].as_str().unwrap().contains("/multicast"), "{of_r}");
    let shown = ctl(&["strategy", "show", "/r/a/b"]);
    assert_eq!(&event(&shown, "strategy")["prefix"], "/r");
    ctl(&["strategy", "unset", "/r"]);
    assert!(ctl(&["strategy", "list"]).iter().all(|e| e["prefix"] != "/r"));
    ctl(&["cs", "config", "--capacity", "77", "--admit", "off"]);
    let cs = ctl(&["cs", "info"]);
    let cs = event(&cs, "cs");
    assert_eq!(
        (cs["capacity"].as_u64(), &cs["admit"], &cs["serve"]),
        (Some(77), &false.into(), &true.into())
    );
    ctl(&["cs", "erase", "/"]);
    ctl(&["face", "destroy", "udp://127.0.0.1:9"]);
    assert!(ctl(&["face", "list", "udp4://127.0.0.1:9"]).is_empty());
    for (args, code) in [
        (&["ndn", "ctl", "face", "destroy", "udp://127.0.0.1:9", "--at", at][..], 2),
        (&["ndn", "ctl", "strategy", "set", "/r", "no-such-one", "--at", at], 2),
        (&["ndn", "ctl", "cs", "config", "--at", at], 2),
        (&["ndn", "ctl", "route", "add", "/r", "somewhere", "--at", at], 2),
        (&["ndn", "ctl", "status", "--at", "unix:///no/such.sock"], 3),
    ] {
        let refused = run(dir, args);
        assert_exit(&refused, code);
        assert_eq!(stderr(&refused).lines().count(), 1, "{}", stderr(&refused));
    }
}

/// The text for people has no JSON in it, and one line a row.
#[test]
fn ctl_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    for (args, part) in [
        (&["status"][..], "uptime"),
        (&["face", "list"], "local unix://"),
        (&["fib", "list"], "/localhost/nfd → face"),
        (&["cs", "info"], "capacity"),
        (&["strategy", "list"], "/ /localhost/nfd/strategy/"),
        (&["report"], "\nStrategies:\n/ /localhost/nfd/strategy/"),
    ] {
        let output = run(dir, &[&["ndn", "ctl"], args, &["--at", node.at("unix")]].concat());
        assert_exit(&output, 0);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn a_local_forwarder_is_found_and_a_wrong_address_reported() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let node = Node::start(dir, "");
    let mut command = Command::new(XYLEM);
    command.args(["ndn", "ctl", "status"]).env("NDN_CLIENT_TRANSPORT", node.at("unix"));
    command.env_remove("XYLEM_AT").stdin(Stdio::null());
    assert_exit(&finish(command), 0);
    let mut command = Command::new(XYLEM);
    command.args(["ndn", "ctl", "status"]).env("NDN_CLIENT_TRANSPORT", "carrier-pigeon://loft");
    command.env_remove("XYLEM_AT").stdin(Stdio::null());
    let output = finish(command);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("NDN_CLIENT_TRANSPORT"), "{}", stderr(&output));
}
