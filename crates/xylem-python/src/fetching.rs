//! `get` and `verify`.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use xylem::{
    Error, Event, Existing, Extras, FileMedium, GetOptions, Output, PeerAddress, PeerUri,
    ResolveError, SaveOptions, Ticket, TicketError, VerifyOptions, VerifySummary,
};

use crate::errors::to_exception;
use crate::running::{RunningCall, log};

/// The result of `get`.
#[pyclass(frozen, get_all, module = "xylem", str = "{path:?}")]
pub(crate) struct Fetched {
    path: PathBuf,
    root: String,
    bytes: u64,
    files: u64,
    fetched: u64,
    resumed: u64,
    reused: u64,
    seconds: f64,
    already_complete: bool,
}

/// The result of `verify`.
#[pyclass(frozen, get_all, module = "xylem", str = "{root}")]
pub(crate) struct Verified {
    root: String,
    bytes: u64,
    files: u64,
}

/// A damaged place: the path below the directory, the first byte, the byte after the last, and the kind of damage.
pub(crate) type Damage = (PathBuf, u64, u64, String);

/// Parses a ticket; the exception explains why it is none.
pub(crate) fn ticket(text: &str) -> PyResult<Ticket> {
    text.parse().map_err(|why: TicketError| to_exception(Error::usage(why.to_string())))
}

/// Converts seconds, which may have a fraction.
pub(crate) fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        to_exception(Error::usage(format!("{seconds} is not a valid number of seconds")))
    })
}

/// The directory of the store: the given one, else the default. It is made accessible to this user alone.
pub(crate) fn store(named: Option<PathBuf>) -> PyResult<PathBuf> {
    let none = || Error::usage("no place to keep keys and trees: HOME is not set; give store=");
    let dir = named.or_else(xylem::usual_store).ok_or_else(none).map_err(to_exception)?;
    xylem::close_to_others(&dir).map_err(|why| to_exception(Error::from(why)))?;
    Ok(dir)
}

/// Parses and resolves peers, as `--from` does.
pub(crate) fn peers(named: &[String]) -> PyResult<Vec<PeerAddress>> {
    let mut found = Vec::new();
    for name in named {
        let uri: PeerUri =
            name.parse().map_err(|why| to_exception(Error::usage(format!("{name}: {why}"))))?;
        let wrong = |why: ResolveError| to_exception(Error::usage(why.to_string()));
        found.extend(xylem::resolve(&uri).map_err(wrong)?);
    }
    Ok(found)
}

/// Fetches what a ticket names.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python's keywords")]
#[pyo3(signature = (ticket, output, existing, store, peers, timeout, limit, lan, progress))]
pub(crate) fn get(
    py: Python<'_>,
    ticket: &str,
    output: Option<PathBuf>,
    existing: &str,
    store: Option<PathBuf>,
    peers: Vec<String>,
    timeout: f64,
    limit: Option<u64>,
    lan: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Fetched> {
    let output = output.map_or_else(|| Output::Into(PathBuf::from(".")), Output::to);
    let existing = match existing {
        "refuse" => Existing::Refuse,
        "overwrite" => Existing::Overwrite,
        "rename" => Existing::Rename,
        other => {
            let what = format!("existing={other:?}: one of \"refuse\", \"overwrite\", \"rename\"");
            return Err(to_exception(Error::usage(what)));
        }
    };
    let save = SaveOptions::to(output, existing);
    let options = GetOptions {
        from: self::peers(&peers)?,
        give_up: seconds(timeout)?,
        limit_rate: limit,
        lan,
        ..GetOptions::new(self::ticket(ticket)?, save, self::store(store)?)
    };
    let running = RunningCall::start(move |stop, mut on_event| {
        Ok(xylem::get(&options, stop, &mut on_event)?)
    })?;
    let mut told = None;
    let summary = running.finish(py, |event| match (event, &progress) {
        (Event::Progress { verified, total, .. }, Some(progress)) => {
            told = Some(verified);
            progress.call1((verified, total)).map(drop)
        }
        (event, _) => log(py, &event),
    })?;
    // The last event may have reported it already.
    if let Some(progress) = progress.filter(|_| told != Some(summary.bytes)) {
        progress.call1((summary.bytes, summary.bytes))?;
    }
    Ok(Fetched {
        path: summary.path.unwrap_or_default(),
        root: summary.root.to_hex().to_string(),
        bytes: summary.bytes,
        files: summary.files,
        fetched: summary.fetched,
        resumed: summary.resumed,
        reused: summary.reused,
        seconds: summary.elapsed.as_secs_f64(),
        already_complete: summary.already_complete,
    })
}

/// Compares files on disk with a ticket; returns what was compared, and what is damaged.
#[pyfunction]
#[pyo3(signature = (path, ticket, store, peers, timeout, allow_extra))]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    ticket: &str,
    store: Option<PathBuf>,
    peers: Vec<String>,
    timeout: f64,
    allow_extra: bool,
) -> PyResult<(Verified, Vec<Damage>)> {
    let options = VerifyOptions {
        extras: if allow_extra { Extras::Allow } else { Extras::Name },
        path,
        ticket: self::ticket(ticket)?,
        from: self::peers(&peers)?,
        give_up: seconds(timeout)?,
        store: self::store(store)?,
        medium: FileMedium::default(),
    };
    let running = RunningCall::start(move |stop, mut on_event| {
        Ok(xylem::verify(&options, stop, &mut on_event)?)
    })?;
    let found = running.finish(py, |event| log(py, &event))?;
    Ok(summarised(found))
}

/// The result of a comparison for Python: what was compared, and what is damaged.
pub(crate) fn summarised(found: VerifySummary) -> (Verified, Vec<Damage>) {
    let damage = found.damage.into_iter().map(|d| (d.path, d.start, d.end, d.what.to_string()));
    let extra = found.extra.into_iter().map(|e| (e.path, 0, 0, e.what.to_string()));
    let damage = damage.chain(extra).collect();
    let root = found.root.to_hex().to_string();
    (Verified { root, bytes: found.bytes, files: found.files }, damage)
}
