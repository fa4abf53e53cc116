//! [`EventPrinter`]: prints the events of a folder in step, for people or for scripts.
//!
//! A script gets each event. A person gets a line for each news. Repeated events, as of a file that is written
//! constantly, are gathered and printed after growing pauses. "In step" is printed when it is true.

use super::status::{PAUSE_MEANS, named};
use crate::exit::CommandFailure;
use crate::output::Out;
use crate::output::text::{clean, count};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use xylem_folder::OWN;
use xylem_node::Event;
use xylem_sync::SyncEvent;

/// First pause between two lines of the same kind; it doubles with each further line.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A fetch that takes longer than this shows its progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Names of new files in one line.
const MAX_NAMES: usize = 5;

/// When the next line of a kind may be printed.
struct LinePace {
    pause: Duration,
    next: Option<Instant>,
}

impl LinePace {
    fn new() -> Self {
        Self { pause: PAUSE, next: None }
    }

    /// Whether a line may be printed now; if so, counts it as printed.
    fn try_print(&mut self, now: Instant) -> bool {
        let Some(next) = self.next.replace(now + self.pause) else { return true };
        if now < next {
            self.next = Some(next);
            return false;
        }
        // After a rest the pause starts again at its shortest.
        let rested = now.duration_since(next) >= self.pause;
        self.pause = if rested { PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
        self.next = Some(now + self.pause);
        true
    }
}

/// Changes by one member that were not printed yet.
#[derive(Default)]
struct GatheredChanges {
    put: u64,
    gone: u64,
    kept: u64,
    paths: Vec<String>,
}

/// See the module's documentation.
pub(super) struct EventPrinter {
    took: BTreeMap<String, GatheredChanges>,
    took_pace: LinePace,
    /// Numbers of members in step, and of paths that are not, to be printed.
    step: Option<(u64, u64)>,
    step_pace: LinePace,
    /// When the present fetch began.
    fetching: Option<Instant>,
}

impl EventPrinter {
    pub(super) fn new() -> Self {
        Self {
            took: BTreeMap::new(),
            took_pace: LinePace::new(),
            step: None,
            step_pace: LinePace::new(),
            fetching: None,
        }
    }

    /// Prints an event.
    ///
    /// # Errors
    /// Standard output is gone.
    pub(super) fn print_event(
        &mut self,
        event: SyncEvent,
        out: &mut Out,
    ) -> Result<(), CommandFailure> {
        if out.is_json() {
            return in_json(event, out);
        }
        match event {
            SyncEvent::Ready { invitation, name, key } => {
                ready(&invitation.to_string(), &name, &key, out)?;
                out.note(&clean(&format!(
                    "Ready as {name} until Ctrl-C; others join with `xylem sync DIR TICKET`"
                )));
            }
            SyncEvent::Member { name, key, up } => {
                let what = if up { "is connected" } else { "is disconnected" };
                out.note(&clean(&format!("{name} ({}) {what}", short(&key))));
            }
            SyncEvent::Took { name, put, gone, kept, paths, conflicts, copies } => {
                self.gather(name, put, gone, kept, &paths);
                self.say_took(Instant::now(), out);
                say_conflicts(&conflicts, &copies, out);
            }
            SyncEvent::InStep { members, but, .. } => self.step = Some((members, but)),
            SyncEvent::Tick { in_step } => self.tick(in_step, Instant::now(), out),
            SyncEvent::Fetching(event) => {
                let since = *self.fetching.get_or_insert_with(Instant::now);
                if since.elapsed() >= SHOWN_AFTER {
                    out.event(event);
                }
            }
            SyncEvent::Paused => {
                out.note(&format!("Paused: {PAUSE_MEANS}"));
            }
            SyncEvent::Resumed => out.note("Resumed"),
            SyncEvent::Rewrote { name, key, evidence } => out.warn(&clean(&format!(
                "{name} ({}) has signed two histories: its changes are ignored from now on; both statements are in {}",
                short(&key),
                evidence.display()
            ))),
            SyncEvent::Unproven { name, key } => out.warn(&clean(&format!(
                "{name} ({}) does not prove that its history continues: its newer changes are not applied until it does",
                short(&key)
            ))),
            SyncEvent::Applies { name, key, why } => out.note(&clean(&format!(
                "A peer named {name} has the ticket, but is not a member: {why}. The founder can admit it: `xylem sync DIR --allow {key}`"
            ))),
            SyncEvent::RulesWait { files } => out.warn(&clean(&format!(
                "another member has changed {}, which .xylemignore includes here: the change takes effect after `xylem sync DIR --accept-rules`, which lists what it shares",
                files.join(", ")
            ))),
            SyncEvent::TurnedAway { why } => out.warn(&clean(&why.to_string())),
            SyncEvent::Noted => {
                out.note("Saved; the running `xylem sync` sends it to the members");
            }
            SyncEvent::ReadOnly => out.warn(
                "this member is read-only in its group: changes made here are not applied by other members",
            ),
            // Each fetch of a version makes a link and ends it, which is no news.
            SyncEvent::Other(
                Event::PeerConnected { .. }
                | Event::PeerGone { .. }
                | Event::Fetched(_)
                | Event::Getter(_),
            ) => {}
            SyncEvent::Other(event) => out.event(event),
        }
        Ok(())
    }

