//! Records of what was shared, so that sharing an unchanged file again costs no hashing.
//!
//! One small file a record, `shares/<BLAKE3 of the canonical path>`: [`MAGIC`], the checksum (32
//! bytes, BLAKE3 over key and record), then the record, whose content is the caller's business.
//! A record that is damaged, cut short or filed under another key is no record: hashing again is
//! always right.

use std::io;
use std::path::{Path, PathBuf};

use xylem_hash::{Hash, Hasher};

use crate::error::StoreError;
use crate::file::FileRef;
use crate::medium::OpenHow;
use crate::store::{Store, read_whole};

/// First bytes of a record file.
const MAGIC: &[u8; 8] = b"xyshare1";
/// Where the checksum starts.
const CHECKSUM: usize = 8;
/// Where the record starts.
const RECORD: usize = CHECKSUM + 32;
/// Largest record: our own limit, far above what a signed manifest and a path need.
pub const MAX_SHARE_RECORD: usize = 256 * 1024;

impl Store {
    /// The record kept for a canonical path, if there is one and it is intact.
    ///
    /// # Errors
    /// The medium's, except "not found".
    pub fn share(&self, canonical_path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let (key, name) = share_name(canonical_path);
        let file = match self.place().open(&name, OpenHow::ReadNoFollow) {
            Ok(file) => FileRef::new(file, self.full(&name)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.error("open", &name, e)),
        };
        let bytes = match read_whole(&file, (RECORD + MAX_SHARE_RECORD) as u64) {
            Err(StoreError::Corrupt { .. }) => return Ok(None),
            other => other?,
        };
        let Some((head, record)) = bytes.split_at_checked(RECORD) else {
            return Ok(None);
        };
        let intact =
            head.starts_with(MAGIC) && head[CHECKSUM..] == checksum(&key, record).as_bytes()[..];
        Ok(intact.then(|| record.to_vec()))
    }

    /// Keeps `record` for a canonical path, replacing an older one.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] above [`MAX_SHARE_RECORD`]; the medium's.
    pub fn put_share(&self, canonical_path: &[u8], record: &[u8]) -> Result<(), StoreError> {
        let (key, name) = share_name(canonical_path);
        if record.len() > MAX_SHARE_RECORD {
            return Err(StoreError::OutOfRange {
                path: self.full(&name),
                offset: record.len() as u64,
            });
        }
        let mut bytes = Vec::with_capacity(RECORD + record.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(checksum(&key, record).as_bytes());
        bytes.extend_from_slice(record);
        let new = self.new_file()?;
        new.file().write_all(&bytes, 0)?;
        new.keep_as(&name)
    }

    /// Forgets the record of a canonical path; no error if there is none.
    ///
    /// # Errors
    /// The medium's.
    pub fn remove_share(&self, canonical_path: &[u8]) -> Result<(), StoreError> {
        self.remove(&share_name(canonical_path).1)
    }
}

fn share_name(canonical_path: &[u8]) -> (Hash, PathBuf) {
    let key = xylem_hash::hash(canonical_path);
    let name = Path::new("shares").join(key.to_hex());
    (key, name)
}

fn checksum(key: &Hash, record: &[u8]) -> Hash {
    let mut hasher = Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(record);
    hasher.finalize()
}
