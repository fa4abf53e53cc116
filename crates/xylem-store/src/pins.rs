//! Pins: objects that [`Store::collect`](crate::Store::collect) never removes.
//!
//! A pin is an empty file `pins/<hash>`; the hash is a root or the BLAKE3 of a path. It exists or not: no crash and no
//! second process can leave half of it, and no record has to be rewritten for it.

use std::io;
use std::path::{Path, PathBuf};

use xylem_hash::Hash;

use crate::catalog::{hash_of_name, path_key};
use crate::error::StoreError;
use crate::layout::PINS;
use crate::medium::OpenHow;
use crate::store::Store;

impl Store {
    /// Keeps all parts of a root from now on.
    ///
    /// # Errors
    /// The medium's.
    pub fn pin(&self, root: &Hash) -> Result<(), StoreError> {
        let name = pin_name(root);
        let made = self.place().open(&name, OpenHow::Create { mode: 0o600 });
        made.map_err(|e| self.error("create", &name, e))?;
        self.sync_name(&name)
    }

    /// Removes a pin. Returns whether there was one.
    ///
    /// # Errors
    /// The medium's.
    pub fn unpin(&self, root: &Hash) -> Result<bool, StoreError> {
        let name = pin_name(root);
        match self.place().remove_file(&name) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(self.error("remove", &name, e)),
        }
    }

    /// Whether a root is pinned.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn is_pinned(&self, root: &Hash) -> Result<bool, StoreError> {
        Ok(self.metadata_of(&pin_name(root))?.is_some())
    }

    /// Keeps the record of a canonical path, and whatever root it has, from now on.
    ///
    /// # Errors
    /// The medium's.
    pub fn pin_path(&self, canonical_path: &[u8]) -> Result<(), StoreError> {
        self.pin(&path_key(canonical_path))
    }

    /// Removes a path's pin. Returns whether there was one.
    ///
    /// # Errors
    /// The medium's.
    pub fn unpin_path(&self, canonical_path: &[u8]) -> Result<bool, StoreError> {
        self.unpin(&path_key(canonical_path))
    }

    pub(crate) fn is_path_pinned(&self, canonical_path: &[u8]) -> Result<bool, StoreError> {
        self.is_pinned(&path_key(canonical_path))
    }

    /// All pins: roots, and hashes of paths.
    pub(crate) fn pins(&self) -> Result<Vec<Hash>, StoreError> {
        Ok(self.names_in(PINS)?.iter().filter_map(|item| hash_of_name(&item.name)).collect())
    }
}

fn pin_name(hash: &Hash) -> PathBuf {
    Path::new(PINS).join(hash.to_hex())
}
