//! Records of the first format: `shares/<BLAKE3 of the canonical path>`. They are only read and removed.
//!
//! Such a record holds root, version and state of a shared path, but not the path itself. So it becomes a
//! [`CatalogRecord`](crate::CatalogRecord) only when the path is shared again. A damaged or truncated one, or one
//! stored under another key, is ignored: hashing again is always correct.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::path::{Path, PathBuf};

use xylem_hash::{Hash, Hasher};

use crate::catalog::{hash_of_name, path_key};
use crate::error::StoreError;
use crate::file::{FileState, read_whole};
use crate::medium::{FileTime, OpenHow};
use crate::store::Store;

/// Directory of the records.
pub(crate) const SHARES: &str = "shares";
/// First bytes of a record file. The checksum (BLAKE3 over key and record) and the record follow.
const MAGIC: &[u8; 8] = b"xyshare1";
/// Version of the record's layout.
const LAYOUT: u8 = 1;
/// Longest record file in bytes, above any that a program of that format wrote.
const MAX_LEN: u64 = 4096;

/// The first format's record of a shared path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldShare {
    /// Root that was published.
    pub root: Hash,
    /// Version component of its name, microseconds since 1970.
    pub version: u64,
    /// State of the file, or of the directory itself, at that time.
    pub state: FileState,
}

impl OldShare {
    /// Decodes a record file found under `key`; `None` if it is invalid.
    #[must_use]
    pub fn decode(key: &Hash, bytes: &[u8]) -> Option<Self> {
        let (sum, record) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
        let mut hasher = Hasher::new();
        hasher.update(key.as_bytes());
        hasher.update(record);
        if hasher.finalize().as_bytes() != sum {
            return None;
        }
        let (layout, rest) = record.split_first_chunk::<1>()?;
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

impl Store {
    /// The first format's record of a canonical path, if it is intact.
    ///
    /// # Errors
    /// The medium's, except "not found".
    pub fn old_share(&self, canonical_path: &[u8]) -> Result<Option<OldShare>, StoreError> {
        self.read_old_share(&path_key(canonical_path))
    }

    /// Every intact record of the first format, by the hash of its path.
    pub(crate) fn old_shares(&self) -> Result<Vec<(Hash, OldShare)>, StoreError> {
        let mut found = Vec::new();
        for item in self.names_in(SHARES)? {
            if let Some(key) = hash_of_name(&item.name)
                && let Some(share) = self.read_old_share(&key)?
            {
                found.push((key, share));
            }
        }
        Ok(found)
    }

    pub(crate) fn forget_old_share(&self, canonical_path: &[u8]) -> Result<(), StoreError> {
        self.remove_named(&old_share_name(&path_key(canonical_path)))
    }

    fn read_old_share(&self, key: &Hash) -> Result<Option<OldShare>, StoreError> {
        let name = old_share_name(key);
        let Some(file) = self.open_named(&name, OpenHow::ReadNoFollow)? else { return Ok(None) };
        match read_whole(&file, MAX_LEN) {
            Err(StoreError::Corrupt { .. }) => Ok(None),
            other => Ok(OldShare::decode(key, &other?)),
        }
    }
}

/// Name of the first format's record for a path with that hash.
pub(crate) fn old_share_name(key: &Hash) -> PathBuf {
    Path::new(SHARES).join(key.to_hex())
}
