//! [`DiskCache`]: cached Data on disk, the content store's second level.
//!
//! There are two files, each of at most half the capacity. Packets are appended to the newer one; when it is full, the
//! older file is deleted with all packets in it. The cache needs no transactions: a crash loses only packets that can
//! be fetched again. Hence there is no `fsync`, and a file ends at its first damaged record. The index (names and
//! places) is in memory.
//!
//! ```text
//! record := length of the packet, 4 octets, little endian | BLAKE3 of the packet, 32 | packet
//! ```
//!
//! The disk is not trusted: a packet is returned only if its hash matches. The forwarder decodes it and compares its
//! name. A failing disk is a cache that misses.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use xylem_forward::{FaceId, SecondLevelAnswer, SecondLevelCache};
use xylem_packet::{Data, MAX_PACKET, NameRef};

/// Octets before a packet.
const HEADER: usize = 36;
/// Most packets in the index; beyond that new ones are not cached.
const MAX_PACKETS: usize = 1 << 22;

/// Where a packet lies.
#[derive(Debug, Clone, Copy)]
struct PacketPlace {
    generation: u64,
    at: u64,
    len: u32,
}

#[derive(Debug)]
struct PacketLog {
    file: File,
    path: PathBuf,
    generation: u64,
    len: u64,
}

/// Cached Data in two files of a directory.
#[derive(Debug)]
pub struct DiskCache {
    directory: PathBuf,
    /// Largest size of one file, bytes.
    capacity: u64,
    newer: PacketLog,
    older: Option<PacketLog>,
    index: BTreeMap<Vec<u8>, PacketPlace>,
}

impl DiskCache {
    /// Opens the cache in `directory`, creates that if needed, and reads what an earlier run left. The cache takes at
    /// most `capacity` bytes.
    pub fn open(directory: &Path, capacity: u64) -> io::Result<DiskCache> {
        std::fs::create_dir_all(directory)?;
        let mut generations: Vec<u64> = std::fs::read_dir(directory)?
            .filter_map(|entry| generation_of(&entry.ok()?.path()))
            .collect();
        generations.sort_unstable();
        let kept = generations.split_off(generations.len().saturating_sub(2));
        for generation in generations {
            let _ = std::fs::remove_file(path_of(directory, generation));
        }
        let mut logs: Vec<PacketLog> = kept
            .into_iter()
            .filter_map(|generation| PacketLog::open(directory, generation).ok())
            .collect();
        let mut index = BTreeMap::new();
        for log in &mut logs {
            log.read_into(&mut index);
        }
        let newer = match logs.pop() {
            Some(log) => log,
            None => PacketLog::open(directory, 1)?,
        };
        let (directory, capacity) = (directory.to_owned(), capacity / 2);
        Ok(DiskCache { directory, capacity, newer, older: logs.pop(), index })
    }

    /// Returns the number of cached packets.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Begins a new file and deletes the older of the two.
    fn begin_file(&mut self) -> io::Result<()> {
        let next = PacketLog::open(&self.directory, self.newer.generation + 1)?;
        let filled = std::mem::replace(&mut self.newer, next);
        if let Some(gone) = self.older.replace(filled) {
            self.index.retain(|_, place| place.generation != gone.generation);
            let _ = std::fs::remove_file(&gone.path);
        }
        Ok(())
    }

    fn keep(&mut self, name: NameRef<'_>, packet: &[u8]) -> io::Result<()> {
        let len = (HEADER + packet.len()) as u64;
        if packet.len() > MAX_PACKET || len > self.capacity || self.index.len() >= MAX_PACKETS {
            return Ok(());
        }
        if self.newer.len + len > self.capacity {
            self.begin_file()?;
        }
        let at = self.newer.append(packet)?;
        let place = PacketPlace { generation: self.newer.generation, at, len: packet.len() as u32 };
        self.index.insert(name.value().to_vec(), place);
        Ok(())
    }

    fn read(&mut self, place: PacketPlace, packet: &mut Vec<u8>) -> io::Result<bool> {
        let logs = std::iter::once(&mut self.newer).chain(&mut self.older);
        let Some(log) = logs.into_iter().find(|log| log.generation == place.generation) else {
            return Ok(false);
        };
        log.read(place, packet)
    }
}