    /// Prints what is gathered and not printed yet.
    pub(super) fn print_rest(&mut self, out: &mut Out) {
        out.ends_progress();
        for (name, gathered) in std::mem::take(&mut self.took) {
            out.note(&clean(&gathered.said(&name)));
        }
    }

    fn gather(&mut self, name: String, put: u64, gone: u64, kept: u64, paths: &[PathBuf]) {
        // The folder was in step before this change; a new event will follow.
        self.step = None;
        let gathered = self.took.entry(name).or_default();
        gathered.put = gathered.put.saturating_add(put);
        gathered.gone = gathered.gone.saturating_add(gone);
        gathered.kept = gathered.kept.saturating_add(kept);
        for path in paths.iter().map(|path| path.to_string_lossy().into_owned()) {
            if gathered.paths.len() < MAX_NAMES && !gathered.paths.contains(&path) {
                gathered.paths.push(path);
            }
        }
    }

    fn say_took(&mut self, now: Instant, out: &mut Out) {
        if self.took.is_empty() || !self.took_pace.try_print(now) {
            return;
        }
        for (name, gathered) in std::mem::take(&mut self.took) {
            out.note(&clean(&gathered.said(&name)));
        }
    }

    fn tick(&mut self, in_step: bool, now: Instant, out: &mut Out) {
        if self.fetching.take().is_some() {
            out.ends_progress();
        }
        self.say_took(now, out);
        // Print the changes before the line that the folder is in step.
        if let Some((members, but)) = self.step.filter(|_| in_step && self.took.is_empty())
            && self.step_pace.try_print(now)
        {
            self.step = None;
            let others = count(members, "other");
            out.note(&match but {
                0 => format!("In step with {others}"),
                but => format!(
                    "In step with {others}, except for {}: `xylem sync DIR --status`",
                    count(but, "path")
                ),
            });
        }
    }
}

impl GatheredChanges {
    fn said(&self, name: &str) -> String {
        let mut parts = Vec::new();
        if self.put > 0 {
            let names = match self.paths.is_empty() {
                true => String::new(),
                false => format!(" ({})", named(&self.paths, self.put)),
            };
            parts.push(format!("{} new or changed{names}", self.put));
        }
        if self.gone > 0 {
            parts.push(format!("{} removed", self.gone));
        }
        let kept = match self.kept {
            0 => String::new(),
            kept => format!(" ({} in {OWN}/trash)", count(kept, "old file")),
        };
        format!("From {name}: {}{kept}", parts.join(", "))
    }
}

fn say_conflicts(conflicts: &[PathBuf], copies: &[(PathBuf, String)], out: &mut Out) {
    for path in conflicts {
        let path = path.display();
        out.warn(&clean(&format!("{path}: changed by two members; both versions are kept")));
    }
    for (path, whose) in copies {
        let path = path.display();
        out.note(&clean(&format!("{path}: {whose}'s version, kept as a conflict copy")));
    }
}

/// Prints the ticket to join on standard output.
pub(super) fn ready(
    ticket: &str,
    name: &str,
    key: &str,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    if out.is_json() { out.json(&ReadyRow { ticket, name, key }) } else { out.line(ticket) }
}

fn short(key: &str) -> &str {
    key.get(..16).unwrap_or(key)
}

fn texts(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

fn in_json(event: SyncEvent, out: &mut Out) -> Result<(), CommandFailure> {
    match event {
        SyncEvent::Ready { invitation, name, key } => {
            ready(&invitation.to_string(), &name, &key, out)
        }
        SyncEvent::Member { name, key, up } => out.json(&MemberRow { name: &name, key: &key, up }),
        SyncEvent::Took { name, put, gone, kept, paths, conflicts, copies } => {
            let copies: Vec<PathBuf> = copies.into_iter().map(|(path, _)| path).collect();
            let (paths, conflicts, copies) = (texts(&paths), texts(&conflicts), texts(&copies));
            out.json(&TookRow {
                name: &name,
                put,
                gone,
                kept,
                paths: &paths,
                conflicts: &conflicts,
                copies: &copies,
            })
        }
        SyncEvent::InStep { state, members, but } => {
            out.json(&InStepRow { state: &state, members, but })
        }
        SyncEvent::Rewrote { name, key, evidence } => {
            let evidence = evidence.to_string_lossy();
            out.json(&RewroteRow { name: &name, key: &key, evidence: &evidence })
        }
        SyncEvent::Unproven { name, key } => out.json(&UnprovenRow { name: &name, key: &key }),
        SyncEvent::Applies { name, key, why } => {
            out.json(&AppliesRow { name: &name, key: &key, why: &why.to_string() })
        }
        SyncEvent::RulesWait { files } => out.json(&RulesWaitRow { files: &files }),
        SyncEvent::TurnedAway { why } => {
            out.json(&TurnedAwayRow { removed: why.is_removal(), why: &why.to_string() })
        }
        SyncEvent::ReadOnly => out.json(&ReadOnlyRow {}),
        SyncEvent::Paused => out.json(&PausedRow { paused: true }),
        SyncEvent::Resumed => out.json(&PausedRow { paused: false }),
        SyncEvent::Noted | SyncEvent::Tick { .. } | SyncEvent::Fetching(_) => Ok(()),
        SyncEvent::Other(event) => {
            out.event(event);
            Ok(())
        }
    }
}

/// Event: others can join.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_ready")]
struct ReadyRow<'a> {
    ticket: &'a str,
    name: &'a str,
    key: &'a str,
}

/// Event: a member came or went.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_member")]
struct MemberRow<'a> {
    name: &'a str,
    key: &'a str,
    up: bool,
}

