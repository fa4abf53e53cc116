//! The pending Interest table: who asked for what, and whom it was asked of.
//!
//! An entry is known by name, CanBePrefix and MustBeFresh. Entries live in a slab and keep their
//! vectors when they are used again, so that a steady flow of Interests allocates nothing. The name
//! is copied: a slice of the packet would keep the whole receive buffer in memory.

use core::time::Duration;

use hashbrown::{HashMap, HashTable};
use xylem_packet::tlv::types;
use xylem_packet::{Data, Interest, MAX_PIT_TOKEN, NackReason, NameRef};

use crate::FaceId;
use crate::name_hash::{NameHasher, NumberHasher};
use crate::wheel::Wheel;

/// A vector that once held more than this is given back when its entry ends.
const KEPT_NAME: usize = 256;
const KEPT_RECORDS: usize = 16;

/// A PIT token as a neighbour gave it; empty if it gave none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    len: u8,
    octets: [u8; MAX_PIT_TOKEN],
}

impl Token {
    /// `token` has at most [`MAX_PIT_TOKEN`] octets (checked when the packet was decoded).
    #[inline]
    pub(crate) fn new(token: Option<&[u8]>) -> Self {
        let token = token.unwrap_or_default();
        let len = token.len().min(MAX_PIT_TOKEN);
        let mut octets = [0; MAX_PIT_TOKEN];
        octets[..len].copy_from_slice(&token[..len]);
        Token { len: len as u8, octets }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&[u8]> {
        (self.len != 0).then(|| &self.octets[..usize::from(self.len)])
    }
}

/// Who asked.
pub(crate) struct InRecord {
    pub(crate) face: FaceId,
    pub(crate) nonce: [u8; 4],
    pub(crate) expires: Duration,
    pub(crate) token: Token,
}

/// Whom it was asked of.
pub(crate) struct OutRecord {
    pub(crate) face: FaceId,
    pub(crate) nonce: [u8; 4],
    pub(crate) sent: Duration,
    pub(crate) nacked: Option<NackReason>,
}

/// A pending Interest.
pub(crate) struct Entry {
    pub(crate) hash: u64,
    name: Vec<u8>,
    components: usize,
    can_be_prefix: bool,
    must_be_fresh: bool,
    /// Hash of the name without its last component, if that is an implicit digest.
    digest_of: Option<u64>,
    pub(crate) in_records: Vec<InRecord>,
    pub(crate) out_records: Vec<OutRecord>,
}

impl Entry {
    fn is_for(&self, interest: &Interest<'_>) -> bool {
        self.name == interest.name().value()
            && self.can_be_prefix == interest.can_be_prefix()
            && self.must_be_fresh == interest.must_be_fresh()
    }
}

/// Number of an entry while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryId(u32);

pub(crate) struct Pit {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Entry numbers by the hash of the name alone: entries that differ in flags lie together.
    table: HashTable<u32>,
    wheel: Wheel,
    capacity: usize,
    /// How many entries with CanBePrefix have n components, so that Data is looked up only under
    /// prefix lengths that somebody asked for.
    prefixes_of_length: Vec<u32>,
    /// How many entries ask for an implicit digest under the name of this hash, so that Data is
    /// hashed only when somebody did.
    digests: HashMap<u64, u32, NumberHasher>,
}

impl Pit {
    pub(crate) fn new(capacity: usize) -> Self {
        Pit {
            entries: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            wheel: Wheel::new(),
            capacity: capacity.min(1 << 31),
            prefixes_of_length: Vec::new(),
            digests: HashMap::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    #[inline]
    pub(crate) fn get(&mut self, id: EntryId) -> &mut Entry {
        &mut self.entries[id.0 as usize]
    }

    /// The entry for an Interest; `hash` is its name's.
    #[inline]
    pub(crate) fn find(&self, interest: &Interest<'_>, hash: u64) -> Option<EntryId> {
        let is_it = |id: &u32| self.entries[*id as usize].is_for(interest);
        self.table.find(hash, is_it).map(|id| EntryId(*id))
    }

    /// A new entry without records; the caller has made sure of room and that there is none yet.
    /// `hashes` are those of the prefixes of the Interest's name, the last being its own.
    #[inline]
    pub(crate) fn insert(&mut self, interest: &Interest<'_>, hashes: &[u64]) -> EntryId {
        let name = interest.name();
        let hash = hashes[name.len()];
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                hash: 0,
                name: Vec::new(),
                components: 0,
                can_be_prefix: false,
                must_be_fresh: false,
                digest_of: None,
                in_records: Vec::new(),
                out_records: Vec::new(),
            });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[id as usize];
        entry.hash = hash;
        entry.name.extend_from_slice(name.value());
        entry.components = name.len();
        entry.can_be_prefix = interest.can_be_prefix();
        entry.must_be_fresh = interest.must_be_fresh();
        entry.digest_of = ends_with_digest(name).then(|| hashes[name.len() - 1]);
        if entry.can_be_prefix {
            if self.prefixes_of_length.len() <= name.len() {
                self.prefixes_of_length.resize(name.len() + 1, 0);
            }
            self.prefixes_of_length[name.len()] += 1;
        }
        if let Some(parent) = entry.digest_of {
            *self.digests.entry(parent).or_default() += 1;
        }
        self.table.insert_unique(hash, id, |id| self.entries[*id as usize].hash);
        EntryId(id)
    }

