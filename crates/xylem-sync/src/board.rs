//! [`SyncStatus`]: the status of a folder in step, as the process that keeps it in step writes it.
//!
//! The process that keeps it in step replaces `STORE/sync/ID/status.json` atomically after changes, at most once a
//! second. The file `status.lock` beside it is locked as long as that process lives, which distinguishes running
//! processes from killed ones.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};
use xylem_base::{disk, os_path};
use xylem_files::Only;
use xylem_folder::{HomeError, MemberStatement, ObstacleKind, Obstacles, SyncHome};
use xylem_node::{at_changes, wall_clock};
use xylem_store::{Clobber, FileRef, OpenHow, read_small, write_atomically};

use crate::error::SyncError;

const FILE: &str = "status.json";
const LOCK: &str = "status.lock";
/// File in the watched folder of roles: nothing is published or applied while it exists.
const PAUSED: &str = "paused";
/// Folders of a store that are listed at most; the limit in bytes of a status follows.
const MAX_FOLDERS: usize = 256;
const MAX_STATUS: u64 = 16 << 20;
/// Obstacles that a status lists at most; the limit of a fetch's files follows.
const MAX_NAMED: usize = 1_000;
const MAX_FETCHED: usize = 5;

/// The state of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FolderStep {
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

/// The place of a member in its group, by the founder's list or the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberStanding {
    /// It has founded the group.
    Founder,
    /// It may write.
    Member,
    /// Changes made at it stay there.
    ReadOnly,
    /// For ourselves: the founder has removed us, or has not admitted us.
    None,
    /// For another member: the founder has removed it.
    Removed,
    /// It has not been determined yet, or another version has written a word that this one does not know.
    #[default]
    #[serde(rename = "", other)]
    Unknown,
}

/// The status of a folder, for `sync DIR --status`, `sync --list` and `xylem ui`. The process that keeps the folder in
/// step replaces `STORE/sync/ID/status.json` after changes, at most once a second. Times are milliseconds since 1970. Its
/// JSON is an event of docs/spec/json-events.md.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename = "sync_status", default)]
pub struct SyncStatus {
    /// The folder's path.
    pub folder: String,
    /// Our name in the group.
    pub name: String,
    /// Our key in the group.
    pub key: String,
    /// Our role: any but [`MemberStanding::Removed`].
    pub role: MemberStanding,
    /// Why other members refuse its links.
    pub refused: Option<String>,
    /// What it does.
    pub step: FolderStep,
    /// Whether a process keeps it in step.
    pub running: bool,
    /// The id of that process.
    pub pid: u32,
    /// When that process started.
    pub since_ms: u64,
    /// When the status changed last.
    pub at_ms: u64,
    /// Whether the background node starts it.
    pub background: bool,
    /// Whether nothing is published or applied ([`pause`]).
    pub paused: bool,
    /// Whether extended attributes are exchanged.
    pub xattrs: bool,
    /// The other members.
    pub members: Vec<MemberStatus>,
    /// Paths that are not in step, at most 1,000.
    pub missing: Vec<MissingStatus>,
    /// The number of further such paths.
    pub more: u64,
    /// The present fetch.
    pub fetching: Option<FetchingStatus>,
    /// Removals by others that wait until this member accepts them.
    pub removals_wait: u64,
    /// Whether rules that others have changed wait until this member accepts them.
    pub rules_wait: bool,
}

/// Another member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberStatus {
    /// Its name in the group.
    pub name: String,
    /// Its key in the group.
    pub key: String,
    /// Its role: any but [`MemberStanding::None`].
    pub role: MemberStanding,
    /// Whether there is a link to it.
    pub here: bool,
    /// Since when that is so.
    pub since_ms: u64,
    /// Whether its last statement has the state of this folder.
    pub in_step: bool,
    /// Why nothing of it is applied.
    pub why: Option<String>,
}

/// One path that is not in step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingStatus {
    /// The path, below the folder.
    pub path: String,
    /// What hinders it.
    pub kind: ObstacleKind,
    /// The meaning of `kind` in words.
    pub what: String,
    /// The system's reason.
    pub why: String,
    /// Since when.
    pub since_ms: u64,
    /// How many times it was tried.
    pub tried: u32,
    /// When it is tried again.
    pub again_ms: u64,
}

