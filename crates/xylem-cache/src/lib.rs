//! [`DiskCache`]: cached Data on disk, the content store's second level.
//!
//! There are two files, each of at most half the capacity. Packets are appended to the newer one; when it is full, the
//! older file is deleted with all packets in it. The cache needs no transactions: a crash loses only packets that can
//! be fetched again. Hence there is no `fsync`, and a file ends at its first damaged record. The index (names and
//! places) is in memory, one for each file, so that it goes with the file.
//!
//! ```text
//! record := length of the packet, 4 octets, little endian | BLAKE3 of the packet, 32 | packet
//! ```
//!
//! The disk is not trusted: a packet is returned only if its hash matches. The forwarder decodes it and compares its
//! name. A failing disk is a cache that misses.
//!
//! Nor is the disk waited for, once the cache is open: the forwarder's loop calls it between two packets, and a disk that
//! sleeps, hangs, or lies on another machine would stop all of its faces. The loop reads only what the system has in
//! memory (`preadv2` with `RWF_NOWAIT`; from a slow file system it reads nothing), and packets that are still to be
//! written. Everything else is left to threads (`disk_threads`): one creates, writes and deletes the files, and others
//! read, with a fair turn for each face. The forwarder cancels reads that take too long. If the disk is slower than the
//! packets that come, new ones are not cached. Systems other than Linux have no such calls; there the loop reads.
//!
//! These reads are not those that serve content (`Reads` of `xylem-files`): each is of one packet, which goes to the
//! forwarder as it is; it may be cancelled; and the file grows while it is read.

mod disk_threads;
mod repo;

pub use repo::{MIN_REPO_BYTES, RepoAndCache, RepoStore, RepoStoreError, RepoUsage};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use xylem_base::Wake;
use xylem_forward::{FaceId, SecondLevelAnswer, SecondLevelCache};
use xylem_packet::{Data, MAX_PACKET, NameRef};
use xylem_store::{Medium, MediumFile, OpenHow, create_dirs};

use disk_threads::{CacheRead, CacheShared, CacheState, CacheWrite, WantedPacket};

/// Octets before a packet.
const HEADER: usize = 36;
/// Most packets in the index; beyond that new ones are not cached.
const MAX_PACKETS: usize = 1 << 22;

/// Where a packet lies in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PacketPlace {
    at: u64,
    len: u32,
}

/// A file on the disk.
#[derive(Default)]
struct PacketLog {
    path: PathBuf,
    generation: u64,
    /// Set by the thread that writes, unless the file was there at the start.
    file: OnceLock<Arc<dyn MediumFile>>,
}

/// A file and the packets in it, which may still have to be written.
#[derive(Default)]
struct IndexedLog {
    log: Arc<PacketLog>,
    len: u64,
    index: BTreeMap<Vec<u8>, PacketPlace>,
}

/// Cached Data in two files of a directory. Dropping it leaves queued packets to the thread that writes, as long as the
/// process lasts.
pub struct DiskCache {
    shared: Arc<CacheShared>,
    directory: PathBuf,
    /// Largest size of one file, bytes.
    capacity: u64,
    newer: IndexedLog,
    older: Option<IndexedLog>,
    /// The loop itself reads nothing.
    is_slow: bool,
}

/// A packet in the index.
struct IndexedPacket<'a, 'b> {
    name: Cow<'a, [u8]>,
    log: &'b Arc<PacketLog>,
    place: PacketPlace,
}

/// What the loop itself reads.
enum LoopRead {
    Found,
    /// The disk has something else there, or nothing.
    Wrong,
    /// It is not in memory.
    NotAtHand,
}

