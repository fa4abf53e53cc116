//! How a publication reads tree nodes: straight for tiles, remembered for segments.

use xylem_tree::{NODE_LEN, NodeSource};

use super::Source;
use crate::naming::ObjectId;

/// Reads an object's nodes as they are asked for.
pub(super) struct Straight<'a, S> {
    pub(super) source: &'a mut S,
    pub(super) object: ObjectId,
}

impl<S: Source> NodeSource for Straight<'_, S> {
    type Error = S::Error;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), S::Error> {
        self.source.read_nodes(self.object, first_slot, out)
    }
}

/// Slots from one group's first to the next one's: eight segments' leaves and what joins them are
/// 15 slots in a row, and hold the whole proof of each of the eight.
const GROUP_STRIDE: u64 = 16;
const GROUP_BYTES: usize = 15 * NODE_LEN;
/// How many groups are remembered: one for each of some tens of fetchers at different places.
const GROUPS: usize = 64;

/// The groups of nodes that were read last, so that a run of segments reads each group once.
#[derive(Default)]
pub(super) struct Groups(Vec<Option<Group>>);

struct Group {
    object: ObjectId,
    first_slot: u64,
    nodes: [u8; GROUP_BYTES],
    len: usize,
}

impl core::fmt::Debug for Groups {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Groups({} kept)", self.0.iter().flatten().count())
    }
}

impl Groups {
    /// The one place where a group may be kept.
    fn place(&mut self, object: ObjectId, first_slot: u64) -> &mut Option<Group> {
        if self.0.is_empty() {
            self.0.resize_with(GROUPS, || None);
        }
        let file = match object {
            ObjectId::Root => 0,
            ObjectId::File(file) => file.wrapping_add(1),
            ObjectId::Sums => u64::MAX,
        };
        // Neighbouring groups and neighbouring files both get places of their own.
        let at = (first_slot / GROUP_STRIDE).wrapping_add(file.wrapping_mul(7)) % GROUPS as u64;
        &mut self.0[at as usize]
    }
}

/// Reads an object's nodes through [`Groups`].
pub(super) struct Grouped<'a, S> {
    pub(super) source: &'a mut S,
    pub(super) object: ObjectId,
    pub(super) groups: &'a mut Groups,
}

impl<S: Source> NodeSource for Grouped<'_, S> {
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
        // A node that has not come yet may come later, so a group that lacks one is not kept.
        let whole = out.chunks_exact(NODE_LEN).all(|node| node.iter().any(|&byte| byte != 0));
        if whole && out.len() <= GROUP_BYTES {
            let mut nodes = [0; GROUP_BYTES];
            nodes[..out.len()].copy_from_slice(out);
            *place = Some(Group { object: self.object, first_slot, nodes, len: out.len() });
        }
        Ok(())
    }
}
