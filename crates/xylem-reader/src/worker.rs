//! [`Worker`]: the thread that owns the sockets. It fetches bytes that a read waits for, then bytes likely to be read
//! next. It hands them out as they are proven, and stores them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use xylem_base::{Blame, Failure, Stop};
use xylem_files::signed::{self, SignedPublication};
use xylem_node::{Event, Fetch, FetchError, FetchNext, FetchView, newest};
use xylem_object::ObjectId;
use xylem_store::{Store, StoreError};
use xylem_transfer::{Transfer, TransferEvent, Urgency};
use xylem_tree::{Segment, SegmentSet, TreeKind, Verified};

use crate::cached::Cached;
use crate::demand::{MissingRead, ReaderCommand, ReaderQueue};
use crate::error::ReaderError;
use crate::reader::Options;

/// Most closed files kept open in the transfer, as they may be opened again soon.
const MAX_LINGERING: usize = 64;
/// Pause after a failure before peers are dialled again.
const REDIAL_PAUSE: Duration = Duration::from_secs(1);
/// Interval at which a waiting thread checks whether it should end.
const STOP_CHECK_EVERY: Duration = Duration::from_millis(100);

/// The fetching thread of a reader.
pub(crate) struct Worker {
    pub(crate) options: Options,
    pub(crate) store: Store,
    pub(crate) queue: Arc<ReaderQueue>,
    pub(crate) stop: Stop,
    /// Raised when the whole program ends, not the reader alone.
    pub(crate) program_stop: Stop,
    pub(crate) on_event: Box<dyn FnMut(Event) + Send>,
}

/// The reads that a fetch works for.
struct ReadDemand {
    timeout: Duration,
    files: HashMap<ObjectId, OpenReaderFile>,
    lingering: VecDeque<ObjectId>,
    /// Files with stored segments that were not flushed yet.
    dirty: BTreeSet<ObjectId>,
    /// Warnings to be reported.
    warnings: Vec<String>,
    /// Whether it was reported that nothing more is stored.
    storing_ended: bool,
}

/// A file that is open.
struct OpenReaderFile {
    cached: Arc<Cached>,
    readers: usize,
    waiting: Vec<WaitingRead>,
    /// Segments that the transfer has brought since it opened the file; `None`: it has not opened it.
    brought: Option<SegmentSet>,
    /// Segments that could not be fetched, and until when another read of them fails at once. After a failed read-ahead
    /// a kernel repeats the request for the program's own read.
    failed: Vec<(u64, Instant)>,
}

struct WaitingRead {
    wanted: MissingRead,
    /// When the read fails, unless some of its bytes arrive.
    until: Instant,
}

impl Worker {
    /// Fetches until it is stopped. First sends the signed manifest, or why there is none.
    pub(crate) fn run(mut self, opened: &mpsc::Sender<Result<SignedPublication, ReaderError>>) {
        let started = self.start();
        let queue = self.queue.clone();
        match started {
            Ok((signed, fetch)) => {
                if opened.send(Ok(signed.clone())).is_ok() {
                    self.serve(&signed, fetch);
                }
            }
            Err(why) => drop(opened.send(Err(why))),
        }
        for command in queue.end() {
            if let ReaderCommand::Read(wanted) = command {
                wanted.fail("the reader has ended");
            }
        }
    }

    /// The signed manifest, stored or fetched.
    fn start(&mut self) -> Result<(SignedPublication, Option<Fetch>), ReaderError> {
        let ticket = &self.options.ticket;
        // A program that reads everything once needs the publication that is served now. A stored manifest may be that
        // of an earlier one with the same content, which peers no longer have.
        let kept = signed::find(&self.store, &ticket.root, &ticket.publisher, ticket.name.as_ref())
            .filter(|_| self.options.keep);
        // For a growing file, read the newest checkpoint. Use a stored one only when no peer is reached.
        let grows = |signed: &SignedPublication| {
            signed.manifest.growing.is_some_and(|growing| !growing.last)
        };
        let older = kept.clone().filter(grows);
        if let Some(kept) = kept.filter(|kept| !grows(kept)) {
            if kept.manifest.tree != TreeKind::Blake3 {
                return Err(FetchError::OtherTree.into());
            }
            return Ok((kept, None));
        }
        let publisher = ticket.publisher;
        let mut fetch = self.dial()?;
        let manifest = match fetch.manifest(&self.stop, &mut self.on_event) {
            Ok(manifest) => manifest,
            Err(e) => match older.filter(|_| e.blame() == Blame::Network) {
                Some(older) => return Ok((older, None)),
                None => return Err(e.into()),
            },
        };
        let (store, stop) = (&self.options.store, &self.stop);
        let manifest = newest(&mut fetch, publisher, store, manifest, stop, &mut self.on_event)?;
        let packet = fetch.manifest_packet().to_vec();
        let signed = SignedPublication { prefix: fetch.name(), packet, manifest, publisher };
        signed::keep(&self.store, &signed.manifest.root, &signed.packet)?;
        fetch.find_others(&self.options.ticket);
        Ok((signed, Some(fetch)))
    }

