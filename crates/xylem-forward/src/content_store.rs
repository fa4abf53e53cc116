//! The content store: Data that passed through, kept for the next who asks.
//!
//! Bounded in bytes; the least recently used goes first. A packet is copied in: a slice of a
//! receive buffer would keep all of the buffer in memory while only the packet is counted.

use core::ops::Bound;
use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;
use hashbrown::HashTable;
use xylem_packet::{Component, Data, Interest, NameRef};

use crate::pit::ends_with_digest;
use crate::{CsInfo, CsSettings};

const NONE: u32 = u32::MAX;
/// What an entry costs beside its packet, roughly.
const OVERHEAD: usize = 256;
/// How many candidates a CanBePrefix look-up tries.
const MAX_CANDIDATES: usize = 64;

struct Entry {
    hash: u64,
    /// A slice of `packet`: the name's value.
    name: Bytes,
    packet: Bytes,
    fresh_until: Duration,
    newer: u32,
    older: u32,
}

pub(crate) struct ContentStore {
    capacity: usize,
    capacity_packets: usize,
    admit: bool,
    serve: bool,
    used: usize,
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_hash: HashTable<u32>,
    /// In canonical order, for CanBePrefix.
    by_name: BTreeMap<Bytes, u32>,
    newest: u32,
    oldest: u32,
}

impl ContentStore {
    pub(crate) fn new(capacity: usize) -> Self {
        ContentStore {
            capacity,
            capacity_packets: usize::MAX,
            admit: true,
            serve: true,
            used: 0,
            entries: Vec::new(),
            free: Vec::new(),
            by_hash: HashTable::new(),
            by_name: BTreeMap::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.capacity != 0 && self.capacity_packets != 0
    }

    pub(crate) fn info(&self) -> CsInfo {
        CsInfo {
            capacity_packets: self.capacity_packets,
            capacity_bytes: self.capacity,
            packets: self.by_name.len(),
            bytes: self.used,
            admit: self.admit,
            serve: self.serve,
            ..CsInfo::default()
        }
    }

    pub(crate) fn configure(&mut self, settings: CsSettings) {
        self.capacity = settings.capacity_bytes.unwrap_or(self.capacity);
        self.capacity_packets = settings.capacity_packets.unwrap_or(self.capacity_packets);
        self.admit = settings.admit.unwrap_or(self.admit);
        self.serve = settings.serve.unwrap_or(self.serve);
        self.make_room(0, 0);
    }

    fn make_room(&mut self, packets: usize, bytes: usize) {
        while (self.used + bytes > self.capacity
            || self.by_name.len() + packets > self.capacity_packets)
            && self.oldest != NONE
        {
            self.remove(self.oldest);
        }
    }

    pub(crate) fn erase(&mut self, prefix: NameRef<'_>, limit: u64) -> u64 {
        let ids: Vec<u32> = self
            .by_name
            .range::<[u8], _>((Bound::Included(prefix.value()), Bound::Unbounded))
            .take_while(|(candidate, _)| candidate.starts_with(prefix.value()))
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .map(|(_, id)| *id)
            .collect();
        ids.iter().for_each(|id| self.remove(*id));
        ids.len() as u64
    }

    /// Keeps a Data that was asked for. `hash` is that of its name.
    pub(crate) fn insert(&mut self, now: Duration, data: &Data<'_>, hash: u64) {
        let cost = data.wire().len() + OVERHEAD;
        if cost > self.capacity || self.capacity_packets == 0 || !self.admit {
            return;
        }
        let same = |id: &u32| self.entries[*id as usize].name == data.name().value();
        if let Some(id) = self.by_hash.find(hash, same).copied() {
            self.remove(id);
        }
        self.make_room(1, cost);
        let packet = Bytes::copy_from_slice(data.wire());
        let name = packet.slice(data.name_range());
        let fresh_until = now.saturating_add(Duration::from_millis(data.meta().freshness_ms));
        let entry =
            Entry { hash, name: name.clone(), packet, fresh_until, newer: NONE, older: NONE };
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.used += cost;
        self.by_hash.insert_unique(hash, id, |id| self.entries[*id as usize].hash);
        self.by_name.insert(name, id);
        self.link_newest(id);
    }

    /// The Data that answers an Interest, if there is one. `hashes` are those of the prefixes of
    /// the Interest's name.
    pub(crate) fn find(
        &mut self,
        now: Duration,
        interest: &Interest<'_>,
        hashes: &[u64],
    ) -> Option<Bytes> {
        if !self.serve {
            return None;
        }
        let name = interest.name();
        let usable =
            |id: &u32| !interest.must_be_fresh() || now < self.entries[*id as usize].fresh_until;
        let exact = self.find_exact(name, hashes[name.len()]).filter(usable);
        let found = if exact.is_some() {
            exact
        } else if ends_with_digest(name) {
            let parent = name.parent();
            self.find_exact(parent, hashes[parent.len()])
                .filter(usable)
                .filter(|id| self.has_full_name(*id, name))
        } else if interest.can_be_prefix() {
            self.by_name
                .range::<[u8], _>((Bound::Included(name.value()), Bound::Unbounded))
                .take(MAX_CANDIDATES)
                .take_while(|(candidate, _)| candidate.starts_with(name.value()))
                .map(|(_, id)| *id)
                .find(usable)
        } else {
            None
        }?;
        self.unlink(found);
        self.link_newest(found);
        Some(self.entries[found as usize].packet.clone())
    }

    fn find_exact(&self, name: NameRef<'_>, hash: u64) -> Option<u32> {
        let is_it = |id: &u32| self.entries[*id as usize].name == name.value();
        self.by_hash.find(hash, is_it).copied()
    }

    fn has_full_name(&self, id: u32, full_name: NameRef<'_>) -> bool {
        let digest = xylem_packet::sha256(&self.entries[id as usize].packet);
        full_name.last() == Some(Component::implicit_digest(&digest))
    }

    fn remove(&mut self, id: u32) {
        self.unlink(id);
        let entry = &mut self.entries[id as usize];
        self.used -= entry.packet.len() + OVERHEAD;
        let name = core::mem::take(&mut entry.name);
        entry.packet = Bytes::new();
        if let Ok(found) = self.by_hash.find_entry(entry.hash, |other| *other == id) {
            found.remove();
        }
        self.by_name.remove(&name);
        self.free.push(id);
    }

    fn unlink(&mut self, id: u32) {
        let Entry { newer, older, .. } = self.entries[id as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, id: u32) {
        let before = core::mem::replace(&mut self.newest, id);
        self.entries[id as usize].newer = NONE;
        self.entries[id as usize].older = before;
        match before {
            NONE => self.oldest = id,
            before => self.entries[before as usize].newer = id,
        }
    }
}