impl SecondLevelCache for DiskCache {
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]) {
        // A disk that is full or fails caches nothing new.
        let _ = self.keep(name, packet);
    }

    fn get(
        &mut self,
        _asker: FaceId,
        name: NameRef<'_>,
        can_be_prefix: bool,
        packet: &mut Vec<u8>,
    ) -> SecondLevelAnswer {
        let found = if can_be_prefix {
            let from = (Bound::Included(name.value()), Bound::Unbounded);
            self.index
                .range::<[u8], _>(from)
                .next()
                .filter(|(found, _)| found.starts_with(name.value()))
                .map(|(found, place)| (found.clone(), *place))
        } else {
            self.index.get(name.value()).map(|place| (name.value().to_vec(), *place))
        };
        let Some((found, place)) = found else { return SecondLevelAnswer::Absent };
        if self.read(place, packet).unwrap_or(false) {
            return SecondLevelAnswer::Found;
        }
        self.index.remove(&found);
        SecondLevelAnswer::Absent
    }

    fn erase(&mut self, prefix: NameRef<'_>, limit: u64) -> u64 {
        let from = (Bound::Included(prefix.value()), Bound::Unbounded);
        let names: Vec<Vec<u8>> = self
            .index
            .range::<[u8], _>(from)
            .take_while(|(name, _)| name.starts_with(prefix.value()))
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .map(|(name, _)| name.clone())
            .collect();
        // The bytes stay until their file is deleted; an erased packet may reappear after a restart.
        for name in &names {
            self.index.remove(name);
        }
        names.len() as u64
    }
}

impl PacketLog {
    fn open(directory: &Path, generation: u64) -> io::Result<PacketLog> {
        let path = path_of(directory, generation);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
        Ok(PacketLog { file, path, generation, len: 0 })
    }

    /// Indexes the packets and truncates the file after the last valid record.
    fn read_into(&mut self, index: &mut BTreeMap<Vec<u8>, PacketPlace>) {
        let mut reader = BufReader::with_capacity(1 << 16, &self.file);
        let (mut header, mut packet) = ([0; HEADER], Vec::new());
        let mut at = 0;
        while index.len() < MAX_PACKETS && reader.read_exact(&mut header).is_ok() {
            let len = length_of(&header);
            packet.resize(len.min(MAX_PACKET), 0);
            if len > MAX_PACKET || reader.read_exact(&mut packet).is_err() {
                break;
            }
            let Ok(data) = Data::decode(&packet) else { break };
            let place = PacketPlace { generation: self.generation, at, len: len as u32 };
            index.insert(data.name().value().to_vec(), place);
            at += (HEADER + len) as u64;
        }
        self.len = at;
        let _ = self.file.set_len(at);
    }

    fn append(&mut self, packet: &[u8]) -> io::Result<u64> {
        let mut record = Vec::with_capacity(HEADER + packet.len());
        record.extend_from_slice(&(packet.len() as u32).to_le_bytes());
        record.extend_from_slice(xylem_hash::hash(packet).as_bytes());
        record.extend_from_slice(packet);
        let at = self.len;
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(&record)?;
        self.len += record.len() as u64;
        Ok(at)
    }

    /// Appends the packet at `place` to `packet`; returns false if it is damaged.
    fn read(&mut self, place: PacketPlace, packet: &mut Vec<u8>) -> io::Result<bool> {
        let mut header = [0; HEADER];
        self.file.seek(SeekFrom::Start(place.at))?;
        self.file.read_exact(&mut header)?;
        if length_of(&header) != place.len as usize {
            return Ok(false);
        }
        let start = packet.len();
        packet.resize(start + place.len as usize, 0);
        self.file.read_exact(&mut packet[start..])?;
        Ok(xylem_hash::hash(&packet[start..]).as_bytes()[..] == header[4..])
    }
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
mod tests {
    use super::*;
    use xylem_packet::{Component, DataBuilder, Name};

    fn packet(n: u64) -> (Name, Vec<u8>) {
        let name = Name::from_uri("/x").unwrap().child(Component::segment(n));
        let mut out = Vec::new();
        DataBuilder::new(name.as_ref())
            .encode(&mut out, &[n as u8; 900], |_, value| value.extend_from_slice(&[0; 32]))
            .unwrap();
        (name, out)
    }

