//! [`RepoStore`]: Data that was inserted by command, on disk until a command removes it.
//!
//! `packets.repo` consists of slots of 512 octets. Slot 0 holds the file's own key. A packet takes a run of slots:
//!
//! ```text
//! record := length of the packet, 4 octets | number of the write, 8 | keyed BLAKE3 of (slot, 8 | number, 8 | packet), 32 | packet
//! ```
//!
//! Numbers are little endian. A crash can leave two records of one name. The one with the greater number counts, and
//! opening the repository clears the other. The hash is keyed, and covers the slot, so that no bytes within a packet and no remains of a removed one count as a
//! record. Removing a packet overwrites its length and hash with zeros. Free runs are used again, the shortest that
//! suffices first, so that the file never grows beyond its quota. `commands.repo` is a ring of the digests of commands that
//! took effect. [`RepoStore::open`] reads all packets; a record that does not match is free space.
//!
//! The loop waits for no disk, as with [`DiskCache`](super::DiskCache): it reads what the system has in memory and packets
//! that are still to be written. One thread writes, in the order of the calls, another reads. What waits for them is
//! bounded. A change counts once [`RepoStore::flushed`] reports that it is on the disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use xylem_base::Wake;
use xylem_forward::{FaceId, SecondLevelAnswer, SecondLevelCache};
use xylem_packet::{Data, MAX_PACKET, NameRef};
use xylem_store::{FileRef, Medium, OpenHow, create_dirs};

use super::DiskCache;

/// Octets of a slot.
const SLOT: u64 = 512;
/// Octets before a packet.
const REPO_HEADER: usize = 44;
/// The beginning of slot 0, before the key.
const MAGIC: &[u8; 16] = b"xylem repo v1\n\0\0";
/// Most packets in the index.
const MOST_PACKETS: usize = 1 << 22;
/// Commands in the ring, and octets of each: a number of 8, a digest of 32, zeros.
const COMMANDS: u64 = 65_536;
const COMMAND_ENTRY: usize = 64;
/// Most changes, and bytes of them, that wait to be written.
const MOST_CHANGES: usize = 4_096;
const MOST_CHANGE_BYTES: usize = 8 << 20;
/// Most reads that wait.
const MOST_WAITING_READS: usize = 1_024;
/// Octets read at once when the file is opened.
const WINDOW: usize = 1 << 20;
/// The smallest quota, bytes.
pub const MIN_REPO_BYTES: u64 = 1 << 16;

/// Reasons for which a change is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepoStoreError {
    /// There is no run of free slots for it within the quota.
    Full,
    /// The disk is behind. Later there may be room.
    Busy,
    /// No thread can write.
    Failed,
}

/// What a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepoUsage {
    /// Packets.
    pub packets: u64,
    /// Bytes of the slots that they take.
    pub bytes: u64,
    /// The quota in bytes.
    pub capacity: u64,
}

/// Inserted packets on disk. Clones are the same repository.
#[derive(Clone)]
pub struct RepoStore {
    handle: Arc<RepoHandle>,
}

/// Ends the threads when the last clone is dropped.
struct RepoHandle {
    shared: Arc<RepoShared>,
}

struct RepoShared {
    packets: FileRef,
    commands: FileRef,
    key: [u8; 32],
    is_slow: bool,
    state: Mutex<RepoState>,
    writer_work: Condvar,
    reader_work: Condvar,
}

/// Where a packet lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SlotRun {
    slot: u64,
    len: u32,
    /// The number of the write: greater in newer records.
    number: u64,
}

