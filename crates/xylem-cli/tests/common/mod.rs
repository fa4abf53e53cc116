//! Helpers of all tests that run real processes of the program.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

#[cfg(unix)]
pub(crate) mod authority;
#[cfg(unix)]
pub(crate) mod decaying;
pub(crate) mod fetching;
#[cfg(unix)]
pub(crate) mod forwarder;
#[cfg(target_os = "linux")]
pub(crate) mod homes;
pub(crate) mod relay;
pub(crate) mod relaying;
pub(crate) mod running;
pub(crate) mod serving;
#[cfg(target_os = "linux")]
pub(crate) mod syncing;

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) use xylem_sim::noise;

/// The program under test.
pub(crate) const XYLEM: &str = env!("CARGO_BIN_EXE_xylem");

/// A command with a store of its own and no surprises from the environment. `XYLEM_PROGRAM` names another build of the
/// program, so that tests need not be built as it is: `.ci/run` tries the release program in this way.
pub(crate) fn xylem(store: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("XYLEM_PROGRAM").unwrap_or(XYLEM.into()));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("XYLEM_") {
            command.env_remove(name);
        }
    }
    // Nothing touches this machine's network, unless a test does so on purpose.
    command.env("XYLEM_NO_LAN", "1").env("XYLEM_NO_MAP", "1").env("XYLEM_NO_DHT", "1");
    command.arg("--store").arg(store);
    command
}

/// Reports a skipped test past libtest's capture, so that it is seen although the test passes.
pub(crate) fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// A command that runs `command` under another program, with its environment.
pub(crate) fn under<S: AsRef<std::ffi::OsStr>>(
    program: &str,
    arguments: &[S],
    command: &Command,
) -> Command {
    let mut outer = Command::new(program);
    outer.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer.stdin(Stdio::null());
    outer
}

/// As [`xylem`], with at most this many open files.
#[cfg(unix)]
pub(crate) fn with_descriptors(count: usize, store: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {count}; exec \"$@\""), "sh", XYLEM, "--store"]);
    command.arg(store);
    command
}

/// A running `xylem share`; killed when dropped.
pub(crate) struct Share {
    pub ticket: String,
    pub plain: Option<String>,
    pub link: String,
    pub carriers: Vec<String>,
    /// The event that carried the ticket.
    pub shared: serde_json::Value,
    /// Lines of its output before that event.
    before: Vec<String>,
    events: Events,
    child: Child,
}

/// Events that a running command has printed since its beginning.
pub(crate) type Events = Arc<Mutex<Vec<serde_json::Value>>>;

/// Keeps reading, so that the child never blocks on a full pipe.
fn collect(lines: impl Iterator<Item = std::io::Result<String>> + Send + 'static) -> Events {
    let events = Events::default();
    let into = events.clone();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let event = serde_json::from_str(&line).expect("JSON");
            into.lock().unwrap().push(event);
        }
    });
    events
}

/// Waits until a reading thread has let go of what it fills: a program that has ended may have printed more than was read by then.
pub(crate) fn until_all_is_read<T>(read: &Arc<Mutex<T>>) {
    until("the end of its output", || Arc::strong_count(read) == 1);
}

impl Share {
    /// Starts sharing on loopback and waits for the ticket.
    pub(crate) fn start(path: &Path, store: &Path) -> Self {
        Self::with(path, store, &[])
    }

    /// As [`Share::start`], with plain NDN on a free port as well.
    pub(crate) fn plain(path: &Path, store: &Path) -> Self {
        Self::with(path, store, &["--plain-listen", "127.0.0.1:0"])
    }

    /// As [`Share::start`], with more arguments.
    pub(crate) fn with(path: &Path, store: &Path, more: &[&str]) -> Self {
        Self::run(xylem(store), path, more)
    }

    /// As [`Share::start`], with `from` as the current folder.
    pub(crate) fn inside(from: &Path, path: &Path, store: &Path) -> Self {
        let mut command = xylem(store);
        command.current_dir(from);
        Self::run(command, path, &[])
    }

