//! The catalog: one record for each path that was shared or fetched.
//!
//! A record is a small file, `known/<BLAKE3 of the path>`, that appears by rename. Any number of processes read and
//! write at the same time, a crash leaves the old record or the new one, and damage affects only one record. (A
//! database would give one process all of it or nothing: docs/dependencies.md.) A record is trusted only if its
//! checksum is right and its name matches its path. Others are skipped, and [`Store::check`] names them.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::vec;

use xylem_hash::Hash;

use crate::atomic::Durability;
use crate::error::StoreError;
use crate::file::{FileRef, read_whole};
use crate::known::{CatalogRecord, MAX_RECORD, RecordError};
use crate::layout::KNOWN;
use crate::medium::{DirItem, OpenHow};
use crate::store::Store;

impl Store {
    /// Every record, in no particular order. Damaged ones are skipped and counted ([`KnownPaths::damaged`]).
    ///
    /// # Errors
    /// The medium's, here and for each record.
    pub fn known(&self) -> Result<KnownPaths, StoreError> {
        let names = self.names_in(KNOWN)?.into_iter();
        Ok(KnownPaths { store: self.clone(), names, damaged: 0 })
    }

    /// The record of a canonical path, if there is an intact one.
    ///
    /// # Errors
    /// The medium's, except "not found".
    pub fn known_at(&self, canonical_path: &[u8]) -> Result<Option<CatalogRecord>, StoreError> {
        let name = record_name(canonical_path);
        Ok(self.read_record(&name)?.and_then(Result::ok))
    }

    /// Returns whether the record of a canonical path is damaged; [`Store::known_at`] takes such a record for absent.
    ///
    /// # Errors
    /// The medium's.
    pub fn is_record_damaged(&self, canonical_path: &[u8]) -> Result<bool, StoreError> {
        Ok(self.read_record(&record_name(canonical_path))?.is_some_and(|read| read.is_err()))
    }

    /// Stores a record, replacing an older one of the same path, whole or not at all. That of a directory is on the
    /// device afterwards even if the store is not [durable](Store::durable): it may contain the patterns of what the
    /// user does not share, and a torn record, or an older one that comes back, would lose them.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] if path or note exceed a record's limits; the medium's.
    pub fn remember(&self, known: &CatalogRecord) -> Result<(), StoreError> {
        let name = record_name(&known.path);
        let bytes = known.encode().ok_or_else(|| StoreError::OutOfRange {
            path: self.full(&name),
            offset: known.path.len().saturating_add(known.note.len()) as u64,
        })?;
        let new = self.new_file()?;
        new.file().write_all(&bytes, 0)?;
        let durability = if known.directory { Durability::Device } else { self.durability() };
        new.keep_as(&name, durability)?;
        // A remaining record of the first format is ignored once there is a newer one.
        let _ = self.forget_old_share(&known.path);
        Ok(())
    }

    /// Removes the record of a canonical path; no error if there is none.
    ///
    /// # Errors
    /// The medium's.
    pub fn forget(&self, canonical_path: &[u8]) -> Result<(), StoreError> {
        self.remove_named(&record_name(canonical_path))?;
        self.forget_seen(canonical_path)?;
        self.forget_old_share(canonical_path)
    }

    /// The names in one of the store's directories; none if it does not exist.
    pub(crate) fn names_in(&self, dir: &str) -> Result<Vec<DirItem>, StoreError> {
        match self.place().list_dir(Path::new(dir)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(|e| self.error("list", Path::new(dir), e)),
        }
    }

    /// Reads `known/<name>`; `None` if it is gone.
    pub(crate) fn read_record(
        &self,
        name: &Path,
    ) -> Result<Option<Result<CatalogRecord, RecordError>>, StoreError> {
        let file = match self.place().open(name, OpenHow::ReadNoFollow) {
            Ok(file) => FileRef::new(file, self.full(name)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            // A directory or a link instead of a record.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory
                ) =>
            {
                return Ok(Some(Err(RecordError::Magic)));
            }
            Err(e) => return Err(self.error("open", name, e)),
        };
        let bytes = match read_whole(&file, MAX_RECORD as u64) {
            Err(StoreError::Corrupt { .. }) => return Ok(Some(Err(RecordError::TooLong))),
            Err(StoreError::Unsafe { .. }) => return Ok(Some(Err(RecordError::Magic))),
            other => other?,
        };
        let mut known = match CatalogRecord::decode(&bytes) {
            // Copied or renamed by hand: no look-up would find it.
            Ok(known) if record_name(&known.path) != name => {
                return Ok(Some(Err(RecordError::Content)));
            }
            Ok(known) => known,
            Err(e) => return Ok(Some(Err(e))),
        };
        known.pinned = self.is_pinned(&known.root)? || self.is_path_pinned(&known.path)?;
        Ok(Some(Ok(known)))
    }
}

/// The records of a store, one at a time.
#[derive(Debug)]
pub struct KnownPaths {
    store: Store,
    names: vec::IntoIter<DirItem>,
    damaged: u64,
}

impl KnownPaths {
    /// Number of damaged records skipped so far.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }
}

impl Iterator for KnownPaths {
    type Item = Result<CatalogRecord, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let name = Path::new(KNOWN).join(self.names.next()?.name);
            match self.store.read_record(&name) {
                Ok(Some(Ok(known))) => return Some(Ok(known)),
                Ok(Some(Err(_))) => self.damaged = self.damaged.saturating_add(1),
                Ok(None) => {}
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

/// Name of a path's record.
pub(crate) fn record_name(canonical_path: &[u8]) -> PathBuf {
    Path::new(KNOWN).join(path_key(canonical_path).to_hex())
}

/// The hash that stands for a path in names.
pub(crate) fn path_key(canonical_path: &[u8]) -> Hash {
    xylem_hash::hash(canonical_path)
}

/// The hash in a name of 64 lowercase hexadecimal digits.
pub(crate) fn hash_of_name(name: &OsStr) -> Option<Hash> {
    let name = name.to_str()?;
    let hash = Hash::from_hex(name).ok()?;
    (hash.to_hex() == *name).then_some(hash)
}
