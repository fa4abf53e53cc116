//! The threads of a [`DiskCache`](super::DiskCache), and what it hands over to them. A disk that hangs blocks these
//! threads and nothing else.
//!
//! One thread creates, writes and deletes files. What it has to write is bounded in packets and bytes; more is not
//! cached. Up to eight threads read, at most four for one face, and the faces take turns. A read is cancelled when no
//! Interest waits for it, so that their number limits the reads that wait.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use xylem_base::Wake;
use xylem_store::{FileRef, Medium};

use super::{HEADER, IndexedLog, PacketLog, PacketPlace, append_record};

/// Most threads that read.
const THREADS: usize = 8;
/// Most reads for one face at the same time.
const MOST_FOR_ONE: usize = 4;
/// Most reads that wait, for a forwarder that keeps more Interests than ours.
const MOST_READS: usize = 4_096;
/// Most packets, and bytes of them, that wait to be written.
const MOST_WRITES: usize = 4_096;
const MOST_WRITE_BYTES: usize = 8 << 20;
/// Bytes written at once.
const AT_ONCE: usize = 256 << 10;

/// A packet that is to be written.
pub(super) struct CacheWrite {
    pub(super) log: Arc<PacketLog>,
    pub(super) at: u64,
    pub(super) name: Box<[u8]>,
    pub(super) packet: Arc<[u8]>,
}

/// Packets that are written at once, side by side.
struct WriteBatch {
    log: Arc<PacketLog>,
    at: u64,
    packets: Vec<Arc<[u8]>>,
}

/// A packet that is to be read.
pub(super) struct WantedPacket<'a> {
    pub(super) asker: u64,
    pub(super) log: &'a Arc<PacketLog>,
    pub(super) place: PacketPlace,
    pub(super) name: &'a [u8],
}

/// A read for which Interests wait.
pub(super) struct CacheRead {
    pub(super) number: u64,
    pub(super) name: Box<[u8]>,
    pub(super) generation: u64,
    pub(super) place: PacketPlace,
    asker: u64,
    /// The number of these Interests.
    waiting: usize,
}

/// A read that no thread has begun. It does not keep the file open, because the loop may drop it.
struct QueuedRead {
    number: u64,
    log: Weak<PacketLog>,
    place: PacketPlace,
}

#[derive(Default)]
struct AskerReads {
    queued: VecDeque<QueuedRead>,
    /// The number of its reads that threads do.
    reading: usize,
}

#[derive(Default)]
pub(super) struct CacheState {
    /// In the order of their places. The thread removes a packet once it is written.
    writes: VecDeque<CacheWrite>,
    write_bytes: usize,
    /// What could not be written.
    pub(super) lost: Vec<CacheWrite>,
    /// Files that are used no more; and whether they are to be deleted.
    discarded: VecDeque<(IndexedLog, bool)>,
    has_writer: bool,
    /// All reads that were begun or wait, and have not been returned.
    reads: BTreeMap<u64, CacheRead>,
    /// Their numbers by asker, generation and position.
    by_place: BTreeMap<(u64, u64, u64), u64>,
    last_number: u64,
    askers: BTreeMap<u64, AskerReads>,
    /// Askers with queued reads, the next one first.
    turn: VecDeque<u64>,
    queued: usize,
    ended: VecDeque<(u64, Option<Vec<u8>>)>,
    readers: usize,
    idle: usize,
    is_over: bool,
    pub(super) wake: Option<Wake>,
}

/// What the loop and the threads share.
pub(super) struct CacheShared {
    medium: Arc<dyn Medium>,
    state: Mutex<CacheState>,
    reader_work: Condvar,
    writer_work: Condvar,
}

