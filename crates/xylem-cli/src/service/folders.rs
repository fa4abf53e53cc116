//! [`FolderProcesses`]: the folders that the background node keeps in step, a process each.
//!
//! Each `xylem sync` needs an engine, links and memory of its own, and ends if its folder is gone. So each runs as a
//! child process that is started again after growing pauses. A failure of one affects neither the others nor the
//! shares. A child ends when its standard input closes, so it also ends if this process is killed.

use super::listed::{self, BackgroundFolder};
use super::messages::{FolderRow, ServiceReply, ServiceRequest};
use crate::exit::{CommandFailure, Exit};
use crate::output::{error_line, text::clean};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the children are checked.
const LOOK: Duration = Duration::from_millis(200);
/// First pause before a child is started again. The pause doubles each time, except after a long run; the limits
/// follow.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const GOOD_RUN: Duration = Duration::from_secs(60);
/// How long a request for a folder waits for its ticket, and how long the end waits for all children.
const READY: Duration = Duration::from_secs(20);
const ENDS: Duration = Duration::from_secs(10);

/// See the module's documentation.
pub(super) struct FolderProcesses {
    store: PathBuf,
    program: PathBuf,
    flags: Vec<OsString>,
    state: Mutex<FoldersState>,
}

#[derive(Default)]
struct FoldersState {
    kept: Vec<KeptFolder>,
    is_over: bool,
}

struct KeptFolder {
    folder: BackgroundFolder,
    run: Option<FolderRun>,
    again: Instant,
    failures: u32,
    /// Why it does not run.
    why: Option<String>,
}

struct FolderRun {
    child: Child,
    began: Instant,
    said: Arc<Mutex<FolderOutput>>,
}