impl DiskCache {
    /// Opens the cache in `directory`, creates that if needed, and reads what an earlier run left; this waits for the
    /// disk. The cache takes at most `capacity` bytes.
    pub fn open(medium: Arc<dyn Medium>, directory: &Path, capacity: u64) -> io::Result<DiskCache> {
        create_dirs(&*medium, directory).map_err(io::Error::other)?;
        let mut generations: Vec<u64> = (medium.list_dir(directory)?.iter())
            .filter_map(|item| generation_of(Path::new(&item.name)))
            .collect();
        generations.sort_unstable();
        let kept = generations.split_off(generations.len().saturating_sub(2));
        for generation in generations {
            let _ = medium.remove_file(&path_of(directory, generation));
        }
        let mut logs: Vec<IndexedLog> = kept
            .into_iter()
            .filter_map(|generation| IndexedLog::open(&*medium, directory, generation).ok())
            .collect();
        let mut room = MAX_PACKETS;
        for log in &mut logs {
            log.read_index(room);
            room = room.saturating_sub(log.index.len());
        }
        let newer = match logs.pop() {
            Some(log) => log,
            None => IndexedLog::open(&*medium, directory, 1)?,
        };
        let mut older = logs.pop();
        if let Some(older) = &mut older {
            older.index.retain(|name, _| !newer.index.contains_key(name));
        }
        let is_slow = medium.is_slow(directory);
        let (directory, capacity) = (directory.to_owned(), capacity / 2);
        let shared = CacheShared::new(medium);
        Ok(DiskCache { shared, directory, capacity, newer, older, is_slow })
    }

    /// Sets the function to call when reads have ended. Threads call it.
    pub fn wake_by(&self, wake: Wake) {
        self.shared.state().wake = Some(wake);
    }

    /// Returns the number of cached packets.
    pub fn len(&self) -> usize {
        self.logs().map(|log| log.index.len()).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn logs(&self) -> impl Iterator<Item = &IndexedLog> {
        std::iter::once(&self.newer).chain(&self.older)
    }

    fn logs_mut(&mut self) -> impl Iterator<Item = &mut IndexedLog> {
        std::iter::once(&mut self.newer).chain(&mut self.older)
    }

    /// Forgets a packet, unless a newer one of this name took its place.
    fn forget(&mut self, name: &[u8], generation: u64, place: PacketPlace) {
        let mut logs = self.logs_mut();
        if let Some(log) = logs.find(|log| log.log.generation == generation)
            && log.index.get(name) == Some(&place)
        {
            log.index.remove(name);
        }
    }

    /// Forgets packets that could not be written. The next ones take their places.
    fn forget_lost(&mut self, lost: Vec<CacheWrite>) {
        for write in lost {
            let (generation, at) = (write.log.generation, write.at);
            if generation == self.newer.log.generation {
                self.newer.len = self.newer.len.min(at);
            }
            let len = write.packet.len() as u32;
            self.forget(&write.name, generation, PacketPlace { at, len });
        }
    }

    /// Begins a new file, and leaves it to the thread to create it and to delete the older of the two. `None`: the
    /// present one was not created yet.
    fn begin_file(&mut self, state: &mut CacheState) -> Option<()> {
        self.newer.log.file.get()?;
        let generation = self.newer.log.generation + 1;
        let next = IndexedLog::new(&self.directory, generation);
        let filled = std::mem::replace(&mut self.newer, next);
        if let Some(gone) = self.older.replace(filled) {
            state.discard(gone);
        }
        Some(())
    }

    fn keep(&mut self, name: &[u8], packet: &[u8]) -> Option<()> {
        let len = (HEADER + packet.len()) as u64;
        let fits = packet.len() <= MAX_PACKET && len <= self.capacity;
        if !fits || self.len() >= MAX_PACKETS {
            return None;
        }
        let shared = self.shared.clone();
        // Locked until the packet is queued: a write that fails in between would leave a gap.
        let mut state = shared.state();
        if !shared.has_writer(&mut state) {
            return None;
        }
        self.forget_lost(std::mem::take(&mut state.lost));
        if self.newer.len + len > self.capacity {
            self.begin_file(&mut state)?;
        }
        let (log, at) = (self.newer.log.clone(), self.newer.len);
        let place = PacketPlace { at, len: packet.len() as u32 };
        let write = CacheWrite { log, at, name: name.into(), packet: packet.into() };
        if !state.queue_write(write) {
            return None;
        }
        drop(state);
        shared.wake_writer();
        self.newer.len += len;
        self.newer.index.insert(name.to_vec(), place);
        if let Some(older) = &mut self.older {
            older.index.remove(name);
        }
        Some(())
    }

    /// Returns the packet of this name or, with `can_be_prefix`, one with a name that begins with it.
    fn find<'a>(&self, name: &'a [u8], can_be_prefix: bool) -> Option<IndexedPacket<'a, '_>> {
        if !can_be_prefix {
            let exact = |log: &IndexedLog| log.index.get(name).copied();
            let (log, place) = self.logs().find_map(|log| Some((log, exact(log)?)))?;
            return Some(IndexedPacket { name: Cow::Borrowed(name), log: &log.log, place });
        }
        self.logs().find_map(|log| {
            let from = (Bound::Included(name), Bound::Unbounded);
            let (found, place) = log.index.range::<[u8], _>(from).next()?;
            let found = found.starts_with(name).then(|| Cow::Owned(found.clone()))?;
            Some(IndexedPacket { name: found, log: &log.log, place: *place })
        })
    }