    /// As [`Share::with`], by this command.
    pub(crate) fn run(mut command: Command, path: &Path, more: &[&str]) -> Self {
        command.args(["--json", "share", "--listen", "127.0.0.1:0"]).args(more).arg(path);
        let mut errors = tempfile::tempfile().unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors.try_clone().unwrap());
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut before = Vec::new();
        let shared = loop {
            let Some(line) = lines.next() else {
                let mut printed = String::new();
                errors.rewind().and_then(|()| errors.read_to_string(&mut printed)).unwrap();
                panic!("share ended without a ticket: {:?}\n{printed}", child.wait());
            };
            let line = line.expect("UTF-8");
            if line.contains("\"event\":\"shared\"") {
                break line;
            }
            before.push(line);
        };
        let events = collect(lines);
        let shared: serde_json::Value = serde_json::from_str(&shared).expect("JSON");
        let text = |v: &serde_json::Value| v.as_str().map(str::to_owned);
        Self {
            ticket: text(&shared["ticket"]).expect("a ticket"),
            plain: text(&shared["plain"][0]),
            link: text(&shared["listen"][0]).expect("an address"),
            carriers: serde_json::from_value(shared["carriers"].clone()).expect("texts"),
            shared,
            before,
            events,
            child,
        }
    }

    /// Events of one kind that it printed before its ticket.
    pub(crate) fn told_before(&self, event: &str) -> Vec<String> {
        let lines = self.before.iter();
        lines.filter(|line| line.contains(&format!("\"event\":\"{event}\""))).cloned().collect()
    }

    /// Starts sharing through a forwarder and waits until the forwarder has its registration.
    pub(crate) fn via(path: &Path, store: &Path, forwarder: &str) -> Self {
        let share = Self::with(path, store, &["--via", forwarder]);
        share.registered(1);
        share
    }

    /// Events of one kind that it has printed since its ticket.
    pub(crate) fn told(&self, event: &str) -> Vec<serde_json::Value> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|e| e["event"] == event).cloned().collect()
    }

    /// Waits until forwarders have accepted this many registrations.
    pub(crate) fn registered(&self, times: usize) {
        let is_one = |event: &&serde_json::Value| event["event"] == "registered";
        until("a registration", || {
            self.events.lock().unwrap().iter().filter(is_one).count() >= times
        });
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `xylem get` to its end.
pub(crate) fn get(store: &Path, arguments: &[&str]) -> Output {
    let mut command = xylem(store);
    command.arg("get").args(arguments).stdin(Stdio::null());
    finish(command)
}

/// Runs `xylem get --json` and returns its exit code and its `done` event.
pub(crate) fn get_json(store: &Path, arguments: &[&str]) -> (Option<i32>, serde_json::Value) {
    let mut command = xylem(store);
    command.args(["--json", "get"]).args(arguments).stdin(Stdio::null());
    let output = finish(command);
    let text = String::from_utf8_lossy(&output.stdout);
    let mut done = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    let done = done.rfind(|e| e["event"] == "done").unwrap_or(serde_json::Value::Null);
    (output.status.code(), done)
}

/// Waits for a command with a limit, so that a hang is a failure and not a stuck run.
pub(crate) fn finish(mut command: Command) -> Output {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let out = reader(child.stdout.take().expect("piped"));
    let err = reader(child.stderr.take().expect("piped"));
    let deadline = Instant::now() + Duration::from_secs(120);
    let status = loop {
        if let Some(status) = child.try_wait().expect("waitable") {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

fn reader(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// `xylem sum FILE`, the hexadecimal root alone.
pub(crate) fn sum(file: &Path) -> String {
    let output = Command::new(XYLEM).args(["sum", "--no-names"]).arg(file).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The first word of what `get` printed: the root.
pub(crate) fn printed_root(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

/// Files in a store that are evidence of two histories of one publisher.
pub(crate) fn evidence(store: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(store.join("witness")).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "evidence")).collect()
}

/// Writes a file and gives its path back.
pub(crate) fn file(dir: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, content).unwrap();
    path
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts an exit code; shows the output when it is another.
pub(crate) fn assert_exit(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "stderr: {}", stderr(output));
    assert!(!stderr(output).contains("panicked"), "stderr: {}", stderr(output));
}

/// A running `xylem ndn node`; killed when dropped.
pub(crate) struct Node {
    /// Face URIs where it listens: unix, udp4, tcp4, ws and xylem, in this order.
    pub listens: Vec<String>,
    events: Events,
    child: Child,
}

/// Default of a test's node: listens with every transport on loopback, at free ports.
pub(crate) fn listen_in(dir: &Path) -> String {
    let net = ["udp4", "tcp4", "ws", "xylem"].map(|scheme| format!("\"{scheme}://127.0.0.1:0\""));
    format!("listen = [\"unix://{}\", {}]", dir.join("node.sock").display(), net.join(", "))
}

impl Node {
    /// Starts a node on loopback with more settings (the table `[node]`, then others).
    pub(crate) fn start(dir: &Path, settings: &str) -> Self {
        Self::with(dir, &format!("[node]\n{}\n{settings}\n", listen_in(dir)))
    }

    /// Starts a node with exactly these settings; no multicast unless they contain it.
    pub(crate) fn with(dir: &Path, settings: &str) -> Self {
        Self::run(xylem(&dir.join("node-store")), dir, settings)
    }

    /// As [`Node::with`], by this command.
    pub(crate) fn run(command: Command, dir: &Path, settings: &str) -> Self {
        Self::with_flags(command, dir, settings, &[])
    }

    /// As [`Node::run`], with more arguments.
    pub(crate) fn with_flags(
        mut command: Command,
        dir: &Path,
        settings: &str,
        more: &[&str],
    ) -> Self {
        let mut settings = settings.to_owned();
        if !settings.contains("[node.multicast]") {
            settings += "\n[node.multicast]\nenabled = false\n";
        }
        let config = file(dir, "node.toml", settings.as_bytes());
        command.args(["--json", "--config"]).arg(config).args(["ndn", "node"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let expected = settings.lines().find(|l| l.starts_with("listen")).expect("listens");
        let expected = expected.matches("://").count();
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let listens = lines
            .by_ref()
            .map(|line| serde_json::from_str(&line.expect("UTF-8")).expect("JSON"))
            .inspect(|event: &serde_json::Value| assert!(event["event"] != "error", "{event}"))
            .filter_map(|event| event["uri"].as_str().map(str::to_owned))
            .take(expected)
            .collect();
        let events = collect(lines);
        Self { listens, events, child }
    }

    /// Where it listens with this scheme.
    pub(crate) fn at(&self, scheme: &str) -> &str {
        let prefix = format!("{scheme}://");
        self.listens.iter().find(|uri| uri.starts_with(&prefix)).expect("it listens there")
    }

    /// Events of one kind that it has printed since it listens.
    pub(crate) fn told(&self, event: &str) -> Vec<serde_json::Value> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|e| e["event"] == event).cloned().collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it by a signal and gives its exit code.
    pub(crate) fn signal(mut self, signal: &str) -> Option<i32> {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }

    /// Kills it as a crash would: nothing is cleaned up.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The most memory that a running process has had in use, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux tells it");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kib * 1024
}

/// How often a running process's first thread has gone to sleep by itself. A loop that never waits never does, on
/// however busy a machine.
#[cfg(target_os = "linux")]
pub(crate) fn sleeps(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("Linux tells it").trim().parse().expect("a number")
}

/// The limit of a wait without a limit of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `done`, for [`PATIENCE`] at most.
pub(crate) fn until(what: &str, done: impl FnMut() -> bool) {
    until_within(PATIENCE, what, done);
}

/// Waits until `done`, for `time` at most.
pub(crate) fn until_within(time: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + time;
    while !done() {
        assert!(Instant::now() < deadline, "{what} never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}
