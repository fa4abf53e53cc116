//! [`SyncStatus`]: the status of a folder in step, for `sync DIR --status`, `sync --list` and `xylem ui`.
//!
//! The process that keeps it in step replaces `STORE/sync/ID/status.json` atomically after changes, at most once a
//! second. The file `status.lock` beside it is locked as long as that process lives, which distinguishes running
//! processes from killed ones.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xylem_folder::{FULL_MESH, ObstacleKind, Obstacles, SyncHome};
use xylem_library::{Blame, Error, Only, canonical, disk, os_path};
use xylem_node::wall_clock;
use xylem_store::{Clobber, write_atomically};

use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::text::{bytes, clean, count};
use crate::running;

const FILE: &str = "status.json";
const LOCK: &str = "status.lock";
/// File in the watched folder of roles: nothing is published or applied while it exists.
const PAUSED: &str = "paused";
/// What a pause means, in messages.
pub(super) const PAUSE_MEANS: &str =
    "no change is published or applied until `xylem sync DIR --resume`";
/// Folders of a store that are listed at most; the limit in bytes of a status follows.
const MAX_FOLDERS: usize = 256;
const MAX_STATUS: u64 = 16 << 20;
/// Obstacles that a status lists at most; the limit of a fetch's files follows.
const MAX_NAMED: usize = 1_000;
const MAX_FETCHED: usize = 5;

/// The state of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FolderStep {
    /// No process keeps it in step.
    #[default]
    NotRunning,
    /// The first scan since the start is running.
    Starting,
    /// `--pause` is in effect.
    Paused,
    /// The group's founder has removed this member, or has not admitted it; no other member follows it.
    NoMember,
    /// Something is missing here or at another member, or waits.
    Behind,
    /// All connected members with the right to write have the same state.
    InStep,
}

/// See the module's documentation. Times are milliseconds since 1970. Its JSON is an event of docs/spec/json-events.md.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename = "sync_status", default)]
pub(crate) struct SyncStatus {
    pub(crate) folder: String,
    /// Our name in the group. Our key and our role follow: founder, member, read_only (changes made here stay here) or
    /// none.
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) role: String,
    /// Why other members refuse its links.
    pub(crate) refused: Option<String>,
    pub(crate) step: FolderStep,
    /// Whether a process keeps it in step. Its process id, its start and the time of the last change follow.
    pub(crate) running: bool,
    pub(crate) pid: u32,
    pub(crate) since_ms: u64,
    pub(crate) at_ms: u64,
    /// Whether the background node starts it.
    pub(crate) background: bool,
    pub(crate) paused: bool,
    /// Whether extended attributes are exchanged (`--xattrs`).
    pub(crate) xattrs: bool,
    pub(crate) members: Vec<MemberStatus>,
    /// Paths that are not in step, at most 1,000; the number of further ones is `more`.
    pub(crate) missing: Vec<MissingStatus>,
    pub(crate) more: u64,
    /// The present fetch.
    pub(crate) fetching: Option<FetchingStatus>,
    /// Removals by others that wait until this member accepts them; whether rules wait follows.
    pub(crate) removals_wait: u64,
    pub(crate) rules_wait: bool,
}

/// Another member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MemberStatus {
    pub(crate) name: String,
    pub(crate) key: String,
    /// One of: founder, member, read_only, removed.
    pub(crate) role: String,
    /// Whether there is a link to it; since when follows.
    pub(crate) here: bool,
    pub(crate) since_ms: u64,
    /// Whether its last statement has the state of this folder.
    pub(crate) in_step: bool,
    /// Why nothing of it is applied.
    pub(crate) why: Option<String>,
}

/// One path that is not in step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MissingStatus {
    pub(crate) path: String,
    pub(crate) kind: ObstacleKind,
    /// The meaning of `kind` in words; the system's reason follows.
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) since_ms: u64,
    pub(crate) tried: u32,
    /// When it is tried again.
    pub(crate) again_ms: u64,
}

