//! One object under way: its missing segments, those that no peer is asked for, the tree nodes that have to come first,
//! and the verifier that judges what arrives.

use core::ops::Range;

use bytes::Bytes;
use xylem_hash::Hash;
use xylem_object::naming::ObjectId;
use xylem_tree::{
    Geometry, Node, NodeValue, ProofError, SegmentIndex, SegmentSet, Tile, TreeVerifier, Verified,
};

use crate::available::SegmentRuns;
use crate::event::{AddError, PeerId};
use crate::key::{ItemKey, ItemKeyMap, RequestedItem, object_number};
use crate::objects::SegmentOutcome;
use crate::peers::PeerView;
use crate::rarest::BlockRarity;

/// Bound on how many candidates a search skips before it finds one that the peer may be asked for.
const MAX_SEARCH_STEPS: u32 = 64;

/// Number of verified segments after which their proven nodes are reported.
const REPORT_INTERVAL: u32 = 16;

/// A segment or a tile that has arrived and is not judged yet.
#[derive(Debug)]
pub(crate) struct ArrivedItem {
    pub from: PeerId,
    pub wanted: RequestedItem,
    pub content: Bytes,
    pub signature: Bytes,
}

#[derive(Debug, Default)]
struct TileTier {
    missing: Option<SegmentSet>,
    unasked: Option<SegmentSet>,
}

#[derive(Debug)]
pub(crate) struct TransferObject {
    id: ObjectId,
    geometry: Geometry,
    verifier: TreeVerifier,
    /// Number of the first wanted segment. Positions in both sets count from here.
    first: u64,
    missing: SegmentSet,
    unasked: SegmentSet,
    tiers: Vec<TileTier>,
    /// Index of the tier 0 tile with segments that may be asked for: that tile and the next one were already asked for.
    ready: Option<u64>,
    /// Segments and tiles that arrived before the tile that proves them, by [`tile_number`] of that tile.
    held: ItemKeyMap<u64, Vec<ArrivedItem>>,
    /// How many peers have each block. Built when a rare block is first asked for.
    rarity: Option<BlockRarity>,
    /// Number of segments verified since nodes were last reported.
    unreported: u32,
    /// For an object that stays when none of its segments is missing: the proven tiles, by [`tile_number`].
    lasting: Option<ItemKeyMap<u64, ()>>,
}

/// Returns the first wanted segment and the set of segments that are wanted and not in `have`. The set spans the range
/// from the first to the last wanted segment.
fn wanted_set(
    geometry: &Geometry,
    wanted: impl IntoIterator<Item = Range<u64>>,
    have: impl IntoIterator<Item = Range<u64>>,
    limit: u64,
) -> Result<(u64, SegmentSet), AddError> {
    let ranges: Vec<Range<u64>> = wanted
        .into_iter()
        .map(|r| r.start..r.end.min(geometry.segments()))
        .filter(|r| r.start < r.end)
        .collect();
    let first = ranges.iter().map(|r| r.start).min().unwrap_or(0);
    let end = ranges.iter().map(|r| r.end).max().unwrap_or(first);
    if end - first > limit {
        return Err(AddError::TooLarge { segments: end - first, limit });
    }
    let mut missing = SegmentSet::new(end - first);
    for r in ranges {
        missing.insert_range(r.start - first..r.end - first);
    }
    for r in have {
        missing.remove_range(r.start.saturating_sub(first)..r.end.saturating_sub(first));
    }
    Ok((first, missing))
}

