//! [`ReaderEvents`]: the events of a reader, for a caller that shows them on its own thread.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use xylem_base::Stop;
use xylem_node::Event;

use crate::{Options, Reader, ReaderError};

/// Events that the thread of a reader has reported. `None` in the channel: it has opened, or has failed to.
pub struct ReaderEvents(Receiver<Option<Box<Event>>>);

impl ReaderEvents {
    /// The next event, if there is one.
    pub fn poll(&self) -> Option<Event> {
        self.0.try_iter().flatten().next().map(|event| *event)
    }

    /// Waits for the next event; `None` after this time without one.
    ///
    /// # Errors
    /// [`ReaderError::Ended`]: there are no more events. What is kept can still be read.
    pub fn wait(&self, within: Duration) -> Result<Option<Event>, ReaderError> {
        match self.0.recv_timeout(within) {
            Ok(event) => Ok(event.map(|event| *event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ReaderError::Ended),
        }
    }
}

impl Reader {
    /// Like [`Reader::open`], but calls `on_event` on the calling thread until the publication is open. The
    /// [`ReaderEvents`] give the later ones.
    ///
    /// # Errors
    /// See [`ReaderError`].
    pub fn open_shown(
        options: Options,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(Self, ReaderEvents), ReaderError> {
        let (sender, events) = mpsc::channel();
        let (opened, until) = (sender.clone(), stop.clone());
        let opening = thread::Builder::new().spawn(move || {
            let told = Box::new(move |event| drop(sender.send(Some(Box::new(event)))));
            let reader = Self::open(options, &until, told);
            drop(opened.send(None));
            reader
        });
        let opening = opening.map_err(ReaderError::Thread)?;
        while let Ok(Some(event)) = events.recv() {
            on_event(*event);
        }
        let reader = opening.join().map_err(|_| ReaderError::Ended)??;
        Ok((reader, ReaderEvents(events)))
    }
}