#[derive(Default)]
struct RepoState {
    index: BTreeMap<Vec<u8>, SlotRun>,
    free: FreeRuns,
    used_slots: u64,
    slots: u64,
    /// The number of the latest write.
    number: u64,
    /// Digests of commands, and the numbers under which they stand in the ring.
    remembered: BTreeSet<[u8; 32]>,
    by_number: BTreeMap<u64, [u8; 32]>,
    changes: VecDeque<DiskChange>,
    change_bytes: usize,
    /// Records that are still to be written, by slot.
    unwritten: BTreeMap<u64, Arc<[u8]>>,
    /// The latest requested flush, the latest that has ended, and the latest that failed or had a failed write before it.
    flush: u64,
    flushed: u64,
    last_failed: u64,
    reads: BTreeMap<u64, RepoRead>,
    queued_reads: VecDeque<u64>,
    ended_reads: VecDeque<(u64, Option<Vec<u8>>)>,
    last_read: u64,
    has_writer: bool,
    has_reader: bool,
    is_over: bool,
    wake: Option<Wake>,
}

struct RepoRead {
    name: Vec<u8>,
    run: SlotRun,
    /// The number of Interests that wait for it.
    waiting: usize,
}

/// One change of the files, in the order of the calls. No command relies on clearing what the disk has lost.
enum DiskChange {
    Write { name: Vec<u8>, run: SlotRun, record: Arc<[u8]> },
    Clear { slot: u64, is_lost: bool },
    Remember { number: u64, digest: [u8; 32] },
    Flush { number: u64 },
}

/// Runs of free slots.
#[derive(Default)]
struct FreeRuns {
    by_start: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
}

impl FreeRuns {
    /// Adds a run, joined with its neighbours.
    fn release(&mut self, start: u64, len: u64) {
        let (mut start, mut len) = (start, len);
        if let Some((&before, &its_len)) = self.by_start.range(..start).next_back()
            && before.saturating_add(its_len) == start
        {
            self.remove(before, its_len);
            start = before;
            len = len.saturating_add(its_len);
        }
        let end = start.saturating_add(len);
        if let Some(&its_len) = self.by_start.get(&end) {
            self.remove(end, its_len);
            len = len.saturating_add(its_len);
        }
        self.by_start.insert(start, len);
        self.by_len.insert((len, start));
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.by_start.remove(&start);
        self.by_len.remove(&(len, start));
    }

    /// Takes `wanted` slots from the shortest run that has as many.
    fn take(&mut self, wanted: u64) -> Option<u64> {
        let &(len, start) = self.by_len.range((wanted, 0)..).next()?;
        self.remove(start, len);
        if len > wanted {
            self.release(start.saturating_add(wanted), len.saturating_sub(wanted));
        }
        Some(start)
    }
}

/// The number of slots of a packet of this length.
fn slots_of(len: usize) -> u64 {
    (REPO_HEADER.saturating_add(len) as u64).div_ceil(SLOT)
}

fn mac(key: &[u8; 32], slot: u64, number: u64, packet: &[u8]) -> [u8; 32] {
    let mut hasher = xylem_hash::Hasher::new_keyed(key);
    hasher.update(&slot.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(packet);
    *hasher.finalize().as_bytes()
}

/// The number and the packet of a record at this slot, if it is undamaged.
fn opened<'a>(key: &[u8; 32], slot: u64, record: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (header, packet) = record.split_first_chunk::<REPO_HEADER>()?;
    let (len, rest) = header.split_first_chunk::<4>()?;
    let (number, hash) = rest.split_first_chunk::<8>()?;
    let number = u64::from_le_bytes(*number);
    let is_whole = u32::from_le_bytes(*len) as usize == packet.len();
    (is_whole && mac(key, slot, number, packet) == *hash).then_some((number, packet))
}

/// The packet of the record of this run, if it is undamaged.
fn packet_in<'a>(key: &[u8; 32], run: SlotRun, record: &'a [u8]) -> Option<&'a [u8]> {
    let (number, packet) = opened(key, run.slot, record)?;
    (number == run.number).then_some(packet)
}

