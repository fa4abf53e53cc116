//! [`MailServer`]: the server side of the mail protocol, beside the other tasks of a program's loop. Mail for us goes
//! to the [`MailStore`](xylem_mailbox::MailStore), mail for others to the
//! [`Mailbox`](xylem_mailbox::Mailbox), if there are such. A thread reads and writes both ([`MailDisk`]); a stream's
//! next frame is handled when the thread has done what the last one asked for.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use xylem_base::Wake;
use xylem_forward::FaceId;
use xylem_link::{StreamId, purpose};
use xylem_mail::MailboxId;
use xylem_mail::protocol::MailFrame;
use xylem_mailbox::{MailStoreError, MailboxConfig};

use super::disk::{MailDisk, MailDone, MailJob};
use super::framed_stream::FramedStream;
use crate::event::Event;
use xylem_engine::wall_clock;
use xylem_engine::{Engine, StreamEvent};

/// Most streams; more are refused.
const MAX_STREAMS: usize = 64;

/// Server side of the mail protocol; see the module's documentation.
pub(crate) struct MailServer {
    /// `None` without mail for us or others.
    disk: Option<MailDisk<(FaceId, StreamId)>>,
    streams: HashMap<(FaceId, StreamId), MailStream>,
}

struct MailStream {
    stream: FramedStream,
    /// Files of a mailbox still to be sent to its owner.
    fetched: VecDeque<String>,
    fetching: bool,
    /// The thread works for it.
    waits: bool,
}

/// Whether a stream can be used further.
type Usable = bool;

impl MailServer {
    /// Receives mail for us if the store has a mail directory, and for others if there is a `mailbox`. A thread calls
    /// `wake` when [`MailServer::poll`] has something to do.
    pub(crate) fn open(
        store: &Path,
        mailbox: Option<MailboxConfig>,
        wake: Wake,
    ) -> Result<Self, MailStoreError> {
        let disk = MailDisk::open(store, mailbox, wall_clock(), wake)?;
        Ok(Self { disk, streams: HashMap::new() })
    }

    /// Whether no stream is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Drops the streams of a face that is gone.
    pub(crate) fn face_down(&mut self, face: FaceId) {
        self.streams.retain(|(of, _), _| *of != face);
    }

    /// Handles an event of a peer's stream.
    pub(crate) fn handle(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        stream: StreamId,
        what: StreamEvent,
    ) {
        match what {
            StreamEvent::Opened { purpose } => {
                let is_wanted = purpose == purpose::MAIL && self.disk.is_some();
                if !is_wanted || self.streams.len() >= MAX_STREAMS {
                    return engine.refuse_stream(face, stream, what);
                }
                let (framed, fetched) = (FramedStream::new(face, stream), VecDeque::new());
                let answering =
                    MailStream { stream: framed, fetched, fetching: false, waits: false };
                self.streams.insert((face, stream), answering);
            }
            StreamEvent::Reset | StreamEvent::Stopped | StreamEvent::Delivered => {
                self.streams.remove(&(face, stream));
                return;
            }
            StreamEvent::Readable | StreamEvent::Writable => {}
        }
        self.go_on(engine, (face, stream));
    }

    /// Goes on with the streams for which the thread has done its work.
    pub(crate) fn poll(&mut self, engine: &mut Engine, on_event: &mut dyn FnMut(Event)) {
        let mut was_full = !self.has_room();
        while let Some((at, done)) = self.disk.as_mut().and_then(MailDisk::take_done) {
            let usable = self.take_done(at, done, on_event);
            match usable {
                true => self.go_on(engine, at),
                false => {
                    if let Some(answering) = self.streams.remove(&at) {
                        answering.stream.abandon(engine);
                    }
                }
            }
            was_full |= !self.has_room();
        }
        if was_full && self.has_room() {
            let waiting: Vec<_> = self.streams.keys().copied().collect();
            waiting.into_iter().for_each(|at| self.go_on(engine, at));
        }
    }

