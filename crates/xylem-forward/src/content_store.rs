//! The content store: Data that passed through, kept for the next who asks.
//!
//! Bounded in packets and bytes; the least recently used goes first. Each packet has an allocation
//! of its own, which its place keeps for the next packet, so that a full store of packets of one
//! size allocates nothing. A packet is copied in: a slice of a receive buffer would keep all of the
//! buffer in memory while only the packet is counted.
//!
//! Beside the packets there is a tree with a node for every prefix of their names, found by hash.
//! An Interest with CanBePrefix goes from its node down to a packet, newest arrivals first. A node
//! knows no name: two prefixes of the same hash and length would share one, which costs a wrong
//! candidate, never a wrong answer, since a candidate's name is compared.

use xylem_packet::{Component, Data, Interest, NameRef};

use crate::name_hash::{NameHasher, NameHashes};
use crate::pit::ends_with_digest;
use crate::sha256;
use crate::slab::{NONE, Slab};
use crate::storage::{Flat, Storage};
use crate::table::Table;
use crate::{CsInfo, CsSettings};

/// How many nodes a CanBePrefix look-up visits.
const MAX_VISITS: usize = 64;
/// Prefixes longer than this have no nodes.
const MAX_DEPTH: usize = 32;
/// In a node: its packet is being put into place.
const RESERVED: u32 = NONE - 1;
/// What an allocation costs beside its bytes, roughly.
const ALLOCATION: usize = 16;

/// A packet.
#[derive(Debug)]
pub struct CsEntry<P> {
    packet: P,
    /// Where in it the name's value lies.
    name_start: u16,
    name_len: u16,
    /// Microseconds.
    fresh_until: u64,
    newer: u32,
    older: u32,
    node: u32,
}

impl<P: Default> Default for CsEntry<P> {
    fn default() -> Self {
        CsEntry {
            packet: P::default(),
            name_start: 0,
            name_len: 0,
            fresh_until: 0,
            newer: NONE,
            older: NONE,
            node: NONE,
        }
    }
}

impl<P: Flat<u8>> CsEntry<P> {
    fn name(&self) -> &[u8] {
        let start = usize::from(self.name_start);
        &self.packet.as_slice()[start..start + usize::from(self.name_len)]
    }
}

/// A name or a prefix of names in the store; its hash lies in the table.
#[derive(Debug)]
pub struct Node {
    parent: u32,
    first_child: u32,
    before: u32,
    after: u32,
    /// The packet of exactly this name.
    entry: u32,
    depth: u16,
}

impl Default for Node {
    fn default() -> Self {
        Node { parent: NONE, first_child: NONE, before: NONE, after: NONE, entry: NONE, depth: 0 }
    }
}

pub(crate) struct ContentStore<S: Storage> {
    info: CsInfo,
    entries: Slab<CsEntry<S::Packet>, S::Packets>,
    nodes: Table<Node, S::Nodes, S::Buckets>,
    newest: u32,
    oldest: u32,
    #[cfg(feature = "alloc")]
    second: SecondLevel,
}

/// The shelf, if there is one, and room for a packet of it.
#[cfg(feature = "alloc")]
#[derive(Default)]
struct SecondLevel {
    shelf: Option<alloc::boxed::Box<dyn crate::Shelf + Send>>,
    packet: alloc::vec::Vec<u8>,
}

/// Bytes that an entry takes beside its packet and nodes, and those of a node, bucket included.
fn entry_cost<S: Storage>() -> usize {
    size_of::<crate::slab::Linked<CsEntry<S::Packet>>>() + ALLOCATION
}

fn node_cost() -> usize {
    size_of::<crate::table::Slot<Node>>() + 8
}

impl<S: Storage> ContentStore<S> {
    pub(crate) fn new(capacity_bytes: usize, capacity_packets: usize) -> Self {
        ContentStore {
            info: CsInfo {
                capacity_packets,
                capacity_bytes,
                admit: true,
                serve: true,
                ..CsInfo::default()
            },
            entries: Slab::new(usize::MAX),
            nodes: Table::new(usize::MAX),
            newest: NONE,
            oldest: NONE,
            #[cfg(feature = "alloc")]
            second: SecondLevel::default(),
        }
    }

    /// Is there one?
    pub(crate) fn is_enabled(&self) -> bool {
        self.info.capacity_bytes != 0 && self.info.capacity_packets != 0
    }