/// Event: changes of a member were applied.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_took")]
struct TookRow<'a> {
    name: &'a str,
    put: u64,
    gone: u64,
    kept: u64,
    paths: &'a [String],
    conflicts: &'a [String],
    copies: &'a [String],
}

/// Event: all connected members have the same state.
#[derive(Serialize)]
#[serde(tag = "event", rename = "in_step")]
struct InStepRow<'a> {
    state: &'a str,
    members: u64,
    but: u64,
}

/// Event: a member has signed two histories.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_rewrote")]
struct RewroteRow<'a> {
    name: &'a str,
    key: &'a str,
    evidence: &'a str,
}

/// Event: a member has not proven that its history continues.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_unproven")]
struct UnprovenRow<'a> {
    name: &'a str,
    key: &'a str,
}

/// Event: a peer has the ticket and is no member.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_applies")]
struct AppliesRow<'a> {
    name: &'a str,
    key: &'a str,
    why: &'a str,
}

/// Event: another member has changed rules.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_rules_wait")]
struct RulesWaitRow<'a> {
    files: &'a [String],
}

/// Event: we are no member.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_refused")]
struct TurnedAwayRow<'a> {
    removed: bool,
    why: &'a str,
}

/// Event: we may only read.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_read_only")]
struct ReadOnlyRow {}

/// Event: a pause has begun or ended.
#[derive(Serialize)]
#[serde(tag = "event", rename = "sync_paused")]
struct PausedRow {
    paused: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let (name, key) = ("a", "00");
        assert_documented(&ReadyRow { ticket: "xylem-sync:", name, key });
        assert_documented(&MemberRow { name, key, up: true });
        let (paths, conflicts, copies) = (&[][..], &[][..], &[][..]);
        assert_documented(&TookRow { name, put: 1, gone: 0, kept: 0, paths, conflicts, copies });
        assert_documented(&InStepRow { state: "00", members: 1, but: 0 });
        assert_documented(&ReadOnlyRow {});
        assert_documented(&RulesWaitRow { files: &[] });
        assert_documented(&PausedRow { paused: true });
        assert_documented(&RewroteRow { name, key, evidence: "e" });
        assert_documented(&UnprovenRow { name, key });
        assert_documented(&AppliesRow { name, key, why: "" });
        assert_documented(&TurnedAwayRow { removed: true, why: "" });
    }

    #[test]
    fn repeated_lines_have_growing_pauses_until_a_rest() {
        let (mut pace, begin) = (LinePace::new(), Instant::now());
        let mut told = Vec::new();
        for tenths in 0..3_000 {
            if pace.try_print(begin + tenths * Duration::from_millis(100)) {
                told.push(tenths / 10);
            }
        }
        assert_eq!(told, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
        assert!(pace.try_print(begin + Duration::from_secs(600)));
        assert!(!pace.try_print(begin + Duration::from_millis(600_900)));
        assert!(pace.try_print(begin + Duration::from_secs(601)));
    }

    #[test]
    fn each_name_is_reported_once() {
        let mut teller = EventPrinter::new();
        let paths = ["a", "b/c", "a"].map(PathBuf::from);
        teller.gather("bob".into(), 2, 0, 1, &paths);
        teller.gather("bob".into(), 1, 2, 0, &paths[..1]);
        let said = teller.took["bob"].said("bob");
        assert_eq!(
            said,
            "From bob: 3 new or changed (a, b/c and 1 more), 2 removed (1 old file in .xylem-sync/trash)"
        );
        teller.gather(
            "bob".into(),
            9,
            0,
            0,
            &(0..9).map(|n| n.to_string().into()).collect::<Vec<_>>(),
        );
        assert_eq!(teller.took["bob"].paths.len(), MAX_NAMES);
    }
}
