//! What is remembered of a path that was shared: enough not to hash it again and to keep its name.

use xylem_hash::Hash;
use xylem_store::{FileState, FileTime};

/// Layout, all numbers little-endian: version of the layout 1, root 32, version 8, size 8,
/// mtime seconds 8, nanoseconds 4, inode 8.
const LAYOUT: u8 = 1;
const LEN: usize = 1 + 32 + 8 + 8 + 8 + 4 + 8;

/// One remembered share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Root that was published.
    pub(crate) root: Hash,
    /// Version component of its name, microseconds.
    pub(crate) version: u64,
    /// State of the file (or of the directory itself) then.
    pub(crate) state: FileState,
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LEN);
        out.push(LAYOUT);
        out.extend_from_slice(self.root.as_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.state.size.to_le_bytes());
        out.extend_from_slice(&self.state.mtime.secs.to_le_bytes());
        out.extend_from_slice(&self.state.mtime.nanos.to_le_bytes());
        out.extend_from_slice(&self.state.ino.to_le_bytes());
        out
    }

    /// `None` for another layout or length: then the path is hashed again.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (layout, rest) = bytes.split_first_chunk::<1>()?;
        let (root, rest) = rest.split_first_chunk::<32>()?;
        let (version, rest) = rest.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let (secs, rest) = rest.split_first_chunk::<8>()?;
        let (nanos, rest) = rest.split_first_chunk::<4>()?;
        let (ino, rest) = rest.split_first_chunk::<8>()?;
        (layout[0] == LAYOUT && rest.is_empty()).then_some(Self {
            root: Hash::from_bytes(*root),
            version: u64::from_le_bytes(*version),
            state: FileState {
                size: u64::from_le_bytes(*size),
                mtime: FileTime {
                    secs: i64::from_le_bytes(*secs),
                    nanos: u32::from_le_bytes(*nanos),
                },
                ino: u64::from_le_bytes(*ino),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_other_lengths_do_not() {
        let record = Record {
            root: xylem_hash::hash(b"x"),
            version: 7,
            state: FileState { size: 1, mtime: FileTime { secs: -5, nanos: 9 }, ino: 11 },
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        assert_eq!(Record::decode(&bytes[1..]), None);
        assert_eq!(Record::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Record::decode(&[]), None);
    }
}