/// The last messages of a child.
#[derive(Default)]
struct FolderOutput {
    ticket: Option<String>,
    trouble: Option<String>,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock needs no handling: a bug elsewhere ends the process (exit.rs).
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FolderProcesses {
    /// Loads the store's list of folders; none runs yet. `flags` are passed to all of them.
    pub(super) fn load(store: &Path, flags: Vec<OsString>) -> Result<Self, CommandFailure> {
        let program = std::env::current_exe().map_err(|e| {
            CommandFailure::new(
                Exit::Local,
                format!("cannot determine the path of this program: {e}"),
            )
        })?;
        let kept = listed::load(store)?.into_iter().map(KeptFolder::new).collect();
        let state = Mutex::new(FoldersState { kept, is_over: false });
        Ok(Self { store: store.to_path_buf(), program, flags, state })
    }

    /// Starts children, also again after they have ended, until [`Folders::end`].
    pub(super) fn keep(&self) {
        loop {
            let mut state = held(&self.state);
            if state.is_over {
                return;
            }
            state.kept.iter_mut().for_each(|kept| self.look_after(kept));
            drop(state);
            thread::sleep(LOOK);
        }
    }

    /// Ends all children.
    pub(super) fn end(&self) {
        let mut state = held(&self.state);
        state.is_over = true;
        let mut runs: Vec<FolderRun> =
            state.kept.iter_mut().filter_map(|kept| kept.run.take()).collect();
        // Ask all to end before waiting for any.
        runs.iter_mut().for_each(|run| drop(run.child.stdin.take()));
        let until = Instant::now() + ENDS;
        runs.into_iter().for_each(|run| run.end(until));
    }

    /// Answers a request about folders; `None` if the request is of another kind.
    pub(super) fn answer(&self, request: &ServiceRequest) -> Option<ServiceReply> {
        let done = match request {
            ServiceRequest::Sync(folder) => self.begin(folder),
            ServiceRequest::Unsync { path } => self.forget(path),
            ServiceRequest::Folders => Ok(ServiceReply::Folders { folders: self.rows() }),
            ServiceRequest::Share { .. }
            | ServiceRequest::Unshare { .. }
            | ServiceRequest::Shares
            | ServiceRequest::RelayLoad { .. }
            | ServiceRequest::RelayBan { .. }
            | ServiceRequest::RelayUnban { .. }
            | ServiceRequest::RelayBans
            | ServiceRequest::RelayDrain { .. } => return None,
        };
        Some(done.unwrap_or_else(|CommandFailure { exit, message }| ServiceReply::Failed {
            exit: exit as u8,
            message,
        }))
    }

    fn begin(&self, folder: &BackgroundFolder) -> Result<ServiceReply, CommandFailure> {
        let mut state = held(&self.state);
        let mut folders: Vec<BackgroundFolder> =
            state.kept.iter().map(|kept| kept.folder.clone()).collect();
        let at = folders.iter().position(|known| known.path == folder.path);
        match at.and_then(|at| folders.get_mut(at)) {
            Some(known) => known.clone_from(folder),
            None => folders.push(folder.clone()),
        }
        listed::save(&self.store, &folders)?;
        let old = at.map(|at| state.kept.remove(at));
        drop(state);
        // It restarts with the new terms once the old child has left the folder.
        if let Some(mut run) = old.and_then(|old| old.run) {
            drop(run.child.stdin.take());
            run.end(Instant::now() + ENDS);
        }
        held(&self.state).kept.push(KeptFolder::new(folder.clone()));
        self.ticket(folder)
    }

    /// Waits until the folder has a ticket for others to join, or has failed.
    fn ticket(&self, folder: &BackgroundFolder) -> Result<ServiceReply, CommandFailure> {
        let until = Instant::now() + READY;
        while Instant::now() < until {
            let state = held(&self.state);
            let Some(kept) = state.kept.iter().find(|kept| kept.folder == *folder) else { break };
            if let Some(ticket) = kept.ticket() {
                return Ok(ServiceReply::Synced { ticket: Some(ticket) });
            }
            if let Some(why) = &kept.why {
                let path = folder.path.display();
                let what =
                    format!("{path}: {why}; the node tries again until `xylem sync {path} --stop`");
                return Err(CommandFailure::new(Exit::Local, what));
            }
            drop(state);
            thread::sleep(LOOK);
        }
        Ok(ServiceReply::Synced { ticket: None })
    }

    fn forget(&self, path: &Path) -> Result<ServiceReply, CommandFailure> {
        let mut state = held(&self.state);
        let Some(at) = state.kept.iter().position(|kept| kept.folder.path == path) else {
            let what = format!("{}: the background node does not keep it in step", path.display());
            return Err(CommandFailure::new(Exit::Usage, what));
        };
        let rest = state.kept.iter().filter(|kept| kept.folder.path != path);
        let rest: Vec<BackgroundFolder> = rest.map(|kept| kept.folder.clone()).collect();
        listed::save(&self.store, &rest)?;
        let gone = state.kept.remove(at);
        drop(state);
        if let Some(mut run) = gone.run {
            drop(run.child.stdin.take());
            run.end(Instant::now() + ENDS);
        }
        Ok(ServiceReply::Unsynced)
    }

    fn rows(&self) -> Vec<FolderRow> {
        let state = held(&self.state);
        let row = |kept: &KeptFolder| FolderRow {
            path: kept.folder.path.clone(),
            why: kept.why.clone().filter(|_| kept.ticket().is_none()),
        };
        state.kept.iter().map(row).collect()
    }

    fn look_after(&self, kept: &mut KeptFolder) {
        if let Some(run) = &mut kept.run {
            match run.child.try_wait() {
                Ok(None) => return,
                Ok(Some(status)) => kept.ended(&format!("its process has ended ({status})")),
                Err(e) => kept.ended(&e.to_string()),
            }
        }
        if kept.again > Instant::now() {
            return;
        }
        match self.start(&kept.folder) {
            Ok(run) => kept.run = Some(run),
            Err(e) => kept.ended(&format!("cannot start its process: {e}")),
        }
    }

    fn start(&self, folder: &BackgroundFolder) -> std::io::Result<FolderRun> {
        let mut command = Command::new(&self.program);
        command.arg("--store").arg(&self.store).args(&self.flags).arg("--quiet");
        // The parent parses plain lines with failures and nothing else.
        for variable in ["XYLEM_JSON", "XYLEM_LOG", "XYLEM_LOG_FORMAT"] {
            command.env_remove(variable);
        }
        command.arg("sync").arg(&folder.path).arg("--with-service").args(folder.terms.flags());
        if let Some(relays) = folder.terms.relays() {
            command.env("XYLEM_RELAY", relays);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let said: Arc<Mutex<FolderOutput>> = Arc::default();
        let (ticket, trouble, path) = (said.clone(), said.clone(), folder.path.clone());
        if let Some(lines) = child.stdout.take() {
            thread::Builder::new().spawn(move || {
                for line in BufReader::new(lines).lines().map_while(Result::ok) {
                    held(&ticket).ticket.get_or_insert(line);
                }
            })?;
        }
        if let Some(lines) = child.stderr.take() {
            thread::Builder::new().spawn(move || {
                for line in BufReader::new(lines).lines().map_while(Result::ok) {
                    let line = line.strip_prefix("xylem: ").unwrap_or(&line).to_owned();
                    error_line(&clean(&format!("{}: {line}", path.display())));
                    held(&trouble).trouble = Some(line);
                }
            })?;
        }
        Ok(FolderRun { child, began: Instant::now(), said })
    }
}

impl KeptFolder {
    fn new(folder: BackgroundFolder) -> Self {
        Self { folder, run: None, again: Instant::now(), failures: 0, why: None }
    }

    /// The ticket to join the folder, once it runs.
    fn ticket(&self) -> Option<String> {
        self.run.as_ref().and_then(|run| held(&run.said).ticket.clone())
    }

    /// Marks that the child has ended; it is started again later. `how` is the likely reason.
    fn ended(&mut self, how: &str) {
        let run = self.run.take();
        if run.as_ref().is_some_and(|run| run.began.elapsed() >= GOOD_RUN) {
            self.failures = 0;
        }
        let said = run.and_then(|run| held(&run.said).trouble.take());
        self.why = Some(said.unwrap_or_else(|| how.to_owned()));
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.failures.min(16));
        self.again = Instant::now() + pause.min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
    }
}

impl FolderRun {
    /// Waits for the child's end, which was requested; kills it at `until`.
    fn end(mut self, until: Instant) {
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(LOOK / 4),
                _ => return,
            }
        }
        // Killing it is safe: its files are consistent at every moment.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
