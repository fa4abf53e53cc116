//! The content store: a cache of Data that passed through.
//!
//! It is bounded in packets and bytes, and evicts the least recently used. Each packet has an allocation of its own,
//! which its place keeps for the next packet. A full store of packets of one size therefore allocates nothing. Packets
//! are copied in: a slice of a receive buffer would keep the whole buffer in memory while only the packet is counted.
//!
//! A tree has a node for every prefix of the packets' names ([`tree`]). An Interest with CanBePrefix is looked up from
//! its node down to a packet, newest arrivals first.
//!
//! Different packets of one name are chained, the newest first: an Interest may name one of them by its implicit digest.
//! Of a chain, each packet has the beginning of its digest, so that a lookup hashes one of them at most.

pub(crate) mod packet;
pub(crate) mod tree;

use xylem_packet::{Component, Data, Interest, NameRef};

use crate::memory::Flat;
use crate::name_hash::{NameHasher, NameHashes, ends_with_digest};
use crate::sha256;
use crate::slab::{NONE, Slab, SlabPlace};
use crate::storage::Storage;
use crate::{CsInfo, CsSettings, FaceId};
use packet::CsEntry;
use tree::NameTree;

/// Maximum number of nodes visited for a CanBePrefix lookup.
const MAX_VISITS: usize = 64;
/// Different packets of one name that are held, the newest.
const MAX_OF_NAME: usize = 4;
/// Approximate overhead of an allocation in bytes.
const ALLOCATION: usize = 16;

pub(crate) struct ContentStore<S: Storage> {
    info: CsInfo,
    entries: Slab<CsEntry<S::Packet>, S::Packets>,
    tree: NameTree<S::Nodes, S::Buckets>,
    newest: u32,
    oldest: u32,
    #[cfg(feature = "alloc")]
    second: SecondLevel,
}

/// The second level, if there is one, and a buffer for its packet.
#[cfg(feature = "alloc")]
#[derive(Default)]
struct SecondLevel {
    cache: Option<alloc::boxed::Box<dyn crate::SecondLevelCache + Send>>,
    packet: alloc::vec::Vec<u8>,
}

/// What the content store has for an Interest.
pub(crate) enum CsLookup<'a> {
    /// This Data.
    Found(&'a [u8]),
    /// Nothing.
    Absent,
    /// The second level reads it; the number of the read.
    #[cfg(feature = "alloc")]
    Reading(u64),
}

/// Bytes of an entry besides its packet and nodes.
fn entry_cost<S: Storage>() -> usize {
    size_of::<SlabPlace<CsEntry<S::Packet>>>() + ALLOCATION
}

/// The beginning of an implicit digest, which tells packets of one name apart; 0 if it is not known.
fn digest_start(digest: &[u8]) -> u32 {
    digest.first_chunk().map_or(0, |start| u32::from_le_bytes(*start))
}

/// The name to look up in the second level, and whether it may be a prefix. A digest at the end is compared afterwards.
#[cfg(feature = "alloc")]
fn second_level_name<'a>(interest: &Interest<'a>) -> (NameRef<'a>, bool) {
    match ends_with_digest(interest.name()) {
        true => (interest.name().parent(), false),
        false => (interest.name(), interest.can_be_prefix()),
    }
}

