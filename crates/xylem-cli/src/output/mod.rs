//! Output for people and for scripts.
//!
//! Standard output carries results only (a ticket, sums, damaged ranges, or JSON events). Everything else goes to
//! standard error and never makes the run fail. [`Out`] is the one place that writes to either.

mod codes;
#[cfg(test)]
mod documented;
mod fetched;
mod getters;
pub(crate) mod log;
mod progress;
mod qr;
mod reaching;
mod shared;
pub(crate) mod text;
pub(crate) mod witnesses;

#[cfg(test)]
pub(crate) use documented::assert_documented;
pub(crate) use fetched::{FetchedPart, report, report_object};
pub(crate) use progress::{ProgressDisplay, ProgressForm, ProgressPhase};

use crate::cli::{Color, Common, LogFormat};
use crate::exit::{CommandFailure, Exit};
use crate::running::NoteWriter;
use crate::web::behind_router;
use getters::GetterDisplay;
use reaching::LineKind;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;
use text::{bytes, clean, clean_json, count, duration, path_for_sums};
use tracing::Level;
use xylem_base::Stop;
use xylem_files::{CheckpointMade, FlawFound, LibraryEvent, SkipReason};
use xylem_node::mail::{MailEvent, MailMessage, MessageContent};
use xylem_node::{
    Event, FetchReport, GetterReport, GetterState, ReachStatus, ReachWay, RepositoryChange,
};
use xylem_peers::reachable::LeftOut;

/// Lines that `share` prints around a QR code, the ticket's own among them.
const AROUND_QR: usize = 14;
/// Files of a directory that are named before it is fetched, unless `-v` asks for more.
const SHOWN_FILES: usize = 20;

/// Writes one line `xylem: …` to standard error; an empty one writes nothing.
pub(crate) fn error_line(message: &str) {
    if !message.is_empty() {
        log::write_message(Level::ERROR, "xylem: ", &clean(message));
    }
}

/// Writes one line `warning: …` to standard error.
pub(crate) fn warning_line(message: &str) {
    log::write_message(Level::WARN, "warning: ", &clean(message));
}

/// Reports a wrong command line before flags are known: [`Out::failed`] without colour.
pub(crate) fn wrong_usage(message: &str, json: bool) {
    if json {
        let event = ErrorRow { exit: Exit::Usage as u8, message };
        let _ = writeln!(io::stdout().lock(), "{}", json_line(&event));
    }
    error_line(message);
}

/// One line of JSON, without its newline. `docs/spec/json-events.md` is the contract.
pub(crate) fn json_line(event: &impl Serialize) -> String {
    let line = serde_json::to_string(event).expect("plain fields without keys that are no text");
    match clean_json(&line) {
        Cow::Borrowed(_) => line,
        Cow::Owned(safe) => safe,
    }
}

/// Prints results, notes and progress of one run, as the common flags demand.
pub(crate) struct Out {
    json: bool,
    quiet: bool,
    /// Whether steps of progress are reported.
    steps: bool,
    verbose: bool,
    color: bool,
    /// Whether a ticket's QR code was asked for.
    qr: bool,
    progress: ProgressDisplay,
    /// The getters of a share.
    getters: GetterDisplay,
    /// How this machine can be reached from elsewhere, as reported so far.
    way: Option<ReachWay>,
    /// Where the page for browsers is served, until it is reported which browsers reach it.
    web: Option<SocketAddr>,
    /// Receives the events for `xylem ui`.
    running: Option<NoteWriter>,
    /// Raised when standard output is gone, so that a long run ends.
    stop: Option<Stop>,
    /// The first failed write to standard output, kept until the run can return it.
    broken: Option<CommandFailure>,
}

impl Out {
    /// Decides from the flags and from the kind of standard error.
    pub(crate) fn new(common: &Common) -> Self {
        // A dumb terminal has no colours and no cursor to move: it gets the output that a file gets.
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let json_lines = common.log_format == LogFormat::Json;
        log::set_line_format(common.log_format);
        let terminal = io::stderr().is_terminal() && !dumb && !json_lines;
        let color = match common.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        let shown = !(common.quiet || common.json || common.no_progress);
        Self {
            json: common.json,
            quiet: common.quiet,
            steps: !common.no_progress,
            verbose: common.verbose > 0,
            color,
            qr: false,
            progress: ProgressDisplay::new(match terminal {
                _ if !shown => ProgressForm::Hidden,
                true => ProgressForm::Bar,
                false => ProgressForm::Lines,
            }),
            getters: GetterDisplay::default(),
            way: None,
            web: None,
            running: None,
            stop: None,
            broken: None,
        }
    }