impl RepoStore {
    /// Opens the repository in `directory`, creates that if needed, and reads all packets; this waits for the disk. The
    /// packets take at most `capacity` bytes. `random` becomes the key of a new repository.
    ///
    /// # Errors
    /// The medium's; `InvalidData` if the file is something else, `WouldBlock` if another process uses it.
    pub fn open(
        medium: &dyn Medium,
        directory: &Path,
        capacity: u64,
        random: [u8; 32],
    ) -> io::Result<RepoStore> {
        create_dirs(medium, directory).map_err(io::Error::other)?;
        let open = |name: &str| -> io::Result<FileRef> {
            let path = directory.join(name);
            let file = medium.open(&path, OpenHow::Create { mode: 0o600 })?;
            Ok(FileRef::new(file, path))
        };
        let (packets, commands) = (open("packets.repo")?, open("commands.repo")?);
        if let Err(why) = packets.lock() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why.to_string()));
        }
        let size = packets.metadata().map_err(io::Error::other)?.size;
        let key = if size < SLOT { new_file(&packets, random)? } else { key_of(&packets)? };
        let mut state = RepoState { slots: capacity / SLOT, ..RepoState::default() };
        state.read_packets(&packets, &key, size)?;
        state.read_commands(&commands)?;
        let shared = RepoShared {
            packets,
            commands,
            key,
            is_slow: medium.is_slow(directory),
            state: Mutex::new(state),
            writer_work: Condvar::new(),
            reader_work: Condvar::new(),
        };
        Ok(RepoStore { handle: Arc::new(RepoHandle { shared: Arc::new(shared) }) })
    }

    fn state(&self) -> MutexGuard<'_, RepoState> {
        self.handle.shared.state()
    }

    /// Sets the function to call when reads or flushes have ended. Threads call it.
    pub fn wake_by(&self, wake: Wake) {
        self.state().wake = Some(wake);
    }

    /// What the repository holds.
    pub fn usage(&self) -> RepoUsage {
        let state = self.state();
        RepoUsage {
            packets: state.index.len() as u64,
            bytes: state.used_slots.saturating_mul(SLOT),
            capacity: state.slots.saturating_mul(SLOT),
        }
    }

    /// Whether there is a packet of this name.
    pub fn contains(&self, name: NameRef<'_>) -> bool {
        self.state().index.contains_key(name.value())
    }

    /// Stores a packet, in place of one of this name.
    ///
    /// # Errors
    /// See [`RepoStoreError`]; nothing has changed then.
    pub fn store(&self, name: NameRef<'_>, packet: &[u8]) -> Result<(), RepoStoreError> {
        if packet.len() > MAX_PACKET {
            return Err(RepoStoreError::Full);
        }
        let shared = &self.handle.shared;
        let mut state = self.state();
        shared.start_writer(&mut state)?;
        let record_len = REPO_HEADER + packet.len();
        state.has_room(record_len)?;
        let before = state.index.get(name.value()).copied();
        if before.is_none() && state.index.len() >= MOST_PACKETS {
            return Err(RepoStoreError::Full);
        }
        let wanted = slots_of(packet.len());
        let slot = state.free.take(wanted).ok_or(RepoStoreError::Full)?;
        state.number = state.number.saturating_add(1);
        let run = SlotRun { slot, len: packet.len() as u32, number: state.number };
        let mut record = Vec::with_capacity(record_len);
        record.extend_from_slice(&run.len.to_le_bytes());
        record.extend_from_slice(&run.number.to_le_bytes());
        record.extend_from_slice(&mac(&shared.key, slot, run.number, packet));
        record.extend_from_slice(packet);
        let record: Arc<[u8]> = record.into();
        state.unwritten.insert(slot, record.clone());
        state.used_slots = state.used_slots.saturating_add(wanted);
        state.index.insert(name.value().to_vec(), run);
        state.queue(DiskChange::Write { name: name.value().to_vec(), run, record });
        if let Some(before) = before {
            state.clear(before);
        }
        drop(state);
        shared.writer_work.notify_one();
        Ok(())
    }

    /// Removes the packet of this name. Returns whether there was one.
    ///
    /// # Errors
    /// `Busy` or `Failed`; nothing has changed then.
    pub fn remove(&self, name: NameRef<'_>) -> Result<bool, RepoStoreError> {
        let shared = &self.handle.shared;
        let mut state = self.state();
        let Some(run) = state.index.get(name.value()).copied() else { return Ok(false) };
        shared.start_writer(&mut state)?;
        state.has_room(REPO_HEADER)?;
        state.index.remove(name.value());
        state.clear(run);
        drop(state);
        shared.writer_work.notify_one();
        Ok(true)
    }

    /// Whether a command of this digest took effect before: one of the last 65,536.
    pub fn remembers(&self, digest: &[u8; 32]) -> bool {
        self.state().remembered.contains(digest)
    }

    /// Remembers a command. It is written before all later changes.
    ///
    /// # Errors
    /// `Busy` or `Failed`; nothing has changed then.
    pub fn remember(&self, digest: [u8; 32]) -> Result<(), RepoStoreError> {
        let shared = &self.handle.shared;
        let mut state = self.state();
        shared.start_writer(&mut state)?;
        state.has_room(COMMAND_ENTRY)?;
        let last = state.by_number.last_key_value().map_or(0, |(number, _)| *number);
        let number = last.saturating_add(1);
        state.by_number.insert(number, digest);
        state.remembered.insert(digest);
        state.forget_old_commands();
        state.queue(DiskChange::Remember { number, digest });
        drop(state);
        shared.writer_work.notify_one();
        Ok(())
    }

    /// Asks that all changes so far be made durable. Returns the flush's number for [`RepoStore::flushed`].
    pub fn flush(&self) -> u64 {
        let mut state = self.state();
        state.flush = state.flush.saturating_add(1);
        let number = state.flush;
        if self.handle.shared.start_writer(&mut state).is_err() {
            state.last_failed = number;
        }
        state.queue(DiskChange::Flush { number });
        drop(state);
        self.handle.shared.writer_work.notify_one();
        number
    }

    /// The number of the latest flush that was asked for.
    pub fn latest_flush(&self) -> u64 {
        self.state().flush
    }

    /// Whether the changes between the flush `since` and this one are on the disk; `None` if that is not known yet.
    pub fn flushed(&self, since: u64, number: u64) -> Option<bool> {
        let state = self.state();
        if state.last_failed > since {
            return Some(false);
        }
        (state.flushed >= number).then_some(true)
    }
}

