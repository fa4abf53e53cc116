//! `Share`: a publication that is served for as long as it is open.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::prelude::*;
use xylem::{
    AnnounceOptions, Error, Event, HostPortError, PeerAddress, ShareOptions, Stop, look_up_place,
};

use crate::errors::to_exception;
use crate::fetching::{seconds, store};
use crate::running::{CallNews, Owner, RunningCall, log};

/// See `xylem.share`.
#[pyclass(frozen, module = "xylem")]
pub(crate) struct Share {
    /// The ticket, for getters.
    #[pyo3(get)]
    ticket: String,
    /// Root of the file, or of the directory's listing.
    #[pyo3(get)]
    root: String,
    /// Bytes of content.
    #[pyo3(get)]
    bytes: u64,
    #[pyo3(get)]
    files: u64,
    /// The addresses at which it listens.
    #[pyo3(get)]
    listen: Vec<String>,
    /// `None` if it has ended, or while a thread waits for its end.
    running: Mutex<Option<RunningCall<()>>>,
    /// Ends it, even if another thread waits.
    stop: Stop,
    owner: Owner,
}

#[pymethods]
impl Share {
    #[new]
    #[pyo3(signature = (path, store, listen, lan, map))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        store: Option<PathBuf>,
        listen: Vec<String>,
        lan: bool,
        map: bool,
    ) -> PyResult<Self> {
        let options = ShareOptions {
            paths: vec![path],
            listen: listen.iter().map(|at| place(at)).collect::<PyResult<_>>()?,
            beside: AnnounceOptions { lan, map, public: None },
            store: self::store(store)?,
            ..ShareOptions::default()
        };
        let mut running = RunningCall::start(move |stop, mut on_event| {
            Ok(xylem::share(&options, stop, &mut on_event)?)
        })?;
        loop {
            let news;
            (running, news) = running.next(py);
            match news {
                Ok(CallNews::Nothing) => {}
                Ok(CallNews::Event(event)) => match *event {
                    Event::Shared { ticket, root, bytes, files, listen, .. } => {
                        return Ok(Self {
                            ticket: ticket.to_string(),
                            root: root.to_hex().to_string(),
                            bytes,
                            files,
                            listen: listen.iter().map(SocketAddr::to_string).collect(),
                            stop: running.stop_flag(),
                            owner: Owner::this(),
                            running: Mutex::new(Some(running)),
                        });
                    }
                    event => log(py, &event)?,
                },
                Ok(CallNews::Over) => {
                    running.join(py)?;
                    return Err(to_exception(Error::usage("nothing was shared")));
                }
                Err(exception) => {
                    running.end();
                    let _ = running.join(py);
                    return Err(exception);
                }
            }
        }
    }

    /// Waits until it ends, at most for `timeout` seconds; returns whether it has ended.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.owner.check()?;
        let until = timeout.map(seconds).transpose()?.and_then(|t| Instant::now().checked_add(t));
        // If two threads wait, the second one returns at once as if it had ended.
        let Some(running) = self.running().take() else { return Ok(true) };
        let Some((running, looked)) = running.wait(py, until, |event| log(py, event))? else {
            return Ok(true);
        };
        *self.running() = Some(running);
        looked.map(|()| false)
    }

    /// Stops serving. Does nothing if it has ended, or in a child process: the parent serves.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.owner.is_this() {
            return Ok(());
        }
        self.stop.raise();
        let running = self.running().take();
        running.map_or(Ok(()), |running| running.join(py))
    }
}

impl Share {
    fn running(&self) -> MutexGuard<'_, Option<RunningCall<()>>> {
        // No code panics while it holds this lock and a change is incomplete.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses an address to listen at: HOST:PORT.
pub(crate) fn place(at: &str) -> PyResult<PeerAddress> {
    let wrong =
        |why: &dyn Display| to_exception(Error::usage(format!("cannot listen at {at}: {why}")));
    let place = at.parse().map_err(|why: HostPortError| wrong(&why))?;
    let found = look_up_place(&place).map_err(|why| wrong(&why))?;
    let first = found.first().ok_or_else(|| wrong(&"the name has no address"))?;
    Ok(PeerAddress::Link { address: *first, key: None })
}
