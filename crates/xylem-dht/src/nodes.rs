//! [`NodeCache`]: nodes of one family that have answered, so that later lookups start warm.

use core::cmp::Reverse;
use core::net::SocketAddr;

use crate::address::{AddressScope, Host};
use crate::id::DhtId;

/// Parts of the space of ids, by their first five bits, that hold nodes of their own.
const BUCKETS: usize = 32;
/// Most nodes of one part.
const BUCKET_NODES: usize = 8;
/// Unanswered queries in a row after which a node is dropped.
const MAX_FAILURES: u8 = 2;
/// Nodes beside those that the network was entered by. With fewer, these are asked for targets too.
const ENOUGH_OTHERS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct CachedNode {
    id: DhtId,
    at: SocketAddr,
    failures: u8,
    /// Count of answers, of all nodes, at its last one.
    answered: u64,
    /// Whether the network was entered here. Such nodes are asked by many, so they learn no targets if others can be
    /// asked.
    entry: bool,
}

/// Nodes that have answered, 256 at most. An attacker with one address has one place.
#[derive(Debug)]
pub(crate) struct NodeCache {
    buckets: [Vec<CachedNode>; BUCKETS],
    scope: AddressScope,
    answers: u64,
}

impl NodeCache {
    pub(crate) fn new(scope: AddressScope) -> Self {
        Self { buckets: [const { Vec::new() }; BUCKETS], scope, answers: 0 }
    }

    pub(crate) fn set_scope(&mut self, scope: AddressScope) {
        self.scope = scope;
    }

    fn all(&self) -> impl Iterator<Item = &CachedNode> {
        self.buckets.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.all().count()
    }

    /// Adds a node that has answered under this id.
    pub(crate) fn insert(&mut self, id: DhtId, at: SocketAddr, entry: bool) {
        self.answers = self.answers.saturating_add(1);
        let (host, answered) = (Host::of(at, self.scope), self.answers);
        let place = usize::from(id.0[0] >> 3);
        let scope = self.scope;
        for (number, bucket) in self.buckets.iter_mut().enumerate() {
            bucket.retain(|node| {
                let same = node.at == at && node.id == id && number == place;
                same || Host::of(node.at, scope) != host
            });
        }
        let Some(bucket) = self.buckets.get_mut(place) else { return };
        let node = CachedNode { id, at, failures: 0, answered, entry };
        if let Some(known) = bucket.iter_mut().find(|known| known.at == at) {
            *known = node;
        } else if bucket.len() < BUCKET_NODES {
            bucket.push(node);
        } else if let Some(worst) =
            bucket.iter_mut().max_by_key(|known| (known.failures, Reverse(known.answered)))
        {
            // Newcomers may be many and of one attacker: unless their ids are bound to their addresses, they replace
            // only a node that has failed or has such an id itself.
            let stale = worst.failures > 0 || !worst.id.is_bound_to(worst.at.ip());
            if stale || id.is_bound_to(at.ip()) {
                *worst = node;
            }
        }
    }

    /// Notes an unanswered query.
    pub(crate) fn fail(&mut self, at: SocketAddr) {
        for bucket in &mut self.buckets {
            for node in bucket.iter_mut().filter(|node| node.at == at) {
                node.failures = node.failures.saturating_add(1);
            }
            bucket.retain(|node| node.failures < MAX_FAILURES);
        }
    }

    /// The nodes closest to a target.
    pub(crate) fn nearest(&self, target: &DhtId, most: usize) -> Vec<(DhtId, SocketAddr)> {
        let others = self.all().filter(|node| !node.entry).count();
        let takes_entries = others < ENOUGH_OTHERS;
        let mut nodes: Vec<_> = self.all().filter(|node| takes_entries || !node.entry).collect();
        nodes.sort_by_key(|node| node.id.distance(target));
        nodes.into_iter().take(most).map(|node| (node.id, node.at)).collect()
    }

    /// The nodes that have answered last.
    pub(crate) fn latest(&self, most: usize) -> Vec<SocketAddr> {
        let mut nodes: Vec<_> = self.all().collect();
        nodes.sort_by_key(|node| (node.failures, Reverse(node.answered)));
        nodes.into_iter().take(most).map(|node| node.at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u32) -> (DhtId, SocketAddr) {
        let mut id = [0; 20];
        id[..4].copy_from_slice(&(n.wrapping_mul(0x9e37_79b9)).to_be_bytes());
        (DhtId(id), SocketAddr::from(((0x0800_0000_u32 + n).to_be_bytes(), 1)))
    }

    #[test]
    fn nodes_are_bounded_and_one_address_has_one_place() {
        let mut cache = NodeCache::new(AddressScope::Global);
        for n in 0..5_000 {
            let (id, at) = node(n);
            cache.insert(id, at, false);
        }
        assert!((200..=BUCKETS * BUCKET_NODES).contains(&cache.len()), "{}", cache.len());
        let before = cache.len();
        for n in 0..5_000 {
            cache.insert(node(n).0, "9.9.9.9:7".parse().unwrap(), false);
        }
        assert!(cache.len() <= before + 1);
        let of_one = cache.latest(1_000).into_iter().filter(|at| at.ip().to_string() == "9.9.9.9");
        assert!(of_one.count() <= 1);
    }

    #[test]
    fn a_node_that_is_silent_twice_is_dropped() {
        let mut cache = NodeCache::new(AddressScope::Global);
        let (id, at) = node(1);
        cache.insert(id, at, false);
        cache.fail(at);
        cache.insert(id, at, false);
        cache.fail(at);
        assert_eq!(cache.len(), 1);
        cache.fail(at);
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn entry_nodes_learn_no_targets_once_others_are_known() {
        let mut cache = NodeCache::new(AddressScope::Global);
        let (id, entry) = node(1);
        cache.insert(id, entry, true);
        assert_eq!(cache.nearest(&id, 8).len(), 1);
        for n in 2..20 {
            let (id, at) = node(n);
            cache.insert(id, at, false);
        }
        assert!(!cache.nearest(&id, 100).iter().any(|(_, at)| *at == entry));
        assert!(cache.latest(100).contains(&entry));
    }
}
