//! [`MailDisk`]: the thread that reads and writes stored mail, which may wait for the disk. `A` tells for which stream.
//!
//! The queue is bounded, because streams that are gone may have left jobs there. Jobs are done in the order in which they
//! came. Dropping it ends the thread after its current job; a cut between two writes is a crash, which stored mail
//! survives (`xylem_mailbox`).

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use xylem_base::{UnixTime, Wake};
use xylem_mail::protocol::DeliveryStatus;
use xylem_mail::{EnvelopeId, MailboxId, mailbox_of};
use xylem_mailbox::{MailEvent, MailStore, MailStoreError, Mailbox, MailboxConfig, report};
use xylem_store::StoreError;

/// Most jobs that wait or are under way, and most bytes of envelopes in them.
const MOST_JOBS: usize = 4_096;
const MOST_BYTES: usize = 8 << 20;

/// Work for the thread.
pub(super) enum MailJob {
    /// Store an envelope that came at this time.
    TakeIn(Vec<u8>, UnixTime),
    /// List the files of a mailbox.
    List(MailboxId),
    /// Read one of them.
    Read(String),
    /// Remove an envelope of a mailbox, which its owner has.
    Remove(MailboxId, EnvelopeId),
}

/// The result of a [`MailJob`].
pub(super) enum MailDone {
    TakenIn {
        id: EnvelopeId,
        /// The answer to the sender; it may be sent now.
        status: DeliveryStatus,
        /// How many messages of the session are lost.
        lost: u32,
        events: Vec<MailEvent>,
        failed: Option<MailStoreError>,
    },
    Listed(Result<Vec<String>, MailStoreError>),
    /// `None`: it is gone.
    Read(Result<Option<Vec<u8>>, MailStoreError>),
    Removed(Result<(), MailStoreError>),
}

/// Stored mail, and the thread that reads and writes it; see the module's documentation.
pub(super) struct MailDisk<A> {
    jobs: Sender<Tagged<A, MailJob>>,
    done: Receiver<Tagged<A, MailDone>>,
    /// Jobs without a result, and bytes of envelopes in them.
    open: usize,
    bytes: usize,
}

struct Tagged<A, T> {
    at: A,
    /// Bytes of an envelope in the job.
    bytes: usize,
    what: T,
}

impl<A: Send + 'static> MailDisk<A> {
    /// Opens the mail of a store; `None` if it has none and there is no mailbox.
    pub(super) fn open(
        store: &Path,
        mailbox: Option<MailboxConfig>,
        now: UnixTime,
        wake: Wake,
    ) -> Result<Option<Self>, MailStoreError> {
        let own = MailStore::open_existing(store)?;
        let mailbox = mailbox.map(|limits| Mailbox::open(store, limits, now)).transpose()?;
        if own.is_none() && mailbox.is_none() {
            return Ok(None);
        }
        let mut files = MailFolders { own, mailbox };
        let (jobs, todo) = mpsc::channel::<Tagged<A, MailJob>>();
        let (send, done) = mpsc::channel();
        let work = move || {
            for Tagged { at, bytes, what } in todo {
                // It fails after the program has ended.
                if send.send(Tagged { at, bytes, what: files.run(what) }).is_err() {
                    break;
                }
                wake();
            }
        };
        let started = thread::Builder::new().name("xylem-mail".into()).spawn(work);
        started
            .map_err(|e| StoreError::from_io("start a thread that writes to", store, None, e))?;
        Ok(Some(Self { jobs, done, open: 0, bytes: 0 }))
    }

    /// Returns whether the queue has room for a job.
    pub(super) fn has_room(&self) -> bool {
        self.open < MOST_JOBS && self.bytes < MOST_BYTES
    }

    /// Has the thread do a job. Returns false if the thread is gone.
    pub(super) fn ask(&mut self, at: A, job: MailJob) -> bool {
        let bytes = match &job {
            MailJob::TakeIn(envelope, _) => envelope.len(),
            MailJob::List(_) | MailJob::Read(_) | MailJob::Remove(..) => 0,
        };
        let is_asked = self.jobs.send(Tagged { at, bytes, what: job }).is_ok();
        if is_asked {
            self.open += 1;
            self.bytes += bytes;
        }
        is_asked
    }

    /// Returns the oldest result.
    pub(super) fn take_done(&mut self) -> Option<(A, MailDone)> {
        let Tagged { at, bytes, what } = self.done.try_recv().ok()?;
        self.open -= 1;
        self.bytes -= bytes;
        Some((at, what))
    }
}

struct MailFolders {
    own: Option<MailStore>,
    mailbox: Option<Mailbox>,
}

impl MailFolders {
    fn run(&mut self, job: MailJob) -> MailDone {
        match job {
            MailJob::TakeIn(envelope, now) => self.take_in(&envelope, now),
            MailJob::List(owner) => {
                let listed = self.mailbox.as_ref().map(|mailbox| mailbox.list(owner));
                MailDone::Listed(listed.transpose().map(Option::unwrap_or_default))
            }
            MailJob::Read(file) => {
                let read = self.mailbox.as_ref().map(|mailbox| mailbox.read(&file));
                MailDone::Read(read.transpose().map(Option::flatten))
            }
            MailJob::Remove(owner, id) => {
                let removed = self.mailbox.as_mut().map(|mailbox| mailbox.remove(owner, id));
                MailDone::Removed(removed.unwrap_or(Ok(())))
            }
        }
    }

    /// Stores an envelope.
    fn take_in(&mut self, envelope: &[u8], now: UnixTime) -> MailDone {
        let id = EnvelopeId::of(envelope);
        let (mut events, mut failed) = (Vec::new(), None);
        let owner = mailbox_of(envelope);
        let taken = match (&self.own, &mut self.mailbox, owner) {
            (.., None) => Ok((DeliveryStatus::Refused, 0)),
            (Some(own), _, Some(owner)) if own.mailbox() == owner => {
                report::take_in(own, envelope, now).map(|answer| {
                    events = answer.events;
                    (answer.status, answer.lost)
                })
            }
            (_, Some(mailbox), _) => mailbox.put(envelope, now).map(|status| (status, 0)),
            _ => Ok((DeliveryStatus::NotHere, 0)),
        };
        let (status, lost) = taken.unwrap_or_else(|e| {
            failed = Some(e);
            (DeliveryStatus::Full, 0)
        });
        MailDone::TakenIn { id, status, lost, events, failed }
    }
}
