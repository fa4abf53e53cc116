//! `Sync`: a folder that is kept in step for as long as it is open.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::prelude::*;
use xylem::{
    AnnounceOptions, Error, Invitation, InvitationError, StatusBoard, Stop, SyncEvent, SyncOptions,
};

use crate::errors::to_exception;
use crate::fetching::{seconds, store};
use crate::running::{CallNews, Owner, RunningCall, log, warn};
use crate::serving::place;

/// See `xylem.sync`.
#[pyclass(frozen, module = "xylem")]
pub(crate) struct Sync {
    /// The group's ticket, by which others join.
    #[pyo3(get)]
    ticket: String,
    /// Our name in the group.
    #[pyo3(get)]
    name: String,
    /// Our key in the group.
    #[pyo3(get)]
    key: String,
    board: StatusBoard,
    /// `None` if it has ended, or while a thread waits for its end.
    running: Mutex<Option<RunningCall<(), SyncEvent>>>,
    /// Ends it, even if another thread waits.
    stop: Stop,
    owner: Owner,
}

#[pymethods]
impl Sync {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    #[pyo3(signature = (folder, ticket, name, store, listen, lan, map, limit))]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        ticket: Option<&str>,
        name: Option<String>,
        store: Option<PathBuf>,
        listen: Vec<String>,
        lan: bool,
        map: bool,
        limit: Option<u64>,
    ) -> PyResult<Self> {
        let wrong = |why: InvitationError| to_exception(Error::usage(why.to_string()));
        let joins = ticket.map(|text| text.parse::<Invitation>().map_err(wrong)).transpose()?;
        let options = SyncOptions {
            joins,
            name,
            listen: listen.iter().map(|at| place(at)).collect::<PyResult<_>>()?,
            beside: AnnounceOptions { lan, map, public: None },
            limit,
            ..SyncOptions::new(folder, self::store(store)?)
        };
        let board = options.board.clone();
        let mut running = RunningCall::start(move |stop, mut on_event| {
            Ok(xylem::sync(&options, stop, &mut on_event)?)
        })?;
        loop {
            let news;
            (running, news) = running.next(py);
            match news {
                Ok(CallNews::Nothing) => {}
                Ok(CallNews::Event(event)) => match *event {
                    SyncEvent::Ready { invitation, name, key } => {
                        return Ok(Self {
                            ticket: invitation.to_string(),
                            name,
                            key,
                            board,
                            stop: running.stop_flag(),
                            owner: Owner::this(),
                            running: Mutex::new(Some(running)),
                        });
                    }
                    event => report(py, &event)?,
                },
                Ok(CallNews::Over) => {
                    running.join(py)?;
                    return Err(to_exception(Error::usage("the folder is not kept in step")));
                }
                Err(exception) => {
                    running.end();
                    let _ = running.join(py);
                    return Err(exception);
                }
            }
        }
    }

    /// The status, as JSON.
    fn status(&self) -> String {
        self.board.status().to_json()
    }

    /// Waits until it ends, at most for `timeout` seconds; returns whether it has ended.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.owner.check()?;
        let until = timeout.map(seconds).transpose()?.and_then(|t| Instant::now().checked_add(t));
        // If two threads wait, the second one returns at once as if it had ended.
        let Some(running) = self.running().take() else { return Ok(true) };
        let Some((running, looked)) = running.wait(py, until, |event| report(py, event))? else {
            return Ok(true);
        };
        *self.running() = Some(running);
        looked.map(|()| false)
    }

    /// Keeps the folder in step no more. Does nothing if it has ended, or in a child process: the parent keeps it. If
    /// another thread waits for the end, that one's call returns when all has ended, and this one at once.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.owner.is_this() {
            return Ok(());
        }
        self.stop.raise();
        let running = self.running().take();
        running.map_or(Ok(()), |running| running.join(py))
    }
}

impl Sync {
    fn running(&self) -> MutexGuard<'_, Option<RunningCall<(), SyncEvent>>> {
        // No code panics while it holds this lock and a change is incomplete.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs what a user has to know to Python's logger `xylem`.
fn report(py: Python<'_>, event: &SyncEvent) -> PyResult<()> {
    match event {
        SyncEvent::Other(event) => log(py, event),
        SyncEvent::Rewrote { name, key, .. } => {
            warn(py, &format!("{name} ({key}) has signed two histories: its changes are ignored"))
        }
        SyncEvent::Unproven { name, key } => warn(
            py,
            &format!(
                "{name} ({key}) does not prove that its history continues: its newer changes wait"
            ),
        ),
        SyncEvent::Applies { name, key, why } => {
            warn(py, &format!("{name} ({key}) has the ticket, but is not a member: {why}"))
        }
        SyncEvent::TurnedAway { why } => warn(py, &why.to_string()),
        SyncEvent::RulesWait { files } => {
            warn(py, &format!("other members have changed rules: {}", files.join(", ")))
        }
        SyncEvent::ReadOnly => warn(py, "this member is read-only: changes made here stay here"),
        _ => Ok(()),
    }
}