/// A fetch from a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FetchingStatus {
    /// The member's name.
    pub from: String,
    /// Verified bytes.
    pub done: u64,
    /// Bytes of the whole; 0 if that is not known yet.
    pub total: u64,
    /// The first of its files.
    pub paths: Vec<String>,
    /// The number of all.
    pub files: u64,
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
    pub(crate) fn take(&mut self, obstacles: &Obstacles) {
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

    /// Encodes it as `sync DIR --status --json` prints it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain fields")
    }

    /// Marks that the process has ended.
    fn end(&mut self) {
        let at_ms = self.at_ms;
        (self.running, self.step, self.fetching) = (false, FolderStep::NotRunning, None);
        for member in self.members.iter_mut().filter(|member| member.here) {
            (member.here, member.since_ms) = (false, at_ms);
        }
    }

    /// Returns the status of a folder, also if no process has written one yet.
    ///
    /// # Errors
    /// The group's own files cannot be read.
    pub fn of(home: &SyncHome, folder: &Path) -> Result<Self, HomeError> {
        let status = match read(home.dir()) {
            Some(status) => status,
            None => Self::never_started(home, folder)?,
        };
        let xattrs = if status.running { status.xattrs } else { home.last_run()?.xattrs };
        Ok(Self { paused: is_paused(home), xattrs, ..status })
    }

    fn never_started(home: &SyncHome, folder: &Path) -> Result<Self, HomeError> {
        let founder = home.invitation.group.founder;
        let member = |(said, _): (MemberStatement, Vec<u8>)| MemberStatus {
            name: said.name,
            key: said.member.to_string(),
            role: match said.member == founder {
                true => MemberStanding::Founder,
                false => MemberStanding::Member,
            },
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
}

/// The status of a folder, shared by all threads that contribute to it. Another thread writes it to the
/// disk.
#[derive(Clone, Debug, Default)]
pub struct StatusBoard(Arc<Mutex<BoardState>>);

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

    /// Returns the present status.
    pub fn status(&self) -> SyncStatus {
        self.held().status.clone()
    }

    /// Changes the status.
    pub(crate) fn change(&self, change: impl FnOnce(&mut SyncStatus)) {
        let mut held = self.held();
        let before = held.status.clone();
        change(&mut held.status);
        if held.status != before {
            held.is_new();
        }
    }

    /// Records that these files are being fetched from the member of this name.
    pub(crate) fn fetches(&self, from: &str, only: &Only) {
        self.change(|status| {
            let paths = only.paths.iter().take(MAX_FETCHED).map(|path| text(path)).collect();
            let (from, files) = (from.to_owned(), only.paths.len() as u64);
            status.fetching = Some(FetchingStatus { from, paths, files, ..Default::default() });
        });
    }

    /// Records the progress of the fetch in bytes.
    pub(crate) fn came(&self, done: u64, total: u64) {
        let mut held = self.held();
        if let Some(fetching) = &mut held.status.fetching {
            (fetching.done, fetching.total) = (done, total);
            held.is_new();
        }
    }

    /// Records that the fetch has ended.
    pub(crate) fn fetched(&self) {
        let mut held = self.held();
        if held.status.fetching.take().is_some() {
            held.is_new();
        }
    }

    /// Writes the status to the folder's directory in the store from now on, until the result is dropped.
    ///
    /// # Errors
    /// No file can be created there, or the system cannot start a thread.
    pub(crate) fn begin(
        &self,
        home: &SyncHome,
        first: SyncStatus,
    ) -> Result<StatusWriter, SyncError> {
        let lock = home.dir().join(LOCK);
        let failed = SyncError::disk(&lock);
        // A reader of the status may hold the lock for a moment.
        let held = disk().open(&lock, OpenHow::Create { mode: 0o666 });
        let held = held.and_then(|file| file.lock().map(|()| FileRef::new(file, &*lock)));
        let held = held.map_err(&failed)?;
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
            let text = status.to_json();
            // Ignore failures: a disk that is full now may have room in a second.
            let _ = write_atomically(&*disk(), path, text.as_bytes(), 0o600, Clobber::Replace);
        };
        at_changes(changes, write);
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
pub(crate) struct StatusWriter {
    board: StatusBoard,
    writer: Option<JoinHandle<()>>,
    _held: FileRef,
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
pub fn is_paused(home: &SyncHome) -> bool {
    disk().metadata(&paused(home)).is_ok()
}

/// The file that marks a pause.
pub(crate) fn paused(home: &SyncHome) -> PathBuf {
    home.roles_dir().join(PAUSED)
}

/// Pauses a folder, or lets it go on: for the process that keeps it in step, and for later ones.
///
/// # Errors
/// The mark cannot be written or removed.
pub fn pause(home: &SyncHome, pause: bool) -> Result<(), SyncError> {
    let path = paused(home);
    let done = match pause {
        true => disk().open(&path, OpenHow::Create { mode: 0o666 }).map(drop),
        false => disk().remove_file(&path),
    };
    match done {
        Err(e) if pause || e.kind() != io::ErrorKind::NotFound => Err(SyncError::disk(&path)(e)),
        _ => Ok(()),
    }
}

/// Reads the status from a folder's directory in the store; `None` if none can be read.
fn read(dir: &Path) -> Option<SyncStatus> {
    let disk = disk();
    let text = read_small(&*disk, &dir.join(FILE), OpenHow::Read, MAX_STATUS).ok()??;
    let mut status: SyncStatus = serde_json::from_slice(&text).ok()?;
    let lock = disk.open(&dir.join(LOCK), OpenHow::Read);
    if !lock.and_then(|lock| lock.is_locked()).unwrap_or(false) {
        status.end();
    }
    Some(status)
}

/// Returns the status of all folders that were ever kept in step with a store, sorted by path.
pub fn all_statuses(store: &Path) -> Vec<SyncStatus> {
    let dir = store.join("sync");
    let entries = disk().list_dir(&dir).unwrap_or_default().into_iter();
    let found = entries.take(MAX_FOLDERS).filter_map(|entry| read(&dir.join(entry.name)));
    let mut all: Vec<SyncStatus> = found.collect();
    all.sort_by(|a, b| a.folder.cmp(&b.folder));
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use std::fs;

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
        assert_eq!(all_statuses(&base.path().join("store")), [seen]);
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
    fn obstacles_are_told_in_words() {
        let mut obstacles = Obstacles::default();
        obstacles.note(b"d/a", ObstacleKind::NoRoom, "disk full".into(), 5_000);
        obstacles.note(b"e", ObstacleKind::Removal, "800 of 1,000".into(), 5_000);
        let mut status = status();
        status.take(&obstacles);
        assert_eq!((status.more, status.removals_wait), (0, 1));
        let told = status.missing.iter().map(|one| (one.path.as_str(), one.what.as_str()));
        let told: Vec<_> = told.collect();
        assert_eq!(told[0], ("d/a", "there is no room for it on this disk"));
        assert_eq!(told[1], ("e", "another member removed it together with many others"));
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
}