    fn dial(&mut self) -> Result<Fetch, FetchError> {
        let Options { ticket, from, relays, timeout, limit_rate, links, .. } = &self.options;
        let asks = self.options.ask_who_answers;
        let fetch = Fetch::through(ticket, from, relays, *timeout, *limit_rate, links, asks)?;
        let fetch = fetch.waiting(self.options.wait);
        let fetch = if self.options.background { fetch.in_background() } else { fetch };
        let fetch = fetch.asking_the_dht(ticket, self.options.dht.as_ref());
        Ok(if self.options.lan { fetch.asking_the_lan(ticket) } else { fetch })
    }

    /// Dials again for a known manifest.
    fn dial_again(&mut self, signed: &SignedPublication) -> Result<Fetch, FetchError> {
        let mut fetch = self.dial()?;
        // If the manifest could not be offered, it is fetched again.
        if fetch.offer(signed).is_ok() {
            fetch.find_others(&self.options.ticket);
        }
        Ok(fetch)
    }

    fn serve(&mut self, signed: &SignedPublication, mut fetch: Option<Fetch>) {
        let mut demand = ReadDemand {
            timeout: self.options.timeout,
            files: HashMap::new(),
            lingering: VecDeque::new(),
            dirty: BTreeSet::new(),
            warnings: Vec::new(),
            storing_ended: false,
        };
        // Dial at the start, so that the first read need not wait for that.
        let mut wants_fetch = true;
        while !self.stop.raised() {
            let running = match fetch.take() {
                Some(running) => Ok(running),
                None => {
                    while let Some(command) = self.queue.pop() {
                        demand.handle_command(command, None);
                    }
                    if !wants_fetch && !demand.is_waited_for() {
                        self.queue.wait(STOP_CHECK_EVERY);
                        continue;
                    }
                    wants_fetch = false;
                    self.dial_again(signed)
                }
            };
            let ended = running.and_then(|mut fetch| {
                self.queue.wake_by(Some(fetch.waker()?));
                let queue = &self.queue;
                let ran = fetch
                    .run_until(&self.stop, &mut self.on_event, |look| demand.run_turn(look, queue));
                fetch.leave(&self.program_stop, &mut self.on_event);
                ran
            });
            self.queue.wake_by(None);
            demand.forget_transfer();
            match ended {
                Err(why) if !self.stop.raised() => {
                    let began = Instant::now();
                    demand.fail_all(&why.to_string());
                    self.report_warnings(&mut demand);
                    while began.elapsed() < REDIAL_PAUSE && !self.stop.raised() {
                        self.queue.wait(STOP_CHECK_EVERY);
                        while let Some(command) = self.queue.pop() {
                            demand.handle_command(command, None);
                        }
                    }
                }
                _ => break,
            }
        }
        demand.fail_all("the reader has ended");
    }

    fn report_warnings(&mut self, demand: &mut ReadDemand) {
        demand.warnings.drain(..).for_each(|what| (self.on_event)(Event::warning(what)));
    }
}

/// Runs of ascending numbers.
fn runs(numbers: &[u64]) -> impl Iterator<Item = Range<u64>> + '_ {
    numbers.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[0] + run.len() as u64)
}

impl OpenReaderFile {
    /// Opens the file in the transfer. Returns whether it is open there.
    fn is_open_in(&mut self, transfer: &mut Transfer) -> bool {
        let Cached { id, root, geometry, .. } = *self.cached;
        if self.brought.is_none() && transfer.open_object(id, root, geometry).is_ok() {
            self.brought = Some(SegmentSet::new(geometry.segments()));
        }
        self.brought.is_some()
    }

