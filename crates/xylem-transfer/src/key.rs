//! An item that can be asked for, packed into sixteen bytes, and a fast table keyed by it.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use xylem_object::naming::ObjectId;
use xylem_tree::{SegmentIndex, Tile};

/// The item that one Interest asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedItem {
    Manifest,
    Segment(ObjectId, SegmentIndex),
    Tile(ObjectId, Tile),
}

impl RequestedItem {
    /// The object that the item belongs to.
    pub(crate) fn object(self) -> Option<ObjectId> {
        match self {
            Self::Manifest => None,
            Self::Segment(object, _) | Self::Tile(object, _) => Some(object),
        }
    }
}

/// A `RequestedItem`, packed for comparison and hashing: the object, then a segment number or a tagged tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ItemKey {
    object: u64,
    item: u64,
}

/// The root has object number 0 and file i has i + 1. The highest numbers cannot occur as files and stand for other
/// things.
const MANIFEST: ItemKey = ItemKey { object: u64::MAX, item: u64::MAX };
const SUMS: u64 = u64::MAX - 1;
const TILE: u64 = 1 << 63;
const TIER_SHIFT: u32 = 55;

impl From<RequestedItem> for ItemKey {
    fn from(wanted: RequestedItem) -> Self {
        match wanted {
            RequestedItem::Manifest => MANIFEST,
            RequestedItem::Segment(object, i) => {
                Self { object: object_number(object), item: i.0 & !TILE }
            }
            RequestedItem::Tile(object, tile) => Self {
                object: object_number(object),
                item: TILE | u64::from(tile.tier) << TIER_SHIFT | tile.index,
            },
        }
    }
}

impl ItemKey {
    pub(crate) fn wanted(self) -> RequestedItem {
        if self == MANIFEST {
            return RequestedItem::Manifest;
        }
        let object = match self.object {
            0 => ObjectId::Root,
            SUMS => ObjectId::Sums,
            number => ObjectId::File(number - 1),
        };
        if self.item & TILE == 0 {
            return RequestedItem::Segment(object, SegmentIndex(self.item));
        }
        let tile = Tile {
            tier: (self.item >> TIER_SHIFT) as u8,
            index: self.item & ((1 << TIER_SHIFT) - 1),
        };
        RequestedItem::Tile(object, tile)
    }
}

/// The number that identifies an object in keys and tables.
pub(crate) fn object_number(object: ObjectId) -> u64 {
    match object {
        ObjectId::Root => 0,
        ObjectId::File(i) => i.saturating_add(1),
        ObjectId::Sums => SUMS,
    }
}

/// A multiply-and-fold hash. Only items that this program chose to ask for are inserted, so no peer can fill one
/// bucket. A fixed function keeps runs reproducible.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ItemKeyHasher(u64);

impl Hasher for ItemKeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from(0xd6e8_feb8_6659_fd93_u64);
        self.0 = (wide as u64) ^ (wide >> 64) as u64;
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) type ItemKeyMap<K, V> = HashMap<K, V, BuildHasherDefault<ItemKeyHasher>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_unpack_to_what_was_packed() {
        let mut seen = ItemKeyMap::default();
        let files = [ObjectId::File(0), ObjectId::File(999_999)];
        for object in [ObjectId::Root, ObjectId::Sums].into_iter().chain(files) {
            for wanted in [
                RequestedItem::Manifest,
                RequestedItem::Segment(object, SegmentIndex(0)),
                RequestedItem::Segment(object, SegmentIndex((1 << 53) - 1)),
                RequestedItem::Tile(object, Tile { tier: 0, index: 0 }),
                RequestedItem::Tile(object, Tile { tier: 2, index: (1 << 42) - 1 }),
            ] {
                assert_eq!(ItemKey::from(wanted).wanted(), wanted);
                seen.insert(ItemKey::from(wanted), ());
            }
        }
        assert_eq!(seen.len(), 17);
    }
}
