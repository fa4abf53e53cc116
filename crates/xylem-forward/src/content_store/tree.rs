//! The tree of names of the packets in the content store: a node for every prefix, found by hash.
//!
//! A node stores no name. Two prefixes with the same hash and length share one, which costs a wrong candidate but never
//! a wrong answer, because a candidate's name is compared.

use xylem_packet::NameRef;

use crate::memory::{Flat, Slots};
use crate::name_hash::NameHashes;
use crate::slab::NONE;
use crate::table::{SlotTable, TableSlot};

/// Prefixes longer than this have no nodes.
const MAX_DEPTH: usize = 32;
/// Bytes of a node, including its bucket in the table.
const NODE_BYTES: usize = size_of::<TableSlot<NameNode>>() + 8;

/// A name or a prefix of names in the store; its hash lies in the table.
#[derive(Debug)]
pub struct NameNode {
    parent: u32,
    first_child: u32,
    before: u32,
    after: u32,
    /// The packet with exactly this name, the newest of several.
    packet: u32,
    depth: u16,
}

impl Default for NameNode {
    fn default() -> Self {
        NameNode {
            parent: NONE,
            first_child: NONE,
            before: NONE,
            after: NONE,
            packet: NONE,
            depth: 0,
        }
    }
}

/// The tree, over the memory of its nodes and of their table's buckets.
pub(super) struct NameTree<N, B> {
    nodes: SlotTable<NameNode, N, B>,
}

impl<N: Slots<TableSlot<NameNode>>, B: Flat<u32>> NameTree<N, B> {
    pub(super) fn new() -> Self {
        NameTree { nodes: SlotTable::new(usize::MAX) }
    }

    /// Bytes of all nodes.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.len() * NODE_BYTES
    }

    /// Maximum bytes of the nodes of one packet with this name.
    pub(super) fn bytes_for(name: NameRef<'_>) -> usize {
        (name.len().min(MAX_DEPTH) + 1) * NODE_BYTES
    }

    /// The packet with exactly the name of this node, the newest of several.
    pub(super) fn packet(&self, node: u32) -> Option<u32> {
        Some(self.nodes.get(node).packet).filter(|packet| *packet != NONE)
    }

    /// The packets with whole names that have this hash, the newest of each name.
    #[inline]
    pub(super) fn packets(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        self.nodes.with_hash(hash).filter_map(|node| self.packet(node))
    }

    /// Sets the packet of a leaf, or the newest of several.
    pub(super) fn set_packet(&mut self, leaf: u32, packet: u32) {
        self.nodes.get_mut(leaf).packet = packet;
    }

    /// Removes the only packet from its node, and the nodes that lead to no packet any more.
    pub(super) fn remove_packet(&mut self, node: u32) {
        self.nodes.get_mut(node).packet = NONE;
        self.prune(node);
    }

    /// The node above all packets under `name`: its own or, for a very long name, one above.
    pub(super) fn top(&self, name: NameRef<'_>, hashes: &NameHashes) -> Option<u32> {
        self.node_at(name.len().min(MAX_DEPTH), hashes)
    }

    fn node_at(&self, depth: usize, hashes: &NameHashes) -> Option<u32> {
        self.nodes.find(hashes.of(depth)?, |node| usize::from(node.depth) == depth)
    }

    /// The node for a packet of this name, with all nodes above it, each first among its siblings. `None` if there is
    /// no room.
    pub(super) fn leaf(&mut self, name: NameRef<'_>, hashes: &NameHashes) -> Option<u32> {
        let depth = name.len().min(MAX_DEPTH + 1);
        let hash = if depth > MAX_DEPTH { hashes.whole() } else { hashes.of(depth)? };
        // A node of the same hash and depth that has another packet cannot be used.
        let leaf = self.nodes.find(hash, |n| usize::from(n.depth) == depth && n.packet == NONE);
        if let Some(leaf) = leaf {
            self.move_to_front(leaf);
            return Some(leaf);
        }
        let leaf = self.make_node(hash, depth)?;
        let mut child = leaf;
        for depth in (0..depth).rev() {
            if let Some(parent) = self.node_at(depth, hashes) {
                self.add_child(parent, child);
                self.move_to_front(parent);
                break;
            }
            let made = hashes.of(depth).and_then(|hash| self.make_node(hash, depth));
            let Some(parent) = made else {
                self.prune(leaf);
                return None;
            };
            self.add_child(parent, child);
            child = parent;
        }
        Some(leaf)
    }

    /// Adds a node without parent or children.
    fn make_node(&mut self, hash: u64, depth: usize) -> Option<u32> {
        self.nodes.insert(hash, NameNode { depth: depth as u16, ..NameNode::default() })
    }

    fn add_child(&mut self, parent: u32, child: u32) {
        let after = core::mem::replace(&mut self.nodes.get_mut(parent).first_child, child);
        if after != NONE {
            self.nodes.get_mut(after).before = child;
        }
        let node = self.nodes.get_mut(child);
        (node.parent, node.before, node.after) = (parent, NONE, after);
    }

    fn remove_child(&mut self, child: u32) {
        let NameNode { parent, before, after, .. } = *self.nodes.get(child);
        if after != NONE {
            self.nodes.get_mut(after).before = before;
        }
        if before != NONE {
            self.nodes.get_mut(before).after = after;
        } else if parent != NONE {
            self.nodes.get_mut(parent).first_child = after;
        }
    }

    /// Moves a node, and those above it, before their siblings.
    pub(super) fn move_to_front(&mut self, mut node: u32) {
        while node != NONE {
            let NameNode { parent, before, .. } = *self.nodes.get(node);
            if before != NONE {
                self.remove_child(node);
                self.add_child(parent, node);
            }
            node = parent;
        }
    }

    /// Removes a node and those above it, as far as they lead to no packet.
    fn prune(&mut self, mut node: u32) {
        while node != NONE {
            let NameNode { parent, first_child, packet, .. } = *self.nodes.get(node);
            if first_child != NONE || packet != NONE {
                return;
            }
            self.remove_child(node);
            self.nodes.remove(node);
            node = parent;
        }
    }

    /// The next node in depth-first order under `top`.
    pub(super) fn following(&self, mut node: u32, top: u32) -> Option<u32> {
        let first_child = self.nodes.get(node).first_child;
        if first_child != NONE {
            return Some(first_child);
        }
        while node != top {
            let NameNode { parent, after, .. } = *self.nodes.get(node);
            if after != NONE {
                return Some(after);
            }
            node = parent;
        }
        None
    }
}
