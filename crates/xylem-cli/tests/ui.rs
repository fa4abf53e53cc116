//! `xylem ui`: real processes, and the contents of their page for each kind of visitor.
#![cfg(unix)]

use crate::common::{Node, Share, XYLEM, file, noise, text, until, xylem};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Ui {
    at: SocketAddr,
    token: String,
    child: Killed,
}

impl Ui {
    fn start(store: &Path, more: &[&str]) -> Self {
        let mut command = xylem(store);
        command.args(["--json", "ui"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let url = told["url"].as_str().unwrap();
        let (at, token) = url.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        Self { at: at.parse().unwrap(), token: token.to_owned(), child: Killed(child) }
    }

    /// Sends a request; the answer is left to be read.
    fn ask(&self, target: &str, fields: &str) -> TcpStream {
        let mut connection = TcpStream::connect(self.at).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!("GET {target} HTTP/1.1\r\n{fields}\r\n");
        connection.write_all(head.as_bytes()).unwrap();
        connection
    }

    /// The whole answer to a visitor that has the address.
    fn page(&self, path: &str) -> String {
        self.answer(&format!("{path}?token={}", self.token), &format!("Host: {}\r\n", self.at))
    }

    fn answer(&self, target: &str, fields: &str) -> String {
        let mut said = String::new();
        self.ask(target, fields).read_to_string(&mut said).unwrap();
        said
    }

    /// The events in order of arrival: each with its part of the page and its content.
    fn events(&self) -> impl Iterator<Item = (String, Value)> + use<> {
        let fields = format!("Host: {}\r\n", self.at);
        let connection = self.ask(&format!("/events?token={}", self.token), &fields);
        let mut lines = BufReader::new(connection).lines();
        let head: Vec<String> =
            lines.by_ref().map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
        assert_eq!(head[0], "HTTP/1.1 200 OK");
        assert!(head.contains(&"Content-Type: text/event-stream".to_owned()), "{head:?}");
        let mut part = String::new();
        lines.map_while(Result::ok).filter_map(move |line| {
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut part);
            }
            let data = line.strip_prefix("data: ")?;
            Some((part.clone(), serde_json::from_str(data).unwrap()))
        })
    }

    /// The next event of a part for which `is_it` holds.
    fn news(&self, part: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        let mut events = self.events();
        let found = events.by_ref().take(200).find(|(of, news)| of == part && is_it(news));
        found.expect("it is told").1
    }
}

/// A fetch that takes its time.
fn slow_get(store: &Path, dir: &Path, ticket: &str) -> Killed {
    let mut command = xylem(store);
    command.args(["get", ticket, "--limit", "200K", "-o"]).arg(dir.join("got"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Killed(command.spawn().unwrap())
}

fn run_of<'a>(runs: &'a Value, verb: &str) -> Option<&'a Value> {
    runs.as_array()?.iter().find(|run| run["verb"] == verb)
}

#[test]
fn a_fetch_is_shown_with_progress_and_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let path = file(dir.path(), "film.mkv", &noise(8_000_000, 1));
    let share = Share::start(&path, &store);
    let get = slow_get(&store, dir.path(), &share.ticket);
    let ui = Ui::start(&store, &[]);
    let mut done = 0;
    let runs = ui.news("runs", |runs| {
        let Some(run) = run_of(runs, "get") else { return false };
        let now = run["done"].as_u64().unwrap();
        let grew = done > 0 && now > done;
        done = now;
        grew && !run["peers"].as_array().unwrap().is_empty()
    });
    let run = run_of(&runs, "get").unwrap();
    assert_eq!((&run["name"], &run["total"]), (&"film.mkv".into(), &8_000_000.into()));
    assert_eq!(run["phase"], "fetching");
    let pieces = run["pieces"].as_str().unwrap();
    assert!(pieces.len() > 100 && pieces.contains('9') && pieces.contains('0'), "{pieces}");
    let peer = &run["peers"][0];
    assert!(peer["bytes"].as_u64().unwrap() > 0, "{peer}");
    let link = &peer["link"];
    let counted = |direction: &str, bars: &str| -> u64 {
        let bars = link[direction][bars].as_array().unwrap();
        bars.iter().map(|bar| bar.as_u64().unwrap()).sum()
    };
    for direction in ["sent", "received"] {
        let datagrams = link[direction]["datagrams"].as_u64().unwrap();
        assert!(datagrams > 0);
        assert_eq!(counted(direction, "sizes"), datagrams, "{link}");
        assert_eq!(counted(direction, "gaps") + 1, datagrams, "{link}");
    }
    let shared = run_of(&runs, "share").unwrap();
    assert_eq!(shared["shares"][0]["bytes"], 8_000_000);
    // A reader over the user's shoulder can't fetch it.
    let text = runs.to_string();
    assert!(!text.contains("xylem:"), "{text}");
    let key = share.shared["ticket"].as_str().unwrap();
    assert!(!text.contains(&key[6..40]));
    drop(get);
}