/// Whether a packet of the second level answers an Interest.
#[cfg(feature = "alloc")]
fn is_answer(packet: &[u8], interest: &Interest<'_>) -> bool {
    let Ok(data) = Data::decode(packet) else { return false };
    let (name, can_be_prefix) = second_level_name(interest);
    let fits = data.name() == name || (can_be_prefix && name.is_prefix_of(data.name()));
    let is_it = || {
        let digest = sha256(data.wire());
        interest.name().last() == Some(Component::implicit_digest(&digest))
    };
    fits && (!ends_with_digest(interest.name()) || is_it())
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
            tree: NameTree::new(),
            newest: NONE,
            oldest: NONE,
            #[cfg(feature = "alloc")]
            second: SecondLevel::default(),
        }
    }

    /// Whether the content store is enabled.
    pub(crate) fn is_enabled(&self) -> bool {
        self.info.capacity_bytes != 0 && self.info.capacity_packets != 0
    }

    /// The status without hit counts, which the forwarder has.
    pub(crate) fn info(&self) -> CsInfo {
        CsInfo { packets: self.entries.len(), bytes: self.bytes(), ..self.info }
    }

    fn bytes(&self) -> usize {
        self.info.bytes + self.tree.bytes()
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

    /// Stores a Data that was asked for. `hashes` are those of its name, `now` is in microseconds.
    #[inline]
    pub(crate) fn insert(&mut self, now: u64, data: &Data<'_>, hashes: &NameHashes) {
        if !self.info.admit || !self.is_enabled() {
            return;
        }
        let cost = data.wire().len() + entry_cost::<S>();
        // The packet and its nodes have to fit into an empty store.
        let nodes = NameTree::<S::Nodes, S::Buckets>::bytes_for(data.name());
        if cost + nodes > self.info.capacity_bytes {
            return;
        }
        let held = self.find_exact(data.name(), hashes.whole());
        let fresh_until = now.saturating_add(data.meta().freshness_ms.saturating_mul(1000));
        if let Some(first) = held
            && self.has_renewed(first, data.wire(), fresh_until)
        {
            return;
        }
        while self.oldest != NONE
            && (self.bytes() + cost > self.info.capacity_bytes
                || self.entries.len() >= self.info.capacity_packets)
        {
            self.evict();
        }
        let Some(id) = self.place(data) else { return };
        // Making room may have removed the others of this name.
        let held = held.and_then(|_| self.find_exact(data.name(), hashes.whole()));
        let leaf = match held {
            Some(first) => Some(self.chain_before(id, first)),
            None => self.find_or_make_leaf(data.name(), hashes),
        };
        let Some(leaf) = leaf else {
            self.entries.release(id);
            return;
        };
        self.tree.set_packet(leaf, id);
        let range = data.name_range();
        let entry = self.entries.get_mut(id);
        // A packet has at most 8800 bytes.
        (entry.name_start, entry.name_len) = (range.start as u16, range.len() as u16);
        (entry.fresh_until, entry.node) = (fresh_until, leaf);
        self.info.bytes += cost;
        self.put_newest(id);
        while self.is_over() {
            self.evict();
        }
    }

    /// Looks for this very packet among those of its name, from the first one on. If it is held, it counts as arrived
    /// again. If not, and there are as many as may be, the oldest is removed.
    #[cold]
    fn has_renewed(&mut self, first: u32, wire: &[u8], fresh_until: u64) -> bool {
        let same = |id: &u32| self.entries.get(*id).packet.as_slice() == wire;
        let Some(id) = self.entries.chain(first).find(same) else {
            let last = self.entries.chain(first).nth(MAX_OF_NAME - 1);
            if let Some(last) = last {
                self.remove(last);
            }
            return false;
        };
        let node = self.entries.get(id).node;
        if id != first {
            self.unchain(node, id);
            self.entries.set_next(id, first);
            self.tree.set_packet(node, id);
        }
        self.tree.move_to_front(node);
        self.entries.get_mut(id).fresh_until = fresh_until;
        self.take_out(id);
        self.put_newest(id);
        true
    }

    /// Chains a new packet before the others of its name. Returns their node.
    fn chain_before(&mut self, id: u32, first: u32) -> u32 {
        self.entries.set_next(id, first);
        let mut at = id;
        while at != NONE {
            let entry = self.entries.get_mut(at);
            if entry.digest_start == 0 {
                entry.digest_start = digest_start(&sha256(entry.packet.as_slice()));
            }
            at = self.entries.next(at);
        }
        let node = self.entries.get(first).node;
        self.tree.move_to_front(node);
        node
    }

    /// Takes a packet out of the chain of its name, which has others.
    fn unchain(&mut self, node: u32, id: u32) {
        let next = self.entries.next(id);
        let before = self.tree.packet(node).and_then(|first| {
            self.entries.chain(first).find(|before| self.entries.next(*before) == id)
        });
        match before {
            Some(before) => self.entries.set_next(before, next),
            None => self.tree.set_packet(node, next),
        }
        self.entries.set_next(id, NONE);
    }

    /// The node for a packet of this name. Evicts packets if there are too few nodes.
    fn find_or_make_leaf(&mut self, name: NameRef<'_>, hashes: &NameHashes) -> Option<u32> {
        loop {
            let leaf = self.tree.leaf(name, hashes);
            if leaf.is_some() || self.oldest == NONE {
                return leaf;
            }
            self.evict();
        }
    }

    /// A place with a copy of the packet. Evicts packets if there are too few places.
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
        let entry = self.entries.get_mut(id);
        entry.digest_start = 0;
        let packet = &mut entry.packet;
        packet.truncate(0);
        let kept = packet.extend(wire);
        packet.release_excess(wire.len());
        if !kept {
            self.entries.release(id);
            return None;
        }
        Some(id)
    }

    /// The Data that answers an Interest, if there is one. `hashes` are those of its name, `now` is in microseconds. The
    /// second level is asked if there is an asker.
    #[inline]
    pub(crate) fn find(
        &mut self,
        now: u64,
        interest: &Interest<'_>,
        hashes: &NameHashes,
        asker: Option<FaceId>,
    ) -> CsLookup<'_> {
        if !self.info.serve {
            return CsLookup::Absent;
        }
        let Some(found) = self.find_in_memory(now, interest, hashes) else {
            return match asker {
                Some(asker) => self.find_in_second_level(interest, asker),
                None => CsLookup::Absent,
            };
        };
        self.take_out(found);
        self.put_newest(found);
        CsLookup::Found(self.entries.get(found).packet.as_slice())
    }

    #[inline]
    fn find_in_memory(
        &self,
        now: u64,
        interest: &Interest<'_>,
        hashes: &NameHashes,
    ) -> Option<u32> {
        let name = interest.name();
        let usable =
            |id: &u32| !interest.must_be_fresh() || now < self.entries.get(*id).fresh_until;
        let mut found = self.first_of(self.find_exact(name, hashes.whole()), usable);
        if found.is_none() && ends_with_digest(name) {
            let first = self.find_exact(name.parent(), hashes.whole());
            let is_it = |id: &u32| usable(id) && self.has_full_name(*id, name);
            found = self.first_of(first, is_it);
        }
        if found.is_none() && interest.can_be_prefix() {
            found = self.find_under(name, hashes, usable);
        }
        found
    }

    #[cfg(not(feature = "alloc"))]
    fn find_in_second_level(&mut self, _interest: &Interest<'_>, _asker: FaceId) -> CsLookup<'_> {
        CsLookup::Absent
    }

    /// The Data that answers an Interest, from the second level, where freshness is unknown.
    #[cfg(feature = "alloc")]
    fn find_in_second_level(&mut self, interest: &Interest<'_>, asker: FaceId) -> CsLookup<'_> {
        use crate::SecondLevelAnswer::{Absent, Found, Reading};
        let SecondLevel { cache: Some(cache), packet } = &mut self.second else {
            return CsLookup::Absent;
        };
        if interest.must_be_fresh() {
            return CsLookup::Absent;
        }
        let (name, can_be_prefix) = second_level_name(interest);
        packet.clear();
        match cache.get(asker, name, can_be_prefix, packet) {
            Found if is_answer(packet, interest) => CsLookup::Found(packet),
            Found | Absent => CsLookup::Absent,
            Reading(read) => CsLookup::Reading(read),
        }
    }

    /// Takes in the next read of the second level that has ended. Returns its number.
    #[cfg(feature = "alloc")]
    pub(crate) fn next_read(&mut self) -> Option<u64> {
        let SecondLevel { cache: Some(cache), packet } = &mut self.second else { return None };
        packet.clear();
        cache.next_read(packet)
    }

    /// The Data that the read taken in last has for an Interest, unless answering was switched off meanwhile.
    #[cfg(feature = "alloc")]
    pub(crate) fn answer_read(&self, interest: &Interest<'_>) -> Option<&[u8]> {
        let packet = &self.second.packet[..];
        let serves = self.info.serve && self.is_enabled();
        (serves && is_answer(packet, interest)).then_some(packet)
    }

    #[cfg(feature = "alloc")]
    pub(crate) fn cancel_read(&mut self, read: Option<u64>) {
        if let (Some(cache), Some(read)) = (&mut self.second.cache, read) {
            cache.cancel(read);
        }
    }

    #[cfg(feature = "alloc")]
    pub(crate) fn set_second_level(
        &mut self,
        cache: Option<alloc::boxed::Box<dyn crate::SecondLevelCache + Send>>,
    ) {
        self.second.cache = cache;
    }

    #[inline]
    fn find_exact(&self, name: NameRef<'_>, hash: u64) -> Option<u32> {
        self.tree.packets(hash).find(|id| self.entries.get(*id).name() == name.value())
    }

    /// The first of the packets of one name that fits.
    #[inline]
    fn first_of(&self, first: Option<u32>, fits: impl Fn(&u32) -> bool) -> Option<u32> {
        let first = first?;
        match fits(&first) {
            true => Some(first),
            false => self.entries.chain(self.entries.next(first)).find(fits),
        }
    }

    fn has_full_name(&self, id: u32, full_name: NameRef<'_>) -> bool {
        let entry = self.entries.get(id);
        let Some(wanted) = full_name.last() else { return false };
        if entry.digest_start != 0 && entry.digest_start != digest_start(wanted.value()) {
            return false;
        }
        wanted == Component::implicit_digest(&sha256(entry.packet.as_slice()))
    }

    fn is_under(&self, id: u32, prefix: NameRef<'_>) -> bool {
        self.entries.get(id).name().starts_with(prefix.value())
    }

    /// A usable packet with a name that begins with `name`.
    fn find_under(
        &self,
        name: NameRef<'_>,
        hashes: &NameHashes,
        usable: impl Fn(&u32) -> bool,
    ) -> Option<u32> {
        let top = self.tree.top(name, hashes)?;
        let mut at = Some(top);
        for _ in 0..MAX_VISITS {
            let node = at?;
            let packet = self.first_of(self.tree.packet(node), &usable);
            if let Some(id) = packet.filter(|id| self.is_under(*id, name)) {
                return Some(id);
            }
            at = self.tree.following(node, top);
        }
        None
    }

    /// Removes packets under `prefix`, at most `limit`. Returns their number.
    pub(crate) fn erase(&mut self, hasher: &NameHasher, prefix: NameRef<'_>, limit: u64) -> u64 {
        let mut hashes = NameHashes::default();
        hasher.hash_prefixes(prefix, &mut hashes);
        let top = self.tree.top(prefix, &hashes);
        let (mut erased, mut at) = (0, top);
        while let (Some(node), Some(top)) = (at, top)
            && erased < limit
        {
            // The next node survives the removal, because it leads to another packet.
            at = self.tree.following(node, top);
            let mut packet = self.tree.packet(node).filter(|id| self.is_under(*id, prefix));
            while let Some(id) = packet
                && erased < limit
            {
                packet = Some(self.entries.next(id)).filter(|next| *next != NONE);
                self.remove(id);
                erased += 1;
            }
        }
        #[cfg(feature = "alloc")]
        if let Some(cache) = &mut self.second.cache {
            erased += cache.erase(prefix, limit - erased);
        }
        erased
    }

    /// Removes the least recently used packet, and moves it to the second level if there is one.
    fn evict(&mut self) {
        #[cfg(feature = "alloc")]
        if let Some(cache) = &mut self.second.cache {
            let entry = self.entries.get(self.oldest);
            if let Ok(name) = NameRef::from_value(entry.name()) {
                cache.put(name, entry.packet.as_slice());
            }
        }
        self.remove(self.oldest);
    }

    fn remove(&mut self, id: u32) {
        self.take_out(id);
        let entry = self.entries.get(id);
        let node = entry.node;
        self.info.bytes -= entry.packet.as_slice().len() + entry_cost::<S>();
        if self.tree.packet(node) == Some(id) && self.entries.next(id) == NONE {
            self.tree.remove_packet(node);
        } else {
            self.unchain(node, id);
        }
        self.entries.release(id);
    }
}

/// The order of use.
impl<S: Storage> ContentStore<S> {
    fn take_out(&mut self, id: u32) {
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

    fn put_newest(&mut self, id: u32) {
        let before = core::mem::replace(&mut self.newest, id);
        let entry = self.entries.get_mut(id);
        (entry.newer, entry.older) = (NONE, before);
        match before {
            NONE => self.oldest = id,
            before => self.entries.get_mut(before).newer = id,
        }
    }
}
