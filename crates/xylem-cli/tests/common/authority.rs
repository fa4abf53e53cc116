//! A running `xylem ndn ca`, clients that request certificates of it, and a mail server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::{Events, assert_exit, finish, until, until_all_is_read, xylem};

/// A program with events that are read as they come; killed when dropped.
pub(crate) struct EventProcess {
    events: Events,
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: Arc<Mutex<String>>,
}

impl EventProcess {
    pub(crate) fn start(store: &Path, args: &[&str]) -> Self {
        let mut command = xylem(store);
        command.arg("--json").args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (events, stderr) = (Events::default(), Arc::new(Mutex::new(String::new())));
        let into = events.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                into.lock().unwrap().push(serde_json::from_str(&line).expect("JSON"));
            }
        });
        let into = stderr.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = err.read(&mut bytes) {
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        let stdin = child.stdin.take();
        EventProcess { events, child, stdin, stderr }
    }

    pub(crate) fn told(&self, event: &str) -> Vec<Value> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|e| e["event"] == event).cloned().collect()
    }

    /// Waits for event number `at` (from 0) of a kind.
    #[track_caller]
    pub(crate) fn wait(&mut self, event: &str, at: usize) -> Value {
        until(event, || {
            let ended = self.child.try_wait().unwrap();
            if ended.is_some() {
                self.read_rest();
            }
            let there = self.told(event).len() > at;
            assert!(there || ended.is_none(), "{event}: {}", self.stderr.lock().unwrap());
            there
        });
        self.told(event).swap_remove(at)
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").expect("it reads");
    }

    /// Closes its standard input and waits for its end; returns its exit code and standard error.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        self.stdin = None;
        let mut code = None;
        until("its end", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        self.read_rest();
        let said = self.stderr.lock().unwrap().clone();
        assert!(!said.contains("panicked"), "{said}");
        (code.unwrap().code(), said)
    }

    /// Waits for all that it printed before it ended.
    fn read_rest(&self) {
        until_all_is_read(&self.events);
        until_all_is_read(&self.stderr);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for EventProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes the CA's key, and starts it.
pub(crate) fn authority(store: &Path, at: &str, more: &[&str]) -> EventProcess {
    if !store.join("keys/ndn").exists() {
        let mut command = xylem(store);
        command.args(["key", "new", "/org"]);
        assert_exit(&finish(command), 0);
    }
    let mut ca =
        EventProcess::start(store, &[&["ndn", "ca", "/org", "--at", at][..], more].concat());
    ca.wait("ca", 0);
    ca
}

/// The digest that the CA prints.
pub(crate) fn digest(ca: &EventProcess) -> String {
    ca.told("ca")[0]["digest"].as_str().expect("text").to_owned()
}

/// A mail server on loopback that takes one email a connection; keeps the commands received, and the emails.
pub(crate) struct MailServer {
    pub(crate) at: String,
    pub(crate) emails: Arc<Mutex<Vec<Email>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Email {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) text: String,
}

impl MailServer {
    /// Starts a server that accepts all emails, or refuses all.
    pub(crate) fn start(takes: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, emails) = (listener.local_addr().unwrap().to_string(), Arc::default());
        let into: Arc<Mutex<Vec<Email>>> = Arc::clone(&emails);
        let serve = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let _ = one(stream, takes, &into);
            }
        };
        std::thread::Builder::new().name("smtp".to_owned()).spawn(serve).unwrap();
        MailServer { at, emails }
    }

    /// Email number `at` (from 0).
    pub(crate) fn email(&self, at: usize) -> Email {
        until("an email", || self.emails.lock().unwrap().len() > at);
        self.emails.lock().unwrap()[at].clone()
    }
}

/// One connection (RFC 5321).
fn one(stream: TcpStream, takes: bool, emails: &Mutex<Vec<Email>>) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut say = |text: &str| out.write_all(format!("{text}\r\n").as_bytes());
    let mut email = Email { from: String::new(), to: Vec::new(), text: String::new() };
    let mut lines = BufReader::new(stream).lines();
    say("220 test")?;
    while let Some(line) = lines.next() {
        let line = line?;
        let argument = line.split_once(':').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        match line.split([' ', ':']).next().unwrap_or_default() {
            "EHLO" => say("250-test\r\n250 8BITMIME")?,
            "MAIL" => {
                email.from = argument;
                say("250 ok")?;
            }
            "RCPT" if !takes => say("550 nobody of this name here")?,
            "RCPT" => {
                email.to.push(argument);
                say("250 ok")?;
            }
            "DATA" => {
                say("354 go on")?;
                for line in lines.by_ref() {
                    let line = line?;
                    if line == "." {
                        break;
                    }
                    email.text += &line;
                    email.text.push('\n');
                }
                emails.lock().unwrap().push(email.clone());
                say("250 taken")?;
            }
            "QUIT" => return say("221 bye"),
            _ => say("502 what?")?,
        }
    }
    Ok(())
}
