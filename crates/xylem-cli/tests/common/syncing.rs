//! Members of a group as processes of their own.

use super::{until, xylem};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// One member with a store of its own; it runs until it is stopped or dropped.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) base: PathBuf,
    pub(crate) running: Option<Child>,
    events: Arc<Mutex<Vec<Value>>>,
    pub(crate) ticket: String,
    /// Further environment variables of its process.
    pub(crate) more_env: Vec<(&'static str, String)>,
}

impl Member {
    /// A member that does not run yet.
    pub(crate) fn new(base: &Path, name: &str) -> Self {
        fs::create_dir_all(base.join(name)).unwrap();
        let (running, events) = (None, Arc::default());
        let (name, base) = (name.to_owned(), base.to_owned());
        Self { name, base, running, events, ticket: String::new(), more_env: Vec::new() }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = xylem(&self.base.join(format!("{}-store", self.name)));
        command.args(["--json", "sync"]).arg(self.base.join(&self.name));
        command.envs(self.more_env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it and waits until others can join.
    pub(crate) fn start(&mut self, ticket: Option<&str>) {
        self.start_with(ticket, &[]);
    }

    pub(crate) fn start_with(&mut self, ticket: Option<&str>, more: &[&str]) {
        let mut command = self.command();
        command.args(ticket).args(["--as", &self.name, "--listen", "127.0.0.1:0"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        self.events = Arc::default();
        let into = self.events.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                into.lock().unwrap().push(serde_json::from_str(&line).expect("JSON"));
            }
        });
        self.running = Some(child);
        let mut ticket = None;
        until("others can join", || {
            let ready = self.told("sync_ready").into_iter().next();
            ticket = ready.and_then(|event| event["ticket"].as_str().map(str::to_owned));
            ticket.is_some()
        });
        self.ticket = ticket.unwrap();
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn told(&self, event: &str) -> Vec<Value> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|told| told["event"] == event).cloned().collect()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.base.join(&self.name).join(path)
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let at = self.at(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, content).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.at(path)).unwrap();
    }

    /// All entries of the folder, with the contents of files and the targets of links.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        fn look(at: &Path, below: &str, all: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(at).into_iter().flatten().flatten() {
                let name = format!("{below}{}", entry.file_name().to_string_lossy());
                if name == ".xylem-sync" {
                    continue;
                }
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    all.insert(format!("{name}/"), String::new());
                    look(&entry.path(), &format!("{name}/"), all);
                } else if kind.is_symlink() {
                    let to = fs::read_link(entry.path()).unwrap_or_default();
                    all.insert(name, format!("-> {}", to.display()));
                } else {
                    let content = fs::read(entry.path()).unwrap_or_default();
                    all.insert(name, String::from_utf8_lossy(&content).into_owned());
                }
            }
        }
        let mut all = BTreeMap::new();
        look(&self.base.join(&self.name), "", &mut all);
        all
    }

    pub(crate) fn has(&self, path: &str, content: &str) {
        until(&format!("{} has {path}", self.name), || {
            self.all().get(path).is_some_and(|has| has == content)
        });
    }

    /// The newest state that it reports as common to all members.
    pub(crate) fn state(&self) -> Option<String> {
        self.told("in_step").last()?["state"].as_str().map(str::to_owned)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.stop();
    }
}
