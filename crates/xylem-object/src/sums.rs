//! The list of sums for updates: its presence in a manifest, and the part of it that belongs to a file.
//!
//! The publisher makes it while it hashes ([`xylem_tree::UpdateBlocks::sums_of`]). It is an object of the publication,
//! proven like all others. A getter with an old copy searches the copy with the list. A directory's list is the
//! concatenation of its files' lists, in the order of the listing. The list is a hint: the bytes found by it are proven
//! against the file's own root. Format: docs/spec/update.md.
//!
//! ```
//! use xylem_object::sums::{UpdateSums, list_len};
//! use xylem_tree::SegmentSize;
//! assert_eq!(list_len(1 << 30, SegmentSize::DEFAULT), 32_768 * 6);
//! assert_eq!(list_len(65_536, SegmentSize::DEFAULT), 0);
//! let sums = UpdateSums { root: xylem_hash::hash(b"a list"), size: 6 };
//! assert_eq!(UpdateSums::decode(&sums.encode()), Some(sums));
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_hash::Hash;
use xylem_tree::{Geometry, SegmentSize, UPDATE_SUMS_LEN, UpdateBlocks};

/// Root and size of a list of sums, as in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateSums {
    /// The root of the list's tree.
    pub root: Hash,
    /// Size of the list in bytes; a list is never empty.
    pub size: u64,
}

/// Bytes of the manifest field.
const FIELD: usize = 40;

impl UpdateSums {
    /// The manifest's field: root, then size, big-endian.
    pub fn encode(&self) -> [u8; FIELD] {
        let mut out = [0; FIELD];
        out[..32].copy_from_slice(self.root.as_bytes());
        out[32..].copy_from_slice(&self.size.to_be_bytes());
        out
    }

    /// Reads what [`UpdateSums::encode`] wrote.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (root, size) = value.split_first_chunk::<32>()?;
        let size = u64::from_be_bytes(size.try_into().ok()?);
        Some(Self { root: Hash::from_bytes(*root), size })
    }
}

/// Bytes of the list for a file of `size` bytes; 0 if the file has none.
pub fn list_len(size: u64, segment: SegmentSize) -> u64 {
    UpdateBlocks::of(Geometry::new(size, segment)).map_or(0, |blocks| blocks.list_len())
}

/// The two sums of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSums {
    /// The weak sum.
    pub weak: u32,
    /// The strong sum: the first bytes of the value of the block's node.
    pub value: [u8; 2],
}

/// Reads a file's list; `None` if its length does not match the number of blocks. All values are valid.
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
        let sums = UpdateSums { root: xylem_hash::hash(b""), size: 77 };
        let field = sums.encode();
        assert_eq!(UpdateSums::decode(&field[..39]), None);
        assert_eq!(UpdateSums::decode(&[&field[..], &[0]].concat()), None);
        assert_eq!(UpdateSums::decode(&field), Some(sums));
    }
}
