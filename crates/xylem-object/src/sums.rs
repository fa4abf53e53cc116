//! The list of sums for updates: which publication has one, and which part of it is a file's.
//!
//! The publisher makes it while it hashes ([`xylem_tree::UpdateBlocks::sums_of`]); it is an object of the
//! publication, proven like all others, and whoever has an old copy searches it with the list. For a
//! directory the files' lists stand one after the other in the order of the listing. It is a hint: bytes
//! found by it are proven against the file's own root. The format: docs/spec/update.md.
//!
//! ```
//! use xylem_object::sums::{Sums, list_len};
//! use xylem_tree::SegmentSize;
//! assert_eq!(list_len(1 << 30, SegmentSize::DEFAULT), 32_768 * 6);
//! assert_eq!(list_len(65_536, SegmentSize::DEFAULT), 0);
//! let sums = Sums { root: xylem_hash::hash(b"a list"), size: 6 };
//! assert_eq!(Sums::decode(&sums.encode()), Some(sums));
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_hash::Hash;
use xylem_tree::{Geometry, SegmentSize, UPDATE_SUMS_LEN, UpdateBlocks};

/// Root and size of a list of sums, as a manifest has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// The root of its tree.
    pub root: Hash,
    /// Its bytes; there is no empty list.
    pub size: u64,
}

/// Bytes of the field.
const FIELD: usize = 40;

impl Sums {
    /// The manifest's field: root, then size, big-endian.
    pub fn encode(&self) -> [u8; FIELD] {
        let mut out = [0; FIELD];
        out[..32].copy_from_slice(self.root.as_bytes());
        out[32..].copy_from_slice(&self.size.to_be_bytes());
        out
    }

    /// Reads what [`Sums::encode`] wrote.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (root, size) = value.split_first_chunk::<32>()?;
        let size = u64::from_be_bytes(size.try_into().ok()?);
        Some(Self { root: Hash::from_bytes(*root), size })
    }
}

/// Bytes of the list of a file of `size` bytes; 0 for one that has none.
pub fn list_len(size: u64, segment: SegmentSize) -> u64 {
    UpdateBlocks::of(Geometry::new(size, segment)).map_or(0, |blocks| blocks.list_len())
}

/// The sums of a block, read from a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSums {
    /// The weak one.
    pub weak: u32,
    /// The first bytes of the value of the block's node.
    pub value: [u8; 2],
}

/// Reads a file's list; `None` if it is not as long as its blocks are many. All values are possible ones.
pub fn read_list(list: &[u8], blocks: &UpdateBlocks) -> Option<Vec<BlockSums>> {
    if u64::try_from(list.len()) != Ok(blocks.list_len()) {
        return None;
    }
    let (entries, _) = list.as_chunks::<UPDATE_SUMS_LEN>();
    let sums = entries.iter().map(|[a, b, c, d, e, f]| BlockSums {
        weak: u32::from_be_bytes([*a, *b, *c, *d]),
        value: [*e, *f],
    });
    Some(sums.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_one_length() {
        let blocks = UpdateBlocks::of(Geometry::new(70_000, SegmentSize::DEFAULT)).unwrap();
        let list: Vec<u8> = (0..54).collect();
        assert_eq!(blocks.list_len(), 54);
        let read = read_list(&list, &blocks).unwrap();
        assert_eq!(read.len(), 9);
        assert_eq!(read[1], BlockSums { weak: 0x0607_0809, value: [10, 11] });
        assert_eq!(read_list(&list[..53], &blocks), None);
        assert_eq!(read_list(&[], &blocks), None);
    }

    #[test]
    fn fields_have_one_length() {
        let sums = Sums { root: xylem_hash::hash(b""), size: 77 };
        let field = sums.encode();
        assert_eq!(Sums::decode(&field[..39]), None);
        assert_eq!(Sums::decode(&[&field[..], &[0]].concat()), None);
        assert_eq!(Sums::decode(&field), Some(sums));
    }
}