    /// Makes a ticket's QR code appear, however many lines it needs.
    pub(crate) fn wants_qr(&mut self) {
        self.qr = true;
    }

    /// Whether results are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether only errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Hands over the progress bar, for a thread of its own; `None` if no bar is wanted or standard error is no
    /// terminal. Notes and events show no progress from then on.
    pub(crate) fn take_bar(&mut self) -> Option<ProgressDisplay> {
        let bar = self.progress.draws_bars();
        let hidden = || ProgressDisplay::new(ProgressForm::Hidden);
        bar.then(|| std::mem::replace(&mut self.progress, hidden()))
    }

    /// Clears the progress of work that is done.
    pub(crate) fn ends_progress(&mut self) {
        self.progress.clear();
    }

    /// Makes `stop` end the run when standard output is gone.
    pub(crate) fn ends_with(&mut self, stop: &Stop) {
        self.stop = Some(stop.clone());
    }

    /// Lets `xylem ui` see, from now on, that this process does `verb`.
    pub(crate) fn runs_as(&mut self, verb: &str, store: &Path) {
        self.running = NoteWriter::begin(verb, store);
    }

    /// Passes `xylem ui` an event that is reported in another way.
    pub(crate) fn seen(&self, event: &Event) {
        if let Some(running) = &self.running {
            running.see(event);
        }
    }