    fn find(cache: &mut DiskCache, name: &Name, is_prefix: bool, found: &mut Vec<u8>) -> bool {
        cache.get(FaceId(1), name.as_ref(), is_prefix, found) == SecondLevelAnswer::Found
    }

    fn got(cache: &mut DiskCache, n: u64) -> bool {
        let (name, expected) = packet(n);
        let mut found = Vec::new();
        let there = find(cache, &name, false, &mut found);
        assert!(!there || found == expected, "what was put");
        there
    }

    fn put(cache: &mut DiskCache, range: std::ops::Range<u64>) {
        for n in range {
            let (name, packet) = packet(n);
            cache.put(name.as_ref(), &packet);
        }
    }

    #[test]
    fn packets_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut cache = DiskCache::open(directory.path(), 1 << 20).unwrap();
        put(&mut cache, 0..10);
        assert!((0..10).all(|n| got(&mut cache, n)) && !got(&mut cache, 10));
        let mut cache = DiskCache::open(directory.path(), 1 << 20).unwrap();
        assert!((0..10).all(|n| got(&mut cache, n)) && cache.len() == 10);
        let prefix = Name::from_uri("/x").unwrap();
        assert!(find(&mut cache, &prefix, true, &mut Vec::new()));
        assert!(!find(&mut cache, &prefix, false, &mut Vec::new()));
        assert_eq!(cache.erase(prefix.as_ref(), 4), 4);
        assert_eq!(cache.erase(prefix.as_ref(), u64::MAX), 6);
        assert!(!find(&mut cache, &prefix, true, &mut Vec::new()) && cache.is_empty());
    }

    #[test]
    fn the_oldest_packets_go_and_disk_use_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let mut cache = DiskCache::open(directory.path(), 20_000).unwrap();
        put(&mut cache, 0..200);
        assert!((190..200).all(|n| got(&mut cache, n)) && !got(&mut cache, 170));
        let sizes = std::fs::read_dir(directory.path()).unwrap();
        let used: u64 = sizes.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert!(used <= 20_000, "{used} bytes");
        let mut cache = DiskCache::open(directory.path(), 20_000).unwrap();
        assert!((192..200).all(|n| got(&mut cache, n)));
        put(&mut cache, 200..220);
        assert!((212..220).all(|n| got(&mut cache, n)));
    }

    #[test]
    fn damage_costs_only_the_packets_hit() {
        for at in (0..4000).step_by(97) {
            let directory = tempfile::tempdir().unwrap();
            let mut cache = DiskCache::open(directory.path(), 1 << 20).unwrap();
            put(&mut cache, 0..5);
            let path = path_of(directory.path(), 1);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[at] ^= 0x40;
            std::fs::write(&path, &bytes).unwrap();
            // `got` compares the bytes; the other packets are intact.
            assert_eq!((0..5).filter(|n| got(&mut cache, *n)).count(), 4, "byte {at}");
            let mut again = DiskCache::open(directory.path(), 1 << 20).unwrap();
            assert!((0..5).filter(|n| got(&mut again, *n)).count() <= 4);
            std::fs::write(&path, &bytes[..at]).unwrap();
            let mut cut = DiskCache::open(directory.path(), 1 << 20).unwrap();
            let whole = at / (bytes.len() / 5);
            assert_eq!((0..5).filter(|n| got(&mut cut, *n)).count(), whole, "cut at {at}");
            put(&mut cut, 3..9);
            assert!((3..9).all(|n| got(&mut cut, n)));
        }
    }

    #[test]
    fn a_disk_that_fails_is_a_cache_that_misses() {
        let directory = tempfile::tempdir().unwrap();
        let mut cache = DiskCache::open(directory.path(), 3_000).unwrap();
        put(&mut cache, 0..1);
        std::fs::remove_dir_all(directory.path()).unwrap();
        // The open file still works; new ones cannot be made.
        put(&mut cache, 1..20);
        assert!(got(&mut cache, 0) && !got(&mut cache, 19));
    }
}