    /// Whether the index still has the packet that was read.
    fn is_there(&self, read: &CacheRead) -> bool {
        self.find(&read.name, false).is_some_and(|found| {
            (found.log.generation, found.place) == (read.generation, read.place)
        })
    }

    /// Appends a packet that can be had without waiting.
    fn read_at_once(&self, log: &PacketLog, place: PacketPlace, packet: &mut Vec<u8>) -> LoopRead {
        if let Some(queued) = self.shared.state().unwritten(log.generation, place) {
            packet.extend_from_slice(&queued);
            return LoopRead::Found;
        }
        // The thread could not create the file, and has given up what was to be written there.
        let Some(file) = log.file.get() else { return LoopRead::Wrong };
        if self.is_slow {
            return LoopRead::NotAtHand;
        }
        let start = packet.len();
        packet.resize(start + HEADER + place.len as usize, 0);
        let read = file.read_at_no_wait(&mut packet[start..], place.at);
        let is_whole = read.is_ok_and(|len| len == packet.len() - start);
        let is_right = is_whole && is_record(&packet[start..]);
        match is_right {
            true => drop(packet.drain(start..start + HEADER)),
            false => packet.truncate(start),
        }
        match (is_right, is_whole) {
            (true, _) => LoopRead::Found,
            (false, true) => LoopRead::Wrong,
            // Not in memory, or not there at all: a thread reads it, and reports what is wrong.
            (false, false) => LoopRead::NotAtHand,
        }
    }
}

impl SecondLevelCache for DiskCache {
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]) {
        // A disk that is full, slow or fails caches nothing new.
        let _ = self.keep(name.value(), packet);
    }

    fn get(
        &mut self,
        asker: FaceId,
        name: NameRef<'_>,
        can_be_prefix: bool,
        packet: &mut Vec<u8>,
    ) -> SecondLevelAnswer {
        let Some(found) = self.find(name.value(), can_be_prefix) else {
            return SecondLevelAnswer::Absent;
        };
        let IndexedPacket { name, log, place } = found;
        match self.read_at_once(log, place, packet) {
            LoopRead::Found => SecondLevelAnswer::Found,
            LoopRead::Wrong => {
                let generation = log.generation;
                self.forget(&name, generation, place);
                SecondLevelAnswer::Absent
            }
            LoopRead::NotAtHand => {
                let wanted = WantedPacket { asker: asker.0, log, place, name: &name };
                match self.shared.read(wanted) {
                    Some(number) => SecondLevelAnswer::Reading(number),
                    None => SecondLevelAnswer::Absent,
                }
            }
        }
    }

    fn next_read(&mut self, packet: &mut Vec<u8>) -> Option<u64> {
        let (read, read_packet) = self.shared.next_ended()?;
        match read_packet {
            Some(found) if self.is_there(&read) => packet.extend_from_slice(&found),
            // It was erased or replaced meanwhile.
            Some(_) => {}
            None => self.forget(&read.name, read.generation, read.place),
        }
        Some(read.number)
    }

    fn cancel(&mut self, read: u64) {
        self.shared.cancel(read);
    }

    fn erase(&mut self, prefix: NameRef<'_>, limit: u64) -> u64 {
        let mut left = usize::try_from(limit).unwrap_or(usize::MAX);
        let before = left;
        // The bytes stay until their file is deleted; an erased packet may reappear after a restart.
        for log in self.logs_mut() {
            let from = (Bound::Included(prefix.value()), Bound::Unbounded);
            let names: Vec<Vec<u8>> = log
                .index
                .range::<[u8], _>(from)
                .take_while(|(name, _)| name.starts_with(prefix.value()))
                .take(left)
                .map(|(name, _)| name.clone())
                .collect();
            for name in &names {
                log.index.remove(name);
            }
            left -= names.len();
        }
        (before - left) as u64
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        // Closing a file may wait for the disk, too.
        let logs = [Some(std::mem::take(&mut self.newer)), self.older.take()];
        self.shared.end(logs.into_iter().flatten());
    }
}

