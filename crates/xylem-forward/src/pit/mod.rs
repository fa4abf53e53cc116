//! The pending Interest table (PIT): which faces asked for which name, and which faces were asked.
//!
//! An entry is identified by name, CanBePrefix and MustBeFresh. It has room for one downstream record, one upstream
//! record and a short name, which most entries need. Further records and the rest of long names lie in separate slabs.
//! A steady flow of Interests allocates nothing. A flood is bounded by three limits: entries, further records, and
//! bytes of names.

mod askers;
pub(crate) mod entry;
mod records;

use xylem_packet::{Data, Interest};

use crate::memory::{Flat, Slots};
use crate::name_hash::{MAX_HASHED, NameHasher, NameHashes, ends_with_digest};
use crate::names::NamePool;
use crate::sha256;
use crate::slab::Slab;
use crate::storage::Storage;
use crate::table::{SlotTable, TableSlot};
use crate::wheel::{Timer, Timers, Wheel};
use entry::{InRecord, OutRecord, PitEntry};

type Entries<S> = SlotTable<PitEntry, <S as Storage>::Pit, <S as Storage>::Buckets>;

impl<S: Slots<TableSlot<PitEntry>>, B: Flat<u32>> Timers for SlotTable<PitEntry, S, B> {
    #[inline]
    fn timer(&self, id: u32) -> &Timer {
        &self.get(id).timer
    }
    #[inline]
    fn timer_mut(&mut self, id: u32) -> &mut Timer {
        &mut self.get_mut(id).timer
    }
}

/// The table has no room.
#[derive(Debug)]
pub(crate) struct PitTableFull;

pub(crate) struct Pit<S: Storage> {
    entries: Entries<S>,
    names: NamePool<S::Pieces>,
    ins: Slab<InRecord, S::InRecords>,
    outs: Slab<OutRecord, S::OutRecords>,
    wheel: Wheel,
    /// The number of entries with CanBePrefix by name length, so that Data is looked up only under lengths that are
    /// pending. The last element counts all longer ones.
    prefixes_of_length: [u32; MAX_HASHED + 2],
}

impl<S: Storage> Pit<S> {
    pub(crate) fn new(capacity: usize, name_bytes: usize) -> Self {
        // One bit of a record's number states where it lies.
        let capacity = capacity.min(askers::IN_SLAB as usize - 1);
        Pit {
            entries: SlotTable::new(capacity),
            names: NamePool::new(name_bytes),
            ins: Slab::new(capacity),
            outs: Slab::new(capacity),
            wheel: Wheel::new(),
            prefixes_of_length: [0; MAX_HASHED + 2],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.entries.memory() + self.names.memory() + self.ins.memory() + self.outs.memory()
    }

    /// Whether this Interest would fit into an empty table.
    pub(crate) fn could_hold(&self, interest: &Interest<'_>) -> bool {
        self.names.could_hold(interest.name().value().len())
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &PitEntry {
        self.entries.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut PitEntry {
        self.entries.get_mut(id)
    }

    /// The hash of an entry's name.
    #[inline]
    pub(crate) fn hash_of(&self, id: u32) -> u64 {
        self.entries.hash_of(id)
    }

    /// The entry of an Interest; `hash` is that of its name.
    #[inline]
    pub(crate) fn find(&self, interest: &Interest<'_>, hash: u64) -> Option<u32> {
        let value = interest.name().value();
        self.entries.find(hash, |entry| {
            entry.can_be_prefix == interest.can_be_prefix()
                && entry.must_be_fresh == interest.must_be_fresh()
                && self.names.equal(&entry.name, value)
        })
    }

    /// Adds an entry without records. The caller has checked that there is none yet.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        interest: &Interest<'_>,
        hash: u64,
    ) -> Result<u32, PitTableFull> {
        if self.entries.is_full() {
            return Err(PitTableFull);
        }
        let name = interest.name();
        let entry = PitEntry {
            name: self.names.store(name.value()).ok_or(PitTableFull)?,
            // A packet has fewer than 8800 / 2 components.
            components: name.len() as u16,
            can_be_prefix: interest.can_be_prefix(),
            must_be_fresh: interest.must_be_fresh(),
            by_digest: ends_with_digest(name),
            ..PitEntry::default()
        };
        if entry.can_be_prefix {
            self.prefixes_of_length[name.len().min(MAX_HASHED + 1)] += 1;
        }
        self.entries.insert(hash, entry).ok_or(PitTableFull)
    }

    /// Sets the expiry of an entry to `time` (microseconds).
    #[inline]
    pub(crate) fn arm(&mut self, id: u32, time: u64) {
        self.wheel.arm(&mut self.entries, id, time);
    }

    /// Removes an entry. Its records have to be released before.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.wheel.cancel(&mut self.entries, id);
        let entry = self.entries.get_mut(id);
        if entry.can_be_prefix {
            self.prefixes_of_length[usize::from(entry.components).min(MAX_HASHED + 1)] -= 1;
        }
        self.names.release(&mut entry.name);
        self.entries.remove(id);
    }

    /// Sets `found` to the entries that `data` answers. `hashes` are those of its name.
    #[inline]
    pub(crate) fn matches(
        &self,
        hasher: &NameHasher,
        data: &Data<'_>,
        hashes: &NameHashes,
        found: &mut impl Flat<u32>,
    ) {
        found.truncate(0);
        let name = data.name();
        let value = name.value();
        // Computed when the first Interest needs it.
        let mut digest = None;
        for id in self.entries.with_hash(hashes.whole()) {
            let entry = self.entries.get(id);
            let fits = if self.names.equal(&entry.name, value) {
                true
            } else {
                // Compute the digest only if the name fits otherwise.
                entry.by_digest
                    && entry.name.len() == value.len() + 34
                    && self.names.starts_with(&entry.name, value)
                    && {
                        let digest =
                            digest.get_or_insert_with(|| data.implicit_digest_with(sha256));
                        let mut wanted = [0; 32];
                        self.names.copy_from(&entry.name, value.len() + 2, &mut wanted);
                        wanted == *digest
                    }
            };
            if fits {
                found.push(id);
            }
        }
        for len in (0..name.len().min(MAX_HASHED + 1)).rev() {
            if self.prefixes_of_length[len] != 0
                && let Some(hash) = hashes.of(len)
            {
                self.prefixes(len, hash, value, found);
            }
        }
        if self.prefixes_of_length[MAX_HASHED + 1] != 0 && name.len() > MAX_HASHED + 1 {
            hasher.walk(name, |len, hash| {
                if (MAX_HASHED + 1..name.len()).contains(&len) {
                    self.prefixes(len, hash, value, found);
                }
            });
        }
    }

    fn prefixes(&self, len: usize, hash: u64, value: &[u8], found: &mut impl Flat<u32>) {
        for id in self.entries.with_hash(hash) {
            let entry = self.entries.get(id);
            if entry.can_be_prefix
                && usize::from(entry.components) == len
                && self.names.is_prefix_of(&entry.name, value)
            {
                found.push(id);
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<u64> {
        self.wheel.next_timeout()
    }

    /// Sets `expired` to the entries that have expired by `now` (microseconds). They live until they are removed.
    pub(crate) fn expire(&mut self, now: u64, expired: &mut impl Flat<u32>) {
        expired.truncate(0);
        self.wheel.expire(&mut self.entries, now, expired);
    }
}