    /// Fails reads. Returns a line for the warning.
    fn fail(&mut self, waiting: Vec<WaitingRead>, why: &str) -> Option<String> {
        let first = waiting.first()?;
        let Range { start, end } = first.wanted.bytes;
        let more = match waiting.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} more reads"),
        };
        let line = format!("{}: bytes {start}..{end}{more} can't be read: {why}", self.cached.name);
        let until = Instant::now() + REDIAL_PAUSE;
        for WaitingRead { wanted, .. } in waiting {
            self.failed.extend(wanted.missing.iter().map(|i| (*i, until)));
            wanted.fail(why);
        }
        Some(line)
    }
}

impl ReadDemand {
    fn is_waited_for(&self) -> bool {
        self.files.values().any(|open| !open.waiting.is_empty())
    }

    /// Handles the transfer's events and the queue's commands.
    fn run_turn(
        &mut self,
        look: &mut FetchView<'_>,
        queue: &ReaderQueue,
    ) -> Result<FetchNext, FetchError> {
        // Request what was queued while no fetch ran.
        if self.files.values().any(|open| open.brought.is_none() && !open.waiting.is_empty()) {
            let ids: Vec<ObjectId> = self.files.keys().copied().collect();
            ids.into_iter().for_each(|id| self.want(id, look.transfer()));
        }
        while let Some(event) = look.next_event()? {
            match event {
                TransferEvent::Segment { object, segment } => self.segment(object, &segment),
                TransferEvent::Nodes { object, nodes } => {
                    if let Some(open) = self.files.get(&object) {
                        let put = open.cached.put_nodes(&nodes);
                        self.dirty.insert(object);
                        self.note_store_error(put);
                    }
                }
                _ => {}
            }
        }
        for id in std::mem::take(&mut self.dirty) {
            if let Some(open) = self.files.get(&id) {
                let flushed = open.cached.flush();
                self.note_store_error(flushed);
            }
        }
        while let Some(command) = queue.pop() {
            self.handle_command(command, Some(look.transfer()));
        }
        self.fail_overdue_reads(look.transfer());
        self.warnings.drain(..).for_each(|what| look.report_event(Event::warning(what)));
        Ok(FetchNext::Wait(None))
    }

    fn handle_command(&mut self, command: ReaderCommand, transfer: Option<&mut Transfer>) {
        match command {
            ReaderCommand::Open(cached) => {
                let id = cached.id;
                let open = self.files.entry(id).or_insert_with(|| OpenReaderFile {
                    cached: cached.clone(),
                    readers: 0,
                    waiting: Vec::new(),
                    brought: None,
                    failed: Vec::new(),
                });
                open.cached = cached;
                open.readers += 1;
            }
            ReaderCommand::Close(id) => self.close(id, transfer),
            ReaderCommand::Read(wanted) => self.read(*wanted, transfer),
            ReaderCommand::Ahead(id, segments) => {
                if let Some(transfer) = transfer
                    && let Some(open) = self.files.get_mut(&id).filter(|o| o.cached.stores())
                    && open.is_open_in(transfer)
                {
                    for run in open.cached.missing(segments) {
                        transfer.want(id, run, Urgency::Ahead);
                    }
                }
            }
            ReaderCommand::Elsewhere(id) => {
                if let Some(transfer) = transfer {
                    transfer.drop_unasked(id);
                    self.want(id, transfer);
                }
            }
        }
    }

    fn read(&mut self, mut wanted: MissingRead, transfer: Option<&mut Transfer>) {
        let Some(open) = self.files.get_mut(&wanted.id) else {
            return wanted.fail("the file is closed");
        };
        // The segments may have arrived while the command was queued.
        let missing = std::mem::take(&mut wanted.missing);
        for run in runs(&missing) {
            wanted.missing.extend(open.cached.fill(&mut wanted.piece, &run));
        }
        if wanted.missing.is_empty() {
            return wanted.finish();
        }
        let now = Instant::now();
        open.failed.retain(|(_, until)| now < *until);
        if open.failed.iter().any(|(i, _)| wanted.missing.binary_search(i).is_ok()) {
            return wanted.fail("no peer had it a moment ago");
        }
        let (id, until) = (wanted.id, now + self.timeout);
        open.waiting.push(WaitingRead { wanted, until });
        if let Some(transfer) = transfer {
            self.want(id, transfer);
        }
    }