/// Writes slot 0 of a new repository.
fn new_file(packets: &FileRef, key: [u8; 32]) -> io::Result<[u8; 32]> {
    let mut slot = [0; SLOT as usize];
    slot[..16].copy_from_slice(MAGIC);
    slot[16..48].copy_from_slice(&key);
    packets.write_all(&slot, 0).map_err(io::Error::other)?;
    packets.sync().map_err(io::Error::other)?;
    Ok(key)
}

/// The key of a repository.
fn key_of(packets: &FileRef) -> io::Result<[u8; 32]> {
    let mut head = [0; 48];
    let len = packets.read_full(&mut head, 0).map_err(io::Error::other)?;
    let (magic, key) = head.split_first_chunk::<16>().ok_or(io::ErrorKind::InvalidData)?;
    if len < head.len() || magic != MAGIC {
        let what = format!("{} is no repository of this version", packets.path().display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    key.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A part of a file in memory, for reads that mostly go forward.
struct FileWindow<'a> {
    file: &'a FileRef,
    at: u64,
    bytes: Vec<u8>,
}

impl FileWindow<'_> {
    /// Up to `len` octets at `at`; fewer at the file's end.
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let within = |window: &Self| usize::try_from(at.checked_sub(window.at)?).ok();
        let has = |window: &Self| {
            within(window).is_some_and(|from| from.saturating_add(len) <= window.bytes.len())
        };
        if !has(self) {
            self.bytes.resize(WINDOW, 0);
            let read = self.file.read_full(&mut self.bytes, at).map_err(io::Error::other)?;
            self.bytes.truncate(read);
            self.at = at;
        }
        let from = within(self).unwrap_or(0).min(self.bytes.len());
        let to = from.saturating_add(len).min(self.bytes.len());
        Ok(&self.bytes[from..to])
    }
}