    /// What it is like, but for its luck, which the forwarder counts.
    pub(crate) fn info(&self) -> CsInfo {
        CsInfo { packets: self.entries.len(), bytes: self.bytes(), ..self.info }
    }

    fn bytes(&self) -> usize {
        self.info.bytes + self.nodes.len() * node_cost()
    }

    pub(crate) fn configure(&mut self, settings: CsSettings) {
        let info = &mut self.info;
        info.capacity_bytes = settings.capacity_bytes.unwrap_or(info.capacity_bytes);
        info.capacity_packets = settings.capacity_packets.unwrap_or(info.capacity_packets);
        info.admit = settings.admit.unwrap_or(info.admit);
        info.serve = settings.serve.unwrap_or(info.serve);
        while self.is_over() {
            self.evict();
        }
    }

    fn is_over(&self) -> bool {
        self.oldest != NONE
            && (self.bytes() > self.info.capacity_bytes
                || self.entries.len() > self.info.capacity_packets)
    }

    /// Keeps a Data that was asked for. `hashes` are those of its name, `now` microseconds.
    #[inline]
    pub(crate) fn insert(&mut self, now: u64, data: &Data<'_>, hashes: &NameHashes) {
        if !self.info.admit || !self.is_enabled() {
            return;
        }
        let cost = data.wire().len() + entry_cost::<S>();
        // With the nodes that it needs at least it must fit into an empty store.
        let nodes = (data.name().len().min(MAX_DEPTH) + 1) * node_cost();
        if cost + nodes > self.info.capacity_bytes {
            return;
        }
        if let Some(old) = self.find_exact(data.name(), hashes.whole()) {
            self.remove(old);
        }
        while self.oldest != NONE
            && (self.bytes() + cost > self.info.capacity_bytes
                || self.entries.len() >= self.info.capacity_packets)
        {
            self.evict();
        }
        let Some(node) = self.find_or_make_leaf(data.name(), hashes) else { return };
        // Taken, so that making room does not remove it.
        self.nodes.get_mut(node).entry = RESERVED;
        let Some(id) = self.place(data) else {
            self.nodes.get_mut(node).entry = NONE;
            self.prune(node);
            return;
        };
        let range = data.name_range();
        let entry = self.entries.get_mut(id);
        // A packet has at most 8800 bytes.
        (entry.name_start, entry.name_len) = (range.start as u16, range.len() as u16);
        entry.fresh_until = now.saturating_add(data.meta().freshness_ms.saturating_mul(1000));
        entry.node = node;
        self.nodes.get_mut(node).entry = id;
        self.info.bytes += cost;
        self.link_newest(id);
        while self.is_over() {
            self.evict();
        }
    }

    /// A place with a copy of the packet; makes room where places are few.
    fn place(&mut self, data: &Data<'_>) -> Option<u32> {
        let wire = data.wire();
        let id = match self.entries.reuse() {
            Some(id) => id,
            None => match self.entries.insert(CsEntry::default(), NONE) {
                Some(id) => id,
                None if self.oldest == NONE => return None,
                None => {
                    self.evict();
                    self.entries.reuse()?
                }
            },
        };
        let packet = &mut self.entries.get_mut(id).packet;
        packet.truncate(0);
        let kept = packet.extend(wire);
        packet.give_back(wire.len());
        if !kept {
            self.entries.release(id);
            return None;
        }
        Some(id)
    }

    /// The Data that answers an Interest, if there is one. `hashes` are those of its name, `now`
    /// microseconds.
    #[inline]
    pub(crate) fn find(
        &mut self,
        now: u64,
        interest: &Interest<'_>,
        hashes: &NameHashes,
    ) -> Option<&[u8]> {
        if !self.info.serve {
            return None;
        }
        let name = interest.name();
        let usable =
            |id: &u32| !interest.must_be_fresh() || now < self.entries.get(*id).fresh_until;
        let mut found = self.find_exact(name, hashes.whole()).filter(usable);
        if found.is_none() && ends_with_digest(name) {
            found = self
                .find_exact(name.parent(), hashes.whole())
                .filter(usable)
                .filter(|id| self.has_full_name(*id, name));
        }
        if found.is_none() && interest.can_be_prefix() {
            found = self.find_under(name, hashes, usable);
        }
        let Some(found) = found else { return self.find_on_shelf(interest) };
        self.unlink(found);
        self.link_newest(found);
        Some(self.entries.get(found).packet.as_slice())
    }