    /// Has the transfer fetch what reads wait for.
    fn want(&mut self, id: ObjectId, transfer: &mut Transfer) {
        let Some(open) = self.files.get_mut(&id).filter(|open| !open.waiting.is_empty()) else {
            return;
        };
        let all = || open.waiting.iter().flat_map(|w| w.wanted.missing.iter());
        let twice = |brought: &SegmentSet| all().any(|i| brought.contains(*i));
        if open.brought.as_ref().is_some_and(twice) {
            // It was stored and is lost: the transfer brings nothing twice.
            transfer.give_up_object(id);
            open.brought = None;
        }
        if !open.is_open_in(transfer) {
            return; // The transfer has ended, which it reports next; or too many files are open, of which some are closed later.
        }
        for waiting in &open.waiting {
            for run in runs(&waiting.wanted.missing) {
                transfer.want(id, run, Urgency::Now);
            }
        }
    }

    fn segment(&mut self, id: ObjectId, segment: &Verified<Segment<Bytes>>) {
        let Some(open) = self.files.get_mut(&id) else { return };
        let i = segment.index.0;
        if let Some(brought) = &mut open.brought {
            brought.insert(i);
        }
        let (content, at) = (&segment.content, segment.offset);
        let until = Instant::now() + self.timeout;
        let is_whole = |waiting: &mut WaitingRead| {
            let MissingRead { missing, piece, .. } = &mut waiting.wanted;
            if let Ok(place) = missing.binary_search(&i) {
                missing.remove(place);
                piece.part(&(at..at + content.len() as u64)).copy_from_slice(content);
                waiting.until = until;
            }
            missing.is_empty()
        };
        // Complete reads before storing, so that they need not wait for the disk.
        open.waiting.extract_if(.., is_whole).for_each(|waiting| waiting.wanted.finish());
        let put = open.cached.put(segment);
        self.dirty.insert(id);
        self.note_store_error(put);
    }

    fn close(&mut self, id: ObjectId, transfer: Option<&mut Transfer>) {
        let Some(open) = self.files.get_mut(&id) else { return };
        open.readers = open.readers.saturating_sub(1);
        if open.readers > 0 {
            return;
        }
        self.lingering.push_back(id);
        if self.lingering.len() <= MAX_LINGERING {
            return;
        }
        let Some(old) = self.lingering.pop_front() else { return };
        if self.files.get(&old).is_some_and(|open| open.readers == 0 && open.waiting.is_empty()) {
            self.files.remove(&old);
            if let Some(transfer) = transfer {
                transfer.give_up_object(old);
            }
        }
    }

    /// Fails reads that have waited too long.
    fn fail_overdue_reads(&mut self, transfer: &mut Transfer) {
        let now = Instant::now();
        let late = |open: &OpenReaderFile| open.waiting.iter().any(|waiting| now >= waiting.until);
        let ids: Vec<ObjectId> =
            self.files.iter().filter(|(_, open)| late(open)).map(|(id, _)| *id).collect();
        let why = format!("no peer has sent it in {} s", self.timeout.as_secs_f64());
        for id in ids {
            let Some(open) = self.files.get_mut(&id) else { continue };
            let late = open.waiting.extract_if(.., |waiting| now >= waiting.until).collect();
            self.warnings.extend(open.fail(late, &why));
            transfer.drop_unasked(id);
            self.want(id, transfer);
        }
    }

    fn fail_all(&mut self, why: &str) {
        for open in self.files.values_mut() {
            let waiting = std::mem::take(&mut open.waiting);
            self.warnings.extend(open.fail(waiting, why));
        }
    }

    /// Forgets the state of a transfer that has ended.
    fn forget_transfer(&mut self) {
        self.files.values_mut().for_each(|open| open.brought = None);
    }

    /// A full disk ends storing, not reading.
    fn note_store_error(&mut self, kept: Result<(), StoreError>) {
        if let Err(why) = kept
            && !std::mem::replace(&mut self.storing_ended, true)
        {
            let what =
                format!("{why}; from now on read data is not stored, and is fetched each time");
            self.warnings.push(what);
        }
    }
}