impl RepoState {
    /// Indexes the packets of the file, and the free runs between and behind them.
    fn read_packets(&mut self, file: &FileRef, key: &[u8; 32], size: u64) -> io::Result<()> {
        let mut window = FileWindow { file, at: 0, bytes: Vec::new() };
        let (mut slot, mut free_from) = (1, 1);
        let mut outdated = Vec::new();
        while slot < size.div_ceil(SLOT) {
            let at = slot.saturating_mul(SLOT);
            let header = window.get(at, 4)?;
            let len = header.first_chunk::<4>().map_or(0, |len| u32::from_le_bytes(*len));
            let found = match len as usize {
                len @ 1..=MAX_PACKET => {
                    let record = window.get(at, REPO_HEADER + len)?;
                    opened(key, slot, record).and_then(|(number, packet)| {
                        Some((number, Data::decode(packet).ok()?.name().value().to_vec()))
                    })
                }
                _ => None,
            };
            let Some((number, name)) = found else {
                slot = slot.saturating_add(1);
                continue;
            };
            self.number = self.number.max(number);
            let run = SlotRun { slot, len, number };
            let taken = slots_of(len as usize);
            slot = slot.saturating_add(taken);
            let before = self.index.get(&name).copied();
            // A crash came before the packet that was replaced was cleared.
            if before.is_some_and(|before| before.number > number) {
                outdated.push(run.slot);
                continue;
            }
            if free_from < run.slot {
                self.free.release(free_from, run.slot.saturating_sub(free_from));
            }
            free_from = slot;
            if let Some(before) = before {
                let freed = slots_of(before.len as usize);
                outdated.push(before.slot);
                self.free.release(before.slot, freed);
                self.used_slots = self.used_slots.saturating_sub(freed);
            } else if self.index.len() >= MOST_PACKETS {
                // Without a place in the index it stays as it is.
                continue;
            }
            self.index.insert(name, run);
            self.used_slots = self.used_slots.saturating_add(taken);
        }
        if free_from < self.slots {
            self.free.release(free_from, self.slots.saturating_sub(free_from));
        }
        self.keep_within_quota();
        // They must not come back once the newer packet has been removed.
        for slot in &outdated {
            let at = slot.saturating_mul(SLOT);
            file.write_all(&[0; REPO_HEADER], at).map_err(io::Error::other)?;
        }
        if !outdated.is_empty() {
            file.sync().map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Drops free runs behind the quota, which may have become smaller.
    fn keep_within_quota(&mut self) {
        let beyond: Vec<_> =
            self.free.by_start.range(self.slots..).map(|(s, l)| (*s, *l)).collect();
        beyond.into_iter().for_each(|(start, len)| self.free.remove(start, len));
        let last = self.free.by_start.last_key_value().map(|(start, len)| (*start, *len));
        if let Some((start, len)) = last
            && start.saturating_add(len) > self.slots
        {
            self.free.remove(start, len);
            self.free.release(start, self.slots.saturating_sub(start));
        }
    }

    fn read_commands(&mut self, file: &FileRef) -> io::Result<()> {
        let mut window = FileWindow { file, at: 0, bytes: Vec::new() };
        for entry in 0..COMMANDS {
            let bytes = window.get(entry.saturating_mul(COMMAND_ENTRY as u64), COMMAND_ENTRY)?;
            let Some((number, rest)) = bytes.split_first_chunk::<8>() else { break };
            let Some(digest) = rest.first_chunk::<32>() else { break };
            let number = u64::from_le_bytes(*number);
            // Damage could leave a number after which there is none.
            if number > 0 && number < u64::MAX / 2 && number % COMMANDS == entry {
                self.by_number.insert(number, *digest);
                self.remembered.insert(*digest);
            }
        }
        Ok(())
    }

    fn forget_old_commands(&mut self) {
        while self.by_number.len() as u64 > COMMANDS {
            let Some((_, digest)) = self.by_number.pop_first() else { return };
            self.remembered.remove(&digest);
        }
    }

    fn has_room(&self, bytes: usize) -> Result<(), RepoStoreError> {
        let fits = self.change_bytes.saturating_add(bytes) <= MOST_CHANGE_BYTES;
        // One packet in place of another is two changes; a flush is never refused.
        let few = self.changes.len().saturating_add(2) <= MOST_CHANGES;
        if fits && few { Ok(()) } else { Err(RepoStoreError::Busy) }
    }

    fn queue(&mut self, change: DiskChange) {
        self.change_bytes = self.change_bytes.saturating_add(change.len());
        self.changes.push_back(change);
    }

    /// Frees the slots of a packet. They may be used again at once, because changes are written in order.
    fn clear(&mut self, run: SlotRun) {
        self.release(run);
        self.queue(DiskChange::Clear { slot: run.slot, is_lost: false });
    }

    /// As [`Self::clear`], for a packet that the disk has lost.
    fn clear_lost(&mut self, run: SlotRun) {
        self.release(run);
        self.queue(DiskChange::Clear { slot: run.slot, is_lost: true });
    }

    fn release(&mut self, run: SlotRun) {
        let taken = slots_of(run.len as usize);
        self.used_slots = self.used_slots.saturating_sub(taken);
        self.unwritten.remove(&run.slot);
        // Slots beyond a quota that was lowered are not used again.
        let len = self.slots.saturating_sub(run.slot).min(taken);
        if len > 0 {
            self.free.release(run.slot, len);
        }
    }

    /// Returns the packet of this name or, with `can_be_prefix`, one with a name that begins with it.
    fn find(&self, name: &[u8], can_be_prefix: bool) -> Option<(Vec<u8>, SlotRun)> {
        if !can_be_prefix {
            return self.index.get(name).map(|run| (name.to_vec(), *run));
        }
        let from = (Bound::Included(name), Bound::Unbounded);
        let (found, run) = self.index.range::<[u8], _>(from).next()?;
        found.starts_with(name).then(|| (found.clone(), *run))
    }

    /// Forgets a packet that the disk has lost.
    fn lose(&mut self, name: &[u8], run: SlotRun) {
        if self.index.get(name) == Some(&run) {
            self.index.remove(name);
            self.clear_lost(run);
        }
    }
}

impl DiskChange {
    fn len(&self) -> usize {
        match self {
            DiskChange::Write { record, .. } => record.len(),
            DiskChange::Clear { .. } => REPO_HEADER,
            DiskChange::Remember { .. } => COMMAND_ENTRY,
            DiskChange::Flush { .. } => 0,
        }
    }
}

impl RepoShared {
    fn state(&self) -> MutexGuard<'_, RepoState> {
        // A poisoned lock is safe to use: nothing panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_writer(self: &Arc<Self>, state: &mut RepoState) -> Result<(), RepoStoreError> {
        if !state.has_writer {
            let own = self.clone();
            let named = thread::Builder::new().name("xylem-repo".into());
            state.has_writer = named.spawn(move || own.write_changes()).is_ok();
        }
        if state.has_writer { Ok(()) } else { Err(RepoStoreError::Failed) }
    }

    /// Runs the thread that writes.
    fn write_changes(&self) {
        let mut state = self.state();
        loop {
            let Some(change) = state.changes.pop_front() else {
                if state.is_over {
                    return;
                }
                state = self.writer_work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let written = self.write(&change);
            state = self.state();
            state.change_bytes = state.change_bytes.saturating_sub(change.len());
            if !written && !matches!(change, DiskChange::Clear { is_lost: true, .. }) {
                // The flush that follows it.
                state.last_failed = state.flushed.saturating_add(1);
            }
            match change {
                DiskChange::Write { name, run, record } => {
                    let is_same = |queued: &Arc<[u8]>| Arc::ptr_eq(queued, &record);
                    if state.unwritten.get(&run.slot).is_some_and(is_same) {
                        state.unwritten.remove(&run.slot);
                    }
                    if !written {
                        state.lose(&name, run);
                    }
                }
                DiskChange::Flush { number } => {
                    state.flushed = number;
                    let wake = state.wake.clone();
                    drop(state);
                    wake.iter().for_each(|wake| wake());
                    state = self.state();
                }
                DiskChange::Clear { .. } | DiskChange::Remember { .. } => {}
            }
        }
    }

    fn write(&self, change: &DiskChange) -> bool {
        let done = match change {
            DiskChange::Write { run, record, .. } => {
                self.packets.write_all(record, run.slot.saturating_mul(SLOT))
            }
            DiskChange::Clear { slot, .. } => {
                self.packets.write_all(&[0; REPO_HEADER], slot.saturating_mul(SLOT))
            }
            DiskChange::Remember { number, digest } => {
                let mut entry = [0; COMMAND_ENTRY];
                entry[..8].copy_from_slice(&number.to_le_bytes());
                entry[8..40].copy_from_slice(digest);
                let at = (number % COMMANDS).saturating_mul(COMMAND_ENTRY as u64);
                self.commands.write_all(&entry, at)
            }
            DiskChange::Flush { .. } => self.commands.sync().and_then(|()| self.packets.sync()),
        };
        done.is_ok()
    }

    /// Queues a read. Returns its number; `None`: there are too many, or no thread to read.
    fn read(self: &Arc<Self>, state: &mut RepoState, name: Vec<u8>, run: SlotRun) -> Option<u64> {
        if let Some((number, read)) = state.reads.iter_mut().find(|(_, read)| read.run == run) {
            read.waiting = read.waiting.saturating_add(1);
            return Some(*number);
        }
        if state.reads.len() >= MOST_WAITING_READS {
            return None;
        }
        if !state.has_reader {
            let own = self.clone();
            let named = thread::Builder::new().name("xylem-repo-read".into());
            state.has_reader = named.spawn(move || own.read_queued()).is_ok();
        }
        if !state.has_reader {
            return None;
        }
        state.last_read = state.last_read.wrapping_add(1);
        let number = state.last_read;
        state.reads.insert(number, RepoRead { name, run, waiting: 1 });
        state.queued_reads.push_back(number);
        self.reader_work.notify_one();
        Some(number)
    }

    /// Runs the thread that reads.
    fn read_queued(&self) {
        let mut state = self.state();
        while !state.is_over {
            let Some(number) = state.queued_reads.pop_front() else {
                state = self.reader_work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let Some(run) = state.reads.get(&number).map(|read| read.run) else { continue };
            drop(state);
            let mut record = vec![0; REPO_HEADER + run.len as usize];
            let read = self.packets.read_full(&mut record, run.slot.saturating_mul(SLOT));
            let is_whole = read.is_ok_and(|len| len == record.len());
            let packet = is_whole.then(|| packet_in(&self.key, run, &record)).flatten();
            let packet = packet.map(<[u8]>::to_vec);
            state = self.state();
            if !state.reads.contains_key(&number) {
                continue;
            }
            state.ended_reads.push_back((number, packet));
            let wake = state.wake.clone();
            drop(state);
            wake.iter().for_each(|wake| wake());
            state = self.state();
        }
    }
}

impl Drop for RepoHandle {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_over = true;
        let wake = state.wake.take();
        drop(state);
        drop(wake);
        self.shared.writer_work.notify_all();
        self.shared.reader_work.notify_all();
    }
}

impl SecondLevelCache for RepoStore {
    /// A repository stores what commands insert, and nothing else.
    fn put(&mut self, _name: NameRef<'_>, _packet: &[u8]) {}

    fn get(
        &mut self,
        _asker: FaceId,
        name: NameRef<'_>,
        can_be_prefix: bool,
        packet: &mut Vec<u8>,
    ) -> SecondLevelAnswer {
        let shared = &self.handle.shared;
        let mut state = shared.state();
        let Some((name, run)) = state.find(name.value(), can_be_prefix) else {
            return SecondLevelAnswer::Absent;
        };
        if let Some(record) = state.unwritten.get(&run.slot) {
            packet.extend_from_slice(record.get(REPO_HEADER..).unwrap_or_default());
            return SecondLevelAnswer::Found;
        }
        if !shared.is_slow {
            let mut record = vec![0; REPO_HEADER + run.len as usize];
            let at = run.slot.saturating_mul(SLOT);
            let read = shared.packets.read_full_no_wait(&mut record, at);
            let is_whole = read.is_ok_and(|len| len == record.len());
            if is_whole && let Some(found) = packet_in(&shared.key, run, &record) {
                packet.extend_from_slice(found);
                return SecondLevelAnswer::Found;
            }
        }
        // Not in memory, or damaged: a thread reads it.
        match shared.read(&mut state, name, run) {
            Some(number) => SecondLevelAnswer::Reading(number),
            None => SecondLevelAnswer::Absent,
        }
    }

    fn next_read(&mut self, packet: &mut Vec<u8>) -> Option<u64> {
        let shared = &self.handle.shared;
        let mut state = shared.state();
        while let Some((number, found)) = state.ended_reads.pop_front() {
            let Some(read) = state.reads.remove(&number) else { continue };
            match found {
                Some(found) if state.index.get(&read.name) == Some(&read.run) => {
                    packet.extend_from_slice(&found);
                }
                // It was removed meanwhile.
                Some(_) => {}
                // The disk has lost it. If too much waits to be written, the next read clears it.
                None => {
                    let can_write = shared.start_writer(&mut state);
                    if can_write.and_then(|()| state.has_room(REPO_HEADER)).is_ok() {
                        state.lose(&read.name, read.run);
                        shared.writer_work.notify_one();
                    }
                }
            }
            return Some(number);
        }
        None
    }

    fn cancel(&mut self, read: u64) {
        let mut state = self.handle.shared.state();
        let Some(waits) = state.reads.get_mut(&read) else { return };
        waits.waiting = waits.waiting.saturating_sub(1);
        if waits.waiting == 0 {
            state.reads.remove(&read);
            state.queued_reads.retain(|queued| *queued != read);
        }
    }

    /// Only commands of the repository remove its packets.
    fn erase(&mut self, _prefix: NameRef<'_>, _limit: u64) -> u64 {
        0
    }
}

/// A repository before a cache: the second level of a node that has both. Reads of the repository have even numbers.
pub struct RepoAndCache {
    /// Inserted packets.
    pub repo: RepoStore,
    /// Packets that memory has no room for.
    pub cache: DiskCache,
}

impl SecondLevelCache for RepoAndCache {
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]) {
        if !self.repo.contains(name) {
            self.cache.put(name, packet);
        }
    }

    fn get(
        &mut self,
        asker: FaceId,
        name: NameRef<'_>,
        can_be_prefix: bool,
        packet: &mut Vec<u8>,
    ) -> SecondLevelAnswer {
        match self.repo.get(asker, name, can_be_prefix, packet) {
            SecondLevelAnswer::Found => SecondLevelAnswer::Found,
            SecondLevelAnswer::Reading(number) => {
                SecondLevelAnswer::Reading(number.wrapping_mul(2))
            }
            SecondLevelAnswer::Absent => match self.cache.get(asker, name, can_be_prefix, packet) {
                SecondLevelAnswer::Reading(number) => {
                    SecondLevelAnswer::Reading(number.wrapping_mul(2).wrapping_add(1))
                }
                other => other,
            },
        }
    }

    fn next_read(&mut self, packet: &mut Vec<u8>) -> Option<u64> {
        let ours = self.repo.next_read(packet).map(|number| number.wrapping_mul(2));
        ours.or_else(|| Some(self.cache.next_read(packet)?.wrapping_mul(2).wrapping_add(1)))
    }

    fn cancel(&mut self, read: u64) {
        match read % 2 {
            0 => self.repo.cancel(read / 2),
            _ => self.cache.cancel(read / 2),
        }
    }

    fn erase(&mut self, prefix: NameRef<'_>, limit: u64) -> u64 {
        self.cache.erase(prefix, limit)
    }
}

#[cfg(test)]
mod tests;