impl TransferObject {
    pub(crate) fn new(
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
        wanted: impl IntoIterator<Item = Range<u64>>,
        have: impl IntoIterator<Item = Range<u64>>,
        verifier: Option<TreeVerifier>,
        limit: u64,
    ) -> Result<Self, AddError> {
        let (first, missing) = wanted_set(&geometry, wanted, have, limit)?;
        let verifier = match verifier {
            Some(v) if v.root() != root || *v.geometry() != geometry => {
                return Err(AddError::OtherVerifier);
            }
            Some(v) => v,
            None => TreeVerifier::new(geometry, root),
        };
        let mut object = Self {
            id,
            geometry,
            verifier,
            first,
            unasked: missing.clone(),
            missing,
            tiers: Vec::new(),
            ready: None,
            held: ItemKeyMap::default(),
            rarity: None,
            unreported: 0,
            lasting: None,
        };
        object.want_tiles();
        Ok(object)
    }

    /// Creates an object of which nothing is wanted yet. It stays when none of its segments is missing.
    pub(crate) fn lasting(
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
        limit: u64,
    ) -> Result<Self, AddError> {
        let mut object = Self::new(id, root, geometry, [], [], None, limit)?;
        let segments = geometry.segments();
        if segments > limit {
            return Err(AddError::TooLarge { segments, limit });
        }
        object.missing = SegmentSet::new(segments);
        object.unasked = SegmentSet::new(segments);
        object.lasting = Some(ItemKeyMap::default());
        Ok(object)
    }

    /// Whether the object stays when none of its segments is missing.
    pub(crate) fn is_lasting(&self) -> bool {
        self.lasting.is_some()
    }

    /// Adds segments of a lasting object to what is wanted, except those that were fetched before. Returns how many
    /// were not wanted until now.
    pub(crate) fn want(&mut self, segments: Range<u64>) -> u64 {
        let mut fresh = 0;
        for i in segments.start..segments.end.min(self.missing.len()) {
            let index = SegmentIndex(i);
            if self.verifier.is_complete(index) || !self.missing.insert(i) {
                continue;
            }
            self.unasked.insert(i);
            fresh += 1;
            let mut tile = self.geometry.tile_of_segment(index);
            while let Some(t) = tile.filter(|t| !self.is_tile_proven(*t)) {
                if !self.want_tile(t) {
                    break;
                }
                self.ready = None;
                tile = self.geometry.tile_above(t);
            }
        }
        fresh
    }

    fn is_tile_proven(&self, tile: Tile) -> bool {
        self.lasting.as_ref().is_some_and(|proven| proven.contains_key(&tile_number(tile)))
    }

    /// Drops the wanted segments that no peer is asked for. Returns their number.
    pub(crate) fn drop_unasked(&mut self) -> u64 {
        let unasked = std::mem::replace(&mut self.unasked, SegmentSet::new(self.missing.len()));
        unasked.ranges().for_each(|run| self.missing.remove_range(run));
        unasked.count()
    }

    /// The items to request so that these segments can be proven, as far as no peer is asked for it: for each
    /// segment the tiles over it, the highest first, and then the segment.
    pub(crate) fn unasked_of(&self, segments: Range<u64>) -> Vec<RequestedItem> {
        let mut found = Vec::new();
        for i in segments {
            let index = SegmentIndex(i);
            if !self.is_unasked(RequestedItem::Segment(self.id, index)) {
                continue;
            }
            let (mut tile, before) = (self.geometry.tile_of_segment(index), found.len());
            while let Some(t) = tile {
                let wanted = RequestedItem::Tile(self.id, t);
                if self.is_unasked(wanted) && !found.contains(&wanted) {
                    found.push(wanted);
                }
                tile = self.geometry.tile_above(t);
            }
            if let Some(tiles) = found.get_mut(before..) {
                tiles.reverse();
            }
            found.push(RequestedItem::Segment(self.id, index));
        }
        found
    }

    /// Whether `wanted` is missing and no peer is asked for it.
    pub(crate) fn is_unasked(&self, wanted: RequestedItem) -> bool {
        match wanted {
            RequestedItem::Segment(_, i) => {
                i.0 >= self.first && self.unasked.contains(i.0 - self.first)
            }
            RequestedItem::Tile(_, tile) => {
                let tier = self.tiers.get(usize::from(tile.tier));
                tier.and_then(|t| t.unasked.as_ref()).is_some_and(|u| u.contains(tile.index))
            }
            RequestedItem::Manifest => false,
        }
    }