    /// Writes bytes to standard output and flushes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CommandFailure> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|e| CommandFailure::writing(&e))
    }

    /// Writes one line to standard output and flushes. Control characters in it are escaped.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), CommandFailure> {
        self.exact_line(&clean(line))
    }

    /// Writes a line that is safe already, without escapes.
    pub(crate) fn exact_line(&mut self, line: &str) -> Result<(), CommandFailure> {
        self.progress.clear();
        self.bytes(format!("{line}\n").as_bytes())
    }

    /// Writes one JSON event to standard output, if JSON is asked for.
    pub(crate) fn json(&mut self, event: &impl Serialize) -> Result<(), CommandFailure> {
        if !self.json {
            return Ok(());
        }
        self.exact_line(&json_line(event))
    }

    /// Writes `ROOT  PATH`, as `xylem sum` prints it.
    pub(crate) fn sum_line(&mut self, root: &str, path: &Path) -> Result<(), CommandFailure> {
        let (mark, name) = path_for_sums(path, io::stdout().is_terminal());
        self.line(&format!("{mark}{root}  {name}"))
    }

    /// One line on standard error for a person; nothing with `-q` or `--json`.
    pub(crate) fn note(&mut self, line: &str) {
        if !self.quiet && !self.json {
            self.stderr(Level::INFO, "", line);
        }
    }

    /// A note that only `-v` shows.
    pub(crate) fn detail(&mut self, line: &str) {
        if self.verbose {
            self.note(line);
        }
    }

    /// A line on standard error that only `-q` suppresses.
    pub(crate) fn warn(&mut self, line: &str) {
        if !self.quiet {
            let prefix = format!("{}: ", self.paint("33", "warning"));
            self.stderr(Level::WARN, &prefix, &clean(line));
        }
    }

    /// Reports why the run ends, as text and, with `--json`, as an event.
    pub(crate) fn failed(&mut self, failure: &CommandFailure) {
        self.progress.clear();
        if failure.message.is_empty() {
            return;
        }
        let event = ErrorRow { exit: failure.exit as u8, message: &failure.message };
        // Standard output may be what failed; the line on standard error reports it in any case.
        let _ = self.json(&event);
        let prefix = format!("{}: ", self.paint("1;31", "xylem"));
        log::write_message(Level::ERROR, &prefix, &clean(&failure.message));
    }

    /// `text` in an ANSI colour, where colour is wanted on standard error.
    pub(crate) fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn stderr(&mut self, level: Level, prefix: &str, line: &str) {
        self.progress.aside(|| log::write_message(level, prefix, line));
    }

    /// The first write to standard output that failed during [`Self::event`]s, if one did.
    pub(crate) fn take_broken(&mut self) -> Result<(), CommandFailure> {
        self.progress.clear();
        self.broken.take().map_or(Ok(()), Err)
    }

    /// Shows an event. A failed write raises the stop flag and is kept for [`Self::take_broken`].
    pub(crate) fn event(&mut self, event: Event) {
        self.seen(&event);
        // It has no line and no JSON. It comes once a second, also when all getters have stalled.
        if matches!(event, Event::Serving { .. }) {
            return self.show_serving();
        }
        if let Err(failure) = self.try_event(event) {
            if let Some(stop) = &self.stop {
                stop.raise();
            }
            self.broken.get_or_insert(failure);
        }
    }

    fn try_event(&mut self, event: Event) -> Result<(), CommandFailure> {
        if self.json {
            let is_step = matches!(
                event,
                Event::Progress { .. }
                    | Event::Library(LibraryEvent::Hashing { .. })
                    | Event::Getter(GetterReport { state: GetterState::Continues, .. })
            );
            return if is_step && !self.steps { Ok(()) } else { self.json(&event) };
        }
        if let Event::Reach(ReachStatus { way, .. }) = &event {
            self.way = Some(*way);
            if let Some(what) = self.web.and_then(|at| behind_router(*way, at)) {
                self.web = None;
                self.warn(&what);
            }
        }
        match event {
            Event::Library(LibraryEvent::Hashing { done, total }) => {
                self.progress.update(ProgressPhase::Hashing, done, total, 0);
            }
            Event::Progress { verified, total, peers, relayed, .. } => {
                self.progress.update_from(verified, total, peers, relayed);
            }
            event @ Event::Shared { .. } => self.shared(event)?,
            Event::Library(LibraryEvent::Checkpoint(CheckpointMade {
                number,
                version,
                bytes: size,
                last,
                ..
            })) => {
                let what = if last { "the last checkpoint" } else { "checkpoint" };
                let line = format!("{what} {number}, v={version}: {}", bytes(size));
                if last { self.note(&line) } else { self.detail(&line) }
            }
            Event::Library(LibraryEvent::Cosigned(said)) => self.note(&witnesses::cosigned(&said)),
            Event::Listening { uri } => self.note(&clean(&format!("Listening on {uri}"))),
            Event::Relaying { uris, hosts, .. } => {
                self.note("Relaying. Others name it with --relay and one of these:");
                let all = uris.iter().chain(&hosts);
                all.for_each(|uri| self.note(&clean(&format!("  {uri}"))));
            }
            Event::Volunteering => {
                self.note(
                    "Listed in the BitTorrent DHT: strangers that know no relay find this one",
                );
            }
            Event::Relayed { counts } => {
                let counts = counts.iter().map(|(what, count)| format!("{what} {count}"));
                self.detail(&format!("relayed: {}", counts.collect::<Vec<_>>().join(", ")));
            }
            Event::Repository { change, name, packets, failed, .. } => {
                let failed = failed.map(|why| format!(": {why}")).unwrap_or_default();
                let what = match change {
                    RepositoryChange::Opened => format!("takes commands at {name}"),
                    RepositoryChange::Inserted => format!("{name}: {packets} packets inserted"),
                    RepositoryChange::Removed => format!("{name}: {packets} packets removed"),
                    RepositoryChange::Refused => format!("refused: {name}"),
                };
                self.detail(&clean(&format!("repository: {what}{failed}")));
            }
            Event::Registered { forwarder, prefix } => {
                self.note(&clean(&format!("Serving {prefix} through {forwarder}")));
            }
            Event::Library(LibraryEvent::Warning { what }) => self.warn(&what),
            Event::Library(LibraryEvent::Flaw(flaw)) => self.flaw(&flaw)?,
            Event::Library(LibraryEvent::Mended { path, start, end, .. }) => {
                let what = match start == end {
                    true => "its tree is mended".to_owned(),
                    false => format!("{start}..{end}: mended"),
                };
                self.line(&clean(&format!("{}: {what}", path.display())))?;
            }
            Event::Library(LibraryEvent::Skipped {
                why: SkipReason::Unreadable(why) | SkipReason::Changed(why),
                ..
            }) => {
                self.warn(&format!("no longer served as it was: {why}"));
            }
            Event::Library(LibraryEvent::Skipped { path, why }) => {
                self.warn(&format!("left out {}: {why}", path.display()));
            }
            Event::Reachable { left_out, .. } => {
                for left in left_out {
                    let LeftOut { address, interface, why } = left;
                    self.detail(&clean(&format!(
                        "not in the ticket: {address} on {interface} ({why})"
                    )));
                }
            }
            Event::Fetched(told) => {
                let FetchReport { peer, name, bytes: size, fetched, elapsed, .. } = &told;
                let what = last_of(name);
                let (size, time) = (bytes(*size), duration(*elapsed));
                let peer = peer.for_people();
                let line = match fetched >= &told.bytes {
                    true => format!("{peer} fetched all of {what} ({size} in {time})"),
                    false => {
                        let took = bytes(*fetched);
                        format!("{peer} has all of {what} now ({size}, of which it lacked {took})")
                    }
                };
                if let Some(line) = self.getters.pace_complete(Instant::now(), line) {
                    self.note(&clean(&line));
                }
            }
            Event::Getter(told) => {
                if let Some(line) = self.getters.see(Instant::now(), &told) {
                    self.note(&clean(&line));
                }
                self.show_serving();
            }
            Event::PeerMisbehaved { peer, what } => self.warn(&format!(
                "dropped data of peer {} that did not verify: {what}; asking other peers",
                peer.for_people()
            )),
            Event::Found { name, directory, root, bytes: size, files } => {
                let what = if directory { count(files, "file") } else { "one file".to_owned() };
                self.note(&format!("Fetching {}: {what}, {}", clean(&name), bytes(size)));
                self.detail(&format!("root {root}"));
            }
            Event::Library(LibraryEvent::LeftOut { excluded, unreadable }) => {
                if excluded > 0 {
                    self.note(&format!("Left out {excluded} by --exclude"));
                }
                if unreadable > 0 {
                    let what = "could not be read and are left out; --strict makes that an error";
                    self.warn(&format!("{unreadable} {what}"));
                }
            }
            Event::Library(LibraryEvent::Planned { path, bytes: size, replaces }) => {
                let what = if replaces { "replace" } else { "fetch" };
                self.note(&clean(&format!("  {what:<8} {:>10}  {}", bytes(size), path.display())));
            }
            Event::Library(LibraryEvent::DryRun { files, bytes: size, replaced, removed }) => {
                let (files, size) = (count(files, "file"), bytes(size));
                self.note(&format!(
                    "Dry run, nothing was changed: would fetch {files}, {size} at most, replace {replaced} and remove {removed}"
                ));
            }
            Event::Library(LibraryEvent::Removing { files, paths }) => {
                let what = "that the publication does not have, once the fetch is complete";
                self.note(&format!("Removes {} {what}", count(files, "file")));
                for path in &paths {
                    self.note(&clean(&format!("  removes {}", path.display())));
                }
            }
            Event::Library(LibraryEvent::Contents { files, more }) => {
                let shown = if self.verbose { files.len() } else { files.len().min(SHOWN_FILES) };
                for file in &files[..shown] {
                    let (size, path) = (bytes(file.size), file.path.display());
                    self.note(&clean(&format!("  {size:>10}  {path}")));
                }
                let rest = more + (files.len() - shown) as u64;
                if rest > 0 {
                    self.note(&format!("  and {} more", count(rest, "file")));
                }
            }
            Event::Library(LibraryEvent::Resumed { bytes: kept }) => {
                self.note(&format!("{} from an earlier run verified", bytes(kept)));
            }
            Event::Offering { listen, .. } => {
                let at = listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                self.detail(&format!("verified pieces are served to others at {at}"));
            }
            Event::Code(event) => codes::show(self, &event),
            Event::Mail(event) => self.mail(&event),
            other => match reaching::line_for(&other, self.way) {
                Some((LineKind::Note, line)) => self.note(&line),
                Some((LineKind::Detail, line)) => self.detail(&line),
                Some((LineKind::Warning, line)) => self.warn(&line),
                None => {}
            },
        }
        Ok(())
    }

    /// Shows the figures of a share on the last line of a terminal, while there are getters.
    fn show_serving(&mut self) {
        let (getters, sent) = self.getters.totals();
        self.progress.serving(getters, sent);
    }

    fn mail(&mut self, event: &MailEvent) {
        let line = match event {
            MailEvent::Arrived(message) => {
                let unknown = if message.known { "" } else { " (unknown sender)" };
                let what = match &message.what {
                    MessageContent::Ticket(_) => {
                        format!("{}, {}", message.name, bytes(message.size))
                    }
                    MessageContent::Note(_) => "a note".to_owned(),
                };
                let MailMessage { number, from, .. } = &**message;
                format!("Mail {number} from {from}{unknown}: {what}")
            }
            MailEvent::Queued { to, .. } => format!("Sending to {to}"),
            MailEvent::Stored { to, at, .. } => {
                format!("The message for {to} is stored at {at}, not fetched yet")
            }
            MailEvent::Delivered { to, .. } => format!("{to} has the message"),
            MailEvent::Lost { from, count: 1 } => format!("1 message from {from} was lost"),
            MailEvent::Lost { from, count } => format!("{count} messages from {from} were lost"),
            MailEvent::Unread { to, count, again: 0 } => {
                format!("{to} could not read messages: {count} lost; send again what matters")
            }
            MailEvent::Unread { to, count, again } => {
                format!("{to} could not read messages: {count} lost, {again} sent again")
            }
            MailEvent::Again { to, .. } => format!("A message for {to} is sent again"),
            MailEvent::Waiting { to, why, gone: false, .. } => {
                format!("The message for {to} waits: {why}")
            }
            MailEvent::Waiting { to, why, .. } => {
                return self.warn(&format!("gave up on the message for {to}: {why}"));
            }
            MailEvent::Fetched { by, .. } => format!("{by} has fetched it"),
            other => return self.detail(&clean(&format!("{other:?}"))),
        };
        self.note(&clean(&line));
    }

    /// Writes one line to standard output for a damaged place.
    fn flaw(&mut self, flaw: &FlawFound) -> Result<(), CommandFailure> {
        let FlawFound { path, start, end, first_block, blocks, what, .. } = flaw;
        let place = match blocks {
            0 if start == end => String::new(),
            0 => format!(" {start}..{end}:"),
            1 => format!(" {start}..{end} (block {first_block}):"),
            _ => {
                let last = first_block + blocks - 1;
                format!(" {start}..{end} (blocks {first_block} to {last}):")
            }
        };
        self.line(&clean(&format!("{}:{place} {what}", path.display())))
    }

    /// Shows the ticket as a QR code: if a flag asks for it, or if the terminal has room for it and the lines printed
    /// before.
    fn show_qr(&mut self, ticket: &str) {
        let terminal = io::stderr().is_terminal();
        if self.quiet || self.json || !(self.qr || terminal) {
            return;
        }
        let (rows, columns) = console::Term::stderr().size();
        let columns = if terminal { usize::from(columns) } else { usize::MAX };
        match qr::draw(ticket, columns, self.color) {
            Some(code) if self.qr || code.lines().count() + AROUND_QR <= usize::from(rows) => {
                self.note(&code);
            }
            None if self.qr => self.warn("the terminal is too narrow for the ticket's QR code"),
            _ => {}
        }
    }
}

/// A versioned name in the form for people: its component before the version.
fn last_of(name: &xylem_packet::Name) -> String {
    let object = name.as_ref().parent();
    let last = object.last().map(|component| component.value().to_vec());
    String::from_utf8_lossy(&last.unwrap_or_default()).into_owned()
}

/// `--json` and results as raw bytes cannot share standard output.
pub(crate) fn not_with_json(out: &Out, what: &str) -> Result<(), CommandFailure> {
    if out.is_json() {
        let message = format!("--json and {what} both write to standard output; leave one out");
        return Err(CommandFailure::new(Exit::Usage, message));
    }
    Ok(())
}

/// Event: why the run ends.
#[derive(Serialize)]
#[serde(tag = "event", rename = "error")]
struct ErrorRow<'a> {
    exit: u8,
    message: &'a str,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&ErrorRow { exit: 2, message: "x" });
    }
}