    #[cfg(not(feature = "alloc"))]
    fn find_on_shelf(&mut self, _interest: &Interest<'_>) -> Option<&[u8]> {
        None
    }

    /// The Data that answers an Interest, from the shelf. When it came is not known there.
    #[cfg(feature = "alloc")]
    fn find_on_shelf(&mut self, interest: &Interest<'_>) -> Option<&[u8]> {
        let SecondLevel { shelf: Some(shelf), packet } = &mut self.second else { return None };
        if interest.must_be_fresh() {
            return None;
        }
        let by_digest = ends_with_digest(interest.name());
        let name = if by_digest { interest.name().parent() } else { interest.name() };
        let can_be_prefix = interest.can_be_prefix() && !by_digest;
        packet.clear();
        if !shelf.get(name, can_be_prefix, packet) {
            return None;
        }
        let data = Data::decode(packet).ok()?;
        let fits = data.name() == name || (can_be_prefix && name.is_prefix_of(data.name()));
        let is_it = || {
            let digest = sha256(data.wire());
            interest.name().last() == Some(Component::implicit_digest(&digest))
        };
        (fits && (!by_digest || is_it())).then_some(&packet[..])
    }

    #[cfg(feature = "alloc")]
    pub(crate) fn set_shelf(&mut self, shelf: Option<alloc::boxed::Box<dyn crate::Shelf + Send>>) {
        self.second.shelf = shelf;
    }

    #[inline]
    fn find_exact(&self, name: NameRef<'_>, hash: u64) -> Option<u32> {
        self.nodes
            .with_hash(hash)
            .map(|node| self.nodes.get(node).entry)
            .find(|entry| *entry != NONE && self.entries.get(*entry).name() == name.value())
    }

    fn has_full_name(&self, id: u32, full_name: NameRef<'_>) -> bool {
        let digest = sha256(self.entries.get(id).packet.as_slice());
        full_name.last() == Some(Component::implicit_digest(&digest))
    }

    /// A usable packet whose name begins with `name`.
    fn find_under(
        &self,
        name: NameRef<'_>,
        hashes: &NameHashes,
        usable: impl Fn(&u32) -> bool,
    ) -> Option<u32> {
        let top = self.node_of(name.len().min(MAX_DEPTH), hashes)?;
        let mut at = Some(top);
        for _ in 0..MAX_VISITS {
            let node = at?;
            let entry = self.nodes.get(node).entry;
            if entry != NONE
                && usable(&entry)
                && self.entries.get(entry).name().starts_with(name.value())
            {
                return Some(entry);
            }
            at = self.following(node, top);
        }
        None
    }

    /// Removes packets under `prefix`, at most `limit`; gives how many.
    pub(crate) fn erase(&mut self, hasher: &NameHasher, prefix: NameRef<'_>, limit: u64) -> u64 {
        let mut hashes = NameHashes::default();
        hasher.hash_prefixes(prefix, &mut hashes);
        let top = self.node_of(prefix.len().min(MAX_DEPTH), &hashes);
        let (mut erased, mut at) = (0, top);
        while let (Some(node), Some(top)) = (at, top)
            && erased < limit
        {
            // The node after this one outlives its packet: it leads to another.
            at = self.following(node, top);
            let entry = self.nodes.get(node).entry;
            if entry != NONE && self.entries.get(entry).name().starts_with(prefix.value()) {
                self.remove(entry);
                erased += 1;
            }
        }
        #[cfg(feature = "alloc")]
        if let Some(shelf) = &mut self.second.shelf {
            erased += shelf.erase(prefix, limit - erased);
        }
        erased
    }

    /// Makes room: the packet that was used longest ago goes, to the shelf if there is one.
    fn evict(&mut self) {
        #[cfg(feature = "alloc")]
        if let Some(shelf) = &mut self.second.shelf {
            let entry = self.entries.get(self.oldest);
            if let Ok(name) = NameRef::from_value(entry.name()) {
                shelf.put(name, entry.packet.as_slice());
            }
        }
        self.remove(self.oldest);
    }

    fn remove(&mut self, id: u32) {
        self.unlink(id);
        let entry = self.entries.get(id);
        let node = entry.node;
        self.info.bytes -= entry.packet.as_slice().len() + entry_cost::<S>();
        self.entries.release(id);
        self.nodes.get_mut(node).entry = NONE;
        self.prune(node);
    }
}