    /// Marks every tile over a missing segment, and the tiles above those, as missing.
    fn want_tiles(&mut self) {
        let mut from = self.first;
        while let Some(i) = self.next_missing(from) {
            let mut tile = self.geometry.tile_of_segment(i);
            let Some(lowest) = tile else { return };
            while let Some(t) = tile {
                if !self.want_tile(t) {
                    break;
                }
                tile = self.geometry.tile_above(t);
            }
            from = self.tile_end(lowest);
        }
    }

    /// Marks a tile as missing and not asked for. Returns false if it was missing already.
    fn want_tile(&mut self, tile: Tile) -> bool {
        let tier = usize::from(tile.tier);
        if self.tiers.len() <= tier {
            self.tiers.resize_with(tier + 1, TileTier::default);
        }
        let count = self.geometry.tiles(tile.tier);
        let tier = &mut self.tiers[tier];
        let fresh = tier.missing.get_or_insert_with(|| SegmentSet::new(count)).insert(tile.index);
        if fresh {
            tier.unasked.get_or_insert_with(|| SegmentSet::new(count)).insert(tile.index);
        }
        fresh
    }

    /// The segments under a tile.
    pub(crate) fn segments_under(&self, tile: Tile) -> Range<u64> {
        let (level, nodes) = self.geometry.tile_nodes(tile);
        nodes.start << level..nodes.end << level
    }

    /// The first segment after those under a tile of tier 0.
    fn tile_end(&self, tile: Tile) -> u64 {
        self.segments_under(tile).end
    }

