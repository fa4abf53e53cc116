//! The forwarding information base: which faces lead to which names.

use hashbrown::HashTable;
use xylem_packet::{Name, NameRef};

use crate::FaceId;
use crate::name_hash::NameHasher;

/// Routes are looked for among prefixes of at most this many components.
pub(crate) const MAX_ROUTE_COMPONENTS: usize = 63;

/// One way to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Over this face.
    pub face: FaceId,
    /// The cheapest is tried first.
    pub cost: u32,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    prefix: Name,
    /// Cheapest first; of equals, the lower face number.
    next_hops: Vec<NextHop>,
}

#[derive(Debug)]
pub(crate) struct Fib {
    table: HashTable<Entry>,
    /// How many entries have n components; bit n of `lengths` says that there are any.
    count_of_length: [u32; MAX_ROUTE_COMPONENTS + 1],
    lengths: u64,
    routes: usize,
}

impl Default for Fib {
    fn default() -> Self {
        Fib {
            table: HashTable::new(),
            count_of_length: [0; MAX_ROUTE_COMPONENTS + 1],
            lengths: 0,
            routes: 0,
        }
    }
}

impl Fib {
    /// Number of (prefix, next hop) pairs.
    pub(crate) fn len(&self) -> usize {
        self.routes
    }

    /// Number of prefixes.
    pub(crate) fn prefixes(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn for_each(&self, f: &mut dyn FnMut(NameRef<'_>, &[NextHop])) {
        self.table.iter().for_each(|entry| f(entry.prefix.as_ref(), &entry.next_hops));
    }

    /// Adds a next hop or changes its cost. The prefix has at most [`MAX_ROUTE_COMPONENTS`].
    pub(crate) fn insert(&mut self, hasher: &NameHasher, prefix: NameRef<'_>, hop: NextHop) {
        let hash = hasher.hash(prefix);
        let entry = self
            .table
            .entry(hash, |entry| entry.prefix == prefix, |entry| entry.hash)
            .or_insert_with(|| {
                self.count_of_length[prefix.len()] += 1;
                self.lengths |= 1 << prefix.len();
                Entry { hash, prefix: prefix.to_name(), next_hops: Vec::new() }
            })
            .into_mut();
        let before = entry.next_hops.len();
        entry.next_hops.retain(|old| old.face != hop.face);
        self.routes -= before - entry.next_hops.len();
        let at = entry.next_hops.partition_point(|o| (o.cost, o.face) < (hop.cost, hop.face));
        entry.next_hops.insert(at, hop);
        self.routes += 1;
    }

    /// Removes one next hop; true if it was there.
    pub(crate) fn remove(
        &mut self,
        hasher: &NameHasher,
        prefix: NameRef<'_>,
        face: FaceId,
    ) -> bool {
        let hash = hasher.hash(prefix);
        let Ok(mut found) = self.table.find_entry(hash, |entry| entry.prefix == prefix) else {
            return false;
        };
        let next_hops = &mut found.get_mut().next_hops;
        let before = next_hops.len();
        next_hops.retain(|hop| hop.face != face);
        let removed = before - next_hops.len();
        if next_hops.is_empty() {
            found.remove();
            self.forget_length(prefix.len());
        }
        self.routes -= removed;
        removed != 0
    }

    /// Removes every next hop over `face`.
    pub(crate) fn remove_face(&mut self, face: FaceId) {
        let mut emptied = Vec::new();
        let mut removed = 0;
        self.table.retain(|entry| {
            let before = entry.next_hops.len();
            entry.next_hops.retain(|hop| hop.face != face);
            removed += before - entry.next_hops.len();
            if entry.next_hops.is_empty() {
                emptied.push(entry.prefix.len());
            }
            !entry.next_hops.is_empty()
        });
        self.routes -= removed;
        emptied.into_iter().for_each(|len| self.forget_length(len));
    }

    fn forget_length(&mut self, len: usize) {
        self.count_of_length[len] -= 1;
        if self.count_of_length[len] == 0 {
            self.lengths &= !(1 << len);
        }
    }

    /// The next hops of the longest prefix of `name` that has any, and that prefix's number of
    /// components. `hashes` are those of the name's prefixes.
    #[inline]
    pub(crate) fn lookup(&self, name: NameRef<'_>, hashes: &[u64]) -> Option<(usize, &[NextHop])> {
        let longest = name.len().min(MAX_ROUTE_COMPONENTS).min(hashes.len().saturating_sub(1));
        let mut lengths = self.lengths & (u64::MAX >> (63 - longest));
        while lengths != 0 {
            let len = 63 - lengths.leading_zeros() as usize;
            lengths &= !(1 << len);
            let is_it = |e: &Entry| e.prefix.len() == len && e.prefix.as_ref().is_prefix_of(name);
            if let Some(entry) = self.table.find(hashes[len], is_it) {
                return Some((len, &entry.next_hops));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    fn found(fib: &Fib, hasher: &NameHasher, uri: &str) -> Option<(usize, Vec<u64>)> {
        let name = name(uri);
        let mut hashes = Vec::new();
        hasher.hash_prefixes(name.as_ref(), &mut hashes);
        let (len, hops) = fib.lookup(name.as_ref(), &hashes)?;
        Some((len, hops.iter().map(|hop| hop.face.0).collect()))
    }

    #[test]
    fn the_longest_prefix_wins_and_the_cheapest_hop_is_first() {
        let hasher = NameHasher::new(1);
        let mut fib = Fib::default();
        let mut add = |uri: &str, face, cost| {
            let hop = NextHop { face: FaceId(face), cost };
            fib.insert(&hasher, name(uri).as_ref(), hop);
        };
        add("/", 1, 5);
        add("/a/b", 2, 9);
        add("/a/b", 3, 1);
        add("/a/b/c/d", 4, 0);
        add("/a/b", 2, 1);
        assert_eq!(fib.len(), 4);
        assert_eq!(found(&fib, &hasher, "/x"), Some((0, vec![1])));
        assert_eq!(found(&fib, &hasher, "/a"), Some((0, vec![1])));
        assert_eq!(found(&fib, &hasher, "/a/b"), Some((2, vec![2, 3])));
        assert_eq!(found(&fib, &hasher, "/a/b/c"), Some((2, vec![2, 3])));
        assert_eq!(found(&fib, &hasher, "/a/b/c/d/e"), Some((4, vec![4])));

        assert!(fib.remove(&hasher, name("/a/b").as_ref(), FaceId(2)));
        assert!(!fib.remove(&hasher, name("/a/b").as_ref(), FaceId(2)));
        assert!(!fib.remove(&hasher, name("/a").as_ref(), FaceId(2)));
        assert_eq!(found(&fib, &hasher, "/a/b/c"), Some((2, vec![3])));
        fib.remove_face(FaceId(3));
        fib.remove_face(FaceId(1));
        assert_eq!(found(&fib, &hasher, "/a/b/c"), None);
        assert_eq!(fib.len(), 1);
        assert_eq!(fib.lengths, 1 << 4);
    }

    #[test]
    fn a_very_long_name_is_looked_up_by_its_front() {
        let hasher = NameHasher::new(1);
        let mut fib = Fib::default();
        let long = "/x".repeat(200);
        let at_limit = name(&"/x".repeat(MAX_ROUTE_COMPONENTS));
        let hop = NextHop { face: FaceId(1), cost: 0 };
        fib.insert(&hasher, at_limit.as_ref(), hop);
        assert_eq!(found(&fib, &hasher, &long), Some((63, vec![1])));
    }
}
