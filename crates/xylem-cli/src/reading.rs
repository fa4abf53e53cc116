//! Opens a [`Reader`] and shows events meanwhile.

use crate::exit::{CommandFailure, Exit};
use crate::get::ended;
use crate::output::Out;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use xylem_base::Stop;
use xylem_node::Event;
use xylem_reader::{Options, Reader, ReaderError};

/// The error of a reader that has lost its thread.
pub(crate) const ENDED: &str = "the thread that reads the publication ended; run the command again";

/// Messages of other threads to the one that prints.
pub(crate) enum ReadingNews {
    /// An event to show.
    Event(Box<Event>),
    /// The reader is open, or the failure to open it.
    Opened(Box<Result<Reader, ReaderError>>),
}

/// Opens what `options` name. The receiver gives the reader's later events.
pub(crate) fn open(
    options: Options,
    stop: &Stop,
    out: &mut Out,
) -> Result<(Reader, Receiver<ReadingNews>), CommandFailure> {
    let (sender, news) = mpsc::channel();
    let (told, until) = (sender.clone(), stop.clone());
    let opening = thread::Builder::new().spawn(move || {
        let on_event = Box::new(move |event| drop(told.send(ReadingNews::Event(Box::new(event)))));
        let opened = Reader::open(options, &until, on_event);
        drop(sender.send(ReadingNews::Opened(Box::new(opened))));
    });
    opening.map_err(|error| CommandFailure::no_thread(&error))?;
    loop {
        match news.recv() {
            Ok(ReadingNews::Event(event)) => out.event(*event),
            Ok(ReadingNews::Opened(opened)) => {
                out.take_broken()?;
                return Ok((opened.map_err(|error| ended(error, stop))?, news));
            }
            Err(_) => {
                return Err(CommandFailure::new(Exit::Local, ENDED));
            }
        }
    }
}