    /// Lets the entry run out at `time`.
    #[inline]
    pub(crate) fn arm(&mut self, id: EntryId, time: Duration) {
        self.wheel.arm(id.0, time);
    }

    /// Ends an entry; its records are gone.
    #[inline]
    pub(crate) fn remove(&mut self, id: EntryId) {
        self.wheel.cancel(id.0);
        let entry = &mut self.entries[id.0 as usize];
        if let Ok(found) = self.table.find_entry(entry.hash, |other| *other == id.0) {
            found.remove();
        }
        if entry.can_be_prefix {
            self.prefixes_of_length[entry.components] -= 1;
        }
        if let Some(parent) = entry.digest_of.take()
            && let Some(count) = self.digests.get_mut(&parent)
        {
            *count -= 1;
            if *count == 0 {
                self.digests.remove(&parent);
            }
        }
        recycle(&mut entry.name, KEPT_NAME);
        recycle(&mut entry.in_records, KEPT_RECORDS);
        recycle(&mut entry.out_records, KEPT_RECORDS);
        self.free.push(id.0);
    }

    /// Appends every entry that `data` answers. `hashes` are those of the prefixes of its name.
    #[inline]
    pub(crate) fn matches(
        &self,
        hasher: &NameHasher,
        data: &Data<'_>,
        hashes: &[u64],
        found: &mut Vec<EntryId>,
    ) {
        let name = data.name();
        let value = name.value();
        for id in self.table.iter_hash(hashes[name.len()]) {
            if self.entries[*id as usize].name == value {
                found.push(EntryId(*id));
            }
        }
        let shorter = self.prefixes_of_length.len().min(name.len());
        for len in (0..shorter).rev().filter(|len| self.prefixes_of_length[*len] != 0) {
            for id in self.table.iter_hash(hashes[len]) {
                let entry = &self.entries[*id as usize];
                if entry.can_be_prefix && entry.components == len && value.starts_with(&entry.name)
                {
                    found.push(EntryId(*id));
                }
            }
        }
        if !self.digests.is_empty() && self.digests.contains_key(&hashes[name.len()]) {
            let full_name =
                name.child(xylem_packet::Component::implicit_digest(&data.implicit_digest()));
            let hash = hasher.hash(full_name.as_ref());
            for id in self.table.iter_hash(hash) {
                if self.entries[*id as usize].name == full_name.as_ref().value() {
                    found.push(EntryId(*id));
                }
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        self.wheel.next_timeout()
    }

    /// Appends the entries that have run out by `now`. They live until they are removed.
    pub(crate) fn expire(&mut self, now: Duration, expired: &mut Vec<EntryId>) {
        let mut ids = Vec::new();
        self.wheel.expire(now, &mut ids);
        expired.extend(ids.into_iter().map(EntryId));
    }
}

/// Does an Interest's name ask for one Data packet by its digest?
pub(crate) fn ends_with_digest(name: NameRef<'_>) -> bool {
    // Cheap first: a digest component takes 34 bytes.
    name.value().len() >= 34
        && name.last().is_some_and(|last| last.typ() == types::IMPLICIT_SHA256_DIGEST)
}

fn recycle<T>(vector: &mut Vec<T>, kept: usize) {
    vector.clear();
    vector.shrink_to(kept);
}