#[test]
fn ended_or_killed_processes_are_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let path = file(dir.path(), "film.mkv", &noise(4_000_000, 2));
    let share = Share::start(&path, &store);
    let get = slow_get(&store, dir.path(), &share.ticket);
    let ui = Ui::start(&store, &[]);
    ui.news("runs", |runs| run_of(runs, "get").is_some() && run_of(runs, "share").is_some());
    // By SIGKILL: nothing is cleaned up.
    drop(get);
    let left = || std::fs::read_dir(store.join("run")).unwrap().count();
    assert!(left() >= 4, "a note and a lock each");
    ui.news("runs", |runs| run_of(runs, "get").is_none() && run_of(runs, "share").is_some());
    let pid = share.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    ui.news("runs", |runs| runs.as_array().unwrap().is_empty());
    assert_eq!(left(), 0);
}

#[test]
fn a_visitor_without_token_or_from_elsewhere_sees_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let ui = Ui::start(dir.path(), &[]);
    let (host, token) = (format!("Host: {}\r\n", ui.at), &ui.token);
    let local = format!("Host: localhost:{}\r\n", ui.at.port());
    let wrong = "0".repeat(32);
    let short = &token[..31];
    for (target, fields) in [
        ("/".to_owned(), host.clone()),
        ("/events".to_owned(), host.clone()),
        ("/page.js".to_owned(), host.clone()),
        ("/nowhere".to_owned(), host.clone()),
        (format!("/?token={wrong}"), host.clone()),
        (format!("/events?token={short}"), host.clone()),
        // Another name that resolves to this machine, and a page of another origin.
        (format!("/?token={token}"), "Host: evil.example\r\n".to_owned()),
        (format!("/events?token={token}"), format!("Host: evil.example:{}\r\n", ui.at.port())),
        (format!("/events?token={token}"), format!("{host}Origin: http://evil.example\r\n")),
        (format!("/events?token={token}"), format!("{host}Origin: null\r\n")),
    ] {
        let said = ui.answer(&target, &fields);
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{target} {fields} {said}");
        assert_eq!(body.lines().count(), 1, "{said}");
        assert!(!said.contains("Access-Control") && !said.contains(token.as_str()), "{said}");
    }
    for fields in [&host, &local, &format!("{host}Origin: http://{}\r\n", ui.at)] {
        let said = ui.answer(&format!("/?token={token}"), fields);
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.contains("<title>xylem"), "{said}");
        for field in
            ["Referrer-Policy: no-referrer", "Cache-Control: no-store", "default-src 'none'"]
        {
            assert!(said.contains(field), "{said}");
        }
    }
    assert!(ui.page("/page.css").contains("prefers-color-scheme"));
    assert!(ui.page("/nowhere").starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_visitor_that_never_reads_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let ui = Ui::start(dir.path(), &[]);
    let fields = format!("Host: {}\r\n", ui.at);
    let target = format!("/events?token={}", ui.token);
    let _deaf: Vec<TcpStream> = (0..8).map(|_| ui.ask(&target, &fields)).collect();
    let mut idle = TcpStream::connect(ui.at).unwrap();
    idle.write_all(b"GET /?tok").unwrap();
    assert!(ui.page("/").contains("<title>xylem"));
    assert_eq!(ui.news("runs", |_| true), Value::Array(Vec::new()));
}

#[test]
fn the_nodes_tables_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let ui = Ui::start(dir.path(), &["--at", node.at("unix")]);
    let seen = ui.news("node", |node| !node.is_null());
    assert!(seen["faces"].as_array().unwrap().len() >= 2, "{seen}");
    assert!(seen["status"]["version"].as_str().unwrap().contains('.'), "{seen}");
    assert!(seen["cs"]["capacity"].as_u64().unwrap() > 0, "{seen}");
    assert!(!seen["strategies"].as_array().unwrap().is_empty(), "{seen}");
    node.kill();
    ui.news("node", Value::is_null);
}

/// The background node's shares, without the tickets that `xylem shares` has.
#[test]
fn shares_of_the_background_node_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let path = file(dir.path(), "film.mkv", &noise(100_000, 3));
    let mut command = xylem(&store);
    command.args(["service", "run", "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _service = Killed(command.spawn().unwrap());
    until("it is handed over", || {
        let mut command = xylem(&store);
        let socket = store.join("service/control.sock");
        socket.exists()
            && command.args(["-q", "share"]).arg(&path).output().unwrap().status.success()
    });
    let ui = Ui::start(&store, &[]);
    let seen = ui.news("service", |shares| shares.as_array().is_some_and(|s| !s.is_empty()));
    assert_eq!((&seen[0]["bytes"], &seen[0]["served"]), (&100_000.into(), &true.into()));
    assert_eq!(seen[0]["path"], text(&path.canonicalize().unwrap()));
    assert!(!seen.to_string().contains("xylem:"), "{seen}");
}

#[test]
fn it_listens_on_loopback_alone_and_ends_in_order() {
    for (listen, part) in [("0.0.0.0:0", "this machine alone"), ("nowhere", "--listen nowhere")] {
        let output = Command::new(XYLEM).args(["ui", "--listen", listen]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut ui = Ui::start(dir.path(), &[]);
    let taken = ui.at.to_string();
    let output = xylem(dir.path()).args(["ui", "--listen", &taken]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let pid = ui.child.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(ui.child.0.wait().unwrap().code(), Some(0));
}