/// A fetch from a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FetchingStatus {
    pub(crate) from: String,
    /// Verified bytes; `total` is 0 if it is not known yet.
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// The first of its files; the number of all follows.
    pub(crate) paths: Vec<String>,
    pub(crate) files: u64,
}

fn text(path: &[u8]) -> String {
    os_path(path).to_string_lossy().into_owned()
}

/// The meaning of an obstacle for a user that waits for the file.
fn in_words(kind: ObstacleKind) -> &'static str {
    match kind {
        ObstacleKind::Unreadable => "it can't be read here, so other members don't get it",
        ObstacleKind::Busy => "it changes constantly, and is sent from time to time",
        ObstacleKind::Name => "its name or depth is not allowed",
        ObstacleKind::NotFetched => "no member has delivered it yet",
        ObstacleKind::NoRoom => "there is no room for it on this disk",
        ObstacleKind::NotPlaced => "it was fetched, but can't be put in place",
        ObstacleKind::Attributes => "its extended attributes are not in step; its content is",
        ObstacleKind::Refused => "the member's version of it is refused",
        ObstacleKind::Removal => "another member removed it together with many others",
    }
}

impl SyncStatus {
    /// Takes over the obstacles.
    pub(super) fn take(&mut self, obstacles: &Obstacles) {
        let named = obstacles.iter().take(MAX_NAMED).map(|(path, obstacle)| MissingStatus {
            path: text(path),
            kind: obstacle.kind,
            what: in_words(obstacle.kind).to_owned(),
            why: obstacle.why.clone(),
            since_ms: obstacle.since_ms,
            tried: obstacle.tried,
            again_ms: obstacle.again_ms,
        });
        self.missing = named.collect();
        self.more = obstacles.count().saturating_sub(self.missing.len() as u64);
        let waits = obstacles.iter().filter(|(_, one)| one.kind == ObstacleKind::Removal);
        self.removals_wait = waits.count() as u64;
    }

    /// Marks that the process has ended.
    fn end(&mut self) {
        let at_ms = self.at_ms;
        (self.running, self.step, self.fetching) = (false, FolderStep::NotRunning, None);
        for member in self.members.iter_mut().filter(|member| member.here) {
            (member.here, member.since_ms) = (false, at_ms);
        }
    }

    /// The status of a folder for which no process has written one yet.
    fn never_started(home: &SyncHome, folder: &Path) -> Result<Self, CommandFailure> {
        let founder = home.invitation.group.founder;
        let member = |(said, _): (xylem_folder::MemberStatement, Vec<u8>)| MemberStatus {
            name: said.name,
            key: said.member.to_string(),
            role: if said.member == founder { "founder" } else { "member" }.to_owned(),
            since_ms: said.number,
            ..MemberStatus::default()
        };
        Ok(Self {
            folder: folder.to_string_lossy().into_owned(),
            name: home.last_run()?.name.unwrap_or_default(),
            key: home.key()?.public().to_string(),
            members: home.members()?.said.into_iter().map(member).collect(),
            ..Self::default()
        })
    }

    /// Whether each member has links to some others only; then a member without a link is not away.
    fn is_large(&self) -> bool {
        self.members.iter().filter(|member| member.role != "removed").count() > FULL_MESH
    }

    /// The status in one line.
    pub(crate) fn summary_line(&self) -> String {
        let here = self.members.iter().filter(|member| member.here).count() as u64;
        let missing = self.more.saturating_add(self.missing.len() as u64);
        let step = match self.step {
            FolderStep::NotRunning if self.background => {
                "not running; the background node starts it"
            }
            FolderStep::NotRunning => "not running; `xylem sync DIR` starts it",
            FolderStep::Starting => "being scanned",
            FolderStep::Paused => "paused; `xylem sync DIR --resume` continues",
            FolderStep::NoMember => {
                "not a member of its group: the founder has removed it, or has not admitted it"
            }
            FolderStep::Behind => "not in step",
            FolderStep::InStep => "in step",
        };
        let mut line = format!("{}: {step}", self.folder);
        if self.running {
            let what = if self.is_large() { "linked" } else { "connected" };
            line += &format!("; {} {what}", count(here, "other member"));
        }
        if missing > 0 {
            line += &format!("; {} can't be brought in step now", count(missing, "path"));
        }
        line
    }
}

