//! Processes of this program that play a part. The arguments select the part. Each process prints one line of JSON for
//! each report, and goes on when it receives a line.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first argument of a process that plays a part.
pub(crate) const ROLE: &str = "role";

/// A process that plays a part; killed when dropped.
pub(crate) struct PartProcess {
    child: Child,
    says: BufReader<ChildStdout>,
    hears: ChildStdin,
}

impl PartProcess {
    /// Starts this program in the part of `arguments`.
    pub(crate) fn start(arguments: &[String]) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ROLE)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(says), Some(hears)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(io::Error::other("a child process has no pipes"));
        };
        Ok(Self { child, says: BufReader::new(says), hears })
    }

    /// The next report of the process.
    pub(crate) fn next_report<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = String::new();
        if self.says.read_line(&mut line)? == 0 {
            return Err(io::Error::other("a child process ended early"));
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Sends it an order.
    pub(crate) fn send_order(&mut self, what: &str) -> io::Result<()> {
        writeln!(self.hears, "{what}")?;
        self.hears.flush()
    }

    /// Sends it an order and waits for its report.
    pub(crate) fn order_and_wait<T: DeserializeOwned>(&mut self, what: &str) -> io::Result<T> {
        self.send_order(what)?;
        self.next_report()
    }
}

impl Drop for PartProcess {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end, and only the wait counts.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a report to the parent process.
pub(crate) fn report<T: Serialize>(what: &T) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, what)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Orders of the parent process, line by line, while this process does other work.
///
/// The process ends when its parent has ended.
pub(crate) fn orders() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    receiver
}
