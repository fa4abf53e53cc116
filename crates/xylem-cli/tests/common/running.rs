//! [`Running`]: a command that prints events as JSON.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::{Events, until, xylem};

/// A process that prints events; killed when dropped.
pub(crate) struct Running(pub(crate) Child, Events);

impl Running {
    pub(crate) fn start(store: &Path, arguments: &[&str]) -> Self {
        let mut command = xylem(store);
        command.arg("--json").args(arguments);
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let events = Events::default();
        let into = events.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                into.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Self(child, events)
    }

    pub(crate) fn heard(&self, event: &str) -> Value {
        let find = || self.1.lock().unwrap().iter().find(|e| e["event"] == event).cloned();
        until(event, || find().is_some());
        find().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