    fn has_room(&self) -> bool {
        self.disk.as_ref().is_none_or(MailDisk::has_room)
    }

    /// Takes what the thread has done for a stream, which may be gone.
    fn take_done(
        &mut self,
        at: (FaceId, StreamId),
        done: MailDone,
        on_event: &mut dyn FnMut(Event),
    ) -> Usable {
        let mut warn = |e: &MailStoreError| on_event(Event::warning(e.to_string()));
        let mut on = self.streams.get_mut(&at);
        if let Some(on) = on.as_mut().filter(|_| !matches!(done, MailDone::Removed(_))) {
            on.waits = false;
        }
        match done {
            MailDone::TakenIn { id, status, lost, events, failed } => {
                failed.iter().for_each(warn);
                events.into_iter().for_each(|event| on_event(Event::Mail(event)));
                if let Some(on) = on {
                    on.stream.send(&MailFrame::Receipt(id, status, lost));
                }
            }
            MailDone::Listed(Ok(files)) => {
                if let Some(on) = on {
                    (on.fetched, on.fetching) = (files.into(), true);
                }
            }
            // The end of an empty list would mean that nothing waits.
            MailDone::Listed(Err(e)) => {
                warn(&e);
                return false;
            }
            MailDone::Read(Ok(envelope)) => {
                if let Some((on, envelope)) = on.zip(envelope) {
                    on.stream.send(&MailFrame::Envelope(envelope));
                }
            }
            // It stays, and stops no other.
            MailDone::Read(Err(e)) => warn(&e),
            MailDone::Removed(removed) => removed.err().iter().for_each(warn),
        }
        true
    }

    fn go_on(&mut self, engine: &mut Engine, at: (FaceId, StreamId)) {
        let Some(mut answering) = self.streams.remove(&at) else { return };
        if self.serve(engine, &mut answering) {
            self.streams.insert(at, answering);
        } else {
            answering.stream.abandon(engine);
        }
    }

    /// Has the thread do a stream's work, and the stream wait for it.
    fn ask(&mut self, on: &mut MailStream, job: MailJob) -> Usable {
        let at = (on.stream.face, on.stream.stream);
        // Nothing is answered after a removal. A peer closes its link as soon as the request has arrived.
        on.waits = !matches!(job, MailJob::Remove(..));
        self.disk.as_mut().is_some_and(|disk| disk.ask(at, job))
    }

    /// Answers as long as the buffer has room and the thread is not needed. Returns false if the stream is unusable.
    fn serve(&mut self, engine: &mut Engine, on: &mut MailStream) -> Usable {
        loop {
            if !on.stream.write(engine) {
                return false;
            }
            if on.waits || !on.stream.has_room() || !self.has_room() {
                return true;
            }
            if on.fetching {
                let Some(file) = on.fetched.pop_front() else {
                    on.fetching = false;
                    on.stream.send(&MailFrame::End);
                    continue;
                };
                if !self.ask(on, MailJob::Read(file)) {
                    return false;
                }
                continue;
            }
            let Ok(frame) = on.stream.next_frame(engine) else { return false };
            let Some(frame) = frame else { break };
            let owner = engine.link_peer(on.stream.face).map(|key| MailboxId::of(&key));
            let job = match (frame, owner) {
                (MailFrame::Deliver(envelope), _) => MailJob::TakeIn(envelope, wall_clock()),
                (MailFrame::Fetch, Some(owner)) => MailJob::List(owner),
                (MailFrame::Fetch, None) => {
                    on.fetching = true;
                    continue;
                }
                (MailFrame::Taken(id), Some(owner)) => MailJob::Remove(owner, id),
                (MailFrame::Taken(_), None) => continue,
                // Answers without a request.
                (MailFrame::Receipt(..) | MailFrame::Envelope(_) | MailFrame::End, _) => {
                    return false;
                }
            };
            if !self.ask(on, job) {
                return false;
            }
        }
        if on.stream.ended {
            on.stream.finish(engine);
        }
        true
    }
}
