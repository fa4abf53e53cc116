//! Standard output, in order: a thread writes, so that a slow reader never stalls the network.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use xylem_object::{Manifest, ObjectId};
use xylem_store::VerifiedStream;
use xylem_tree::{Segment, Verified};

use super::{Context, Sink, added, unrecorded};
use crate::failure;
use crate::{Blame, Error};

/// How far past the first missing segment is asked: what has to be kept out of order.
const WINDOW_SEGMENTS: u64 = 1_024;
/// Pieces on their way to the writer.
const QUEUE: usize = 256;
/// Pieces in order that wait for room in the queue before the transfer is held back.
const MAX_WAITING: usize = 512;
/// How soon a full queue is looked at again.
const RETRY: Duration = Duration::from_millis(2);

type Piece = Verified<Segment<Bytes>>;

/// Bytes `range` of a file to standard output.
pub struct StreamSink {
    manifest: Manifest,
    range: Range<u64>,
    /// Segments that came before their turn.
    early: BTreeMap<u64, Piece>,
    next: u64,
    waiting: VecDeque<Piece>,
    queue: Option<SyncSender<Piece>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    complete: bool,
}

impl StreamSink {
    pub fn new(manifest: Manifest, range: Range<u64>) -> Self {
        let (queue, pieces) = mpsc::sync_channel::<Piece>(QUEUE);
        let (root, wanted) = (manifest.root, range.clone());
        let writer = thread::spawn(move || {
            let mut out = VerifiedStream::new(io::stdout().lock(), root, wanted);
            pieces.iter().try_for_each(|piece| out.put(&piece))?;
            out.flush()
        });
        let first = manifest.geometry().segments_of(range.clone()).start;
        Self {
            manifest,
            range,
            early: BTreeMap::new(),
            next: first,
            waiting: VecDeque::new(),
            queue: Some(queue),
            writer: Some(writer),
            complete: false,
        }
    }

    /// Hands over what the writer has room for.
    fn push(&mut self) -> Result<(), Error> {
        while let Some(piece) = self.waiting.pop_front() {
            let Some(queue) = &self.queue else { break };
            match queue.try_send(piece) {
                Ok(()) => {}
                Err(TrySendError::Full(piece)) => {
                    self.waiting.push_front(piece);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => return Err(self.ended()),
            }
        }
        Ok(())
    }

    /// Why the writer is gone.
    fn ended(&mut self) -> Error {
        self.queue = None;
        let outcome = self.writer.take().map(JoinHandle::join);
        match outcome {
            Some(Ok(Err(e))) if e.kind() == io::ErrorKind::BrokenPipe => Error {
                blame: Blame::Interrupted,
                message: "standard output was closed by its reader".to_owned(),
            },
            Some(Ok(Err(e))) => failure::local("standard output", &e),
            _ => failure::local("standard output", &io::Error::other("the writer ended")),
        }
    }
}

impl Sink for StreamSink {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        (cx.tally.total, cx.tally.files) = (self.range.end - self.range.start, 1);
        cx.transfer.in_order_window(Some(WINDOW_SEGMENTS));
        let (root, geometry) = (self.manifest.root, self.manifest.geometry());
        // An empty file is one empty segment: proven like any other.
        let wanted = geometry.segments_of(self.range.clone());
        let wanted = if self.manifest.size == 0 { 0..1 } else { wanted };
        let verifier = unrecorded(&self.manifest);
        added(cx.transfer.add_object(ObjectId::Root, root, geometry, [wanted], [], Some(verifier)))
    }

    fn segment(
        &mut self,
        _object: ObjectId,
        segment: Verified<Segment<Bytes>>,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        cx.tally.fetched += segment.content.len() as u64;
        self.early.insert(segment.index.0, segment);
        while let Some(piece) = self.early.remove(&self.next) {
            self.waiting.push_back(piece);
            self.next += 1;
        }
        self.push()
    }

    fn complete(&mut self, _object: ObjectId, _cx: &mut Context<'_>) -> Result<(), Error> {
        self.complete = true;
        Ok(())
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<Option<Duration>, Error> {
        self.push()?;
        cx.transfer.set_paused(cx.now, self.waiting.len() > MAX_WAITING);
        Ok((!self.waiting.is_empty()).then_some(cx.now + RETRY))
    }

    fn is_done(&self) -> bool {
        self.complete && self.waiting.is_empty()
    }

    fn finish(&mut self) -> Result<Option<PathBuf>, Error> {
        self.queue = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(Ok(()))) | None => Ok(None),
            Some(Ok(Err(e))) if e.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            Some(Ok(Err(e))) => Err(failure::local("standard output", &e)),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}