impl CacheShared {
    pub(super) fn new(medium: Arc<dyn Medium>) -> Arc<Self> {
        let (reader_work, writer_work) = (Condvar::new(), Condvar::new());
        Arc::new(Self { medium, state: Mutex::default(), reader_work, writer_work })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, CacheState> {
        // A poisoned lock is safe to use: nothing panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is a thread that writes, which the first call starts.
    pub(super) fn has_writer(self: &Arc<Self>, state: &mut CacheState) -> bool {
        if !state.has_writer {
            let own = self.clone();
            let named = thread::Builder::new().name("xylem-cache".into());
            state.has_writer = named.spawn(move || own.write_queued()).is_ok();
        }
        state.has_writer
    }

    pub(super) fn wake_writer(&self) {
        self.writer_work.notify_one();
    }

    /// Queues a read. Returns its number; `None`: there are too many, or no thread to read.
    pub(super) fn read(self: &Arc<Self>, wanted: WantedPacket<'_>) -> Option<u64> {
        let WantedPacket { asker, log, place, name } = wanted;
        let generation = log.generation;
        let mut state = self.state();
        let key = (asker, generation, place.at);
        if let Some(number) = state.by_place.get(&key).copied()
            && let Some(read) = state.reads.get_mut(&number)
        {
            read.waiting += 1;
            return Some(number);
        }
        if state.reads.len() >= MOST_READS {
            return None;
        }
        if state.queued >= state.idle && state.readers < THREADS {
            let own = self.clone();
            let named = thread::Builder::new().name("xylem-cache-read".into());
            state.readers += usize::from(named.spawn(move || own.read_queued()).is_ok());
        }
        if state.readers == 0 {
            return None;
        }
        state.last_number += 1;
        let number = state.last_number;
        state.by_place.insert(key, number);
        let name = name.into();
        let read = CacheRead { number, name, generation, place, asker, waiting: 1 };
        state.reads.insert(number, read);
        state.queue_read(asker, QueuedRead { number, log: Arc::downgrade(log), place });
        drop(state);
        self.reader_work.notify_one();
        Some(number)
    }

    /// Counts one Interest less that waits for this read.
    pub(super) fn cancel(&self, number: u64) {
        let mut state = self.state();
        let Some(read) = state.reads.get_mut(&number) else { return };
        read.waiting -= 1;
        if read.waiting > 0 {
            return;
        }
        if let Some(read) = state.remove(number) {
            state.unqueue(read.asker, number);
        }
    }

    /// Returns the next read that has ended, and its packet unless it failed.
    pub(super) fn next_ended(&self) -> Option<(CacheRead, Option<Vec<u8>>)> {
        let mut state = self.state();
        while let Some((number, packet)) = state.ended.pop_front() {
            if let Some(read) = state.remove(number) {
                return Some((read, packet));
            }
        }
        None
    }

    /// Ends the threads, each after what it does now, and the one that writes after all that is queued.
    pub(super) fn end(&self, logs: impl Iterator<Item = IndexedLog>) {
        let mut state = self.state();
        state.is_over = true;
        state.reads.clear();
        let (askers, ended) = (std::mem::take(&mut state.askers), std::mem::take(&mut state.ended));
        let wake = state.wake.take();
        if state.has_writer {
            state.discarded.extend(logs.map(|log| (log, false)));
        }
        drop(state);
        self.reader_work.notify_all();
        self.writer_work.notify_all();
        drop((askers, ended, wake));
    }

    /// Runs the thread that writes.
    fn write_queued(&self) {
        let mut state = self.state();
        loop {
            if let Some(path) = state.next_discarded() {
                drop(state);
                // A file that can't be deleted is deleted at the next start.
                path.into_iter().for_each(|path| drop(self.medium.remove_file(&path)));
                state = self.state();
                let closed = state.discarded.pop_front();
                drop(state);
                drop(closed);
                state = self.state();
                continue;
            }
            let batch = match state.next_writes() {
                Some(batch) => batch,
                None if state.is_over => return,
                None => {
                    state = self.writer_work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            };
            drop(state);
            let written = self.write_records(&batch);
            state = self.state();
            let done = state.settle(&batch, written.is_ok());
            drop(state);
            drop((batch, done));
            state = self.state();
        }
    }

    fn write_records(&self, batch: &WriteBatch) -> io::Result<()> {
        let WriteBatch { log, at, packets } = batch;
        let mut records = Vec::with_capacity(packets.iter().map(|p| HEADER + p.len()).sum());
        packets.iter().for_each(|packet| append_record(&mut records, packet));
        let file = FileRef::new(log.opened(&*self.medium)?.clone(), log.path.as_path());
        file.write_all(&records, *at).map_err(io::Error::other)
    }

    /// Runs one thread that reads.
    fn read_queued(&self) {
        let mut state = self.state();
        while !state.is_over {
            let Some((asker, read)) = state.next_read() else {
                state.idle += 1;
                state = self.reader_work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let packet = read.log.upgrade().and_then(|log| log.read(read.place));
            state = self.state();
            state.end_reading(asker);
            // No Interest waits for a cancelled read.
            if state.reads.contains_key(&read.number) {
                state.ended.push_back((read.number, packet));
                let wake = state.wake.clone();
                drop(state);
                wake.iter().for_each(|wake| wake());
                state = self.state();
            }
        }
    }
}

impl CacheState {
    /// Queues a packet to be written. Returns false if too much is queued.
    pub(super) fn queue_write(&mut self, write: CacheWrite) -> bool {
        let bytes = self.write_bytes + write.packet.len();
        if self.writes.len() >= MOST_WRITES || bytes > MOST_WRITE_BYTES {
            return false;
        }
        self.write_bytes = bytes;
        self.writes.push_back(write);
        true
    }

    /// Has the thread that writes delete a file.
    pub(super) fn discard(&mut self, log: IndexedLog) {
        self.discarded.push_back((log, true));
    }

    /// Returns a packet that is still to be written.
    pub(super) fn unwritten(&self, generation: u64, place: PacketPlace) -> Option<Arc<[u8]>> {
        let key = |write: &CacheWrite| (write.log.generation, write.at);
        let found = self.writes.binary_search_by_key(&(generation, place.at), key).ok()?;
        self.writes.get(found).map(|write| write.packet.clone())
    }

    /// Returns whether the disk has everything to do done.
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        self.writes.is_empty() && self.discarded.is_empty()
    }

    /// Returns the number of an asker's reads that threads do.
    #[cfg(test)]
    pub(super) fn reading_of(&self, asker: u64) -> usize {
        self.askers.get(&asker).map_or(0, |own| own.reading)
    }

    /// Returns the path to delete, if that is requested, of the next file that is used no more.
    fn next_discarded(&self) -> Option<Option<PathBuf>> {
        let (log, is_deleted) = self.discarded.front()?;
        Some(is_deleted.then(|| log.log.path.clone()))
    }

    /// Returns packets that are to be written side by side, and their file and position. They stay in the queue.
    fn next_writes(&self) -> Option<WriteBatch> {
        let first = self.writes.front()?;
        let (mut bytes, mut packets) = (0, Vec::new());
        for write in &self.writes {
            if !Arc::ptr_eq(&write.log, &first.log) || bytes > AT_ONCE {
                break;
            }
            bytes += HEADER + write.packet.len();
            packets.push(write.packet.clone());
        }
        Some(WriteBatch { log: first.log.clone(), at: first.at, packets })
    }

    /// Removes the packets that were written, and returns them. If they could not be written, all further ones of their
    /// file are lost, too, because no gap may remain.
    fn settle(&mut self, batch: &WriteBatch, is_written: bool) -> Vec<CacheWrite> {
        let is_of_file = |write: &&CacheWrite| Arc::ptr_eq(&write.log, &batch.log);
        let count = match is_written {
            true => batch.packets.len(),
            false => self.writes.iter().take_while(is_of_file).count(),
        };
        let done: Vec<CacheWrite> = self.writes.drain(..count).collect();
        let bytes: usize = done.iter().map(|write| write.packet.len()).sum();
        self.write_bytes -= bytes;
        if is_written {
            return done;
        }
        self.lost.extend(done);
        Vec::new()
    }

    fn queue_read(&mut self, asker: u64, read: QueuedRead) {
        let own = self.askers.entry(asker).or_default();
        if own.queued.is_empty() {
            self.turn.push_back(asker);
        }
        own.queued.push_back(read);
        self.queued += 1;
    }

    /// Forgets a read for which no Interest waits.
    fn remove(&mut self, number: u64) -> Option<CacheRead> {
        let read = self.reads.remove(&number)?;
        self.by_place.remove(&(read.asker, read.generation, read.place.at));
        Some(read)
    }

    /// Removes a read from the queue, if no thread has begun it.
    fn unqueue(&mut self, asker: u64, number: u64) {
        let Some(own) = self.askers.get_mut(&asker) else { return };
        let Some(at) = own.queued.iter().position(|read| read.number == number) else { return };
        own.queued.remove(at);
        self.queued -= 1;
        if own.queued.is_empty() {
            let is_reading = own.reading > 0;
            self.turn.retain(|other| *other != asker);
            if !is_reading {
                self.askers.remove(&asker);
            }
        }
    }

    /// Returns the next read, and its asker. `None` if none is allowed now.
    fn next_read(&mut self) -> Option<(u64, QueuedRead)> {
        for _ in 0..self.turn.len() {
            let asker = self.turn.pop_front()?;
            let Some(own) = self.askers.get_mut(&asker) else { continue };
            let may = own.reading < MOST_FOR_ONE;
            let read = if may { own.queued.pop_front() } else { None };
            own.reading += usize::from(read.is_some());
            // An asker with all its reads under way goes to the end of the queue.
            if !own.queued.is_empty() {
                self.turn.push_back(asker);
            }
            if let Some(read) = read {
                self.queued -= 1;
                return Some((asker, read));
            }
        }
        None
    }

    fn end_reading(&mut self, asker: u64) {
        let Some(own) = self.askers.get_mut(&asker) else { return };
        own.reading = own.reading.saturating_sub(1);
        if own.reading == 0 && own.queued.is_empty() {
            self.askers.remove(&asker);
        }
    }
}
