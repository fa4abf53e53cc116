//! [`Proofs`]: verifies data read back from disk before it is sent.

use std::collections::VecDeque;

use xylem_object::{ObjectId, ObjectSource};
use xylem_tree::{
    Anchor, ExtractError, Geometry, NodeSource, SegmentIndex, Tile, tile_content, tile_signature,
};

use super::source::{HeldError, HeldSource};

/// Most proven tiles kept, each for 2,048 segments (30 KiB a tile).
const TILES: usize = 32;
/// Segments with proofs that end at the same node of a tile.
const GROUP: u64 = 8;

/// Verifies packets as their receivers do: a segment's content against its leaf, its proof up to a node of a tile, and
/// that up to the root. Proven nodes of tiles are cached, so that a segment costs the hash of its content and three
/// parents.
#[derive(Default)]
pub(super) struct Proofs {
    /// Least recently used first.
    tiles: VecDeque<CachedTile>,
}

struct CachedTile {
    object: ObjectId,
    tile: Tile,
    /// One for each group of segments under the tile.
    anchors: Vec<Anchor>,
}

struct HeldNodes<'a> {
    source: &'a mut HeldSource,
    object: ObjectId,
}

impl NodeSource for HeldNodes<'_> {
    type Error = HeldError;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), HeldError> {
        self.source.read_nodes(self.object, first_slot, out)
    }
}

impl Proofs {
    /// Returns whether a segment's packet proves its content.
    pub(super) fn segment(
        &mut self,
        source: &mut HeldSource,
        object: ObjectId,
        index: SegmentIndex,
        content: &[u8],
        proof: &[u8],
    ) -> Result<bool, HeldError> {
        let (Some(geometry), Some(root)) = (source.geometry(object), source.root(object)) else {
            return Ok(false);
        };
        let root = Anchor::root(geometry, root);
        let anchor = match geometry.tile_of_segment(index) {
            None => Some(root),
            Some(tile) => self.over(source, object, &root, tile, index)?,
        };
        Ok(anchor.is_some_and(|a| a.segment(index, content, proof).is_ok()))
    }

    /// Returns whether a tile's packet proves its content.
    pub(super) fn tile(
        source: &mut HeldSource,
        object: ObjectId,
        tile: Tile,
        content: &[u8],
        proof: &[u8],
    ) -> Result<bool, HeldError> {
        let (Some(geometry), Some(root)) = (source.geometry(object), source.root(object)) else {
            return Ok(false);
        };
        let above = above(source, object, &Anchor::root(geometry, root), tile)?;
        Ok(above.is_some_and(|a| a.tile(tile, content, proof).is_ok()))
    }

    /// Discards an object's tiles.
    pub(super) fn forget(&mut self, object: ObjectId) {
        self.tiles.retain(|t| t.object != object);
    }

    /// Returns the proven node of `tile` over a segment.
    fn over(
        &mut self,
        source: &mut HeldSource,
        object: ObjectId,
        root: &Anchor,
        tile: Tile,
        index: SegmentIndex,
    ) -> Result<Option<Anchor>, HeldError> {
        let geometry = *root.geometry();
        let first = segments_under(&geometry, tile).start;
        let place = ((index.0 - first) / GROUP) as usize;
        let known = self.tiles.iter().rposition(|t| (t.object, t.tile) == (object, tile));
        if let Some(at) = known {
            if at + 1 < self.tiles.len()
                && let Some(proven) = self.tiles.remove(at)
            {
                self.tiles.push_back(proven);
            }
            return Ok(self.tiles.back().and_then(|t| t.anchors.get(place).copied()));
        }
        let mut anchors = Vec::new();
        let proven = read_proven(source, object, root, tile, |tile| {
            let groups = segments_under(&geometry, tile.0).step_by(GROUP as usize);
            anchors = groups.map_while(|i| tile.1.over_segment(SegmentIndex(i))).collect();
        })?;
        if !proven {
            return Ok(None);
        }
        let found = anchors.get(place).copied();
        if self.tiles.len() == TILES {
            self.tiles.pop_front();
        }
        self.tiles.push_back(CachedTile { object, tile, anchors });
        Ok(found)
    }
}

fn segments_under(geometry: &Geometry, tile: Tile) -> std::ops::Range<u64> {
    geometry.tile_top(tile).map_or(0..0, |top| geometry.node_segments(top))
}

/// Returns the proven node at which a tile's proof ends; reads at most two tiles.
fn above(
    source: &mut HeldSource,
    object: ObjectId,
    root: &Anchor,
    tile: Tile,
) -> Result<Option<Anchor>, HeldError> {
    let Some(upper) = root.geometry().tile_above(tile) else { return Ok(Some(*root)) };
    let mut found = None;
    read_proven(source, object, root, upper, |(_, proven)| found = proven.over_tile(tile))?;
    Ok(found)
}

/// Reads a tile from the outboard and passes it to `with` if it verifies; returns whether it does.
fn read_proven(
    source: &mut HeldSource,
    object: ObjectId,
    root: &Anchor,
    tile: Tile,
    with: impl FnOnce((Tile, xylem_tree::ProvenTile<'_>)),
) -> Result<bool, HeldError> {
    let Some(above) = above(source, object, root, tile)? else { return Ok(false) };
    let (mut content, mut proof) = (Vec::new(), Vec::new());
    let mut nodes = HeldNodes { source, object };
    let read = tile_content(root.geometry(), tile, &mut nodes, &mut content)
        .and_then(|()| tile_signature(root.geometry(), tile, &mut nodes, &mut proof));
    match read {
        Ok(()) => {}
        Err(ExtractError::Source(e)) => return Err(e),
        Err(_) => return Ok(false),
    }
    match above.tile(tile, &content, &proof) {
        Ok(proven) => {
            with((tile, proven));
            Ok(true)
        }
        Err(_) => Ok(false),
    }
}