    fn next_missing(&self, from: u64) -> Option<SegmentIndex> {
        Some(SegmentIndex(self.missing.next(from.saturating_sub(self.first))? + self.first))
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.id
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Segments that are wanted and not verified.
    pub(crate) fn missing(&self) -> u64 {
        self.missing.count()
    }

    /// The number of missing segments that no peer is asked for.
    pub(crate) fn unasked(&self) -> u64 {
        self.unasked.count()
    }

    /// Content bytes of the missing segments. All segments but the last one of the file are full.
    pub(crate) fn missing_bytes(&self) -> u64 {
        let last = self.geometry.last_segment();
        let full = self.geometry.segment_size().bytes() as u64;
        let short =
            if self.is_missing(last) { full - self.geometry.segment_len(last) as u64 } else { 0 };
        (self.missing.count() * full).saturating_sub(short)
    }

    pub(crate) fn is_missing(&self, i: SegmentIndex) -> bool {
        i.0 >= self.first && self.missing.contains(i.0 - self.first)
    }

    pub(crate) fn is_tile_missing(&self, tile: Tile) -> bool {
        let tier = self.tiers.get(usize::from(tile.tier));
        tier.and_then(|t| t.missing.as_ref()).is_some_and(|m| m.contains(tile.index))
    }

    pub(crate) fn is_wanted(&self, wanted: RequestedItem) -> bool {
        match wanted {
            RequestedItem::Segment(_, i) => self.is_missing(i),
            RequestedItem::Tile(_, tile) => self.is_tile_missing(tile),
            RequestedItem::Manifest => false,
        }
    }

    /// The end (exclusive) of the segments that may be asked for, given an in-order window of `ahead` segments.
    pub(crate) fn in_order_end(&self, ahead: Option<u64>) -> u64 {
        let first_missing = || self.missing.next(0).map_or(0, |position| position + self.first);
        ahead.map_or(u64::MAX, |n| first_missing().saturating_add(n))
    }

    /// The first segment at or after `from` that no peer is asked for and that lies in `runs`.
    fn next_unasked(&self, mut from: u64, runs: SegmentRuns<'_>) -> Option<u64> {
        for _ in 0..MAX_SEARCH_STEPS {
            let i = self.unasked.next(from.saturating_sub(self.first))? + self.first;
            from = runs.at_or_after(i)?;
            if from == i {
                return Some(i);
            }
        }
        None
    }

    /// The next item of `range` to ask a peer for, in order: tiles, then the segments that they prove. If `room` is
    /// false, no segment is asked for before its tile has arrived.
    pub(crate) fn next(
        &mut self,
        range: Range<u64>,
        room: bool,
        asker: PeerView<'_>,
    ) -> Option<ItemKey> {
        let runs = asker.runs(object_number(self.id));
        let mut from = range.start;
        for _ in 0..MAX_SEARCH_STEPS {
            let index = SegmentIndex(self.next_unasked(from, runs)?);
            if index.0 >= range.end {
                return None;
            }
            // The peer may have nothing under the following tile. Another peer then has to send that tile.
            let tile =
                self.tile_to_ask(index).filter(|tile| runs.meets(self.segments_under(*tile)));
            if let Some(tile) = tile {
                let key = ItemKey::from(RequestedItem::Tile(self.id, tile));
                return (!asker.must_skip(key)).then_some(key);
            }
            if !room
                && self.geometry.tile_of_segment(index).is_some_and(|t| self.is_tile_missing(t))
            {
                return None;
            }
            let key = ItemKey::from(RequestedItem::Segment(self.id, index));
            if !asker.must_skip(key) {
                return Some(key);
            }
            from = index.0 + 1;
        }
        None
    }

    /// The block that the fewest peers have, among those that this peer may be asked for, searched from a random place.
    /// Returns the number of peers and the block.
    pub(crate) fn rarest(&mut self, asker: PeerView<'_>, random: u64) -> Option<(u8, u64)> {
        let (number, segments) = (object_number(self.id), self.geometry.segments());
        let rarity = self.rarity.get_or_insert_with(|| BlockRarity::new(segments));
        rarity.count(asker.now(), asker.version(), asker.parts_of(number));
        let runs = asker.runs(number);
        let rarity = self.rarity.as_ref()?;
        rarity.rarest(random % segments.max(1), |from| self.next_unasked(from, runs))
    }

    /// A tile that has to be asked for before segment `i`: one over it, or one over the next missing segment that lies
    /// under another tile.
    fn tile_to_ask(&mut self, i: SegmentIndex) -> Option<Tile> {
        let tile = self.geometry.tile_of_segment(i)?;
        if self.ready == Some(tile.index) {
            return None;
        }
        let following = self.next_missing(self.tile_end(tile));
        let found = self.highest_unasked_tile(Some(tile)).or_else(|| {
            self.highest_unasked_tile(following.and_then(|n| self.geometry.tile_of_segment(n)))
        });
        if found.is_none() {
            self.ready = Some(tile.index);
        }
        found
    }

    /// The highest tile, among `tile` and those above it, that no peer is asked for.
    fn highest_unasked_tile(&self, tile: Option<Tile>) -> Option<Tile> {
        let mut found = None;
        let mut next = tile;
        while let Some(t) = next {
            if self.is_unasked(RequestedItem::Tile(self.id, t)) {
                found = Some(t);
            }
            next = self.geometry.tile_above(t);
        }
        found
    }

    /// Notes that a peer is now asked for `wanted`.
    pub(crate) fn mark_asked(&mut self, wanted: RequestedItem) {
        match wanted {
            RequestedItem::Segment(_, i) => {
                self.unasked.remove(i.0.wrapping_sub(self.first));
            }
            RequestedItem::Tile(_, tile) => {
                let tier = self.tiers.get_mut(usize::from(tile.tier));
                if let Some(unasked) = tier.and_then(|t| t.unasked.as_mut()) {
                    unasked.remove(tile.index);
                }
            }
            RequestedItem::Manifest => {}
        }
    }

    /// Notes that no peer is asked for segment `i` any more. Returns true if the segment has to be asked for again.
    pub(crate) fn mark_unasked(&mut self, i: SegmentIndex) -> bool {
        self.is_missing(i) && self.unasked.insert(i.0 - self.first)
    }

    /// The verifier's result for one segment.
    pub(crate) fn prove_one(&mut self, i: SegmentIndex, arrived: &ArrivedItem) -> SegmentOutcome {
        self.verifier.segment(i, arrived.content.clone(), &arrived.signature)
    }

    /// Verifies several segments side by side, with the results that [`Self::prove_one`] would give one after the
    /// other. The result is `None` for an item that is not missing or is no segment.
    pub(crate) fn prove(
        &mut self,
        arrived: &[&ArrivedItem],
        out: &mut Vec<Option<SegmentOutcome>>,
    ) {
        let index = |arrived: &ArrivedItem| match arrived.wanted {
            RequestedItem::Segment(_, i) if self.is_missing(i) => Some(i),
            _ => None,
        };
        let indices: Vec<_> = arrived.iter().map(|arrived| index(arrived)).collect();
        let batch = indices.iter().zip(arrived).filter_map(|(i, arrived)| {
            Some(((*i)?, arrived.content.clone(), &arrived.signature[..]))
        });
        let mut outcomes = Vec::new();
        self.verifier.segments(batch, &mut outcomes);
        let mut outcomes = outcomes.into_iter();
        out.extend(indices.iter().map(|i| i.and_then(|_| outcomes.next())));
    }

    /// Marks a verified segment as no longer missing.
    pub(crate) fn on_segment_verified(&mut self, i: SegmentIndex) {
        self.missing.remove(i.0.wrapping_sub(self.first));
        self.unasked.remove(i.0.wrapping_sub(self.first));
        // The proof is reported, and no second copy of the segment is ever judged, so the verifier may forget it.
        self.verifier.forget_complete(i.0..i.0 + 1);
        self.unreported += 1;
    }

    /// Judges a tile. If it is good, returns the items that waited for it, to be judged next.
    pub(crate) fn tile(
        &mut self,
        tile: Tile,
        content: &[u8],
        signature: &[u8],
    ) -> Result<Vec<ArrivedItem>, ProofError> {
        self.verifier.tile(tile, content, signature)?;
        if let Some(proven) = &mut self.lasting {
            proven.insert(tile_number(tile), ());
        }
        if let Some(tier) = self.tiers.get_mut(usize::from(tile.tier)) {
            for set in [&mut tier.missing, &mut tier.unasked].into_iter().flatten() {
                set.remove(tile.index);
            }
        }
        Ok(self.held.remove(&tile_number(tile)).unwrap_or_default())
    }

    /// Keeps an item until `tile` is proven. Returns true if the tile itself was not asked for: a resumed verifier
    /// lacked a node that it was expected to have.
    pub(crate) fn hold_item(&mut self, tile: Tile, arrived: ArrivedItem) -> bool {
        self.held.entry(tile_number(tile)).or_default().push(arrived);
        let fresh = self.want_tile(tile);
        if fresh {
            self.mark_asked(RequestedItem::Tile(self.id, tile));
        }
        fresh
    }

    /// Whether enough segments were proven since the last report of nodes.
    pub(crate) fn is_report_due(&self) -> bool {
        self.unreported >= REPORT_INTERVAL
    }

    /// The nodes proven since the last report.
    pub(crate) fn take_proven(&mut self) -> Verified<Vec<(Node, NodeValue)>> {
        self.unreported = 0;
        self.verifier.take_proven()
    }

    /// The number of items that wait for a tile. They are dropped with the object.
    pub(crate) fn held(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }
}

fn tile_number(tile: Tile) -> u64 {
    u64::from(tile.tier) << 56 | tile.index
}
