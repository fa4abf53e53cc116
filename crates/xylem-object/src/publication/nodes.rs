//! Reads tree nodes for a publication: directly for tiles, through a cache for segments.

use xylem_tree::{NODE_LEN, NodeSource};

use super::ObjectSource;
use crate::naming::ObjectId;

/// Reads an object's nodes directly.
pub(super) struct DirectNodes<'a, S> {
    pub(super) source: &'a mut S,
    pub(super) object: ObjectId,
}

impl<S: ObjectSource> NodeSource for DirectNodes<'_, S> {
    type Error = S::Error;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), S::Error> {
        self.source.read_nodes(self.object, first_slot, out)
    }
}

/// Slots from one group's start to the next. The leaves of eight segments and the nodes that join them are 15
/// consecutive slots, which hold the whole lower proof of each of the eight.
const GROUP_STRIDE: u64 = 16;
const GROUP_BYTES: usize = 15 * NODE_LEN;
/// Number of cached groups: enough for some tens of getters at different places.
const GROUPS: usize = 64;

/// Cache of recently read groups of nodes, so that a run of segments reads each group once.
#[derive(Default)]
pub(super) struct NodeGroupCache(Vec<Option<NodeGroup>>);

struct NodeGroup {
    object: ObjectId,
    first_slot: u64,
    nodes: [u8; GROUP_BYTES],
    len: usize,
}

impl core::fmt::Debug for NodeGroupCache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Groups({} kept)", self.0.iter().flatten().count())
    }
}

impl NodeGroupCache {
    /// The only slot of the cache for a group.
    fn place(&mut self, object: ObjectId, first_slot: u64) -> &mut Option<NodeGroup> {
        if self.0.is_empty() {
            self.0.resize_with(GROUPS, || None);
        }
        let file = match object {
            ObjectId::Root => 0,
            ObjectId::File(file) => file.wrapping_add(1),
            ObjectId::Sums => u64::MAX,
        };
        // Neighbouring groups, and the same groups of neighbouring files, get different slots.
        let at = (first_slot / GROUP_STRIDE).wrapping_add(file.wrapping_mul(7)) % GROUPS as u64;
        &mut self.0[at as usize]
    }
}

/// Reads an object's nodes through [`Groups`].
pub(super) struct CachedNodes<'a, S> {
    pub(super) source: &'a mut S,
    pub(super) object: ObjectId,
    pub(super) groups: &'a mut NodeGroupCache,
}

impl<S: ObjectSource> NodeSource for CachedNodes<'_, S> {
    type Error = S::Error;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), S::Error> {
        let place = self.groups.place(self.object, first_slot);
        if let Some(group) = place
            && (group.object, group.first_slot, group.len) == (self.object, first_slot, out.len())
        {
            out.copy_from_slice(&group.nodes[..group.len]);
            return Ok(());
        }
        self.source.read_nodes(self.object, first_slot, out)?;
        // A missing node may arrive later, so a group that lacks one is not cached.
        let whole = out.chunks_exact(NODE_LEN).all(|node| node.iter().any(|&byte| byte != 0));
        if whole && out.len() <= GROUP_BYTES {
            let mut nodes = [0; GROUP_BYTES];
            nodes[..out.len()].copy_from_slice(out);
            *place = Some(NodeGroup { object: self.object, first_slot, nodes, len: out.len() });
        }
        Ok(())
    }
}