/// The order of use.
impl<S: Storage> ContentStore<S> {
    fn unlink(&mut self, id: u32) {
        let CsEntry { newer, older, .. } = *self.entries.get(id);
        match newer {
            NONE => self.newest = older,
            newer => self.entries.get_mut(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries.get_mut(older).newer = newer,
        }
    }

    fn link_newest(&mut self, id: u32) {
        let before = core::mem::replace(&mut self.newest, id);
        let entry = self.entries.get_mut(id);
        (entry.newer, entry.older) = (NONE, before);
        match before {
            NONE => self.oldest = id,
            before => self.entries.get_mut(before).newer = id,
        }
    }
}

/// The tree of names.
impl<S: Storage> ContentStore<S> {
    fn node_of(&self, depth: usize, hashes: &NameHashes) -> Option<u32> {
        self.nodes.find(hashes.of(depth)?, |node| usize::from(node.depth) == depth)
    }

    /// The node for a packet of this name, with all nodes above it, each first among its siblings.
    fn find_or_make_leaf(&mut self, name: NameRef<'_>, hashes: &NameHashes) -> Option<u32> {
        let depth = name.len().min(MAX_DEPTH + 1);
        let hash = if depth > MAX_DEPTH { hashes.whole() } else { hashes.of(depth)? };
        // Another packet's node, of the same hash and depth, is no place for this one.
        let leaf = self.nodes.find(hash, |n| usize::from(n.depth) == depth && n.entry == NONE);
        if let Some(leaf) = leaf {
            self.move_to_front(leaf);
            return Some(leaf);
        }
        let leaf = self.make_node(hash, depth)?;
        let mut child = leaf;
        for depth in (0..depth).rev() {
            if let Some(parent) = self.node_of(depth, hashes) {
                self.link_child(parent, child);
                self.move_to_front(parent);
                break;
            }
            let made = hashes.of(depth).and_then(|hash| self.make_node(hash, depth));
            let Some(parent) = made else {
                self.prune(leaf);
                return None;
            };
            self.link_child(parent, child);
            child = parent;
        }
        Some(leaf)
    }

    /// A node without relations; makes room where nodes are few.
    fn make_node(&mut self, hash: u64, depth: usize) -> Option<u32> {
        while self.nodes.is_full() && self.oldest != NONE {
            self.evict();
        }
        self.nodes.insert(hash, Node { depth: depth as u16, ..Node::default() })
    }

    fn link_child(&mut self, parent: u32, child: u32) {
        let after = core::mem::replace(&mut self.nodes.get_mut(parent).first_child, child);
        if after != NONE {
            self.nodes.get_mut(after).before = child;
        }
        let node = self.nodes.get_mut(child);
        (node.parent, node.before, node.after) = (parent, NONE, after);
    }

    fn unlink_child(&mut self, child: u32) {
        let Node { parent, before, after, .. } = *self.nodes.get(child);
        if after != NONE {
            self.nodes.get_mut(after).before = before;
        }
        if before != NONE {
            self.nodes.get_mut(before).after = after;
        } else if parent != NONE {
            self.nodes.get_mut(parent).first_child = after;
        }
    }

    /// Puts a node, and those above it, before their siblings.
    fn move_to_front(&mut self, mut node: u32) {
        while node != NONE {
            let Node { parent, before, .. } = *self.nodes.get(node);
            if before != NONE {
                self.unlink_child(node);
                self.link_child(parent, node);
            }
            node = parent;
        }
    }

    /// Removes a node and those above it, as far as they lead to no packet.
    fn prune(&mut self, mut node: u32) {
        while node != NONE {
            let Node { parent, first_child, entry, .. } = *self.nodes.get(node);
            if first_child != NONE || entry != NONE {
                return;
            }
            self.unlink_child(node);
            self.nodes.remove(node);
            node = parent;
        }
    }

    /// The node after this one, children first, in the tree under `top`.
    fn following(&self, mut node: u32, top: u32) -> Option<u32> {
        let first_child = self.nodes.get(node).first_child;
        if first_child != NONE {
            return Some(first_child);
        }
        while node != top {
            let Node { parent, after, .. } = *self.nodes.get(node);
            if after != NONE {
                return Some(after);
            }
            node = parent;
        }
        None
    }
}
