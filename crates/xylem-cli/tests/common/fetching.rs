//! A running `xylem get`, with its events.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{
    Events, PATIENCE, Share, collect, file, noise, text, until, until_all_is_read, until_within,
    xylem,
};

/// A running `xylem get --json`; killed when dropped.
pub(crate) struct Get {
    events: Events,
    pub(crate) child: Child,
}

impl Get {
    /// Starts it.
    pub(crate) fn start(store: &Path, ticket: &str, out: &Path, more: &[&str]) -> Self {
        let mut command = xylem(store);
        command.args(["--json", "get", ticket, "-o", text(out)]).args(more);
        Self::of(command)
    }

    /// Starts a command of the program, any with `--json`.
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let events = collect(BufReader::new(child.stdout.take().expect("piped")).lines());
        Self { events, child }
    }

    /// Waits for the first event of this name for which `is` holds.
    pub(crate) fn event(&self, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        until(name, || {
            let events = self.events.lock().unwrap();
            found = events.iter().find(|e| e["event"] == name && is(e)).cloned();
            found.is_some()
        });
        found.expect("until it is there")
    }

    /// Whether such an event has come by now.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.events.lock().unwrap().iter().any(|e| e["event"] == name)
    }

    /// `KEY@ADDR` at which it serves.
    pub(crate) fn address(&self) -> (String, String) {
        let offering = self.event("offering", |_| true);
        let text = |v: &Value| v.as_str().expect("text").to_owned();
        let address = text(&offering["listen"][0]);
        (format!("{}@{address}", text(&offering["key"])), address)
    }

    /// The ticket of a seed.
    pub(crate) fn own_ticket(&self) -> String {
        let offering = self.event("offering", |_| true);
        offering["ticket"].as_str().expect("a seed has a ticket").to_owned()
    }

    /// Waits until it has fetched this many bytes.
    pub(crate) fn has_fetched(&self, bytes: u64) {
        self.event("progress", |e| e["verified"].as_u64() >= Some(bytes));
    }

    /// Its `done` event.
    pub(crate) fn done(&self) -> Value {
        self.event("done", |_| true)
    }

    /// Its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.wait_within(PATIENCE)
    }

    /// As [`wait`](Self::wait), with another limit.
    pub(crate) fn wait_within(&mut self, time: Duration) -> Option<i32> {
        let mut code = None;
        until_within(time, "the end", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        until_all_is_read(&self.events);
        code.expect("until it is there").code()
    }

    /// Kills it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Get {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Shows the events of a failed run.
        if std::thread::panicking() {
            let events = self.events.lock().unwrap();
            let all = events.iter().filter(|e| e["event"] != "progress");
            all.for_each(|event| eprintln!("{}: {event}", self.child.id()));
        }
    }
}

/// Bytes that came from a peer, according to the `done` event.
pub(crate) fn from(done: &Value, peer: &str) -> u64 {
    let peers = done["peers"].as_array().expect("a list");
    peers.iter().filter(|p| p["peer"] == peer).map(|p| p["bytes"].as_u64().unwrap()).sum()
}

/// A folder, a file in it that A shares, and paths for the other programs.
pub(crate) struct FetchSetup {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) source: PathBuf,
}

impl FetchSetup {
    /// Makes a file of this many bytes, which follow from the seed.
    pub(crate) fn new(size: usize, seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = file(dir.path(), "source", &noise(size, seed));
        Self { dir, source }
    }

    pub(crate) fn share(&self) -> Share {
        Share::start(&self.source, &self.dir.path().join("store-a"))
    }

    pub(crate) fn out(&self, who: &str) -> PathBuf {
        self.dir.path().join(format!("out-{who}"))
    }

    pub(crate) fn get(&self, who: &str, ticket: &str, more: &[&str]) -> Get {
        let store = self.dir.path().join(format!("store-{who}"));
        Get::start(&store, ticket, &self.out(who), more)
    }

    /// Asserts that the fetched file is the shared one.
    pub(crate) fn is_right(&self, who: &str) {
        assert!(
            std::fs::read(self.out(who)).unwrap() == std::fs::read(&self.source).unwrap(),
            "{who}"
        );
    }
}
