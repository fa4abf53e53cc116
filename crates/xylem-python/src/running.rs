//! [`Running`]: runs a call of the library on a thread of its own; Ctrl-C and exceptions end it.

use std::process;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use xylem::{Blame, Error, Event, LibraryEvent, Stop};

use crate::errors::to_exception;

/// How often a waiting thread checks for signals.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);
/// Events in the queue at most; further ones are dropped.
const EVENTS: usize = 1_024;

/// The process that started threads. They do not survive `os.fork()`: in a child nothing answers a read, and a wait for
/// their end does not return.
#[derive(Clone, Copy)]
pub(crate) struct Owner(u32);

impl Owner {
    /// This process.
    pub(crate) fn this() -> Self {
        Self(process::id())
    }

    pub(crate) fn is_this(self) -> bool {
        self.0 == process::id()
    }

    /// Raises an exception in another process.
    pub(crate) fn check(self) -> PyResult<()> {
        if self.is_this() {
            return Ok(());
        }
        let what = "it was opened before os.fork(), and its threads do not exist in the child process: open it in the \
                    process that uses it, or start processes by the method spawn";
        Err(to_exception(Error::usage(what)))
    }
}

/// The result of a call, or its panic.
type Outcome<T> = thread::Result<Result<T, Error>>;

/// See the module's documentation. Dropping it asks the call to end, without waiting for that.
pub(crate) struct RunningCall<T, E = Event> {
    stop: StopOnDrop,
    /// The call's events. Something that the call has left running may send events after its end.
    events: Receiver<Option<E>>,
    thread: JoinHandle<Result<T, Error>>,
}

/// Raises the stop flag on drop. It is empty once the call has ended, since the call may have left something running.
struct StopOnDrop(Option<Stop>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(Stop::raise);
    }
}

/// The result of [`RunningCall::next`].
pub(crate) enum CallNews<E> {
    Event(Box<E>),
    Nothing,
    /// The call has returned.
    Over,
}

impl<T: Send + 'static, E: Send + 'static> RunningCall<T, E> {
    /// Starts the call. Its event callback never blocks.
    pub(crate) fn start(
        work: impl FnOnce(&Stop, Box<dyn FnMut(E) + Send>) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<Self> {
        let (stop, (tell, events)) = (Stop::new(), mpsc::sync_channel(EVENTS));
        let until = stop.clone();
        let thread = thread::Builder::new()
            .name("xylem".into())
            .spawn(move || {
                let over = tell.clone();
                let done = work(&until, Box::new(move |event| drop(tell.try_send(Some(event)))));
                // If the queue is full, the receiver notices the end after it has read the queue.
                let _ = over.try_send(None);
                done
            })
            .map_err(|error| to_exception(Error::local("cannot start a thread", &error)))?;
        Ok(Self { stop: StopOnDrop(Some(stop)), events, thread })
    }

    /// Waits up to [`GLANCE`] for the next event, with the interpreter released, and then handles signals.
    pub(crate) fn next(mut self, py: Python<'_>) -> (Self, PyResult<CallNews<E>>) {
        let news;
        (self, news) = py.detach(move || {
            let news = match self.events.recv_timeout(GLANCE) {
                Ok(Some(event)) => CallNews::Event(Box::new(event)),
                Ok(None) => CallNews::Over,
                Err(_) if self.thread.is_finished() => CallNews::Over,
                Err(_) => CallNews::Nothing,
            };
            (self, news)
        });
        let signals = py.check_signals();
        (self, signals.map(|()| news))
    }

    /// Asks the call to end.
    pub(crate) fn end(&self) {
        self.stop.0.iter().for_each(Stop::raise);
    }

    /// The flag that asks the call to end.
    pub(crate) fn stop_flag(&self) -> Stop {
        self.stop.0.clone().unwrap_or_default()
    }

    /// Waits for the call's end.
    pub(crate) fn join(mut self, py: Python<'_>) -> PyResult<T> {
        let thread = self.thread;
        let outcome: Outcome<T> = py.detach(move || thread.join());
        self.stop.0 = None;
        let bug = |_| {
            let message =
                format!("this is a bug in xylem {}, please report it", env!("CARGO_PKG_VERSION"));
            Err(Error { blame: Blame::Local, message })
        };
        outcome.unwrap_or_else(bug).map_err(to_exception)
    }

    /// Waits for the call's end and passes each event to `on_event`. An exception ends the call.
    pub(crate) fn finish(
        self,
        py: Python<'_>,
        mut on_event: impl FnMut(E) -> PyResult<()>,
    ) -> PyResult<T> {
        let mut running = self;
        let seen = loop {
            let news;
            (running, news) = running.next(py);
            let looked = news.and_then(|news| match news {
                CallNews::Event(event) => on_event(*event).map(|()| false),
                CallNews::Nothing => Ok(false),
                CallNews::Over => Ok(true),
            });
            match looked {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(exception) => break Err(exception),
            }
        };
        if seen.is_err() {
            running.end();
        }
        let done = running.join(py);
        seen.and(done)
    }
}

impl<T: Send + 'static, E: Send + 'static> RunningCall<T, E> {
    /// Waits until the call ends, at most until `until`. `None`: it has ended; otherwise the call, to be waited for again, and
    /// the exception of `on_event` or of a signal.
    pub(crate) fn wait(
        mut self,
        py: Python<'_>,
        until: Option<Instant>,
        on_event: impl Fn(&E) -> PyResult<()>,
    ) -> PyResult<Option<(Self, PyResult<()>)>> {
        loop {
            let news;
            (self, news) = self.next(py);
            let looked = news.and_then(|news| match news {
                CallNews::Event(event) => on_event(&event).map(|()| false),
                CallNews::Nothing => Ok(false),
                CallNews::Over => Ok(true),
            });
            let late = until.is_some_and(|until| Instant::now() >= until);
            match looked {
                Ok(true) => return self.join(py).map(|_| None),
                Ok(false) if !late => {}
                Ok(false) => return Ok(Some((self, Ok(())))),
                Err(exception) => return Ok(Some((self, Err(exception)))),
            }
        }
    }
}

/// Logs a warning event to Python's logger `xylem`.
pub(crate) fn log(py: Python<'_>, event: &Event) -> PyResult<()> {
    match event {
        Event::Library(LibraryEvent::Warning { what }) => warn(py, what),
        Event::PeerMisbehaved { peer, what } => {
            warn(py, &format!("{} misbehaved: {what}", peer.for_people()))
        }
        _ => Ok(()),
    }
}

/// Logs a line as a warning.
pub(crate) fn warn(py: Python<'_>, what: &str) -> PyResult<()> {
    let logger = py.import("logging")?.call_method1("getLogger", ("xylem",))?;
    logger.call_method1("warning", ("%s", what)).map(drop)
}