/// The status of a folder, shared by all threads that contribute to it. The thread of a [`StatusWriter`] writes it to the
/// disk.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusBoard(Arc<Mutex<BoardState>>);

#[derive(Debug, Default)]
struct BoardState {
    status: SyncStatus,
    changed: Option<SyncSender<()>>,
}

impl StatusBoard {
    fn held(&self) -> MutexGuard<'_, BoardState> {
        // A poisoned lock holds good data: no thread panics within a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the status.
    pub(super) fn change(&self, change: impl FnOnce(&mut SyncStatus)) {
        let mut held = self.held();
        let before = held.status.clone();
        change(&mut held.status);
        if held.status != before {
            held.is_new();
        }
    }

    /// Records that these files are being fetched from the member of this name.
    pub(super) fn fetches(&self, from: &str, only: &Only) {
        self.change(|status| {
            let paths = only.paths.iter().take(MAX_FETCHED).map(|path| text(path)).collect();
            let (from, files) = (from.to_owned(), only.paths.len() as u64);
            status.fetching = Some(FetchingStatus { from, paths, files, ..Default::default() });
        });
    }

    /// Records the progress of the fetch in bytes.
    pub(super) fn came(&self, done: u64, total: u64) {
        let mut held = self.held();
        if let Some(fetching) = &mut held.status.fetching {
            (fetching.done, fetching.total) = (done, total);
            held.is_new();
        }
    }

    /// Records that the fetch has ended.
    pub(super) fn fetched(&self) {
        let mut held = self.held();
        if held.status.fetching.take().is_some() {
            held.is_new();
        }
    }

    /// Writes the status to the folder's directory in the store from now on, until the result is dropped.
    ///
    /// # Errors
    /// No file can be created there, or the system cannot start a thread.
    pub(super) fn begin(&self, home: &SyncHome, first: SyncStatus) -> Result<StatusWriter, Error> {
        let lock = home.dir().join(LOCK);
        let failed = |e: io::Error| {
            let message = format!("{}: {e}", lock.display());
            Error { blame: Blame::Local, message }
        };
        // A reader of the status may hold the lock for a moment.
        let held = File::create(&lock).and_then(|file| file.lock().map(|()| file));
        let held = held.map_err(failed)?;
        let (changed, changes) = sync_channel(1);
        let mut posted = self.held();
        (posted.status, posted.changed) = (first, Some(changed));
        posted.is_new();
        drop(posted);
        let (path, board) = (home.dir().join(FILE), self.clone());
        // The thread writes one small file, so a small stack is enough.
        let writer = thread::Builder::new().name("status".into()).stack_size(256 * 1024);
        let writer = writer.spawn(move || board.write_all(&path, &changes));
        let writer = Some(writer.map_err(failed)?);
        Ok(StatusWriter { board: self.clone(), writer, _held: held })
    }

    fn write_all(&self, path: &Path, changes: &Receiver<()>) {
        let write = || {
            let status = self.held().status.clone();
            let text = serde_json::to_vec(&status).expect("plain fields");
            // Ignore failures: a disk that is full now may have room in a second.
            let _ = write_atomically(&*disk(), path, &text, 0o600, Clobber::Replace);
        };
        running::at_changes(changes, write);
        write();
    }
}

impl BoardState {
    fn is_new(&mut self) {
        self.status.at_ms = wall_clock().milliseconds();
        // If the channel is full, the writer is notified already. If it is closed, there is no place to write to.
        let _ = self.changed.as_ref().map(|changed| changed.try_send(()));
    }
}