impl IndexedLog {
    /// A file that is not created yet.
    fn new(directory: &Path, generation: u64) -> IndexedLog {
        let (path, file) = (path_of(directory, generation), OnceLock::new());
        IndexedLog { log: Arc::new(PacketLog { path, generation, file }), ..IndexedLog::default() }
    }

    fn open(medium: &dyn Medium, directory: &Path, generation: u64) -> io::Result<IndexedLog> {
        let log = IndexedLog::new(directory, generation);
        log.log.opened(medium)?;
        Ok(log)
    }

    /// Indexes the packets, at most `room`, and truncates the file after the last valid record.
    fn read_index(&mut self, room: usize) {
        let Some(file) = self.log.file.get() else { return };
        let mut reader = BufReader::with_capacity(1 << 16, LogReader { file: &**file, at: 0 });
        let (mut header, mut packet) = ([0; HEADER], Vec::new());
        let mut at = 0;
        while self.index.len() < room && reader.read_exact(&mut header).is_ok() {
            let len = length_of(&header);
            packet.resize(len.min(MAX_PACKET), 0);
            if len > MAX_PACKET || reader.read_exact(&mut packet).is_err() {
                break;
            }
            let Ok(data) = Data::decode(&packet) else { break };
            let place = PacketPlace { at, len: len as u32 };
            self.index.insert(data.name().value().to_vec(), place);
            at += (HEADER + len) as u64;
        }
        self.len = at;
        let _ = file.set_len(at);
    }
}

impl PacketLog {
    /// Returns the file, which is created if needed. This waits for the disk.
    fn opened(&self, medium: &dyn Medium) -> io::Result<&Arc<dyn MediumFile>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = medium.open(&self.path, OpenHow::Create { mode: 0o666 })?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Reads a packet. This waits for the disk. `None`: it is damaged, or cannot be read.
    fn read(&self, place: PacketPlace) -> Option<Vec<u8>> {
        let file = self.file.get()?;
        let mut record = vec![0; HEADER + place.len as usize];
        let mut reader = LogReader { file: &**file, at: place.at };
        reader.read_exact(&mut record).ok()?;
        is_record(&record).then(|| record.split_off(HEADER))
    }
}

/// Reads a file in order.
struct LogReader<'a> {
    file: &'a dyn MediumFile,
    at: u64,
}

impl Read for LogReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buf, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

/// Appends a record to what is written at once.
fn append_record(record: &mut Vec<u8>, packet: &[u8]) {
    record.extend_from_slice(&(packet.len() as u32).to_le_bytes());
    record.extend_from_slice(xylem_hash::hash(packet).as_bytes());
    record.extend_from_slice(packet);
}

/// Whether this is one whole record, and undamaged.
fn is_record(record: &[u8]) -> bool {
    let Some((header, packet)) = record.split_first_chunk::<HEADER>() else { return false };
    length_of(header) == packet.len() && xylem_hash::hash(packet).as_bytes()[..] == header[4..]
}

fn length_of(header: &[u8; HEADER]) -> usize {
    let [a, b, c, d, ..] = *header;
    u32::from_le_bytes([a, b, c, d]) as usize
}

fn path_of(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{generation:016x}.cache"))
}

fn generation_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".cache")?;
    u64::from_str_radix(name, 16).ok().filter(|generation| *generation < u64::MAX / 2)
}

#[cfg(test)]
mod tests;
