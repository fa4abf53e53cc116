//! A table of values by name prefix, with longest-prefix lookup.

use xylem_packet::NameRef;

use crate::memory::{Flat, Slots};
use crate::name_hash::{NameHasher, NameHashes};
use crate::names::{NamePool, Piece, StoredName};
use crate::slab::SlabPlace;
use crate::table::{SlotTable, TableSlot};

/// Maximum number of components of a prefix.
pub(crate) const MAX_COMPONENTS: usize = 63;

/// A prefix and its value.
#[derive(Debug, Default)]
pub struct Prefix<V> {
    name: StoredName,
    components: u8,
    value: V,
}

#[derive(Debug)]
pub(crate) struct Prefixes<V, S, B, P> {
    table: SlotTable<Prefix<V>, S, B>,
    names: NamePool<P>,
    /// The number of prefixes by number of components. Bit n of `lengths` is set if there are any with n.
    of_length: [u32; MAX_COMPONENTS + 1],
    lengths: u64,
}

impl<V, S, B, P> Prefixes<V, S, B, P>
where
    V: Default,
    S: Slots<TableSlot<Prefix<V>>>,
    B: Flat<u32>,
    P: Slots<SlabPlace<Piece>>,
{
    /// Room for `limit` prefixes, with at most 256 bytes of long names each on average.
    pub(crate) fn new(limit: usize) -> Self {
        Prefixes {
            table: SlotTable::new(limit),
            names: NamePool::new(limit.saturating_mul(256)),
            of_length: [0; MAX_COMPONENTS + 1],
            lengths: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, id: u32) -> &V {
        &self.table.get(id).value
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut V {
        &mut self.table.get_mut(id).value
    }

    pub(crate) fn hash_of(&self, id: u32) -> u64 {
        self.table.hash_of(id)
    }

    pub(crate) fn find(&self, hasher: &NameHasher, prefix: NameRef<'_>) -> Option<u32> {
        self.table.find(hasher.hash(prefix), |entry| self.names.equal(&entry.name, prefix.value()))
    }

    /// The entry of this prefix, added if there is none. `None` if it has more than [`MAX_COMPONENTS`] components or
    /// there is no room.
    pub(crate) fn find_or_insert(
        &mut self,
        hasher: &NameHasher,
        prefix: NameRef<'_>,
    ) -> Option<u32> {
        if let Some(id) = self.find(hasher, prefix) {
            return Some(id);
        }
        let components = prefix.len();
        if components > MAX_COMPONENTS {
            return None;
        }
        let mut name = self.names.store(prefix.value())?;
        if self.table.is_full() {
            self.names.release(&mut name);
            return None;
        }
        let entry = Prefix { name, components: components as u8, value: V::default() };
        let id = self.table.insert(hasher.hash(prefix), entry)?;
        self.of_length[components] += 1;
        self.lengths |= 1 << components;
        Some(id)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let entry = self.table.get_mut(id);
        let components = usize::from(entry.components);
        self.names.release(&mut entry.name);
        self.table.remove(id);
        self.of_length[components] -= 1;
        if self.of_length[components] == 0 {
            self.lengths &= !(1 << components);
        }
    }

    /// The entry of the longest prefix of `name`, and that prefix's number of components. `hashes` are those of `name`.
    #[inline]
    pub(crate) fn lookup(&self, name: NameRef<'_>, hashes: &NameHashes) -> Option<(usize, u32)> {
        let mut lengths = self.lengths & (u64::MAX >> (63 - hashes.len().min(MAX_COMPONENTS)));
        while lengths != 0 {
            let len = 63 - lengths.leading_zeros() as usize;
            lengths &= !(1 << len);
            let is_it = |entry: &Prefix<V>| {
                usize::from(entry.components) == len
                    && self.names.is_prefix_of(&entry.name, name.value())
            };
            if let Some(id) = hashes.of(len).and_then(|hash| self.table.find(hash, is_it)) {
                return Some((len, id));
            }
        }
        None
    }

    /// The numbers of all entries.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.ids()
    }

    /// The lowest number of an entry that is `from` or higher.
    pub(crate) fn first_from(&self, from: u32) -> Option<u32> {
        self.table.first_from(from)
    }

    /// The prefix of an entry, copied into `buffer`.
    pub(crate) fn name_of<'b>(&self, id: u32, buffer: &'b mut impl Flat<u8>) -> NameRef<'b> {
        let read = self.names.read(&self.table.get(id).name, buffer);
        // The stored bytes are a name. If the buffer is an array and too small, the result is `/`.
        let value = if read { buffer.as_slice() } else { &[] };
        NameRef::from_value(value).unwrap_or_default()
    }

    /// Whether `name` is a prefix of any entry's prefix.
    pub(crate) fn any_under(&self, name: NameRef<'_>) -> bool {
        self.table.ids().any(|id| self.names.starts_with(&self.table.get(id).name, name.value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Chunks;
    use xylem_packet::Name;

    type Table = Prefixes<u32, Chunks<TableSlot<Prefix<u32>>>, Vec<u32>, Chunks<SlabPlace<Piece>>>;

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    fn found(table: &Table, hasher: &NameHasher, uri: &str) -> Option<(usize, u32)> {
        let name = name(uri);
        let mut hashes = NameHashes::default();
        hasher.hash_prefixes(name.as_ref(), &mut hashes);
        table.lookup(name.as_ref(), &hashes).map(|(len, id)| (len, *table.get(id)))
    }

    #[test]
    fn the_longest_prefix_wins() {
        let hasher = NameHasher::new(1);
        let mut table = Table::new(100);
        for (value, uri) in ["/", "/a/b", "/a/b/c/d"].into_iter().enumerate() {
            let id = table.find_or_insert(&hasher, name(uri).as_ref()).unwrap();
            *table.get_mut(id) = value as u32;
            assert_eq!(table.find_or_insert(&hasher, name(uri).as_ref()), Some(id));
        }
        assert_eq!(found(&table, &hasher, "/x"), Some((0, 0)));
        assert_eq!(found(&table, &hasher, "/a"), Some((0, 0)));
        assert_eq!(found(&table, &hasher, "/a/b"), Some((2, 1)));
        assert_eq!(found(&table, &hasher, "/a/b/c"), Some((2, 1)));
        assert_eq!(found(&table, &hasher, "/a/b/c/d/e"), Some((4, 2)));
        assert!(table.any_under(name("/a/b/c").as_ref()));
        assert!(!table.any_under(name("/a/c").as_ref()));
        let id = table.find(&hasher, name("/a/b").as_ref()).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(name("/a/b"), table.name_of(id, &mut buffer));
        table.remove(id);
        assert_eq!(found(&table, &hasher, "/a/b/c"), Some((0, 0)));
        assert_eq!((table.len(), table.lengths), (2, 1 | 1 << 4));
    }

    #[test]
    fn a_very_long_name_is_looked_up_by_its_front() {
        let hasher = NameHasher::new(1);
        let mut table = Table::new(100);
        let at_limit = name(&"/x".repeat(MAX_COMPONENTS));
        assert!(table.find_or_insert(&hasher, at_limit.as_ref()).is_some());
        assert_eq!(found(&table, &hasher, &"/x".repeat(200)), Some((63, 0)));
        let over = name(&"/x".repeat(MAX_COMPONENTS + 1));
        assert!(table.find_or_insert(&hasher, over.as_ref()).is_none());
    }
}
