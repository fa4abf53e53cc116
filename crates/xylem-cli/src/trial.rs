//! `xylem try [PATH]`: demonstrates the main use on this machine, in two processes.
//!
//! The steps are those that a user would type: `share`, `get`, `sum`. Each runs this program as a child, so that the
//! demonstration shows the commands themselves and no shortcut.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::output::text::{bytes, count, duration, rate};
use crate::shaping::ShapeArgs;
use crate::stop;
use crate::{extras, verbs};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use xylem_base::Stop;

/// Tries xylem on this machine: shares, fetches and verifies a file
///
/// One process shares PATH on 127.0.0.1, a second one fetches it over the encrypted link into a temporary folder, and
/// `xylem sum` compares both. Nothing is left behind, and the usual store is not touched.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem try           with this program's own documentation
  xylem try film.mkv  with a file of yours
  xylem try --json    for a script

",
    exit_help!()
))]
pub(crate) struct TryArgs {
    /// The file or directory to share [default: xylem's documentation]
    path: Option<PathBuf>,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// The documents within the binary, besides the manual pages. They are links in `carried/`; a published crate has files
/// there.
const DOCS: [(&str, &str); 3] = [
    ("README.md", include_str!("../carried/README.md")),
    ("ARCHITECTURE.md", include_str!("../carried/ARCHITECTURE.md")),
    ("spec/json-events.md", include_str!("../carried/json-events.md")),
];

/// Runs `xylem try`.
pub(crate) fn run(args: TryArgs, _common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    let home = tempfile::Builder::new().prefix("xylem-try-").tempdir().map_err(local)?;
    let path = match args.path {
        Some(path) => path,
        None => write_docs(&home.path().join("xylem-docs")).map_err(local)?,
    };
    let result = steps(&path, home.path(), &args.shape, &stop, out);
    let cleaned = home.close();
    result?;
    cleaned.map_err(local)?;
    step(out, "Cleaned up: the temporary folder is gone.")?;
    Ok(Exit::Done)
}

fn steps(
    path: &Path,
    home: &Path,
    shape: &ShapeArgs,
    stop: &Stop,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let shape: Vec<String> =
        shape.flags().iter().map(|(flag, value)| format!("{flag}={value}")).collect();
    let shape = shape.iter().map(OsStr::new);
    let mut args = vec![OsStr::new("share"), path.as_os_str(), OsStr::new("--listen=127.0.0.1:0")];
    args.extend(shape.clone());
    let mut sharing = TrialChild::start(&home.join("store-1"), &args)?;
    let shared = sharing.event("shared", stop)?;
    let ticket = text(&shared, "ticket")?;
    let what =
        format!("{}, {}", count(number(&shared, "files"), "file"), bytes(number(&shared, "bytes")));
    let id = sharing.child.id();
    step(out, &format!("Shared {}: {what}; process {id} serves it.", path.display()))?;
    step(out, &format!("  its ticket: {ticket}"))?;

    let into = home.join("fetched");
    fs::create_dir(&into).map_err(local)?;
    let mut args = vec![OsStr::new("get"), OsStr::new(ticket), OsStr::new("-o"), into.as_os_str()];
    args.extend(shape);
    let mut getting = TrialChild::start(&home.join("store-2"), &args)?;
    let id = getting.child.id();
    step(out, &format!("Fetching it in process {id}, over the encrypted link ..."))?;
    let fetched = getting.event("done", stop)?;
    getting.end(stop)?;
    let took = fetched.get("seconds").and_then(Value::as_f64).unwrap_or_default();
    let took = Duration::try_from_secs_f64(took).unwrap_or_default();
    let size = number(&fetched, "fetched");
    let speed = rate(size, took);
    step(out, &format!("  verified {} in {} ({speed})", bytes(size), duration(took)))?;

    let copy = PathBuf::from(text(&fetched, "path")?);
    let published = sum(path, home, stop)?;
    let arrived = sum(&copy, home, stop)?;
    step(out, "Compared with `xylem sum`:")?;
    step(out, &format!("  shared   {published}"))?;
    step(out, &format!("  fetched  {arrived}"))?;
    if published != arrived || published != text(&shared, "root")? {
        let message = "what was fetched is not what was shared; please report this as a bug";
        return Err(CommandFailure::new(Exit::Damaged, message));
    }
    step(out, "  equal: every byte arrived as it was published.")
}

/// Prints one step.
fn step(out: &mut Out, line: &str) -> Result<(), CommandFailure> {
    if out.is_quiet() && !out.is_json() {
        return Ok(());
    }
    if out.is_json() {
        return out.json(&StepRow { what: line.trim() });
    }
    out.line(line)
}

/// The root of a file or directory, as a run of `sum` prints it.
fn sum(path: &Path, home: &Path, stop: &Stop) -> Result<String, CommandFailure> {
    let mut args = vec![OsStr::new("sum")];
    if path.is_dir() {
        args.push(OsStr::new("--tree"));
    }
    args.push(OsStr::new("--"));
    args.push(path.as_os_str());
    let mut summing = TrialChild::start(&home.join("store-3"), &args)?;
    let summed = summing.event("sum", stop)?;
    summing.end(stop)?;
    Ok(text(&summed, "hash")?.to_owned())
}

fn write_docs(dir: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(dir.join("spec"))?;
    for (name, content) in DOCS {
        fs::write(dir.join(name), content)?;
    }
    fs::create_dir(dir.join("man"))?;
    fs::write(dir.join("man/xylem.1"), extras::manual_page("").unwrap_or(Ok(Vec::new()))?)?;
    for words in verbs::pages() {
        if let Some(page) = extras::manual_page(&words) {
            fs::write(dir.join(format!("man/xylem-{}.1", words.replace(' ', "-"))), page?)?;
        }
    }
    Ok(dir.to_owned())
}

/// A child that runs this program with `--json`; it is killed on drop.
struct TrialChild {
    child: Child,
    events: Receiver<Value>,
    complaints: Option<JoinHandle<String>>,
}

impl TrialChild {
    fn start(store: &Path, args: &[&OsStr]) -> Result<Self, CommandFailure> {
        let program = std::env::current_exe().map_err(local)?;
        let mut command = Command::new(program);
        // Settings of the environment, such as XYLEM_LISTEN, must not affect the demonstration.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"XYLEM_") {
                command.env_remove(name);
            }
        }
        // Ignore relays of the settings file, so that no other machine is contacted.
        command.env("XDG_CONFIG_HOME", store);
        command.arg("--json").arg("--store").arg(store).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(local)?;
        let (sender, events) = mpsc::sync_channel(64);
        // From here on a failure ends the child.
        let mut running = Self { child, events, complaints: None };
        if let Some(stdout) = running.child.stdout.take() {
            let read = std::thread::Builder::new().spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if let Ok(event) = serde_json::from_str(&line)
                        && sender.send(event).is_err()
                    {
                        return;
                    }
                }
            });
            read.map_err(|e| CommandFailure::no_thread(&e))?;
        }
        if let Some(stderr) = running.child.stderr.take() {
            let read = std::thread::Builder::new().spawn(move || {
                let mut text = Vec::new();
                // An error is one line; more than this is not shown.
                let _ = stderr.take(64 << 10).read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            });
            running.complaints = Some(read.map_err(|e| CommandFailure::no_thread(&e))?);
        }
        Ok(running)
    }

    /// Waits for the event `name`; an error with the child's message if it ends without it.
    fn event(&mut self, name: &str, stop: &Stop) -> Result<Value, CommandFailure> {
        loop {
            if stop.raised() {
                return Err(CommandFailure::new(
                    Exit::Interrupted,
                    "interrupted; nothing is left behind",
                ));
            }
            match self.events.recv_timeout(Duration::from_millis(50)) {
                Ok(event) if event.get("event").and_then(Value::as_str) == Some(name) => {
                    return Ok(event);
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.why_ended()),
            }
        }
    }

    /// Waits until the child ends with success.
    fn end(mut self, stop: &Stop) -> Result<(), CommandFailure> {
        match self.event("", stop) {
            Err(failure) if failure.exit == Exit::Done => Ok(()),
            Err(failure) => Err(failure),
            Ok(_) => Ok(()),
        }
    }

    fn why_ended(&mut self) -> CommandFailure {
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return local(error),
        };
        let exit = match status.code() {
            Some(0) => Exit::Done,
            Some(1) => Exit::Damaged,
            Some(2) => Exit::Usage,
            Some(3) => Exit::Unreachable,
            Some(130) => Exit::Interrupted,
            _ => Exit::Local,
        };
        let said = self.complaints.take().and_then(|t| t.join().ok()).unwrap_or_default();
        let line = said.lines().rfind(|line| !line.is_empty());
        let line = line.map(|line| line.strip_prefix("xylem: ").unwrap_or(line));
        CommandFailure::new(
            exit,
            line.map_or_else(|| format!("a child process ended: {status}"), str::to_owned),
        )
    }
}

impl Drop for TrialChild {
    fn drop(&mut self) {
        // It is fine if the child is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text<'a>(event: &'a Value, field: &str) -> Result<&'a str, CommandFailure> {
    event.get(field).and_then(Value::as_str).ok_or_else(|| {
        CommandFailure::new(
            Exit::Local,
            format!("an event of a child process lacks {field}; please report this as a bug"),
        )
    })
}

fn number(event: &Value, field: &str) -> u64 {
    event.get(field).and_then(Value::as_u64).unwrap_or_default()
}

fn local(error: io::Error) -> CommandFailure {
    CommandFailure::new(Exit::Local, format!("cannot run the trial: {error}"))
}

/// Event: one step of `try`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "step")]
struct StepRow<'a> {
    what: &'a str,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&StepRow { what: "x" });
    }
}