/// Keeps the status file up to date. On drop, the last one states that no process runs.
pub(super) struct StatusWriter {
    board: StatusBoard,
    writer: Option<JoinHandle<()>>,
    _held: File,
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        let mut held = self.board.held();
        held.status.at_ms = wall_clock().milliseconds();
        held.status.end();
        held.changed = None;
        drop(held);
        let _ = self.writer.take().map(JoinHandle::join);
    }
}

/// Whether the folder is paused: nothing is published or applied.
pub(super) fn is_paused(home: &SyncHome) -> bool {
    paused(home).symlink_metadata().is_ok()
}

/// The file that marks a pause.
pub(super) fn paused(home: &SyncHome) -> PathBuf {
    home.roles_dir().join(PAUSED)
}

/// `--pause` and `--resume`: sets or removes the mark, for the running process and later ones.
pub(super) fn pause(home: &SyncHome, pause: bool) -> Result<(), CommandFailure> {
    let path = paused(home);
    let done = match pause {
        true => File::create(&path).map(drop),
        false => fs::remove_file(&path),
    };
    match done {
        Err(e) if pause || e.kind() != io::ErrorKind::NotFound => {
            Err(CommandFailure::new(Exit::Local, format!("{}: {e}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Reads the status from a folder's directory in the store; `None` if none can be read.
fn read(dir: &Path) -> Option<SyncStatus> {
    let mut text = Vec::new();
    File::open(dir.join(FILE)).ok()?.take(MAX_STATUS).read_to_end(&mut text).ok()?;
    let mut status: SyncStatus = serde_json::from_slice(&text).ok()?;
    let runs = File::open(dir.join(LOCK))
        .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)));
    if !runs {
        status.end();
    }
    Some(status)
}

/// The status of all folders that were ever kept in step with a store, sorted by path.
pub(crate) fn all(store: &Path) -> Vec<SyncStatus> {
    let entries = fs::read_dir(store.join("sync")).into_iter().flatten().flatten();
    let found = entries.take(MAX_FOLDERS).filter_map(|entry| read(&entry.path()));
    let mut all: Vec<SyncStatus> = found.collect();
    all.sort_by(|a, b| a.folder.cmp(&b.folder));
    all
}

/// Runs `xylem sync DIR --status`. The exit code is 1 if the folder is not in step.
pub(super) fn print(
    store: &Path,
    folder: &Path,
    background: bool,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let folder = canonical(folder)?;
    let home = SyncHome::existing(store, &folder)?;
    let mut status = match read(home.dir()) {
        Some(status) => status,
        None => SyncStatus::never_started(&home, &folder)?,
    };
    (status.background, status.paused) = (background, is_paused(&home));
    if !status.running {
        status.xattrs = home.last_run()?.xattrs;
    }
    let exit = if status.step == FolderStep::InStep { Exit::Done } else { Exit::Damaged };
    if out.is_json() {
        out.json(&status)?;
        return Ok(exit);
    }
    for line in status.lines(wall_clock().milliseconds()) {
        out.line(&clean(&line))?;
    }
    Ok(exit)
}

/// A duration in its largest unit: `12 s`, `5 min`, `3 h`, `2 days`.
fn span(ms: u64) -> String {
    match Duration::from_millis(ms).as_secs() {
        s if s < 60 => format!("{s} s"),
        s if s < 3_600 => format!("{} min", s / 60),
        s if s < 2 * 86_400 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

impl SyncStatus {
    /// The whole status as lines of text.
    fn lines(&self, now_ms: u64) -> Vec<String> {
        let ago = |ms: u64| span(now_ms.saturating_sub(ms));
        let short = |key: &str| key.get(..16).unwrap_or(key).to_owned();
        let mut lines = vec![self.summary_line()];
        if self.paused && self.step != FolderStep::Paused {
            lines.push(format!("  paused: {PAUSE_MEANS}"));
        }
        lines.extend(self.refused.iter().map(|why| format!("  {why}")));
        let reads = match self.role.as_str() {
            "read_only" => ", read-only: other members do not apply its changes",
            _ => "",
        };
        lines.push(format!("  this member: {} ({}){reads}", self.name, short(&self.key)));
        if self.xattrs {
            lines.push("  extended attributes are exchanged (--xattrs)".to_owned());
        }
        let is_large = self.is_large();
        for member in &self.members {
            let role = match member.role.as_str() {
                "founder" => ", founder",
                "read_only" => ", read-only",
                "removed" => ", removed from the group",
                _ => "",
            };
            let here = match (member.here, member.role.as_str()) {
                (_, "removed") => String::new(),
                (true, _) => format!(": connected for {}", ago(member.since_ms)),
                (false, _) if is_large => {
                    format!(": no link to it for {}", ago(member.since_ms))
                }
                (false, _) => format!(": disconnected for {}", ago(member.since_ms)),
            };
            let has = match (member.here, member.in_step) {
                (true, true) => ", in step",
                (true, false) => ", not in step yet",
                (false, true) if is_large => ", in step by its last statement",
                (false, _) => "",
            };
            let why = member.why.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
            lines.push(format!("  {} ({}){role}{here}{has}{why}", member.name, short(&member.key)));
        }
        if let Some(fetching) = &self.fetching {
            let FetchingStatus { from, done, total, paths, files } = fetching;
            let names = named(paths, *files);
            let of = if *total > 0 { format!(" of {}", bytes(*total)) } else { String::new() };
            lines.push(format!("  fetching from {from}: {}{of}, {names}", bytes(*done)));
        }
        for one in &self.missing {
            let again = match one.again_ms.saturating_sub(now_ms) {
                _ if !self.running => String::new(),
                0 => ", tried again now".to_owned(),
                ms => format!(", tried again in {}", span(ms.max(1_000))),
            };
            let MissingStatus { path, what, why, since_ms, .. } = one;
            lines.push(format!("  {path}: {what}: {why} (for {}{again})", ago(*since_ms)));
        }
        if self.more > 0 {
            lines.push(format!("  and {} more", count(self.more, "path")));
        }
        if self.removals_wait > 0 {
            let removals = count(self.removals_wait, "removal");
            lines.push(format!("  {removals} by other members: `xylem sync DIR --accept-removals` removes the files here, too"));
        }
        if self.rules_wait {
            lines.push(
                "  rules changed by another member wait for `xylem sync DIR --accept-rules`"
                    .to_owned(),
            );
        }
        lines
    }
}

/// The first names of a list in words: `a, b and 3 more`.
pub(super) fn named(paths: &[String], all: u64) -> String {
    let more = all.saturating_sub(paths.len() as u64);
    match (paths.is_empty(), more) {
        (true, _) => count(all, "file"),
        (false, 0) => paths.join(", "),
        (false, _) => format!("{} and {more} more", paths.join(", ")),
    }
}

/// Runs `xylem sync --list`: prints a line for each folder of the store, or its status as JSON.
pub(super) fn list(
    store: &Path,
    in_background: &[(PathBuf, Option<String>)],
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let mut all = all(store);
    for (path, why) in in_background {
        let folder = path.to_string_lossy().into_owned();
        let known = all.iter_mut().find(|status| status.folder == folder);
        match known {
            Some(status) => status.background = true,
            None => all.push(SyncStatus { folder, background: true, ..SyncStatus::default() }),
        }
        if let Some(why) = why {
            out.warn(&format!("{}: {why}", path.display()));
        }
    }
    for status in &all {
        if out.is_json() {
            out.json(status)?;
        } else {
            let by = if status.background { " (background)" } else { "" };
            out.line(&clean(&format!("{}{by}", status.summary_line())))?;
        }
    }
    if all.is_empty() {
        out.note("No folder is kept in step: `xylem sync DIR`");
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    fn home(base: &Path) -> SyncHome {
        let (store, folder) = (base.join("store"), base.join("folder"));
        fs::create_dir_all(&folder).unwrap();
        SyncHome::open(&store, &folder, None).unwrap()
    }

    fn status() -> SyncStatus {
        let bob = MemberStatus { name: "bob".into(), here: true, ..MemberStatus::default() };
        SyncStatus {
            folder: "/f".into(),
            step: FolderStep::InStep,
            running: true,
            members: vec![bob],
            ..SyncStatus::default()
        }
    }

    #[test]
    fn the_status_file_shows_whether_a_process_runs() {
        let base = tempfile::tempdir().unwrap();
        let home = home(base.path());
        assert_eq!(read(home.dir()), None);
        let board = StatusBoard::default();
        let poster = board.begin(&home, status()).unwrap();
        board.change(|status| status.name = "alice".to_owned());
        let seen = loop {
            match read(home.dir()) {
                Some(seen) if seen.name == "alice" => break seen,
                _ => thread::sleep(Duration::from_millis(10)),
            }
        };
        assert!(seen.running && seen.step == FolderStep::InStep && seen.members[0].here);
        assert_eq!(all(&base.path().join("store")), [seen]);
        board.came(1, 2);
        assert_eq!(board.held().status.fetching, None, "of an index nothing is told");
        drop(poster);
        let seen = read(home.dir()).unwrap();
        assert!(!seen.running && seen.step == FolderStep::NotRunning && !seen.members[0].here);
        // A process that was killed has not written that it ended.
        let text = serde_json::to_vec(&status()).unwrap();
        fs::write(home.dir().join(FILE), text).unwrap();
        let seen = read(home.dir()).unwrap();
        assert!(!seen.running && seen.step == FolderStep::NotRunning);
    }

    #[test]
    fn a_pause_lasts_until_it_is_resumed() {
        let base = tempfile::tempdir().unwrap();
        let home = home(base.path());
        assert!(!is_paused(&home));
        pause(&home, false).unwrap();
        pause(&home, true).unwrap();
        pause(&home, true).unwrap();
        assert!(is_paused(&home));
        pause(&home, false).unwrap();
        assert!(!is_paused(&home));
    }

    #[test]
    fn the_status_lists_missing_paths_with_reasons() {
        let mut obstacles = Obstacles::default();
        obstacles.note(b"d/a", ObstacleKind::NoRoom, "disk full".into(), 5_000);
        obstacles.note(b"e", ObstacleKind::Removal, "800 of 1,000".into(), 5_000);
        obstacles.note(b"f", ObstacleKind::Attributes, "too large".into(), 5_000);
        let mut status = SyncStatus { step: FolderStep::Behind, xattrs: true, ..status() };
        status.take(&obstacles);
        status.fetching = Some(FetchingStatus {
            from: "bob".into(),
            done: 1 << 20,
            total: 2 << 20,
            paths: vec!["x".into(), "y".into()],
            files: 9,
        });
        let lines = status.lines(65_000);
        let has = |what: &str| assert!(lines.iter().any(|line| line.contains(what)), "{lines:?}");
        has("/f: not in step; 1 other member connected; 3 paths can't be brought in step now");
        has("  extended attributes are exchanged (--xattrs)");
        has("f: its extended attributes are not in step; its content is: too large");
        has("bob (): connected for 1 min");
        has("fetching from bob: 1.00 MiB of 2.00 MiB, x, y and 7 more");
        // In a large group each member has links to some others only, so the others are not away.
        let far = |n: usize| MemberStatus {
            name: format!("far-{n}"),
            in_step: true,
            ..MemberStatus::default()
        };
        let large = SyncStatus { members: (0..17).map(far).collect(), ..status.clone() };
        assert!(large.summary_line().contains("; 0 other members linked"));
        let large = large.lines(65_000).join("\n");
        assert!(
            large.contains("far-16 (): no link to it for 1 min, in step by its last statement"),
            "{large}"
        );
        has("d/a: there is no room for it on this disk: disk full (for 1 min, tried again now)");
        has("1 removal by other members: `xylem sync DIR --accept-removals`");
        let name = assert_documented(&status);
        assert_eq!(name, "sync_status");
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<SyncStatus>(&text).unwrap(), status);
    }
}
