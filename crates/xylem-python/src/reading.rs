//! `Reader` and `File`: reads of a publication without a fetch of the whole.

use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use xylem::{EntryKind, Error, ReaderOptions};

use crate::errors::{read_failure, to_exception};
use crate::fetching::{peers, seconds, store, ticket};
use crate::running::{GLANCE, Owner, RunningCall, log};

/// Bytes of one read at most.
const PIECE: usize = 1 << 20;

/// A value that is there until it is closed, in the process that opened it.
struct Opened<T> {
    owner: Owner,
    value: Mutex<Option<T>>,
}

impl<T> Opened<T> {
    fn new(value: T) -> Self {
        Self { owner: Owner::this(), value: Mutex::new(Some(value)) }
    }

    /// Takes the value, for the caller to drop. A copy in a forked child is leaked: its drop would wait for a thread
    /// that the child does not have.
    fn close(&self) -> Option<T> {
        let value = lock(&self.value).take();
        if self.owner.is_this() {
            return value;
        }
        mem::forget(value);
        None
    }
}

impl<T: Clone> Opened<T> {
    fn get(&self, closed: &'static str) -> PyResult<T> {
        self.owner.check()?;
        lock(&self.value).clone().ok_or_else(|| PyValueError::new_err(closed))
    }
}

impl<T> Drop for Opened<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// A publication. Its thread ends once it and all its files are closed.
#[pyclass(frozen, module = "xylem")]
pub(crate) struct Reader(Opened<Arc<xylem::Reader>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds this lock and a change is incomplete.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (ticket, store, peers, timeout, lan))]
    fn new(
        py: Python<'_>,
        ticket: &str,
        store: Option<PathBuf>,
        peers: Vec<String>,
        timeout: f64,
        lan: bool,
    ) -> PyResult<Self> {
        let options = ReaderOptions {
            from: self::peers(&peers)?,
            timeout: seconds(timeout)?,
            lan,
            ..ReaderOptions::new(self::ticket(ticket)?, self::store(store)?)
        };
        let running = RunningCall::start(move |stop, on_event| {
            Ok(xylem::Reader::open(options, stop, on_event)?)
        })?;
        // Later events of the reader are dropped: a failed read raises an exception.
        let reader = running.finish(py, |event| log(py, &event))?;
        Ok(Self(Opened::new(Arc::new(reader))))
    }

    /// Whether it is a directory.
    #[getter]
    fn is_directory(&self) -> PyResult<bool> {
        Ok(self.reader()?.is_directory())
    }

    /// Paths and sizes of its files, in the listing's order, with hard links.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<(PathBuf, u64)>> {
        let reader = self.reader()?;
        py.detach(|| {
            let mut files = Vec::new();
            for number in 0.. {
                let Some(item) = reader.item(number)? else { break };
                let size = match &item.entry.kind {
                    EntryKind::File { size, .. } => *size,
                    EntryKind::HardLink { target } => match reader.find(target)? {
                        Some(it) => reader.open_item(&it)?.size(),
                        None => continue,
                    },
                    _ => continue,
                };
                files.push((xylem::os_path(&item.entry.path), size));
            }
            Ok(files)
        })
        .map_err(|why: xylem::ReaderError| to_exception(why))
    }

    /// Opens the file at `path`, or the only one.
    fn open(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<File> {
        let reader = self.reader()?;
        let opened = py.detach(|| match &path {
            Some(path) => {
                reader.open_path(path.as_os_str().as_encoded_bytes()).map_err(Error::from)
            }
            None if reader.is_directory() => {
                Err(Error::usage("it is a directory: name one of its files with path="))
            }
            None => match reader.item(0).map_err(Error::from)? {
                Some(item) => reader.open_item(&item).map_err(Error::from),
                None => Err(Error::usage("the publication has no file")),
            },
        });
        let file = opened.map_err(to_exception)?;
        let name = match path {
            Some(path) => path.to_string_lossy().into_owned(),
            None => String::from_utf8_lossy(&reader.manifest().file_name).into_owned(),
        };
        let size = file.size();
        Ok(File { open: Opened::new((Arc::new(file), reader)), name, size })
    }

    /// Closes the publication for new files.
    fn close(&self, py: Python<'_>) {
        let reader = self.0.close();
        // Dropping the last reference waits for a thread.
        py.detach(|| drop(reader));
    }
}

impl Reader {
    fn reader(&self) -> PyResult<Arc<xylem::Reader>> {
        self.0.get("the reader is closed")
    }
}

/// One file of a publication.
#[pyclass(frozen, module = "xylem")]
pub(crate) struct File {
    /// The file, which is dropped first, and its reader.
    open: Opened<(Arc<xylem::File>, Arc<xylem::Reader>)>,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    size: u64,
}

#[pymethods]
impl File {
    /// Reads from `offset`, at most `len` bytes and at most 1 MiB; empty at the end.
    fn read<'py>(&self, py: Python<'py>, offset: u64, len: usize) -> PyResult<Bound<'py, PyBytes>> {
        let (file, _reader) = self.open.get("the file is closed")?;
        let (tell, told) = mpsc::sync_channel(1);
        py.detach(|| {
            let done = move |read: io::Result<&[u8]>| drop(tell.send(read.map(<[u8]>::to_vec)));
            file.read_then(offset, len.min(PIECE), done);
        });
        let mut told = told;
        loop {
            let read;
            (told, read) = py.detach(move || {
                let read = told.recv_timeout(GLANCE);
                (told, read)
            });
            match read {
                Ok(Ok(bytes)) => return Ok(PyBytes::new(py, &bytes)),
                Ok(Err(why)) => return Err(read_failure(&self.name, &why)),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(read_failure(
                        &self.name,
                        &io::Error::other("the reader has ended"),
                    ));
                }
            }
        }
    }

    /// Closes the file.
    fn close(&self, py: Python<'_>) {
        let open = self.open.close();
        py.detach(|| drop(open));
    }
}
