//! [`MailServer`]: the server side of the mail protocol, beside the other tasks of a program's loop. Mail for us goes
//! to the [`MailStore`], mail for others to the [`Mailbox`], if there are such.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use xylem_forward::FaceId;
use xylem_link::{StreamId, purpose};
use xylem_mail::protocol::{DeliveryStatus, MailFrame};
use xylem_mail::{EnvelopeId, MailboxId, mailbox_of};

use super::framed_stream::FramedStream;
use crate::event::Event;
use xylem_engine::wall_clock;
use xylem_engine::{Engine, StreamEvent};
use xylem_library::Error;
use xylem_library::mail::{MailStore, Mailbox, MailboxConfig, report};

/// Most streams; more are refused.
const MAX_STREAMS: usize = 64;

/// Server side of the mail protocol; see the module's documentation.
pub(crate) struct MailServer {
    store: Option<MailStore>,
    mailbox: Option<Mailbox>,
    streams: HashMap<(FaceId, StreamId), MailStream>,
}

struct MailStream {
    stream: FramedStream,
    /// Files of a mailbox still to be sent to its owner.
    fetched: VecDeque<String>,
    fetching: bool,
}

impl MailServer {
    /// Receives mail for us if the store has a mail directory, and for others if there is a `mailbox`.
    pub(crate) fn open(store: &Path, mailbox: Option<MailboxConfig>) -> Result<Self, Error> {
        Ok(Self {
            store: MailStore::open_existing(store)?,
            mailbox: mailbox
                .map(|limits| Mailbox::open(store, limits, wall_clock()))
                .transpose()?,
            streams: HashMap::new(),
        })
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
        on_event: &mut dyn FnMut(Event),
    ) {
        match what {
            StreamEvent::Opened { purpose } => {
                let wanted = self.store.is_some() || self.mailbox.is_some();
                if purpose != purpose::MAIL || !wanted || self.streams.len() >= MAX_STREAMS {
                    return engine.refuse_stream(face, stream, what);
                }
                let framed = FramedStream::new(face, stream);
                let answering =
                    MailStream { stream: framed, fetched: VecDeque::new(), fetching: false };
                self.streams.insert((face, stream), answering);
            }
            StreamEvent::Reset | StreamEvent::Stopped | StreamEvent::Delivered => {
                self.streams.remove(&(face, stream));
                return;
            }
            StreamEvent::Readable | StreamEvent::Writable => {}
        }
        let Some(mut answering) = self.streams.remove(&(face, stream)) else { return };
        if self.serve(engine, &mut answering, on_event) {
            self.streams.insert((face, stream), answering);
        } else {
            answering.stream.abandon(engine);
        }
    }

    /// Answers as long as the buffer has room. Returns false if the stream is unusable.
    fn serve(
        &mut self,
        engine: &mut Engine,
        on: &mut MailStream,
        on_event: &mut dyn FnMut(Event),
    ) -> bool {
        loop {
            if !on.stream.write(engine) {
                return false;
            }
            if !on.stream.has_room() {
                return true;
            }
            if on.fetching {
                let next = on.fetched.pop_front().zip(self.mailbox.as_ref());
                match next.map(|(file, mailbox)| mailbox.read(&file)) {
                    Some(Ok(Some(envelope))) => on.stream.send(&MailFrame::Envelope(envelope)),
                    Some(Ok(None)) => {}
                    // It stays, and stops no other.
                    Some(Err(e)) => on_event(Event::warning(e.to_string())),
                    None => {
                        on.fetching = false;
                        on.stream.send(&MailFrame::End);
                    }
                }
                continue;
            }
            let Ok(frame) = on.stream.next_frame(engine) else { return false };
            let Some(frame) = frame else { break };
            match frame {
                MailFrame::Deliver(envelope) => {
                    let (status, lost) = self.take_in(&envelope, on_event);
                    on.stream.send(&MailFrame::Receipt(EnvelopeId::of(&envelope), status, lost));
                }
                MailFrame::Fetch => {
                    let owner = engine.link_peer(on.stream.face).map(|key| MailboxId::of(&key));
                    let waiting = owner.zip(self.mailbox.as_ref()).map(|(id, m)| m.list(id));
                    match waiting.transpose() {
                        Ok(waiting) => on.fetched = waiting.unwrap_or_default().into(),
                        Err(e) => {
                            // The end of an empty list would mean that nothing waits.
                            on_event(Event::warning(e.to_string()));
                            return false;
                        }
                    }
                    on.fetching = true;
                }
                MailFrame::Taken(id) => {
                    let owner = engine.link_peer(on.stream.face).map(|key| MailboxId::of(&key));
                    if let Some((owner, mailbox)) = owner.zip(self.mailbox.as_mut())
                        && let Err(e) = mailbox.remove(owner, id)
                    {
                        on_event(Event::warning(e.to_string()));
                    }
                }
                // Answers without a request.
                MailFrame::Receipt(..) | MailFrame::Envelope(_) | MailFrame::End => return false,
            }
        }
        if on.stream.ended {
            on.stream.finish(engine);
        }
        true
    }

    /// Stores an envelope. Returns its status, and how many messages of its session are lost.
    fn take_in(
        &mut self,
        envelope: &[u8],
        on_event: &mut dyn FnMut(Event),
    ) -> (DeliveryStatus, u32) {
        let Some(owner) = mailbox_of(envelope) else { return (DeliveryStatus::Refused, 0) };
        let taken = match (&self.store, &mut self.mailbox) {
            (Some(store), _) if store.mailbox() == owner => {
                report::take_in(store, envelope, wall_clock()).map(|answer| {
                    answer.events.into_iter().for_each(|event| on_event(Event::Mail(event)));
                    (answer.status, answer.lost)
                })
            }
            (_, Some(mailbox)) => {
                mailbox.put(envelope, wall_clock()).map(|status| (status, 0)).map_err(Error::from)
            }
            _ => Ok((DeliveryStatus::NotHere, 0)),
        };
        taken.unwrap_or_else(|e| {
            on_event(Event::warning(e.message));
            (DeliveryStatus::Full, 0)
        })
    }
}
