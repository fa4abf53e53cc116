//! Network namespaces, and a second run of this test program within one.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;

const ROLE: &str = "XYLEM_TEST_ROLE";

/// A network namespace; removed when dropped.
pub struct Namespace(String);

impl Namespace {
    /// Makes a namespace with loopback up; `None` without the right to do so.
    pub fn new(tag: &str) -> Option<Self> {
        let name = format!("xylem-{tag}-{}", std::process::id());
        let made = Self(name);
        let name = made.name();
        sh(&format!("ip netns add {name} && ip -n {name} link set lo up")).then_some(made)
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        sh(&format!("ip netns del {}", self.0));
    }
}

/// Whether a command succeeds.
pub fn sh(command: &str) -> bool {
    let mut run = Command::new("sh");
    run.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run.status().is_ok_and(|status| status.success())
}

/// This program's `test`, run within a namespace; killed when dropped.
pub struct Inside {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Runs a test of this program that plays `role` and prints lines, until it is ended.
pub fn inside(namespace: &Namespace, test: &str, role: &str) -> Inside {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name()]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--quiet"]).env(ROLE, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Inside { child, lines }
}

impl Inside {
    /// Its next line, without the test harness's own output.
    pub fn line(&mut self) -> String {
        loop {
            let line = self.lines.next().expect("it says something").expect("UTF-8");
            if !line.is_empty() && !line.starts_with("running ") {
                return line;
            }
        }
    }

    /// Asks it to end.
    pub fn end(&mut self) {
        self.child.stdin = None;
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The role that this run plays.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Sends when standard input ends.
pub fn input() -> mpsc::Receiver<()> {
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    ended
}

/// A response of mDNS (RFC 6762): an instance, where it is, and its addresses.
pub fn answer(service: &str, n: u8, addresses: &[[u8; 4]]) -> Vec<u8> {
    let labels = |name: &str| {
        let parts = name.trim_end_matches('.').split('.');
        let mut out: Vec<u8> =
            parts.flat_map(|l| [&[l.len() as u8], l.as_bytes()].concat()).collect();
        out.push(0);
        out
    };
    let (instance, host) = (format!("liar{n}.{service}"), format!("liar{n}.local."));
    let record = |name: &str, kind: u16, data: &[u8]| {
        let mut out = labels(name);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0, 1, 0, 0, 0, 120]);
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
        out
    };
    let port = [&[0, 0, 0, 0][..], &(4000 + u16::from(n)).to_be_bytes(), &labels(&host)].concat();
    let mut records = vec![
        record(service, 12, &labels(&instance)),
        record(&instance, 33, &port),
        record(&instance, 16, &[0]),
    ];
    records.extend(addresses.iter().map(|at| record(&host, 1, at)));
    let head = [0, 0, 0x84, 0, 0, 0, 0, records.len() as u8, 0, 0, 0, 0];
    [&head[..], &records.concat()].concat()
}
